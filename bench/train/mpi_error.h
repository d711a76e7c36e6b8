/* The errors of MPI. */
#ifndef TRAIN_MPI_ERROR_H
#define TRAIN_MPI_ERROR_H

#include <stdbool.h>

/* Returns whether a call of MPI succeeded; fail() keeps MPI's words otherwise. what: the operation. */
bool mpi_succeeded(const char *what, int code);

#endif
