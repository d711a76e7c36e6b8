/*
 * The work in flight on a copy: the fences an access waits for, and how new work is entered. The words:
 *
 *    write            the library's last transfer, fill or allocation that writes the memory, as a fence
 *    read             a transfer of the library's from the memory, with its fence
 *    use              a caller's stream has the pointer: it stands for kernels that may be launched at any time
 *    open write       the use of the one stream that may write now; copy->writer
 *    open             a use without a fence: nothing has conflicted with it yet
 *    settle           give each open use that an access waits for a fence, by an event on its stream
 *    reopen, close    after a failed call, take that fence away again; after success, end the open write
 *    conflicting      the access writes, so it waits for the readers too
 *    covered          an open write came after this work, so whoever waits for the open write waits for it too
 *    arriving         a fence is to bring the contents, which are lost if its work fails
 *
 * The library enters its own transfers with their fence as soon as they are queued. An access on a stream does not wait
 * for the work of that stream:
 *
 *    a reading access waits for   the write, the writer's fence
 *    a writing access also        the reads
 */
#ifndef SM_INFLIGHT_H
#define SM_INFLIGHT_H

#include "copy/copy.h"

/* A reader of a copy. by NULL: a transfer, which fence stands for. by == sm_ended_use: a caller's stream used the copy
 * up to the fence. Any other by: the caller's stream that was given the pointer, held; fence is NULL while the use is
 * open. */
struct sm_use {
    struct sm_fence *fence;
    struct sm_stream *by;
    struct sm_use *next; /* the last member: a list of uses is a list of a slab's cells */
};
extern struct sm_stream *const sm_ended_use;

static inline bool sm_use_is_by_stream(const struct sm_use *use)
{
    return use->by && use->by != sm_ended_use;
}

/* Returns whether the use is open: by a stream, and without a fence. */
static inline bool sm_use_is_open(const struct sm_use *use)
{
    return !use->fence && sm_use_is_by_stream(use);
}

static inline void sm_use_prepend(struct sm_use **list, struct sm_use *use)
{
    use->next = *list;
    *list = use;
}

/* A collection of what new work replaces: the structs of uses, and holds on fences and streams. Most copies of a call
 * had the same fence and stream, so that the holds on each are given up at once. Zeros: nothing. */
struct sm_replaced {
    struct sm_use *uses; /* without their holds, linked by next */
    struct sm_fence *fence;
    size_t fences; /* holds on it */
    struct sm_stream *stream;
    size_t streams; /* holds on it */
};

/* Takes over a hold. Ignores NULL. */
static inline void sm_replaced_add_fence(struct sm_replaced *replaced, struct sm_fence *fence)
{
    if (fence && fence != replaced->fence) {
        if (replaced->fence)
            sm_fence_drop_often(replaced->fence, replaced->fences);
        replaced->fence = fence;
        replaced->fences = 0;
    }
    replaced->fences += fence != NULL;
}

/* Does the same for a stream. */
static inline void sm_replaced_add_stream(struct sm_replaced *replaced, struct sm_stream *stream)
{
    if (stream && stream != replaced->stream) {
        if (replaced->stream)
            sm_stream_drop_often(replaced->stream, replaced->streams);
        replaced->stream = stream;
        replaced->streams = 0;
    }
    replaced->streams += stream != NULL;
}

/* Takes over a use that was handed in, with its holds. */
static inline void sm_replaced_add_use(struct sm_replaced *replaced, struct sm_use *use)
{
    sm_replaced_add_fence(replaced, use->fence);
    if (sm_use_is_by_stream(use))
        sm_replaced_add_stream(replaced, use->by);
    use->next = replaced->uses;
    replaced->uses = use;
}

/* Gives up all that was replaced. */
void sm_replaced_drop(const struct sm_replaced *replaced);

/* Returns whether the copy has neither a use nor a fence. It may still have untracked work. */
static inline bool sm_inflight_is_none(const struct sm_copy *copy)
{
    return !copy->write && !copy->writer && !copy->writer_fence && !copy->reads && !copy->covered;
}

/* ---- Waiting ---- */

