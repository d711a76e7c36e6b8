/* The retired list. */
#include "copy/retired.h"

#include "copy/bounce.h"
#include "copy/callback.h"
#include "copy/inflight.h"
#include "copy/pending.h"
#include "base/hands.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdint.h>

/* The list, the earliest retired copy first. */
static struct {
    struct sm_lock lock;             /* guards the other fields, and in_hand of the copies */
    _Atomic(struct sm_copy *) first; /* read without the lock to see whether there is one */
    struct sm_copy *last;            /* valid if there is a first */
    unsigned count;
    uint64_t times;      /* counts the copies that were ever added */
    unsigned generation; /* of the process in which the copies were retired */
} retired = {.lock = SM_LOCK_INITIALIZER};

/* Returns the list's part of a retired copy, which is never a part. sm_allocation_of() would read flags, which another
 * thread may be changing that has the copy in hand. */
static struct sm_allocation *get_entry(const struct sm_copy *copy)
{
    return (struct sm_allocation *)(uintptr_t)copy;
}

static struct sm_copy *get_first_retired(void)
{
    return atomic_load_explicit(&retired.first, memory_order_relaxed);
}

static void set_first_retired(struct sm_copy *copy)
{
    atomic_store_explicit(&retired.first, copy, memory_order_relaxed);
}

/* ---- With the list locked ---- */

/* Empties the list in a forked child, which knows nothing of the work on its parent's copies. */
static void forget_parent_copies(void)
{
    if (retired.generation == sm_process_generation())
        return;
    sm_count_down(SM_COUNT_retired, retired.count);
    set_first_retired(NULL);
    retired.count = 0;
    retired.generation = sm_process_generation();
}

/* Removes the copy from the list. Copies whose work has ended are mostly among the first. */
static void remove_copy(const struct sm_copy *copy)
{
    struct sm_copy *before = NULL;
    for (struct sm_copy *each = get_first_retired(); each != copy; each = get_entry(each)->next)
        before = each;
    if (before)
        get_entry(before)->next = get_entry(copy)->next;
    else
        set_first_retired(get_entry(copy)->next);
    if (retired.last == copy)
        retired.last = before;
    retired.count--;
    sm_count_down(SM_COUNT_retired, 1);
}

static _Thread_local bool waits_for_own; /* memory of the library's, alone */

/* A callback does not run another one: all that are due would be on one stack. */
bool sm_retired_is_for_later(const struct sm_copy *copy)
{
    return (sm_callback_runs() || waits_for_own) &&
           (copy->source == SYNCED_MEM_SOURCE_ADOPTED || copy->source == SYNCED_MEM_SOURCE_ALLOCATOR);
}

/* ---- Into it, and out of it ---- */

/* Counts the copies that callbacks of this thread have retired. */
static _Thread_local uint64_t retired_by_callbacks;

void sm_retired_add(struct sm_copy *copy)
{
    sm_lock(&retired.lock);
    forget_parent_copies();
    get_entry(copy)->next = NULL;
    get_entry(copy)->in_hand = false;
    copy->retired_at = ++retired.times;
    if (get_first_retired())
        get_entry(retired.last)->next = copy;
    else
        set_first_retired(copy);
    retired.last = copy;
    retired.count++;
    sm_count_up(SM_COUNT_retired, 1);
    sm_unlock(&retired.lock);
    retired_by_callbacks += sm_callback_runs();
}

/* One pass over the list. */
struct pass {
    unsigned generation;
    unsigned left;          /* copies that were there at its beginning and are still to come */
    uint64_t waits_up_to;   /* the pass ends at the first copy with pending work that was retired by this time */
    unsigned passed_over;   /* so many of these copies do not end the pass */
    struct sm_fence *fence; /* the work of the copy that has ended the pass, held */
    bool may_block;         /* also for copies whose memory is to be unregistered */
    /* Stores the failure of the first copy that could not be settled or disposed of. NULL: failures are ignored. */
    struct sm_outcome *first;
    struct sm_pending pending;
};

static bool is_known_pending(const struct pass *pass, const struct sm_copy *copy)
{
    const struct sm_fence *const fence = pass->pending.count > 0 ? sm_copy_awaits(copy) : NULL;
    return fence && sm_pending_has(&pass->pending, fence);
}

/* With the list locked, takes the first copy in hand, from this one on, that nobody has in hand and that may go now. A
 * pass that waits looks at each copy, as one with pending work may end it. */
static struct sm_copy *pick_copy(struct pass *pass, struct sm_copy *copy)
{
    for (; copy && pass->left > 0; copy = get_entry(copy)->next) {
        pass->left--;
        if (!get_entry(copy)->in_hand && !sm_retired_is_for_later(copy) &&
            (pass->waits_up_to > 0 || !is_known_pending(pass, copy))) {
            get_entry(copy)->in_hand = true;
            return copy;
        }
    }
    return NULL;
}

static struct sm_copy *begin_pass(struct pass *pass)
{
    sm_lock(&retired.lock);
    forget_parent_copies();
    pass->generation = retired.generation;
    pass->left = retired.count;
    struct sm_copy *const copy = pick_copy(pass, get_first_retired());
    sm_unlock(&retired.lock);
    return copy;
}

/* Puts the copy back, or gives its struct back if its memory is gone, and picks the next one. A callback may have
 * forked, and this may be the child. Then the list is another one. */
