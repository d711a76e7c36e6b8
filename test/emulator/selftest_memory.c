/*
 * Allocations, registrations, pools and access to them.
 */
#include "selftest.h"

#include <sys/mman.h>

static void test_memory(void)
{
    struct cudaPointerAttributes attributes;
    unsigned char *memory = device_memory(), *again, buffer[8] = {0};
    void *zero = buffer;
    size_t available, total;
    OK(cudaMalloc(&zero, 0));
    CHECK(zero == NULL);
    OK(cudaFree(NULL));
    GIVES(cudaFree(memory + 1), cudaErrorInvalidValue);
    GIVES(cudaFree(buffer), cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
    GIVES(cudaMemcpy(memory + SIZE - 4, buffer, 8, cudaMemcpyDefault), cudaErrorInvalidValue);
    OK(cudaPointerGetAttributes(&attributes, memory + 5));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    OK(cudaPointerGetAttributes(&attributes, buffer));
    CHECK(attributes.type == cudaMemoryTypeUnregistered);
    OK(cudaFree(memory));
    again = device_memory();
    CHECK(again == memory && peek(again) == 0xCD);
    emu_set_device_memory(0, 2 * SIZE);
    OK(cudaMemGetInfo(&available, &total));
    CHECK(total == 2 * SIZE && available == SIZE);
    GIVES(cudaMalloc(&zero, SIZE + 1), cudaErrorMemoryAllocation);
    OK(cudaFree(again));
    emu_set_pinned_memory(SIZE);
    unsigned char *host = pinned(0);
    GIVES(cudaMallocHost(&zero, 1), cudaErrorMemoryAllocation);
    OK(cudaFreeHost(host));
    GIVES(cudaFreeHost(buffer), cudaErrorInvalidValue);
}

static void test_register(void)
{
    const size_t size = 65536;
    char *memory = aligned_alloc(4096, size);
    char *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != NULL && closed != MAP_FAILED);
    OK(cudaHostRegister(memory + 100, 4900, 0));
    OK(cudaHostRegister(memory + 5000, 4000, 0));
    GIVES(cudaHostRegister(memory + 100, 4900, 0), cudaErrorHostMemoryAlreadyRegistered);
    GIVES(cudaHostRegister(memory, size, 0), cudaErrorHostMemoryAlreadyRegistered);
    GIVES(cudaHostUnregister(memory + 200), cudaErrorInvalidValue);
    OK(cudaHostUnregister(memory + 100));
    GIVES(cudaHostUnregister(memory + 100), cudaErrorHostMemoryNotRegistered);
    OK(cudaHostUnregister(memory + 5000));
    unsigned char *host = pinned(0);
    GIVES(cudaHostUnregister(host), cudaErrorInvalidValue);
    OK(cudaFreeHost(host));
    GIVES(cudaHostRegister(memory, 0, 0), cudaErrorInvalidValue);
    GIVES(cudaHostRegister(closed, 4096, 0), cudaErrorInvalidValue);
    munmap(closed, 4096);
    free(memory);
}

