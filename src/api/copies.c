/* The public functions that copy contents between objects, and the one that gives up contents. */
#include "api/argument.h"
#include "api/life.h"
#include "base/status.h"
#include "object/copy_side.h"
#include "object/copying.h"
#include "object/evict.h"
#include "object/view.h"

static synced_mem_status check_pairs(synced_mem *const *to, synced_mem *const *from, size_t count)
{
    if ((!to || !from) && count > 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s is NULL", to ? "from" : "to");
    if (count == 1 && (!to[0] || !from[0]))
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s is NULL", to[0] ? "from" : "to");
    for (size_t i = 0; i < count; i++)
        if (!to[i] || !from[i])
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%s[%zu] of %zu objects is NULL", to[i] ? "from" : "to", i,
                           count);
    return SYNCED_MEM_OK;
}

static synced_mem_status copy_pairs(synced_mem *const *to, synced_mem *const *from, size_t count, enum sm_side side,
                                    synced_mem_stream stream, const char *function)
{
    struct synced_mem *failed = NULL;
    sm_caller_begin(function, count == 1 && to ? to[0] : NULL);
    synced_mem_status status = check_pairs(to, from, count);
    if (status == SYNCED_MEM_OK)
        status = sm_copy_objects(to, from, count, side, stream, &failed);
    return sm_report(status, function, status != SYNCED_MEM_OK && failed ? sm_object_name(failed) : NULL);
}

synced_mem_status synced_mem_async_gpu_copy(synced_mem *to, synced_mem *from, synced_mem_stream stream)
{
    return copy_pairs(&to, &from, 1, SM_GPU, stream, __func__);
}

synced_mem_status synced_mem_async_gpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count,
                                              synced_mem_stream stream)
{
    return copy_pairs(to, from, count, SM_GPU, stream, __func__);
}

synced_mem_status synced_mem_cpu_copy(synced_mem *to, synced_mem *from)
{
    return copy_pairs(&to, &from, 1, SM_CPU, NULL, __func__);
}

synced_mem_status synced_mem_cpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count)
{
    return copy_pairs(to, from, count, SM_CPU, NULL, __func__);
}

/* ---- Ranges ---- */

/* Bytes of an object of the caller's. */
struct range {
    synced_mem *mem;
    size_t offset;
    size_t size;
};

static bool is_whole(const struct range *range)
{
    return range->offset == 0 && range->size == sm_size(range->mem);
}

/* Stores an object that has the bytes of the range: the caller's, or a view of it. */
static synced_mem_status begin_range(const struct range *range, synced_mem **out)
{
    *out = range->mem;
    return is_whole(range) ? SYNCED_MEM_OK : sm_create_view(out, range->mem, range->offset, range->size, NULL);
}

/* Releases the view. That does not fail, since the caller has a reference to the root. */
static void end_range(const struct range *range, synced_mem *object)
{
    if (object == range->mem)
        return;
    const struct sm_detail first = sm_detail_get();
    (void)sm_release(object);
    sm_detail_set(&first);
}

/* Copies with a view of each range that is a part of its object. The views end with the call. So do the parts of an
 * object without other views, once their heads are the same and no work keeps them apart. */
static synced_mem_status copy_ranges(const struct range *to, const struct range *from, enum sm_side side,
                                     synced_mem_stream stream, synced_mem **failed)
{
    synced_mem *target, *source, *named = NULL;
    *failed = to->mem;
    SM_TRY(begin_range(to, &target));
    synced_mem_status status = begin_range(from, &source);
    if (status == SYNCED_MEM_OK) {
        status = sm_copy_objects(&target, &source, 1, side, stream, &named);
        end_range(from, source);
    }
    *failed = named == target ? to->mem : from->mem;
    end_range(to, target);
    sm_note_object(*failed); /* the views are gone */
    return status;
}

/* A program without a stream has its copies on the host. */
static synced_mem_status check_and_copy(const struct range *to, const struct range *from, synced_mem_stream stream,
                                        synced_mem **failed)
{
    enum sm_side side = SM_CPU;
    SM_TRY(check_pairs(&to->mem, &from->mem, 1));
    *failed = to->mem;
    SM_TRY(sm_view_check_range(to->mem, to->offset, to->size));
    *failed = from->mem;
    SM_TRY(sm_view_check_range(from->mem, from->offset, from->size));
    if (to->size == 0)
        return SYNCED_MEM_OK;
    *failed = to->mem;
    if (stream != SYNCED_MEM_NO_STREAM)
        SM_TRY(sm_copy_side(to->mem, to->offset, from->mem, from->offset, to->size, &side));
    return copy_ranges(to, from, side, stream, failed);
}

synced_mem_status synced_mem_copy(synced_mem *to, size_t to_offset, synced_mem *from, size_t from_offset, size_t size,
                                  synced_mem_stream stream)
{
    const struct range target = {.mem = to, .offset = to_offset, .size = size};
    const struct range source = {.mem = from, .offset = from_offset, .size = size};
    synced_mem *failed = NULL;
    sm_caller_begin(__func__, to);
    const synced_mem_status status = check_and_copy(&target, &source, stream, &failed);
    return SM_REPORT(status, status != SYNCED_MEM_OK ? failed : NULL);
}

/* A host copy without contents needs no scratch file to go. */
static synced_mem_status clear_and_refresh(synced_mem *mem)
{
    SM_TRY(sm_clear(mem));
    if (mem->extras)
        sm_evictable_refresh(mem);
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_clear(synced_mem *mem)
{
    return SM_DO(mem ? clear_and_refresh(mem) : sm_no_object(), mem);
}
