/**
 * @file
 * synced_mem: one buffer of bytes with a copy in host memory and a copy on a GPU.
 *
 * An object's head says which of its two copies hold the current contents. The library transfers bytes only when an
 * access needs a copy that is stale, so a layer calls synced_mem_cpu_data() or synced_mem_gpu_data() and never
 * cudaMemcpy. The states and accessors are those of Caffe's SyncedMemory.
 *
 * The one rule: a returned pointer is safe to use at once in the domain of the access, the host or one CUDA stream,
 * until the next conflicting call on the object. Accesses from two domains conflict if one is mutable or overwrite;
 * accesses from one domain never do. A call that changes the size or the memory conflicts with every access. The
 * library makes the waits: an access on a stream makes that stream wait, any other access waits on the host.
 *
 * This file has what most programs need, and includes the rest, except synced_mem/dlpack.h, at its end. The following
 * holds for every function of all files. A function's comment says only what differs.
 * - Sizes and capacities are in bytes, and may be 0. The caller sets struct_size to the size of its struct before the
 *   call. A call sets an output only on success, but a call that makes an object sets it to NULL on failure.
 * - Failure. A call that fails leaves the object as it was: head, contents, size, and every pointer that was valid.
 *   Memory that it obtained may stay as unused capacity. No call changes the caller's current CUDA device.
 * - Threads. Any thread may call any function at any time. Calls on one object may wait for one another, and reads from
 *   several threads cause one transfer. Writing while another thread uses the contents is the caller's race.
 * - Blocking. No call waits for work on a device, only for other calls on the same object and for short locks.
 * - Pageable memory. A call on a stream that transfers from it blocks until it has been read: by staging
 *   (synced_mem_set_staging()) after earlier work on the device copy, without page-locked buffers after earlier work on
 *   the stream, and never before work on another stream has filled it (synced_mem_memory.stream). A pull into it,
 *   unless staged, may block until the bytes have arrived.
 * - Ownership. A call takes nothing over, and returns nothing to free: pointers to contents are the object's. It reads
 *   or fills structs, arrays and strings during the call only. The library never reads or frees a user pointer.
 * - Memory given up. The library's own is freed after the work on it, without a wait, except that cudaFree may wait on
 *   a device without memory pools. Borrowed memory is the caller's again when the call returns, so the call blocks
 *   until the library's transfers on it are done. Adopted memory gets its callback when the work on it has finished, in
 *   this call or in a later one. SYNCED_MEM_MEMORY_PAGE_LOCK adds waits of its own.
 * - Errors. A call returns SYNCED_MEM_OK or an error; ERR_ is short for SYNCED_MEM_ERR_. A pointer is NULL only after a
 *   failure, of which synced_mem_last_error() has the status. Any call returns ERR_INVALID_ARGUMENT for an unknown
 *   struct_size, and for NULL as object, result, struct or array. Nothing aborts, or prints unless the caller passes a
 *   FILE or the environment asks for it.
 * - "GPU errors" are ERR_NO_GPU; ERR_INVALID_DEVICE (the object's device does not exist, or the stream is of another);
 *   ERR_OUT_OF_DEVICE_MEMORY and ERR_OUT_OF_HOST_MEMORY (after the steps of docs/guide/out_of_memory.md, which may
 *   block); ERR_DEVICE_LOST (the runtime reports an error of earlier work to every later call); ERR_CAPTURING and
 *   ERR_FORKED (below); ERR_CUDA (any other answer of the runtime, which the detail names).
 * - Streams are of the object's device, and stay the caller's. NULL and cudaStreamLegacy are its legacy default stream,
 *   cudaStreamPerThread the calling thread's. An object without a device takes the stream's. An unusable handle,
 *   (cudaStream_t)-1, is an ERR_INVALID_ARGUMENT.
 * - Graph capture. A capturing stream admits accesses that need no transfer, fill or memory, and leave the head. Other
 *   calls on it, or that would wait for it, return ERR_CAPTURING, and the capture goes on: docs/guide/streams.md.
 * - Fork. A child of a process that has used a GPU through the library can use new objects on the host, read valid host
 *   copies and facts, and release. Other use returns ERR_FORKED: docs/guide/threads.md, "Forked processes".
 */
#ifndef SYNCED_MEM_H
#define SYNCED_MEM_H

#include <stddef.h>
#include <stdint.h>

