/*
 * The seam: everything the library needs from a GPU runtime. Exactly one device_*.c fulfils it; nothing else knows
 * which.
 *
 * Contract for all functions:
 * - A status other than SYNCED_MEM_OK has been recorded with sm_fail() (detail: call, size, device, runtime error), and
 *   nothing has changed. Outputs are set only on success.
 * - Any thread may call them. The caller's current device, its stream capture mode and, unless a call of ours failed,
 *   the runtime's last error are left as they were. No capture that is under way is disturbed, if no function is
 *   given a stream that captures, nor the legacy stream while sm_device_stream_look() says that it is capturing.
 * - device is a number below sm_device_count(), checked by sm_device_resolve() before anything else.
 * - Streams are the runtime's handles; NULL is the legacy stream of the device.
 * - In a forked child of a process that used a GPU all but the first two answer ERR_FORKED.
 */
#ifndef SM_DEVICE_H
#define SM_DEVICE_H

#include "synced_mem.h"

#include <stdbool.h>

typedef struct CUevent_st *sm_event;

/* Handles that name a stream without one having been created; NULL is the first one too. */
#define SM_HANDLE_LEGACY ((synced_mem_stream)0x1)
#define SM_HANDLE_PER_THREAD ((synced_mem_stream)0x2)

/* Devices beyond these are not seen. */
enum { SM_MAX_DEVICES = 64 };

/* ---- The machine ---- */

/* Devices this process can use; 0 without a runtime, driver or device, and in a forked child. */
int sm_device_count(void);

/* Whether this process has used a device through this library: page-locked memory is then worth its price. */
bool sm_device_in_use(void);

/* The number of the device meant by wanted: itself, or for SYNCED_MEM_DEVICE_CURRENT the calling thread's current one.
 * ERR_NO_GPU, ERR_INVALID_DEVICE; from then on sm_device_in_use() is true. */
synced_mem_status sm_device_resolve(int wanted, int *device);

/* Which device a pointer given by a caller is memory of. ERR_INVALID_ARGUMENT for memory of the host. */
synced_mem_status sm_device_of_pointer(const void *data, int *device);

/* Gives back the pools of all devices. */
synced_mem_status sm_device_shutdown(void);

/* ---- Memory ---- */

/* What the two allocation functions below align their memory to. */
enum { SM_DEVICE_ALIGNMENT = 256 };

/* Page-locked host memory, contents undefined. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_device_pinned_alloc(int device, size_t size, void **out);
synced_mem_status sm_device_pinned_free(int device, void *data);

/* Device memory, contents undefined, usable by work on the stream queued from now on.
 * ERR_OUT_OF_DEVICE_MEMORY. Where pools do not exist it is usable at once, everywhere. */
synced_mem_status sm_device_alloc(int device, size_t size, synced_mem_stream stream, void **out);
/* Frees it behind what the stream has queued. Where pools do not exist it waits for the device. */
synced_mem_status sm_device_free(int device, void *data, synced_mem_stream stream);

/* ---- Memory that host and device both use ---- */

struct sm_unified_facts {
    bool integrated; /* the device has no memory of its own */
    bool managed;    /* there is managed memory, and the host may touch it while kernels run */
};
synced_mem_status sm_device_unified_facts(int device, struct sm_unified_facts *facts);

/* Whether the device reaches page-locked memory at the host's address. ERR_INVALID_STATE if at another. */
synced_mem_status sm_device_check_mapped(int device, void *data);

/* What nobody has allocated of the device's memory, in bytes, and all of it. */
synced_mem_status sm_device_memory_left(int device, size_t *left, size_t *total);

/* Managed memory, contents undefined, aligned as the functions above do. ERR_OUT_OF_DEVICE_MEMORY. */
synced_mem_status sm_device_managed_alloc(int device, size_t size, void **out);
/* May wait for the device. */
synced_mem_status sm_device_managed_free(int device, void *data);
/* Moves its pages to the device or to the host, in the stream's order; a hint, as it can be used without. */
synced_mem_status sm_device_managed_prefetch(int device, const void *data, size_t size, bool host,
                                             synced_mem_stream stream);
/* Prefers the pages to be on the device. */
synced_mem_status sm_device_managed_advise(int device, const void *data, size_t size);

/* ---- Streams ---- */

/* A stream that does not block with the legacy stream. */
synced_mem_status sm_device_stream_create(int device, synced_mem_stream *out);
/* Its work goes on. */
synced_mem_status sm_device_stream_destroy(int device, synced_mem_stream stream);
synced_mem_status sm_device_stream_sync(int device, synced_mem_stream stream);
/* Work queued on the stream from now on runs after the event's last record. */
synced_mem_status sm_device_stream_wait(int device, synced_mem_stream stream, sm_event event);

struct sm_stream_facts {
    bool capturing; /* for the legacy stream: itself, or a blocking stream of the device */
    uint64_t id; /* given to no other stream, ever; 0 for a stream that captures, and where the runtime does not say */
};
/* Disturbs no capture. The device is that of the stream, or the one whose legacy or per-thread stream is meant. */
synced_mem_status sm_device_stream_look(int device, synced_mem_stream stream, struct sm_stream_facts *facts);
/* The device of a created stream, which must not capture. likely: tried first where the runtime does not say. */
synced_mem_status sm_device_of_stream(synced_mem_stream stream, int likely, int *device);

/* ---- Work on a stream ---- */

/* Return when queued; but a copy from pageable memory when the source has been read out, and one to pageable memory
 * when it is done. */
synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_copy_d2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_zero(int device, void *data, size_t size, synced_mem_stream stream);

/* ---- Events ---- */

synced_mem_status sm_device_event_create(int device, sm_event *out);
synced_mem_status sm_device_event_destroy(int device, sm_event event);
/* stream NULL: covers the legacy stream and with it all blocking streams of the device. */
synced_mem_status sm_device_event_record(int device, sm_event event, synced_mem_stream stream);
/* Blocks the host. ERR_DEVICE_LOST when the work, or the device, has failed. */
synced_mem_status sm_device_event_sync(int device, sm_event event);
synced_mem_status sm_device_event_query(int device, sm_event event, bool *done);

#endif
