/* The trace's buffer in memory, and the probes that record to it. */
#include "trace/trace_event.h"

#include "base/caller.h"
#include "device/device.h"
#include "base/process.h"
#include "base/side.h"
#include "base/status.h"
#include "system/clock.h"
#include "system/pages.h"
#include "system/process.h"

#include <stdio.h>
#include <string.h>

/* Events in each half of the buffer, and those that memory is committed for at a time. Only pages that events were
 * written to are ever touched. */
enum { ROOM = 1 << 18, STEP = 1 << 12 };

static struct {
    struct sm_lock lock;
    struct sm_trace_event *halves[2];
    size_t ready[2];             /* events in each half that there is memory for */
    bool on;                     /* there is a trace */
    struct sm_trace_event *open; /* the half that is recorded to; NULL: no trace, or one without a file */
    size_t count;                /* its events */
    uint64_t lost;
    struct sm_traced top[SM_TRACED_TOP]; /* of the last trace */
    size_t top_count;
} trace = {.lock = SM_LOCK_INITIALIZER};

/* The trace has a file: events are kept and transfers are timed. */
static atomic_bool keeps_events;

uint64_t sm_trace_time(void)
{
    return sm_now();
}

/* ---- The buffer ---- */

void sm_trace_free_buffer(void)
{
    for (int i = 0; i < 2; i++) {
        if (trace.halves[i])
            sm_pages_unmap(trace.halves[i], ROOM * sizeof(struct sm_trace_event));
        trace.halves[i] = NULL;
        trace.ready[i] = 0;
    }
    if (trace.on) { /* only in a forked child: elsewhere the buffer is closed by now, and other threads may read it */
        trace.on = false;
        trace.open = NULL;
    }
}

bool sm_trace_open_buffer(bool events)
{
    for (int i = 0; events && i < 2; i++)
        trace.halves[i] = sm_pages_reserve(ROOM * sizeof(struct sm_trace_event));
    if (events && (!trace.halves[0] || !trace.halves[1])) {
        sm_trace_free_buffer();
        return false;
    }
    atomic_store_explicit(&keeps_events, events, memory_order_relaxed);
    sm_lock(&trace.lock);
    trace.on = true;
    trace.open = trace.halves[0];
    trace.count = 0;
    trace.lost = 0;
    trace.top_count = 0;
    sm_traced_clear();
    sm_unlock(&trace.lock);
    return true;
}

void sm_trace_close_buffer(void)
{
    sm_lock(&trace.lock);
    trace.on = false;
    trace.open = NULL;
    trace.lost += trace.count;
    trace.count = 0;
    trace.top_count = sm_traced_top(trace.top);
    sm_traced_clear();
    sm_unlock(&trace.lock);
}

size_t sm_trace_top(struct sm_traced top[SM_TRACED_TOP])
{
    sm_lock(&trace.lock);
    const size_t count = trace.on ? sm_traced_top(top) : trace.top_count;
    if (!trace.on)
        memcpy(top, trace.top, sizeof trace.top);
    sm_unlock(&trace.lock);
    return count;
}

size_t sm_trace_buffered(void)
{
    sm_lock(&trace.lock);
    const size_t count = trace.count;
    sm_unlock(&trace.lock);
    return count;
}

const struct sm_trace_event *sm_trace_take(size_t *count)
{
    sm_lock(&trace.lock);
    const struct sm_trace_event *const full = trace.open;
    trace.open = full == trace.halves[0] ? trace.halves[1] : trace.halves[0];
    *count = trace.count;
    trace.count = 0;
    sm_unlock(&trace.lock);
    return full;
}

uint64_t sm_trace_lost(void)
{
    sm_lock(&trace.lock);
    const uint64_t lost = trace.lost;
    sm_unlock(&trace.lock);
    return lost;
}

