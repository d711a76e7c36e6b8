/* The streams that the library knows. This file is the one that makes a stream wait. */
#include "stream.h"

#include "slab.h"
#include "stats.h"
#include "status.h"

/* What became of a caller's stream. */
enum state {
    KNOWN,
    DONE,    /* synced_mem_stream_done(); last stands for its work */
    VANISHED /* its handle was found to be another stream's, and it was never done */
};

static struct sm_slab records = SM_SLAB_INITIALIZER(struct sm_stream);

static _Atomic uint64_t last_serial;
static _Atomic uint64_t last_thread;
static _Thread_local uint64_t this_thread;

static uint64_t new_serial(void)
{
    return atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
}

static uint64_t thread_number(void)
{
    if (this_thread == 0)
        this_thread = atomic_fetch_add_explicit(&last_thread, 1, memory_order_relaxed) + 1;
    return this_thread;
}

/* ---- Streams that nobody creates ---- */

static struct sm_stream legacy[SM_MAX_DEVICES];
static struct sm_stream any[SM_MAX_DEVICES];

static void describe(struct sm_stream *stream, enum sm_stream_kind kind, int device, synced_mem_stream hot)
{
    stream->kind = (unsigned char)kind;
    stream->device = device;
    stream->serial = new_serial();
    atomic_store_explicit(&stream->hot, hot, memory_order_relaxed);
}

static void describe_all(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        describe(&legacy[device], SM_STREAM_LEGACY, device, NULL);
        describe(&any[device], SM_STREAM_ANY, device, SM_NO_HANDLE);
    }
}

static struct sm_stream *described(struct sm_stream *of_devices, int device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, describe_all);
    return &of_devices[device];
}

struct sm_stream *sm_stream_any(int device)
{
    return described(any, device);
}

/* ---- The library's own ---- */

static struct {
    struct sm_lock lock; /* held while one is made or destroyed */
    struct sm_stream stream[SM_MAX_DEVICES][SM_LANES];
    atomic_bool made[SM_MAX_DEVICES][SM_LANES];
} lanes = {.lock = SM_LOCK_INITIALIZER};

