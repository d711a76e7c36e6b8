/*
 * The tests' own use of a GPU: a caller's streams, memory and kernels. There is one gpu_*.c for each runtime; the tests
 * are the same for all. Everything here is checked: a call that the runtime refuses fails the test.
 */
#ifndef GPU_H
#define GPU_H

#include "synced_mem.h"

#include <stdbool.h>

/* Returns whether the runtime can have devices. Otherwise every GPU call of the library returns ERR_NO_GPU. */
bool gpu_expected(void);
/* Returns whether the runtime is the emulated one. Its calls take almost no time, and its behaviour is deterministic.
 * */
bool gpu_is_emulated(void);
/* Returns how often a suite is run, each time with another schedule of the runtime. */
int gpu_schedules(void);
/* Starts the runtime in the test's process, before all else. Returns the number of devices. */
int gpu_start(unsigned schedule);
/* Fails if anything is left. Call it after the library was shut down and the test has freed its own memory. */
void gpu_check_nothing_left(void);

/* Both return 0 without a device. */
int gpu_current_device(void);
/* The same, but -1 if the runtime refuses the query twice. */
int gpu_find_current_device(void);
void gpu_make_current(int device);

void *gpu_alloc(int device, size_t size);
void *gpu_managed_alloc(int device, size_t size);
void gpu_free(void *data);
void *gpu_pinned_alloc(size_t size);
void gpu_pinned_free(void *data);
/* Page-lock existing memory, and undo it. */
void gpu_register(void *data, size_t size);
void gpu_unregister(void *data);
void gpu_unregister_if_registered(void *data);

/* A stream of the device. A non-blocking stream is not ordered with the legacy stream. */
synced_mem_stream gpu_stream_create(int device, bool blocking);
void gpu_stream_destroy(synced_mem_stream stream);
void gpu_stream_sync(synced_mem_stream stream);
/* Returns whether all its work is done. */
bool gpu_stream_is_idle(synced_mem_stream stream);
/* Returns whether cudaStreamPerThread exists. */
bool gpu_has_per_thread_stream(void);
/* Returns whether the runtime tells a stream from an earlier one of the same handle, as from CUDA 12.0 on. Where it
 * does not, the library forgets a stream without uses, which then waits for its own earlier work as for another's. */
bool gpu_has_stream_ids(void);
/* Waits for all work of the device. */
void gpu_sync_device(int device);
/* Returns whether any of the streams has work that has not run. Runs no work by that, where possible. */
bool gpu_is_busy(const synced_mem_stream *streams, int count);

/* ---- Kernels: queued on the stream; NULL is the legacy stream of the current device ---- */

/* Writes the pattern of pattern.h. */
void gpu_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream);
/* The same, but returns false if the runtime refuses it. */
bool gpu_try_fill(void *data, size_t size, unsigned pattern, synced_mem_stream stream);
/* Copies one piece of device memory to another. */
void gpu_copy(void *to, const void *from, size_t size, synced_mem_stream stream);
/* The same, but returns false if the runtime refuses it. */
bool gpu_try_copy(void *to, const void *from, size_t size, synced_mem_stream stream);
/* Copies a piece of device memory to page-locked memory. */
void gpu_copy_to_host(void *to, const void *from, size_t size, synced_mem_stream stream);
/* Queues work that takes a while. */
void gpu_delay(synced_mem_stream stream);
/* Queues work that does not end before gpu_unhold(). A wait for it before that never ends. One at a time. */
void gpu_hold(synced_mem_stream stream);
void gpu_unhold(void);
/* Queues work that takes as long as several calls. */
void gpu_pause(synced_mem_stream stream);
/* Writes the pattern to page-locked host memory. */
void gpu_fill_host(void *data, size_t size, unsigned pattern, synced_mem_stream stream);
/* Compares device memory with the bytes, which are copied. gpu_mismatches() returns the number of differences; with
 * `all` it waits for all work on the devices first. */
void gpu_expect(const void *data, size_t size, const void *expected, synced_mem_stream stream);
unsigned gpu_mismatches(bool all);
/* Waits for the device's work, and copies to the host. */
void gpu_read(void *to, const void *from, size_t size);

/* ---- Failures ---- */

/* Makes the nth call of a kind from now on fail, on any thread. `which` names the kind: calls that queue work, or that
 * wait for it. At most 64 at a time. Returns false if calls cannot be made to fail here. */
bool gpu_fail(unsigned which, unsigned nth);
/* Cancels failures that have not happened. */
void gpu_fail_no_more(void);

/* ---- Numbers of the runtime; 0 where it has none ---- */

/* Returns how often a call of the runtime was made; NULL: all calls. */
unsigned gpu_calls(const char *call);
/* Returns how much queued work is known not to have run yet. */
size_t gpu_unfinished(void);

/* Announce that the host is about to read or write page-locked memory, for a runtime that searches for races. */
void gpu_note_host_read(const void *data, size_t size);
void gpu_note_host_write(const void *data, size_t size);

#endif
