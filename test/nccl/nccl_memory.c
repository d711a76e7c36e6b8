/*
 * The memory and the windows of the stand-ins for NCCL. The program ends with a message if memory that is a window is
 * freed, or if a window is not in memory of ncclMemAlloc().
 */
#include "nccl_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct ncclWindow {
    struct ncclWindow *next;
    void *data;
    size_t size;
    ncclComm_t communicator; /* NULL: the memory is no window */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ncclWindow *memories;

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "nccl: %s\n", what);
    abort();
}

static struct ncclWindow **find_memory(const void *data)
{
    struct ncclWindow **link = &memories;
    while (*link &&
           ((uintptr_t)data < (uintptr_t)(*link)->data || (uintptr_t)data - (uintptr_t)(*link)->data >= (*link)->size))
        link = &(*link)->next;
    return link;
}

ncclResult_t ncclMemAlloc(void **data, size_t size)
{
    struct ncclWindow *const memory = malloc(sizeof *memory);
    if (!memory || cudaMalloc(data, size) != cudaSuccess) {
        free(memory);
        return ncclUnhandledCudaError;
    }
    pthread_mutex_lock(&mutex);
    *memory = (struct ncclWindow){.next = memories, .data = *data, .size = size};
    memories = memory;
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *data)
{
    pthread_mutex_lock(&mutex);
    struct ncclWindow **const link = find_memory(data);
    struct ncclWindow *const memory = *link;
    require(memory && memory->data == data, "free of memory that is not of ncclMemAlloc()");
    require(!memory->communicator, "free of a window");
    *link = memory->next;
    pthread_mutex_unlock(&mutex);
    free(memory);
    return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void *data, size_t size, ncclWindow_t *window, int flags)
{
    pthread_mutex_lock(&mutex);
    struct ncclWindow *const memory = *find_memory(data);
    require(memory != NULL, "a window in memory that is not of ncclMemAlloc()");
    require(size <= memory->size - ((uintptr_t)data - (uintptr_t)memory->data), "a window beyond its memory");
    require(!memory->communicator && flags == NCCL_WIN_COLL_SYMMETRIC, "a second window, or one of another kind");
    memory->communicator = communicator;
    pthread_mutex_unlock(&mutex);
    *window = memory;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window)
{
    pthread_mutex_lock(&mutex);
    require(window->communicator == communicator, "the end of a window of another communicator");
    window->communicator = NULL;
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

void nccl_end_windows(ncclComm_t communicator, int aborted)
{
    pthread_mutex_lock(&mutex);
    for (struct ncclWindow *each = memories; each; each = each->next) {
        if (each->communicator == communicator) {
            require(aborted, "the end of a communicator that has a window");
            each->communicator = NULL;
        }
    }
    pthread_mutex_unlock(&mutex);
}
