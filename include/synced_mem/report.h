/**
 * @file
 * Seeing what happens: statistics, printed objects, traces and scopes, and what the program does on failures and
 * when memory is short. synced_mem.h has the defaults that hold for every function.
 */
#ifndef SYNCED_MEM_REPORT_H
#define SYNCED_MEM_REPORT_H

#include "../synced_mem.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Failures ---- */

/** Called in the failing thread, after the failed call has undone everything and with no lock held. It may call the
 * library; a failure inside it becomes the thread's last error but calls no handler. The message is good until the
 * handler returns. */
typedef void (*synced_mem_error_handler)(synced_mem_status status, const char *message, void *user);

/** Sets the function that every failing call calls with user before it returns, for the whole process; NULL (the
 * default): none. A program that wants Caffe's fatal CHECK sets one that aborts.
 * Threads: a call that fails meanwhile in another thread may still call the previous handler, with its user pointer.
 * @since 0.1 */
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
 * Threads: a call of another thread may meanwhile still call the previous handler, with its user pointer. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_out_of_memory_handler(synced_mem_out_of_memory_handler handler, void *user);

/** Frees released memory whose last use has finished, and calls due callbacks of adopted memory. Other calls do the
 * same on their slow path; a program that makes none for a while can call this one. Pending work is no error. Memory
 * that another thread is just reaping is left to that thread. A callback calls no other callback: those that become due
 * by what it releases follow when it has returned, in the same call.
 * Blocking: to undo SYNCED_MEM_MEMORY_PAGE_LOCK, or to free segments by synced_mem_host_pool_set_decay(), the CUDA
 * runtime may wait for the device. Ownership: adopted memory is the caller's again at its callback. Errors: ERR_FORKED.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_reap(void);

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
    uint64_t oom_reaps;          /**< memory was refused: finished memory was freed, see docs/guide/out_of_memory.md */
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
 * library. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_stats(synced_mem_stats *stats);

/** The version of the library that is running.
 * @return major * 10000 + minor * 100 + patch @since 0.1 */
SYNCED_MEM_API int synced_mem_version(void);

/* ---- Seeing what happens ---- */
/*
 * Three environment variables work with any program: SYNCED_MEM_TRACE=trace.json writes a trace to trace.PID.json, with
 * the number of the process in the name; SYNCED_MEM_TRACE_SUMMARY=1 prints a summary at the end; SYNCED_MEM_DEBUG=1 is
 * debug mode, which protects stale host copies and fills overwrites with 0xff. Their lines on stderr are the only ones
 * that the library prints by itself. A FILE must be open to write; the library flushes it and does not close it. If it
 * can't be written, the call returns ERR_FILE. Details: docs/tracing.md.
 */

/** Prints a table of the library's statistics, of both kinds of pools on each used device, and how transfers are
 * staged. Bytes are exact, and once more in units of 1024. Lines have at most 100 columns; their text may change from
 * version to version. Starts nothing of CUDA's.
 * Errors: ERR_FILE. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print_stats(FILE *file);

/** Prints an object in four lines: its name and address; its size, head, device and placement; and of each copy the
 * source, the capacity, whether it has the contents, the number of transfers to this memory, and whether the memory is
 * read-only or exported as a tensor. A view has a fifth line, with its root and offset. A copy with the contents of
 * some parts alone is "in parts". The number of an object in parts is the sum of its parts' numbers. When a view
 * divides a part, the left half keeps the number.
 * Errors: ERR_FILE; ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print(const synced_mem *mem, FILE *file);

/** Prints every living object, in no fixed order, and then their number. Objects made or released meanwhile may be
 * missing. No lock is held while the file is written, so the file's own code (fopencookie()) may release the object
 * that is written. In a forked child the parent's objects, whose memory can't be read, take two lines.
 * Blocking: only for another thread's call on an object that is being printed, whose last release waits meanwhile.
 * Errors: ERR_FILE. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_print_all(FILE *file);

/** Starts to write every transfer, wait, allocation and change of a head to a file, in the JSON format of Chrome's
 * traces (chrome://tracing, Perfetto). A forked child does not go on.
 * @param path  is created, or emptied. NULL, since 0.2: no file; only the numbers of synced_mem_trace_summary() are
 *              kept, no event is recorded on a stream, and nothing is waited for
 * Blocking: opens the file. Any later call may take the time to write events, or to query times of the device. Only
 * synced_mem_trace_stop(), synced_mem_shutdown() and exit() wait for transfers. Errors: ERR_INVALID_STATE (there is a
 * trace already); ERR_FILE (it can't be opened to write, or there is no descriptor left); ERR_OUT_OF_HOST_MEMORY.
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_start(const char *path);

/** Writes the rest of the trace, with its summary, and closes the file.
 * Blocking: until queued transfers, and the work before them, are done. Errors: ERR_INVALID_STATE (there is no trace;
 * the detail has the reason if the environment requested one and none was started since); ERR_FILE (something could not
 * be written; the file is closed). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_stop(void);

/** Prints the objects, at most ten, that went back and forth most since the trace began, or in the last trace, with the
 * calls that caused their transfers: docs/tracing.md, "Finding a needless transfer".
 * Errors: ERR_FILE. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_summary(FILE *file);

/** Begins a scope of the calling thread, within those that it has begun; each thread has scopes of its own. At most 47
 * bytes of the name are copied; NULL or "": a scope that is not shown. Traces, their summary and debug mode show a
 * call's scopes, as "outer/inner": docs/tracing.md, "Scopes". @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_begin(const char *name);

/** Ends the scope that the calling thread began last; without one it does nothing. @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_end(void);

#ifdef __cplusplus
}
#endif

#endif
