/* The pool of page-locked memory: where a request gets its memory, and when the pool grows and shrinks. */
#include "memory/pinned/host_pool.h"

#include "base/hands.h"
#include "memory/pinned/host_cache.h"
#include "memory/pinned/host_node.h"
#include "base/process.h"
#include "memory/pinned/runs.h"
#include "base/status.h"
#include "system/process.h"

#include <assert.h>

/* A segment for smaller requests has this share of the bytes held. So small programs hold little unused memory, and
 * large ones have few segments. */
enum { SHARE = 8 };
static const size_t SMALLEST_SEGMENT = (size_t)2 << 20;
static const size_t LARGEST_SEGMENT = (size_t)64 << 20;

/* The pool may hold the most bytes requested at a time plus this share. Before it holds more, it releases unused
 * segments. */
enum { SLACK = 16 };

static const uint64_t EVER = UINT64_MAX;

/* Locked while the pool grows, which takes a while. It is no library lock: a fork need not wait for that. A forked
 * child has no pool. If no GPU was used, it has one, but nothing in it was being changed. */
static struct {
    struct sm_mutex lock;
    size_t wanted; /* the most bytes requested at a time since the last trim; guarded by lock */
} growth;

static atomic_uint decay; /* in milliseconds; 0: never */
static atomic_bool fallback;
static _Atomic uint64_t fresh; /* allocations for which the pool grew */

/* In a forked child: the thread that held the lock may be missing. */
static void reset_growth_lock(void)
{
    sm_mutex_init(&growth.lock);
}

static __attribute__((constructor)) void watch_forks_for_pool(void)
{
    sm_watch_forks(NULL, NULL, reset_growth_lock);
}

static size_t pick_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static_assert((int)SM_HOST_PLACES <= (int)SM_RUNS_SMALLEST, "the place is in the bits below the smallest size");

static size_t make_key(size_t size, unsigned place)
{
    return sm_arena_rounded(size) | place;
}

/* ---- Releasing memory to the system ---- */

static void give_cached_block(const struct sm_cached *cached)
{
    sm_arena_give(cached->data, cached->block);
}

static synced_mem_status release_unused_segments(bool *any)
{
    (void)sm_host_cache_flush(give_cached_block);
    return sm_arena_release(0, EVER, any);
}

/* Does not lock growth: a thread that is refused memory meanwhile waits for this thread's hands, see hands.h. */
bool sm_host_pool_reclaim(void)
{
    bool any = false;
    if (sm_process_lost_gpu())
        return false;
    sm_hands_fill();
    const bool flushed = sm_host_cache_flush(give_cached_block);
    (void)sm_arena_release(0, EVER, &any);
    sm_hands_empty(flushed || any);
    return any;
}

/* Returns whether memory was released, or moved from a cache to the arena, where all threads find it. */
static bool release_old_segments(unsigned after)
{
    bool any;
    const bool flushed = sm_host_cache_flush(give_cached_block);
    (void)sm_arena_release(0, sm_arena_time(after), &any);
    return flushed || any;
}

/* Does not lock growth, as sm_host_pool_reclaim(). */
void sm_host_pool_decay(void)
{
    const unsigned after = atomic_load_explicit(&decay, memory_order_relaxed);
    if (after == 0)
        return;
    sm_hands_fill();
    sm_hands_empty(release_old_segments(after));
}

/* ---- Growing ---- */

/* Returns the size of the next segment for small requests. */
static size_t choose_segment_size(size_t held)
{
    const size_t share = held / SHARE / SMALLEST_SEGMENT * SMALLEST_SEGMENT;
    return pick_larger(share < LARGEST_SEGMENT ? share : LARGEST_SEGMENT, SMALLEST_SEGMENT);
}

/* Releases unused segments that are old, or beyond the wanted bytes. Segments too small for the request would otherwise
 * be held beside the new one. */
static void make_room_for_segment(size_t size, size_t bytes)
{
    bool any;
    const unsigned after = atomic_load_explicit(&decay, memory_order_relaxed);
    growth.wanted = pick_larger(growth.wanted, sm_host_cache_requested() + size);
    const size_t most_held = growth.wanted + growth.wanted / SLACK;
    if (after > 0)
        (void)release_old_segments(after);
    (void)sm_arena_release(most_held > bytes ? most_held - bytes : 0, EVER, &any);
}

/* Adds a segment and takes memory from it. If there is no memory for the usual size, it releases all unused memory and
 * tries the least size. The last resort is memory that is not near the device. *grew: a segment was added. */
static synced_mem_status grow_pool(int device, unsigned place, size_t size, bool *grew, struct sm_pinned *out)
{
    bool any;
    const size_t least = sm_arena_least(size);
    const size_t bytes = pick_larger(choose_segment_size(sm_arena_facts().held), least);
    make_room_for_segment(size, bytes);
    synced_mem_status status = sm_arena_grow(device, place, bytes, size, out);
    if (status != SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY)
        return status;
    (void)release_unused_segments(&any);
    status = sm_arena_grow(device, place, least, size, out);
    if (status != SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY || !sm_arena_take_anywhere(size, out))
        return status;
    *grew = false;
    return SYNCED_MEM_OK;
}

/* Takes memory from the arena or grows, with growth locked. Flushes the caches first, since they may have what is
 * missing. A failed request does not count as wanted. */
static synced_mem_status take_or_grow_pool(int device, unsigned place, size_t size, bool *grew, struct sm_pinned *out)
{
    const size_t wanted = growth.wanted;
    (void)sm_host_cache_flush(give_cached_block);
    *grew = !sm_arena_take(place, size, true, out);
    const synced_mem_status status = *grew ? grow_pool(device, place, size, grew, out) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK)
        growth.wanted = wanted;
    return status;
}

