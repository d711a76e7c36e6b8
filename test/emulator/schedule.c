/*
 * Runs queued operations: as late as something forces them, or when the seed decides.
 *
 * An operation may run when it is the first of its stream and its dependencies are done. All dependencies were queued
 * before it, so there is always an operation that may run. Dependencies are the waits for events and, for the legacy
 * stream, those that emu_op_queue() adds.
 */
#include "emu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A real stream's queue is bounded too. A thread that queues more waits for the oldest operation. */
#define LONGEST_QUEUE 1024

/* ---- Operations ---- */

struct emu_op *emu_op_new(enum emu_op_kind kind, struct emu_stream *stream)
{
    struct emu_op *op = emu_allocate(sizeof *op);
    op->kind = kind;
    op->refs = 1;
    op->stream = stream;
    op->stream_id = stream->id;
    op->device = stream->device;
    op->origin = emu_self()->origin;
    op->deps = op->few_deps;
    op->dep_room = sizeof op->few_deps / sizeof *op->few_deps;
    op->uses = op->few_uses;
    return op;
}

void emu_op_ref(struct emu_op *op)
{
    op->refs++;
}

static void drop_deps(struct emu_op *op)
{
    while (op->dep_count > 0)
        emu_op_unref(op->deps[--op->dep_count]);
    if (op->deps != op->few_deps)
        free(op->deps);
    op->deps = op->few_deps;
}

static void drop_uses(struct emu_op *op)
{
    for (unsigned i = 0; i < op->use_count; i++) {
        struct emu_use *use = &op->uses[i];
        if (use->before != NULL)
            use->before->after = use->after;
        else
            use->alloc->uses = use->after;
        if (use->after != NULL)
            use->after->before = use->before;
        emu_alloc_unref(use->alloc);
    }
    if (op->uses != op->few_uses)
        free(op->uses);
    op->uses = op->few_uses;
    op->use_count = 0;
}

void emu_op_unref(struct emu_op *op)
{
    /* A done operation has neither dependencies nor uses. */
    if (--op->refs > 0)
        return;
    emu_clock_unref(op->clock);
    emu_clock_unref(op->waits_for);
    free(op);
}

void emu_op_discard(struct emu_op *op)
{
    op->stream = NULL;
    op->state = EMU_OP_DONE;
    drop_deps(op);
    drop_uses(op);
    free(op->staging);
    op->staging = NULL;
    emu_op_unref(op);
}

void emu_op_after(struct emu_op *op, struct emu_op *before)
{
    if (before == NULL)
        return;
    if (op->dep_count == op->dep_room) {
        const unsigned room = 2 * op->dep_room;
        struct emu_op **deps = emu_allocate(room * sizeof *deps);
        memcpy(deps, op->deps, op->dep_count * sizeof *deps);
        if (op->deps != op->few_deps)
            free(op->deps);
        op->deps = deps;
        op->dep_room = room;
    }
    emu_op_ref(before);
    op->deps[op->dep_count++] = before;
}

void emu_op_room_for_uses(struct emu_op *op, unsigned count)
{
    if (count > sizeof op->few_uses / sizeof *op->few_uses)
        op->uses = emu_allocate(count * sizeof *op->uses);
}

void emu_op_touches(struct emu_op *op, struct emu_alloc *alloc, const void *start, size_t size, bool write)
{
    if (alloc == NULL || size == 0)
        return;
    struct emu_use *use = &op->uses[op->use_count++];
    *use = (struct emu_use){.op = op,
                            .alloc = alloc,
                            .start = (char *)(uintptr_t)start,
                            .bytes = emu_bytes(start),
                            .size = size,
                            .write = write,
                            .after = alloc->uses};
    if (alloc->uses != NULL)
        alloc->uses->before = use;
    alloc->uses = use;
    emu_alloc_ref(alloc);
}

/* ---- Queues ---- */

static void activate(struct emu_stream *stream)
{
    if (emu.active_count == emu.active_room) {
        emu.active_room = emu.active_room == 0 ? 64 : 2 * emu.active_room;
        struct emu_stream **active = emu_allocate(emu.active_room * sizeof *active);
        if (emu.active_count > 0)
            memcpy(active, emu.active, emu.active_count * sizeof *active);
        free(emu.active);
        emu.active = active;
    }
    stream->active_index = emu.active_count;
    emu.active[emu.active_count++] = stream;
}

static void deactivate(struct emu_stream *stream)
{
    struct emu_stream *last = emu.active[--emu.active_count];
    emu.active[stream->active_index] = last;
    last->active_index = stream->active_index;
}

