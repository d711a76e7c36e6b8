/* The device's times of transfers. */
#include "trace/trace_timing.h"

#include "device/device.h"
#include "base/process.h"
#include "trace/trace_exit.h"

#include <stdlib.h>

/* A base: an event on a device whose host time is known. */
struct base {
    sm_event event;
    uint64_t host;
    unsigned holders; /* guarded by the lock */
};

enum state {
    BEING_QUEUED, /* a thread has yet to record the second event */
    QUEUED,
    UNTIMED /* the second event could not be recorded */
};

struct sm_timing {
    struct sm_timing *next;
    struct base *base; /* held */
    int device;
    atomic_uchar state; /* enum state, of a pending one */
    sm_event begin;
    sm_event end;
    struct sm_trace_event event;
};

/*
 * - BASE_LASTS_S: a base this old is replaced. The runtime reports times as a float of milliseconds, so their precision
 *   falls with the base's age.
 * - PATIENCE_US, PATIENCE: a device that is not done after both this time and this many queries has no base.
 * - NEXT_TRY_MS: the next try for a base comes after this time. Other processes may have their time slices before this
 *   one. Failed tries thus take at most a twentieth of the time.
 * - PRECISE_US: an answer that took longer says little about the event's time.
 * - MOST_PENDING: no more transfers are timed at once.
 * - NEXT_QUERY_MS: many pending transfers are queried after this time, or when there are SM_TRACE_MANY more.
 */
enum {
    BASE_LASTS_S = 8,
    PATIENCE_US = 50000,
    PATIENCE = 64,
    NEXT_TRY_MS = 1000,
    PRECISE_US = 1000,
    MOST_PENDING = 4096,
    NEXT_QUERY_MS = 5
};

struct list {
    struct sm_timing *first;
    struct sm_timing **end; /* where the next one is linked; NULL: the list is empty */
};

static struct {
    struct sm_lock lock;
    struct list waiting;  /* not known to be done; each stream's in its order */
    size_t pending;       /* those in waiting, and those whose transfers are being queued */
    size_t left;          /* of them, after the last call of sm_timing_resolve() */
    uint64_t resolved_at; /* when that was */
    struct sm_timing *idle[SM_MAX_DEVICES];
    struct base *bases[SM_MAX_DEVICES];
    uint64_t tried[SM_MAX_DEVICES];
} timings = {.lock = SM_LOCK_INITIALIZER};

/* ---- Bases ---- */

static void destroy_base(int device, struct base *base)
{
    (void)sm_device_event_destroy(device, base->event);
    free(base);
}

static void drop_base(int device, struct base *base)
{
    sm_lock(&timings.lock);
    const bool gone = base && --base->holders == 0;
    sm_unlock(&timings.lock);
    if (gone)
        destroy_base(device, base);
}

/* Records the base's event and waits, with patience, until it is done. The event's time is between its record and the
 * answer, *took nanoseconds apart. Returns whether it is done. */
static bool locate_base(int device, struct base *base, synced_mem_stream clock, uint64_t *took)
{
    bool done = false;
    const uint64_t before = sm_trace_time();
    synced_mem_status status = sm_device_event_record(device, base->event, clock);
    unsigned queries = 0;
    while (status == SYNCED_MEM_OK && !done && (queries++ < PATIENCE || sm_trace_time() - before < PATIENCE_US * 1000u))
        status = sm_device_event_query(device, base->event, &done);
    *took = sm_trace_time() - before;
    base->host = before + *took / 2;
    return done;
}

/* Uses a new stream, which waits for nothing else. */
static bool locate_base_on_new_stream(int device, struct base *base, uint64_t *took)
{
    synced_mem_stream clock;
    if (sm_device_stream_create(device, &clock) != SYNCED_MEM_OK)
        return false;
    const bool done = locate_base(device, base, clock, took);
    (void)sm_device_stream_destroy(device, clock);
    return done;
}

static struct base *try_base(int device, uint64_t *took)
{
    struct base *const base = calloc(1, sizeof *base);
    if (!base)
        return NULL;
    if (sm_device_timing_create(device, &base->event) != SYNCED_MEM_OK) {
        free(base);
        return NULL;
    }
    if (locate_base_on_new_stream(device, base, took))
        return base;
    destroy_base(device, base);
    return NULL;
}

/* After a slow answer it is probably this process's time slice, so that the second try gets a fast one. */
static struct base *make_base(int device)
{
    uint64_t took;
    struct base *const base = try_base(device, &took);
    if (!base)
        return NULL;
    sm_trace_watch_exit(true);
    struct base *const again = took > PRECISE_US * 1000u ? try_base(device, &took) : NULL;
    if (!again)
        return base;
    destroy_base(device, base);
    return again;
}

