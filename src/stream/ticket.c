/* Work queued on a stream: reference-counted events from a pool per device. This file is the one that waits for
 * work on the host. */
#include "stream/ticket.h"

#include "base/slab.h"
#include "base/stats.h"
#include "base/status.h"
#include "trace/trace.h"

static struct sm_slab tickets = SM_SLAB_INITIALIZER(struct sm_ticket);

static struct {
    struct sm_lock lock;
    struct sm_ticket *idle[SM_MAX_DEVICES]; /* nobody holds them; their events exist */
} pool = {.lock = SM_LOCK_INITIALIZER};

static struct sm_ticket *take_idle(int device)
{
    sm_lock(&pool.lock);
    struct sm_ticket *const ticket = pool.idle[device];
    if (ticket)
        pool.idle[device] = ticket->next;
    sm_unlock(&pool.lock);
    return ticket;
}

static void give_idle(struct sm_ticket *ticket)
{
    sm_lock(&pool.lock);
    ticket->next = pool.idle[ticket->device];
    pool.idle[ticket->device] = ticket;
    sm_unlock(&pool.lock);
}

static synced_mem_status create(int device, struct sm_ticket **out)
{
    struct sm_ticket *const ticket = sm_slab_take(&tickets);
    if (!ticket)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no memory for an event's record");
    const synced_mem_status status = sm_device_event_create(device, &ticket->event);
    if (status != SYNCED_MEM_OK) {
        sm_slab_give(&tickets, ticket);
        return status;
    }
    ticket->device = device;
    sm_count_up(SM_COUNT_events, 1);
    *out = ticket;
    return SYNCED_MEM_OK;
}

