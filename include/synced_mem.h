/**
 * @file
 * synced_mem: one buffer of bytes with a copy in host memory and a copy on a GPU.
 *
 * An object's head says which of its two copies hold the current contents. The library transfers bytes only when an
 * access needs a copy that is stale.
 *
 * The one rule: a returned pointer is safe to use at once in the domain of the access, the host or one CUDA stream,
 * until the next conflicting call on the object. Accesses from two domains conflict if one is mutable or overwrite;
 * accesses from one domain never do. A call that changes the size or the memory conflicts with every access. The
 * library makes the waits: an access on a stream makes that stream wait, any other access waits on the host.
 *
 * The defaults of all functions in all files, whose comments say only what differs:
 * - Sizes and capacities are in bytes, and may be 0. Set struct_size to the size of your struct before a call. A call
 *   sets its outputs only on success; a call that makes an object sets it to NULL on failure.
 * - Failure. A failed call leaves the object's head, contents, size and valid pointers as they were.
 * - Threads. Any thread may call any function at any time. Writing while another thread uses the contents is the
 *   caller's race.
 * - Blocking. No call waits for work on a device, only for other calls on the same object and for short locks.
 *   Exceptions: memory is short; memory is given up; a call on a stream transfers from pageable memory, which has been
 *   read when the call returns.
 * - Ownership. Pointers to contents are the object's. A call takes nothing over, returns nothing to free, and uses
 *   structs, arrays and strings only until it returns.
 * - Memory given up. The library frees its own after the work on it, without a wait. For borrowed memory the call waits
 *   for the library's transfers on it. Adopted memory gets its callback after the work on it, in this call or a later
 *   one.
 * - Errors. A call returns SYNCED_MEM_OK or an error; ERR_ is short for SYNCED_MEM_ERR_. A pointer is NULL only after a
 *   failure, of which synced_mem_last_error() has the status. Any call returns ERR_INVALID_ARGUMENT for an unknown
 *   struct_size, and for NULL as object, result, struct or array.
 * - "GPU errors" are ERR_NO_GPU, ERR_INVALID_DEVICE (also for a stream of another device), ERR_OUT_OF_DEVICE_MEMORY,
 *   ERR_OUT_OF_HOST_MEMORY, ERR_DEVICE_LOST, ERR_CAPTURING, ERR_FORKED, and ERR_CUDA for the runtime's other errors.
 * - Streams are of the object's device, and stay the caller's. NULL is the legacy default stream. (cudaStream_t)-1 is
 *   an ERR_INVALID_ARGUMENT.
 * - Graph capture. A capturing stream admits accesses that need no transfer, fill or memory, and leave the head. Other
 *   calls on it, or that would wait for it, return ERR_CAPTURING, and the capture goes on.
 * - Fork. In a child of a process that has used a GPU through the library most calls return ERR_FORKED:
 *   docs/guide/threads.md.
 */
#ifndef SYNCED_MEM_H
#define SYNCED_MEM_H

#include <stddef.h>
#include <stdint.h>

/** The version of this header, first part. */
#define SYNCED_MEM_VERSION_MAJOR 0
#define SYNCED_MEM_VERSION_MINOR 2 /**< second part */
#define SYNCED_MEM_VERSION_PATCH 0 /**< third part */

/** Marks an exported function. */
#if defined(__GNUC__)
#define SYNCED_MEM_API __attribute__((visibility("default")))
#else
#define SYNCED_MEM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** One object, made by synced_mem_create() and released by synced_mem_release(). */
typedef struct synced_mem synced_mem;

struct CUstream_st;
/** The CUDA runtime's cudaStream_t, declared here so that no header of CUDA is needed. */
typedef struct CUstream_st *synced_mem_stream;

/** Which copies hold the current contents. Bit 1 is the host copy, bit 2 the device copy.
 * Source: Caffe, SyncedMemory::SyncedHead. */
typedef enum synced_mem_head_kind {
    SYNCED_MEM_UNINITIALIZED = 0, /**< neither: the first read sees zeros */
    SYNCED_MEM_AT_CPU = 1,        /**< the host copy only */
    SYNCED_MEM_AT_GPU = 2,        /**< the device copy only */
    SYNCED_MEM_SYNCED = 3,        /**< both; one of them may still be arriving */
    /** Of an object with views (synced_mem/views.h): neither copy has all bytes. No bits. */
    SYNCED_MEM_MIXED = 4
} synced_mem_head_kind;

