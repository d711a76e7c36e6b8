/*
 * The trace: probes that other folders call, and the words of trace/:
 *
 * - trace: a recording of events. At most one is under way; it may have a file, or only count for the summary.
 * - probe: a function that records an event. While no trace is under way it costs one load and one branch. None is on
 *   the hot path. Probes take numbers and strings: the trace knows no object, copy, stream or fence.
 * - event: something that happened, at a moment or during a span. Its cause is the caller, see base/caller.h.
 * - track: the line of a viewer that shows the events of a host thread or of a stream.
 * - serial: a stream's number, which no other stream ever gets. Part: a chunk of a staged transfer.
 * - timing: two device events around a transfer, which say when it ran. Base: a device event whose host time is known.
 * - turn: a transfer of an object in the other direction than the one before. The summary lists objects with most
 *   turns.
 *
 * A probe writes its event to a buffer in memory, under a library lock. The end of a public function writes the buffer
 * to the file, with no object's lock held; see trace_writer.h.
 */
#ifndef SM_TRACE_H
#define SM_TRACE_H

#include "base/caller.h"
#include "synced_mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sm_timing;

/* An event's cause, and its object. */
struct sm_trace_who {
    struct sm_by by;
    uint64_t id; /* the object's number in this trace; 0: no object */
    char name[SM_SUBJECT_BYTES];
    uint64_t root; /* of a view, its root's number; else 0 */
    char root_name[SM_SUBJECT_BYTES];
    bool is_part; /* it is about a part of the object, or of the root, from offset on */
    size_t offset;
};

/* A stream as a trace shows it. */
struct sm_trace_stream {
    synced_mem_stream handle;
    uint64_t serial; /* no other stream's, ever */
    const char *kind;
    int device;
};

static inline bool sm_trace_on(void)
{
    return atomic_load_explicit(&sm_process.is_traced, memory_order_relaxed);
}

/* ---- Spans: each has a start in nanoseconds, 0 while no trace is under way ---- */

/* Returns the host's time in nanoseconds. */
uint64_t sm_trace_time(void);

static inline uint64_t sm_trace_begin(void)
{
    return sm_trace_on() ? sm_trace_time() : 0;
}

/* Open and close a span in which the host waits for work. since: from sm_trace_open_wait(), not 0. serial: of the
 * stream whose work the host waits for. */
uint64_t sm_trace_open_wait(void);
void sm_trace_close_wait(uint64_t since, int device, uint64_t serial);

static inline uint64_t sm_trace_wait_begin(void)
{
    return sm_trace_on() ? sm_trace_open_wait() : 0;
}

/* Records that the calling thread has copied a part of a staged transfer between pageable memory and a staging buffer.
 * up: towards the device. */
void sm_trace_write_part(uint64_t since, const struct sm_trace_who *who, size_t bytes, bool up);

static inline void sm_trace_part(uint64_t since, const struct sm_trace_who *who, size_t bytes, bool up)
{
    if (since != 0)
        sm_trace_write_part(since, who, bytes, up);
}

/* Fills *who with the cause of work that is done later, and the calling thread's object. */
void sm_trace_write_cause(struct sm_trace_who *who);

static inline void sm_trace_cause(struct sm_trace_who *who)
{
    if (sm_trace_on())
        sm_trace_write_cause(who);
}

/* Records that the calling thread has read a chunk of a file, or written it. */
void sm_trace_write_chunk(uint64_t since, const struct sm_trace_who *who, size_t bytes, uint64_t offset, bool writes);

static inline void sm_trace_chunk(uint64_t since, const struct sm_trace_who *who, size_t bytes, uint64_t offset,
                                  bool writes)
{
    if (since != 0)
        sm_trace_write_chunk(since, who, bytes, offset, writes);
}

/* The way a copy was evicted: a device copy, clean or pulled first; a host copy, clean or spilled to the scratch file.
 */
enum sm_eviction { SM_EVICTION_CLEAN, SM_EVICTION_PULLED, SM_EVICTION_ON_HOST, SM_EVICTION_SPILLED };

/* Records the eviction of an object's copy. */
void sm_trace_write_eviction(uint64_t since, const struct sm_subject *subject, size_t bytes, enum sm_eviction how);

static inline void sm_trace_eviction(uint64_t since, const struct sm_subject *subject, size_t bytes,
                                     enum sm_eviction how)
{
    if (since != 0)
        sm_trace_write_eviction(since, subject, bytes, how);
}

/* ---- Transfers ---- */

