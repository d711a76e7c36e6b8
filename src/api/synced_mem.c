/* The public functions of an object, in the header's order, but for those in user_memory.c. They check arguments;
 * access.c, push_pull.c, replace.c and resize.c do the work. */
#include "synced_mem.h"

#include "api/argument.h"
#include "object/access.h"
#include "api/environment.h"
#include "memory/accounting.h"
#include "memory/pinned/host_pool.h"
#include "memory/managed_pool.h"
#include "object/push_pull.h"
#include "object/objects.h"
#include "copy/pin.h"
#include "base/process.h"
#include "copy/device_cache.h"
#include "copy/retired.h"
#include "copy/staged.h"
#include "base/stats.h"
#include "base/status.h"
#include "object/replace.h"
#include "object/resize.h"
#include "trace/trace_writer.h"
#include "object/unified.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ALIGNMENT = 2 << 20, MAX_DEVICE = 32767, MOST_ROUNDS = 16 };

static_assert(sizeof(struct synced_mem) == 128 || sizeof(void *) < 8, "a million untouched objects cost 128 MB");
static_assert(sizeof(struct sm_copy) <= 112, "an object in use adds two copies");

/* ---- Life ---- */

void synced_mem_options_init(synced_mem_options *options)
{
    if (options)
        *options = (synced_mem_options){.struct_size = sizeof *options, .device = SYNCED_MEM_DEVICE_CURRENT};
}

static synced_mem_status check_options(const synced_mem_options *options)
{
    SM_TRY(SM_CHECK_STRUCT(options, "options"));
    if (options->device < SYNCED_MEM_DEVICE_CURRENT || options->device > MAX_DEVICE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "device %d is not valid: pass 0 to %d, or SYNCED_MEM_DEVICE_CURRENT", options->device,
                       MAX_DEVICE);
    if ((options->alignment & (options->alignment - 1)) != 0 || options->alignment > MAX_ALIGNMENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "alignment %zu is not a power of two up to %d",
                       options->alignment, MAX_ALIGNMENT);
    if ((unsigned)options->placement > SYNCED_MEM_PLACEMENT_AUTOMATIC)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "placement %d is not a synced_mem_placement_kind",
                       (int)options->placement);
    if (options->placement && (options->cpu_allocator || options->gpu_allocator))
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "cpu_allocator and gpu_allocator work with separate placement only");
    return SYNCED_MEM_OK;
}

static bool needs_extras(const synced_mem_options *options)
{
    return options && (options->name || options->alignment || options->user || options->cpu_allocator ||
                       options->gpu_allocator || options->placement);
}

/* Stores NULL if all options have their defaults. */
static synced_mem_status create_extras(const synced_mem_options *options, struct sm_extras **out)
{
    const struct sm_allocator *cpu;
    const struct sm_allocator *gpu;
    *out = NULL;
    if (!needs_extras(options))
        return SYNCED_MEM_OK;
    synced_mem_status status = sm_allocator_record(options->cpu_allocator, SM_CPU, &cpu);
    if (status == SYNCED_MEM_OK)
        status = sm_allocator_record(options->gpu_allocator, SM_GPU, &gpu);
    if (status != SYNCED_MEM_OK)
        return status;
    struct sm_extras *const extras = calloc(1, sizeof *extras);
    if (!extras)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for an object's record");
    extras->allocators[SM_CPU] = cpu;
    extras->allocators[SM_GPU] = gpu;
    const size_t alignment = options->alignment ? options->alignment : SM_DEFAULT_ALIGNMENT;
    extras->alignment = alignment > sizeof(void *) ? alignment : sizeof(void *);
    extras->requested_alignment = options->alignment;
    extras->user = options->user;
    extras->requested_placement = (unsigned char)options->placement;
    atomic_init(&extras->placement, extras->requested_placement);
    if (options->name)
        (void)snprintf(extras->name, sizeof extras->name, "%.*s", (int)sizeof extras->name - 1, options->name);
    *out = extras;
    return SYNCED_MEM_OK;
}

static synced_mem_status check_object_size(size_t size)
{
    if (size > (size_t)PTRDIFF_MAX - MAX_ALIGNMENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "size %zu is more than one buffer can have", size);
    return SYNCED_MEM_OK;
}

static synced_mem_status create_object(synced_mem **out, size_t size, const synced_mem_options *options)
{
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    synced_mem_status status = options ? check_options(options) : SYNCED_MEM_OK;
    if (status == SYNCED_MEM_OK)
        status = check_object_size(size);
    struct sm_extras *extras = NULL;
    if (status == SYNCED_MEM_OK)
        status = create_extras(options, &extras);
    if (status != SYNCED_MEM_OK)
        return status;
    struct synced_mem *const mem = sm_objects_take();
    if (!mem) {
        free(extras);
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for an object's record");
    }
    sm_object_init(mem);
    atomic_store_explicit(&mem->size, size, memory_order_relaxed);
    mem->extras = extras;
    sm_put_device(mem, options ? options->device : SYNCED_MEM_DEVICE_CURRENT);
    sm_objects_add(mem);
    sm_count_up(SM_COUNT_objects, 1);
    *out = mem;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options)
{
    sm_read_environment();
    return sm_report(create_object(out, size, options), __func__, NULL);
}

