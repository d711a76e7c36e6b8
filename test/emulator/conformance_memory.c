/*
 * Memory: copies of bytes, pointer attributes, pools and their statistics.
 */
#include "conformance.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Bytes ---- */

static unsigned char byte_of(size_t i, unsigned seed)
{
    return (unsigned char)(i * 31 + i / 251 + seed);
}

static void fill(unsigned char *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        data[i] = byte_of(i, seed);
}

static void expect_filled(const char *how, size_t size, const unsigned char *data, unsigned seed)
{
    char fact[120];
    bool same = true;

    for (size_t i = 0; i < size && same; i++)
        same = data[i] == byte_of(i, seed);
    snprintf(fact, sizeof fact, "%s, %zu bytes", how, size);
    expect_true(fact, same);
}

/* The runtime copies pageable memory of up to 64 KiB in another way than larger pieces. */
static const size_t sizes[] = {1, 100, 4096, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1 << 20, (4 << 20) + 3};
enum { LARGEST = (4 << 20) + 3 };

static void copies(void)
{
    struct kit kit;
    unsigned char *pageable, *pageable_back, *pinned, *pinned_back, *one, *two;

    make_kit(&kit);
    pageable = malloc(LARGEST);
    pageable_back = malloc(LARGEST);
    if (!pageable || !pageable_back)
        abort();
    MUST(cudaMallocHost((void **)&pinned, LARGEST));
    MUST(cudaMallocHost((void **)&pinned_back, LARGEST));
    MUST(cudaMalloc((void **)&one, LARGEST));
    MUST(cudaMalloc((void **)&two, LARGEST));

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t size = sizes[i];
        const unsigned seed = (unsigned)i * 7;

        fill(pinned, size, seed);
        MUST(cudaMemcpyAsync(one, pinned, size, cudaMemcpyHostToDevice, kit.stream));
        MUST(cudaMemcpyAsync(two, one, size, cudaMemcpyDeviceToDevice, kit.stream));
        MUST(cudaMemcpyAsync(pinned_back, two, size, cudaMemcpyDeviceToHost, kit.stream));
        MUST(cudaStreamSynchronize(kit.stream));
        expect_filled("pinned to device to device to pinned", size, pinned_back, seed);

        fill(pageable, size, seed + 1);
        MUST(cudaMemcpyAsync(one, pageable, size, cudaMemcpyHostToDevice, kit.stream));
        MUST(cudaMemcpyAsync(pageable_back, one, size, cudaMemcpyDeviceToHost, kit.stream));
        MUST(cudaStreamSynchronize(kit.stream));
        expect_filled("pageable to device to pageable", size, pageable_back, seed + 1);

        fill(pageable, size, seed + 2);
        MUST(cudaMemcpy(one, pageable, size, cudaMemcpyDefault));
        MUST(cudaMemcpy(pageable_back, one, size, cudaMemcpyDefault));
        expect_filled("the same, by cudaMemcpy and cudaMemcpyDefault", size, pageable_back, seed + 2);
    }
    free(pageable);
    free(pageable_back);
}

/* At its return, cudaMemcpy has read pageable memory. For cudaMemcpyAsync the documentation leaves that open. */
static void overwritten_sources(void)
{
    struct kit kit;
    unsigned char *source, *target, *back;

    make_kit(&kit);
    source = malloc(LARGEST);
    if (!source)
        abort();
    MUST(cudaMalloc((void **)&target, LARGEST));
    MUST(cudaMallocHost((void **)&back, LARGEST));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t size = sizes[i];
        const unsigned seed = (unsigned)i * 5;

        fill(source, size, seed);
        MUST(cudaMemcpy(target, source, size, cudaMemcpyHostToDevice));
        memset(source, 0xee, size);
        MUST(cudaMemcpy(back, target, size, cudaMemcpyDeviceToHost));
        expect_filled("Memcpy, the pageable source overwritten at once", size, back, seed);
    }
    free(source);
}

