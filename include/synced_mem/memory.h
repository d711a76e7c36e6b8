/**
 * @file
 * Memory of the caller's, user allocators, and facts of an object's memory. synced_mem.h has the defaults that
 * hold for every function. Details: docs/guide/memory.md.
 */
#ifndef SYNCED_MEM_MEMORY_H
#define SYNCED_MEM_MEMORY_H

#include "../synced_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Memory handed in ---- */
/*
 * An object can use memory of the caller's: borrowed memory stays the caller's, and adopted memory is the object's
 * until its callback. It must not be unmapped, freed or unregistered while an object uses it. The library queries the
 * CUDA runtime about it, so that pushes and pulls of page-locked memory return at once; host memory alone starts
 * nothing of CUDA, unless the placement is automatic. Several objects may use one memory; the library orders nothing
 * between them.
 *
 * These calls give up the memory that they replace. A copy without new memory becomes stale and keeps its memory. They
 * return ERR_INVALID_ARGUMENT for NULL data, data not aligned as in the options, memory of the other kind, managed
 * memory that the host may not touch at any time (as the host copy), and memory that this object owns;
 * ERR_INVALID_STATE for a view, with unified placement, and if another thread enlarged the object meanwhile; and
 * ERR_CUDA if a wait for replaced memory failed. An object without a device takes that of device memory. The object
 * does not use the memory after a failure.
 */

/** Called once for each adopted pointer of an object when the object no longer uses the memory, with no lock held, in
 * synced_mem_release(), synced_mem_shutdown() or any other call that may wait or allocate; never in a CUDA callback. A
 * call that must not block (an access on a stream, a push, pull or query, a resize of another object) leaves memory of
 * SYNCED_MEM_MEMORY_PAGE_LOCK to a later call. Quarantined memory, with work whose end is unknown, is never handed back
 * (synced_mem_stats.quarantined).
 * @param data    the pointer that was adopted
 * @param user    the user pointer that was adopted with it
 * @param stream  NULL in this version: all work of the library on the memory for this object, and the caller's on
 *                streams of accesses, has finished */
typedef void (*synced_mem_release_callback)(void *data, void *user, synced_mem_stream stream);

/** Makes data the host copy and the head AT_CPU; the object borrows the memory.
 * @param data  at least synced_mem_size() bytes of host memory, readable and writable
 * Blocking: for memory given up. Ownership: the memory must stay until a call that replaces or releases the object's
 * host memory, or releases the object, has returned. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE;
 * ERR_OUT_OF_HOST_MEMORY; ERR_CUDA; ERR_FORKED.
 * Source: Caffe, SyncedMemory::set_cpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data);

/** Makes data the device copy and the head AT_GPU; the object borrows the memory.
 * @param data  at least synced_mem_size() bytes of device or managed memory on the object's device. Later calls come
 *              after work that fills it on the legacy stream or on blocking streams
 * Blocking: for memory given up. Ownership: the memory must stay until a call that replaces or releases the object's
 * device memory, or releases the object, has returned. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE;
 * ERR_INVALID_DEVICE (memory of another device); other GPU errors.
 * Source: Caffe, SyncedMemory::set_gpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data);

/** Of synced_mem_memory: these bytes of host memory are page-locked for as long as the object uses them, if they are
 * not yet. The runtime locks some GB/s; to undo it, it may wait for the device. The call that hands back borrowed
 * memory also waits for synced_mem_memory.stream, if that still fills the memory, because it can't be unlocked
 * meanwhile. */
#define SYNCED_MEM_MEMORY_PAGE_LOCK 1u

/** Of synced_mem_memory, since 0.2: the library never writes the memory, such as a file mapped with PROT_READ. A call
 * that has to write it first replaces it by the library's own, or by memory of the object's allocator, and copies the
 * contents that it keeps. Such a call conflicts with every access to that side of the object, of its root and of its
 * views. It blocks until the copied contents have arrived, except an access on a stream, and for memory given up. If it
 * fails after the replacement, head and contents are as before, and the new memory stays. It returns ERR_INVALID_STATE
 * while the memory is exported as a tensor, and ERR_CAPTURING if it is an access on a capturing stream. Details:
 * docs/guide/memory.md, "Read-only memory". */