/* Orders the legacy stream after all queued work of the device's blocking streams, and those after the legacy stream.
 * */
static void add_legacy_order(struct emu_op *op)
{
    struct emu_stream *stream = op->stream;
    struct emu_stream *legacy = &emu.devices[stream->device].legacy;
    if (!stream->blocking)
        return;
    if (stream != legacy) {
        emu_op_after(op, legacy->tail);
        return;
    }
    for (size_t i = 0; i < emu.active_count; i++) {
        const struct emu_stream *other = emu.active[i];
        if (other != legacy && other->blocking && other->device == stream->device)
            emu_op_after(op, other->tail);
    }
}

/* Every operation passes here once, in the order of the program's calls, with its stream, its dependencies and all
 * bytes that it will touch. The caller must not rely on the lock afterwards, as a report releases it. */
static void on_queued(struct emu_op *op)
{
    emu_race_queued(op);
    emu_race_accesses(op);
}

void emu_op_queue(struct emu_op *op)
{
    struct emu_stream *stream = op->stream;
    if (stream->capture != NULL) {
        emu_capture_op(op);
        return;
    }
    if (stream->pending >= LONGEST_QUEUE)
        emu_force(stream->head);
    add_legacy_order(op);
    op->number = ++stream->last_number;
    if (stream->tail == NULL) {
        stream->head = op;
        activate(stream);
    } else {
        stream->tail->next = op;
    }
    stream->tail = op;
    stream->pending++;
    emu.pending++;
    emu_order_queued(op);
    on_queued(op);
}

/* ---- Running ---- */

static uint64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A device can write host memory that is protected against the host. The kernel permits a debugger the same. */
static void copy_past_protection(char *to, const char *from, size_t size)
{
    static char bounce[65536];
    const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    for (size_t done = 0; done < size;) {
        const size_t left = size - done;
        const ssize_t part =
            pread(memory, bounce, left < sizeof bounce ? left : sizeof bounce, (off_t)(uintptr_t)(from + done));
        if (part <= 0 || pwrite(memory, bounce, (size_t)part, (off_t)(uintptr_t)(to + done)) != part)
            emu_misuse("a copy from %p to %p accesses memory that is not mapped", (const void *)from, (void *)to);
        done += (size_t)part;
    }
    (void)close(memory);
}

static bool overlap(const char *to, const char *from, size_t size)
{
    return to < from + size && from < to + size;
}

void emu_move(char *to, const char *from, size_t size)
{
    if (emu.past_protection && !overlap(to, from, size))
        copy_past_protection(to, from, size);
    else
        memmove(to, from, size);
}

static void copy(const struct emu_op *op)
{
    if (op->by_host)
        memmove(op->to, op->from, op->size);
    else
        emu_move(op->to, op->from, op->size);
}

static void perform(struct emu_op *op)
{
    switch (op->kind) {
    case EMU_OP_COPY:
        copy(op);
        break;
    case EMU_OP_FILL:
    case EMU_OP_ALLOC:
        memset(op->to, op->value, op->size);
        break;
    case EMU_OP_KERNEL:
        emu_run_kernel(op);
        break;
    case EMU_OP_LIST:
        emu_list_run(op);
        break;
    case EMU_OP_HOST:
    case EMU_OP_MARK:
    case EMU_OP_FREE:
        break;
    }
}

void emu_complete(struct emu_op *op)
{
    struct emu_stream *stream = op->stream;
    emu_order_done(stream, op);
    stream->head = op->next;
    stream->pending--;
    stream->tries = 0;
    emu.pending--;
    if (stream->head == NULL) {
        stream->tail = NULL;
        deactivate(stream);
        emu_stream_forget(stream);
    }
    op->stream = NULL;
    op->next = NULL;
    op->time = op->kind == EMU_OP_MARK ? now() : 0;
    op->state = EMU_OP_DONE;
    drop_deps(op);
    drop_uses(op);
    if (op->kind == EMU_OP_FREE) {
        emu_memory_release(op->alloc);
        emu_alloc_unref(op->alloc);
    }
    free(op->staging);
    op->staging = NULL;
    pthread_cond_broadcast(&emu.ran);
    emu_op_unref(op);
}

static void run(struct emu_op *op)
{
    struct emu_device *device = &emu.devices[op->device];
    op->state = EMU_OP_RUNNING;
    if (device->sticky == cudaSuccess)
        device->sticky = op->fault != cudaSuccess ? op->fault : device->break_code;
    /* A broken device runs nothing more, but its memory is still accounted for. */
    if (device->sticky == cudaSuccess && op->kind == EMU_OP_HOST) {
        emu_order_begins(op->stream, op);
        emu_start_host_function(op);
        return;
    }
    if (device->sticky == cudaSuccess)
        perform(op);
    emu_complete(op);
}

