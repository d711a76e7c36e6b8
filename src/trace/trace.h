/*
 * The trace: what other files tell it. While it is off each of these is one look at a flag, and none is on the hot
 * path. Probes take numbers and strings: the trace knows no object, copy, stream or fence.
 *
 * Events go to a buffer in memory, with a lock of the library held for as long as it takes to write one there. They are
 * written to the file at the end of a public function, with no lock of an object's held; see trace_file.h.
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

/* The cause of an event, and its object. */
struct sm_trace_who {
    struct sm_by by;
    uint64_t id; /* the object's number in this trace; 0: no object */
    char name[48];
};

/* A stream, as a trace shows it. */
struct sm_trace_stream {
    synced_mem_stream handle;
    uint64_t serial; /* no other stream's, ever */
    const char *kind;
    int device;
};

extern atomic_bool sm_trace_flag;

static inline bool sm_trace_on(void)
{
    return atomic_load_explicit(&sm_trace_flag, memory_order_relaxed);
}

/* ---- Spans: a time, 0 while nothing is traced ---- */

uint64_t sm_trace_time(void);

static inline uint64_t sm_trace_begin(void)
{
    return sm_trace_on() ? sm_trace_time() : 0;
}

/* The host waits from now on; and has waited since then, which is not 0, for work on the stream of that serial. */
uint64_t sm_trace_open_wait(void);
void sm_trace_close_wait(uint64_t since, int device, uint64_t serial);

static inline uint64_t sm_trace_wait_begin(void)
{
    return sm_trace_on() ? sm_trace_open_wait() : 0;
}

/* A thread has copied a part of a staged transfer between pageable memory and a buffer since then. */
void sm_trace_write_part(uint64_t since, const struct sm_trace_who *who, size_t bytes, bool up);

static inline void sm_trace_part(uint64_t since, const struct sm_trace_who *who, size_t bytes, bool up)
{
    if (since != 0)
        sm_trace_write_part(since, who, bytes, up);
}

/* ---- Transfers ---- */

/* What is known of one while it is queued. */
struct sm_trace_copy {
    uint64_t since; /* 0: it is not traced */
    struct sm_timing *timing;
};

/* What it moves. */
struct sm_trace_moved {
    size_t bytes;
    unsigned char direction;        /* enum sm_direction */
    unsigned char from, to;         /* synced_mem_source */
    const struct sm_trace_who *who; /* of a part of a staged transfer; NULL: this is all of one, of the calling thread's
                                       object */
};

void sm_trace_open_copy(struct sm_trace_copy *copy, struct sm_trace_stream stream);
void sm_trace_close_copy(const struct sm_trace_copy *copy, const struct sm_trace_moved *moved,
                         struct sm_trace_stream stream, synced_mem_status status);

/* Around the call that queues it; the stream does not capture. */
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

/* ---- What happens at one moment ---- */

void sm_trace_write_head(const void *object, const char *name, unsigned before, unsigned after);
void sm_trace_write_allocation(size_t bytes, int device, unsigned source, const char *from);
void sm_trace_write_stream_wait(struct sm_trace_stream stream, uint64_t after);
void sm_trace_write_prefetch(unsigned source, size_t bytes, bool host, struct sm_trace_stream stream);
void sm_trace_write_staged(unsigned direction, size_t bytes, struct sm_trace_who *who);

static inline void sm_trace_head(const void *object, const char *name, unsigned before, unsigned after)
{
    if (sm_trace_on() && before != after)
        sm_trace_write_head(object, name, before, after);
}

/* from: what gave the memory. */
static inline void sm_trace_allocation(size_t bytes, int device, unsigned source, const char *from)
{
    if (sm_trace_on())
        sm_trace_write_allocation(bytes, device, source, from);
}

/* after: the serial of the stream that is waited for. */
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

/* A staged transfer has begun. *who: for its parts, as the object may go before they are done. */
static inline void sm_trace_staged_begun(unsigned direction, size_t bytes, struct sm_trace_who *who)
{
    if (sm_trace_on())
        sm_trace_write_staged(direction, bytes, who);
}

/* ---- Objects, calls, the process ---- */

/* The object goes: its name and number are no longer another's at the same address. */
void sm_trace_end_object(const void *object);

static inline void sm_trace_forget(const void *object)
{
    if (sm_trace_on())
        sm_trace_end_object(object);
}

/* A profiler's range for the function, which sm_device_range_end() ends. */
void sm_trace_range(const char *function, const char *object_name);

#endif
