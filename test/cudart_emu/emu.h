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
    X(cudaRuntimeGetVersion) X(cudaDeviceCanAccessPeer) X(cudaDeviceEnablePeerAccess) X(cudaDeviceDisablePeerAccess)   \
    X(cudaDeviceSynchronize) X(cudaDeviceGetStreamPriorityRange) X(cudaDeviceGetPCIBusId) X(cudaMemGetInfo)            \
    X(cudaPointerGetAttributes) X(cudaMalloc) X(cudaFree) X(cudaMallocHost) X(cudaHostAlloc) X(cudaFreeHost)           \
    X(cudaHostRegister) X(cudaHostUnregister) X(cudaHostGetDevicePointer) X(cudaHostGetFlags) X(cudaMallocManaged)     \
    X(cudaMemPrefetchAsync) X(cudaMemAdvise) X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemcpyPeerAsync) X(cudaMemset)     \
    X(cudaMemsetAsync) X(cudaMemPoolCreate) X(cudaMemPoolDestroy) X(cudaMemPoolSetAttribute)                           \
    X(cudaMemPoolGetAttribute) X(cudaMemPoolTrimTo) X(cudaMemPoolSetAccess) X(cudaMemPoolGetAccess)                    \
    X(cudaDeviceGetDefaultMemPool) X(cudaDeviceGetMemPool) X(cudaDeviceSetMemPool) X(cudaMallocFromPoolAsync)          \
    X(cudaMallocAsync) X(cudaFreeAsync) X(cudaStreamCreate) X(cudaStreamCreateWithFlags)                               \
    X(cudaStreamCreateWithPriority) X(cudaStreamDestroy) X(cudaStreamQuery) X(cudaStreamSynchronize)                   \
    X(cudaStreamWaitEvent) X(cudaStreamGetFlags) X(cudaStreamGetPriority) X(cudaStreamGetId) X(cudaStreamGetDevice)    \
    X(cudaStreamIsCapturing) X(cudaThreadExchangeStreamCaptureMode) X(cudaLaunchHostFunc) X(cudaEventCreate)           \
    X(cudaEventCreateWithFlags) X(cudaEventRecord) X(cudaEventQuery) X(cudaEventSynchronize) X(cudaEventDestroy)       \
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
    void (*function)(void *argument);
    void *argument;
    struct emu_alloc *alloc;     /* of the free */
    struct emu_clock *clock;     /* from when it is queued */
    struct emu_clock *waits_for; /* until then: of an event's record */
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
    unsigned lane;           /* from 1; 0 before its first operation */
    struct emu_clock *clock; /* of its last operation */
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
    struct emu_origin origin; /* the call that is being made */
};

/* ---- machine.c ---- */

enum emu_need {
    EMU_NEEDS_NOTHING, /* works without a driver */
    EMU_NEEDS_DRIVER,
    EMU_NEEDS_CONTEXT /* and creates the current device's */
};

#define EMU_ENTER(call, need) emu_enter(EMU_##call, need, __builtin_return_address(0))
cudaError_t emu_enter(enum emu_call call, enum emu_need need, const void *site);
/* The same for what is no call of the runtime but acts like one. */
cudaError_t emu_enter_uncounted(const char *name, enum emu_need need, const void *site);
cudaError_t emu_leave(cudaError_t error);

/* The next call is made from this place, and not from that of its caller. */
void emu_called_from(const void *site);

void emu_lock(void);
void emu_unlock(void);
struct emu_thread *emu_self(void);
bool emu_is_forked(void);
/* Is the calling thread in a kernel or host function? The lock is then free. */
bool emu_in_function(void);
bool emu_device_exists(int device);
cudaError_t emu_context(int device);
void *emu_allocate(size_t size);
uint64_t emu_random(void);
bool emu_chance(unsigned of_sixteen);
extern const char *const emu_call_names[EMU_CALL_COUNT];

/* ---- device.c ---- */
bool emu_peer_reachable(int device, int owner, const struct emu_pool *pool, bool write);
void emu_attribute_set(int device, int attribute, int value);

/* ---- handle.c ---- */
void *emu_slot_take(struct emu_slots *slots);
void emu_slot_give(struct emu_slots *slots, void *slot);
bool emu_slot_is_live(const struct emu_slots *slots, const void *slot);
void emu_slots_reset(struct emu_slots *slots, size_t slot_size, size_t room);

/* ---- arena.c ---- */
size_t emu_size_class(size_t size, size_t granule, size_t *span);
char *emu_span_take(struct emu_arena *arena, size_t size);
void emu_span_give(struct emu_arena *arena, char *start, size_t size);
struct emu_arena *emu_device_arena(int device);
struct emu_arena *emu_host_arena(void);
void emu_arenas_reset(void);
/* Where the emulator touches this address. */
char *emu_bytes(const void *address);
/* Whether a device's memory has ever been at this address. */
bool emu_is_device_address(const void *address);
void emu_poison(struct emu_arena *arena, char *start, size_t span);

