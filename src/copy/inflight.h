/*
 * The work in flight on a copy: what an access has to wait for, who waits, and what is entered when more work is
 * queued.
 *
 * A transfer of the library's own is entered with its fence as soon as it is queued. A pointer that was given to a
 * caller's stream stands for kernels that may be launched at any time: it is a use that is open until something
 * conflicts with it, and only then does an event on the stream end it. An access that ends uses and then fails leaves
 * them open.
 *
 *   an access waits for     the write, the writer's fence
 *   one that writes also    the reads
 *   each of them            not if it is on the very stream that asks
 */
#ifndef SM_INFLIGHT_H
#define SM_INFLIGHT_H

#include "copy/copy.h"

/* A reader of a copy. by NULL: a transfer, fence stands for it. by == sm_ended_use: a caller's stream was, up to the
 * fence. Else by is the caller's stream, held, that was given the pointer; the fence is NULL while nobody wants it to
 * end. */
struct sm_use {
    struct sm_use *next;
    struct sm_fence *fence;
    struct sm_stream *by;
};
extern struct sm_stream *const sm_ended_use;

/* ---- Waiting ---- */

/* By which fence the contents arrive: the write's; where there is none the open write's, of memory that the caller
 * fills. NULL: nothing arrives. */
struct sm_fence *sm_inflight_arrival(const struct sm_copy *copy);
/* That fence, if it is lost: then the contents never arrive. */
struct sm_fence *sm_inflight_lost(const struct sm_copy *copy);

/* Gives a fence to each open use that an access has to wait for: to the writer's open write, and if it conflicts to the
 * readers. Not to uses by the stream that asks; NULL for the host and for transfers. */
synced_mem_status sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);

/* After that: the first unfinished work that the access has to wait for. NULL: none. */
struct sm_fence *sm_inflight_unfinished(const struct sm_copy *copy, bool conflicting);
/* As that, for who needs the contents: first the fence that was to bring them, if it is lost. */
struct sm_fence *sm_inflight_blocker(const struct sm_copy *copy, bool conflicting);

/* Of what an access has to wait for, the first that threads of the library's have yet to queue: until they have, no
 * stream can wait for it. NULL: none. */
struct sm_fence *sm_inflight_queueing(const struct sm_copy *copy, bool conflicting);

/* As that, but also a fence that was to bring the contents and is lost: to wait for it says why. */
struct sm_fence *sm_inflight_unqueued(const struct sm_copy *copy, bool conflicting);

/* Settles, and makes the stream wait. Fails with the reason if contents that were to arrive are lost. */
synced_mem_status sm_inflight_order(struct sm_copy *copy, bool conflicting, struct sm_stream *stream);

/* The one created stream of the caller's that all work in flight is on, or comes before. NULL: there is none such. */
struct sm_stream *sm_inflight_only_stream(const struct sm_copy *copy);

/* Whether nothing is in flight; asks the device. */
bool sm_inflight_is_idle(const struct sm_copy *copy);

/* The first unfinished work of the library's own on the copy. NULL: none. */
struct sm_fence *sm_inflight_transfer(const struct sm_copy *copy);

/* ---- Entering ---- */

/* The fence becomes the copy's write; NULL: it is done. All that was in flight came before it, and is forgotten. Takes
 * over the caller's hold. */
void sm_inflight_written(struct sm_copy *copy, struct sm_fence *fence);

/* Memory of the caller's whose contents arrive by the fence, as an open write's: to hand it back nobody waits for
 * that. Takes over the caller's hold. */
void sm_inflight_filled(struct sm_copy *copy, struct sm_fence *fence);

/* The contents of a shared copy come to the host by the fence, which comes after what writes them. Takes over the
 * caller's hold. */
void sm_inflight_arrives(struct sm_copy *copy, struct sm_fence *fence);
/* Whether what wrote the contents of a shared copy was lost with the device. */
bool sm_inflight_is_lost(const struct sm_copy *copy);

/* Room for one more reader; NULL: no memory. */
struct sm_use *sm_inflight_reserve(void);

/* Enters a transfer from the copy; takes over the reservation and a hold of its own on the fence. */
void sm_inflight_read(struct sm_copy *copy, struct sm_use *reserved, struct sm_fence *fence);

/* Enters that a caller's stream may have used the copy up to the fence; takes over the reservation and the caller's
 * hold on the fence. */
void sm_inflight_used(struct sm_copy *copy, struct sm_use *reserved, struct sm_fence *fence);

/* The stream has the pointer from now on, to read it or to write it, and all that it has to come after is queued before
 * it. Takes over the reservation. */
void sm_inflight_given(struct sm_copy *copy, struct sm_use *reserved, struct sm_stream *stream, bool writing);

/* Whether a stream by this handle, which the hot path may know, has the pointer to read: it is then the last. */
bool sm_inflight_give_again(struct sm_copy *copy, synced_mem_stream handle);

/* The stream was given the pointer, in that mode, and has not lost it. */
bool sm_inflight_has(const struct sm_copy *copy, const struct sm_stream *stream, bool writing);

/* The stream that was given the pointer last, to read. NULL: none has it. */
struct sm_stream *sm_inflight_last_reader(const struct sm_copy *copy);

/* Ends the stream's use. */
synced_mem_status sm_inflight_end(struct sm_copy *copy, struct sm_stream *stream);

/* A call has succeeded that wanted the open write to end. */
void sm_inflight_close(struct sm_copy *copy);
/* A call has failed: the uses it wanted to end are open again. */
void sm_inflight_reopen(struct sm_copy *copy);

/* Asks whether what brought the contents is over, which nobody else may ask: then it holds no event any more. */
void sm_inflight_ask(const struct sm_copy *copy);

/* Forgets work that is over. Asks no device. */
void sm_inflight_prune(struct sm_copy *copy);
/* Forgets all. */
void sm_inflight_forget(struct sm_copy *copy);

/* ---- Work that got out of sight ---- */

/* Says that work was queued on the copy which no event could be recorded behind. */
void sm_inflight_untrack(struct sm_copy *copy, enum sm_untracked how, struct sm_stream *stream);
/* Finds work that threads of the library's have lost sight of. */
void sm_inflight_note_strays(struct sm_copy *copy);
/* Tries that again. On a stream of the caller's, which may be gone, it is left alone. */
synced_mem_status sm_inflight_retrack(struct sm_copy *copy);

#endif
