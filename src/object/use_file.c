/* Objects in files. */
#include "object/use_file.h"

#include "object/evictable.h"
#include "object/pair.h"
#include "object/shareable.h"
#include "object/span.h"
#include "object/transaction.h"

synced_mem_status sm_check_may_be_in_file(const struct synced_mem *mem)
{
    const struct synced_mem *const root = sm_root(mem);
    if (sm_sharing_of(mem))
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is shareable: its contents can't be in a file");
    if (root->extras && root->extras->requested_placement != SYNCED_MEM_PLACEMENT_SEPARATE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                       "the object's placement is unified: its contents can't be in a file");
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const struct sm_copy *const copy = sm_copy_of(sm_own_record(sm_owner(mem)), side);
        if (copy && sm_copy_is_of_user(copy))
            return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                           "the object has memory of the caller's: release it before its contents are in a file");
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status use_file(struct synced_mem *mem, struct synced_mem_file *file, uint64_t offset)
{
    const size_t size = sm_size(mem);
    struct sm_backing *backing = NULL;
    SM_TRY(sm_check_may_be_in_file(mem));
    SM_TRY(sm_check_not_held(mem));
    SM_TRY(sm_file_check_range(file, offset, size));
    if (size > 0)
        SM_TRY(sm_backing_make(file, offset, sm_root(mem), sm_object_begin(mem), size, &backing));
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        sm_give_up_contents(each);
        sm_set_backing(each, backing);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_use_file(struct synced_mem *mem, struct synced_mem_file *file, uint64_t offset)
{
    struct sm_transaction transaction;
    SM_TRY(sm_file_check_range(file, offset, sm_size(mem)));
    SM_TRY(sm_file_check_end(file, offset, sm_size(mem)));
    SM_TRY(sm_enter(&transaction, mem));
    return sm_leave_and_reap(&transaction, use_file(mem, file, offset), false);
}

bool sm_is_object_in_file(struct synced_mem *mem)
{
    bool in_file = true;
    sm_lock_object(mem);
    for (struct sm_record *each = sm_first_record(mem); each && in_file; each = sm_next_record(mem, each)) {
        sm_settle(each);
        in_file = sm_is_in_file(each);
    }
    sm_unlock_root(sm_root(mem));
    return in_file;
}

void sm_end_backings(struct synced_mem *mem)
{
    if (!sm_is_divided(mem)) {
        sm_leave_file(sm_own_record(mem));
        return;
    }
    if (sm_check_and_lock(mem) != SYNCED_MEM_OK)
        return;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_leave_file(each);
    sm_publish_object(mem);
    sm_unlock_root(mem);
}
