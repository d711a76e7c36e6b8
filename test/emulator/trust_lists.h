/*
 * Shared by the right and the wrong programs that launch the library's kernel, which copies and fills lists.
 */
#ifndef TRUST_LISTS_H
#define TRUST_LISTS_H

#include "trust.h"

#include "device/copy_list.h"
#include "device/cuda/copy_kernel.h"

static inline cudaLibrary_t new_library(void)
{
    cudaLibrary_t library;

    MUST(cudaLibraryLoadData(&library, sm_copy_kernel_code, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static inline const void *kernel_of(cudaLibrary_t library)
{
    cudaKernel_t kernel;

    MUST(cudaLibraryGetKernel(&kernel, library, "sm_list_kernel"));
    return (const void *)kernel;
}

static inline cudaError_t launch_list(const void *kernel, struct sm_list_job *job, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = {
        .gridDim = {.x = 2, .y = 1, .z = 1}, .blockDim = {.x = 64, .y = 1, .z = 1}, .stream = stream};
    void *args[] = {job};

    return cudaLaunchKernelExC(&config, kernel, args);
}

/* A list in page-locked memory, with as many entries as SIZE bytes have pieces of 16. */
static inline struct sm_list_entry *new_list(byte *to, const byte *from)
{
    struct sm_list_entry *list;

    MUST(cudaMallocHost((void **)&list, SIZE / 16 * sizeof *list));
    for (int i = 0; i < SIZE / 16; i++)
        list[i] = (struct sm_list_entry){to + 16 * i, from + 16 * i, 16};
    return list;
}

static inline struct sm_list_job job_of(const struct sm_list_entry *list)
{
    return (struct sm_list_job){.list = list, .count = SIZE / 16, .value = -1};
}

#endif
