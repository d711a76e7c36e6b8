/* The public functions of an object, in the header's order: arguments are checked here, the work is done by
 * coherence.c. */
#include "synced_mem.h"

#include "coherence.h"
#include "slab.h"
#include "stats.h"
#include "status.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ALIGNMENT = 2 << 20 };

static_assert(sizeof(struct synced_mem) <= 128, "a million untouched objects cost 128 MB at most");
static_assert(sizeof(struct sm_copy) <= 128, "an object in use adds two copies");

static struct sm_slab objects = SM_SLAB_INITIALIZER(struct synced_mem);

#define REPORT(status, mem) sm_report((status), __func__, (mem) ? synced_mem_name(mem) : NULL)

static synced_mem_status no_object(void)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the object is NULL");
}

/* ---- Life ---- */

void synced_mem_options_init(synced_mem_options *options)
{
    if (options)
        *options = (synced_mem_options){.struct_size = sizeof *options, .device = SYNCED_MEM_DEVICE_CURRENT};
}

static synced_mem_status check_options(const synced_mem_options *options)
{
    if (options->struct_size != sizeof *options)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the options' struct_size is %zu, this version knows %zu",
                       options->struct_size, sizeof *options);
    if (options->device < SYNCED_MEM_DEVICE_CURRENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "no device can have the number %d", options->device);
    if ((options->alignment & (options->alignment - 1)) != 0 || options->alignment > MAX_ALIGNMENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the alignment %zu is no power of two up to %d",
                       options->alignment, MAX_ALIGNMENT);
    return SYNCED_MEM_OK;
}

static bool needs_extras(const synced_mem_options *options)
{
    return options && (options->name || options->alignment || options->user);
}

static struct sm_extras *create_extras(const synced_mem_options *options)
{
    struct sm_extras *const extras = calloc(1, sizeof *extras);
    if (!extras)
        return NULL;
    const size_t alignment = options->alignment ? options->alignment : SM_DEFAULT_ALIGNMENT;
    extras->alignment = alignment > sizeof(void *) ? alignment : sizeof(void *);
    extras->asked = options->alignment;
    extras->user = options->user;
    if (options->name)
        (void)snprintf(extras->name, sizeof extras->name, "%.*s", (int)sizeof extras->name - 1, options->name);
    return extras;
}

static synced_mem_status create(synced_mem **out, size_t size, const synced_mem_options *options)
{
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    const synced_mem_status status = options ? check_options(options) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK)
        return status;
    if (size > (size_t)PTRDIFF_MAX - MAX_ALIGNMENT)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%zu bytes are more than one buffer can have", size);
    struct sm_extras *const extras = needs_extras(options) ? create_extras(options) : NULL;
    struct synced_mem *const mem = !needs_extras(options) || extras ? sm_slab_take(&objects) : NULL;
    if (!mem) {
        free(extras);
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no memory for an object's record");
    }
    pthread_mutex_init(&mem->lock, NULL);
    mem->size = size;
    mem->extras = extras;
    atomic_store_explicit(&mem->device, options ? options->device : SYNCED_MEM_DEVICE_CURRENT, memory_order_relaxed);
    atomic_store_explicit(&mem->references, 1, memory_order_relaxed);
    sm_count_up(SM_COUNT_objects, 1);
    *out = mem;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options)
{
    return sm_report(create(out, size, options), __func__, NULL);
}

