/* Bounce buffers. */
#include "bounce.h"

#include "hands.h"
#include "host_pool.h"
#include "process.h"
#include "stats.h"

#include <string.h>

enum { MOST_STREAMS = 32, ALIGNMENT = 16 };

/* Stands behind the bytes, in the buffer itself. */
struct sm_bounce {
    void *data;
    size_t bytes; /* of the buffer */
    void *owner;  /* the pool's */
    struct sm_ticket *ticket;
    struct sm_bounce *next; /* given back later, on the same stream */
    /* Of the first on its stream: */
    struct sm_bounce *last;
    struct sm_bounce *other; /* the first on another one */
};

/* Buffers with work in flight, by stream. Work on a stream ends in order, so only the first of each is asked about. */
static struct {
    struct sm_lock lock;
    struct sm_bounce *first;
    atomic_uint count;
    unsigned generation; /* of the process that they were given back in */
} used = {.lock = SM_LOCK_INITIALIZER};

static size_t room_for(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct sm_bounce *sm_bounce_take(int device, const void *source, size_t size)
{
    struct sm_pinned memory;
    const size_t bytes = room_for(size) + sizeof(struct sm_bounce);
    if (sm_host_pool_alloc(device, bytes, &memory) != SYNCED_MEM_OK)
        return NULL;
    struct sm_bounce *const bounce = (struct sm_bounce *)(void *)((char *)memory.data + room_for(size));
    *bounce = (struct sm_bounce){.data = memory.data, .bytes = bytes, .owner = memory.owner};
    memcpy(bounce->data, source, size);
    return bounce;
}

const void *sm_bounce_data(const struct sm_bounce *bounce)
{
    return bounce->data;
}

static void put_back(struct sm_bounce *bounce)
{
    sm_ticket_drop(bounce->ticket);
    sm_host_pool_free(bounce->data, bounce->bytes, bounce->owner);
}

void sm_bounce_lose(struct sm_bounce *bounce)
{
    (void)bounce;
    sm_count_up(SM_COUNT_quarantined, 1);
}

/* ---- With the list locked ---- */

/* A child knows nothing of its parent's work. */
static void leave_to_parent(void)
{
    if (used.generation == sm_process_generation())
        return;
    used.generation = sm_process_generation();
    used.first = NULL;
    atomic_store_explicit(&used.count, 0, memory_order_relaxed);
}

static void append(struct sm_bounce *bounce)
{
    struct sm_bounce *first = used.first;
    while (first && first->ticket->stream != bounce->ticket->stream)
        first = first->other;
    if (first) {
        first->last->next = bounce;
        first->last = bounce;
    } else {
        bounce->last = bounce;
        bounce->other = used.first;
        used.first = bounce;
    }
    atomic_fetch_add_explicit(&used.count, 1, memory_order_relaxed);
}

static struct sm_bounce *second_of(const struct sm_bounce *first)
{
    struct sm_bounce *const second = first->next;
    if (!second)
        return first->other;
    second->last = first->last;
    second->other = first->other;
    return second;
}

static struct sm_bounce *take_ended(void)
{
    struct sm_bounce *ended = NULL;
    struct sm_bounce **link = &used.first;
    while (*link) {
        struct sm_bounce *const first = *link;
        if (sm_ticket_is_open(first->ticket)) {
            link = &first->other;
            continue;
        }
        *link = second_of(first);
        first->next = ended;
        ended = first;
        atomic_fetch_sub_explicit(&used.count, 1, memory_order_relaxed);
    }
    return ended;
}

static unsigned hold_firsts(struct sm_ticket *tickets[MOST_STREAMS])
{
    unsigned count = 0;
    for (const struct sm_bounce *first = used.first; first && count < MOST_STREAMS; first = first->other)
        tickets[count++] = sm_ticket_hold(first->ticket);
    return count;
}

/* ---- What others call ---- */

void sm_bounce_give(struct sm_bounce *bounce, struct sm_ticket *ticket)
{
    if (!ticket) {
        put_back(bounce);
        return;
    }
    bounce->ticket = sm_ticket_hold(ticket);
    sm_lock(&used.lock);
    leave_to_parent();
    append(bounce);
    sm_unlock(&used.lock);
}

/* Work on a lost device has ended. */
static synced_mem_status ask(struct sm_ticket *ticket, bool wait, bool *any_ended)
{
    const synced_mem_status waited = wait ? sm_ticket_wait(ticket) : SYNCED_MEM_OK;
    const bool ended = !sm_ticket_pending(ticket);
    *any_ended = *any_ended || ended;
    sm_ticket_drop(ticket);
    return ended ? SYNCED_MEM_OK : waited;
}

static void give_back_ended(void)
{
    sm_hands_fill();
    sm_lock(&used.lock);
    struct sm_bounce *bounce = take_ended();
    sm_unlock(&used.lock);
    while (bounce) {
        struct sm_bounce *const next = bounce->next;
        put_back(bounce);
        bounce = next;
    }
    sm_hands_empty(true);
}

/* Whether any work has ended. */
static bool reap_once(bool wait, synced_mem_status *first)
{
    struct sm_ticket *tickets[MOST_STREAMS];
    bool any = false;
    *first = SYNCED_MEM_OK;
    sm_lock(&used.lock);
    leave_to_parent();
    const unsigned count = hold_firsts(tickets);
    sm_unlock(&used.lock);
    for (unsigned i = 0; i < count; i++) {
        const synced_mem_status status = ask(tickets[i], wait, &any);
        *first = *first != SYNCED_MEM_OK ? *first : status;
    }
    if (any)
        give_back_ended();
    return any;
}

synced_mem_status sm_bounce_reap(bool wait)
{
    synced_mem_status first = SYNCED_MEM_OK;
    if (atomic_load_explicit(&used.count, memory_order_relaxed) == 0)
        return SYNCED_MEM_OK;
    while (reap_once(wait, &first))
        continue;
    return first;
}
