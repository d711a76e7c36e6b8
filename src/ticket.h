/*
 * A ticket stands for work queued on a stream: a CUDA event, counted by those who may still wait for it. Events are
 * reused; one goes back to the pool, where it may be recorded again, only when nobody holds its ticket.
 */
#ifndef SM_TICKET_H
#define SM_TICKET_H

#include "device.h"

#include <stdatomic.h>

enum sm_ticket_state {
    SM_TICKET_PENDING, /* as far as anybody has asked */
    SM_TICKET_DONE,    /* the work has finished */
    SM_TICKET_LOST     /* the device is lost: the work has ended, nobody knows how far it got */
};

struct sm_ticket {
    atomic_uint holders;
    atomic_uchar state; /* enum sm_ticket_state; leaves PENDING once while held */
    int device;
    uint64_t stream; /* the serial of the one it was recorded on */
    sm_event event;
    struct sm_ticket *next; /* in the pool */
};

/* A ticket, held once, for all that is queued on the stream now. */
synced_mem_status sm_ticket_record(int device, synced_mem_stream handle, uint64_t stream, struct sm_ticket **out);

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

/* Waits on the host until the ticket is no longer pending. ERR_DEVICE_LOST if it is lost. */
synced_mem_status sm_ticket_wait(struct sm_ticket *ticket);
/* Whether the ticket is still pending, asking the device; pending too if it does not say. */
bool sm_ticket_pending(struct sm_ticket *ticket);

/* Destroys the events in the pool. What fails stays there, and the next call tries again. */
synced_mem_status sm_ticket_shutdown(void);

#endif
