/* The disposal of a retired copy's memory, by its source. */
#include "memory/accounting.h"
#include "memory/allocator.h"
#include "base/caller.h"
#include "base/hands.h"
#include "copy/callback.h"
#include "copy/copy.h"
#include "copy/inflight.h"
#include "copy/free.h"
#include "memory/guard.h"
#include "memory/host_memory.h"
#include "memory/pinned/host_pool.h"
#include "memory/managed_pool.h"
#include "copy/pin.h"
#include "base/stats.h"
#include "base/status.h"

/* Returns whether all work on the copy has ended. *pending: a fence that was queried in vain, or NULL. A lost device
 * runs nothing. */
static bool is_copy_idle(struct sm_copy *copy, const struct sm_fence **pending, synced_mem_status *status)
{
    *status = sm_inflight_settle(copy, true, NULL);
    if (*status != SYNCED_MEM_OK)
        return *status == SYNCED_MEM_ERR_DEVICE_LOST;
    struct sm_fence *fence;
    while ((fence = sm_inflight_blocker(copy, true)) != NULL)
        if (sm_fence_poll(fence)) {
            *pending = fence;
            return false;
        }
    return true;
}

static void quarantine_memory(struct sm_copy *copy)
{
    sm_guard_forget(copy);
    sm_count_up(SM_COUNT_quarantined, 1);
}

void sm_copy_quarantine(struct sm_copy *copy)
{
    quarantine_memory(copy);
    sm_copy_struct_give(copy);
}

/* Gives the memory back to its allocator. All work on memory of a lost device has ended. */
static synced_mem_status return_to_allocator(struct sm_copy *copy)
{
    const struct sm_allocation *const own = sm_allocation_of(copy);
    struct sm_stream *stream = NULL;
    const bool on_device = !sm_allocator_is_of_host(own->allocator);
    const synced_mem_status status = on_device ? sm_free_order(copy, &stream) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return status;
    const struct sm_request request = {.size = own->bytes,
                                       .alignment = own->alignment,
                                       .device = copy->device,
                                       .stream = on_device && status == SYNCED_MEM_OK ? stream->handle : NULL};
    const bool before = sm_callback_begin();
    sm_allocator_give(own->allocator, &request, own->base);
    sm_callback_end(before);
    return status;
}

/* The runtime may wait for the device, so the hands are empty meanwhile. */
static void unpin_with_empty_hands(struct sm_copy *copy)
{
    if (!sm_allocation_of(copy)->pin_held)
        return;
    const bool before = sm_callback_begin();
    sm_unpin(copy);
    sm_callback_end(before);
}

static void call_release_callback(struct sm_copy *copy)
{
    unpin_with_empty_hands(copy);
    struct sm_put_aside aside;
    sm_caller_put_aside(&aside);
    const bool before = sm_callback_begin();
    sm_allocation_of(copy)->callback(sm_copy_data(copy), sm_allocation_of(copy)->user, NULL);
    sm_callback_end(before);
    sm_caller_put_back(&aside);
}

static void free_pageable_memory(struct sm_copy *copy)
{
    const struct sm_allocation *const own = sm_allocation_of(copy);
    sm_host_memory_free(own->base, own->bytes);
    sm_count_down(SM_COUNT_pageable_bytes, own->bytes);
}

static void free_pinned_memory(const struct sm_copy *copy)
{
    const struct sm_allocation *const own = sm_allocation_of(copy);
    sm_pinned_freed(own->bytes);
    sm_host_pool_free(own->base, sm_guard_room(own->bytes), own->block);
}

void sm_copy_free_idle_host(struct sm_copy *copy)
{
    sm_hands_fill();
    if (copy->source == SYNCED_MEM_SOURCE_PINNED)
        free_pinned_memory(copy);
    else
        free_pageable_memory(copy);
    sm_copy_struct_give(copy);
    sm_hands_empty(true);
}

/* Returns whether the memory can go only once all work on it has ended. Device memory is freed in stream order, and
 * borrowed memory has nothing of the library's in flight. */
