/* Probes of transfers, with the device's times where the runtime reports them. */
#include "device/device.h"
#include "base/status.h"
#include "trace/trace_timing.h"

void sm_trace_open_copy(struct sm_trace_copy *copy, struct sm_trace_stream stream)
{
    copy->timing = sm_trace_keeps_events() ? sm_timing_begin(stream) : NULL;
    copy->since = sm_trace_time();
    sm_device_range_begin("synced_mem transfer");
}

static void describe_move(struct sm_trace_event *event, const struct sm_trace_moved *moved,
                          struct sm_trace_stream stream)
{
    event->bytes = moved->bytes;
    event->direction = moved->direction;
    event->from = moved->from;
    event->to = moved->to;
    event->part = moved->who != NULL;
    event->way = moved->way;
    sm_trace_put_on(event, stream);
    if (moved->who)
        event->who = *moved->who;
    else
        sm_trace_count_move(moved->direction, moved->bytes, &event->who);
}

void sm_trace_record_listed(const struct sm_trace_moved *moved, struct sm_trace_stream stream)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_COPY);
    describe_move(&event, moved, stream);
    event.queued = event.begin;
    sm_trace_record(&event);
}

void sm_trace_close_copy(const struct sm_trace_copy *copy, const struct sm_trace_moved *moved,
                         struct sm_trace_stream stream, synced_mem_status status)
{
    struct sm_trace_event event = sm_trace_event_now(SM_TRACE_COPY);
    sm_device_range_end();
    if (status != SYNCED_MEM_OK || moved->bytes == 0) {
        const struct sm_detail first = sm_detail_get();
        sm_timing_drop(copy->timing);
        sm_detail_set(&first);
        return;
    }
    describe_move(&event, moved, stream);
    event.begin = copy->since;
    event.queued = copy->since;
    if (!sm_timing_end(copy->timing, stream, &event))
        sm_trace_record(&event);
}
