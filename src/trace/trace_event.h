/* What the files of the trace share: an event, and the buffer that holds it until it is written. */
#ifndef SM_TRACE_EVENT_H
#define SM_TRACE_EVENT_H

#include "trace/trace.h"

enum sm_trace_kind {
    SM_TRACE_COPY,   /* a transfer, or with what set a part of one: on the stream's track */
    SM_TRACE_STAGED, /* a thread's copy between pageable memory and a buffer */
    SM_TRACE_WAIT,   /* of the host */
    SM_TRACE_HEAD,
    SM_TRACE_ALLOCATION,
    SM_TRACE_STREAM_WAIT,
    SM_TRACE_PREFETCH
};

struct sm_trace_event {
    uint64_t begin, end; /* in nanoseconds */
    uint64_t queued;     /* of a transfer: when it was, by the host's clock */
    uint64_t thread;     /* the system's number */
    uint64_t bytes;
    uint64_t stream; /* the serial of the one it is on; 0: none */
    uint64_t after;  /* of a wait: the serial of the stream that is waited for */
    synced_mem_stream handle;
    const char *stream_kind;
    const char *what; /* of an allocation: what gave it */
    struct sm_trace_who who;
    int device; /* -1: none */
    unsigned char kind;
    unsigned char direction; /* enum sm_direction */
    unsigned char from, to;  /* sources, or heads */
    bool part;               /* of a staged transfer */
    bool timed;              /* begin and end are the device's */
};

/* Events, or transfers, that make it worth to look after them. */
enum { SM_TRACE_MANY = 512 };

/* An event of the calling thread's, with no more than its time. */
struct sm_trace_event sm_trace_event_now(enum sm_trace_kind kind);
void sm_trace_put_on(struct sm_trace_event *event, struct sm_trace_stream stream);
/* Counts a transfer of the call's object, and fills in who it was for. A copy within the device counts as none. */
void sm_trace_count_move(unsigned direction, size_t bytes, struct sm_trace_who *who);

/* The trace has a file: events are kept, and transfers timed. */
bool sm_trace_keeps_events(void);
/* Puts an event in the buffer; if that is full it is counted, and lost. */
void sm_trace_record(const struct sm_trace_event *event);

/* ---- For who holds the file, one thread at a time ---- */

/* Room for events, and none of them; without events only objects are counted. False: no memory. */
bool sm_trace_open_buffer(bool events);
void sm_trace_free_buffer(void);
/* Nothing is recorded any more, and what was not taken is lost. */
void sm_trace_close_buffer(void);
size_t sm_trace_buffered(void);
/* All that has been recorded since the last call, good until the next. */
const struct sm_trace_event *sm_trace_take(size_t *count);
uint64_t sm_trace_lost(void);

/* ---- Objects; see trace_objects.c ---- */

/* How an object's contents have been moved. The sides' indices: whereto. */
struct sm_traced {
    const void *object; /* its address; NULL: it is gone */
    struct sm_traced *next;
    uint64_t id;
    uint64_t turns; /* transfers in the other direction than the one before */
    uint64_t transfers[2];
    uint64_t bytes[2];
    struct sm_by moved_by[2]; /* the last that did */
    struct sm_by stale_by[2]; /* ... that had made this side's contents stale before */
    struct sm_by lost_by[2];  /* ... that made them stale, whether or not they were moved since */
    unsigned char last;       /* side that was moved to last */
    char name[48];
    void *link; /* of a free cell */
};

enum { SM_TRACED_TOP = 10 };

/* All with the trace's lock held. */
struct sm_traced *sm_traced_find(const void *object, const char *name); /* NULL: no memory for its record */
void sm_traced_moved(struct sm_traced *object, unsigned to, uint64_t bytes, const struct sm_by *by);
void sm_traced_end(const void *object);
/* Those that went back and forth most, most first; how many there are. */
size_t sm_traced_top(struct sm_traced top[SM_TRACED_TOP]);
void sm_traced_clear(void);

/* As that, for others; without a trace what the last one had at its end. */
size_t sm_trace_top(struct sm_traced top[SM_TRACED_TOP]);

/* What an object is called in a trace: its name and number; out has room for 80 bytes. */
enum { SM_TRACE_NAME_BYTES = 80 };
void sm_trace_name(char out[SM_TRACE_NAME_BYTES], const char *name, uint64_t id);

#endif
