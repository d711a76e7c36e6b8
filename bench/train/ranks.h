/*
 * The ranks of a run: processes that compute a part of each batch and sum their gradients. MPI's launcher starts them
 * (mpirun -n N). A process that it has not started is the only rank.
 */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H

#include <stdbool.h>
#include <stddef.h>

struct ranks {
    int rank; /* of this process, from 0 */
    int count;
    int local_rank; /* among the ranks of this machine */
    int local_count;

    /* Returns the lowest rank for which failed is true, or -1. All ranks call it. */
    int (*first_failed)(bool failed);

    /* Copies bytes of rank 0 to all ranks. All ranks call it with the same size. fail() keeps the reason. */
    bool (*broadcast)(void *data, size_t size);

    /* Ends the processes of all ranks; any rank may call it. */
    void (*abort)(int code);

    /* Ends the use of MPI. All ranks call it, at the end. */
    void (*close)(void);
};

/* Joins the ranks of the run. Call it first in the program; MPI may change the arguments. Fails if a launcher has
 * started this process and the program was built without MPI. */
bool ranks_open(struct ranks *ranks, int *count, char ***arguments);

/* For ranks_open(). */
bool ranks_open_mpi(struct ranks *ranks, int *count, char ***arguments);

/* Returns the rank that the launcher's environment names, or -1 if no launcher has started this process. */
int ranks_launched(void);

#endif
