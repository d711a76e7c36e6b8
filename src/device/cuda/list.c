/* The seam on the CUDA runtime: lists of copies and fills, by a kernel whose code is in the library. */
#include "device/cuda/runtime.h"

#include "base/mutex.h"
#include "base/process.h"
#include "base/status.h"

#if CUDART_VERSION >= 12080

#include "device/cuda/copy_kernel.h"
#include "system/thread.h"

#include <stdatomic.h>

/* A shared runtime may be older than the headers. */
enum { RUNTIME_WITH_LIBRARIES = 12080 };
/* A warp takes an entry at a time, so more threads have more entries in flight. */
enum { THREADS = 512 };

enum state { UNASKED, LOADING, LOADED, REFUSED };

static struct device {
    atomic_uint state; /* enum state; the loading thread alone changes it from LOADING, and the rest before */
    unsigned processors;
    int priority;      /* the highest */
    atomic_uint *word; /* in page-locked memory */
} devices[SM_MAX_DEVICES];

/* One thread loads at a time. It alone uses the first four while busy is set. */
static cudaLibrary_t library;
static int library_device; /* has a context, as the library was loaded on it */
static cudaKernel_t list_kernel;
static cudaKernel_t probe_kernel;
static atomic_bool busy;
static atomic_bool is_kept;    /* the library */
static struct sm_events ended; /* loading */

/* ---- Loading ---- */

static synced_mem_status query_attribute(int device, enum cudaDeviceAttr name, int *value)
{
    return check_code(cudaDeviceGetAttribute(value, name, device), "cudaDeviceGetAttribute", device, 0);
}

/* The properties that a device must have, or must not. On a device that shares memory with the host, or reaches it by
 * the host's page tables, copy engines have no link to fill. Under confidential computing the driver registers no host
 * memory. */
static const struct requirement {
    enum cudaDeviceAttr name;
    int value;
} requirements[] = {{cudaDevAttrUnifiedAddressing, 1},
                    {cudaDevAttrIntegrated, 0},
                    {cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0},
                    {cudaDevAttrHostRegisterSupported, 1},
                    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1}};

static synced_mem_status check_requirements(int device)
{
    int value;
    for (size_t i = 0; i < sizeof requirements / sizeof *requirements; i++) {
        SM_TRY(query_attribute(device, requirements[i].name, &value));
        if (value != requirements[i].value)
            return sm_fail(SYNCED_MEM_ERR_CUDA, "device %d is not one whose kernels copy lists", device);
    }
    SM_TRY(check_code(cudaRuntimeGetVersion(&value), "cudaRuntimeGetVersion", device, 0));
    return value >= RUNTIME_WITH_LIBRARIES ? SYNCED_MEM_OK
                                           : sm_fail(SYNCED_MEM_ERR_CUDA, "the CUDA runtime can't load kernels");
}

static synced_mem_status load_library(int device)
{
    cudaLibrary_t loaded;
    if (library)
        return SYNCED_MEM_OK;
    SM_TRY(check_code(cudaLibraryLoadData(&loaded, sm_copy_kernel_code, NULL, NULL, 0, NULL, NULL, 0),
                      "cudaLibraryLoadData", device, 0));
    synced_mem_status status =
        check_code(cudaLibraryGetKernel(&list_kernel, loaded, "sm_list_kernel"), "cudaLibraryGetKernel", device, 0);
    if (status == SYNCED_MEM_OK)
        status = check_code(cudaLibraryGetKernel(&probe_kernel, loaded, "sm_probe_kernel"), "cudaLibraryGetKernel",
                            device, 0);
    library_device = device;
    if (status == SYNCED_MEM_OK)
        library = loaded;
    else
        (void)check_code(cudaLibraryUnload(loaded), "cudaLibraryUnload", device, 0);
    return status;
}

static synced_mem_status obtain_word(struct device *on, int device)
{
    void *word;
    SM_TRY(check_code(cudaHostAlloc(&word, sizeof *on->word, cudaHostAllocPortable), "cudaHostAlloc", device, 0));
    on->word = word;
    atomic_init(on->word, 0);
    return SYNCED_MEM_OK;
}

/* The query of the attributes loads the code into the device's context, which else the first launch would do. */
static synced_mem_status load_here(int device)
{
    struct device *const on = &devices[device];
    struct cudaFuncAttributes attributes;
    int processors;
    int lowest;
    SM_TRY(check_requirements(device));
    SM_TRY(query_attribute(device, cudaDevAttrMultiProcessorCount, &processors));
    SM_TRY(check_code(cudaDeviceGetStreamPriorityRange(&lowest, &on->priority), "cudaDeviceGetStreamPriorityRange",
                      device, 0));
    SM_TRY(load_library(device));
    SM_TRY(
        check_code(cudaFuncGetAttributes(&attributes, (const void *)probe_kernel), "cudaFuncGetAttributes", device, 0));
    SM_TRY(
        check_code(cudaFuncGetAttributes(&attributes, (const void *)list_kernel), "cudaFuncGetAttributes", device, 0));
    SM_TRY(obtain_word(on, device));
    on->processors = (unsigned)processors;
    return processors > 0 && attributes.maxThreadsPerBlock >= THREADS
               ? SYNCED_MEM_OK
               : sm_fail(SYNCED_MEM_ERR_CUDA, "the kernel does not fit device %d", device);
}

