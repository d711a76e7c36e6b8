/*
 * Device memory that was let go of and is kept for the next object of the same size. It keeps the work in flight on it,
 * so that neither to keep it nor to take it calls the runtime: it is given to whoever comes after that work anyway, on
 * the stream that the work is on, or to anybody once the work has ended.
 */
#ifndef SM_DEVICE_CACHE_H
#define SM_DEVICE_CACHE_H

#include "copy/copy.h"

/* Keeps a device copy of the library's own, on which all work is tracked. Answers what has to be freed so that the
 * limit is kept, linked: those that have been kept for longest, or the copy itself if it alone is too much. NULL:
 * nothing. */
struct sm_copy *sm_device_cache_keep(struct sm_copy *copy);

/* With full hands, see hands.h. Takes a piece of that many bytes, if the stream comes after all that is in flight on
 * it. NULL: there is none. *gone: linked, pieces that are no longer kept and have to be retired, as work on them got
 * out of sight or there was too much. *looked: a piece was in the hands. */
struct sm_copy *sm_device_cache_take(const struct sm_stream *stream, size_t bytes, struct sm_copy **gone, bool *looked);

/* All of a device's, linked, to be freed. */
struct sm_copy *sm_device_cache_take_all(int device);

/* Bytes kept on the device. */
size_t sm_device_cache_bytes(int device);

/* How many may be, up to the default of 1 GiB: from the next that is kept on. */
void sm_device_cache_set_limit(int device, size_t bytes);
/* All as at first. */
void sm_device_cache_reset(void);

#endif
