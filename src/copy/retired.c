/* The retired list. */
#include "copy/retired.h"

#include "copy/bounce.h"
#include "copy/callback.h"
#include "copy/inflight.h"
#include "base/hands.h"
#include "base/process.h"
#include "base/stats.h"

#include <stdatomic.h>
#include <stdint.h>

/* The earliest first. */
static struct {
    struct sm_lock lock;             /* guards the rest, and which of the copies are in hand */
    _Atomic(struct sm_copy *) first; /* anybody may look whether there is one */
    struct sm_copy *last;            /* if there is a first */
    unsigned count;
    uint64_t times;      /* that a copy was added */
    unsigned generation; /* of the process that they were let go of in */
} retired = {.lock = SM_LOCK_INITIALIZER};

static struct sm_copy *first_retired(void)
{
    return atomic_load_explicit(&retired.first, memory_order_relaxed);
}

static void put_first(struct sm_copy *copy)
{
    atomic_store_explicit(&retired.first, copy, memory_order_relaxed);
}

/* ---- With the list locked ---- */

/* A child has no business with what its parent has let go of, and knows nothing of the work on it. */
static void leave_to_parent(void)
{
    if (retired.generation == sm_process_generation())
        return;
    sm_count_down(SM_COUNT_retired, retired.count);
    put_first(NULL);
    retired.count = 0;
    retired.generation = sm_process_generation();
}

static void append(struct sm_copy *copy)
{
    copy->next = NULL;
    copy->in_hand = false;
    copy->retired_at = ++retired.times;
    if (first_retired())
        retired.last->next = copy;
    else
        put_first(copy);
    retired.last = copy;
    retired.count++;
    sm_count_up(SM_COUNT_retired, 1);
}

/* Those whose work has ended are among the earliest. */
static void strike(const struct sm_copy *copy)
{
    struct sm_copy *before = NULL;
    for (struct sm_copy *each = first_retired(); each != copy; each = each->next)
        before = each;
    if (before)
        before->next = copy->next;
    else
        put_first(copy->next);
    if (retired.last == copy)
        retired.last = before;
    retired.count--;
    sm_count_down(SM_COUNT_retired, 1);
}

static bool is_given_to_caller(const struct sm_copy *copy)
{
    return copy->source == SYNCED_MEM_SOURCE_ADOPTED || copy->source == SYNCED_MEM_SOURCE_ALLOCATOR;
}

/* One callback does not lead to the next: all that are due would be on the stack. */
bool sm_retired_is_for_later(const struct sm_copy *copy)
{
    return sm_callback_runs() && is_given_to_caller(copy);
}

/* The first, from the copy on, that nobody has in hand and that is not for later. */
static struct sm_copy *pick(struct sm_copy *copy)
{
    while (copy && (copy->in_hand || sm_retired_is_for_later(copy)))
        copy = copy->next;
    if (copy)
        copy->in_hand = true;
    return copy;
}

/* ---- Into it, and out of it ---- */

void sm_retired_add(struct sm_copy *copy)
{
    sm_lock(&retired.lock);
    leave_to_parent();
    append(copy);
    sm_unlock(&retired.lock);
}

/* What one pass over the list is for, and how far it has come. */
struct pass {
    unsigned generation;
    unsigned left;            /* of those that were there at its beginning */
    uint64_t waits_up_to;     /* the pass ends at the first copy with pending work that was retired by then */
    unsigned passed_over;     /* so many of these copies do not end it */
    struct sm_fence *fence;   /* of the copy that has ended it, held */
    synced_mem_status status; /* of the first copy that could not be dealt with */
};

static struct sm_copy *begin(struct pass *pass)
{
    sm_lock(&retired.lock);
    leave_to_parent();
    struct sm_copy *const copy = pick(first_retired());
    pass->generation = retired.generation;
    pass->left = retired.count;
    sm_unlock(&retired.lock);
    return copy;
}

