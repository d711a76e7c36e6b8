/*
 * The device cache: device memory that was retired and is kept for the next object of the same size. Such memory
 * keeps the work in flight on it. So neither keeping it nor taking it calls the runtime. A stream that comes after that
 * work anyway can take it: the stream that the work is on. Once the work has ended any stream can.
 */
#ifndef SM_DEVICE_CACHE_H
#define SM_DEVICE_CACHE_H

#include "copy/copy.h"

/* Keeps a device copy of the library's own, on which all work is tracked, and takes it over. Returns a list of copies
 * that the caller must free to keep the limit: those kept for longest, or the copy itself if it alone is too large.
 * NULL: none. Does not block. */
struct sm_copy *sm_device_cache_keep(struct sm_copy *copy);

/* Takes a copy of that many bytes, with full hands (see base/hands.h). The stream must come after all work in flight on
 * it. Returns the copy, which the caller owns, or NULL. Does not block. *gone: a list of copies that the caller must
 * retire. Work on them is untracked, or the limit is exceeded. *examined: a copy was in the hands. */
struct sm_copy *sm_device_cache_take(const struct sm_stream *stream, size_t bytes, struct sm_copy **gone,
                                     bool *examined);

/* Takes all copies of a device. Returns them as a list, which the caller must free. */
struct sm_copy *sm_device_cache_take_all(int device);

/* Sets how many bytes may be kept, up to the default of 1 GiB. Takes effect with the next copy that is kept. */
void sm_device_cache_set_limit(int device, size_t bytes);
/* Restores the default limits. */
void sm_device_cache_reset(void);

#endif
