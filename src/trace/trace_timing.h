/*
 * When a transfer ran, by the device's own clock: an event with a time before it and one behind it, on its stream. What
 * the runtime tells is the time between two events; so there is one more on each device, of which the host's time is
 * known. Nothing here waits for the device, but for what says so.
 */
#ifndef SM_TRACE_TIMING_H
#define SM_TRACE_TIMING_H

#include "trace/trace_event.h"

/* Before a transfer is queued on the stream. NULL: it can't be timed. */
struct sm_timing *sm_timing_begin(struct sm_trace_stream stream);
/* Behind it: the event is recorded when the transfer is done. False, for NULL: it is the caller's to record. */
bool sm_timing_end(struct sm_timing *timing, struct sm_trace_stream stream, const struct sm_trace_event *event);
/* Instead of that. NULL is ignored. */
void sm_timing_drop(struct sm_timing *timing);

/* How many have been begun, and neither recorded nor dropped. */
size_t sm_timing_pending(void);
/* Whether so many are pending that it is time to look which are done. */
bool sm_timing_is_to_look(void);
/* Records what is done, each stream's in its order; with wait set, all but those that a thread is just queueing. One
 * thread at a time. */
void sm_timing_resolve(bool wait);
/* Destroys all events that nobody uses. */
void sm_timing_rest(void);
/* Those that are pending still are of an earlier trace, or of the parent process. */
void sm_timing_forget(void);

#endif
