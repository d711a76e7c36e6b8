/*
 * The types that the files of the emulated runtime share. One lock guards everything that is reachable from `emu`. The
 * lock is released while the code of a kernel or a host function runs. A kernel runs on the thread that reaches its
 * turn. It may wait for other threads, but not for that one. Host functions run one after another on a thread of their
 * own, as on the real runtime.
 *
 * Every call of the runtime has the shape
 *     cudaError_t error = EMU_ENTER(cudaX, EMU_NEEDS_...);   locks, counts, makes set failures happen
 *     if (error == cudaSuccess) error = ...;
 *     return emu_leave(error);                               runs some queued work, records the error, unlocks
 */
#ifndef EMU_H
#define EMU_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "../../src/device/copy_list.h"
#include "cudart_emu.h"
#include "driver_functions.h"

#include <cuda.h>
#include <pthread.h>
#include <sys/types.h>

#define EMU_MAX_DEVICES 8
#define EMU_FRESH 0xCD /* the contents of new memory */
#define EMU_STALE 0xDD /* the contents of freed memory */
/* Of memory from cuMemCreate, and of its addresses. */
#define EMU_GRANULARITY ((size_t)2 << 20)

/* clang-format off */
/* Every call of the runtime that is counted and can be made to fail. The driver's functions are counted too. */
#define EMU_CALLS(X)                                                                                                   \
    X(cudaGetDeviceCount) X(cudaGetDevice) X(cudaSetDevice) X(cudaDeviceGetAttribute) X(cudaDriverGetVersion)          \
    X(cudaGetDeviceProperties)                                                                                         \
    X(cudaRuntimeGetVersion) X(cudaDeviceCanAccessPeer) X(cudaDeviceEnablePeerAccess) X(cudaDeviceDisablePeerAccess)   \
    X(cudaDeviceSynchronize) X(cudaDeviceGetStreamPriorityRange) X(cudaDeviceGetPCIBusId) X(cudaMemGetInfo)            \
    X(cudaPointerGetAttributes) X(cudaMalloc) X(cudaFree) X(cudaMallocHost) X(cudaHostAlloc) X(cudaFreeHost)           \
    X(cudaHostRegister) X(cudaHostUnregister) X(cudaHostGetDevicePointer) X(cudaHostGetFlags) X(cudaMallocManaged)     \
    X(cudaMemPrefetchAsync) X(cudaMemAdvise) X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemcpyBatchAsync)                  \
    X(cudaMemcpyPeerAsync) X(cudaMemset) X(cudaMemsetAsync) X(cudaMemPoolCreate) X(cudaMemPoolDestroy)                 \
    X(cudaMemPoolSetAttribute)                                                                                         \
    X(cudaMemPoolGetAttribute) X(cudaMemPoolTrimTo) X(cudaMemPoolSetAccess) X(cudaMemPoolGetAccess)                    \
    X(cudaDeviceGetDefaultMemPool) X(cudaDeviceGetMemPool) X(cudaDeviceSetMemPool) X(cudaMallocFromPoolAsync)          \
    X(cudaMallocAsync) X(cudaFreeAsync) X(cudaStreamCreate) X(cudaStreamCreateWithFlags)                               \
    X(cudaStreamCreateWithPriority) X(cudaStreamDestroy) X(cudaStreamQuery) X(cudaStreamSynchronize)                   \
    X(cudaStreamWaitEvent) X(cudaStreamGetFlags) X(cudaStreamGetPriority) X(cudaStreamGetId) X(cudaStreamGetDevice)    \
    X(cudaStreamIsCapturing) X(cudaThreadExchangeStreamCaptureMode) X(cudaLaunchHostFunc) X(cudaEventCreate)           \
    X(cudaEventCreateWithFlags) X(cudaEventRecord) X(cudaEventQuery) X(cudaEventSynchronize) X(cudaEventDestroy)       \
    X(cudaEventElapsedTime)                                                                                            \
    X(cudaStreamBeginCapture) X(cudaStreamEndCapture) X(cudaStreamGetCaptureInfo) X(cudaGraphInstantiate)              \
    X(cudaGraphInstantiateWithFlags) X(cudaGraphLaunch) X(cudaGraphExecDestroy) X(cudaGraphDestroy)                    \
    X(cudaGraphGetNodes) X(cudaGetDriverEntryPoint) X(cudaGetDriverEntryPointByVersion) X(cudaLibraryLoadData)         \
    X(cudaLibraryUnload) X(cudaLibraryGetKernel) X(cudaFuncGetAttributes) X(cudaLaunchKernelExC)