/* Returns the fence that brings the contents: the write's, or without a write the open write's, of memory that the
 * caller fills. NULL: nothing arrives. The caller does not hold it. */
static inline struct sm_fence *sm_inflight_arrival(const struct sm_copy *copy)
{
    if (!copy->arriving)
        return NULL;
    return copy->write ? copy->write : copy->writer_fence;
}
/* Returns the arrival's fence if it is lost, so that the contents never arrive; else NULL. */
static inline struct sm_fence *sm_inflight_lost(const struct sm_copy *copy)
{
    struct sm_fence *const arrival = sm_inflight_arrival(copy);
    return sm_fence_state(arrival) == SM_FENCE_LOST ? arrival : NULL;
}
/* Returns the arrival's fence if it is open, and of another device than the memory's; else NULL. Streams of the
 * memory's device need not notice the loss of the other device. */
static inline struct sm_fence *sm_inflight_arrival_from_elsewhere(const struct sm_copy *copy)
{
    struct sm_fence *const arrival = sm_inflight_arrival(copy);
    return arrival && sm_fence_is_open(arrival) && arrival->device != copy->device ? arrival : NULL;
}

/* Gives a fence to each open use that an access has to wait for: to the open write, and if conflicting to the readers.
 * Leaves out uses by the stream by; NULL: the host or a transfer accesses. Does not block. On failure the uses that
 * were settled keep their fence until sm_inflight_reopen(). ERR_INVALID_STATE: a stream vanished; its use is removed,
 * and the copy is untracked from now on. */
synced_mem_status sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);

/* Returns the fence of the first unfinished work that the access has to wait for; NULL: none. Call sm_inflight_settle()
 * first. Queries no device. */
struct sm_fence *sm_inflight_unfinished(const struct sm_copy *copy, bool conflicting);
/* Returns the same for an access that needs the contents: a lost arrival comes first. */
struct sm_fence *sm_inflight_blocker(const struct sm_copy *copy, bool conflicting);

/* Returns whether sm_inflight_blocker() returns a fence. */
static inline bool sm_inflight_is_blocked(const struct sm_copy *copy, bool conflicting)
{
    if (!copy->write_is_covered && sm_fence_is_open(copy->write))
        return true;
    const bool may_be = copy->arriving || copy->writer_fence || (conflicting && copy->reads);
    return may_be && sm_inflight_blocker(copy, conflicting);
}

/* Returns the first fence of a list of uses that is still queueing; NULL: none. */
struct sm_fence *sm_uses_queueing(const struct sm_use *list);

/* Returns the first fence the access has to wait for that is still queueing: until then no stream can wait for it.
 * NULL: none. Queries no device. */
static inline struct sm_fence *sm_inflight_queueing(const struct sm_copy *copy, bool conflicting)
{
    if (!copy->write_is_covered && sm_fence_state(copy->write) == SM_FENCE_QUEUEING)
        return copy->write;
    return conflicting && copy->reads ? sm_uses_queueing(copy->reads) : NULL;
}

/* Returns the same, but a lost arrival comes first: a wait for it returns why it failed. */
struct sm_fence *sm_inflight_unqueued(const struct sm_copy *copy, bool conflicting);

/* Returns whether a caller's stream comes after all work that an access by it waits for: a transfer that is over or on
 * the stream itself, and what the stream has done with the pointer. It was made to wait for the rest when it was given
 * the pointer. False if it cannot tell. Queries no device. */
static inline bool sm_inflight_is_behind(const struct sm_stream *stream, const struct sm_copy *copy, bool conflicting)
{
    const struct sm_use *const read = conflicting ? copy->reads : NULL;
    if (copy->writer_fence || (copy->writer && copy->writer != stream))
        return false;
    if (read && (read->by != stream || read->next))
        return false;
    const enum sm_fence_state state = sm_fence_state(copy->write);
    return state == SM_FENCE_DONE || copy->write_is_covered ||
           (state == SM_FENCE_PENDING && copy->write->stream == stream->serial);
}

/* The part of sm_inflight_order() for a stream that is not known to come after all of the work. */
synced_mem_status sm_inflight_make_order(struct sm_copy *copy, bool conflicting, struct sm_stream *stream);

