/* One copy: where its memory comes from and goes to. */
#include "copy.h"

#include "allocator.h"
#include "caller.h"
#include "debug.h"
#include "flight.h"
#include "free.h"
#include "gpu.h"
#include "hands.h"
#include "host_memory.h"
#include "host_pool.h"
#include "managed_pool.h"
#include "page_lock.h"
#include "relief.h"
#include "retired.h"
#include "slab.h"
#include "spare.h"
#include "stats.h"
#include "status.h"
#include "trace.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static char nowhere;
struct sm_copy sm_no_copy = {.data = &nowhere};

static struct sm_slab copies = SM_SLAB_INITIALIZER(struct sm_copy);

static_assert(offsetof(struct sm_copy, writes) + sizeof(unsigned) <= sizeof(struct sm_copy) - sizeof(void *),
              "a free record keeps its count: the slab's link takes the last word");

/* ---- Memory ---- */

static struct sm_copy *take_copy(int device, synced_mem_source source)
{
    struct sm_copy *const copy = sm_slab_take(&copies);
    if (!copy) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no memory for a copy's record");
        return NULL;
    }
    const unsigned writes = copy->writes + 1;
    memset((char *)copy + offsetof(struct sm_copy, base), 0, sizeof *copy - offsetof(struct sm_copy, base));
    copy->device = (signed char)device;
    copy->source = (unsigned char)source;
    copy->pinned = source == SYNCED_MEM_SOURCE_PINNED || source == SYNCED_MEM_SOURCE_MAPPED;
    copy->writes = writes;
    return copy;
}

void sm_copy_give_record(struct sm_copy *copy)
{
    sm_flight_forget(copy);
    sm_slab_give(&copies, copy);
}

/* Every copy has at least one byte, so that an object of size zero has pointers too. An alignment beyond what the
 * allocator gives is made room for. */
static size_t bytes_for(size_t size, size_t alignment, size_t given)
{
    const size_t bytes = size > 0 ? size : 1;
    return alignment > given ? bytes + alignment - given : bytes;
}

static void place(struct sm_copy *copy, void *base, size_t bytes, size_t alignment)
{
    copy->base = base;
    copy->bytes = bytes;
    atomic_store_explicit(&copy->data, (char *)base + (0 - (uintptr_t)base) % alignment, memory_order_relaxed);
}

synced_mem_status sm_copy_obtain_host(size_t size, size_t alignment, int device, bool zeroed, struct sm_copy **out)
{
    const bool pinned = device >= 0;
    struct sm_copy *const copy = take_copy(device, pinned ? SYNCED_MEM_SOURCE_PINNED : SYNCED_MEM_SOURCE_PAGEABLE);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    synced_mem_status status = SYNCED_MEM_OK;
    const size_t bytes = bytes_for(size, alignment, pinned ? SM_DEVICE_ALIGNMENT : PAGE);
    const char *from = "system";
    void *base = NULL;
    if (pinned) {
        struct sm_pinned memory = {.data = NULL};
        status = sm_host_pool_alloc(device, sm_debug_room(bytes), &memory);
        base = memory.data;
        copy->owner = memory.owner;
        from = memory.fresh ? "runtime" : "pool";
    } else {
        base = sm_host_memory_alloc(bytes, alignment < PAGE ? alignment : PAGE, zeroed);
        if (!base)
            status = sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for %zu bytes", bytes);
    }
    if (status != SYNCED_MEM_OK) {
        sm_copy_give_record(copy);
        return sm_relief_note(status, -1, bytes);
    }
    place(copy, base, bytes, alignment);
    if (pinned && zeroed)
        memset(sm_copy_data(copy), 0, size);
    sm_count_up(SM_COUNT_host_allocations, 1);
    if (!pinned)
        sm_count_up(SM_COUNT_pageable_bytes, bytes);
    sm_trace_allocation(copy, from);
    *out = copy;
    return SYNCED_MEM_OK;
}

static synced_mem_status obtain_fresh(const struct sm_stream *stream, size_t bytes, struct sm_copy **out)
{
    struct sm_copy *const copy = take_copy(stream->device, SYNCED_MEM_SOURCE_DEVICE);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const synced_mem_status status = sm_device_alloc(stream->device, bytes, stream->handle, &copy->base);
    if (status != SYNCED_MEM_OK) {
        sm_copy_give_record(copy);
        return sm_relief_note(status, stream->device, bytes);
    }
    *out = copy;
    return SYNCED_MEM_OK;
}

