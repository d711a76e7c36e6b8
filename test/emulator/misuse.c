/*
 * Reports of undefined use of CUDA, and of leaks at exit.
 */
#include "emu.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAMES 16

const char *emu_describe(const struct emu_origin *origin)
{
    static _Thread_local char buffers[4][256];
    static _Thread_local unsigned next;
    char *buffer = buffers[next++ % 4];
    const char *call = origin->call == NULL ? "?" : origin->call;
    /* The return address is behind the call, which may be the last instruction of its function. */
    const char *site = origin->site == NULL ? NULL : (const char *)origin->site - 1;
    Dl_info info;
    if (site == NULL || dladdr(site, &info) == 0)
        snprintf(buffer, sizeof *buffers, "%s at %p", call, origin->site);
    else if (info.dli_sname != NULL)
        snprintf(buffer, sizeof *buffers, "%s in %s (%s+0x%tx)", call, info.dli_sname, info.dli_fname,
                 site - (const char *)info.dli_fbase);
    else
        snprintf(buffer, sizeof *buffers, "%s in %s+0x%tx", call, info.dli_fname, site - (const char *)info.dli_fbase);
    return buffer;
}

/* ---- Names of objects ---- */

static bool (*namer)(const void *address, char *name, size_t room);

void emu_set_namer(bool (*name)(const void *address, char *name, size_t room))
{
    emu_lock();
    namer = name;
    emu_unlock();
}

/* The namer may call the runtime, so the lock is released around it. */
const char *emu_name_of(const void *address, char *name, size_t room)
{
    bool (*const ask)(const void *address, char *name, size_t room) = namer;
    if (ask == NULL)
        return "";
    struct emu_thread *thread = emu_self();
    const struct emu_thread before = *thread;
    thread->locked = false;
    emu_unlock();
    const bool known = ask(address, name, room);
    emu_lock();
    *thread = before;
    return known ? name : "";
}

/* ---- Faults ---- */

static struct sigaction next_action;

static void print_fault(const void *address)
{
    char text[512];
    const struct emu_alloc *alloc = emu_find(address); /* without the lock, as this thread may have it */
    const int used = snprintf(text, sizeof text,
                              "cudart_emu: fault: %p is memory of a device, which the host may not access: %s%s\n",
                              address, alloc == NULL ? "it is not allocated" : "it is from ",
                              alloc == NULL ? "" : emu_describe(&alloc->born));
    const ssize_t wrote = write(STDERR_FILENO, text, used < (int)sizeof text ? (size_t)used : sizeof text - 1);
    (void)wrote;
}

static void handle_fault(int number, siginfo_t *info, void *context)
{
    if (info->si_code > 0 && emu_is_device_address(info->si_addr))
        print_fault(info->si_addr);
    if (next_action.sa_flags & SA_SIGINFO)
        next_action.sa_sigaction(number, info, context);
    else if (next_action.sa_handler == SIG_DFL || next_action.sa_handler == SIG_IGN)
        (void)sigaction(number, &next_action, NULL); /* the fault repeats at its instruction */
    else
        next_action.sa_handler(number);
}

void emu_catch_faults(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    (void)sigaction(SIGSEGV, NULL, &next_action);
    if (!(next_action.sa_flags & SA_SIGINFO) || next_action.sa_sigaction != handle_fault)
        (void)sigaction(SIGSEGV, &action, NULL);
}

/* ---- Misuse ---- */

static void fail_loudly(const char *report)
{
    const void *frames[FRAMES];
    fprintf(stderr, "cudart_emu: %s\n", report);
    fflush(stderr);
    emu_print_frames(frames, emu_frames(frames, FRAMES));
    abort();
}

/* The handler may call the functions of cudart_emu.h. So the lock is released around it. The caller has changed nothing
 * yet, and only leaves afterwards. */
cudaError_t emu_misuse(const char *format, ...)
{
    struct emu_thread *thread = emu_self();
    char what[768], report[1152];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(report, sizeof report, "misuse: %s: %s", emu_describe(&thread->origin), what);
    void (*handler)(const char *, void *) = emu.misuse_handler;
    void *user = emu.misuse_user;
    if (handler == NULL)
        fail_loudly(report);
    const struct emu_thread before = *thread;
    thread->locked = false;
    emu_unlock();
    handler(report, user);
    emu_lock();
    *thread = before;
    return cudaErrorUnknown;
}

void emu_set_misuse_handler(void (*handler)(const char *report, void *user), void *user)
{
    emu_lock();
    emu.misuse_handler = handler;
    emu.misuse_user = user;
    emu_unlock();
}

