/*
 * The seam: everything that the library needs from a GPU runtime. Exactly one implementation is linked: device/cuda/,
 * on the CUDA runtime or the emulated one, or device/none.c. No file outside device/ knows which. Its words:
 *
 * - device: a GPU, by its number. The current device is the one that the runtime uses for a thread's calls.
 * - stream: a queue of work on a device. Blocking streams and the device's legacy stream wait for each other.
 * - event: a mark in a stream's work. It is recorded, and then queried, or waited for by the host or by another stream.
 * - capture: a stream that captures records its work in a graph and does not run it.
 * - page-locked: host memory that devices access directly. Registered: page-locked after its allocation.
 * - mapped: page-locked memory that a device uses at the host's address.
 * - managed: memory that host and device both use, and whose pages the runtime moves.
 * - pool: the library's own pool of memory on a device. Peer: another device that may use memory of the pool.
 * - list: copies or fills that one kernel makes (copy_list.h).
 * - range: a named span of a thread's work that a profiler shows.
 *
 * Contract for all functions:
 * - A status other than SYNCED_MEM_OK has been recorded with sm_fail(), and nothing has changed. The detail names the
 *   call, the size, the device and the runtime's error. Outputs are set only on success.
 * - Any thread may call them. They leave the caller's current device and stream capture mode as they were. The
 *   runtime's last error stays too, unless a call of the library fails.
 * - They disturb no capture under way, provided that no function gets a stream that captures. The legacy stream counts
 *   as one while sm_device_stream_query_capture() reports that it captures.
 * - device is a number below sm_device_count(). sm_device_resolve() checks it before any other function gets it.
 * - Streams are the runtime's handles; NULL is the device's legacy stream.
 * - In a forked child of a process that used a GPU, a function that needs the runtime returns ERR_FORKED.
 */
#ifndef SM_DEVICE_H
#define SM_DEVICE_H

#include "device/copy_list.h"
#include "synced_mem.h"

#include <stdbool.h>

typedef struct CUevent_st *sm_event;

/* The runtime's handles of streams that exist without being created. NULL names the legacy stream too. */
#define SM_HANDLE_LEGACY ((synced_mem_stream)0x1)
#define SM_HANDLE_PER_THREAD ((synced_mem_stream)0x2)

/* The library does not see further devices. */
enum { SM_MAX_DEVICES = 64 };

/* ---- The machine ---- */

/* Returns the number of devices that this process can use. 0: no runtime, driver or device, or a forked child of a
 * process that used a GPU. */
int sm_device_count(void);

/* Returns whether this process has used a device through this library. If so, page-locked memory is worth its cost. */
bool sm_device_in_use(void);

/* Sets *device to wanted, or to the calling thread's current device for SYNCED_MEM_DEVICE_CURRENT. From then on
 * sm_device_in_use() returns true. ERR_NO_GPU, ERR_INVALID_DEVICE. */
synced_mem_status sm_device_resolve(int wanted, int *device);

/* Counts the calls of this process that have found a device lost. */
unsigned sm_device_losses(void);

/* Makes the device current in a thread of the library, for good. The thread's later calls then need not switch
 * devices. */
void sm_device_stay(int device);

/* The kind of memory behind a pointer from the user, as far as the runtime knows. */
enum sm_pointer_kind {
    SM_POINTER_HOST, /* pageable, or unknown to the runtime */
    SM_POINTER_PINNED,
    SM_POINTER_DEVICE,
    SM_POINTER_MANAGED
};
struct sm_pointer_facts {
    enum sm_pointer_kind kind;
    int device;      /* for all but pageable memory: its device, or the one in whose context it was page-locked */
    bool concurrent; /* managed memory that the host may access while kernels run */
};
/* Queries the runtime for the memory's kind, with the device current. device: -1 for the caller's current device. */
synced_mem_status sm_device_query_pointer(int device, const void *data, struct sm_pointer_facts *facts);

/* Writes the device's address on the PCI bus: "0000:3B:00.0". */
enum { SM_PCI_ID_BYTES = 32 };
synced_mem_status sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES]);