/** One of the two copies. The values are the bits of the head, and DLPack's device types. */
typedef enum synced_mem_side { SYNCED_MEM_SIDE_CPU = 1, SYNCED_MEM_SIDE_GPU = 2 } synced_mem_side;

/** What an access does with the contents: read them, read and write them, or write all bytes before reading. */
typedef enum synced_mem_mode { SYNCED_MEM_READ = 0, SYNCED_MEM_MUTABLE = 1, SYNCED_MEM_OVERWRITE = 2 } synced_mem_mode;

#define SYNCED_MEM_NO_STREAM ((synced_mem_stream)(uintptr_t)-1) /**< no stream, where a comment allows it */
/** Of a push, pull or copy: a stream of the library's, on the device of the first object (of a copy: of to). The
 * transfer comes after earlier work on the objects' memory, and later accesses after the transfer. Accesses to a device
 * copy on it return ERR_INVALID_ARGUMENT, since no program can queue kernels there. */
#define SYNCED_MEM_STREAM_LIBRARY ((synced_mem_stream)(uintptr_t)-2)

/** Every status: number, name, message. The numbers never change. */
#define SYNCED_MEM_STATUS_MAP(X)                                                                                       \
    X(0, OK, "success")                                                                                                \
    X(1, ERR_INVALID_ARGUMENT, "invalid argument")                                                                     \
    X(2, ERR_INVALID_STATE, "the object's state does not allow this call")                                             \
    X(3, ERR_OUT_OF_HOST_MEMORY, "out of host memory")                                                                 \
    X(4, ERR_OUT_OF_DEVICE_MEMORY, "out of device memory")                                                             \
    X(5, ERR_NO_GPU, "no GPU: built without CUDA, or no driver or device on this machine")                             \
    X(6, ERR_INVALID_DEVICE, "no such device, or memory of another device")                                            \
    X(7, ERR_DEVICE_LOST, "earlier work on the device failed, and the device can no longer be used")                   \
    X(8, ERR_CUDA, "a call of the CUDA runtime failed")                                                                \
    X(9, ERR_CAPTURING, "a stream is capturing a graph, which does not allow this call")                               \
    X(10, ERR_FORKED, "the process was forked from one that had used a GPU")                                           \
    X(11, ERR_FILE, "a file can't be written")                                                                         \
    X(12, ERR_OWNER_DIED, "a process ended while it wrote the object, whose contents are lost")                        \
    X(13, ERR_TIMEOUT, "the time is over")                                                                             \
    X(14, ERR_PEER, "the other process has closed the socket, or has sent or written impossible values")

/** The result of a call. */
typedef enum synced_mem_status {
#define SYNCED_MEM_STATUS_ENUM(number, name, message) SYNCED_MEM_##name = number,
    SYNCED_MEM_STATUS_MAP(SYNCED_MEM_STATUS_ENUM)
#undef SYNCED_MEM_STATUS_ENUM
        SYNCED_MEM_STATUS_FORCE_INT = 0x7fffffff /**< never returned */
} synced_mem_status;

/* ---- Create and release ---- */

#define SYNCED_MEM_DEVICE_CURRENT (-1) /**< the thread's current device when one is first needed */

/** A user allocator: synced_mem/memory.h. */
typedef struct synced_mem_allocator synced_mem_allocator;

/** Where an object has its memory: two copies, or one that both sides use (unified): docs/guide/unified.md.
 * Source: CUDA C++ Programming Guide, "Mapped Memory", "Unified Memory Programming". */
typedef enum synced_mem_placement_kind {
    SYNCED_MEM_PLACEMENT_SEPARATE = 0, /**< two copies (default) */
    /** Page-locked host memory. ERR_INVALID_STATE: the device would see it at another address. */
    SYNCED_MEM_PLACEMENT_MAPPED = 1,
    /** cudaMallocManaged. ERR_INVALID_STATE: the host may not use it while kernels run. ERR_OUT_OF_DEVICE_MEMORY: no
     * room. */
    SYNCED_MEM_PLACEMENT_MANAGED = 2,
    /** On an integrated GPU managed if the host may use it while kernels run, else mapped; otherwise separate. */
    SYNCED_MEM_PLACEMENT_AUTOMATIC = 3
} synced_mem_placement_kind;

