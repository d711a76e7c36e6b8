/*
 * Memory from cuMemCreate: its handles, and its exchange between processes by file descriptors.
 *
 * The memory is the content of a file in memory. An exported descriptor is a duplicate of the file's. So the kernel
 * frees the memory with the last mapping and descriptor of all processes. Behind the memory the file has one page that
 * describes it for the import.
 *
 * The memory counts as used on its device from cuMemCreate, or the first import in a process, until the process has
 * neither a handle nor a mapping of it. Each process counts for itself.
 */
#include "emu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Tells an exported file from others. */
#define EXPORT_MAGIC "cudart_emu memory"
#define EXPORT_PAGE ((size_t)4096)

struct export_page {
    char magic[sizeof EXPORT_MAGIC];
    int gpu;
    size_t size;
};

/* ---- Memory ---- */

void emu_memory_ref(struct emu_memory *memory)
{
    memory->refs++;
}

static void drop_memory(struct emu_memory *memory)
{
    struct emu_memory **link = &emu.memories;
    while (*link != memory)
        link = &(*link)->next;
    *link = memory->next;
    close(memory->file);
    free(memory);
}

void emu_memory_unref(struct emu_memory *memory)
{
    if (--memory->refs > 0)
        return;
    emu.devices[memory->device].used -= memory->size;
    drop_memory(memory);
}

void emu_memories_reset(void)
{
    while (emu.memories != NULL)
        drop_memory(emu.memories);
}

/* Takes over the file. */
static struct emu_memory *note_memory(int file, size_t size, int device, bool exportable)
{
    struct stat status;
    struct emu_memory *memory = emu_allocate(sizeof *memory);
    *memory = (struct emu_memory){
        .next = emu.memories, .file = file, .size = size, .device = device, .exportable = exportable};
    if (fstat(file, &status) == 0) {
        memory->file_device = status.st_dev;
        memory->file_number = status.st_ino;
    }
    emu.memories = memory;
    emu.devices[device].used += size;
    return memory;
}

/* ---- Handles ---- */

static cudaError_t new_handle(struct emu_memory *memory, bool imported, CUmemGenericAllocationHandle *out)
{
    struct emu_memory_handle *handle = emu_slot_take(&emu.memory_handles);
    emu_memory_ref(memory);
    if (handle == NULL) {
        emu_memory_unref(memory);
        return cudaErrorMemoryAllocation;
    }
    handle->memory = memory;
    handle->imported = imported;
    handle->born = emu_self()->origin;
    emu.live[EMU_MEMORY_HANDLE]++;
    emu.live_bytes[EMU_MEMORY_HANDLE] += memory->size;
    *out = (uintptr_t)handle;
    return cudaSuccess;
}

/* A handle that is not valid is undefined use. */
static cudaError_t handle_of(CUmemGenericAllocationHandle value, struct emu_memory_handle **out)
{
    struct emu_memory_handle *handle = (struct emu_memory_handle *)(uintptr_t)value;
    if (value == 0)
        return cudaErrorInvalidValue;
    if (!emu_slot_is_live(&emu.memory_handles, handle))
        return emu_misuse("%p is not, or no longer, a handle of memory", (void *)handle);
    *out = handle;
    return emu.devices[handle->memory->device].sticky;
}

cudaError_t emu_memory_of(CUmemGenericAllocationHandle value, struct emu_memory **memory)
{
    struct emu_memory_handle *handle = NULL;
    const cudaError_t error = handle_of(value, &handle);
    if (error == cudaSuccess)
        *memory = handle->memory;
    return error;
}

static cudaError_t release_memory(CUmemGenericAllocationHandle value)
{
    struct emu_memory_handle *handle = NULL;
    const cudaError_t error = handle_of(value, &handle);
    if (error != cudaSuccess)
        return error;
    emu.live[EMU_MEMORY_HANDLE]--;
    emu.live_bytes[EMU_MEMORY_HANDLE] -= handle->memory->size;
    emu_memory_unref(handle->memory);
    emu_slot_give(&emu.memory_handles, handle);
    return cudaSuccess;
}

CUresult emu_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    cudaError_t error = EMU_ENTER(cuMemRelease, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = release_memory(handle);
    return emu_leave_driver(error);
}

/* ---- Creating ---- */

/* Only pinned memory of a device is emulated, with or without a file descriptor. */
static cudaError_t check_properties(const CUmemAllocationProp *prop)
{
    const int types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                      CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32HandleMetaData != NULL ||
        ((int)prop->requestedHandleTypes & ~types) != 0)
        return cudaErrorInvalidValue;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return prop->location.type == CU_MEM_LOCATION_TYPE_INVALID ? cudaErrorInvalidValue : cudaErrorNotSupported;
    const int device = prop->location.id;
    if (!emu_device_exists(device))
        return cudaErrorInvalidDevice;
    if (!emu_attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return cudaErrorNotSupported;
    if (prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE)
        return cudaSuccess;
    return prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                   emu_attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
               ? cudaSuccess
               : cudaErrorNotSupported;
}

CUresult emu_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option)
{
    cudaError_t error = EMU_ENTER(cuMemGetAllocationGranularity, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = granularity == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ? cudaErrorInvalidValue
                                                                                               : check_properties(prop);
    if (error == cudaSuccess)
        *granularity = EMU_GRANULARITY;
    return emu_leave_driver(error);
}

static bool write_file(int file, size_t size, int gpu)
{
    struct export_page page;
    memset(&page, 0, sizeof page); /* with the bytes between its members */
    memcpy(page.magic, EXPORT_MAGIC, sizeof page.magic);
    page.gpu = gpu;
    page.size = size;
    if (ftruncate(file, (off_t)(size + EXPORT_PAGE)) != 0 ||
        pwrite(file, &page, sizeof page, (off_t)size) != (ssize_t)sizeof page)
        return false;
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED)
        return false;
    memset(bytes, EMU_FRESH, size);
    munmap(bytes, size);
    /* The size of a GPU's memory cannot change either. */
    emu_file_seal(file);
    return true;
}