/* Destroys the pools of all devices and resets what was set on them. */
synced_mem_status sm_device_shutdown(void);

/* Describes a device. wanted: as for sm_device_resolve(), but sm_device_in_use() does not change. ERR_NO_GPU,
 * ERR_INVALID_DEVICE. */
synced_mem_status sm_device_info(int wanted, synced_mem_device_info *info);
/* Sets *free and *total to the device's memory in bytes, as the runtime counts it. */
synced_mem_status sm_device_memory_info(int device, size_t *free, size_t *total);

/* Sets the function that names what the library has at an address. The emulated runtime names races by it. It is called
 * within calls of the runtime. Returns false if it knows nothing. */
void sm_device_set_namer(bool (*name)(const void *address, char *name, size_t room));

/* ---- Memory ---- */

/* Alignment, in bytes, of memory from sm_device_alloc() and sm_device_managed_alloc(). */
enum { SM_DEVICE_ALIGNMENT = 256 };

/* Page-locks existing host memory, so that every device can access it. With unified addressing, devices use the host's
 * address. Ranges may share a page, but no byte. read_only: devices only read it; without, the process must be able to
 * write it. *locked: the page-locked bytes from data on. After a failure *locked is 0, unless a part could not be
 * unregistered again. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_device_host_register(int device, void *data, size_t size, bool read_only, size_t *locked);
/* Ends the registration. data, size: as registered. *locked: as above; it shrinks, to 0 on success. No work may be in
 * flight on the memory. May wait for the device. */
synced_mem_status sm_device_host_unregister(int device, void *data, size_t size, size_t *locked);

/* Allocates device memory with undefined contents. Work that is queued on the stream from now on may use it. Without
 * pools, any work on any stream may use it at once. The first memory of a device may not be the pool's, until that is
 * warm. ERR_OUT_OF_DEVICE_MEMORY. */
synced_mem_status sm_device_alloc(int device, size_t size, synced_mem_stream stream, void **out);
/* Frees device memory behind the work that is queued on the stream. Without pools it waits for that work and the
 * device. */
synced_mem_status sm_device_free(int device, void *data, synced_mem_stream stream);

/* Returns whether sm_device_free() only queues. If so, memory can be freed on any stream of the device. */
bool sm_device_frees_in_order(int device);

/* ---- The library's own pool on each device, which sm_device_alloc() takes memory from ---- */

/* Set how many unused bytes the pool keeps, and SYNCED_MEM_GPU_POOL_REUSE_* policies. Create the pool if there is none
 * yet. No effect without pools. */
synced_mem_status sm_device_pool_set_threshold(int device, uint64_t bytes);
synced_mem_status sm_device_pool_set_reuse(int device, unsigned policies);
/* Allows or forbids a peer's kernels and transfers to use the device's memory. Creates the pool if there is none yet.
 * ERR_INVALID_DEVICE: the peer can't reach it. */
synced_mem_status sm_device_pool_allow_peer(int device, int peer, bool allow);
/* Allows a peer to use the device's memory, unless sm_device_pool_allow_peer() was ever called for the two. No effect
 * without a pool, or if the peer can't reach the device or the runtime refuses. Transfers then go through the host. */
void sm_device_pool_reach(int device, int peer);
/* Frees unused memory of the pool, down to keep bytes held. No effect without a pool. */
synced_mem_status sm_device_pool_trim(int device, size_t keep);
/* Sets the pool's peaks to the current values. No effect without a pool. */
synced_mem_status sm_device_pool_reset_peaks(int device);

/* Sets whether a thread warms a new pool beside the program. If not, its first allocation takes that time, and all
 * memory is the pool's. For tests. */
void sm_device_pool_warm_beside(bool beside);

struct sm_pool_numbers {
    bool known; /* false: there is no pool */
    uint64_t reserved, reserved_high, used, used_high;
};
synced_mem_status sm_device_pool_numbers(int device, struct sm_pool_numbers *numbers);