/** The options of an object. synced_mem_options_init() sets all but struct_size and device to 0 or NULL. */
typedef struct synced_mem_options {
    size_t struct_size; /**< sizeof(synced_mem_options) */
    int device;         /**< 0 to 32767, or SYNCED_MEM_DEVICE_CURRENT (default) */
    const char *name;   /**< shown in error details, traces, debug mode; 47 bytes are copied */
    /** A power of two up to 2 MiB. 0: 64, and the caller's memory may lie anywhere. */
    size_t alignment;
    void *user;                                /**< yours, never read; returned by synced_mem_user() */
    const synced_mem_allocator *cpu_allocator; /**< NULL: that of synced_mem_set_allocators() */
    const synced_mem_allocator *gpu_allocator; /**< likewise */
    synced_mem_placement_kind placement;       /**< where it has its memory */
    /** 0, or SYNCED_MEM_SHAREABLE_*: for other processes too; only with separate placement, without allocators. */
    unsigned shareable;
} synced_mem_options;

/** Fills options with the defaults. NULL is ignored. @since 0.1 */
SYNCED_MEM_API void synced_mem_options_init(synced_mem_options *options);

/** Makes an object with one reference, UNINITIALIZED, and no memory yet. NULL options are the defaults.
 * Ownership: the caller owns the reference until synced_mem_release(). Errors: ERR_INVALID_ARGUMENT (a size over
 * PTRDIFF_MAX less 2 MiB, bad options, an allocator with a unified placement); ERR_OUT_OF_HOST_MEMORY; of a shareable
 * object ERR_FILE (no descriptor left, no files in memory, a size over RLIMIT_FSIZE). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options);

/** Adds a reference of the caller's.
 * Errors: ERR_INVALID_STATE (the last reference is already gone). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_retain(synced_mem *mem);

/** Gives up a reference; the last one gives up the object and its memory. NULL is ignored.
 * Blocking: the last release, in a turn until work on the object has ended.
 * Errors: ERR_INVALID_STATE (released too often); ERR_CUDA (a wait failed; the reference stays). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release(synced_mem *mem);

/** Frees the library's streams, events, memory pools and released memory. It can be used again afterwards.
 * Blocking: until transfers on released memory are done. Threads: not while another thread is in the library. Errors:
 * ERR_INVALID_STATE (objects are alive, or callbacks hand in memory without end); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_shutdown(void);

/* ---- Access ---- */
/*
 * An accessor returns the pointer of one copy. A mutable access and an overwrite make the other copy stale. The
 * contents of an overwrite are undefined until the caller has written every byte. The work of an access (zero: a fill
 * with zeros; h2d, d2h: a transfer), and the next head:
 *
 *   head           cpu read       cpu mutable    cpu overwrite  gpu read       gpu mutable    gpu overwrite
 *   UNINITIALIZED  zero > AT_CPU  zero > AT_CPU  -    > AT_CPU  zero > AT_GPU  zero > AT_GPU  -    > AT_GPU
 *   AT_CPU         -    > AT_CPU  -    > AT_CPU  -    > AT_CPU  h2d  > SYNCED  h2d  > AT_GPU  -    > AT_GPU
 *   AT_GPU         d2h  > SYNCED  d2h  > AT_CPU  -    > AT_CPU  -    > AT_GPU  -    > AT_GPU  -    > AT_GPU
 *   SYNCED         -    > SYNCED  -    > AT_CPU  -    > AT_CPU  -    > SYNCED  -    > AT_GPU  -    > AT_GPU
 *
 * An access without a stream blocks until the contents have arrived, unless it overwrites them, and until conflicting
 * transfers and streams no longer use the copy. A device pointer is then for kernels on the legacy stream or on
 * blocking streams, as in Caffe, and later conflicting calls come after those.
 *
 * An access on a stream is for work queued on it up to the next conflicting call, which comes after that work. An
 * access to write ends at the next call on the object other than an access on this stream. Call
 * synced_mem_forget_stream() before a stream is destroyed. Details: docs/guide/streams.md.
 *
 * Each accessor may fail with GPU errors, and with those of the placement. A host access that needs no device fails
 * only with ERR_OUT_OF_HOST_MEMORY.
 * Source: Caffe, SyncedMemory::cpu_data and its siblings; overwrite is this library's addition.
 */

/** The host copy, to read.
 * @return synced_mem_size() bytes @since 0.1 */
