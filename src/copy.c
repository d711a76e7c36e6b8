/* One copy: where its memory comes from and goes to, and the work in flight on it. */
#include "copy.h"

#include "host_memory.h"
#include "slab.h"
#include "stats.h"
#include "status.h"

#include <stdint.h>
#include <string.h>

enum { PAGE = 4096 };

static struct sm_slab copies = SM_SLAB_INITIALIZER(struct sm_copy);

/* Copies that were let go of while work on them was in flight. */
static struct {
    pthread_mutex_t lock;
    struct sm_copy *first;
} retired = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Memory ---- */

static struct sm_copy *take_copy(int device, synced_mem_source source)
{
    struct sm_copy *const copy = sm_slab_take(&copies);
    if (copy)
        *copy = (struct sm_copy){.device = device, .source = (unsigned char)source};
    else
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no memory for a copy's record");
    return copy;
}

/* All work in flight on a copy, what writes it first. */
enum { WRITERS = 2, TICKETS = WRITERS + 1 + SM_READS };

static struct sm_ticket **ticket_of(struct sm_copy *copy, int i)
{
    struct sm_ticket **const slots[WRITERS + 1] = {&copy->write, &copy->turn, &copy->read_turn};
    return i <= WRITERS ? slots[i] : &copy->reads[i - WRITERS - 1];
}

static void replace(struct sm_ticket **slot, struct sm_ticket *ticket)
{
    sm_ticket_drop(*slot);
    *slot = ticket;
}

static void give_copy(struct sm_copy *copy)
{
    for (int i = 0; i < TICKETS; i++)
        replace(ticket_of(copy, i), NULL);
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
    copy->data = (char *)base + (0 - (uintptr_t)base) % alignment;
}

