/*
 * The driver's entry points, and memory that is created and mapped in one process.
 */
#include "selftest_mappings.h"

struct driver_calls cu;
unsigned mapping_reports;
char mapping_report[2048];

void take_mapping_report(const char *report, void *user)
{
    (void)user;
    mapping_reports++;
    snprintf(mapping_report, sizeof mapping_report, "%s", report);
}

/* ---- Helpers ---- */

size_t available(int device)
{
    size_t free_bytes, total;
    int before;
    OK(cudaGetDevice(&before));
    OK(cudaSetDevice(device));
    OK(cudaMemGetInfo(&free_bytes, &total));
    OK(cudaSetDevice(before));
    return free_bytes;
}

CUmemGenericAllocationHandle created(int device, size_t size, bool exportable)
{
    const CUmemAllocationProp prop = device_memory_properties(device, exportable);
    CUmemGenericAllocationHandle handle = 0;
    FINE(cu.cuMemCreate(&handle, size, &prop, 0));
    CHECK(handle != 0);
    return handle;
}

CUdeviceptr reserved(size_t size)
{
    CUdeviceptr start = 0;
    FINE(cu.cuMemAddressReserve(&start, size, 0, 0, 0));
    CHECK(start != 0 && start % UNIT == 0);
    return start;
}

unsigned char *pointer_to(CUdeviceptr address)
{
    return (unsigned char *)(uintptr_t)address;
}

