/*
 * Kernels and host functions: the code that streams run. It runs with the lock released.
 */
#include "emu.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* The time for which a thread that starts a host function by chance waits for it. Most functions are short, and then
 * the seed's schedule is the same in every run. */
#define SHORT_WAIT_NS 20000000L

static _Thread_local const struct emu_op *running;

static struct {
    pthread_cond_t wake;
    bool started;
    bool busy;
    struct emu_op *first, *last;
} worker = {.wake = PTHREAD_COND_INITIALIZER};

/* Called with the lock, which is released meanwhile. */
static void call_function(struct emu_op *op)
{
    const struct emu_thread before = *emu_self();
    /* A kernel has no current device and no last error. It must not change those of the thread on which it runs. */
    emu_self()->function = op;
    emu_self()->last_error = cudaSuccess;
    running = op;
    emu_unlock();
    /* A device runs kernels. So their accesses are not this thread's. */
    if (op->kind == EMU_OP_KERNEL)
        emu_hide();
    op->function(op->argument);
    if (op->kind == EMU_OP_KERNEL)
        emu_show();
    emu_lock();
    running = NULL;
    *emu_self() = before;
}

void emu_run_kernel(struct emu_op *op)
{
    call_function(op);
}

static void *run_host_functions(void *unused)
{
    emu_lock();
    for (;;) {
        struct emu_op *op = worker.first;
        if (op == NULL) {
            pthread_cond_wait(&worker.wake, &emu.lock);
            continue;
        }
        worker.first = op->next_function;
        worker.busy = true;
        emu_order_function_begins(op);
        call_function(op);
        emu_order_function_ended(op);
        worker.busy = false;
        emu_complete(op);
    }
    return unused;
}

static void start_worker(void)
{
    pthread_t thread;
    sigset_t all, before;
    if (worker.started)
        return;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* a fault is named */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    worker.started = pthread_create(&thread, NULL, run_host_functions, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!worker.started)
        abort();
    pthread_detach(thread);
}

static void wait_a_little(const struct emu_op *op)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SHORT_WAIT_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    while (op->state != EMU_OP_DONE && pthread_cond_timedwait(&emu.ran, &emu.lock, &until) == 0)
        continue;
}

void emu_start_host_function(struct emu_op *op)
{
    start_worker();
    op->next_function = NULL;
    if (worker.first == NULL)
        worker.first = op;
    else
        worker.last->next_function = op;
    worker.last = op;
    pthread_cond_signal(&worker.wake);
    emu_op_ref(op);
    wait_a_little(op);
    emu_op_unref(op);
}

/* Drops functions that have not begun, and waits for the one that runs. */
void emu_host_functions_reset(void)
{
    worker.first = NULL;
    while (worker.busy && !emu_in_function())
        pthread_cond_wait(&emu.ran, &emu.lock);
}

/* A forked child does not have the thread. */
void emu_host_functions_forked(void)
{
    pthread_cond_init(&worker.wake, NULL);
    worker.started = worker.busy = false;
    worker.first = NULL;
}

void *emu_pointer(const void *device_address)
{
    if (running == NULL || running->kind != EMU_OP_KERNEL)
        return NULL;
    for (unsigned i = 0; i < running->use_count; i++) {
        const struct emu_use *use = &running->uses[i];
        const size_t offset = (uintptr_t)device_address - (uintptr_t)use->start;
        if (offset < use->size)
            return use->bytes + offset;
    }
    return NULL;
}

/* ---- Kernels ---- */

/* A kernel breaks the device when it runs, if it touches memory that its device cannot access. */
cudaError_t emu_kernel_fault(int device, const struct emu_alloc *alloc, bool write)
{
    if (alloc->memory != NULL)
        return emu_mapping_permits(alloc, device) ? cudaSuccess : cudaErrorIllegalAddress;
    if (alloc->kind != EMU_DEVICE_MEMORY || emu_peer_reachable(device, alloc->device, alloc->pool, write))
        return cudaSuccess;
    return cudaErrorIllegalAddress;
}

cudaError_t emu_check_ranges(const struct emu_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct emu_alloc *alloc = NULL;
        if (ranges[i].size == 0)
            continue;
        const bool whole = ranges[i].size == EMU_WHOLE;
        const cudaError_t error = emu_resolve(ranges[i].data, whole ? 1 : ranges[i].size, &alloc);
        if (error == cudaErrorUnknown)
            return error;
        if (error != cudaSuccess || alloc == NULL)
            return whole ? emu_misuse("%p is in no memory that a kernel can touch", ranges[i].data)
                         : emu_misuse("%p, %zu bytes, is not memory that a kernel can touch", ranges[i].data,
                                      ranges[i].size);
    }
    return cudaSuccess;
}

