/**
 * @file
 * synced_mem: one buffer of bytes with a copy in host memory and a copy on a GPU.
 *
 * An object's head says which of its two copies hold the current contents. The library transfers bytes only when an
 * access needs a copy that is stale. A layer calls synced_mem_cpu_data() or synced_mem_gpu_data() and never cudaMemcpy.
 * The states and accessors are those of Caffe's SyncedMemory.
 *
 * The one rule: a returned pointer is safe to use at once in the domain of the access. A domain is the host or one CUDA
 * stream. The pointer stays safe until the next conflicting call on the object. Accesses from two domains conflict when
 * one of them is mutable or overwrite. Accesses from one domain never conflict. A call that changes the size or the
 * memory conflicts with every access. The library makes the necessary waits. An access on a stream makes that stream
 * wait. Any other access waits on the host. The exceptions are under "Blocking" of each function.
 *
 * Unless a comment says otherwise:
 * - Sizes and capacities are in bytes, and may be 0. struct_size is the size of its struct, which the caller sets
 *   before the call. An output is set only on success, but a call that makes an object sets it to NULL on failure.
 * - A call that fails leaves the object as it was: head, contents, size, and every pointer that was valid. Memory that
 *   it obtained may stay as unused capacity. The caller's current CUDA device never changes.
 * - Threads. Any thread may call any function; "safe" means at any time. Calls on one object may wait for one another.
 *   Reads of one object from several threads cause one transfer. Writing through a pointer while another thread uses
 *   the contents is the caller's race, as with any buffer.
 * - Blocking. It names the work that the calling thread waits for. "never": the call waits for no work on a device. It
 *   may wait for other calls on the same object, and for short locks.
 * - Ownership. "none": the call takes nothing over, and returns nothing to free. Structs, arrays and strings are read
 *   or filled during the call only. A user pointer is handed back, neither read nor freed. A stream stays the caller's.
 * - Errors. A status is SYNCED_MEM_OK or an error under "Errors", where ERR_ is short for SYNCED_MEM_ERR_. A pointer is
 *   NULL only after a failure. synced_mem_last_error() then has the status, and synced_mem_last_error_message() the
 *   detail. ERR_INVALID_ARGUMENT stands for a NULL object, a NULL pointer to a result or struct, or an unknown
 *   struct_size. It also stands for the arguments that a comment lists. Nothing aborts. The library prints only to a
 *   FILE that it is given, and as the environment requests ("Seeing what happens").
 * - "GPU errors" are these. ERR_NO_GPU: built without CUDA, or no driver or device. ERR_INVALID_DEVICE: the object's
 *   device does not exist, or the stream is of another one. ERR_OUT_OF_DEVICE_MEMORY and ERR_OUT_OF_HOST_MEMORY: no
 *   memory, even after the steps of "Out of memory", which may block. ERR_DEVICE_LOST: the runtime reports an error of
 *   earlier work to every later call. ERR_CAPTURING and ERR_FORKED: see below. ERR_CUDA: any other answer of the
 *   runtime, named in the detail.
 * - A stream belongs to the object's device. The handles NULL and cudaStreamLegacy name the device's legacy default
 *   stream. cudaStreamPerThread names the calling thread's default stream there. An object without a device takes that
 *   of the stream on which its device copy is used. (cudaStream_t)-1: ERR_INVALID_ARGUMENT.
 *
 * Graph capture. An access on a capturing stream succeeds if it needs no transfer, fill or memory, and leaves the head.
 * Other calls on that stream, or that would wait for it, return ERR_CAPTURING, and the capture goes on. Before each
 * launch access the graph's pointers again, on the stream of the launch: docs/guide/streams.md, "Graphs".
 *
 * Fork. This concerns a child of a process that has used a GPU through the library. New objects can be used on the
 * host. A valid host copy can be read if nothing was arriving in it. It can be written if the head was AT_CPU and no
 * work on the copy was pending. Releases succeed, and so do queries of facts such as the size. Other use returns
 * ERR_FORKED. A child must not touch managed memory: docs/guide/threads.md, "Forked processes". Shareable objects are
 * the parent's, whether or not it has used a GPU: "Other processes".
 */
#ifndef SYNCED_MEM_H
#define SYNCED_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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

/** One object. Opaque; made by synced_mem_create(), shared by synced_mem_retain(), given up by synced_mem_release(). */
typedef struct synced_mem synced_mem;

struct CUstream_st;
/** The CUDA runtime's cudaStream_t. It is declared here so that this header needs no header of CUDA. */
typedef struct CUstream_st *synced_mem_stream;

/** Which copies hold the current contents. The values are bits: 1 the host copy, 2 the device copy.
 * Source: Caffe, SyncedMemory::SyncedHead. */
typedef enum synced_mem_head_kind {
    SYNCED_MEM_UNINITIALIZED = 0, /**< neither: nothing was written yet; the first read sees zeros */
    SYNCED_MEM_AT_CPU = 1,        /**< the host copy only */
    SYNCED_MEM_AT_GPU = 2,        /**< the device copy only */
    SYNCED_MEM_SYNCED = 3,        /**< both; one of them may still be arriving */
    /** Of an object in parts ("Views"): neither copy holds all of the contents, but some bytes are initialized. Has
     * neither bit. Bytes that are not initialized read as zeros. */
    SYNCED_MEM_MIXED = 4
} synced_mem_head_kind;

/** One of an object's two sides. The values are those of the head's bits, and of DLPack's device types. */
typedef enum synced_mem_side {
    SYNCED_MEM_SIDE_CPU = 1, /**< the host */
    SYNCED_MEM_SIDE_GPU = 2  /**< the device */
} synced_mem_side;

/** What an access does with the contents. */
typedef enum synced_mem_mode {
    SYNCED_MEM_READ = 0,     /**< reads them */
    SYNCED_MEM_MUTABLE = 1,  /**< reads and writes them */
    SYNCED_MEM_OVERWRITE = 2 /**< writes all bytes, and reads none before it has written it */
} synced_mem_mode;

/** In place of a stream: an access without a stream, which waits on the host. */
#define SYNCED_MEM_NO_STREAM ((synced_mem_stream)(uintptr_t)-1)

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

/** The device that is current in the calling thread when the object first needs one. */
#define SYNCED_MEM_DEVICE_CURRENT (-1)

/** Of an allocator of host memory: all of its memory is page-locked. */
#define SYNCED_MEM_ALLOCATOR_PINNED 1u

/** A user allocator, such as a framework's cache, for host memory or for device memory. Both functions are called with
 * no lock held, in any thread that calls the library, and may call the library. docs/guide/memory.md, "User
 * allocators", has their arguments and restrictions, and the order of reuse. */