/* ---- tree.c ---- */
struct emu_alloc *emu_find(const void *address);
/* The allocation with the lowest address that has a byte in the range. */
struct emu_alloc *emu_find_overlap(const void *start, size_t size);
void emu_tree_insert(struct emu_alloc *alloc);
void emu_tree_remove(struct emu_alloc *alloc);

/* ---- memory.c ---- */
/* The live device or managed allocation that begins there and is to be freed; else what the caller is answered. */
cudaError_t emu_find_to_free(const void *start, struct emu_alloc **out);
struct emu_alloc *emu_alloc_new(enum emu_kind kind, char *start, size_t size, size_t span, int device);
void emu_alloc_ref(struct emu_alloc *alloc);
void emu_alloc_unref(struct emu_alloc *alloc);
void emu_alloc_dead(struct emu_alloc *alloc); /* no longer counts as live */
void emu_alloc_ghost(struct emu_alloc *alloc);
void emu_ghosts_seen(int device, uint64_t stream_id);
void emu_memory_reset(void);
/* Gives the memory of an allocation back, at the end of its life. */
void emu_memory_release(struct emu_alloc *alloc);
/* What memory a range given to a call is; *alloc is NULL for pageable memory. */
cudaError_t emu_resolve(const void *start, size_t size, struct emu_alloc **alloc);

/* ---- pool.c, pool_alloc.c ---- */
bool emu_pools_supported(int device);
void emu_pools_reset(void);
cudaError_t emu_pool_of(cudaMemPool_t handle, struct emu_pool **pool);
struct emu_pool *emu_default_pool(int device);
void emu_pool_release(struct emu_pool *pool, uint64_t keep);
void emu_pool_forget_if_unused(struct emu_pool *pool);
void emu_pools_synchronized(void);
bool emu_memory_fits(int device, size_t span);
void emu_block_list(struct emu_block **list, struct emu_block *block);
void emu_block_unlist(struct emu_block **list, struct emu_block *block);
size_t emu_block_class(const struct emu_block *block);
/* A pool's allocation has been freed, in the order of its stream. */
void emu_block_freed(struct emu_alloc *alloc);

/* ---- schedule.c ---- */
struct emu_op *emu_op_new(enum emu_op_kind kind, struct emu_stream *stream);
void emu_op_ref(struct emu_op *op);
void emu_op_unref(struct emu_op *op);
void emu_op_after(struct emu_op *op, struct emu_op *before);
void emu_op_room_for_uses(struct emu_op *op, unsigned count);
void emu_op_touches(struct emu_op *op, struct emu_alloc *alloc, const void *start, size_t size, bool write);
/* Appends it to its stream, which owns it from then on. */
void emu_op_queue(struct emu_op *op);
void emu_force(struct emu_op *op);
/* The same, but never waits for a function that is running: whether the operation is done then. */
bool emu_try(struct emu_op *op);
void emu_complete(struct emu_op *op);
void emu_force_device(int device);
void emu_force_uses(struct emu_alloc *alloc);
void emu_progress(void);
/* A pending use of alloc that is not ordered before what would be queued on the stream next, or NULL. */
const struct emu_use *emu_unordered_use(const struct emu_alloc *alloc, struct emu_stream *stream);
/* How many queries may answer "not ready" in a row. */
unsigned emu_patience(void);
/* Ends an operation that is not to be queued, as its stream does with one that is done. */
void emu_op_discard(struct emu_op *op);
void emu_schedule_reset(void);

/* ---- race.c ---- */
/* Places an operation in the order, once it is in its stream. */
void emu_race_queued(struct emu_op *op);
/* The host thread has waited for what the clock stands for; gives the reference back. */
void emu_host_saw(struct emu_clock *clock);
struct emu_clock *emu_host_clock(void); /* a new moment of the calling host thread */
/* All that has been queued on the device. */
struct emu_clock *emu_device_clock(int device);
/* The host thread was told that the stream has nothing left to do. */
void emu_race_idle(const struct emu_stream *stream);
void emu_race_stream_gone(struct emu_stream *stream);
struct emu_clock *emu_clock_ref(struct emu_clock *clock);
void emu_clock_unref(struct emu_clock *clock);
/* Whether the one's own moment is ordered before the other's. */
bool emu_clock_before(const struct emu_clock *clock, const struct emu_clock *other);
/* Whether all that can still be queued is ordered after it. */
bool emu_all_hosts_saw(const struct emu_clock *clock);
bool emu_race_checks(void);
void *emu_race_grow(void *old, size_t old_size, size_t size);
void emu_race_free(void *memory, size_t size);
void emu_race_reset(void);

