/*
 * DLPack's structs, versions 1.0 to 1.3, and the table of functions that 1.3 exchanges between extensions of Python.
 * The names of the two managed tensors are DLPack's, since the library's header declares them.
 * Source: github.com/dmlc/dlpack, include/dlpack/dlpack.h.
 */
#ifndef SM_DLPACK_STRUCTS_H
#define SM_DLPACK_STRUCTS_H

#include <stddef.h>
#include <stdint.h>

enum { SM_DL_MAJOR = 1, SM_DL_MINOR = 3 };

enum sm_dl_device_type { SM_DL_CPU = 1, SM_DL_CUDA = 2, SM_DL_CUDA_HOST = 3, SM_DL_CUDA_MANAGED = 13 };

/* Bits of a versioned tensor's flags. */
#define SM_DL_READ_ONLY UINT64_C(1)
#define SM_DL_IS_COPIED UINT64_C(2)

struct sm_dl_version {
    uint32_t major;
    uint32_t minor;
};

struct sm_dl_device {
    int32_t type; /* enum sm_dl_device_type */
    int32_t id;
};

struct sm_dl_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct sm_dl_tensor {
    void *data;
    struct sm_dl_device device;
    int32_t ndim;
    struct sm_dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: compact */
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

typedef void (*sm_dl_set_error)(void *context, const char *kind, const char *message);

/* The table of a type, in its attribute __dlpack_c_exchange_api__: a capsule of the name below. Functions return 0, or
 * -1 with an exception; the first one calls set_error instead. */
#define SM_DL_EXCHANGE_NAME "dlpack_exchange_api"
struct sm_dl_exchange {
    struct sm_dl_version version;
    struct sm_dl_exchange *previous; /* the table of an older major version, or NULL */
    int (*allocate)(struct sm_dl_tensor *prototype, struct DLManagedTensorVersioned **out, void *context,
                    sm_dl_set_error set_error);
    int (*tensor_of_object)(void *object, struct DLManagedTensorVersioned **out);
    int (*object_of_tensor)(struct DLManagedTensorVersioned *tensor, void **out);
    int (*borrow_tensor)(void *object, struct sm_dl_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
};

#endif
