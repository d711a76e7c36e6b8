/* The seam on the CUDA runtime: copies and fills on a stream. */
#include "device/cuda/runtime.h"

#include "base/status.h"

/* Waits for the parts that are queued, since the caller may reuse the memory. It tries twice, and returns status. */
static synced_mem_status wait_for_queued_parts(int device, synced_mem_stream stream, synced_mem_status status)
{
    const struct sm_detail first = sm_detail_get();
    if (check_code(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device, 0) != SYNCED_MEM_OK)
        (void)check_code(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device, 0);
    sm_detail_set(&first);
    return status;
}

/* Host memory may have been registered in extents. Where the kind does not tell, both to and from may be host
 * memory. */
static __attribute__((noinline)) synced_mem_status transfer_extents(int device, char *to, const char *from, size_t size,
                                                                    enum cudaMemcpyKind kind, synced_mem_stream stream)
{
    struct before before;
    size_t done = 0;
    synced_mem_status status = make_current(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    do {
        size_t extent = size - done;
        if (kind != cudaMemcpyHostToDevice)
            extent = sm_cuda_in_extent(to + done, extent);
        if (kind != cudaMemcpyDeviceToHost)
            extent = sm_cuda_in_extent(from + done, extent);
        status =
            check_code(cudaMemcpyAsync(to + done, from + done, extent, kind, stream), "cudaMemcpyAsync", device, size);
        if (status != SYNCED_MEM_OK && done > 0)
            status = wait_for_queued_parts(device, stream, status);
        done += extent;
    } while (status == SYNCED_MEM_OK && done < size);
    return leave_device(device, &before, status);
}

/* Most transfers need one call, with the device current. host: the end whose memory may have been registered. */
static inline synced_mem_status transfer_bytes(int device, char *to, const char *from, const void *host, size_t size,
                                               enum cudaMemcpyKind kind, synced_mem_stream stream)
{
    if (!is_current(device) || sm_cuda_in_extent(host, size) < size)
        return transfer_extents(device, to, from, size, kind, stream);
    return check_code(cudaMemcpyAsync(to, from, size, kind, stream), "cudaMemcpyAsync", device, size);
}

synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    return transfer_bytes(device, to, from, from, size, cudaMemcpyHostToDevice, stream);
}

synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    return transfer_bytes(device, to, from, to, size, cudaMemcpyDeviceToHost, stream);
}

synced_mem_status sm_device_copy_d2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    struct before before;
    SM_TRY(make_current(device, &before));
    return leave_device(
        device, &before,
        check_code(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync", device, size));
}

synced_mem_status sm_device_copy_any(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    return transfer_extents(device, to, from, size, cudaMemcpyDefault, stream);
}

synced_mem_status sm_device_copy_peer(int device, void *to, int to_device, const void *from, int from_device,
                                      size_t size, synced_mem_stream stream)
{
    struct before before;
    SM_TRY(make_current(device, &before));
    return leave_device(device, &before,
                        check_code(cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream),
                                   "cudaMemcpyPeerAsync", device, size));
}

/* Mapped memory too may have been registered in extents. */
synced_mem_status sm_device_fill(int device, void *data, unsigned char value, size_t size, synced_mem_stream stream)
{
    struct before before;
    size_t done = 0;
    synced_mem_status status = make_current(device, &before);
    if (status != SYNCED_MEM_OK)
        return status;
    do {
        char *const from = (char *)data + done;
        const size_t extent = sm_cuda_in_extent(from, size - done);
        status = check_code(cudaMemsetAsync(from, value, extent, stream), "cudaMemsetAsync", device, size);
        if (status != SYNCED_MEM_OK && done > 0)
            status = wait_for_queued_parts(device, stream, status);
        done += extent;
    } while (status == SYNCED_MEM_OK && done < size);
    return leave_device(device, &before, status);
}