static synced_mem_status take(int device, uint64_t stream, struct sm_ticket **out)
{
    struct sm_ticket *ticket = take_idle(device);
    const synced_mem_status status = ticket ? SYNCED_MEM_OK : create(device, &ticket);
    if (status != SYNCED_MEM_OK)
        return status;
    ticket->stream = stream;
    ticket->work = NULL;
    atomic_store_explicit(&ticket->stray, false, memory_order_relaxed);
    atomic_store_explicit(&ticket->state, SM_TICKET_QUEUEING, memory_order_relaxed);
    atomic_store_explicit(&ticket->holders, 1, memory_order_relaxed);
    *out = ticket;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_ticket_queued(struct sm_ticket *ticket, synced_mem_stream handle)
{
    const synced_mem_status status = sm_device_event_record(ticket->device, ticket->event, handle);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_count_up(SM_COUNT_event_records, 1);
    atomic_store_explicit(&ticket->state, SM_TICKET_PENDING, memory_order_release);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_ticket_record(int device, synced_mem_stream handle, uint64_t stream, struct sm_ticket **out)
{
    struct sm_ticket *ticket;
    synced_mem_status status = take(device, stream, &ticket);
    if (status != SYNCED_MEM_OK)
        return status;
    status = sm_ticket_queued(ticket, handle);
    if (status == SYNCED_MEM_OK)
        *out = ticket;
    else
        give_idle(ticket);
    return status;
}

synced_mem_status sm_ticket_open(int device, uint64_t serial, struct sm_host_work *work, struct sm_ticket **out)
{
    const synced_mem_status status = take(device, serial, out);
    if (status == SYNCED_MEM_OK)
        (*out)->work = work;
    return status;
}

void sm_ticket_close(struct sm_ticket *ticket, enum sm_ticket_state state, bool stray)
{
    atomic_store_explicit(&ticket->stray, stray, memory_order_relaxed);
    atomic_store_explicit(&ticket->state, (unsigned char)state, memory_order_release);
}

static struct sm_ticket done_for_ever = {.holders = 1, .state = SM_TICKET_DONE};
struct sm_ticket *const sm_ticket_done = &done_for_ever;

struct sm_ticket *sm_ticket_hold(struct sm_ticket *ticket)
{
    atomic_fetch_add_explicit(&ticket->holders, 1, memory_order_relaxed);
    return ticket;
}

void sm_ticket_drop(struct sm_ticket *ticket)
{
    if (!ticket || atomic_fetch_sub_explicit(&ticket->holders, 1, memory_order_acq_rel) > 1)
        return;
    struct sm_host_work *const work = ticket->work;
    give_idle(ticket);
    if (work)
        work->drop(work);
}

static void end(struct sm_ticket *ticket, synced_mem_status status)
{
    if (status == SYNCED_MEM_OK)
        atomic_store_explicit(&ticket->state, SM_TICKET_DONE, memory_order_release);
    if (status == SYNCED_MEM_ERR_DEVICE_LOST)
        atomic_store_explicit(&ticket->state, SM_TICKET_LOST, memory_order_release);
}

/* The library's part may have succeeded, and the device's may not. */
static synced_mem_status why_lost(const struct sm_ticket *ticket)
{
    const synced_mem_status status = ticket->work ? ticket->work->finish(ticket->work, ticket) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK)
        return status;
    return sm_fail(SYNCED_MEM_ERR_DEVICE_LOST, "device %d was lost while it worked on this memory", ticket->device);
}

static synced_mem_status wait_queued(struct sm_ticket *ticket)
{
    switch (sm_ticket_state(ticket)) {
    case SM_TICKET_QUEUEING:
        return ticket->work->finish(ticket->work, ticket);
    case SM_TICKET_LOST:
        return why_lost(ticket);
    case SM_TICKET_PENDING:
    case SM_TICKET_DONE:
        break;
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status wait_done(struct sm_ticket *ticket)
{
    const synced_mem_status queued = wait_queued(ticket);
    if (queued != SYNCED_MEM_OK || sm_ticket_state(ticket) == SM_TICKET_DONE)
        return queued;
    sm_count_up(SM_COUNT_host_waits, 1);
    const synced_mem_status status = sm_device_event_sync(ticket->device, ticket->event);
    end(ticket, status);
    return status;
}

synced_mem_status sm_ticket_wait_queued(struct sm_ticket *ticket)
{
    const uint64_t since = sm_ticket_state(ticket) == SM_TICKET_QUEUEING ? sm_trace_wait_begin() : 0;
    const synced_mem_status status = wait_queued(ticket);
    sm_trace_wait_end(since, ticket->device, ticket->stream);
    return status;
}

synced_mem_status sm_ticket_wait(struct sm_ticket *ticket)
{
    const uint64_t since = sm_ticket_is_open(ticket) ? sm_trace_wait_begin() : 0;
    const synced_mem_status status = wait_done(ticket);
    sm_trace_wait_end(since, ticket->device, ticket->stream);
    return status;
}

bool sm_ticket_pending(struct sm_ticket *ticket)
{
    if (sm_ticket_state(ticket) != SM_TICKET_PENDING)
        return sm_ticket_is_open(ticket);
    bool done = false;
    const synced_mem_status status = sm_device_event_query(ticket->device, ticket->event, &done);
    if (status == SYNCED_MEM_OK && !done)
        return true;
    end(ticket, status);
    return sm_ticket_state(ticket) == SM_TICKET_PENDING;
}

/* An event that can't be destroyed stays in the pool, for a later try; one of a lost device went with it. */
static synced_mem_status destroy_idle(int device)
{
    struct sm_ticket *ticket;
    while ((ticket = take_idle(device)) != NULL) {
        const synced_mem_status status = sm_device_event_destroy(device, ticket->event);
        if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST) {
            give_idle(ticket);
            return status;
        }
        sm_count_down(SM_COUNT_events, 1);
        sm_slab_give(&tickets, ticket);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_ticket_shutdown(void)
{
    synced_mem_status first = SYNCED_MEM_OK;
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        const synced_mem_status status = destroy_idle(device);
        first = first != SYNCED_MEM_OK ? first : status;
    }
    sm_slab_trim(&tickets);
    return first;
}