typedef struct synced_mem_allocator {
    size_t struct_size; /**< sizeof(synced_mem_allocator) */
    /** Returns size bytes, at least 1, aligned to alignment, a power of two; contents undefined. NULL: no memory. */
    void *(*alloc)(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    /** Takes back memory from alloc, once, with alloc's size, alignment and device. */
    void (*free)(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user);
    void *user;     /**< yours, handed to both */
    unsigned flags; /**< 0, or SYNCED_MEM_ALLOCATOR_PINNED */
} synced_mem_allocator;

/** The placement of an object's memory. SEPARATE has a host copy and a device copy. The others are unified: both sides
 * use one allocation, at one address. Heads and accesses are the same, but nothing is transferred. The first access
 * that needs memory decides the placement by the device, and sets the object's device: docs/guide/unified.md. */
typedef enum synced_mem_placement_kind {
    SYNCED_MEM_PLACEMENT_SEPARATE = 0, /**< two copies (default) */
    /** Page-locked host memory that the device reads over the bus. ERR_INVALID_STATE if its address on the device would
     * differ. Source: CUDA C++ Programming Guide, "Mapped Memory". */
    SYNCED_MEM_PLACEMENT_MAPPED = 1,
    /** Managed memory (cudaMallocManaged). ERR_INVALID_STATE if cudaDevAttrConcurrentManagedAccess is 0.
     * ERR_OUT_OF_DEVICE_MEMORY if the library's memory and that of others would not fit into the device's memory.
     * Source: CUDA C++ Programming Guide, "Unified Memory Programming". */
    SYNCED_MEM_PLACEMENT_MANAGED = 2,
    /** An integrated GPU (Jetson) shares the host's memory. There: managed if the host may touch such memory while
     * kernels run, else mapped. On any other GPU: separate. */
    SYNCED_MEM_PLACEMENT_AUTOMATIC = 3
} synced_mem_placement_kind;

/** Who may get a shareable object: values of synced_mem_options.shareable. */
enum {
    SYNCED_MEM_SHAREABLE_SAME_USER = 1, /**< processes of the user whose process made the object */
    SYNCED_MEM_SHAREABLE_ANY_USER = 2   /**< any process that a participant shares it with */
};

/** The options of an object. Fill them with synced_mem_options_init(), then change what you need. */
typedef struct synced_mem_options {
    size_t struct_size; /**< sizeof(synced_mem_options), set by synced_mem_options_init() */
    /** CUDA device number, or SYNCED_MEM_DEVICE_CURRENT (default). First read when the device is first used, so that
     * the same program runs on a machine without one. An object that names its device gets page-locked host memory from
     * the start if that device is usable. Other objects do once the process has used a GPU through the library. */
    int device;
    /** Shown in error details, traces and debug mode; copied, at most 47 bytes are kept; NULL (default): none. */
    const char *name;
    /** A power of two up to 2 MiB, in bytes; 0 (default): 64. The library's own memory has it, and at least that of a
     * pointer. An allocator's memory without it: ERR_INVALID_STATE. The caller's memory without it:
     * ERR_INVALID_ARGUMENT; with 0 the caller's memory may lie anywhere. */
    size_t alignment;
    void *user; /**< yours, returned by synced_mem_user(); NULL by default */
    /** Of the host copy; read during the call only; NULL (default): as set by synced_mem_set_allocators(). */
    const synced_mem_allocator *cpu_allocator;
    const synced_mem_allocator *gpu_allocator; /**< the same for the device copy */
    synced_mem_placement_kind placement;       /**< SYNCED_MEM_PLACEMENT_SEPARATE by default */
    /** 0 (default), or SYNCED_MEM_SHAREABLE_*: other processes can use the object ("Other processes"). Only with
     * separate placement, and without allocators; those of synced_mem_set_allocators() do not serve it. */
    unsigned shareable;
} synced_mem_options;

/** Fills options with the defaults of this version of the header. NULL is ignored.
 * Blocking: never. Ownership: none. Threads: safe. Errors: none. @since 0.1 */
SYNCED_MEM_API void synced_mem_options_init(synced_mem_options *options);

/** Makes an object with one reference, UNINITIALIZED, and no memory on either side yet. Calls no CUDA function. NULL
 * options are the defaults. Accessors of an object of 0 bytes return pointers that are not NULL, and nothing is ever
 * copied.
 * Blocking: never. Ownership: the caller owns the reference until synced_mem_release(); nothing after a failure.
 * Threads: safe. Errors: ERR_INVALID_ARGUMENT (a size over PTRDIFF_MAX less 2 MiB, a device below -1 or above 32767, an
 * alignment that is no power of two or too large, an unknown placement, a bad allocator, or one with a unified
 * placement); ERR_OUT_OF_HOST_MEMORY; of a shareable object ERR_FILE (no descriptor left, no files in memory, or a size
 * over RLIMIT_FSIZE). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_create(synced_mem **out, size_t size, const synced_mem_options *options);

/** Adds a reference, atomically.
 * Blocking: never. Ownership: the caller owns one more reference after success, none more after a failure. Threads:
 * safe. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE (the last reference is already gone). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_retain(synced_mem *mem);

/** Gives up a reference; the last one releases the object and its memory. NULL is ignored, with SYNCED_MEM_OK.
 * Blocking: the last release waits for the library's transfers on borrowed memory; and while synced_mem_print_all() or
 * an error's detail reads the object in another thread, at most as long as another call holds it. The library's own
 * memory is freed after the work on it, without a wait; but without memory pools cudaFree may wait for the device.
 * Memory that SYNCED_MEM_MEMORY_PAGE_LOCK has page-locked: also as synced_mem_use_memory() says. A shareable object in
 * a turn ends first: also as synced_mem_end_turn() says. Ownership: after success the caller's reference is
 * gone; if the wait fails it stays, and nothing is released. Borrowed memory is the caller's again after the call.
 * Adopted memory gets its callback when the work on it has finished: in this call, or in a later call into the library.
 * Threads: safe. Errors: ERR_INVALID_STATE (released more often than retained: an assertion in debug builds, otherwise
 * detected until the object's slot is used again); ERR_CUDA (the wait failed). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release(synced_mem *mem);

/** Frees the library's common resources: streams, events, memory pools, and released memory whose last use has
 * finished. The library can be used again afterwards.
 * Blocking: waits for pending transfers on released memory. Ownership: due adopted memory gets its callback and is the
 * caller's again; an object that a callback releases is gone too. Threads: not while another thread is in the library.
 * Errors: ERR_INVALID_STATE (objects are alive, of which the detail names three, or callbacks hand in memory without
 * end; then only released memory was freed); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_shutdown(void);

/* ---- Views ---- */
/*
 * A view is an object whose bytes are a part of another object's, its root's: docs/guide/parts.md. It is used as any
 * object, and any call on it concerns these bytes alone. A root is in parts while it has views, and an object during a
 * copy to or from an object in parts. It stays so until a call notices that all of its bytes have one head and the same
 * work in flight.
 *
 *    heads        Kept by bytes. The head of an object in parts has the bit of a side if all of its bytes are valid
 *                 there. If neither side has all, and some byte is initialized, it is MIXED.
 *    conflicts    Accesses to a root and its views conflict only if their bytes overlap, and then as accesses to one
 *                 object. Otherwise they wait for one another only as separate objects do (docs/guide/threads.md), and
 *                 for the lock of their root. No call holds it while the host copies or fills bytes, or while the
 *                 call waits for work, but for synced_mem_resize(), and debug mode, which fills overwrites.
 *    threads      May write through pointers to views of one root at the same time, if no other uses the bytes that one
 *                 writes. Otherwise it is the caller's race, as with one object.
 *    accesses     An access to an object in parts is that access to each of them, by the table below.
 *    push, pull   With head MIXED, a push moves the bytes that are AT_CPU, and a pull those that are AT_GPU. With any
 *                 other head the rules are those of an undivided object. A list may have a root and its views, and
 *                 views that overlap. Each byte then moves once.
 *    copies       Each byte is copied from where the source has it valid, and uninitialized bytes become uninitialized.
 *                 So one copy may be several transfers, and the target may become MIXED.
 *    failures     A failed call takes back, by bytes, what it has made valid, except as synced_mem_async_gpu_push_n()
 *                 says. Any call on an object in parts, also its release, may return ERR_OUT_OF_HOST_MEMORY. Calls that
 *                 only read facts need no memory.
 *    memory       The allocator, placement, alignment and device are the root's. A view's pointer is the root's pointer
 *                 plus the view's offset. The first access to a side obtains memory for all bytes of the root. A call
 *                 that replaces or releases memory of the root does so for its views too: access them again. Borrowed
 *                 memory is in use until the last view is released.
 *    pageable     Transfers of views, of an object in parts, and of objects in one call with them, from and to pageable
 *                 memory are always staged, also below synced_mem_staging.minimum_bytes. So a push waits on the host
 *                 for earlier work on the device copy of its bytes. If synced_mem_staging.threads is 0, a pull blocks
 *                 until its bytes have arrived.
 *
 * On a view, calls that replace or release memory or change the size return ERR_INVALID_STATE ("a view" below). So do
 * synced_mem_resize() and synced_mem_resize_discard() on an object with views that have bytes. A resize of an object
 * that is still in parts may move its contents to the host first, and blocks for that. A view of 0 bytes has memory of
 * its own, for which it does not use the root's allocators, alignment and placement.
 *
 * A forked child that may not use the GPU can read a host copy only if an accessor returned it and it was valid and in
 * one part since.
 */

/** Makes a view, with one reference, of size bytes of an object or of a view of it, from offset on. It is a view of the
 * root, to which it holds a reference. Views may overlap. To make or release a view is no access: pointers, heads and
 * work in flight stay as they are. options may be NULL; only name and user may differ from the defaults.
 * Blocking: never. Ownership: the caller owns the reference until synced_mem_release(); nothing after a failure.
 * Threads: safe. Errors: ERR_INVALID_ARGUMENT (of is NULL, the part lies not within it, an option is not a default);
 * ERR_OUT_OF_HOST_MEMORY; ERR_FORKED. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                                 const synced_mem_options *options);

/** The object that a view is a part of.
 * @return the root, with no new reference: good as long as the view; mem itself if it is no view; NULL for NULL
 * Blocking: never. Ownership: the root's. Threads: safe. Errors: as synced_mem_size(). @since 0.2 */
SYNCED_MEM_API synced_mem *synced_mem_root(const synced_mem *mem);

/** The place of a view in its root.
 * @return in bytes; 0 if mem is no view, and for NULL
 * Blocking, ownership, threads, errors: as synced_mem_size(). @since 0.2 */
SYNCED_MEM_API size_t synced_mem_offset(const synced_mem *mem);

/* ---- Other processes ---- */
/*
 * Several processes can use one object that was made with options.shareable: docs/guide/processes.md. The processes are
 * on one machine. Each has an object of its own, which is an object like any other in a turn, and has the same bytes.
 *
 *    turns        Many read, or one writes, in order of arrival. An object is made in its maker's turn to write.
 *                 Without a turn the head is UNINITIALIZED, and calls that use the contents return ERR_INVALID_STATE.
 *                 In a turn to read, calls that write do so, and calls on a side that was not valid when it began.
 *                 Pointers are good until the turn ends. A turn is the process's: all its threads may use the object.
 *    views        Are each process's own, and stay when a turn ends. Turns are their root's: to begin or end one
 *                 through a view, or to share a view, returns ERR_INVALID_STATE.
 *    memory       Host memory is in a sealed memfd. The first transfer of each process from it or to it page-locks it,
 *                 and blocks meanwhile. Device memory comes from cuMemCreate. It is reserved when the object is first
 *                 shared, if the object names a device or the process uses one. An object that was shared without can
 *                 be used on the host alone. Size and memory stay: resize, use_memory and their like, and release_data
 *                 return ERR_INVALID_STATE. Memory goes with the last process that has the object, in whatever order
 *                 they end. With vm.overcommit_memory=2, a first use of a page for which there is no memory ends with
 *                 SIGBUS.
 *    deaths       If a process ends while it has a turn, the others go on within 50 ms. If the turn was to write, the
 *                 contents become UNINITIALIZED, and each other process's next synced_mem_begin_turn() returns
 *                 ERR_OWNER_DIED once. By then another process may have written new contents. A process that executes
 *                 another program, or a forked child, has no turn.
 *    trust        A process that has the object can write wrong bytes into it, end turns of others and keep a turn for
 *                 ever. It cannot make another process fault, write outside of the buffer, or wait more than
 *                 50 ms beyond its timeout.
 *    forks        A forked child can read facts of its parent's shareable objects, and release them. Other calls on
 *                 them return ERR_FORKED there. The handlers of pthread_atfork() see to that. A child of _Fork() or of
 *                 the bare system call runs none: it must end or execute another program without a call into the
 *                 library, and until then the others wait for its parent's turn even if the parent dies.
 *    memory       The host's memory has a page only once a process writes there, so an object may be larger than the
 *                 machine's memory. To read an UNINITIALIZED object, or to have it on a device, fills all of it. A turn
 *                 to write and synced_mem_overwrite_cpu_data() fill nothing.
 *    limits       At most 64 objects have one memory. A process may have several of them, each received once. A process
 *                 must not close descriptors that it did not open.
 *
 * Timeouts are in milliseconds: 0 tries once, a negative one waits for ever. Linux alone.
 */

/** The kinds of turns. */
typedef enum synced_mem_turn {
    SYNCED_MEM_TURN_READ = 0, /**< as many processes at a time as want to */
    SYNCED_MEM_TURN_WRITE = 1 /**< one process alone, which may read too */
} synced_mem_turn;

/** Gives the object to the process at the other end of a socket, which calls synced_mem_receive(). The calling process
 * needs a turn, and keeps it. Sends one message with two or three descriptors. After a failure close the socket: the
 * message may have gone in part.
 * @param socket      a connected Unix socket of type SOCK_STREAM or SOCK_SEQPACKET; its other data stay as they are
 * @param timeout_ms  for the socket to take the message
 * Blocking: until the socket has taken the message; for no work on a device. Ownership: the socket stays the caller's;
 * the object stays too, and each process releases its own. Threads: safe; the messages of several threads on one socket
 * need an order. Errors: ERR_INVALID_ARGUMENT (no such socket); ERR_INVALID_STATE (not shareable, a view, no turn);
 * ERR_TIMEOUT; ERR_PEER (the socket is closed; or the object is SYNCED_MEM_SHAREABLE_SAME_USER, and the other end is
 * another user's, or a user's without a number in this user namespace); ERR_FILE (no descriptor left, or no /proc);
 * ERR_OUT_OF_HOST_MEMORY; when device memory is reserved, GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_share(synced_mem *mem, int socket, int timeout_ms);

/** Makes an object of what the process at the other end of a socket gives with synced_mem_share(). The object has one
 * reference, no turn, no name and no user pointer. All that comes is checked before it is used. Starts nothing of
 * CUDA's.
 * @param socket      as for synced_mem_share(). After a failure close it: part of a message may be read
 * @param timeout_ms  for the whole message to come
 * Blocking: until the message is there. Ownership: the caller owns the reference until synced_mem_release(); nothing
 * after a failure. Threads: safe; as synced_mem_share(). Errors: ERR_INVALID_ARGUMENT (no such socket); ERR_TIMEOUT
 * (also if a process that has the object delays all calls of the system on its files);
 * ERR_PEER (the socket is closed, something else came, or it is of another user); ERR_INVALID_STATE (64 objects have
 * the memory); ERR_FILE (no descriptor left, no /proc, or too many of other processes' that can't be closed);
 * ERR_OUT_OF_HOST_MEMORY. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_receive(synced_mem **out, int socket, int timeout_ms);

/** Begins a turn of this process, which synced_mem_end_turn() ends. To read, the side is made valid first if it is not:
 * this process alone transfers the contents to it, or fills it with zeros, beside those that read the other side. To
 * write, accesses move the contents as always.
 * @param side        the side to read or write first; a turn on the device needs a process that sees the device
 * @param timeout_ms  for the turn to come; the transfer may take longer
 * Blocking: until the turns in front have ended, and until the contents of the side have arrived. Ownership: after
 * success the process has a turn until synced_mem_end_turn() or the last release; after a failure none. Threads: safe;
 * a process has one turn, so a second call returns ERR_INVALID_STATE. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE
 * (not shareable, a view, the process has a turn or waits for one, no device memory); ERR_TIMEOUT; ERR_OWNER_DIED (told
 * once; the contents before the death are lost); ERR_PEER (another process has written impossible values);
 * ERR_INVALID_DEVICE (the process does not see the device, and the head is AT_GPU or side the device's); other GPU
 * errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_begin_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn,
                                                       int timeout_ms);

/** Ends the process's turn. Other processes then see the sides that are valid for all bytes. If none is, the contents
 * are brought to the host first. Pointers expire, and streams may use the memory no more. Views stay.
 * Blocking: until all of the process's work on the object has ended, on its streams too, and the calls of other threads
 * on it. Ownership: none; after a failure the process keeps its turn. Threads: safe. Errors: ERR_INVALID_ARGUMENT;
 * ERR_INVALID_STATE (not shareable, a view, no turn, the memory is exported as a tensor, called in a callback of a call
 * on a shareable object while a call on this one has not ended); GPU errors: if ERR_DEVICE_LOST, release the object,
 * which is a death in the turn. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_turn(synced_mem *mem);

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
 * The pointers belong to the object and must not be freed.
 * Unified placement: the pointers of both sides are the same. An access waits for conflicting work of either side: a
 * host write also for kernels that read. The first use of memory may fail as its placement says, on either side.
 * Source: Caffe, SyncedMemory::cpu_data and its siblings; overwrite is this library's addition.
 */

/** The host copy, to read.
 * @return synced_mem_size() bytes for the host to read
 * Blocking: until the contents have arrived: a transfer from the device, and before it the caller's work that writes
 * them, on the stream of the access (without one: on the legacy stream, and on blocking streams of the object's
 * device). After a pull: until that pull alone. Ownership: the object's. Threads: safe. Errors: ERR_INVALID_ARGUMENT;
 * ERR_OUT_OF_HOST_MEMORY; if the contents come from the device, GPU errors. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_cpu_data(synced_mem *mem);

/** The host copy, to read and write; the device copy becomes stale.
 * @return as synced_mem_cpu_data(). Blocking: as synced_mem_cpu_data(), and until the library's pending transfers have
 * read the host copy. Ownership, threads, errors: as synced_mem_cpu_data(). @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_cpu_data(synced_mem *mem);

/** The host copy, to be written whole; the device copy becomes stale. The contents are undefined until the caller has
 * written them: nothing is copied, and nothing is filled but in debug mode.
 * @return as synced_mem_cpu_data(). Blocking: until the library's pending transfers on the host copy are done.
 * Ownership, threads, errors: as synced_mem_cpu_data(). @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_cpu_data(synced_mem *mem);

/** The device copy, to read, for kernels on the legacy stream or on blocking streams of the object's device, as in
 * Caffe. The host, other streams and the library's transfers wait for such kernels before they conflict with them. Work
 * on a non-blocking stream must finish before the next conflicting call, or use synced_mem_gpu_data_on(). Among
 * themselves the caller orders kernels that use pointers of an access without a stream. The memory stays marked, also
 * after a host access: its reuse, and the library's transfers and fills into it, come after such kernels, on any
 * stream, but not what the host writes into unified memory. While a blocking stream of the device captures, these
 * transfers and fills return ERR_CAPTURING, and released memory is kept.
 * @return synced_mem_size() bytes of device memory
 * Blocking: until the contents have arrived, and work on a stream of an access that writes them is done. Ownership: the
 * object's. Threads: safe. Errors: ERR_INVALID_ARGUMENT; GPU errors. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data(synced_mem *mem);

/** The device copy, to read and write; the host copy becomes stale. Tracked as by synced_mem_gpu_data().
 * @return as synced_mem_gpu_data()
 * Blocking: as synced_mem_gpu_data(), and until reads of the device copy are done: the library's transfers, and the
 * caller's work on streams of accesses. Ownership, threads, errors: as synced_mem_gpu_data(). @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data(synced_mem *mem);

/** The device copy, to be written whole; the host copy becomes stale. The contents are then as of
 * synced_mem_overwrite_cpu_data(). Tracked as by synced_mem_gpu_data().
 * @return as synced_mem_gpu_data(). Blocking: as synced_mem_mutable_gpu_data(), and until the memory is allocated.
 * Ownership, threads, errors: as synced_mem_gpu_data(). @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data(synced_mem *mem);

/** The device copy, to read by work queued on the stream from now on, up to the next conflicting call on the object.
 * The stream waits for earlier work: a transfer, or a writer on another stream. A transfer, fill or allocation is
 * queued on the stream itself. A conflicting call comes after all that is queued on the stream by then, unless
 * synced_mem_end_use_on() has ended the use. Readers on several streams do not wait for one another.
 * @param stream  call synced_mem_forget_stream() before it is destroyed
 * @return synced_mem_size() bytes of device memory
 * Blocking: not if the host copy is page-locked, or if there is no transfer. A transfer from pageable memory: until the
 * source has been read. Pageable memory of the caller's that another stream's work still fills
 * (synced_mem_memory.stream): until it is filled. Ownership: the object's. Threads: safe. Errors: ERR_INVALID_ARGUMENT;
 * GPU errors. @since 0.1 */
SYNCED_MEM_API const void *synced_mem_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** As synced_mem_gpu_data_on(), to read and write; the host copy becomes stale. The stream also waits for reads of the
 * device copy: transfers, and work on streams of other accesses. The access to write ends at the next call on the
 * object other than an access on this stream, also at a pull: access again after one.
 * @return as synced_mem_gpu_data_on(). Blocking, ownership, threads, errors: as synced_mem_gpu_data_on(). @since 0.1 */
SYNCED_MEM_API void *synced_mem_mutable_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** As synced_mem_mutable_gpu_data_on(), to be written whole, as synced_mem_overwrite_gpu_data().
 * @return as synced_mem_gpu_data_on(). Blocking, ownership, threads, errors: as synced_mem_gpu_data_on(). @since 0.1 */
SYNCED_MEM_API void *synced_mem_overwrite_gpu_data_on(synced_mem *mem, synced_mem_stream stream);

/** Makes one of the nine accesses above, for programs that choose it at run time: of a side, with a mode, and of the
 * device copy on a stream or, with SYNCED_MEM_NO_STREAM, without one. An access to the host copy ignores the stream.
 * @return the pointer, which must not be written after a read; NULL: failure
 * Blocking, ownership, threads: as of the access that it makes. Errors: those of that access; ERR_INVALID_ARGUMENT (no
 * such side or mode). @since 0.2 */
SYNCED_MEM_API void *synced_mem_access(synced_mem *mem, synced_mem_side side, synced_mem_mode mode,
                                       synced_mem_stream stream);

/** The head: which copies hold the current contents, or will on arrival. A failed transfer shows after another call has
 * polled it.
 * @return the head; UNINITIALIZED for NULL; in a forked child maybe MIXED for an object in parts. Blocking: never; an
 * object in parts: for its root's lock. Ownership, threads, errors: as synced_mem_size(). @since 0.1 */
SYNCED_MEM_API synced_mem_head_kind synced_mem_head(const synced_mem *mem);

/* ---- Streams and transfers ---- */

/** Ends the stream's use of the object's device copy. Later conflicting calls wait for the work queued on the stream up
 * to now, and for none queued after. The stream needs a new access before it uses the object again. Without this call
 * the use ends at the first conflicting call, with all that is queued by then. A stream without a use is no error.
 * Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT; GPU errors. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_end_use_on(synced_mem *mem, synced_mem_stream stream);

/** Ends the stream's use of all objects, and forgets the stream. Call it before the stream is destroyed, after the last
 * work on its pointers is queued; a new stream with the old one's handle then is another stream. The default streams
 * NULL, cudaStreamLegacy and cudaStreamPerThread need no such call. An unknown stream is no error. The unrecorded work
 * of a stream destroyed without this call is lost to the library. If the runtime shows that the handle has become
 * another stream's, the call that detects it returns ERR_INVALID_STATE once, and forgets the old stream's work on the
 * object.
 * Blocking: never. Ownership: none. Threads: safe. Errors: GPU errors (the stream is then known as before).
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_forget_stream(synced_mem_stream stream);

/** Queues the transfer of the host copy to the device on the stream and returns: AT_CPU becomes SYNCED, the device copy
 * arriving. If the head is SYNCED nothing is moved: the stream waits for contents that still arrive on another stream.
 * The stream also waits for earlier work on the object's memory. Work queued on it afterwards sees the contents.
 * Unified placement: nothing is moved; the stream waits for writers of the contents; managed memory is prefetched.
 * @param stream  if nothing else accessed objects on it, it may be destroyed without synced_mem_forget_stream()
 * Blocking: not if the host copy is page-locked. From pageable memory: until the source has been read. Staged transfers
 * (synced_mem_set_staging()) read it after earlier work on the device copy; if no memory can be page-locked, it is read
 * after earlier work on the stream. Ownership: none; after ERR_CUDA the transfer may still run, untracked: the caller's
 * memory must stay until the stream has been synchronized. Threads: safe. Errors: ERR_INVALID_ARGUMENT;
 * ERR_INVALID_STATE (head UNINITIALIZED, or AT_GPU: the host copy is stale); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push(synced_mem *mem, synced_mem_stream stream);

/** As synced_mem_async_gpu_push() in the other direction: queues the transfer of the device copy to the host; AT_GPU
 * becomes SYNCED, the host copy arriving. synced_mem_cpu_data() then waits for this transfer alone. Later writes to the
 * device copy, on any stream, come after the transfer; an access waits on the host for copy threads that have yet to
 * queue it.
 * Unified placement: nothing is moved; the host copy has arrived when writers of the contents, up to now, are done.
 * Blocking: not if the host copy is page-locked or the transfer is staged (synced_mem_set_staging()). Into pageable
 * memory otherwise: it may block until the bytes have arrived. Ownership: as synced_mem_async_gpu_push(). Threads:
 * safe. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE (head UNINITIALIZED, or AT_CPU: the device copy is stale); GPU
 * errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull(synced_mem *mem, synced_mem_stream stream);

/** As synced_mem_async_gpu_push(), for each of count objects of the stream's device, with one event for all transfers:
 * an access to one object waits until all have arrived. An object may be listed more than once. Staged transfers have
 * events of their own. Transfers of page-locked memory may be one call of the CUDA runtime; then they are in no order.
 * Blocking, ownership: as synced_mem_async_gpu_push(), for each. Threads: safe. Errors: the first object's, in the
 * order given, or those of the one call. No head has changed then, though some transfers may have been made. If a
 * staged transfer fails, the others still arrive, also of other parts of an object: heads change and accesses to write
 * end as after a success, by bytes. ERR_INVALID_ARGUMENT: a NULL array with a count above 0. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_push_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/** As synced_mem_async_gpu_push_n(), for synced_mem_async_cpu_pull(). Blocking, ownership: as
 * synced_mem_async_cpu_pull(), for each. Threads, errors: as synced_mem_async_gpu_push_n(). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_async_cpu_pull_n(synced_mem *const *mems, size_t count,
                                                             synced_mem_stream stream);

/** Copies the contents of one object to another of the same size, by one transfer on the stream. The source is the
 * device copy of from if it is valid, else the host copy. The target is the device copy of to, and to becomes AT_GPU.
 * from keeps its head and its copies. If from is UNINITIALIZED, to becomes UNINITIALIZED. The stream waits for earlier
 * work on both objects' memory. Work queued on it afterwards sees the contents. An open write of from ends unless it is
 * on the same stream.
 *
 * Between two devices the stream belongs to either device. If the devices can reach one another, the library first
 * allows its pools to the other device, see synced_mem_gpu_pool_allow_peer(). Otherwise the CUDA runtime copies through
 * the host, as for user memory that the other device cannot reach.
 * @param to      overwritten; without a device it takes the stream's
 * @param stream  NULL, cudaStreamLegacy and cudaStreamPerThread: of the device of to; if to has none, of from
 * Blocking: as synced_mem_async_gpu_push(), with the host copy of from. If to has mapped placement and from is valid on
 * the host or mapped: until earlier work on both objects' memory is done. Ownership: as synced_mem_async_gpu_push(),
 * for both objects. Threads: safe; for races of the caller's see synced_mem_mutable_cpu_data(). Errors:
 * ERR_INVALID_ARGUMENT (the sizes differ, both are one object, bytes or memory of to overlap those of from);
 * ERR_CAPTURING (the stream captures); ERR_INVALID_DEVICE (the stream belongs to neither device); other GPU errors. If
 * a transfer fails after it has begun, and only the overwritten copy was valid, to becomes UNINITIALIZED.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy(synced_mem *to, synced_mem *from, synced_mem_stream stream);

/** As synced_mem_async_gpu_copy(), from from[i] to to[i] of count pairs. The default streams are of the first pair's
 * device.
 * @param to    none may be listed again in either array, nor a view of its bytes
 * @param from  an object may be listed more than once
 * Blocking, ownership: as synced_mem_async_gpu_copy(), for each pair. Threads: safe. Errors: as
 * synced_mem_async_gpu_copy(); ERR_INVALID_ARGUMENT (a NULL array with a count above 0, or memory that is written
 * overlaps a valid copy of another object in the call). Overlaps with objects outside the call are not detected.
 * Nothing is done if an argument, a state or memory for contents is refused. A transfer may be refused later, by the
 * runtime or for lack of memory for its record. Each object of to, or each part of it, then has either its old contents
 * or the copy. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_async_gpu_copy_n(synced_mem *const *to, synced_mem *const *from,
                                                             size_t count, synced_mem_stream stream);

/** Copies the contents of from to the host copy of to, an object of the same size. The host copies them if from is
 * valid there, else one transfer from the device copy of from does. to becomes AT_CPU. from keeps its head and its
 * copies. If from is UNINITIALIZED, to becomes UNINITIALIZED.
 * Blocking: until the contents have arrived and earlier work on the host copy of to is done; as synced_mem_cpu_data()
 * for from. Ownership: as synced_mem_async_gpu_push(), for both objects. Threads: as synced_mem_async_gpu_copy().
 * Errors: ERR_INVALID_ARGUMENT as synced_mem_async_gpu_copy(); ERR_OUT_OF_HOST_MEMORY; GPU errors if the contents come
 * from the device. A failed transfer has the effect that synced_mem_async_gpu_copy() describes. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy(synced_mem *to, synced_mem *from);

/** As synced_mem_cpu_copy(), for pairs as of synced_mem_async_gpu_copy_n(). The transfers run at the same time.
 * Blocking, ownership: as synced_mem_cpu_copy(), for each pair. Threads: safe. Errors: as synced_mem_cpu_copy() and
 * synced_mem_async_gpu_copy_n(). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_cpu_copy_n(synced_mem *const *to, synced_mem *const *from, size_t count);

/** Makes the object UNINITIALIZED, so that its next read sees zeros. Writes none itself: that read fills the memory.
 * All memory stays, and its next use waits for work in flight. Blocking: never. Ownership: none. Threads: as
 * synced_mem_mutable_cpu_data(). Errors: ERR_INVALID_ARGUMENT; ERR_FORKED. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_clear(synced_mem *mem);

/** Sets pending to 1 if the library's transfers, fills or allocations on the object's memory are pending, else to 0.
 * Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT; ERR_DEVICE_LOST, or the reason that a
 * staged transfer failed (its contents are lost; the first of these calls reports it); ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_query(synced_mem *mem, int *pending);

/** Waits for the work that synced_mem_query() polls. Blocking: until it is done, and the caller's before a transfer.
 * Ownership: none. Threads: safe. Errors: as synced_mem_query(). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_wait(synced_mem *mem);

/* ---- Size ---- */
/*
 * While memory is exported as a tensor (synced_mem_dlpack.h), calls that would replace, release or resize it return
 * ERR_INVALID_STATE.
 */

/** The size of the contents: as made, or as resized last.
 * @return in bytes; 0 for NULL. Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT.
 * @since 0.1 */
SYNCED_MEM_API size_t synced_mem_size(const synced_mem *mem);

/** Changes the size and keeps the contents, up to the smaller of the two sizes; new bytes read as zero, also if the
 * object was larger before. A copy with room keeps its memory. If no copy with the contents has room, one of them is
 * moved to larger memory, and the other becomes stale; a copy without the contents and without room is released.
 * Blocking: a fill or a move of the host copy, until transfers on it are done; borrowed memory that is handed back,
 * until the library's transfers on it are done; an object in parts, until all writes of its contents are done, and
 * until other threads' calls on parts of it have ended. Other device work is queued on an internal stream, after the
 * caller's. Ownership: released memory as synced_mem_release(), also the caller's memory without room. Threads: safe.
 * Errors: ERR_INVALID_ARGUMENT (a size over PTRDIFF_MAX less 2 MiB); ERR_INVALID_STATE (a view, or an object with
 * views; in a callback or a forked child: a call on parts of the object goes on); ERR_OUT_OF_HOST_MEMORY; if device
 * memory is touched, GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize(synced_mem *mem, size_t size);

/** Changes the size and gives up the contents: the head becomes UNINITIALIZED. Copies with room for the size stay as
 * capacity, others are released. Otherwise as synced_mem_resize().
 * Blocking: only to hand back borrowed memory. Ownership, threads, errors: as synced_mem_resize().
 * Source: MixMemory of tensorRT_Pro, which reuses memory that is large enough. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_resize_discard(synced_mem *mem, size_t size);

/** Gives up the host copy's memory. Contents that it alone holds are moved to the device first. No host copy is no
 * error.
 * Unified placement: the head changes likewise, and the one memory stays until synced_mem_release_data().
 * Blocking: until that transfer, or one of an earlier push, has arrived, so that a failure loses nothing; and for the
 * memory as synced_mem_release(). Ownership: of the caller's memory as synced_mem_release(). Threads: safe. Errors:
 * ERR_INVALID_ARGUMENT; ERR_INVALID_STATE (a view); GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_cpu_data(synced_mem *mem);

/** Gives up the device copy's memory. Contents that it alone holds are moved to the host first. The object's device
 * stays. No device copy is no error.
 * Unified placement: as synced_mem_release_cpu_data(). Blocking: until that transfer has arrived; and for the memory as
 * synced_mem_release(). Ownership, threads, errors: as synced_mem_release_cpu_data(). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_gpu_data(synced_mem *mem);

/** Gives up both copies' memory and the contents: the head becomes UNINITIALIZED.
 * Blocking, ownership: as synced_mem_release(). Threads: safe. Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_STATE (a
 * view); ERR_CUDA (a wait for borrowed memory failed).
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_release_data(synced_mem *mem);

/* ---- Memory handed in ---- */
/*
 * The library queries the CUDA runtime about handed-in memory. Pushes and pulls of page-locked host memory then return
 * at once. Host memory alone starts nothing of CUDA; only an object with automatic placement queries its device. The
 * time of the query, managed memory: docs/guide/memory.md, "User memory". Memory must not be unmapped, freed or
 * unregistered while an object uses it.
 */

/** Called once for each adopted pointer of an object when the object no longer uses the memory, with no lock held, in
 * synced_mem_release(), synced_mem_shutdown() or any other call that may wait or allocate; never in a CUDA callback.
 * Memory that SYNCED_MEM_MEMORY_PAGE_LOCK has page-locked is not handed back by accesses on a stream, pushes, pulls,
 * queries and resizes of other objects, since that may block. Exception: quarantined memory, with work whose end is
 * unknown, is never handed back (synced_mem_stats.quarantined).
 * @param data    the pointer that was adopted
 * @param user    the user pointer that was adopted with it
 * @param stream  NULL in this version: all work of the library on the memory for this object, and the caller's on
 *                streams of accesses, has finished */
typedef void (*synced_mem_release_callback)(void *data, void *user, synced_mem_stream stream);

/** Makes data the host copy and the head AT_CPU; the object borrows the memory. The device copy becomes stale and keeps
 * its memory. The previous memory of the host copy is released as by synced_mem_release_data().
 * @param data  at least synced_mem_size() bytes of host memory, readable and writable
 * Blocking: until the library's transfers on borrowed memory that it replaces are done; otherwise not. Ownership: the
 * caller's throughout. The memory must stay until a call that replaces or releases the object's host memory, or
 * releases the object, has returned. After a failure the object does not use it. Threads: safe. Errors:
 * ERR_INVALID_ARGUMENT (NULL data, data not aligned as in the options, memory of a device, managed memory that the host
 * may not touch at any time, memory that this object owns); ERR_INVALID_STATE (a view; another thread enlarged the
 * object meanwhile; unified placement); ERR_OUT_OF_HOST_MEMORY; ERR_CUDA (the wait failed); ERR_FORKED.
 * Source: Caffe, SyncedMemory::set_cpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_cpu_data(synced_mem *mem, void *data);

/** Makes data the device copy and the head AT_GPU; the object borrows the memory. The host copy becomes stale and keeps
 * its memory. An object without a device takes that of the memory. Otherwise as synced_mem_set_cpu_data().
 * @param data  at least synced_mem_size() bytes of device or managed memory on the object's device. Work that fills it
 *              is tracked as for synced_mem_mutable_gpu_data()
 * Blocking, ownership, threads: as synced_mem_set_cpu_data(). Errors: those of synced_mem_set_cpu_data();
 * ERR_INVALID_ARGUMENT (host memory), ERR_INVALID_DEVICE (memory of another device), GPU errors.
 * Source: Caffe, SyncedMemory::set_gpu_data. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_gpu_data(synced_mem *mem, void *data);

/** Of synced_mem_memory: the host memory is page-locked for as long as the object uses it. */
#define SYNCED_MEM_MEMORY_PAGE_LOCK 1u

/** Of synced_mem_memory, since 0.2: the library never writes the memory, such as a file mapped with PROT_READ. A call
 * that has to write the memory replaces it first. The new memory is the library's own, or from the object's allocator.
 * Contents that the call keeps are copied to it. Such a call conflicts with every access to that side of the object, of
 * its root and of its views. It blocks until the copied contents have arrived. An access on a stream does not block for
 * that. Each such call blocks as synced_mem_set_cpu_data() to hand borrowed memory back. If it fails after the
 * replacement, head and contents are as before, and the new memory stays. It returns ERR_INVALID_STATE while the memory
 * is exported as a tensor, and ERR_CAPTURING if it is an access on a capturing stream.
 * Details: docs/guide/memory.md, "Read-only memory". */
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
    /** NULL: the memory is borrowed. Otherwise it is adopted; the callback is called once for each pointer, in any
     * order. */
    synced_mem_release_callback callback;
    void *user; /**< yours, handed to the callback */
    /** The stream in whose order the contents are ready, one of the memory's device. Accesses wait for the work queued
     * on it up to now: the host on the host, a stream on the device. The stream's other uses of the object stay as
     * before. The legacy stream is cudaStreamLegacy here. NULL: the contents of host memory are ready, and work that
     * fills device memory is tracked as for synced_mem_mutable_gpu_data(). */
    synced_mem_stream stream;
    unsigned flags; /**< 0, or any of SYNCED_MEM_MEMORY_PAGE_LOCK and SYNCED_MEM_MEMORY_READ_ONLY */
} synced_mem_memory;

