/* A step that is captured in a CUDA graph once and launched many times. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { SIZE = 1 << 16, STEPS = 5 };

int main(void)
{
    if (synced_mem_device_count() == 0)
        return SKIPPED;
    synced_mem *batch, *units;
    CHECK(synced_mem_create(&batch, SIZE, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_create(&units, SIZE, NULL) == SYNCED_MEM_OK);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);

    /* [capture] */
    /* Access before the capture: an access that needs memory, a transfer or another head can't be captured. */
    const void *const in = synced_mem_gpu_data_on(batch, stream);
    void *const out = synced_mem_overwrite_gpu_data_on(units, stream);
    CHECK(in && out);

    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(synced_mem_gpu_data_on(batch, stream) == in); /* the same call as in a step without a capture */
    CHECK(synced_mem_overwrite_gpu_data_on(units, stream) == out);
    CHECK(cudaMemcpyAsync(out, in, SIZE, cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
    CHECK(synced_mem_async_cpu_pull(units, stream) == SYNCED_MEM_ERR_CAPTURING); /* fails; the capture goes on */
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);

    cudaGraphExec_t step;
    CHECK(cudaGraphInstantiateWithFlags(&step, graph, 0) == cudaSuccess);
    /* [end] */

    /* [launch] */
    for (int i = 0; i < STEPS; i++) {
        memset(synced_mem_overwrite_cpu_data(batch), i, SIZE);
        CHECK(synced_mem_gpu_data_on(batch, stream) == in); /* queues the transfer before the launch */
        CHECK(synced_mem_overwrite_gpu_data_on(units, stream) == out);
        CHECK(cudaGraphLaunch(step, stream) == cudaSuccess);
        const char *const result = synced_mem_cpu_data(units); /* waits for the launch, then transfers */
        CHECK(result && result[SIZE - 1] == i);
    }
    /* [end] */

    CHECK(cudaGraphExecDestroy(step) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(synced_mem_release(batch) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(units) == SYNCED_MEM_OK);
    CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
