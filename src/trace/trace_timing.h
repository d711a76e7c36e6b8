/*
 * Timings: when a transfer ran, by the device's own clock. One event is recorded before the transfer and one behind it,
 * on its stream. The runtime reports only the time between two events. So each device has one more event, the base,
 * whose host time is known. No function here waits for the device, except as its comment says.
 */
#ifndef SM_TRACE_TIMING_H
#define SM_TRACE_TIMING_H

#include "trace/trace_event.h"

/* Begins a timing, before a transfer is queued on the stream. NULL: the transfer can't be timed. */
struct sm_timing *sm_timing_begin(struct sm_trace_stream stream);
/* Ends the timing behind the transfer. It records the event once the transfer is done. Returns false if timing is NULL:
 * the caller records the event. */
bool sm_timing_end(struct sm_timing *timing, struct sm_trace_stream stream, const struct sm_trace_event *event);
/* Ends the timing without an event. NULL is ignored. */
void sm_timing_drop(struct sm_timing *timing);

/* Returns how many timings have begun and are neither recorded nor dropped. */
size_t sm_timing_pending(void);
/* Returns whether enough timings are pending to call sm_timing_resolve(). */
bool sm_timing_is_due(void);
/* Records the events of transfers that are done, each stream's in its order. wait: waits for all, except those that a
 * thread is just queueing. One thread at a time. */
void sm_timing_resolve(bool wait);
/* Destroys all events that are not in use. */
void sm_timing_rest(void);
/* Drops pending timings of an earlier trace or of the parent process. */
void sm_timing_forget(void);

#endif