/** Makes memory of the caller's the host copy (head AT_CPU), the device copy (AT_GPU), or both (SYNCED: the caller
 * vouches that the contents agree). A copy without new memory becomes stale and keeps its memory. Otherwise as
 * synced_mem_set_cpu_data() for host memory and as synced_mem_set_gpu_data() for device memory. Several objects may use
 * one memory; the library orders nothing between them. SYNCED_MEM_MEMORY_PAGE_LOCK page-locks these bytes alone, if
 * they are not page-locked yet. Details: docs/guide/memory.md, "User memory".
 * Blocking: as synced_mem_set_cpu_data(). The runtime page-locks some GB/s; to undo it, it may wait for the device. The
 * call that hands back borrowed memory with a page lock also waits for the stream above, if it still fills the memory.
 * Ownership: of borrowed memory as synced_mem_set_cpu_data(). Of adopted memory the library's after success; after a
 * failure the caller's, and no callback is called. Threads: safe. Errors: those of synced_mem_set_cpu_data() and
 * synced_mem_set_gpu_data() for the given copies; ERR_INVALID_ARGUMENT (no pointer, one pointer for both copies, an
 * unknown flag, SYNCED_MEM_MEMORY_PAGE_LOCK without host memory). With a stream or SYNCED_MEM_MEMORY_PAGE_LOCK GPU
 * errors: ERR_OUT_OF_HOST_MEMORY (page-locked memory is limited), ERR_CUDA (a part of it is page-locked, or it can't
 * be). After a failure the memory is page-locked or not, as before. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_use_memory(synced_mem *mem, const synced_mem_memory *memory);

/* ================================== Most programs need nothing below ================================== */