synced_mem_status synced_mem_retain(synced_mem *mem)
{
    if (!mem)
        return REPORT(no_object(), mem);
    unsigned references = atomic_load_explicit(&mem->references, memory_order_relaxed);
    do {
        if (references == 0)
            return sm_report(sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the last reference is already gone"), __func__,
                             NULL);
    } while (!atomic_compare_exchange_weak_explicit(&mem->references, &references, references + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return SYNCED_MEM_OK;
}

/* The memory goes first, because that can fail; the caller then still has its reference. */
static synced_mem_status destroy(struct synced_mem *mem)
{
    const synced_mem_status status = sm_replace(mem, NULL, NULL);
    if (status != SYNCED_MEM_OK) {
        atomic_store_explicit(&mem->references, 1, memory_order_relaxed);
        return status;
    }
    pthread_mutex_destroy(&mem->lock);
    free(mem->extras);
    mem->extras = NULL;
    sm_slab_give(&objects, mem);
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
            return sm_report(sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "released more often than retained"), __func__,
                             NULL);
    } while (!atomic_compare_exchange_weak_explicit(&mem->references, &references, references - 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (references > 1)
        return SYNCED_MEM_OK;
    const synced_mem_status status = destroy(mem);
    /* After success the cell may already be another thread's object. */
    return status == SYNCED_MEM_OK ? status : REPORT(status, mem);
}

static synced_mem_status shut_down(void)
{
    const uint64_t alive = sm_count_of(SM_COUNT_objects);
    if (alive > 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "%llu objects are alive", (unsigned long long)alive);
    synced_mem_status status = sm_copy_reap(true);
    if (status == SYNCED_MEM_OK)
        status = sm_ticket_shutdown();
    if (status == SYNCED_MEM_OK)
        status = sm_device_shutdown();
    sm_copy_trim();
    sm_slab_trim(&objects);
    return status;
}

synced_mem_status synced_mem_shutdown(void)
{
    return sm_report(shut_down(), __func__, NULL);
}

/* ---- Facts ---- */

/* Whether there is an object to ask; a missing one is reported under the asking function's name. */
static bool ask(const synced_mem *mem, const char *function)
{
    if (!mem)
        (void)sm_report(no_object(), function, NULL);
    return mem != NULL;
}

size_t synced_mem_size(const synced_mem *mem)
{
    return ask(mem, __func__) ? mem->size : 0;
}

synced_mem_state synced_mem_head(const synced_mem *mem)
{
    if (!ask(mem, __func__))
        return SYNCED_MEM_UNINITIALIZED;
    return (synced_mem_state)atomic_load_explicit(&mem->head, memory_order_relaxed);
}

int synced_mem_device(const synced_mem *mem)
{
    return ask(mem, __func__) ? atomic_load_explicit(&mem->device, memory_order_relaxed) : SYNCED_MEM_DEVICE_CURRENT;
}

void *synced_mem_user(const synced_mem *mem)
{
    return ask(mem, __func__) && mem->extras ? mem->extras->user : NULL;
}

const char *synced_mem_name(const synced_mem *mem)
{
    return ask(mem, __func__) && mem->extras ? mem->extras->name : "";
}

static synced_mem_source source_of(const synced_mem *mem, enum sm_side side)
{
    pthread_mutex_t *const lock = (pthread_mutex_t *)&mem->lock;
    pthread_mutex_lock(lock);
    const struct sm_copy *const copy = mem->copy[side];
    const synced_mem_source source = copy ? (synced_mem_source)copy->source : SYNCED_MEM_SOURCE_NONE;
    pthread_mutex_unlock(lock);
    return source;
}

synced_mem_source synced_mem_cpu_source(const synced_mem *mem)
{
    return ask(mem, __func__) ? source_of(mem, SM_CPU) : SYNCED_MEM_SOURCE_NONE;
}

synced_mem_source synced_mem_gpu_source(const synced_mem *mem)
{
    return ask(mem, __func__) ? source_of(mem, SM_GPU) : SYNCED_MEM_SOURCE_NONE;
}

int synced_mem_device_count(void)
{
    return sm_device_count();
}

/* ---- Access ---- */

/* Everything but the hot path. */
static __attribute__((noinline)) void *access_slowly(synced_mem *mem, enum sm_side side, enum sm_mode mode,
                                                     const char *function)
{
    void *data = NULL;
    const synced_mem_status status = mem ? sm_access(mem, side, mode, &data) : no_object();
    (void)sm_report(status, function, mem ? synced_mem_name(mem) : NULL);
    return data;
}

/* The hot path: one acquire load, which makes what the publishing thread did before visible here. */
static inline void *access_side(synced_mem *mem, enum sm_side side, enum sm_mode mode, const char *function)
{
    if (mem) {
        void *const ready = atomic_load_explicit(&mem->ready[side][mode != SM_READ], memory_order_acquire);
        if (ready)
            return ready;
    }
    return access_slowly(mem, side, mode, function);
}

const void *synced_mem_cpu_data(synced_mem *mem)
{
    return access_side(mem, SM_CPU, SM_READ, __func__);
}

void *synced_mem_mutable_cpu_data(synced_mem *mem)
{
    return access_side(mem, SM_CPU, SM_MUTABLE, __func__);
}

void *synced_mem_overwrite_cpu_data(synced_mem *mem)
{
    return access_side(mem, SM_CPU, SM_OVERWRITE, __func__);
}

const void *synced_mem_gpu_data(synced_mem *mem)
{
    return access_side(mem, SM_GPU, SM_READ, __func__);
}

void *synced_mem_mutable_gpu_data(synced_mem *mem)
{
    return access_side(mem, SM_GPU, SM_MUTABLE, __func__);
}

void *synced_mem_overwrite_gpu_data(synced_mem *mem)
{
    return access_side(mem, SM_GPU, SM_OVERWRITE, __func__);
}

/* ---- Asynchronous transfers ---- */

synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream)
{
    return REPORT(mem ? sm_push(mem, stream) : no_object(), mem);
}

/* ---- Memory of the caller ---- */

static synced_mem_status check_foreign(const synced_mem *mem, const void *data, const char *what)
{
    if (!mem)
        return no_object();
    if (!data)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the %s is NULL", what);
    if (mem->extras && mem->extras->asked && (uintptr_t)data % mem->extras->asked != 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the %s %p is not aligned to %zu bytes as the options asked",
                       what, data, mem->extras->asked);
    return SYNCED_MEM_OK;
}

static synced_mem_status wrap_cpu(const synced_mem *mem, void *data, synced_mem_release_callback callback, void *user,
                                  struct sm_copy **out)
{
    const synced_mem_status status = check_foreign(mem, data, "host memory");
    return status == SYNCED_MEM_OK ? sm_copy_wrap(data, mem->size, -1, callback, user, out) : status;
}

/* What fills the memory is the caller's work, so it counts as handed out to be written. */
static synced_mem_status wrap_gpu(const synced_mem *mem, void *data, synced_mem_release_callback callback, void *user,
                                  struct sm_copy **out)
{
    int device;
    synced_mem_status status = check_foreign(mem, data, "device memory");
    if (status == SYNCED_MEM_OK)
        status = sm_device_of_pointer(data, &device);
    if (status == SYNCED_MEM_OK)
        status = sm_copy_wrap(data, mem->size, device, callback, user, out);
    if (status == SYNCED_MEM_OK)
        (*out)->handed = SM_HANDED_WRITE;
    return status;
}

static synced_mem_status put(synced_mem *mem, struct sm_copy *cpu, struct sm_copy *gpu)
{
    const synced_mem_status status = sm_replace(mem, cpu, gpu);
    if (status != SYNCED_MEM_OK) {
        sm_copy_unwrap(cpu);
        sm_copy_unwrap(gpu);
    }
    return status;
}

static synced_mem_status set_cpu(synced_mem *mem, void *data, synced_mem_release_callback callback, void *user)
{
    struct sm_copy *cpu = NULL;
    const synced_mem_status status = wrap_cpu(mem, data, callback, user, &cpu);
    return status == SYNCED_MEM_OK ? put(mem, cpu, NULL) : status;
}

static synced_mem_status set_gpu(synced_mem *mem, void *data, synced_mem_release_callback callback, void *user)
{
    struct sm_copy *gpu = NULL;
    const synced_mem_status status = wrap_gpu(mem, data, callback, user, &gpu);
    return status == SYNCED_MEM_OK ? put(mem, NULL, gpu) : status;
}

static synced_mem_status set_both(synced_mem *mem, void *cpu_data, void *gpu_data, synced_mem_release_callback callback,
                                  void *user)
{
    struct sm_copy *cpu = NULL;
    struct sm_copy *gpu = NULL;
    if (cpu_data && cpu_data == gpu_data)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%p can't be both copies", cpu_data);
    synced_mem_status status = wrap_cpu(mem, cpu_data, callback, user, &cpu);
    if (status == SYNCED_MEM_OK)
        status = wrap_gpu(mem, gpu_data, callback, user, &gpu);
    if (status == SYNCED_MEM_OK)
        return put(mem, cpu, gpu);
    sm_copy_unwrap(cpu);
    return status;
}

static synced_mem_status no_callback(void)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the callback is NULL");
}

synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data)
{
    return REPORT(set_cpu(mem, data, NULL, NULL), mem);
}

synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data)
{
    return REPORT(set_gpu(mem, data, NULL, NULL), mem);
}

synced_mem_status synced_mem_set_data(synced_mem *mem, void *cpu_data, void *gpu_data)
{
    return REPORT(set_both(mem, cpu_data, gpu_data, NULL, NULL), mem);
}

synced_mem_status synced_mem_adopt_cpu_data(synced_mem *mem, void *data, synced_mem_release_callback callback,
                                            void *user)
{
    return REPORT(callback ? set_cpu(mem, data, callback, user) : no_callback(), mem);
}

synced_mem_status synced_mem_adopt_gpu_data(synced_mem *mem, void *data, synced_mem_release_callback callback,
                                            void *user)
{
    return REPORT(callback ? set_gpu(mem, data, callback, user) : no_callback(), mem);
}

synced_mem_status synced_mem_adopt_data(synced_mem *mem, void *cpu_data, void *gpu_data,
                                        synced_mem_release_callback callback, void *user)
{
    return REPORT(callback ? set_both(mem, cpu_data, gpu_data, callback, user) : no_callback(), mem);
}

/* ---- Giving memory back ---- */

synced_mem_status synced_mem_release_cpu_data(synced_mem *mem)
{
    return REPORT(mem ? sm_release_side(mem, SM_CPU) : no_object(), mem);
}

synced_mem_status synced_mem_release_gpu_data(synced_mem *mem)
{
    return REPORT(mem ? sm_release_side(mem, SM_GPU) : no_object(), mem);
}

synced_mem_status synced_mem_release_data(synced_mem *mem)
{
    return REPORT(mem ? sm_replace(mem, NULL, NULL) : no_object(), mem);
}

int synced_mem_version(void)
{
    return SYNCED_MEM_VERSION_MAJOR * 10000 + SYNCED_MEM_VERSION_MINOR * 100 + SYNCED_MEM_VERSION_PATCH;
}
