/**
 * @file
 * Memory of the caller's, user allocators, and facts of an object's memory. synced_mem.h has the defaults that hold for
 * every function. Details: docs/guide/memory.md.
 */
#ifndef SYNCED_MEM_MEMORY_H
#define SYNCED_MEM_MEMORY_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Memory handed in ---- */
/*
 * An object can use memory of the caller's. Borrowed memory stays the caller's, and must stay until a call that
 * replaces or releases it, or the object, has returned. Adopted memory is the object's until its callback.
 *
 * These calls give up the memory that they replace. A copy without new memory becomes stale. An object without a device
 * takes that of device memory. Each call returns ERR_INVALID_ARGUMENT for NULL data, data not aligned as in the
 * options, memory of the wrong kind, and memory that this object owns; ERR_INVALID_STATE for a view, with unified
 * placement, and if another thread enlarged the object meanwhile; ERR_CUDA if a wait for replaced memory failed;
 * ERR_OUT_OF_HOST_MEMORY; and ERR_FORKED.
 */

/** Called once for each adopted pointer, when all work on the memory has finished, in any call that may wait or
 * allocate.
 * @param data    the adopted pointer
 * @param user    the user pointer given with it
 * @param stream  NULL in this version */
typedef void (*synced_mem_release_callback)(void *data, void *user, synced_mem_stream stream);

/** Borrows data as the host copy; the head becomes AT_CPU.
 * @param data  at least synced_mem_size() bytes of host memory, readable and writable
 * Source: Caffe, SyncedMemory::set_cpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data);

/** Borrows data as the device copy; the head becomes AT_GPU.
 * @param data  at least synced_mem_size() bytes of device or managed memory on the object's device, filled by work on
 *              the legacy stream or on blocking streams
 * Errors: ERR_INVALID_DEVICE (memory of another device); other GPU errors.
 * Source: Caffe, SyncedMemory::set_gpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data);

/** Of synced_mem_memory: the library page-locks the host memory while the object uses it. To undo it, the CUDA runtime
 * may wait for the device. */
#define SYNCED_MEM_MEMORY_PAGE_LOCK 1u

/** Of synced_mem_memory, since 0.2: the library never writes the memory. A call that has to write replaces it first,
 * which conflicts with every access to that side, may block, and may fail with ERR_INVALID_STATE or ERR_CAPTURING:
 * docs/guide/memory.md, "Read-only memory". */
#define SYNCED_MEM_MEMORY_READ_ONLY 2u

/** Memory of the caller's, and how an object is to use it. A member may be zero. */
typedef struct synced_mem_memory {
    size_t struct_size; /**< sizeof(synced_mem_memory) */
    /** At least synced_mem_size() bytes of host memory, writable unless the flags say otherwise. NULL: the host copy
     * keeps its memory. */
    void *cpu_data;
    /** The same for the device copy: device or managed memory on the object's device. */
    void *gpu_data;
    /** NULL: the memory is borrowed. Otherwise it is adopted, with one call for each pointer. */
    synced_mem_release_callback callback;
    void *user; /**< yours, handed to the callback */
    /** Accesses wait for the work queued on it up to now; name the legacy stream cudaStreamLegacy. NULL: they wait for
     * work on the legacy stream and on blocking streams that fills device memory. */
    synced_mem_stream stream;
    unsigned flags; /**< 0, or any of SYNCED_MEM_MEMORY_PAGE_LOCK and SYNCED_MEM_MEMORY_READ_ONLY */
} synced_mem_memory;

/** Makes memory of the caller's the host copy (head AT_CPU), the device copy (AT_GPU), or both (SYNCED: the contents
 * must agree).
 * Blocking: to page-lock. Ownership: adopted memory is the library's after success; after a failure no callback is
 * called. Errors: ERR_INVALID_ARGUMENT (also no pointer, one pointer for both copies, an unknown flag,
 * SYNCED_MEM_MEMORY_PAGE_LOCK without host memory); with device memory, a stream or SYNCED_MEM_MEMORY_PAGE_LOCK GPU
 * errors: ERR_INVALID_DEVICE (memory of another device), ERR_OUT_OF_HOST_MEMORY (page-locked memory is limited),
 * ERR_CUDA (a part of it is page-locked, or it can't be), and others. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_use_memory(synced_mem *mem, const synced_mem_memory *memory);

/* ---- Allocators ---- */

/** Of an allocator of host memory: all of its memory is page-locked. */
#define SYNCED_MEM_ALLOCATOR_PINNED 1u

/** A user allocator for host memory or for device memory. Rules and arguments of its functions: docs/guide/memory.md,
 * "User allocators". */