SYNCED_MEM_API const void *synced_mem_cpu_data(synced_mem *mem);

/** The host copy, to read and write.
 * @return synced_mem_size() bytes @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_cpu_data(synced_mem *mem);

/** The host copy, to write every byte.
 * @return synced_mem_size() bytes @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_cpu_data(synced_mem *mem);

/** The device copy, to read by kernels on the legacy or blocking streams.
 * @return synced_mem_size() bytes @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data(synced_mem *mem);

/** The device copy, to read and write by kernels on the legacy or blocking streams.
 * @return synced_mem_size() bytes @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data(synced_mem *mem);

/** The device copy, to write every byte by kernels on the legacy or blocking streams.
 * @return synced_mem_size() bytes @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data(synced_mem *mem);

/** The device copy, to read by work on the stream.
 * @return synced_mem_size() bytes. Blocking: only for pageable memory. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** The device copy, to read and write by work on the stream.
 * @return synced_mem_size() bytes. Blocking: only for pageable memory. @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** The device copy, to write every byte by work on the stream.
 * @return synced_mem_size() bytes @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** Makes one of the nine accesses above, for programs that choose it at run time.
 * @param stream  of an access to the device copy, or SYNCED_MEM_NO_STREAM; a host access ignores it
 * @return synced_mem_size() bytes, not to be written after a read. Errors: ERR_INVALID_ARGUMENT (no such side or mode);
 * those of that access. @since 0.2 */
SYNCED_MEM_API void *synced_mem_access(synced_mem *mem, synced_mem_side side, synced_mem_mode mode,
                                       synced_mem_stream stream);

/** Which copies hold the current contents, or will on arrival.
 * @return the head; UNINITIALIZED for NULL @since 0.1 */
SYNCED_MEM_API synced_mem_head_kind synced_mem_head(const synced_mem *mem);

/* ---- Streams and transfers ---- */
/*
 * A push, pull or copy to the device queues its transfer on the stream and returns. The stream waits for earlier work
 * on the objects' memory, and work queued on it afterwards sees the contents. An access to one object of a list waits
 * for all. Each call may fail with GPU errors; for lists see docs/guide/streams.md, "When a transfer is refused".
 */

/** Ends the stream's use of the device copy: later conflicting calls wait only for work queued on the stream up to now.
 * The stream needs a new access before its next use. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_use_on(synced_mem *mem, synced_mem_stream stream);

/** Ends the stream's use of all objects. Call it after the stream's last work is queued, before the stream is
 * destroyed; otherwise a later call may return ERR_INVALID_STATE once. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_forget_stream(synced_mem_stream stream);

/** Queues the transfer of the host copy to the device: AT_CPU becomes SYNCED. If the head is SYNCED, or the placement
 * unified, nothing is moved, and the stream waits for contents that still arrive.
 * Errors: ERR_INVALID_STATE (UNINITIALIZED or AT_GPU). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream);

/** Queues the transfer of the device copy to the host: AT_GPU becomes SYNCED. If the head is SYNCED, or the placement
 * unified, nothing is moved. Later writes to the device copy, on any stream, come after the transfer.
 * Blocking: also for contents that still arrive from another device, since its loss would go unnoticed here.
 * Errors: ERR_INVALID_STATE (UNINITIALIZED or AT_CPU). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull(synced_mem *mem, synced_mem_stream stream);

/** Pushes a list of objects.
 * Errors: ERR_INVALID_STATE (one is UNINITIALIZED or AT_GPU). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/** Pulls a list of objects.
 * Errors: ERR_INVALID_STATE (one is UNINITIALIZED or AT_CPU). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/* ---- Copies ---- */
/*
 * A copy takes the contents of one object to another of the same size, on any devices. from keeps its head and its
 * copies. If from is UNINITIALIZED, to becomes UNINITIALIZED. Each copy may fail with GPU errors: ERR_CAPTURING if the
 * stream captures, ERR_INVALID_DEVICE if it belongs to neither device, and others. It returns ERR_INVALID_ARGUMENT if
 * the sizes differ, both are one object, bytes of the two overlap, or a list writes an object twice or memory that
 * overlaps another's valid copy. Failures, and blocking with mapped placement: docs/guide/copies.md.
 */