static void *load_in_thread(void *argument)
{
    struct device *const on = argument;
    struct before before;
    const int device = (int)(on - devices);
    sm_device_stay(device); /* else leave_device() would return to device 0, which would get a context */
    synced_mem_status status = enter_device(device, &before);
    if (status == SYNCED_MEM_OK)
        status = leave_device(device, &before, load_here(device));
    atomic_store_explicit(&on->state, status == SYNCED_MEM_OK ? LOADED : REFUSED, memory_order_release);
    atomic_store(&busy, false);
    sm_events_add(&ended);
    return NULL;
}

/* Does nothing while another thread loads, or if the system has no thread: the next question tries again. */
static void begin_loading(struct device *on)
{
    unsigned unasked = UNASKED;
    if (atomic_exchange(&busy, true))
        return;
    if (atomic_compare_exchange_strong(&on->state, &unasked, LOADING)) {
        if (sm_thread_start(NULL, load_in_thread, on))
            return;
        atomic_store(&on->state, UNASKED);
    }
    atomic_store(&busy, false);
    sm_events_add(&ended);
}

unsigned sm_device_list_processors(int device)
{
    struct device *const on = &devices[device];
    const unsigned state = atomic_load_explicit(&on->state, memory_order_acquire);
    if (sm_process_lost_gpu())
        return 0;
    if (state == UNASKED)
        begin_loading(on);
    return state == LOADED ? on->processors : 0;
}

void sm_device_await_lists(void)
{
    unsigned seen = sm_events_seen(&ended);
    while (atomic_load(&busy)) {
        sm_events_wait(&ended, seen);
        seen = sm_events_seen(&ended);
    }
}

/* ---- Launches ---- */

static synced_mem_status launch(int device, cudaKernel_t kernel, void **arguments, unsigned blocks,
                                synced_mem_stream stream)
{
    struct before before;
    cudaLaunchAttribute priority = {.id = cudaLaunchAttributePriority, .val = {.priority = devices[device].priority}};
    const cudaLaunchConfig_t config = {.gridDim = {.x = blocks, .y = 1, .z = 1},
                                       .blockDim = {.x = THREADS, .y = 1, .z = 1},
                                       .stream = stream,
                                       .attrs = &priority,
                                       .numAttrs = 1};
    SM_TRY(make_current(device, &before));
    return leave_device(
        device, &before,
        check_code(cudaLaunchKernelExC(&config, (const void *)kernel, arguments), "cudaLaunchKernelExC", device, 0));
}

synced_mem_status sm_device_run_list(int device, const struct sm_list_job *job, unsigned blocks,
                                     synced_mem_stream stream)
{
    void *arguments[] = {(void *)(uintptr_t)job};
    return launch(device, list_kernel, arguments, blocks, stream);
}

synced_mem_status sm_device_run_probe(int device, unsigned number, synced_mem_stream stream)
{
    void *word = devices[device].word;
    void *arguments[] = {&word, &number};
    return launch(device, probe_kernel, arguments, 1, stream);
}

unsigned sm_device_probed(int device)
{
    return atomic_load_explicit(devices[device].word, memory_order_relaxed);
}

/* ---- Shutdown ---- */

void sm_device_keep_lists(void)
{
    atomic_store_explicit(&is_kept, true, memory_order_relaxed);
}

/* The memory goes with a context that is lost. */
static void free_words(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        struct device *const on = &devices[device];
        struct before before;
        if (on->word && enter_device(device, &before) == SYNCED_MEM_OK)
            (void)leave_device(device, &before, check_code(cudaFreeHost(on->word), "cudaFreeHost", device, 0));
        on->word = NULL;
    }
}

static synced_mem_status unload_library(void)
{
    struct before before;
    SM_TRY(enter_device(library_device, &before));
    return leave_device(library_device, &before,
                        check_code(cudaLibraryUnload(library), "cudaLibraryUnload", library_device, 0));
}

synced_mem_status sm_cuda_unload_lists(void)
{
    sm_device_await_lists();
    if (atomic_load_explicit(&is_kept, memory_order_relaxed)) {
        for (int device = 0; device < SM_MAX_DEVICES; device++)
            atomic_store(&devices[device].state, REFUSED); /* the program may reset the device */
        return SYNCED_MEM_OK;
    }
    const synced_mem_status status = library ? unload_library() : SYNCED_MEM_OK;
    if (sm_cuda_remains(status))
        return status;
    library = NULL;
    free_words();
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        atomic_store(&devices[device].state, UNASKED);
    return SYNCED_MEM_OK;
}

#else

void sm_device_keep_lists(void)
{
}

synced_mem_status sm_device_run_probe(int device, unsigned number, synced_mem_stream stream)
{
    (void)device, (void)number, (void)stream;
    return sm_fail(SYNCED_MEM_ERR_CUDA, "the CUDA runtime can't load kernels");
}

unsigned sm_device_probed(int device)
{
    (void)device;
    return 0;
}

unsigned sm_device_list_processors(int device)
{
    (void)device;
    return 0;
}

void sm_device_await_lists(void)
{
}

synced_mem_status sm_device_run_list(int device, const struct sm_list_job *job, unsigned blocks,
                                     synced_mem_stream stream)
{
    (void)device, (void)job, (void)blocks, (void)stream;
    return sm_fail(SYNCED_MEM_ERR_CUDA, "the CUDA runtime can't load kernels");
}

synced_mem_status sm_cuda_unload_lists(void)
{
    return SYNCED_MEM_OK;
}

#endif
