/* The life of objects, of views and of the library. */
#include "api/life.h"

#include "api/argument.h"
#include "api/environment.h"
#include "api/options.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/status.h"
#include "copy/scratch.h"
#include "copy/device_cache.h"
#include "copy/file_job.h"
#include "copy/kernel_start.h"
#include "copy/retired.h"
#include "copy/staged.h"
#include "copy/urgent.h"
#include "memory/accounting.h"
#include "memory/managed_pool.h"
#include "memory/pinned/host_pool.h"
#include "object/acquire.h"
#include "object/evictable.h"
#include "object/host_only.h"
#include "object/objects.h"
#include "object/piece.h"
#include "object/replace.h"
#include "object/use_file.h"
#include "object/view.h"
#include "trace/trace_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static_assert(sizeof(struct synced_mem) == 128 || sizeof(void *) < 8, "a million untouched objects cost 128 MB");
static_assert(sizeof(struct sm_allocation) <= 112, "an object in use adds two copies");

/* ---- Records ---- */

static bool needs_extras(const synced_mem_options *options)
{
    return options && (options->name || options->alignment || options->user || options->cpu_allocator ||
                       options->gpu_allocator || options->placement || options->shareable || options->evictable);
}

/* Stores NULL if all options have their defaults. */
static synced_mem_status create_extras(const synced_mem_options *options, struct sm_extras **out)
{
    const struct sm_allocator *cpu;
    const struct sm_allocator *gpu;
    *out = NULL;
    if (!needs_extras(options))
        return SYNCED_MEM_OK;
    synced_mem_status status = sm_allocator_find(options->cpu_allocator, SM_CPU, &cpu);
    if (status == SYNCED_MEM_OK)
        status = sm_allocator_find(options->gpu_allocator, SM_GPU, &gpu);
    if (status != SYNCED_MEM_OK)
        return status;
    struct sm_extras *const extras =
        calloc(1, options->evictable ? sizeof(struct sm_evictable) : sizeof(struct sm_extras));
    if (!extras)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of an object");
    extras->allocators[SM_CPU] = cpu;
    extras->allocators[SM_GPU] = gpu;
    const size_t alignment = options->alignment ? options->alignment : SM_DEFAULT_ALIGNMENT;
    extras->alignment = alignment > sizeof(void *) ? alignment : sizeof(void *);
    extras->requested_alignment = options->alignment;
    extras->user = options->user;
    extras->is_evictable = options->evictable != 0;
    extras->requested_placement = (unsigned char)options->placement;
    atomic_init(&extras->placement, extras->requested_placement);
    if (options->name)
        (void)snprintf(extras->name, sizeof extras->name, "%.*s", (int)sizeof extras->name - 1, options->name);
    *out = extras;
    return SYNCED_MEM_OK;
}

/* Makes the struct of an object that no other thread can find yet. */
static synced_mem_status make_struct(struct synced_mem **out, size_t size, const synced_mem_options *options)
{
    struct sm_extras *extras;
    SM_TRY(create_extras(options, &extras));
    struct synced_mem *const mem = sm_objects_take();
    if (!mem) {
        free(extras);
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of an object");
    }
    sm_object_init(mem);
    atomic_store_explicit(&mem->record.size, size, memory_order_relaxed);
    mem->extras = extras;
    if (sm_evictable_of(mem))
        sm_evictable_init(mem);
    sm_put_device(mem, options ? options->device : SYNCED_MEM_DEVICE_CURRENT);
    *out = mem;
    return SYNCED_MEM_OK;
}

static void give_struct(struct synced_mem *mem)
{
    if (mem->extras)
        sm_sharing_free(mem->extras->sharing);
    free(mem->extras);
    mem->extras = NULL;
    sm_objects_give(mem);
}

/* Makes an object of this memory. Takes over the hold on it. */
static synced_mem_status make_shareable_struct(struct synced_mem **out, size_t size, const synced_mem_options *options,
                                               struct sm_shared_memory *memory, enum sm_turn turn)
{
    synced_mem_status status = make_struct(out, size, options);
    if (status == SYNCED_MEM_OK) {
        status = sm_sharing_begin(*out, memory, turn);
        if (status == SYNCED_MEM_OK)
            return SYNCED_MEM_OK;
        give_struct(*out);
    }
    sm_shared_drop(memory);
    return status;
}

static synced_mem_status make_shareable(struct synced_mem **out, size_t size, const synced_mem_options *options)
{
    const size_t alignment = options->alignment > SM_DEFAULT_ALIGNMENT ? options->alignment : SM_DEFAULT_ALIGNMENT;
    struct sm_shared_memory *memory;
    SM_TRY(sm_shared_make(size, alignment, options->shareable, &memory));
    return make_shareable_struct(out, size, options, memory, SM_TURN_WRITE);
}

