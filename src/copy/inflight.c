/* The work in flight on a copy. */
#include "copy/inflight.h"

#include "base/status.h"

/* With so many uses in a list, a new one first polls the old ones. */
enum { MANY_USES = 8 };

static void replace_fence(struct sm_fence **slot, struct sm_fence *fence)
{
    sm_fence_drop(*slot);
    *slot = fence;
}

/* Returns whether a stream comes after a use of its own accord, as it is by the stream itself. The legacy stream also
 * comes after kernels that got the pointer without a stream. */
static bool is_own(const struct sm_stream *of_use, const struct sm_stream *stream)
{
    return of_use == stream || (stream && stream->kind == SM_STREAM_LEGACY && of_use->kind == SM_STREAM_ANY &&
                                of_use->device == stream->device);
}

static bool is_transfer(const struct sm_use *use)
{
    return !use->by;
}

static void replace_uses(struct sm_use **list, struct sm_replaced *replaced)
{
    while (*list) {
        struct sm_use *const use = *list;
        *list = use->next;
        sm_replaced_add_use(replaced, use);
    }
}

/* ---- Waiting ---- */

void sm_inflight_end_write(struct sm_copy *copy)
{
    sm_stream_drop(copy->writer);
    copy->writer = NULL;
}

void sm_inflight_end_write_by_read(struct sm_copy *copy, const struct sm_stream *stream)
{
    if (copy->writer && !copy->writer_fence && is_own(copy->writer, stream) && copy->reads && is_transfer(copy->reads))
        copy->writer_fence = sm_fence_hold(copy->reads->fence);
}

/* The work of a stream that has vanished is forgotten, and the memory is never used for anybody else. */
static synced_mem_status settle_writer(struct sm_copy *copy, const struct sm_stream *by)
{
    if (!copy->writer || is_own(copy->writer, by) || copy->writer_fence)
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_stream_end_use(copy->writer, &copy->writer_fence);
    if (status != SYNCED_MEM_ERR_INVALID_STATE)
        return status;
    sm_inflight_untrack(copy, SM_UNTRACKED_READ, NULL);
    sm_inflight_end_write(copy);
    /* The covered work counts again: nobody can wait for the open write that came after it. */
    copy->write_is_covered = false;
    while (copy->covered) {
        struct sm_use *const use = copy->covered;
        copy->covered = use->next;
        sm_use_prepend(&copy->reads, use);
    }
    return status;
}

/* One event serves for a stream that both writes and reads, but only if it was just recorded. Another thread's call may
 * have ended the open write earlier, and the stream may have read on since. */
static synced_mem_status settle_reader(struct sm_copy *copy, struct sm_use *use, struct sm_fence *just_recorded)
{
    if (use->by == copy->writer && just_recorded) {
        use->fence = sm_fence_hold(just_recorded);
        return SYNCED_MEM_OK;
    }
    return sm_stream_end_use(use->by, &use->fence);
}

synced_mem_status sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by)
{
    const struct sm_fence *const before = copy->writer_fence;
    synced_mem_status status = settle_writer(copy, by);
    struct sm_fence *const just_recorded = before ? NULL : copy->writer_fence;
    struct sm_use **link = &copy->reads;
    while (conflicting && *link && status == SYNCED_MEM_OK) {
        struct sm_use *const use = *link;
        if (sm_use_is_open(use) && !is_own(use->by, by))
            status = settle_reader(copy, use, just_recorded);
        if (status == SYNCED_MEM_ERR_INVALID_STATE) { /* the stream has vanished */
            sm_inflight_untrack(copy, SM_UNTRACKED_READ, NULL);
            *link = use->next;
            sm_use_free(use);
        } else {
            link = &use->next;
        }
    }
    return status;
}

struct sm_fence *sm_inflight_unfinished(const struct sm_copy *copy, bool conflicting)
{
    if (!copy->write_is_covered && sm_fence_is_open(copy->write))
        return copy->write;
    if (sm_fence_is_open(copy->writer_fence))
        return copy->writer_fence;
    for (const struct sm_use *use = copy->reads; conflicting && use; use = use->next)
        if (sm_fence_is_open(use->fence))
            return use->fence;
    return NULL;
}

/* Lost work blocks nobody, as it has ended. An access that relies on the lost contents must fail. A copy thread may
 * close a fence as lost at any time, so that is checked last. */
struct sm_fence *sm_inflight_blocker(const struct sm_copy *copy, bool conflicting)
{
    struct sm_fence *const unfinished = sm_inflight_unfinished(copy, conflicting);
    struct sm_fence *const lost = sm_inflight_lost(copy);
    return lost ? lost : unfinished;
}

