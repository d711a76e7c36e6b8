/**
 * @file
 * One buffer of bytes with a copy in host memory and a copy on a GPU.
 *
 * An object's head says which of its copies hold the current contents. Bytes are transferred only when an access needs
 * a stale copy.
 *
 * The one rule: a returned pointer is safe to use at once in the domain of the access, the host or one CUDA stream,
 * until the next conflicting call on the object. Accesses conflict if they are from two domains, and one is mutable or
 * overwrite. A call that changes the size or the memory conflicts with every access, and so does the end of a turn or
 * of the last hold. The library makes the waits: an access on a stream makes that stream wait, any other access waits
 * on the host.
 *
 * The defaults, to which the comments of sections and functions add:
 * - Sizes and capacities are in bytes, and may be 0; an object has at most PTRDIFF_MAX less 2 MiB. Set struct_size to
 *   the size of your struct.
 * - Failure. A failed call changes no head, contents, size or valid pointer; exceptions: copies, lists, evictions. It
 *   sets no output, except that an object or tensor to be made becomes NULL.
 * - Threads. Any thread may call any function at any time. To write while another thread uses the contents is a race.
 * - Blocking. Calls wait for other calls on the object and for short locks, not for a device. Exceptions: memory is
 *   short; memory is given up; a call on a stream transfers from pageable memory, which has been read on return.
 * - Ownership. Pointers to contents are the object's. A call takes nothing over, returns nothing to free, and uses
 *   structs, arrays and strings only until it returns.
 * - Memory given up. The library frees its own after the work on it, without a wait. For borrowed memory the call waits
 *   for the library's transfers on it. Adopted memory gets its callback after the work on it, in this or a later call.
 * - Errors. ERR_ is short for SYNCED_MEM_ERR_. An accessor returns NULL only on failure: see synced_mem_last_error().
 *   Any call may return ERR_INVALID_ARGUMENT (a number out of range; an unknown struct_size, flag or enumerator; NULL
 *   as object, result, struct or array), ERR_OUT_OF_HOST_MEMORY, and ERR_FORKED (in a child of a process that has used
 *   a GPU through the library: docs/guide/threads.md). A fact of NULL as object is 0 (a device: -1), NULL or "", with
 *   ERR_INVALID_ARGUMENT as the last error.
 * - "GPU errors" are ERR_NO_GPU, ERR_INVALID_DEVICE (also for a stream of another device), ERR_OUT_OF_DEVICE_MEMORY,
 *   ERR_DEVICE_LOST, ERR_CAPTURING, and ERR_CUDA for the runtime's other errors.
 * - Streams are of the object's device, even if nothing is moved, and stay the caller's; an empty list ignores its
 *   stream. NULL is the legacy default stream, of the device of the list's first object. Unless a comment accepts them,
 *   SYNCED_MEM_NO_STREAM, which is (cudaStream_t)-1, and SYNCED_MEM_STREAM_LIBRARY are an ERR_INVALID_ARGUMENT.
 * - Graph capture. A capturing stream admits accesses that need no transfer, fill or memory, and change no head. Other
 *   calls on it, or that would wait for it, return ERR_CAPTURING, and the capture goes on. No other thread may begin a
 *   capture of the stream during such a call: the capture may become invalid.
 */
#ifndef SYNCED_MEM_H
#define SYNCED_MEM_H

#include <stddef.h>
#include <stdint.h>

#define SYNCED_MEM_VERSION_MAJOR 0 /**< of this header, first part */
#define SYNCED_MEM_VERSION_MINOR 2 /**< second part */
#define SYNCED_MEM_VERSION_PATCH 0 /**< third part */

/** Marks an exported function. On Windows define SYNCED_MEM_DLL to call those of the DLL directly; without it a call of
 * one takes a jump more. Programs with the static library do not define it. */
#if defined(_WIN32) && defined(SYNCED_MEM_DLL)
#define SYNCED_MEM_API __declspec(dllimport)
#elif defined(_WIN32)
#define SYNCED_MEM_API
#elif defined(__GNUC__)
#define SYNCED_MEM_API __attribute__((visibility("default")))
#else
#define SYNCED_MEM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** An object, made by synced_mem_create() and released by synced_mem_release(). */
typedef struct synced_mem synced_mem;

struct CUstream_st;
/** cudaStream_t, without a header of CUDA. */
typedef struct CUstream_st *synced_mem_stream;

/** The copies with the current contents: bit 1 host, bit 2 device. Objects of 0 bytes have a head like others.
 * Source: Caffe, SyncedMemory::SyncedHead. */
