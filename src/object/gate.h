/* The gate: what calls that use an object's contents pass first. A shareable object lets only those of the process
 * whose turn it is pass; an evictable one stays on the side until the call ends. */
#ifndef SM_GATE_H
#define SM_GATE_H

#include "object/evictable.h"
#include "object/shareable.h"

/* Begin and end a call that uses the contents of the side, or of any (SM_SIDES). Without effect on an object that is
 * neither shareable nor evictable. Errors: as sm_gate_pass(). ERR_INVALID_STATE: the object is evictable and not held
 * on the side, which is the device's, or has a budget. */
synced_mem_status sm_gate_begin_any(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode);

static inline synced_mem_status sm_gate_begin(const struct synced_mem *mem, enum sm_side side, enum sm_mode mode)
{
    return sm_root(mem)->extras ? sm_gate_begin_any(mem, side, mode) : SYNCED_MEM_OK;
}

static inline void sm_gate_end(const struct synced_mem *mem)
{
    struct sm_sharing *const sharing = sm_sharing_of(mem);
    if (sharing)
        sm_gate_leave(sharing);
}

/* The gates of several objects. */
struct sm_gates {
    struct synced_mem *const *mems;
    size_t count;
    enum sm_side side; /* that the call uses; SM_SIDES: any */
    bool is_open;      /* none of the objects has a gate; set by sm_gates_begin() */
    int held_on;       /* where evictable ones are held; set by sm_gates_begin() */
};

/* Do the same for several objects, but evictable ones need not be held: unless the side is any, all of them are held
 * until the call ends, which may evict others. On failure none has begun, and *failed is the object. Errors also
 * as sm_hold_briefly(). */
synced_mem_status sm_gates_begin(struct sm_gates *gates, enum sm_mode mode, struct synced_mem **failed);
void sm_gates_end(const struct sm_gates *gates);

#endif