struct sm_fence *sm_uses_queueing(const struct sm_use *list)
{
    for (const struct sm_use *use = list; use; use = use->next)
        if (sm_fence_state(use->fence) == SM_FENCE_QUEUEING)
            return use->fence;
    return NULL;
}

struct sm_fence *sm_inflight_unqueued(const struct sm_copy *copy, bool conflicting)
{
    struct sm_fence *const queueing = sm_inflight_queueing(copy, conflicting);
    struct sm_fence *const lost = sm_inflight_lost(copy);
    return lost ? lost : queueing;
}

static synced_mem_status make_stream_wait_for_reads(const struct sm_copy *copy, struct sm_stream *stream,
                                                    bool transfers)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (const struct sm_use *use = copy->reads; use && status == SYNCED_MEM_OK; use = use->next)
        if (is_transfer(use) == transfers && use->fence != copy->writer_fence)
            status = sm_stream_wait(stream, use->fence);
    return status;
}

static __attribute__((noinline)) synced_mem_status order_behind_work(struct sm_copy *copy, bool conflicting,
                                                                     struct sm_stream *stream)
{
    synced_mem_status status = sm_inflight_settle(copy, conflicting, stream);
    if (status == SYNCED_MEM_OK && copy->write && !copy->write_is_covered)
        status = sm_stream_wait(stream, copy->write);
    if (status == SYNCED_MEM_OK && copy->writer_fence)
        status = sm_stream_wait(stream, copy->writer_fence);
    if (status == SYNCED_MEM_OK && conflicting)
        status = make_stream_wait_for_reads(copy, stream, true);
    if (status == SYNCED_MEM_OK && conflicting)
        status = make_stream_wait_for_reads(copy, stream, false);
    struct sm_fence *const lost = sm_inflight_lost(copy);
    return status == SYNCED_MEM_OK && lost ? sm_fence_wait_queued(lost) : status;
}

synced_mem_status sm_inflight_make_order(struct sm_copy *copy, bool conflicting, struct sm_stream *stream)
{
    /* A stream that may write was made to wait for the write when it was given the pointer. So was one that may
     * read. */
    if (!conflicting &&
        ((sm_inflight_has(copy, stream, true) && !copy->arriving) || sm_inflight_has(copy, stream, false)))
        return SYNCED_MEM_OK;
    return order_behind_work(copy, conflicting, stream);
}

static bool is_stream_behind(const struct sm_stream *stream, struct sm_fence *fence)
{
    return !fence || fence->stream == stream->serial || !sm_fence_poll(fence);
}

/* The stream that may write has waited for covered work. */
struct sm_stream *sm_inflight_only_stream(const struct sm_copy *copy)
{
    struct sm_stream *const stream = sm_inflight_last_user(copy);
    if (!stream || stream->kind != SM_STREAM_CREATED)
        return NULL;
    bool only = (copy->write_is_covered || is_stream_behind(stream, copy->write)) &&
                is_stream_behind(stream, copy->writer_fence);
    for (const struct sm_use *use = copy->reads; use && only; use = use->next)
        only = (!sm_use_is_by_stream(use) || use->by == stream) && is_stream_behind(stream, use->fence);
    return only ? stream : NULL;
}

bool sm_inflight_is_idle(const struct sm_copy *copy)
{
    bool idle = !copy->writer && !sm_fence_poll(copy->write) && !sm_fence_poll(copy->writer_fence);
    for (const struct sm_use *use = copy->reads; use && idle; use = use->next)
        idle = !sm_use_is_open(use) && !sm_fence_poll(use->fence);
    return idle;
}

bool sm_inflight_is_quiet(const struct sm_copy *copy)
{
    bool quiet = !copy->writer && !sm_fence_is_open(copy->write) && !sm_fence_is_open(copy->writer_fence);
    for (const struct sm_use *use = copy->reads; use && quiet; use = use->next)
        quiet = !sm_use_is_open(use) && !sm_fence_is_open(use->fence);
    return quiet;
}

bool sm_inflight_is_on_legacy(const struct sm_copy *copy)
{
    bool all = !copy->write || sm_stream_is_legacy_use(NULL, copy->write);
    if (copy->writer || copy->writer_fence)
        all = all && sm_stream_is_legacy_use(copy->writer, copy->writer_fence);
    for (const struct sm_use *use = copy->reads; use && all; use = use->next)
        all = sm_stream_is_legacy_use(use->by, use->fence);
    return all;
}

static struct sm_fence *find_transfer_in(const struct sm_use *list)
{
    for (const struct sm_use *use = list; use; use = use->next)
        if (is_transfer(use) && sm_fence_is_open(use->fence))
            return use->fence;
    return NULL;
}

