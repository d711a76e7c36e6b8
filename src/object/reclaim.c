/* The steps when memory for contents is refused. */
#include "object/reclaim.h"

#include "base/caller.h"
#include "copy/copy.h"
#include "memory/accounting.h"
#include "base/hands.h"
#include "memory/pinned/host_pool.h"
#include "memory/managed_pool.h"
#include "object/evict.h"
#include "object/objects.h"
#include "base/process.h"
#include "base/refusal.h"
#include "copy/retired.h"
#include "base/stats.h"

enum { REAP, EVICT, WAIT, TRIM, CALL_HANDLER };
enum { MOST_HANDLER_CALLS = 16, MOST_ROUNDS = 16 };

static struct {
    struct sm_lock lock; /* guards the pair, so that a handler gets its own user pointer */
    synced_mem_out_of_memory_handler call;
    void *user;
} handler = {.lock = SM_LOCK_INITIALIZER};

static _Thread_local bool in_handler; /* a call inside the handler does not call it again */

void sm_reclaim_set_handler(synced_mem_out_of_memory_handler call, void *user)
{
    sm_lock(&handler.lock);
    handler.call = call;
    handler.user = user;
    sm_unlock(&handler.lock);
}

/* ---- The steps ---- */

static void reap_ended_copies(const struct sm_refusal *refusal)
{
    sm_count_up(SM_COUNT_oom_reaps, 1);
    (void)sm_copy_reap(false);
    if (refusal->device < 0)
        return;
    (void)sm_copy_free_cached(refusal->device);
    sm_stream_poll_frees(refusal->device);
}

static void wait_for_pending(const struct sm_refusal *refusal)
{
    sm_count_up(SM_COUNT_oom_waits, 1);
    if (refusal->device < 0) {
        (void)sm_copy_reap(true);
    } else {
        (void)sm_retired_reap(true); /* bounce buffers are host memory */
        sm_stream_wait_for_frees(refusal->device);
    }
}

static void trim_pools(const struct sm_refusal *refusal)
{
    sm_count_up(SM_COUNT_oom_trims, 1);
    if (refusal->device < 0) {
        (void)sm_host_pool_reclaim();
    } else {
        (void)sm_managed_pool_reclaim();
        (void)sm_device_pool_trim(refusal->device, 0);
    }
}

static bool call_memory_handler(struct sm_reclaim *reclaim, const struct sm_refusal *refusal)
{
    sm_lock(&handler.lock);
    const synced_mem_out_of_memory_handler call = handler.call;
    void *const user = handler.user;
    sm_unlock(&handler.lock);
    if (!call || in_handler || reclaim->handler_calls == MOST_HANDLER_CALLS)
        return false;
    const synced_mem_out_of_memory request = {.struct_size = sizeof request,
                                              .device = refusal->device,
                                              .attempt = ++reclaim->handler_calls,
                                              .bytes = refusal->bytes};
    sm_count_up(SM_COUNT_oom_callbacks, 1);
    struct sm_put_aside before;
    sm_caller_put_aside(&before);
    in_handler = true;
    const bool freed = call(&request, user) != 0;
    in_handler = false;
    sm_caller_put_back(&before);
    return freed;
}

/* ---- Nothing has helped ---- */

static void describe_host_holders(const struct sm_detail *first)
{
    const struct sm_objects_text largest = sm_objects_largest(-1);
    (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
                  "%s; the library holds %llu bytes pageable and %llu page-locked, with %llu copies retired and %llu "
                  "quarantined; largest objects there: %s",
                  first->text, (unsigned long long)sm_count_of(SM_COUNT_pageable_bytes),
                  (unsigned long long)sm_count_of(SM_COUNT_pinned_bytes),
                  (unsigned long long)sm_count_of(SM_COUNT_retired),
                  (unsigned long long)sm_count_of(SM_COUNT_quarantined), largest.text);
}

/* Numbers that cannot be queried are printed as 0. */
static void describe_device_holders(const struct sm_detail *first, int device)
{
    const struct sm_objects_text largest = sm_objects_largest(device);
    struct sm_pool_numbers numbers = {.known = false};
    size_t free = 0;
    size_t total = 0;
    (void)sm_gpu_numbers(device, &numbers);
    (void)sm_device_memory_info(device, &free, &total);
    (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                  "%s; the library uses %llu of %llu bytes reserved there, with %llu copies retired and %llu "
                  "quarantined, and %llu bytes managed, %llu page-locked; of the device's %zu bytes %zu are free; "
                  "largest objects there: %s",
                  first->text, (unsigned long long)numbers.used, (unsigned long long)numbers.reserved,
                  (unsigned long long)sm_count_of(SM_COUNT_retired),
                  (unsigned long long)sm_count_of(SM_COUNT_quarantined),
                  (unsigned long long)sm_count_of(SM_COUNT_managed_bytes),
                  (unsigned long long)sm_count_of(SM_COUNT_pinned_bytes), total, free, largest.text);
}

static void fail_with_holders(const struct sm_detail *first, const struct sm_refusal *refusal)
{
    sm_count_up(SM_COUNT_oom_failures, 1);
    if (refusal->device >= 0)
        describe_device_holders(first, refusal->device);
    else
        describe_host_holders(first);
}

/* Returns whether another thread had memory in its hands during the steps, or has passed some since they began. The
 * steps may have missed that memory. The number of rounds is limited: other threads may pass memory without end, and
 * the call may want more than there is. */
static bool may_have_missed_memory(struct sm_reclaim *reclaim, uint64_t passed)
{
    if (reclaim->rounds == MOST_ROUNDS || !sm_hands_wait(passed))
        return false;
    reclaim->rounds++;
    return true;
}

static int get_budget(const struct sm_refusal *refusal)
{
    return refusal->device >= 0 ? refusal->device : SM_BUDGET_HOST;
}

/* After the handler has freed something all steps are taken again, as the memory may still be in flight. */
bool sm_reclaim_take_step(struct sm_reclaim *reclaim)
{
    struct sm_refusal refusal;
    if (!sm_refusal_take(&refusal))
        return false;
    const struct sm_detail first = sm_detail_get();
    unsigned char *const step = &reclaim->step[refusal.device >= 0];
    uint64_t *const passed = &reclaim->passed[refusal.device >= 0];
    switch ((*step)++) {
    case REAP:
        *passed = sm_hands_passed();
        reap_ended_copies(&refusal);
        return true;
    case EVICT:
        if (sm_evict_bytes(get_budget(&refusal), refusal.bytes))
            return true;
        (*step)++;
        wait_for_pending(&refusal);
        return true;
    case WAIT:
        wait_for_pending(&refusal);
        return true;
    case TRIM:
        trim_pools(&refusal);
        return true;
    default:
        break;
    }
    if (sm_evict_bytes(get_budget(&refusal), refusal.bytes)) {
        *step = WAIT;
        return true;
    }
    *step = REAP;
    if (may_have_missed_memory(reclaim, *passed) || call_memory_handler(reclaim, &refusal))
        return true;
    fail_with_holders(&first, &refusal);
    return false;
}