static void memsets(void)
{
    struct kit kit;

    make_kit(&kit);
    MUST(cudaMemsetAsync(kit.device_a + 10, 0x5a, 1000, kit.stream));
    MUST(cudaMemcpyAsync(kit.device_b + 3, kit.device_a + 5, 2000, cudaMemcpyDeviceToDevice, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("memset and copy: before the target", 0xb2, kit.pinned_b, 3);
    expect_bytes("memset and copy: before the memset", 0xa1, kit.pinned_b + 3, 5);
    expect_bytes("memset and copy: the memset", 0x5a, kit.pinned_b + 8, 1000);
    expect_bytes("memset and copy: behind the memset", 0xa1, kit.pinned_b + 1008, 995);
    expect_bytes("memset and copy: behind the target", 0xb2, kit.pinned_b + 2003, SIZE - 2003);

    MUST(cudaMemset(kit.device_a, 0x1ff, SIZE));
    MUST(cudaMemcpy(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes("Memset uses the low byte of its value", 0xff, kit.pinned_a, SIZE);
    MUST(cudaMemsetAsync(kit.pinned_a, 0x11, SIZE, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("MemsetAsync of page-locked memory", 0x11, kit.pinned_a, SIZE);
}

static void peers(void)
{
    struct kit kit;
    unsigned char *there;
    cudaStream_t stream;

    make_kit(&kit);
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc((void **)&there, SIZE));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMemcpyPeerAsync(there, 1, kit.device_a, 0, SIZE, stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, there, SIZE, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    expect_bytes("MemcpyPeerAsync without peer access", 0xa1, kit.pinned_b, SIZE);
    MUST(cudaMemcpyAsync(there, kit.device_b, SIZE, cudaMemcpyDefault, stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, there, SIZE, cudaMemcpyDefault, stream));
    MUST(cudaStreamSynchronize(stream));
    expect_bytes("MemcpyAsync between devices", 0xb2, kit.pinned_b, SIZE);
}

/* ---- Pointers ---- */

static void expect_attributes(const char *what, const void *data, enum cudaMemoryType type, int device,
                              const void *on_device, const void *on_host)
{
    struct cudaPointerAttributes attributes;
    char fact[120];

    snprintf(fact, sizeof fact, "PointerGetAttributes of %s", what);
    memset(&attributes, 0xff, sizeof attributes);
    expect_code(fact, cudaSuccess, cudaPointerGetAttributes(&attributes, data));
    snprintf(fact, sizeof fact, "type of %s", what);
    expect_value(fact, type, attributes.type);
    if (type == cudaMemoryTypeUnregistered)
        return;
    snprintf(fact, sizeof fact, "device of %s", what);
    expect_value(fact, device, attributes.device);
    snprintf(fact, sizeof fact, "device pointer of %s", what);
    expect_true(fact, attributes.devicePointer == on_device);
    snprintf(fact, sizeof fact, "host pointer of %s", what);
    expect_true(fact, attributes.hostPointer == on_host);
}

static void pointers(void)
{
    struct kit kit;
    char *pool_memory, *managed;
    void *seen;
    char *const pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        abort();
    make_kit(&kit);
    MUST(cudaMallocFromPoolAsync((void **)&pool_memory, SIZE, kit.pool, kit.stream));
    MUST(cudaMallocManaged((void **)&managed, SIZE, cudaMemAttachGlobal));
    MUST(cudaStreamSynchronize(kit.stream));

    expect_attributes("device memory", kit.device_a, cudaMemoryTypeDevice, 0, kit.device_a, NULL);
    expect_attributes("an inner device pointer", kit.device_a + 77, cudaMemoryTypeDevice, 0, kit.device_a + 77, NULL);
    expect_attributes("pool memory", pool_memory, cudaMemoryTypeDevice, 0, pool_memory, NULL);
    expect_attributes("page-locked memory", kit.pinned_a, cudaMemoryTypeHost, 0, kit.pinned_a, kit.pinned_a);
    expect_attributes("managed memory", managed, cudaMemoryTypeManaged, 0, managed, managed);
    expect_attributes("unregistered memory", pages, cudaMemoryTypeUnregistered, 0, NULL, NULL);
    MUST(cudaHostRegister(pages, SIZE, cudaHostRegisterDefault));
    expect_attributes("registered memory", pages, cudaMemoryTypeHost, 0, pages, pages);
    expect_attributes("an inner registered pointer", pages + 99, cudaMemoryTypeHost, 0, pages + 99, pages + 99);
    MUST(cudaHostGetDevicePointer(&seen, pages, 0));
    expect_true("HostGetDevicePointer of registered memory", seen == pages);
    MUST(cudaHostGetDevicePointer(&seen, kit.pinned_a, 0));
    expect_true("HostGetDevicePointer of page-locked memory", seen == kit.pinned_a);
    MUST(cudaHostUnregister(pages));
    expect_attributes("memory unregistered again", pages, cudaMemoryTypeUnregistered, 0, NULL, NULL);

    expect_value("device memory is aligned to 256 bytes", 0, (long long)((uintptr_t)kit.device_a % 256));
    expect_value("pool memory is aligned to 256 bytes", 0, (long long)((uintptr_t)pool_memory % 256));
}

static void pointers_of_two(void)
{
    struct kit kit;
    char *memory, *pool_memory, *pinned;

    make_kit(&kit);
    const cudaMemPool_t pool = make_pool(1);
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc((void **)&memory, SIZE));
    MUST(cudaMallocHost((void **)&pinned, SIZE));
    MUST(cudaMallocFromPoolAsync((void **)&pool_memory, SIZE, pool, NULL));
    MUST(cudaDeviceSynchronize());
    expect_attributes("memory of device 1", memory, cudaMemoryTypeDevice, 1, memory, NULL);
    expect_attributes("pool memory of device 1", pool_memory, cudaMemoryTypeDevice, 1, pool_memory, NULL);
    expect_attributes("page-locked memory, device 1 current", pinned, cudaMemoryTypeHost, 1, pinned, pinned);
}

static void managed(void)
{
    const struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = 0};
    const struct cudaMemLocation host = {.type = cudaMemLocationTypeHost, .id = 0};
    struct kit kit;
    unsigned char *data;

    make_kit(&kit);
    MUST(cudaMallocManaged((void **)&data, SIZE, cudaMemAttachGlobal));
    memset(data, 0x21, SIZE);
    expect_code("MemAdvise of managed memory", cudaSuccess,
                cudaMemAdvise(data, SIZE, cudaMemAdviseSetPreferredLocation, here));
    expect_code("MemPrefetchAsync to the device", cudaSuccess, cudaMemPrefetchAsync(data, SIZE, here, 0, kit.stream));
    MUST(cudaMemcpyAsync(kit.device_a, data, SIZE, cudaMemcpyDefault, kit.stream));
    MUST(cudaMemsetAsync(data, 0x22, SIZE, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_a, kit.device_a, SIZE, cudaMemcpyDefault, kit.stream));
    expect_code("MemPrefetchAsync to the host", cudaSuccess, cudaMemPrefetchAsync(data, SIZE, host, 0, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("the device reads what the host wrote to managed memory", 0x21, kit.pinned_a, SIZE);
    expect_bytes("the host reads what the device wrote to managed memory", 0x22, data, SIZE);
    expect_code("Free of managed memory", cudaSuccess, cudaFree(data));
}

/* ---- Pools ---- */

static unsigned long long statistic(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
    unsigned long long value = 0;

    MUST(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static unsigned long long used(cudaMemPool_t pool)
{
    return statistic(pool, cudaMemPoolAttrUsedMemCurrent);
}

static unsigned long long reserved(cudaMemPool_t pool)
{
    return statistic(pool, cudaMemPoolAttrReservedMemCurrent);
}

static void pool_statistics(void)
{
    const unsigned long long mib = 1 << 20;
    unsigned long long zero = 0, keep = UINT64_MAX;
    struct kit kit;
    void *one, *two;

    make_kit(&kit);
    const cudaMemPool_t pool = kit.pool;
    expect_value("a new pool uses nothing", 0, (long long)used(pool));
    expect_value("a new pool reserves nothing", 0, (long long)reserved(pool));
    expect_true("ReleaseThreshold is what was set", statistic(pool, cudaMemPoolAttrReleaseThreshold) == keep);

    MUST(cudaMallocFromPoolAsync(&one, 2 * mib, pool, kit.stream));
    MUST(cudaMallocFromPoolAsync(&two, 4 * mib, pool, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_value("used after two allocations", (long long)(6 * mib), (long long)used(pool));
    expect_true("reserved is at least what is used", reserved(pool) >= 6 * mib);
    expect_value("high mark of what is used", (long long)(6 * mib),
                 (long long)statistic(pool, cudaMemPoolAttrUsedMemHigh));

    MUST(cudaFreeAsync(two, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_value("used after a free", (long long)(2 * mib), (long long)used(pool));
    expect_true("the pool keeps what is freed", reserved(pool) >= 6 * mib);
    expect_value("the high mark stays", (long long)(6 * mib), (long long)statistic(pool, cudaMemPoolAttrUsedMemHigh));
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
    expect_true("the high mark can be reset", statistic(pool, cudaMemPoolAttrUsedMemHigh) <= 2 * mib);
    expect_code("but only to zero", cudaErrorInvalidValue,
                cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &keep));

    expect_code("MemPoolTrimTo beside live memory", cudaSuccess, cudaMemPoolTrimTo(pool, 0));
    expect_value("leaves it", (long long)(2 * mib), (long long)used(pool));
    MUST(cudaMemsetAsync(one, 0x44, SIZE, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_a, one, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("and it works as before", 0x44, kit.pinned_a, SIZE);

    MUST(cudaFreeAsync(one, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_value("used after the last free", 0, (long long)used(pool));
    expect_true("reserved before a trim", reserved(pool) > 0);
    MUST(cudaMemPoolTrimTo(pool, SIZE_MAX / 2));
    expect_true("a trim to more than there is keeps all", reserved(pool) > 0);
    MUST(cudaMemPoolTrimTo(pool, SIZE_MAX));
    expect_value("but one to SIZE_MAX keeps none", 0, (long long)reserved(pool));
    MUST(cudaMemPoolTrimTo(pool, 0));
    expect_value("reserved after a trim", 0, (long long)reserved(pool));
    expect_true("high mark of what was reserved", statistic(pool, cudaMemPoolAttrReservedMemHigh) >= 6 * mib);
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
    expect_value("can be reset", 0, (long long)statistic(pool, cudaMemPoolAttrReservedMemHigh));

    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &zero));
    MUST(cudaMallocFromPoolAsync(&one, 2 * mib, pool, kit.stream));
    MUST(cudaFreeAsync(one, kit.stream));
    MUST(cudaDeviceSynchronize());
    expect_value("with threshold 0 a synchronization gives back what is free", 0, (long long)reserved(pool));
}

static void pool_order(void)
{
    struct kit kit;
    unsigned char *data;

    make_kit(&kit);
    hold_stream(kit.stream);
    for (int i = 0; i < 2; i++) {
        unsigned char *const source = i ? kit.pinned_b : kit.pinned_a;

        MUST(cudaMallocFromPoolAsync((void **)&data, SIZE / 2, kit.pool, kit.stream));
        MUST(cudaMemcpyAsync(data, source, SIZE / 2, cudaMemcpyHostToDevice, kit.stream));
        MUST(cudaMemcpyAsync(source + SIZE / 2, data, SIZE / 2, cudaMemcpyDeviceToHost, kit.stream));
        MUST(cudaMemsetAsync(source, 0, SIZE / 2, kit.stream));
        MUST(cudaFreeAsync(data, kit.stream));
    }
    let_go();
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("allocate, copy, free, all queued: first bytes", 0xa1, kit.pinned_a + SIZE / 2, SIZE / 2);
    expect_bytes("allocate, copy, free, all queued: second bytes", 0xb2, kit.pinned_b + SIZE / 2, SIZE / 2);

    hold_stream(kit.stream);
    MUST(cudaMallocFromPoolAsync((void **)&data, SIZE, kit.pool, kit.stream));
    MUST(cudaMemsetAsync(data, 0x66, SIZE, kit.stream));
    MUST(cudaEventRecord(kit.event, kit.stream));
    MUST(cudaStreamWaitEvent(kit.other, kit.event, 0));
    MUST(cudaMemcpyAsync(kit.pinned_a, data, SIZE, cudaMemcpyDeviceToHost, kit.other));
    expect_code("FreeAsync on another stream than the allocation's", cudaSuccess, cudaFreeAsync(data, kit.other));
    let_go();
    MUST(cudaStreamSynchronize(kit.other));
    expect_bytes("its bytes", 0x66, kit.pinned_a, SIZE);

    MUST(cudaMallocFromPoolAsync((void **)&data, SIZE, kit.pool, kit.stream));
    expect_code("MemPoolDestroy with live memory", cudaSuccess, cudaMemPoolDestroy(kit.pool));
    MUST(cudaMemsetAsync(data, 0x77, SIZE, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_a, data, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    expect_code("FreeAsync of the destroyed pool's memory", cudaSuccess, cudaFreeAsync(data, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("which worked until then", 0x77, kit.pinned_a, SIZE);
}

static const enum cudaMemPoolAttr policies[] = {
    cudaMemPoolReuseFollowEventDependencies,
    cudaMemPoolReuseAllowOpportunistic,
    cudaMemPoolReuseAllowInternalDependencies,
};

#if CUDART_VERSION >= 12020

static cudaMemPool_t make_small_pool(size_t size)
{
    struct cudaMemPoolProps props;
    cudaMemPool_t pool;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.maxSize = size;
    MUST(cudaMemPoolCreate(&pool, &props));
    return pool;
}

static void pool_without_reuse(struct kit *kit)
{
    const size_t all = (size_t)64 << 20;
    const cudaMemPool_t pool = make_small_pool(all);
    int off = 0;
    void *data;

    for (int i = 0; i < 3; i++)
        MUST(cudaMemPoolSetAttribute(pool, policies[i], &off));
    hold_stream(kit->stream);
    MUST(cudaMallocFromPoolAsync(&data, all, pool, kit->stream));
    MUST(cudaFreeAsync(data, kit->stream));
    expect_code("without reuse, what a pending free has is refused to another stream", cudaErrorMemoryAllocation,
                cudaMallocFromPoolAsync(&data, all, pool, kit->other));
    expect_code("but not to the same", cudaSuccess, cudaMallocFromPoolAsync(&data, all, pool, kit->stream));
    MUST(cudaFreeAsync(data, kit->stream));
    let_go();
    MUST(cudaStreamSynchronize(kit->stream));
    expect_code("and to any once the free is done", cudaSuccess, cudaMallocFromPoolAsync(&data, all, pool, kit->other));
    MUST(cudaFreeAsync(data, kit->other));
    MUST(cudaStreamSynchronize(kit->other));
    MUST(cudaMemPoolDestroy(pool));
}

#else

static void pool_without_reuse(struct kit *kit)
{
    (void)kit;
    skip("a pool without reuse", "pools have no size before CUDA 12.2");
}

#endif

static void pool_reuse(void)
{
    struct kit kit;

    make_kit(&kit);
    for (int i = 0; i < 3; i++) {
        int on = -1;

        MUST(cudaMemPoolGetAttribute(kit.pool, policies[i], &on));
        expect_value("a policy of reuse is on at first", 1, on);
        on = 0;
        expect_code("and can be set", cudaSuccess, cudaMemPoolSetAttribute(kit.pool, policies[i], &on));
        MUST(cudaMemPoolGetAttribute(kit.pool, policies[i], &on));
        expect_value("as was said", 0, on);
    }
    pool_without_reuse(&kit);
}

static enum cudaMemAccessFlags access_from(cudaMemPool_t pool, int device)
{
    struct cudaMemLocation location = {.type = cudaMemLocationTypeDevice, .id = device};
    enum cudaMemAccessFlags flags = cudaMemAccessFlagsProtRead;

    MUST(cudaMemPoolGetAccess(&flags, pool, &location));
    return flags;
}

static void pool_access(void)
{
    struct cudaMemAccessDesc access = {
        .location = {.type = cudaMemLocationTypeDevice, .id = 1},
        .flags = cudaMemAccessFlagsProtReadWrite,
    };
    const cudaMemPool_t pool = make_pool(0);
    int possible;

    expect_value("a pool's own device has access", cudaMemAccessFlagsProtReadWrite, access_from(pool, 0));
    expect_value("other devices have none at first", cudaMemAccessFlagsProtNone, access_from(pool, 1));
    MUST(cudaDeviceCanAccessPeer(&possible, 1, 0));
    if (!possible) {
        skip("access to pools", "no peer access between devices 1 and 0");
        return;
    }
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceEnablePeerAccess(0, 0));
    expect_value("DeviceEnablePeerAccess does not cover pools", cudaMemAccessFlagsProtNone, access_from(pool, 1));
    expect_code("MemPoolSetAccess", cudaSuccess, cudaMemPoolSetAccess(pool, &access, 1));
    expect_value("gives access", cudaMemAccessFlagsProtReadWrite, access_from(pool, 1));
    access.flags = cudaMemAccessFlagsProtNone;
    expect_code("MemPoolSetAccess to none", cudaSuccess, cudaMemPoolSetAccess(pool, &access, 1));
    expect_value("takes it away", cudaMemAccessFlagsProtNone, access_from(pool, 1));
}

const struct section memory_sections[] = {
    {"copies", copies, 1, 0},           {"overwritten sources", overwritten_sources, 1, 0},
    {"memset", memsets, 1, 0},          {"copies between devices", peers, 2, 0},
    {"pointers", pointers, 1, 0},       {"pointers of two devices", pointers_of_two, 2, 0},
    {"managed memory", managed, 1, 0},  {"pool statistics", pool_statistics, 1, 0},
    {"pool order", pool_order, 1, 0},   {"pool reuse", pool_reuse, 1, 0},
    {"pool access", pool_access, 2, 0}, {NULL, NULL, 0, 0},
};
