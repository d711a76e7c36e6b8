/* cudaMallocHost, of CUDA's runtime or of the emulated one: EMULATED says which. */
#include "reference.h"

#include <cuda_runtime_api.h>

bool reference_start(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 && cudaFree(NULL) == cudaSuccess;
}

bool reference_is_emulated(void)
{
    return EMULATED;
}

void *reference_alloc(size_t size)
{
    void *data = NULL;
    return cudaMallocHost(&data, size) == cudaSuccess ? data : NULL;
}

void reference_free(void *data)
{
    (void)cudaFreeHost(data);
}
