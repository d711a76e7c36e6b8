/**
 * @file
 * Seeing what happens: statistics, printed objects, traces and scopes, and what the program does on failures and when
 * memory is short. synced_mem.h has the defaults that hold for every function.
 */
#ifndef SYNCED_MEM_REPORT_H
#define SYNCED_MEM_REPORT_H

#include "../synced_mem.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Failures ---- */

/** Called in the failing thread, with no lock held. It may call the library, where a failure calls no handler. The
 * message is good until it returns. */
typedef void (*synced_mem_error_handler)(synced_mem_status status, const char *message, void *user);

/** Sets the function that every failing call calls before it returns, for the whole process; NULL (the default): none.
 * Threads: calls meanwhile may still call the previous handler. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_error_handler(synced_mem_error_handler handler, void *user);

/* ---- Out of memory ---- */
/*
 * If memory for contents is refused, the library frees and waits for memory that no object uses, then calls the handler
 * below, and at last returns ERR_OUT_OF_DEVICE_MEMORY or ERR_OUT_OF_HOST_MEMORY: docs/guide/out_of_memory.md.
 */

/** The handler's request. */
typedef struct synced_mem_out_of_memory {
    size_t struct_size; /**< sizeof(synced_mem_out_of_memory), of the library */
    int device;         /**< whose memory was refused; -1: the host's */
    unsigned attempt;   /**< 1 to 16: the number of this call of the handler */
    size_t bytes;       /**< refused */
} synced_mem_out_of_memory;

/** Called in the thread whose call was refused memory, with no lock held. It may call the library, also about the
 * object of that call, whose reference the caller must keep. Calls in the handler do not call it again.
 * @param request  good until the handler returns
 * @return nonzero: something was freed, try again; 0: fail */
typedef int (*synced_mem_out_of_memory_handler)(const synced_mem_out_of_memory *request, void *user);

/** Sets the handler for the whole process; NULL (the default): none.
 * Threads: calls meanwhile may still call the previous handler. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_out_of_memory_handler(synced_mem_out_of_memory_handler handler, void *user);

/** Frees finished memory, and calls due callbacks of adopted memory, as other calls do too. Pending work is no error.
 * Blocking: the CUDA runtime may wait for the device. Errors: ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_reap(void);

/* ---- Numbers ---- */

/** The library's own work and memory, for the process. Counts only grow; "held" is at the time of the call. */
typedef struct synced_mem_stats {
    size_t struct_size;          /**< sizeof(synced_mem_stats) */
    uint64_t objects;            /**< held */
    uint64_t h2d_transfers;      /**< from host to device */
    uint64_t h2d_bytes;          /**< moved by them */
    uint64_t d2h_transfers;      /**< from device to host */
    uint64_t d2h_bytes;          /**< moved by them */
    uint64_t staged_transfers;   /**< those of both kinds that were staged */
    uint64_t host_allocations;   /**< host copies, and memory of both sides */
    uint64_t pageable_bytes;     /**< held */
    uint64_t pinned_bytes;       /**< held: page-locked, mapped too, in use or kept */
    uint64_t pageable_fallbacks; /**< host copies that could not be page-locked */
    uint64_t gpu_allocations;    /**< device copies */
    uint64_t gpu_bytes;          /**< held */
    uint64_t retired;            /**< held: released copies still in use */
    uint64_t quarantined;        /**< copies that nobody may use again */
    uint64_t events;             /**< held: CUDA events, in use or kept */
    uint64_t event_records;      /**< on streams */
    uint64_t stream_waits;       /**< of a stream for an event */
    uint64_t host_waits;         /**< of the host for an event */
    uint64_t oom_reaps;          /**< memory was refused: finished memory was freed */
    uint64_t oom_waits;          /**< ... released memory was waited for */
    uint64_t oom_trims;          /**< ... memory kept for reuse was given back */
    uint64_t oom_callbacks;      /**< ... the handler was called */
    uint64_t oom_failures;       /**< ... and all of that was in vain */
    uint64_t gpu_spare_bytes;    /**< held: in the device cache */
    uint64_t managed_bytes;      /**< held */
    uint64_t prefetches;         /**< of managed memory */
    uint64_t unprotected;        /**< host copies that debug mode could not protect */
} synced_mem_stats;

/** Fills stats, one number after another while other threads go on. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_stats(synced_mem_stats *stats);

/** The version of the library that is running.
 * @return major * 10000 + minor * 100 + patch @since 0.1 */
SYNCED_MEM_API int synced_mem_version(void);

/* ---- Seeing what happens ---- */
/*
 * The library prints nothing by itself, unless the environment asks for it by SYNCED_MEM_TRACE,
 * SYNCED_MEM_TRACE_SUMMARY or SYNCED_MEM_DEBUG: docs/tracing.md. A FILE is flushed and not closed. If it can't be
 * written, the call returns ERR_FILE.
 */

/** Prints a table of the statistics and the pools. The text may change from version to version. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print_stats(FILE *file);

/** Prints an object and its copies in four lines, and a fifth for a view.
 * Errors: ERR_FILE; ERR_FORKED. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print(const synced_mem *mem, FILE *file);

/** Prints every living object, in no fixed order, and then their number.
 * Blocking: for another thread's call on an object that is being printed.
 * @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_print_all(FILE *file);

/** Starts to write every transfer, wait, allocation and change of a head to a file in Chrome's JSON format.
 * @param path  is created, or emptied. NULL, since 0.2: no file, only the numbers of synced_mem_trace_summary()
 * Blocking: opens the file; later calls may write events. Errors: ERR_INVALID_STATE (there is a trace already);
 * ERR_FILE (it can't be opened to write, or no descriptor is left); ERR_OUT_OF_HOST_MEMORY. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_start(const char *path);

/** Writes the rest of the trace, with its summary, and closes the file.
 * Blocking: until queued transfers, and the work before them, are done. Errors: ERR_INVALID_STATE (there is no trace);
 * ERR_FILE (something could not be written). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_stop(void);

/** Prints the objects that went back and forth most in the current or last trace. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_summary(FILE *file);

/** Begins a scope of the calling thread, which traces, their summary and debug mode show, as "outer/inner".
 * @param name  of which at most 47 bytes are copied; NULL or "": a scope that is not shown
 * @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_begin(const char *name);

/** Ends the scope that the calling thread began last, if any. @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_end(void);

#ifdef __cplusplus
}
#endif

#endif