struct sm_fence *sm_inflight_transfer(const struct sm_copy *copy)
{
    if (sm_fence_is_open(copy->write))
        return copy->write;
    struct sm_fence *const read = find_transfer_in(copy->reads);
    return read ? read : find_transfer_in(copy->covered);
}

/* ---- Entering ---- */

void sm_inflight_forget_reads(struct sm_copy *copy, struct sm_replaced *replaced)
{
    replace_uses(&copy->reads, replaced);
    replace_uses(&copy->covered, replaced);
}

void sm_inflight_forget(struct sm_copy *copy)
{
    struct sm_replaced replaced = {.uses = NULL};
    copy->write_is_covered = false;
    replace_fence(&copy->write, NULL);
    sm_inflight_forget_uses(copy, &replaced);
    sm_replaced_drop(&replaced);
}

void sm_inflight_filled(struct sm_copy *copy, struct sm_fence *fence)
{
    replace_fence(&copy->writer_fence, fence);
    copy->arriving = true;
}

void sm_inflight_arrives(struct sm_copy *copy, struct sm_fence *fence)
{
    replace_fence(&copy->write, fence);
    copy->write_is_covered = false;
    copy->arriving = true;
}

bool sm_inflight_is_lost(const struct sm_copy *copy)
{
    return sm_fence_state(copy->write) == SM_FENCE_LOST || sm_fence_state(copy->writer_fence) == SM_FENCE_LOST;
}

/* Of several ended uses of one stream the last stands for all. So the lists grow no longer than the number of streams.
 * Returns the number of other uses. */
static inline __attribute__((always_inline)) unsigned replace_earlier_uses(struct sm_use **list,
                                                                           const struct sm_stream *by,
                                                                           const struct sm_fence *than,
                                                                           struct sm_replaced *replaced)
{
    struct sm_use **link = list;
    unsigned others = 0;
    while (*link) {
        struct sm_use *const use = *link;
        if (use->by == by && use->fence && use->fence->stream == than->stream) {
            *link = use->next;
            sm_replaced_add_use(replaced, use);
        } else {
            link = &use->next;
            others++;
        }
    }
    return others;
}

/* Polls the uses of a list and forgets those that are over. ends: also ends open uses of streams that get no more work,
 * which nothing else does. The caller publishes the object anew then. */
static void poll_uses(struct sm_copy *copy, struct sm_use *list, bool ends)
{
    for (struct sm_use *use = list; use; use = use->next) {
        if (ends && sm_use_is_open(use) && sm_stream_is_over(use->by) &&
            sm_stream_end_use(use->by, &use->fence) == SYNCED_MEM_OK) {
            sm_stream_drop(use->by);
            use->by = sm_ended_use;
        }
        if (!sm_use_is_by_stream(use))
            (void)sm_fence_poll(use->fence);
    }
    sm_inflight_prune(copy);
}

static unsigned count_uses(const struct sm_use *list)
{
    unsigned count = 0;
    for (const struct sm_use *use = list; use; use = use->next)
        count++;
    return count;
}

/* Rare work is not inlined, so that a call without it saves few registers. */
static __attribute__((noinline)) void poll_long_lists(struct sm_copy *copy, unsigned reads, unsigned covered, bool ends)
{
    if (reads >= MANY_USES)
        poll_uses(copy, copy->reads, ends);
    if (covered >= MANY_USES)
        poll_uses(copy, copy->covered, ends);
}

void sm_inflight_read(struct sm_copy *copy, struct sm_use *reserved, struct sm_fence *fence,
                      struct sm_replaced *replaced)
{
    const unsigned reads = copy->reads ? replace_earlier_uses(&copy->reads, NULL, fence, replaced) : 0;
    const unsigned covered = copy->covered ? replace_earlier_uses(&copy->covered, NULL, fence, replaced) : 0;
    if (reads >= MANY_USES || covered >= MANY_USES)
        poll_long_lists(copy, reads, covered, false);
    *reserved = (struct sm_use){.fence = fence};
    sm_use_prepend(&copy->reads, reserved);
}

bool sm_inflight_give_again(struct sm_copy *copy, synced_mem_stream handle)
{
    struct sm_use **link = &copy->reads;
    while (*link && !(sm_use_is_open(*link) && sm_stream_can_be_hot((*link)->by) &&
                      atomic_load_explicit(&(*link)->by->hot, memory_order_relaxed) == handle))
        link = &(*link)->next;
    struct sm_use *const use = *link;
    if (!use || (copy->writer && copy->writer != use->by))
        return false;
    *link = use->next;
    sm_use_prepend(&copy->reads, use);
    return true;
}

void sm_inflight_put_back(struct sm_copy *copy, struct sm_use *use)
{
    if (use)
        sm_use_prepend(&copy->reads, use);
}

