/* The emulated runtime: kernels are functions that it runs as late as its seed says. */
#include "gpu.h"

#include "cudart_emu.h"
#include "pattern.h"

#include <check.h>
#include <stdlib.h>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t code_ = (call);                                                                              \
        ck_assert_msg(code_ == cudaSuccess, "%s: %s", #call, cudaGetErrorName(code_));                                 \
    } while (0)

/* Every seed is another order of execution; seed 0 runs everything as late as it may. */
enum { SEEDS = 21, DEVICES = 4 };

bool gpu_expected(void)
{
    return true;
}

int gpu_schedules(void)
{
    return SEEDS;
}

int gpu_start(unsigned schedule)
{
    emu_reset(schedule);
    return DEVICES;
}

void gpu_check_nothing_left(void)
{
    static const char *const names[EMU_KINDS] = {
        [EMU_DEVICE_MEMORY] = "device memory",
        [EMU_PINNED] = "page-locked memory",
        [EMU_REGISTERED] = "registrations",
        [EMU_MANAGED] = "managed memory",
        [EMU_STREAM] = "streams",
        [EMU_EVENT] = "events",
        [EMU_POOL] = "pools",
    };
    for (int kind = 0; kind < EMU_KINDS; kind++)
        ck_assert_msg(emu_live((enum emu_kind)kind) == 0, "%zu %s left", emu_live((enum emu_kind)kind), names[kind]);
}

int gpu_current_device(void)
{
    int device = -1;
    MUST(cudaGetDevice(&device));
    return device;
}

int gpu_find_current_device(void)
{
    int device = -1;
    for (int tries = 0; tries < 2 && cudaGetDevice(&device) != cudaSuccess; tries++)
        (void)cudaGetLastError();
    return device;
}

void gpu_make_current(int device)
{
    MUST(cudaSetDevice(device));
}

static void *alloc_on(int device, size_t size, bool managed)
{
    const int before = gpu_current_device();
    void *data = NULL;
    gpu_make_current(device);
    if (managed)
        MUST(cudaMallocManaged(&data, size, cudaMemAttachGlobal));
    else
        MUST(cudaMalloc(&data, size));
    gpu_make_current(before);
    return data;
}

void *gpu_alloc(int device, size_t size)
{
    return alloc_on(device, size, false);
}

void *gpu_managed_alloc(int device, size_t size)
{
    return alloc_on(device, size, true);
}

void gpu_free(void *data)
{
    MUST(cudaFree(data));
}

void *gpu_pinned_alloc(size_t size)
{
    void *data = NULL;
    MUST(cudaMallocHost(&data, size));
    return data;
}

void gpu_pinned_free(void *data)
{
    MUST(cudaFreeHost(data));
}

synced_mem_stream gpu_stream_create(int device, bool blocking)
{
    const int before = gpu_current_device();
    cudaStream_t stream = NULL;
    gpu_make_current(device);
    MUST(cudaStreamCreateWithFlags(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
    gpu_make_current(before);
    return stream;
}

void gpu_stream_destroy(synced_mem_stream stream)
{
    MUST(cudaStreamDestroy(stream));
}

void gpu_stream_sync(synced_mem_stream stream)
{
    MUST(cudaStreamSynchronize(stream));
}

bool gpu_stream_is_idle(synced_mem_stream stream)
{
    return cudaStreamQuery(stream) == cudaSuccess;
}

/* ---- Kernels ---- */

struct fill {
    void *data;
    size_t size;
    unsigned pattern;
    struct fill *next;
};

/* Kept to the end of the test: on a device that breaks, a kernel never runs. */
static struct fill *fills;

static void run_fill(void *argument)
{
    const struct fill *const fill = argument;
    pattern_write(emu_pointer(fill->data), fill->size, fill->pattern);
}

bool gpu_try_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    const struct emu_range range = {.data = data, .size = size, .write = true};
    struct fill *const fill = malloc(sizeof *fill);
    ck_assert_ptr_nonnull(fill);
    *fill = (struct fill){.data = data, .size = size, .pattern = pattern, .next = fills};
    fills = fill;
    if (emu_launch(stream, run_fill, fill, &range, 1) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

void gpu_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream)
{
    ck_assert_msg(gpu_try_fill(data, size, pattern, stream), "a kernel was not launched");
}

void gpu_copy(void *to, const void *from, size_t size, synced_mem_stream stream)
{
    MUST(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream));
}

/* Late as everything is, nothing has to be added. */
void gpu_delay(synced_mem_stream stream)
{
    (void)stream;
}

void gpu_read(void *to, const void *from, size_t size)
{
    emu_run_all();
    MUST(cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost));
}

void gpu_note_host_read(const void *data, size_t size)
{
    emu_host_read(data, size);
}

void gpu_note_host_write(const void *data, size_t size)
{
    emu_host_write(data, size);
}
