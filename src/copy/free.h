/* The stream in whose order device memory is freed. */
#ifndef SM_FREE_H
#define SM_FREE_H

#include "copy/copy.h"

/* Stores an internal stream that comes after all work in flight on the copy. Blocks only for work that is still
 * queueing. Errors: as sm_inflight_order(). */
synced_mem_status sm_free_order(struct sm_copy *copy, struct sm_stream **internal);

/* Frees the library's own device memory behind all work in flight on it. Blocks only where there are no pools. The
 * struct stays the caller's. On failure the memory stays, but memory of a lost device is gone. */
synced_mem_status sm_free_device(struct sm_copy *copy);

/* Does the same on this stream, which it makes wait for the work, if memory can be freed in the stream's order. Returns
 * whether the memory is gone; else nothing has changed. */
bool sm_free_device_on(struct sm_copy *copy, struct sm_stream *stream);

#endif
