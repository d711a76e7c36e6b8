/* The records of callers' streams. */
#ifndef SM_STREAM_RECORD_H
#define SM_STREAM_RECORD_H

#include "stream/stream.h"

/* NULL when the system has no memory. */
struct sm_stream *sm_stream_record_take(void);

/* Nobody refers to it any more. One that the hot path may have met is used again only after many others. NULL is
 * ignored. */
void sm_stream_record_give(struct sm_stream *stream);

/* For the shutdown: all that were given back are free to be used again, or returned to the system. */
void sm_stream_records_trim(void);

#endif
