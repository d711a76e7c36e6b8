/*
 * Streams: those of the library, and those that callers name.
 *
 *    handle            the runtime's name for a stream; after a destruction it may name another one
 *    struct            the library's knowledge of one stream; no other stream's handle ever leads to it
 *    serial            the number of a struct, which is never used again
 *    known             found by its handle: from the first use until synced_mem_forget_stream()
 *    done              forgotten by the caller; the fence in last stands for all of its work
 *    vanished          destroyed without synced_mem_forget_stream(): its work can no longer be tracked
 *    any stream        stands for a device pointer that was given out without a stream
 *    internal stream   a stream of the library, of which each device has a set
 *    permanent stream  an internal stream or a device's legacy stream: its struct stays
 *
 * Uses that a stream was given refer to its struct, so one event can end all of them.
 */
#ifndef SM_STREAM_H
#define SM_STREAM_H

#include "base/mutex.h"
#include "base/shard.h"
#include "base/status.h"
#include "stream/fence.h"
#include "trace/trace.h"

enum { SM_INTERNALS_BEHIND = 4 };

/* The internal streams, one set a device. None of them blocks with the legacy stream. Work that comes after a caller's,
 * which may never end, is on one of several, see sm_internal_stream_behind(). The others never wait for a caller's
 * work. */
enum sm_internal {
    SM_INTERNAL_H2D,
    SM_INTERNAL_D2H,
    SM_INTERNAL_ALLOC,
    SM_INTERNAL_PROBE,       /* for probes, see copy/kernel_start.h */
    SM_INTERNAL_MOVE_BEHIND, /* the first of several for transfers */
    SM_INTERNAL_FREE = SM_INTERNAL_MOVE_BEHIND + SM_INTERNALS_BEHIND,
    SM_INTERNAL_FREE_BEHIND, /* the first of several for frees */
    SM_INTERNALS = SM_INTERNAL_FREE_BEHIND + SM_INTERNALS_BEHIND
};

enum sm_stream_kind {
    SM_STREAM_CREATED,    /* by the caller */
    SM_STREAM_PER_THREAD, /* one thread's default stream */
    SM_STREAM_LEGACY,     /* the legacy default stream */
    SM_STREAM_ANY, /* none was named: the legacy stream or a blocking one; nothing can be queued on this struct */
    SM_STREAM_INTERNAL
};

/* An address that matches no handle. The hot path compares with it where no stream may match. */
extern char sm_no_stream;
#define SM_NO_HANDLE ((synced_mem_stream)(void *)&sm_no_stream)
/* Another one, of a set of streams (stream_set.h). */
extern char sm_set_of_streams;
#define SM_HANDLE_OF_SET ((synced_mem_stream)(void *)&sm_set_of_streams)

/* Many programs use this handle for no stream. No struct ever has it. */
#define SM_HANDLE_OF_NONE ((synced_mem_stream)UINTPTR_MAX)
/* SYNCED_MEM_STREAM_LIBRARY: stands for any internal stream. No struct ever has it. */
#define SM_HANDLE_OF_LIBRARY ((synced_mem_stream)(UINTPTR_MAX - 1))

/* Threads that use a stream each write its struct, so two structs share no cache line. The hot path of other threads
 * reads the first line, of which little changes while the stream is known. */
struct sm_stream {
    _Alignas(SM_CACHE_LINE) _Atomic(synced_mem_stream) hot; /* the caller's handle, SM_NO_HANDLE, or of a set */
    synced_mem_stream handle;
    uint64_t serial; /* never used again */
    uint64_t id;     /* the runtime's id of a created stream; 0 if the runtime gives none */
    uint64_t thread; /* the number of the thread whose default stream it is; else 0 */
    struct sm_stream *next;
    int device;
    unsigned number; /* of a created or per-thread stream: counts these structs of the device */
    unsigned char kind;
    atomic_uchar state;   /* of a created or per-thread stream, see stream.c; all but KNOWN are final */
    atomic_bool orphaned; /* the thread of this per-thread stream has ended */
    /* Once the stream is done: for all work that it was given. Of an internal stream that sm_internal_stream_behind()
     * finds: for all work queued there, or NULL if some has no fence yet, or its last fence is unknown. */
    _Alignas(SM_CACHE_LINE) _Atomic(struct sm_fence *) last;
    atomic_uint holders; /* of created and per-thread streams; a bucket that keeps the struct is one */
    /* Of created and per-thread streams: held from a read of the state until the work that depends on it is queued. */
    struct sm_mutex lock;
    _Atomic uint64_t fences; /* counts the events recorded */
    atomic_uint frees;       /* counts the frees in the stream's order */
    atomic_uint awaited;     /* the number of these frees that are known to be over */
};