/* ---- Errors ---- */

/** The name of a status, as in this header ("SYNCED_MEM_ERR_NO_GPU").
 * @return a constant string, never NULL; "SYNCED_MEM_ERR_UNKNOWN" for a number that is no status
 * Blocking: never. Ownership: none. Threads: safe. Errors: none. @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_name(synced_mem_status status);

/** The meaning of a status, in a few words.
 * @return a constant string, never NULL; "unknown status" for a number that is no status
 * Blocking: never. Ownership: none. Threads: safe. Errors: none. @since 0.1 */
SYNCED_MEM_API const char *synced_mem_status_message(synced_mem_status status);

/** The status of the calling thread's last failed call; calls that succeed don't change it.
 * @return SYNCED_MEM_OK if no call of this thread has failed yet
 * Blocking: never. Ownership: none. Threads: safe; each thread has its own. Errors: none. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_last_error(void);

/** The detail of the calling thread's last failed call: the function, its request (size, device), and the CUDA
 * runtime's error if there was one.
 * @return a string, never NULL; "" if no call has failed. Blocking: never. Ownership: the thread's, good until its next
 * failing call. Threads: safe; each thread has its own. Errors: none. @since 0.1 */
SYNCED_MEM_API const char *synced_mem_last_error_message(void);

/** Called in the failing thread, after the failed call has undone everything and with no lock held. It may call the
 * library; a failure inside it becomes the thread's last error but calls no handler. The message is good until the
 * handler returns. */
