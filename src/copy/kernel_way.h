/*
 * The way of the copies of one call: by the device's copy engines, or by a kernel. A kernel makes many small copies
 * faster, because engines take a time for each. It needs multiprocessors, so it may wait for the program's own kernels,
 * which engines never do. Therefore only calls on many copies ask for this way, it can be switched off, and it is taken
 * only if the device has room for a kernel (kernel_start.h).
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

/* Returns how many copies a call must have at least. */
size_t sm_kernel_way_least(void);

/* Returns whether a kernel may make copies of a call that has so many. The first question for a device makes a thread
 * load the kernel, and the way is open from then on. Does not block. */
bool sm_kernel_way_is_open(int device, size_t copies);

/* Returns how many blocks make these copies, or these fills (SM_D2D); 0: engines are faster. longest: the bytes of the
 * largest copy, which one warp makes. */
unsigned sm_kernel_way_blocks(int device, enum sm_direction direction, size_t copies, uint64_t bytes, size_t longest);

/* Returns how many blocks have a copy for each of their warps. */
unsigned sm_kernel_way_useful_blocks(size_t copies);

/* Returns for how many nanoseconds a call waits for room for a kernel: a part of what engines would take, because the
 * wait is lost if there is none. */
uint64_t sm_kernel_way_patience(enum sm_direction direction, size_t copies, uint64_t bytes);

enum { SM_KERNEL_MOST_PATIENCE = 200000 };

/* The program's setting. */
void sm_kernel_way_set(int blocks);
int sm_kernel_way_get(void);

/* For tests: sets from how many copies on the way is open, and faster. 0: the default. */
void sm_kernel_way_set_least(size_t copies);

#endif
