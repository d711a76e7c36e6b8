/*
 * A batch: copies of one direction on one stream. Copy engines make some of them, which go to the runtime in one call,
 * and a kernel makes the others. Words:
 *
 *    collect    keep a copy for the batch's call
 *    send       make the call and launch the kernel; the batch is empty afterwards
 *    listed     of a copy: in the list of the kernel
 *
 * The copies of a batch are in no order among themselves. They come after the work that is on the stream when they are
 * sent.
 */
#ifndef SM_BATCH_H
#define SM_BATCH_H

#include "copy/gather.h"
#include "copy/kernel_list.h"
#include "stream/stream.h"
#include "base/side.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct sm_use;

/* One copy. */
struct sm_batch_copy {
    void *to;
    const void *from;
    size_t size;
    const void *memory; /* copies of the same memory that lie side by side become one; NULL: not known */
    bool of_user;       /* the target is user memory */
    bool listed;
};

/* The caller provides the arrays. */
struct sm_batch {
    void **to;
    const void **from;
    size_t *sizes;
    struct sm_kernel_list list;
    size_t room; /* elements of each array, and of both ways together; 0: the batch collects nothing */
    /* Pageable memory of any size is staged: the call holds the lock of an object in parts, and another transfer may
     * block. */
    bool stages_all;
    /* The transfers are those of a push, pull or copy: the host need not wait for their end, and a kernel may make
     * them. */
    bool is_async;
    bool is_urgent;  /* a kernel makes the copies, also few, while bulk copies are in the way */
    bool is_open;    /* it may collect copies for engines; set by sm_batch_begin() */
    bool has_failed; /* a call of sm_batch_send() has failed; any of the copies may be missing */
    size_t count;    /* of copies by engines */
    enum sm_direction direction;
    /* The range of the targets in the library's memory ([0]), and of those in user memory ([1]). high 0: there is
     * none. */
    struct sm_target_range {
        uintptr_t low;
        uintptr_t high;
    } ranges[2];
    const void *memory; /* of the last copy */
    bool last_is_listed;
    struct sm_gather gather; /* of the transfers, whoever copies them */
    struct sm_use *reads;    /* reservations for the transfers, linked by next; NULL: each gets one of its own */
};

/* Prepares the batch to collect copies for the stream. It collects none for engines if the runtime has no batches on
 * the stream, copies stay on the device, or a trace runs, since the copies of a batch have no times. */
void sm_batch_open(struct sm_batch *batch, const struct sm_stream *stream);

static inline void sm_batch_begin(struct sm_batch *batch, const struct sm_stream *stream)
{
    if (batch->room > 0)
        sm_batch_open(batch, stream);
}

/* Says after sm_batch_begin() which copies the batch will get. */
static inline void sm_batch_expect(struct sm_batch *batch, const struct sm_expected *expected)
{
    if (batch->room > 0)
        sm_kernel_list_expect(&batch->list, batch->direction, expected);
}

/* Returns whether the batch can collect a copy of these bytes for engines. pinned: the host's memory is page-locked. */
static inline bool sm_batch_takes(const struct sm_batch *batch, const void *host, size_t size, bool pinned)
{
    return batch->is_open && pinned && sm_device_batch_takes(host, size, batch->direction == SM_H2D);
}

/* Queues the listed copies, and counts them as transfers. Errors: as sm_batch_send(); the batch is then empty. */
synced_mem_status sm_batch_send_list(struct sm_batch *batch, struct sm_stream *stream);

/* Queues the collected copies, and counts them as transfers. Listed ones that no kernel makes go by engine. On
 * failure any of them may be queued, and none is counted as a transfer. */
synced_mem_status sm_batch_send(struct sm_batch *batch, struct sm_stream *stream);

/* Returns whether bytes lie outside the range of the targets in user memory, or in the library's. */
static inline bool sm_batch_is_apart(const struct sm_batch *batch, bool of_user, uintptr_t begin, uintptr_t end)
{
    return begin >= batch->ranges[of_user].high || end <= batch->ranges[of_user].low;
}

/* Steps of sm_batch_collect(). The first sends the batch if it is full, or if the target may overlap one in it. The
 * second makes the last copy longer if the copy lies behind it on both sides. */
synced_mem_status sm_batch_make_way(struct sm_batch *batch, struct sm_stream *stream, struct sm_batch_copy copy);
bool sm_batch_extend_last(struct sm_batch *batch, struct sm_batch_copy copy);

/* Returns how many copies are collected. */
static inline size_t sm_batch_count(const struct sm_batch *batch)
{
    return batch->count + batch->list.count;
}

static inline void sm_batch_add(struct sm_batch *batch, void *to, const void *from, size_t size)
{
    batch->to[batch->count] = to;
    batch->from[batch->count] = from;
    batch->sizes[batch->count++] = size;
}

/* Collects the copy, which sm_batch_takes() has accepted, or of a listed one sm_kernel_list_takes(). The batch is sent
 * first if it is full, or if the target may overlap one in it. Errors: as sm_batch_send(); the copy is then not
 * collected. */
static inline synced_mem_status sm_batch_collect(struct sm_batch *batch, struct sm_stream *stream,
                                                 struct sm_batch_copy copy)
{
    struct sm_target_range *const range = &batch->ranges[copy.of_user];
    const uintptr_t begin = (uintptr_t)copy.to;
    const uintptr_t end = begin + copy.size;
    if (sm_batch_count(batch) == batch->room || copy.of_user || !sm_batch_is_apart(batch, true, begin, end))
        SM_TRY(sm_batch_make_way(batch, stream, copy));
    if (batch->list.count == SM_KERNEL_AT_ONCE)
        SM_TRY(sm_batch_send_list(batch, stream));
    if (range->high == 0 || begin < range->low)
        range->low = begin;
    if (end > range->high)
        range->high = end;
    if (batch->memory && batch->memory == copy.memory && sm_batch_extend_last(batch, copy))
        return SYNCED_MEM_OK;
    if (copy.listed) {
        sm_kernel_list_add(&batch->list, copy.to, copy.from, copy.size);
        if (batch->list.count == batch->list.look_at)
            sm_kernel_list_look(&batch->list, batch->direction);
    } else {
        sm_batch_add(batch, copy.to, copy.from, copy.size);
    }
    batch->memory = copy.memory;
    batch->last_is_listed = copy.listed;
    return SYNCED_MEM_OK;
}

/* Forgets the collected copies. */
void sm_batch_empty(struct sm_batch *batch);

#endif
