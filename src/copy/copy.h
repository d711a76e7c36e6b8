/*
 * One copy: memory in one place that can hold an object's contents. This file is about the memory, inflight.h about the
 * work on it. The words:
 *
 *    copy         memory in one place, and the work on it; an object has at most one a side
 *    source       the origin of the memory: the library, an allocator, or the caller
 *    shareable    memory that other processes use too; treated as memory of the caller's
 *    borrowed     memory of the caller's, which the library only hands back
 *    adopted      memory of the caller's, which a callback releases
 *    shared       memory that is both copies of its object: managed or mapped
 *    retire       give up a copy; its memory is freed when the last work on it has ended
 *    reap         try the retired copies again
 *    cached       device memory of a retired copy, which the device cache keeps for reuse
 *    untracked    work is queued on the memory, and nobody can tell when it ends
 *    quarantine   leave such memory allocated for ever
 *    streamless   the device pointer was given out without a stream
 *    part         a copy whose memory is a part of another copy's, with work in flight of its own (part.h)
 *
 * Work in flight belongs to the memory, not to the contents. It outlives the contents' validity and decides when the
 * memory can be used for something else. The lock of the object that holds a copy guards it. A retired copy belongs to
 * the thread that has it in hand.
 */
#ifndef SM_COPY_H
#define SM_COPY_H

#include "stream/stream.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct sm_member; /* memory/budget.h */

/* Whether work is queued on a copy of which nobody can tell when it ends. Memory that such work reads stays usable, as
 * nobody wants the bytes that it reads. Memory that it writes is not usable. Neither may be freed. */
enum sm_untracked { SM_TRACKED, SM_UNTRACKED_READ, SM_UNTRACKED_WRITE };

/* The members that most calls use have 64 bytes: a call on many objects is as fast as it gets them from memory. A part
 * has no others. */
struct sm_copy {
    /* The pointer that accessors return. The hot path of a stream may still read it in a free struct. So nothing
     * changes it before the struct is in use again. */
    _Atomic(void *) data;
    /* Work in flight, see inflight.h. Streams are given only memory that the device uses. So a host copy that is not
     * shared has no writer. */

    /* The library's last write: the transfer or fill that brings the contents, or the allocation. */
    struct sm_fence *write;
    struct sm_stream *writer;      /* the caller's stream that may write now, held; NULL: none */
    struct sm_fence *writer_fence; /* of the last open write that has ended, or is about to */
    /* The readers: transfers, and streams that were given the pointer. */
    struct sm_use *reads;
    /* Transfers before a later open write. Only a call that hands the memory back waits for them. */
    struct sm_use *covered;
    unsigned writes;    /* counts the writes that may have changed the contents; goes on when the struct is reused */
    signed char device; /* of device, managed and the library's page-locked memory; else -1 */
    unsigned char source : 4; /* synced_mem_source */
    bool read_only : 1;       /* of memory of the caller's: the library never writes it */
    bool is_part : 1;         /* the memory is a part of another copy's, see part.h */
    bool pin_partial : 1;     /* of memory of the caller's: a part of it lies in registrations */
    /* The pointer was given out without a stream. Kernels on the legacy stream and on blocking streams may use it while
     * the memory exists. That a use has ended does not matter. */
    bool streamless : 1;
    unsigned char untracked : 2; /* enum sm_untracked */
    /* The contents arrive by write, or by writer_fence if write is NULL. If that work fails they are lost. */
    bool arriving : 1;
    bool write_is_covered : 1; /* a later open write comes after write */
    /* Host memory is page-locked. Of the caller's memory: as far as is known, see pin.h. */
    bool pinned : 1;
    bool pin_known : 1; /* of the caller's memory: the runtime has answered whether it is page-locked */
    /* See sm_copy_untracked_on(). Windows compilers would begin a new unit for a field of another type. */
    unsigned char untracked_on_high : 2;
    unsigned char untracked_on_low;
    union {
        struct {
            /* Counts the calls that gave out its pointer, or succeeded in bringing contents. A call that fails takes
             * nothing back that others count on. New memory begins at another multiple of SM_FIRST_GIVEN, so that its
             * count is not taken for that of the memory before. */
            unsigned given;
            unsigned arrivals; /* counts the transfers to it; those of parts are not among them */
        };
        uint64_t kept_at;    /* of cached device memory: its place in the order of age */
        uint64_t retired_at; /* of a retired copy: its place in the order of retirement */
    };
};

/* A copy that is no part, with the memory that it has. */
struct sm_allocation {
    struct sm_copy copy;
    void *base; /* base <= data, data + size of the object <= base + bytes */
    size_t bytes;
    union {
        synced_mem_release_callback callback; /* of adopted memory */
        const struct sm_allocator *allocator; /* of memory from an allocator */
        void *block;                          /* of page-locked memory: the pool's, which wants it back */
        struct sm_copy *newer; /* of cached device memory: the one that was kept next; see device_cache.h */
    };
    union {
        void *user;            /* of adopted memory */
        size_t alignment;      /* of memory from an allocator: the requested alignment */
        struct sm_copy *older; /* of cached device memory: the one that was kept before */
    };
    bool pin_held;  /* of memory of the caller's: it has a share in a registration, see pin.h */
    bool is_cached; /* device memory that was retired and kept; see device_cache.h */
    /* Of a retired copy: a thread works on it. Guarded by the list's lock, unlike all other fields. */
    bool in_hand;
    struct sm_copy *next; /* in the retired list, or in a bin of the device cache */
};

