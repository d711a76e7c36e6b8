/* Loads of contents from files. */
#include "object/load.h"

#include "memory/guard.h"
#include "object/backing.h"

synced_mem_status sm_plan_load(const struct sm_record *record, enum sm_side side, struct sm_waits *waits)
{
    struct sm_copy *const copy = sm_copy_of(record, side);
    if (copy) {
        SM_TRY(sm_inflight_settle(copy, true, NULL));
        SM_TRY(sm_waits_add_for(waits, sm_inflight_unfinished(copy, true), SM_MAY_FAIL));
    }
    if (sm_size_of(record) == 0)
        return SYNCED_MEM_OK;
    struct synced_mem_file *const file = sm_backing_of(record)->file;
    SM_TRY(sm_file_check_range(file, 0, 0));
    return sm_file_find_writes(file, sm_offset_in_file(record), sm_size_of(record), waits);
}

synced_mem_status sm_add_load(struct sm_record *record, enum sm_side side, struct sm_file_reads *reads)
{
    struct sm_copy *const copy = sm_copy_of(record, side);
    if (side == SM_CPU)
        sm_guard_open(copy);
    if (sm_size_of(record) == 0)
        return SYNCED_MEM_OK;
    const struct sm_backing *const backing = sm_backing_of(record);
    return sm_file_reads_add(reads, backing->file, sm_offset_in_file(record), backing->range, copy, sm_size_of(record),
                             sm_owner_of(record));
}
