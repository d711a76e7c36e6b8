/*
 * Kernels that a program carries: cudaLibraryLoadData, cudaLibraryGetKernel and cudaLaunchKernelExC of CUDA 12.8, with
 * the library's own kernel, which copies and fills lists.
 */
#include "conformance.h"

#include "device/copy_list.h"
#include "device/cuda/copy_kernel.h"

#include <stdlib.h>
#include <string.h>

#if CUDART_VERSION >= 12080

static cudaLibrary_t load_library(void)
{
    cudaLibrary_t library;
    MUST(cudaLibraryLoadData(&library, sm_copy_kernel_code, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static const void *load_kernel(void)
{
    cudaKernel_t kernel;
    MUST(cudaLibraryGetKernel(&kernel, load_library(), "sm_list_kernel"));
    return (const void *)kernel;
}

static cudaError_t launch_shape(const void *kernel, struct sm_list_job *job, unsigned blocks, unsigned threads,
                                cudaStream_t stream)
{
    cudaLaunchAttribute priority = {.id = cudaLaunchAttributePriority};
    const cudaLaunchConfig_t config = {.gridDim = {.x = blocks, .y = 1, .z = 1},
                                       .blockDim = {.x = threads, .y = 1, .z = 1},
                                       .stream = stream,
                                       .attrs = &priority,
                                       .numAttrs = 1};
    void *args[] = {job};
    int least;
    MUST(cudaDeviceGetStreamPriorityRange(&least, &priority.val.priority));
    return cudaLaunchKernelExC(&config, kernel, args);
}

static cudaError_t launch(const void *kernel, struct sm_list_job *job, cudaStream_t stream)
{
    return launch_shape(kernel, job, 4, 512, stream);
}

static void libraries(void)
{
    cudaLibrary_t library;
    cudaKernel_t kernel, again;
    struct cudaFuncAttributes attributes;

    expect_code("LibraryLoadData", cudaSuccess,
                cudaLibraryLoadData(&library, sm_copy_kernel_code, NULL, NULL, 0, NULL, NULL, 0));
    expect_code("LibraryGetKernel", cudaSuccess, cudaLibraryGetKernel(&kernel, library, "sm_list_kernel"));
    expect_code("again", cudaSuccess, cudaLibraryGetKernel(&again, library, "sm_list_kernel"));
    expect_true("which is the same", kernel == again);
    expect_code("of a name that the code does not have", cudaErrorSymbolNotFound,
                cudaLibraryGetKernel(&again, library, "sm_no_kernel"));
    expect_code("FuncGetAttributes of a kernel", cudaSuccess, cudaFuncGetAttributes(&attributes, (const void *)kernel));
    expect_true("blocks of 512 threads are possible", attributes.maxThreadsPerBlock >= 512);
    expect_code("LibraryUnload", cudaSuccess, cudaLibraryUnload(library));
}

static void copies(void)
{
    enum { COUNT = 1000, EACH = 64, BYTES = 50 };
    struct sm_list_entry *list;
    struct kit kit;

    make_kit(&kit);
    const void *const kernel = load_kernel();
    MUST(cudaMallocHost((void **)&list, COUNT * sizeof *list));
    for (int i = 0; i < COUNT; i++)
        list[i] = (struct sm_list_entry){kit.device_a + i * EACH + i % 7, kit.pinned_b + i * EACH, BYTES - i % 13};
    struct sm_list_job job = {.list = list, .count = COUNT, .value = -1};
    hold_stream_for(kit.stream, 30);
    expect_code("LaunchKernelExC with a list in page-locked memory", cudaSuccess, launch(kernel, &job, kit.stream));
    job = (struct sm_list_job){.count = 2, .value = -1};
    job.few[0] = (struct sm_list_entry){kit.pinned_a, kit.device_a, SIZE / 2};
    job.few[1] = (struct sm_list_entry){kit.pinned_a + SIZE / 2, kit.device_a + SIZE / 2, SIZE / 2};
    expect_code("and with a few entries in its parameter", cudaSuccess, launch(kernel, &job, kit.stream));
    memset(&job, 0, sizeof job); /* the launch has copied it */
    MUST(cudaStreamSynchronize(kit.stream));
    for (int i = 0; i < COUNT; i++) {
        unsigned char *const at = kit.pinned_a + i * EACH + i % 7;
        if (!same_bytes(0xb2, at, (size_t)(BYTES - i % 13)) || at[BYTES - i % 13] != 0xa1)
            expect_value("an entry whose bytes, and no others, were copied", 0, i + 1);
    }
    expect_bytes("the bytes behind all entries", 0xa1, kit.pinned_a + COUNT * EACH + 8, SIZE - COUNT * EACH - 8);
}

static void fills(void)
{
    struct kit kit;
    struct sm_list_job job = {.count = 2, .value = 0x3c};

    make_kit(&kit);
    job.few[0] = (struct sm_list_entry){kit.device_a + 1, NULL, 1};
    job.few[1] = (struct sm_list_entry){kit.device_a + 3, NULL, 1000};
    expect_code("a launch that fills", cudaSuccess, launch(load_kernel(), &job, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("before the first byte", 0xa1, kit.pinned_b, 1);
    expect_bytes("the byte", 0x3c, kit.pinned_b + 1, 1);
    expect_bytes("behind it", 0xa1, kit.pinned_b + 2, 1);
    expect_bytes("the thousand bytes", 0x3c, kit.pinned_b + 3, 1000);
    expect_bytes("and behind them", 0xa1, kit.pinned_b + 1003, 100);
}

static void arguments(void)
{
    struct kit kit;
    struct sm_list_job job = {.count = 0, .value = -1};

    make_kit(&kit);
    const void *const kernel = load_kernel();
    expect_code("a launch of no blocks", cudaErrorInvalidValue, launch_shape(kernel, &job, 0, 32, kit.stream));
    expect_code("of 2000 threads", cudaErrorInvalidValue, launch_shape(kernel, &job, 1, 2000, kit.stream));
    expect_code("on the legacy stream", cudaSuccess, launch(kernel, &job, NULL));
    expect_code("on the thread's own stream", cudaSuccess, launch(kernel, &job, cudaStreamPerThread));
    MUST(cudaDeviceSynchronize());
}

static void captures(void)
{
    struct kit kit;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    struct sm_list_job job = {.count = 1, .value = -1};

    make_kit(&kit);
    const void *const kernel = load_kernel();
    struct cudaFuncAttributes attributes;
    MUST(cudaFuncGetAttributes(&attributes, kernel)); /* else the launch loads the code */
    job.few[0] = (struct sm_list_entry){kit.device_a, kit.pinned_b, SIZE};
    MUST(cudaStreamBeginCapture(kit.stream, cudaStreamCaptureModeGlobal));
    expect_code("a launch on a stream that captures", cudaSuccess, launch(kernel, &job, kit.stream));
    expect_code("and one beside it", cudaSuccess, launch(kernel, &job, kit.other));
    expect_code("the capture ends well", cudaSuccess, cudaStreamEndCapture(kit.stream, &graph));
    MUST(cudaStreamSynchronize(kit.other));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    memset(kit.pinned_b, 0x44, SIZE);
    MUST(cudaGraphLaunch(exec, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("the graph copies when it is launched", 0x44, kit.pinned_a, SIZE);
}

const struct section library_sections[] = {
    {"library: loading", libraries, 1, 0},     {"library: copies of a list", copies, 1, 0},
    {"library: fills of a list", fills, 1, 0}, {"library: arguments of a launch", arguments, 1, 0},
    {"library: captures", captures, 1, 0},     {NULL, NULL, 0, 0},
};

#else

const struct section library_sections[] = {{NULL, NULL, 0, 0}};

#endif