typedef enum synced_mem_head_kind {
    SYNCED_MEM_UNINITIALIZED = 0, /**< neither: a read sees zeros, or a file (synced_mem/files.h) */
    SYNCED_MEM_AT_CPU = 1,        /**< the host copy */
    SYNCED_MEM_AT_GPU = 2,        /**< the device copy */
    SYNCED_MEM_SYNCED = 3,        /**< both; one may still be arriving */
    SYNCED_MEM_MIXED = 4          /**< no bits: neither has all bytes (synced_mem/views.h) */
} synced_mem_head_kind;

/** One of the copies: a bit of the head, and DLPack's device type. */
typedef enum synced_mem_side { SYNCED_MEM_SIDE_CPU = 1, SYNCED_MEM_SIDE_GPU = 2 } synced_mem_side;

/** What an access is for: to read, to read and write, or to write all bytes before reading any. */
typedef enum synced_mem_mode { SYNCED_MEM_READ = 0, SYNCED_MEM_MUTABLE = 1, SYNCED_MEM_OVERWRITE = 2 } synced_mem_mode;

#define SYNCED_MEM_NO_STREAM ((synced_mem_stream)(uintptr_t)-1) /**< no stream, where a comment accepts it */
/** A stream of the library's, for pushes, pulls and copies alone, since no program can queue kernels there. It is on
 * the device of the first object; for copies, of to, else of from. */
#define SYNCED_MEM_STREAM_LIBRARY ((synced_mem_stream)(uintptr_t)-2)

/** Number, name and message of each status. Numbers never change. */
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
    X(11, ERR_FILE, "a file can't be read or written")                                                                 \
    X(12, ERR_OWNER_DIED, "a process ended or abandoned its turn while it wrote the object, whose contents are lost")  \
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

#define SYNCED_MEM_DEVICE_CURRENT (-1) /**< at first need: the stream's, else the thread's current device */

/** A user allocator: synced_mem/memory.h. */
typedef struct synced_mem_allocator synced_mem_allocator;

/** Two copies, or one memory for both sides (unified), whose first access has these errors: docs/guide/unified.md.
 * Source: CUDA C++ Programming Guide, "Mapped Memory", "Unified Memory Programming". */
typedef enum synced_mem_placement_kind {
    SYNCED_MEM_PLACEMENT_SEPARATE = 0, /**< two copies */
    /** Page-locked host memory. ERR_INVALID_STATE: the device has another address for it. */
    SYNCED_MEM_PLACEMENT_MAPPED = 1,
    /** cudaMallocManaged. ERR_INVALID_STATE: the host may not use it while kernels run; ERR_OUT_OF_DEVICE_MEMORY. */
    SYNCED_MEM_PLACEMENT_MANAGED = 2,
    /** On an integrated GPU managed if the host may use it while kernels run, else mapped; on others separate. */
    SYNCED_MEM_PLACEMENT_AUTOMATIC = 3
} synced_mem_placement_kind;

/** The options of an object. All but the first two are 0 or NULL by default. */
typedef struct synced_mem_options {
    size_t struct_size;
    int device;       /**< up to 32767, or SYNCED_MEM_DEVICE_CURRENT (default) */
    const char *name; /**< for error details, traces, debug mode; at most 47 bytes are copied */
    /** A power of two up to 2 MiB. 0: 64, but the caller's memory may lie anywhere. */
    size_t alignment;
    void *user;                                /**< yours, for synced_mem_user() */
    const synced_mem_allocator *cpu_allocator; /**< NULL: of synced_mem_set_allocators() */
    const synced_mem_allocator *gpu_allocator; /**< likewise */
    synced_mem_placement_kind placement;       /**< unified: not with allocators */
    /** SYNCED_MEM_SHAREABLE_*: for other processes too; not with unified placement or allocators. */
    unsigned shareable;
    /** 1: a copy may go while nobody holds it (synced_mem/budget.h); not shareable or unified, nor with allocators. */
    unsigned evictable;
} synced_mem_options;

/** Fills in the defaults. Ignores NULL. @since 0.1 */
SYNCED_MEM_API void synced_mem_options_init(synced_mem_options *options);