synced_mem_status synced_mem_retain(synced_mem *mem)
{
    if (!mem)
        return SM_REPORT(sm_no_object(), mem);
    unsigned references = atomic_load_explicit(&mem->references, memory_order_relaxed);
    do {
        if (references == 0)
            return sm_report(sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object's last reference is already released"),
                             __func__, NULL);
    } while (!atomic_compare_exchange_weak_explicit(&mem->references, &references, references + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return SYNCED_MEM_OK;
}

/* Destroys an object without references. Its memory goes first, because that can fail: the caller then has its
 * reference again. A parent's object stays as it is until the child ends. */
static synced_mem_status destroy_object(struct synced_mem *mem)
{
    sm_objects_wait_for_walks(mem);
    const bool has_memory = sm_copy_of(mem, SM_CPU) || sm_copy_of(mem, SM_GPU);
    const synced_mem_status status = has_memory ? sm_replace(mem, NULL, NULL) : SYNCED_MEM_OK;
    if (status == SYNCED_MEM_ERR_FORKED) {
        sm_count_down(SM_COUNT_objects, 1);
        return SYNCED_MEM_OK;
    }
    if (status != SYNCED_MEM_OK) {
        sm_objects_add(mem);
        return status;
    }
    sm_trace_forget(mem);
    free(mem->extras);
    mem->extras = NULL;
    sm_objects_give(mem);
    sm_count_down(SM_COUNT_objects, 1);
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_release(synced_mem *mem)
{
    if (!mem)
        return SYNCED_MEM_OK;
    unsigned references = atomic_load_explicit(&mem->references, memory_order_relaxed);
    do {
        assert(references > 0 && "released more often than retained");
        if (references == 0)
            return sm_report(sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object was released more often than retained"),
                             __func__, NULL);
    } while (!atomic_compare_exchange_weak_explicit(&mem->references, &references, references - 1, memory_order_seq_cst,
                                                    memory_order_relaxed));
    if (references > 1)
        return SYNCED_MEM_OK;
    sm_caller_begin(__func__, mem);
    const synced_mem_status status = destroy_object(mem);
    /* After success the cell may already be another thread's object. */
    return sm_report(status, __func__, status == SYNCED_MEM_OK ? NULL : synced_mem_name(mem));
}

/* Calls without an object work on it. */
static const char everything[] = "the memory of the library";

static synced_mem_status check_nothing_alive(void)
{
    const uint64_t alive = sm_count_of(SM_COUNT_objects);
    if (alive > 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "%llu %s alive: %s; release every object first",
                       (unsigned long long)alive, alive == 1 ? "object is" : "objects are", sm_objects_alive().text);
    return SYNCED_MEM_OK;
}

/* Reaps everything. Release callbacks may hand in more memory, or make objects that they do not release. */
static synced_mem_status reap_everything(void)
{
    for (int round = 0; round < MOST_ROUNDS; round++) {
        const uint64_t before = sm_retired_times();
        SM_TRY(sm_copy_reap(true));
        SM_TRY(check_nothing_alive());
        if (sm_retired_times() == before)
            return SYNCED_MEM_OK;
    }
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "the release callbacks go on handing in memory: %llu more copies are retired",
                   (unsigned long long)sm_count_of(SM_COUNT_retired));
}

static synced_mem_status shut_down_library(void)
{
    SM_TRY(sm_process_check_not_forked(everything));
    SM_TRY(check_nothing_alive());
    synced_mem_status status = reap_everything();
    if (status == SYNCED_MEM_OK)
        status = sm_copy_free_cached(-1);
    sm_device_cache_reset();
    if (status == SYNCED_MEM_OK)
        sm_staged_shutdown();
    sm_trace_rest();
    if (status == SYNCED_MEM_OK)
        status = sm_stream_shutdown();
    if (status == SYNCED_MEM_OK)
        status = sm_fence_shutdown();
    if (status == SYNCED_MEM_OK)
        status = sm_host_pool_shutdown();
    if (status == SYNCED_MEM_OK)
        status = sm_managed_pool_shutdown();
    if (status == SYNCED_MEM_OK)
        status = sm_device_shutdown();
    if (status == SYNCED_MEM_OK)
        sm_gpu_forget_peaks();
    if (status == SYNCED_MEM_OK)
        sm_allocator_shutdown();
    sm_copy_trim();
    sm_objects_trim();
    return status;
}

synced_mem_status synced_mem_shutdown(void)
{
    sm_caller_begin(__func__, NULL);
    return sm_report(shut_down_library(), __func__, NULL);
}

synced_mem_status synced_mem_reap(void)
{
    const synced_mem_status status = sm_process_check_not_forked(everything);
    if (status != SYNCED_MEM_OK)
        return sm_report(status, __func__, NULL);
    sm_caller_begin(__func__, NULL);
    (void)sm_copy_reap(false);
    sm_host_pool_decay();
    return sm_report(SYNCED_MEM_OK, __func__, NULL);
}

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

synced_mem_state synced_mem_head(const synced_mem *mem)
{
    if (!check_object(mem, __func__))
        return SYNCED_MEM_UNINITIALIZED;
    return (synced_mem_state)sm_head(mem);
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
    const synced_mem_status status = sm_enter(&transaction, (synced_mem *)(uintptr_t)mem);
    if (status != SYNCED_MEM_OK) {
        (void)sm_report(status, function, synced_mem_name(mem));
        return facts;
    }
    transaction.ends_nothing = true;
    struct sm_copy *const copy = sm_copy_of(mem, side);
    if (copy && query && sm_device_in_use())
        (void)sm_pin_query(copy, sm_device(mem));
    if (copy)
        facts = (struct facts){
            .source = (synced_mem_source)copy->source, .capacity = sm_copy_capacity(copy), .pinned = copy->pinned};
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
    (void)sm_report(status, function, mem ? synced_mem_name(mem) : NULL);
    return data;
}

/* Aligned, so that the hot path lies in one cache line wherever the linker puts it. */
#if defined(__GNUC__)
#define IN_A_LINE __attribute__((aligned(64)))
#else
#define IN_A_LINE
#endif

/* The hot path: one acquire load. It makes visible all that the publishing thread did before. */
static inline void *access_side(synced_mem *mem, enum sm_side side, enum sm_mode mode, const char *function)
{
    if (mem) {
        void *const ready = atomic_load_explicit(&mem->ready[side][mode != SM_READ], memory_order_acquire);
        if (ready)
            return ready;
    }
    return access_slowly(mem, side, mode, function);
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
    sm_caller_begin(function, mem);
    const synced_mem_status status = mem ? sm_access_on(mem, mode, stream, &data) : sm_no_object();
    (void)sm_report(status, function, mem ? synced_mem_name(mem) : NULL);
    return data;
}

/* The hot path on a stream. A call that changes the copy or the stream's record conflicts with this one. */
static inline void *access_on_stream(synced_mem *mem, enum sm_mode mode, synced_mem_stream stream, const char *function)
{
    if (mem) {
        const struct sm_stream *const on = atomic_load_explicit(&mem->on[mode != SM_READ], memory_order_acquire);
        if (atomic_load_explicit(&on->hot, memory_order_relaxed) == stream)
            return sm_copy_data(atomic_load_explicit(&mem->copy[SM_GPU], memory_order_relaxed));
    }
    return access_slowly_on(mem, stream, mode, function);
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
        status = sm_move(mems, count, side, stream, &failed);
    return sm_report(status, function, status != SYNCED_MEM_OK && failed ? synced_mem_name(failed) : NULL);
}

synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream)
{
    return mem ? move_objects(&mem, 1, SM_GPU, stream, __func__) : SM_REPORT(sm_no_object(), mem);
}

synced_mem_status synced_mem_async_cpu_pull(synced_mem *mem, synced_mem_stream stream)
{
    return mem ? move_objects(&mem, 1, SM_CPU, stream, __func__) : SM_REPORT(sm_no_object(), mem);
}

synced_mem_status synced_mem_async_gpu_push_n(synced_mem *const *mems, size_t count, synced_mem_stream stream)
{
    return move_objects(mems, count, SM_GPU, stream, __func__);
}

synced_mem_status synced_mem_async_cpu_pull_n(synced_mem *const *mems, size_t count, synced_mem_stream stream)
{
    return move_objects(mems, count, SM_CPU, stream, __func__);
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

synced_mem_status synced_mem_wait(synced_mem *mem)
{
    return SM_DO(mem ? sm_query_or_wait(mem, true, NULL) : sm_no_object(), mem);
}

/* ---- Size ---- */

static synced_mem_status check_and_resize(synced_mem *mem, size_t size, bool keep)
{
    const synced_mem_status status = mem ? check_object_size(size) : sm_no_object();
    return status == SYNCED_MEM_OK ? sm_resize(mem, size, keep) : status;
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

synced_mem_status synced_mem_release_cpu_data(synced_mem *mem)
{
    return SM_DO(mem ? sm_release_side(mem, SM_CPU) : sm_no_object(), mem);
}

synced_mem_status synced_mem_release_gpu_data(synced_mem *mem)
{
    return SM_DO(mem ? sm_release_side(mem, SM_GPU) : sm_no_object(), mem);
}

synced_mem_status synced_mem_release_data(synced_mem *mem)
{
    return SM_DO(mem ? sm_replace(mem, NULL, NULL) : sm_no_object(), mem);
}

int synced_mem_version(void)
{
    return SYNCED_MEM_VERSION_MAJOR * 10000 + SYNCED_MEM_VERSION_MINOR * 100 + SYNCED_MEM_VERSION_PATCH;
}
