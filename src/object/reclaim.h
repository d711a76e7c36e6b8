/*
 * Reclaim: the steps that are taken when memory for contents is refused. A call that failed has left everything as it
 * was and holds no lock. So it is made again after each step that may have helped:
 *
 *     do
 *         status = call_once(...);
 *     while (sm_reclaim_helps(&reclaim, status));
 *
 * The steps: dispose of retired copies whose work has ended; evict; wait for the work on retired copies; trim the
 * pools; evict more; call the caller's handler.
 */
#ifndef SM_RECLAIM_H
#define SM_RECLAIM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The progress of a call through the steps. Zeros at first. */
struct sm_reclaim {
    unsigned char step[2];  /* the next step, for host memory and for device memory */
    unsigned handler_calls; /* counts the calls of the caller's handler */
    unsigned rounds;        /* counts the rounds of all steps, see base/hands.h */
    /* The count of passes by other threads before the first step, for host memory and for device memory; see
     * base/hands.h. */
    uint64_t passed[2];
};

/* Sets the handler that is called as the last step; NULL: none. */
void sm_reclaim_set_handler(synced_mem_out_of_memory_handler call, void *user);

/* Takes the next step for the memory that was refused to this thread. Returns whether it may have helped. May block.
 * Calls the caller's handler. If nothing helps, adds to the error's detail who holds memory. */
bool sm_reclaim_take_step(struct sm_reclaim *reclaim);

/* Takes the next step if the call was refused memory. Returns whether to make the call again. No lock may be held. May
 * block. */
static inline bool sm_reclaim_helps(struct sm_reclaim *reclaim, synced_mem_status status)
{
    const bool refused = status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY || status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    return refused && sm_reclaim_take_step(reclaim);
}

#endif