/* A later call tries to let go of what is no longer kept. */
static struct sm_copy *take_spare(const struct sm_stream *stream, size_t bytes)
{
    struct sm_copy *gone;
    bool looked;
    sm_hands_fill();
    struct sm_copy *const copy = sm_spare_take(stream, bytes, &gone, &looked);
    while (gone) {
        struct sm_copy *const next = gone->next;
        sm_retired_add(gone);
        gone = next;
    }
    sm_hands_empty(looked);
    return copy;
}

synced_mem_status sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *stream,
                                        struct sm_copy **out)
{
    const size_t bytes = bytes_for(size, alignment, SM_DEVICE_ALIGNMENT);
    struct sm_copy *copy = take_spare(stream, bytes);
    const bool spare = copy != NULL;
    const synced_mem_status status = spare ? SYNCED_MEM_OK : obtain_fresh(stream, bytes, &copy);
    if (status != SYNCED_MEM_OK)
        return status;
    place(copy, copy->base, bytes, alignment);
    copy->is_spare = false;
    copy->given = 0;
    copy->arrivals = 0;
    sm_gpu_obtained(stream->device, bytes);
    if (sm_trace_on()) {
        const char *const fresh = sm_device_frees_in_order(stream->device) ? "pool" : "runtime";
        sm_trace_write_allocation(copy, spare ? "spare" : fresh);
    }
    *out = copy;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_obtain_from(const struct sm_allocator *allocator, size_t size, size_t alignment, int device,
                                      synced_mem_stream stream, struct sm_copy **out)
{
    const struct sm_request request = {
        .size = size > 0 ? size : 1, .alignment = alignment, .device = device, .stream = stream};
    struct sm_copy *const copy = take_copy(device, SYNCED_MEM_SOURCE_ALLOCATOR);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    void *data;
    bool pinned = false;
    const synced_mem_status status = sm_allocator_take(allocator, &request, &data, &pinned);
    if (status != SYNCED_MEM_OK) {
        sm_copy_give_record(copy);
        return sm_relief_note(status, sm_allocator_is_of_host(allocator) ? -1 : device, request.size);
    }
    place(copy, data, request.size, 1);
    copy->pinned = pinned;
    copy->allocator = allocator;
    copy->alignment = alignment;
    sm_trace_allocation(copy, "allocator");
    *out = copy;
    return SYNCED_MEM_OK;
}

static synced_mem_status alloc_mapped(int device, size_t bytes, struct sm_copy *copy, void **out)
{
    struct sm_pinned memory;
    synced_mem_status status = sm_host_pool_alloc(device, bytes, &memory);
    if (status != SYNCED_MEM_OK)
        return status;
    status = sm_device_check_mapped(device, memory.data);
    if (status != SYNCED_MEM_OK)
        sm_host_pool_free(memory.data, bytes, memory.owner);
    *out = memory.data;
    copy->owner = memory.owner;
    return status;
}

synced_mem_status sm_copy_obtain_shared(size_t size, size_t alignment, int device, bool managed, bool zeroed,
                                        struct sm_copy **out)
{
    struct sm_copy *const copy = take_copy(device, managed ? SYNCED_MEM_SOURCE_MANAGED : SYNCED_MEM_SOURCE_MAPPED);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const size_t bytes = bytes_for(size, alignment, SM_DEVICE_ALIGNMENT);
    void *base;
    const synced_mem_status status =
        managed ? sm_managed_pool_alloc(device, bytes, &base) : alloc_mapped(device, bytes, copy, &base);
    if (status != SYNCED_MEM_OK) {
        sm_copy_give_record(copy);
        return sm_relief_note(status, managed ? device : -1, bytes);
    }
    place(copy, base, bytes, alignment);
    if (zeroed)
        memset(sm_copy_data(copy), 0, size);
    sm_count_up(SM_COUNT_host_allocations, 1);
    sm_trace_allocation(copy, "pool");
    *out = copy;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_wrap(void *data, size_t size, int device, synced_mem_release_callback callback, void *user,
                               struct sm_copy **out)
{
    struct sm_copy *const copy = take_copy(device, callback ? SYNCED_MEM_SOURCE_ADOPTED : SYNCED_MEM_SOURCE_BORROWED);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    place(copy, data, size, 1);
    copy->callback = callback;
    copy->user = user;
    *out = copy;
    return SYNCED_MEM_OK;
}

void sm_copy_unwrap(struct sm_copy *copy)
{
    if (!copy)
        return;
    sm_page_unlock(copy);
    sm_copy_give_record(copy);
}

/* ---- Letting go ---- */

/* Whether all work on the copy has ended. A device that is lost runs nothing any more. */
static bool is_idle(struct sm_copy *copy, synced_mem_status *status)
{
    *status = sm_flight_settle(copy, true, NULL);
    if (*status != SYNCED_MEM_OK)
        return *status == SYNCED_MEM_ERR_DEVICE_LOST;
    struct sm_ticket *ticket;
    while ((ticket = sm_flight_blocker(copy, true)) != NULL)
        if (sm_ticket_pending(ticket))
            return false;
    return true;
}

/* Not before the library's threads have queued what they have to: only then can a stream wait for it. */
static bool is_queueing(const struct sm_copy *copy)
{
    return sm_flight_queueing(copy, true) != NULL;
}

static void quarantine(struct sm_copy *copy)
{
    sm_debug_forget(copy);
    sm_count_up(SM_COUNT_quarantined, 1);
}

void sm_copy_quarantine(struct sm_copy *copy)
{
    quarantine(copy);
    sm_copy_give_record(copy);
}

/* To the allocator that it came from; with a lost device all work on the memory has ended. */
static synced_mem_status give_back(struct sm_copy *copy)
{
    struct sm_stream *stream = NULL;
    const bool on_device = !sm_allocator_is_of_host(copy->allocator);
    const synced_mem_status status = on_device ? sm_free_order(copy, &stream) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return status;
    const struct sm_request request = {.size = copy->bytes,
                                       .alignment = copy->alignment,
                                       .device = copy->device,
                                       .stream = on_device && status == SYNCED_MEM_OK ? stream->handle : NULL};
    const bool before = sm_retired_begin_callback();
    sm_allocator_give(copy->allocator, &request, copy->base);
    sm_retired_end_callback(before);
    return status;
}

static void hand_over(struct sm_copy *copy)
{
    sm_page_unlock(copy);
    const struct sm_caller caller = sm_caller_put_aside();
    const bool before = sm_retired_begin_callback();
    copy->callback(sm_copy_data(copy), copy->user, NULL);
    sm_retired_end_callback(before);
    sm_caller_put_back(caller);
}

static void free_pageable(struct sm_copy *copy)
{
    sm_host_memory_free(copy->base, copy->bytes);
    sm_count_down(SM_COUNT_pageable_bytes, copy->bytes);
}

/* Device memory is freed in stream order, and what was borrowed has nothing in flight. */
static bool must_be_idle(const struct sm_copy *copy)
{
    switch ((synced_mem_source)copy->source) {
    case SYNCED_MEM_SOURCE_PAGEABLE:
    case SYNCED_MEM_SOURCE_PINNED:
    case SYNCED_MEM_SOURCE_MAPPED:
    case SYNCED_MEM_SOURCE_MANAGED:
    case SYNCED_MEM_SOURCE_ADOPTED:
        return true;
    case SYNCED_MEM_SOURCE_ALLOCATOR:
        return sm_allocator_is_of_host(copy->allocator);
    case SYNCED_MEM_SOURCE_DEVICE:
    case SYNCED_MEM_SOURCE_BORROWED:
    case SYNCED_MEM_SOURCE_NONE:
        break;
    }
    return false;
}

/* Nothing is entered before there is a ticket: an open use would have every later call record an event. One that is open
 * is as good: whoever conflicts with it ends it. */
synced_mem_status sm_copy_track_streamless(struct sm_copy *copy)
{
    if (!copy->streamless)
        return SYNCED_MEM_OK;
    struct sm_stream *const any = sm_stream_any(copy->device);
    if (sm_flight_has(copy, any, true) || sm_flight_has(copy, any, false))
        return SYNCED_MEM_OK;
    struct sm_ticket *ticket = NULL;
    struct sm_use *const use = sm_flight_reserve();
    const synced_mem_status status = use ? sm_stream_end_use(any, &ticket) : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (status == SYNCED_MEM_OK)
        sm_flight_used(copy, use, ticket);
    else
        free(use);
    return status;
}

/* An open use is ended with it. */
static synced_mem_status end_streamless(struct sm_copy *copy)
{
    struct sm_use *const use = copy->streamless ? sm_flight_reserve() : NULL;
    if (!use)
        return copy->streamless ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_OK;
    sm_flight_given(copy, use, sm_stream_any(copy->device), false);
    return sm_flight_end(copy, sm_stream_any(copy->device));
}

/* Borrowed memory is handed back all the same, as the caller knows of the kernels that he launched; and on a lost device
 * none runs any more. */
synced_mem_status sm_copy_end_streamless(struct sm_copy *copy)
{
    if (copy->source == SYNCED_MEM_SOURCE_BORROWED)
        return SYNCED_MEM_OK;
    const synced_mem_status status = end_streamless(copy);
    if (status == SYNCED_MEM_OK)
        copy->streamless = false;
    return status == SYNCED_MEM_ERR_DEVICE_LOST ? SYNCED_MEM_OK : status;
}

/* Memory of a lost device went with it. */
bool sm_copy_try_dispose(struct sm_copy *copy, synced_mem_status *status)
{
    *status = SYNCED_MEM_OK;
    sm_flight_note_strays(copy);
    (void)sm_flight_retrack(copy);
    const synced_mem_source source = (synced_mem_source)copy->source;
    if (!copy->untracked)
        *status = sm_copy_end_streamless(copy);
    if (*status != SYNCED_MEM_OK)
        return false;
    if (!copy->untracked && !must_be_idle(copy) && is_queueing(copy))
        return false;
    if (!copy->untracked && must_be_idle(copy) && !is_idle(copy, status))
        return false;
    sm_flight_note_strays(copy); /* of the library's threads, which have gone on meanwhile */
    if (copy->untracked) {
        quarantine(copy);
        return true;
    }
    switch (source) {
    case SYNCED_MEM_SOURCE_DEVICE:
        *status = sm_free_device(copy);
        break;
    case SYNCED_MEM_SOURCE_PINNED:
        sm_host_pool_free(copy->base, sm_debug_room(copy->bytes), copy->owner);
        break;
    case SYNCED_MEM_SOURCE_MAPPED:
        sm_host_pool_free(copy->base, copy->bytes, copy->owner);
        break;
    case SYNCED_MEM_SOURCE_MANAGED:
        sm_managed_pool_free(copy->device, copy->base, copy->bytes);
        break;
    case SYNCED_MEM_SOURCE_PAGEABLE:
        free_pageable(copy);
        break;
    case SYNCED_MEM_SOURCE_ADOPTED:
        hand_over(copy);
        break;
    case SYNCED_MEM_SOURCE_ALLOCATOR:
        *status = give_back(copy);
        break;
    case SYNCED_MEM_SOURCE_BORROWED:
    case SYNCED_MEM_SOURCE_NONE: /* which no copy is from */
        sm_page_unlock(copy);
        break;
    }
    if (*status != SYNCED_MEM_OK && *status != SYNCED_MEM_ERR_DEVICE_LOST)
        return false;
    *status = SYNCED_MEM_OK;
    return true;
}

/* Device memory is kept. Answers what is to be freed, linked: the copy, or those that have been kept for longest. */
static struct sm_copy *keep_or_free(struct sm_copy *copy)
{
    if (copy->source != SYNCED_MEM_SOURCE_DEVICE || is_queueing(copy))
        return copy;
    sm_flight_note_strays(copy);
    if (copy->untracked || sm_copy_end_streamless(copy) != SYNCED_MEM_OK)
        return copy;
    sm_gpu_freed(copy->device, copy->bytes);
    copy->is_spare = true;
    return sm_spare_keep(copy);
}

static synced_mem_status retire(struct sm_copy *copy)
{
    synced_mem_status status = SYNCED_MEM_OK;
    if (!sm_retired_is_for_later(copy) && sm_copy_try_dispose(copy, &status))
        sm_copy_give_record(copy);
    else
        sm_retired_add(copy);
    return status;
}

/* The same for all that are linked. */
static synced_mem_status retire_all(struct sm_copy *copy)
{
    synced_mem_status first = SYNCED_MEM_OK;
    while (copy) {
        struct sm_copy *const next = copy->next;
        const synced_mem_status status = retire(copy);
        first = first != SYNCED_MEM_OK ? first : status;
        copy = next;
    }
    return first;
}

void sm_copy_retire(struct sm_copy *copy)
{
    if (!copy)
        return;
    sm_debug_forget(copy);
    copy->arriving = false; /* nobody asks for the contents any more */
    sm_hands_fill();
    (void)retire_all(keep_or_free(copy));
    sm_hands_empty(true);
}

static synced_mem_status free_spares(int device)
{
    sm_hands_fill();
    struct sm_copy *const all = sm_spare_take_all(device);
    const synced_mem_status status = retire_all(all);
    sm_hands_empty(all != NULL);
    return status;
}

synced_mem_status sm_copy_free_spares(int device)
{
    synced_mem_status first = device >= 0 ? free_spares(device) : SYNCED_MEM_OK;
    for (int each = 0; device < 0 && each < SM_MAX_DEVICES; each++) {
        const synced_mem_status status = free_spares(each);
        first = first != SYNCED_MEM_OK ? first : status;
    }
    return first;
}

void sm_copy_trim(void)
{
    sm_slab_trim(&copies);
}