/* Stands in an object for a missing copy. Another thread may give up the copy while the hot path reads the slot. The
 * hot path then finds a valid pointer, though of no use. */
extern struct sm_copy sm_no_copy;

/* Returns the pointer that accessors return. Does not block. */
static inline void *sm_copy_data(const struct sm_copy *copy)
{
    return atomic_load_explicit(&copy->data, memory_order_relaxed);
}

/* A call on many objects reads so many ahead in its lists, as the objects may lie anywhere. */
enum { SM_AHEAD = 12 };

/* Begins to load what most calls use of a copy into the processor's cache. In an allocation it mostly lies in two
 * lines: the structs have 112 bytes. */
static inline void sm_prefetch_copy(const struct sm_copy *copy)
{
    __builtin_prefetch(copy, 1);
    __builtin_prefetch(&copy->given, 1);
}

/* Returns the number of the permanent stream (stream.h) that all untracked work is on; 0: there is none. */
static inline unsigned sm_copy_untracked_on(const struct sm_copy *copy)
{
    return (unsigned)copy->untracked_on_high << 8 | copy->untracked_on_low;
}

/* Sets that number. */
static inline void sm_copy_set_untracked_on(struct sm_copy *copy, unsigned number)
{
    copy->untracked_on_high = number >> 8 & 3;
    copy->untracked_on_low = (unsigned char)number;
}

/* Returns the allocation of a copy that is no part, and not sm_no_copy. */
static inline struct sm_allocation *sm_allocation_of(const struct sm_copy *copy)
{
    assert(!copy->is_part && copy != &sm_no_copy);
    return (struct sm_allocation *)(uintptr_t)copy;
}

/* Returns how many bytes of contents a copy that is no part has room for. */
static inline size_t sm_copy_capacity(const struct sm_copy *copy)
{
    const struct sm_allocation *const allocation = sm_allocation_of(copy);
    return allocation->bytes - (size_t)((char *)sm_copy_data(copy) - (char *)allocation->base);
}

enum { SM_FIRST_GIVEN = 1 << 16 };

/* Returns the count of new memory, which no call has counted on. */
unsigned sm_copy_first_given(void);

static inline bool sm_copy_is_first_given(unsigned given)
{
    return given % SM_FIRST_GIVEN == 0;
}

/* Returns the count after one more call. */
static inline unsigned sm_copy_next_given(unsigned given)
{
    return given + 1 + sm_copy_is_first_given(given + 1);
}

/* Returns a struct without memory, in which only the arguments are set. NULL: the system has no memory. */
struct sm_copy *sm_copy_struct_take(int device, synced_mem_source source);
/* Returns the struct of a part, with all that the whole has but the pointer, the lists of uses and the count of
 * arrivals. Takes no hold. NULL: the system has no memory. */
struct sm_copy *sm_part_struct_take(const struct sm_copy *whole);
/* Gives back the struct of a part, or of a copy whose memory is gone. */
void sm_copy_struct_give(struct sm_copy *copy);

/* Obtains host memory of the library's own: page-locked for a device, or pageable if device is -1. With zeroed set its
 * contents are zeros. member: that the memory is for, which may have claimed it; or NULL. The caller owns *out; on
 * failure it is unchanged. ERR_OUT_OF_HOST_MEMORY: there is too little. */
synced_mem_status sm_copy_obtain_host(size_t size, size_t alignment, int device, bool zeroed, struct sm_member *member,
                                      struct sm_copy **out);

/* Returns the bytes of the device memory that an object of this size gets, and the most of its host memory. */
size_t sm_copy_device_bytes(size_t size, size_t alignment);
size_t sm_copy_host_bytes(size_t size, size_t alignment);

/* Obtains device memory of the library's own, usable in the stream's order. Waits for no work. member: as above. The
 * caller owns *out; on failure it is unchanged. ERR_OUT_OF_DEVICE_MEMORY: there is too little. */
synced_mem_status sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *stream,
                                        struct sm_member *member, struct sm_copy **out);

/* Obtains memory that host and device use at once and at the same address: managed, or page-locked and mapped. With
 * zeroed set its contents are zeros. The caller owns *out; on failure it is unchanged. ERR_INVALID_STATE: the device
 * reaches the memory at another address. */
synced_mem_status sm_copy_obtain_shared(size_t size, size_t alignment, int device, bool managed, bool zeroed,
                                        struct sm_copy **out);

