/* Records of users' allocators, and calls through them. */
#include "memory/allocator.h"

#include "base/caller.h"
#include "device/device.h"
#include "base/process.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdlib.h>

struct sm_allocator {
    synced_mem_allocator table;
    enum sm_side side;
    struct sm_allocator *next; /* in the bucket */
};

enum { BUCKETS = 256, KNOWN_FLAGS = SYNCED_MEM_ALLOCATOR_PINNED };

static struct {
    struct sm_lock lock;
    struct sm_allocator *buckets[BUCKETS];
} allocators = {.lock = SM_LOCK_INITIALIZER};

static _Atomic(const struct sm_allocator *) of_all[SM_SIDES];

static const char *get_side_name(enum sm_side side)
{
    return side == SM_CPU ? "host" : "device";
}

/* ---- Tables ---- */

static synced_mem_status check_table(const synced_mem_allocator *table, enum sm_side side)
{
    const char *const name = get_side_name(side);
    SM_TRY(SM_CHECK_STRUCT(table, side == SM_CPU ? "the host allocator" : "the device allocator"));
    if (!table->alloc || !table->free)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the %s allocator has no %s function", name,
                       table->alloc ? "free" : "alloc");
    if (table->flags & ~(unsigned)KNOWN_FLAGS)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the %s allocator has unknown flags %#x", name,
                       table->flags & ~(unsigned)KNOWN_FLAGS);
    return SYNCED_MEM_OK;
}

static bool has_equal_table(const struct sm_allocator *allocator, const synced_mem_allocator *table, enum sm_side side)
{
    return allocator->side == side && allocator->table.alloc == table->alloc && allocator->table.free == table->free &&
           allocator->table.user == table->user && allocator->table.flags == table->flags;
}

/* Returns the allocator of an equal table, or a new one. NULL: no memory. The allocators are locked. The hash is of the
 * user pointer, since many tables differ in that only. */
static struct sm_allocator *find_or_make_allocator(const synced_mem_allocator *table, enum sm_side side)
{
    struct sm_allocator **const bucket = &allocators.buckets[((uintptr_t)table->user >> 4) % BUCKETS];
    struct sm_allocator *allocator = *bucket;
    while (allocator && !has_equal_table(allocator, table, side))
        allocator = allocator->next;
    if (allocator)
        return allocator;
    allocator = calloc(1, sizeof *allocator);
    if (!allocator)
        return NULL;
    *allocator = (struct sm_allocator){.table = *table, .side = side, .next = *bucket};
    *bucket = allocator;
    return allocator;
}

synced_mem_status sm_allocator_find(const synced_mem_allocator *table, enum sm_side side,
                                    const struct sm_allocator **out)
{
    *out = NULL;
    if (!table)
        return SYNCED_MEM_OK;
    SM_TRY(check_table(table, side));
    sm_lock(&allocators.lock);
    *out = find_or_make_allocator(table, side);
    sm_unlock(&allocators.lock);
    return *out ? SYNCED_MEM_OK
                : sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for an allocator's record");
}

synced_mem_status sm_allocator_set_for_all(const synced_mem_allocator *cpu, const synced_mem_allocator *gpu)
{
    const struct sm_allocator *host = NULL;
    const struct sm_allocator *device = NULL;
    synced_mem_status status = sm_allocator_find(cpu, SM_CPU, &host);
    if (status == SYNCED_MEM_OK)
        status = sm_allocator_find(gpu, SM_GPU, &device);
    if (status != SYNCED_MEM_OK)
        return status;
    atomic_store_explicit(&of_all[SM_CPU], host, memory_order_release);
    atomic_store_explicit(&of_all[SM_GPU], device, memory_order_release);
    return SYNCED_MEM_OK;
}

const struct sm_allocator *sm_allocator_of_all(enum sm_side side)
{
    return atomic_load_explicit(&of_all[side], memory_order_acquire);
}

bool sm_allocator_is_of_host(const struct sm_allocator *allocator)
{
    return allocator->side == SM_CPU;
}

void sm_allocator_shutdown(void)
{
    (void)sm_allocator_set_for_all(NULL, NULL);
    sm_lock(&allocators.lock);
    for (int i = 0; i < BUCKETS; i++)
        while (allocators.buckets[i]) {
            struct sm_allocator *const first = allocators.buckets[i];
            allocators.buckets[i] = first->next;
            free(first);
        }
    sm_unlock(&allocators.lock);
}

/* ---- Calls ---- */

/* Returns whether the memory fits the request. Queries the runtime for its kind, unless the process uses no device.
 * The allocator is trusted where the runtime can't report it. */
static bool fits_request(const struct sm_allocator *from, const struct sm_request *request, const void *data,
                         bool *pinned)
{
    struct sm_pointer_facts facts;
    *pinned = from->side == SM_CPU && (from->table.flags & SYNCED_MEM_ALLOCATOR_PINNED);
    if (!sm_device_in_use() || sm_device_query_pointer(request->device, data, &facts) != SYNCED_MEM_OK)
        return true;
    *pinned = *pinned && facts.kind == SM_POINTER_PINNED;
    if (facts.kind == SM_POINTER_MANAGED)
        return from->side == SM_GPU ? facts.device == request->device : facts.concurrent;
    if (from->side == SM_GPU)
        return facts.kind == SM_POINTER_DEVICE && facts.device == request->device;
    return facts.kind != SM_POINTER_DEVICE;
}

static synced_mem_status fail_no_memory(const struct sm_allocator *from, const struct sm_request *request)
{
    return sm_fail(from->side == SM_CPU ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
                   "the %s allocator (user %p) returned NULL for %zu bytes, device %d", get_side_name(from->side),
                   from->table.user, request->size, request->device);
}

synced_mem_status sm_allocator_take(const struct sm_allocator *from, const struct sm_request *request, void **out,
                                    bool *pinned)
{
    const synced_mem_allocator *const table = &from->table;
    struct sm_put_aside before;
    sm_caller_put_aside(&before);
    void *const data = table->alloc(request->size, request->alignment, request->device, request->stream, table->user);
    const char *wrong = NULL;
    sm_caller_put_back(&before);
    if (!data)
        return fail_no_memory(from, request);
    if ((uintptr_t)data % request->alignment != 0)
        wrong = "is not aligned";
    else if (!fits_request(from, request, data, pinned))
        wrong = from->side == SM_CPU ? "is not host memory" : "is not memory of that device";
    if (wrong) {
        sm_allocator_give(from, request, data);
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                       "the %s allocator (user %p) returned %p for %zu bytes aligned to %zu, device %d: the memory %s",
                       get_side_name(from->side), table->user, data, request->size, request->alignment, request->device,
                       wrong);
    }
    *out = data;
    return SYNCED_MEM_OK;
}

void sm_allocator_give(const struct sm_allocator *from, const struct sm_request *request, void *data)
{
    struct sm_put_aside before;
    sm_caller_put_aside(&before);
    from->table.free(data, request->size, request->alignment, request->device, request->stream, from->table.user);
    sm_caller_put_back(&before);
}
