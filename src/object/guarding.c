/* The protection of each host copy. */
#include "object/guarding.h"

#include "copy/inflight.h"
#include "memory/guard.h"
#include "object/span.h"
#include "base/status.h"

/* The runtime writes pageable memory until the transfer is done, and copy threads touch it until they are done. A
 * device that writes page-locked memory is not hindered. But host functions of the caller's stream may still fill
 * memory that was handed in, also behind the fence of a pull that comes after them. */
static enum sm_protection get_protection_by_work(const struct sm_copy *copy)
{
    const bool is_of_user = sm_copy_is_of_user(copy);
    if (((is_of_user || !copy->pinned) && sm_fence_is_open(copy->write)) ||
        (is_of_user && sm_fence_is_open(copy->writer_fence)))
        return SM_PROTECT_NOTHING;
    if (!sm_inflight_queueing(copy, true))
        return SM_PROTECT_ALL;
    return sm_fence_state(copy->write) == SM_FENCE_QUEUEING ? SM_PROTECT_NOTHING : SM_PROTECT_WRITES;
}

/* The memory of a shareable object is read-only in a turn to read, and protected then. */
static enum sm_protection choose_protection(const struct sm_record *record, const struct sm_copy *copy)
{
    const unsigned head = sm_raw_head(record); /* a write would go unnoticed as long as the contents are in a file */
    const bool may_write = head == SYNCED_MEM_AT_CPU && !copy->read_only;
    const enum sm_protection by_head = may_write               ? SM_PROTECT_NOTHING
                                       : head & sm_bit(SM_CPU) ? SM_PROTECT_WRITES
                                                               : SM_PROTECT_ALL;
    const enum sm_protection by_work = get_protection_by_work(copy);
    return by_work < by_head ? by_work : by_head;
}

/* Protection of managed memory would hinder the device. */
static bool is_memory_managed(const struct sm_copy *copy)
{
    struct sm_pointer_facts facts;
    if (!sm_device_in_use() || !sm_copy_is_of_user(copy))
        return false;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status status = sm_device_query_pointer(-1, sm_copy_data(copy), &facts);
    sm_detail_set(&first);
    return status == SYNCED_MEM_OK && facts.kind == SM_POINTER_MANAGED;
}

/* Returns whether the memory is this object's alone, with the rest of its last page. The pool has no larger pages. */
static bool has_own_pages(const struct sm_copy *copy)
{
    return copy->source == SYNCED_MEM_SOURCE_PAGEABLE ||
           (copy->source == SYNCED_MEM_SOURCE_PINNED && sm_guard_pool_has_pages());
}

void sm_protect(const struct sm_record *record)
{
    const struct sm_copy *const copy = sm_copy_of(record, SM_CPU);
    if (!copy)
        return;
    const struct sm_guarded range = {.key = copy,
                                     .base = copy->is_part ? sm_copy_data(copy) : sm_allocation_of(copy)->base,
                                     .bytes = copy->is_part ? sm_size_of(record) : sm_allocation_of(copy)->bytes,
                                     .data = sm_copy_data(copy),
                                     .size = sm_size_of(record),
                                     .name = sm_object_name(sm_owner_of(record)),
                                     .alone = !copy->is_part && has_own_pages(copy),
                                     .is_part = copy->is_part,
                                     .in_parts = copy->is_part && has_own_pages(copy),
                                     .is_last = sm_begin_of(record) + sm_size_of(record) == sm_size(sm_root_of(record)),
                                     .offset = sm_begin_of(record),
                                     .read_only = copy->read_only && copy->source != SYNCED_MEM_SOURCE_SHAREABLE,
                                     .shared =
                                         !sm_guard_knows(copy) && (is_memory_managed(copy) || sm_copy_is_shared(copy))};
    sm_guard_set(&range, choose_protection(record, copy));
}