/* ---- Memory that host and device both use ---- */

struct sm_unified_facts {
    bool integrated; /* the device has no memory of its own */
    bool managed;    /* there is managed memory, and the host may access it while kernels run */
};
synced_mem_status sm_device_unified_facts(int device, struct sm_unified_facts *facts);

/* Checks that the device reaches page-locked memory at the host's address. ERR_INVALID_STATE: it does so at another
 * one. */
synced_mem_status sm_device_check_mapped(int device, void *data);

/* Allocates managed memory, contents undefined, aligned to SM_DEVICE_ALIGNMENT. ERR_OUT_OF_DEVICE_MEMORY. */
synced_mem_status sm_device_managed_alloc(int device, size_t size, void **out);
/* Frees managed memory. May wait for the device. */
synced_mem_status sm_device_managed_free(int device, void *data);
/* Moves the pages to the device or to the host, in the stream's order. It is a hint: without it the memory works
 * too. */
synced_mem_status sm_device_managed_prefetch(int device, const void *data, size_t size, bool host,
                                             synced_mem_stream stream);
/* Prefers the device as the pages' location. */
synced_mem_status sm_device_managed_advise(int device, const void *data, size_t size);

/* ---- Memory that processes share ---- */

/* Writes the device's UUID, which is the same in every process that sees the device. */
enum { SM_DEVICE_UUID_BYTES = 16 };
synced_mem_status sm_device_uuid(int device, unsigned char uuid[SM_DEVICE_UUID_BYTES]);

struct sm_device_shareable {
    void *data;
    size_t bytes; /* at least those asked for, and one */
    int file;     /* a descriptor by which another process imports the memory; the caller closes it */
};
/* Allocates device memory that other processes can import, contents undefined. It exists as long as a process has it
 * mapped or has the file. alignment: of the address, a power of two. ERR_OUT_OF_DEVICE_MEMORY. */
synced_mem_status sm_device_share(int device, size_t size, size_t alignment, struct sm_device_shareable *out);
/* Maps memory of another process. bytes: as the other process says. The file stays the caller's. ERR_PEER: it is not of
 * so much memory of this device. */
synced_mem_status sm_device_import(int device, int file, size_t bytes, size_t alignment, void **out);
/* Ends a mapping from either. No work may be in flight on it. */
synced_mem_status sm_device_unmap(int device, void *data, size_t bytes);

/* ---- Streams ---- */

/* Creates a stream that does not block with the legacy stream. */
synced_mem_status sm_device_stream_create(int device, synced_mem_stream *out);
/* Destroys the stream. Its queued work still runs. */
synced_mem_status sm_device_stream_destroy(int device, synced_mem_stream stream);
/* Blocks until the stream's work is done. */
synced_mem_status sm_device_stream_sync(int device, synced_mem_stream stream);
/* Sets *done to whether all work on the stream is done. Does not block. */
synced_mem_status sm_device_stream_query(int device, synced_mem_stream stream, bool *done);
/* Makes the stream's later work wait for the event's last record. Does not block the host. */
synced_mem_status sm_device_stream_wait(int device, synced_mem_stream stream, sm_event event);

struct sm_stream_facts {
    bool capturing; /* of the legacy stream: it or a blocking stream of the device captures */
    uint64_t id;    /* the stream's alone, for ever; 0: the stream captures, or the runtime has no ids */
};
/* Queries whether the stream captures, and its id. Disturbs no capture. device: the stream's, or the one whose legacy
 * or per-thread stream is meant. */
synced_mem_status sm_device_stream_query_capture(int device, synced_mem_stream stream, struct sm_stream_facts *facts);
/* Finds the device of a created stream, which must not capture. likely: the device tried first if the runtime can't
 * report it. */
synced_mem_status sm_device_of_stream(synced_mem_stream stream, int likely, int *device);

/* ---- Work on a stream ---- */

/* Queue a copy or a fill on the stream. They return once it is queued, or later. Pageable memory may be read or written
 * before the call returns, and until the copy is done. Page-locked memory may have been registered in extents. If a
 * part is refused, the parts queued before it are done when the call returns. */
