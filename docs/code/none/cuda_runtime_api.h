/*
 * Replaces the CUDA Toolkit's header in builds of the examples without a GPU runtime. It defines the functions that the
 * examples call. Each returns cudaErrorNoDevice.
 */
#ifndef NONE_CUDA_RUNTIME_API_H
#define NONE_CUDA_RUNTIME_API_H

#include <stddef.h>

typedef enum cudaError { cudaSuccess = 0, cudaErrorNoDevice = 100 } cudaError_t;
typedef struct CUstream_st *cudaStream_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };

static inline cudaError_t cudaGetDevice(int *device)
{
    (void)device;
    return cudaErrorNoDevice;
}

static inline cudaError_t cudaMalloc(void **data, size_t size)
{
    (void)data;
    (void)size;
    return cudaErrorNoDevice;
}

static inline cudaError_t cudaFree(void *data)
{
    (void)data;
    return cudaErrorNoDevice;
}

static inline cudaError_t cudaMemset(void *data, int value, size_t size)
{
    (void)data;
    (void)value;
    (void)size;
    return cudaErrorNoDevice;
}

static inline cudaError_t cudaMemsetAsync(void *data, int value, size_t size, cudaStream_t stream)
{
    (void)stream;
    return cudaMemset(data, value, size);
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    (void)to;
    (void)from;
    (void)size;
    (void)kind;
    return cudaErrorNoDevice;
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    (void)stream;
    return cudaMemcpy(to, from, size, kind);
}

static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)stream;
    (void)flags;
    return cudaErrorNoDevice;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaErrorNoDevice;
}

static inline cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaErrorNoDevice;
}

#endif
