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

static void enter(const char *call, int *uses)
{
    char how[16], wanted[64];
    int rank, number;
    const char *const hurt = getenv("TRAIN_HURT");
    const char *const own = getenv("OMPI_COMM_WORLD_RANK");
    if (!hurt || !own || sscanf(hurt, "%15s %d %63s %d", how, &rank, wanted, &number) != 4)
        return;
    if (strcmp(wanted, call) != 0 || rank != atoi(own) || ++*uses != number)
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
    static int uses;
    enter("start", &uses);
    return PMPI_Comm_set_errhandler(communicator, handler);
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator,
                   MPI_Request *request)
{
    static int uses;
    enter("reduction", &uses);
    return PMPI_Iallreduce(from, to, count, type, operation, communicator, request);
}

/* The stand-in for NCCL sums by it. The trainer calls it at the start. */
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator)
{
    static int uses;
    enter("sum", &uses);
    return PMPI_Allreduce(from, to, count, type, operation, communicator);
}

int fsync(int file)
{
    static int uses;
    enter("save", &uses);
    int (*next)(int);
    void *const found = dlsym(RTLD_NEXT, "fsync");
    memcpy(&next, &found, sizeof next);
    return next(file);
}
