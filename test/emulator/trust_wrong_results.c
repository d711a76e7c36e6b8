/*
 * Wrong programs that detect their own mistake. The emulated runtime returns the real one's code, or the wrong bytes
 * that they caused.
 */
#include "trust.h"

#include <sys/wait.h>

/* ---- Codes, at any time of the work ---- */

/* The other device cannot access the pool's memory, though peer access is enabled. */
static void kernel_without_access(void)
{
    const cudaStream_t zero = new_stream();
    byte *const device = new_pool_memory(new_pool(0), zero);
    struct sum sum = {.to = device, .from = device, .plus = 1};

    MUST(cudaStreamSynchronize(zero));
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceEnablePeerAccess(0, 0));
    const cudaStream_t one = new_stream();
    launch(&sum, one);
    CHECK(cudaStreamSynchronize(one) == cudaErrorIllegalAddress);
    CHECK(cudaStreamSynchronize(one) == cudaErrorIllegalAddress);
}

static void copied_beyond_the_end(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();

    CHECK(cudaMemcpyAsync(device, host, SIZE + 1, cudaMemcpyDefault, NULL) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyAsync(host, device + 1, SIZE, cudaMemcpyDefault, NULL) == cudaErrorInvalidValue);
    CHECK(cudaMemsetAsync(device + 1, 0, SIZE, NULL) == cudaErrorInvalidValue);
}

static void event_of_another_device(void)
{
    const cudaStream_t stream = new_stream();

    MUST(cudaSetDevice(1));
    CHECK(cudaEventRecord(new_event(), stream) == cudaErrorInvalidResourceHandle);
}

static void call_in_host_function(void *argument)
{
    *(cudaError_t *)argument = cudaDeviceSynchronize();
}

static void runtime_called_in_host_function(void)
{
    const cudaStream_t stream = new_stream();
    cudaError_t answer = cudaSuccess;

    MUST(cudaLaunchHostFunc(stream, call_in_host_function, &answer));
    MUST(cudaStreamSynchronize(stream));
    CHECK(answer == cudaErrorNotPermitted);
}

static void freed_twice(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaFree(device));
    CHECK(cudaFree(device) == cudaErrorInvalidValue);
    MUST(cudaFreeHost(host));
    CHECK(cudaFreeHost(host) == cudaErrorInvalidValue);
}

static void runtime_called_in_forked_child(void)
{
    void *data;
    int status;

    new_device_memory();
    const pid_t child = fork();
    if (child == 0)
        _exit(cudaMalloc(&data, SIZE));
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == cudaErrorInitializationError);
}

static void broken_device_used(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory();
    void *data;

    emu_break_device(0, cudaErrorIllegalAddress);
    MUST(cudaMemsetAsync(device, 0, SIZE, stream));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    CHECK(cudaMalloc(&data, SIZE) == cudaErrorIllegalAddress);
    CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
    CHECK(cudaFree(device) == cudaErrorIllegalAddress);
}

const struct program wrong_by_code_programs[] = {
    {"kernel without access", kernel_without_access},
    {"copied beyond the end", copied_beyond_the_end},
    {"event of another device", event_of_another_device},
    {"runtime called in a host function", runtime_called_in_host_function},
    {"freed twice", freed_twice},
    {"runtime called in a forked child", runtime_called_in_forked_child},
    {"broken device used", broken_device_used},
    {NULL, NULL},
};

/* ---- Bytes, when work runs as late as possible ---- */

static void read_before_synchronization(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();

    memset(host, 1, SIZE);
    MUST(cudaMemset(device, 2, SIZE));
    to_host(host, device, new_stream());
    CHECK(all_are(host, 1));
}

static void pinned_source_overwritten(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), *const host = new_pinned();

    memset(host, 1, SIZE);
    to_device(device, host, stream);
    memset(host, 2, SIZE);
    MUST(cudaMemcpyAsync(host, device, SIZE, cudaMemcpyDefault, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(all_are(host, 2));
}

static void legacy_stream_trusted(void)
{
    byte *const device = new_device_memory();
    byte host[SIZE];

    MUST(cudaMemset(device, 1, SIZE));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemsetAsync(device, 2, SIZE, new_stream())); /* non-blocking */
    MUST(cudaMemcpy(host, device, SIZE, cudaMemcpyDefault));
    CHECK(all_are(host, 1));
}

static void waited_too_early(void)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    MUST(cudaMemset(device, 1, SIZE));
    MUST(cudaDeviceSynchronize());
    MUST(cudaStreamWaitEvent(other, event, 0));
    MUST(cudaMemsetAsync(device, 2, SIZE, stream));
    MUST(cudaEventRecord(event, stream));
    to_host(host, device, other);
    MUST(cudaStreamSynchronize(other));
    CHECK(all_are(host, 1));
}

