/* The policy. */
#include "memory/evict_policy.h"

enum { LEAST_OVERDUE = 8 };

static uint64_t mean_interval(const struct sm_policy_member *member)
{
    const uint32_t known = member->count < SM_POLICY_INTERVALS ? member->count : SM_POLICY_INTERVALS;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < known; i++)
        sum += member->intervals[i];
    return known > 0 ? sum / known : 0;
}

static void note_interval(struct sm_policy_member *member, uint64_t interval)
{
    member->intervals[member->count % SM_POLICY_INTERVALS] = interval < UINT32_MAX ? (uint32_t)interval : UINT32_MAX;
    member->count++;
    if (member->count == 2 * SM_POLICY_INTERVALS) /* the ring goes on, and the count never wraps around */
        member->count = SM_POLICY_INTERVALS;
}

void sm_policy_use(struct sm_policy *policy, struct sm_policy_member *member)
{
    sm_policy_withdraw(policy, member);
    const uint64_t now = ++policy->now;
    if (member->used_at != 0)
        note_interval(member, now - member->used_at);
    member->used_at = now;
    member->expected_at = now + mean_interval(member);
}

static struct sm_heap *find_heap(struct sm_policy *policy, const struct sm_policy_member *member)
{
    return &policy->heaps[member->kind][member->is_dirty];
}

/* The first to go has the least key: of an expected candidate that with the greatest time, of others that with the
 * earliest use. */
static void add_candidate(struct sm_policy *policy, struct sm_policy_member *member, enum sm_policy_kind kind)
{
    member->kind = (unsigned char)kind;
    sm_heap_add(find_heap(policy, member), &member->place,
                kind == SM_POLICY_EXPECTED ? UINT64_MAX - member->expected_at : member->used_at);
    if (kind != SM_POLICY_EXPECTED)
        return;
    const uint64_t interval = member->expected_at - member->used_at;
    sm_heap_add(&policy->timers, &member->timer,
                member->expected_at + (interval > LEAST_OVERDUE ? interval : LEAST_OVERDUE));
}

void sm_policy_offer(struct sm_policy *policy, struct sm_policy_member *member, bool dirty)
{
    if (member->is_candidate)
        return;
    member->is_candidate = true;
    member->is_dirty = dirty;
    add_candidate(policy, member, member->count == 0 ? SM_POLICY_NEW : SM_POLICY_EXPECTED);
}

static void remove_candidate(struct sm_policy *policy, struct sm_policy_member *member)
{
    sm_heap_remove(find_heap(policy, member), &member->place);
    if (member->kind == SM_POLICY_EXPECTED)
        sm_heap_remove(&policy->timers, &member->timer);
}

void sm_policy_withdraw(struct sm_policy *policy, struct sm_policy_member *member)
{
    if (!member->is_candidate)
        return;
    remove_candidate(policy, member);
    member->is_candidate = false;
}

static struct sm_policy_member *member_of_timer(struct sm_heap_node *timer)
{
    return (struct sm_policy_member *)(void *)((char *)timer - offsetof(struct sm_policy_member, timer));
}

static void move_overdue(struct sm_policy *policy)
{
    while (policy->timers.least && policy->timers.least->key < policy->now) {
        struct sm_policy_member *const member = member_of_timer(policy->timers.least);
        remove_candidate(policy, member);
        add_candidate(policy, member, SM_POLICY_OVERDUE);
    }
}

/* Returns how much earlier than others the member goes: its distance, or its age. The distance is negative if the
 * member is expected by now. */
static int64_t get_rank(const struct sm_policy *policy, const struct sm_policy_member *member)
{
    const int64_t distance = member->kind == SM_POLICY_EXPECTED ? (int64_t)(member->expected_at - policy->now)
                                                                : (int64_t)(policy->now - member->used_at);
    return member->is_dirty && distance > 0 ? distance / 2 : distance;
}

/* The candidates that a choice is among. */
struct among {
    bool clean;
    bool dirty;
};

static struct sm_policy_member *find_first(struct sm_policy *policy, enum sm_policy_kind kind, struct among among,
                                           struct sm_policy_member *best)
{
    for (int dirty = !among.clean; dirty < 1 + among.dirty; dirty++) {
        struct sm_policy_member *const member = (struct sm_policy_member *)(void *)policy->heaps[kind][dirty].least;
        if (member && (!best || get_rank(policy, member) > get_rank(policy, best)))
            best = member;
    }
    return best;
}

static struct sm_policy_member *find_among(struct sm_policy *policy, struct among among)
{
    struct sm_policy_member *const new = find_first(policy, SM_POLICY_NEW, among, NULL);
    if (new)
        return new;
    struct sm_policy_member *const expected = find_first(policy, SM_POLICY_EXPECTED, among, NULL);
    return find_first(policy, SM_POLICY_OVERDUE, among, expected);
}

struct sm_policy_member *sm_policy_take(struct sm_policy *policy)
{
    move_overdue(policy);
    struct sm_policy_member *first = find_among(policy, (struct among){.clean = true, .dirty = !policy->clean_first});
    if (!first && policy->clean_first)
        first = find_among(policy, (struct among){.dirty = true});
    if (first)
        sm_policy_withdraw(policy, first);
    return first;
}
