/* The C part of the toolkit's header of this name is the runtime interface; the rest of it is for nvcc. */
#ifndef CUDART_EMU_CUDA_RUNTIME_H
#define CUDART_EMU_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#endif
