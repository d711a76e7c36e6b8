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

/* Makes the device current in a thread of the library's own, once and for all: the calls it makes need not change
 * it. */
void sm_device_stay(int device);

/* What memory is at a pointer given by a caller, as far as the runtime knows. */
enum sm_pointer_kind {
    SM_POINTER_HOST, /* pageable; also what the runtime has never heard of */
    SM_POINTER_PINNED,
    SM_POINTER_DEVICE,
    SM_POINTER_MANAGED
};
struct sm_pointer_facts {
    enum sm_pointer_kind kind;
    int device;      /* of all but pageable memory: whose it is, or in whose context it was page-locked */
    bool concurrent; /* managed memory that the host may touch while kernels run */
};
/* device: is asked while that one is current; -1: the caller's current one. */
synced_mem_status sm_device_look_at(int device, const void *data, struct sm_pointer_facts *facts);

/* Where the device is on the PCI bus: "0000:3B:00.0". */
enum { SM_PCI_ID_BYTES = 32 };
synced_mem_status sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES]);

/* Gives back the pools of all devices, and what was set on them. */
synced_mem_status sm_device_shutdown(void);

/* What the device can do; as for sm_device_resolve(), but sm_device_in_use() is as before. */
synced_mem_status sm_device_info(int wanted, synced_mem_device_info *info);
/* Its memory, as the runtime counts it. */
synced_mem_status sm_device_memory_info(int device, size_t *free, size_t *total);

/* ---- Memory ---- */

/* What the two allocation functions below align their memory to. */
enum { SM_DEVICE_ALIGNMENT = 256 };

/* Page-locks memory of the host that is there already, so that all devices can reach it, by its own address too where
 * they have unified addressing. Ranges may share a page, but no byte. *locked: how many bytes from data on are
 * page-locked then; after a failure 0, but where what was done could not be undone. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_device_host_register(int device, void *data, size_t size, size_t *locked);
/* data, size: as registered. *locked: as above; it shrinks, to 0 on success. No work may be in flight on the memory.
 * May wait for the device. */
synced_mem_status sm_device_host_unregister(int device, void *data, size_t size, size_t *locked);

/* Device memory, contents undefined, usable by work on the stream queued from now on.
 * ERR_OUT_OF_DEVICE_MEMORY. Where pools do not exist it is usable at once, everywhere. */
synced_mem_status sm_device_alloc(int device, size_t size, synced_mem_stream stream, void **out);
/* Frees it behind what the stream has queued. Where pools do not exist it waits for the device. */
synced_mem_status sm_device_free(int device, void *data, synced_mem_stream stream);

/* Whether sm_device_free() only queues: memory can then be freed on any stream of the device. */
bool sm_device_frees_in_order(int device);

/* ---- The library's own pool on each device, from which the above takes memory ---- */

/* The first three make the pool if it is not there yet; where pools do not exist the first two have no effect. */
synced_mem_status sm_device_pool_set_threshold(int device, uint64_t bytes);
synced_mem_status sm_device_pool_set_reuse(int device, unsigned policies);
/* Whether the peer's kernels and transfers may use memory of the device. ERR_INVALID_DEVICE: they can't. */
synced_mem_status sm_device_pool_allow_peer(int device, int peer, bool allow);
/* No effect where there is no pool. */
synced_mem_status sm_device_pool_trim(int device, size_t keep);
synced_mem_status sm_device_pool_reset_peaks(int device);

struct sm_pool_numbers {
    bool known; /* false: there is no pool */
    uint64_t reserved, reserved_high, used, used_high;
};
synced_mem_status sm_device_pool_numbers(int device, struct sm_pool_numbers *numbers);

/* ---- Memory that host and device both use ---- */

struct sm_unified_facts {
    bool integrated; /* the device has no memory of its own */
    bool managed;    /* there is managed memory, and the host may touch it while kernels run */
};
synced_mem_status sm_device_unified_facts(int device, struct sm_unified_facts *facts);

/* Whether the device reaches page-locked memory at the host's address. ERR_INVALID_STATE if at another. */
synced_mem_status sm_device_check_mapped(int device, void *data);

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
/* Whether all its work is done. */
synced_mem_status sm_device_stream_query(int device, synced_mem_stream stream, bool *done);
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

/* Return when queued, or later: pageable memory may be read or written before the call returns, and until the copy is
 * done. Page-locked memory may have been registered in pieces. What is refused half way has ended when the call
 * returns. */
synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_copy_d2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_fill(int device, void *data, unsigned char value, size_t size, synced_mem_stream stream);

/* ---- Events ---- */

synced_mem_status sm_device_event_create(int device, sm_event *out);
synced_mem_status sm_device_event_destroy(int device, sm_event event);
/* stream NULL: covers the legacy stream and with it all blocking streams of the device. */
synced_mem_status sm_device_event_record(int device, sm_event event, synced_mem_stream stream);
/* Blocks the host. ERR_DEVICE_LOST when the work, or the device, has failed. */
synced_mem_status sm_device_event_sync(int device, sm_event event);
synced_mem_status sm_device_event_query(int device, sm_event event, bool *done);

/* ---- For traces ---- */

/* An event that keeps its time. */
synced_mem_status sm_device_timing_create(int device, sm_event *out);
/* The device's time between two such events, both done, in nanoseconds. */
synced_mem_status sm_device_elapsed(int device, sm_event from, sm_event to, uint64_t *nanoseconds);

/* Ranges of the calling thread that a profiler shows; no effect without one. They are nested. */
void sm_device_range_begin(const char *text);
void sm_device_range_end(void);

#endif