synced_mem_status sm_copy_obtain_host(size_t size, size_t alignment, int device, bool zeroed, struct sm_copy **out)
{
    const bool pinned = device >= 0;
    struct sm_copy *const copy = take_copy(device, pinned ? SYNCED_MEM_SOURCE_PINNED : SYNCED_MEM_SOURCE_PAGEABLE);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    synced_mem_status status = SYNCED_MEM_OK;
    const size_t bytes = bytes_for(size, alignment, pinned ? SM_DEVICE_ALIGNMENT : PAGE);
    void *base = NULL;
    if (pinned) {
        status = sm_device_pinned_alloc(device, bytes, &base);
    } else {
        base = sm_host_memory_alloc(bytes, alignment < PAGE ? alignment : PAGE, zeroed);
        if (!base)
            status = sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for %zu bytes", bytes);
    }
    if (status != SYNCED_MEM_OK) {
        give_copy(copy);
        return status;
    }
    place(copy, base, bytes, alignment);
    if (pinned && zeroed)
        memset(copy->data, 0, size);
    sm_count_up(SM_COUNT_host_allocations, 1);
    sm_count_up(pinned ? SM_COUNT_pinned_bytes : SM_COUNT_pageable_bytes, bytes);
    *out = copy;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_copy_obtain_device(size_t size, size_t alignment, int device, sm_stream stream,
                                        struct sm_copy **out)
{
    struct sm_copy *const copy = take_copy(device, SYNCED_MEM_SOURCE_DEVICE);
    if (!copy)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const size_t bytes = bytes_for(size, alignment, SM_DEVICE_ALIGNMENT);
    void *base;
    const synced_mem_status status = sm_device_alloc(device, bytes, stream, &base);
    if (status != SYNCED_MEM_OK) {
        give_copy(copy);
        return status;
    }
    place(copy, base, bytes, alignment);
    sm_count_up(SM_COUNT_gpu_allocations, 1);
    sm_count_up(SM_COUNT_gpu_bytes, bytes);
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
    if (copy)
        give_copy(copy);
}

/* ---- Letting go ---- */

/* Whether all work on the copy has ended. A device that is lost runs nothing any more. */
static bool is_idle(struct sm_copy *copy, synced_mem_status *status)
{
    *status = sm_copy_settle(copy, true);
    if (*status != SYNCED_MEM_OK)
        return *status == SYNCED_MEM_ERR_DEVICE_LOST;
    bool pending = false;
    for (int i = 0; i < TICKETS && !pending; i++)
        pending = sm_ticket_pending(*ticket_of(copy, i));
    return !pending;
}

static synced_mem_status free_device(struct sm_copy *copy)
{
    sm_stream stream;
    synced_mem_status status = sm_device_lane(copy->device, SM_LANE_FREE, &stream);
    if (status == SYNCED_MEM_OK)
        status = sm_copy_order(copy, true, copy->device, stream);
    if (status == SYNCED_MEM_OK)
        status = sm_device_free(copy->device, copy->base, stream);
    if (status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_DEVICE_LOST)
        sm_count_down(SM_COUNT_gpu_bytes, copy->bytes);
    return status;
}

static synced_mem_status free_pinned(struct sm_copy *copy)
{
    const synced_mem_status status = sm_device_pinned_free(copy->device, copy->base);
    if (status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_DEVICE_LOST)
        sm_count_down(SM_COUNT_pinned_bytes, copy->bytes);
    return status;
}

void sm_copy_quarantine(struct sm_copy *copy)
{
    sm_count_up(SM_COUNT_quarantined, 1);
    give_copy(copy);
}

static void hand_over(struct sm_copy *copy)
{
    copy->callback(copy->data, copy->user, NULL);
}

static void free_pageable(struct sm_copy *copy)
{
    sm_host_memory_free(copy->base, copy->bytes);
    sm_count_down(SM_COUNT_pageable_bytes, copy->bytes);
}

/* True: the copy is gone. False: not yet, as work on it is pending, or for the reason in status. Memory of a lost
 * device went with it. */
static bool try_dispose(struct sm_copy *copy, synced_mem_status *status)
{
    *status = SYNCED_MEM_OK;
    (void)sm_copy_retrack(copy);
    if (copy->untracked) {
        sm_copy_quarantine(copy);
        return true;
    }
    const synced_mem_source source = (synced_mem_source)copy->source;
    if (source != SYNCED_MEM_SOURCE_DEVICE && source != SYNCED_MEM_SOURCE_BORROWED && !is_idle(copy, status))
        return false;
    switch (source) {
    case SYNCED_MEM_SOURCE_DEVICE:
        *status = free_device(copy);
        break;
    case SYNCED_MEM_SOURCE_PINNED:
        *status = free_pinned(copy);
        break;
    case SYNCED_MEM_SOURCE_PAGEABLE:
        free_pageable(copy);
        break;
    case SYNCED_MEM_SOURCE_ADOPTED:
        hand_over(copy);
        break;
    case SYNCED_MEM_SOURCE_BORROWED:
    case SYNCED_MEM_SOURCE_NONE:
        break;
    }
    if (*status != SYNCED_MEM_OK && *status != SYNCED_MEM_ERR_DEVICE_LOST)
        return false;
    *status = SYNCED_MEM_OK;
    give_copy(copy);
    return true;
}

static synced_mem_status retire(struct sm_copy *copy)
{
    synced_mem_status status;
    if (try_dispose(copy, &status))
        return SYNCED_MEM_OK;
    sm_count_up(SM_COUNT_retired, 1);
    pthread_mutex_lock(&retired.lock);
    copy->next = retired.first;
    retired.first = copy;
    pthread_mutex_unlock(&retired.lock);
    return status;
}

void sm_copy_retire(struct sm_copy *copy)
{
    if (copy)
        (void)retire(copy);
}

static struct sm_copy *take_retired(void)
{
    pthread_mutex_lock(&retired.lock);
    struct sm_copy *const first = retired.first;
    retired.first = NULL;
    pthread_mutex_unlock(&retired.lock);
    return first;
}

static synced_mem_status wait_for(struct sm_copy *copy)
{
    copy->arriving = false; /* nobody asks for the contents any more */
    synced_mem_status status = sm_copy_settle(copy, true);
    struct sm_ticket *ticket;
    while (status == SYNCED_MEM_OK && (ticket = sm_copy_blocker(copy, true)) != NULL) {
        status = sm_ticket_wait(ticket);
        if (status == SYNCED_MEM_ERR_DEVICE_LOST)
            status = SYNCED_MEM_OK;
    }
    return status == SYNCED_MEM_ERR_DEVICE_LOST ? SYNCED_MEM_OK : status;
}

synced_mem_status sm_copy_reap(bool wait)
{
    synced_mem_status first = SYNCED_MEM_OK;
    if (sm_count_of(SM_COUNT_retired) == 0)
        return SYNCED_MEM_OK;
    struct sm_copy *copy = take_retired();
    while (copy) {
        struct sm_copy *const next = copy->next;
        const synced_mem_status waited = wait ? wait_for(copy) : SYNCED_MEM_OK;
        sm_count_down(SM_COUNT_retired, 1);
        const synced_mem_status status = retire(copy);
        if (first == SYNCED_MEM_OK)
            first = waited != SYNCED_MEM_OK ? waited : status;
        copy = next;
    }
    return wait ? first : SYNCED_MEM_OK;
}

void sm_copy_trim(void)
{
    sm_slab_trim(&copies);
}

/* ---- Work in flight ---- */

/* The ticket covers all that the caller has launched with the pointer so far. Each turn has a slot of its own: its
 * tickets are all of the legacy stream, so that the latest stands for all. */
synced_mem_status sm_copy_settle(struct sm_copy *copy, bool conflicting)
{
    if (!(copy->handed & SM_HANDED_WRITE) && !(conflicting && copy->handed))
        return SYNCED_MEM_OK;
    struct sm_ticket *ticket;
    const synced_mem_status status = sm_ticket_record(copy->device, NULL, &ticket);
    if (status != SYNCED_MEM_OK)
        return status;
    replace(copy->handed & SM_HANDED_WRITE ? &copy->turn : &copy->read_turn, ticket);
    copy->handed = conflicting ? 0 : copy->handed & SM_HANDED_READ;
    return SYNCED_MEM_OK;
}

/* Lost work is over, but contents that were to arrive with it have not come. */
static bool blocks(const struct sm_copy *copy, const struct sm_ticket *ticket)
{
    switch (sm_ticket_state(ticket)) {
    case SM_TICKET_PENDING:
        return true;
    case SM_TICKET_LOST:
        return copy->arriving && ticket == copy->write;
    case SM_TICKET_DONE:
        break;
    }
    return false;
}

struct sm_ticket *sm_copy_blocker(struct sm_copy *copy, bool conflicting)
{
    for (int i = 0; i < (conflicting ? TICKETS : WRITERS); i++) {
        struct sm_ticket *const ticket = *ticket_of(copy, i);
        if (blocks(copy, ticket))
            return ticket;
    }
    return NULL;
}

struct sm_ticket *sm_copy_transfer_on(struct sm_copy *copy)
{
    if (blocks(copy, copy->write))
        return copy->write;
    for (int i = 0; i < SM_READS; i++)
        if (blocks(copy, copy->reads[i]))
            return copy->reads[i];
    return NULL;
}

void sm_copy_untrack(struct sm_copy *copy, enum sm_untracked how, int device, sm_stream stream)
{
    const sm_stream lane = sm_device_is_lane(device, stream) ? stream : NULL;
    const bool elsewhere = copy->untracked && copy->untracked_on != lane; /* no one event can cover both */
    copy->untracked_on = elsewhere ? NULL : lane;
    copy->untracked_device = device;
    if (copy->untracked < how)
        copy->untracked = (unsigned char)how;
}

/* The ticket comes after all that is known of, so that it can stand for everything. */
synced_mem_status sm_copy_retrack(struct sm_copy *copy)
{
    struct sm_ticket *ticket = NULL;
    if (!copy->untracked || !copy->untracked_on)
        return SYNCED_MEM_OK;
    synced_mem_status status = sm_copy_order(copy, true, copy->untracked_device, copy->untracked_on);
    if (status == SYNCED_MEM_OK)
        status = sm_ticket_record(copy->untracked_device, copy->untracked_on, &ticket);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return status;
    if (ticket)
        sm_copy_written(copy, ticket);
    copy->untracked = SM_TRACKED;
    return SYNCED_MEM_OK;
}

void sm_copy_prune(struct sm_copy *copy)
{
    copy->arriving = copy->arriving && blocks(copy, copy->write);
    for (int i = 0; i < TICKETS; i++)
        if (!blocks(copy, *ticket_of(copy, i)))
            replace(ticket_of(copy, i), NULL);
}

synced_mem_status sm_copy_order(struct sm_copy *copy, bool conflicting, int device, sm_stream stream)
{
    synced_mem_status status = sm_copy_settle(copy, conflicting);
    for (int i = 0; i < (conflicting ? TICKETS : WRITERS) && status == SYNCED_MEM_OK; i++)
        status = sm_ticket_order(*ticket_of(copy, i), device, stream);
    return status;
}

void sm_copy_written(struct sm_copy *copy, struct sm_ticket *ticket)
{
    for (int i = 0; i < TICKETS; i++)
        replace(ticket_of(copy, i), NULL);
    copy->write = ticket;
}

static int free_read_slot(const struct sm_copy *copy)
{
    for (int i = 0; i < SM_READS; i++)
        if (!blocks(copy, copy->reads[i]))
            return i;
    return -1;
}

synced_mem_status sm_copy_reserve_read(struct sm_copy *copy, int device, sm_stream stream)
{
    if (free_read_slot(copy) >= 0)
        return SYNCED_MEM_OK;
    return sm_ticket_order(copy->reads[0], device, stream);
}

void sm_copy_read(struct sm_copy *copy, struct sm_ticket *ticket)
{
    const int slot = free_read_slot(copy);
    replace(&copy->reads[slot >= 0 ? slot : 0], sm_ticket_hold(ticket));
}