/** The version of this header, first part. synced_mem_version() returns the version of the running library. */
#define SYNCED_MEM_VERSION_MAJOR 0
#define SYNCED_MEM_VERSION_MINOR 2 /**< second part */
#define SYNCED_MEM_VERSION_PATCH 0 /**< third part */

/** Before each function that the library exports. */
#if defined(__GNUC__)
#define SYNCED_MEM_API __attribute__((visibility("default")))
#else
#define SYNCED_MEM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** One object. Opaque; made by synced_mem_create(), released by synced_mem_release(). */
typedef struct synced_mem synced_mem;

struct CUstream_st;
/** The CUDA runtime's cudaStream_t. It is declared here so that this header needs no header of CUDA. */
typedef struct CUstream_st *synced_mem_stream;

/** Which copies hold the current contents, as bits: 1 the host copy, 2 the device copy (Caffe's SyncedHead). */
typedef enum synced_mem_head_kind {
    SYNCED_MEM_UNINITIALIZED = 0, /**< neither: nothing was written yet; the first read sees zeros */
    SYNCED_MEM_AT_CPU = 1,        /**< the host copy only */
    SYNCED_MEM_AT_GPU = 2,        /**< the device copy only */
    SYNCED_MEM_SYNCED = 3,        /**< both; one of them may still be arriving */
    /** In parts (synced_mem/views.h): neither copy has all bytes, and those without contents read as zeros. No bits. */
    SYNCED_MEM_MIXED = 4
} synced_mem_head_kind;

/** One of the two copies. The values are the bits of the head, and DLPack's device types. */
typedef enum synced_mem_side { SYNCED_MEM_SIDE_CPU = 1, SYNCED_MEM_SIDE_GPU = 2 } synced_mem_side;

/** What an access does with the contents: it reads them, reads and writes them, or writes all bytes before it reads. */
typedef enum synced_mem_mode { SYNCED_MEM_READ = 0, SYNCED_MEM_MUTABLE = 1, SYNCED_MEM_OVERWRITE = 2 } synced_mem_mode;

#define SYNCED_MEM_NO_STREAM ((synced_mem_stream)(uintptr_t)-1) /**< of synced_mem_access(): without a stream */
/** Of a push, pull or copy: a stream of the library's, of the first object's device. The transfer comes after earlier
 * work on the objects' memory, and later accesses after the transfer. Other calls return ERR_INVALID_ARGUMENT. */
#define SYNCED_MEM_STREAM_LIBRARY ((synced_mem_stream)(uintptr_t)-2)

/** Every status: number, name, message. The numbers are part of the interface and never change. */
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
        SYNCED_MEM_STATUS_FORCE_INT = 0x7fffffff /**< never returned; makes room for later statuses */
} synced_mem_status;

/* ---- Create and release ---- */

#define SYNCED_MEM_DEVICE_CURRENT (-1) /**< the calling thread's current device when the object first needs one */

/** A user allocator: synced_mem/memory.h. */
typedef struct synced_mem_allocator synced_mem_allocator;

/** Where an object has its memory. SEPARATE has a host copy and a device copy. The others are unified: both sides use
 * one allocation at one address, so nothing is transferred, but heads and accesses are the same. The first access that
 * needs memory decides by the device, and sets the object's device: docs/guide/unified.md.
 * Source: CUDA C++ Programming Guide, "Mapped Memory", "Unified Memory Programming". */
typedef enum synced_mem_placement_kind {
    SYNCED_MEM_PLACEMENT_SEPARATE = 0, /**< two copies (default) */
    /** Page-locked host memory, read over the bus. ERR_INVALID_STATE: the device would see it at another address. */
    SYNCED_MEM_PLACEMENT_MAPPED = 1,
    /** cudaMallocManaged. ERR_INVALID_STATE: cudaDevAttrConcurrentManagedAccess is 0. ERR_OUT_OF_DEVICE_MEMORY: it
     * would not fit into the device's memory beside the library's and others' memory. */
    SYNCED_MEM_PLACEMENT_MANAGED = 2,
    /** Integrated GPU (Jetson): managed if the host may touch it while kernels run, else mapped. Others: separate. */
    SYNCED_MEM_PLACEMENT_AUTOMATIC = 3
} synced_mem_placement_kind;

