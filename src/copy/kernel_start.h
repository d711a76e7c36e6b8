/*
 * Whether kernels of lists start in time. Of each device one kernel at a time is watched: a fence stands before it in
 * its stream, and it sets a word in page-locked memory as it starts. A kernel is late if its fence has been done for a
 * while and the word is not set, because the program's kernels leave it no multiprocessor.
 */
#ifndef SM_KERNEL_START_H
#define SM_KERNEL_START_H

#include "stream/stream.h"

/* Returns the word that the next kernel on the stream is to set, which is then watched; NULL: none is to be watched. */
unsigned *sm_kernel_start_begin(struct sm_stream *stream);
/* Follows the launch if there is a word. launched: the kernel is queued. */
void sm_kernel_start_end(int device, bool launched);

/* Looks at the watched kernel. If it is late, closes the way by kernel on the device. Does not block. */
void sm_kernel_start_look(int device);

/* Sets after how many nanoseconds a kernel is late. 0: the default. For tests. */
void sm_kernel_start_set_late(uint64_t nanoseconds);

/* Gives up all words and fences. No kernel may be queued. */
void sm_kernel_start_shutdown(void);

#endif
