/* The cache of free blocks: some bins in each shard. */
#include "memory/pinned/host_cache.h"

#include "base/hash.h"
#include "base/process.h"
#include "base/shard.h"

/* Cached blocks can't merge with their neighbours, so a bin keeps few. But it keeps as many of a size as a thread is
 * likely to give back before it takes some again. */
enum { SMALL_BINS_LOG = 4, LARGE_BINS_LOG = 2, SMALL_BINS = 1 << SMALL_BINS_LOG };
enum { BINS = SMALL_BINS + (1 << LARGE_BINS_LOG), ELEMENTS = 8 };
static const size_t LARGE = 16 << 10;

struct shard {
    struct sm_lock lock;       /* guards the members below; any thread may read the atomic ones */
    _Atomic int64_t requested; /* negative if the thread gives back blocks that other threads took */
    _Atomic uint64_t allocations;
    int64_t highest; /* the most requested since the peak was reset */
    struct bin {
        unsigned count;
        struct sm_cached elements[ELEMENTS]; /* the latest last */
    } bins[BINS];
    char apart[SM_APART];
};

static struct shard shards[SM_SHARDS] = {SM_SIXTEEN_TIMES({.lock = SM_LOCK_INITIALIZER})};

static _Atomic uint64_t peak;

static struct shard *get_cache_shard(void)
{
    return &shards[sm_shard()];
}

static struct bin *find_bin_of_key(struct shard *shard, size_t key)
{
    const uint64_t hash = sm_hash(key);
    return key < LARGE ? &shard->bins[hash >> (64 - SMALL_BINS_LOG)]
                       : &shard->bins[SMALL_BINS + (hash >> (64 - LARGE_BINS_LOG))];
}

/* Changes the shard's requested bytes and returns them. The shard is locked. */
static int64_t change_requested(struct shard *shard, int64_t change)
{
    const int64_t now = atomic_load_explicit(&shard->requested, memory_order_relaxed) + change;
    atomic_store_explicit(&shard->requested, now, memory_order_relaxed);
    return now;
}

/* ---- Requested bytes ---- */

uint64_t sm_host_cache_requested(void)
{
    int64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&shards[i].requested, memory_order_relaxed);
    return sum > 0 ? (uint64_t)sum : 0;
}

static void update_peak(void)
{
    const uint64_t now = sm_host_cache_requested();
    uint64_t before = atomic_load_explicit(&peak, memory_order_relaxed);
    bool settled = false;
    while (!settled)
        settled = now <= before || atomic_compare_exchange_weak_explicit(&peak, &before, now, memory_order_relaxed,
                                                                         memory_order_relaxed);
}

uint64_t sm_host_cache_peak(void)
{
    update_peak();
    return atomic_load_explicit(&peak, memory_order_relaxed);
}

void sm_host_cache_reset_peak(void)
{
    for (int i = 0; i < SM_SHARDS; i++) {
        sm_lock(&shards[i].lock);
        shards[i].highest = change_requested(&shards[i], 0);
        sm_unlock(&shards[i].lock);
    }
    atomic_store_explicit(&peak, sm_host_cache_requested(), memory_order_relaxed);
}

uint64_t sm_host_cache_allocations(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++)
        sum += atomic_load_explicit(&shards[i].allocations, memory_order_relaxed);
    return sum;
}

/* ---- Taking and putting ---- */

/* Removes an element and closes the gap. */
static struct sm_cached remove_element(struct bin *bin, unsigned at)
{
    const struct sm_cached taken = bin->elements[at];
    bin->count--;
    for (unsigned i = at; i < bin->count; i++)
        bin->elements[i] = bin->elements[i + 1];
    return taken;
}

static bool take_from_bin(struct bin *bin, size_t key, struct sm_cached *out)
{
    for (unsigned i = bin->count; i-- > 0;)
        if (bin->elements[i].key == key) {
            *out = remove_element(bin, i);
            return true;
        }
    return false;
}

/* Counts an allocation. Returns whether the shard's requested bytes have a new peak. The shard is locked. */
static bool count_allocation(struct shard *shard, size_t size)
{
    const int64_t requested = change_requested(shard, (int64_t)size);
    const uint64_t allocations = atomic_load_explicit(&shard->allocations, memory_order_relaxed);
    atomic_store_explicit(&shard->allocations, allocations + 1, memory_order_relaxed);
    if (requested <= shard->highest)
        return false;
    shard->highest = requested;
    return true;
}

bool sm_host_cache_take(size_t key, size_t size, struct sm_cached *out)
{
    struct shard *const shard = get_cache_shard();
    sm_lock(&shard->lock);
    const bool found = take_from_bin(find_bin_of_key(shard, key), key, out);
    const bool is_high = found && count_allocation(shard, size);
    sm_unlock(&shard->lock);
    if (is_high)
        update_peak();
    return found;
}

void sm_host_cache_count(size_t size)
{
    struct shard *const shard = get_cache_shard();
    sm_lock(&shard->lock);
    const bool is_high = count_allocation(shard, size);
    sm_unlock(&shard->lock);
    if (is_high)
        update_peak();
}

bool sm_host_cache_take_others(size_t key, struct sm_cached *out)
{
    bool found = false;
    for (unsigned i = 1; i < SM_SHARDS && !found; i++) {
        struct shard *const shard = &shards[(sm_shard() + i) % SM_SHARDS];
        sm_lock(&shard->lock);
        found = take_from_bin(find_bin_of_key(shard, key), key, out);
        sm_unlock(&shard->lock);
    }
    return found;
}

bool sm_host_cache_put(const struct sm_cached *in, size_t size, struct sm_cached *out)
{
    struct shard *const shard = get_cache_shard();
    sm_lock(&shard->lock);
    struct bin *const bin = find_bin_of_key(shard, in->key);
    const bool full = bin->count == ELEMENTS;
    if (full)
        *out = remove_element(bin, 0);
    bin->elements[bin->count++] = *in;
    (void)change_requested(shard, -(int64_t)size);
    sm_unlock(&shard->lock);
    return full;
}

/* ---- All shards ---- */

bool sm_host_cache_flush(void (*give)(const struct sm_cached *cached))
{
    bool any = false;
    for (int i = 0; i < SM_SHARDS; i++)
        for (int j = 0; j < BINS; j++) {
            sm_lock(&shards[i].lock);
            const struct bin bin = shards[i].bins[j];
            shards[i].bins[j].count = 0;
            sm_unlock(&shards[i].lock);
            for (unsigned k = bin.count; k-- > 0;)
                give(&bin.elements[k]);
            any = any || bin.count > 0;
        }
    return any;
}

uint64_t sm_host_cache_sum(uint64_t (*visit)(const struct sm_cached *cached))
{
    uint64_t sum = 0;
    for (int i = 0; i < SM_SHARDS; i++) {
        sm_lock(&shards[i].lock);
        for (int j = 0; j < BINS; j++)
            for (unsigned k = 0; k < shards[i].bins[j].count; k++)
                sum += visit(&shards[i].bins[j].elements[k]);
        sm_unlock(&shards[i].lock);
    }
    return sum;
}
