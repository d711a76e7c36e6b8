/**
 * @file
 * Exchange of tensors with other libraries by DLPack. An object's memory can become a tensor, and a tensor can
 * become an object; both use the same memory. NumPy, PyTorch, CuPy, JAX and others read and make such tensors.
 * synced_mem.h has the defaults that hold for every function, and does not include this file:
 * docs/guide/other_libraries.md.
 *
 * This header includes no header of DLPack. It declares DLPack's two structs by name: DLManagedTensorVersioned of
 * version 1, and DLManagedTensor, the legacy struct of earlier versions. A tensor's type is that of DLDataType.
 *
 * Source: github.com/dmlc/dlpack, include/dlpack/dlpack.h, versions 1.0 to 1.3.
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

/** A tensor to make. A member that is zero is at its default. */
typedef struct synced_mem_dlpack_options {
    size_t struct_size; /**< sizeof(synced_mem_dlpack_options) */
    /** Whose memory the tensor has; no default. On the host it is of kDLCPU, also if the memory is page-locked, mapped
     * or managed; on the device of kDLCUDA, with the number of the object's device. */
    synced_mem_side side;
    /** The consumer's access. SYNCED_MEM_READ, the default, sets DLPack's flag for read-only memory. */
    synced_mem_mode mode;
    uint8_t type_code;    /**< of DLDataType: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, or 7 to 17:
                                  * floating point of 4 to 8 bits */
    uint8_t type_bits;    /**< bits of one lane; has no default */
    uint16_t type_lanes;  /**< at most 64; 0: 1 */
    int32_t ndim;         /**< number of dimensions, at most 64; 0: one element */
    const int64_t *shape; /**< ndim sizes, outermost first; may be NULL if ndim is 0 */
    /** The stream on which the consumer uses the device copy. NULL: the legacy stream. SYNCED_MEM_NO_STREAM: an access
     * without a stream. Ignored for the host copy. */
    synced_mem_stream stream;
} synced_mem_dlpack_options;

/** Makes a tensor of the first bytes of an object or view. The call is an access in the mode, and the tensor's data is
 * its pointer, so the one rule holds: the consumer may use the tensor until the next conflicting call on the object,
 * which waits for work that the consumer has queued on the stream. The tensor is compact and row-major; elements of
 * less than 8 bits are packed. Its strides are never NULL, its byte_offset is 0, and its data is NULL without elements.
 *
 * The memory stays until the tensor's deleter is called. Calls that would replace or release it return
 * ERR_INVALID_STATE until then, also those that would replace it because it is read-only, and any resize. A tensor of a
 * view keeps the memory of its root, and a tensor of a root that of all views.
 * @param out      receives the tensor, of version 1.0; NULL after a failure
 * @param mem      the tensor holds a reference to it, so that it is alive for synced_mem_shutdown()
 * @param options  its side, mode, type and shape
 * Blocking: until the contents of that access have arrived. Ownership: the caller passes the tensor on, or calls its
 * deleter, once, in any thread at any time. The deleter never fails. It releases the reference, so it may block and
 * call callbacks; in a turn the last reference waits for all work on the object. If that release fails, the object
 * stays alive. In a forked child the deleter frees the child's copy of the tensor. Errors: those of the access;
 * ERR_INVALID_ARGUMENT (options is not valid, the type is not known, ndim is not 0 to 64, a size is negative, the
 * elements have more bytes than the object); ERR_OUT_OF_HOST_MEMORY. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_to_dlpack(struct DLManagedTensorVersioned **out, synced_mem *mem,
                                                      const synced_mem_dlpack_options *options);

/** Makes a tensor in the legacy struct, for consumers that read no other, such as NumPy before 2.1. That struct cannot
 * say that a tensor is read-only, so SYNCED_MEM_READ is refused. In all else the tensor is one of version 1.0.
 * Blocking: until the contents of the access have arrived. Ownership: the caller passes the tensor on, or calls its
 * deleter, once. Errors: those of the access; ERR_INVALID_ARGUMENT (options, type or shape are not valid, or the mode
 * is SYNCED_MEM_READ); ERR_OUT_OF_HOST_MEMORY. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_to_dlpack_legacy(struct DLManagedTensor **out, synced_mem *mem,
                                                             const synced_mem_dlpack_options *options);

/* ---- Tensors in ---- */

/** Makes an object that adopts the memory of a tensor, whose deleter is the callback: it is called once, when all work
 * on the memory has finished. The object's size is that of all elements; elements of less than 8 bits are packed unless
 * the tensor has DLPack's flag for padding. The head is AT_CPU (kDLCPU, kDLCUDAHost) or AT_GPU (kDLCUDA,
 * kDLCUDAManaged). The CUDA runtime is queried for the device, and the tensor's number is not used. Memory of a
 * read-only tensor is used with SYNCED_MEM_MEMORY_READ_ONLY. A tensor without a deleter is borrowed memory. If a tensor
 * has no elements, the head is UNINITIALIZED, and the deleter is called before this returns. Several objects may adopt
 * one memory; the library orders nothing between them.
 * @param out      receives the object, with one reference; NULL after a failure
 * @param tensor   of version 1. Read its type and shape before this call. Of another version only the number is read
 * @param stream   in whose order the contents are ready; NULL: they are ready on the host, and device memory is filled
 *                 on the legacy stream or on blocking streams
 * @param options  of the object; NULL for the defaults
 * Ownership: after success the tensor is the library's, and the object the caller's. After a failure the tensor is
 * unchanged and still the caller's, and its deleter was not called. Errors: those of synced_mem_create() and
 * synced_mem_use_memory(); ERR_INVALID_ARGUMENT (another major version; a device, type or number of lanes that is not
 * known, or opaque handles; ndim is not 0 to 64; a size is negative; strides that are not compact and row-major; the
 * elements have too many bytes, or their addresses overflow; data is NULL). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_from_dlpack(synced_mem **out, struct DLManagedTensorVersioned *tensor,
                                                        synced_mem_stream stream, const synced_mem_options *options);

/** Makes an object that adopts the memory of a tensor in the legacy struct. That struct has no version and no flags:
 * the memory may be written. In all else the tensor is used like one of version 1.
 * Ownership: after success the tensor is the library's, and the object the caller's; after a failure the tensor is
 * unchanged and still the caller's. Errors: those of synced_mem_create() and synced_mem_use_memory();
 * ERR_INVALID_ARGUMENT (the tensor is not one that can be an object's memory). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_from_dlpack_legacy(synced_mem **out, struct DLManagedTensor *tensor,
                                                               synced_mem_stream stream,
                                                               const synced_mem_options *options);

#ifdef __cplusplus
}
#endif

#endif
