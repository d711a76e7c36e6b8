/* DLPack's structs, in declarations of the tests' own.
 * Source: github.com/dmlc/dlpack, include/dlpack/dlpack.h. */
#ifndef DLPACK_STRUCTS_H
#define DLPACK_STRUCTS_H

#include <stdint.h>

struct tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct tensor tensor;
};

struct DLManagedTensor {
    struct tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self);
};

enum { TENSOR_READ_ONLY = 1, TENSOR_COPIED = 2, TENSOR_PADDED = 4 };
enum { TENSOR_CPU = 1, TENSOR_CUDA = 2, TENSOR_CUDA_HOST = 3, TENSOR_ROCM = 10, TENSOR_CUDA_MANAGED = 13 };
enum { TENSOR_INT, TENSOR_UINT, TENSOR_FLOAT, TENSOR_OPAQUE, TENSOR_BFLOAT, TENSOR_COMPLEX, TENSOR_BOOL };

#endif
