/* The exports of all objects. */
#include "object/exports.h"

#include "base/hash.h"
#include "base/process.h"
#include "base/status.h"
#include "object/span.h"
#include "object/transaction.h"

enum { BUCKETS = 64 };

static struct {
    struct sm_lock lock;
    atomic_size_t count; /* without one, no call searches */
    struct sm_export *buckets[BUCKETS];
} exports = {.lock = SM_LOCK_INITIALIZER};

static struct sm_export **get_export_bucket(const struct synced_mem *owner)
{
    return &exports.buckets[sm_hash((uintptr_t)owner) >> 58];
}

/* With the lock held, so that no other thread changes it meanwhile. */
static void change_count(size_t change)
{
    const size_t count = atomic_load_explicit(&exports.count, memory_order_relaxed);
    atomic_store_explicit(&exports.count, count + change, memory_order_relaxed);
}

static void add_export(struct sm_export *export)
{
    struct sm_export **const bucket = get_export_bucket(export->owner);
    sm_lock_briefly(&exports.lock);
    export->next = *bucket;
    export->link = bucket;
    if (*bucket)
        (*bucket)->link = &export->next;
    *bucket = export;
    change_count(1);
    sm_unlock_brief(&exports.lock);
}

synced_mem_status sm_export_check(const struct synced_mem *mem, uint64_t bytes)
{
    if (bytes <= sm_size(mem))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "the tensor's elements have %llu bytes, but the object has %zu bytes", (unsigned long long)bytes,
                   sm_size(mem));
}

synced_mem_status sm_export_begin(struct sm_export *export, struct synced_mem *mem, enum sm_side side, const void *data,
                                  uint64_t bytes, bool *begun)
{
    const struct synced_mem *const owner = sm_owner(mem);
    SM_TRY(sm_check_and_lock(mem));
    const synced_mem_status status = sm_export_check(mem, bytes);
    const struct sm_copy *const memory = sm_copy_of(sm_own_record(owner), side);
    *begun = status == SYNCED_MEM_OK && memory && (const char *)sm_copy_data(memory) + sm_object_begin(mem) == data;
    if (*begun) {
        export->owner = owner;
        export->side = side;
        add_export(export);
    }
    sm_unlock_root(sm_root(mem));
    return status;
}

void sm_export_end(struct sm_export *export)
{
    sm_lock_briefly(&exports.lock);
    *export->link = export->next;
    if (export->next)
        export->next->link = export->link;
    change_count((size_t)-1);
    sm_unlock_brief(&exports.lock);
}

bool sm_is_exported(const struct synced_mem *owner, enum sm_side side)
{
    if (atomic_load_explicit(&exports.count, memory_order_relaxed) == 0)
        return false;
    sm_lock_briefly(&exports.lock);
    const struct sm_export *each = *get_export_bucket(owner);
    while (each && !(each->owner == owner && each->side == side))
        each = each->next;
    sm_unlock_brief(&exports.lock);
    return each != NULL;
}

synced_mem_status sm_check_not_exported(const struct synced_mem *owner, enum sm_side side)
{
    if (!sm_is_exported(owner, side))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "the %s copy is exported as a tensor: its memory stays until the tensor's deleter was called",
                   side == SM_CPU ? "host" : "device");
}