/** The options of an object. Fill them with synced_mem_options_init(), then change what you need. */
typedef struct synced_mem_options {
    size_t struct_size; /**< sizeof(synced_mem_options), set by synced_mem_options_init() */
    /** CUDA device number, or SYNCED_MEM_DEVICE_CURRENT (default); first read when the device is first used. Only an
     * object that names a usable device gets page-locked host memory before the process has used a GPU. */
    int device;
    const char *name; /**< shown in details of errors, traces, debug mode; 47 bytes of it are copied; NULL by default */
    /** A power of two up to 2 MiB; 0 (default): 64, and the caller's memory may lie anywhere. Smaller than a pointer's
     * it is that. Other memory is refused: an allocator's by ERR_INVALID_STATE, the caller's ERR_INVALID_ARGUMENT. */
    size_t alignment;
    void *user; /**< yours, returned by synced_mem_user(); NULL by default */
    /** Of the host copy; read during the call only; NULL (default): set by synced_mem_set_allocators(). */
    const synced_mem_allocator *cpu_allocator;
    const synced_mem_allocator *gpu_allocator; /**< the same for the device copy */
    synced_mem_placement_kind placement;       /**< SYNCED_MEM_PLACEMENT_SEPARATE by default */
    /** 0 (default), or SYNCED_MEM_SHAREABLE_*: other processes can use the object. Only with separate placement and
     * without allocators; synced_mem_set_allocators() does not serve it. */
    unsigned shareable;
} synced_mem_options;

/** Fills options with the defaults. NULL is ignored. @since 0.1 */
SYNCED_MEM_API void synced_mem_options_init(synced_mem_options *options);

/** Makes an object with one reference, UNINITIALIZED, and no memory on either side yet. Calls no CUDA function. NULL
 * options are the defaults. Accessors of an object of 0 bytes return pointers that are not NULL.
 * Ownership: the caller owns the reference until synced_mem_release(). Errors: ERR_INVALID_ARGUMENT (a size over
 * PTRDIFF_MAX less 2 MiB, a device below -1 or above 32767, a bad alignment, placement or allocator, an allocator with
 * a unified placement); ERR_OUT_OF_HOST_MEMORY; of a shareable object ERR_FILE (no descriptor left, no files in memory,
 * or a size over RLIMIT_FSIZE). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options);

/** Adds a reference of the caller's, atomically.
 * Errors: ERR_INVALID_STATE (the last reference is already gone). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_retain(synced_mem *mem);

/** Gives up a reference; the last one releases the object and its memory. NULL is ignored, with SYNCED_MEM_OK.
 * Blocking: only the last release: for memory given up; while an error's detail or synced_mem_print_all() reads the
 * object; and in a turn, until the process's work on the object has ended. Ownership: the caller's reference is gone;
 * if the wait fails it stays, and nothing is released. Errors: ERR_INVALID_STATE (released more often than retained; an
 * assertion in debug builds, else detected while the slot is unused); ERR_CUDA (the wait failed). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release(synced_mem *mem);

/** Frees the library's streams, events, memory pools and released memory. It can be used again afterwards.
 * Blocking: until pending transfers on released memory are done. Ownership: due adopted memory gets its callback; an
 * object that a callback releases is gone too. Threads: not while another thread is in the library. Errors:
 * ERR_INVALID_STATE (objects are alive, of which the detail names three, or the callbacks hand in memory without end;
 * then only released memory was freed); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_shutdown(void);

/* ---- Access ---- */
/*
 * An accessor returns the pointer of one copy. A mutable access reads and writes, and makes the other copy stale. So
 * does an overwrite, for a caller that writes every byte: the contents are undefined until then, because nothing is
 * copied, and nothing is filled but in debug mode. The work of an access, and the next head; "zero" is a fill with
 * zeros, "h2d" and "d2h" a transfer, "-" nothing:
 *
 *   head           cpu read       cpu mutable    cpu overwrite  gpu read       gpu mutable    gpu overwrite
 *   UNINITIALIZED  zero > AT_CPU  zero > AT_CPU  -    > AT_CPU  zero > AT_GPU  zero > AT_GPU  -    > AT_GPU
 *   AT_CPU         -    > AT_CPU  -    > AT_CPU  -    > AT_CPU  h2d  > SYNCED  h2d  > AT_GPU  -    > AT_GPU
 *   AT_GPU         d2h  > SYNCED  d2h  > AT_CPU  -    > AT_CPU  -    > AT_GPU  -    > AT_GPU  -    > AT_GPU
 *   SYNCED         -    > SYNCED  -    > AT_CPU  -    > AT_CPU  -    > SYNCED  -    > AT_GPU  -    > AT_GPU
 *
 * A host access waits for the transfer that brings the contents, and for the caller's work that writes them before it,
 * on the stream of its access; without one, on the legacy stream and the device's blocking streams. After a pull, a
 * read waits for that pull alone. If the device is not concerned, it fails only by ERR_OUT_OF_HOST_MEMORY.
 *
 * An access to the device copy without a stream is for kernels on the legacy stream or on blocking streams, as in
 * Caffe. Later conflicting calls, and the reuse of the memory, come after them; among themselves the caller orders
 * them. Work on another stream must finish before the next conflicting call: docs/guide/streams.md.
 *
 * An access on a stream is for work queued on it up to the next conflicting call, which comes after that work. The
 * stream waits for a writer on another stream, and before a write for all earlier work on the device copy; a transfer,
 * fill or allocation is queued on the stream itself. An access to write ends at the next call on the object other than
 * an access on this stream, also at a pull. Call synced_mem_forget_stream() before a stream is destroyed.
 *
 * Unified placement: both sides have the same pointer, and an access waits for conflicting work of either side: a host
 * write also for kernels that read. The first use of memory may fail as its placement says, on either side.
 * Source: Caffe, SyncedMemory::cpu_data and its siblings; overwrite is this library's addition.
 */