static void test_pools(void)
{
    cudaMemPool_t pool = new_pool(0);
    cudaStream_t stream = stream_of(cudaStreamNonBlocking), other = stream_of(cudaStreamNonBlocking);
    void *first, *second, *third;
    uint64_t threshold = UINT64_MAX, zero = 0;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMallocFromPoolAsync(&first, SIZE, pool, stream));
    OK(cudaMemsetAsync(first, 1, SIZE, stream));
    OK(cudaFreeAsync(first, stream));
    OK(cudaMallocFromPoolAsync(&second, SIZE, pool, stream));
    CHECK(second == first);
    OK(cudaMemsetAsync(second, 2, SIZE, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(peek(second) == 2 && pool_number(pool, cudaMemPoolAttrUsedMemCurrent) == SIZE);
    OK(cudaMallocFromPoolAsync(&third, SIZE, pool, other));
    CHECK(third != second && pool_number(pool, cudaMemPoolAttrReservedMemCurrent) == 2 * SIZE);
    OK(cudaFreeAsync(second, stream));
    OK(cudaFreeAsync(third, other));
    OK(cudaDeviceSynchronize());
    CHECK(pool_number(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    CHECK(pool_number(pool, cudaMemPoolAttrReservedMemCurrent) == 2 * SIZE);
    OK(cudaMemPoolTrimTo(pool, SIZE));
    CHECK(pool_number(pool, cudaMemPoolAttrReservedMemCurrent) == SIZE);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
    CHECK(pool_number(pool, cudaMemPoolAttrReservedMemHigh) == SIZE);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &zero));
    OK(cudaStreamSynchronize(stream));
    CHECK(pool_number(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    /* A destroyed pool lives on for its allocations. */
    OK(cudaMallocFromPoolAsync(&first, SIZE, pool, stream));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaMemsetAsync(first, 3, SIZE, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(peek(first) == 3);
    OK(cudaFreeAsync(first, stream));
    OK(cudaStreamSynchronize(stream));
    GIVES(cudaFree(first), cudaErrorInvalidValue);
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(other));
}

static void test_pool_limit(void)
{
    cudaMemPool_t pool = new_pool(1);
    void *memory, *more;
    emu_set_device_memory(1, SIZE);
    OK(cudaSetDevice(1));
    cudaStream_t stream = stream_of(cudaStreamDefault), other = stream_of(cudaStreamDefault);
    OK(cudaMallocFromPoolAsync(&memory, SIZE, pool, stream));
    GIVES(cudaMallocFromPoolAsync(&more, SIZE, pool, other), cudaErrorMemoryAllocation);
    OK(cudaFreeAsync(memory, stream));
    /* The other stream gets the memory behind the free. */
    OK(cudaMallocFromPoolAsync(&more, SIZE, pool, other));
    OK(cudaMemsetAsync(more, 4, SIZE, other));
    OK(cudaStreamSynchronize(other));
    CHECK(more == memory && peek(more) == 4);
    OK(cudaFreeAsync(more, other));
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(other));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaDeviceSynchronize());
    CHECK(emu_live(EMU_DEVICE_MEMORY) == 0 && emu_live(EMU_POOL) == 0);
    /* A pool's unused memory is available to others. Memory with a queued free is not. */
    uint64_t keep = UINT64_MAX;
    pool = new_pool(1);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaMallocFromPoolAsync(&memory, SIZE, pool, NULL));
    OK(cudaFreeAsync(memory, NULL));
    if (seed == 0)
        GIVES(cudaMalloc(&more, SIZE), cudaErrorMemoryAllocation);
    OK(cudaDeviceSynchronize());
    CHECK(pool_number(pool, cudaMemPoolAttrReservedMemCurrent) == SIZE);
    OK(cudaMalloc(&more, SIZE));
    CHECK(pool_number(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    OK(cudaFree(more));
    OK(cudaMemPoolDestroy(pool));
    emu_set_pools_supported(1, false);
    GIVES(cudaMallocAsync(&memory, SIZE, NULL), cudaErrorNotSupported);
}

static void test_peers(void)
{
    struct cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
    cudaMemPool_t pool = new_pool(0);
    unsigned char *plain = device_memory(), *from_pool;
    struct increment work = {plain, SIZE, 1};
    OK(cudaMallocFromPoolAsync((void **)&from_pool, SIZE, pool, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaMemPoolSetAccess(pool, &access, 1));
    OK(cudaSetDevice(1));
    OK(cudaDeviceEnablePeerAccess(0, 0));
    GIVES(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
    launch_increment(NULL, &work);
    OK(cudaDeviceSynchronize());
    work.data = from_pool;
    launch_increment(NULL, &work);
    OK(cudaDeviceSynchronize());
    CHECK(peek(plain) == 0xCE && peek(from_pool) == 0xCE);
    OK(cudaSetDevice(2));
    launch_increment(NULL, &work);
    GIVES(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
    GIVES(cudaMalloc((void **)&plain, 1), cudaErrorIllegalAddress);
    GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
    OK(cudaSetDevice(0));
    OK(cudaDeviceSynchronize());
}

/* ---- Extents ---- */

static bool extent_is(const void *address, const void *base, size_t size)
{
    void *found = NULL;
    size_t bytes = 0;
    return emu_extent(address, &found, &bytes) && found == base && bytes == size;
}

static void test_extent(void)
{
    const size_t odd = 1000;
    char *memory, *from_pool, *managed, *registered = aligned_alloc(4096, 8192);
    unsigned char *host = pinned(0);
    cudaMemPool_t pool = new_pool(0);
    void *untouched = registered;
    OK(cudaMalloc((void **)&memory, odd));
    CHECK(extent_is(memory, memory, odd) && extent_is(memory + odd - 1, memory, odd));
    CHECK(!emu_extent(memory + odd, &untouched, NULL) && untouched == registered);
    CHECK(emu_extent(memory + 5, NULL, NULL));
    OK(cudaMallocFromPoolAsync((void **)&from_pool, odd, pool, NULL));
    CHECK(extent_is(from_pool + 7, from_pool, odd));
    OK(cudaFreeAsync(from_pool, NULL));
    CHECK(!emu_extent(from_pool, NULL, NULL));
    OK(cudaMallocManaged((void **)&managed, odd, cudaMemAttachGlobal));
    CHECK(extent_is(managed + 1, managed, odd) && extent_is(host + 1, host, SIZE));
    CHECK(!emu_extent(registered, NULL, NULL));
    OK(cudaHostRegister(registered, 8192, cudaHostRegisterDefault));
    CHECK(extent_is(registered + 8191, registered, 8192));
    OK(cudaHostUnregister(registered));
    CHECK(!emu_extent(registered, NULL, NULL) && !emu_extent(NULL, NULL, NULL));
    OK(cudaFree(managed));
    OK(cudaFree(memory));
    CHECK(!emu_extent(memory, NULL, NULL));
    OK(cudaFreeHost(host));
    OK(cudaMemPoolDestroy(pool));
    free(registered);
}

/* A launch with a pointer into an allocation and no size. */
static void add_to_all(void *argument)
{
    const struct increment *work = argument;
    void *base;
    size_t size;
    CHECK(emu_extent(work->data, &base, &size));
    unsigned char *bytes = emu_pointer(base);
    CHECK(bytes != NULL && emu_pointer((char *)base + size - 1) == bytes + size - 1);
    CHECK(emu_pointer((char *)base + size) == NULL);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(bytes[i] + work->add);
}

static void test_whole(void)
{
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    unsigned char *memory = device_memory(), bytes[2];
    struct increment work = {memory + SIZE / 2, 0, 3};
    const struct emu_range range = {work.data, EMU_WHOLE, true};
    OK(emu_launch(stream, add_to_all, &work, &range, 1));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(emu_launch(stream, add_to_all, &work, &range, 1));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(emu_peek(memory, bytes, 1) && emu_peek(memory + SIZE - 1, bytes + 1, 1));
    CHECK(bytes[0] == 0xCD + 6 && bytes[1] == 0xCD + 6);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
}

/* ---- Properties ---- */

static void test_properties(void)
{
    struct cudaDeviceProp one, other;
    int value;
    emu_set_device_memory(1, 5 << 20);
    emu_set_attribute(1, cudaDevAttrMultiProcessorCount, 7);
    emu_set_attribute(1, cudaDevAttrTextureAlignment, 64);
    emu_set_pools_supported(1, false);
    memset(&one, 0xEE, sizeof one);
    OK(cudaGetDeviceProperties(&one, 0));
    OK(cudaGetDeviceProperties(&other, 1));
    CHECK(!emu_has_context(0) && !emu_has_context(1));
    CHECK(one.name[0] != '\0' && memcmp(&one.uuid, &other.uuid, sizeof one.uuid) != 0);
    CHECK(one.totalGlobalMem == 1 << 30 && other.totalGlobalMem == 5 << 20);
    CHECK(one.major == 9 && one.minor == 0 && one.warpSize == 32 && one.maxThreadsPerBlock == 1024);
    CHECK(one.maxThreadsDim[2] == 64 && one.maxGridSize[1] == 65535 && one.sharedMemPerBlock == 49152);
    CHECK(one.multiProcessorCount == 132 && other.multiProcessorCount == 7);
    CHECK(one.textureAlignment == 512 && other.textureAlignment == 64);
    CHECK(one.memoryPoolsSupported == 1 && other.memoryPoolsSupported == 0 && one.reserved[55] == 0);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrPciBusId, 1));
    CHECK(other.pciBusID == value && one.pciBusID != value);
    GIVES(cudaGetDeviceProperties(&one, 4), cudaErrorInvalidDevice);
    GIVES(cudaGetDeviceProperties(&one, -1), cudaErrorInvalidDevice);
    GIVES(cudaGetDeviceProperties(NULL, 0), cudaErrorInvalidValue);
    emu_fail("cudaGetDeviceProperties", 1, cudaErrorUnknown, false);
    GIVES(cudaGetDeviceProperties(&one, 0), cudaErrorUnknown);
    emu_set_machine(EMU_NO_DRIVER);
    GIVES(cudaGetDeviceProperties(&one, 0), cudaErrorInsufficientDriver);
}

void (*const memory_tests[])(void) = {test_memory,     test_register,   test_pools,
                                      test_pool_limit, test_peers,      test_extent,
                                      test_whole,      test_properties, NULL};
