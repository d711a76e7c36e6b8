/*
 * What the files of the emulated runtime share. One lock guards everything that is reachable from `emu`; it is let go
 * while a kernel's or a host function's code runs. Kernels run on the thread that found it their turn, so that they
 * may wait for other threads, but not for that one; host functions run one after another on a thread of their own, as
 * in reality.
 *
 * Every call of the runtime has the shape
 *     cudaError_t error = EMU_ENTER(cudaX, EMU_NEEDS_...);   takes the lock, counts, lets set failures happen
 *     if (error == cudaSuccess) error = ...;
 *     return emu_leave(error);                               lets some queued work run, records the error, unlocks
 */
#ifndef EMU_H
#define EMU_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "cudart_emu.h"

#include <pthread.h>

#define EMU_MAX_DEVICES 8
#define EMU_FRESH 0xCD /* what new memory holds */
#define EMU_STALE 0xDD /* what freed memory holds */

/* Every call of the runtime that can be counted and made to fail. */
/* clang-format off */
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
    X(cudaGraphGetNodes)

enum emu_call {
#define EMU_CALL_ID(name) EMU_##name,
    EMU_CALLS(EMU_CALL_ID)
#undef EMU_CALL_ID
    EMU_CALL_COUNT
};
/* clang-format on */

/* Where the program asked for something: for reports. */
struct emu_origin {
    const char *call;
    const void *site;
};

/* ---- Order ---- */

/* A moment of a lane, with all that is ordered before it: of each lane, up to which time. */
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

/* The accesses of an allocation that a later one may race with. */
struct emu_history {
    struct emu_access *accesses;
    unsigned count, room;
};

/* ---- Memory ---- */

/* Freed spans of one size class, the one freed last at the end. */
struct emu_spans {
    size_t *offsets;
    size_t count;
    size_t room;
};

/* A stretch of address space that hands out spans in size classes, the one freed last first. */
struct emu_arena {
    char *address; /* what the program sees */
    char *bytes;   /* where the emulator touches it; the same for host memory */
    int file;      /* of device memory, -1 otherwise */
    size_t top;    /* nothing beyond was ever handed out */
    struct emu_spans *freed;
};

enum emu_alloc_state {
    EMU_LIVE,
    EMU_FREEING, /* cudaFreeAsync was called and its turn has not come */
    EMU_GHOST    /* freed by cudaFreeAsync, and no synchronization has told the host so */
};

struct emu_alloc {
    struct emu_alloc *left, *right; /* of the tree of addresses */
    unsigned priority;
    bool in_tree;
    unsigned refs; /* the tree, each pending use, the queued free */
    char *start;
    size_t size; /* as asked for; a program may touch no more */
    size_t span; /* as accounted for */
    enum emu_kind kind;
    enum emu_alloc_state state;
    int device;
    unsigned flags;
    struct emu_pool *pool;   /* NULL for what is from no pool */
    struct emu_block *block; /* of the pool; NULL once another allocation has taken it over */
    struct emu_use *uses;    /* by operations that have not run yet */
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
    struct emu_use *before, *after; /* in the allocation's list */
};

enum emu_op_kind {
    EMU_OP_COPY,
    EMU_OP_FILL,
    EMU_OP_MARK, /* an event's record, a wait, a prefetch: it only has its place in the order */
    EMU_OP_KERNEL,
    EMU_OP_HOST,
    EMU_OP_ALLOC,
    EMU_OP_FREE
};

enum emu_op_state { EMU_OP_QUEUED, EMU_OP_RUNNING, EMU_OP_DONE };

struct emu_op {
    enum emu_op_kind kind;
    enum emu_op_state state;
    unsigned refs;             /* its stream while queued, events, operations that wait for it, who forces it */
    struct emu_stream *stream; /* NULL once done */
    uint64_t number;           /* place in the stream, from 1 */
    uint64_t stream_id;        /* stays when it is done */
    int device;
    struct emu_op *next;
    struct emu_op *next_function; /* in the line of host functions to run */
    struct emu_op **deps;         /* operations that must be done before */
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
    char *staging; /* a copy's own source */
    bool by_host;  /* a copy that no device makes: with the host's protections */
    void (*function)(void *argument);
    void *argument;
    struct emu_alloc *alloc;     /* of the free */
    struct emu_clock *clock;     /* from when it is queued */
    struct emu_clock *waits_for; /* until then: of an event's record */
    uint64_t time;               /* in nanoseconds, when an event's record was done */
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
    unsigned tries; /* queries in a row that answered "not ready" */
    uint64_t mark, reach;
    bool kept; /* a living thread's per-thread stream, which has no handle of its own */
    struct emu_stream *next_kept;
    struct emu_capture *capture; /* that it takes part in, or NULL */
    const struct emu_joint *joint;
    struct emu_stream *next_captured; /* of the same capture */
    unsigned lane;                    /* from 1; 0 before its first operation */
    struct emu_clock *clock;          /* of its last operation */
    void *fiber;                      /* of ThreadSanitizer; its address stands for the stream's work */
    struct emu_origin born;
};

