/*
 * The way of the copies of one call: by the device's copy engines, or by a kernel. A kernel makes many small copies
 * faster, because engines take a time for each. It needs multiprocessors, so it may wait for the program's own kernels,
 * which engines never do. Therefore only calls on many copies ask for this way, it can be switched off, and it closes
 * by itself on a device where a kernel has started late.
 */
#ifndef SM_KERNEL_WAY_H
#define SM_KERNEL_WAY_H

#include "base/side.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A larger copy goes by engine: one warp of the kernel would make it. */
enum { SM_KERNEL_MOST_BYTES = 64 << 10 };

/* The blocks of each kernel: SM_BLOCKS_BY_DEVICE, or so many, if there are copies for each warp; 0: no kernels. */
enum { SM_BLOCKS_BY_DEVICE = -1, SM_MOST_BLOCKS = 1024 };

/* Returns whether a kernel may make copies of a call that has so many. The first question for a device makes a thread
 * load the kernel, and the way is open from then on. Does not block. */
bool sm_kernel_way_is_open(int device, size_t copies);

/* Returns how many blocks make these copies, or these fills (SM_D2D); 0: engines are faster. */
unsigned sm_kernel_way_blocks(int device, enum sm_direction direction, size_t copies, uint64_t bytes);

/* Closes the way on the device until the setting changes. */
void sm_kernel_way_close(int device);

/* The program's setting. A change opens the way on all devices again. */
void sm_kernel_way_set(int blocks);
int sm_kernel_way_get(void);

/* For tests: sets from how many copies on the way is open, and faster. 0: the default. */
void sm_kernel_way_set_least(size_t copies);

#endif
