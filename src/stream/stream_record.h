/* The memory for records of callers' streams. */
#ifndef SM_STREAM_RECORD_H
#define SM_STREAM_RECORD_H

#include "stream/stream.h"

/* Returns a record, which the caller owns; NULL if the system has no memory. */
struct sm_stream *sm_stream_record_take(void);

/* Takes back a record that nobody refers to any more. The hot path may still read the record of a created stream. So
 * such a record is used again only after many others. Ignores NULL. */
void sm_stream_record_give(struct sm_stream *stream);

/* Makes all returned records available again or returns them to the system. For the shutdown. */
void sm_stream_records_trim(void);

#endif
