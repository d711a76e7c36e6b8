/* The public functions of budgets and holds, in the header's order. */
#include "api/argument.h"
#include "base/process.h"
#include "base/status.h"
#include "copy/scratch.h"
#include "object/evict.h"
#include "object/hold.h"

static synced_mem_status check_objects(synced_mem *const *mems, size_t count)
{
    if (!mems && count > 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "mems is NULL");
    for (size_t i = 0; i < count; i++)
        if (!mems[i])
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "mems[%zu] of %zu objects is NULL", i, count);
    return SYNCED_MEM_OK;
}

static synced_mem_status check_side(synced_mem_side side)
{
    if (side != SYNCED_MEM_SIDE_CPU && side != SYNCED_MEM_SIDE_GPU)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "side %d is not known", (int)side);
    return SYNCED_MEM_OK;
}

static enum sm_side side_of(synced_mem_side side)
{
    return side == SYNCED_MEM_SIDE_CPU ? SM_CPU : SM_GPU;
}

static synced_mem_status check_hold(synced_mem *const *mems, size_t count, synced_mem_side side, synced_mem_mode mode)
{
    SM_TRY(check_objects(mems, count));
    SM_TRY(check_side(side));
    if ((unsigned)mode > SYNCED_MEM_OVERWRITE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "mode %d is not known", (int)mode);
    return SYNCED_MEM_OK;
}

static synced_mem_status hold_objects(synced_mem *const *mems, size_t count, synced_mem_side side, synced_mem_mode mode,
                                      synced_mem_stream stream, const char *function)
{
    struct synced_mem *failed = NULL;
    sm_caller_begin(function, count == 1 && mems ? mems[0] : NULL);
    synced_mem_status status = check_hold(mems, count, side, mode);
    const struct sm_hold_call call = {
        .mems = mems, .count = count, .side = side_of(side), .mode = (enum sm_mode)mode, .handle = stream};
    if (status == SYNCED_MEM_OK)
        status = sm_hold(&call, &failed);
    return sm_report(status, function, status != SYNCED_MEM_OK && failed ? sm_object_name(failed) : NULL);
}

synced_mem_status synced_mem_hold(synced_mem *mem, synced_mem_side side, synced_mem_mode mode, synced_mem_stream stream)
{
    return mem ? hold_objects(&mem, 1, side, mode, stream, __func__) : SM_DO(sm_no_object(), mem);
}

synced_mem_status synced_mem_hold_n(synced_mem *const *mems, size_t count, synced_mem_side side, synced_mem_mode mode,
                                    synced_mem_stream stream)
{
    return hold_objects(mems, count, side, mode, stream, __func__);
}

static synced_mem_status unhold_objects(synced_mem *const *mems, size_t count, synced_mem_side side,
                                        const char *function)
{
    struct synced_mem *failed = NULL;
    sm_caller_begin(function, count == 1 && mems ? mems[0] : NULL);
    synced_mem_status status = check_objects(mems, count);
    if (status == SYNCED_MEM_OK)
        status = check_side(side);
    if (status == SYNCED_MEM_OK)
        status = sm_unhold(mems, count, side_of(side), &failed);
    return sm_report(status, function, status != SYNCED_MEM_OK && failed ? sm_object_name(failed) : NULL);
}

synced_mem_status synced_mem_unhold(synced_mem *mem, synced_mem_side side)
{
    return mem ? unhold_objects(&mem, 1, side, __func__) : SM_DO(sm_no_object(), mem);
}

synced_mem_status synced_mem_unhold_n(synced_mem *const *mems, size_t count, synced_mem_side side)
{
    return unhold_objects(mems, count, side, __func__);
}

static synced_mem_status set_budget(int device, uint64_t bytes, uint64_t *over)
{
    int found;
    SM_TRY(sm_process_check_not_forked("the memory of the library"));
    if (device < 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "device %d is not valid", device);
    SM_TRY(sm_device_resolve(device, &found));
    sm_budget_set(found, bytes, false);
    const uint64_t excess = sm_evict_excess(found, true, NULL);
    if (over)
        *over = excess;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_gpu_set_budget(int device, uint64_t bytes, uint64_t *over)
{
    sm_caller_begin(__func__, NULL);
    return sm_report(set_budget(device, bytes, over), __func__, NULL);
}

/* The host copies that have gone stay in the file that they went to. */
static void undo_host_budget(struct sm_scratch_change *change, uint64_t before)
{
    const bool had_scratch = change->before != NULL;
    if (!sm_scratch_undo(change))
        return;
    (void)sm_budget_set_on_host(before, had_scratch, change->serial);
    sm_evictables_refresh_all();
}

/* The pointers to the host are withdrawn before anything is evicted. */
static synced_mem_status set_host_budget(uint64_t bytes, synced_mem_file *scratch, uint64_t *over)
{
    struct sm_scratch_change change;
    struct sm_outcome failure;
    synced_mem_file *const file = bytes == SYNCED_MEM_NO_BUDGET ? NULL : scratch;
    SM_TRY(sm_process_check_not_forked("the memory of the library"));
    SM_TRY(sm_scratch_set(file, &change));
    const uint64_t before = sm_budget_set_on_host(bytes, file != NULL, change.serial);
    sm_evictables_refresh_all();
    const uint64_t excess = sm_evict_excess(SM_BUDGET_HOST, true, &failure);
    if (failure.status != SYNCED_MEM_OK) {
        undo_host_budget(&change, before);
        return sm_outcome_end(&failure);
    }
    sm_scratch_keep(&change);
    if (over)
        *over = excess;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_cpu_set_budget(uint64_t bytes, synced_mem_file *scratch, uint64_t *over)
{
    sm_caller_begin(__func__, NULL);
    return sm_report(set_host_budget(bytes, scratch, over), __func__, NULL);
}