static void touch(struct emu_op *op, const struct emu_range *range)
{
    struct emu_alloc *alloc = range->size == 0 ? NULL : emu_find(range->data);
    if (alloc == NULL)
        return;
    if (op->fault == cudaSuccess)
        op->fault = emu_kernel_fault(op->device, alloc, range->write);
    if (range->size == EMU_WHOLE)
        emu_op_touches(op, alloc, alloc->start, alloc->size, range->write);
    else
        emu_op_touches(op, alloc, range->data, range->size, range->write);
}

void emu_op_touches_ranges(struct emu_op *op, const struct emu_range *ranges, size_t count)
{
    emu_op_room_for_uses(op, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        touch(op, &ranges[i]);
}

static cudaError_t launch(cudaStream_t handle, void (*function)(void *), void *argument, const struct emu_range *ranges,
                          size_t count)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = emu_stream_to_queue(handle, &stream);
    if (error == cudaSuccess)
        error = function == NULL ? cudaErrorInvalidDeviceFunction : emu_check_ranges(ranges, count);
    if (error != cudaSuccess)
        return error;
    struct emu_op *op = emu_op_new(EMU_OP_KERNEL, stream);
    op->function = function;
    op->argument = argument;
    emu_op_touches_ranges(op, ranges, count);
    emu_op_queue(op);
    return cudaSuccess;
}

cudaError_t emu_launch(cudaStream_t stream, void (*function)(void *argument), void *argument,
                       const struct emu_range *ranges, size_t count)
{
    cudaError_t error = emu_enter_uncounted("emu_launch", EMU_NEEDS_CONTEXT, __builtin_return_address(0));
    if (error == cudaSuccess)
        error = launch(stream, function, argument, ranges, count);
    return emu_leave(error);
}

/* ---- Host functions ---- */

static cudaError_t launch_host(cudaStream_t handle, cudaHostFn_t function, void *argument)
{
    struct emu_stream *stream = NULL;
    const cudaError_t error = emu_stream_to_queue(handle, &stream);
    if (error != cudaSuccess)
        return error;
    if (function == NULL)
        return cudaErrorInvalidValue;
    struct emu_op *op = emu_op_new(EMU_OP_HOST, stream);
    op->function = function;
    op->argument = argument;
    emu_op_queue(op);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    cudaError_t error = EMU_ENTER(cudaLaunchHostFunc, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = launch_host(stream, fn, userData);
    return emu_leave(error);
}

/* ---- The host's own accesses ---- */

/* Only a part of the range may be registered memory. The rest is pageable. */
static void access_registered(const char *data, size_t size, bool write)
{
    const uintptr_t end = (uintptr_t)data + size;
    for (struct emu_alloc *alloc; (alloc = emu_find_overlap(data, size)) != NULL;) {
        const uintptr_t start = (uintptr_t)(data > alloc->start ? data : alloc->start);
        const uintptr_t alloc_end = (uintptr_t)alloc->start + alloc->size;
        const uintptr_t stop = end < alloc_end ? end : alloc_end;
        if (alloc->kind == EMU_REGISTERED)
            emu_race_host_access(alloc, (const void *)start, stop - start, write);
        if (stop >= end)
            break;
        data = (const char *)stop;
        size = end - stop;
    }
}

static void host_access(const char *name, const void *data, size_t size, bool write, const void *site)
{
    if (size == 0)
        return;
    emu_lock();
    struct emu_thread *thread = emu_self();
    struct emu_arena *host = &emu.host;
    struct emu_alloc *alloc = emu_find(data);
    const bool ours = host->address != NULL && (uintptr_t)data - (uintptr_t)host->address < host->top;
    thread->origin = (struct emu_origin){name, site};
    if (emu_is_device_address(data))
        (void)emu_misuse("the host touches device memory, %p", data);
    else if (alloc == NULL ? !ours : alloc->kind == EMU_REGISTERED)
        access_registered(data, size, write);
    else if (alloc == NULL || size > alloc->size - (size_t)((const char *)data - alloc->start))
        (void)emu_misuse("%p, %zu bytes, is not, or no longer, allocated host memory", data, size);
    else
        emu_race_host_access(alloc, data, size, write);
    emu_unlock();
}

void emu_host_read(const void *data, size_t size)
{
    host_access("emu_host_read", data, size, false, __builtin_return_address(0));
}

void emu_host_write(const void *data, size_t size)
{
    host_access("emu_host_write", data, size, true, __builtin_return_address(0));
}
