/*
 * Budgets: how much memory the library may have on each device, and for host copies, and which members go when that is
 * too little. This file counts bytes; object/evict.h moves them. Where a function takes a device, SM_BUDGET_HOST is the
 * host. The words:
 *
 *    budget        the most that the library has on a device, its own spares included; or that host copies have
 *    implicit      of a budget: the runtime refused memory when the library had so much. It holds for holds alone.
 *    member        the copy of an evictable object on one side (evict_policy.h)
 *    resident      of a member: it has memory
 *    held          of a member: it does not go
 *    claim         memory that is about to be obtained. It counts as the library's. A member has one at most, whoever
 *                  holds it: from its hold, or the call that obtains the memory, until it is resident, or is not held
 *    reservation   the holds that one call adds, with the claims of all members that have neither memory nor a claim
 *    victim        a member that was chosen to go: it is leaving until that is done, or has failed
 *    unmovable     of a member of the host: no other place has its bytes, and there is no scratch file for them
 *    call          of the library: it holds members until it ends, and nobody has to unhold them
 *    stuck         of a victim: it can't go now, or would go late. It goes on leaving until the hold has tried others.
 *
 * One lock guards all of it, so a hold gets all of its memory or none: two holds never wait for one another's. As a
 * member's bytes are claimed once, a set of members fits beside what others hold if its union with that fits.
 */
#ifndef SM_BUDGET_H
#define SM_BUDGET_H

#include "base/deadline.h"
#include "base/status.h"
#include "device/device.h"
#include "memory/evict_policy.h"

#include <stdatomic.h>

#define SM_NO_BUDGET UINT64_MAX

enum { SM_BUDGET_HOST = SM_MAX_DEVICES, SM_BUDGETS };

/* All zeros: of a device, not resident, not held. Guarded by the lock; the atomics, and what is constant, may be read
 * without it. */
struct sm_member {
    struct sm_policy_member policy; /* the first member of the struct */
    struct sm_member *next;         /* in a list of victims */
    uint64_t bytes;                 /* of its memory; 0: not resident, as far as is known */
    uint64_t claimed;               /* bytes; 0: it has no claim. Of a resident victim: in case that it goes. */
    uint64_t counted;               /* the serial of the reservation that counted it last, or of sm_member_mark() */
    uint64_t unheld;                /* the serial of the unhold that came last */
    atomic_uint holds;
    int device;     /* that its memory is on, or its last memory was */
    int claimed_on; /* the device of the claim */
    unsigned generation; /* of the process in which it is leaving */
    atomic_bool is_leaving; /* perhaps only in the parent process */
    bool is_stuck;
    bool is_obtaining; /* a call obtains the memory that was claimed, so that the claim stays without a hold */
    bool is_of_host;   /* constant */
};

/* All zeros: none. */
struct sm_reservation {
    int device;
    uint64_t serial;
    uint64_t set;    /* the bytes of all members */
    uint64_t needed; /* of those that are not resident */
    uint64_t added;  /* of these, the bytes that nobody had claimed */
    uint64_t budget; /* at the time of sm_reservation_fit() */
    uint64_t hits, misses;
    unsigned seen;     /* departures, when it did not fit */
    bool others_leave; /* then victims were leaving, whose memory may be enough */
    bool any_retired;  /* and retired copies were not free yet */
    bool others_hold;  /* and calls of other threads held members, unless this thread is in such a call itself */
    unsigned ended;    /* how many such calls had ended */
    bool is_short;     /* memory has to go before that of the members is obtained */
    bool frees_spares; /* the device cache is to be emptied */
    struct sm_member *victims;
};

extern atomic_bool sm_budget_flag;
extern atomic_bool sm_host_budget_flag;

/* Returns whether there is a budget on any device. */
static inline bool sm_budget_on(void)
{
    return atomic_load_explicit(&sm_budget_flag, memory_order_relaxed);
}

/* Returns whether there is one for host copies. */
static inline bool sm_host_budget_on(void)
{
    return atomic_load_explicit(&sm_host_budget_flag, memory_order_relaxed);
}

/* ---- Budgets ---- */

/* Sets a device's budget; SM_NO_BUDGET: none. implicit: only for holds, and no effect on a budget that is not. */
void sm_budget_set(int device, uint64_t bytes, bool implicit);

/* Sets the budget for host copies, and whether members of the host whose bytes no other place has can go. They are
 * candidates from their next note. serial: of the change of the scratch file. Without effect after a later one, so that
 * both are of the same call. Returns the budget before. */
uint64_t sm_budget_set_on_host(uint64_t bytes, bool has_scratch, uint64_t serial);

/* Returns the budget, or SM_NO_BUDGET. */
uint64_t sm_budget_of(int device);

/* Returns whether the device's budget is implicit. */
bool sm_budget_is_implicit(int device);

/* Returns by how many bytes the library exceeds the budget. */
uint64_t sm_budget_excess(int device);

/* Returns what the library has on the device, with spares and claims. */
uint64_t sm_budget_used(int device);

/* Forgets all budgets, and the intervals of all members, of which there must be none. */
void sm_budget_reset(void);

/* ---- Memory that is obtained while there is a budget ---- */