/* ---- Memory ---- */

static synced_mem_status take_shared(int device, unsigned place, size_t size, struct sm_pinned *out)
{
    bool grew;
    struct sm_cached cached;
    if (sm_arena_take(place, size, false, out))
        return SYNCED_MEM_OK;
    if (sm_host_cache_take_others(make_key(size, place), &cached)) {
        *out = (struct sm_pinned){.data = cached.data, .bytes = size, .block = cached.block};
        return SYNCED_MEM_OK;
    }
    sm_mutex_lock(&growth.lock);
    const synced_mem_status status = take_or_grow_pool(device, place, size, &grew, out);
    sm_mutex_unlock(&growth.lock);
    out->fresh = status == SYNCED_MEM_OK && grew;
    return status;
}

static synced_mem_status check_request_size(size_t size)
{
    if (size > SM_TLSF_LARGEST)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "%zu bytes are more than a process can address", size);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_host_pool_alloc(int device, size_t size, struct sm_pinned *out)
{
    struct sm_cached cached;
    assert(size > 0);
    SM_TRY(sm_process_check_not_forked("the pool of page-locked memory"));
    if (check_request_size(size) != SYNCED_MEM_OK)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const unsigned place = sm_host_place_of(device);
    if (sm_host_cache_take(make_key(size, place), size, &cached)) {
        *out = (struct sm_pinned){.data = cached.data, .bytes = size, .block = cached.block};
        return SYNCED_MEM_OK;
    }
    const synced_mem_status status = take_shared(device, place, size, out);
    if (status == SYNCED_MEM_OK)
        sm_host_cache_count(size);
    if (out->fresh)
        atomic_fetch_add_explicit(&fresh, 1, memory_order_relaxed);
    return status;
}

void sm_host_pool_free(void *data, size_t bytes, void *block)
{
    struct sm_cached pushed_out;
    if (sm_process_lost_gpu())
        return;
    const struct sm_cached cached = {.key = make_key(bytes, sm_arena_place_of(block)), .data = data, .block = block};
    if (sm_host_cache_put(&cached, bytes, &pushed_out))
        sm_arena_give(pushed_out.data, pushed_out.block);
}

/* ---- Settings and statistics ---- */

bool sm_host_pool_may_fall_back(int device)
{
    return device >= 0 && atomic_load_explicit(&fallback, memory_order_relaxed);
}

void sm_host_pool_set_fallback(bool allow)
{
    atomic_store_explicit(&fallback, allow, memory_order_relaxed);
}

void sm_host_pool_set_decay(unsigned milliseconds)
{
    atomic_store_explicit(&decay, milliseconds, memory_order_relaxed);
}

/* With growth locked. */
static void trim_locked_pool(size_t keep)
{
    bool any;
    (void)sm_host_cache_flush(give_cached_block);
    (void)sm_arena_release(keep, EVER, &any);
    growth.wanted = 0;
}

void sm_host_pool_trim(size_t keep)
{
    sm_mutex_lock(&growth.lock);
    trim_locked_pool(keep);
    sm_mutex_unlock(&growth.lock);
}

/* Locks growth, so that the pool keeps to the limit from here on. */
void sm_host_pool_set_limit(size_t bytes)
{
    sm_mutex_lock(&growth.lock);
    if (sm_arena_set_limit(bytes))
        trim_locked_pool(bytes);
    sm_mutex_unlock(&growth.lock);
}

/* Takes the memory and gives it back, so it is contiguous. A failed request does not count as wanted. */
synced_mem_status sm_host_pool_reserve(int device, size_t bytes)
{
    bool grew;
    struct sm_pinned memory;
    if (check_request_size(bytes) != SYNCED_MEM_OK)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    sm_mutex_lock(&growth.lock);
    const size_t wanted = growth.wanted;
    growth.wanted = pick_larger(wanted, sm_host_cache_requested() + bytes);
    const synced_mem_status status = take_or_grow_pool(device, sm_host_place_of(device), bytes, &grew, &memory);
    if (status == SYNCED_MEM_OK)
        sm_arena_give(memory.data, memory.block);
    else
        growth.wanted = wanted;
    sm_mutex_unlock(&growth.lock);
    return status;
}

static uint64_t get_cached_bytes(const struct sm_cached *cached)
{
    return sm_arena_bytes_of(cached->block);
}

void sm_host_pool_get_stats(synced_mem_host_pool_stats *stats)
{
    const uint64_t cached = sm_host_cache_sum(get_cached_bytes);
    const struct sm_arena_facts facts = sm_arena_facts();
    stats->requested_bytes = sm_host_cache_requested();
    stats->peak_requested_bytes = sm_host_cache_peak();
    stats->held_bytes = facts.held;
    stats->peak_held_bytes = facts.peak_held;
    stats->free_bytes = facts.held - facts.used + cached;
    stats->slabs = facts.segments;
    stats->registrations = facts.registrations;
    stats->fresh_allocations = atomic_load_explicit(&fresh, memory_order_relaxed);
    stats->reused_allocations = sm_host_cache_allocations() - stats->fresh_allocations;
}

void sm_host_pool_reset_peaks(void)
{
    sm_host_cache_reset_peak();
    sm_arena_reset_peak();
}

synced_mem_status sm_host_pool_shutdown(void)
{
    bool any;
    const synced_mem_status status = release_unused_segments(&any);
    sm_mutex_lock(&growth.lock);
    growth.wanted = 0;
    sm_mutex_unlock(&growth.lock);
    sm_arena_trim();
    sm_host_places_forget();
    return status;
}