/* ---- history.c: each may report, with the lock released meanwhile, and goes on ---- */
void emu_race_accesses(struct emu_op *op);
void emu_race_host_access(struct emu_alloc *alloc, const void *start, size_t size, bool write);
/* The host frees it, or takes its registration back. */
void emu_race_host_free(struct emu_alloc *alloc);
/* The runtime has waited for all operations that use it. */
void emu_race_uses_done(struct emu_alloc *alloc);
void emu_history_clear(struct emu_history *history);

/* ---- stream.c ---- */
cudaError_t emu_stream_of(cudaStream_t handle, struct emu_stream **stream);
bool emu_is_legacy(const struct emu_stream *stream);
void emu_stream_forget(struct emu_stream *stream);
/* Queues the operation and runs what is needed for it to be done; the device's sticky error if there is one. */
cudaError_t emu_queue_and_wait(struct emu_op *op);
/* The same with an empty operation: what was queued on the stream is done, and that the host knows. */
cudaError_t emu_stream_wait(struct emu_stream *stream);
/* Runs all that emu_stream_wait() would, unless a running function is in the way; whether it is done. */
bool emu_stream_try(struct emu_stream *stream);

/* ---- per_thread.c ---- */
/* The calling thread's stream on its current device. */
struct emu_stream *emu_per_thread_stream(void);
void emu_per_thread_reset(void);

/* ---- capture.c ---- */
/* What emu_stream_of() finds, for a call that queues: the legacy stream is refused beside a blocking stream that
 * captures. Work queued on a stream that captures becomes nodes of its graph. */
cudaError_t emu_stream_to_queue(cudaStream_t handle, struct emu_stream **stream);
/* The same for a call that can not be captured: a stream that captures is refused too, and its capture invalidated. */
cudaError_t emu_stream_not_capturing(cudaStream_t handle, struct emu_stream **stream);
/* May the calling thread make a call that captures do not see? If not, that invalidates them. */
cudaError_t emu_unsafe_permitted(void);
/* The same for this call, if it is one of those that are refused whatever they are given. */
cudaError_t emu_call_permitted(enum emu_call call);
/* The same for a call that waits for all of a device, which no mode permits. */
cudaError_t emu_device_wait_permitted(int device);
/* Whether the host may ask for the event. */
cudaError_t emu_event_permitted(const struct CUevent_st *event);
void emu_capture_op(struct emu_op *op);
void emu_capture_record(struct CUevent_st *event, struct emu_stream *stream);
/* A wait that has to do with a capture: for an event recorded in one, or by a stream that captures. */
cudaError_t emu_capture_wait(struct emu_stream *stream, const struct CUevent_st *event);
void emu_event_forget_capture(struct CUevent_st *event);
/* Takes a stream that is about to go out of its capture. */
void emu_capture_leave(struct emu_stream *stream);
void emu_captures_reset(void);

/* ---- graph.c ---- */
struct emu_graph *emu_graph_new(void);
void emu_graph_unref(struct emu_graph *graph);
/* The new node's number. */
unsigned emu_graph_add(struct emu_graph *graph, const struct emu_op *op, const struct emu_joint *after);
bool emu_graph_is_joined(const struct emu_graph *graph, const struct emu_joint *end);
/* A handle for the graph, which it takes over; NULL when there are too many. */
cudaGraph_t emu_graph_handle(struct emu_graph *graph);
void emu_graphs_reset(void);

/* ---- kernel.c ---- */
/* What a kernel of the device breaks it with by touching this memory. */
cudaError_t emu_kernel_fault(int device, const struct emu_alloc *alloc, bool write);
void emu_run_kernel(struct emu_op *op);
/* Has it run on its own thread, which completes the operation. */
void emu_start_host_function(struct emu_op *op);
void emu_host_functions_reset(void);
void emu_host_functions_forked(void);

/* ---- failure.c ---- */
bool emu_injected(enum emu_call call, cudaError_t *code, bool *sticky);
bool emu_wait_is_dropped(enum emu_call call);
void emu_failures_reset(void);

/* ---- waits.c ---- */
bool emu_wait_is_noted_and_dropped(enum emu_call call);
void emu_waits_reset(void);

/* ---- misuse.c ---- */
/* Reports what the call being made did; answers cudaErrorUnknown if there is a handler and it returns. */
cudaError_t emu_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "cudaMalloc at program(function+0x12)", in one of a few static buffers of the thread. */
const char *emu_describe(const struct emu_origin *origin);
void emu_check_leaks(void);

#endif
