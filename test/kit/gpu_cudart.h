/* Shared by the files for the real and the emulated runtime. MUST: a call of the CUDA runtime that must succeed. */
#ifndef GPU_CUDART_H
#define GPU_CUDART_H

#include "check_kit.h"
#include <cuda_runtime_api.h>
#include <stdbool.h>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t code_ = (call);                                                                              \
        ck_assert_msg(code_ == cudaSuccess, "%s: %s", #call, cudaGetErrorName(code_));                                 \
    } while (0)

/* Returns whether a stream is held. */
bool gpu_is_held(void);

#endif
