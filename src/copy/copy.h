/*
 * One copy: memory in one place that can hold an object's contents, and the work in flight on it. That work belongs to
 * the memory, not to the contents: it outlives their validity, and decides when the memory may be used for something
 * else. This file is the memory, inflight.h the work.
 *
 * The object that holds a copy guards it with its lock; a retired copy is the thread's that has it in hand.
 */
#ifndef SM_COPY_H
#define SM_COPY_H

#include "stream/stream.h"

#include <stddef.h>
#include <stdint.h>

/* Work that is queued on a copy while nobody can tell when it ends. Memory that is read may be used still, since what
 * is read of it is no longer wanted; memory that is written may not; and neither may be freed. */
enum sm_untracked { SM_TRACKED, SM_UNTRACKED_READ, SM_UNTRACKED_WRITE };

struct sm_copy {
    /* What accessors return. Read on the hot path of a stream by whoever still has the record; so it is not touched
     * before the record is somebody else's. */
    _Atomic(void *) data;
    void *base;   /* what was allocated: base <= data, data + size of the object <= base + bytes */
    size_t bytes; /* of that */
    union {
        synced_mem_release_callback callback; /* of adopted memory */
        const struct sm_allocator *allocator; /* of memory from one */
        void *owner;                          /* of page-locked memory: whatever the pool wants back with it */
        struct sm_copy *newer; /* of spare device memory: the one that was kept next; see device_cache.h */
    };
    union {
        void *user;            /* of adopted memory */
        size_t alignment;      /* that the allocator was asked for */
        struct sm_copy *older; /* of spare device memory: the one that was kept before */
    };
    /* Work in flight, see inflight.h. Only memory that the device uses is given to streams: a host copy that is not
     * shared has no writer. */
    struct sm_fence *write;        /* the library's: the transfer or fill that brings the contents, or the allocation */
    struct sm_stream *writer;      /* the caller's stream that may write now, held; NULL: nobody's */
    struct sm_fence *writer_fence; /* of the last open write that has ended, or is about to */
    struct sm_use *reads;          /* who may be reading: transfers, and streams that were given the pointer */
    struct sm_use *covered;        /* transfers before a later open write: only to hand memory back waits for them */
    struct sm_stream *untracked_on; /* an internal stream that the untracked work is on, if all of it is on that one */
    struct sm_copy *next;           /* in the retired list, or in a bin of spares */
    unsigned writes;                /* counts what may have changed the contents; goes on from copy to copy */
    signed char device;             /* of device, managed and the library's page-locked memory; else -1 */
    unsigned char source : 7;       /* synced_mem_source */
    bool pin_held : 1;              /* on memory of the caller's, see pin.h */
    unsigned char untracked : 2;    /* enum sm_untracked */
    bool arriving : 1;              /* write, NULL: writer_fence, is to bring the contents; if it fails they are lost */
    bool write_is_covered : 1;      /* a later open write comes after write too */
    bool pinned : 1;   /* host memory that is page-locked; of the caller's: as far as is known, see pin.h */
    bool asked : 1;    /* of the caller's: the runtime, whether it is */
    bool is_spare : 1; /* device memory that was let go of, and kept; see device_cache.h */
    /* The pointer was given out without a stream. Kernels on the legacy stream, and on blocking ones, may use it as
     * long as the memory is there, whatever use has ended since. */
    bool streamless : 1;
    bool in_hand; /* of a retired copy: a thread is at it; guarded by the list's lock, as nothing above is */
    union {
        struct {
            unsigned given;    /* counts the calls that gave out its pointer */
            unsigned arrivals; /* counts the transfers to it */
        };
        uint64_t kept_at;    /* of spare device memory: its place in the order of age */
        uint64_t retired_at; /* of a retired copy: its place in the order of retirement */
    };
};

/* Stands in an object for a copy that is not there, so that the hot path finds a pointer, if of no use, when a call in
 * another thread lets go of the copy at the same time. */
extern struct sm_copy sm_no_copy;

static inline void *sm_copy_data(const struct sm_copy *copy)
{
    return atomic_load_explicit(&copy->data, memory_order_relaxed);
}

/* How many bytes it has room for. */
static inline size_t sm_copy_capacity(const struct sm_copy *copy)
{
    return copy->bytes - (size_t)((char *)sm_copy_data(copy) - (char *)copy->base);
}

