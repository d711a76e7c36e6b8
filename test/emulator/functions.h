/* What each file of the emulated runtime offers the others. Included by emu.h, which has the types. */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include "emu.h"

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
/* Whether a failure that a test asked for has ended the call, and the device would take work all the same. */
bool emu_was_refused(cudaError_t error);

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
int emu_attribute(int device, int attribute);

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

/* ---- order_tsan.c, or order_none.c without ThreadSanitizer: the order that it sees ---- */
/* Hide what the thread does between the two. Pairs may be nested. All other functions need the lock. */
void emu_hide(void);
void emu_show(void);
/* The thread's past is before the operation. */
void emu_order_queued(struct emu_op *op);
/* The stream comes after an operation that is done. */
void emu_order_after(struct emu_stream *stream, struct emu_op *before);
/* A host function's turn has come; its thread is about to call it; it has returned. */
void emu_order_begins(struct emu_stream *stream, struct emu_op *op);
void emu_order_function_begins(struct emu_op *op);
void emu_order_function_ended(struct emu_op *op);
/* The operation is done. It still has its stream and its uses. */
void emu_order_done(struct emu_stream *stream, struct emu_op *op);
/* The thread learned that this is done: the operation, the stream's work, the device's, or what used the memory. */
void emu_order_saw(const struct emu_op *op);
void emu_order_saw_stream(const struct emu_stream *stream);
void emu_order_saw_device(int device);
void emu_order_saw_uses(const struct emu_alloc *alloc);
void emu_order_stream_gone(struct emu_stream *stream);
/* Host memory that one thread frees and another allocates. */
void emu_order_given_back(const void *start);
void emu_order_handed_out(const void *start);
/* The call reads, or has written, pageable memory in the thread's name. */
void emu_order_read(const void *start, size_t size);
void emu_order_written(const void *start, size_t size);

/* ---- stream.c ---- */
void emu_stream_free(struct emu_stream *stream);
cudaError_t emu_stream_of(cudaStream_t handle, struct emu_stream **stream);
bool emu_is_legacy(const struct emu_stream *stream);
void emu_stream_forget(struct emu_stream *stream);
/* Queues the operation and runs what is needed for it to be done; the device's sticky error if there is one. */
cudaError_t emu_queue_and_wait(struct emu_op *op);
/* The same with an empty operation: what was queued on the stream is done, and that the host knows. */
cudaError_t emu_stream_wait(struct emu_stream *stream);
/* Runs all that emu_stream_wait() would, unless a running function is in the way; whether it is done. */
bool emu_stream_try(struct emu_stream *stream);

/* ---- transfer.c ---- */
/* Returns the answer of cudaMemcpyAsync for such memory, and queues nothing. */
cudaError_t emu_copy_check(void *to, const void *from, size_t size);
/* Copies as cudaMemcpyAsync does. read_now: pageable memory is read before this returns. */
cudaError_t emu_copy(void *to, const void *from, size_t size, struct emu_stream *stream, bool read_now);

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
