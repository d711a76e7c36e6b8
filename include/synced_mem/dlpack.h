/**
 * @file
 * Exchange of tensors with other libraries by DLPack: an object's memory as a tensor, or a tensor as an object.
 * synced_mem.h has the defaults, and does not include this file. Details: docs/guide/other_libraries.md.
 *
 * Source: github.com/dmlc/dlpack, include/dlpack/dlpack.h, versions 1.0 to 1.3, which has the two structs.
 */
#ifndef SYNCED_MEM_DLPACK_H
#define SYNCED_MEM_DLPACK_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensorVersioned;
struct DLManagedTensor;

/* ---- Tensors out ---- */
/*
 * A tensor has the first bytes of an object, compact and row-major. Making it is an access, and its data is the
 * pointer, for which the one rule holds. The tensor holds a reference to the object. Until its deleter is called, calls
 * that would resize, replace or release the memory (of a view's root too) return ERR_INVALID_STATE.
 *
 * Blocking: until the contents have arrived, if the access has no stream. The deleter may block, and call callbacks.
 *
 * Ownership: the caller passes the tensor on, or calls its deleter once, in any thread.
 *
 * Errors: those of the access; ERR_INVALID_ARGUMENT (also more bytes than the object has).
 */

/** A tensor to make. */
typedef struct synced_mem_dlpack_options {
    size_t struct_size;
    /** Of the access. */
    synced_mem_side side;
    synced_mem_mode mode; /**< of the access; SYNCED_MEM_READ makes a read-only tensor */
    /** Of DLDataType: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, 7 to 17 float of 4 to 8 bits. */
    uint8_t type_code;
    uint8_t type_bits;    /**< of one lane */
    uint16_t type_lanes;  /**< at most 64; 0: 1 */
    int32_t ndim;         /**< dimensions, at most 64; 0: one element */
    const int64_t *shape; /**< outermost first; NULL only without dimensions */
    /** The consumer's for the device copy. SYNCED_MEM_NO_STREAM: an access without a stream. */
    synced_mem_stream stream;
} synced_mem_dlpack_options;

/** Makes a tensor of version 1.0. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_to_dlpack(struct DLManagedTensorVersioned **out, synced_mem *mem,
                                                      const synced_mem_dlpack_options *options);

/** Makes a tensor in the legacy struct, which can't be read-only, for old consumers such as NumPy before 2.1.
 * Errors: ERR_INVALID_ARGUMENT (also for SYNCED_MEM_READ). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_to_dlpack_legacy(struct DLManagedTensor **out, synced_mem *mem,
                                                             const synced_mem_dlpack_options *options);

/* ---- Tensors in ---- */
/*
 * The new object has all elements of the tensor. It adopts the memory, with the deleter as the callback; without a
 * deleter it borrows it.
 *
 * Ownership: after success the tensor is the library's, not to be read, and the object the caller's; after a failure
 * the tensor is unchanged and the caller's.
 *
 * Errors: those of synced_mem_create() and synced_mem_use_memory(); ERR_INVALID_ARGUMENT (the tensor is refused:
 * docs/guide/other_libraries.md, "A tensor as an object").
 */

/** Makes an object of a tensor of version 1, with the flag SYNCED_MEM_MEMORY_READ_ONLY if it is read-only.
 * @param stream  in whose order the contents are ready; NULL: host memory is ready, device memory is filled by work on
 *                the legacy stream or on blocking streams @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_from_dlpack(synced_mem **out, struct DLManagedTensorVersioned *tensor,
                                                        synced_mem_stream stream, const synced_mem_options *options);

/** Makes an object of a tensor in the legacy struct, which may be written. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_from_dlpack_legacy(synced_mem **out, struct DLManagedTensor *tensor,
                                                               synced_mem_stream stream,
                                                               const synced_mem_options *options);

#ifdef __cplusplus
}
#endif

#endif