static synced_mem_status make_lane(int device, enum sm_lane lane)
{
    struct sm_stream *const stream = &lanes.stream[device][lane];
    const synced_mem_status status = sm_device_stream_create(device, &stream->handle);
    if (status != SYNCED_MEM_OK)
        return status;
    describe(stream, SM_STREAM_LANE, device, SM_NO_HANDLE);
    atomic_store_explicit(&lanes.made[device][lane], true, memory_order_release);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_stream_lane(int device, enum sm_lane lane, struct sm_stream **out)
{
    const atomic_bool *const made = &lanes.made[device][lane];
    synced_mem_status status = SYNCED_MEM_OK;
    if (!atomic_load_explicit(made, memory_order_acquire)) {
        sm_lock(&lanes.lock);
        if (!atomic_load_explicit(made, memory_order_relaxed))
            status = make_lane(device, lane);
        sm_unlock(&lanes.lock);
    }
    if (status == SYNCED_MEM_OK)
        *out = &lanes.stream[device][lane];
    return status;
}

/* ---- Callers' streams ---- */

/* Known streams, by handle. A created one is held by being known; a thread's default stream is known while held. */
enum { BUCKETS = 16 };
#define BUCKET                                                                                                         \
    {                                                                                                                  \
        .lock = SM_LOCK_INITIALIZER                                                                                    \
    }
#define FOUR BUCKET, BUCKET, BUCKET, BUCKET
static struct bucket {
    struct sm_lock lock;
    struct sm_stream *first;
} buckets[BUCKETS] = {FOUR, FOUR, FOUR, FOUR};

static struct bucket *bucket_of(synced_mem_stream handle, uint64_t thread)
{
    const uint64_t mixed = ((uint64_t)(uintptr_t)handle >> 4 ^ thread) * 0x9e3779b97f4a7c15u;
    return &buckets[mixed >> 60];
}

static struct bucket *bucket_of_stream(const struct sm_stream *stream)
{
    return bucket_of(stream->handle, stream->thread);
}

static enum state state_of(const struct sm_stream *stream)
{
    return (enum state)atomic_load_explicit(&stream->state, memory_order_acquire);
}

static void unlink_from(struct bucket *bucket, const struct sm_stream *stream)
{
    struct sm_stream **link = &bucket->first;
    while (*link && *link != stream)
        link = &(*link)->next;
    if (*link)
        *link = stream->next;
}

static bool is_counted(const struct sm_stream *stream)
{
    return stream->kind == SM_STREAM_CREATED || stream->kind == SM_STREAM_PER_THREAD;
}

struct sm_stream *sm_stream_hold(struct sm_stream *stream)
{
    if (is_counted(stream))
        atomic_fetch_add_explicit(&stream->holders, 1, memory_order_relaxed);
    return stream;
}

static void give_record(struct sm_stream *stream)
{
    sm_ticket_drop(atomic_load_explicit(&stream->last, memory_order_relaxed));
    atomic_store_explicit(&stream->last, NULL, memory_order_relaxed);
    sm_slab_give(&records, stream);
}

/* A thread's default stream is forgotten by the last who lets go of it, and can be found until then. */
void sm_stream_drop(struct sm_stream *stream)
{
    if (!stream || !is_counted(stream))
        return;
    struct bucket *const bucket = bucket_of_stream(stream);
    const bool of_thread = stream->kind == SM_STREAM_PER_THREAD;
    if (of_thread)
        sm_lock(&bucket->lock);
    const bool gone = atomic_fetch_sub_explicit(&stream->holders, 1, memory_order_acq_rel) == 1;
    if (of_thread && gone)
        unlink_from(bucket, stream);
    if (of_thread)
        sm_unlock(&bucket->lock);
    if (gone)
        give_record(stream);
}

/* With the bucket locked. It is known no more: its record lives as long as somebody refers to it. */
static void forget(struct bucket *bucket, struct sm_stream *stream, enum state state)
{
    unlink_from(bucket, stream);
    atomic_store_explicit(&stream->hot, SM_NO_HANDLE, memory_order_relaxed);
    atomic_store_explicit(&stream->state, (unsigned char)state, memory_order_release);
}

static struct sm_stream *look_up(const struct bucket *bucket, synced_mem_stream handle, uint64_t thread, int device)
{
    struct sm_stream *stream = bucket->first;
    while (stream &&
           (stream->handle != handle || stream->thread != thread || (thread != 0 && stream->device != device)))
        stream = stream->next;
    return stream;
}

static struct sm_stream *enter_record(struct bucket *bucket, enum sm_stream_kind kind, synced_mem_stream handle,
                                      int device)
{
    struct sm_stream *const stream = sm_slab_take(&records);
    if (!stream)
        return NULL;
    const bool created = kind == SM_STREAM_CREATED;
    describe(stream, kind, device, created ? handle : SM_NO_HANDLE);
    stream->handle = handle;
    stream->thread = created ? 0 : thread_number();
    stream->id = 0;
    atomic_store_explicit(&stream->state, KNOWN, memory_order_relaxed);
    atomic_store_explicit(&stream->holders, created ? 1 : 0, memory_order_relaxed);
    stream->next = bucket->first;
    bucket->first = stream;
    return stream;
}

static synced_mem_status no_record(void)
{
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no memory for a stream's record");
}

static synced_mem_status find_per_thread(int device, struct sm_stream **out)
{
    struct bucket *const bucket = bucket_of(SM_HANDLE_PER_THREAD, thread_number());
    sm_lock(&bucket->lock);
    struct sm_stream *stream = look_up(bucket, SM_HANDLE_PER_THREAD, thread_number(), device);
    if (!stream)
        stream = enter_record(bucket, SM_STREAM_PER_THREAD, SM_HANDLE_PER_THREAD, device);
    if (stream)
        *out = sm_stream_hold(stream);
    sm_unlock(&bucket->lock);
    return stream ? SYNCED_MEM_OK : no_record();
}

static bool is_another(const struct sm_stream *stream, uint64_t id)
{
    return stream->id != 0 && id != 0 && stream->id != id;
}

/* The one that is known by this handle, held; NULL if none is, or it has become another stream's. */
static struct sm_stream *find_known(struct bucket *bucket, synced_mem_stream handle, uint64_t id)
{
    sm_lock(&bucket->lock);
    struct sm_stream *stream = look_up(bucket, handle, 0, 0);
    struct sm_stream *gone = NULL;
    if (stream && is_another(stream, id)) {
        forget(bucket, stream, VANISHED);
        gone = stream;
        stream = NULL;
    }
    if (stream)
        sm_stream_hold(stream);
    sm_unlock(&bucket->lock);
    sm_stream_drop(gone);
    return stream;
}

static synced_mem_status meet(struct bucket *bucket, synced_mem_stream handle, uint64_t id, int likely,
                              struct sm_stream **out)
{
    int device;
    const synced_mem_status status = sm_device_of_stream(handle, likely, &device);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_lock(&bucket->lock);
    struct sm_stream *stream = look_up(bucket, handle, 0, 0); /* another thread may have met it */
    if (!stream) {
        stream = enter_record(bucket, SM_STREAM_CREATED, handle, device);
        if (stream)
            stream->id = id;
    }
    if (stream)
        *out = sm_stream_hold(stream);
    sm_unlock(&bucket->lock);
    return stream ? SYNCED_MEM_OK : no_record();
}

static synced_mem_status find_created(int device, int likely, synced_mem_stream handle, uint64_t id,
                                      struct sm_stream **out)
{
    struct bucket *const bucket = bucket_of(handle, 0);
    struct sm_stream *stream = find_known(bucket, handle, id);
    const synced_mem_status status = stream ? SYNCED_MEM_OK : meet(bucket, handle, id, likely, &stream);
    if (status != SYNCED_MEM_OK)
        return status;
    const int its = stream->device;
    if (device >= 0 && its != device) {
        sm_stream_drop(stream);
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "stream %p is one of device %d, the object is on device %d",
                       (void *)handle, its, device);
    }
    *out = stream;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_stream_find(int device, synced_mem_stream handle, struct sm_stream **out)
{
    int resolved;
    struct sm_stream_facts facts = {.capturing = false};
    synced_mem_status status = sm_device_resolve(device, &resolved);
    if (status == SYNCED_MEM_OK)
        status = sm_device_stream_look(resolved, handle, &facts);
    if (status != SYNCED_MEM_OK)
        return status;
    const bool is_legacy = !handle || handle == SM_HANDLE_LEGACY;
    if (facts.capturing && is_legacy)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                       "a blocking stream of device %d is capturing, so the legacy stream can't be used", resolved);
    if (facts.capturing) {
        *out = NULL;
        return SYNCED_MEM_OK;
    }
    if (handle == SM_HANDLE_PER_THREAD)
        return find_per_thread(resolved, out);
    if (!is_legacy)
        return find_created(device, resolved, handle, facts.id, out);
    *out = described(legacy, resolved);
    atomic_store_explicit(&(*out)->hot, handle, memory_order_relaxed); /* both handles mean it */
    return SYNCED_MEM_OK;
}

