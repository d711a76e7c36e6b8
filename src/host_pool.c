/* Page-locked memory by size class, eight to each power of two, so that at most an eighth is wasted. */
#include "host_pool.h"

#include "device.h"
#include "process.h"
#include "stats.h"

#include <stdbool.h>

enum { SMALLEST_BITS = 9, STEPS = 8, CLASSES = (64 - SMALLEST_BITS) * STEPS };

/* What stands in memory that nobody uses. */
struct block {
    struct block *next;
    size_t bytes;
    int device;
};

static struct {
    struct sm_lock lock;
    struct block *kept[CLASSES];
    unsigned char generation; /* of the process that page-locked them */
} pool = {.lock = SM_LOCK_INITIALIZER};

/* The first class that holds the size; bytes receives how much that is. */
static unsigned class_of(size_t size, size_t *bytes)
{
    unsigned bits = SMALLEST_BITS;
    while (size > (size_t)2 << bits)
        bits++;
    const size_t base = (size_t)1 << bits;
    const size_t step = base / STEPS;
    const size_t steps = size <= base ? 0 : (size - base + step - 1) / step;
    *bytes = base + steps * step;
    return (bits - SMALLEST_BITS) * STEPS + (unsigned)steps;
}

/* With the pool locked. A child can use its parent's memory, but page-locked it is in the parent. */
static void leave_to_parent(void)
{
    if (pool.generation == sm_process_generation())
        return;
    for (unsigned i = 0; i < CLASSES; i++)
        pool.kept[i] = NULL;
    pool.generation = sm_process_generation();
}

static struct block *take(unsigned class)
{
    sm_lock(&pool.lock);
    leave_to_parent();
    struct block *const block = pool.kept[class];
    if (block)
        pool.kept[class] = block->next;
    sm_unlock(&pool.lock);
    return block;
}

static void keep(unsigned class, struct block *block)
{
    sm_lock(&pool.lock);
    leave_to_parent();
    block->next = pool.kept[class];
    pool.kept[class] = block;
    sm_unlock(&pool.lock);
}

/* What was page-locked in the context of a lost device went with it. */
static synced_mem_status free_class(unsigned class)
{
    struct block *block;
    while ((block = take(class)) != NULL) {
        const size_t bytes = block->bytes;
        const synced_mem_status status = sm_device_pinned_free(block->device, block);
        if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST) {
            keep(class, block);
            return status;
        }
        sm_count_down(SM_COUNT_pinned_bytes, bytes);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_host_pool_shutdown(void)
{
    synced_mem_status first = SYNCED_MEM_OK;
    for (unsigned class = 0; class < CLASSES; class ++) {
        const synced_mem_status status = free_class(class);
        first = first != SYNCED_MEM_OK ? first : status;
    }
    return first;
}

bool sm_host_pool_relieve(void)
{
    return sm_host_pool_shutdown() == SYNCED_MEM_OK;
}

synced_mem_status sm_host_pool_alloc(int device, size_t size, void **out)
{
    size_t bytes;
    const unsigned class = class_of(size, &bytes);
    *out = take(class);
    if (*out)
        return SYNCED_MEM_OK;
    synced_mem_status status = sm_device_pinned_alloc(device, bytes, out);
    if (status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY && sm_host_pool_shutdown() == SYNCED_MEM_OK)
        status = sm_device_pinned_alloc(device, bytes, out);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_count_up(SM_COUNT_pinned_bytes, bytes);
    return SYNCED_MEM_OK;
}

void sm_host_pool_free(int device, void *data, size_t size)
{
    struct block *const block = data;
    const unsigned class = class_of(size, &block->bytes);
    block->device = device;
    keep(class, block);
}
