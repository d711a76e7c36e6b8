/* The pool of managed memory. Sizes are rounded, so that few different ones are kept. */
#include "memory/managed_pool.h"

#include "memory/accounting.h"
#include "base/hands.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/status.h"

/* The most blocks and bytes that are kept. More memory is freed at once. */
enum { MOST_KEPT = 64, MOST_KEPT_BYTES = 1 << 30 };

/* Eight sizes to each power of two: at most an eighth is wasted, and no two blocks share a page. */
enum { SMALLEST_STEP = 4096, STEPS = 8 };

/* A kept block. Its struct is not in the memory itself: access by the host would move the pages there. */
struct block {
    void *data;
    size_t bytes;
    int device;
};

static struct {
    struct sm_lock lock;
    struct block kept[MOST_KEPT];
    unsigned count;
    size_t bytes;
} pool = {.lock = SM_LOCK_INITIALIZER};

/* Bytes of managed memory by device: in use, kept, or being allocated. */
static atomic_size_t held[SM_MAX_DEVICES];

static size_t round_block_size(size_t size)
{
    size_t step = SMALLEST_STEP;
    while (size > 2 * STEPS * step)
        step *= 2;
    return (size + step - 1) / step * step;
}

/* ---- Kept blocks ---- */

/* With the pool locked. */
static void remove_kept_block(unsigned i, struct block *out)
{
    *out = pool.kept[i];
    pool.kept[i] = pool.kept[--pool.count];
    pool.bytes -= out->bytes;
}

static bool take_any_kept_block(struct block *out)
{
    sm_lock(&pool.lock);
    const bool found = pool.count > 0;
    if (found)
        remove_kept_block(0, out);
    sm_unlock(&pool.lock);
    return found;
}

static bool keep_block(const struct block *block)
{
    sm_lock(&pool.lock);
    const bool has_room = pool.count < MOST_KEPT && block->bytes <= MOST_KEPT_BYTES - pool.bytes;
    if (has_room) {
        pool.kept[pool.count++] = *block;
        pool.bytes += block->bytes;
    }
    sm_unlock(&pool.lock);
    return has_room;
}

/* ---- Blocks from the runtime ---- */

/* Checks that the device has room for bytes more. before: the managed bytes held so far. How many of them are on the
 * device is not known. They are assumed to be there as far as memory in use there, beyond the library's own pool,
 * allows. The others may move there and need room too. */
static synced_mem_status check_room(int device, size_t before, size_t bytes)
{
    size_t left;
    size_t total;
    struct sm_pool_numbers own;
    synced_mem_status status = sm_gpu_numbers(device, &own);
    if (status == SYNCED_MEM_OK)
        status = sm_device_memory_info(device, &left, &total);
    if (status != SYNCED_MEM_OK)
        return status;
    const size_t others = total - left > own.reserved ? total - left - own.reserved : 0;
    const size_t resident = before < others ? before : others;
    const size_t elsewhere = before - resident;
    if (elsewhere <= left && bytes <= left - elsewhere)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                   "%zu bytes of managed memory do not fit on device %d: %zu of its %zu bytes are free, and %zu bytes "
                   "of managed memory that is elsewhere may move there",
                   bytes, device, left, total, elsewhere);
}

/* Allocates a block and advises its location. It counts as held during the call, so another thread may be refused
 * memory meanwhile. The advice is a hint, so a failure of it is ignored. */
static synced_mem_status alloc_and_advise_block(int device, size_t bytes, void **out)
{
    sm_hands_fill();
    const size_t before = atomic_fetch_add_explicit(&held[device], bytes, memory_order_relaxed);
    synced_mem_status status = check_room(device, before, bytes);
    if (status == SYNCED_MEM_OK)
        status = sm_device_managed_alloc(device, bytes, out);
    if (status != SYNCED_MEM_OK)
        atomic_fetch_sub_explicit(&held[device], bytes, memory_order_relaxed);
    sm_hands_empty(status != SYNCED_MEM_OK);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_count_up(SM_COUNT_managed_bytes, bytes);
    (void)sm_device_managed_advise(device, *out, bytes);
    return SYNCED_MEM_OK;
}

/* Frees a block. On a lost device it is gone already. */
static synced_mem_status free_block(const struct block *block)
{
    const synced_mem_status status = sm_device_managed_free(block->device, block->data);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return status;
    atomic_fetch_sub_explicit(&held[block->device], block->bytes, memory_order_relaxed);
    sm_count_down(SM_COUNT_managed_bytes, block->bytes);
    return SYNCED_MEM_OK;
}

static void keep_or_quarantine_block(const struct block *block)
{
    if (!keep_block(block))
        sm_count_up(SM_COUNT_quarantined, 1);
}

/* Frees all kept blocks. *any: a block was taken off the list. */
static synced_mem_status free_kept_blocks(bool *any)
{
    struct block block;
    *any = false;
    while (take_any_kept_block(&block)) {
        *any = true;
        const synced_mem_status status = free_block(&block);
        if (status != SYNCED_MEM_OK) {
            keep_or_quarantine_block(&block);
            return status;
        }
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_managed_pool_shutdown(void)
{
    bool any;
    return free_kept_blocks(&any);
}

bool sm_managed_pool_reclaim(void)
{
    bool any;
    const uint64_t before = sm_count_of(SM_COUNT_managed_bytes);
    const struct sm_detail first = sm_detail_get(); /* of the request that was refused */
    sm_hands_fill();
    (void)free_kept_blocks(&any);
    sm_hands_empty(any);
    sm_detail_set(&first);
    return sm_count_of(SM_COUNT_managed_bytes) < before;
}

synced_mem_status sm_managed_pool_alloc(int device, size_t size, void **out)
{
    const size_t bytes = round_block_size(size);
    struct block block;
    unsigned i = 0;
    sm_lock(&pool.lock);
    while (i < pool.count && (pool.kept[i].device != device || pool.kept[i].bytes != bytes))
        i++;
    const bool found = i < pool.count;
    if (found)
        remove_kept_block(i, &block);
    sm_unlock(&pool.lock);
    if (found) {
        *out = block.data;
        return SYNCED_MEM_OK;
    }
    const synced_mem_status status = alloc_and_advise_block(device, bytes, out);
    if (status != SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY || !sm_managed_pool_reclaim())
        return status;
    return alloc_and_advise_block(device, bytes, out);
}

void sm_managed_pool_free(int device, void *data, size_t size)
{
    const struct block block = {.data = data, .bytes = round_block_size(size), .device = device};
    if (!keep_block(&block) && free_block(&block) != SYNCED_MEM_OK)
        keep_or_quarantine_block(&block);
}
