/**
 * @file
 * Memory of the caller's, user allocators, and facts of an object's memory. Defaults: synced_mem.h. Details:
 * docs/guide/memory.md.
 */
#ifndef SYNCED_MEM_MEMORY_H
#define SYNCED_MEM_MEMORY_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Memory handed in ---- */
/*
 * An object can use memory of the caller's. Borrowed memory must stay until a call that replaces or releases it, or the
 * object, has returned. Adopted memory is the object's until its callback.
 *
 * A call gives up the memory that it replaces; a copy without new memory becomes stale. An object without a device
 * takes that of device memory.
 *
 * Errors: ERR_INVALID_ARGUMENT (no memory, of the wrong kind, not aligned as in the options, or this object's own);
 * ERR_INVALID_STATE (a view; unified placement; memory exported as a tensor; another thread enlarged the object);
 * ERR_CUDA (a wait for replaced memory failed); with device memory, a stream or SYNCED_MEM_MEMORY_PAGE_LOCK GPU errors
 * (ERR_INVALID_DEVICE: memory of another device).
 */

/** Called once for each adopted pointer, after the work on it, in any call that may wait or allocate, with NULL as
 * stream. */
typedef void (*synced_mem_release_callback)(void *data, void *user, synced_mem_stream stream);

/** Borrows writable host memory, at least synced_mem_size() bytes, as the host copy: AT_CPU.
 * Source: Caffe, SyncedMemory::set_cpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data);

/** Borrows device or managed memory, at least synced_mem_size() bytes, filled by work on the legacy stream or on
 * blocking streams, as the device copy: AT_GPU.
 * Source: Caffe, SyncedMemory::set_gpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data);

/** Page-locks the host memory while the object uses it. The unlocking may wait for the device. */
#define SYNCED_MEM_MEMORY_PAGE_LOCK 1u

/** The library never writes the memory. A call that has to write replaces it first, which conflicts with all accesses
 * to that side, may block, and may return ERR_INVALID_STATE or ERR_CAPTURING: docs/guide/memory.md. @since 0.2 */
#define SYNCED_MEM_MEMORY_READ_ONLY 2u

/** Memory of the caller's, and its use. Members may be 0. */
typedef struct synced_mem_memory {
    size_t struct_size;
    /** Host memory, at least synced_mem_size() bytes, writable unless the flags say otherwise. NULL: the host copy
     * keeps its memory. */
    void *cpu_data;
    /** Likewise for the device copy: device or managed memory on the object's device. */
    void *gpu_data;
    /** NULL: the memory is borrowed; else adopted. */
    synced_mem_release_callback callback;
    void *user; /**< yours, for the callback */
    /** Accesses wait for the work queued on it up to now; name the legacy stream cudaStreamLegacy. NULL: accesses to
     * device memory wait for work on the legacy stream and on blocking streams. */
    synced_mem_stream stream;
    unsigned flags; /**< SYNCED_MEM_MEMORY_PAGE_LOCK, SYNCED_MEM_MEMORY_READ_ONLY, or both */
} synced_mem_memory;

/** Makes memory of the caller's the host copy (AT_CPU), the device copy (AT_GPU), or both (SYNCED, with equal
 * contents).
 * Blocking: to page-lock. Ownership: the library adopts memory only on success. Errors: ERR_INVALID_ARGUMENT (also one
 * pointer for both, or no host memory to page-lock); ERR_OUT_OF_HOST_MEMORY (also a limit of locked memory); ERR_CUDA
 * (also if a part is page-locked, or it can't be). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_use_memory(synced_mem *mem, const synced_mem_memory *memory);

/* ---- Allocators ---- */

/** All memory of this host allocator is page-locked. */
#define SYNCED_MEM_ALLOCATOR_PINNED 1u