/* A record without memory, of which nothing is known but the arguments. NULL: the system has no memory. */
struct sm_copy *sm_copy_take_record(int device, synced_mem_source source);
/* Of a copy whose memory is gone. */
void sm_copy_give_record(struct sm_copy *copy);

/* Host memory of the library's own: page-locked for a device, or pageable if device is -1. With zeroed set its contents
 * are zeros. */
synced_mem_status sm_copy_obtain_host(size_t size, size_t alignment, int device, bool zeroed, struct sm_copy **out);

/* Device memory of the library's own, usable in the stream's order. */
synced_mem_status sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *stream,
                                        struct sm_copy **out);

/* Memory that host and device both use, at once and at the same address: managed, or page-locked and mapped. With
 * zeroed set its contents are zeros. ERR_INVALID_STATE: the device reaches it at another address. */
synced_mem_status sm_copy_obtain_shared(size_t size, size_t alignment, int device, bool managed, bool zeroed,
                                        struct sm_copy **out);

/* Whether it is such memory: then it is both of its object's copies. */
static inline bool sm_copy_is_shared(const struct sm_copy *copy)
{
    return copy->source == SYNCED_MEM_SOURCE_MAPPED || copy->source == SYNCED_MEM_SOURCE_MANAGED;
}

/* Memory from an allocator of the caller's, with no lock held. device: of device memory, whose stream it is usable on;
 * or which host memory will be transferred with, -1 if nobody knows. ERR_INVALID_STATE: what it gave is of no use. */
synced_mem_status sm_copy_obtain_from(const struct sm_allocator *allocator, size_t size, size_t alignment, int device,
                                      synced_mem_stream stream, struct sm_copy **out);

/* Whether the memory was handed in by the caller. */
static inline bool sm_copy_is_of_user(const struct sm_copy *copy)
{
    return copy->source == SYNCED_MEM_SOURCE_BORROWED || copy->source == SYNCED_MEM_SOURCE_ADOPTED;
}

/* Memory of the caller's: borrowed if callback is NULL, else adopted. */
synced_mem_status sm_copy_wrap(void *data, size_t size, int device, synced_mem_release_callback callback, void *user,
                               struct sm_copy **out);
/* Undoes sm_copy_wrap(): the memory is the caller's again, no callback is called. */
void sm_copy_unwrap(struct sm_copy *copy);

/* Lets go of a copy, with no lock held: frees it, calls its callback, or puts it in the retired list until its last use
 * has finished. Waits for none of that work; but to free device memory where there are no pools, the CUDA runtime may
 * wait for the device. NULL is ignored. Borrowed memory must have nothing of the library's in flight. */
void sm_copy_retire(struct sm_copy *copy);

/* With full hands, of a copy that was let go of, see retired.h and hands.h: gives its memory back if it can be. True:
 * it is gone, and only the record is left. False: not yet, as work on it is pending, or for the reason in status. */
bool sm_copy_try_dispose(struct sm_copy *copy, synced_mem_status *status);
/* Whoever was given the pointer without a stream may use it until now: one event on the legacy stream enters that as
 * work in flight, unless such a use is open. After a failure nothing is entered. ERR_CAPTURING: not now, as a blocking
 * stream captures. */
synced_mem_status sm_copy_track_streamless(struct sm_copy *copy);
/* The same for memory that is about to go: no such use is open then. */
synced_mem_status sm_copy_end_streamless(struct sm_copy *copy);

/* Gives up a copy's record, and leaves its memory allocated for ever. */
void sm_copy_quarantine(struct sm_copy *copy);

/* Tries again what is in the retired list, and gives back bounce buffers, with no lock held; what other threads have in
 * hand is left to them. With wait set it first waits for the work on each, which stays on its list meanwhile, and says
 * why if any had to stay. */
synced_mem_status sm_copy_reap(bool wait);
/* Without waiting, in passing: does nothing while another thread does the same. Its callbacks do not count. */
void sm_copy_reap_passing_by(void);

/* Frees the device memory that is kept for reuse; -1: on all devices. What can't be freed is retired. */
synced_mem_status sm_copy_free_spares(int device);

/* Returns what the module keeps. */
void sm_copy_trim(void);

#endif
