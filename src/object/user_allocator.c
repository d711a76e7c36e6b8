/* Memory from the caller's allocators. */
#include "object/user_allocator.h"

#include "object/transaction.h"
#include "object/fetch.h"
#include "base/status.h"
#include "copy/transfer.h"

/* -1 means pageable memory: no device is usable, or nothing says yet that one will be used. */
int sm_device_for_host(const struct synced_mem *mem)
{
    int device = sm_device(mem);
    if (device >= 0)
        return device < sm_device_count() ? device : -1;
    if (sm_device_in_use() && sm_device_resolve(SYNCED_MEM_DEVICE_CURRENT, &device) == SYNCED_MEM_OK)
        return device;
    return -1;
}

const struct sm_allocator *sm_user_allocator_wanted(const struct synced_mem *mem, enum sm_side side)
{
    return sm_copy_of(sm_own_record(mem), side) ? NULL : sm_object_allocator(mem, side);
}

/* Other streams may use the memory only behind the work queued on this stream until now. */
static synced_mem_status enter_allocation(struct sm_copy *copy, struct sm_stream *stream)
{
    const synced_mem_status status = sm_transfer_enter_write(copy, stream);
    if (status != SYNCED_MEM_OK) {
        const struct sm_detail first = sm_detail_get();
        sm_copy_retire(copy);
        sm_detail_set(&first);
    }
    return status;
}

/* Calls the allocator. No lock is held. */
static synced_mem_status call_allocator(const struct synced_mem *mem, const struct sm_allocator *allocator, size_t size,
                                        struct sm_stream *stream, struct sm_copy **out)
{
    const bool host = sm_allocator_is_of_host(allocator);
    const int device = host ? sm_device_for_host(mem) : stream->device;
    const synced_mem_status status =
        sm_copy_obtain_from(allocator, size, sm_object_alignment(mem), device, host ? NULL : stream->handle, out);
    return status == SYNCED_MEM_OK && !host ? enter_allocation(*out, stream) : status;
}

synced_mem_status sm_user_allocator_obtain_unlocked(struct synced_mem *mem, const struct sm_allocator *allocator,
                                                    size_t size, struct sm_stream *stream, struct sm_copy **out)
{
    struct sm_copy *obtained = NULL;
    sm_unlock_object(mem);
    const synced_mem_status status = call_allocator(mem, allocator, size, stream, &obtained);
    sm_lock_object(mem);
    if (status == SYNCED_MEM_OK)
        *out = obtained;
    return status;
}

/* Another thread may have changed the object's memory, size or device. */
static bool is_still_wanted(const struct synced_mem *mem, enum sm_side side, const struct sm_copy *copy)
{
    const bool here = side == SM_CPU || sm_device(mem) < 0 || sm_device(mem) == copy->device;
    return here && !sm_copy_of(sm_own_record(mem), side) && sm_copy_capacity(copy) >= sm_size(mem);
}

synced_mem_status sm_user_allocator_obtain(struct synced_mem *mem, enum sm_side side, struct sm_stream *stream)
{
    struct sm_copy *copy = NULL;
    const struct sm_allocator *const allocator = sm_user_allocator_wanted(mem, side);
    const synced_mem_status status =
        allocator ? sm_user_allocator_obtain_unlocked(mem, allocator, sm_size(mem), stream, &copy) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK || !copy)
        return status != SYNCED_MEM_OK ? status : SM_AGAIN;
    if (!is_still_wanted(mem, side, copy)) {
        sm_unlock_object(mem);
        sm_copy_retire(copy);
        sm_lock_object(mem);
        return SM_AGAIN;
    }
    sm_put_copy(sm_own_record(mem), side, copy);
    if (side == SM_GPU)
        sm_put_device(mem, copy->device);
    return SM_AGAIN;
}
