/* The policy. */
#include "memory/evict_policy.h"

enum { LEAST_OVERDUE = 8 };

/* ---- Uses ---- */

/* Returns 0 for a new one. */
static uint64_t mean_interval(const struct sm_policy_member *member)
{
    const uint32_t known = member->count < SM_POLICY_INTERVALS ? member->count : SM_POLICY_INTERVALS;
    uint64_t sum = 0;
    if (known == 0)
        return 0;
    for (uint32_t i = 0; i < known; i++)
        sum += member->intervals[i];
    return sum / known;
}

static void note_interval(struct sm_policy_member *member, uint64_t interval)
{
    member->intervals[member->count % SM_POLICY_INTERVALS] = interval < UINT32_MAX ? (uint32_t)interval : UINT32_MAX;
    member->count++;
    if (member->count == 2 * SM_POLICY_INTERVALS) /* the ring goes on, and the count never wraps around */
        member->count = SM_POLICY_INTERVALS;
}

void sm_policy_forget(struct sm_policy_member *member)
{
    if (member->of)
        member->of->members--;
    *member = (struct sm_policy_member){.of = NULL};
}

void sm_policy_use(struct sm_policy *policy, struct sm_policy_member *member)
{
    sm_policy_withdraw(policy, member);
    const uint64_t now = ++policy->now;
    if (member->of == policy) {
        note_interval(member, now - member->used_at);
    } else {
        sm_policy_forget(member);
        member->of = policy;
        policy->members++;
    }
    member->used_at = now;
}

/* ---- Candidates ---- */

static bool is_new(const struct sm_policy_member *member)
{
    return member->count == 0;
}

static uint64_t get_interval(const struct sm_policy *policy, const struct sm_policy_member *member)
{
    return is_new(member) ? policy->members : member->interval;
}

/* Returns the last time at which the member is not overdue. */
static uint64_t get_deadline(const struct sm_policy *policy, const struct sm_policy_member *member)
{
    const uint64_t interval = get_interval(policy, member);
    return member->used_at + interval + (2 * interval > LEAST_OVERDUE ? 2 * interval : LEAST_OVERDUE);
}

static struct sm_heap *find_heap(struct sm_policy *policy, const struct sm_policy_member *member)
{
    return &policy->heaps[member->kind][member->is_dirty];
}

/* The first to go, which has the greatest distance at any time, has the least key. */
static uint64_t get_key(const struct sm_policy_member *member)
{
    switch ((enum sm_policy_kind)member->kind) {
    case SM_POLICY_NEW:
    case SM_POLICY_KNOWN:
        return UINT64_MAX - (member->used_at + member->interval);
    case SM_POLICY_OVERDUE:
        return member->used_at + SM_POLICY_INTERVALS * (UINT32_MAX - member->interval);
    case SM_POLICY_NEW_OVERDUE:
    case SM_POLICY_KINDS:
        break;
    }
    return member->used_at;
}

static bool is_overdue(const struct sm_policy_member *member)
{
    return member->kind == SM_POLICY_NEW_OVERDUE || member->kind == SM_POLICY_OVERDUE;
}

static void add_candidate(struct sm_policy *policy, struct sm_policy_member *member)
{
    const uint64_t deadline = get_deadline(policy, member);
    if (policy->now > deadline)
        member->kind = is_new(member) ? SM_POLICY_NEW_OVERDUE : SM_POLICY_OVERDUE;
    else
        member->kind = is_new(member) ? SM_POLICY_NEW : SM_POLICY_KNOWN;
    sm_heap_add(find_heap(policy, member), &member->place, get_key(member));
    if (!is_overdue(member))
        sm_heap_add(&policy->timers, &member->timer, deadline);
}

/* The list is linked through the nodes for the heaps. */
static void add_unsorted(struct sm_policy *policy, struct sm_policy_member *member)
{
    struct sm_heap_node *const next = policy->unsorted;
    member->is_sorted = false;
    member->place.before = NULL;
    member->place.next = next;
    if (next)
        next->before = &member->place;
    policy->unsorted = &member->place;
}

