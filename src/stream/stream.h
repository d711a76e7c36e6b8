/*
 * Streams as the library knows them: its own, and those that callers name. A caller's stream is known from its first
 * use on until synced_mem_forget_stream(), by a record that nobody else's handle ever leads to; what was given to the
 * stream refers to that record, and one event can end all of it.
 */
#ifndef SM_STREAM_H
#define SM_STREAM_H

#include "base/mutex.h"
#include "stream/fence.h"
#include "trace/trace.h"

/* The library's own streams, one set a device; none of them blocks with the legacy stream. */
enum sm_internal {
    SM_INTERNAL_H2D,
    SM_INTERNAL_D2H,
    SM_INTERNAL_ALLOC,
    SM_INTERNAL_FREE,        /* frees that come after nothing: it never waits */
    SM_INTERNAL_FREE_BEHIND, /* the first of several for frees that come after work, which may never end */
    SM_INTERNAL_FREE_LAST = SM_INTERNAL_FREE_BEHIND + 3,
    SM_INTERNALS
};

enum sm_stream_kind {
    SM_STREAM_CREATED,    /* by the caller */
    SM_STREAM_PER_THREAD, /* one thread's default stream */
    SM_STREAM_LEGACY,     /* the legacy default stream */
    SM_STREAM_ANY,        /* none was named: the legacy stream, or blocking ones. Nothing can be queued on it */
    SM_STREAM_INTERNAL
};

/* An address of the library's own, which matches no handle. The hot path compares with it where no stream may match. */
extern char sm_no_stream;
#define SM_NO_HANDLE ((synced_mem_stream)(void *)&sm_no_stream)

/* Many programs use this handle for no stream; a record never has it. */
#define SM_HANDLE_OF_NONE ((synced_mem_stream)UINTPTR_MAX)

struct sm_stream {
    _Atomic(synced_mem_stream) hot; /* the caller's handle for it, or SM_NO_HANDLE */
    synced_mem_stream handle;
    uint64_t serial; /* no other stream's, ever */
    uint64_t id;     /* the runtime's, of a created stream; 0 if it does not say */
    uint64_t thread; /* whose default stream it is */
    struct sm_stream *next;
    _Atomic(struct sm_fence *) last; /* once it is done: for all that it was given */
    atomic_uint holders;             /* of created and per-thread streams; those it is known by are one */
    struct sm_mutex lock; /* of created and per-thread streams: held from a look at the state to what follows from it */
    int device;
    unsigned char kind;
    atomic_uchar state;   /* of a created or per-thread stream, see stream.c; DONE and what comes after it are final */
    atomic_bool orphaned; /* its thread has ended */
    atomic_uint frees;    /* counts those in its order */
    atomic_uint awaited;  /* so many of them were waited for */
};

/* One of the library's own, made at its first use; good until the shutdown. */
synced_mem_status sm_internal_stream(int device, enum sm_internal internal, struct sm_stream **out);

/* As that, but NULL if it is not made yet. */
struct sm_stream *sm_internal_stream_if_made(int device, enum sm_internal internal);

/* Destroys them. What fails is tried again by the next call. */
synced_mem_status sm_internal_streams_shutdown(void);

/* What stands for the use of a pointer that was asked for without a stream. */
struct sm_stream *sm_stream_any(int device);

/*
 * The caller's stream by its handle, held. device: the object's; for SYNCED_MEM_DEVICE_CURRENT any will do.
 * A stream that captures: *out is NULL. ERR_INVALID_DEVICE: it is another device's.
 */
synced_mem_status sm_stream_find(int device, synced_mem_stream handle, struct sm_stream **out);

struct sm_stream *sm_stream_hold(struct sm_stream *stream);
/* NULL is ignored. */
void sm_stream_drop(struct sm_stream *stream);

/* A serial number that is no stream's. */
uint64_t sm_stream_new_serial(void);

/* Fills in a record, with a serial number of its own. */
void sm_stream_describe(struct sm_stream *stream, enum sm_stream_kind kind, int device, synced_mem_stream hot);

/* What a trace calls each kind. */
extern const char *const sm_stream_kinds[];

static inline struct sm_trace_stream sm_stream_traced(const struct sm_stream *stream)
{
    return (struct sm_trace_stream){.handle = stream->handle,
                                    .serial = stream->serial,
                                    .kind = sm_stream_kinds[stream->kind],
                                    .device = stream->device};
}

/* Whether the hot path may hand out pointers on it. */
static inline bool sm_stream_can_be_hot(const struct sm_stream *stream)
{
    return stream->kind == SM_STREAM_CREATED || stream->kind == SM_STREAM_LEGACY;
}

/* A fence for what the library has just queued on the stream. */
synced_mem_status sm_stream_queued(struct sm_stream *stream, struct sm_fence **out);

/* A fence for all that the stream was given until now, or until it was done. ERR_CAPTURING while it captures;
 * ERR_INVALID_STATE if it went away and was never done: then nobody can tell any more. */
synced_mem_status sm_stream_end_use(struct sm_stream *stream, struct sm_fence **out);

/* Work queued on the stream from now on runs after the fence's. Asks nothing of the device when the fence is not
 * pending, or its work is on that very stream. Where threads of the library's have yet to queue that, the host waits
 * until they have. */
synced_mem_status sm_stream_wait(struct sm_stream *stream, struct sm_fence *fence);

/* As sm_stream_wait(), for work of the caller's, whatever kind of stream it is on. Whether that could be done: not
 * while the stream captures, nor once it is done or gone. */
bool sm_stream_hold_back(struct sm_stream *stream, struct sm_fence *fence);

/* Frees device memory behind all that the stream was given until now; *freed: so it did, or failed to. False: the
 * stream is done, or gone, or captures. */
synced_mem_status sm_stream_free(struct sm_stream *stream, void *data, bool *freed);

/* Has the runtime see which frees are done: until then it keeps their memory. */
void sm_stream_look_at_frees(int device);

/* Waits on the host until what was freed in the order of any stream of the device has been freed. */
void sm_stream_wait_for_frees(int device);

/* Locks the record of the caller's stream, if something can be freed in its order: the stream is known still, its
 * handle is not another's, and it does not capture. */
bool sm_stream_lock_if_free(struct sm_stream *stream, synced_mem_status *status);
void sm_stream_unlock(struct sm_stream *stream);

/* Visits the known streams that are wanted, held and with nothing locked. */
void sm_stream_each(bool (*wanted)(const struct sm_stream *stream, int device), int device,
                    void (*visit)(struct sm_stream *stream));

/* Whether it takes no more work: synced_mem_forget_stream() was called for it, or its thread has ended. */
bool sm_stream_is_over(const struct sm_stream *stream);

/* Ends the uses of the caller's stream and forgets it. */
synced_mem_status sm_stream_forget(synced_mem_stream handle);

/* Forgets all callers' streams, which nobody may hold, and destroys the library's own. */
synced_mem_status sm_stream_shutdown(void);

#endif