/** A user allocator for host or device memory: docs/guide/memory.md, "User allocators". */
struct synced_mem_allocator {
    size_t struct_size;
    /** Returns size bytes, at least 1, aligned; NULL: ERR_OUT_OF_HOST_MEMORY or ERR_OUT_OF_DEVICE_MEMORY. */
    void *(*alloc)(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    /** Takes back memory of alloc. */
    void (*free)(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    void *user;     /**< yours, for both */
    unsigned flags; /**< 0, or SYNCED_MEM_ALLOCATOR_PINNED */
};

/** Sets the allocators for objects without their own; NULL (the default): the library's. Existing memory stays. A call
 * that gets memory of the wrong kind, device or alignment returns ERR_INVALID_STATE.
 * Ownership: functions and user pointers must stay until all objects with their memory are gone and
 * synced_mem_shutdown() has returned, which resets both. Errors: ERR_INVALID_ARGUMENT (also no function). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_allocators(const synced_mem_allocator *cpu,
                                                           const synced_mem_allocator *gpu);

/* ---- Facts of an object ---- */
/*
 * In a forked child a parent's object has the sources, capacities and page-locking of NULL.
 */

/** Returns the CUDA device; SYNCED_MEM_DEVICE_CURRENT if there is none yet, and for NULL. @since 0.1 */
SYNCED_MEM_API int synced_mem_device(const synced_mem *mem);

/** Returns the user pointer of the options. @since 0.1 */
SYNCED_MEM_API void *synced_mem_user(const synced_mem *mem);

/** Returns the name, good as long as the object; "" without one. @since 0.1 */
SYNCED_MEM_API const char *synced_mem_name(const synced_mem *mem);

/** The source of a copy's memory: the library, unless another is named. */
typedef enum synced_mem_source {
    SYNCED_MEM_SOURCE_NONE = 0,      /**< no memory */
    SYNCED_MEM_SOURCE_PAGEABLE = 1,  /**< pageable */
    SYNCED_MEM_SOURCE_PINNED = 2,    /**< page-locked */
    SYNCED_MEM_SOURCE_DEVICE = 3,    /**< on the device */
    SYNCED_MEM_SOURCE_BORROWED = 4,  /**< the caller's, without a callback */
    SYNCED_MEM_SOURCE_ADOPTED = 5,   /**< the caller's, with a callback */
    SYNCED_MEM_SOURCE_ALLOCATOR = 6, /**< from a user allocator */
    SYNCED_MEM_SOURCE_MAPPED = 7,    /**< page-locked, for both sides */
    SYNCED_MEM_SOURCE_MANAGED = 8,   /**< managed, for both sides */
    SYNCED_MEM_SOURCE_SHAREABLE = 9  /**< of a shareable object */
} synced_mem_source;

/** Returns the source of the host copy's memory. @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_cpu_source(const synced_mem *mem);

/** Returns the source of the device copy's memory. @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_gpu_source(const synced_mem *mem);

/** Returns 1 if the host copy is known to be page-locked, else 0. @since 0.1 */
SYNCED_MEM_API int synced_mem_cpu_is_pinned(const synced_mem *mem);

/** Sets arrived to 1 if the side is valid, in all parts, and no transfer or fill to it is pending, nor work of the
 * stream in synced_mem_memory; else to 0. Kernels, and transfers that read the side, do not count. Unified sides arrive
 * at once.
 * Errors: ERR_DEVICE_LOST; the reason of a failed staged transfer. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_has_arrived(synced_mem *mem, synced_mem_side side, int *arrived);

/** Returns the capacity of the host copy: of a view with bytes its size, 0 without a copy. @since 0.1 */
SYNCED_MEM_API size_t synced_mem_cpu_capacity(const synced_mem *mem);

/** Returns the capacity of the device copy: of a view with bytes its size, 0 without a copy. @since 0.1 */
SYNCED_MEM_API size_t synced_mem_gpu_capacity(const synced_mem *mem);

/** Returns the placement in effect, or that of the options before memory is used. A unified object that the host uses
 * without a device is SEPARATE. @since 0.1 */
SYNCED_MEM_API synced_mem_placement_kind synced_mem_placement(const synced_mem *mem);

#ifdef __cplusplus
}
#endif

#endif
