/*
 * The calls that the emulated CUDA runtime has beside the runtime's own. A program launches "kernels" with them,
 * without a GPU. A test sets up the machine, decides when work runs, and makes calls fail.
 *
 * All functions may be called from any thread. None of them counts as a call of the runtime.
 */
#ifndef CUDART_EMU_H
#define CUDART_EMU_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The machine ---- */

/* Starts over, like a new process on a new machine. All memory, streams, events and pools are gone without a report.
 * Counters and failures are cleared. Everything that emu_set_* set is back at its default: 4 devices of 1 GiB, driver
 * version 13000, memory pools supported, peer access possible between all devices. The seed decides when queued work
 * runs. With seed 0 every operation runs as late as the rules allow. A process starts with
 * emu_reset(SYNCED_MEM_EMU_SEED from the environment, else 0). */
void emu_reset(uint64_t seed);

enum emu_machine {
    EMU_PRESENT,    /* driver and devices answer */
    EMU_NO_DRIVER,  /* 35, cudaErrorInsufficientDriver, and driver version 0 */
    EMU_NO_DEVICE,  /* 100, cudaErrorNoDevice */
    EMU_OLD_DRIVER, /* 36, cudaErrorCallRequiresNewerDriver */
    EMU_UNLOADING,  /* 4, cudaErrorCudartUnloading, as at process exit */
    EMU_FORKED      /* 3, cudaErrorInitializationError, as in a forked child (a real fork is detected without this) */
};
void emu_set_machine(enum emu_machine machine);

void emu_set_device_count(int count);                     /* 0 to 8; before any other use */
void emu_set_driver_version(int version);                 /* returned by cudaDriverGetVersion; 13000 at first */
void emu_set_pools_supported(int device, bool supported); /* cudaDevAttrMemoryPoolsSupported */
void emu_set_attribute(int device, enum cudaDeviceAttr attribute, int value); /* any other attribute */
void emu_set_peer_access(int device, int peer, bool possible);                /* cudaDeviceCanAccessPeer */
void emu_set_device_memory(int device, size_t bytes); /* the limit; memory that is allocated already stays */
void emu_set_pinned_memory(size_t bytes);             /* the limit of page-locked memory; unlimited at first */
bool emu_has_context(int device);                     /* whether the device's primary context was created */

/* Sets which GPU the device is, as CUDA_VISIBLE_DEVICES does. At first device n is GPU n. A GPU has the same UUID and
 * the same PCI bus in every process. An import of memory fails in a process where no device is the memory's GPU. */
void emu_set_gpu(int device, int gpu);

/* ---- Kernels ---- */

struct emu_range {
    const void *data; /* device, mapped, managed or page-locked memory */
    size_t size;      /* 0: nothing */
    bool write;
};

/* The size of a range that is the whole allocation in which its data lies, before and behind it too. For launches that
 * know pointers and no sizes. Unordered work on another part of the allocation is then reported as a race. */
#define EMU_WHOLE ((size_t)-1)

/* Queues function(argument) on the stream, like a kernel launch. The function runs at its turn in the stream. It may
 * touch only the given ranges, through emu_pointer(). The argument must stay valid until then. Returns the error that a
 * launch would return. The function runs on whichever thread runs the stream's work. So it must not wait for a thread
 * that calls the runtime; a host function may, as it has a thread of its own. A range that the stream's device cannot
 * access breaks the device with error 700. On a capturing stream the call adds a node to the graph, and the function
 * runs with the same argument at each launch. A NULL stream is the legacy stream, however the caller is compiled. */
cudaError_t emu_launch(cudaStream_t stream, void (*function)(void *argument), void *argument,
                       const struct emu_range *ranges, size_t count);

/* For such a function: returns the address at which this thread can touch the bytes of a device address. NULL outside
 * such a function, and for addresses outside its ranges. */
void *emu_pointer(const void *device_address);

/* Finds the live allocation in which an address lies: device, page-locked, registered or managed memory. Sets *base and
 * *size to its extent; either pointer may be NULL. Returns false, and sets nothing, if the address is in no allocation.
 * */
bool emu_extent(const void *address, void **base, size_t *size);

/* Reads device memory for a test without running any queued work. Returns false if the range is in no live allocation.
 * */
bool emu_peek(const void *device_address, void *to, size_t size);

/* ---- Races ---- */

/* Two accesses to a byte of device, pool, managed or page-locked memory, one of which writes, must be ordered. A
 * stream, a wait for an event, the legacy stream or a wait by the host orders them. Unordered accesses are reported as
 * misuse. The report depends on the order of the calls alone: it comes on every seed, in whatever order work runs.
 * Freeing counts as writing, as does a stream-ordered allocation. If a misuse handler returns from such a report, the
 * call continues. */

/* Announce the host's own accesses, which the emulator cannot see, before a read and before a write. Pageable memory is
 * ignored. Inside a host function they count as accesses of its stream's operation. They are then compared with the
 * work that was queued until the function ran. */
void emu_host_read(const void *data, size_t size);
void emu_host_write(const void *data, size_t size);

/* Switches the search for races. On at first. */
void emu_set_race_check(bool on);

enum emu_host_threads {
    EMU_HOST_THREADS_ORDERED, /* all calls of all threads are ordered as they come: no right program is reported */
    EMU_HOST_THREADS_SEPARATE /* one thread's calls come before another's only where that is announced */
};
/* Sets how host threads are ordered. All calls before this one are ordered before all later ones. Ordered at first. */
void emu_set_host_threads(enum emu_host_threads mode);