static struct sm_copy *pick_next_copy(struct pass *pass, struct sm_copy *copy, bool gone)
{
    if (sm_process_generation() != pass->generation)
        return NULL;
    sm_lock(&retired.lock);
    struct sm_copy *const following = pass->fence ? NULL : pick_copy(pass, get_entry(copy)->next);
    if (gone)
        remove_copy(copy);
    else
        get_entry(copy)->in_hand = false;
    sm_unlock(&retired.lock);
    if (gone)
        sm_copy_struct_give(copy);
    return following;
}

static void note_status(struct pass *pass, synced_mem_status status)
{
    if (pass->first && pass->first->status == SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        sm_outcome_set(pass->first, status);
}

/* Returns whether the pass ends at this copy, whose work is to be waited for. The copy is one of those that the pass
 * waits for. */
static bool is_to_wait_for(struct pass *pass, struct sm_copy *copy)
{
    synced_mem_status status = sm_copy_end_streamless(copy);
    if (status == SYNCED_MEM_OK)
        status = sm_inflight_settle(copy, true, NULL);
    struct sm_fence *const fence = status == SYNCED_MEM_OK ? sm_inflight_blocker(copy, true) : NULL;
    note_status(pass, status);
    if (fence && pass->passed_over > 0) {
        pass->passed_over--;
        return false;
    }
    if (fence)
        pass->fence = sm_fence_hold(fence);
    return fence != NULL;
}

static bool try_copy(struct pass *pass, struct sm_copy *copy)
{
    const struct sm_fence *pending;
    synced_mem_status status;
    if (copy->retired_at <= pass->waits_up_to && is_to_wait_for(pass, copy))
        return false;
    const bool gone = sm_copy_try_dispose(copy, pass->may_block, &pending, &status);
    if (sm_fence_state(pending) == SM_FENCE_PENDING)
        sm_pending_note(&pass->pending, pending);
    note_status(pass, status);
    return gone;
}

static void try_copies(struct pass *pass)
{
    sm_hands_fill();
    struct sm_copy *copy = begin_pass(pass);
    while (copy) {
        const bool gone = try_copy(pass, copy);
        copy = pick_next_copy(pass, copy, gone);
        sm_hands_pass();
    }
    sm_hands_empty(false);
    sm_pending_end(&pass->pending);
}

/* Waits for the work on each copy. A copy whose wait fails stays, and the pass over it counts as passed_over. Copies
 * that are retired meanwhile are not waited for, as other threads may retire copies without end. The last pass waits
 * for nothing, and disposes of the copy that was waited for last. */
static synced_mem_status try_copies_and_wait(void)
{
    struct sm_outcome first;
    struct pass pass = {.may_block = true, .first = &first};
    struct sm_fence *fence;
    unsigned stuck = 0;
    sm_lock(&retired.lock);
    pass.waits_up_to = retired.times;
    sm_unlock(&retired.lock);
    sm_outcome_set(&first, SYNCED_MEM_OK);
    do {
        pass.passed_over = stuck;
        pass.fence = NULL;
        try_copies(&pass);
        fence = pass.fence;
        if (fence) {
            const synced_mem_status status = sm_fence_wait(fence);
            const bool is_stuck = sm_fence_is_open(fence);
            sm_fence_drop(fence);
            if (is_stuck && first.status == SYNCED_MEM_OK)
                sm_outcome_set(&first, status);
            stuck += is_stuck;
        }
    } while (fence);
    return sm_outcome_end(&first);
}

/* A release callback may release the next object, whose memory is then due too, and so on. Each such release makes the
 * sum of objects and retired copies smaller. Callbacks that make objects without end do not. */
enum { MOST_PASSES_IN_VAIN = 16 };

synced_mem_status sm_retired_reap(bool wait)
{
    const unsigned generation = sm_process_generation();
    uint64_t least = UINT64_MAX;
    uint64_t before = retired_by_callbacks - 1;
    for (int in_vain = 0; get_first_retired() && retired_by_callbacks != before && in_vain < MOST_PASSES_IN_VAIN;) {
        struct pass pass = {.may_block = true};
        before = retired_by_callbacks;
        if (wait)
            SM_TRY(try_copies_and_wait());
        else
            try_copies(&pass);
        if (sm_process_generation() != generation) /* a callback has forked, and this is the child */
            return SYNCED_MEM_OK;
        const uint64_t left = sm_count_of(SM_COUNT_objects) + sm_count_of(SM_COUNT_retired);
        in_vain = left < least ? 0 : in_vain + 1;
        least = left < least ? left : least;
    }
    return SYNCED_MEM_OK;
}

void sm_retired_wait_for_own(void)
{
    const struct sm_detail first = sm_detail_get();
    waits_for_own = true;
    (void)sm_retired_reap(true);
    waits_for_own = false;
    sm_detail_set(&first);
}

synced_mem_status sm_copy_reap(bool wait)
{
    struct sm_outcome first;
    sm_outcome_set(&first, sm_retired_reap(wait));
    const synced_mem_status bounced = sm_bounce_reap(wait);
    return first.status != SYNCED_MEM_OK ? sm_outcome_end(&first) : bounced;
}

void sm_copy_reap_passing_by(bool may_block)
{
    if ((!get_first_retired() && !sm_bounce_any()) || !sm_passing_begin())
        return;
    struct pass pass = {.may_block = may_block};
    if (get_first_retired())
        try_copies(&pass);
    (void)sm_bounce_reap(false);
    sm_passing_end();
}
