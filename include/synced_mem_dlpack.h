/**
 * @file
 * Exchange of tensors with other libraries by DLPack. An object's memory can become a tensor, and a tensor can become
 * an object. Both use the same memory. NumPy, PyTorch, CuPy, JAX and others read and make such tensors. synced_mem.h
 * explains the words. Details: docs/guide/other_libraries.md.
 *
 * This header includes no header of DLPack. It declares DLPack's two structs by name: DLManagedTensorVersioned of
 * version 1, and DLManagedTensor, the legacy struct of earlier versions. A tensor's type is that of DLDataType.
 * Source: github.com/dmlc/dlpack, include/dlpack/dlpack.h, versions 1.0 to 1.3.
 */
#ifndef SYNCED_MEM_DLPACK_H
#define SYNCED_MEM_DLPACK_H

#include "synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensorVersioned;
struct DLManagedTensor;

/* ---- Tensors out ---- */

/** A tensor to make. A member that is zero is at its default. */
typedef struct synced_mem_dlpack_options {
    size_t struct_size; /**< sizeof(synced_mem_dlpack_options) */
    /** The copy whose memory the tensor has; no default. The values are those of DLDeviceType for the tensor's device:
     * kDLCPU, also if host memory is page-locked, mapped or managed, or kDLCUDA with the number of the object's CUDA
     * device. */
    synced_mem_side side;
    /** The access that the tensor's consumer makes; SYNCED_MEM_READ by default: the tensor then has DLPack's flag for
     * read-only memory. */
    synced_mem_mode mode;
    uint8_t type_code;    /**< of DLDataType: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, or 7 to 17:
                                  * floating point of 4 to 8 bits */
    uint8_t type_bits;    /**< bits of one lane; has no default */
    uint16_t type_lanes;  /**< at most 64; 0: 1 */
    int32_t ndim;         /**< number of dimensions, at most 64; 0: one element */
    const int64_t *shape; /**< ndim sizes, outermost first; may be NULL if ndim is 0 */
    /** The stream on which the consumer uses the device copy, as for synced_mem_gpu_data_on(). NULL: the legacy stream.
     * SYNCED_MEM_NO_STREAM: an access without a stream, as synced_mem_gpu_data(). Ignored for the host copy. */
    synced_mem_stream stream;
} synced_mem_dlpack_options;

/** Makes a tensor of the first bytes of an object or view. The call is an access with the mode, and the tensor's data
 * is the pointer of that access. The one rule holds for the tensor: the consumer may use it until the next conflicting
 * call on the object, and needs a new tensor after that call. Such a call waits for work that the consumer has queued
 * on the stream. The tensor is compact and row-major; elements of less than 8 bits are packed. Its strides are never
 * NULL, and its byte_offset is 0. Its data is NULL if it has no elements.
 *
 * Until the tensor's deleter is called, its memory stays. synced_mem_set_cpu_data(), synced_mem_use_memory(),
 * synced_mem_release_cpu_data(), synced_mem_release_data() and their siblings return ERR_INVALID_STATE if they would
 * replace or release that memory. So does any call that would replace it because it is read-only. synced_mem_resize()
 * and synced_mem_resize_discard() return ERR_INVALID_STATE in any case. A tensor of a view keeps the memory of its
 * root. A tensor of a root keeps the memory of all views.
 * @param out      receives the tensor, of version 1.0; NULL after a failure
 * @param mem      an object or view; the tensor holds a reference to it
 * @param options  its side, mode, type and shape
 * Blocking: as the access. Ownership: the tensor is the caller's, who passes it on, or calls its deleter, once. Any
 * thread may call the deleter at any time; it never fails. It drops the tensor's reference by synced_mem_release(), so
 * it may block and call callbacks. The last reference of a shareable object in a turn waits for all work on the object.
 * If that release fails, the object stays alive. In a forked child the deleter frees the child's copy of the tensor.
 * Until the deleter is called, the object is alive for synced_mem_shutdown(). Threads: safe. Errors: those of the
 * access; ERR_INVALID_ARGUMENT (out or mem is NULL, options is not valid, the type is not known, ndim is not 0 to 64, a
 * size is negative, the elements have more bytes than the object); ERR_OUT_OF_HOST_MEMORY. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_to_dlpack(struct DLManagedTensorVersioned **out, synced_mem *mem,
                                                      const synced_mem_dlpack_options *options);

/** As synced_mem_to_dlpack(), in the legacy struct, for consumers that read no other, such as NumPy before 2.1. That
 * struct cannot say that a tensor is read-only, so the mode must not be SYNCED_MEM_READ.
 * Blocking, ownership, threads: as synced_mem_to_dlpack(). Errors: as synced_mem_to_dlpack(); ERR_INVALID_ARGUMENT (the
 * mode is SYNCED_MEM_READ). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_to_dlpack_legacy(struct DLManagedTensor **out, synced_mem *mem,
                                                             const synced_mem_dlpack_options *options);

/* ---- Tensors in ---- */

/** Makes an object that adopts the memory of a tensor. The object's size is that of all elements. Elements of less than
 * 8 bits are packed unless the tensor has DLPack's flag for padding. The head is AT_CPU (kDLCPU, kDLCUDAHost) or AT_GPU
 * (kDLCUDA, kDLCUDAManaged). The tensor's device number is not used: the CUDA runtime is queried for the device of
 * device memory. The tensor's deleter is called once, as the callback of adopted memory is. By then the object no
 * longer uses the memory. All work of the library on it, and of the caller on streams of accesses, has finished. Memory
 * of a read-only tensor is as with SYNCED_MEM_MEMORY_READ_ONLY. A tensor without a deleter is borrowed memory. If a
 * tensor has no elements, the head is UNINITIALIZED, and the deleter is called before this returns. Several objects may
 * adopt one memory, as with synced_mem_use_memory().
 * @param out      receives the object, with one reference; NULL after a failure
 * @param tensor   of version 1. Read its type and shape before this call. Of another version only the number is read
 * @param stream   in whose order the contents are ready, as synced_mem_memory.stream
 * @param options  as for synced_mem_create(); NULL for the defaults
 * Blocking: as synced_mem_create() and synced_mem_use_memory(). Ownership: after success the tensor is the library's,
 * and the object the caller's. After a failure the tensor is unchanged and still the caller's, and its deleter was not
 * called. Threads: safe. Errors: those of synced_mem_create() and synced_mem_use_memory(); ERR_INVALID_ARGUMENT (out or
 * tensor is NULL; another major version; a device, type or number of lanes that is not known, or opaque handles; ndim
 * is not 0 to 64; a size is negative; strides that are not compact and row-major; the elements have too many bytes, or
 * their addresses overflow; data is NULL). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_from_dlpack(synced_mem **out, struct DLManagedTensorVersioned *tensor,
                                                        synced_mem_stream stream, const synced_mem_options *options);

/** As synced_mem_from_dlpack(), of the legacy struct. That struct has no version and no flags: the memory may be
 * written.
 * Blocking, ownership, threads, errors: as synced_mem_from_dlpack(). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_from_dlpack_legacy(synced_mem **out, struct DLManagedTensor *tensor,
                                                               synced_mem_stream stream,
                                                               const synced_mem_options *options);

#ifdef __cplusplus
}
#endif

#endif