static bool has_room(void)
{
    size_t *const ready = &trace.ready[trace.open == trace.halves[1]];
    if (trace.count == *ready && *ready < ROOM && sm_pages_commit(trace.open + *ready, STEP * sizeof *trace.open))
        *ready += STEP;
    return trace.count < *ready;
}

/* Appends the event, with the lock held. Without room it counts it as lost. */
static void append_event(const struct sm_trace_event *event)
{
    if (trace.open && has_room())
        trace.open[trace.count++] = *event;
    else if (trace.open || !trace.on)
        trace.lost++;
}

bool sm_trace_keeps_events(void)
{
    return atomic_load_explicit(&keeps_events, memory_order_relaxed);
}

void sm_trace_record(const struct sm_trace_event *event)
{
    sm_lock(&trace.lock);
    append_event(event);
    sm_unlock(&trace.lock);
}

/* ---- Causes ---- */

static void identify_root(const struct sm_subject *view, struct sm_trace_who *who)
{
    const struct sm_subject subject = {.object = view->root, .name = view->root_name};
    const struct sm_traced *const root = sm_traced_find(&subject);
    who->root = root ? root->id : 0;
    memcpy(who->root_name, root ? root->name : "", root ? sizeof who->root_name : 1);
}

/* Fills *who, with the lock held. Returns what it knows of the subject. NULL: no object, no trace any more, or no
 * memory. */
static struct sm_traced *identify(const struct sm_subject *subject, struct sm_trace_who *who)
{
    struct sm_traced *const traced = subject->object && trace.on ? sm_traced_find(subject) : NULL;
    *who = (struct sm_trace_who){.id = 0};
    sm_by_caller(&who->by);
    if (traced) {
        who->id = traced->id;
        who->is_part = subject->is_part;
        who->offset = subject->offset;
        memcpy(who->name, traced->name, sizeof who->name);
        if (subject->root)
            identify_root(subject, who);
    }
    return traced;
}

struct sm_trace_event sm_trace_event_now(enum sm_trace_kind kind)
{
    const uint64_t now = sm_trace_time();
    return (struct sm_trace_event){
        .kind = (unsigned char)kind, .begin = now, .end = now, .thread = sm_thread_id(), .device = -1};
}

void sm_trace_put_on(struct sm_trace_event *event, struct sm_trace_stream stream)
{
    event->device = stream.device;
    event->stream = stream.serial;
    event->stream_kind = stream.kind;
    event->handle = stream.handle;
}

static void record_event_of(const struct sm_subject *subject, struct sm_trace_event *event)
{
    sm_lock(&trace.lock);
    (void)identify(subject, &event->who);
    append_event(event);
    sm_unlock(&trace.lock);
}

void sm_trace_end_object(const void *object)
{
    sm_lock(&trace.lock);
    sm_traced_end(object);
    sm_unlock(&trace.lock);
}

/* ---- Transfers ---- */

/* Fills *who with the cause, and counts the transfer for its object. A copy within the device is not counted. */
void sm_trace_count_move(unsigned direction, size_t bytes, struct sm_trace_who *who)
{
    sm_lock(&trace.lock);
    struct sm_traced *const object = identify(&sm_caller.subject, who);
    if (object && direction != SM_D2D && bytes > 0)
        sm_traced_moved(object, direction == SM_H2D ? SM_GPU : SM_CPU, bytes, &who->by);
    sm_unlock(&trace.lock);
}

void sm_trace_write_staged(unsigned direction, size_t bytes, struct sm_trace_who *who)
{
    sm_trace_count_move(direction, bytes, who);
}

void sm_trace_write_part(uint64_t since, const struct sm_trace_who *who, size_t bytes, bool up)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_STAGED);
    event.begin = since;
    event.bytes = bytes;
    event.direction = up ? SM_H2D : SM_D2H;
    event.who = *who;
    sm_trace_record(&event);
}

void sm_trace_write_cause(struct sm_trace_who *who)
{
    sm_trace_count_move(SM_D2D, 0, who);
}

