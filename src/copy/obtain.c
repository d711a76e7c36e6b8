/* Obtaining the memory of copies. */
#include "memory/accounting.h"
#include "memory/allocator.h"
#include "memory/budget.h"
#include "copy/copy.h"
#include "memory/guard.h"
#include "base/hands.h"
#include "memory/host_memory.h"
#include "memory/pinned/host_pool.h"
#include "memory/managed_pool.h"
#include "copy/pin.h"
#include "base/refusal.h"
#include "copy/retired.h"
#include "copy/device_cache.h"
#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

#include <stdint.h>
#include <string.h>

/* No system has smaller pages. */
enum { LEAST_PAGE = 4096 };

/* Returns the struct of new memory. */
static struct sm_copy *take_struct(int device, synced_mem_source source)
{
    struct sm_copy *const copy = sm_copy_struct_take(device, source);
    if (copy)
        copy->given = sm_copy_first_given();
    return copy;
}

/* Returns how many bytes to allocate. Every copy has at least one byte, so an object of size zero has pointers too. An
 * alignment above the allocator's own adds room. */
static size_t compute_allocation_size(size_t size, size_t alignment, size_t given)
{
    const size_t bytes = size > 0 ? size : 1;
    return alignment > given ? bytes + alignment - given : bytes;
}

static void set_allocation(struct sm_copy *copy, void *base, size_t bytes, size_t alignment)
{
    sm_allocation_of(copy)->base = base;
    sm_allocation_of(copy)->bytes = bytes;
    atomic_store_explicit(&copy->data, (char *)base + (0 - (uintptr_t)base) % alignment, memory_order_relaxed);
}

/* from: where the memory came from, in the trace's words. */
static void trace_allocation(const struct sm_copy *copy, const char *from)
{
    sm_trace_allocation(sm_allocation_of(copy)->bytes, copy->device, copy->source, from);
}

size_t sm_copy_host_bytes(size_t size, size_t alignment)
{
    return compute_allocation_size(size, alignment, SM_DEVICE_ALIGNMENT);
}

