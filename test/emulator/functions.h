/* The functions that the files of the emulated runtime share. Included by emu.h, which has the types. */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include "emu.h"

/* ---- machine.c ---- */

enum emu_need {
    EMU_NEEDS_NOTHING, /* works without a driver */
    EMU_NEEDS_DRIVER,
    EMU_NEEDS_CONTEXT /* creates the current device's context if necessary */
};

#define EMU_ENTER(call, need) emu_enter(EMU_##call, need, __builtin_return_address(0))
cudaError_t emu_enter(enum emu_call call, enum emu_need need, const void *site);
/* The same for functions that act like a call of the runtime and are not counted. */
cudaError_t emu_enter_uncounted(const char *name, enum emu_need need, const void *site);
cudaError_t emu_leave(cudaError_t error);
/* The same for a function of the driver, which does not change the runtime's last error. The codes of the runtime that
 * the driver has too are equal to the driver's. */
CUresult emu_leave_driver(cudaError_t error);
/* Returns whether a failure that a test has set ended the call, although the device accepts work. */
bool emu_was_refused(cudaError_t error);

/* Reports the next call as made from this place instead of from its caller. */
void emu_called_from(const void *site);

void emu_lock(void);
void emu_unlock(void);
struct emu_thread *emu_self(void);
bool emu_is_forked(void);
/* Returns whether the calling thread is in a kernel or host function. The lock is then free. */
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
void emu_uuid(int device, CUuuid *uuid);

/* ---- The driver's functions, for cudaGetDriverEntryPoint in driver.c ---- */
#define EMU_DRIVER_FUNCTION(name, version) __typeof__(name) emu_##name;
DRIVER_FUNCTIONS(EMU_DRIVER_FUNCTION)
#undef EMU_DRIVER_FUNCTION

/* ---- physical.c: memory from cuMemCreate ---- */
/* Finds the memory of a handle that is given to a call. Fails if its device is lost. */
cudaError_t emu_memory_of(CUmemGenericAllocationHandle handle, struct emu_memory **memory);
void emu_memory_ref(struct emu_memory *memory);
void emu_memory_unref(struct emu_memory *memory);
void emu_memories_reset(void);

/* ---- mapping.c: address ranges, and memory mapped there ---- */
/* Returns whether a device may access device memory. Only mappings restrict their own device. */
bool emu_mapping_permits(const struct emu_alloc *alloc, int device);
/* Ends a mapping whose allocation is dead. */
void emu_mapping_release(struct emu_alloc *alloc);
void emu_reservations_reset(void);

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
struct emu_arena *emu_reserved_arena(void);
void emu_arenas_reset(void);
/* Returns the emulator's own mapping of this address. */
char *emu_bytes(const void *address);
/* Returns whether a device's memory, or a reserved address range, has ever been at this address. */
bool emu_is_device_address(const void *address);
void emu_poison(struct emu_arena *arena, char *start, size_t span);

/* ---- tree.c ---- */
struct emu_alloc *emu_find(const void *address);
/* Returns the allocation with the lowest address that has a byte in the range. */
struct emu_alloc *emu_find_overlap(const void *start, size_t size);
void emu_tree_insert(struct emu_alloc *alloc);
void emu_tree_remove(struct emu_alloc *alloc);

/* ---- memory.c ---- */
/* Finds the live device or managed allocation that begins there and is to be freed. Otherwise returns the error for the
 * caller. */
cudaError_t emu_find_to_free(const void *start, struct emu_alloc **out);
struct emu_alloc *emu_alloc_new(enum emu_kind kind, char *start, size_t size, size_t span, int device);
void emu_alloc_ref(struct emu_alloc *alloc);
void emu_alloc_unref(struct emu_alloc *alloc);
void emu_alloc_dead(struct emu_alloc *alloc); /* from now on not counted as live */
void emu_alloc_ghost(struct emu_alloc *alloc);
void emu_ghosts_seen(int device, uint64_t stream_id);
void emu_memory_reset(void);
/* Gives back an allocation's memory at the end of its life. */
void emu_memory_release(struct emu_alloc *alloc);
/* Finds the allocation of a range given to a call; *alloc is NULL for pageable memory. */
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
/* Called when the free of a pool's allocation has run in its stream. */
void emu_block_freed(struct emu_alloc *alloc);

/* ---- schedule.c ---- */
struct emu_op *emu_op_new(enum emu_op_kind kind, struct emu_stream *stream);
void emu_op_ref(struct emu_op *op);
void emu_op_unref(struct emu_op *op);
void emu_op_after(struct emu_op *op, struct emu_op *before);
void emu_op_room_for_uses(struct emu_op *op, unsigned count);
void emu_op_touches(struct emu_op *op, struct emu_alloc *alloc, const void *start, size_t size, bool write);
/* Appends the operation to its stream, which owns it from then on. */
void emu_op_queue(struct emu_op *op);
/* Copies, also to and from memory that is protected against the host. */
void emu_move(char *to, const char *from, size_t size);
void emu_force(struct emu_op *op);
/* The same, but never waits for a function that is running. Returns whether the operation is done. */
bool emu_try(struct emu_op *op);
void emu_complete(struct emu_op *op);
void emu_force_device(int device);
void emu_force_uses(struct emu_alloc *alloc);
void emu_progress(void);
/* Returns a pending use of alloc that is not ordered before the next operation of the stream, or NULL. */
const struct emu_use *emu_unordered_use(const struct emu_alloc *alloc, struct emu_stream *stream);
/* Returns how many queries in a row may return cudaErrorNotReady. */
unsigned emu_patience(void);
/* Ends an operation without queueing it, as a stream ends one that is done. */
void emu_op_discard(struct emu_op *op);
void emu_schedule_reset(void);