enum emu_call {
#define EMU_CALL_ID(name) EMU_##name,
#define EMU_DRIVER_CALL_ID(name, version) EMU_##name,
    EMU_CALLS(EMU_CALL_ID)
    DRIVER_FUNCTIONS(EMU_DRIVER_CALL_ID)
#undef EMU_CALL_ID
#undef EMU_DRIVER_CALL_ID
    EMU_CALL_COUNT
};
/* clang-format on */

/* The program's call and its place, for reports. */
struct emu_origin {
    const char *call;
    const void *site;
};

/* ---- Order ---- */

/* A moment of a lane. For each lane, `times` has the last time that is ordered before this moment. */
struct emu_clock {
    unsigned refs;
    unsigned lane;
    unsigned count;
    uint64_t times[];
};

struct emu_access {
    uintptr_t start, end;
    bool write;
    int device; /* -1: the host's own */
    uint64_t stream_id;
    struct emu_origin origin;
    struct emu_clock *clock;
};

/* The accesses of an allocation with which a later one may race. */
struct emu_history {
    struct emu_access *accesses;
    unsigned count, room;
};

/* ---- Memory ---- */

/* Freed spans of one size class, the last freed at the end. */
struct emu_spans {
    size_t *offsets;
    size_t count;
    size_t room;
};

enum emu_arena_kind {
    EMU_ARENA_DEVICE,
    EMU_ARENA_HOST,
    EMU_ARENA_RESERVED /* address space for cuMemAddressReserve, without memory of its own */
};

/* A stretch of address space that hands out spans in size classes, the last freed first. */
struct emu_arena {
    enum emu_arena_kind kind;
    char *address; /* the program's address */
    char *bytes;   /* the emulator's mapping of the same bytes; equal for host memory */
    int file;      /* of device memory, -1 otherwise */
    size_t size;
    size_t top; /* nothing beyond it was ever handed out */
    struct emu_spans *freed;
};

enum emu_alloc_state {
    EMU_LIVE,
    EMU_FREEING, /* cudaFreeAsync was called and its turn has not come */
    EMU_GHOST    /* freed by cudaFreeAsync; the host has not yet synchronized with the free */
};

/* Memory from cuMemCreate. It is the content of a file in memory, so that other processes can map it. It is freed when
 * all handles and mappings of all processes, and all exported descriptors, are gone. */
struct emu_memory {
    struct emu_memory *next;
    unsigned refs; /* this process's handles and mappings */
    int file;
    dev_t file_device; /* these two identify the file */
    ino_t file_number;
    size_t size;
    int device;
    bool exportable;
};

/* An address range from cuMemAddressReserve. */
struct emu_reserved {
    struct emu_reserved *next;
    char *start;
    size_t size;
    struct emu_origin born;
};

struct emu_alloc {
    struct emu_alloc *left, *right; /* of the tree of addresses */
    unsigned priority;
    bool in_tree;
    unsigned refs; /* the tree, each pending use, the queued free */
    char *start;
    size_t size; /* the requested size; a program may touch no more */
    size_t span; /* the accounted size */
    enum emu_kind kind;
    enum emu_alloc_state state;
    int device;
    unsigned flags;
    struct emu_pool *pool;   /* NULL: not from a pool */
    struct emu_block *block; /* of the pool; NULL after another allocation has taken it over */
    struct emu_use *uses;    /* by operations that have not run yet */
    /* Of a mapping: the memory, and the devices to which cuMemSetAccess has given access. NULL: not a mapping. */
    struct emu_memory *memory;
    bool access[EMU_MAX_DEVICES];
    struct emu_origin born;
    struct emu_origin freed;
    uint64_t freeing_stream; /* id of the stream that the free was queued on */
    struct emu_history history;
    struct emu_alloc *ghost_before, *ghost_after;
};

/* Memory that a pool has reserved. */
struct emu_block {
    struct emu_pool *pool;
    char *start;
    size_t span;
    struct emu_block *before, *after; /* in one list of its pool, if free or being freed */
    struct emu_op *free_op;           /* while it is being freed */
    bool listed;
};

#define EMU_CLASSES 256 /* four to each power of two: enough for any size_t */

struct emu_pool {
    struct CUmemPoolHandle_st *handle; /* NULL when destroyed */
    struct emu_pool *next;
    int device;
    size_t max_size;
    uint64_t threshold;
    uint64_t reserved, reserved_high, used, used_high;
    int reuse[3];  /* FollowEventDependencies, AllowOpportunistic, AllowInternalDependencies */
    size_t users;  /* allocations that are not yet freed */
    size_t unused; /* bytes in the free lists */
    enum cudaMemAccessFlags access[EMU_MAX_DEVICES];
    struct emu_block *free[EMU_CLASSES];
    struct emu_block *freeing[EMU_CLASSES];
    struct emu_origin born;
};