synced_mem_status sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_copy_d2h(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
synced_mem_status sm_device_copy_d2d(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
/* Between any two kinds of memory, which the runtime finds by the addresses. Host memory must be page-locked. Either
 * end may be on another device. */
synced_mem_status sm_device_copy_any(int device, void *to, const void *from, size_t size, synced_mem_stream stream);
/* Between memory of two devices, one of which is the stream's. If neither can reach the other, the runtime copies
 * through the host. */
synced_mem_status sm_device_copy_peer(int device, void *to, int to_device, const void *from, int from_device,
                                      size_t size, synced_mem_stream stream);
synced_mem_status sm_device_fill(int device, void *data, unsigned char value, size_t size, synced_mem_stream stream);

/* Returns whether the stream takes batches of copies. They need runtime and driver 12.8, and another stream than the
 * legacy one. */
bool sm_device_has_batches(synced_mem_stream stream);
/* Returns whether a copy may be part of a batch, and is faster there. The host's memory must be page-locked. */
bool sm_device_batch_takes(const void *host, size_t size, bool to_device);
/* Queues copies that sm_device_batch_takes() has accepted, in no order among themselves. No target may overlap another
 * one. On failure any of the copies may be queued. */
synced_mem_status sm_device_copy_batch(int device, void *const *to, const void *const *from, const size_t *sizes,
                                       size_t count, bool to_device, synced_mem_stream stream);

/* Returns the number of the device's multiprocessors if its kernels can run lists, else 0. They can on a device that
 * has memory of its own and reaches registered host memory at the host's address. The first question for a device makes
 * a thread load the code, because loading may wait for kernels that run. Until that has ended, and if it fails, the
 * answer is 0. Does not block. */
unsigned sm_device_list_processors(int device);
/* Waits until no thread loads code. */
void sm_device_await_lists(void);
/* Queues a kernel of one block, the probe, which sets the device's word to the number. Only if
 * sm_device_list_processors() has returned a number. */
synced_mem_status sm_device_run_probe(int device, unsigned number, synced_mem_stream stream);
/* Returns the device's word. Only after a probe has been queued. */
unsigned sm_device_probed(int device);
/* Makes the code of the kernel stay for good, because nobody can tell when a kernel ends. */
void sm_device_keep_lists(void);
/* Queues a kernel of so many blocks that copies or fills the job's entries, in no order among themselves. The job has
 * been read when this returns; its list, if it is not in the job, and the memory of the entries are read until the
 * kernel has ended. All memory is the device's own, or page-locked without a limit to one device. Only if
 * sm_device_list_processors() has returned a number. On failure nothing is queued. */
synced_mem_status sm_device_run_list(int device, const struct sm_list_job *job, unsigned blocks,
                                     synced_mem_stream stream);

/* ---- Events ---- */

synced_mem_status sm_device_event_create(int device, sm_event *out);
synced_mem_status sm_device_event_destroy(int device, sm_event event);
/* Records the event on the stream. stream NULL: the legacy stream; the record covers all blocking streams of the
 * device. */
synced_mem_status sm_device_event_record(int device, sm_event event, synced_mem_stream stream);
/* Blocks the host until the event is done. ERR_DEVICE_LOST: the work or the device has failed. */
synced_mem_status sm_device_event_sync(int device, sm_event event);
/* Sets *done to whether the event is done. Does not block. */
synced_mem_status sm_device_event_query(int device, sm_event event, bool *done);

/* ---- For traces ---- */

/* Creates an event that keeps its time. */
synced_mem_status sm_device_timing_create(int device, sm_event *out);
/* Sets *nanoseconds to the device's time between two such events, both done. */
synced_mem_status sm_device_elapsed(int device, sm_event from, sm_event to, uint64_t *nanoseconds);

/* Open and close a range of the calling thread. Ranges nest. No effect without a profiler. */
void sm_device_range_begin(const char *text);
void sm_device_range_end(void);

#endif
