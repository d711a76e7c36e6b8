// The host code of a framework, in C++. It uses the types, templates and default arguments of a toolkit's headers, and is
// only compiled.
#include <cuda_runtime.h>

struct Launch {
    dim3 grid, block;
    cudaStream_t stream;
};

__host__ __device__ inline float4 twice(float4 value)
{
    value.x *= 2;
    return value;
}

__global__ void kernel(float *data);

cudaError_t use_types(Launch &launch);
cudaError_t use_types(Launch &launch)
{
    const cudaDataType type = CUDA_R_32F;
    cudaDeviceProp properties;
    cudaPointerAttributes attributes;
    launch.grid = dim3(16, 2);
    launch.block = 256;
    launch.block.x += static_cast<unsigned>(type) + static_cast<unsigned>(twice(float4()).x);
    cudaError_t error = cudaGetDeviceProperties(&properties, 0);
    if (error == cudaSuccess)
        error = cudaPointerGetAttributes(&attributes, &launch);
    return error;
}

cudaError_t use_calls(Launch &launch, cudaMemPool_t pool);
cudaError_t use_calls(Launch &launch, cudaMemPool_t pool)
{
    float *data = 0, *mapped = 0;
    double *host = 0;
    cudaEvent_t event;
    cudaGraph_t graph = 0;
    cudaGraphExec_t exec;
    cudaStreamCaptureStatus status;
    cudaError_t errors[] = {cudaMalloc(&data, sizeof *data),
                            cudaMallocManaged(&data, sizeof *data),
                            cudaMallocAsync(&data, sizeof *data, launch.stream),
                            cudaMallocFromPoolAsync(&data, sizeof *data, pool, launch.stream),
                            cudaMallocHost(&host, sizeof *host),
                            cudaHostAlloc(&host, sizeof *host, cudaHostAllocMapped),
                            cudaHostGetDevicePointer(&mapped, host, 0),
                            cudaMemcpyAsync(data, host, sizeof *data, cudaMemcpyHostToDevice),
                            cudaMemcpyPeerAsync(data, 0, mapped, 1, sizeof *data),
                            cudaMemsetAsync(data, 0, sizeof *data),
                            cudaEventCreate(&event, cudaEventDisableTiming),
                            cudaEventRecord(event),
                            cudaStreamWaitEvent(launch.stream, event),
                            cudaStreamGetCaptureInfo(launch.stream, &status),
                            cudaGraphInstantiate(&exec, graph)};
    for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i] != cudaSuccess)
            return errors[i];
    return cudaSuccess;
}