/** The host copy, to read.
 * @return synced_mem_size() bytes. Blocking: until the contents have arrived. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_cpu_data(synced_mem *mem);

/** The host copy, to read and write; the device copy becomes stale.
 * @return synced_mem_size() bytes. Blocking: until the contents have arrived, and the library's pending transfers have
 * read the host copy. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_cpu_data(synced_mem *mem);

/** The host copy, to be written whole; the device copy becomes stale.
 * @return synced_mem_size() bytes with undefined contents. Blocking: until the library's pending transfers on the host
 * copy are done. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_cpu_data(synced_mem *mem);

/** The device copy, to read by kernels on the legacy stream or on blocking streams.
 * @return synced_mem_size() bytes. Blocking: until the contents have arrived, and streams that write them are done.
 * Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data(synced_mem *mem);

/** The device copy, to read and write by such kernels; the host copy becomes stale.
 * @return synced_mem_size() bytes. Blocking: until the contents have arrived, and transfers and streams of accesses no
 * longer use the copy. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data(synced_mem *mem);

/** The device copy, to be written whole by such kernels; the host copy becomes stale.
 * @return synced_mem_size() bytes with undefined contents. Blocking: until the memory is allocated, and transfers and
 * streams of accesses no longer use it. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data(synced_mem *mem);

/** The device copy, to read by work on the stream.
 * @return synced_mem_size() bytes. Blocking: only for pageable memory. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** The device copy, to read and write by work on the stream; the host copy becomes stale.
 * @return synced_mem_size() bytes. Blocking: only for pageable memory. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** The device copy, to be written whole by work on the stream; the host copy becomes stale.
 * @return synced_mem_size() bytes with undefined contents. Errors: GPU errors. @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** Makes one of the nine accesses above, for programs that choose it at run time.
 * @param stream  of an access to the device copy, or SYNCED_MEM_NO_STREAM; a host access ignores it
 * @return synced_mem_size() bytes, not to be written after a read. Blocking: until that access would return. Errors:
 * those of that access; ERR_INVALID_ARGUMENT (no such side or mode). @since 0.2 */
SYNCED_MEM_API void *synced_mem_access(synced_mem *mem, synced_mem_side side, synced_mem_mode mode,
                                       synced_mem_stream stream);

/** The head: which copies hold the current contents, or will on arrival. A failed transfer shows once polled by a call.
 * @return the head; UNINITIALIZED for NULL; in a forked child maybe MIXED for an object in parts. @since 0.1 */
SYNCED_MEM_API synced_mem_head_kind synced_mem_head(const synced_mem *mem);

/* ---- Streams and transfers ---- */
/*
 * A push, pull or copy to the device queues its transfer on the stream and returns. The stream waits for earlier work
 * on the memory of the objects, and work queued on it afterwards sees the contents. A stream on which nothing else
 * accessed objects may be destroyed without synced_mem_forget_stream(). After ERR_CUDA a transfer may still run,
 * untracked, so the caller's memory must stay until the stream has been synchronized. A list has objects of the
 * stream's device, each once or more, and one event: an access to one waits for all. Staged transfers have events of
 * their own; others may be one call of the CUDA runtime, and then are in no order. The call returns the error of the
 * first object, in the order given, or of the one call. No head has changed then, though some transfers may have been
 * made; but if a staged transfer fails, the others still arrive, also of other parts of an object: by bytes, heads
 * change and accesses to write end, because these transfers succeeded.
 */

