/*
 * The calls of the CUDA runtime that a program without the library makes, for the references. One bare_*.c a runtime.
 * A call that fails ends the process; without a runtime all of them do but the first two, as rows that need one are
 * skipped.
 */
#ifndef BARE_H
#define BARE_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether there is a device; it becomes the current one, and is started. */
bool bare_start(void);
/* Whether the runtime is the emulated one, whose figures mean nothing, and which is slow. */
bool bare_is_emulated(void);

void *bare_host_alloc(size_t size); /* cudaMallocHost */
void bare_host_free(void *data);
void bare_register(void *data, size_t size); /* cudaHostRegister */
void bare_unregister(void *data);
void *bare_device_alloc(size_t size); /* cudaMalloc */
void bare_device_free(void *data);
size_t bare_device_room(void); /* bytes that are free: cudaMemGetInfo */

synced_mem_stream bare_stream_create(void); /* that does not block with the legacy one */
void bare_stream_destroy(synced_mem_stream stream);
void bare_wait(synced_mem_stream stream); /* cudaStreamSynchronize */
void bare_wait_all(void);                 /* cudaDeviceSynchronize */

/* cudaMemcpy. From pageable memory it may return before all has arrived. */
void bare_copy_up(void *device, const void *host, size_t size);
void bare_copy_down(void *host, const void *device, size_t size);
/* cudaMemcpyAsync */
void bare_queue_up(void *device, const void *host, size_t size, synced_mem_stream stream);
void bare_queue_down(void *host, const void *device, size_t size, synced_mem_stream stream);
void bare_queue_across(void *to, const void *from, size_t size, synced_mem_stream stream); /* on the device */
/* cudaMemcpyBatchAsync, from or to page-locked memory. Whether runtime and driver have it. */
bool bare_has_batches(void);
void bare_queue_batch(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                      synced_mem_stream stream);
/* cudaMemsetAsync: a kernel that any program can launch. */
void bare_queue_fill(void *device, int byte, size_t size, synced_mem_stream stream);

/* Without times, which makes them cheapest. One that was never recorded is waited for at once. */
struct bare_event;
struct bare_event *bare_event_create(void); /* cudaEventCreateWithFlags */
void bare_event_destroy(struct bare_event *event);
void bare_event_record(struct bare_event *event, synced_mem_stream stream);
void bare_event_wait(struct bare_event *event, synced_mem_stream stream); /* the stream: cudaStreamWaitEvent */
void bare_event_wait_here(struct bare_event *event);                      /* the host: cudaEventSynchronize */

/* A memory pool that keeps what was freed. */
struct bare_pool;
struct bare_pool *bare_pool_create(void);
void bare_pool_destroy(struct bare_pool *pool);
void *bare_pool_alloc(struct bare_pool *pool, size_t size, synced_mem_stream stream); /* cudaMallocFromPoolAsync */
void bare_pool_free(void *data, synced_mem_stream stream);                            /* cudaFreeAsync */

#endif
