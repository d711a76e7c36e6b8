/*
 * A ticket stands for work queued on a stream: a CUDA event, counted by those who may still wait for it. Events are
 * reused; one goes back to the pool, where it may be recorded again, only when nobody holds its ticket.
 */
#ifndef SM_TICKET_H
#define SM_TICKET_H

#include "device/device.h"

#include <stdatomic.h>

struct sm_ticket;

enum sm_ticket_state {
    SM_TICKET_QUEUEING, /* threads of the library's have yet to do their part: there is no event yet */
    SM_TICKET_PENDING,  /* as far as anybody has asked */
    SM_TICKET_DONE,     /* the work has finished */
    SM_TICKET_LOST      /* the work has ended without success: nobody knows how far it got */
};

/* What threads of the library's do for tickets, counted by those. */
struct sm_host_work {
    /* Does what is left to do until the ticket is no longer being queued, or waits for whoever does it. Why it failed,
     * if the ticket is lost. */
    synced_mem_status (*finish)(struct sm_host_work *work, const struct sm_ticket *ticket);
    void (*drop)(struct sm_host_work *work);
};

struct sm_ticket {
    atomic_uint holders;
    atomic_uchar state; /* enum sm_ticket_state; goes from one to a later one only while held */
    atomic_bool stray;  /* lost, and a part of the work may be running all the same */
    int device;
    uint64_t stream; /* the serial of the one it was recorded on */
    sm_event event;
    struct sm_host_work *work; /* of a ticket that was made by sm_ticket_open() */
    struct sm_ticket *next;    /* in the pool */
};

/* A ticket, held once, for all that is queued on the stream now. */
synced_mem_status sm_ticket_record(int device, synced_mem_stream handle, uint64_t stream, struct sm_ticket **out);

/* A ticket, held once, for work that threads of the library's have yet to queue or to do: it is being queued until one
 * of the next two functions is called. It holds the work, which drop() undoes. serial: no stream's, nor another
 * ticket's. */
synced_mem_status sm_ticket_open(int device, uint64_t serial, struct sm_host_work *work, struct sm_ticket **out);
/* All of it is queued on the stream. */
synced_mem_status sm_ticket_queued(struct sm_ticket *ticket, synced_mem_stream handle);
/* It is over: done, or lost. stray: a part of it may be running. */
void sm_ticket_close(struct sm_ticket *ticket, enum sm_ticket_state state, bool stray);

struct sm_ticket *sm_ticket_hold(struct sm_ticket *ticket);
/* NULL is ignored. */
void sm_ticket_drop(struct sm_ticket *ticket);

/* Done from the beginning, for ever: who has released a lock meanwhile asks with it to look at everything again. */
extern struct sm_ticket *const sm_ticket_done;

/* What is known without asking the device. NULL is done. */
static inline enum sm_ticket_state sm_ticket_state(const struct sm_ticket *ticket)
{
    if (!ticket)
        return SM_TICKET_DONE;
    return (enum sm_ticket_state)atomic_load_explicit(&ticket->state, memory_order_acquire);
}

/* Whether the ticket's work may still be going on, as far as is known without asking the device. */
static inline bool sm_ticket_is_open(const struct sm_ticket *ticket)
{
    return sm_ticket_state(ticket) <= SM_TICKET_PENDING;
}

/* Waits on the host until the ticket is neither being queued nor pending. If it is lost: ERR_DEVICE_LOST, or why the
 * library's part failed. */
synced_mem_status sm_ticket_wait(struct sm_ticket *ticket);
/* Waits on the host until the ticket is no longer being queued, so that a stream can wait for it. Errors: as above. */
synced_mem_status sm_ticket_wait_queued(struct sm_ticket *ticket);
/* Whether the ticket is still being queued or pending, asking the device; pending too if it does not say. */
bool sm_ticket_pending(struct sm_ticket *ticket);

/* Destroys the events in the pool. What fails stays there, and the next call tries again. */
synced_mem_status sm_ticket_shutdown(void);

#endif