/* A transfer that is being queued. */
struct sm_trace_copy {
    uint64_t since; /* 0: not traced */
    struct sm_timing *timing;
};

/* SM_TRACE_LISTED: a kernel makes the copy with others if the device has room for one, else an engine. */
enum sm_trace_way { SM_TRACE_ENGINE, SM_TRACE_KERNEL, SM_TRACE_LISTED };

/* A transfer's contents. */
struct sm_trace_moved {
    size_t bytes;
    unsigned char direction; /* enum sm_direction */
    unsigned char from, to;  /* synced_mem_source */
    unsigned char way;       /* enum sm_trace_way */
    /* For a part of a staged transfer. NULL: it is a whole transfer, of the calling thread's object. */
    const struct sm_trace_who *who;
};

/* Traces a copy that a call lists for a kernel, which makes it with others: a moment on the host, without the device's
 * times. Only while a trace runs. */
void sm_trace_record_listed(const struct sm_trace_moved *moved, struct sm_trace_stream stream);

void sm_trace_open_copy(struct sm_trace_copy *copy, struct sm_trace_stream stream);
void sm_trace_close_copy(const struct sm_trace_copy *copy, const struct sm_trace_moved *moved,
                         struct sm_trace_stream stream, synced_mem_status status);

/* Surround the call that queues the transfer. The stream does not capture. */
static inline struct sm_trace_copy sm_trace_copy_begin(struct sm_trace_stream stream)
{
    struct sm_trace_copy copy = {.since = 0};
    if (sm_trace_on())
        sm_trace_open_copy(&copy, stream);
    return copy;
}

static inline void sm_trace_copy_end(const struct sm_trace_copy *copy, const struct sm_trace_moved *moved,
                                     struct sm_trace_stream stream, synced_mem_status status)
{
    if (copy->since != 0)
        sm_trace_close_copy(copy, moved, stream, status);
}

/* ---- Events at one moment ---- */

/* A change of a head, of an object or of a part of one. */
struct sm_trace_head {
    struct sm_subject subject;
    unsigned before;
    unsigned after;
    bool part; /* the next members say which bytes */
    size_t offset;
    size_t bytes;
};

void sm_trace_write_head(const struct sm_trace_head *head);
void sm_trace_write_allocation(size_t bytes, int device, unsigned source, const char *from);
void sm_trace_write_stream_wait(struct sm_trace_stream stream, uint64_t after);
void sm_trace_write_prefetch(unsigned source, size_t bytes, bool host, struct sm_trace_stream stream);
void sm_trace_write_staged(unsigned direction, size_t bytes, struct sm_trace_who *who);

void sm_trace_write_hold(const struct sm_subject *subject, size_t bytes, bool reads);

/* Records that an object is held, for the simulator of evictions. */
static inline void sm_trace_hold(const struct sm_subject *subject, size_t bytes, bool reads)
{
    if (sm_trace_on())
        sm_trace_write_hold(subject, bytes, reads);
}

static inline void sm_trace_head(const struct sm_trace_head *head)
{
    if (sm_trace_on() && head->before != head->after)
        sm_trace_write_head(head);
}

/* Records an allocation for the caller's object, or for its root. from: its origin. */
static inline void sm_trace_allocation(size_t bytes, int device, unsigned source, const char *from)
{
    if (sm_trace_on())
        sm_trace_write_allocation(bytes, device, source, from);
}

/* Records that the stream waits for another one. after: the other stream's serial. */
static inline void sm_trace_stream_wait(struct sm_trace_stream stream, uint64_t after)
{
    if (sm_trace_on())
        sm_trace_write_stream_wait(stream, after);
}

static inline void sm_trace_prefetch(unsigned source, size_t bytes, bool host, struct sm_trace_stream stream)
{
    if (sm_trace_on())
        sm_trace_write_prefetch(source, bytes, host, stream);
}

/* Records that a staged transfer has begun. Fills *who for its parts, as the object may be gone before they are
 * done. */
static inline void sm_trace_staged_begun(unsigned direction, size_t bytes, struct sm_trace_who *who)
{
    if (sm_trace_on())
        sm_trace_write_staged(direction, bytes, who);
}

/* ---- Objects, calls, the process ---- */

/* Forgets the object. A later object at the same address gets another name and number. */
void sm_trace_end_object(const void *object);

static inline void sm_trace_forget(const void *object)
{
    if (sm_trace_on())
        sm_trace_end_object(object);
}

/* Opens a profiler's range for the function. sm_device_range_end() closes it. */
void sm_trace_range(const char *function, const struct sm_subject *subject);

#endif