/* ---- Streams ---- */

struct emu_use {
    struct emu_op *op;
    struct emu_alloc *alloc;
    char *start;
    char *bytes; /* the same, where the emulator touches it */
    size_t size;
    bool write;
    struct emu_use *before, *after; /* neighbours in the allocation's list */
};

enum emu_op_kind {
    EMU_OP_COPY,
    EMU_OP_FILL,
    EMU_OP_MARK, /* an event's record, a wait, a prefetch: it has only a place in the order */
    EMU_OP_KERNEL,
    EMU_OP_LIST, /* a kernel that copies or fills the entries of a list, see list.c */
    EMU_OP_HOST,
    EMU_OP_ALLOC,
    EMU_OP_FREE
};

enum emu_op_state { EMU_OP_QUEUED, EMU_OP_RUNNING, EMU_OP_DONE };

struct emu_op {
    enum emu_op_kind kind;
    enum emu_op_state state;
    unsigned refs;             /* its stream while queued, events, operations that wait for it, threads that force it */
    struct emu_stream *stream; /* NULL once done */
    uint64_t number;           /* place in the stream, from 1 */
    uint64_t stream_id;        /* stays after it is done */
    int device;
    struct emu_op *next;
    struct emu_op *next_function; /* in the queue of host functions */
    struct emu_op **deps;         /* operations that must be done first */
    unsigned dep_count, dep_room;
    struct emu_use *uses;
    unsigned use_count;
    struct emu_op *few_deps[2];
    struct emu_use few_uses[2];
    struct emu_origin origin;
    cudaError_t fault; /* breaks the device when it runs */
    char *to;
    const char *from;
    size_t size;
    int value;
    char *staging;                  /* a private block: a copy's source, a list's parameter */
    bool by_host;                   /* a copy made by the host, under the host's page protections */
    const struct CUlib_st *library; /* of a list */
    void (*function)(void *argument);
    void *argument;
    struct emu_alloc *alloc;     /* to be freed */
    struct emu_clock *clock;     /* from the time it is queued */
    struct emu_clock *waits_for; /* before that: the clock of an event's record */
    uint64_t time;               /* in nanoseconds: when an event's record was done */
};

struct emu_stream {
    struct CUstream_st *handle; /* NULL when destroyed, and for the legacy stream */
    struct emu_op *head, *tail;
    size_t pending;
    size_t active_index;
    uint64_t id;
    uint64_t last_number;
    int device;
    int priority;
    bool blocking;
    unsigned tries; /* queries in a row that returned cudaErrorNotReady */
    uint64_t mark, reach;
    bool kept; /* the per-thread stream of a living thread, without a handle of its own */
    struct emu_stream *next_kept;
    struct emu_capture *capture; /* in which it takes part, or NULL */
    const struct emu_joint *joint;
    struct emu_stream *next_captured; /* of the same capture */
    unsigned lane;                    /* from 1; 0 before its first operation */
    struct emu_clock *clock;          /* of its last operation */
    void *fiber;                      /* of ThreadSanitizer; its address represents the stream's work */
    struct emu_origin born;
};

/* ---- Captures and graphs ---- */

/* A set of a graph's nodes: those before a capturing stream's next node, or those that an event represents. It never
 * changes, and is freed with its capture. */
struct emu_joint {
    struct emu_joint *next;
    size_t count;
    unsigned nodes[];
};

/* Lives from cudaStreamBeginCapture() to cudaStreamEndCapture(), and on until its last event is forgotten. */
struct emu_capture {
    struct emu_capture *next;
    unsigned refs; /* one until it has ended, and one for each event */
    uint64_t id;
    enum cudaStreamCaptureMode mode;
    uint64_t thread; /* number of the thread that began it */
    bool ended, invalid;
    struct emu_stream *origin;
    struct emu_stream *streams; /* the streams that take part */
    struct emu_graph *graph;
    struct emu_joint *joints;
};

/* An operation that each launch queues. Its fields are those of struct emu_op. */
struct emu_node {
    enum emu_op_kind kind;
    int device;
    struct emu_origin origin;
    char *to;
    const char *from;
    size_t size;
    int value;
    void (*function)(void *argument);
    void *argument;
    const struct CUlib_st *library;
    char *staging;            /* of a list: a copy of size bytes */
    struct emu_range *ranges; /* the memory that it touches */
    size_t range_count;
    unsigned *deps; /* nodes before this one */
    size_t dep_count;
};