/** Ends the stream's use of the object's device copy. Later conflicting calls wait for the work queued on the stream up
 * to now, and for none queued after, so the stream needs a new access before it uses the object again. No use is no
 * error.
 * Errors: GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_use_on(synced_mem *mem, synced_mem_stream stream);

/** Ends the stream's use of all objects, and forgets the stream. Call it before the stream is destroyed, after the last
 * work on its pointers is queued, because a new stream may get the old one's handle; not for the default streams. An
 * unknown stream is no error. Otherwise the stream's unrecorded work is lost to the library, and a call that detects
 * the handle as another stream's returns ERR_INVALID_STATE once, and forgets the old stream's work on the object.
 * Errors: GPU errors (the stream is then known as before). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_forget_stream(synced_mem_stream stream);

/** Queues the transfer of the host copy to the device: AT_CPU becomes SYNCED, the device copy arriving. If the head is
 * SYNCED nothing is moved, and the stream waits for contents that still arrive on another stream.
 * Unified placement: nothing is moved; the stream waits for writers of the contents; managed memory is prefetched.
 * Blocking: only for pageable memory. Errors: ERR_INVALID_STATE (UNINITIALIZED, or AT_GPU: the host copy is stale); GPU
 * errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream);

/** Queues the transfer of the device copy to the host: AT_GPU becomes SYNCED, the host copy arriving. If the head is
 * SYNCED nothing is moved. Later writes to the device copy, on any stream, come after the transfer; an access waits on
 * the host for copy threads that have yet to queue it.
 * Unified placement: nothing is moved; the host copy has arrived when writers of the contents, up to now, are done.
 * Blocking: only for pageable memory. Errors: ERR_INVALID_STATE (UNINITIALIZED, or AT_CPU: the device copy is stale);
 * GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull(synced_mem *mem, synced_mem_stream stream);

/** Pushes a list of objects.
 * Blocking: only for pageable memory. Errors: ERR_INVALID_STATE (UNINITIALIZED or AT_GPU); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/** Pulls a list of objects.
 * Blocking: only for pageable memory. Errors: ERR_INVALID_STATE (UNINITIALIZED or AT_CPU); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/* ---- Copies ---- */
/*
 * A copy takes the contents of one object to another of the same size. from keeps its head and its copies. If from is
 * UNINITIALIZED, to becomes UNINITIALIZED; so it does if a transfer fails after it has begun and only the overwritten
 * copy was valid. If to has mapped placement and from is valid on the host or mapped, a copy to the device blocks until
 * earlier work on both objects' memory is done. Several devices: docs/guide/copies.md. Each copy returns
 * ERR_INVALID_ARGUMENT if the sizes differ, both are one object, or bytes or memory of to overlap those of from; in a
 * list, an object of to or a view of its bytes is listed twice, or memory that is written overlaps another's valid copy
 * in the call. Overlaps with objects outside the call are not detected. A refused argument, state or memory for
 * contents changes nothing. If a transfer of a list is refused later, by the runtime or for lack of memory for its
 * record, each object or part of to has its old contents or the copy.
 */

/** Copies the contents of from to the device copy of to, which becomes AT_GPU, by one transfer on the stream from the
 * device copy of from if that is valid, else from its host copy. An open write of from ends unless it is on the stream.
 * @param to      overwritten; without a device it takes the stream's
 * @param stream  of the device of either object; a default stream is of that of to; if to has none, of from
 * Blocking: only for pageable memory, and in the case of mapped placement. Errors: ERR_CAPTURING (the stream captures);
 * ERR_INVALID_DEVICE (the stream belongs to neither device); other GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy(synced_mem *to, synced_mem *from, synced_mem_stream stream);

/** Copies count pairs, from[i] to the device copy of to[i]. The default streams are of the first pair's device.
 * Blocking: only for pageable memory, and with mapped placement. Errors: the GPU errors of one copy. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy_n(synced_mem *const *to, synced_mem *const *from,
                                                             size_t count, synced_mem_stream stream);

/** Copies the contents of from to the host copy of to, which becomes AT_CPU: on the host if from is valid there, else
 * by one transfer from its device copy.
 * Blocking: until they have arrived, and earlier work on the host copy of to is done. Errors: GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy(synced_mem *to, synced_mem *from);

/** Copies count pairs, from[i] to the host copy of to[i]. The transfers run at the same time.
 * Blocking: until all have arrived, and earlier work on the host copies is done. Errors: GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count);

/* ---- Contents and size ---- */
/*
 * While memory is exported as a tensor (synced_mem/dlpack.h), calls that would replace, release or resize it return
 * ERR_INVALID_STATE. If a staged transfer fails, its contents are lost, and the first query or wait reports the reason.
 * With unified placement, to release one side changes the head, and the memory stays until synced_mem_release_data(). A
 * resize returns ERR_INVALID_ARGUMENT for a size over PTRDIFF_MAX less 2 MiB; ERR_INVALID_STATE for a view, an object
 * with views, and, in a callback or a forked child, one with a call on its parts going on; and GPU errors other than
 * ERR_OUT_OF_HOST_MEMORY only if it touches device memory.
 */

