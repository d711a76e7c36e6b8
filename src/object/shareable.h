/*
 * Shareable objects: what one has beyond an ordinary object, and the gate that calls on it pass. The words:
 *
 *    turn     the right to use the contents, which the participants take one after the other (memory/shared/turns.h)
 *    gate     calls that use the contents pass it; it is closed while the process has no turn
 *    reserve  obtain the device memory before the object is shared, as it cannot be added later
 *
 * A shareable object has its host copy from the beginning. Its head is UNINITIALIZED while the process has no turn, so
 * that nothing is published. During a turn to read, its copies are read-only.
 */
#ifndef SM_SHAREABLE_H
#define SM_SHAREABLE_H

#include "memory/shared/shared_memory.h"
#include "memory/shared/watch.h"
#include "object/object.h"

enum sm_turn { SM_TURN_NONE, SM_TURN_CHANGING, SM_TURN_READ, SM_TURN_WRITE, SM_TURN_ENDED };

struct sm_sharing {
    struct sm_shared_memory *memory; /* held; constant */
    struct synced_mem *mem;
    struct sm_mutex lock; /* guards the next three */
    enum sm_turn turn;
    unsigned valid; /* in a turn to read: the bits of the sides that may be read */
    unsigned calls; /* that have passed the gate and not ended */
    struct sm_events ended;
    struct sm_wish wish; /* of the turn; the thread that changes the turn alone uses it, and the next one */
    bool is_given_up;    /* to abandon the turn has failed, so the last release tries that again; used as the wish is */
    unsigned losses;     /* of devices, before the turn to read; used as the wish is */
    bool received;       /* the object is another process's; constant */
    atomic_uint shares;  /* grows with the object's lock held. While it is not 0, no device memory can be added */
    bool pin_tried;      /* guarded by the object's lock */
    struct sm_sharing *next;
    struct sm_sharing **link;
};

static inline struct sm_sharing *sm_sharing_of(const struct synced_mem *mem)
{
    const struct sm_extras *const extras = sm_root(mem)->extras;
    return extras ? extras->sharing : NULL;
}

/* ---- Life ---- */

/* Makes a new object shareable, which no other thread can find yet. Takes over the hold on the memory; on failure it is
 * still the caller's. turn: the one that the process has. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_sharing_begin(struct synced_mem *mem, struct sm_shared_memory *memory, enum sm_turn turn);

/* Ends the use of an object that is about to be released. The process has no turn any more, or dies in it. */
void sm_sharing_leave(struct sm_sharing *sharing);
/* Frees the struct. Ignores NULL. */
void sm_sharing_free(struct sm_sharing *sharing);

/* Returns ERR_FORKED in a forked child: the turn is the parent's. */
synced_mem_status sm_sharing_check_process(const struct sm_sharing *sharing);

/* ---- The gate ---- */

/* Begin and end a call that uses the contents of the side, or of any (SM_SIDES); see gate.h. Calls nest.
 * ERR_INVALID_STATE: the process has no turn, or one to read, which does not allow this call. ERR_FORKED: the object is
 * the parent process's. For the device's side also as sm_shareable_find_device(). */
synced_mem_status sm_gate_pass(struct sm_sharing *sharing, enum sm_side side, enum sm_mode mode);
void sm_gate_leave(struct sm_sharing *sharing);

/* Returns whether the calling thread is in such a call: a callback or a handler of the program's runs in it. */
bool sm_gate_is_passed(void);

/* Fails with ERR_INVALID_STATE if the object is shareable: its memory and its size stay. */
synced_mem_status sm_check_not_shareable(const struct synced_mem *mem);

/* ---- Device memory ---- */

/* Finds the device of the object's device memory in this process, and makes it the object's. ERR_INVALID_DEVICE: the
 * process does not see it. ERR_INVALID_STATE: the object was shared without device memory. No effect if it has none and
 * was not shared yet. */
synced_mem_status sm_shareable_find_device(struct sm_sharing *sharing);

/* Obtains the device copy of a shareable object. With the object's lock. The caller owns *out. Errors: as above;
 * ERR_OUT_OF_DEVICE_MEMORY; ERR_PEER. */
synced_mem_status sm_shareable_obtain_device(const struct synced_mem *mem, int device, struct sm_copy **out);

/* Gives the object its device copy, if it has none. With the object's lock. Errors: as above. */
synced_mem_status sm_shareable_attach_device(struct sm_sharing *sharing);

/* Page-locks the host copy for transfers with the device, once. Without success it stays pageable. With the object's
 * lock. */
void sm_shareable_pin(struct sm_sharing *sharing, int device);

#endif
