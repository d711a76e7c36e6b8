/*
 * The seam: everything the library needs from a GPU runtime. Exactly one device_*.c fulfils it; nothing else knows
 * which.
 *
 * Contract for all functions:
 * - A status other than SYNCED_MEM_OK has been recorded with sm_fail() (detail: call, size, device, runtime error), and
 *   nothing has changed. Outputs are set only on success.
 * - Any thread may call them. The caller's current device and, unless a call of ours failed, the runtime's last error
 *   are left as they were.
 * - device is a number below sm_device_count(), checked by sm_device_resolve() before anything else.
 * - "sm_stream" is the runtime's stream handle, opaque here; NULL is the legacy stream of the device.
 */
#ifndef SM_DEVICE_H
#define SM_DEVICE_H

#include "synced_mem.h"

#include <stdbool.h>

typedef synced_mem_stream sm_stream;
typedef struct CUevent_st *sm_event;

/* Devices beyond these are not seen. */
enum { SM_MAX_DEVICES = 64 };

/* The library's own streams, one set a device; none of them blocks with the legacy stream. */
enum sm_lane { SM_LANE_H2D, SM_LANE_D2H, SM_LANE_ALLOC, SM_LANE_FREE, SM_LANES };

/* ---- The machine ---- */

/* Devices this process can use; 0 without a runtime, driver or device. */
int sm_device_count(void);

/* Whether this process has used a device through this library: page-locked memory is then worth its price. */
bool sm_device_in_use(void);

/* The number of the device meant by wanted: itself, or for SYNCED_MEM_DEVICE_CURRENT the calling thread's current one.
 * ERR_NO_GPU, ERR_INVALID_DEVICE; from then on sm_device_in_use() is true. */
synced_mem_status sm_device_resolve(int wanted, int *device);

/* Which device a pointer given by a caller is memory of. ERR_INVALID_ARGUMENT for memory of the host. */
synced_mem_status sm_device_of_pointer(const void *data, int *device);

/* Gives back streams and pools of all devices. Waits for the work on the library's own streams. */
synced_mem_status sm_device_shutdown(void);

/* ---- Memory ---- */

/* What the two allocation functions below align their memory to. */
enum { SM_DEVICE_ALIGNMENT = 256 };

/* Page-locked host memory, contents undefined. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_device_pinned_alloc(int device, size_t size, void **out);
synced_mem_status sm_device_pinned_free(int device, void *data);

/* Device memory, contents undefined, usable by work on the stream queued from now on.
 * ERR_OUT_OF_DEVICE_MEMORY. Where pools do not exist it is usable at once, everywhere. */
synced_mem_status sm_device_alloc(int device, size_t size, sm_stream stream, void **out);
/* Frees it behind what the stream has queued. Where pools do not exist it waits for the device. */
synced_mem_status sm_device_free(int device, void *data, sm_stream stream);

/* ---- Streams ---- */

/* One of the library's own streams, created at its first use. */
synced_mem_status sm_device_lane(int device, enum sm_lane lane, sm_stream *out);
/* Whether the stream is one of those. */
bool sm_device_is_lane(int device, sm_stream stream);
synced_mem_status sm_device_stream_sync(int device, sm_stream stream);
/* Work queued on the stream from now on runs after the event's last record. */
synced_mem_status sm_device_stream_wait(int device, sm_stream stream, sm_event event);

/* ---- Work on a stream ---- */

/* Return when queued; but a copy from pageable memory when the source has been read out, and one to pageable memory
 * when it is done. */
synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, sm_stream stream);
synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, sm_stream stream);
synced_mem_status sm_device_zero(int device, void *data, size_t size, sm_stream stream);

/* ---- Events ---- */

synced_mem_status sm_device_event_create(int device, sm_event *out);
synced_mem_status sm_device_event_destroy(int device, sm_event event);
/* stream NULL: covers the legacy stream and with it all blocking streams of the device. */
synced_mem_status sm_device_event_record(int device, sm_event event, sm_stream stream);
/* Blocks the host. ERR_DEVICE_LOST when the work, or the device, has failed. */
synced_mem_status sm_device_event_sync(int device, sm_event event);
synced_mem_status sm_device_event_query(int device, sm_event event, bool *done);

#endif