/* Returns the device's newest base, held. NULL: there is none yet. *old: the caller should make a new one. */
static struct base *hold_base(int device, bool *old)
{
    const uint64_t now = sm_trace_time();
    sm_lock(&timings.lock);
    struct base *const base = timings.bases[device];
    *old = !base || now - base->host > BASE_LASTS_S * 1000000000u;
    *old = *old && now - timings.tried[device] > NEXT_TRY_MS * 1000000u;
    if (*old)
        timings.tried[device] = now;
    if (base && !*old)
        base->holders++;
    sm_unlock(&timings.lock);
    return *old ? NULL : base;
}

static struct base *find_base(int device)
{
    bool old;
    struct base *base = hold_base(device, &old);
    if (!old)
        return base;
    base = make_base(device);
    if (!base)
        return NULL;
    base->holders = 2; /* the device and the caller */
    sm_lock(&timings.lock);
    struct base *const before = timings.bases[device];
    timings.bases[device] = base;
    sm_unlock(&timings.lock);
    drop_base(device, before);
    return base;
}

/* ---- Pairs of events ---- */

static void destroy_timing(struct sm_timing *timing)
{
    if (timing->begin)
        (void)sm_device_event_destroy(timing->device, timing->begin);
    if (timing->end)
        (void)sm_device_event_destroy(timing->device, timing->end);
    free(timing);
}

static struct sm_timing *pop_idle_timing(int device)
{
    struct sm_timing *const timing = timings.idle[device];
    if (timing)
        timings.idle[device] = timing->next;
    return timing;
}

static struct sm_timing *create_timing(int device)
{
    struct sm_timing *const timing = calloc(1, sizeof *timing);
    if (!timing)
        return NULL;
    timing->device = device;
    synced_mem_status status = sm_device_timing_create(device, &timing->begin);
    if (status == SYNCED_MEM_OK)
        status = sm_device_timing_create(device, &timing->end);
    if (status == SYNCED_MEM_OK)
        return timing;
    destroy_timing(timing);
    return NULL;
}

/* Returns a new pending timing. NULL: there are too many, or its events can't be created. */
static struct sm_timing *obtain_timing(int device)
{
    sm_lock(&timings.lock);
    const bool room = timings.pending < MOST_PENDING;
    struct sm_timing *timing = room ? pop_idle_timing(device) : NULL;
    timings.pending += room;
    sm_unlock(&timings.lock);
    if (timing || !room)
        return timing;
    timing = create_timing(device);
    if (timing)
        return timing;
    sm_lock(&timings.lock);
    timings.pending--;
    sm_unlock(&timings.lock);
    return NULL;
}

void sm_timing_drop(struct sm_timing *timing)
{
    if (!timing)
        return;
    drop_base(timing->device, timing->base);
    timing->base = NULL;
    sm_lock(&timings.lock);
    timing->next = timings.idle[timing->device];
    timings.idle[timing->device] = timing;
    timings.pending--;
    sm_unlock(&timings.lock);
}

struct sm_timing *sm_timing_begin(struct sm_trace_stream stream)
{
    struct sm_timing *const timing = obtain_timing(stream.device);
    if (!timing)
        return NULL;
    timing->base = find_base(stream.device);
    if (timing->base && sm_device_event_record(stream.device, timing->begin, stream.handle) == SYNCED_MEM_OK)
        return timing;
    sm_timing_drop(timing);
    return NULL;
}

/* ---- Pending timings, with the lock held unless the list is local ---- */

static void append_timing(struct list *list, struct sm_timing *timing)
{
    timing->next = NULL;
    *(list->end ? list->end : &list->first) = timing;
    list->end = &timing->next;
}

static void prepend_timings(struct list *list, const struct list *front)
{
    if (!front->end)
        return;
    *front->end = list->first;
    list->end = list->end ? list->end : front->end;
    list->first = front->first;
}

static struct sm_timing *take_waiting_timings(void)
{
    sm_lock(&timings.lock);
    struct sm_timing *const all = timings.waiting.first;
    timings.waiting = (struct list){.first = NULL};
    sm_unlock(&timings.lock);
    return all;
}

/* Appends the timing before it records the second event. Two threads may queue on one stream: a transfer that is over
 * is then already in the list, in front of later ones. */
bool sm_timing_end(struct sm_timing *timing, struct sm_trace_stream stream, const struct sm_trace_event *event)
{
    if (!timing)
        return false;
    timing->event = *event;
    atomic_store_explicit(&timing->state, BEING_QUEUED, memory_order_relaxed);
    sm_lock(&timings.lock);
    append_timing(&timings.waiting, timing);
    sm_unlock(&timings.lock);
    const synced_mem_status status = sm_device_event_record(stream.device, timing->end, stream.handle);
    atomic_store_explicit(&timing->state, status == SYNCED_MEM_OK ? QUEUED : UNTIMED, memory_order_release);
    return true;
}