#define SYNCED_MEM_MEMORY_READ_ONLY 2u

/** Memory of the caller's, and how an object is to use it. A member that is zero is at its default. */
typedef struct synced_mem_memory {
    size_t struct_size; /**< sizeof(synced_mem_memory) */
    /** At least synced_mem_size() bytes of host memory, readable, and writable unless the flags say otherwise. NULL:
     * the host copy keeps its memory. */
    void *cpu_data;
    /** At least synced_mem_size() bytes of device or managed memory on the object's device. NULL: the device copy keeps
     * its memory. */
    void *gpu_data;
    /** NULL: the memory is borrowed. Otherwise it is adopted, and each pointer gets one call, in any order. */
    synced_mem_release_callback callback;
    void *user; /**< yours, handed to the callback */
    /** The stream in whose order the contents are ready, one of the memory's device. Accesses wait for the work queued
     * on it up to now: the host on the host, a stream on the device. The stream's other uses of the object stay as
     * before. The legacy stream is cudaStreamLegacy here. NULL: host memory is ready, and later calls come after work
     * that fills device memory on the legacy stream or on blocking streams. */
    synced_mem_stream stream;
    unsigned flags; /**< 0, or any of SYNCED_MEM_MEMORY_PAGE_LOCK and SYNCED_MEM_MEMORY_READ_ONLY */
} synced_mem_memory;

/** Makes memory of the caller's the host copy (head AT_CPU), the device copy (AT_GPU), or both (SYNCED: the caller
 * vouches that the contents agree).
 * Blocking: for memory given up, and to page-lock. Ownership: borrowed memory must stay until a call that replaces or
 * releases it, or releases the object, has returned. Adopted memory is the library's after success; after a failure it
 * is the caller's, and no callback is called. Errors: ERR_INVALID_ARGUMENT (also no pointer, one pointer for both
 * copies, an unknown flag, SYNCED_MEM_MEMORY_PAGE_LOCK without host memory); ERR_INVALID_STATE; ERR_INVALID_DEVICE
 * (memory of another device); ERR_OUT_OF_HOST_MEMORY; ERR_CUDA; ERR_FORKED; with device memory, a stream or
 * SYNCED_MEM_MEMORY_PAGE_LOCK GPU errors: ERR_OUT_OF_HOST_MEMORY (page-locked memory is limited), ERR_CUDA (a part of
 * it is page-locked, or it can't be). After a failure the memory is page-locked or not, as before. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_use_memory(synced_mem *mem, const synced_mem_memory *memory);

/* ---- Allocators ---- */

/** Of an allocator of host memory: all of its memory is page-locked. */
#define SYNCED_MEM_ALLOCATOR_PINNED 1u

/** A user allocator, such as a framework's cache, for host memory or for device memory. The library calls both
 * functions with no lock held, in any thread that calls it, and they may call the library. docs/guide/memory.md, "User
 * allocators", has their arguments and restrictions, and the order of reuse. */
