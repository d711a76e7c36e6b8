/*
 * What the emulated CUDA runtime offers beside the runtime's own calls: how a program launches a "kernel" without a
 * GPU, and how a test decides what the machine looks like, when work runs, and which call fails.
 *
 * Everything here may be called from any thread. Nothing here counts as a call of the runtime.
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

/* Starts over, as a new process on a new machine: all memory, streams, events and pools of before are gone without
 * a report, counters and failures are cleared, what emu_set_* set is back to the default (4 devices of 1 GiB, a
 * driver that answers 13000, memory pools supported, peer access possible between all devices). The seed decides
 * when queued work runs; seed 0 runs every operation as late as the rules allow. At process start:
 * emu_reset(SYNCED_MEM_EMU_SEED from the environment, else 0). */
void emu_reset(uint64_t seed);

enum emu_machine {
    EMU_PRESENT,    /* driver and devices answer */
    EMU_NO_DRIVER,  /* 35, cudaErrorInsufficientDriver, and driver version 0 */
    EMU_NO_DEVICE,  /* 100, cudaErrorNoDevice */
    EMU_OLD_DRIVER, /* 36, cudaErrorCallRequiresNewerDriver */
    EMU_UNLOADING,  /* 4, cudaErrorCudartUnloading, as at process exit */
    EMU_FORKED      /* 3, cudaErrorInitializationError, as in a forked child (a real fork is noticed by itself) */
};
void emu_set_machine(enum emu_machine machine);

void emu_set_device_count(int count);                     /* 0 to 8; before any other use */
void emu_set_driver_version(int version);                 /* what cudaDriverGetVersion answers, 13000 at first */
void emu_set_pools_supported(int device, bool supported); /* cudaDevAttrMemoryPoolsSupported */
void emu_set_attribute(int device, enum cudaDeviceAttr attribute, int value); /* any other attribute */
void emu_set_peer_access(int device, int peer, bool possible);                /* cudaDeviceCanAccessPeer */
void emu_set_device_memory(int device, size_t bytes); /* the limit; what is allocated already stays */
void emu_set_pinned_memory(size_t bytes);             /* the limit of page-locked memory; unlimited at first */
bool emu_has_context(int device);                     /* has the device's primary context been created? */

/* ---- Kernels ---- */

struct emu_range {
    const void *data; /* device, mapped, managed or page-locked memory */
    size_t size;      /* 0: nothing */
    bool write;
};

/* The size of a range that is all of the allocation that its data is in, before and behind that too: for launches that
 * know pointers and no sizes. Work on another part of the allocation, which nothing orders, is then reported. */
#define EMU_WHOLE ((size_t)-1)

/* Queues function(argument) on the stream, as a kernel launch would be: it runs when the stream gets there. Only
 * the named ranges may be touched, through emu_pointer(). The argument must stay valid until then. Answers what a
 * launch would. It runs on whichever thread finds it its turn, so that it may not wait for a thread that calls the
 * runtime; a host function may, and has a thread of its own. A range that the stream's device can not reach breaks
 * the device, with 700. On a stream that captures it becomes a node of the graph, and runs with the same argument at
 * each launch. NULL is the legacy stream, however the caller is compiled. */
cudaError_t emu_launch(cudaStream_t stream, void (*function)(void *argument), void *argument,
                       const struct emu_range *ranges, size_t count);

/* Inside such a function: where the bytes of a device address can be touched by this thread. NULL outside of one,
 * and for what is in none of its ranges. */
void *emu_pointer(const void *device_address);

/* The extent of the live allocation that an address is in: device, page-locked, registered or managed memory. Sets
 * base and size, of which each may be NULL; false, and sets nothing, when the address is in none. */
bool emu_extent(const void *address, void **base, size_t *size);

/* A look at device memory from a test, without running any pending work; false when the range is no live allocation. */
bool emu_peek(const void *device_address, void *to, size_t size);

/* ---- Races ---- */

/* Two accesses to a byte of device, pool, managed or page-locked memory, one of which writes, must be ordered: by a
 * stream, by events that are waited for, by the legacy stream, by the host having waited. Two that are not are reported
 * as misuse, from the order of the calls alone: on every seed, however work happens to run. Freeing counts as writing,
 * as does a stream-ordered allocation. Where a misuse handler returns from such a report, the call goes on. */

/* The host's own accesses, which the emulation can not see: announced before a read and before a write. Pageable memory
 * is ignored. Inside a host function they are accesses of its stream's operation; they are then compared with what
 * was queued until it ran. */
void emu_host_read(const void *data, size_t size);
void emu_host_write(const void *data, size_t size);