static bool must_be_idle(const struct sm_copy *copy)
{
    switch ((synced_mem_source)copy->source) {
    case SYNCED_MEM_SOURCE_PAGEABLE:
    case SYNCED_MEM_SOURCE_PINNED:
    case SYNCED_MEM_SOURCE_MAPPED:
    case SYNCED_MEM_SOURCE_MANAGED:
    case SYNCED_MEM_SOURCE_ADOPTED:
    case SYNCED_MEM_SOURCE_SHAREABLE:
        return true;
    case SYNCED_MEM_SOURCE_ALLOCATOR:
        return sm_allocator_is_of_host(sm_allocation_of(copy)->allocator);
    case SYNCED_MEM_SOURCE_DEVICE:
    case SYNCED_MEM_SOURCE_BORROWED:
    case SYNCED_MEM_SOURCE_NONE:
        break;
    }
    return false;
}

/* Borrowed memory is handed back without this, as the caller knows which kernels it has launched. On a lost device no
 * kernel runs. */
synced_mem_status sm_copy_end_streamless(struct sm_copy *copy)
{
    if (copy->source == SYNCED_MEM_SOURCE_BORROWED || !copy->streamless)
        return SYNCED_MEM_OK;
    synced_mem_status status = SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    struct sm_use *const use = sm_inflight_reserve();
    if (use) { /* it is ended together with a streamless use that is open */
        struct sm_replaced replaced = {.uses = NULL};
        sm_inflight_given(copy, use, sm_stream_any(copy->device), false, &replaced);
        sm_replaced_drop(&replaced);
        status = sm_inflight_end(copy, sm_stream_any(copy->device));
    }
    if (status == SYNCED_MEM_OK)
        copy->streamless = false;
    return status == SYNCED_MEM_ERR_DEVICE_LOST ? SYNCED_MEM_OK : status;
}

const struct sm_fence *sm_copy_awaits(const struct sm_copy *copy)
{
    const struct sm_fence *const fence = must_be_idle(copy) ? sm_inflight_unfinished(copy, true) : NULL;
    return sm_fence_state(fence) == SM_FENCE_PENDING ? fence : NULL;
}

/* Memory of a lost device is gone with it. */
bool sm_copy_try_dispose(struct sm_copy *copy, bool may_block, const struct sm_fence **pending,
                         synced_mem_status *status)
{
    *pending = NULL;
    *status = SYNCED_MEM_OK;
    sm_inflight_note_strays(copy);
    (void)sm_inflight_retrack(copy);
    const synced_mem_source source = (synced_mem_source)copy->source;
    if (!copy->untracked)
        *status = sm_copy_end_streamless(copy);
    if (*status != SYNCED_MEM_OK)
        return false;
    /* No stream can wait for work that threads of the library have yet to queue. */
    if (!copy->untracked && !must_be_idle(copy) && sm_inflight_queueing(copy, true))
        return false;
    if (!copy->untracked && must_be_idle(copy) && !is_copy_idle(copy, pending, status))
        return false;
    sm_inflight_note_strays(copy); /* threads of the library may have made more strays meanwhile */
    if (copy->untracked) {
        quarantine_memory(copy);
        return true;
    }
    if (!may_block && !sm_unpin_shared(copy))
        return false;
    switch (source) {
    case SYNCED_MEM_SOURCE_DEVICE:
        *status = sm_free_device(copy);
        break;
    case SYNCED_MEM_SOURCE_PINNED:
        free_pinned_memory(copy);
        break;
    case SYNCED_MEM_SOURCE_MAPPED:
        sm_host_pool_free(sm_allocation_of(copy)->base, sm_allocation_of(copy)->bytes, sm_allocation_of(copy)->block);
        break;
    case SYNCED_MEM_SOURCE_MANAGED:
        sm_managed_pool_free(copy->device, sm_allocation_of(copy)->base, sm_allocation_of(copy)->bytes);
        break;
    case SYNCED_MEM_SOURCE_PAGEABLE:
        free_pageable_memory(copy);
        break;
    case SYNCED_MEM_SOURCE_ADOPTED:
    case SYNCED_MEM_SOURCE_SHAREABLE:
        call_release_callback(copy);
        break;
    case SYNCED_MEM_SOURCE_ALLOCATOR:
        *status = return_to_allocator(copy);
        break;
    case SYNCED_MEM_SOURCE_BORROWED:
    case SYNCED_MEM_SOURCE_NONE: /* no copy has this source */
        unpin_with_empty_hands(copy);
        break;
    }
    if (*status != SYNCED_MEM_OK && *status != SYNCED_MEM_ERR_DEVICE_LOST)
        return false;
    *status = SYNCED_MEM_OK;
    return true;
}