/** Gives up the contents and writes no zeros: the head becomes UNINITIALIZED, so that the next read fills the object
 * and sees zeros. All memory stays, and its next use waits for work in flight.
 * Errors: ERR_FORKED. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_clear(synced_mem *mem);

/** Sets pending to 1 if the library's transfers, fills or allocations on the object's memory are pending, else to 0.
 * Errors: ERR_DEVICE_LOST; the reason of a failed staged transfer; ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_query(synced_mem *mem, int *pending);

/** Waits for the library's transfers, fills and allocations on the object's memory.
 * Blocking: until they are done, and the caller's work before a transfer. Errors: ERR_DEVICE_LOST; the reason of a
 * failed staged transfer; ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_wait(synced_mem *mem);

/** The size of the contents: as made, or as resized last.
 * @return in bytes; 0 for NULL @since 0.1 */
SYNCED_MEM_API size_t synced_mem_size(const synced_mem *mem);

/** Changes the size and keeps the contents up to the smaller size; new bytes read as zero, also if it was larger
 * before. A copy with room keeps its memory. If no copy with the contents has room, one of them is moved to larger
 * memory and the other becomes stale; a copy without the contents and without room is given up.
 * Blocking: for memory given up; a fill or a move of the host copy, until transfers on it are done; an object in parts,
 * until all writes of its contents are done and other threads' calls on parts of it have ended. Other device work is
 * queued on an internal stream, after the caller's. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE; GPU errors.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize(synced_mem *mem, size_t size);

/** Changes the size and gives up the contents: the head becomes UNINITIALIZED. Copies with room for the size stay as
 * capacity, others are given up.
 * Blocking: only for memory given up. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE; GPU errors.
 * Source: MixMemory of tensorRT_Pro, which reuses memory that is large enough. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize_discard(synced_mem *mem, size_t size);

/** Gives up the host copy's memory, if any. Contents of it alone are moved to the device first.
 * Blocking: until that transfer, or one of an earlier push, has arrived, so that a failure loses nothing; and for
 * memory given up. Errors: ERR_INVALID_STATE (a view); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_cpu_data(synced_mem *mem);

/** Gives up the device copy's memory, if any, and keeps the device. Contents of it alone are moved to the host first.
 * Blocking: until they have arrived, and for memory given up. Errors: ERR_INVALID_STATE (a view); GPU errors.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_gpu_data(synced_mem *mem);

/** Gives up both copies' memory and the contents: the head becomes UNINITIALIZED.
 * Blocking: for memory given up. Errors: ERR_INVALID_STATE (a view); ERR_CUDA (a wait failed). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_data(synced_mem *mem);

/* ---- Errors ---- */

/** The name of a status ("SYNCED_MEM_ERR_NO_GPU").
 * @return a constant string, never NULL; "SYNCED_MEM_ERR_UNKNOWN" for a number that is no status @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_name(synced_mem_status status);

/** The meaning of a status, in a few words.
 * @return a constant string, never NULL; "unknown status" for a number that is no status @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_message(synced_mem_status status);

/** The status of the calling thread's last failed call; calls that succeed don't change it.
 * @return SYNCED_MEM_OK if no call of this thread has failed yet @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_last_error(void);

/** The detail of the calling thread's last failed call: function, request (size, device), the CUDA runtime's error.
 * @return a string, never NULL, good until the thread's next failing call; "" if no call has failed @since 0.1 */
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