struct synced_mem_allocator {
    size_t struct_size; /**< sizeof(synced_mem_allocator) */
    /** Returns size bytes, at least 1, aligned to alignment. NULL: no memory. */
    void *(*alloc)(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    /** Takes back memory from alloc, once. */
    void (*free)(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    void *user;     /**< yours, handed to both */
    unsigned flags; /**< 0, or SYNCED_MEM_ALLOCATOR_PINNED */
};

/** Sets the allocators for objects without their own; NULL (the default): the library's. Existing memory stays. If an
 * allocator returns NULL, the call that needs the memory returns ERR_OUT_OF_HOST_MEMORY or ERR_OUT_OF_DEVICE_MEMORY; if
 * it returns other memory than asked for, ERR_INVALID_STATE.
 * Ownership: functions and user pointers must stay usable until all objects with memory from them are gone and
 * synced_mem_shutdown() has returned, which resets both to NULL. Errors: ERR_INVALID_ARGUMENT (an unknown flag, a
 * function that is NULL); ERR_OUT_OF_HOST_MEMORY. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_allocators(const synced_mem_allocator *cpu,
                                                           const synced_mem_allocator *gpu);

/* ---- Facts of an object ---- */
/*
 * For NULL these record ERR_INVALID_ARGUMENT. In a forked child, sources, capacities and page-locking of a parent's
 * object are unknown: the value is that for NULL, with ERR_FORKED.
 */

/** The object's CUDA device.
 * @return its number; SYNCED_MEM_DEVICE_CURRENT while it has none, and for NULL @since 0.1 */
SYNCED_MEM_API int synced_mem_device(const synced_mem *mem);

/** The user pointer of the object's options.
 * @return it; NULL for NULL @since 0.1 */
SYNCED_MEM_API void *synced_mem_user(const synced_mem *mem);

/** The object's name.
 * @return good as long as the object is; "" without a name, and for NULL @since 0.1 */
SYNCED_MEM_API const char *synced_mem_name(const synced_mem *mem);

/** The source of a copy's memory. */
typedef enum synced_mem_source {
    SYNCED_MEM_SOURCE_NONE = 0,      /**< no memory on this side */
    SYNCED_MEM_SOURCE_PAGEABLE = 1,  /**< the library's, pageable */
    SYNCED_MEM_SOURCE_PINNED = 2,    /**< the library's, page-locked */
    SYNCED_MEM_SOURCE_DEVICE = 3,    /**< the library's, on the device */
    SYNCED_MEM_SOURCE_BORROWED = 4,  /**< the caller's, handed in without a callback */
    SYNCED_MEM_SOURCE_ADOPTED = 5,   /**< handed in with a callback */
    SYNCED_MEM_SOURCE_ALLOCATOR = 6, /**< from a user allocator */
    SYNCED_MEM_SOURCE_MAPPED = 7,    /**< the library's, page-locked, for both sides */
    SYNCED_MEM_SOURCE_MANAGED = 8,   /**< the library's, managed, for both sides */
    SYNCED_MEM_SOURCE_SHAREABLE = 9  /**< the library's, of a shareable object */
} synced_mem_source;

/** The source of the host copy's memory.
 * @return the source; NONE without a host copy, and for NULL @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_cpu_source(const synced_mem *mem);

/** The source of the device copy's memory.
 * @return the source; NONE without a device copy, and for NULL @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_gpu_source(const synced_mem *mem);

/** Reports whether the host copy is known to be page-locked.
 * @return 1 or 0; 0 without a host copy, for NULL, and if the runtime does not answer @since 0.1 */
SYNCED_MEM_API int synced_mem_cpu_is_pinned(const synced_mem *mem);

/** Sets arrived to 1 if the side is valid, in all parts, and no transfer or fill to it is pending, nor work that fills
 * memory of the caller's (synced_mem_memory.stream); else to 0. Transfers that read the side, and kernels, do not
 * count. Unified placement: both sides arrive at once.
 * Errors: ERR_INVALID_ARGUMENT (no such side); ERR_DEVICE_LOST; the reason of a failed staged transfer; ERR_FORKED.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_has_arrived(synced_mem *mem, synced_mem_side side, int *arrived);

/** The capacity of the host copy.
 * @return of a view its size; 0 without a copy, and for NULL @since 0.1 */
SYNCED_MEM_API size_t synced_mem_cpu_capacity(const synced_mem *mem);

/** The capacity of the device copy.
 * @return of a view its size; 0 without a copy, and for NULL @since 0.1 */
SYNCED_MEM_API size_t synced_mem_gpu_capacity(const synced_mem *mem);

/** The placement in effect; before the first use of memory decides it, that of the options.
 * @return the placement; SEPARATE for NULL, and for a unified object that the host used without a device @since 0.1 */
SYNCED_MEM_API synced_mem_placement_kind synced_mem_placement(const synced_mem *mem);

#ifdef __cplusplus
}
#endif

#endif
