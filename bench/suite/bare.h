/*
 * The calls of the CUDA runtime that a program without the library makes, for the references. There is one bare_*.c for
 * each runtime. A call that fails ends the process. Without a runtime every call but the first two ends the process;
 * rows that need a runtime are skipped.
 */
#ifndef BARE_H
#define BARE_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns whether there is a device. Makes it current and starts it. */
bool bare_start(void);
/* Returns whether the runtime is the emulated one, which is slow and whose figures mean nothing. */
bool bare_is_emulated(void);

void *bare_host_alloc(size_t size); /* cudaMallocHost */
void bare_host_free(void *data);
void bare_register(void *data, size_t size); /* cudaHostRegister */
void bare_unregister(void *data);
void *bare_device_alloc(size_t size); /* cudaMalloc */
void *bare_device_alloc_on(int device, size_t size);
void bare_device_free(void *data);      /* managed memory too */
size_t bare_device_room(void);          /* free bytes: cudaMemGetInfo */
int bare_device_of(const void *memory); /* cudaPointerGetAttributes */

void *bare_managed_alloc(size_t size);                                                    /* cudaMallocManaged */
void bare_prefetch(void *managed, size_t size, bool to_device, synced_mem_stream stream); /* cudaMemPrefetchAsync */

synced_mem_stream bare_stream_create(void); /* non-blocking */
synced_mem_stream bare_stream_create_on(int device);
void bare_stream_destroy(synced_mem_stream stream);
void bare_wait(synced_mem_stream stream); /* cudaStreamSynchronize */
void bare_wait_all(void);                 /* cudaDeviceSynchronize */

/* cudaMemcpy. From pageable memory it may return before all bytes have arrived. */
void bare_copy_up(void *device, const void *host, size_t size);
void bare_copy_down(void *host, const void *device, size_t size);
/* cudaMemcpyAsync */
void bare_queue_up(void *device, const void *host, size_t size, synced_mem_stream stream);
void bare_queue_down(void *host, const void *device, size_t size, synced_mem_stream stream);
void bare_queue_across(void *to, const void *from, size_t size, synced_mem_stream stream); /* on the device */
/* cudaMemcpyPeerAsync, and cudaDeviceEnablePeerAccess in both directions if possible: it makes the copy fast */
void bare_queue_peer(void *to, int to_device, const void *from, int from_device, size_t size, synced_mem_stream stream);
void bare_let_reach(int device, int peer);
/* cudaMemcpyBatchAsync, from or to page-locked memory; and whether runtime and driver have it */
bool bare_has_batches(void);
void bare_queue_batch(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                      synced_mem_stream stream);
/* cudaMemsetAsync: a kernel that any program can launch. */
void bare_queue_fill(void *device, int byte, size_t size, synced_mem_stream stream);

/* Events without timing, the cheapest kind. A wait for an event that was never recorded returns at once. */
struct bare_event;
struct bare_event *bare_event_create(void); /* cudaEventCreateWithFlags */
void bare_event_destroy(struct bare_event *event);
void bare_event_record(struct bare_event *event, synced_mem_stream stream);
void bare_event_wait(struct bare_event *event, synced_mem_stream stream); /* the stream: cudaStreamWaitEvent */
void bare_event_wait_here(struct bare_event *event);                      /* the host: cudaEventSynchronize */
bool bare_event_is_done(struct bare_event *event);                        /* cudaEventQuery */

/* A memory pool that keeps freed memory. */
struct bare_pool;
struct bare_pool *bare_pool_create(void);
void bare_pool_destroy(struct bare_pool *pool);
void *bare_pool_alloc(struct bare_pool *pool, size_t size, synced_mem_stream stream); /* cudaMallocFromPoolAsync */
void bare_pool_free(void *data, synced_mem_stream stream);                            /* cudaFreeAsync */

#endif
