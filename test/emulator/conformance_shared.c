/*
 * The driver's calls that share device memory between processes. Each section starts the other process before CUDA
 * starts in either. Descriptors travel over a socket, as in a program.
 */
#include "conformance.h"

#include "driver_calls.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static struct driver_calls cu;
static size_t unit; /* the granularity */

/* For a driver's call that prepares a fact. */
#define DRIVER_MUST(call) must(#call, (cudaError_t)(call))

static void expect_result(const char *fact, CUresult want, CUresult got)
{
    expect_value(fact, want, got);
}

/* ---- Memory ---- */

/* Starts CUDA on the device. Ends the section if the device has no such memory. */
static void start_driver(int device)
{
    const CUmemAllocationProp prop = device_memory_properties(device, true);
    int supported = 0;

    MUST(cudaSetDevice(device));
    MUST(cudaFree(NULL));
    if (!load_driver_calls(&cu)) {
        skip("memory between processes", "the driver lacks the calls");
        _exit(0);
    }
    DRIVER_MUST(
        cu.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
    if (!supported) {
        skip("memory between processes", "the device exports no memory by descriptor");
        _exit(0);
    }
    DRIVER_MUST(cu.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static CUmemGenericAllocationHandle create_memory(size_t size, bool exportable)
{
    const CUmemAllocationProp prop = device_memory_properties(0, exportable);
    CUmemGenericAllocationHandle handle = 0;

    DRIVER_MUST(cu.cuMemCreate(&handle, size, &prop, 0));
    return handle;
}

static CUresult permit_device(CUdeviceptr start, size_t size, int device)
{
    const CUmemAccessDesc desc = access_of(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    return cu.cuMemSetAccess(start, size, &desc, 1);
}

/* Maps all of the memory, with access from the device. */
static unsigned char *map_memory(CUmemGenericAllocationHandle handle, size_t size, int device)
{
    CUdeviceptr start = 0;

    DRIVER_MUST(cu.cuMemAddressReserve(&start, size, 0, 0, 0));
    DRIVER_MUST(cu.cuMemMap(start, size, 0, handle, 0));
    DRIVER_MUST(permit_device(start, size, device));
    return (unsigned char *)(uintptr_t)start;
}

static void unmap_memory(unsigned char *memory, size_t size)
{
    DRIVER_MUST(cu.cuMemUnmap((uintptr_t)memory, size));
    DRIVER_MUST(cu.cuMemAddressFree((uintptr_t)memory, size));
}

static void fill_memory(unsigned char *memory, int value, size_t size)
{
    MUST(cudaMemset(memory, value, size));
    MUST(cudaDeviceSynchronize());
}

/* Checks the first and the last SIZE bytes of device memory. */
static void expect_memory(const char *fact, int want, const unsigned char *memory, size_t size)
{
    static unsigned char bytes[2 * SIZE];

    memset(bytes, ~want, sizeof bytes);
    MUST(cudaMemcpy(bytes, memory, SIZE, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(bytes + SIZE, memory + size - SIZE, SIZE, cudaMemcpyDeviceToHost));
    expect_bytes(fact, want, bytes, sizeof bytes);
}

static size_t free_memory(void)
{
    size_t available, total;

    MUST(cudaMemGetInfo(&available, &total));
    return available;
}

static CUmemGenericAllocationHandle import_memory(int file)
{
    CUmemGenericAllocationHandle handle = 0;

    DRIVER_MUST(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, FD_TYPE));
    return handle;
}

static int export_memory(CUmemGenericAllocationHandle handle)
{
    int file = -1;

    DRIVER_MUST(cu.cuMemExportToShareableHandle(&file, handle, FD_TYPE, 0));
    return file;
}

/* ---- The other process ---- */

static void check_system(const char *what, bool right)
{
    if (right)
        return;
    perror(what);
    must(what, cudaErrorOperatingSystem);
}

static void send_file(int to, int file)
{
    char byte = 'f';
    struct iovec data = {&byte, 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof file)];
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

    memset(control, 0, sizeof control);
    struct cmsghdr *const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    check_system("sendmsg", sendmsg(to, &message, MSG_NOSIGNAL) == 1);
}

static int receive_file(int from)
{
    char byte;
    struct iovec data = {&byte, 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int file = -1;

    check_system("recvmsg", recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 1);
    const struct cmsghdr *const header = CMSG_FIRSTHDR(&message);
    check_system("a descriptor", header != NULL && header->cmsg_type == SCM_RIGHTS);
    memcpy(&file, CMSG_DATA(header), sizeof file);
    return file;
}

static void tell(int to)
{
    check_system("send", send(to, "x", 1, MSG_NOSIGNAL) == 1);
}

/* Ends the section if the other process has ended. */
static void listen_to(int from)
{
    char byte;

    check_system("recv", recv(from, &byte, 1, 0) == 1);
}

struct other {
    pid_t process;
    int socket;
};

/* Starts the other process. CUDA has not started here. */
static struct other start_other(void (*run)(int socket))
{
    struct other other;
    int ends[2];

    fflush(stdout);
    check_system("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    other.process = fork();
    check_system("fork", other.process >= 0);
    if (other.process == 0) {
        close(ends[0]);
        alarm(200);
        run(ends[1]);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    other.socket = ends[0];
    return other;
}

static void kill_other(const struct other *other)
{
    check_system("kill", kill(other->process, SIGKILL) == 0);
    check_system("waitpid", waitpid(other->process, NULL, 0) == other->process);
}

static void expect_other_ends(const struct other *other)
{
    int status = -1;

    check_system("waitpid", waitpid(other->process, &status, 0) == other->process);
    expect_value("the other process ends well", 0, status);
}

/* ---- Entry points ---- */

static void entry_points(void)
{
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
    void *found = &found;
    int version = 0;

    MUST(cudaDriverGetVersion(&version));
    expect_code("an entry point that does not exist", cudaSuccess,
                cudaGetDriverEntryPointByVersion("cuMemNothing", &found, 11040, cudaEnableDefault, &result));
    expect_value("its result", cudaDriverEntryPointSymbolNotFound, result);
    expect_true("its address", found == NULL);
    found = &found;
    expect_code("an entry point before its version", cudaSuccess,
                cudaGetDriverEntryPointByVersion("cuMemCreate", &found, 10010, cudaEnableDefault, &result));
    expect_value("its result", cudaDriverEntryPointVersionNotSufficent, result);
    expect_true("its address", found == NULL);
    expect_code("an entry point of its version", cudaSuccess,
                cudaGetDriverEntryPointByVersion("cuMemCreate", &found, 10020, cudaEnableDefault, &result));
    expect_value("its result", cudaDriverEntryPointSuccess, result);
    expect_true("its address", found != NULL);
    expect_code(
        "an entry point of a version after the driver's", cudaErrorInvalidValue,
        cudaGetDriverEntryPointByVersion("cuMemCreate", &found, (unsigned)version + 1000, cudaEnableDefault, &result));
#else
    skip("entry points", "no search by version before CUDA 12.5");
#endif
    for (int device = 0; device < device_count(); device++) {
        struct cudaDeviceProp properties;
        CUuuid uuid;
        CUdevice found_device = -1;

        start_driver(device);
        DRIVER_MUST(cu.cuDeviceGet(&found_device, device));
        DRIVER_MUST(cu.cuDeviceGetUuid(&uuid, found_device));
        MUST(cudaGetDeviceProperties(&properties, device));
        expect_true("a device's UUID is that of its properties", memcmp(&uuid, &properties.uuid, sizeof uuid) == 0);
    }
}

/* ---- One process ---- */

#if WITH_EMULATOR
static void take_misuse(const char *report, void *user)
{
    (void)report;
    (void)user;
}
#endif

/* The emulated runtime continues after a report of misuse only if there is a handler. */
static void tolerate_misuse(bool on)
{
#if WITH_EMULATOR
    emu_set_misuse_handler(on ? take_misuse : NULL, NULL);
#else
    (void)on;
#endif
}

/* Seen on an H200, driver 580. The documentation requires a range that is mapped. */
static void expect_empty_unmap(const char *fact, CUdeviceptr start, size_t size)
{
    tolerate_misuse(true);
    expect_result(fact, CUDA_SUCCESS, cu.cuMemUnmap(start, size));
    tolerate_misuse(false);
}

static void results(void)
{
    CUmemAllocationProp prop = device_memory_properties(0, true);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr start = 0;
    int file = -1;

    start_driver(0);
    expect_value("the granularity", 2 << 20, (long long)unit);
    expect_result("a size that is no multiple of it", CUDA_ERROR_INVALID_VALUE,
                  cu.cuMemCreate(&handle, unit + 4096, &prop, 0));
    expect_result("flags", CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, unit, &prop, 1));
    prop.location.id = device_count();
    expect_result("a device that does not exist", CUDA_ERROR_INVALID_DEVICE, cu.cuMemCreate(&handle, unit, &prop, 0));
    expect_value("these leave the runtime's last error alone", cudaSuccess, cudaGetLastError());

    handle = create_memory(unit, false);
    expect_result("an export of memory without a handle type", CUDA_ERROR_INVALID_VALUE,
                  cu.cuMemExportToShareableHandle(&file, handle, FD_TYPE, 0));
    DRIVER_MUST(cu.cuMemAddressReserve(&start, 2 * unit, 0, 0, 0));
    /* Seen on an H200, driver 580. */
    expect_result("a mapping of more than the memory", CUDA_ERROR_NOT_SUPPORTED,
                  cu.cuMemMap(start, 2 * unit, 0, handle, 0));
    expect_empty_unmap("an unmap of what is not mapped", start, unit);
    expect_result("a mapping", CUDA_SUCCESS, cu.cuMemMap(start, unit, 0, handle, 0));
    expect_result("a second one at the same address", CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(start, unit, 0, handle, 0));
    expect_result("its release while it is mapped", CUDA_SUCCESS, cu.cuMemRelease(handle));
    expect_result("an unmap of a part", CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(start, unit / 2));
    expect_result("an unmap", CUDA_SUCCESS, cu.cuMemUnmap(start, unit));
    expect_empty_unmap("a second one", start, unit);
    expect_result("a free of a part of the range", CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(start, unit));
    expect_result("a free of the range", CUDA_SUCCESS, cu.cuMemAddressFree(start, 2 * unit));
    file = open("/dev/null", O_RDWR | O_CLOEXEC);
    expect_true("an import of another file",
                cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, FD_TYPE) != CUDA_SUCCESS);
    close(file);
    expect_true("an import of no file",
                cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)-1, FD_TYPE) != CUDA_SUCCESS);
}

static void contents(void)
{
    struct cudaPointerAttributes attributes;
    CUmemAllocationProp prop;
    struct kit kit;

    make_kit(&kit);
    start_driver(0);
    const CUmemGenericAllocationHandle handle = create_memory(unit, true);
    memset(&prop, 0xee, sizeof prop);
    expect_result("the properties of memory", CUDA_SUCCESS, cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    expect_value("their handle types", FD_TYPE, prop.requestedHandleTypes);
    expect_value("their device", 0, prop.location.id);
    unsigned char *const memory = map_memory(handle, unit, 0);
    MUST(cudaPointerGetAttributes(&attributes, memory + SIZE));
    expect_value("mapped memory is a device's", cudaMemoryTypeDevice, attributes.type);
    expect_value("and of its device", 0, attributes.device);
    expect_true("it has its address on the device", attributes.devicePointer == memory + SIZE);
    expect_true("and none on the host", attributes.hostPointer == NULL);
    MUST(cudaMemsetAsync(memory, 0x11, unit, kit.stream));
    MUST(cudaMemcpyAsync(memory, kit.pinned_a, SIZE, cudaMemcpyHostToDevice, kit.stream));
    MUST(cudaMemcpyAsync(kit.device_b, memory, SIZE, cudaMemcpyDeviceToDevice, kit.stream));
    MUST(cudaMemcpyAsync(kit.pinned_b, kit.device_b, SIZE, cudaMemcpyDeviceToHost, kit.stream));
    MUST(cudaStreamSynchronize(kit.stream));
    expect_bytes("copies reach it", 0xa1, kit.pinned_b, SIZE);
    expect_memory("and fills", 0x11, memory + SIZE, unit - SIZE);
    expect_code("Free of a mapping", cudaErrorInvalidValue, cudaFree(memory));

    const int file = export_memory(handle), kept = export_memory(handle);
    const CUmemGenericAllocationHandle first = import_memory(file), second = import_memory(file);
    int again = -1;
    expect_true("a closed descriptor", close(file) == 0);
    unsigned char *const one = map_memory(first, unit, 0), *const two = map_memory(second, unit, 0);
    expect_true("two imports are mapped at two addresses", one != two && one != memory);
    fill_memory(one, 0x22, unit);
    expect_memory("they are the same memory", 0x22, two, unit);
    expect_memory("which is the exporter's", 0x22, memory, unit);
    DRIVER_MUST(cu.cuMemRelease(handle));
    unmap_memory(memory, unit);
    DRIVER_MUST(cu.cuMemRelease(first));
    unmap_memory(one, unit);
    expect_memory("the last mapping keeps it", 0x22, two, unit);
    /* Seen on an H200, driver 580. */
    expect_result("an export of an imported handle", CUDA_ERROR_INVALID_VALUE,
                  cu.cuMemExportToShareableHandle(&again, second, FD_TYPE, 0));
    DRIVER_MUST(cu.cuMemRelease(second));
    unmap_memory(two, unit);
    const CUmemGenericAllocationHandle third = import_memory(kept);
    close(kept);
    unsigned char *const three = map_memory(third, unit, 0);
    expect_memory("and so does a descriptor alone", 0x22, three, unit);
    unmap_memory(three, unit);
    DRIVER_MUST(cu.cuMemRelease(third));
}

static void free_memory_falls(void)
{
    const size_t size = (size_t)256 << 20;

    start_driver(0);
    const size_t before = free_memory();
    const CUmemGenericAllocationHandle handle = create_memory(size, true);
    const size_t fall = before - free_memory();
    expect_true("free memory falls by the size of what is created", fall >= size && fall < 2 * size);
    unsigned char *const memory = map_memory(handle, size, 0);
    DRIVER_MUST(cu.cuMemRelease(handle));
    expect_true("a mapping without a handle keeps it", free_memory() + size <= before);
    unmap_memory(memory, size);
    expect_true("the last reference gives it back", free_memory() + size / 2 > before);
}

/* The process may be of no use after such an access. The emulated runtime reports it as misuse. */
static void no_access(void)
{
    CUdeviceptr start = 0;
    unsigned char byte = 0;

    start_driver(0);
    tolerate_misuse(true);
    const CUmemGenericAllocationHandle handle = create_memory(unit, true);
    DRIVER_MUST(cu.cuMemAddressReserve(&start, unit, 0, 0, 0));
    DRIVER_MUST(cu.cuMemMap(start, unit, 0, handle, 0));
    expect_true("a mapping to which no device has access cannot be copied from",
                cudaMemcpy(&byte, (void *)(uintptr_t)start, 1, cudaMemcpyDeviceToHost) != cudaSuccess);
}

static void no_mapping(void)
{
    CUdeviceptr start = 0;
    unsigned char byte = 0;

    start_driver(0);
    tolerate_misuse(true);
    DRIVER_MUST(cu.cuMemAddressReserve(&start, unit, 0, 0, 0));
    expect_true("an address range without memory cannot be copied from",
                cudaMemcpy(&byte, (void *)(uintptr_t)start, 1, cudaMemcpyDeviceToHost) != cudaSuccess);
}

/* ---- Two processes ---- */

/* Gives its memory to the other process, and leaves it filled with 0x5a. Waits for the first byte of the socket. */
static void export_and_wait(int socket)
{
    start_driver(0);
    const CUmemGenericAllocationHandle handle = create_memory(64 * unit, true);
    unsigned char *const memory = map_memory(handle, 64 * unit, 0);
    fill_memory(memory, 0x5a, 64 * unit);
    const int file = export_memory(handle);
    send_file(socket, file);
    close(file);
    listen_to(socket);
    expect_memory("the exporter reads the importer's bytes", 0xa5, memory, 64 * unit);
    unmap_memory(memory, 64 * unit);
    DRIVER_MUST(cu.cuMemRelease(handle));
    tell(socket);
}

static void two_processes(void)
{
    const struct other other = start_other(export_and_wait);
    const int file = receive_file(other.socket);
    int again = -1;

    start_driver(0);
    const CUmemGenericAllocationHandle handle = import_memory(file);
    close(file);
    unsigned char *const memory = map_memory(handle, 64 * unit, 0);
    expect_result("an export by the importer", CUDA_ERROR_INVALID_VALUE,
                  cu.cuMemExportToShareableHandle(&again, handle, FD_TYPE, 0));
    expect_memory("the importer reads the exporter's bytes", 0x5a, memory, 64 * unit);
    fill_memory(memory, 0xa5, 64 * unit);
    tell(other.socket);
    listen_to(other.socket);
    expect_other_ends(&other);
    expect_memory("memory that the exporter has released", 0xa5, memory, 64 * unit);
    unmap_memory(memory, 64 * unit);
    DRIVER_MUST(cu.cuMemRelease(handle));
}

/* The importer imports before or after the exporter's death. */
static void killed_exporter(bool import_first)
{
    const struct other other = start_other(export_and_wait);
    const int file = receive_file(other.socket);
    CUmemGenericAllocationHandle handle = 0;

    start_driver(0);
    if (import_first) {
        handle = import_memory(file);
        close(file);
    }
    kill_other(&other);
    if (!import_first) {
        handle = import_memory(file);
        close(file);
    }
    unsigned char *const memory = map_memory(handle, 64 * unit, 0);
    expect_memory(import_first ? "memory whose exporter was killed after the import"
                               : "memory whose exporter was killed before the import",
                  0x5a, memory, 64 * unit);
    const size_t held = free_memory();
    unmap_memory(memory, 64 * unit);
    DRIVER_MUST(cu.cuMemRelease(handle));
    expect_true("free memory rises when the importer gives it up", free_memory() >= held + 32 * unit);
}

static void exporter_killed(void)
{
    killed_exporter(true);
}

static void exporter_killed_before(void)
{
    killed_exporter(false);
}

/* Imports the memory, and ends without giving it up. */
static void import_and_wait(int socket)
{
    const int file = receive_file(socket);

    start_driver(0);
    const CUmemGenericAllocationHandle handle = import_memory(file);
    unsigned char *const memory = map_memory(handle, 64 * unit, 0);
    fill_memory(memory, 0x3c, 64 * unit);
    tell(socket);
    listen_to(socket);
}

static void importer_killed(void)
{
    const struct other other = start_other(import_and_wait);

    start_driver(0);
    const size_t before = free_memory();
    const CUmemGenericAllocationHandle handle = create_memory(64 * unit, true);
    const int file = export_memory(handle);
    send_file(other.socket, file);
    close(file);
    listen_to(other.socket);
    kill_other(&other);
    unsigned char *const memory = map_memory(handle, 64 * unit, 0);
    expect_memory("memory whose importer was killed", 0x3c, memory, 64 * unit);
    unmap_memory(memory, 64 * unit);
    DRIVER_MUST(cu.cuMemRelease(handle));
    /* The other process's context may have begun or ended between the two calls. */
    expect_true("free memory is back when both have ended", free_memory() + 32 * unit > before);
}

/* Two devices: the importer gives its device 1 access to memory of device 0. */
static void other_device(void)
{
    const struct other other = start_other(export_and_wait);
    const int file = receive_file(other.socket);
    struct cudaPointerAttributes attributes;
    CUmemAllocationProp prop;
    int possible = 0;

    start_driver(1);
    MUST(cudaDeviceCanAccessPeer(&possible, 1, 0));
    if (!possible) {
        skip("an import on another device", "no peer access between devices 1 and 0");
        kill_other(&other);
        return;
    }
    const CUmemGenericAllocationHandle handle = import_memory(file);
    close(file);
    memset(&prop, 0xee, sizeof prop);
    expect_result("the properties of imported memory", CUDA_SUCCESS,
                  cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    expect_value("their device", 0, prop.location.id);
    unsigned char *const memory = map_memory(handle, 64 * unit, 1);
    MUST(cudaPointerGetAttributes(&attributes, memory));
    expect_value("imported memory stays its device's", 0, attributes.device);
    expect_true("and has its address on the other", attributes.devicePointer == memory);
    expect_memory("the importer on another device reads the exporter's bytes", 0x5a, memory, 64 * unit);
    fill_memory(memory, 0xa5, 64 * unit);
    tell(other.socket);
    listen_to(other.socket);
    expect_other_ends(&other);
    unmap_memory(memory, 64 * unit);
    DRIVER_MUST(cu.cuMemRelease(handle));
}

const struct section shared_sections[] = {
    {"entry points of the driver", entry_points, 1, 0},
    {"results of the driver", results, 1, 0},
    {"mapped memory", contents, 1, 0},
    {"free memory and the driver", free_memory_falls, 1, 0},
    {"a mapping without access", no_access, 1, 0},
    {"addresses without memory", no_mapping, 1, 0},
    {"memory of two processes", two_processes, 1, 0},
    {"an exporter killed after the import", exporter_killed, 1, 0},
    {"an exporter killed before the import", exporter_killed_before, 1, 0},
    {"an importer killed", importer_killed, 1, 0},
    {"memory imported on another device", other_device, 2, 0},
    {NULL, NULL, 0, 0},
};
