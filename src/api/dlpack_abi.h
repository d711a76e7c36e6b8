/*
 * The binary interface of DLPack, versions 1.0 to 1.3 and the legacy struct, in the library's own declarations. Only
 * the names of the two managed tensors are DLPack's, since the public header declares them.
 * Source: github.com/dmlc/dlpack, include/dlpack/dlpack.h.
 */
#ifndef SM_DLPACK_ABI_H
#define SM_DLPACK_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { SM_DL_MAJOR = 1, SM_DL_MINOR = 0 }; /* of the tensors that the library makes */

enum sm_dl_device_type { SM_DL_CPU = 1, SM_DL_CUDA = 2, SM_DL_CUDA_HOST = 3, SM_DL_CUDA_MANAGED = 13 };

enum sm_dl_code {
    SM_DL_INT = 0,
    SM_DL_UINT = 1,
    SM_DL_FLOAT = 2,
    SM_DL_OPAQUE = 3,
    SM_DL_BFLOAT = 4,
    SM_DL_COMPLEX = 5,
    SM_DL_BOOL = 6,
    SM_DL_FLOAT8_FIRST = 7, /* floating point numbers of 8 bits, in several formats */
    SM_DL_FLOAT8_LAST = 14,
    SM_DL_FLOAT6_FIRST = 15,
    SM_DL_FLOAT6_LAST = 16,
    SM_DL_FLOAT4 = 17
};

/* Bits of a versioned tensor's flags. */
#define SM_DL_READ_ONLY UINT64_C(1)
#define SM_DL_PADDED UINT64_C(4) /* each element of less than 8 bits has a byte of its own */

struct sm_dl_version {
    uint32_t major;
    uint32_t minor;
};

struct sm_dl_device {
    int32_t type; /* enum sm_dl_device_type */
    int32_t id;
};

struct sm_dl_type {
    uint8_t code; /* enum sm_dl_code */
    uint8_t bits; /* of one lane */
    uint16_t lanes;
};

struct sm_dl_tensor {
    void *data;
    struct sm_dl_device device;
    int32_t ndim;
    struct sm_dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: compact and row-major */
    uint64_t byte_offset;
};

struct DLManagedTensorVersioned {
    struct sm_dl_version version;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct sm_dl_tensor tensor;
};

struct DLManagedTensor {
    struct sm_dl_tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self);
};

_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(struct sm_dl_tensor) == 48 && offsetof(struct sm_dl_tensor, ndim) == 16 &&
                    offsetof(struct sm_dl_tensor, type) == 20 && offsetof(struct sm_dl_tensor, shape) == 24 &&
                    offsetof(struct sm_dl_tensor, byte_offset) == 40),
               "the layout is DLPack's");
_Static_assert(sizeof(void *) != 8 || (sizeof(struct DLManagedTensorVersioned) == 80 &&
                                       offsetof(struct DLManagedTensorVersioned, deleter) == 16 &&
                                       offsetof(struct DLManagedTensorVersioned, tensor) == 32),
               "the layout is DLPack's");
_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(struct DLManagedTensor) == 64 && offsetof(struct DLManagedTensor, deleter) == 56),
               "the layout is DLPack's");

#endif