static struct emu_op *undone_dep(struct emu_op *op)
{
    while (op->dep_count > 0) {
        struct emu_op *dep = op->deps[op->dep_count - 1];
        if (dep->state != EMU_OP_DONE)
            return dep;
        emu_order_after(op->stream, dep);
        op->dep_count--;
        emu_op_unref(dep);
    }
    return NULL;
}

/* ---- Forcing ---- */

struct stack {
    struct emu_op **ops;
    size_t count, room;
    struct emu_op *few[32];
};

static void push(struct stack *stack, struct emu_op *op)
{
    if (stack->count == stack->room) {
        struct emu_op **ops = emu_allocate(2 * stack->room * sizeof *ops);
        memcpy(ops, stack->ops, stack->count * sizeof *ops);
        if (stack->ops != stack->few)
            free(stack->ops);
        stack->ops = ops;
        stack->room *= 2;
    }
    emu_op_ref(op);
    stack->ops[stack->count++] = op;
}

/* Returns whether the device of a running function breaks. A wait does not last until the function ends then. */
static bool breaks(const struct emu_op *op)
{
    struct emu_device *device = &emu.devices[op->device];
    if (device->sticky == cudaSuccess)
        device->sticky = device->break_code;
    return device->sticky != cudaSuccess;
}

/* Returns whether the operation needs multiprocessors, of which the device has none free. */
static bool is_held_up(const struct emu_op *op)
{
    const bool is_kernel = op->kind == EMU_OP_KERNEL || op->kind == EMU_OP_LIST || op->kind == EMU_OP_FILL;
    return is_kernel && emu.devices[op->device].occupied;
}

/* Runs the operation and its dependencies, nothing else. References keep the operations on the stack alive while the
 * lock is released for a function. */
static void run_up_to(struct emu_op *op, bool wait)
{
    struct stack stack = {.room = sizeof stack.few / sizeof *stack.few};
    stack.ops = stack.few;
    push(&stack, op);
    while (stack.count > 0) {
        struct emu_op *top = stack.ops[stack.count - 1];
        if (top->state == EMU_OP_DONE) {
            stack.count--;
            emu_op_unref(top);
            continue;
        }
        struct emu_op *head = top->stream->head;
        struct emu_op *dep = head->state == EMU_OP_QUEUED ? undone_dep(head) : NULL;
        if (dep != NULL)
            push(&stack, dep);
        else if (head->state == EMU_OP_QUEUED && !is_held_up(head))
            run(head);
        else if (wait && !breaks(head))
            pthread_cond_wait(&emu.ran, &emu.lock);
        else
            break;
    }
    while (stack.count > 0)
        emu_op_unref(stack.ops[--stack.count]);
    if (stack.ops != stack.few)
        free(stack.ops);
}

void emu_force(struct emu_op *op)
{
    run_up_to(op, true);
}

bool emu_try(struct emu_op *op)
{
    emu_op_ref(op);
    run_up_to(op, false);
    const bool done = op->state == EMU_OP_DONE;
    emu_op_unref(op);
    return done;
}

static void force_tails(int device)
{
    /* Works on a snapshot, as other threads may queue more while functions run. */
    const size_t most = emu.active_count;
    struct emu_op **tails = most == 0 ? NULL : emu_allocate(most * sizeof *tails);
    size_t count = 0;
    for (size_t i = 0; i < most; i++) {
        if (device >= 0 && emu.active[i]->device != device)
            continue;
        tails[count++] = emu.active[i]->tail;
        emu_op_ref(emu.active[i]->tail);
    }
    for (size_t i = 0; i < count; i++) {
        emu_force(tails[i]);
        emu_op_unref(tails[i]);
    }
    free(tails);
}

void emu_force_device(int device)
{
    if (emu.active_count > 0)
        force_tails(device);
}

void emu_force_uses(struct emu_alloc *alloc)
{
    while (alloc->uses != NULL)
        emu_force(alloc->uses->op);
}

/* ---- Chance ---- */

/* With some seeds some streams never run by chance. No order of short runs would have that effect. */
static bool is_starved(const struct emu_stream *stream)
{
    return emu.starve && (((stream->id * 0x9e3779b97f4a7c15u) ^ emu.seed) >> 17 & 3) == 0;
}

