/*
 * What is done when memory for contents is refused. A call that failed has left everything as it was and holds no lock,
 * so it is simply made again after each step that may have helped:
 *     do
 *         status = call_once(...);
 *     while (sm_reclaim_helps(&reclaim, status));
 */
#ifndef SM_RECLAIM_H
#define SM_RECLAIM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* How far a call has come; zeros at first. */
struct sm_reclaim {
    unsigned char step[2]; /* for host memory and for device memory: the next one */
    unsigned asked;        /* how often the caller's handler was */
    unsigned rounds;       /* how often all steps were taken again, see hands.h */
    uint64_t passed[2];    /* by other threads, before the first step; for each as above */
};

/* The handler that is asked last; NULL: none. */
void sm_reclaim_set_handler(synced_mem_out_of_memory_handler call, void *user);

bool sm_reclaim_climb(struct sm_reclaim *reclaim);

/* With no lock held: does the next thing that may help. False: the call was not refused memory, or nothing helps. */
static inline bool sm_reclaim_helps(struct sm_reclaim *reclaim, synced_mem_status status)
{
    const bool refused = status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY || status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    return refused && sm_reclaim_climb(reclaim);
}

#endif