void emu_report_leaks(bool on)
{
    emu_lock();
    emu.report_leaks = on;
    emu_unlock();
}

size_t emu_live(enum emu_kind kind)
{
    emu_lock();
    const size_t count = emu.live[kind];
    emu_unlock();
    return count;
}

size_t emu_live_bytes(enum emu_kind kind)
{
    emu_lock();
    const size_t bytes = emu.live_bytes[kind];
    emu_unlock();
    return bytes;
}

static void report_leaked_memory(const struct emu_alloc *alloc)
{
    if (alloc == NULL)
        return;
    report_leaked_memory(alloc->left);
    if (alloc->state == EMU_LIVE)
        fprintf(stderr, "cudart_emu:   %p, %zu bytes: %s\n", (void *)alloc->start, alloc->size,
                emu_describe(&alloc->born));
    report_leaked_memory(alloc->right);
}

static void report_leaked_handles(void)
{
    for (size_t i = 0; i < emu.streams.used; i++) {
        const struct CUstream_st *stream = &((const struct CUstream_st *)(void *)emu.streams.base)[i];
        if (stream->slot.live)
            fprintf(stderr, "cudart_emu:   stream: %s\n", emu_describe(&stream->stream->born));
    }
    for (size_t i = 0; i < emu.events.used; i++) {
        const struct CUevent_st *event = &((const struct CUevent_st *)(void *)emu.events.base)[i];
        if (event->slot.live)
            fprintf(stderr, "cudart_emu:   event: %s\n", emu_describe(&event->born));
    }
    for (size_t i = 0; i < emu.graph_handles.used; i++) {
        const struct CUgraph_st *graph = &((const struct CUgraph_st *)(void *)emu.graph_handles.base)[i];
        if (graph->slot.live)
            fprintf(stderr, "cudart_emu:   graph: %s\n", emu_describe(&graph->born));
    }
    for (size_t i = 0; i < emu.exec_handles.used; i++) {
        const struct CUgraphExec_st *exec = &((const struct CUgraphExec_st *)(void *)emu.exec_handles.base)[i];
        if (exec->slot.live)
            fprintf(stderr, "cudart_emu:   executable graph: %s\n", emu_describe(&exec->born));
    }
    for (size_t i = 0; i < emu.memory_handles.used; i++) {
        const struct emu_memory_handle *handle =
            &((const struct emu_memory_handle *)(void *)emu.memory_handles.base)[i];
        if (handle->slot.live)
            fprintf(stderr, "cudart_emu:   handle of memory, %zu bytes: %s\n", handle->memory->size,
                    emu_describe(&handle->born));
    }
    for (size_t i = 0; i < emu.libraries.used; i++) {
        const struct CUlib_st *library = &((const struct CUlib_st *)(void *)emu.libraries.base)[i];
        if (library->slot.live)
            fprintf(stderr, "cudart_emu:   library of kernels: %s\n", emu_describe(&library->born));
    }
    for (const struct emu_reserved *range = emu.reservations; range != NULL; range = range->next)
        fprintf(stderr, "cudart_emu:   address range: %p, %zu bytes: %s\n", (void *)range->start, range->size,
                emu_describe(&range->born));
    for (const struct emu_pool *pool = emu.pools; pool != NULL; pool = pool->next)
        if (pool->handle != NULL && pool != emu.devices[pool->device].default_pool)
            fprintf(stderr, "cudart_emu:   pool: %s\n", emu_describe(&pool->born));
}

void emu_check_leaks(void)
{
    static const char *const names[EMU_KINDS] = {"device memory",
                                                 "page-locked memory",
                                                 "registered memory",
                                                 "managed memory",
                                                 "streams",
                                                 "events",
                                                 "pools",
                                                 "graphs",
                                                 "executable graphs",
                                                 "handles of memory",
                                                 "address ranges",
                                                 "libraries of kernels"};
    bool any = false;
    /* A forked child owns nothing of its parent's. */
    if (!emu.report_leaks || emu.forked)
        return;
    for (int kind = 0; kind < EMU_KINDS; kind++) {
        if (emu.live[kind] == 0)
            continue;
        any = true;
        fprintf(stderr, "cudart_emu: leak: %zu of %s, %zu bytes\n", emu.live[kind], names[kind], emu.live_bytes[kind]);
    }
    if (!any)
        return;
    report_leaked_memory(emu.tree);
    report_leaked_handles();
    fflush(NULL);
    _exit(1);
}