CUresult permit(CUdeviceptr start, size_t size, int device)
{
    const CUmemAccessDesc desc = access_of(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return cu.cuMemSetAccess(start, size, &desc, 1);
}

unsigned char *mapped(CUmemGenericAllocationHandle handle, size_t size, int device)
{
    const CUdeviceptr start = reserved(size);
    FINE(cu.cuMemMap(start, size, 0, handle, 0));
    FINE(permit(start, size, device));
    return pointer_to(start);
}

void unmap(unsigned char *start, size_t size)
{
    FINE(cu.cuMemUnmap((uintptr_t)start, size));
    FINE(cu.cuMemAddressFree((uintptr_t)start, size));
}

/* ---- Entry points ---- */

static void ask_in_host_function(void *user)
{
    void *found;
    (void)user;
    GIVES(driver_call("cuMemCreate", &found), cudaErrorNotPermitted);
    IS(cu.cuMemRelease(1), CUDA_ERROR_NOT_PERMITTED);
}

static void test_entry_points(void)
{
    enum cudaDriverEntryPointQueryResult result;
    void *found = &result, *other = NULL;
    CHECK(load_driver_calls(&cu));
    OK(cudaGetDriverEntryPoint("cuMemCreate", &found, cudaEnableDefault, &result));
    CHECK(found != NULL && result == cudaDriverEntryPointSuccess);
    OK(cudaGetDriverEntryPointByVersion("cuMemCreate", &other, 10020, cudaEnablePerThreadDefaultStream, NULL));
    CHECK(other == found);
    OK(cudaGetDriverEntryPoint("cuMemShare", &found, cudaEnableDefault, &result));
    CHECK(found == NULL && result == cudaDriverEntryPointSymbolNotFound);
    OK(cudaGetDriverEntryPointByVersion("cuMemCreate", &found, 10010, cudaEnableLegacyStream, &result));
    CHECK(found == NULL && result == cudaDriverEntryPointVersionNotSufficent);
    GIVES(cudaGetDriverEntryPointByVersion("cuMemCreate", &found, 13010, 0, &result), cudaErrorInvalidValue);
    GIVES(cudaGetDriverEntryPoint("cuMemCreate", &found, 3, &result), cudaErrorInvalidValue);
    GIVES(cudaGetDriverEntryPoint(NULL, &found, 0, &result), cudaErrorInvalidValue);
    GIVES(cudaGetDriverEntryPoint("cuMemCreate", NULL, 0, &result), cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(emu_calls("cudaGetDriverEntryPoint") == 5 && !emu_has_context(0));
    /* The driver's functions leave the runtime's last error alone. */
    IS(cu.cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
    GIVES(cudaGetLastError(), cudaSuccess);
    OK(cudaLaunchHostFunc(NULL, ask_in_host_function, NULL));
    OK(cudaStreamSynchronize(NULL));
    emu_set_driver_version(10000);
    OK(cudaGetDriverEntryPoint("cuMemCreate", &found, 0, &result));
    CHECK(found == NULL && result == cudaDriverEntryPointVersionNotSufficent);
    emu_set_machine(EMU_NO_DRIVER);
    GIVES(cudaGetDriverEntryPoint("cuMemCreate", &found, 0, &result), cudaErrorInsufficientDriver);
    emu_set_machine(EMU_FORKED);
    IS(cu.cuMemRelease(1), CUDA_ERROR_NOT_INITIALIZED);
    emu_set_machine(EMU_UNLOADING);
    IS(cu.cuMemRelease(1), CUDA_ERROR_DEINITIALIZED);
}

static void test_identity(void)
{
    struct cudaDeviceProp prop;
    CUdevice device = -1;
    CUuuid first, second;
    char bus[16];
    int value = 0;
    FINE(cu.cuDeviceGet(&device, 1));
    CHECK(device == 1);
    IS(cu.cuDeviceGet(&device, 4), CUDA_ERROR_INVALID_DEVICE);
    IS(cu.cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    FINE(cu.cuDeviceGetUuid(&first, 0));
    FINE(cu.cuDeviceGetUuid(&second, 1));
    CHECK(memcmp(&first, &second, sizeof first) != 0);
    IS(cu.cuDeviceGetUuid(&first, -1), CUDA_ERROR_INVALID_DEVICE);
    IS(cu.cuDeviceGetUuid(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cudaGetDeviceProperties(&prop, 1));
    CHECK(memcmp(&prop.uuid, &second, sizeof second) == 0);
    emu_set_gpu(0, 1);
    FINE(cu.cuDeviceGetUuid(&first, 0));
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK(memcmp(&first, &second, sizeof first) == 0 && strcmp(bus, "0000:11:00.0") == 0);
    FINE(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    CHECK(value == 1);
    FINE(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    CHECK(value == 1);
}

/* ---- Created and mapped ---- */

static void test_created(void)
{
    CUmemAllocationProp prop = device_memory_properties(1, true), found;
    CUmemGenericAllocationHandle handle = 0, other;
    size_t granularity = 0;
    const size_t before = available(1);
    FINE(cu.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(granularity == UNIT);
    FINE(cu.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    CHECK(granularity == UNIT);
    IS(cu.cuMemGetAllocationGranularity(&granularity, &prop, 2), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemGetAllocationGranularity(NULL, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    FINE(cu.cuMemCreate(&handle, UNIT, &prop, 0));
    CHECK(available(1) == before - UNIT && emu_live(EMU_MEMORY_HANDLE) == 1);
    CHECK(emu_live_bytes(EMU_MEMORY_HANDLE) == UNIT && emu_live(EMU_DEVICE_MEMORY) == 0);
    memset(&found, 0xEE, sizeof found);
    FINE(cu.cuMemGetAllocationPropertiesFromHandle(&found, handle));
    CHECK(memcmp(&found, &prop, sizeof prop) == 0);
    IS(cu.cuMemGetAllocationPropertiesFromHandle(NULL, handle), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemCreate(&other, UNIT, &prop, 1), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemCreate(&other, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemCreate(&other, UNIT + 4096, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemCreate(NULL, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemCreate(&other, UNIT, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    emu_set_device_memory(1, 2 * UNIT);
    FINE(cu.cuMemCreate(&other, UNIT, &prop, 0));
    FINE(cu.cuMemRelease(other));
    IS(cu.cuMemCreate(&other, 2 * UNIT, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    prop.location.id = 4;
    IS(cu.cuMemCreate(&other, UNIT, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    prop.location.id = 1;
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    IS(cu.cuMemCreate(&other, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = device_memory_properties(1, false);
    prop.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    IS(cu.cuMemCreate(&other, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    IS(cu.cuMemCreate(&other, UNIT, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    prop = device_memory_properties(1, true);
    emu_set_attribute(1, (enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0);
    IS(cu.cuMemCreate(&other, UNIT, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    FINE(cu.cuMemCreate(&other, UNIT, &prop, 0));
    FINE(cu.cuMemRelease(other));
    emu_set_attribute(1, (enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    IS(cu.cuMemCreate(&other, UNIT, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    FINE(cu.cuMemRelease(handle));
    emu_set_device_memory(1, before);
    CHECK(available(1) == before && emu_live(EMU_MEMORY_HANDLE) == 0);
    IS(cu.cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
    REPORTED(IS(cu.cuMemRelease(handle), CUDA_ERROR_UNKNOWN), "is not, or no longer, a handle of memory");
}

static void test_ranges(void)
{
    const size_t big = (size_t)20 << 30;
    CUdeviceptr start = 0, again = 0;
    start = reserved(big);
    CHECK(emu_live(EMU_ADDRESS_RANGE) == 1 && emu_live_bytes(EMU_ADDRESS_RANGE) == big);
    IS(cu.cuMemAddressFree(start, big - UNIT), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemAddressFree(start + UNIT, big - UNIT), CUDA_ERROR_INVALID_VALUE);
    FINE(cu.cuMemAddressFree(start, big));
    IS(cu.cuMemAddressFree(start, big), CUDA_ERROR_INVALID_VALUE);
    CHECK(emu_live(EMU_ADDRESS_RANGE) == 0);
    /* Addresses are used again at once. */
    FINE(cu.cuMemAddressReserve(&again, big, UNIT, start + UNIT, 0));
    CHECK(again == start);
    FINE(cu.cuMemAddressFree(again, big));
    IS(cu.cuMemAddressReserve(NULL, UNIT, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemAddressReserve(&start, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemAddressReserve(&start, UNIT + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemAddressReserve(&start, UNIT, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemAddressReserve(&start, UNIT, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemAddressReserve(&start, UNIT, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemAddressReserve(&start, UNIT, 2 * UNIT, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    IS(cu.cuMemAddressReserve(&start, (size_t)1 << 40, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

/* Every kind of work on a mapping. */
static void work_on(unsigned char *memory)
{
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    unsigned char *const host = pinned(7), pageable[16], *const other = device_memory();
    struct increment work = {memory + SIZE, SIZE, 5};
    void *const to[] = {memory + UNIT - SIZE, other};
    const void *const from[] = {host, memory + SIZE};
    const size_t sizes[] = {SIZE, SIZE};
    size_t first = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    OK(cudaMemsetAsync(memory, 3, SIZE, stream));
    OK(cudaMemcpyAsync(memory + SIZE, host, SIZE, cudaMemcpyHostToDevice, stream));
    launch_increment(stream, &work);
    OK(cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(peek(memory) == 3 && peek(memory + SIZE) == 12 && peek(memory + UNIT - 1) == 7 && peek(other) == 12);
    OK(cudaMemcpy(pageable, memory + SIZE - 8, 16, cudaMemcpyDeviceToHost));
    CHECK(pageable[7] == 3 && pageable[8] == 12);
    OK(cudaMemset(memory, 9, SIZE));
    OK(cudaMemcpyAsync(host, memory, SIZE, cudaMemcpyDefault, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(host[0] == 9);
    GIVES(cudaMemsetAsync(memory + UNIT - 8, 1, 9, stream), cudaErrorInvalidValue);
    GIVES(cudaMemcpyAsync(host, memory + UNIT - 8, 9, cudaMemcpyDefault, stream), cudaErrorInvalidValue);
    OK(cudaFree(other));
    OK(cudaFreeHost(host));
    OK(cudaStreamDestroy(stream));
}

static void test_mapped(void)
{
    struct cudaPointerAttributes attributes;
    const size_t before = available(0);
    CUmemGenericAllocationHandle handle = created(0, UNIT, false);
    const CUdeviceptr start = reserved(4 * UNIT);
    unsigned char *const memory = pointer_to(start) + UNIT;
    unsigned char byte = 1;
    void *base;
    size_t size;
    OK(cudaPointerGetAttributes(&attributes, memory));
    CHECK(attributes.type == cudaMemoryTypeUnregistered);
    IS(cu.cuMemMap(start + UNIT, UNIT, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemMap(start + UNIT, UNIT, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemMap(start + UNIT, UNIT, UNIT, handle, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemMap(start + UNIT, 2 * UNIT, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    IS(cu.cuMemMap(start + UNIT, 0, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemMap(start + UNIT, UNIT / 2, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemMap(start + UNIT / 2, UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemMap(start + 4 * UNIT, UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    REPORTED(FINE(cu.cuMemUnmap(start, 4 * UNIT)), "nothing is mapped at");
    IS(cu.cuMemUnmap(start, 5 * UNIT), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemUnmap(start, UNIT / 2), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemUnmap(start + UNIT / 2, UNIT), CUDA_ERROR_INVALID_VALUE);
    IS(permit(start + UNIT, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
    FINE(cu.cuMemMap(start + UNIT, UNIT, 0, handle, 0));
    IS(cu.cuMemMap(start + UNIT, UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(emu_live(EMU_DEVICE_MEMORY) == 1 && peek(memory) == 0xCD && peek(memory + UNIT - 1) == 0xCD);
    CHECK(emu_extent(memory + 9, &base, &size) && base == memory && size == UNIT);
    OK(cudaPointerGetAttributes(&attributes, memory + 9));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 && attributes.devicePointer == NULL);
    REPORTED(GIVES(cudaMemset(memory, 0, 1), cudaErrorUnknown), "cuMemSetAccess has not given device 0 access");
    REPORTED(GIVES(cudaMemcpy(&byte, memory, 1, cudaMemcpyDefault), cudaErrorUnknown), "cuMemSetAccess");
    REPORTED(GIVES(cudaMemcpy(memory, &byte, 1, cudaMemcpyDefault), cudaErrorUnknown), "cuMemSetAccess");
    FINE(permit(start + UNIT, UNIT, 0));
    OK(cudaPointerGetAttributes(&attributes, memory + 9));
    CHECK(attributes.device == 0 && attributes.devicePointer == memory + 9 && attributes.hostPointer == NULL);
    work_on(memory);
    /* The mapping keeps the memory, and cudaFree does not end it. */
    FINE(cu.cuMemRelease(handle));
    CHECK(available(0) == before - UNIT && peek(memory) == 9);
    GIVES(cudaFree(memory), cudaErrorInvalidValue);
    GIVES(cudaFreeAsync(memory, NULL), cudaErrorInvalidValue);
    IS(cu.cuMemUnmap(start, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemUnmap(start + UNIT, 0), CUDA_ERROR_INVALID_VALUE);
    REPORTED(IS(cu.cuMemAddressFree(start, 4 * UNIT), CUDA_ERROR_UNKNOWN), "still mapped: cuMemMap in");
    FINE(cu.cuMemUnmap(start + UNIT, UNIT));
    CHECK(available(0) == before && emu_live(EMU_DEVICE_MEMORY) == 0 && peek(memory) == -1);
    REPORTED(FINE(cu.cuMemUnmap(start + UNIT, UNIT)), "nothing is mapped at");
    REPORTED(GIVES(cudaMemset(memory, 0, 1), cudaErrorUnknown), "is not, or no longer, allocated device memory");
    REPORTED(emu_host_read(memory, 1), "the host touches device memory");
    /* A new mapping begins without access. */
    handle = created(0, UNIT, false);
    FINE(cu.cuMemMap(start + UNIT, UNIT, 0, handle, 0));
    REPORTED(GIVES(cudaMemset(memory, 0, 1), cudaErrorUnknown), "cuMemSetAccess");
    FINE(cu.cuMemUnmap(start + UNIT, UNIT));
    FINE(cu.cuMemRelease(handle));
    FINE(cu.cuMemAddressFree(start, 4 * UNIT));
    IS(cu.cuMemUnmap(start + UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
    CHECK(available(0) == before);
}

/* Two pieces of memory side by side are unmapped and made accessible as one. */
static void test_pieces(void)
{
    const CUmemGenericAllocationHandle first = created(0, UNIT, false), second = created(0, 2 * UNIT, false);
    const CUdeviceptr start = reserved(3 * UNIT);
    FINE(cu.cuMemMap(start, UNIT, 0, first, 0));
    FINE(cu.cuMemMap(start + UNIT, 2 * UNIT, 0, second, 0));
    IS(permit(start, 2 * UNIT, 0), CUDA_ERROR_INVALID_VALUE);
    FINE(permit(start, 3 * UNIT, 0));
    OK(cudaMemset(pointer_to(start), 1, UNIT));
    OK(cudaMemset(pointer_to(start + UNIT), 2, 2 * UNIT));
    OK(cudaDeviceSynchronize());
    CHECK(peek(pointer_to(start)) == 1 && peek(pointer_to(start + 3 * UNIT - 1)) == 2);
    IS(cu.cuMemUnmap(start, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
    unmap(pointer_to(start), 3 * UNIT);
    FINE(cu.cuMemRelease(first));
    FINE(cu.cuMemRelease(second));
}

static void test_access_of_peers(void)
{
    const CUmemGenericAllocationHandle handle = created(0, UNIT, false);
    unsigned char *const memory = mapped(handle, UNIT, 0), *const host = pinned(4);
    struct increment work = {memory, SIZE, 1};
    struct cudaPointerAttributes attributes;
    CUmemAccessDesc desc = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
    IS(cu.cuMemSetAccess((uintptr_t)memory, UNIT, &desc, 1), CUDA_ERROR_NOT_SUPPORTED);
    IS(cu.cuMemSetAccess((uintptr_t)memory, UNIT, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    IS(cu.cuMemSetAccess((uintptr_t)memory, UNIT, &desc, 0), CUDA_ERROR_INVALID_VALUE);
    desc.flags = (CUmemAccess_flags)2;
    IS(cu.cuMemSetAccess((uintptr_t)memory, UNIT, &desc, 1), CUDA_ERROR_INVALID_VALUE);
    desc = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    desc.location.type = CU_MEM_LOCATION_TYPE_HOST;
    IS(cu.cuMemSetAccess((uintptr_t)memory, UNIT, &desc, 1), CUDA_ERROR_INVALID_VALUE);
    IS(permit((uintptr_t)memory, UNIT, 4), CUDA_ERROR_INVALID_DEVICE);
    emu_set_peer_access(1, 0, false);
    IS(permit((uintptr_t)memory, UNIT, 1), CUDA_ERROR_INVALID_DEVICE);
    emu_set_peer_access(1, 0, true);
    OK(cudaSetDevice(1));
    OK(cudaPointerGetAttributes(&attributes, memory));
    CHECK(attributes.device == 0 && attributes.devicePointer == NULL);
    /* A copy needs no access, a kernel does. */
    const cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    OK(cudaMemcpyAsync(memory, host, SIZE, cudaMemcpyDefault, stream));
    FINE(permit((uintptr_t)memory, UNIT, 1));
    launch_increment(stream, &work);
    OK(cudaStreamSynchronize(stream));
    CHECK(peek(memory) == 5);
    desc = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    FINE(cu.cuMemSetAccess((uintptr_t)memory, UNIT, &desc, 1));
    OK(cudaMemcpyAsync(host, memory, SIZE, cudaMemcpyDefault, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(host[0] == 5);
    desc = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    FINE(permit((uintptr_t)memory, UNIT, 0));
    FINE(cu.cuMemSetAccess((uintptr_t)memory, UNIT, &desc, 1));
    launch_increment(stream, &work);
    GIVES(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    unmap(memory, UNIT);
    FINE(cu.cuMemRelease(handle));
    OK(cudaSetDevice(0));
    OK(cudaFreeHost(host));
}

static void test_order_of_mappings(void)
{
    const CUmemGenericAllocationHandle handle = created(0, UNIT, false);
    unsigned char *const memory = mapped(handle, UNIT, 0);
    const cudaStream_t one = stream_of(cudaStreamNonBlocking), two = stream_of(cudaStreamNonBlocking);
    OK(cudaMemsetAsync(memory, 1, SIZE, one));
    REPORTED(OK(cudaMemsetAsync(memory, 2, SIZE, two)), "cuMemMap in");
    if (seed == 0)
        REPORTED(IS(cu.cuMemUnmap((uintptr_t)memory, UNIT), CUDA_ERROR_UNKNOWN), "unmapped while queued work uses it");
    OK(cudaStreamSynchronize(one));
    OK(cudaStreamSynchronize(two));
    unmap(memory, UNIT);
    FINE(cu.cuMemRelease(handle));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
}

void (*const mapping_tests[])(void) = {test_mapped, test_pieces, test_access_of_peers, test_order_of_mappings, NULL};
void (*const mapping_tests_once[])(void) = {test_entry_points, test_identity, test_created, test_ranges, NULL};
