/* The public functions of an object, in the header's order, but for those in life.c, views.c and user_memory.c. They
 * check arguments; access.c, push_pull.c, replace.c and resize.c do the work. */
#include "synced_mem.h"

#include "api/argument.h"
#include "api/options.h"
#include "object/access.h"
#include "object/evict.h"
#include "object/move_one.h"
#include "object/moves.h"
#include "copy/pin.h"
#include "base/process.h"
#include "base/status.h"
#include "object/replace.h"
#include "object/resize.h"
#include "object/unified.h"

#include <assert.h>

/* Stands for the object in the failures of calls that have none. */
static const char everything[] = "the memory of the library";

/* ---- Facts ---- */

/* Returns whether there is an object. A missing one is reported under the calling function's name. */
static bool check_object(const synced_mem *mem, const char *function)
{
    if (!mem)
        (void)sm_report(sm_no_object(), function, NULL);
    return mem != NULL;
}

size_t synced_mem_size(const synced_mem *mem)
{
    return check_object(mem, __func__) ? sm_size(mem) : 0;
}

synced_mem_head_kind synced_mem_head(const synced_mem *mem)
{
    if (!check_object(mem, __func__))
        return SYNCED_MEM_UNINITIALIZED;
    return (synced_mem_head_kind)sm_read_head(mem);
}

int synced_mem_device(const synced_mem *mem)
{
    return check_object(mem, __func__) ? sm_device(mem) : SYNCED_MEM_DEVICE_CURRENT;
}

void *synced_mem_user(const synced_mem *mem)
{
    return check_object(mem, __func__) && mem->extras ? mem->extras->user : NULL;
}

const char *synced_mem_name(const synced_mem *mem)
{
    return check_object(mem, __func__) && mem->extras ? mem->extras->name : "";
}

/* The facts of a copy that another thread may be replacing. */
struct facts {
    synced_mem_source source;
    size_t capacity;
    bool pinned;
};

/* query: query the runtime about the caller's host memory, if a device is in use. */
static struct facts read_facts(const synced_mem *mem, enum sm_side side, bool query, const char *function)
{
    struct facts facts = {.source = SYNCED_MEM_SOURCE_NONE};
    struct sm_transaction transaction;
    if (!check_object(mem, function))
        return facts;
    sm_caller_begin(function, mem);
    const synced_mem_status status = sm_enter_restoring_nothing(&transaction, (synced_mem *)(uintptr_t)mem);
    if (status != SYNCED_MEM_OK) {
        (void)sm_report(status, function, sm_object_name(mem));
        return facts;
    }
    struct sm_copy *const copy = sm_copy_of(sm_own_record(sm_owner(mem)), side);
    if (copy && query && sm_device_in_use())
        (void)sm_pin_query(copy, sm_device(mem));
    if (copy)
        facts = (struct facts){.source = (synced_mem_source)copy->source,
                               .capacity = sm_owner(mem) == mem ? sm_copy_capacity(copy) : sm_size(mem),
                               .pinned = copy->pinned};
    (void)sm_report(sm_leave(&transaction, SYNCED_MEM_OK), function, NULL);
    return facts;
}

synced_mem_source synced_mem_cpu_source(const synced_mem *mem)
{
    return read_facts(mem, SM_CPU, false, __func__).source;
}

synced_mem_source synced_mem_gpu_source(const synced_mem *mem)
{
    return read_facts(mem, SM_GPU, false, __func__).source;
}

size_t synced_mem_cpu_capacity(const synced_mem *mem)
{
    return read_facts(mem, SM_CPU, false, __func__).capacity;
}

size_t synced_mem_gpu_capacity(const synced_mem *mem)
{
    return read_facts(mem, SM_GPU, false, __func__).capacity;
}

int synced_mem_cpu_is_pinned(const synced_mem *mem)
{
    return read_facts(mem, SM_CPU, true, __func__).pinned;
}

synced_mem_placement_kind synced_mem_placement(const synced_mem *mem)
{
    return check_object(mem, __func__) ? sm_placement(mem) : SYNCED_MEM_PLACEMENT_SEPARATE;
}

int synced_mem_device_count(void)
{
    return sm_device_count();
}

/* ---- Access ---- */

/* The slow path. */
static __attribute__((noinline)) void *access_slowly(synced_mem *mem, enum sm_side side, enum sm_mode mode,
                                                     const char *function)
{
    void *data = NULL;
    sm_caller_begin(function, mem);
    const synced_mem_status status = mem ? sm_access(mem, side, mode, &data) : sm_no_object();
    (void)sm_report(status, function, mem ? sm_object_name(mem) : NULL);
    return data;
}

/* Aligned, so that the hot path lies in one cache line wherever the linker puts it. */
#if defined(__GNUC__)
#define IN_A_LINE __attribute__((aligned(64)))
#else
#define IN_A_LINE
#endif

static inline void *access_side(synced_mem *mem, enum sm_side side, enum sm_mode mode, const char *function)
{
    void *const ready = mem ? sm_access_hot(mem, side, mode) : NULL;
    return ready ? ready : access_slowly(mem, side, mode, function);
}