/* Settles, and makes the stream wait for the work. Blocks only for work that is still queueing. If the contents were to
 * arrive and are lost, returns why. Errors: as sm_inflight_settle() and sm_stream_wait(). */
static inline synced_mem_status sm_inflight_order(struct sm_copy *copy, bool conflicting, struct sm_stream *stream)
{
    return sm_inflight_is_behind(stream, copy, conflicting) ? SYNCED_MEM_OK
                                                            : sm_inflight_make_order(copy, conflicting, stream);
}

/* Returns the one created stream of the caller's that all work in flight is on, or is known to precede. NULL: there is
 * none. Polls fences. The caller does not hold it. */
struct sm_stream *sm_inflight_only_stream(const struct sm_copy *copy);

/* Returns whether nothing is in flight. Polls fences. */
bool sm_inflight_is_idle(const struct sm_copy *copy);

/* Returns whether no use is open, and no work in flight was seen unfinished. Queries no device. */
bool sm_inflight_is_quiet(const struct sm_copy *copy);

/* Returns whether the legacy stream comes after all work on the copy, whatever it gets next. Queries no device. */
bool sm_inflight_is_on_legacy(const struct sm_copy *copy);

/* Returns the fence of the first unfinished work of the library's on the copy; NULL: none. Queries no device. */
struct sm_fence *sm_inflight_transfer(const struct sm_copy *copy);

/* ---- Entering ---- */

/* Forgets all work. */
void sm_inflight_forget(struct sm_copy *copy);
/* Forgets the readers, and the covered transfers. They add to replaced. */
void sm_inflight_forget_reads(struct sm_copy *copy, struct sm_replaced *replaced);
/* Forgets all work but the write, in the same way. */
static inline void sm_inflight_forget_uses(struct sm_copy *copy, struct sm_replaced *replaced)
{
    if (copy->writer || copy->writer_fence) {
        sm_replaced_add_fence(replaced, copy->writer_fence);
        sm_replaced_add_stream(replaced, copy->writer);
        copy->writer_fence = NULL;
        copy->writer = NULL;
    }
    if (copy->reads || copy->covered)
        sm_inflight_forget_reads(copy, replaced);
}

/* Makes the fence the copy's write; NULL: the write is done. Forgets all earlier work, since this write came after it;
 * it adds to replaced. Takes over the caller's hold. */
static inline void sm_inflight_written_of_several(struct sm_copy *copy, struct sm_fence *fence,
                                                  struct sm_replaced *replaced)
{
    copy->write_is_covered = false;
    sm_replaced_add_fence(replaced, copy->write);
    sm_inflight_forget_uses(copy, replaced);
    copy->write = fence;
    copy->writes++;
}

/* Does the same for one copy. */
static inline void sm_inflight_written(struct sm_copy *copy, struct sm_fence *fence)
{
    copy->write_is_covered = false;
    if (!sm_inflight_is_none(copy))
        sm_inflight_forget(copy);
    copy->write = fence;
    copy->writes++;
}

/* Enters a fence that brings the contents of memory of the caller's, as an ended open write. To hand the memory back,
 * nobody waits for it. Takes over the caller's hold. */
void sm_inflight_filled(struct sm_copy *copy, struct sm_fence *fence);

/* Makes the fence the write by which a shared copy's contents arrive on the host. Its work comes after the work that
 * writes them. Takes over the caller's hold. */
void sm_inflight_arrives(struct sm_copy *copy, struct sm_fence *fence);
/* Returns whether the work that wrote the contents of a shared copy is lost with the device. */
bool sm_inflight_is_lost(const struct sm_copy *copy);

/* Returns a use for one more reader, which the caller gives back or hands in; NULL: no memory. */
struct sm_use *sm_inflight_reserve(void);
/* Returns count such uses for sm_inflight_read(), linked by next, or fewer if there is no memory. That records no
 * failure. */
struct sm_use *sm_inflight_reserve_many(size_t count);
/* Gives back a use that was not handed in. Ignores NULL. */
void sm_inflight_unreserve(struct sm_use *use);
/* Gives back the uses of a list that were not handed in. */
void sm_inflight_unreserve_many(struct sm_use *list);
/* Gives back a use that was handed in, with its holds. */
void sm_use_free(struct sm_use *use);
/* Frees the memory of free uses. */
void sm_inflight_trim(void);