/* ---- Events on streams ---- */

synced_mem_status sm_stream_queued(struct sm_stream *stream, struct sm_ticket **out)
{
    return sm_ticket_record(stream->device, stream->handle, stream->serial, out);
}

static void vanish(struct sm_stream *stream)
{
    struct bucket *const bucket = bucket_of_stream(stream);
    sm_lock(&bucket->lock);
    const bool known = state_of(stream) == KNOWN;
    if (known)
        forget(bucket, stream, VANISHED);
    sm_unlock(&bucket->lock);
    if (known)
        sm_stream_drop(stream);
}

/* Whose event covers it: a thread can't record one on another thread's default stream, but the legacy stream, which
 * waits
 * for those as for all blocking streams, can stand for it; as it does where no stream was named. */
static struct sm_stream *recordable(struct sm_stream *stream)
{
    const bool others = stream->kind == SM_STREAM_PER_THREAD && stream->thread != thread_number();
    return others || stream->kind == SM_STREAM_ANY ? described(legacy, stream->device) : stream;
}

static synced_mem_status vanished(const struct sm_stream *stream)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                   "stream %p was destroyed without synced_mem_stream_done(): its work on this object is forgotten",
                   (void *)stream->handle);
}

static synced_mem_status last_of(struct sm_stream *stream, struct sm_ticket **out)
{
    struct sm_ticket *const last = atomic_load_explicit(&stream->last, memory_order_acquire);
    if (!last)
        return sm_fail(SYNCED_MEM_ERR_DEVICE_LOST, "device %d was lost before stream %p was done", stream->device,
                       (void *)stream->handle);
    *out = sm_ticket_hold(last);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_stream_end_use(struct sm_stream *stream, struct sm_ticket **out)
{
    switch (state_of(stream)) {
    case DONE:
        return last_of(stream, out);
    case VANISHED:
        return vanished(stream);
    case KNOWN:
        break;
    }
    struct sm_stream *const on = recordable(stream);
    struct sm_stream_facts facts;
    const synced_mem_status status = sm_device_stream_look(on->device, on->handle, &facts);
    if (status != SYNCED_MEM_OK)
        return status;
    if (facts.capturing)
        return sm_fail(SYNCED_MEM_ERR_CAPTURING, "stream %p, which uses this object's memory, is capturing",
                       (void *)on->handle);
    if (is_another(on, facts.id) && on->kind == SM_STREAM_CREATED) {
        vanish(stream);
        return vanished(stream);
    }
    return sm_stream_queued(on, out);
}

synced_mem_status sm_stream_wait(struct sm_stream *stream, struct sm_ticket *ticket)
{
    if (sm_ticket_state(ticket) != SM_TICKET_PENDING || ticket->stream == stream->serial)
        return SYNCED_MEM_OK;
    sm_count_up(SM_COUNT_stream_waits, 1);
    return sm_device_stream_wait(stream->device, stream->handle, ticket->event);
}

/* What the legacy stream waits for, blocking streams do too. */
synced_mem_status sm_stream_hold_back(struct sm_stream *stream, struct sm_ticket *ticket)
{
    return state_of(stream) == KNOWN ? sm_stream_wait(recordable(stream), ticket) : SYNCED_MEM_OK;
}

/* ---- Streams that go ---- */

bool sm_stream_is_done(const struct sm_stream *stream)
{
    return state_of(stream) == DONE;
}

/* Whether anything was given to the stream, which the caller of this and the bucket hold. */
static bool has_uses(const struct sm_stream *stream)
{
    const unsigned others = stream->kind == SM_STREAM_CREATED ? 2 : 1;
    return atomic_load_explicit(&stream->holders, memory_order_relaxed) > others;
}

/* On a lost device nothing runs any more, and the stream's handle may be gone before anybody asks again. */
static synced_mem_status end(struct bucket *bucket, struct sm_stream *stream)
{
    struct sm_ticket *last = NULL;
    const synced_mem_status status = has_uses(stream) ? sm_stream_end_use(stream, &last) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST)
        return state_of(stream) == VANISHED ? SYNCED_MEM_OK : status;
    sm_lock(&bucket->lock);
    atomic_store_explicit(&stream->last, last, memory_order_release);
    forget(bucket, stream, DONE);
    sm_unlock(&bucket->lock);
    if (stream->kind == SM_STREAM_CREATED)
        sm_stream_drop(stream);
    return status;
}