void sm_trace_write_chunk(uint64_t since, const struct sm_trace_who *who, size_t bytes, uint64_t offset, bool writes)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_FILE);
    event.begin = since;
    event.bytes = bytes;
    event.after = offset;
    event.direction = writes ? SM_D2H : SM_H2D;
    event.who = *who;
    sm_trace_record(&event);
}

/* ---- Ranges ---- */

void sm_trace_range(const char *function, const struct sm_subject *subject)
{
    char name[SM_SUBJECT_BYTES];
    char text[SM_SUBJECT_BYTES + 80];
    sm_subject_name(name, subject);
    (void)snprintf(text, sizeof text, "%s%s%s", function, name[0] ? " " : "", name);
    sm_device_range_begin(text);
}

/* ---- Other probes ---- */

uint64_t sm_trace_open_wait(void)
{
    sm_device_range_begin("synced_mem wait");
    return sm_trace_time();
}

void sm_trace_close_wait(uint64_t since, int device, uint64_t serial)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_WAIT);
    sm_device_range_end();
    event.begin = since;
    event.device = device;
    event.after = serial;
    record_event_of(&sm_caller.subject, &event);
}

void sm_trace_write_head(const struct sm_trace_head *head)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_HEAD);
    event.from = (unsigned char)head->before;
    event.to = (unsigned char)head->after;
    event.part = head->part;
    event.after = head->offset;
    event.bytes = head->bytes;
    sm_lock(&trace.lock);
    struct sm_traced *const traced = identify(&head->subject, &event.who);
    for (enum sm_side side = SM_CPU; traced && side < SM_SIDES; side++)
        if (head->before & ~head->after & sm_bit(side))
            traced->lost_by[side] = event.who.by;
    append_event(&event);
    sm_unlock(&trace.lock);
}

void sm_trace_write_allocation(size_t bytes, int device, unsigned source, const char *from)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_ALLOCATION);
    struct sm_subject subject = sm_caller.subject;
    if (subject.root)
        subject = (struct sm_subject){.object = subject.root, .name = subject.root_name};
    event.bytes = bytes;
    event.device = device;
    event.from = (unsigned char)source;
    event.what = from;
    record_event_of(&subject, &event);
}

void sm_trace_write_stream_wait(struct sm_trace_stream stream, uint64_t after)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_STREAM_WAIT);
    sm_trace_put_on(&event, stream);
    event.after = after;
    record_event_of(&sm_caller.subject, &event);
}

void sm_trace_write_prefetch(unsigned source, size_t bytes, bool host, struct sm_trace_stream stream)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_PREFETCH);
    sm_trace_put_on(&event, stream);
    event.bytes = bytes;
    event.from = event.to = (unsigned char)source;
    event.direction = host ? SM_D2H : SM_H2D;
    record_event_of(&sm_caller.subject, &event);
}

void sm_trace_write_hold(const struct sm_subject *subject, size_t bytes, bool reads)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_HOLD);
    event.bytes = bytes;
    event.direction = reads ? SM_H2D : SM_D2H;
    record_event_of(subject, &event);
}

void sm_trace_write_eviction(uint64_t since, const struct sm_subject *subject, size_t bytes, enum sm_eviction how)
{
    static const char *const reasons[] = {[SM_EVICTION_CLEAN] = "clean",
                                          [SM_EVICTION_PULLED] = "pulled first",
                                          [SM_EVICTION_ON_HOST] = "host copy, clean",
                                          [SM_EVICTION_SPILLED] = "host copy, spilled"};
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_EVICTION);
    event.begin = since;
    event.bytes = bytes;
    event.what = reasons[how];
    sm_lock(&trace.lock);
    struct sm_traced *const traced = identify(subject, &event.who);
    if (traced && how != SM_EVICTION_PULLED)
        sm_traced_evicted(traced);
    append_event(&event);
    sm_unlock(&trace.lock);
}