struct synced_mem_allocator {
    size_t struct_size; /**< sizeof(synced_mem_allocator) */
    /** Returns size bytes, at least 1, aligned to alignment, a power of two; contents undefined. NULL: no memory. */
    void *(*alloc)(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    /** Takes back memory from alloc, once, with alloc's size, alignment and device. */
    void (*free)(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    void *user;     /**< yours, handed to both */
    unsigned flags; /**< 0, or SYNCED_MEM_ALLOCATOR_PINNED */
};

/** Sets the allocators of host memory and of device memory that objects without their own get new memory from, for the
 * whole process; NULL (the default): the library's own. Existing memory stays, and is freed by the table that it came
 * from. If an allocator has no memory, the call that needs it returns ERR_OUT_OF_HOST_MEMORY or
 * ERR_OUT_OF_DEVICE_MEMORY; nothing else is tried. Useless memory (not aligned, or of the wrong kind or device by the
 * runtime) goes back to its free at once, and the call returns ERR_INVALID_STATE.
 * Ownership: the functions and user pointers must stay usable until all objects with memory from them are gone and
 * synced_mem_shutdown() has returned, which also resets both to NULL. Errors: ERR_INVALID_ARGUMENT (an unknown flag, a
 * function that is NULL; neither is set); ERR_OUT_OF_HOST_MEMORY. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_allocators(const synced_mem_allocator *cpu,
                                                           const synced_mem_allocator *gpu);

/* ---- Facts of an object ---- */
/*
 * For NULL these return the value given, and record ERR_INVALID_ARGUMENT. A source, capacity or page-locking of a
 * parent's object is unknown in a forked child: the value is that for NULL, with ERR_FORKED.
 */

/** The object's CUDA device.
 * @return its number; SYNCED_MEM_DEVICE_CURRENT while it has none, and for NULL @since 0.1 */
SYNCED_MEM_API int synced_mem_device(const synced_mem *mem);

/** The user pointer of the options that the object was made with.
 * @return it; NULL for NULL @since 0.1 */
SYNCED_MEM_API void *synced_mem_user(const synced_mem *mem);

/** The object's name.
 * @return good as long as the object is; "" if it has none, and for NULL @since 0.1 */
SYNCED_MEM_API const char *synced_mem_name(const synced_mem *mem);

/** The source of a copy's memory. */
typedef enum synced_mem_source {
    SYNCED_MEM_SOURCE_NONE = 0,      /**< there is no memory on this side */
    SYNCED_MEM_SOURCE_PAGEABLE = 1,  /**< the library's: host memory of the system */
    SYNCED_MEM_SOURCE_PINNED = 2,    /**< the library's: page-locked host memory */
    SYNCED_MEM_SOURCE_DEVICE = 3,    /**< the library's: device memory */
    SYNCED_MEM_SOURCE_BORROWED = 4,  /**< the caller's, handed in without a callback */
    SYNCED_MEM_SOURCE_ADOPTED = 5,   /**< handed in with a callback */
    SYNCED_MEM_SOURCE_ALLOCATOR = 6, /**< from a user allocator */
    SYNCED_MEM_SOURCE_MAPPED = 7,    /**< the library's: page-locked host memory that both sides use */
    SYNCED_MEM_SOURCE_MANAGED = 8,   /**< the library's: managed memory that both sides use */
    SYNCED_MEM_SOURCE_SHAREABLE = 9  /**< the library's: memory of a shareable object, in use by several processes */
} synced_mem_source;

/** The source of the host copy's memory.
 * @return the source; NONE without a host copy, and for NULL. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_cpu_source(const synced_mem *mem);

/** The source of the device copy's memory.
 * @return the source; NONE without a device copy, and for NULL. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_gpu_source(const synced_mem *mem);

/** Reports whether the host copy is known to be page-locked. For memory of the caller's the CUDA runtime is queried, if
 * the process uses a GPU through the library.
 * @return 1, or 0; 0 without a host copy, for NULL, and if the runtime does not answer. Errors: ERR_FORKED.
 * @since 0.1 */
SYNCED_MEM_API int synced_mem_cpu_is_pinned(const synced_mem *mem);

/** Sets arrived to 1 if the side is valid, in all parts, and no transfer or fill to it is pending, nor work that fills
 * memory of the caller's (synced_mem_memory.stream); else to 0. Transfers that read the side, and kernels, do not
 * count. Unified placement: both sides arrive at once.
 * Errors: ERR_INVALID_ARGUMENT (no such side); ERR_DEVICE_LOST; the reason of a failed staged transfer; ERR_FORKED.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_has_arrived(synced_mem *mem, synced_mem_side side, int *arrived);

/** The capacity of the host copy.
 * @return of a view its size; 0 without a copy, and for NULL. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API size_t synced_mem_cpu_capacity(const synced_mem *mem);

/** The capacity of the device copy.
 * @return of a view its size; 0 without a copy, and for NULL. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API size_t synced_mem_gpu_capacity(const synced_mem *mem);

/** The placement in effect; before the first use of memory decides it, that of the options.
 * @return the placement; SEPARATE for NULL, and for a unified object that the host used without a device @since 0.1 */
SYNCED_MEM_API synced_mem_placement_kind synced_mem_placement(const synced_mem *mem);

#ifdef __cplusplus
}
#endif

#endif