/* Claims memory, which a claim of the member may have done already. member: whose memory it is; NULL: that of no
 * evictable object. Only one thread may do this for a member. ERR_OUT_OF_DEVICE_MEMORY, ERR_OUT_OF_HOST_MEMORY: it
 * would exceed the budget. */
synced_mem_status sm_budget_claim(int device, uint64_t bytes, struct sm_member *member);
/* End the claim: the memory was obtained, and is counted, at once, so that no other thread meets it twice; or it was
 * not obtained. A member that is held keeps its claim then. */
void sm_budget_obtained(int device, uint64_t bytes, struct sm_member *member);
void sm_budget_obtained_on_host(uint64_t bytes, bool pinned, struct sm_member *member);
void sm_budget_unclaim(int device, uint64_t bytes, struct sm_member *member);
/* Counts memory from the device cache that is in use again, which nobody has to claim. */
void sm_budget_reused(int device, uint64_t bytes, struct sm_member *member);

/* ---- Holds: with the lock ---- */

void sm_budget_lock(void);
void sm_budget_unlock(void);

/* Begins a reservation on a device. */
void sm_reservation_begin(struct sm_reservation *reservation, int device);

/* Finds members that a list has twice: each gets the mark of a new serial. Returns false if it has it. */
uint64_t sm_budget_new_serial(void);
bool sm_member_mark(struct sm_member *member, uint64_t serial);

/* Counts the member once, with so many bytes. It is no candidate, and not held yet: evictions, which read the holds
 * without the lock, would take it for one that stays. */
void sm_reservation_add(struct sm_reservation *reservation, struct sm_member *member, uint64_t bytes);

/* Chooses victims if the budget has not as much as the members need. Call sm_reservation_claim() for each member then.
 * Returns false if all candidates together are too little: no victim is chosen. Call sm_reservation_drop() for each
 * member then, before the lock is given back, as others may need them to go. */
bool sm_reservation_fit(struct sm_reservation *reservation);

/* Holds the member. Claims the bytes if it needs them, and counts a use of it, both once. */
void sm_reservation_claim(const struct sm_reservation *reservation, struct sm_member *member, uint64_t bytes);

/* Makes the member a candidate again, if nobody else holds it. */
void sm_reservation_drop(struct sm_member *member, bool dirty);

/* Chooses more victims, if the memory that the others had was not enough. is_needed: any of the members still has a
 * claim. Returns false if there are none, though some are needed. */
bool sm_reservation_fit_more(struct sm_reservation *reservation, bool is_needed);

/* Removes one hold. The last one makes the member a candidate, if it is resident, and ends its claim. */
void sm_member_unhold(struct sm_member *member, bool dirty);

/* Begin and end a call of the calling thread that holds members of the device, while their holds are added and removed.
 * A forked child may end a call of its parent. */
void sm_budget_begin_call(int device);
void sm_budget_end_call(int device);

/* Begins an unhold, which removes holds that callers may have used. Returns its serial. */
uint64_t sm_unhold_begin(void);

/* Removes one hold for the unhold. */
void sm_unhold_remove(uint64_t unhold, struct sm_member *member, bool dirty);

/* ---- Without the lock ---- */

/* Returns whether nobody holds the member, and the unhold came last. */
bool sm_unhold_was_last(uint64_t unhold, const struct sm_member *member);

/* Notes the member's memory; 0 bytes: it has none. If it is not held it is a candidate from now on. */
void sm_member_note(struct sm_member *member, int device, uint64_t bytes, bool dirty);

/* Chooses victims of so many bytes, or all candidates if these have less. Returns a list. */
struct sm_member *sm_budget_choose(int device, uint64_t bytes);

/* Chooses a victim to go in place of one that would go late, if another is nearly as good. NULL: none is. */
struct sm_member *sm_budget_choose_instead(const struct sm_member *victim);

/* Notes that a victim can't go now. */
void sm_member_stick(struct sm_member *member);

/* Waits until a victim on the device has left or is stuck. Returns false at once if there is none. Such waits end, as
 * no eviction waits for a hold. */
bool sm_budget_wait(int device);

/* Waits until a victim on the device that is stuck has left, or anything else has happened to a victim. Returns false at
 * once if there is none, or the deadline has passed. The caller has no victims, so that no two wait for one another's. */
bool sm_budget_wait_for_stuck(int device, sm_deadline until);

/* Does the same as sm_budget_wait() for the victims that were leaving when the reservation did not fit, for the first time also for those
 * that were stuck. */
bool sm_reservation_wait(const struct sm_reservation *reservation);

/* Waits until one of the calls has ended that held members when the reservation did not fit. Returns false at once if
 * there were none, or the deadline has passed: a call may be in a callback of the program's. */
bool sm_reservation_wait_for_calls(const struct sm_reservation *reservation, sm_deadline until);

/* Ends the leaving of a victim. If it is resident, as it stays or has new memory, it is a candidate again. */
void sm_member_left(struct sm_member *member, bool dirty);

/* Returns whether the device has members that may go now. */
bool sm_budget_has_candidates(int device);

/* Ends the member's part in all of this, as its object ends. Blocks while it is leaving. */
void sm_member_end(struct sm_member *member);

#endif
