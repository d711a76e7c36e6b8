/* The device's times of transfers. */
#include "trace_timing.h"

#include "process.h"

#include <stdlib.h>

/* A moment on a device whose time on the host is known. */
struct base {
    sm_event event;
    uint64_t host;
    unsigned holders; /* guarded by the lock */
};

struct sm_timing {
    struct sm_timing *next;
    struct base *base; /* held */
    int device;
    sm_event begin;
    sm_event end;
    struct sm_trace_event event;
};

/* The runtime tells times as a float of milliseconds: after so long another base is better. A device that does not get
 * to an event within a short time and some questions has no base, and is asked again after a while. No more than that
 * many transfers wait to be done. */
enum { BASE_LASTS_S = 8, PATIENCE_US = 1000, PATIENCE = 64, NEXT_TRY_MS = 100, MOST_PENDING = 4096 };

static struct {
    struct sm_lock lock;
    struct sm_timing *first; /* those that are pending, in the order of their ends */
    struct sm_timing **last; /* where the next goes; NULL: there is none */
    size_t pending;
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

/* On a lane that waits for nothing. The event's time is between that of its record and that of the answer. */
static bool locate(int device, struct base *base)
{
    struct sm_stream *lane;
    bool done = false;
    const uint64_t before = sm_trace_time();
    synced_mem_status status = sm_stream_lane(device, SM_LANE_FREE, &lane);
    if (status == SYNCED_MEM_OK)
        status = sm_device_event_record(device, base->event, lane->handle);
    unsigned asked = 0;
    while (status == SYNCED_MEM_OK && !done && (asked++ < PATIENCE || sm_trace_time() - before < PATIENCE_US * 1000u))
        status = sm_device_event_query(device, base->event, &done);
    base->host = before + (sm_trace_time() - before) / 2;
    return done;
}

static struct base *make_base(int device)
{
    struct base *const base = calloc(1, sizeof *base);
    if (!base)
        return NULL;
    if (sm_device_timing_create(device, &base->event) != SYNCED_MEM_OK) {
        free(base);
        return NULL;
    }
    if (!locate(device, base)) {
        destroy_base(device, base);
        return NULL;
    }
    sm_trace_watch_exit(true);
    return base;
}

/* The device's newest one, held; NULL: there is none yet. *old: another would be better. */
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
    base->holders = 2; /* the device, and the caller */
    sm_lock(&timings.lock);
    struct base *const before = timings.bases[device];
    timings.bases[device] = base;
    sm_unlock(&timings.lock);
    drop_base(device, before);
    return base;
}

/* ---- Pairs of events ---- */

static void destroy(struct sm_timing *timing)
{
    if (timing->begin)
        (void)sm_device_event_destroy(timing->device, timing->begin);
    if (timing->end)
        (void)sm_device_event_destroy(timing->device, timing->end);
    free(timing);
}

static struct sm_timing *take_idle(int device)
{
    sm_lock(&timings.lock);
    struct sm_timing *const timing = timings.idle[device];
    if (timing)
        timings.idle[device] = timing->next;
    sm_unlock(&timings.lock);
    return timing;
}

static struct sm_timing *create(int device)
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
    destroy(timing);
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
    sm_unlock(&timings.lock);
}

struct sm_timing *sm_timing_begin(const struct sm_stream *stream)
{
    struct base *const base = sm_timing_pending() < MOST_PENDING ? find_base(stream->device) : NULL;
    if (!base)
        return NULL;
    struct sm_timing *timing = take_idle(stream->device);
    if (!timing)
        timing = create(stream->device);
    if (!timing) {
        drop_base(stream->device, base);
        return NULL;
    }
    timing->base = base;
    if (sm_device_event_record(stream->device, timing->begin, stream->handle) == SYNCED_MEM_OK)
        return timing;
    sm_timing_drop(timing);
    return NULL;
}

/* With the lock held. */
static void append(struct sm_timing *timing)
{
    timing->next = NULL;
    *(timings.last ? timings.last : &timings.first) = timing;
    timings.last = &timing->next;
    timings.pending++;
}

bool sm_timing_end(struct sm_timing *timing, const struct sm_stream *stream, const struct sm_trace_event *event)
{
    if (!timing)
        return false;
    timing->event = *event;
    if (sm_device_event_record(stream->device, timing->end, stream->handle) != SYNCED_MEM_OK) {
        sm_timing_drop(timing);
        return false;
    }
    sm_lock(&timings.lock);
    append(timing);
    sm_unlock(&timings.lock);
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

/* What the runtime does not say keeps the host's times. */
static void record(struct sm_timing *timing, bool done)
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

static struct sm_timing *take_all(void)
{
    sm_lock(&timings.lock);
    struct sm_timing *const all = timings.first;
    timings.first = NULL;
    timings.last = NULL;
    timings.pending = 0;
    sm_unlock(&timings.lock);
    return all;
}

void sm_timing_resolve(bool wait)
{
    struct sm_timing *timing = take_all();
    while (timing) {
        struct sm_timing *const next = timing->next;
        bool done = wait;
        const synced_mem_status status = wait ? sm_device_event_sync(timing->device, timing->end)
                                              : sm_device_event_query(timing->device, timing->end, &done);
        if (done || status != SYNCED_MEM_OK) {
            record(timing, status == SYNCED_MEM_OK);
        } else {
            sm_lock(&timings.lock);
            append(timing);
            sm_unlock(&timings.lock);
        }
        timing = next;
    }
}

/* ---- The end ---- */

static struct base *take_base(int device)
{
    sm_lock(&timings.lock);
    struct base *const base = timings.bases[device];
    timings.bases[device] = NULL;
    timings.tried[device] = 0;
    sm_unlock(&timings.lock);
    return base;
}

void sm_timing_rest(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        struct sm_timing *timing;
        while ((timing = take_idle(device)) != NULL)
            destroy(timing);
        drop_base(device, take_base(device));
    }
}

void sm_timing_forget(void)
{
    struct sm_timing *timing = take_all();
    while (timing) {
        struct sm_timing *const next = timing->next;
        sm_timing_drop(timing);
        timing = next;
    }
    sm_timing_rest();
}
