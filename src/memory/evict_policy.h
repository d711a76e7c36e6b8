/*
 * The policy: which member goes first when memory is short. It knows times, and whether a member is dirty; it knows
 * neither devices nor objects. The words:
 *
 *    member       something that takes up memory and can be brought back: for the library, an object's device copy
 *    use          a member is needed; the policy's time counts the uses of all members
 *    candidate    a member that nobody uses now, so that it may go
 *    dirty        of a candidate: its bytes have to be moved before it goes
 *    new          of a member: it was used once
 *    interval     the mean of the last four times between two uses of a member; of a new one, the number of members, as
 *                 that is the interval of each if all are used in turn
 *    age          the time since a member's last use
 *    overdue      of a candidate: its age exceeds its interval by more than two intervals, and by more than eight uses
 *    distance     the time to the next use, as far as it can be predicted:
 *                    interval - age        of a candidate that is not overdue
 *                    interval + age / 4    of an overdue one; the mean of its last intervals and of the one that lasts
 *                    age                   of an overdue one that is new
 *
 * The candidate with the greatest distance goes first. That of a dirty one counts half; with clean_first, it goes only
 * if no other candidate is left. Each kind of candidates is in a heap of its own, since only candidates of different
 * kinds change their order while time goes by. New candidates are in a list until one has to go: most are used again
 * before. The caller locks, and owns the members' structs.
 */
#ifndef SM_EVICT_POLICY_H
#define SM_EVICT_POLICY_H

#include "base/heap.h"

enum { SM_POLICY_INTERVALS = 4 };
enum sm_policy_kind { SM_POLICY_NEW, SM_POLICY_KNOWN, SM_POLICY_NEW_OVERDUE, SM_POLICY_OVERDUE, SM_POLICY_KINDS };

struct sm_policy;

/* All zeros: not used yet, and no candidate. */
struct sm_policy_member {
    struct sm_heap_node place; /* among the candidates of its kind, or in the list; the first member of the struct */
    struct sm_heap_node timer; /* of a candidate that is not overdue: when it may be */
    struct sm_policy *of;      /* the policy that counts it; NULL: it was not used yet */
    uint64_t used_at;
    uint64_t interval;                       /* the mean when it became a candidate; 0 of a new one */
    uint32_t intervals[SM_POLICY_INTERVALS]; /* the last ones, in a ring */
    uint32_t count;                          /* of intervals, ever */
    unsigned char kind;                      /* of a candidate: enum sm_policy_kind */
    bool is_candidate;
    bool is_sorted; /* of a candidate: it is in the heaps */
    bool is_dirty;
};

/* All zeros: no members. */
struct sm_policy {
    uint64_t now;
    uint64_t members; /* that were used and not forgotten */
    bool clean_first;
    struct sm_heap heaps[SM_POLICY_KINDS][2]; /* the second: of dirty candidates */
    struct sm_heap timers;
    struct sm_heap_node *unsorted; /* a list: candidates that are in no heap yet */
};

/* Counts a use of the member, which is no candidate from now on. A member of another policy, where it is no candidate,
 * is forgotten there first. */
void sm_policy_use(struct sm_policy *policy, struct sm_policy_member *member);

/* Forgets the uses of a member that is no candidate. */
void sm_policy_forget(struct sm_policy_member *member);

/* Makes the member a candidate. No effect if it is one. */
void sm_policy_offer(struct sm_policy *policy, struct sm_policy_member *member, bool dirty);

/* Makes it no candidate. No effect if it is none. */
void sm_policy_withdraw(struct sm_policy *policy, struct sm_policy_member *member);

/* Returns the candidate that goes first, and withdraws it; NULL: there is none. */
struct sm_policy_member *sm_policy_take(struct sm_policy *policy);

/* Does the same for one that was taken last, and would go late: returns a candidate that is to go in its place. NULL:
 * none has half its distance. */
struct sm_policy_member *sm_policy_take_instead(struct sm_policy *policy, const struct sm_policy_member *taken);

#endif