/* ---- Captures and graphs ---- */

/* A set of a graph's nodes: what a capturing stream's next node comes after, or what an event stands for. It never
 * changes, and goes with its capture. */
struct emu_joint {
    struct emu_joint *next;
    size_t count;
    unsigned nodes[];
};

/* From cudaStreamBeginCapture() to cudaStreamEndCapture(), and until the last event recorded in it is forgotten. */
struct emu_capture {
    struct emu_capture *next;
    unsigned refs; /* one until it has ended, and the events' */
    uint64_t id;
    enum cudaStreamCaptureMode mode;
    uint64_t thread; /* number of the one that began it */
    bool ended, invalid;
    struct emu_stream *origin;
    struct emu_stream *streams; /* that take part in it */
    struct emu_graph *graph;
    struct emu_joint *joints;
};

/* An operation to be queued at each launch; its fields are those of struct emu_op. */
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
    struct emu_range *ranges; /* that it touches */
    size_t range_count;
    unsigned *deps; /* nodes before it */
    size_t dep_count;
};

/* Shared by a graph's handle and the executable graphs made from it: it does not change once captured. */
struct emu_graph {
    struct emu_graph *before, *next;
    unsigned refs;
    struct emu_node *nodes; /* each after those that it depends on */
    size_t count, room;
};

/* ---- Handles ---- */

/* The first member of what a handle points to. */
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
    struct emu_op *record;       /* NULL when never recorded, or last in a capture */
    struct emu_capture *capture; /* that it was last recorded in, or NULL */
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

struct CUmemPoolHandle_st {
    struct emu_slot slot;
    struct emu_pool *pool;
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
    cudaError_t sticky;
    cudaError_t break_code;
    size_t limit;
    size_t used;
    struct emu_attribute *attributes;
    size_t attribute_count;
    bool peer_possible[EMU_MAX_DEVICES];
    bool peer_enabled[EMU_MAX_DEVICES];
    struct emu_stream legacy;
    struct emu_arena arena;
    struct emu_pool *default_pool, *current_pool;
    /* Addresses for ThreadSanitizer: of the device's work, its legacy stream's, and its blocking streams'. */
    uint64_t order, order_of_legacy, order_of_blocking;
};

struct emu_state {
    pthread_mutex_t lock;
    pthread_cond_t ran; /* an operation is done */
    uint64_t epoch;     /* counts resets, so that threads forget what they knew */
    uint64_t seed, random;
    unsigned eagerness; /* of 16: how readily queued work runs by itself */
    bool starve;        /* whether some streams never run by themselves */
    enum emu_machine machine;
    int driver_version;
    bool driver_used;
    bool forked;
    int device_count;
    struct emu_device devices[EMU_MAX_DEVICES];
    struct emu_arena host;
    size_t pinned_limit, pinned_used;
    struct emu_alloc *tree;
    struct emu_alloc *ghosts, *oldest_ghost;
    size_t ghost_count;
    struct emu_pool *pools;
    struct emu_slots streams, events, pool_handles, graph_handles, exec_handles;
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
    bool past_protection; /* copies reach memory that the host may not touch */
    void (*misuse_handler)(const char *report, void *user);
    void *misuse_user;
};

extern struct emu_state emu;

struct emu_thread {
    uint64_t epoch;
    uint64_t number; /* not given to another thread until a reset */
    int device;
    struct emu_stream *streams[EMU_MAX_DEVICES]; /* its per-thread ones */
    cudaError_t last_error;
    enum cudaStreamCaptureMode capture_mode;
    struct emu_op *function; /* the kernel or host function that this thread is in */
    bool locked;
    bool refused;             /* a failure that a test asked for has ended the call */
    struct emu_origin origin; /* the call that is being made */
};

#include "functions.h"

#endif
