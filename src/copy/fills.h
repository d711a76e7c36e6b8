/* Fills of several device copies with one byte, of which a kernel makes the small ones. The runtime's own fills are
 * kernels too, one each. So this way needs no more multiprocessors, on whatever stream. */
#ifndef SM_FILLS_H
#define SM_FILLS_H

#include "copy/kernel_list.h"
#include "copy/transfer.h"

#include <stddef.h>

struct sm_fill {
    struct sm_copy *to;
    size_t size; /* from the copy's first byte on */
};

/* The fills of one call. The caller provides the arrays, and the other members are zeros. */
struct sm_fills {
    struct sm_stream *stream;
    struct sm_fill *list;
    size_t count;
    struct sm_kernel_list kernel;
    size_t sent;            /* the number of fills that are to be entered: all, or none */
    struct sm_fence *fence; /* behind them; NULL: they are over */
    struct sm_replaced replaced;
};

/* The memory of one fill. */
struct sm_fills_row {
    struct sm_fill fill;
    struct sm_list_entry entry;
};

/* Lays the arrays out in a block of room rows. Returns the first byte behind the arrays. */
void *sm_fills_lay_out(struct sm_fills *fills, struct sm_stream *stream, void *block, size_t room);

/* Returns whether a kernel of the stream can make the fill. */
static inline bool sm_fill_is_for_kernel(const struct sm_fill *fill, const struct sm_stream *stream)
{
    const struct sm_copy *const to = fill->to;
    return fill->size > 0 && fill->size <= SM_KERNEL_MOST_BYTES && to->source == SYNCED_MEM_SOURCE_DEVICE &&
           to->device == stream->device;
}

/* Lists the fill of a copy. The stream must come after all work in flight on it. */
static inline void sm_fills_add(struct sm_fills *fills, struct sm_copy *to, size_t size)
{
    const struct sm_fill fill = {.to = to, .size = size};
    fills->list[fills->count++] = fill;
    if (sm_fill_is_for_kernel(&fill, fills->stream))
        sm_kernel_list_add(&fills->kernel, sm_copy_data(to), NULL, size);
}

/* Queues the fills with one byte, with one event. Then the caller enters those that are sent, also after a failure, and
 * calls sm_fills_end(). Blocks as sm_transfer_enter(). On failure some of the copies may be written or untracked.
 * Errors: as sm_device_fill() and sm_transfer_record(). */
synced_mem_status sm_fills_send(struct sm_fills *fills, unsigned char value);

/* Enters one of the fills that are sent as the write of its copy, whose contents arrive. */
static inline void sm_fills_enter(struct sm_fills *fills, size_t index)
{
    struct sm_copy *const to = fills->list[index].to;
    sm_inflight_written_of_several(to, fills->fence, &fills->replaced);
    to->arriving = fills->fence != NULL;
}

/* Gives up what the fills have replaced. */
void sm_fills_end(const struct sm_fills *fills);

#endif