/* Records an event on the stream and stores its fence, with its order. Errors: as sm_fence_record(). */
static inline synced_mem_status sm_stream_record_fence(struct sm_stream *stream, struct sm_fence **out)
{
    const uint64_t since = atomic_load_explicit(&stream->fences, memory_order_acquire);
    SM_TRY(sm_fence_record(stream->device, stream->handle, stream->serial, out));
    (*out)->since = since;
    (*out)->order = atomic_fetch_add_explicit(&stream->fences, 1, memory_order_acq_rel) + 1;
    return SYNCED_MEM_OK;
}

/* Stores an internal stream, which the first call creates. It stays valid until the shutdown. Waits for no work. On
 * failure *out is unchanged. */
synced_mem_status sm_internal_stream(int device, enum sm_internal internal, struct sm_stream **out);

/* Finds an idle one of SM_INTERNALS_BEHIND internal streams. If none is idle, takes the next one in turn. A stream
 * whose last fence was seen done is idle; any other is queried. Nothing is reserved: another thread may find the same
 * stream. first: the first of them. Does not block. Errors: as
 * sm_internal_stream() and sm_device_stream_query(). */
synced_mem_status sm_internal_stream_behind(int device, enum sm_internal first, struct sm_stream **out);

/* sm_stream_record() for an internal stream, which keeps the fence. */
synced_mem_status sm_internal_stream_record(struct sm_stream *internal, struct sm_fence **out);

/* Returns the internal stream, or NULL if sm_internal_stream() has not created it yet. Does not block. */
struct sm_stream *sm_internal_stream_if_made(int device, enum sm_internal internal);

/* Returns which internal stream of its device the stream is. */
enum sm_internal sm_internal_of(const struct sm_stream *internal);

/* Destroys the internal streams. A stream that cannot be destroyed stays, and the next call tries again. Returns the
 * first failure other than ERR_DEVICE_LOST; if there is none, OK or ERR_DEVICE_LOST. */
synced_mem_status sm_internal_streams_shutdown(void);

/* Returns the struct that stands for uses of a device pointer given out without a stream. Does not block. */
struct sm_stream *sm_stream_any(int device);

/* The permanent streams have numbers from 1 on. */
enum { SM_PERMANENT_STREAMS = SM_MAX_DEVICES * (SM_INTERNALS + 1) };
/* Returns the number of a permanent stream; 0: the stream is none. */
unsigned sm_stream_permanent_number(const struct sm_stream *stream);
/* Returns the stream with the number; NULL: the number is 0, or the shutdown has destroyed the stream. */
struct sm_stream *sm_stream_permanent(unsigned number);

/*
 * Finds or creates the struct of the caller's stream. The caller holds it. device: the object's device;
 * SYNCED_MEM_DEVICE_CURRENT accepts a stream of any device. While the stream captures *out is NULL. Does not block. On
 * failure *out is unchanged. ERR_INVALID_DEVICE: the stream belongs to another device. ERR_CAPTURING: the legacy stream
 * cannot be used, as a blocking stream captures. ERR_INVALID_ARGUMENT: no stream of a caller's has this handle.
 */
synced_mem_status sm_stream_find(int device, synced_mem_stream handle, struct sm_stream **out);

/* Stores the legacy stream of the device. Does not block. ERR_CAPTURING: it can't be used, as a blocking stream
 * captures. On failure *out is unchanged. */
synced_mem_status sm_stream_find_legacy(int device, struct sm_stream **out);
/* Returns whether the legacy stream comes after a use, whatever it gets next. fence: of the use's end; NULL: the use by
 * this stream is open. Queries no device. */
bool sm_stream_is_legacy_use(const struct sm_stream *by, const struct sm_fence *fence);

/* Adds a holder of a caller's stream. Returns it. Does not block. */
struct sm_stream *sm_stream_hold(struct sm_stream *stream);
/* Adds several at once. */
void sm_stream_hold_often(struct sm_stream *stream, size_t holders);
/* Removes a holder. The last one returns the struct. Ignores NULL and streams whose holders are not counted. */
void sm_stream_drop(struct sm_stream *stream);
/* Removes several at once. */
void sm_stream_drop_often(struct sm_stream *stream, size_t holders);

/* Returns a serial number that belongs to no stream. */
uint64_t sm_stream_new_serial(void);

