/* The simulator. */
#include "simulate.h"

#include "memory/evict_policy.h"

#include <stdlib.h>

const char *const algorithm_names[ALGORITHMS] = {"policy", "LRU", "CLOCK", "Belady"};

struct slot {
    struct sm_policy_member member; /* the first member of the struct */
    uint64_t used_at;
    size_t next_use; /* its place among the uses; SIZE_MAX: none */
    bool resident;
    bool dirty;
    bool referenced; /* since the hand of CLOCK has passed it */
};

struct state {
    const struct order *order;
    enum algorithm algorithm;
    struct sm_policy policy;
    struct slot *slots;
    size_t *next_uses; /* of each use: the next one of the same member */
    uint64_t time;
    uint64_t resident_bytes;
    uint32_t hand; /* of CLOCK */
};

/* ---- Who goes ---- */

static struct slot *find_least_recent(const struct state *state)
{
    struct slot *least = NULL;
    for (uint32_t i = 0; i < state->order->members; i++) {
        struct slot *const slot = &state->slots[i];
        if (slot->resident && (!least || slot->used_at < least->used_at))
            least = slot;
    }
    return least;
}

static struct slot *find_latest_next(const struct state *state)
{
    struct slot *latest = NULL;
    for (uint32_t i = 0; i < state->order->members; i++) {
        struct slot *const slot = &state->slots[i];
        if (slot->resident && (!latest || slot->next_use > latest->next_use))
            latest = slot;
    }
    return latest;
}

static struct slot *advance_hand(struct state *state)
{
    for (;;) {
        struct slot *const slot = &state->slots[state->hand];
        state->hand = (state->hand + 1) % state->order->members;
        if (slot->resident && !slot->referenced)
            return slot;
        slot->referenced = false;
    }
}

static struct slot *choose_slot(struct state *state)
{
    switch (state->algorithm) {
    case POLICY:
        return (struct slot *)(void *)sm_policy_take(&state->policy);
    case LRU:
        return find_least_recent(state);
    case CLOCK:
        return advance_hand(state);
    case BELADY:
    case ALGORITHMS:
        break;
    }
    return find_latest_next(state);
}

/* ---- Uses ---- */

static void evict_until_fits(struct state *state, uint64_t bytes, uint64_t capacity, struct outcome *outcome)
{
    while (state->resident_bytes + bytes > capacity) {
        struct slot *const slot = choose_slot(state);
        const uint64_t size = state->order->bytes[slot - state->slots];
        slot->resident = false;
        state->resident_bytes -= size;
        outcome->written_bytes += slot->dirty ? size : 0;
        slot->dirty = false;
    }
}

static void use_member(struct state *state, size_t at, uint64_t capacity, struct outcome *outcome)
{
    const struct use *const use = &state->order->uses[at];
    struct slot *const slot = &state->slots[use->member];
    const uint64_t bytes = state->order->bytes[use->member];
    if (state->algorithm == POLICY)
        sm_policy_use(&state->policy, &slot->member);
    if (!slot->resident) {
        outcome->misses++;
        outcome->missed_bytes += bytes;
        if (bytes > capacity)
            return;
        evict_until_fits(state, bytes, capacity, outcome);
        slot->resident = true;
        state->resident_bytes += bytes;
    }
    slot->used_at = ++state->time;
    slot->next_use = state->next_uses[at];
    slot->referenced = true;
    slot->dirty = slot->dirty || use->writes;
    if (state->algorithm == POLICY)
        sm_policy_offer(&state->policy, &slot->member, slot->dirty);
}

/* Finds the next use of each. The slots serve for the uses that follow. */
static void find_next_uses(struct state *state)
{
    for (uint32_t i = 0; i < state->order->members; i++)
        state->slots[i].next_use = SIZE_MAX;
    for (size_t at = state->order->count; at-- > 0;) {
        struct slot *const slot = &state->slots[state->order->uses[at].member];
        state->next_uses[at] = slot->next_use;
        slot->next_use = at;
    }
}

bool simulate(const struct order *order, uint64_t capacity, enum algorithm algorithm, struct outcome *outcome)
{
    struct state state = {.order = order, .algorithm = algorithm};
    *outcome = (struct outcome){.misses = 0};
    if (order->count == 0)
        return true;
    state.slots = calloc(order->members, sizeof *state.slots);
    state.next_uses = calloc(order->count, sizeof *state.next_uses);
    const bool has_memory = state.slots && state.next_uses;
    if (has_memory) {
        find_next_uses(&state);
        for (size_t at = 0; at < order->count; at++)
            use_member(&state, at, capacity, outcome);
    }
    free(state.slots);
    free(state.next_uses);
    return has_memory;
}