/* ---- race.c ---- */
/* Gives an operation its place in the order, once it is in its stream. */
void emu_race_queued(struct emu_op *op);
/* Notes that the host thread has waited for the moment of the clock. Gives the reference back. */
void emu_host_saw(struct emu_clock *clock);
struct emu_clock *emu_host_clock(void); /* a new moment of the calling host thread */
/* Returns a clock of all work queued on the device. */
struct emu_clock *emu_device_clock(int device);
/* Notes that a query reported the stream as idle to the host thread. */
void emu_race_idle(const struct emu_stream *stream);
void emu_race_stream_gone(struct emu_stream *stream);
struct emu_clock *emu_clock_ref(struct emu_clock *clock);
void emu_clock_unref(struct emu_clock *clock);
/* Returns whether the moment of `clock` is ordered before that of `other`. */
bool emu_clock_before(const struct emu_clock *clock, const struct emu_clock *other);
/* Returns whether all future operations will be ordered after it. */
bool emu_all_hosts_saw(const struct emu_clock *clock);
bool emu_race_checks(void);
void *emu_race_grow(void *old, size_t old_size, size_t size);
void emu_race_free(void *memory, size_t size);
void emu_race_reset(void);

/* ---- history.c: each function may report a race, releases the lock meanwhile, and then continues ---- */
void emu_race_accesses(struct emu_op *op);
void emu_race_host_access(struct emu_alloc *alloc, const void *start, size_t size, bool write);
/* Called when the host frees or unregisters the memory. */
void emu_race_host_free(struct emu_alloc *alloc);
/* Notes that the runtime has waited for all operations that use the allocation. */
void emu_race_uses_done(struct emu_alloc *alloc);
void emu_history_clear(struct emu_history *history);

/* ---- order_tsan.c, or order_none.c without ThreadSanitizer: reports order to ThreadSanitizer ---- */
/* Hide the thread's accesses between the two calls. Pairs may be nested. All other functions need the lock. */
void emu_hide(void);
void emu_show(void);
/* Orders the thread's past before the operation. */
void emu_order_queued(struct emu_op *op);
/* Orders the stream after an operation that is done. */
void emu_order_after(struct emu_stream *stream, struct emu_op *before);
/* Called at a host function's turn, when its thread is about to call it, and when it has returned. */
void emu_order_begins(struct emu_stream *stream, struct emu_op *op);
void emu_order_function_begins(struct emu_op *op);
void emu_order_function_ended(struct emu_op *op);
/* Called when the operation is done. It still has its stream and its uses. */
void emu_order_done(struct emu_stream *stream, struct emu_op *op);
/* Called when the thread learns that work is done: the operation, the stream's or the device's work, or the uses of the
 * memory. */
void emu_order_saw(const struct emu_op *op);
void emu_order_saw_stream(const struct emu_stream *stream);
void emu_order_saw_device(int device);
void emu_order_saw_uses(const struct emu_alloc *alloc);
void emu_order_stream_gone(struct emu_stream *stream);
/* Called for host memory that one thread frees and another allocates. */
void emu_order_given_back(const void *start);
void emu_order_handed_out(const void *start);
/* Called when a call reads, or has written, pageable memory in the thread's name. */
void emu_order_read(const void *start, size_t size);
void emu_order_written(const void *start, size_t size);

/* ---- stream.c ---- */
void emu_stream_free(struct emu_stream *stream);
cudaError_t emu_stream_of(cudaStream_t handle, struct emu_stream **stream);
bool emu_is_legacy(const struct emu_stream *stream);
void emu_stream_forget(struct emu_stream *stream);
/* Queues the operation and runs all work that must precede it. Returns the device's sticky error if there is one. */
cudaError_t emu_queue_and_wait(struct emu_op *op);
/* The same with an empty operation. All work queued on the stream is then done, and the host counts as informed. */
cudaError_t emu_stream_wait(struct emu_stream *stream);
/* Runs the same work as emu_stream_wait(), unless a running function prevents it. Returns whether the work is done. */
bool emu_stream_try(struct emu_stream *stream);

/* ---- transfer.c ---- */
/* Returns the result of cudaMemcpyAsync for such memory, and queues nothing. */
cudaError_t emu_copy_check(void *to, const void *from, size_t size);
/* Copies as cudaMemcpyAsync does. With read_now, pageable memory is read before the return. */
cudaError_t emu_copy(void *to, const void *from, size_t size, struct emu_stream *stream, bool read_now);