static void remove_unsorted(struct sm_policy *policy, const struct sm_policy_member *member)
{
    struct sm_heap_node *const next = member->place.next, *const before = member->place.before;
    if (next)
        next->before = before;
    *(before ? &before->next : &policy->unsorted) = next;
}

static void sort_candidates(struct sm_policy *policy)
{
    while (policy->unsorted) {
        struct sm_policy_member *const member = (struct sm_policy_member *)(void *)policy->unsorted;
        remove_unsorted(policy, member);
        member->is_sorted = true;
        member->interval = mean_interval(member);
        add_candidate(policy, member);
    }
}

void sm_policy_offer(struct sm_policy *policy, struct sm_policy_member *member, bool dirty)
{
    if (member->is_candidate)
        return;
    member->is_candidate = true;
    member->is_dirty = dirty;
    add_unsorted(policy, member);
}

static void remove_candidate(struct sm_policy *policy, struct sm_policy_member *member)
{
    sm_heap_remove(find_heap(policy, member), &member->place);
    if (!is_overdue(member))
        sm_heap_remove(&policy->timers, &member->timer);
}

void sm_policy_withdraw(struct sm_policy *policy, struct sm_policy_member *member)
{
    if (!member->is_candidate)
        return;
    if (member->is_sorted)
        remove_candidate(policy, member);
    else
        remove_unsorted(policy, member);
    member->is_candidate = false;
}

/* ---- The choice ---- */

static struct sm_policy_member *member_of_timer(struct sm_heap_node *timer)
{
    return (struct sm_policy_member *)(void *)((char *)timer - offsetof(struct sm_policy_member, timer));
}

/* The deadline of a new one may be a later one by now, as there are more members. */
static void move_overdue(struct sm_policy *policy)
{
    while (policy->timers.least && policy->timers.least->key < policy->now) {
        struct sm_policy_member *const member = member_of_timer(policy->timers.least);
        remove_candidate(policy, member);
        add_candidate(policy, member);
    }
}

/* The distance is negative if the member is expected by now. */
static int64_t get_distance(const struct sm_policy *policy, const struct sm_policy_member *member)
{
    const uint64_t age = policy->now - member->used_at;
    if (member->kind == SM_POLICY_NEW_OVERDUE)
        return (int64_t)age;
    if (member->kind == SM_POLICY_OVERDUE)
        return (int64_t)(member->interval + age / SM_POLICY_INTERVALS);
    return (int64_t)(get_interval(policy, member) - age);
}

/* Returns how much earlier than others the member goes. */
static int64_t get_rank(const struct sm_policy *policy, const struct sm_policy_member *member)
{
    const int64_t distance = get_distance(policy, member);
    return member->is_dirty && distance > 0 ? distance / 2 : distance;
}

static struct sm_policy_member *find_first(const struct sm_policy *policy, bool dirty, struct sm_policy_member *best)
{
    for (int kind = 0; kind < SM_POLICY_KINDS; kind++) {
        struct sm_policy_member *const member = (struct sm_policy_member *)(void *)policy->heaps[kind][dirty].least;
        if (member && (!best || get_rank(policy, member) > get_rank(policy, best)))
            best = member;
    }
    return best;
}

static struct sm_policy_member *find_first_of_all(struct sm_policy *policy)
{
    sort_candidates(policy);
    move_overdue(policy);
    struct sm_policy_member *const first = find_first(policy, false, NULL);
    return first && policy->clean_first ? first : find_first(policy, true, first);
}

struct sm_policy_member *sm_policy_take(struct sm_policy *policy)
{
    struct sm_policy_member *const first = find_first_of_all(policy);
    if (first)
        sm_policy_withdraw(policy, first);
    return first;
}

struct sm_policy_member *sm_policy_take_instead(struct sm_policy *policy, const struct sm_policy_member *taken)
{
    struct sm_policy_member *first = find_first_of_all(policy);
    if (first && 2 * get_rank(policy, first) < get_rank(policy, taken))
        first = NULL;
    if (first)
        sm_policy_withdraw(policy, first);
    return first;
}
