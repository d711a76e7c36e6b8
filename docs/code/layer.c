/* A layer that reads and writes blobs: on the GPU if there is one, otherwise on the CPU. */
#include "blob.h"
#include "check.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <string.h>

/* [forward] */
/* Stands for a layer: copies the input to the output instead of computing. */
static bool forward(const struct blob *in, const struct blob *out, cudaStream_t stream)
{
    if (synced_mem_device_count() > 0) {
        const void *const from = synced_mem_gpu_data_on(in->data, stream);
        void *const to = synced_mem_overwrite_gpu_data_on(out->data, stream); /* all bytes are written: no transfer */
        return from && to && cudaMemcpyAsync(to, from, blob_bytes(in), cudaMemcpyDeviceToDevice, stream) == cudaSuccess;
    }
    const void *const from = synced_mem_cpu_data(in->data);
    void *const to = synced_mem_overwrite_cpu_data(out->data);
    if (from && to)
        memcpy(to, from, blob_bytes(in));
    return from && to;
}
/* [end] */

/* [zero_grad] */
static bool zero_grad(const struct blob *blob, cudaStream_t stream)
{
    if (synced_mem_device_count() > 0) {
        void *const grad = synced_mem_overwrite_gpu_data_on(blob->grad, stream);
        return grad && cudaMemsetAsync(grad, 0, blob_bytes(blob), stream) == cudaSuccess;
    }
    void *const grad = synced_mem_overwrite_cpu_data(blob->grad);
    if (grad)
        memset(grad, 0, blob_bytes(blob));
    return grad != NULL;
}
/* [end] */

int main(void)
{
    cudaStream_t stream = NULL;
    const bool gpu = synced_mem_device_count() > 0;
    CHECK(!gpu || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);

    /* [use] */
    struct blob in, out;
    CHECK(blob_make(&in, "in", 0) && blob_make(&out, "out", 0));
    CHECK(blob_reshape(&in, 2, (const int[]){4, 8}) && blob_reshape(&out, 2, (const int[]){4, 8}));

    float *const values = synced_mem_overwrite_cpu_data(in.data);
    CHECK(values);
    for (size_t i = 0; i < in.count; i++)
        values[i] = (float)i;
    CHECK(forward(&in, &out, stream));
    CHECK(zero_grad(&out, stream));

    const float *const result = synced_mem_cpu_data(out.data); /* waits for the kernel, then transfers */
    CHECK(result && result[0] == 0 && result[31] == 31);
    /* [end] */
    CHECK(((const float *)synced_mem_cpu_data(out.grad))[31] == 0);

    /* The blob becomes smaller and larger again, and its memory stays. Then it shares the values of the other blob. */
    const size_t capacity = synced_mem_cpu_capacity(in.data);
    CHECK(blob_reshape(&in, 1, (const int[]){3}));
    CHECK(synced_mem_head(in.data) == SYNCED_MEM_UNINITIALIZED && synced_mem_cpu_capacity(in.data) == capacity);
    CHECK(!blob_share_data(&in, &out)); /* the sizes differ */
    CHECK(!blob_reshape(&in, 3, (const int[]){INT_MAX, INT_MAX, INT_MAX}) && in.count == 3);
    CHECK(blob_reshape(&in, 1, (const int[]){32}) && blob_share_data(&in, &out));
    CHECK(synced_mem_cpu_data(in.data) == result);

    blob_free(&in);
    CHECK(result[31] == 31); /* the other blob still has a reference */
    blob_free(&out);
    if (gpu) {
        CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
        CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