/* Whether races are looked for; they are at first. */
void emu_set_race_check(bool on);

enum emu_host_threads {
    EMU_HOST_THREADS_ORDERED, /* all calls of all threads are ordered as they come: no right program is flagged */
    EMU_HOST_THREADS_SEPARATE /* only what is announced orders one thread's calls before another's */
};
/* What was before is ordered before what comes. Ordered at first. */
void emu_set_host_threads(enum emu_host_threads mode);

/* What the program orders by itself: all before a release is ordered before all that follows a later acquire of the
 * same address. With separate threads, every lock is acquired after it is taken and released before it is given back,
 * and starting and joining a thread are announced likewise. A host function that tells the host something releases too,
 * however threads are taken; one that waits for the host acquires, but what was queued behind it before is not known to
 * be ordered. */
void emu_host_release(const void *what);
void emu_host_acquire(const void *what);

/* How many bytes the search for races itself has allocated. */
size_t emu_race_memory(void);

/* ---- Time ---- */

/* Runs what one stream, or everything, has queued, as far as it can go. */
void emu_run_all(void);
/* How many queued operations have not run yet. */
size_t emu_pending(void);

/* ---- Failures ---- */

/* The nth use (1 is the next one) of a call, named as in "cudaMalloc", answers code instead of doing anything. A
 * sticky failure makes every later call on the current device answer the same code, until emu_reset(). Several may
 * be set. call "*" counts every call of the runtime that can fail. Names that end in _ptsz or _ptds count as those
 * without. cudaMemcpyBatchAsync queues some of its copies all the same, unless the code says that there are no batches.
 */
void emu_fail(const char *call, unsigned nth, cudaError_t code, bool sticky);
void emu_fail_clear(void);   /* forgets failures that are set and have not happened; ends no sticky one */
unsigned emu_failures(void); /* how many set failures have happened since emu_reset() */
/* From now on, operations that a stream runs on this device break it: the queued operation's stream synchronization and
 * every later call answer the (sticky) code. */
void emu_break_device(int device, cudaError_t code);

/* How often a call was used since emu_reset(). */
unsigned emu_calls(const char *call);
/* Names and counts of every call used since emu_reset(), for sweeps over all of them. */
void emu_each_call(void (*visit)(const char *call, unsigned count, void *user), void *user);

/* The nth cudaStreamWaitEvent, cudaEventSynchronize or cudaStreamSynchronize (by name) from now on succeeds without
 * waiting: what a forgotten wait in the program under test would do. */
void emu_drop_wait(const char *call, unsigned nth);

/* A return address, relative to where its program or library was loaded, and so the same in every run: what addr2line
 * takes (less one, to name the line of the call). The name lives as long as the object is loaded. */
struct emu_place {
    const char *object;
    uintptr_t offset;
};

#define EMU_WAIT_DEPTH 24

/* A call that waits (those that emu_drop_wait() can drop), and the return addresses that lead there, the innermost
 * first. */
struct emu_wait_place {
    const char *call;
    unsigned depth;
    struct emu_place chain[EMU_WAIT_DEPTH];
    unsigned count; /* how often it was seen */
};

/* Whether waits are noted, from now on; off at first and after emu_reset(), which forgets them. */
void emu_note_waits(bool on);
/* Each chain that led to a wait, in the order in which they first did. */
void emu_each_wait(void (*visit)(const struct emu_wait_place *wait, void *user), void *user);
/* Until emu_reset(): drops every wait that comes by exactly this chain, or that has this return address in its chain.
 * Up to 64 of each; what they name must stay. */
void emu_drop_wait_from(const struct emu_wait_place *wait);
void emu_drop_waits_at(const struct emu_place *place);
unsigned emu_dropped_waits(void); /* how many these two have dropped since emu_reset() */

/* ---- Leaks and misuse ---- */

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
    EMU_KINDS
};
size_t emu_live(enum emu_kind kind);       /* allocations or handles alive now */
size_t emu_live_bytes(enum emu_kind kind); /* bytes of them; 0 for handles */

/* What is undefined in CUDA is reported on stderr with the call site, and aborts. With a handler set, the handler is
 * called instead, with nothing locked, and the call changes nothing and answers cudaErrorUnknown if the handler
 * returns. NULL, and emu_reset(), take the handler away. */
void emu_set_misuse_handler(void (*handler)(const char *report, void *user), void *user);

/* Whether leaks are reported on stderr at process exit, with exit status 1 through _exit; off at first, on when
 * SYNCED_MEM_EMU_LEAKS=1 is in the environment. */
void emu_report_leaks(bool on);

#ifdef __cplusplus
}
#endif

#endif