static void reopen_use(struct sm_use *use, struct sm_replaced *replaced)
{
    sm_replaced_add_fence(replaced, use->fence);
    use->fence = NULL;
}

/* Whoever waits for this open write waits for all work before it. */
static void give_pointer_to_write(struct sm_copy *copy, struct sm_stream *stream, struct sm_replaced *replaced)
{
    struct sm_use *before = copy->reads;
    copy->reads = NULL;
    while (before) {
        struct sm_use *const use = before;
        before = use->next;
        if (use->by == stream) {
            reopen_use(use, replaced);
            sm_use_prepend(&copy->reads, use);
        } else if (is_transfer(use)) {
            sm_use_prepend(&copy->covered, use);
        } else {
            sm_replaced_add_use(replaced, use);
        }
    }
    sm_replaced_add_fence(replaced, copy->writer_fence);
    sm_replaced_add_stream(replaced, copy->writer);
    copy->writer_fence = NULL;
    copy->writer = stream;
    copy->writes++;
    copy->write_is_covered = true;
    copy->arriving = false;
}

void sm_inflight_given(struct sm_copy *copy, struct sm_use *reserved, struct sm_stream *stream, bool writing,
                       struct sm_replaced *replaced)
{
    if (stream->kind == SM_STREAM_ANY)
        copy->streamless = true;
    if (writing) {
        give_pointer_to_write(copy, stream, replaced);
        sm_inflight_unreserve(reserved);
        return;
    }
    if (copy->writer != stream)
        sm_inflight_close(copy);
    struct sm_use **const link = sm_inflight_find_use(copy, stream);
    struct sm_use *use = *link;
    if (use) {
        *link = use->next;
        reopen_use(use, replaced);
        sm_replaced_add_stream(replaced, stream);
        sm_inflight_unreserve(reserved);
    } else {
        const unsigned reads = count_uses(copy->reads);
        const unsigned covered = count_uses(copy->covered);
        if (reads >= MANY_USES || covered >= MANY_USES)
            poll_long_lists(copy, reads, covered, true);
        use = reserved;
        use->by = stream;
    }
    /* The stream that was given the pointer last comes first, where the hot path finds it if there is no set. */
    sm_use_prepend(&copy->reads, use);
}

synced_mem_status sm_inflight_end(struct sm_copy *copy, struct sm_stream *stream)
{
    struct sm_use *const use = *sm_inflight_find_use(copy, stream);
    const struct sm_fence *const before = copy->writer_fence;
    synced_mem_status status = SYNCED_MEM_OK;
    if (copy->writer == stream)
        status = settle_writer(copy, NULL);
    if (status == SYNCED_MEM_OK && use && !use->fence)
        status = settle_reader(copy, use, before ? NULL : copy->writer_fence);
    if (status != SYNCED_MEM_OK) {
        const struct sm_detail first = sm_detail_get();
        sm_inflight_reopen(copy);
        sm_detail_set(&first);
        return status;
    }
    if (copy->writer == stream)
        sm_inflight_end_write(copy);
    if (use) {
        struct sm_replaced replaced = {.uses = NULL};
        (void)replace_earlier_uses(&copy->reads, sm_ended_use, use->fence, &replaced);
        sm_replaced_add_stream(&replaced, use->by);
        use->by = sm_ended_use;
        sm_replaced_drop(&replaced);
    }
    return SYNCED_MEM_OK;
}

/* The failed call may have queued a transfer from the copy. The stream may write on, so it has to come after that
 * transfer, which is then covered. The stream may be unable to wait, or the transfer may still be queueing. Then nobody
 * wants the contents that arrive. But the transfer stays a read, as the open write does not come after it. */
static void order_writer_behind_reads(struct sm_copy *copy)
{
    struct sm_use **link = &copy->reads;
    while (*link) {
        struct sm_use *const use = *link;
        if (is_transfer(use) && sm_fence_state(use->fence) != SM_FENCE_QUEUEING &&
            sm_stream_hold_back(copy->writer, use->fence)) {
            *link = use->next;
            sm_use_prepend(&copy->covered, use);
        } else {
            link = &use->next;
        }
    }
}

void sm_inflight_reopen(struct sm_copy *copy)
{
    if (copy->writer && copy->writer_fence)
        order_writer_behind_reads(copy);
    if (copy->writer)
        replace_fence(&copy->writer_fence, NULL);
    for (struct sm_use *use = copy->reads; use; use = use->next)
        if (sm_use_is_by_stream(use))
            replace_fence(&use->fence, NULL);
}

void sm_inflight_poll_write(const struct sm_copy *copy)
{
    if (!copy->writer && copy->writer_fence)
        (void)sm_fence_poll(copy->writer_fence);
    if (copy->write)
        (void)sm_fence_poll(copy->write);
}