IN_A_LINE const void *synced_mem_cpu_data(synced_mem *mem)
{
    return access_side(mem, SM_CPU, SM_READ, __func__);
}

IN_A_LINE void *synced_mem_mutable_cpu_data(synced_mem *mem)
{
    return access_side(mem, SM_CPU, SM_MUTABLE, __func__);
}

IN_A_LINE void *synced_mem_overwrite_cpu_data(synced_mem *mem)
{
    return access_side(mem, SM_CPU, SM_OVERWRITE, __func__);
}

IN_A_LINE const void *synced_mem_gpu_data(synced_mem *mem)
{
    return access_side(mem, SM_GPU, SM_READ, __func__);
}

IN_A_LINE void *synced_mem_mutable_gpu_data(synced_mem *mem)
{
    return access_side(mem, SM_GPU, SM_MUTABLE, __func__);
}

IN_A_LINE void *synced_mem_overwrite_gpu_data(synced_mem *mem)
{
    return access_side(mem, SM_GPU, SM_OVERWRITE, __func__);
}

static __attribute__((noinline)) void *access_slowly_on(synced_mem *mem, synced_mem_stream stream, enum sm_mode mode,
                                                        const char *function)
{
    void *data = NULL;
    if (mem && mode == SM_READ && sm_access_hot_together(mem, stream, &data))
        return data;
    sm_caller_begin(function, mem);
    const synced_mem_status status = mem ? sm_access_on(mem, mode, stream, &data) : sm_no_object();
    (void)sm_report(status, function, mem ? sm_object_name(mem) : NULL);
    return data;
}

static inline void *access_on_stream(synced_mem *mem, enum sm_mode mode, synced_mem_stream stream, const char *function)
{
    void *data;
    return mem && sm_access_hot_on(mem, mode, stream, &data) ? data : access_slowly_on(mem, stream, mode, function);
}

IN_A_LINE const void *synced_mem_gpu_data_on(synced_mem *mem, synced_mem_stream stream)
{
    return access_on_stream(mem, SM_READ, stream, __func__);
}

IN_A_LINE void *synced_mem_mutable_gpu_data_on(synced_mem *mem, synced_mem_stream stream)
{
    return access_on_stream(mem, SM_MUTABLE, stream, __func__);
}

IN_A_LINE void *synced_mem_overwrite_gpu_data_on(synced_mem *mem, synced_mem_stream stream)
{
    return access_on_stream(mem, SM_OVERWRITE, stream, __func__);
}

static_assert((int)SYNCED_MEM_READ == SM_READ && (int)SYNCED_MEM_MUTABLE == SM_MUTABLE &&
                  (int)SYNCED_MEM_OVERWRITE == SM_OVERWRITE,
              "the modes of the header are those of the table");

static synced_mem_status check_access(synced_mem_side side, synced_mem_mode mode)
{
    if (side != SYNCED_MEM_SIDE_CPU && side != SYNCED_MEM_SIDE_GPU)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "side %d is not known", (int)side);
    if ((unsigned)mode > SYNCED_MEM_OVERWRITE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "mode %d is not known", (int)mode);
    return SYNCED_MEM_OK;
}

void *synced_mem_access(synced_mem *mem, synced_mem_side side, synced_mem_mode mode, synced_mem_stream stream)
{
    const synced_mem_status status = check_access(side, mode);
    if (status != SYNCED_MEM_OK) {
        (void)SM_REPORT(status, mem);
        return NULL;
    }
    if (side == SYNCED_MEM_SIDE_GPU && stream != SYNCED_MEM_NO_STREAM)
        return access_on_stream(mem, (enum sm_mode)mode, stream, __func__);
    return access_side(mem, side == SYNCED_MEM_SIDE_CPU ? SM_CPU : SM_GPU, (enum sm_mode)mode, __func__);
}

/* ---- Streams ---- */

synced_mem_status synced_mem_end_use_on(synced_mem *mem, synced_mem_stream stream)
{
    return SM_DO(mem ? sm_end_use_on(mem, stream) : sm_no_object(), mem);
}

synced_mem_status synced_mem_forget_stream(synced_mem_stream stream)
{
    sm_caller_begin(__func__, NULL);
    const synced_mem_status status = sm_process_check_not_forked(everything);
    return sm_report(status == SYNCED_MEM_OK ? sm_stream_forget(stream) : status, __func__, NULL);
}

/* ---- Asynchronous transfers ---- */

static synced_mem_status check_array(synced_mem *const *mems, size_t count)
{
    if (!mems && count > 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "mems is NULL");
    for (size_t i = 0; i < count; i++)
        if (!mems[i])
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "mems[%zu] of %zu objects is NULL", i, count);
    return SYNCED_MEM_OK;
}

static synced_mem_status move_objects(synced_mem *const *mems, size_t count, enum sm_side side,
                                      synced_mem_stream stream, const char *function)
{
    struct synced_mem *failed = NULL;
    sm_caller_begin(function, count == 1 && mems ? mems[0] : NULL);
    synced_mem_status status = check_array(mems, count);
    if (status == SYNCED_MEM_OK)
        status = sm_move(mems, count, side, false, stream, &failed);
    return sm_report(status, function, status != SYNCED_MEM_OK && failed ? sm_object_name(failed) : NULL);
}

synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream)
{
    return SM_DO(mem ? sm_move_object(mem, SM_GPU, false, stream) : sm_no_object(), mem);
}

synced_mem_status synced_mem_async_cpu_pull(synced_mem *mem, synced_mem_stream stream)
{
    return SM_DO(mem ? sm_move_object(mem, SM_CPU, false, stream) : sm_no_object(), mem);
}

synced_mem_status synced_mem_async_gpu_push_n(synced_mem *const *mems, size_t count, synced_mem_stream stream)
{
    return move_objects(mems, count, SM_GPU, stream, __func__);
}

synced_mem_status synced_mem_async_cpu_pull_n(synced_mem *const *mems, size_t count, synced_mem_stream stream)
{
    return move_objects(mems, count, SM_CPU, stream, __func__);
}

synced_mem_status synced_mem_async_gpu_push_urgent(synced_mem *mem, synced_mem_stream stream)
{
    return SM_DO(mem ? sm_move_object(mem, SM_GPU, true, stream) : sm_no_object(), mem);
}

synced_mem_status synced_mem_async_cpu_pull_urgent(synced_mem *mem, synced_mem_stream stream)
{
    return SM_DO(mem ? sm_move_object(mem, SM_CPU, true, stream) : sm_no_object(), mem);
}

synced_mem_status synced_mem_query(synced_mem *mem, int *pending)
{
    bool is_pending = false;
    if (mem && !pending)
        return SM_REPORT(sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "pending is NULL"), mem);
    sm_caller_begin(__func__, mem);
    const synced_mem_status status = mem ? sm_query_or_wait(mem, false, &is_pending) : sm_no_object();
    if (status == SYNCED_MEM_OK)
        *pending = is_pending;
    return SM_REPORT(status, mem);
}

static synced_mem_status check_and_poll_arrival(synced_mem *mem, synced_mem_side side, int *arrived)
{
    bool has_arrived = false;
    if (!mem)
        return sm_no_object();
    if (!arrived)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "arrived is NULL");
    SM_TRY(check_access(side, SYNCED_MEM_READ));
    SM_TRY(sm_has_arrived(mem, side == SYNCED_MEM_SIDE_CPU ? SM_CPU : SM_GPU, &has_arrived));
    *arrived = has_arrived;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_has_arrived(synced_mem *mem, synced_mem_side side, int *arrived)
{
    return SM_DO(check_and_poll_arrival(mem, side, arrived), mem);
}

synced_mem_status synced_mem_wait(synced_mem *mem)
{
    return SM_DO(mem ? sm_query_or_wait(mem, true, NULL) : sm_no_object(), mem);
}

/* ---- Size ---- */

/* After a call that may have changed the device memory. */
static synced_mem_status refresh_after(synced_mem_status status, synced_mem *mem)
{
    if (mem->extras)
        sm_evictable_refresh(mem);
    return status;
}

static synced_mem_status check_and_resize(synced_mem *mem, size_t size, bool keep)
{
    synced_mem_status status = mem ? sm_check_size(size) : sm_no_object();
    if (status == SYNCED_MEM_OK)
        status = sm_check_changeable(mem);
    return status == SYNCED_MEM_OK ? refresh_after(sm_resize(mem, size, keep), mem) : status;
}

synced_mem_status synced_mem_resize(synced_mem *mem, size_t size)
{
    return SM_DO(check_and_resize(mem, size, true), mem);
}

synced_mem_status synced_mem_resize_discard(synced_mem *mem, size_t size)
{
    return SM_DO(check_and_resize(mem, size, false), mem);
}

/* ---- Giving memory back ---- */

static synced_mem_status check_and_release_side(synced_mem *mem, enum sm_side side)
{
    const synced_mem_status status = mem ? sm_check_changeable(mem) : sm_no_object();
    return status == SYNCED_MEM_OK ? refresh_after(sm_release_side(mem, side), mem) : status;
}

static synced_mem_status check_and_release(synced_mem *mem)
{
    const synced_mem_status status = mem ? sm_check_changeable(mem) : sm_no_object();
    return status == SYNCED_MEM_OK ? refresh_after(sm_release_memory(mem), mem) : status;
}

synced_mem_status synced_mem_release_cpu_data(synced_mem *mem)
{
    return SM_DO(check_and_release_side(mem, SM_CPU), mem);
}

synced_mem_status synced_mem_release_gpu_data(synced_mem *mem)
{
    return SM_DO(check_and_release_side(mem, SM_GPU), mem);
}

synced_mem_status synced_mem_release_data(synced_mem *mem)
{
    return SM_DO(check_and_release(mem), mem);
}

int synced_mem_version(void)
{
    return SYNCED_MEM_VERSION_MAJOR * 10000 + SYNCED_MEM_VERSION_MINOR * 100 + SYNCED_MEM_VERSION_PATCH;
}
