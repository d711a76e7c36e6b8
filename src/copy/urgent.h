/*
 * Urgent transfers. A copy engine makes its copies in the order in which they are queued, on whatever stream. So a
 * small copy waits for all *bulk* copies of its direction, which may take milliseconds. A kernel waits for none of
 * them.
 */
#ifndef SM_URGENT_H
#define SM_URGENT_H

#include "base/side.h"
#include "stream/stream.h"

#include <stdbool.h>
#include <stddef.h>

/* A transfer of so many bytes, which takes some 20 microseconds, is bulk. */
enum { SM_BULK_BYTES = 1 << 20 };

/* The most bytes of an urgent copy that a kernel makes. Engines make larger ones. */
enum { SM_URGENT_MOST_BYTES = 10 << 20 };

/* Notes that a bulk copy is queued. The fence stands behind it. */
void sm_bulk_note(int device, enum sm_direction direction, struct sm_fence *fence);
/* Note that a staged transfer, which is bulk, begins and ends. */
void sm_bulk_begin(int device, enum sm_direction direction);
void sm_bulk_end(int device, enum sm_direction direction);

/* Queues the copy by a kernel, if that may make it, bulk copies are in the way, and the device has room for a kernel.
 * Returns whether it is queued. The memory is the library's own: page-locked, or of the stream's device. Waits for some
 * microseconds to see whether the device has room, unless *has_room says so, which it sets. The error detail stays as
 * it is. */
bool sm_urgent_send(void *to, const void *from, size_t size, enum sm_direction direction, struct sm_stream *stream,
                    bool *has_room);

/* Forgets the bulk copies. */
void sm_bulk_shutdown(void);

#endif
