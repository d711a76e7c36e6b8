/* Threads that share objects. */
#include "check.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 8, SIZE = 1 << 16 };

/* [reader] */
/* Each thread has its own reference. The thread that releases the last reference frees the object. */
static void *reader(void *argument)
{
    synced_mem *const mem = argument;
    const void *const device = synced_mem_gpu_data(mem);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    return (void *)device; /* only to be compared: the memory may be freed by now */
}
/* [end] */

static void first_access(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    memset(synced_mem_overwrite_cpu_data(mem), 1, SIZE);

    synced_mem_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    CHECK(synced_mem_get_stats(&before) == SYNCED_MEM_OK);
    /* [first] */
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(synced_mem_retain(mem) == SYNCED_MEM_OK);
        CHECK(pthread_create(&threads[i], NULL, reader, mem) == 0);
    }
    const void *const device = synced_mem_gpu_data(mem);
    for (int i = 0; i < THREADS; i++) {
        void *seen;
        CHECK(pthread_join(threads[i], &seen) == 0);
        CHECK(seen == device);
    }
    CHECK(synced_mem_get_stats(&after) == SYNCED_MEM_OK);
    CHECK(after.h2d_transfers == before.h2d_transfers + (device ? 1 : 0)); /* one transfer for all threads */
    /* [end] */
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
}

/* [worker] */
struct task {
    synced_mem *mem;
    int value;
};

/* The threads use the object one after another. This needs no further call of the library. */
static void *worker(void *argument)
{
    const struct task *const task = argument;
    memset(synced_mem_overwrite_cpu_data(task->mem), task->value, SIZE);
    return (void *)synced_mem_gpu_data(task->mem);
}
/* [end] */

static void one_after_the_other(void)
{
    struct task task = {.mem = NULL};
    CHECK(synced_mem_create(&task.mem, SIZE, NULL) == SYNCED_MEM_OK);
    for (task.value = 0; task.value < 3; task.value++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, worker, &task) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(((const char *)synced_mem_cpu_data(task.mem))[SIZE - 1] == task.value);
    }
    CHECK(synced_mem_release(task.mem) == SYNCED_MEM_OK);
}

int main(void)
{
    first_access();
    one_after_the_other();
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