void emu_progress(void)
{
    if (emu.seed == 0 || emu.forked || emu.machine != EMU_PRESENT)
        return;
    while (emu.active_count > 0 && emu_chance(emu.eagerness)) {
        const struct emu_stream *stream = emu.active[emu_random() % emu.active_count];
        struct emu_op *head = stream->head;
        if (head->state == EMU_OP_QUEUED && !is_starved(stream) && undone_dep(head) == NULL && !is_held_up(head))
            run(head);
    }
}

unsigned emu_patience(void)
{
    return emu.seed == 0 ? 16 : 1 + (unsigned)(emu_random() & 7);
}

void emu_run_all(void)
{
    emu_lock();
    if (emu_self()->function == NULL)
        emu_force_device(-1);
    emu_unlock();
}

size_t emu_pending(void)
{
    emu_lock();
    const size_t pending = emu.pending;
    emu_unlock();
    return pending;
}

/* ---- The order before a stream's next operation ---- */

/* Marks the stream as ordered before, up to this number. Returns whether that is new. Sets *from to the number so far.
 * */
static bool reaches(struct emu_stream *stream, uint64_t number, uint64_t *from)
{
    *from = stream->mark == emu.mark ? stream->reach : 0;
    if (number <= *from)
        return false;
    stream->mark = emu.mark;
    stream->reach = number;
    return true;
}

static void push_undone_deps(struct stack *stack, const struct emu_op *op)
{
    for (unsigned i = 0; i < op->dep_count; i++)
        if (op->deps[i]->state != EMU_OP_DONE)
            push(stack, op->deps[i]);
}

/* Marks in every stream the last operation that is ordered before the next one of this stream. */
static void mark_ordered_before(struct emu_stream *stream)
{
    struct stack stack = {.room = sizeof stack.few / sizeof *stack.few};
    struct emu_op *next = emu_op_new(EMU_OP_MARK, stream);
    stack.ops = stack.few;
    emu.mark++;
    emu_op_after(next, stream->tail);
    add_legacy_order(next);
    push_undone_deps(&stack, next);
    while (stack.count > 0) {
        struct emu_op *top = stack.ops[--stack.count];
        uint64_t from;
        emu_op_unref(top);
        if (!reaches(top->stream, top->number, &from))
            continue;
        for (struct emu_op *op = top->stream->head; op != NULL && op->number <= top->number; op = op->next)
            if (op->number > from)
                push_undone_deps(&stack, op);
    }
    if (stack.ops != stack.few)
        free(stack.ops);
    drop_deps(next);
    emu_op_unref(next);
}

const struct emu_use *emu_unordered_use(const struct emu_alloc *alloc, struct emu_stream *stream)
{
    bool marked = false;
    for (const struct emu_use *use = alloc->uses; use != NULL; use = use->after) {
        const struct emu_stream *other = use->op->stream;
        if (other == stream)
            continue;
        if (!marked)
            mark_ordered_before(stream);
        marked = true;
        if (other->mark != emu.mark || use->op->number > other->reach)
            return use;
    }
    return NULL;
}

/* ---- Starting over ---- */

static void forget_queue(struct emu_stream *stream)
{
    for (struct emu_op *op = stream->head, *next; op != NULL; op = next) {
        next = op->next;
        op->state = EMU_OP_DONE;
        free(op->staging);
        op->staging = NULL;
        drop_deps(op);
        drop_uses(op);
        if (op->kind == EMU_OP_FREE)
            emu_alloc_unref(op->alloc);
        emu_op_unref(op);
    }
    stream->head = stream->tail = NULL;
}

void emu_schedule_reset(void)
{
    emu_captures_reset();
    emu_graphs_reset();
    emu_per_thread_reset();
    for (size_t i = 0; i < emu.events.used; i++) {
        struct CUevent_st *event = &((struct CUevent_st *)(void *)emu.events.base)[i];
        if (event->slot.live && event->record != NULL)
            emu_op_unref(event->record);
    }
    for (size_t i = 0; i < emu.streams.used; i++) {
        struct CUstream_st *handle = &((struct CUstream_st *)(void *)emu.streams.base)[i];
        if (!handle->slot.live)
            continue;
        emu_race_stream_gone(handle->stream);
        if (handle->stream->head == NULL)
            emu_stream_free(handle->stream);
    }
    for (size_t i = 0; i < emu.active_count; i++) {
        struct emu_stream *stream = emu.active[i];
        forget_queue(stream);
        if (stream != &emu.devices[stream->device].legacy)
            emu_stream_free(stream);
    }
    emu.active_count = 0;
    emu.pending = 0;
}
