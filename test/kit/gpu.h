/*
 * What the tests need of a GPU beside the library: a caller's own streams, memory and kernels. One gpu_*.c a
 * runtime; the tests are the same for all.  Everything here is checked: a call that the runtime refuses fails the
 * test.
 */
#ifndef GPU_H
#define GPU_H

#include "synced_mem.h"

#include <stdbool.h>

/* Whether the runtime could have devices at all; without, every GPU call of the library answers ERR_NO_GPU. */
bool gpu_expected(void);
/* Whether the runtime is the emulated one: its calls cost next to nothing, and what happens is certain. */
bool gpu_is_emulated(void);
/* How many times a suite is run, each time with another schedule of the runtime's. */
int gpu_schedules(void);
/* In the test's process, before all else; answers how many devices there are. */
int gpu_start(unsigned schedule);
/* Once the library was shut down and the test has given back what it took: fails if anything is left. */
void gpu_check_nothing_left(void);

/* Both are 0 where there is no device. */
int gpu_current_device(void);
/* As that, but -1 if the runtime does not say at the second try either. */
int gpu_find_current_device(void);
void gpu_make_current(int device);

void *gpu_alloc(int device, size_t size);
void *gpu_managed_alloc(int device, size_t size);
void gpu_free(void *data);
void *gpu_pinned_alloc(size_t size);
void gpu_pinned_free(void *data);
/* Page-locks memory that is there, and undoes it. */
void gpu_register(void *data, size_t size);
void gpu_unregister(void *data);
void gpu_unregister_if_registered(void *data);

/* A stream of the device; what is not blocking does not wait for the legacy stream, nor that for it. */
synced_mem_stream gpu_stream_create(int device, bool blocking);
void gpu_stream_destroy(synced_mem_stream stream);
void gpu_stream_sync(synced_mem_stream stream);
/* Whether all its work is done. */
bool gpu_stream_is_idle(synced_mem_stream stream);
/* Whether there is cudaStreamPerThread. */
bool gpu_has_per_thread_stream(void);
/* Waits for all work of the device. */
void gpu_sync_device(int device);
/* Whether work is queued that has not run, on any of the streams; asks without running any, where that can be had. */
bool gpu_is_busy(const synced_mem_stream *streams, int count);

/* ---- Kernels: queued on the stream, NULL is the legacy stream of the current device ---- */

/* Writes the pattern of pattern.h. */
void gpu_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream);
/* As that, but false if the runtime does not take it. */
bool gpu_try_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream);
/* Reads one piece of device memory into another. */
void gpu_copy(void *to, const void *from, size_t size, synced_mem_stream stream);
/* As that, but false if the runtime does not take it. */
bool gpu_try_copy(void *to, const void *from, size_t size, synced_mem_stream stream);
/* Writes what a piece of device memory holds into page-locked memory. */
void gpu_copy_to_host(void *to, const void *from, size_t size, synced_mem_stream stream);
/* Takes a while. */
void gpu_delay(synced_mem_stream stream);
/* Does not end before gpu_unhold(): whoever waits for it until then waits for ever. One at a time. */
void gpu_hold(synced_mem_stream stream);
void gpu_unhold(void);
/* Takes long enough for some calls. */
void gpu_pause(synced_mem_stream stream);
/* Writes the pattern to page-locked host memory. */
void gpu_fill_host(void *data, size_t size, unsigned pattern, synced_mem_stream stream);
/* Compares device memory with the bytes, which are copied. What differs is counted; with all, whatever is queued on the
 * devices is waited for before. */
void gpu_expect(const void *data, size_t size, const void *expected, synced_mem_stream stream);
unsigned gpu_mismatches(bool all);
/* Waits for the device's work, and reads. */
void gpu_read(void *to, const void *from, size_t size);

/* ---- Failures ---- */

/* Makes the nth call from now on fail, whoever makes it, of a kind that queues work, or waits for it: which names the
 * kind. Not more than 64 at a time. False: here no call can be made to fail. */
bool gpu_fail(unsigned which, unsigned nth);
/* Those that have not come to pass do not. */
void gpu_fail_no_more(void);

/* ---- What the runtime tells of itself; 0 where it does not ---- */

/* How often a call of the runtime's was made; NULL: all of them. */
unsigned gpu_calls(const char *call);
/* How much queued work has certainly not run yet. */
size_t gpu_unfinished(void);

/* The host is about to read or write page-locked memory; for a runtime that looks for races. */
void gpu_note_host_read(const void *data, size_t size);
void gpu_note_host_write(const void *data, size_t size);

#endif