typedef void (*synced_mem_error_handler)(synced_mem_status status, const char *message, void *user);

/** Sets the function that every failing call calls with user before it returns, for the whole process; NULL (the
 * default): none. A program that wants Caffe's fatal CHECK sets one that aborts.
 * Blocking: never. Ownership: none. Threads: safe; a call that fails meanwhile in another thread may still call the
 * previous handler, with its user pointer. Errors: none. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_error_handler(synced_mem_error_handler handler, void *user);

/* ---- Out of memory ---- */
/*
 * If memory for contents is refused, the library frees finished memory, waits on the host for released memory that is
 * still in use, trims what it keeps for reuse, and calls the handler below; it retries the whole call after each step.
 * If nothing helps the call returns ERR_OUT_OF_DEVICE_MEMORY or ERR_OUT_OF_HOST_MEMORY; the detail says who holds how
 * much. The steps, their limits and counters: docs/guide/out_of_memory.md.
 */

/** The handler's request. */
typedef struct synced_mem_out_of_memory {
    size_t struct_size; /**< sizeof(synced_mem_out_of_memory) of the library that is running */
    int device;         /**< whose memory was refused; -1: the host's */
    unsigned attempt;   /**< 1 at the handler's first call for this call, then 2, and so on, at most 16 */
    size_t bytes;       /**< the size of the refused memory */
} synced_mem_out_of_memory;

