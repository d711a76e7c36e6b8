/* The memory that the stand-ins for NCCL share. */
#ifndef NCCL_MEMORY_H
#define NCCL_MEMORY_H

#include "nccl.h"

/* Ends the windows of a communicator that ends. Only one that is aborted may have windows. */
void nccl_end_windows(ncclComm_t communicator, int aborted);

#endif