/* Announce order that the program makes by itself. All that precedes a release is ordered before all that follows a
 * later acquire of the same address. With separate threads, acquire every lock after it is taken, and release it before
 * it is given back. Announce the start and the join of a thread likewise. A host function that signals the host must
 * release too, in either mode. A host function that waits for the host must acquire. Work that was queued behind it
 * before the acquire is not known to be ordered. */
void emu_host_release(const void *what);
void emu_host_acquire(const void *what);

/* Sets the function that names what the program has at an address, for reports of races. It stays set. It is called in
 * a call of the runtime that the program makes. Returns false if it knows nothing. */
void emu_set_namer(bool (*name)(const void *address, char *name, size_t room));

/* Returns how many bytes the search for races itself has allocated. */
size_t emu_race_memory(void);

/* ---- Time ---- */

/* Runs all queued work of all streams, as far as possible. */
void emu_run_all(void);
/* Returns how many queued operations have not run yet. */
size_t emu_pending(void);

/* ---- Failures ---- */

/* Makes the nth use (1 is the next one) of a call return code and do nothing. The call is named as in "cudaMalloc"; "*"
 * counts every call of the runtime that can fail. Names that end in _ptsz or _ptds count as those without. After a
 * sticky failure every later call on the current device returns the same code, until emu_reset(). Several failures may
 * be set. cudaMemcpyBatchAsync still queues some of its copies, unless the code means that there are no batches. */
void emu_fail(const char *call, unsigned nth, cudaError_t code, bool sticky);
void emu_fail_clear(void);   /* cancels failures that have not happened yet; does not end a sticky failure */
unsigned emu_failures(void); /* counts the set failures that have happened since emu_reset() */
/* Makes the next operation that a stream runs on this device break it. The stream's synchronization and every later
 * call then return the (sticky) code. */
void emu_break_device(int device, cudaError_t code);
/* Occupies all multiprocessors of the device, as a kernel that waits for the host may: until it is occupied no more, no
 * kernel and no fill runs there, while copies go on. A wait for such a kernel lasts until another thread frees them. */
void emu_occupy_device(int device, bool occupied);

/* Counts the uses of a call since emu_reset(). */
unsigned emu_calls(const char *call);
/* Visits every call used since emu_reset(), with its count, for sweeps over all of them. */
void emu_each_call(void (*visit)(const char *call, unsigned count, void *user), void *user);

/* Makes the nth cudaStreamWaitEvent, cudaEventSynchronize or cudaStreamSynchronize (by name) from now on succeed
 * without waiting, as if the tested program lacked the wait. */
void emu_drop_wait(const char *call, unsigned nth);

/* A return address relative to the load address of its program or library, and so the same in every run. addr2line
 * takes it (less one, to name the line of the call). The name lives as long as the object is loaded. */
struct emu_place {
    const char *object;
    uintptr_t offset;
};

#define EMU_WAIT_DEPTH 24

/* A call that waits, of those that emu_drop_wait() can drop, and the return addresses that lead there, innermost first.
 * */
struct emu_wait_place {
    const char *call;
    unsigned depth;
    struct emu_place chain[EMU_WAIT_DEPTH];
    unsigned count; /* the number of times it was seen */
};

/* Switches the record of waits. Off at first and after emu_reset(), which deletes the record. */
void emu_note_waits(bool on);
/* Visits each call chain that led to a wait, in the order of their first appearance. */
void emu_each_wait(void (*visit)(const struct emu_wait_place *wait, void *user), void *user);
/* Drop waits until emu_reset(). emu_drop_wait_from() drops every wait that has exactly this call chain.
 * emu_drop_waits_at() drops every wait that has this return address in its chain. Up to 64 of each; the object names
 * must stay valid. */
void emu_drop_wait_from(const struct emu_wait_place *wait);
void emu_drop_waits_at(const struct emu_place *place);
unsigned emu_dropped_waits(void); /* counts the waits that these two have dropped since emu_reset() */

/* ---- Leaks and misuse ---- */

/* Makes an access of the host to a device's memory print one line, before the program's action for SIGSEGV. Called when
 * the emulator is loaded; a program that replaces the action since may call it again. */
void emu_catch_faults(void);

enum emu_kind {
    EMU_DEVICE_MEMORY,
    EMU_PINNED,
    EMU_REGISTERED,
    EMU_MANAGED,
    EMU_STREAM,
    EMU_EVENT,
    EMU_POOL,
    EMU_GRAPH,
    EMU_GRAPH_EXEC,
    EMU_MEMORY_HANDLE, /* from cuMemCreate and cuMemImportFromShareableHandle; a mapping is EMU_DEVICE_MEMORY */
    EMU_ADDRESS_RANGE, /* from cuMemAddressReserve */
    EMU_LIBRARY,       /* from cudaLibraryLoadData */
    EMU_KINDS
};
size_t emu_live(enum emu_kind kind);       /* allocations or handles alive now */
size_t emu_live_bytes(enum emu_kind kind); /* bytes of them; 0 for handles */

/* Sets a handler for misuse, which is anything undefined in CUDA. Without a handler, misuse is reported on stderr with
 * the call site, and aborts. The handler is called with no lock held. If it returns, the call changes nothing and
 * returns cudaErrorUnknown. NULL and emu_reset() remove the handler. */
void emu_set_misuse_handler(void (*handler)(const char *report, void *user), void *user);

/* Switches the report of leaks on stderr at process exit. A report ends the process with status 1 through _exit. Off at
 * first, on if SYNCED_MEM_EMU_LEAKS=1 is in the environment. */
void emu_report_leaks(bool on);

#ifdef __cplusplus
}
#endif

#endif
