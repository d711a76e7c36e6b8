/* The device cache: memory by the stream that used it last, and by its size. */
#include "copy/device_cache.h"

#include "copy/inflight.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/shard.h"
#include "base/stats.h"
#include "memory/accounting.h"
#include "system/clock.h"

#include <stdalign.h>
#include <stdatomic.h>

/* A shard has the copies of some streams, or of some threads if no stream was named. So threads that use a stream each
 * seldom contend, nor do threads that use none. A shard's bins are by size. */
enum { SIZES_LOG = 4, SIZES = 1 << SIZES_LOG, MOST = 256, TRIES = 4 };
#define DEFAULT_LIMIT ((size_t)1 << 30)

/* Each bin lists the copy first that was put there last. A search takes the copies that it examines out of the bin and
 * out of the order of age. Then it puts them back at their place in the order of age. */
struct shard {
    alignas(SM_APART) struct sm_lock lock; /* guards the members below; any thread may read the atomic ones */
    struct sm_copy *oldest;
    struct sm_copy *newest;
    _Atomic uint64_t oldest_at; /* kept_at of the oldest; NO_AGE: the shard is empty */
    atomic_uint count;          /* of its copies */
    atomic_size_t bytes;
    bool is_large; /* it has more than its share of the limit */
    struct sm_copy *bins[SIZES];
};
static const uint64_t NO_AGE = 0; /* no copy is kept at this time */

/* While no shard has more than its share of the limit, all together keep the limit. Then a call that keeps a copy, or
 * finds one of its stream, reads no other shard, and writes none of the members behind the shards. A forked child never
 * takes a lock of a shard: it uses no device memory, and retires none of its parent's. */
static struct cache {
    struct shard shards[SM_SHARDS];
    alignas(SM_APART) atomic_uint large; /* the number of large shards */
    atomic_uint next;                    /* the shard that the next search through all shards begins with */
    /* Of the thread that enforces the limit. It is tried and never awaited, with a shard locked. So forks find it
     * free. */
    struct sm_mutex enforcing;
    atomic_size_t less; /* the default limit less this is the limit */
} devices[SM_MAX_DEVICES];

/* Streams have consecutive numbers, so up to SM_SHARDS streams that became known one after another share no shard. A
 * stream's number stays the same while a copy refers to its struct. */
static bool is_named(const struct sm_stream *stream)
{
    return stream && stream->kind != SM_STREAM_ANY && stream->kind != SM_STREAM_INTERNAL;
}

static struct shard *find_shard(struct cache *on, const struct sm_stream *stream)
{
    return &on->shards[is_named(stream) ? stream->number % SM_SHARDS : sm_shard()];
}

static size_t get_cache_limit(const struct cache *on)
{
    return DEFAULT_LIMIT - atomic_load(&on->less);
}

/* ---- With the shard locked ---- */

/* A thread that makes its shard large then reads all bytes, and one that adds bytes then reads whether any shard is
 * large. Both orders are sequentially consistent, so one of the two sees an excess. */
static void note_share(struct cache *on, struct shard *shard)
{
    const bool is_large =
        atomic_load(&shard->count) > MOST / SM_SHARDS || atomic_load(&shard->bytes) > get_cache_limit(on) / SM_SHARDS;
    if (is_large != shard->is_large)
        atomic_fetch_add(&on->large, is_large ? 1u : -1u);
    shard->is_large = is_large;
}

/* Only this function changes the numbers. */
static void count_copies(struct cache *on, struct shard *shard, unsigned copies, size_t bytes)
{
    atomic_store_explicit(&shard->count, atomic_load_explicit(&shard->count, memory_order_relaxed) + copies,
                          memory_order_relaxed);
    atomic_store(&shard->bytes, atomic_load_explicit(&shard->bytes, memory_order_relaxed) + bytes);
    note_share(on, shard);
}

static struct sm_copy **find_bin(struct shard *shard, size_t bytes)
{
    return &shard->bins[sm_hash(bytes) >> (64 - SIZES_LOG)];
}

static void note_oldest(struct shard *shard)
{
    atomic_store_explicit(&shard->oldest_at, shard->oldest ? shard->oldest->kept_at : NO_AGE, memory_order_relaxed);
}

/* Returns where the copy is noted that was kept next after this one. copy NULL: that is the oldest. */
static struct sm_copy **get_newer_link(struct shard *shard, const struct sm_copy *copy)
{
    return copy ? &sm_allocation_of(copy)->newer : &shard->oldest;
}

/* Returns where the copy is noted that was kept before this one. copy NULL: that is the newest. */
static struct sm_copy **get_older_link(struct shard *shard, const struct sm_copy *copy)
{
    return copy ? &sm_allocation_of(copy)->older : &shard->newest;
}

/* Inserts the copy by age. Most copies are the newest, and those that a search puts back are nearly the oldest. */
static void insert_copy_by_age(struct shard *shard, struct sm_copy *copy)
{
    struct sm_allocation *const own = sm_allocation_of(copy);
    struct sm_copy *older = shard->newest;
    if (older && older->kept_at > copy->kept_at) {
        struct sm_copy *newer = shard->oldest;
        while (newer->kept_at < copy->kept_at)
            newer = sm_allocation_of(newer)->newer;
        older = sm_allocation_of(newer)->older;
    }
    own->older = older;
    own->newer = *get_newer_link(shard, older);
    *get_newer_link(shard, own->older) = copy;
    *get_older_link(shard, own->newer) = copy;
    note_oldest(shard);
}