/* Does not count the memory. *from: where it came from, in the trace's words. */
static synced_mem_status obtain_host(size_t size, size_t alignment, int device, bool zeroed, const char **from,
                                     struct sm_copy **out)
{
    const bool pinned = device >= 0;
    struct sm_copy *const copy = take_struct(device, pinned ? SYNCED_MEM_SOURCE_PINNED : SYNCED_MEM_SOURCE_PAGEABLE);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    synced_mem_status status = SYNCED_MEM_OK;
    const size_t bytes = compute_allocation_size(size, alignment, pinned ? SM_DEVICE_ALIGNMENT : LEAST_PAGE);
    void *base = NULL;
    *from = "system";
    if (pinned) {
        struct sm_pinned memory = {.data = NULL};
        status = sm_host_pool_alloc(device, sm_guard_room(bytes), &memory);
        base = memory.data;
        sm_allocation_of(copy)->block = memory.block;
        *from = memory.fresh ? "runtime" : "pool";
    } else {
        base = sm_host_memory_alloc(bytes, alignment < LEAST_PAGE ? alignment : LEAST_PAGE, zeroed);
        if (!base)
            status = sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for %zu bytes", bytes);
    }
    if (status != SYNCED_MEM_OK) {
        sm_copy_struct_give(copy);
        return sm_refusal_note(status, -1, bytes);
    }
    set_allocation(copy, base, bytes, alignment);
    if (pinned && zeroed)
        memset(sm_copy_data(copy), 0, size);
    *out = copy;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_obtain_host(size_t size, size_t alignment, int device, bool zeroed, struct sm_member *member,
                                      struct sm_copy **out)
{
    const bool pinned = device >= 0;
    const size_t bytes = compute_allocation_size(size, alignment, pinned ? SM_DEVICE_ALIGNMENT : LEAST_PAGE);
    const bool claims = sm_host_budget_on();
    const char *from;
    if (claims)
        SM_TRY(sm_refusal_note(sm_budget_claim(SM_BUDGET_HOST, bytes, member), -1, bytes));
    const synced_mem_status status = obtain_host(size, alignment, device, zeroed, &from, out);
    if (status != SYNCED_MEM_OK) {
        if (claims)
            sm_budget_unclaim(SM_BUDGET_HOST, bytes, member);
        return status;
    }
    sm_count_up(SM_COUNT_host_allocations, 1);
    if (claims)
        sm_budget_obtained_on_host(bytes, pinned, member);
    else
        sm_host_obtained(bytes, pinned);
    trace_allocation(*out, from);
    return SYNCED_MEM_OK;
}

static synced_mem_status obtain_fresh_copy(const struct sm_stream *stream, size_t bytes, struct sm_copy **out)
{
    struct sm_copy *const copy = take_struct(stream->device, SYNCED_MEM_SOURCE_DEVICE);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const synced_mem_status status =
        sm_device_alloc(stream->device, bytes, stream->handle, &sm_allocation_of(copy)->base);
    if (status != SYNCED_MEM_OK) {
        sm_copy_struct_give(copy);
        return sm_refusal_note(status, stream->device, bytes);
    }
    *out = copy;
    return SYNCED_MEM_OK;
}

/* Takes cached memory. Copies that the cache no longer keeps go into the retired list, where a later call disposes of
 * them. */
static struct sm_copy *take_cached_copy(const struct sm_stream *stream, size_t bytes)
{
    struct sm_copy *gone;
    bool examined;
    sm_hands_fill();
    struct sm_copy *const copy = sm_device_cache_take(stream, bytes, &gone, &examined);
    while (gone) {
        struct sm_copy *const next = sm_allocation_of(gone)->next;
        sm_retired_add(gone);
        gone = next;
    }
    sm_hands_empty(examined);
    return copy;
}

size_t sm_copy_device_bytes(size_t size, size_t alignment)
{
    return compute_allocation_size(size, alignment, SM_DEVICE_ALIGNMENT);
}

static synced_mem_status obtain_fresh_within_budget(const struct sm_stream *stream, size_t bytes,
                                                    struct sm_member *member, struct sm_copy **out)
{
    const int device = stream->device;
    const bool claims = sm_budget_on();
    if (claims)
        SM_TRY(sm_refusal_note(sm_budget_claim(device, bytes, member), device, bytes));
    const synced_mem_status status = obtain_fresh_copy(stream, bytes, out);
    if (status != SYNCED_MEM_OK) {
        if (claims)
            sm_budget_unclaim(device, bytes, member);
        return status;
    }
    if (claims)
        sm_budget_obtained(device, bytes, member);
    else
        sm_gpu_obtained(device, bytes);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *stream,
                                        struct sm_member *member, struct sm_copy **out)
{
    const size_t bytes = sm_copy_device_bytes(size, alignment);
    struct sm_copy *copy = take_cached_copy(stream, bytes);
    const bool cached = copy != NULL;
    if (cached && sm_budget_on())
        sm_budget_reused(stream->device, bytes, member);
    else if (cached)
        sm_gpu_reused(stream->device, bytes);
    else
        SM_TRY(obtain_fresh_within_budget(stream, bytes, member, &copy));
    set_allocation(copy, sm_allocation_of(copy)->base, bytes, alignment);
    sm_allocation_of(copy)->is_cached = false;
    copy->given = sm_copy_first_given();
    copy->arrivals = 0;
    if (sm_trace_on()) {
        const char *const fresh = sm_device_frees_in_order(stream->device) ? "pool" : "runtime";
        trace_allocation(copy, cached ? "spare" : fresh);
    }
    *out = copy;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_obtain_from(const struct sm_allocator *allocator, size_t size, size_t alignment, int device,
                                      synced_mem_stream stream, struct sm_copy **out)
{
    const struct sm_request request = {
        .size = size > 0 ? size : 1, .alignment = alignment, .device = device, .stream = stream};
    struct sm_copy *const copy = take_struct(device, SYNCED_MEM_SOURCE_ALLOCATOR);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    void *data;
    bool pinned = false;
    const synced_mem_status status = sm_allocator_take(allocator, &request, &data, &pinned);
    if (status != SYNCED_MEM_OK) {
        sm_copy_struct_give(copy);
        return sm_refusal_note(status, sm_allocator_is_of_host(allocator) ? -1 : device, request.size);
    }
    set_allocation(copy, data, request.size, 1);
    copy->pinned = pinned;
    sm_allocation_of(copy)->allocator = allocator;
    sm_allocation_of(copy)->alignment = alignment;
    trace_allocation(copy, "allocator");
    *out = copy;
    return SYNCED_MEM_OK;
}

static synced_mem_status alloc_mapped_memory(int device, size_t bytes, struct sm_copy *copy, void **out)
{
    struct sm_pinned memory;
    SM_TRY(sm_host_pool_alloc(device, bytes, &memory));
    synced_mem_status status = sm_device_check_mapped(device, memory.data);
    if (status != SYNCED_MEM_OK)
        sm_host_pool_free(memory.data, bytes, memory.block);
    *out = memory.data;
    sm_allocation_of(copy)->block = memory.block;
    return status;
}

synced_mem_status sm_copy_obtain_shared(size_t size, size_t alignment, int device, bool managed, bool zeroed,
                                        struct sm_copy **out)
{
    struct sm_copy *const copy = take_struct(device, managed ? SYNCED_MEM_SOURCE_MANAGED : SYNCED_MEM_SOURCE_MAPPED);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const size_t bytes = compute_allocation_size(size, alignment, SM_DEVICE_ALIGNMENT);
    void *base;
    const synced_mem_status status =
        managed ? sm_managed_pool_alloc(device, bytes, &base) : alloc_mapped_memory(device, bytes, copy, &base);
    if (status != SYNCED_MEM_OK) {
        sm_copy_struct_give(copy);
        return sm_refusal_note(status, managed ? device : -1, bytes);
    }
    set_allocation(copy, base, bytes, alignment);
    if (zeroed)
        memset(sm_copy_data(copy), 0, size);
    sm_count_up(SM_COUNT_host_allocations, 1);
    trace_allocation(copy, "pool");
    *out = copy;
    return SYNCED_MEM_OK;
}

static synced_mem_status wrap_memory(void *data, size_t size, int device, synced_mem_source source,
                                     synced_mem_release_callback callback, void *user, struct sm_copy **out)
{
    struct sm_copy *const copy = take_struct(device, source);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    set_allocation(copy, data, size, 1);
    sm_allocation_of(copy)->callback = callback;
    sm_allocation_of(copy)->user = user;
    *out = copy;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_wrap(void *data, size_t size, int device, synced_mem_release_callback callback, void *user,
                               struct sm_copy **out)
{
    return wrap_memory(data, size, device, callback ? SYNCED_MEM_SOURCE_ADOPTED : SYNCED_MEM_SOURCE_BORROWED, callback,
                       user, out);
}

synced_mem_status sm_copy_wrap_shareable(void *data, size_t size, int device, synced_mem_release_callback callback,
                                         void *user, struct sm_copy **out)
{
    return wrap_memory(data, size, device, SYNCED_MEM_SOURCE_SHAREABLE, callback, user, out);
}

void sm_copy_unwrap(struct sm_copy *copy)
{
    if (!copy)
        return;
    sm_unpin(copy);
    sm_copy_struct_give(copy);
}
