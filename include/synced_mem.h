/**
 * @file
 * synced_mem: one buffer of bytes with a copy in host memory and a copy on a GPU.
 *
 * An object knows which of its two copies hold the current contents (its head) and moves bytes only when an access
 * needs them where they are not. It is the storage under a tensor: a layer asks for synced_mem_cpu_data() or
 * synced_mem_gpu_data() and never calls cudaMemcpy. The states and accessors are those of Caffe's SyncedMemory.
 *
 * The one rule: what an accessor returns is safe to use at once in the domain it was asked for (the host, or one CUDA
 * stream), and stays so until the next conflicting call on the object. Accesses from two domains conflict when one of
 * them is mutable or overwrite. Accesses from one domain, the host or one stream, never conflict. A call that changes
 * the size or the memory conflicts with every access. Whatever has to be waited for, the library waits for: on the host
 * only when the host asked, otherwise with events between streams.
 *
 * Facts that hold for every function, so that the comments below need not repeat them:
 * - Sizes and capacities are in bytes.
 * - A call that fails leaves the object as it was: head, contents, size, and every pointer that was valid. Memory
 *   already obtained may stay as unused capacity.
 * - Any thread may call any function; calls on one object may wait for one another. Reads of one object from several
 *   threads are safe and cause one transfer; to write through a pointer while another thread uses the object's contents
 *   is the caller's race, as with any buffer.
 * - The caller's current CUDA device is the same after every call as before it.
 * - A stream is one of the object's device: one that the caller created, or a handle that names a stream without one
 *   being created: NULL and cudaStreamLegacy, the legacy default stream of the object's device, and
 *   cudaStreamPerThread, the default stream of the calling thread there. An object that has no device yet takes that
 *   of the stream on which its device copy is used. (cudaStream_t)-1 is no stream: SYNCED_MEM_ERR_INVALID_ARGUMENT.
 * - Nothing aborts, and nothing prints but what is asked to: the functions that take a FILE, and what the environment
 *   asks for (see "Seeing what happens"). A function that returns a pointer returns NULL only when it failed; a function
 *   that returns a status returns SYNCED_MEM_OK or says what failed. synced_mem_last_error_message() has the detail.
 * - "GPU errors" stands for: SYNCED_MEM_ERR_NO_GPU (the library was built without CUDA, or the machine has no driver or
 *   no device), SYNCED_MEM_ERR_INVALID_DEVICE (the object's device does not exist),
 *   SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY (both after what "Out of memory" below
 *   describes, which may block), SYNCED_MEM_ERR_DEVICE_LOST (an error of earlier work on the device that the CUDA
 *   runtime reports to every later call), SYNCED_MEM_ERR_CAPTURING (see "Graph capture" below), SYNCED_MEM_ERR_FORKED
 *   (see "Fork") and SYNCED_MEM_ERR_CUDA (any other answer of the runtime, named in the detail). Functions that take a
 *   stream answer SYNCED_MEM_ERR_INVALID_DEVICE also for a stream of another device than the object's.
 *
 * Graph capture. While a stream captures, an access on it succeeds if it needs neither a transfer, a fill nor memory,
 * and leaves the head as it is; what it returns may be captured, and is not tracked, as no kernel has run. Any other
 * call on that stream, and a call elsewhere that would have to wait for work on it, answers SYNCED_MEM_ERR_CAPTURING,
 * and the capture goes on. Before each launch of the graph ask for its pointers on the stream it is launched on: an
 * access like any other. Calls on other streams work while one captures, with one exception: no event can be recorded
 * on the legacy stream while a blocking stream of the device captures. Accessors without a stream may need such an
 * event. So may, on any stream, a transfer or a fill that the library makes into device memory whose pointer was ever
 * asked for without a stream. Both answer SYNCED_MEM_ERR_CAPTURING then. Such memory of the library's that goes
 * meanwhile is kept until the capture has ended.
 *
 * Fork. In a child of a process that has used a GPU through the library, host copies that were valid are readable
 * through synced_mem_cpu_data() where nothing was arriving in them, and new objects can be made and used on the host.
 * What the parent could have had at once the child gets too: a device pointer, which is of no use to it, or a host copy
 * to write, which is its own from then on. Every other call that needs more of an object of the parent's than its size,
 * head, device, name or user pointer, and every use of a GPU, answers SYNCED_MEM_ERR_FORKED; to release such an object
 * succeeds, and leaves its memory to the end of the child. Page-locked host memory is readable in the child where the
 * operating system copies it as it does other memory, which Linux does for memory that no driver has excluded; managed
 * memory is not: a child must not touch what synced_mem_cpu_data() still gives it of an object placed so.
 */
#ifndef SYNCED_MEM_H
#define SYNCED_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** The version of this header, first part; synced_mem_version() tells that of the library that is running. */
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

/** One object. Opaque; made by synced_mem_create(), shared by synced_mem_retain(), given up by synced_mem_release(). */
typedef struct synced_mem synced_mem;

struct CUstream_st;
/** The type that the CUDA runtime calls cudaStream_t, declared so that this header needs none of CUDA's. */
typedef struct CUstream_st *synced_mem_stream;

/**
 * Which copies hold the current contents. The values are bits: 1 the host copy, 2 the device copy.
 * Source: Caffe, SyncedMemory::SyncedHead.
 */
typedef enum synced_mem_state {
    SYNCED_MEM_UNINITIALIZED = 0, /**< neither: nothing was written yet; the first read sees zeros */
    SYNCED_MEM_AT_CPU = 1,        /**< the host copy only */
    SYNCED_MEM_AT_GPU = 2,        /**< the device copy only */
    SYNCED_MEM_SYNCED = 3         /**< both; one of them may still be arriving */
} synced_mem_state;

/* ---- Errors ---- */

/** Every status: number, name, message. The numbers are part of the interface and never change. */
#define SYNCED_MEM_STATUS_MAP(X)                                                                                       \
    X(0, OK, "success")                                                                                                \
    X(1, ERR_INVALID_ARGUMENT, "invalid argument")                                                                     \
    X(2, ERR_INVALID_STATE, "the object's state does not allow this call")                                             \
    X(3, ERR_OUT_OF_HOST_MEMORY, "out of host memory")                                                                 \
    X(4, ERR_OUT_OF_DEVICE_MEMORY, "out of device memory")                                                             \
    X(5, ERR_NO_GPU, "no GPU: built without CUDA, or no driver or device on this machine")                             \
    X(6, ERR_INVALID_DEVICE, "no such device, or memory of another device")                                            \
    X(7, ERR_DEVICE_LOST, "the device reports an error of earlier work and answers no further")                        \
    X(8, ERR_CUDA, "the CUDA runtime refused a call")                                                                  \
    X(9, ERR_CAPTURING, "a stream is capturing a graph, in which this work can't be done")                             \
    X(10, ERR_FORKED, "the process was forked from one that had used a GPU")                                           \
    X(11, ERR_FILE, "a file can't be written")

/** What a call answers. */
typedef enum synced_mem_status {
#define SYNCED_MEM_STATUS_ENUM(number, name, message) SYNCED_MEM_##name = number,
    SYNCED_MEM_STATUS_MAP(SYNCED_MEM_STATUS_ENUM)
#undef SYNCED_MEM_STATUS_ENUM
        SYNCED_MEM_STATUS_FORCE_INT = 0x7fffffff /**< never returned; makes room for later statuses */
} synced_mem_status;

/**
 * The name of a status, as in this header ("SYNCED_MEM_ERR_NO_GPU").
 * Threads: safe.
 * @return a constant string, never NULL; "SYNCED_MEM_ERR_UNKNOWN" for a number that is no status. Never blocks.
 * @since 0.1
 */
SYNCED_MEM_API const char *synced_mem_status_name(synced_mem_status status);

/**
 * What a status means, in a few words.
 * Threads: safe.
 * @return a constant string, never NULL; "unknown status" for a number that is no status. Never blocks.
 * @since 0.1
 */
SYNCED_MEM_API const char *synced_mem_status_message(synced_mem_status status);

/**
 * The status of the calling thread's last failed call; calls that succeed leave it alone.
 * Threads: safe; each thread has its own. Ownership: none taken.
 * @return SYNCED_MEM_OK when no call of this thread has failed yet. Never blocks.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_last_error(void);

/**
 * The detail of the calling thread's last failed call: the function, what it asked for (size, device), and the CUDA
 * runtime's error where there was one.
 * Threads: safe; each thread has its own.
 * @return a string owned by the thread, good until its next failing call; "" when no call has failed. Never NULL, never
 *         blocks.
 * @since 0.1
 */
SYNCED_MEM_API const char *synced_mem_last_error_message(void);

/** Called in the failing thread, after the failed call has put everything back and with no lock held. It may call the
 * library; a failure inside it becomes the thread's last error but calls no handler. The message is good until the
 * handler returns. */
typedef void (*synced_mem_error_handler)(synced_mem_status status, const char *message, void *user);

/**
 * Sets the function that every failing call calls before it returns, for the whole process; NULL (the default) for
 * none. A program that wants Caffe's fatal CHECK sets one that aborts.
 * @param user  handed to the handler; the library neither reads nor frees it
 * Ownership: none taken. Never blocks on a stream. A call that fails in another thread at the same time may still call
 * the previous handler, with the user pointer that belongs to it.
 * Threads: safe.
 * @since 0.1
 */