/* Returns whether the copy is memory from sm_copy_obtain_shared(). It is then both copies of its object. */
static inline bool sm_copy_is_shared(const struct sm_copy *copy)
{
    enum { SHARED = 1 << SYNCED_MEM_SOURCE_MAPPED | 1 << SYNCED_MEM_SOURCE_MANAGED };
    return (SHARED >> copy->source) & 1;
}

/* Obtains memory from an allocator of the caller's. No lock may be held, as the allocator is called. device: of device
 * memory, the device of the stream; of host memory, the device that it will be transferred with, or -1 if that is not
 * known. The caller owns *out; on failure it is unchanged. ERR_INVALID_STATE: the memory from the allocator is
 * unusable. */
synced_mem_status sm_copy_obtain_from(const struct sm_allocator *allocator, size_t size, size_t alignment, int device,
                                      synced_mem_stream stream, struct sm_copy **out);

/* Returns whether the caller handed in the memory, or other processes use it too. */
static inline bool sm_copy_is_of_user(const struct sm_copy *copy)
{
    enum {
        OF_USER = 1 << SYNCED_MEM_SOURCE_BORROWED | 1 << SYNCED_MEM_SOURCE_ADOPTED | 1 << SYNCED_MEM_SOURCE_SHAREABLE
    };
    return (OF_USER >> copy->source) & 1;
}

/* Makes a copy of memory of the caller's: borrowed if callback is NULL, else adopted. Calls no runtime. The caller owns
 * *out; on failure it is unchanged. ERR_OUT_OF_HOST_MEMORY: there is no memory for the struct. */
synced_mem_status sm_copy_wrap(void *data, size_t size, int device, synced_mem_release_callback callback, void *user,
                               struct sm_copy **out);
/* Does the same for memory that other processes use too. The callback is the library's: it may be called while another
 * callback runs. */
synced_mem_status sm_copy_wrap_shareable(void *data, size_t size, int device, synced_mem_release_callback callback,
                                         void *user, struct sm_copy **out);
/* Undoes sm_copy_wrap(). The memory is the caller's again, and no callback is called. Ignores NULL. */
void sm_copy_unwrap(struct sm_copy *copy);

/* Retires a copy, and takes it over. No lock may be held. Frees the memory, calls its callback, or keeps it in the
 * device cache. If work is pending the copy goes into the retired list. Waits for none of that work. Where there are no
 * pools, the CUDA runtime may wait for the device to free device memory. Ignores NULL. Borrowed memory must have
 * nothing of the library's in flight. */
void sm_copy_retire(struct sm_copy *copy);

/* Does the same for device memory of the library's own, which is freed at once in the order of the stream, if that is
 * possible: the stream waits for the work on it. The device cache does not get it. stream NULL: the library chooses
 * one. */
void sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *stream);

/* Gives the memory of a retired copy back if possible, with full hands (see retired.h and base/hands.h). May call the
 * caller's callback or allocator. Returns true if the memory is gone; only the struct is left. Returns false if work on
 * it is pending, or for the reason in *status. Waits for no work, but to free device memory where there are no pools.
 * may_block: also memory that is to be unregistered, for which the runtime may wait for the device. *pending: the
 * copy's fence that was queried in vain, or NULL. */
bool sm_copy_try_dispose(struct sm_copy *copy, bool may_block, const struct sm_fence **pending,
                         synced_mem_status *status);

/* Returns a fence that a retired copy waits for, if one is known that is not known to be done; else NULL. Queries no
 * device. */
const struct sm_fence *sm_copy_awaits(const struct sm_copy *copy);
/* Enters kernels that use a pointer which was given out without a stream as work in flight that ends now, and ends an
 * open use, of memory that is about to be freed or kept. Records one event on the legacy stream. Ignores borrowed
 * memory and lost devices. Does not block. On failure nothing is entered. ERR_CAPTURING: a blocking stream captures, so
 * no event can be recorded now. */
synced_mem_status sm_copy_end_streamless(struct sm_copy *copy);

/* Frees host memory of the library's own on which nothing is in flight, and the copy's struct. Does not block. */
void sm_copy_free_idle_host(struct sm_copy *copy);

/* Gives up a copy's struct and leaves its memory allocated for ever. */
void sm_copy_quarantine(struct sm_copy *copy);

/* Tries to dispose of the retired copies, and gives back bounce buffers. No lock may be held. Passes over copies that
 * other threads have in hand. wait: first waits for the work on each copy, which stays on its list meanwhile. Without
 * wait, the runtime may still wait for the device to unregister memory. Returns why a copy or buffer had to stay; OK
 * without wait. */
synced_mem_status sm_copy_reap(bool wait);
/* Reaps without a wait, unless another thread does. Callbacks that it calls run after this thread no longer counts as
 * reaping. may_block: as for sm_copy_try_dispose(). */
void sm_copy_reap_passing_by(bool may_block);

/* Frees the cached device memory of a device; -1: of all devices. Memory that cannot be freed is retired. Returns the
 * first failure. */
synced_mem_status sm_copy_free_cached(int device);

/* Returns the memory of unused structs to the system. */
void sm_copy_trim(void);

#endif