static struct sm_stream *find_any_known(struct bucket *bucket, synced_mem_stream handle, uint64_t thread)
{
    sm_lock(&bucket->lock);
    struct sm_stream *stream = bucket->first;
    while (stream && (stream->handle != handle || stream->thread != thread))
        stream = stream->next;
    if (stream)
        sm_stream_hold(stream);
    sm_unlock(&bucket->lock);
    return stream;
}

synced_mem_status sm_stream_done(synced_mem_stream handle)
{
    const uint64_t thread = handle == SM_HANDLE_PER_THREAD ? thread_number() : 0;
    struct bucket *const bucket = bucket_of(handle, thread);
    synced_mem_status status = SYNCED_MEM_OK;
    struct sm_stream *stream;
    while (status == SYNCED_MEM_OK && (stream = find_any_known(bucket, handle, thread)) != NULL) {
        status = end(bucket, stream);
        sm_stream_drop(stream);
    }
    return status;
}

/* ---- The end ---- */

static void forget_all(struct bucket *bucket)
{
    struct sm_stream *stream;
    while ((stream = bucket->first) != NULL) {
        sm_lock(&bucket->lock);
        forget(bucket, stream, DONE);
        sm_unlock(&bucket->lock);
        sm_stream_drop(stream);
    }
}

static synced_mem_status destroy_lane(int device, enum sm_lane lane)
{
    if (!atomic_load_explicit(&lanes.made[device][lane], memory_order_relaxed))
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_device_stream_destroy(device, lanes.stream[device][lane].handle);
    /* What was on a lost device went with it; what fails otherwise stays, for a later try. */
    if (status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_DEVICE_LOST)
        atomic_store_explicit(&lanes.made[device][lane], false, memory_order_relaxed);
    return status;
}

synced_mem_status sm_stream_shutdown(void)
{
    synced_mem_status first = SYNCED_MEM_OK;
    for (int i = 0; i < BUCKETS; i++)
        forget_all(&buckets[i]);
    sm_slab_trim(&records);
    sm_lock(&lanes.lock);
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        for (enum sm_lane lane = SM_LANE_H2D; lane < SM_LANES; lane++) {
            const synced_mem_status status = destroy_lane(device, lane);
            first = first != SYNCED_MEM_OK && first != SYNCED_MEM_ERR_DEVICE_LOST ? first : status;
        }
    }
    sm_unlock(&lanes.lock);
    return first;
}
