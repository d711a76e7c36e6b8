/**
 * @file
 * Statistics, printed objects, traces and scopes, and handlers. Defaults: synced_mem.h.
 */
#ifndef SYNCED_MEM_REPORT_H
#define SYNCED_MEM_REPORT_H

#include "../synced_mem.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Failures ---- */

/** Called in the failing thread, without a lock. It may call the library, which then calls no handler. The message is
 * good until it returns. */
typedef void (*synced_mem_error_handler)(synced_mem_status status, const char *message, void *user);

/** Sets what each failing call in the process calls before it returns; NULL (the default): nothing.
 * Threads: calls meanwhile may still call the previous handler. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_error_handler(synced_mem_error_handler handler, void *user);

/* ---- Out of memory ---- */
/*
 * If memory for contents is refused, the library frees and waits for memory that no object uses, evicts objects that
 * nobody holds (synced_mem/budget.h), then calls the handler below, and at last returns ERR_OUT_OF_DEVICE_MEMORY or
 * ERR_OUT_OF_HOST_MEMORY: docs/guide/out_of_memory.md.
 */

/** The handler's request. */
typedef struct synced_mem_out_of_memory {
    size_t struct_size; /**< set by the library */
    int device;         /**< whose memory; -1: the host's */
    unsigned attempt;   /**< counts the calls of the handler, 1 to 16 */
    size_t bytes;       /**< refused */
} synced_mem_out_of_memory;

/** Called in the thread whose call was refused memory, without a lock. It may call the library, which then calls no
 * handler; also about the object of that call, whose reference must stay. The request is good until it returns.
 * @return nonzero: something was freed, try again; 0: fail */
typedef int (*synced_mem_out_of_memory_handler)(const synced_mem_out_of_memory *request, void *user);

/** Sets the handler of the process; NULL (the default): none.
 * Threads: calls meanwhile may still call the previous handler. @since 0.1 */
SYNCED_MEM_API void synced_mem_set_out_of_memory_handler(synced_mem_out_of_memory_handler handler, void *user);

/** Frees finished memory, and calls due callbacks of adopted memory.
 * Blocking: the CUDA runtime may wait for the device. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_reap(void);

/* ---- Numbers ---- */

/** The library's own work and memory in the process. Numbers marked "now" are of this moment; others only grow. */
typedef struct synced_mem_stats {
    size_t struct_size;
    uint64_t objects;            /**< now */
    uint64_t h2d_transfers;      /**< from host to device */
    uint64_t h2d_bytes;          /**< moved by them */
    uint64_t d2h_transfers;      /**< from device to host */
    uint64_t d2h_bytes;          /**< moved by them */
    uint64_t staged_transfers;   /**< of both kinds */
    uint64_t host_allocations;   /**< host copies, unified memory */
    uint64_t pageable_bytes;     /**< now */
    uint64_t pinned_bytes;       /**< now: mapped too, in use or kept */
    uint64_t pageable_fallbacks; /**< host copies not page-locked */
    uint64_t gpu_allocations;    /**< device copies */
    uint64_t gpu_bytes;          /**< now */
    uint64_t retired;            /**< now: released copies still in use */
    uint64_t quarantined;        /**< copies never to be used again */
    uint64_t events;             /**< now: in use or kept */
    uint64_t event_records;      /**< on streams */
    uint64_t stream_waits;       /**< of a stream for an event */
    uint64_t host_waits;         /**< of the host for an event */
    uint64_t oom_reaps;          /**< memory was refused: finished memory freed */
    uint64_t oom_waits;          /**< ... released memory waited for */
    uint64_t oom_trims;          /**< ... kept memory given back */
    uint64_t oom_callbacks;      /**< ... the handler called */
    uint64_t oom_failures;       /**< ... all in vain */
    uint64_t gpu_spare_bytes;    /**< now: in the device cache */
    uint64_t managed_bytes;      /**< now */
    uint64_t prefetches;         /**< of managed memory */
    uint64_t unprotected;        /**< host copies, by debug mode */
    uint64_t kernel_copies;      /**< copies and fills by kernels of the library; an urgent copy counts once */
    uint64_t file_reads;         /**< of chunks of files */
    uint64_t file_read_bytes;    /**< by them */
    uint64_t file_writes;        /**< of chunks of files */
    uint64_t file_write_bytes;   /**< by them */
    uint64_t hold_hits;          /**< objects that a hold on the device found there */
    uint64_t hold_misses;        /**< those that it did not */
    uint64_t hold_nanoseconds;   /**< of holds, to make room */
    uint64_t clean_evictions;    /**< of device copies whose contents were elsewhere too */
    uint64_t dirty_evictions;    /**< of device copies whose contents were pulled first */
    uint64_t evicted_bytes;      /**< by both */
    uint64_t host_evictions;     /**< of host copies whose contents were elsewhere too */
    uint64_t spills;             /**< of host copies whose contents were written to the scratch file first */
    uint64_t host_evicted_bytes; /**< by both */
} synced_mem_stats;

/** Fills stats, number by number while other threads go on. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_get_stats(synced_mem_stats *stats);

/** Returns the running library's version: major * 10000 + minor * 100 + patch. @since 0.1 */
SYNCED_MEM_API int synced_mem_version(void);

/* ---- Seeing what happens ---- */
/*
 * The library prints nothing by itself, unless the environment asks for it by SYNCED_MEM_TRACE,
 * SYNCED_MEM_TRACE_SUMMARY or SYNCED_MEM_DEBUG: docs/tracing.md. A FILE is flushed, not closed.
 *
 * Errors: ERR_FILE (it can't be opened or written).
 */

/** Prints the statistics and the pools, in a format that may change. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print_stats(FILE *file);

/** Prints an object and its copies. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_print(const synced_mem *mem, FILE *file);

/** Prints every living object, and their number. @since 0.2 */
SYNCED_MEM_API synced_mem_status synced_mem_print_all(FILE *file);

/** Starts to write every transfer, wait, allocation and change of a head to a file, which is emptied, in Chrome's JSON
 * format. NULL (since 0.2): only counts for synced_mem_trace_summary().
 * Blocking: for the file, later calls too. Errors: ERR_INVALID_STATE (there is a trace). @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_start(const char *path);

/** Writes the rest of the trace, with its summary, and closes the file.
 * Blocking: until queued transfers, and the work before them, are done. Errors: ERR_INVALID_STATE (there is no trace).
 * @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_stop(void);

/** Prints the objects that went back and forth most in the current or last trace. @since 0.1 */
SYNCED_MEM_API synced_mem_status synced_mem_trace_summary(FILE *file);

/** Begins a scope of the thread, which traces and debug mode show as "outer/inner". Of the name at most 47 bytes are
 * copied; NULL and "" are not shown. @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_begin(const char *name);

/** Ends the thread's last scope, if any. @since 0.2 */
SYNCED_MEM_API void synced_mem_scope_end(void);

#ifdef __cplusplus
}
#endif

#endif