/** Called in the thread whose call was refused memory, with no lock held. It may call the library: allocate, release
 * objects, give up the data of the very object that the call is about; but the caller of that call must keep its
 * reference. Calls that run out of memory inside the handler do not call it again.
 * @param request  good until the handler returns
 * @return nonzero: something was freed, try again; 0: fail */
typedef int (*synced_mem_out_of_memory_handler)(const synced_mem_out_of_memory *request, void *user);

/** Sets the handler, and its user pointer, for the whole process; NULL (the default): none.
 * Blocking, ownership, threads, errors: as synced_mem_set_error_handler(). @since 0.1 */
SYNCED_MEM_API void synced_mem_set_out_of_memory_handler(synced_mem_out_of_memory_handler handler, void *user);

/** Frees released memory whose last use has finished, and calls due callbacks of adopted memory. Other calls do the
 * same on their slow path; a program that makes none for a while can call this one. Memory that another thread is just
 * reaping is left to that thread. A callback calls no other callback: those that become due by what it releases follow
 * when it has returned, in the same call.
 * Blocking: polls pending work and waits for none; but see synced_mem_host_pool_set_decay(). To undo
 * SYNCED_MEM_MEMORY_PAGE_LOCK the CUDA runtime may wait for the device. Ownership: adopted memory is the caller's again
 * at its callback. Threads: safe. Errors: ERR_FORKED; pending work is no error. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_reap(void);

/* ---- Allocators ---- */

/** Sets the allocators of host memory and of device memory that objects without their own get new memory from, for the
 * whole process; NULL (the default): the library's own. Existing memory stays, and is freed by the table that it came
 * from. If an allocator has no memory, the call that needs it returns ERR_OUT_OF_HOST_MEMORY or
 * ERR_OUT_OF_DEVICE_MEMORY; nothing else is tried. Useless memory (not aligned, or of the wrong kind or device by the
 * runtime) goes back to its free at once: ERR_INVALID_STATE.
 * Blocking: never. Ownership: none; the functions and user pointers must stay usable until all objects with memory from
 * them are gone and synced_mem_shutdown() has returned, which also resets both to NULL. Threads: safe. Errors:
 * ERR_INVALID_ARGUMENT (an unknown flag, a function that is NULL; neither is set); ERR_OUT_OF_HOST_MEMORY.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_allocators(const synced_mem_allocator *cpu,
                                                           const synced_mem_allocator *gpu);

/* ---- Page-locked memory ---- */
/*
 * The library's page-locked host memory comes from a pool for the whole process. The pool takes large segments from
 * the system, and keeps released memory for the next object: docs/guide/memory.md, "Page-locked memory". All functions
 * are safe while transfers are in flight. The functions that set the limit, trim or reserve also wait while the pool
 * grows in another thread.
 */

/** Sets the most that the pool may hold; 0 (the default): no limit. Unused memory beyond it goes back to the system;
 * memory in use stays. Growth beyond it fails with ERR_OUT_OF_HOST_MEMORY; the detail has the limit, the bytes held,
 * and the request. Blocking, ownership, threads, errors: as synced_mem_host_pool_trim(). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_limit(size_t bytes);

/** Gives unused segments back to the system, the longest unused first, until the pool holds at most keep bytes or no
 * unused segment. A segment that the CUDA runtime refuses to release stays, and is tried again later.
 * Blocking: the CUDA runtime may wait for the device. Ownership: none. Threads: safe. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_trim(size_t keep);

/** Sets how long an unused segment is kept; 0 (the default): for ever. Only synced_mem_reap() and a growth of the pool
 * check the time: an access that finds memory never waits for it.
 * Blocking: never. Ownership: none. Threads: safe. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_set_decay(unsigned milliseconds);

/** Makes sure that so many bytes in one piece are free in the pool, so that a program can pay for page-locking when it
 * starts. They stay until they are used, or unused segments are given back.
 * @param device  whose transfers the memory is for, whose context page-locks it; or SYNCED_MEM_DEVICE_CURRENT
 * @param bytes   0: nothing is done
 * Blocking: as long as page-locking takes. Ownership: the pool's. Threads: safe. Errors: ERR_INVALID_ARGUMENT (a device
 * below -1, a size over PTRDIFF_MAX); ERR_OUT_OF_HOST_MEMORY (also by the limit); GPU errors. After a failure the pool
 * is as before, less unused segments. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reserve(int device, size_t bytes);

/** The contents and the work of the pool of page-locked memory. */
typedef struct synced_mem_host_pool_stats {
    size_t struct_size;            /**< set it to sizeof(synced_mem_host_pool_stats) before the call */
    uint64_t requested_bytes;      /**< requested and in use, before any rounding */
    uint64_t peak_requested_bytes; /**< the most of that at a time; with several threads a moment may be missed */
    uint64_t held_bytes;           /**< page-locked, in use or not */
    uint64_t peak_held_bytes;      /**< the most of that at a time */
    uint64_t free_bytes;           /**< held and not in use */
    uint64_t slabs;                /**< segments held */
    uint64_t registrations;        /**< segments ever page-locked */
    uint64_t reused_allocations;   /**< allocations from memory that was page-locked already */
    uint64_t fresh_allocations;    /**< allocations for which memory was page-locked */
} synced_mem_host_pool_stats;

/** Fills stats. The numbers are read one by one while other threads go on.
 * Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_get_stats(synced_mem_host_pool_stats *stats);

/** Sets both peaks to the current values. Blocking: never. Ownership: none. Threads: safe. Errors: none. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_host_pool_reset_peaks(void);

/** Lets new host copies be pageable if the limit, the system or the CUDA runtime has no more page-locked memory. By
 * default such an access returns ERR_OUT_OF_HOST_MEMORY. If the runtime page-locks nothing for another reason (it
 * can't, or the device is lost) host copies are pageable in any case. synced_mem_stats.pageable_fallbacks counts both.
 * Blocking: never. Ownership: none. Threads: safe. Errors: none. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_pageable_fallback(int allow);

/* ---- Staged transfers ---- */

