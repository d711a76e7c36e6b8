/* Shared by the files of the trace: events, the buffer that holds them until they are written, and the traced
 * objects. */
#ifndef SM_TRACE_EVENT_H
#define SM_TRACE_EVENT_H

#include "trace/trace.h"

enum sm_trace_kind {
    SM_TRACE_COPY,   /* a transfer or, with part set, a part of one; on the stream's track */
    SM_TRACE_STAGED, /* a thread's copy of a part between pageable memory and a staging buffer */
    SM_TRACE_WAIT,   /* the host waits */
    SM_TRACE_HEAD,
    SM_TRACE_ALLOCATION,
    SM_TRACE_STREAM_WAIT,
    SM_TRACE_PREFETCH,
    SM_TRACE_FILE, /* a thread reads or writes a chunk of a file */
    SM_TRACE_HOLD,
    SM_TRACE_EVICTION
};

struct sm_trace_event {
    uint64_t begin, end; /* in nanoseconds */
    uint64_t queued;     /* of a transfer: when it was queued, by the host's clock */
    uint64_t thread;     /* the system's number of the thread */
    uint64_t bytes;
    uint64_t stream; /* serial of the event's stream; 0: none */
    uint64_t after;  /* of a wait: serial of the stream that is waited for; of a head: offset of the part; in a file */
    synced_mem_stream handle;
    const char *stream_kind;
    const char *what; /* of an allocation: its origin */
    struct sm_trace_who who;
    int device; /* -1: none */
    unsigned char kind;
    unsigned char direction; /* enum sm_direction */
    unsigned char from, to;  /* sources, or heads */
    bool part;               /* of a staged transfer, or of an object; its size is in bytes */
    unsigned char way;       /* of a transfer: enum sm_trace_way */
    bool timed;              /* begin and end are the device's times */
};

/* The number of events, or of pending transfers, from which writing or querying them pays. */
enum { SM_TRACE_MANY = 512 };

/* Returns an event of the calling thread that has only its time. */
struct sm_trace_event sm_trace_event_now(enum sm_trace_kind kind);
/* Sets the event's stream and device. */
void sm_trace_put_on(struct sm_trace_event *event, struct sm_trace_stream stream);
/* Fills *who with the cause, and counts the transfer for the call's object. A copy within the device is not counted. */
void sm_trace_count_move(unsigned direction, size_t bytes, struct sm_trace_who *who);

/* Returns whether the trace has a file. If so, events are kept and transfers are timed. */
bool sm_trace_keeps_events(void);
/* Appends the event to the buffer. If that is full, the event is lost and counted. */
void sm_trace_record(const struct sm_trace_event *event);

/* ---- For the holder of the file: one thread at a time ---- */

/* Opens an empty buffer. events: whether it has room for events; without, only objects are counted. Returns false if
 * there is no memory. */
bool sm_trace_open_buffer(bool events);
/* Frees the buffer. */
void sm_trace_free_buffer(void);
/* Ends the recording. Events that were not taken are lost. */
void sm_trace_close_buffer(void);
/* Returns the number of events in the buffer. */
size_t sm_trace_buffered(void);
/* Returns the events since the last call, valid until the next call. */
const struct sm_trace_event *sm_trace_take(size_t *count);
/* Returns the number of lost events. */
uint64_t sm_trace_lost(void);

/* ---- Objects; see trace_objects.c ---- */

/* The moves of an object's contents, and who made them. Arrays are indexed by the side that contents were moved to. */
struct sm_traced {
    const void *object; /* its address; NULL: the object is gone */
    struct sm_traced *next;
    uint64_t id;
    uint64_t turns; /* transfers in the other direction than the one before */
    uint64_t transfers[2];
    uint64_t bytes[2];
    struct sm_by moved_by[2]; /* who moved contents to the side last */
    struct sm_by stale_by[2]; /* who had made the side's contents stale before that */
    struct sm_by lost_by[2];  /* who made the side's contents stale last, moved since or not */
    unsigned char last;       /* the side that was moved to last */
    char name[SM_SUBJECT_BYTES];
    void *link; /* for a free cell */
};

enum { SM_TRACED_TOP = 10 };

/* The functions up to sm_traced_clear() run with the trace's lock held. */
struct sm_traced *sm_traced_find(const struct sm_subject *subject); /* NULL: no memory for the struct */
void sm_traced_moved(struct sm_traced *object, unsigned to, uint64_t bytes, const struct sm_by *by);
/* Counts an eviction that moves nothing as a turn, so that the summary shows objects that come and go. */
void sm_traced_evicted(struct sm_traced *object);
void sm_traced_end(const void *object);
/* Fills top with the objects of most turns, in falling order. Returns their number. */
size_t sm_traced_top(struct sm_traced top[SM_TRACED_TOP]);
void sm_traced_clear(void);

/* As sm_traced_top(), but takes the lock itself. Without a trace: the last one's objects, as at its end. */
size_t sm_trace_top(struct sm_traced top[SM_TRACED_TOP]);

/* Writes an object's name and number, as the trace shows them. */
enum { SM_TRACE_NAME_BYTES = SM_SUBJECT_BYTES + 24 };
void sm_trace_name(char out[SM_TRACE_NAME_BYTES], const char *name, uint64_t id);

#endif