/* Puts the copy down, or gives its record back if it is gone, and picks the next. A callback may have forked, and this
 * be the child: it has another list. */
static struct sm_copy *next(struct pass *pass, struct sm_copy *copy, bool gone)
{
    if (sm_process_generation() != pass->generation)
        return NULL;
    sm_lock(&retired.lock);
    struct sm_copy *const following = --pass->left > 0 && !pass->fence ? pick(copy->next) : NULL;
    if (gone)
        strike(copy);
    else
        copy->in_hand = false;
    sm_unlock(&retired.lock);
    if (gone)
        sm_copy_give_record(copy);
    return following;
}

static void note(struct pass *pass, synced_mem_status status)
{
    if (pass->status == SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        pass->status = status;
}

/* Whether the pass ends here, as the copy is to be waited for. It is one of those that the pass waits for. */
static bool is_to_wait_for(struct pass *pass, struct sm_copy *copy)
{
    synced_mem_status status = sm_copy_end_streamless(copy);
    if (status == SYNCED_MEM_OK)
        status = sm_inflight_settle(copy, true, NULL);
    struct sm_fence *const fence = status == SYNCED_MEM_OK ? sm_inflight_blocker(copy, true) : NULL;
    note(pass, status);
    if (fence && pass->passed_over > 0) {
        pass->passed_over--;
        return false;
    }
    if (fence)
        pass->fence = sm_fence_hold(fence);
    return fence != NULL;
}

static bool try_one(struct pass *pass, struct sm_copy *copy)
{
    synced_mem_status status;
    if (copy->retired_at <= pass->waits_up_to && is_to_wait_for(pass, copy))
        return false;
    const bool gone = sm_copy_try_dispose(copy, &status);
    note(pass, status);
    return gone;
}

static void try_each(struct pass *pass)
{
    sm_hands_fill();
    struct sm_copy *copy = begin(pass);
    while (copy) {
        const bool gone = try_one(pass, copy);
        copy = next(pass, copy, gone);
        sm_hands_pass();
    }
    sm_hands_empty(false);
}

static uint64_t times_retired(void)
{
    sm_lock(&retired.lock);
    const uint64_t times = retired.times;
    sm_unlock(&retired.lock);
    return times;
}

/* A copy that can't be waited for stays, and the others are waited for all the same. A copy that is retired meanwhile
 * is not waited for: where other threads retire copies all the time there would be no end. The last pass waits for
 * nothing, and takes the copy that was waited for last. */
static synced_mem_status try_each_and_wait(void)
{
    struct pass pass;
    unsigned stuck = 0;
    const uint64_t up_to = times_retired();
    synced_mem_status first = SYNCED_MEM_OK;
    do {
        pass = (struct pass){.waits_up_to = up_to, .passed_over = stuck, .status = first};
        try_each(&pass);
        first = pass.status;
        if (pass.fence) {
            const synced_mem_status status = sm_fence_wait(pass.fence);
            const bool is_stuck = sm_fence_is_open(pass.fence);
            sm_fence_drop(pass.fence);
            first = is_stuck && first == SYNCED_MEM_OK ? status : first;
            stuck += is_stuck;
        }
    } while (pass.fence);
    return first;
}

synced_mem_status sm_retired_reap(bool wait)
{
    struct pass pass = {.waits_up_to = 0};
    if (first_retired() && wait)
        return try_each_and_wait();
    if (first_retired())
        try_each(&pass);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_reap(bool wait)
{
    const synced_mem_status status = sm_retired_reap(wait);
    const synced_mem_status bounced = sm_bounce_reap(wait);
    return status != SYNCED_MEM_OK ? status : bounced;
}

void sm_copy_reap_passing_by(void)
{
    if ((!first_retired() && !sm_bounce_any()) || !sm_passing_begin())
        return;
    (void)sm_copy_reap(false);
    sm_passing_end();
}