/* New memory is not zero. It has the address of memory that was just freed, but not its contents. */
static void unwritten_memory_read(void)
{
    byte *const first = new_device_memory();
    byte host[SIZE];

    MUST(cudaMemcpy(host, first, SIZE, cudaMemcpyDefault));
    CHECK(!all_are(host, 0));
    MUST(cudaMemset(first, 7, SIZE));
    MUST(cudaFree(first));
    byte *const second = new_device_memory();
    MUST(cudaMemcpy(host, second, SIZE, cudaMemcpyDefault));
    CHECK(second == first && !all_are(host, 7));
}

static void unwritten_pool_memory_read(void)
{
    const cudaMemPool_t pool = new_pool(0);
    const cudaStream_t stream = new_stream();
    byte *const first = new_pool_memory(pool, stream);
    byte host[SIZE];

    MUST(cudaMemsetAsync(first, 7, SIZE, stream));
    MUST(cudaFreeAsync(first, stream));
    byte *const second = new_pool_memory(pool, stream);
    MUST(cudaMemcpyAsync(host, second, SIZE, cudaMemcpyDefault, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(second == first && !all_are(host, 7));
}

/* Works unless the named wait is dropped. Then the result must differ. */
static byte result_without(const char *wait)
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    const cudaEvent_t event = new_event();
    byte *const device = new_device_memory(), *const host = new_pinned();

    memset(host, 1, SIZE);
    MUST(cudaMemset(device, 1, SIZE));
    MUST(cudaDeviceSynchronize());
    if (wait)
        emu_drop_wait(wait, 1);
    MUST(cudaMemsetAsync(device, 2, SIZE, stream));
    after(other, event, stream);
    to_host(host, device, other);
    MUST(cudaEventRecord(event, other));
    MUST(cudaEventSynchronize(event));
    return host[SIZE - 1];
}

static void wait_dropped(void)
{
    CHECK(result_without(NULL) == 2);
    CHECK(result_without("cudaStreamWaitEvent") == 1);
}

static void event_synchronization_dropped(void)
{
    CHECK(result_without("cudaEventSynchronize") == 1);
}

static void stream_synchronization_dropped(void)
{
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned();

    memset(host, 1, SIZE);
    emu_drop_wait("cudaStreamSynchronize", 2);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemsetAsync(host, 2, SIZE, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(all_are(host, 1));
    MUST(cudaStreamSynchronize(stream));
    CHECK(all_are(host, 2));
}

static void managed_read_too_early(void)
{
    void *data;

    MUST(cudaMallocManaged(&data, SIZE, cudaMemAttachGlobal));
    memset(data, 1, SIZE);
    struct sum sum = {.to = data, .from = data, .plus = 1};
    launch(&sum, new_stream());
    CHECK(all_are(data, 1));
}

static void pageable_source_overwritten(void)
{
    const cudaStream_t stream = new_stream();
    byte *const device = new_device_memory(), source[SIZE], back[SIZE];

    memset(source, 1, SIZE);
    to_device(device, source, stream);
    memset(source, 2, SIZE);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(back, device, SIZE, cudaMemcpyDeviceToHost));
    CHECK(all_are(back, 2));
}

static void pageable_target_read_too_early(void)
{
    byte *const device = new_device_memory(), target[SIZE];

    MUST(cudaMemset(device, 2, SIZE));
    memset(target, 1, SIZE);
    to_host(target, device, new_stream());
    CHECK(all_are(target, 1));
    MUST(cudaDeviceSynchronize());
    CHECK(all_are(target, 2));
}

/* A real runtime does the same with any order, for more than 64 KiB on a stream with work. */
static void batch_source_overwritten(void)
{
    static byte source[100000], back[sizeof source];
    const cudaStream_t stream = new_stream();
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall};
    const void *const from = source;
    const size_t size = sizeof source;
    size_t first = 0;
    void *device;

    MUST(cudaMalloc(&device, size));
    MUST(cudaMemsetAsync(device, 0, size, stream));
    memset(source, 1, size);
    MUST(cudaMemcpyBatchAsync(&device, &from, &size, 1, &attributes, &first, 1, stream));
    memset(source, 2, size);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(back, device, size, cudaMemcpyDeviceToHost));
    CHECK(back[0] == 2 && back[size - 1] == 2);
}

const struct program wrong_by_bytes_programs[] = {
    {"pageable source overwritten", pageable_source_overwritten},
    {"pageable target read too early", pageable_target_read_too_early},
    {"batch source overwritten", batch_source_overwritten},
    {"read before synchronization", read_before_synchronization},
    {"pinned source overwritten", pinned_source_overwritten},
    {"legacy stream trusted", legacy_stream_trusted},
    {"waited too early", waited_too_early},
    {"unwritten memory read", unwritten_memory_read},
    {"unwritten pool memory read", unwritten_pool_memory_read},
    {"wait dropped", wait_dropped},
    {"event synchronization dropped", event_synchronization_dropped},
    {"stream synchronization dropped", stream_synchronization_dropped},
    {"managed memory read too early", managed_read_too_early},
    {NULL, NULL},
};