/* Fills in a struct and gives it a serial number. */
void sm_stream_describe(struct sm_stream *stream, enum sm_stream_kind kind, int device, synced_mem_stream hot);

/* The name of each kind in a trace. */
extern const char *const sm_stream_kinds[];

static inline struct sm_trace_stream sm_stream_traced(const struct sm_stream *stream)
{
    return (struct sm_trace_stream){.handle = stream->handle,
                                    .serial = stream->serial,
                                    .kind = sm_stream_kinds[stream->kind],
                                    .device = stream->device};
}

/* Returns whether the hot path may return pointers for this stream. */
static inline bool sm_stream_can_be_hot(const struct sm_stream *stream)
{
    return stream->kind == SM_STREAM_CREATED || stream->kind == SM_STREAM_LEGACY;
}

/* Records a fence for all work that is queued on the stream, after the library queued some. The caller holds it. Does
 * not block. On failure *out is unchanged. */
static inline synced_mem_status sm_stream_record(struct sm_stream *stream, struct sm_fence **out)
{
    return stream->kind == SM_STREAM_INTERNAL ? sm_internal_stream_record(stream, out)
                                              : sm_stream_record_fence(stream, out);
}

/* Stores a fence for all work that the stream was given until now, or until it was done. A call that shares ends gets
 * the same fence for one stream (shared_ends.h). The caller holds it. Does not block. On failure *out is unchanged.
 * ERR_CAPTURING: the stream captures. ERR_INVALID_STATE: the stream vanished, so nobody can track its work.
 * ERR_DEVICE_LOST: the device was lost before the stream was done. */
synced_mem_status sm_stream_end_use(struct sm_stream *stream, struct sm_fence **out);

/* Makes work that is queued on the stream from now on run after the fence's work. Makes no call to the runtime if the
 * fence is not pending, if its work is on this stream, or if the stream was the last one to wait for it; the event of
 * another device is polled first. Blocks only
 * while the fence is queueing. A lost fence that was queueing returns why it failed. */
synced_mem_status sm_stream_wait(struct sm_stream *stream, struct sm_fence *fence);

/* Makes work that is queued on the stream from now on run after kernels that may use memory of the device without a
 * stream. A call that shares ends makes each stream wait once. Errors: as sm_stream_end_use() and sm_stream_wait(). */
synced_mem_status sm_stream_wait_for_any(struct sm_stream *stream, int device);

/* Does the same as sm_stream_wait() for the caller's work, on a stream of any kind. Returns whether that succeeded. It
 * fails while the stream captures, and once the stream is done or vanished. */
bool sm_stream_hold_back(struct sm_stream *stream, struct sm_fence *fence);

/* Frees device memory behind all work that the stream was given until now. Returns the status of that free, or of the
 * query before it. *freed: the free was tried. Otherwise the stream is done or vanished, has no id, or captures, and
 * the memory is still the caller's. */
synced_mem_status sm_stream_free(struct sm_stream *stream, void *data, bool *freed);

/* Synchronizes with each stream that has nothing to do, so that the runtime learns which frees are done. Until then the
 * runtime keeps their memory. Does not wait for pending work. */
void sm_stream_poll_frees(int device);

/* Waits on the host until all frees in the order of any stream of the device are done. Blocks. */
void sm_stream_wait_for_frees(int device);

/* Locks the struct of the caller's stream if memory can be freed in its order. Returns whether it did. The stream is
 * then known, its handle is not another stream's, and it does not capture. *status: the status of the query. */
bool sm_stream_lock_if_free(struct sm_stream *stream, synced_mem_status *status);
void sm_stream_unlock(struct sm_stream *stream);

/* Calls visit() for each known stream that is wanted. The stream is held, and nothing is locked. */
void sm_stream_each(bool (*wanted)(const struct sm_stream *stream, int device), int device,
                    void (*visit)(struct sm_stream *stream));

/* Returns whether the stream gets no more work: synced_mem_forget_stream() was called, or its thread has ended. */
bool sm_stream_is_over(const struct sm_stream *stream);

/* Ends the uses of the caller's stream and forgets the stream. Does not block. On failure the stream stays known. After
 * ERR_DEVICE_LOST it is forgotten all the same. */
synced_mem_status sm_stream_forget(synced_mem_stream handle);

/* Forgets all callers' streams, which nobody may hold, and destroys the internal ones. Errors: as
 * sm_internal_streams_shutdown(). */
synced_mem_status sm_stream_shutdown(void);

#endif