/* Enters a transfer from the copy as a read. Takes over the reservation and the caller's hold on the fence. Earlier
 * transfers on the stream add to replaced. */
void sm_inflight_read(struct sm_copy *copy, struct sm_use *reserved, struct sm_fence *fence,
                      struct sm_replaced *replaced);

/* Enters that the stream has the pointer from now on, to read or to write. All work that it has to come after must be
 * queued on it or waited for. Takes over the caller's hold on the stream, and the reservation, which may be NULL to
 * write. Earlier uses add to replaced. */
void sm_inflight_given(struct sm_copy *copy, struct sm_use *reserved, struct sm_stream *stream, bool writing,
                       struct sm_replaced *replaced);

/* Returns whether a stream with this handle, which the hot path can use, has the pointer to read. If so, it becomes the
 * last reader. */
bool sm_inflight_give_again(struct sm_copy *copy, synced_mem_stream handle);

/* Returns the link to the first use by a stream among the readers, or the last link, which is NULL. */
static inline struct sm_use **sm_inflight_find_use(struct sm_copy *copy, const struct sm_stream *stream)
{
    struct sm_use **link = &copy->reads;
    while (*link && (*link)->by != stream)
        link = &(*link)->next;
    return link;
}

/* Takes the stream's open use out of the readers, so that a write that is part of the stream's next access does not
 * forget it; NULL: it has none. The caller puts it back. */
static inline struct sm_use *sm_inflight_set_aside(struct sm_copy *copy, const struct sm_stream *stream)
{
    struct sm_use **const link = sm_inflight_find_use(copy, stream);
    struct sm_use *const use = *link;
    if (!use || use->fence)
        return NULL;
    *link = use->next;
    return use;
}
/* Enters such a use again. Ignores NULL. */
void sm_inflight_put_back(struct sm_copy *copy, struct sm_use *use);

/* Enters a fill by a stream that comes after all earlier work, and is given the pointer with it: the fence becomes the
 * copy's write; NULL: the fill is done. Takes over a hold on each. *reserved: a list, of which it takes the first if
 * the stream reads and had no open use. reads_alone: it reads, and is the only reader already. */
static inline void sm_inflight_given_filled(struct sm_copy *copy, struct sm_fence *fence, struct sm_use **reserved,
                                            struct sm_stream *stream, bool writing, bool reads_alone,
                                            struct sm_replaced *replaced)
{
    if (reads_alone) { /* the use is not looked at */
        struct sm_use *const only = copy->reads;
        copy->reads = NULL;
        sm_inflight_written_of_several(copy, fence, replaced);
        copy->reads = only;
        copy->arriving = fence != NULL;
        sm_replaced_add_stream(replaced, stream);
        return;
    }
    struct sm_use *use = writing ? NULL : sm_inflight_set_aside(copy, stream);
    sm_inflight_written_of_several(copy, fence, replaced);
    copy->arriving = fence && !writing;
    if (writing) {
        copy->writer = stream;
        copy->writes++;
        copy->write_is_covered = true;
        return;
    }
    if (use) {
        sm_replaced_add_stream(replaced, stream);
    } else {
        use = *reserved;
        *reserved = use->next;
        *use = (struct sm_use){.by = stream};
    }
    sm_use_prepend(&copy->reads, use);
}

/* Returns whether the stream was given the pointer in this mode and its use is still open. */
static inline bool sm_inflight_has(const struct sm_copy *copy, const struct sm_stream *stream, bool writing)
{
    if (writing)
        return copy->writer == stream && !copy->writer_fence;
    const struct sm_use *use = copy->reads;
    while (use && use->by != stream)
        use = use->next;
    return use && !use->fence;
}