static void insert_copy(struct cache *on, struct shard *shard, struct sm_copy *copy)
{
    struct sm_allocation *const own = sm_allocation_of(copy);
    struct sm_copy **const bin = find_bin(shard, own->bytes);
    own->next = *bin;
    *bin = copy;
    insert_copy_by_age(shard, copy);
    count_copies(on, shard, 1, own->bytes);
    sm_gpu_cache_add(copy->device, own->bytes);
    sm_count_up(SM_COUNT_gpu_spare_bytes, own->bytes);
}

static struct sm_copy *unlink_copy(struct cache *on, struct shard *shard, struct sm_copy **link)
{
    struct sm_copy *const copy = *link;
    struct sm_allocation *const own = sm_allocation_of(copy);
    *link = own->next;
    *get_newer_link(shard, own->older) = own->newer;
    *get_older_link(shard, own->newer) = own->older;
    own->next = NULL;
    own->older = NULL;
    own->newer = NULL;
    note_oldest(shard);
    count_copies(on, shard, -1u, (size_t)0 - own->bytes);
    sm_gpu_cache_remove(copy->device, own->bytes);
    sm_count_down(SM_COUNT_gpu_spare_bytes, own->bytes);
    return copy;
}

static struct sm_copy *take_oldest_of_shard(struct cache *on, struct shard *shard)
{
    const struct sm_copy *const oldest = shard->oldest;
    if (!oldest)
        return NULL;
    struct sm_copy **link = find_bin(shard, sm_allocation_of(oldest)->bytes);
    while (*link != oldest)
        link = &sm_allocation_of(*link)->next;
    return unlink_copy(on, shard, link);
}

/* ---- With no lock held ---- */

static bool is_empty(const struct shard *shard)
{
    return atomic_load_explicit(&shard->oldest_at, memory_order_relaxed) == NO_AGE;
}

/* Returns the shard with the oldest copy; NULL: all are empty. Another thread may change it at any time. */
static struct shard *find_shard_of_oldest(struct cache *on)
{
    struct shard *found = NULL;
    uint64_t least = UINT64_MAX;
    for (struct shard *each = on->shards; each < on->shards + SM_SHARDS; each++) {
        const uint64_t at = atomic_load_explicit(&each->oldest_at, memory_order_relaxed);
        if (at != NO_AGE && at < least) {
            found = each;
            least = at;
        }
    }
    return found;
}

static bool is_beyond_limit(const struct cache *on)
{
    unsigned count = 0;
    size_t bytes = 0;
    if (atomic_load(&on->large) == 0)
        return false;
    for (const struct shard *each = on->shards; each < on->shards + SM_SHARDS; each++) {
        bytes += atomic_load(&each->bytes); /* first, as the count is stored before it */
        count += atomic_load(&each->count);
    }
    return count > MOST || bytes > get_cache_limit(on);
}

static void prepend_copy(struct sm_copy **list, struct sm_copy *copy)
{
    sm_allocation_of(copy)->next = *list;
    *list = copy;
}

/* Takes the oldest copy of a shard if the cache is still beyond its limit. Threads that keep copies at once would
 * otherwise each take one for the same excess. */
static struct sm_copy *take_excess(struct cache *on, struct shard *shard)
{
    struct sm_copy *copy = NULL;
    sm_lock(&shard->lock);
    if (shard->oldest && sm_mutex_try(&on->enforcing)) {
        if (is_beyond_limit(on))
            copy = take_oldest_of_shard(on, shard);
        sm_mutex_unlock(&on->enforcing);
    }
    sm_unlock(&shard->lock);
    return copy;
}

/* Removes the oldest copies until the limit is kept. */
static void enforce_cache_limit(struct cache *on, struct sm_copy **gone)
{
    struct shard *shard;
    while (is_beyond_limit(on) && (shard = find_shard_of_oldest(on)) != NULL) {
        struct sm_copy *const copy = take_excess(on, shard);
        if (copy)
            prepend_copy(gone, copy);
    }
}

/* Takes the copy of a shard that was retired first. */
static struct sm_copy *take_first_of_shard(struct cache *on, struct shard *shard, size_t bytes)
{
    struct sm_copy **found = NULL;
    sm_lock(&shard->lock);
    for (struct sm_copy **link = find_bin(shard, bytes); *link; link = &sm_allocation_of(*link)->next)
        if (sm_allocation_of(*link)->bytes == bytes)
            found = link;
    struct sm_copy *const copy = found ? unlink_copy(on, shard, found) : NULL;
    sm_unlock(&shard->lock);
    return copy;
}

static struct sm_copy *take_from(struct cache *on, unsigned first, size_t bytes)
{
    struct sm_copy *copy = NULL;
    for (unsigned i = 0; i < SM_SHARDS && !copy; i++) {
        struct shard *const shard = &on->shards[(first + i) % SM_SHARDS];
        if (!is_empty(shard))
            copy = take_first_of_shard(on, shard, bytes);
    }
    return copy;
}