synced_mem_status sm_create_received(synced_mem **out, struct sm_shared_memory *memory)
{
    struct synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.alignment = (size_t)memory->facts.alignment;
    options.shareable = memory->facts.policy;
    SM_TRY(make_shareable_struct(&mem, (size_t)memory->facts.size, &options, memory, SM_TURN_NONE));
    sm_objects_add(mem);
    *out = mem;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_create(synced_mem **out, size_t size, const synced_mem_options *options)
{
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    synced_mem_status status = options ? sm_check_options(options) : SYNCED_MEM_OK;
    if (status == SYNCED_MEM_OK)
        status = sm_check_size(size);
    struct synced_mem *mem;
    if (status == SYNCED_MEM_OK && options && options->shareable)
        status = make_shareable(&mem, size, options);
    else if (status == SYNCED_MEM_OK)
        status = make_struct(&mem, size, options);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_objects_add(mem);
    *out = mem;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options)
{
    sm_read_environment();
    return sm_report(sm_create(out, size, options), __func__, NULL);
}

synced_mem_status sm_retain(struct synced_mem *mem)
{
    unsigned references = atomic_load_explicit(&mem->references, memory_order_relaxed);
    do {
        if (references == 0)
            return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object's last reference is already released");
    } while (!atomic_compare_exchange_weak_explicit(&mem->references, &references, references + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_retain(synced_mem *mem)
{
    if (!mem)
        return SM_REPORT(sm_no_object(), mem);
    const synced_mem_status status = sm_retain(mem);
    return status == SYNCED_MEM_OK ? SYNCED_MEM_OK : sm_report(status, __func__, NULL);
}

synced_mem_status sm_create_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                 const synced_mem_options *options)
{
    struct synced_mem *const root = sm_root(of);
    struct synced_mem *view;
    SM_TRY(make_struct(&view, size, options));
    synced_mem_status status = sm_retain(root);
    if (status == SYNCED_MEM_OK) {
        status = sm_view_begin(view, of, offset, size);
        if (status != SYNCED_MEM_OK)
            atomic_fetch_sub_explicit(&root->references, 1, memory_order_relaxed); /* of has another one */
    }
    if (status != SYNCED_MEM_OK) {
        give_struct(view);
        return status;
    }
    sm_objects_add(view);
    *out = view;
    return SYNCED_MEM_OK;
}

/* Gives up the object's memory. A view that has bytes, or has left its root, has none of its own. */
static synced_mem_status give_up_memory(struct synced_mem *mem)
{
    if (sm_owner(mem) != mem || (!sm_copy_of(sm_own_record(mem), SM_CPU) && !sm_copy_of(sm_own_record(mem), SM_GPU)))
        return SYNCED_MEM_OK;
    if (sm_host_only_free(mem))
        return sm_reap_after(SYNCED_MEM_OK, true);
    if (mem->record.kind == SM_WHOLE && sm_sharing_of(mem))
        sm_sharing_end(sm_sharing_of(mem));
    return sm_release_memory(mem);
}

/* Returns whether an object is to be kept because its memory could not be given up. A parent's object is as it is until
 * the child ends. */
static bool has_failed(synced_mem_status status)
{
    return status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_FORKED;
}

/* status: how its memory was given up. A parent's object is kept, but is no object of the child's any more. */
static void end_struct_unless_kept(struct synced_mem *mem, synced_mem_status status)
{
    if (status != SYNCED_MEM_OK) {
        sm_objects_forget();
        return;
    }
    sm_trace_forget(mem);
    give_struct(mem);
}

/* A view that has dropped its reference may still hold the lock (sm_view_leave()). It took the lock before. So a lock
 * that is open after the last reference stays open. */
static void wait_for_leaving_view(struct synced_mem *mem)
{
    if (atomic_load(&mem->lock.state) != SM_MUTEX_OPEN && sm_check_and_lock(mem) == SYNCED_MEM_OK)
        sm_unlock_root(mem);
}

/* Destroys an object that is no view. */
static synced_mem_status destroy_whole(struct synced_mem *mem)
{
    wait_for_leaving_view(mem);
    const synced_mem_status status = give_up_memory(mem);
    if (has_failed(status))
        return status;
    if (status == SYNCED_MEM_OK && (mem->at.first || sm_has_backing(&mem->record)))
        sm_end_backings(mem);
    end_struct_unless_kept(mem, status);
    return SYNCED_MEM_OK;
}

/* Destroys a view, and the root if the view has its last reference. The root's memory then goes before the view
 * ends. */
static synced_mem_status destroy_view(struct synced_mem *view)
{
    struct synced_mem *const root = sm_root(view);
    const bool is_last = !sm_view_leave(view);
    sm_caller.subject.root = NULL; /* it may be gone */
    synced_mem_status status = is_last ? give_up_memory(root) : SYNCED_MEM_OK;
    if (status == SYNCED_MEM_OK)
        status = give_up_memory(view); /* of 0 bytes, and the last; fails only in a forked child */
    if (has_failed(status))
        return status;
    if (is_last && status == SYNCED_MEM_OK) {
        sm_end_backings(root);
        sm_view_end(view);
    }
    end_struct_unless_kept(view, status);
    if (!is_last)
        return SYNCED_MEM_OK;
    atomic_store(&root->references, 0);
    sm_objects_wait_for_walks(root);
    status = destroy_whole(root);
    assert(status == SYNCED_MEM_OK); /* the memory is gone */
    return SYNCED_MEM_OK;
}

/* Takes an evictable object out of the reach of evictions. Where give_up_memory() leaves a parent's object as it is, so
 * does this. */
static synced_mem_status end_evictable(struct synced_mem *mem)
{
    struct sm_evictable *const evictable = sm_evictable_of(mem);
    if (!evictable || (mem->generation != sm_process_generation() && sm_process_lost_gpu()))
        return SYNCED_MEM_OK;
    if (sm_is_held(evictable, SM_GPU) || sm_is_held(evictable, SM_CPU))
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object is held: unhold it before its last release");
    sm_member_end(&evictable->member);
    sm_member_end(&evictable->host);
    return SYNCED_MEM_OK;
}

/* Destroys an object without references. Its memory goes first, because that can fail: the caller then has its
 * reference again. */
static synced_mem_status destroy_object(struct synced_mem *mem)
{
    sm_objects_wait_for_walks(mem);
    synced_mem_status status = end_evictable(mem);
    if (status == SYNCED_MEM_OK)
        status = mem->record.kind == SM_VIEW ? destroy_view(mem) : destroy_whole(mem);
    if (status != SYNCED_MEM_OK)
        sm_objects_add(mem);
    return status;
}

synced_mem_status sm_release(struct synced_mem *mem)
{
    unsigned references = atomic_load_explicit(&mem->references, memory_order_relaxed);
    do {
        assert(references > 0 && "released more often than retained");
        if (references == 0)
            return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object was released more often than retained");
    } while (!atomic_compare_exchange_weak_explicit(&mem->references, &references, references - 1, memory_order_seq_cst,
                                                    memory_order_relaxed));
    return references > 1 ? SYNCED_MEM_OK : destroy_object(mem);
}

/* After success the cell may already be another thread's object. So it is not named, and read before. */
synced_mem_status synced_mem_release(synced_mem *mem)
{
    if (!mem)
        return SYNCED_MEM_OK;
    const bool is_last = atomic_load_explicit(&mem->references, memory_order_relaxed) == 1;
    if (is_last)
        sm_caller_begin(__func__, mem);
    const synced_mem_status status = sm_release(mem);
    if (status == SYNCED_MEM_OK && !is_last)
        return SYNCED_MEM_OK;
    const bool is_there = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_INVALID_STATE;
    return sm_report(status, __func__, is_there ? sm_object_name(mem) : NULL);
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

/* Release callbacks may release objects, hand in more memory, or make objects that they do not release. */
static synced_mem_status reap_everything(void)
{
    SM_TRY(sm_copy_reap(true));
    SM_TRY(check_nothing_alive());
    const uint64_t left = sm_count_of(SM_COUNT_retired);
    if (left == 0)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "the release callbacks go on handing in memory: %llu more copies are retired",
                   (unsigned long long)left);
}

static synced_mem_status shut_down_library(void)
{
    SM_TRY(sm_process_check_not_forked(everything));
    synced_mem_status status = reap_everything();
    if (status == SYNCED_MEM_OK)
        status = sm_copy_free_cached(-1);
    sm_device_cache_reset();
    if (status == SYNCED_MEM_OK) {
        sm_staged_shutdown();
        sm_file_jobs_shutdown();
    }
    sm_trace_rest();
    if (status == SYNCED_MEM_OK) {
        sm_kernel_probes_shutdown();
        sm_bulk_shutdown();
    }
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
        sm_budget_reset();
    if (status == SYNCED_MEM_OK)
        sm_scratch_remove();
    if (status == SYNCED_MEM_OK)
        sm_allocator_shutdown();
    sm_copy_trim();
    sm_objects_trim();
    sm_pieces_trim();
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
