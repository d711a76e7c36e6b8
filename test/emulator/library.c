/*
 * Code that a program carries: libraries of cudaLibraryLoadData, their kernels, and launches. The emulator does not
 * read the code. So every library has the kernels of which the emulator has a twin on the host, and no others.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

/* CUDA 12.8 and later have these. */
#if CUDART_VERSION >= 12080

#define FATBIN_MAGIC 0xba55ed50u
#define MOST_THREADS 1024u
#define DRIVER_WITH_LIBRARIES 12000

/* ---- Libraries ---- */

static bool is_live(const void *library)
{
    return emu_slot_is_live(&emu.libraries, library);
}

/* Finds the kernel behind a handle, which lies in its library's slot. */
static struct CUkern_st *kernel_of(const void *function)
{
    const uintptr_t at = (uintptr_t)function - (uintptr_t)emu.libraries.base;
    if (at >= emu.libraries.used * emu.libraries.slot_size)
        return NULL;
    struct CUlib_st *const library =
        (struct CUlib_st *)(void *)(emu.libraries.base + at / emu.libraries.slot_size * emu.libraries.slot_size);
    if (!library->slot.live)
        return NULL;
    return function == &library->list ? &library->list : function == &library->probe ? &library->probe : NULL;
}

static cudaError_t load(cudaLibrary_t *out, const void *code, unsigned options)
{
    unsigned magic;
    if (emu.driver_version < DRIVER_WITH_LIBRARIES)
        return cudaErrorCallRequiresNewerDriver;
    if (out == NULL || code == NULL || options > 0)
        return cudaErrorInvalidValue;
    memcpy(&magic, code, sizeof magic);
    if (magic != FATBIN_MAGIC)
        return cudaErrorInvalidKernelImage;
    struct CUlib_st *const library = emu_slot_take(&emu.libraries);
    if (library == NULL)
        return cudaErrorMemoryAllocation;
    library->born = emu_self()->origin;
    emu.live[EMU_LIBRARY]++;
    *out = library;
    return cudaSuccess;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
                                void **jitOptionsValues, unsigned int numJitOptions,
                                enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
                                unsigned int numLibraryOptions)
{
    cudaError_t error = EMU_ENTER(cudaLibraryLoadData, EMU_NEEDS_CONTEXT);
    (void)jitOptions, (void)jitOptionsValues, (void)libraryOptions, (void)libraryOptionValues;
    if (error == cudaSuccess)
        error = load(library, code, numJitOptions + numLibraryOptions);
    return emu_leave(error);
}

static bool is_running(const struct CUlib_st *library)
{
    bool runs = false;
    for (size_t i = 0; i < emu.active_count && !runs; i++)
        for (const struct emu_op *op = emu.active[i]->head; op != NULL && !runs; op = op->next)
            runs = op->kind == EMU_OP_LIST && op->library == library;
    return runs;
}

static cudaError_t unload(cudaLibrary_t library)
{
    if (library == NULL)
        return cudaErrorInvalidResourceHandle;
    if (!is_live(library))
        return emu_misuse("%p is not, or no longer, a library", (void *)library);
    if (is_running(library))
        return emu_misuse("a kernel of the library %p is queued", (void *)library);
    emu_slot_give(&emu.libraries, library);
    emu.live[EMU_LIBRARY]--;
    return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    cudaError_t error = EMU_ENTER(cudaLibraryUnload, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = unload(library);
    return emu_leave(error);
}

static cudaError_t find_kernel(cudaKernel_t *out, cudaLibrary_t library, const char *name)
{
    if (out == NULL || name == NULL)
        return cudaErrorInvalidValue;
    if (!is_live(library))
        return emu_misuse("%p is not, or no longer, a library", (void *)library);
    const bool is_list = strcmp(name, "sm_list_kernel") == 0;
    if (!is_list && strcmp(name, "sm_probe_kernel") != 0)
        return cudaErrorSymbolNotFound;
    library->list.library = library->probe.library = library;
    *out = is_list ? &library->list : &library->probe;
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
    cudaError_t error = EMU_ENTER(cudaLibraryGetKernel, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = find_kernel(pKernel, library, name);
    return emu_leave(error);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    cudaError_t error = EMU_ENTER(cudaFuncGetAttributes, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess && attr == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && kernel_of(func) == NULL)
        error = cudaErrorInvalidDeviceFunction;
    if (error == cudaSuccess)
        *attr = (struct cudaFuncAttributes){.maxThreadsPerBlock = (int)MOST_THREADS};
    return emu_leave(error);
}

/* ---- Launches ---- */

static bool is_shape(const cudaLaunchConfig_t *config)
{
    const dim3 grid = config->gridDim, block = config->blockDim;
    return grid.x > 0 && grid.y > 0 && grid.z > 0 && block.x > 0 && block.y > 0 && block.z > 0 &&
           block.x <= MOST_THREADS && block.y <= MOST_THREADS && block.z <= 64 &&
           block.x * block.y * block.z <= MOST_THREADS;
}

static cudaError_t launch(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    struct emu_stream *stream = NULL;
    if (config == NULL || args == NULL)
        return cudaErrorInvalidValue;
    const struct CUkern_st *const kernel = kernel_of(function);
    if (kernel == NULL)
        return cudaErrorInvalidDeviceFunction;
    const cudaError_t error = emu_stream_to_queue(config->stream, &stream);
    if (error != cudaSuccess)
        return error;
    if (!is_shape(config))
        return cudaErrorInvalidValue;
    const struct CUlib_st *const library = kernel->library;
    return kernel == &library->list ? emu_list_queue(stream, args[0], library)
                                    : emu_probe_queue(stream, *(unsigned **)args[0], *(unsigned *)args[1], library);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    cudaError_t error = EMU_ENTER(cudaLaunchKernelExC, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = launch(config, func, args);
    return emu_leave(error);
}

/* ---- With the calling thread's stream in place of the legacy one ---- */

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func, void **args);

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    cudaLaunchConfig_t own;
    emu_called_from(__builtin_return_address(0));
    if (config == NULL || config->stream != NULL)
        return cudaLaunchKernelExC(config, func, args);
    own = *config;
    own.stream = cudaStreamPerThread;
    return cudaLaunchKernelExC(&own, func, args);
}

#endif