/* Takes a copy of any stream. The shards take turns. Otherwise memory that is in use for long would hide the rest. */
static struct sm_copy *take_any_copy(struct cache *on, size_t bytes)
{
    if (!find_shard_of_oldest(on))
        return NULL;
    return take_from(on, atomic_fetch_add_explicit(&on->next, 1, memory_order_relaxed), bytes);
}

/* Takes the stream's own copy that was retired last, else one of any stream. */
static struct sm_copy *take_for_stream(struct cache *on, const struct sm_stream *stream, size_t bytes)
{
    struct shard *const shard = find_shard(on, stream);
    struct sm_copy *copy = NULL;
    if (!is_empty(shard)) {
        sm_lock(&shard->lock);
        struct sm_copy **link = find_bin(shard, bytes);
        while (*link && (sm_allocation_of(*link)->bytes != bytes || sm_inflight_last_user(*link) != stream))
            link = &sm_allocation_of(*link)->next;
        copy = *link ? unlink_copy(on, shard, link) : NULL;
        sm_unlock(&shard->lock);
    }
    return copy ? copy : take_any_copy(on, bytes);
}

/* ---- Functions for other files ---- */

struct sm_copy *sm_device_cache_keep(struct sm_copy *copy)
{
    struct cache *const on = &devices[copy->device];
    struct shard *const shard = find_shard(on, sm_inflight_last_user(copy));
    struct sm_copy *gone = NULL;
    if (sm_allocation_of(copy)->bytes > get_cache_limit(on)) {
        prepend_copy(&gone, copy);
        return gone;
    }
    sm_lock(&shard->lock);
    copy->kept_at = sm_now();
    insert_copy(on, shard, copy);
    sm_unlock(&shard->lock);
    enforce_cache_limit(on, &gone);
    return gone;
}

/* Returns whether the stream comes after all work in flight on the copy. The first call records the fences, which later
 * calls only poll. If a stream has vanished the copy is untracked. */
static bool is_copy_usable(struct sm_copy *copy, const struct sm_stream *stream)
{
    if (sm_inflight_only_stream(copy) == stream)
        return true;
    if (sm_inflight_settle(copy, true, NULL) != SYNCED_MEM_OK)
        return false;
    sm_inflight_close(copy);
    return sm_inflight_is_idle(copy);
}

/* Keeps the copies that a search has passed over. Untracked copies go to *gone: no fence tells when their work ends, so
 * no later search may find them. */
static void reinsert_copies(struct cache *on, struct sm_copy *list, struct sm_copy **gone)
{
    while (list) {
        struct sm_copy *const copy = list;
        list = sm_allocation_of(copy)->next;
        if (copy->untracked) {
            prepend_copy(gone, copy);
        } else {
            struct shard *const shard = find_shard(on, sm_inflight_last_user(copy));
            sm_lock(&shard->lock);
            insert_copy(on, shard, copy);
            sm_unlock(&shard->lock);
        }
    }
    enforce_cache_limit(on, gone);
}

struct sm_copy *sm_device_cache_take(const struct sm_stream *stream, size_t bytes, struct sm_copy **gone,
                                     bool *examined)
{
    struct cache *const on = &devices[stream->device];
    struct sm_copy *unusable = NULL;
    struct sm_copy *copy = NULL;
    *gone = NULL;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        copy = is_named(stream) ? take_for_stream(on, stream, bytes)
               : tries == 0     ? take_from(on, sm_shard(), bytes)
                                : take_any_copy(on, bytes);
        if (!copy || is_copy_usable(copy, stream))
            break;
        prepend_copy(&unusable, copy);
        copy = NULL;
    }
    if (unusable)
        reinsert_copies(on, unusable, gone);
    *examined = unusable || copy;
    if (copy)
        sm_inflight_forget(copy);
    return copy;
}

struct sm_copy *sm_device_cache_take_all(int device)
{
    struct cache *const on = &devices[device];
    struct sm_copy *all = NULL;
    for (struct shard *each = on->shards; each < on->shards + SM_SHARDS; each++) {
        if (is_empty(each))
            continue;
        sm_lock(&each->lock);
        struct sm_copy *copy;
        while ((copy = take_oldest_of_shard(on, each)) != NULL)
            prepend_copy(&all, copy);
        sm_unlock(&each->lock);
    }
    return all;
}

/* The shares change with the limit. */
void sm_device_cache_set_limit(int device, size_t bytes)
{
    struct cache *const on = &devices[device];
    const size_t less = bytes < DEFAULT_LIMIT ? DEFAULT_LIMIT - bytes : 0;
    if (atomic_exchange(&on->less, less) == less)
        return;
    for (struct shard *each = on->shards; each < on->shards + SM_SHARDS; each++) {
        sm_lock(&each->lock);
        note_share(on, each);
        sm_unlock(&each->lock);
    }
}

void sm_device_cache_reset(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        sm_device_cache_set_limit(device, DEFAULT_LIMIT);
}
