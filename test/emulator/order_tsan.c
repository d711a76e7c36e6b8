/*
 * The order that ThreadSanitizer sees. emu_lock() and emu_unlock() hide a thread's accesses and locks from it. The
 * emulator's one lock would otherwise order all threads around calls of the runtime, and so hide their races. The
 * functions here report to it the order that CUDA promises, and no other.
 *
 * Each stream is a fiber: a thread without a stack, in ThreadSanitizer's terms. It knows what is ordered before the
 * stream's last finished operation. Order passes through the address of an operation:
 *
 *     host thread that queues it   releases op
 *     stream, when its turn comes  acquires op and what it depends on, then releases op
 *     a host function's thread     acquires op, runs the function, releases op
 *     stream, when it is done      acquires op, then releases op and the addresses of stream, device and memory
 *     host thread that waited      acquires op, or one of those addresses
 *
 * A thread that runs another thread's operation acquires nothing, so chance orders nothing.
 *
 * The emulator is compiled without instrumentation: a switch between fibers within an instrumented function would
 * confuse the sanitizer's record of the call stack.
 */
#include "emu.h"

#include <sanitizer/tsan_interface.h>

/* The sanitizer exports these, but its header does not declare them. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void __tsan_read_range(const void *start, size_t size);
void __tsan_write_range(const void *start, size_t size);

void emu_hide(void)
{
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void emu_show(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

/* ---- Host threads ---- */

static void acquire(const void *what)
{
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_acquire((void *)(uintptr_t)what);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

static void release(const void *what)
{
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_release((void *)(uintptr_t)what);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

void emu_order_queued(struct emu_op *op)
{
    release(op);
}

void emu_order_function_begins(struct emu_op *op)
{
    acquire(op);
}

void emu_order_function_ended(struct emu_op *op)
{
    release(op);
}

void emu_order_saw(const struct emu_op *op)
{
    acquire(op);
}

void emu_order_saw_stream(const struct emu_stream *stream)
{
    acquire(&stream->fiber);
    if (emu_is_legacy(stream))
        acquire(&emu.devices[stream->device].order_of_blocking);
}

void emu_order_saw_device(int device)
{
    acquire(&emu.devices[device].order);
}

void emu_order_saw_uses(const struct emu_alloc *alloc)
{
    acquire(alloc);
}

void emu_order_given_back(const void *start)
{
    release(start);
}

void emu_order_handed_out(const void *start)
{
    acquire(start);
}

void emu_order_read(const void *start, size_t size)
{
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    __tsan_read_range(start, size);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
}

void emu_order_written(const void *start, size_t size)
{
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    __tsan_write_range(start, size);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
}

/* ---- Streams ---- */

/* Switches to the stream's fiber. That hides nothing, as each fiber has its own settings, and orders nothing. */
static void *switch_to(struct emu_stream *stream)
{
    void *const before = __tsan_get_current_fiber();
    if (stream->fiber == NULL)
        stream->fiber = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(stream->fiber, __tsan_switch_to_fiber_no_sync);
    return before;
}

static void switch_back(void *before)
{
    __tsan_switch_to_fiber(before, __tsan_switch_to_fiber_no_sync);
}

void emu_order_after(struct emu_stream *stream, struct emu_op *before)
{
    void *const host = switch_to(stream);
    __tsan_acquire(before);
    switch_back(host);
}

/* Runs on the stream's fiber. */
static void begin(struct emu_stream *stream, struct emu_op *op)
{
    struct emu_device *const device = &emu.devices[stream->device];
    __tsan_acquire(op);
    if (emu_is_legacy(stream))
        __tsan_acquire(&device->order_of_blocking);
    else if (stream->blocking)
        __tsan_acquire(&device->order_of_legacy);
}

void emu_order_begins(struct emu_stream *stream, struct emu_op *op)
{
    void *const host = switch_to(stream);
    begin(stream, op);
    __tsan_release(op);
    switch_back(host);
}

void emu_order_done(struct emu_stream *stream, struct emu_op *op)
{
    struct emu_device *const device = &emu.devices[stream->device];
    void *const host = switch_to(stream);
    begin(stream, op);
    __tsan_release(op);
    __tsan_release(&stream->fiber);
    __tsan_release(&device->order);
    for (unsigned i = 0; i < op->use_count; i++)
        __tsan_release(op->uses[i].alloc);
    if (emu_is_legacy(stream))
        __tsan_release(&device->order_of_legacy);
    else if (stream->blocking)
        __tsan_release(&device->order_of_blocking);
    switch_back(host);
}

void emu_order_stream_gone(struct emu_stream *stream)
{
    if (stream->fiber != NULL)
        __tsan_destroy_fiber(stream->fiber);
    stream->fiber = NULL;
}