/** Makes an UNINITIALIZED object without memory. NULL options are the defaults.
 * Ownership: the caller owns its one reference until synced_mem_release(). Errors: ERR_FILE (a shareable object: no
 * descriptor, or no file in memory). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options);

/** Adds a reference of the caller's. Errors: ERR_INVALID_STATE (the last is already gone). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_retain(synced_mem *mem);

/** Gives up a reference, and with the last one the object and its memory. Ignores NULL.
 * Errors: ERR_INVALID_STATE (the last one of a held object, which stays; released too often, where a build with
 * assertions ends the process); ERR_CUDA or the runtime's other reason (a wait failed; the reference stays).
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release(synced_mem *mem);

/** Frees the library's streams, events, memory pools and released memory, until it is used again.
 * Blocking: until transfers on released memory are done. Threads: no other may be in the library. Errors:
 * ERR_INVALID_STATE (objects are alive, or callbacks hand in memory without end); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_shutdown(void);

/* ---- Access ---- */
/*
 * An accessor returns the pointer of one copy, to synced_mem_size() bytes. An access to read does this work (zero: a
 * fill with zeros; h2d, d2h: a transfer), and leaves this head:
 *
 *   head           cpu read       gpu read
 *   UNINITIALIZED  zero > AT_CPU  zero > AT_GPU
 *   AT_CPU         -    > AT_CPU  h2d  > SYNCED
 *   AT_GPU         d2h  > SYNCED  -    > AT_GPU
 *   SYNCED         -    > SYNCED  -    > SYNCED
 *
 * A mutable access does the same work, an overwrite none. Both make the other copy stale: the head is AT_CPU or AT_GPU.
 * The caller of an overwrite writes every byte before any is read.
 *
 * Without a stream an access blocks until the contents have arrived, unless it overwrites them, and until conflicting
 * transfers and streams no longer use the copy. A device pointer is then for kernels on the legacy stream or on
 * blocking streams, and later conflicting calls come after those. All such accesses are one domain: the program itself
 * orders its kernels on several blocking streams.
 *
 * On a stream (_on) an access is for work queued there up to the next conflicting call, which comes after that work. A
 * write ends at the next call on the object other than an access on the stream, a query or a fact:
 * docs/guide/streams.md.
 *
 * Source: Caffe, SyncedMemory::cpu_data and its siblings; overwrite is this library's addition.
 *
 * Errors: GPU errors, and those of the placement; none of them if a host access needs no device. ERR_FILE (contents in
 * a file: synced_mem/files.h).
 */

/** Returns the host copy, to read. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_cpu_data(synced_mem *mem);

/** Returns the host copy, to read and write. @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_cpu_data(synced_mem *mem);

/** Returns the host copy, to write every byte. @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_cpu_data(synced_mem *mem);

/** Returns the device copy, to read. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data(synced_mem *mem);

/** Returns the device copy, to read and write. @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data(synced_mem *mem);

/** Returns the device copy, to write every byte. @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data(synced_mem *mem);

/** Returns the device copy, to read on the stream. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** Returns the device copy, to read and write on the stream. @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** Returns the device copy, to write every byte on the stream. @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** Returns what one of these nine does; after a read it is not to be written. A host access ignores the stream.
 * SYNCED_MEM_NO_STREAM: an access without a stream. @since 0.2 */
SYNCED_MEM_API void *synced_mem_access(synced_mem *mem, synced_mem_side side, synced_mem_mode mode,
                                       synced_mem_stream stream);

/** Returns the head. Its copies may still be arriving. @since 0.1 */
SYNCED_MEM_API synced_mem_head_kind synced_mem_head(const synced_mem *mem);

/* ---- Streams and transfers ---- */
/*
 * A push or pull queues its transfer on the stream and returns. The stream waits for earlier work on the objects'
 * memory, and work queued on it afterwards sees the contents. Pointers to write expire. A list may be empty, or name an
 * object twice, which is moved once; an access to one of its objects waits for others too: docs/guide/streams.md. After
 * a failure objects of the list may be SYNCED whose transfers had begun. Of a MIXED object it moves what the other side
 * alone has, which may be nothing.
 *
 * Errors: GPU errors; ERR_FILE; ERR_INVALID_STATE (a push if the head is UNINITIALIZED or AT_GPU, a pull if it is
 * UNINITIALIZED or AT_CPU; but contents in a file alone are read from there).
 */

/** Ends the stream's use of the device copy: later conflicting calls wait only for work queued on it up to now. Before
 * its next use the stream needs a new access. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_use_on(synced_mem *mem, synced_mem_stream stream);

/** Ends the stream's use of all objects. Call it after the stream's last work is queued, before the stream is
 * destroyed; otherwise a later call may return ERR_INVALID_STATE once, and may pass the dead handle to the CUDA
 * runtime. Does nothing for an unknown stream, SYNCED_MEM_NO_STREAM and SYNCED_MEM_STREAM_LIBRARY. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_forget_stream(synced_mem_stream stream);

/** Transfers the host copy to the device: AT_CPU becomes SYNCED. If the head is SYNCED, or the memory unified, nothing
 * is moved, and the stream waits for contents that still arrive. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream);

/** Transfers the device copy to the host: AT_GPU becomes SYNCED. If the head is SYNCED, or the memory unified, nothing
 * is moved. Later writes to the device copy, on any stream, come after the transfer.
 * Blocking: also for contents that still arrive from another device, as their loss would go unnoticed. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull(synced_mem *mem, synced_mem_stream stream);

/** Pushes count objects. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/** Pulls count objects. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/* ---- Copies ---- */
/*
 * The object to gets the contents of the object from, which has the same size and keeps its head and copies; if it is
 * UNINITIALIZED, or MIXED in parts of it, to becomes so too. Contents in a file alone are first read to the side of the
 * copy, where from is valid then. A list (_n) copies from[i] to to[i]; it may be empty, or name a source twice. After a
 * failure each to is as before, has the new contents, or has lost its own. Details, and blocking with mapped placement:
 * docs/guide/copies.md.
 *
 * Errors: GPU errors (ERR_INVALID_DEVICE: a stream of a third device, even if from is UNINITIALIZED); ERR_FILE;
 * ERR_INVALID_ARGUMENT (the sizes differ; from and to are one object, or overlap; a list writes an object that it names
 * again, or memory that overlaps another's valid copy).
 */