/* ---- Times ---- */

size_t sm_timing_pending(void)
{
    sm_lock(&timings.lock);
    const size_t pending = timings.pending;
    sm_unlock(&timings.lock);
    return pending;
}

bool sm_timing_is_due(void)
{
    sm_lock(&timings.lock);
    const size_t pending = timings.pending;
    const size_t left = timings.left;
    const uint64_t resolved_at = timings.resolved_at;
    sm_unlock(&timings.lock);
    if (pending < SM_TRACE_MANY)
        return false;
    return pending >= left + SM_TRACE_MANY || sm_trace_time() - resolved_at >= NEXT_QUERY_MS * 1000000u;
}

/* Records the transfer's event with the device's times. If the runtime can't report them, the host's times stay. */
static void record_transfer(struct sm_timing *timing, bool done)
{
    uint64_t before;
    uint64_t took;
    struct sm_trace_event *const event = &timing->event;
    synced_mem_status status = done ? SYNCED_MEM_OK : SYNCED_MEM_ERR_CUDA;
    if (status == SYNCED_MEM_OK)
        status = sm_device_elapsed(timing->device, timing->base->event, timing->begin, &before);
    if (status == SYNCED_MEM_OK)
        status = sm_device_elapsed(timing->device, timing->begin, timing->end, &took);
    event->timed = status == SYNCED_MEM_OK;
    if (event->timed) {
        event->begin = timing->base->host + before;
        event->end = event->begin + took;
    }
    sm_trace_record(event);
    sm_timing_drop(timing);
}

/* Returns whether the timing has to wait no longer. *status: OK if the device's times can be queried. */
static bool is_timing_over(struct sm_timing *timing, bool wait, synced_mem_status *status)
{
    bool done = wait;
    const unsigned char state = atomic_load_explicit(&timing->state, memory_order_acquire);
    *status = SYNCED_MEM_ERR_CUDA;
    if (state != QUEUED)
        return state == UNTIMED;
    *status = wait ? sm_device_event_sync(timing->device, timing->end)
                   : sm_device_event_query(timing->device, timing->end, &done);
    return done || *status != SYNCED_MEM_OK;
}

/* Records each stream's transfers in order. Once one of them is not done, the stream's later ones are not queried. One
 * that is done a microsecond later would otherwise overtake it. */
void sm_timing_resolve(bool wait)
{
    static uint64_t streams[MOST_PENDING]; /* streams with a transfer that is not done */
    size_t count = 0;
    struct list left = {.first = NULL};
    struct sm_timing *timing = take_waiting_timings();
    while (timing) {
        struct sm_timing *const next = timing->next;
        synced_mem_status status;
        size_t i = 0;
        while (i < count && streams[i] != timing->event.stream)
            i++;
        if (i == count && is_timing_over(timing, wait, &status)) {
            record_transfer(timing, status == SYNCED_MEM_OK);
        } else {
            streams[i] = timing->event.stream;
            count += i == count;
            append_timing(&left, timing);
        }
        timing = next;
    }
    sm_lock(&timings.lock);
    prepend_timings(&timings.waiting, &left);
    timings.left = timings.pending;
    timings.resolved_at = sm_trace_time();
    sm_unlock(&timings.lock);
}

/* ---- Shutdown ---- */

static struct base *take_base(int device)
{
    sm_lock(&timings.lock);
    struct base *const base = timings.bases[device];
    timings.bases[device] = NULL;
    timings.tried[device] = 0;
    sm_unlock(&timings.lock);
    return base;
}

static struct sm_timing *take_idle_timing(int device)
{
    sm_lock(&timings.lock);
    struct sm_timing *const timing = pop_idle_timing(device);
    sm_unlock(&timings.lock);
    return timing;
}

void sm_timing_rest(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        struct sm_timing *timing;
        while ((timing = take_idle_timing(device)) != NULL)
            destroy_timing(timing);
        drop_base(device, take_base(device));
    }
}

/* Keeps only timings whose second event a thread is about to record. */
void sm_timing_forget(void)
{
    struct list left = {.first = NULL};
    struct sm_timing *timing = take_waiting_timings();
    while (timing) {
        struct sm_timing *const next = timing->next;
        if (atomic_load_explicit(&timing->state, memory_order_acquire) == BEING_QUEUED)
            append_timing(&left, timing);
        else
            sm_timing_drop(timing);
        timing = next;
    }
    sm_lock(&timings.lock);
    prepend_timings(&timings.waiting, &left);
    sm_unlock(&timings.lock);
    sm_timing_rest();
}
