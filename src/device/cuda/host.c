/* The seam on the CUDA runtime: registering host memory. */
#include "device/cuda/runtime.h"

#include "base/status.h"

/* Returns the bytes of the next extent. Memory of at most SM_CUDA_EXTENT bytes is one extent, wherever it begins. */
static size_t get_next_extent(const char *data, size_t left, size_t size)
{
    return size <= SM_CUDA_EXTENT ? left : sm_cuda_in_extent(data, left);
}

static size_t get_last_extent(const char *data, size_t locked, size_t size)
{
    const size_t behind = ((uintptr_t)data + locked - 1) % SM_CUDA_EXTENT + 1;
    return size <= SM_CUDA_EXTENT || locked < behind ? locked : behind;
}

/* Unregisters the last extent first, so that the page-locked bytes are always the first ones. */
static synced_mem_status unregister_extents(int device, char *data, size_t size, size_t *locked)
{
    synced_mem_status status = SYNCED_MEM_OK;
    while (*locked > 0 && status == SYNCED_MEM_OK) {
        const size_t extent = get_last_extent(data, *locked, size);
        status = check_code(cudaHostUnregister(data + *locked - extent), "cudaHostUnregister", device, 0);
        if (status == SYNCED_MEM_OK)
            *locked -= extent;
    }
    return status;
}

/* Unregisters the extents of a failed registration. It tries twice, since a failure leaves memory page-locked. */
static void undo_registration(int device, char *data, size_t size, size_t *locked)
{
    const struct sm_detail first = sm_detail_get();
    if (unregister_extents(device, data, size, locked) != SYNCED_MEM_OK)
        (void)unregister_extents(device, data, size, locked);
    sm_detail_set(&first);
}

static synced_mem_status register_extents(int device, char *data, size_t size, bool read_only, size_t *locked)
{
    const unsigned flags =
        cudaHostRegisterPortable | cudaHostRegisterMapped | (read_only ? cudaHostRegisterReadOnly : 0);
    synced_mem_status status = SYNCED_MEM_OK;
    while (*locked < size && status == SYNCED_MEM_OK) {
        const size_t extent = get_next_extent(data + *locked, size - *locked, size);
        status = check_code_with(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, cudaHostRegister(data + *locked, extent, flags),
                                 "cudaHostRegister", device, extent);
        if (status == SYNCED_MEM_OK)
            *locked += extent;
    }
    if (status != SYNCED_MEM_OK)
        undo_registration(device, data, size, locked);
    return status;
}

synced_mem_status sm_device_host_register(int device, void *data, size_t size, bool read_only, size_t *locked)
{
    struct before before;
    const synced_mem_status status = enter_device(device, &before);
    *locked = 0;
    return status != SYNCED_MEM_OK
               ? status
               : leave_device(device, &before, register_extents(device, data, size, read_only, locked));
}

synced_mem_status sm_device_host_unregister(int device, void *data, size_t size, size_t *locked)
{
    struct before before;
    const synced_mem_status status = enter_device(device, &before);
    return status != SYNCED_MEM_OK ? status
                                   : leave_device(device, &before, unregister_extents(device, data, size, locked));
}
