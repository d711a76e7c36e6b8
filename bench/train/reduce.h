/*
 * Sums over all ranks, on the side where the backend computes: by MPI on the host copies, by NCCL on the device copies.
 *
 * Every rank starts the same reductions in the same order. A function that returns false has failed; fail() keeps the
 * reason.
 */
#ifndef TRAIN_REDUCE_H
#define TRAIN_REDUCE_H

#include "backend.h"
#include "ranks.h"

#include <stdbool.h>

enum reduce_type { REDUCE_FLOAT, REDUCE_DOUBLE };

enum { REDUCE_MOST = 256 }; /* reductions that have started and were not waited for */

struct reduce {
    char name[160]; /* of the library that communicates, for the report */
    void *state;

    /* Prepares for sums of parts of the object, whose device copy is of reduce_gpu_allocator(). All ranks call it
     * alike, for at most two objects. */
    bool (*attach)(struct reduce *reduce, synced_mem *object);

    /* Begins a step, for the statistics. */
    bool (*begin_step)(struct reduce *reduce);

    /* Starts to replace count elements of the object by their sums over all ranks, after all work that is queued on the
     * object. The object and the bytes of it may not be used before wait(). */
    bool (*start)(struct reduce *reduce, synced_mem *object, int count, enum reduce_type type);

    /* Lets the operations that are queued from now on come after the reduction of the object. On the CPU it blocks. */
    bool (*wait)(struct reduce *reduce, synced_mem *object);

    /* Returns whether no reduction has failed so far, on this rank or, if it is known, on another. */
    bool (*check)(struct reduce *reduce);

    /* Returns the mean time of a step, in seconds, in which the arithmetic waited for reductions. The mean is over the
     * steps since the previous call. By NCCL it is over the timed ones of them, one in 16. Call it while no step is
     * queued. */
    double (*unhidden)(struct reduce *reduce);

    /* Stores the time of a reduction of count floats, in seconds: the mean of so many, one after the other, after one
     * that is not timed. object: what is reduced, as by start(); NULL: memory that the library does not manage, which
     * is of cudaMalloc() by NCCL and of calloc() by MPI. Blocks until they are done. All ranks call it alike. */
    bool (*time)(struct reduce *reduce, synced_mem *object, int count, int times, double *seconds);

    /* Frees the resources. All reductions must be done. */
    void (*close)(struct reduce *reduce);

    /* Ends the reductions, which other ranks may never join, before this rank ends the run. By MPI there is no
     * other call afterwards, by NCCL only close(). */
    void (*abort)(struct reduce *reduce);
};

/* Returns the allocator for a device copy that is attached; NULL: any memory will do. */
const synced_mem_allocator *reduce_gpu_allocator(const struct ranks *ranks, const struct backend *backend);

/* Opens the reductions for a backend, which stays open. blocks: the most thread blocks of a reduction's kernel; 0: the
 * library that communicates decides. All ranks call it. */
bool reduce_open(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend, int blocks);

/* Closes the reductions, if they are open. */
void reduce_close(struct reduce *reduce);

/* Aborts the reductions that are open. */
void reduce_abort(void);

/* For reduce_open(). */
bool reduce_open_mpi(struct reduce *reduce);
bool reduce_open_nccl(struct reduce *reduce, const struct ranks *ranks, const struct backend *backend, int blocks);
const synced_mem_allocator *reduce_nccl_allocator(void);

#endif
