/* Sets of streams: a hash table without removals. */
#include "stream/stream_set.h"

#include "base/hash.h"
#include "base/process.h"

#include <string.h>

enum { SETS_LOG = 8, SETS = 1 << SETS_LOG, TRIES = 8 };

struct set {
    struct sm_stream as_stream;             /* first: a set is published as a stream */
    atomic_uint count;                      /* 0: the place is free; stored last */
    struct sm_stream *streams[SM_SET_MOST]; /* by address */
};

static struct set sets[SETS];
static struct sm_lock making = SM_LOCK_INITIALIZER;

/* Copies the streams in the order of their addresses. */
static void sort_streams(struct sm_stream *sorted[], struct sm_stream *const *streams, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned place = i;
        for (; place > 0 && (uintptr_t)sorted[place - 1] > (uintptr_t)streams[i]; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = streams[i];
    }
}

/* Returns the set's place, or if not *exists the free one that it would get; NULL: there is none. */
static struct set *find_place(struct sm_stream *const sorted[], unsigned count, bool *exists)
{
    uint64_t hash = count;
    for (unsigned i = 0; i < count; i++)
        hash = sm_hash(hash ^ (uintptr_t)sorted[i]);
    const size_t first = hash >> (64 - SETS_LOG);
    for (size_t i = 0; i < TRIES; i++) {
        struct set *const set = &sets[(first + i) % SETS];
        const unsigned known = atomic_load_explicit(&set->count, memory_order_acquire);
        *exists = known == count && memcmp(set->streams, sorted, count * sizeof *sorted) == 0;
        if (*exists || known == 0)
            return set;
    }
    return NULL;
}

struct sm_stream *sm_stream_set_find(struct sm_stream *const *streams, unsigned count)
{
    struct sm_stream *sorted[SM_SET_MOST];
    sort_streams(sorted, streams, count);
    bool exists = false;
    struct set *const set = find_place(sorted, count, &exists);
    return exists ? &set->as_stream : NULL;
}

void sm_stream_set_make(struct sm_stream *const *streams, unsigned count)
{
    struct sm_stream *sorted[SM_SET_MOST];
    bool exists = false;
    sort_streams(sorted, streams, count);
    if (!find_place(sorted, count, &exists) || exists)
        return;
    sm_lock_briefly(&making);
    struct set *const set = find_place(sorted, count, &exists);
    if (set && !exists) {
        memcpy(set->streams, sorted, count * sizeof *sorted);
        atomic_store_explicit(&set->as_stream.hot, SM_HANDLE_OF_SET, memory_order_relaxed);
        atomic_store_explicit(&set->count, count, memory_order_release);
    }
    sm_unlock_brief(&making);
}

unsigned sm_stream_set_members(const struct sm_stream *set, struct sm_stream *const **members)
{
    const struct set *const of = (const struct set *)(const void *)set;
    *members = of->streams;
    return atomic_load_explicit(&of->count, memory_order_acquire);
}

bool sm_stream_set_has(const struct sm_stream *set, synced_mem_stream handle)
{
    struct sm_stream *const *members;
    const unsigned count = sm_stream_set_members(set, &members);
    for (unsigned i = 0; i < count; i++)
        if (atomic_load_explicit(&members[i]->hot, memory_order_relaxed) == handle)
            return true;
    return false;
}