/** Copies the contents of from to the device copy of to, which becomes AT_GPU, by one transfer on the stream.
 * @param stream  of the device of either object; a default stream is of that of to, else of from @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy(synced_mem *to, synced_mem *from, synced_mem_stream stream);

/** Copies count pairs, from[i] to the device copy of to[i]. The default streams are of the first pair's device.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy_n(synced_mem *const *to, synced_mem *const *from,
                                                             size_t count, synced_mem_stream stream);

/** Copies the contents of from to the host copy of to, which becomes AT_CPU.
 * Blocking: until they have arrived, and earlier work on the host copy of to is done. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy(synced_mem *to, synced_mem *from);

/** Copies count pairs, from[i] to the host copy of to[i], at the same time.
 * Blocking: until all have arrived, and earlier work on the host copies is done. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count);

/* ---- Contents and size ---- */
/*
 * Calls that resize or release memory return ERR_INVALID_STATE for a view, and while the memory is exported as a
 * tensor. A resize does so too for an object with views, and in a callback or a forked child if a call on its parts is
 * going on. It returns ERR_INVALID_ARGUMENT for a size over PTRDIFF_MAX less 2 MiB.
 */

/** Gives up the contents: the head becomes UNINITIALIZED, and the next read sees zeros. All memory stays.
 * Errors: ERR_FORKED. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_clear(synced_mem *mem);

/** Sets pending to 1 if transfers, fills or allocations of the library on the object's memory are pending, else to 0.
 * Errors: ERR_DEVICE_LOST; the reason of a failed staged transfer; ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_query(synced_mem *mem, int *pending);

/** Waits for the library's transfers, fills and allocations on the object's memory.
 * Blocking: until they are done. Errors: ERR_DEVICE_LOST; the reason of a failed staged transfer; ERR_FORKED.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_wait(synced_mem *mem);

/** The size of the contents.
 * @return in bytes; 0 for NULL @since 0.1 */
SYNCED_MEM_API size_t synced_mem_size(const synced_mem *mem);

/** Changes the size and keeps the contents up to the smaller size; new bytes read as zero. If no copy with the contents
 * has room, one of them moves to larger memory, and the other becomes stale.
 * Blocking: if the host copy is filled or moved, until transfers on it are done; for an object in parts, until writes
 * of its contents and calls on its parts have ended. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE; GPU errors.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize(synced_mem *mem, size_t size);

/** Changes the size and gives up the contents: the head becomes UNINITIALIZED. Memory with room stays.
 * Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE; GPU errors.
 * Source: MixMemory of tensorRT_Pro. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize_discard(synced_mem *mem, size_t size);

/** Gives up the host copy's memory, except that of a unified object. Contents of it alone are moved to the device
 * first.
 * Blocking: until transfers from it have arrived. Errors: ERR_INVALID_STATE; GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_cpu_data(synced_mem *mem);

/** Gives up the device copy's memory, except that of a unified object. Contents of it alone are moved to the host
 * first.
 * Blocking: until they have arrived. Errors: ERR_INVALID_STATE; GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_gpu_data(synced_mem *mem);

/** Gives up both copies' memory and the contents: the head becomes UNINITIALIZED.
 * Errors: ERR_INVALID_STATE; ERR_CUDA (a wait failed). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_data(synced_mem *mem);

/* ---- Errors ---- */

/** The name of a status ("SYNCED_MEM_ERR_NO_GPU").
 * @return a constant string; "SYNCED_MEM_ERR_UNKNOWN" for a number that is no status @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_name(synced_mem_status status);

/** The meaning of a status, in a few words.
 * @return a constant string; "unknown status" for a number that is no status @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_message(synced_mem_status status);

/** The status of the calling thread's last failed call; calls that succeed don't change it.
 * @return SYNCED_MEM_OK if no call has failed yet @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_last_error(void);

/** The detail of the calling thread's last failed call: function, request (size, device), the CUDA runtime's error.
 * @return a string, good until the thread's next failing call; "" if no call has failed @since 0.1 */
SYNCED_MEM_API const char *synced_mem_last_error_message(void);

#ifdef __cplusplus
}
#endif

#include "synced_mem/memory.h"    /* memory of the caller's, allocators, facts of an object's memory */
#include "synced_mem/pools.h"     /* memory kept for reuse, staging, memory that is short, devices */
#include "synced_mem/processes.h" /* objects of several processes */
#include "synced_mem/report.h"    /* statistics, traces, error handler */
#include "synced_mem/views.h"     /* parts of objects */

#endif
