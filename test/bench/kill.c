/*
 * Linked with the trainer, replaces calls of MPI and of the system, and hurts one rank in one of them. TRAIN_HURT in
 * the environment is "HOW RANK CALL NUMBER": kill (the process), starve (it gets no more memory) or lose (its emulated
 * device), the rank, and the use of the call, from 1. TRAIN_HURT_FILE is a file that it makes at that time.
 */
#ifdef WITH_EMULATOR
#include "cudart_emu.h"
#endif

#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Leaves some memory: MPI's own failure to get any is another matter. */
static void starve(void)
{
    unsigned long pages = 0;
    FILE *const stream = fopen("/proc/self/statm", "r");
    if (!stream || fscanf(stream, "%lu", &pages) != 1)
        abort();
    fclose(stream);
    struct rlimit limit = {0};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (2 << 20);
    setrlimit(RLIMIT_AS, &limit);
}

#ifdef WITH_EMULATOR
static void lose_device(void)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess)
        abort();
    emu_break_device(device, cudaErrorECCUncorrectable);
}
#else
static void lose_device(void)
{
    abort();
}
#endif

static void enter(const char *call, atomic_int *uses)
{
    char how[16], wanted[64];
    int rank, number;
    const char *const hurt = getenv("TRAIN_HURT");
    const char *const own = getenv("OMPI_COMM_WORLD_RANK");
    if (!hurt || sscanf(hurt, "%15s %d %63s %d", how, &rank, wanted, &number) != 4)
        return;
    if (strcmp(wanted, call) != 0 || rank != (own ? atoi(own) : 0) || atomic_fetch_add(uses, 1) + 1 != number)
        return;
    FILE *const mark = fopen(getenv("TRAIN_HURT_FILE"), "w");
    if (!mark || fclose(mark) != 0)
        abort();
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(how, "starve") == 0)
        starve();
    else
        lose_device();
}

/* The first call after the start of MPI. */
int MPI_Comm_set_errhandler(MPI_Comm communicator, MPI_Errhandler handler)
{
    static atomic_int uses;
    enter("start", &uses);
    return PMPI_Comm_set_errhandler(communicator, handler);
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator,
                   MPI_Request *request)
{
    static atomic_int uses;
    enter("reduction", &uses);
    return PMPI_Iallreduce(from, to, count, type, operation, communicator, request);
}

/* The stand-in for NCCL sums by it. The trainer calls it at the start. */
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator)
{
    static atomic_int uses;
    enter("sum", &uses);
    return PMPI_Allreduce(from, to, count, type, operation, communicator);
}

/* Of the library's threads, and of the trainer's. */
ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
    static atomic_int uses;
    enter("write", &uses);
    ssize_t (*next)(int, const void *, size_t, off_t);
    void *found = dlsym(RTLD_NEXT, "pwrite64"); /* of files with offsets of 64 bits */
    if (!found)
        found = dlsym(RTLD_NEXT, "pwrite");
    memcpy(&next, &found, sizeof next);
    return next(file, data, size, offset);
}

int rename(const char *from, const char *to)
{
    static atomic_int uses;
    enter("rename", &uses);
    int (*next)(const char *, const char *);
    void *const found = dlsym(RTLD_NEXT, "rename");
    memcpy(&next, &found, sizeof next);
    return next(from, to);
}

int fsync(int file)
{
    static atomic_int uses;
    enter("save", &uses);
    int (*next)(int);
    void *const found = dlsym(RTLD_NEXT, "fsync");
    memcpy(&next, &found, sizeof next);
    return next(file);
}
