/* Replaces backend_gpu.cu in a build without CUDA. */
#include "backend.h"
#include "failure.h"

bool backend_gpu_built(void)
{
    return false;
}

int backend_gpu_count(void)
{
    return 0;
}

bool backend_open_gpu(struct backend *backend, int device)
{
    (void)backend;
    return fail("device %d: this program was built without CUDA and computes on the CPU only", device);
}