/* Returns whether the pointer was given out in this mode without a stream, and that use is still open. */
static inline bool sm_inflight_has_streamless(const struct sm_copy *copy, bool writing)
{
    if (writing)
        return copy->writer && copy->writer->kind == SM_STREAM_ANY && !copy->writer_fence;
    const struct sm_use *use = copy->reads;
    while (use && !(use->by && use->by->kind == SM_STREAM_ANY))
        use = use->next;
    return use && !use->fence;
}

/* Returns whether a use without a stream is open, in any mode. */
static inline bool sm_inflight_has_open_streamless(const struct sm_copy *copy)
{
    return sm_inflight_has_streamless(copy, true) || sm_inflight_has_streamless(copy, false);
}

/* Returns the stream that was given the pointer to read last; NULL: none has it. The caller does not hold it. */
static inline struct sm_stream *sm_inflight_last_reader(const struct sm_copy *copy)
{
    const struct sm_use *use = copy->reads;
    while (use && !sm_use_is_open(use))
        use = use->next;
    return use ? use->by : NULL;
}

/* Returns the stream that has the pointer to write, or was given it to read last; NULL: none has it. The caller does not
 * hold it. */
static inline struct sm_stream *sm_inflight_last_user(const struct sm_copy *copy)
{
    return copy->writer ? copy->writer : sm_inflight_last_reader(copy);
}

/* Ends the stream's uses with an event on it. Does not block. On failure they are open again. Errors: as
 * sm_stream_end_use(). */
synced_mem_status sm_inflight_end(struct sm_copy *copy, struct sm_stream *stream);

/* Ends the open write, if there is one. Its fence stays. */
void sm_inflight_end_write(struct sm_copy *copy);
/* Does so if the open write has a fence. For a call that has succeeded. */
static inline void sm_inflight_close(struct sm_copy *copy)
{
    if (copy->writer && copy->writer_fence)
        sm_inflight_end_write(copy);
}
/* Gives the open write the fence of the transfer that was entered as a read last, if the transfer's stream comes after
 * the write of its own accord. So no event has to be recorded for the write. */
void sm_inflight_end_write_by_read(struct sm_copy *copy, const struct sm_stream *stream);
/* Reopens the uses that a call has settled. For a call that has failed. The stream that may write comes after transfers
 * from the copy that the call has queued. */
void sm_inflight_reopen(struct sm_copy *copy);

/* Polls the fences of the last write. Without this call nothing might poll them, and their events would never return to
 * the pool. */
void sm_inflight_poll_write(const struct sm_copy *copy);

/* The part of sm_inflight_prune() for a copy with work whose end is known. */
void sm_inflight_forget_ended(struct sm_copy *copy);

/* Returns whether the end of a use in the list is known. */
static inline bool sm_uses_have_ended(const struct sm_use *list)
{
    const struct sm_use *use = list;
    while (use && (!use->fence || sm_fence_is_open(use->fence)))
        use = use->next;
    return use != NULL;
}

/* Forgets work that is over. Queries no device. */
static inline void sm_inflight_prune(struct sm_copy *copy)
{
    if ((copy->write && !sm_fence_is_open(copy->write)) ||
        (copy->writer_fence && !sm_fence_is_open(copy->writer_fence)) || sm_uses_have_ended(copy->reads) ||
        sm_uses_have_ended(copy->covered) || (copy->arriving && !sm_inflight_arrival(copy)))
        sm_inflight_forget_ended(copy);
}

/* ---- Work that got out of sight ---- */

/* Marks the copy untracked: work is queued on it, and no event could be recorded behind it. stream: the work's; NULL:
 * of several or of a stream that is gone. */
void sm_inflight_untrack(struct sm_copy *copy, enum sm_untracked how, struct sm_stream *stream);
/* Marks the copy untracked if threads of the library have lost track of the fence's work. */
void sm_inflight_note_stray(struct sm_copy *copy, const struct sm_fence *fence, enum sm_untracked how);
/* Does so for all work on the copy. */
void sm_inflight_note_strays(struct sm_copy *copy);
/* Tries again to record an event behind untracked work. Does nothing, and returns OK, for work on a stream that may be
 * gone: one that the caller created, or an internal one after a shutdown. Does not block. On failure the copy stays
 * untracked. */
synced_mem_status sm_inflight_retrack(struct sm_copy *copy);

#endif