/* ---- per_thread.c ---- */
/* Returns the calling thread's stream on its current device. */
struct emu_stream *emu_per_thread_stream(void);
void emu_per_thread_reset(void);

/* ---- capture.c ---- */
/* Finds the stream for a call that queues work. Refuses the legacy stream beside a blocking stream that captures. Work
 * queued on a capturing stream becomes nodes of its graph. */
cudaError_t emu_stream_to_queue(cudaStream_t handle, struct emu_stream **stream);
/* The same for a call that cannot be captured. Also refuses a capturing stream, and invalidates its capture. */
cudaError_t emu_stream_not_capturing(cudaStream_t handle, struct emu_stream **stream);
/* Checks that the calling thread may make an unsafe call, one that captures do not see. If not, invalidates the
 * captures. */
cudaError_t emu_unsafe_permitted(void);
/* The same for this call, if it is among the calls that are unsafe with any arguments. */
cudaError_t emu_call_permitted(enum emu_call call);
/* The same for a call that waits for a whole device, which no mode permits. */
cudaError_t emu_device_wait_permitted(int device);
/* Checks that the host may query or synchronize the event. */
cudaError_t emu_event_permitted(const struct CUevent_st *event);
void emu_capture_op(struct emu_op *op);
void emu_capture_record(struct CUevent_st *event, struct emu_stream *stream);
/* A wait in which a capture takes part: for an event recorded in one, or by a capturing stream. */
cudaError_t emu_capture_wait(struct emu_stream *stream, const struct CUevent_st *event);
void emu_event_forget_capture(struct CUevent_st *event);
/* Removes a stream that is about to be freed from its capture. */
void emu_capture_leave(struct emu_stream *stream);
void emu_captures_reset(void);

/* ---- graph.c ---- */
struct emu_graph *emu_graph_new(void);
void emu_graph_unref(struct emu_graph *graph);
/* Returns the new node's number. */
unsigned emu_graph_add(struct emu_graph *graph, const struct emu_op *op, const struct emu_joint *after);
bool emu_graph_is_joined(const struct emu_graph *graph, const struct emu_joint *end);
/* Returns a handle for the graph, which it takes over. NULL if there are too many handles. */
cudaGraph_t emu_graph_handle(struct emu_graph *graph);
void emu_graphs_reset(void);

/* ---- batch.c ---- */
/* The bytes at one end of a copy. */
struct emu_end {
    const char *begin, *end;
    size_t copy;
    bool written;
};
/* Checks that copies which are in no order touch no byte that another one writes. Sorts the ends. of: what has them. */
cudaError_t emu_check_unordered(struct emu_end *ends, size_t count, const char *of);

/* ---- list.c ---- */
cudaError_t emu_list_queue(struct emu_stream *stream, const struct sm_list_job *job, const struct CUlib_st *library);
cudaError_t emu_probe_queue(struct emu_stream *stream, unsigned *word, unsigned number, const struct CUlib_st *library);
void emu_list_run(struct emu_op *op);

/* ---- kernel.c ---- */
/* Checks that a kernel can touch the ranges, which are then live memory. */
cudaError_t emu_check_ranges(const struct emu_range *ranges, size_t count);
/* Notes that the operation, a kernel, touches them. */
void emu_op_touches_ranges(struct emu_op *op, const struct emu_range *ranges, size_t count);
/* Returns the error with which a kernel breaks the device by touching this memory. */
cudaError_t emu_kernel_fault(int device, const struct emu_alloc *alloc, bool write);
void emu_run_kernel(struct emu_op *op);
/* Runs the function on its own thread, which completes the operation. */
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

/* ---- frames.c, system_windows.c ---- */
/* Stores the return addresses on this thread's stack, innermost first, the caller of this function before them. Returns
 * how many there are, at most so many. */
unsigned emu_frames(const void **frames, unsigned most);
/* In a static program the dynamic linker may know nothing. Then the object is "", and the offset the address. */
struct emu_place emu_place_of(const void *address);
void emu_print_frames(const void *const *frames, unsigned count); /* to stderr */

/* ---- system_linux.c, system_none.c, system_posix.c, system_windows.c ---- */
/* Makes a file for memory, without bytes. Returns a descriptor that no other program inherits, -1: the system refuses
 * it. */
int emu_file_make(void);
/* Gives the memory of these bytes back to the system; they are zeros then. Returns false if they keep it. */
bool emu_file_release(int file, size_t offset, size_t size);
/* From now on the file keeps its size, on Linux. */
void emu_file_seal(int file);
/* Does for private pages what emu_file_release() does for a file. */
bool emu_pages_release(void *start, size_t size);
void emu_pages_leave_out_of_dumps(void *start, size_t size);
/* Returns what the system added to the addresses of the program or library that begins there. */
uintptr_t emu_moved_by(const void *object);

/* ---- misuse.c ---- */
/* Reports misuse by the current call. Returns cudaErrorUnknown if there is a handler and it returns. */
cudaError_t emu_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Formats as in "cudaMalloc at program(function+0x12)", in one of a few static buffers of the thread. */
const char *emu_name_of(const void *address, char *name, size_t room);
const char *emu_describe(const struct emu_origin *origin);
void emu_check_leaks(void);

#endif