SYNCED_MEM_API void synced_mem_set_error_handler(synced_mem_error_handler handler, void *user);

/* ---- Life ---- */

/** The device that is current in the calling thread when the object first needs one. */
#define SYNCED_MEM_DEVICE_CURRENT (-1)

/** Of an allocator of host memory: all that it gives is page-locked. */
#define SYNCED_MEM_ALLOCATOR_PINNED 1u

/**
 * An allocator of the caller's, such as a framework's cache, for host memory or for device memory.
 *
 * Both functions are called with no lock held, in any thread that calls the library; never in a CUDA callback, and with
 * whatever device current that the calling thread has. They may call the library, also with the object the memory is
 * for; they must not end a stream or a capture that the call in progress was given.
 *
 * Device memory. What alloc returns belongs to the device, and may be used by work queued on stream from then on: the
 * handle that the caller's call was given (NULL: the legacy default stream), or a stream of the library's own. free is
 * called when all that the library, and the streams it tracks, did with the memory has been ordered before stream: the
 * memory may be used again by what is queued there from then on. That stream is one of the library's own, which may be
 * destroyed by synced_mem_shutdown(), so whatever is needed of it (an event, cudaFreeAsync) has to be queued by free
 * itself; NULL: everything has finished, since the device is lost. Neither function gets a stream that was capturing
 * when the call began.
 *
 * Host memory. stream is NULL; device is the one that the memory will be transferred with, or -1 if that is not known.
 * free is called when everything has finished.
 *
 * Memory is always freed by the table that it came from, once, by a call that gets what alloc was asked for: size,
 * alignment and device. The exception is memory that is quarantined, see synced_mem_release_callback.
 */