/** Copies to the device copy of to, which becomes AT_GPU, by one transfer on the stream.
 * @param stream  of the device of to or from; if to has none yet, any stream, whose device its memory is on. A default
 *                stream is of the device of to, else of from @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy(synced_mem *to, synced_mem *from, synced_mem_stream stream);

/** Copies count pairs to the device copies of to. A default stream is of the first pair's device. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy_n(synced_mem *const *to, synced_mem *const *from,
                                                             size_t count, synced_mem_stream stream);

/** Copies to the host copy of to, which becomes AT_CPU.
 * Blocking: until the contents have arrived, and earlier work on the host copy of to is done. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy(synced_mem *to, synced_mem *from);

/** Copies count pairs at the same time to the host copies of to.
 * Blocking: until all have arrived, and earlier work on these copies is done. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count);

/* ---- Contents ---- */

/** Gives up the contents: the head becomes UNINITIALIZED, and the next read sees zeros. The memory stays. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_clear(synced_mem *mem);

/** Sets pending to 1 while the library's transfers, fills or allocations on the memory are pending, else to 0.
 * Errors: ERR_DEVICE_LOST; the reason of a failed staged transfer, once: contents that it was to bring are then valid
 * where they came from. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_query(synced_mem *mem, int *pending);

/** Waits for the library's transfers, fills and allocations on the memory.
 * Blocking: until they are done. Errors: ERR_DEVICE_LOST; the reason of a failed staged transfer. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_wait(synced_mem *mem);

/* ---- Size and memory ---- */
/*
 * Errors: GPU errors; ERR_INVALID_STATE (a view; memory exported as a tensor; a resize of an object with views, or, in
 * a callback or a forked child, during a call on its parts).
 */

/** Returns the size of the contents. @since 0.1 */
SYNCED_MEM_API size_t synced_mem_size(const synced_mem *mem);

/** Changes the size and keeps the contents up to the smaller size; new bytes read as zero. If no copy with the contents
 * has room, one of them moves to larger memory, and the other becomes stale. Those of a MIXED object are gathered on
 * one side.
 * Blocking: for transfers on the host copy if that is filled or moved; if the object is in parts, for writes of its
 * contents and calls on its parts. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize(synced_mem *mem, size_t size);

/** Changes the size and gives up the contents: the head becomes UNINITIALIZED. Memory with room stays.
 * Source: MixMemory of tensorRT_Pro. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize_discard(synced_mem *mem, size_t size);

/** Gives up the host copy, and its memory unless both sides use it. Contents of it alone are moved to the device first.
 * Blocking: until transfers from it have arrived. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_cpu_data(synced_mem *mem);

/** Gives up the device copy, and its memory unless both sides use it. Contents of it alone are moved to the host first.
 * Blocking: until they have arrived. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_gpu_data(synced_mem *mem);

/** Gives up both copies' memory and the contents, except those in a file: the head becomes UNINITIALIZED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_data(synced_mem *mem);

/* ---- Errors ---- */

/** Returns the name of a status, a constant string; "SYNCED_MEM_ERR_UNKNOWN" if there is none. @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_name(synced_mem_status status);

/** Returns a status in words, a constant string; "unknown status" if there is none. @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_message(synced_mem_status status);

/** Returns the status of the thread's last failed call; SYNCED_MEM_OK if none has failed. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_last_error(void);

/** Returns the detail of the thread's last failed call: function, request (size, device), the CUDA runtime's error.
 * Good until the next failed call; "" if none has failed. @since 0.1 */
SYNCED_MEM_API const char *synced_mem_last_error_message(void);

#ifdef __cplusplus
}
#endif

#include "synced_mem/budget.h"    /* more than fits in memory */
#include "synced_mem/files.h"     /* contents in files */
#include "synced_mem/memory.h"    /* memory of the caller's, allocators, facts of an object's memory */
#include "synced_mem/pools.h"     /* memory kept for reuse, staging, memory that is short, devices */
#include "synced_mem/processes.h" /* objects of several processes */
#include "synced_mem/report.h"    /* statistics, traces, error handler */
#include "synced_mem/views.h"     /* parts of objects */

#endif
