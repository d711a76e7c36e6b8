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

/* host: the one of to and from that may have been registered in pieces. */
static synced_mem_status transfer_pieces(int device, char *to, const char *from, const char *host, size_t size,
                                         enum cudaMemcpyKind kind, synced_mem_stream stream)
{
    synced_mem_status status = SYNCED_MEM_OK;
    size_t done = 0;
    do {
        const size_t piece = sm_cuda_in_piece(host + done, size - done);
        status =
            check_code(cudaMemcpyAsync(to + done, from + done, piece, kind, stream), "cudaMemcpyAsync", device, size);
        if (status != SYNCED_MEM_OK)
            return done > 0 ? wait_for_queued_parts(device, stream, status) : status;
        done += piece;
    } while (done < size);
    return SYNCED_MEM_OK;
}

static synced_mem_status transfer_bytes(int device, void *to, const void *from, const void *host, size_t size,
                                        enum cudaMemcpyKind kind, synced_mem_stream stream)
{
    struct before before;
    SM_TRY(make_current(device, &before));
    return leave_device(device, &before, transfer_pieces(device, to, from, host, size, kind, stream));
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

static synced_mem_status transfer_any_pieces(int device, char *to, const char *from, size_t size,
                                             synced_mem_stream stream)
{
    synced_mem_status status = SYNCED_MEM_OK;
    size_t done = 0;
    do {
        const size_t piece = sm_cuda_in_piece(from + done, sm_cuda_in_piece(to + done, size - done));
        status = check_code(cudaMemcpyAsync(to + done, from + done, piece, cudaMemcpyDefault, stream),
                            "cudaMemcpyAsync", device, size);
        if (status != SYNCED_MEM_OK)
            return done > 0 ? wait_for_queued_parts(device, stream, status) : status;
        done += piece;
    } while (done < size);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_device_copy_any(int device, void *to, const void *from, size_t size, synced_mem_stream stream)
{
    struct before before;
    SM_TRY(make_current(device, &before));
    return leave_device(device, &before, transfer_any_pieces(device, to, from, size, stream));
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

static synced_mem_status fill_pieces(int device, char *data, unsigned char value, size_t size, synced_mem_stream stream)
{
    synced_mem_status status = SYNCED_MEM_OK;
    size_t done = 0;
    do {
        const size_t piece = sm_cuda_in_piece(data + done, size - done);
        status = check_code(cudaMemsetAsync(data + done, value, piece, stream), "cudaMemsetAsync", device, size);
        if (status != SYNCED_MEM_OK)
            return done > 0 ? wait_for_queued_parts(device, stream, status) : status;
        done += piece;
    } while (done < size);
    return SYNCED_MEM_OK;
}

/* Mapped memory too may have been registered in pieces. */
synced_mem_status sm_device_fill(int device, void *data, unsigned char value, size_t size, synced_mem_stream stream)
{
    struct before before;
    const synced_mem_status status = make_current(device, &before);
    return status != SYNCED_MEM_OK ? status
                                   : leave_device(device, &before, fill_pieces(device, data, value, size, stream));
}