typedef struct synced_mem_allocator {
    /** sizeof(synced_mem_allocator); sizes of no known version are refused. */
    size_t struct_size;
    /** size bytes, at least 1, aligned to alignment, a power of two; contents undefined. NULL: there is no memory. */
    void *(*alloc)(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    /** Takes back what alloc gave. */
    void (*free)(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    /** Yours, handed to both; neither read nor freed. */
    void *user;
    /** 0, or SYNCED_MEM_ALLOCATOR_PINNED. */
    unsigned flags;
} synced_mem_allocator;

/**
 * Where an object's memory is. SEPARATE is a host copy and a device copy, between which bytes are moved. The others are
 * unified: one allocation, at one address, that both sides use. Heads and accesses are the same; but where a separate
 * object transfers, a unified one only sees to the order of what uses the memory, and no transfer is counted. What is
 * worth it depends on the machine: on a discrete GPU a kernel reads mapped memory over the bus, each time.
 *
 * The first use of memory decides, by the device that asks: the object's, else that of the stream, else the current
 * one. It is the object's device from then on, also where it is the host that asks. Where there is no device to use, a
 * unified object that the host uses becomes a separate one.
 */
typedef enum synced_mem_placement_kind {
    SYNCED_MEM_PLACEMENT_SEPARATE = 0, /**< two copies (default) */
    /** Page-locked host memory that the device reaches over the bus. ERR_INVALID_STATE where it would have another
     *  address for the device. Source: CUDA C++ Programming Guide, "Mapped Memory". */
    SYNCED_MEM_PLACEMENT_MAPPED = 1,
    /**
     * Managed memory (cudaMallocManaged): pages go where they are touched. Their preferred location is the device:
     * where the host can use pages there in place they stay, and elsewhere every change of side is known, so that an
     * access which changes it prefetches the contents, on the asking stream, or on one of the library's own; the host
     * waits for what it has asked for. That the host accesses the memory too is therefore not advised. All of these are
     * hints, and no access fails for want of them. ERR_INVALID_STATE where host and device can't use managed memory at
     * a time (cudaDevAttrConcurrentManagedAccess is 0: the host faults when it touches any while a kernel runs);
     * ERR_OUT_OF_DEVICE_MEMORY where all that the library holds would not fit into the device's memory beside what
     * others use there (cudaMemGetInfo). Source: CUDA Runtime API, cudaMemAdvise, cudaMemPrefetchAsync; CUDA C++
     * Programming Guide, "Unified Memory Programming".
     */
    SYNCED_MEM_PLACEMENT_MANAGED = 2,
    /** On an integrated GPU (Jetson), whose memory is the host's, managed where the host may touch it while kernels
     *  run, else mapped; on any other separate. */
    SYNCED_MEM_PLACEMENT_AUTOMATIC = 3
} synced_mem_placement_kind;

/** How an object is made. Fill it with synced_mem_options_init(), then change what you need. */
typedef struct synced_mem_options {
    /** sizeof(synced_mem_options), set by synced_mem_options_init(); sizes of no known version are refused. */
    size_t struct_size;
    /**
     * CUDA device number, or SYNCED_MEM_DEVICE_CURRENT (default). Not looked at before the first use of the device, so
     * that the same program runs on a machine without one. An object that names its device gets page-locked host memory
     * from the start where that device can be used; others do once the process has used a GPU through the library.
     */
    int device;
    /** Shown in error details, in traces, and by debug mode; copied, at most 47 bytes of it are kept; NULL (default)
     * for none. */
    const char *name;
    /**
     * In bytes, a power of two up to 2 MiB; 0 (default) for 64. The library's own memory has it, and at least that of a
     * pointer. An allocator is asked for it, and memory without it is refused: ERR_INVALID_STATE. Memory that the
     * caller hands in is refused without it, ERR_INVALID_ARGUMENT; with 0 such memory may lie anywhere.
     */
    size_t alignment;
    /** Yours, returned by synced_mem_user(); neither read nor freed; NULL by default. */
    void *user;
    /** Where the host copy's memory comes from; read during the call only; NULL (default): as for all objects, see
     * synced_mem_set_allocators(). */
    const synced_mem_allocator *cpu_allocator;
    /** The same for the device copy's memory. */
    const synced_mem_allocator *gpu_allocator;
    /** Where the object's memory is: SYNCED_MEM_PLACEMENT_SEPARATE by default. */
    synced_mem_placement_kind placement;
} synced_mem_options;

/**
 * Fills options with the defaults of this version of the header. NULL is ignored. Never blocks.
 * Threads: safe. Ownership: none taken.
 * @since 0.1
 */
SYNCED_MEM_API void synced_mem_options_init(synced_mem_options *options);

/**
 * Makes an object of size bytes with one reference, UNINITIALIZED, and no memory on either side yet.
 * @param out      receives the object; set to NULL on failure
 * @param size     in bytes; 0 is valid: accessors then return pointers that are not NULL and nothing is ever copied
 * @param options  NULL for the defaults; read during the call only
 * Ownership: the caller owns one reference and gives it up with synced_mem_release(); nothing on failure.
 * Never blocks on a stream; calls no CUDA function.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (out NULL, a size over PTRDIFF_MAX less 2 MiB, an unknown struct_size, a
 *         device below -1 or above 32767, an alignment that is no power of two or too large, a placement of no known
 *         number, a bad allocator, or one for an object in unified placement); ERR_OUT_OF_HOST_MEMORY.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options);

/**
 * Sets the allocators that objects without their own get new memory from, for the whole process; memory that is there
 * stays, and is freed by the table it came from. What an allocator does not give is not taken from elsewhere: the call
 * that needs it answers ERR_OUT_OF_HOST_MEMORY or ERR_OUT_OF_DEVICE_MEMORY, and ERR_INVALID_STATE for memory that is of
 * no use (not aligned, or as the runtime says of the wrong kind or device), which goes back to its free at once.
 * @param cpu  of host memory; NULL (the default): the library's own. Read during the call only
 * @param gpu  of device memory; NULL (the default): the library's own. Read during the call only
 * Ownership: none taken; the functions and the user pointers must stay usable until the objects that have memory from
 * them are gone and synced_mem_shutdown() has returned, which also sets back both to NULL. Never blocks.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (an unknown struct_size or flag, a function that is NULL: neither is
 *         set); ERR_OUT_OF_HOST_MEMORY.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_set_allocators(const synced_mem_allocator *cpu,
                                                           const synced_mem_allocator *gpu);

/**
 * Adds a reference. Atomic; never blocks.
 * Ownership: the caller owns one more reference after success, none more after failure.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL); ERR_INVALID_STATE (the last reference is already gone).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_retain(synced_mem *mem);

/**
 * Gives up a reference; with the last one the object and its memory go. NULL is ignored and answers SYNCED_MEM_OK.
 * Blocking: memory of the library's own is freed in stream order or when transfers on it have finished, without a wait
 * for them; but cudaFree, where there are no memory pools, may wait for all work of the device.
 * Adopted memory gets its callback when what is pending on it has finished: in this call if it has, else in a later
 * call into the library. Borrowed memory is handed back by this call, which therefore waits on the host for the
 * library's own transfers on it (with the last reference only). That one also waits while another thread's
 * synced_mem_print_all(), or an error's detail that names objects, reads this object: for as long as another call on
 * the object holds it up, else for a few instructions.
 * Ownership: after success the caller's reference is gone. If that wait fails, nothing is released and the reference
 * remains the caller's.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_STATE (released more often than retained: an assertion in debug builds; in release
 *         builds detected for as long as the object's slot is not in use again); ERR_CUDA (that wait failed).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_release(synced_mem *mem);

/**
 * Gives back what the library keeps for all objects: its streams, events, memory pools, and memory whose last use has
 * finished; adopted memory that is still due gets its callback. The library can be used again afterwards.
 * Blocking: waits on the host for pending transfers on memory that was let go of. Call it when no other thread is in
 * the library.
 * Ownership: adopted memory is the caller's again when its callback is called.
 * Threads: not while another thread is in the library.
 * @return SYNCED_MEM_OK; ERR_INVALID_STATE (objects are alive, of which the detail names three: nothing was done); GPU
 *         errors.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_shutdown(void);

/**
 * Frees what was let go of and whose last use has finished, and calls the callbacks of adopted memory that are due.
 * Other calls do the same in passing when they take their slow path; a program that makes none for a while can call
 * this one. What another thread is just then doing this for is left to that thread. Inside a callback no other callback
 * is called: those that are due follow when it has returned.
 * Blocking: polls each pending piece of work and waits for none; but see
 * synced_mem_host_pool_set_decay().
 * Ownership: adopted memory is the caller's again when its callback is called.
 * Threads: safe.
 * @return SYNCED_MEM_OK, also when something is pending still; ERR_FORKED.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_reap(void);

/* ---- Facts ---- */
/* They never block, except for another thread's call on the same object, and fail only for a NULL object
 * (ERR_INVALID_ARGUMENT, returned value as stated); those that tell of one copy, in a forked child for an object of the
 * parent's too (ERR_FORKED, returned value as for NULL). */

/**
 * The size of the contents: as made, or as resized last.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return in bytes; 0 for NULL.
 * @since 0.1
 */
SYNCED_MEM_API size_t synced_mem_size(const synced_mem *mem);

/**
 * The head: which copies hold the current contents, or will when the transfer to them arrives. A transfer that has
 * failed shows once another call has polled it.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return the head; UNINITIALIZED for NULL.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_state synced_mem_head(const synced_mem *mem);

/**
 * The object's CUDA device.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return its number; SYNCED_MEM_DEVICE_CURRENT while it has none yet, and for NULL.
 * @since 0.1
 */
SYNCED_MEM_API int synced_mem_device(const synced_mem *mem);

/**
 * The user pointer of the options that the object was made with.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: the caller's.
 * @return the caller's own pointer; NULL for NULL.
 * @since 0.1
 */
SYNCED_MEM_API void *synced_mem_user(const synced_mem *mem);

/**
 * The object's name.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: the object's.
 * @return good as long as the object is; "" when it has none, and for NULL.
 * @since 0.1
 */
SYNCED_MEM_API const char *synced_mem_name(const synced_mem *mem);

/** Where a copy's memory comes from. */
typedef enum synced_mem_source {
    SYNCED_MEM_SOURCE_NONE = 0,      /**< there is no memory on this side */
    SYNCED_MEM_SOURCE_PAGEABLE = 1,  /**< the library's: host memory of the system */
    SYNCED_MEM_SOURCE_PINNED = 2,    /**< the library's: page-locked host memory */
    SYNCED_MEM_SOURCE_DEVICE = 3,    /**< the library's: device memory */
    SYNCED_MEM_SOURCE_BORROWED = 4,  /**< the caller's, handed in without a callback */
    SYNCED_MEM_SOURCE_ADOPTED = 5,   /**< handed in with a callback */
    SYNCED_MEM_SOURCE_ALLOCATOR = 6, /**< from an allocator of the caller's */
    SYNCED_MEM_SOURCE_MAPPED = 7,    /**< the library's: page-locked host memory that both sides use */
    SYNCED_MEM_SOURCE_MANAGED = 8    /**< the library's: managed memory that both sides use */
} synced_mem_source;

/**
 * Where the host copy's memory comes from.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return the source; NONE without a host copy, and for NULL.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_source synced_mem_cpu_source(const synced_mem *mem);

/**
 * Where the device copy's memory comes from.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return the source; NONE without a device copy, and for NULL.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_source synced_mem_gpu_source(const synced_mem *mem);

/**
 * Whether the host copy is known to be page-locked. The CUDA runtime knows it of memory of the caller's; it is queried
 * if the process uses a GPU through the library.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return 1, or 0; 0 without a host copy, for NULL, and where the runtime does not answer.
 * @since 0.1
 */
SYNCED_MEM_API int synced_mem_cpu_is_pinned(const synced_mem *mem);

/**
 * How much room the host copy has.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return in bytes; 0 without a host copy, and for NULL.
 * @since 0.1
 */
SYNCED_MEM_API size_t synced_mem_cpu_capacity(const synced_mem *mem);

/**
 * How much room the device copy has.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return in bytes; 0 without a device copy, and for NULL.
 * @since 0.1
 */
SYNCED_MEM_API size_t synced_mem_gpu_capacity(const synced_mem *mem);

/**
 * The placement in effect; before the first use of memory decides it, the one that was asked for.
 * Threads: safe. Never blocks but for another thread's call on the object. Ownership: none taken.
 * @return the placement; SEPARATE for NULL, and for a unified object that the host used where there was no device.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_placement_kind synced_mem_placement(const synced_mem *mem);

/**
 * How many CUDA devices this process can use. The first call starts the driver; no context is created.
 * Blocking: for the driver, when it is started. Threads: safe. Ownership: none taken.
 * @return 0 or more; 0 in a build without CUDA, on a machine without driver or device, and in a forked child.
 * @since 0.1
 */
SYNCED_MEM_API int synced_mem_device_count(void);

/* ---- Access ---- */
/*
 * The next head, and the work done, by access; "zero" is a fill with zeros, "h2d" and "d2h" a transfer, "-" nothing:
 *
 *   head           cpu read       cpu mutable    cpu overwrite  gpu read       gpu mutable    gpu overwrite
 *   UNINITIALIZED  zero > AT_CPU  zero > AT_CPU  -    > AT_CPU  zero > AT_GPU  zero > AT_GPU  -    > AT_GPU
 *   AT_CPU         -    > AT_CPU  -    > AT_CPU  -    > AT_CPU  h2d  > SYNCED  h2d  > AT_GPU  -    > AT_GPU
 *   AT_GPU         d2h  > SYNCED  d2h  > AT_CPU  -    > AT_CPU  -    > AT_GPU  -    > AT_GPU  -    > AT_GPU
 *   SYNCED         -    > SYNCED  -    > AT_CPU  -    > AT_CPU  -    > SYNCED  -    > AT_GPU  -    > AT_GPU
 *
 * Ownership: the pointers belong to the object. They are good until the next conflicting call on it and must not be
 * freed. Threads: safe; first accesses of one object from several threads cause one transfer and get one pointer.
 * Unified placement: the pointers of both sides are the same, and an access waits for conflicting work of either side:
 * the host to write also for kernels that read. What needs memory first may fail as its placement says, on either side.
 * Source: Caffe, SyncedMemory::cpu_data and its siblings; overwrite is this library's addition.
 */

/**
 * The host copy, to read. Blocks the host until the contents are there: a transfer from the device, and before it the
 * caller's work that writes them, on the stream they were asked for (without one: on the legacy stream, and on blocking
 * streams of the object's device). Nothing else is waited for: after a pull, that pull alone.
 * Ownership: the object's, see above.
 * Threads: safe.
 * @return synced_mem_size() bytes, to be read by the host; NULL on failure: ERR_INVALID_ARGUMENT (NULL object),
 *         ERR_OUT_OF_HOST_MEMORY, and when the contents have to come from the device, GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API const void *synced_mem_cpu_data(synced_mem *mem);

/**
 * The host copy, to read and write; the device copy becomes stale. Blocks the host as synced_mem_cpu_data() does, and
 * also until the library's pending transfers from the host copy have read it.
 * Ownership: the object's. Threads: safe; to write beside another thread's use of the contents is a race of the
 * caller's.
 * @return as synced_mem_cpu_data(), errors too.
 * @since 0.1
 */
SYNCED_MEM_API void *synced_mem_mutable_cpu_data(synced_mem *mem);

/**
 * The host copy, to be written whole: its contents are undefined until the caller has done so. Nothing is copied, and
 * nothing filled but in debug mode. The device copy becomes stale. Blocks the host until the library's pending
 * transfers on the host copy are done.
 * Ownership: the object's. Threads: as synced_mem_mutable_cpu_data().
 * @return as synced_mem_cpu_data(), errors too.
 * @since 0.1
 */
SYNCED_MEM_API void *synced_mem_overwrite_cpu_data(synced_mem *mem);

/**
 * The device copy, to read, on any stream. Blocks the host until the contents have arrived and work that writes them,
 * on a stream they were asked for, is done. The caller's kernels that use the pointer are waited for by the host, by
 * other streams and by the library's transfers before anything conflicts with them, if they are on the legacy stream
 * or on blocking streams of the object's device, as in Caffe; work on a non-blocking stream must have finished before
 * the next conflicting call, or be asked for with synced_mem_gpu_data_on(). Among themselves kernels that use
 * pointers asked for without a stream are ordered by the caller, as with any device pointer. A later host access ends
 * nothing of this: memory whose pointer was ever asked for so is given to nobody else before such kernels are done.
 * Transfers and fills that the library makes into it, on any stream, come behind them too. While a blocking stream of
 * the device captures these answer ERR_CAPTURING, and memory that goes is kept until the capture has ended.
 * Ownership: the object's, see above.
 * Threads: safe.
 * @return synced_mem_size() bytes of device memory; NULL on failure: ERR_INVALID_ARGUMENT (NULL object), GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API const void *synced_mem_gpu_data(synced_mem *mem);

/**
 * The device copy, to read and write; the host copy becomes stale. Blocks the host as synced_mem_gpu_data(), and also
 * until what reads the device copy is done: the library's transfers, and the caller's work on streams it was asked for.
 * Tracks and fails as synced_mem_gpu_data().
 * Ownership: the object's. Threads: as synced_mem_mutable_cpu_data().
 * @since 0.1
 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data(synced_mem *mem);

/**
 * The device copy, to be written whole: undefined until then, nothing is copied or filled; the host copy becomes stale.
 * Blocks, tracks and fails as synced_mem_mutable_gpu_data(); its allocation is waited for as well.
 * Ownership: the object's. Threads: as synced_mem_mutable_cpu_data().
 * @since 0.1
 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data(synced_mem *mem);

/**
 * The device copy, to read by work queued on the stream from now on, up to the next conflicting call on the object.
 * What that work has to come after, a transfer or a writer on another stream, the stream waits for; a transfer, a
 * fill or an allocation that is needed is queued on the stream itself. When something conflicts with that work, an
 * event recorded on the stream at that moment stands for it, so everything queued on the stream till then is waited
 * for; synced_mem_end_use_on() records it earlier. Readers on several streams do not wait for one another.
 * Blocking: not when the host copy is page-locked or no transfer is needed. A transfer from pageable memory returns
 * when the source has been read out; and the host waits for pageable memory of the caller's that is still being filled
 * in the order of another stream (synced_mem_memory.stream).
 * @param stream  see the facts for every function. Before it is destroyed, synced_mem_forget_stream() must be called
 * Ownership: the object's; the stream stays the caller's. Threads: safe.
 * @return synced_mem_size() bytes of device memory; NULL on failure: ERR_INVALID_ARGUMENT (NULL object), GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API const void *synced_mem_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/**
 * As synced_mem_gpu_data_on(), to read and write; the host copy becomes stale. The stream also waits for what reads the
 * device copy: transfers, and work on other streams that asked for it. The turn to write lasts until the next
 * call on the object that is no access on this stream, a pull included: ask again after one.
 * Blocking and ownership: as synced_mem_gpu_data_on(). Threads: as synced_mem_mutable_cpu_data().
 * @return as synced_mem_gpu_data_on(), errors too.
 * @since 0.1
 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/**
 * As synced_mem_mutable_gpu_data_on(), to be written whole: undefined until then, nothing is copied or filled.
 * Blocking and ownership: as synced_mem_gpu_data_on(). Threads: as synced_mem_mutable_cpu_data().
 * @return as synced_mem_gpu_data_on(), errors too.
 * @since 0.1
 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/* ---- Streams ---- */

/**
 * Ends the stream's use of the object's device copy: what conflicts with it later waits for the work queued on the
 * stream up to now, and for nothing queued after. The stream has to ask again before it uses the object again.
 * Without such a call the same happens at the first conflicting call, with all that the stream has got by then. A
 * stream that has no use of the object is no error. Never blocks.
 * Ownership: the stream stays the caller's. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL object); GPU errors.
 * @since 0.2
 */
SYNCED_MEM_API synced_mem_status synced_mem_end_use_on(synced_mem *mem, synced_mem_stream stream);

/**
 * Ends the stream's use of all objects, and forgets the stream. To be called before the caller destroys it, after the
 * last work on pointers that were asked for on it was queued; a new stream that gets the old one's handle is then
 * another one. Never blocks, and does not wait for the stream's work.
 * To destroy a stream without this call is a mistake as any use of a destroyed stream is: what the stream still owes
 * can't be learned from it. Where the runtime shows that the handle has become another stream's, the call that comes
 * upon it answers ERR_INVALID_STATE once, and the old stream's work on the object is forgotten. The emulated runtime
 * reports the mistake. NULL and cudaStreamLegacy need no such call; cudaStreamPerThread none before its thread ends.
 * Ownership: the stream stays the caller's. Threads: safe.
 * @return SYNCED_MEM_OK, also for a stream the library has not met; GPU errors (the stream is then known as before).
 * @since 0.2
 */
SYNCED_MEM_API synced_mem_status synced_mem_forget_stream(synced_mem_stream stream);

/* ---- Asynchronous transfers ---- */

/**
 * Queues the transfer of the host copy to the device on the caller's stream and returns: AT_CPU becomes SYNCED, the
 * device copy arriving. With a head of SYNCED nothing is moved; the stream waits for contents that are still
 * arriving on another one.
 * @param stream  see the facts for every function. Work queued on it afterwards sees the contents. It may be destroyed
 *                without more ado if nothing else was asked for on it
 * Blocking: not when the host copy is page-locked; from pageable memory it returns when the source has been read out,
 * so that the caller may write memory of its own. For transfers that are staged (see synced_mem_set_staging()) that
 * comes after earlier work on the device copy; where no memory can be page-locked, after earlier work on the stream. The
 * stream waits for earlier work on the object's memory where it must.
 * Ownership: the stream stays the caller's. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL object); ERR_INVALID_STATE (head UNINITIALIZED: there is nothing to
 *         push; AT_GPU: the host copy is stale); GPU errors. After ERR_CUDA the transfer may be under way all
 *         the same, untracked: memory of the caller's must then stay until the stream has been synchronized.
 * Unified placement: nothing is moved, and the stream waits for what writes the contents; managed memory is prefetched.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream);

/**
 * The mirror of synced_mem_async_gpu_push(): queues the transfer of the device copy to the host; AT_GPU becomes SYNCED,
 * the host copy arriving. synced_mem_cpu_data() then waits for this transfer alone.
 * Blocking: not when the host copy is page-locked, nor when the transfer is staged (see synced_mem_set_staging()); into
 * pageable memory it otherwise may block until the bytes have arrived. What the stream, or another, then writes to the
 * device copy comes after the transfer; if the library's threads have yet to queue that, the call that asks for the
 * pointer waits on the host until they have.
 * Unified placement: nothing is moved; the host copy has arrived when what writes the contents, up to now, is done.
 * Ownership: the stream stays the caller's. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL object); ERR_INVALID_STATE (head UNINITIALIZED: there is nothing to
 *         pull; AT_CPU: the device copy is stale); GPU errors, as synced_mem_async_gpu_push().
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull(synced_mem *mem, synced_mem_stream stream);

/**
 * As synced_mem_async_gpu_push() for each of count objects, all of the stream's device, with one event for all of their
 * transfers: an access to one of them waits until all have arrived. An object may be named more than once.
 * Staged transfers have events of their own.
 * Blocking: as synced_mem_async_gpu_push() for each object.
 * Ownership: none taken; the array is read during the call only. Threads: safe.
 * @return the first object's error, in the order given; then no head has changed, though some transfers may have been
 *         made; but if a staged transfer fails, the other objects' contents arrive all the same. ERR_INVALID_ARGUMENT
 *         also for a NULL array with a count above 0.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/**
 * As synced_mem_async_gpu_push_n(), for synced_mem_async_cpu_pull().
 * Blocking: as synced_mem_async_cpu_pull() for each object.
 * Ownership: none taken; the array is read during the call only.
 * Threads: safe.
 * @return as synced_mem_async_gpu_push_n(), errors too.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/**
 * Whether transfers, fills and allocations of the library on the object's memory are pending; the caller's own work is
 * not asked about. Never blocks.
 * @param pending  set to 1 or 0, and only on success
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL); ERR_DEVICE_LOST, or why a staged transfer failed (contents that
 *         were to arrive are lost; said by the first of these calls that meets it), ERR_FORKED.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_query(synced_mem *mem, int *pending);

/**
 * Blocks the host until what synced_mem_query() asks about is done. The caller's own work is waited for only where a
 * transfer comes after it.
 * Ownership: none taken. Threads: safe.
 * @return as synced_mem_query(), errors too.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_wait(synced_mem *mem);

/* ---- Memory of the caller ---- */

/*
 * What the memory is, the CUDA runtime is asked: when it is handed in, if the process uses a GPU through the library by
 * then or device memory or a stream comes with it, else before its first transfer; handing in host memory starts
 * nothing of CUDA's. Host memory that is page-locked from its first byte to its last (cudaMallocHost, cudaHostRegister)
 * is treated like the library's own page-locked memory: pushes and pulls return at once. It is asked about again before
 * each transfer, and treated as pageable once it no longer is. Memory that was found pageable is not asked about again:
 * page-lock it before it is handed in, or with SYNCED_MEM_MEMORY_PAGE_LOCK. Managed memory is taken for either copy;
 * for the host copy only where the device lets the host touch it while kernels run (concurrentManagedAccess).
 *
 * Memory that the caller unmaps, frees or takes back from the runtime while an object uses it is the caller's mistake,
 * as with any buffer; a transfer that the runtime then refuses answers ERR_CUDA.
 */

/**
 * Called once for each adopted pointer of an object when the object uses the memory no more, with no lock held, in
 * synced_mem_release(), synced_mem_shutdown() or any other call that may wait or allocate; never in a CUDA callback.
 * The exception: memory that a transfer uses whose end nobody can tell, as the runtime refused both an event and a
 * synchronization, is never handed back; it is counted in synced_mem_stats.quarantined.
 * @param data    the pointer that was adopted
 * @param user    the user pointer that was adopted with it
 * @param stream  NULL: all work of the library on the memory for this object, and the caller's on the streams that the
 *                library tracks, has finished. Not NULL: what is unfinished has been ordered before that stream
 */
typedef void (*synced_mem_release_callback)(void *data, void *user, synced_mem_stream stream);

/**
 * Makes data the host copy and the head AT_CPU; the object borrows the memory. The device copy becomes stale and keeps
 * its memory. The host copy's memory until then is released as by synced_mem_release_data().
 * @param data  at least synced_mem_size() bytes of host memory, readable and writable
 * Ownership: the caller's throughout. The memory must stay until the object uses it no more: until the next call that
 * replaces or releases the host memory of this object, or releases the object, has returned. After a failure the object
 * does not use it.
 * Blocking: waits on the host for the library's transfers on borrowed memory that it replaces; otherwise not.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL object, NULL data, data not aligned as the options asked, memory
 *         of a device, managed memory that the host may not touch at any time, memory that this object owns);
 *         ERR_INVALID_STATE (another thread made the object larger meanwhile; unified placement, which takes no memory
 *         of the caller's); ERR_OUT_OF_HOST_MEMORY; ERR_CUDA (that wait failed); ERR_FORKED.
 * Source: Caffe, SyncedMemory::set_cpu_data.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data);

/**
 * Makes data the device copy and the head AT_GPU; the object borrows the memory. The host copy becomes stale and keeps
 * its memory. An object that has no device yet takes that of the memory. Otherwise as synced_mem_set_cpu_data().
 * @param data  at least synced_mem_size() bytes of device or managed memory on the object's device. Work that fills it
 *              is tracked as for synced_mem_mutable_gpu_data()
 * Blocking and ownership: as synced_mem_set_cpu_data(). Threads: safe.
 * @return also ERR_INVALID_ARGUMENT (host memory), ERR_INVALID_DEVICE (memory of another device), GPU errors.
 * Source: Caffe, SyncedMemory::set_gpu_data.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data);

/** Of synced_mem_memory: the host memory is page-locked for as long as the object uses it. */
#define SYNCED_MEM_MEMORY_PAGE_LOCK 1u

/** Memory of the caller's, and how an object is to use it. A member that is zero is at its default. */
typedef struct synced_mem_memory {
    /** sizeof(synced_mem_memory); sizes of no known version are refused. */
    size_t struct_size;
    /** At least synced_mem_size() bytes of host memory, readable and writable. NULL: the host copy keeps its memory. */
    void *cpu_data;
    /** At least synced_mem_size() bytes of device or managed memory on the object's device. NULL: the device copy keeps
     * its memory. */
    void *gpu_data;
    /** NULL: the memory is borrowed. Otherwise it is adopted, and the callback is called once for each pointer. */
    synced_mem_release_callback callback;
    /** Yours, handed to the callback; neither read nor freed. */
    void *user;
    /**
     * The stream in whose order the contents are ready, one of the memory's device: whoever asks for them waits for
     * what the stream has queued up to now, the host on the host, a stream on the device. The stream's other uses of
     * the object are as before. The legacy stream is cudaStreamLegacy here. NULL: the contents of host memory are
     * ready, and work that fills device memory is tracked as for synced_mem_mutable_gpu_data().
     */
    synced_mem_stream stream;
    /** 0, or SYNCED_MEM_MEMORY_PAGE_LOCK. */
    unsigned flags;
} synced_mem_memory;

/**
 * Makes memory of the caller's the host copy (head AT_CPU), the device copy (AT_GPU), or both (SYNCED: the caller
 * vouches that the contents agree). A copy that is not given becomes stale and keeps its memory. Otherwise as
 * synced_mem_set_cpu_data() for host memory and as synced_mem_set_gpu_data() for device memory.
 *
 *     synced_mem_memory memory = {.struct_size = sizeof memory, .cpu_data = data, .callback = give_back};
 *     status = synced_mem_use_memory(mem, &memory);
 *
 * Several objects may use one memory. Each adopts it by itself, and calls its callback when it uses the memory no more,
 * whatever the others do. The library orders nothing between them.
 *
 * With SYNCED_MEM_MEMORY_PAGE_LOCK host memory is page-locked if it is not page-locked already (cudaHostRegister, of
 * these bytes alone: buffers that share a page don't disturb one another). It is page-locked no more when the object
 * uses it no more: when the call that hands borrowed memory back returns, and before the callback of adopted memory. Of
 * several objects that use the memory the last one counts. Memory that the caller had page-locked stays so. If the
 * runtime refuses to undo it, the memory is handed back all the same, still page-locked, and no status tells; so it is
 * where work on it is under way that nobody can wait for.
 * @param memory  read during the call only
 * Ownership: of borrowed memory the caller's throughout, as for synced_mem_set_cpu_data(). Of adopted memory the
 * library's after success; after a failure the caller's as before, and no callback is called.
 * Blocking: as synced_mem_set_cpu_data(). The runtime page-locks memory at some GB/s; to undo it, it may wait for
 * the device.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (also memory NULL, an unknown struct_size, no pointer, one pointer for
 *         both copies, an unknown flag, SYNCED_MEM_MEMORY_PAGE_LOCK without host memory); the errors of
 *         synced_mem_set_cpu_data() and synced_mem_set_gpu_data() for what is given; with a stream or
 *         SYNCED_MEM_MEMORY_PAGE_LOCK also GPU errors: ERR_OUT_OF_HOST_MEMORY (there is a limit on what can be page-
 *         locked), ERR_CUDA (refused: a part of it is page-locked, or it is no memory that can be). After a failure the
 *         object, and whether the memory is page-locked, are as before.
 * @since 0.2
 */
SYNCED_MEM_API synced_mem_status synced_mem_use_memory(synced_mem *mem, const synced_mem_memory *memory);

/* ---- Size ---- */

/**
 * Changes the size and keeps the contents, up to the smaller of the two sizes; what is new reads as zero, also where
 * the object had been larger before. A copy with room for it stays where it is. If no copy with the contents has
 * room, one of them is moved to larger memory, and the other becomes stale; a copy without the contents and without
 * room is let go of. Room is never given up, see synced_mem_release_cpu_data().
 * @param size  in bytes; 0 is valid
 * Ownership: as with synced_mem_release() for memory that is let go of; memory of the caller's that has no room is.
 * Blocking: to fill or to move the host copy, until the transfers on it are done; to hand back borrowed memory, until
 * the library's transfers on it are done. Work on the device is queued on a stream of the library's own, after the
 * caller's.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL object, a size over PTRDIFF_MAX less 2 MiB);
 *         ERR_OUT_OF_HOST_MEMORY; where device memory is touched, GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_resize(synced_mem *mem, size_t size);

/**
 * Changes the size and gives up the contents: the head becomes UNINITIALIZED. Copies with room for the size stay as
 * capacity, others are let go of. Blocks only to hand back borrowed memory.
 * Otherwise as synced_mem_resize().
 * Ownership: as synced_mem_resize(). Threads: safe.
 * @return as synced_mem_resize(), errors too.
 * Source: MixMemory of tensorRT_Pro, which reuses what is large enough.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_resize_discard(synced_mem *mem, size_t size);

/* ---- Giving memory back ---- */

/**
 * Gives up the host copy's memory. If it alone holds the contents they are moved to the device first. With unified
 * placement there is one memory for both sides: the head changes in the same way, and the memory stays until
 * synced_mem_release_data().
 * Blocking: until that transfer, or one queued by an earlier push, has arrived, so that nothing is lost if it fails;
 * and as synced_mem_release() for the memory.
 * Ownership: as with synced_mem_release() for memory of the caller's. Threads: safe.
 * @return SYNCED_MEM_OK, also when there was no host copy; ERR_INVALID_ARGUMENT (NULL); GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_release_cpu_data(synced_mem *mem);

/**
 * Gives up the device copy's memory. If it alone holds the contents they are moved to the host first. Blocking: for
 * that transfer; and as synced_mem_release() for the memory. The object keeps its device. With unified placement: as
 * synced_mem_release_cpu_data().
 * Ownership: as with synced_mem_release() for memory of the caller's. Threads: safe.
 * @return SYNCED_MEM_OK, also when there was no device copy; ERR_INVALID_ARGUMENT (NULL); GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_release_gpu_data(synced_mem *mem);

/**
 * Gives up both copies' memory and the contents: the head becomes UNINITIALIZED. Blocking: as synced_mem_release().
 * Ownership: as with synced_mem_release() for memory of the caller's. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL); ERR_CUDA (a wait for borrowed memory failed).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_release_data(synced_mem *mem);

/* ---- Page-locked memory ---- */
/*
 * Page-locked host memory of the library's own comes from a pool for the whole process. The pool takes slabs from the
 * system: a few megabytes at least, more the more it holds, and as much as one object needs that needs more. What
 * objects let go of stays in the pool for the next. A slab goes back to the system only when nothing of it is in use,
 * and only by one of the functions below, by synced_mem_shutdown(), or before the pool grows beyond what was wanted at
 * a time. On machines with several memory nodes slabs come from the node that the object's device is near, if the
 * library was built with libnuma.
 *
 * All functions are safe in any thread and while transfers are in flight: memory that one uses is in use. Those that
 * set the limit, trim or reserve also wait for a thread in which the pool grows meanwhile.
 */

/**
 * Sets how much the pool may hold. If it holds more, what is unused goes back to the system, as far as it has to; what
 * is in use stays. From then on, growth beyond the limit is refused with SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, and the
 * detail has the limit, what is held, and what was asked for.
 * @param bytes  0 (the default) for no limit
 * Blocking: if slabs go back, the CUDA runtime may wait for the device.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_FORKED.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_limit(size_t bytes);

/**
 * Gives unused slabs back to the system until the pool holds at most so much, or has no unused one; those that nobody
 * has used for the longest go first. A slab that the CUDA runtime refuses to let go of stays, and is tried again next
 * time.
 * @param keep  in bytes; 0 for none
 * Blocking: the CUDA runtime may wait for the device.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_FORKED.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_trim(size_t keep);

/**
 * Sets after which time a slab of which nothing was in use goes back to the system. This is looked at in
 * synced_mem_reap() and when the pool grows, and nowhere else: an access that finds memory never waits for it.
 * @param milliseconds  0 (the default) for never
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_FORKED. Never blocks.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_decay(unsigned milliseconds);

/**
 * Makes sure that so many bytes in one piece are free in the pool, so that a program can pay for page-locking when it
 * starts. They stay until they are used, or unused slabs are given back.
 * @param device  which the memory is for, and in whose context it is page-locked; or SYNCED_MEM_DEVICE_CURRENT
 * @param bytes   0 for nothing
 * Blocking: as long as page-locking takes.
 * Ownership: the pool's. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (a device below -1, a size over PTRDIFF_MAX); ERR_OUT_OF_HOST_MEMORY
 *         (also by the limit); GPU errors. After a failure the pool is as it was, less what was unused.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reserve(int device, size_t bytes);

/** What the pool of page-locked memory has, and has done. */
typedef struct synced_mem_host_pool_stats {
    size_t struct_size;       /**< set it to sizeof(synced_mem_host_pool_stats) before the call; others are refused */
    uint64_t requested_bytes; /**< what was asked for and is in use, before any rounding */
    /** The most of that at a time. Exact for one thread; of several that take turns a moment may be missed. */
    uint64_t peak_requested_bytes;
    uint64_t held_bytes;         /**< page-locked, in use or not */
    uint64_t peak_held_bytes;    /**< the most of that at a time */
    uint64_t free_bytes;         /**< held and not in use */
    uint64_t slabs;              /**< slabs held: registrations with the CUDA runtime */
    uint64_t registrations;      /**< slabs ever page-locked */
    uint64_t reused_allocations; /**< allocations from memory that was page-locked already */
    uint64_t fresh_allocations;  /**< allocations for which memory was page-locked */
} synced_mem_host_pool_stats;

/**
 * Fills stats. Never blocks on a stream; the numbers are read one by one while other threads go on.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL, or an unknown struct_size).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_get_stats(synced_mem_host_pool_stats *stats);

/**
 * Both peaks begin again with what is so now. Never blocks on a stream. Ownership: none taken.
 * Threads: safe.
 * @return SYNCED_MEM_OK.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reset_peaks(void);

/**
 * Whether an object's host copy may be pageable where no memory can be page-locked for it: because of the limit, or
 * because the system or the CUDA runtime has no more. Without, which is the default, such an access answers
 * SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY. Where the runtime page-locks nothing for another reason, as when it can't or the
 * device is lost, host copies are pageable in any case. synced_mem_cpu_source() tells which it became, and
 * pageable_fallbacks in synced_mem_stats how many there were, for whatever reason.
 * @param allow  0 or not
 * Never blocks. Holds for host copies that are made from then on.
 * Ownership: none taken. Threads: safe.
 * @since 0.1
 */
SYNCED_MEM_API void synced_mem_set_pageable_fallback(int allow);

/* ---- Staged transfers ---- */

/**
 * How transfers from and to pageable memory are made: through page-locked buffers, which copy threads of the library's
 * and every thread that waits for the transfer fill or empty, chunk by chunk.
 */
typedef struct synced_mem_staging {
    size_t struct_size; /**< set it to sizeof(synced_mem_staging) before each call; other sizes are refused */
    /** Copy threads, at most 64; started when first needed, kept until synced_mem_shutdown(). 0: none, and pulls into
     * pageable memory then block. Default: half of the processors, at least 1, at most 8. */
    unsigned threads;
    /** Of a buffer, from 64 KiB to 64 MiB; each thread at work has two, from the library's page-locked memory. Default:
     * 2 MiB. */
    size_t buffer_bytes;
    /** Transfers of fewer bytes are not staged: pulls are left to the CUDA runtime, pushes are made through one buffer of
     * their size. Pushes larger than a buffer are always staged. Default: 1 MiB. */
    size_t minimum_bytes;
} synced_mem_staging;

/**
 * Sets how transfers begun from now on are staged. Threads that are there already stay.
 * Threads: safe. Never blocks.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL, an unknown struct_size, a number out of range: nothing is
 *         changed).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_set_staging(const synced_mem_staging *staging);

/**
 * Fills staging with what is set. Threads: safe. Never blocks.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL, an unknown struct_size).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_get_staging(synced_mem_staging *staging);

/* ---- Out of memory ---- */

/*
 * What is done when memory for contents is refused, before a call answers SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY or
 * SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY. After each step the whole call is tried again, from the object as it then is:
 *   1. what was let go of and has finished is freed, as by synced_mem_reap();
 *   2. what was let go of and has not finished is waited for, on the host, and freed: until the kernels and transfers
 *      that use it have ended, however long that takes;
 *   3. what is kept for reuse is given back: the pool of the device, as by synced_mem_gpu_pool_trim(); for host memory,
 *      the page-locked memory that is not in use;
 *   4. the handler below is asked, for as long as it says that it has freed something, at most 16 times.
 * Memory that another thread's call is just looking at, or freeing, is waited for before the fourth step. If other
 * threads have let go of memory since the first, the first three are taken again, at most 16 times. A callback or an
 * allocator of the caller's that runs in another thread is not waited for.
 * If nothing helps, the detail of the error says who holds how much, and names the three largest objects there. Memory
 * for the library's small records takes no such steps. The steps that were taken are counted in synced_mem_stats.
 */

/** What the handler is told. */
typedef struct synced_mem_out_of_memory {
    size_t struct_size; /**< sizeof(synced_mem_out_of_memory) of the library that is running */
    int device;         /**< whose memory was refused; -1: the host's */
    unsigned attempt;   /**< 1 when the handler is asked first for this call, then 2, and so on */
    size_t bytes;       /**< that were asked for */
} synced_mem_out_of_memory;

/**
 * Called in the thread whose call was refused memory, with no lock held. It may call the library: allocate, release
 * objects, give up the data of the very object that the call is about; the caller of that call must keep its reference
 * though. Calls that fail for want of memory inside the handler do not call it again.
 * @param request  good until the handler returns
 * @return nonzero: something was freed, try again; 0: fail.
 */
typedef int (*synced_mem_out_of_memory_handler)(const synced_mem_out_of_memory *request, void *user);

/**
 * Sets the handler for the whole process; NULL (the default) for none.
 * @param user  handed to the handler; the library neither reads nor frees it
 * Ownership: none taken. Never blocks on a stream. A call that fails in another thread at the same time may still ask
 * the previous handler, with the user pointer that belongs to it.
 * Threads: safe.
 * @since 0.1
 */
SYNCED_MEM_API void synced_mem_set_out_of_memory_handler(synced_mem_out_of_memory_handler handler, void *user);

/* ---- Devices ---- */

/** Ways in which memory of a pool can be given to other processes: bits of synced_mem_device_info.pool_handles.
 * Source: cudaMemAllocationHandleType. */
enum {
    SYNCED_MEM_GPU_POOL_HANDLE_NONE = 0,
    SYNCED_MEM_GPU_POOL_HANDLE_POSIX_FD = 1, /**< a file descriptor */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32 = 2,    /**< a handle of Windows' kernel */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32_KMT = 4,
    SYNCED_MEM_GPU_POOL_HANDLE_FABRIC = 8 /**< a fabric handle */
};

/** What a device can do. Yes is 1, no is 0. Source: cudaDeviceAttr. */
typedef struct synced_mem_device_info {
    size_t struct_size;            /**< set it to sizeof(synced_mem_device_info) before the call; others are refused */
    int device;                    /**< its number, also where the current one was asked about */
    int driver_version;            /**< 1000 * major + 10 * minor, the newest CUDA that the driver supports */
    int runtime_version;           /**< of the CUDA runtime that is linked, likewise */
    int memory_pools;              /**< there are memory pools */
    int pool_handles;              /**< bits SYNCED_MEM_GPU_POOL_HANDLE_*; 0 also where the driver does not say */
    int managed_memory;            /**< memory that moves between host and device by itself */
    int concurrent_managed_access; /**< ... which both may use at a time */
    int pageable_memory_access;    /**< kernels can use any host memory */
    int integrated;                /**< its memory is the host's */
    int can_map_host_memory;       /**< kernels can use page-locked host memory */
    int host_register;             /**< host memory can be page-locked after it was allocated */
    int unified_addressing;        /**< a pointer tells whose memory it is */
    int async_engines;             /**< transfers that can be under way beside kernels: 1 one direction, 2 both */
    int numa_node;                 /**< of the host, nearest to the device; -1 where the runtime does not say */
    uint64_t total_memory;         /**< bytes */
    char pci_bus_id[16];           /**< "domain:bus:device.function" */
} synced_mem_device_info;

/**
 * Fills info. Creates the device's primary context if there is none. Never waits for work of the device.
 * @param device  its number, or SYNCED_MEM_DEVICE_CURRENT
 * Blocking: for the driver, while it creates the context. Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (info NULL, or an unknown struct_size), ERR_INVALID_DEVICE (no such
 *         device), other GPU errors; after a failure info is as before.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_get_device_info(int device, synced_mem_device_info *info);

/* ---- Device memory pools ---- */
/*
 * Device memory comes from a memory pool (cudaMemPool_t) of the library's own on each device, made when it is first
 * needed. What is freed stays in it and is used again. synced_mem_shutdown() destroys the pools: all that was set is
 * then at its default again. In all of these functions device is a number or SYNCED_MEM_DEVICE_CURRENT; any thread may
 * call them at any time, also while work uses the pool's memory. They return SYNCED_MEM_OK; ERR_INVALID_DEVICE (no such
 * device), other GPU errors, and what is said of each; a call that fails may have set some of what it was to set.
 * Where a device has no pools (synced_mem_device_info.memory_pools) memory comes from cudaMalloc and goes back at once:
 * there is nothing to set or to trim, and the functions for that succeed without effect.
 */

/**
 * How many bytes the pool keeps, freed ones included, when a synchronization lets the CUDA runtime give memory back to
 * the system; UINT64_MAX, the default: all. Sets the limit of synced_mem_gpu_pool_set_spare_limit() too. Applies at
 * once. Never blocks.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_DEVICE (no such device), other GPU errors.
 * Source: cudaMemPoolAttrReleaseThreshold.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_threshold(int device, uint64_t bytes);

/**
 * Frees what was let go of and has finished, as synced_mem_reap() does, and what is kept ready (see
 * synced_mem_gpu_pool_set_spare_limit()), then gives the pool's unused memory back to the
 * system, until it has no more than keep bytes. Memory in use, and memory that work still uses, stays.
 * Blocking: waits for no work; but to give memory back takes the driver its time.
 * Ownership: adopted memory that is due gets its callback. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_DEVICE (no such device), other GPU errors.
 * Source: cudaMemPoolTrimTo.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_trim(int device, size_t keep);

/**
 * How much device memory that was let go of is kept ready, beside the pool, for objects of exactly the same size:
 * taking it costs no call of the CUDA runtime on the stream that it was used on last, and elsewhere as soon as the work
 * on it has ended. The default, and the most, is 1 GiB a device, in at most 256 pieces; then what has been kept for
 * longest is freed by the same call. A piece larger than the limit is not kept. Spare memory is freed, too, when device
 * memory is short, by synced_mem_gpu_pool_trim(), and by synced_mem_shutdown(). The pool counts it as used;
 * synced_mem_stats.gpu_spare_bytes tells how much there is.
 * @param bytes  0: none is kept; if there is more, all of it is freed, in the order of the work on it
 * Never blocks.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_DEVICE (no such device), other GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_spare_limit(int device, size_t bytes);

/** What a device's pool holds, in bytes. Without pools: what the library has by cudaMalloc, used and reserved alike. */
typedef struct synced_mem_gpu_pool_stats {
    size_t struct_size;     /**< set it to sizeof(synced_mem_gpu_pool_stats) before the call; others are refused */
    uint64_t reserved;      /**< taken from the system */
    uint64_t reserved_high; /**< the most that was, since the pool was made or synced_mem_gpu_pool_reset_peaks() */
    uint64_t used;          /**< of that, allocated, and not freed yet */
    uint64_t used_high;     /**< the most that was, likewise */
} synced_mem_gpu_pool_stats;

/**
 * Fills stats; zeros where nothing was allocated yet. Never blocks. Whether memory that is freed in the order of a
 * stream counts as used until the stream gets there is up to the runtime.
 * Threads: safe.
 * @return also ERR_INVALID_ARGUMENT (stats NULL, or an unknown struct_size); after a failure stats is as before.
 * Source: cudaMemPoolGetAttribute.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_get_stats(int device, synced_mem_gpu_pool_stats *stats);

/**
 * Sets both high-water marks to what is current. Never blocks. Ownership: none taken.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_DEVICE (no such device), other GPU errors.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_reset_peaks(int device);

/** When freed memory may be used again on another stream than the one it was freed on: bits of
 * synced_mem_gpu_pool_set_reuse(). Source: cudaMemPoolReuseFollowEventDependencies and those beside it. */
enum {
    SYNCED_MEM_GPU_POOL_REUSE_EVENTS = 1,        /**< when the other stream has waited for an event behind the free */
    SYNCED_MEM_GPU_POOL_REUSE_OPPORTUNISTIC = 2, /**< when the free happens to be done */
    SYNCED_MEM_GPU_POOL_REUSE_INTERNAL = 4,      /**< by a wait for the free, which the runtime adds to the stream */
    SYNCED_MEM_GPU_POOL_REUSE_ALL = 7            /**< the default */
};

/**
 * Sets which of these the pool may do; for reproducible addresses, fewer. Applies at once. Never blocks.
 * @param policies  SYNCED_MEM_GPU_POOL_REUSE_* or 0
 * Ownership: none taken. Threads: safe.
 * @return also ERR_INVALID_ARGUMENT (other bits).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_reuse(int device, unsigned policies);

/**
 * Lets another device reach the memory that the library has and will have on this one, in kernels and in transfers, or
 * forbids it again: as at first. To say the same twice changes nothing. Without pools this is
 * cudaDeviceEnablePeerAccess for all memory of the device; there only what the library has allowed can be forbidden.
 * Blocking: not for work that is queued; but mapping the memory takes the driver its time.
 * @param peer   the device that may use the memory, or SYNCED_MEM_DEVICE_CURRENT
 * @param allow  nonzero or 0
 * Ownership: none taken. Threads: safe.
 * @return also ERR_INVALID_ARGUMENT (the two are one device), ERR_INVALID_DEVICE (the peer can't reach the device),
 *         ERR_CUDA (the runtime accepted it without effect).
 * Source: cudaDeviceCanAccessPeer, cudaMemPoolSetAccess.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_allow_peer(int device, int peer, int allow);

/* ---- Numbers ---- */

/** What the library has done and holds, for the whole process. Counts only grow; "held" is at the time of the call. */
typedef struct synced_mem_stats {
    size_t struct_size;        /**< set it to sizeof(synced_mem_stats) before the call; other sizes are refused */
    uint64_t objects;          /**< objects alive */
    uint64_t h2d_transfers;    /**< transfers from host to device */
    uint64_t h2d_bytes;        /**< bytes they moved */
    uint64_t d2h_transfers;    /**< transfers from device to host */
    uint64_t d2h_bytes;        /**< bytes they moved */
    uint64_t staged_transfers; /**< those of both kinds that were staged */
    uint64_t host_allocations; /**< host copies obtained by the library, pageable, page-locked or of both sides */
    uint64_t pageable_bytes;   /**< held: pageable host memory of the library's own */
    uint64_t
        pinned_bytes; /**< held: page-locked host memory of the library's own, mapped too, in use or kept for reuse */
    /** Host copies that are pageable because they could not be page-locked: synced_mem_set_pageable_fallback(). */
    uint64_t pageable_fallbacks;
    uint64_t gpu_allocations; /**< device copies obtained by the library */
    uint64_t gpu_bytes;       /**< held: device memory of the library's own */
    uint64_t retired;         /**< held: copies let go of whose last use has not finished yet */
    uint64_t quarantined;     /**< copies never to be used again, because nobody can tell when their last use ends */
    uint64_t events;          /**< held: CUDA events, in use or kept for reuse */
    uint64_t event_records;   /**< events recorded on streams */
    uint64_t stream_waits;    /**< waits of a stream for an event */
    uint64_t host_waits;      /**< waits of the host for an event */
    uint64_t oom_reaps;       /**< memory was refused: what had finished was freed, see "Out of memory" */
    uint64_t oom_waits;       /**< ... what was let go of was waited for */
    uint64_t oom_trims;       /**< ... what is kept for reuse was given back */
    uint64_t oom_callbacks;   /**< ... the caller was asked */
    uint64_t oom_failures;    /**< ... and all of that was in vain */
    uint64_t gpu_spare_bytes; /**< held: device memory that is kept ready */
    uint64_t managed_bytes;   /**< held: managed memory of the library's own */
    uint64_t prefetches;      /**< of managed memory, to the device or to the host */
    uint64_t unprotected;     /**< host copies that debug mode could not protect, see "Debug mode" */
} synced_mem_stats;

/**
 * Fills stats. Never blocks; the numbers are read one by one while other threads go on, and what is held is exact only
 * while no other thread is in the library.
 * Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL, or an unknown struct_size).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_get_stats(synced_mem_stats *stats);

/* ---- Seeing what happens ---- */
/*
 * The environment is read once, when the first object is made, or synced_mem_trace_start() or synced_mem_trace_stop()
 * is called; in a process whose user or group was changed by the program's file (set-user-ID, secure_getenv) it is
 * ignored.
 *
 * SYNCED_MEM_TRACE=FILE starts a trace, as by synced_mem_trace_start(); %p in the name stands for the number of the
 * process. If it can't be started, one line on stderr says why, and so does synced_mem_trace_stop() until another trace
 * is started.
 *
 * SYNCED_MEM_TRACE_SUMMARY=1 prints on stderr, when the process ends by exit() or by a return from main(), what
 * synced_mem_trace_summary() prints. Without SYNCED_MEM_TRACE it starts a trace without a file. A forked child prints
 * none.
 *
 * Debug mode, SYNCED_MEM_DEBUG=1. Each host copy has whole pages of its own, which the program may only touch as the
 * head allows: while the host copy is stale neither to read nor to write, while the head is SYNCED only to read. Who
 * uses a pointer that has expired gets SIGSEGV at that instruction, after a line on stderr which names the object, and
 * the call that made the pointer expire, and since 0.2 another which says in what scope and where that call was made;
 * then the handler that the program had before runs, or the default action. Not protected are device copies, memory
 * that both sides use (unified placement, managed memory), memory of the caller's
 * that is less than a page of the system's or that several objects use (of the rest, the whole pages in it), and
 * contents that the library's copy threads have yet to read out or to write. What can't be protected is counted in
 * synced_mem_stats.unprotected, and one line on stderr tells of the first. A system call that is given such a pointer
 * answers EFAULT. These lines on stderr are all that the library ever prints by itself.
 *
 * Since 0.2 debug mode also fills what an overwrite is given with bytes of 0xff, which are NaN in every floating-point
 * format, so that what the caller leaves unwritten shows. Each call fills synced_mem_size() bytes, also one that finds
 * nothing else to do: the program must ask with mutable where earlier writes matter. Memory of the caller's is filled
 * too. On a stream the fill is queued before the call returns; without one the host waits for it. A stream that captures
 * gets no fill. A fill that the runtime refuses fails no call; a call that fails while it waits for its fill leaves the
 * fill as the contents. No pointer to write is kept ready, so that each such access takes longer; in a forked child one
 * of an object of the parent's answers ERR_FORKED.
 */

/**
 * Prints what the library has done and holds, as a table: what synced_mem_get_stats() and
 * synced_mem_host_pool_get_stats() tell, and of each device's pool that was used what synced_mem_gpu_pool_get_stats()
 * does; how transfers are staged. Bytes are exact, and once more in units of 1024. Lines have at most 100 columns; what
 * they say may change from version to version.
 * @param file  open to write; flushed, not closed
 * Never blocks on a stream; starts nothing of CUDA's.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL); ERR_FILE (it could not be written).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_print_stats(FILE *file);

/**
 * Prints an object in four lines: its name and address; its size, head, device and placement; and of each copy the
 * source, the capacity, whether it has the contents, and how many transfers have been made to this memory.
 * @param file  open to write; flushed, not closed
 * Never blocks, except for another thread's call on the same object.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL); ERR_FILE (it could not be written); ERR_FORKED.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_print(const synced_mem *mem, FILE *file);

/**
 * Prints every living object as synced_mem_print() does, in no fixed order, and then how many these are. In a forked
 * child the parent's objects, whose memory can't be looked at, take two lines.
 * @param file  open to write; flushed, not closed; written to with no lock of the library's held
 * Blocking: only for another thread's call on an object that is being printed.
 * Ownership: none taken. Of each object all is read before its text is written, so that the file's own code, which
 * fopencookie() allows, may give it up.
 * Threads: safe. Objects that are made or given up meanwhile may be there or not. While an object is read
 * synced_mem_release() of its last reference waits.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL); ERR_FILE (it could not be written).
 * @since 0.2
 */
SYNCED_MEM_API synced_mem_status synced_mem_print_all(FILE *file);

/**
 * Starts to write every transfer, wait, allocation and change of a head to a file, in the JSON format of Chrome's
 * traces, which chrome://tracing and Perfetto open. Transfers are spans on a track of their stream, with the device's
 * own times; waits of the host, and the copies of staged transfers, on those of the host's threads. So are transfers
 * whose times the device does not tell, and those that come while 4096 others are queued and not known to be done: for
 * as long as it took to queue them. Each event names the object, as name#number, and the function that was called; a
 * transfer also says when it was queued. Where the library was built with NVTX the same are ranges for NVIDIA's
 * profilers meanwhile. Since 0.2 each event also has the call's scope, see synced_mem_scope_begin(), and its place: up to
 * eight return addresses, the innermost first, as symbol+offset where the dynamic linker knows the symbol, else as
 * file+offset.
 *
 * Events are kept in memory and written at the end of calls, some hundreds at once. There is room for 262144 beside
 * those that a thread is just writing; what comes then, within one call or of other threads while the file is slow, is
 * lost, and counted at the end of the file, as are events of threads that are in a call while the trace is stopped. A
 * process that ends by exit() or by a return from main() writes all; one that is killed leaves a file without its last
 * events and without the closing bracket, which these programs open all the same. A forked child does not go on with
 * the trace.
 *
 * A trace without a file keeps only what synced_mem_trace_summary() prints: it records no event on a stream, and waits
 * for nothing.
 * @param path  is created, or emptied; read during the call only. NULL, since 0.2: no file
 * Blocking: opens the file. Any call may from then on take the time to write events, or to look at the times of
 * transfers that are done. Transfers are waited for only by synced_mem_trace_stop(), synced_mem_shutdown() and exit();
 * but some seconds apart a call asks for the device's time, which takes it a millisecond at most.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_STATE (there is a trace already); ERR_FILE (it can't be opened to write, or the
 *         process has no descriptor left); ERR_OUT_OF_HOST_MEMORY.
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_start(const char *path);

/**
 * Writes what is left of the trace, with its summary, and closes the file.
 * Blocking: waits on the host for transfers that were queued, and what they come after.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_STATE (there is no trace: the detail has the reason if the environment asked for
 *         one, and there was none since); ERR_FILE (something could not be written; the file is closed).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_stop(void);

/**
 * Prints which objects went back and forth most since the trace began, or in the last trace: at most ten. A turn is a
 * transfer in the other direction than the object's transfer before. Each comes with the number of its transfers each
 * way, their bytes, the function that caused the last of each, and the one that had made that side stale;
 * since 0.2 also in which scopes and where these were called. The last events in the file say the same.
 * @param file  open to write; flushed, not closed
 * Never blocks on a stream.
 * Ownership: none taken. Threads: safe.
 * @return SYNCED_MEM_OK; ERR_INVALID_ARGUMENT (NULL); ERR_FILE (it could not be written).
 * @since 0.1
 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_summary(FILE *file);

/**
 * Begins a scope of the calling thread, within those it has begun: what the thread then does with the library is shown
 * as done in it, by traces, by their summary and by debug mode, as "outer/inner". So is what the library's own threads
 * do for those calls. The 16 outermost scopes have names; of those, what is shown are as many of the innermost as have
 * room in 63 bytes. A forked child has the scopes of the thread that forked.
 *
 *     synced_mem_scope_begin("layer3");
 *     forward(layer);
 *     synced_mem_scope_end();
 *
 * Scopes are kept whether or not anything is shown: that costs some nanoseconds, no lock and no memory.
 * @param name  copied, at most 47 bytes of it are kept. NULL or "": a scope without a name, which is not shown
 * Never fails, never blocks.
 * Threads: safe; each thread has scopes of its own.
 * @since 0.2
 */
SYNCED_MEM_API void synced_mem_scope_begin(const char *name);

/**
 * Ends the scope that the calling thread began last; without one it does nothing. Never fails, never blocks.
 * Threads: safe; each thread has scopes of its own. Ownership: none taken.
 * @since 0.2
 */
SYNCED_MEM_API void synced_mem_scope_end(void);

/**
 * The version of the library that is running, as major * 10000 + minor * 100 + patch. Never fails, never blocks.
 * Threads: safe. Ownership: none taken.
 * @since 0.1
 */
SYNCED_MEM_API int synced_mem_version(void);

#ifdef __cplusplus
}
#endif

#endif
