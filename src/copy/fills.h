/* Fills of several device copies with one byte, of which a kernel makes the small ones. The runtime's own fills are
 * kernels too, one each. So this way needs no more multiprocessors, on whatever stream. */
#ifndef SM_FILLS_H
#define SM_FILLS_H

#include "copy/inflight.h"
#include "copy/kernel_list.h"

#include <stddef.h>

/* The fills of one call. */
struct sm_fills {
    struct sm_stream *stream;
    size_t room;
    size_t count;
    size_t new_readers;           /* the number of copies in which the stream has no open read */
    bool have_others;             /* streams other than this one may read the copies */
    struct sm_kernel_list kernel; /* those that a kernel can make */
    struct sm_gather gather;      /* the buffers of the kernels' entries */
    bool is_sent;                 /* all are to be entered; else none */
    bool is_untracked;            /* they are not sent, and nobody can tell when they end */
    struct sm_fence *fence;       /* behind those that are sent, with a hold for each; NULL: they are over */
    /* The kernel's from the begin on, and the others from the end on. In page-locked memory, or in own. */
    struct sm_list_entry *list;
    struct sm_list_entry own[];
};

/* Returns a list without fills. NULL: the system has no memory. */
struct sm_fills *sm_fills_make(struct sm_stream *stream, size_t room);
/* Frees the list. Ignores NULL. */
void sm_fills_free(struct sm_fills *fills);

/* Returns whether a kernel of the stream can make the fill. */
static inline bool sm_fill_is_for_kernel(const struct sm_copy *to, size_t size, const struct sm_stream *stream)
{
    return size > 0 && size <= SM_KERNEL_MOST_BYTES && to->source == SYNCED_MEM_SOURCE_DEVICE &&
           to->device == stream->device;
}

/* Lists the fill of a copy from its first byte on. The stream must come after all work in flight on it. */
static inline void sm_fills_add(struct sm_fills *fills, const struct sm_copy *to, size_t size)
{
    fills->count++;
    fills->new_readers += !sm_inflight_has(to, fills->stream, false);
    if (sm_fill_is_for_kernel(to, size, fills->stream))
        sm_kernel_list_add(&fills->kernel, sm_copy_data(to), NULL, size);
    else
        fills->list[fills->room - (fills->count - fills->kernel.count)] =
            (struct sm_list_entry){.to = sm_copy_data(to), .bytes = size};
}

/* Queues the fills with one byte, with one event. Then the caller enters those that are sent, also after a failure, and
 * marks the copies untracked if these are. Blocks as sm_transfer_enter(). On failure some of the copies may be written.
 * Errors: as sm_device_fill() and sm_transfer_record(). */
synced_mem_status sm_fills_send(struct sm_fills *fills, unsigned char value);

#endif