/* Shared by a graph's handle and its executable graphs. It does not change after the capture. */
struct emu_graph {
    struct emu_graph *before, *next;
    unsigned refs;
    struct emu_node *nodes; /* each after the nodes on which it depends */
    size_t count, room;
};

/* ---- Handles ---- */

/* The first member of every struct behind a handle. */
struct emu_slot {
    struct emu_slot *next_free;
    bool live;
};

struct CUstream_st {
    struct emu_slot slot;
    struct emu_stream *stream;
};

struct CUevent_st {
    struct emu_slot slot;
    int device;
    unsigned flags;
    unsigned tries;
    struct emu_op *record;       /* NULL if it was never recorded, or last in a capture */
    struct emu_capture *capture; /* in which it was last recorded, or NULL */
    const struct emu_joint *joint;
    struct emu_origin born;
};

struct CUgraph_st {
    struct emu_slot slot;
    struct emu_graph *graph;
    struct emu_origin born;
};

struct CUgraphExec_st {
    struct emu_slot slot;
    struct emu_graph *graph;
    struct emu_op *last; /* the end of its last launch, or NULL */
    struct emu_origin born;
};

/* A kernel is a part of its library's slot. */
struct CUkern_st {
    struct CUlib_st *library;
};

struct CUlib_st {
    struct emu_slot slot;
    struct CUkern_st list, probe;
    struct emu_origin born;
};

struct CUmemPoolHandle_st {
    struct emu_slot slot;
    struct emu_pool *pool;
};

/* Its address is the CUmemGenericAllocationHandle. */
struct emu_memory_handle {
    struct emu_slot slot;
    struct emu_memory *memory;
    bool imported;
    struct emu_origin born;
};

struct emu_slots {
    char *base;
    size_t slot_size, room, used;
    struct emu_slot *free;
};

/* ---- The machine ---- */

struct emu_attribute {
    int attribute, value;
};

struct emu_device {
    bool context;
    int gpu; /* the physical GPU's number, which identifies it in other processes */
    cudaError_t sticky;
    cudaError_t break_code;
    bool occupied; /* a kernel that waits for the host has all multiprocessors */
    size_t limit;
    size_t used;
    struct emu_attribute *attributes;
    size_t attribute_count;
    bool peer_possible[EMU_MAX_DEVICES];
    bool peer_enabled[EMU_MAX_DEVICES];
    struct emu_stream legacy;
    struct emu_arena arena;
    struct emu_pool *default_pool, *current_pool;
    /* Addresses for ThreadSanitizer: for the work of the device, its legacy stream and its blocking streams. */
    uint64_t order, order_of_legacy, order_of_blocking;
};

struct emu_state {
    pthread_mutex_t lock;
    pthread_cond_t ran; /* an operation is done */
    uint64_t epoch;     /* counts resets, so that threads drop state of before */
    uint64_t seed, random;
    unsigned eagerness; /* of 16: how likely queued work runs by itself */
    bool starve;        /* some streams never run by themselves */
    enum emu_machine machine;
    int driver_version;
    bool driver_used;
    bool forked;
    int device_count;
    struct emu_device devices[EMU_MAX_DEVICES];
    struct emu_arena host, reserved;
    size_t pinned_limit, pinned_used;
    struct emu_alloc *tree;
    struct emu_alloc *ghosts, *oldest_ghost;
    size_t ghost_count;
    struct emu_pool *pools;
    struct emu_slots streams, events, pool_handles, graph_handles, exec_handles, memory_handles, libraries;
    struct emu_memory *memories;
    struct emu_reserved *reservations;
    struct emu_stream *kept_streams;
    struct emu_capture *captures;
    struct emu_graph *graphs;
    uint64_t last_capture_id, last_thread;
    struct emu_stream **active; /* streams with queued operations */
    size_t active_count, active_room;
    size_t pending;
    uint64_t last_stream_id;
    uint64_t mark;
    size_t live[EMU_KINDS], live_bytes[EMU_KINDS];
    unsigned calls[EMU_CALL_COUNT];
    bool report_leaks;
    bool past_protection; /* copies reach memory that is protected against the host */
    void (*misuse_handler)(const char *report, void *user);
    void *misuse_user;
};

extern struct emu_state emu;

struct emu_thread {
    uint64_t epoch;
    uint64_t number; /* unique among threads until a reset */
    int device;
    struct emu_stream *streams[EMU_MAX_DEVICES]; /* the per-thread streams */
    cudaError_t last_error;
    enum cudaStreamCaptureMode capture_mode;
    struct emu_op *function; /* the kernel or host function in which this thread is */
    bool locked;
    bool refused;             /* a failure that a test has set ended the call */
    struct emu_origin origin; /* the current call */
};

#include "functions.h"

#endif