/** Settings of staged transfers, from and to pageable memory. They run in chunks through page-locked buffers, which the
 * library's copy threads, and every thread that waits for the transfer, fill or empty. */
typedef struct synced_mem_staging {
    size_t struct_size; /**< set it to sizeof(synced_mem_staging) before each call */
    /** Copy threads, at most 64; started when first needed, kept until synced_mem_shutdown(). 0: none, and pulls into
     * pageable memory then block. Default: half of the processors, at least 1, at most 8. */
    unsigned threads;
    /** Of a buffer, from 64 KiB to 64 MiB; each thread at work has two, of page-locked memory. Default: 2 MiB. */
    size_t buffer_bytes;
    /** Transfers of fewer bytes are not staged: pulls are left to the CUDA runtime, pushes are made through one buffer
     * of their size. Always staged are pushes larger than a buffer, and transfers of views and of objects in parts.
     * Default: 1 MiB. */
    size_t minimum_bytes;
} synced_mem_staging;

/** Sets how later transfers are staged. Existing threads stay.
 * Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT (out of range; nothing changes).
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_set_staging(const synced_mem_staging *staging);

/** Fills staging with the current settings.
 * Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_staging(synced_mem_staging *staging);

/* ---- Device memory pools ---- */
/*
 * Device memory comes from the library's own memory pool (cudaMemPool_t) on each device, made when first needed. Freed
 * memory stays in it and is used again. synced_mem_shutdown() destroys the pools and resets all settings. In these
 * functions device and peer are numbers or SYNCED_MEM_DEVICE_CURRENT, and work may use the pool's memory meanwhile. A
 * call that fails may have made a part of its settings. On a device without pools (synced_mem_device_info.memory_pools)
 * memory comes from cudaMalloc and goes back at once: functions that set or trim succeed without effect.
 */

/** Sets how many bytes the pool keeps (UINT64_MAX, the default: all), freed ones included, when a synchronization lets
 * the CUDA runtime give memory back to the system. Sets also the limit of synced_mem_gpu_pool_set_spare_limit().
 * Applies at once.
 * Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_DEVICE (no such device), other GPU errors.
 * Source: cudaMemPoolAttrReleaseThreshold. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_threshold(int device, uint64_t bytes);

/** Reaps as synced_mem_reap(), frees the device cache (synced_mem_gpu_pool_set_spare_limit()), then gives the pool's
 * unused memory back to the system, until it has at most keep bytes. Memory in use, also by queued work, stays.
 * Blocking: as synced_mem_reap(); but the driver takes its time to give memory back. Ownership: due adopted memory gets
 * its callback. Threads: safe. Errors: as synced_mem_gpu_pool_set_threshold().
 * Source: cudaMemPoolTrimTo. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_trim(int device, size_t keep);

/** Sets how much released device memory the device cache keeps, beside the pool, for objects of exactly the same size:
 * docs/guide/memory.md, "Device memory". The default, and the most, is 1 GiB a device, in at most 256 pieces; beyond it
 * the same call frees the oldest pieces. A larger piece than the limit is not kept.
 * @param bytes  0: none is kept; if there is more, all of it is freed, in the order of the work on it
 * Blocking, ownership, threads, errors: as synced_mem_gpu_pool_set_threshold(). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_spare_limit(int device, size_t bytes);

/** A device's pool, in bytes. Without pools: the library's memory of cudaMalloc, used and reserved alike. */
typedef struct synced_mem_gpu_pool_stats {
    size_t struct_size;     /**< set it to sizeof(synced_mem_gpu_pool_stats) before the call */
    uint64_t reserved;      /**< taken from the system */
    uint64_t reserved_high; /**< the most that was, since the pool was made or synced_mem_gpu_pool_reset_peaks() */
    uint64_t used;          /**< of that, allocated, and not freed yet */
    uint64_t used_high;     /**< the most that was, likewise */
} synced_mem_gpu_pool_stats;

/** Fills stats; zeros if nothing was allocated yet. The runtime decides whether memory freed in the order of a stream
 * counts as used until the stream gets there.
 * Blocking: never. Ownership: none. Threads: safe. Errors: those of synced_mem_gpu_pool_set_threshold();
 * ERR_INVALID_ARGUMENT.
 * Source: cudaMemPoolGetAttribute. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_get_stats(int device, synced_mem_gpu_pool_stats *stats);

/** Sets both high-water marks to the current values.
 * Blocking, ownership, threads, errors: as synced_mem_gpu_pool_set_threshold(). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_reset_peaks(int device);

/** When freed memory may be used again on another stream than that of the free: bits of
 * synced_mem_gpu_pool_set_reuse(). Source: cudaMemPoolReuseFollowEventDependencies and its siblings. */
enum {
    SYNCED_MEM_GPU_POOL_REUSE_EVENTS = 1,        /**< when the other stream has waited for an event behind the free */
    SYNCED_MEM_GPU_POOL_REUSE_OPPORTUNISTIC = 2, /**< when the free happens to be done */
    SYNCED_MEM_GPU_POOL_REUSE_INTERNAL = 4,      /**< by a wait for the free, which the runtime adds to the stream */
    SYNCED_MEM_GPU_POOL_REUSE_ALL = 7            /**< the default */
};

/** Sets which of these, or none (0), the pool may do; fewer give reproducible addresses. Applies at once.
 * Blocking: never. Ownership: none. Threads: safe. Errors: those of synced_mem_gpu_pool_set_threshold();
 * ERR_INVALID_ARGUMENT (other bits). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_set_reuse(int device, unsigned policies);

/** Lets another device, the peer, reach the library's present and future memory on this one, in kernels and in
 * transfers, or forbids it (allow is 0). Before the first call for the two devices access is unset: there is none, but
 * a copy between objects on the two devices allows it in both directions. After a call the library does not change it
 * by itself. A repeated call changes nothing. Without pools this is cudaDeviceEnablePeerAccess for all memory of the
 * device; only access that the library has allowed can be forbidden there, and no copy allows it.
 * Blocking: for no queued work; but the driver takes its time to map the memory. Ownership: none. Threads: safe.
 * Errors: those of synced_mem_gpu_pool_set_threshold(); ERR_INVALID_ARGUMENT (the two are one device),
 * ERR_INVALID_DEVICE (the peer can't reach the device), ERR_CUDA (the runtime accepted it without effect).
 * Source: cudaDeviceCanAccessPeer, cudaMemPoolSetAccess. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_gpu_pool_allow_peer(int device, int peer, int allow);

/* ---- Devices ---- */

/** The number of CUDA devices that this process can use. The first call starts the driver; no context is created.
 * @return 0 or more; 0 in a build without CUDA, on a machine without driver or device, and in a forked child
 * Blocking: for the driver, when it starts. Ownership: none. Threads: safe. Errors: none. @since 0.1 */
SYNCED_MEM_API int synced_mem_device_count(void);

/** Ways to give memory of a pool to other processes: bits of synced_mem_device_info.pool_handles.
 * Source: cudaMemAllocationHandleType. */
enum {
    SYNCED_MEM_GPU_POOL_HANDLE_NONE = 0,
    SYNCED_MEM_GPU_POOL_HANDLE_POSIX_FD = 1, /**< a file descriptor */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32 = 2,    /**< a handle of Windows' kernel */
    SYNCED_MEM_GPU_POOL_HANDLE_WIN32_KMT = 4,
    SYNCED_MEM_GPU_POOL_HANDLE_FABRIC = 8 /**< a fabric handle */
};

/** The abilities of a device. Yes is 1, no is 0. Source: cudaDeviceAttr. */
typedef struct synced_mem_device_info {
    size_t struct_size;            /**< set it to sizeof(synced_mem_device_info) before the call */
    int device;                    /**< its number, also for SYNCED_MEM_DEVICE_CURRENT */
    int driver_version;            /**< 1000 * major + 10 * minor, the newest CUDA that the driver supports */
    int runtime_version;           /**< of the CUDA runtime that is linked, likewise */
    int memory_pools;              /**< there are memory pools */
    int pool_handles;              /**< bits SYNCED_MEM_GPU_POOL_HANDLE_*; 0 also if the driver does not say */
    int managed_memory;            /**< memory that moves between host and device by itself */
    int concurrent_managed_access; /**< ... which both may use at a time */
    int pageable_memory_access;    /**< kernels can use any host memory */
    int integrated;                /**< its memory is the host's */
    int can_map_host_memory;       /**< kernels can use page-locked host memory */
    int host_register;             /**< host memory can be page-locked after it was allocated */
    int unified_addressing;        /**< a pointer tells whose memory it is */
    int async_engines;             /**< transfers that can run beside kernels: 1 one direction, 2 both */
    int numa_node;                 /**< of the host, nearest to the device; -1 if the runtime does not say */
    uint64_t total_memory;         /**< bytes */
    char pci_bus_id[16];           /**< "domain:bus:device.function" */
} synced_mem_device_info;

/** Fills info for a device number or SYNCED_MEM_DEVICE_CURRENT. Creates the device's primary context if there is none.
 * Blocking: for the driver, while it creates the context; never for work of the device. Ownership: none. Threads: safe.
 * Errors: ERR_INVALID_ARGUMENT; ERR_INVALID_DEVICE (no such device), other GPU errors. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_device_info(int device, synced_mem_device_info *info);

/* ---- Facts of an object ---- */