static cudaError_t create_memory(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                                 unsigned long long flags)
{
    if (out == NULL || flags != 0 || size == 0 || size % EMU_GRANULARITY != 0)
        return cudaErrorInvalidValue;
    const cudaError_t error = check_properties(prop);
    if (error != cudaSuccess)
        return error;
    const int device = prop->location.id;
    if (emu.devices[device].sticky != cudaSuccess)
        return emu.devices[device].sticky;
    /* Unused memory of pools is not released for it: no documentation says that the driver does so. */
    if (emu.devices[device].used > emu.devices[device].limit ||
        size > emu.devices[device].limit - emu.devices[device].used)
        return cudaErrorMemoryAllocation;
    const int file = emu_file_make();
    if (file < 0)
        return cudaErrorMemoryAllocation;
    if (!write_file(file, size, emu.devices[device].gpu)) {
        close(file);
        return cudaErrorMemoryAllocation;
    }
    struct emu_memory *memory = note_memory(file, size, device, prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE);
    return new_handle(memory, false, out);
}

CUresult emu_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                         unsigned long long flags)
{
    cudaError_t error = EMU_ENTER(cuMemCreate, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = create_memory(handle, size, prop, flags);
    return emu_leave_driver(error);
}

static cudaError_t describe_memory(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    struct emu_memory *memory = NULL;
    if (prop == NULL)
        return cudaErrorInvalidValue;
    const cudaError_t error = emu_memory_of(handle, &memory);
    if (error != cudaSuccess)
        return error;
    memset(prop, 0, sizeof *prop);
    prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop->requestedHandleTypes =
        memory->exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop->location.id = memory->device;
    return cudaSuccess;
}

CUresult emu_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    cudaError_t error = EMU_ENTER(cuMemGetAllocationPropertiesFromHandle, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = describe_memory(prop, handle);
    return emu_leave_driver(error);
}

/* ---- Between processes ---- */

/* Driver 580 was seen to refuse the export of an imported handle. */
static cudaError_t export_memory(void *out, CUmemGenericAllocationHandle value, CUmemAllocationHandleType type,
                                 unsigned long long flags)
{
    struct emu_memory_handle *handle = NULL;
    if (out == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return cudaErrorInvalidValue;
    const cudaError_t error = handle_of(value, &handle);
    if (error != cudaSuccess)
        return error;
    if (!handle->memory->exportable || handle->imported)
        return cudaErrorInvalidValue;
    /* A program that wants the descriptor closed on exec must say so. */
    const int file = dup(handle->memory->file);
    if (file < 0)
        return cudaErrorOperatingSystem;
    memcpy(out, &file, sizeof file);
    return cudaSuccess;
}

CUresult emu_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType handleType, unsigned long long flags)
{
    cudaError_t error = EMU_ENTER(cuMemExportToShareableHandle, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = export_memory(shareableHandle, handle, handleType, flags);
    return emu_leave_driver(error);
}

static struct emu_memory *known_memory(const struct stat *status)
{
    struct emu_memory *memory = emu.memories;
    while (memory != NULL && (memory->file_device != status->st_dev || memory->file_number != status->st_ino))
        memory = memory->next;
    return memory;
}

/* Returns the device that is this GPU, or -1. */
static int device_of(int gpu)
{
    for (int device = 0; device < emu.device_count; device++)
        if (emu.devices[device].gpu == gpu)
            return device;
    return -1;
}

static bool read_page(int file, struct stat *status, struct export_page *page)
{
    return fstat(file, status) == 0 && S_ISREG(status->st_mode) && (size_t)status->st_size > EXPORT_PAGE &&
           pread(file, page, sizeof *page, status->st_size - (off_t)EXPORT_PAGE) == (ssize_t)sizeof *page &&
           memcmp(page->magic, EXPORT_MAGIC, sizeof page->magic) == 0 &&
           page->size == (size_t)status->st_size - EXPORT_PAGE;
}

static cudaError_t import_memory(CUmemGenericAllocationHandle *out, int file, CUmemAllocationHandleType type)
{
    struct stat status;
    struct export_page page;
    if (out == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !read_page(file, &status, &page))
        return cudaErrorInvalidValue;
    const int device = device_of(page.gpu);
    if (device < 0)
        return cudaErrorNotSupported;
    if (emu.devices[device].sticky != cudaSuccess)
        return emu.devices[device].sticky;
    struct emu_memory *memory = known_memory(&status);
    if (memory == NULL) {
        const int own = fcntl(file, F_DUPFD_CLOEXEC, 0);
        if (own < 0)
            return cudaErrorOperatingSystem;
        memory = note_memory(own, page.size, device, true);
    }
    return new_handle(memory, true, out);
}

CUresult emu_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                            CUmemAllocationHandleType shHandleType)
{
    cudaError_t error = EMU_ENTER(cuMemImportFromShareableHandle, EMU_NEEDS_DRIVER);
    if (error == cudaSuccess)
        error = import_memory(handle, (int)(intptr_t)osHandle, shHandleType);
    return emu_leave_driver(error);
}
