/* Calls on objects that only the host uses. */
#include "object/host_only.h"

#include "base/process.h"
#include "copy/inflight.h"
#include "device/device.h"
#include "memory/guard.h"
#include "object/exports.h"
#include "object/fetch.h"
#include "object/publish.h"
#include "object/span.h"
#include "object/transaction.h"
#include "trace/trace.h"

#include <assert.h>
#include <string.h>

/* Larger fills are left to a transaction, which lets other calls in meanwhile. */
enum { MOST_FILLED = 65536 };

/* Without the lock: true may be outdated, and false only means that a transaction serves the call. */
static bool may_be_host_only(const struct synced_mem *mem)
{
    return mem->record.kind == SM_WHOLE && !mem->extras && !sm_copy_of(&mem->record, SM_GPU) && !sm_guard_on() &&
           !sm_trace_on() && mem->generation == sm_process_generation();
}

/* sm_no_copy has nothing in flight. */
static bool is_host_only(const struct synced_mem *mem)
{
    const struct sm_copy *const host = sm_slot_of(&mem->record, SM_CPU);
    const bool is_own =
        host == &sm_no_copy || host->source == SYNCED_MEM_SOURCE_PAGEABLE || host->source == SYNCED_MEM_SOURCE_PINNED;
    return may_be_host_only(mem) && !mem->at.first && is_own && sm_inflight_is_none(host) && !host->untracked &&
           !host->arriving && !sm_has_backing(&mem->record);
}

/* Takes the lock of an object that only the host uses. */
static bool lock_if_host_only(struct synced_mem *mem)
{
    if (!may_be_host_only(mem))
        return false;
    sm_lock_object(mem);
    if (is_host_only(mem))
        return true;
    sm_unlock_root(mem);
    return false;
}

static void publish_and_unlock(struct synced_mem *mem)
{
    sm_publish_host_only(mem);
    assert(sm_object_is_valid(mem));
    sm_unlock_root(mem);
}

/* Returns whether the object can have its memory and contents at once: it has them, or can obtain them here. A
 * transaction calls allocators. */
static bool can_be_accessed(const struct synced_mem *mem, bool needs_zeros)
{
    if (sm_copy_of(&mem->record, SM_CPU))
        return !needs_zeros || sm_size(mem) <= MOST_FILLED;
    return !sm_allocator_of_all(SM_CPU);
}

static synced_mem_status make_contents(struct synced_mem *mem, bool needs_zeros)
{
    struct sm_copy *host = sm_copy_of(&mem->record, SM_CPU);
    if (host && needs_zeros)
        memset(sm_copy_data(host), 0, sm_size(mem));
    if (host)
        return SYNCED_MEM_OK;
    SM_TRY(sm_obtain_host(mem, sm_size(mem), needs_zeros, &host));
    sm_put_copy(&mem->record, SM_CPU, host);
    return SYNCED_MEM_OK;
}

bool sm_host_only_access(struct synced_mem *mem, enum sm_mode mode, void **out, synced_mem_status *status)
{
    if (!lock_if_host_only(mem))
        return false;
    const struct sm_transition *const step = &sm_transitions[sm_head(&mem->record)][SM_CPU][mode];
    const bool needs_zeros = step->work == SM_ZERO;
    const bool serves = can_be_accessed(mem, needs_zeros);
    *status = serves ? make_contents(mem, needs_zeros) : SYNCED_MEM_OK;
    if (!serves || *status != SYNCED_MEM_OK) {
        sm_unlock_root(mem);
        return serves;
    }
    sm_count_given(&mem->record, SM_CPU);
    sm_set_head(&mem->record, step->next);
    *out = sm_copy_data(sm_copy_of(&mem->record, SM_CPU));
    publish_and_unlock(mem);
    return true;
}

/* Returns whether the object can have the size without other memory. */
static bool has_room_for(const struct synced_mem *mem, size_t size, bool keep)
{
    const struct sm_copy *const host = sm_copy_of(&mem->record, SM_CPU);
    const bool is_filled = keep && size > sm_size(mem) && sm_head(&mem->record) != SYNCED_MEM_UNINITIALIZED;
    return !host || (sm_copy_capacity(host) >= size && !sm_is_exported(mem, SM_CPU) &&
                     (!is_filled || size - sm_size(mem) <= MOST_FILLED));
}

bool sm_host_only_resize(struct synced_mem *mem, size_t size, bool keep)
{
    if (!lock_if_host_only(mem))
        return false;
    const bool serves = has_room_for(mem, size, keep);
    if (!serves) {
        sm_unlock_root(mem);
        return false;
    }
    if (!keep)
        sm_set_head(&mem->record, SYNCED_MEM_UNINITIALIZED);
    if (sm_head(&mem->record) != SYNCED_MEM_UNINITIALIZED && size > sm_size(mem))
        memset((char *)sm_copy_data(sm_copy_of(&mem->record, SM_CPU)) + sm_size(mem), 0, size - sm_size(mem));
    atomic_store_explicit(&mem->record.size, size, memory_order_relaxed);
    sm_count_valid(&mem->record);
    publish_and_unlock(mem);
    return true;
}

bool sm_host_only_clear(struct synced_mem *mem)
{
    if (!lock_if_host_only(mem))
        return false;
    sm_set_head(&mem->record, SYNCED_MEM_UNINITIALIZED);
    publish_and_unlock(mem);
    return true;
}

/* Without references no call has the object, and no walk visits it, so nothing is locked. A root whose last view is
 * being released still has one. */
bool sm_host_only_free(struct synced_mem *mem)
{
    struct sm_copy *const host = sm_copy_of(&mem->record, SM_CPU);
    if (atomic_load(&mem->references) > 0 || !is_host_only(mem) || !host || sm_is_exported(mem, SM_CPU))
        return false;
    sm_put_copy(&mem->record, SM_CPU, NULL);
    sm_copy_free_idle_host(host);
    return true;
}