/** The object's CUDA device.
 * @return its number; SYNCED_MEM_DEVICE_CURRENT while it has none, and for NULL
 * Blocking, ownership, threads, errors: as synced_mem_size(). @since 0.1 */
SYNCED_MEM_API int synced_mem_device(const synced_mem *mem);

/** The user pointer of the options that the object was made with.
 * @return it; NULL for NULL
 * Blocking: never. Ownership: the caller's. Threads: safe. Errors: as synced_mem_size(). @since 0.1 */
SYNCED_MEM_API void *synced_mem_user(const synced_mem *mem);

/** The object's name.
 * @return good as long as the object is; "" if it has none, and for NULL
 * Blocking: never. Ownership: the object's. Threads: safe. Errors: as synced_mem_size(). @since 0.1 */
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
 * @return the source; NONE without a host copy, and for NULL. Blocking: never. Ownership: none. Threads: safe. Errors:
 * ERR_INVALID_ARGUMENT, ERR_FORKED (an object of the parent's); the value is then as for NULL. @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_cpu_source(const synced_mem *mem);

/** The source of the device copy's memory.
 * @return the source; NONE without a copy, and for NULL
 * Blocking, ownership, threads, errors: as synced_mem_cpu_source(). @since 0.1 */
SYNCED_MEM_API synced_mem_source synced_mem_gpu_source(const synced_mem *mem);

/** Reports whether the host copy is known to be page-locked. For memory of the caller's the CUDA runtime is queried, if
 * the process uses a GPU through the library.
 * @return 1, or 0; 0 without a host copy, for NULL, and if the runtime does not answer
 * Blocking, ownership, threads, errors: as synced_mem_cpu_source(). @since 0.1 */
SYNCED_MEM_API int synced_mem_cpu_is_pinned(const synced_mem *mem);

/** The capacity of the host copy.
 * @return of a view its size; 0 without a copy, and for NULL
 * Blocking, ownership, threads, errors: as synced_mem_cpu_source(). @since 0.1 */
SYNCED_MEM_API size_t synced_mem_cpu_capacity(const synced_mem *mem);

/** The capacity of the device copy.
 * @return of a view its size; 0 without a copy, and for NULL
 * Blocking, ownership, threads, errors: as synced_mem_cpu_source(). @since 0.1 */
SYNCED_MEM_API size_t synced_mem_gpu_capacity(const synced_mem *mem);

/** The placement in effect; before the first use of memory decides it, that of the options.
 * @return the placement; SEPARATE for NULL, and for a unified object that the host used without a device
 * Blocking, ownership, threads, errors: as synced_mem_size(). @since 0.1 */
SYNCED_MEM_API synced_mem_placement_kind synced_mem_placement(const synced_mem *mem);

/* ---- Numbers ---- */

/** The library's work and memory, for the whole process. Counts only grow; "held" is at the time of the call. */
typedef struct synced_mem_stats {
    size_t struct_size;          /**< set it to sizeof(synced_mem_stats) before the call */
    uint64_t objects;            /**< objects alive */
    uint64_t h2d_transfers;      /**< transfers from host to device */
    uint64_t h2d_bytes;          /**< bytes they moved */
    uint64_t d2h_transfers;      /**< transfers from device to host */
    uint64_t d2h_bytes;          /**< bytes they moved */
    uint64_t staged_transfers;   /**< those of both kinds that were staged */
    uint64_t host_allocations;   /**< host copies obtained by the library, pageable, page-locked or of both sides */
    uint64_t pageable_bytes;     /**< held: pageable host memory of the library's own */
    uint64_t pinned_bytes;       /**< held: page-locked host memory of the library's own, mapped too, in use or kept */
    uint64_t pageable_fallbacks; /**< host copies that are pageable because they could not be page-locked */
    uint64_t gpu_allocations;    /**< device copies obtained by the library */
    uint64_t gpu_bytes;          /**< held: device memory of the library's own */
    uint64_t retired;            /**< held: released copies whose last use has not finished yet */
    uint64_t quarantined;        /**< copies never to be used again, because the end of their last use is unknown */
    uint64_t events;             /**< held: CUDA events, in use or kept for reuse */
    uint64_t event_records;      /**< events recorded on streams */
    uint64_t stream_waits;       /**< waits of a stream for an event */
    uint64_t host_waits;         /**< waits of the host for an event */
    uint64_t oom_reaps;          /**< memory was refused: finished memory was freed, see "Out of memory" */
    uint64_t oom_waits;          /**< ... released memory was waited for */
    uint64_t oom_trims;          /**< ... memory kept for reuse was given back */
    uint64_t oom_callbacks;      /**< ... the handler was called */
    uint64_t oom_failures;       /**< ... and all of that was in vain */
    uint64_t gpu_spare_bytes;    /**< held: device memory in the device cache */
    uint64_t managed_bytes;      /**< held: managed memory of the library's own */
    uint64_t prefetches;         /**< of managed memory, to the device or to the host */
    uint64_t unprotected;        /**< host copies that debug mode could not protect */
} synced_mem_stats;

/** Fills stats. The numbers are read one by one while other threads go on; those held are exact only if none is in the
 * library. Blocking: never. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_stats(synced_mem_stats *stats);

/** The version of the library that is running.
 * @return major * 10000 + minor * 100 + patch
 * Blocking: never. Ownership: none. Threads: safe. Errors: none. @since 0.1 */
SYNCED_MEM_API int synced_mem_version(void);

/* ---- Seeing what happens ---- */
/*
 * Three environment variables work with any program: SYNCED_MEM_TRACE=trace.json writes a trace to trace.PID.json, with
 * the number of the process in the name, SYNCED_MEM_TRACE_SUMMARY=1 prints a summary at the end, SYNCED_MEM_DEBUG=1 is
 * debug mode, which protects stale host copies and fills overwrites with 0xff. Their lines on stderr are the only ones
 * that the library prints by itself. Details: docs/tracing.md. A FILE must be open to write; it is flushed, and not
 * closed.
 */

/** Prints a table of synced_mem_get_stats(), synced_mem_host_pool_get_stats(), synced_mem_gpu_pool_get_stats() of each
 * used device, and how transfers are staged. Bytes are exact, and once more in units of 1024. Lines have at most 100
 * columns; their text may change from version to version. Starts nothing of CUDA's.
 * Blocking: never on a stream. Ownership: none. Threads: safe. Errors: ERR_INVALID_ARGUMENT; ERR_FILE (a write failed).
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print_stats(FILE *file);

/** Prints an object in four lines: its name and address; its size, head, device and placement; and of each copy the
 * source, the capacity, whether it has the contents, the number of transfers to this memory, and whether the memory is
 * read-only or exported as a tensor (synced_mem_dlpack.h). A view has a fifth line, with its root and offset. A copy
 * with the contents of some parts alone is "in parts". The number of an object in parts is the sum of its parts'
 * numbers. When a view divides a part, the left half keeps the number.
 * Blocking: never. Ownership: none. Threads: safe. Errors: as synced_mem_print_stats(); ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print(const synced_mem *mem, FILE *file);

/** Prints every living object as synced_mem_print(), in no fixed order, and then their number. No lock is held while
 * the file is written. In a forked child the parent's objects, whose memory can't be read, take two lines.
 * Blocking: only for another thread's call on an object that is being printed. Ownership: none; the file's own code
 * (fopencookie()) may release the object that is written. Threads: safe. Objects made or released meanwhile may be
 * missing. Errors: as synced_mem_print_stats(). @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_print_all(FILE *file);

/** Starts to write every transfer, wait, allocation and change of a head to a file, in the JSON format of Chrome's
 * traces (chrome://tracing, Perfetto). Contents, cost, lost events: docs/tracing.md. A forked child does not go on.
 * @param path  is created, or emptied. NULL, since 0.2: no file; only the numbers of synced_mem_trace_summary() are
 *              kept, no event is recorded on a stream, and nothing is waited for
 * Blocking: opens the file. Any later call may take the time to write events, or to query times of the device. Only
 * synced_mem_trace_stop(), synced_mem_shutdown() and exit() wait for transfers. Ownership: none. Threads: safe. Errors:
 * ERR_INVALID_STATE (there is a trace already); ERR_FILE (it can't be opened to write, or there is no descriptor left);
 * ERR_OUT_OF_HOST_MEMORY. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_start(const char *path);

/** Writes the rest of the trace, with its summary, and closes the file.
 * Blocking: until queued transfers, and the work before them, are done. Ownership: none. Threads: safe. Errors:
 * ERR_INVALID_STATE (there is no trace; the detail has the reason if the environment requested one and none was started
 * since); ERR_FILE (something could not be written; the file is closed). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_stop(void);

/** Prints the objects, at most ten, that went back and forth most since the trace began, or in the last trace, with the
 * calls that caused their transfers: docs/tracing.md, "Finding a needless transfer".
 * Blocking: never on a stream. Ownership: none. Threads: safe. Errors: as synced_mem_print_stats(). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_summary(FILE *file);

/** Begins a scope of the calling thread, within those that it has begun. At most 47 bytes of the name are copied; NULL
 * or "": a scope that is not shown. Traces, their summary and debug mode show a call's scopes, as "outer/inner":
 * docs/tracing.md, "Scopes".
 * Blocking: never. Ownership: none. Threads: safe; each thread has scopes of its own. Errors: none. @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_begin(const char *name);

/** Ends the scope that the calling thread began last; without one it does nothing.
 * Blocking: never. Ownership: none. Threads: safe; each thread has scopes of its own. Errors: none. @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_end(void);

#ifdef __cplusplus
}
#endif

#endif
