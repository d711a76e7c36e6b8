/* The memory for structs of callers' streams. */
#ifndef SM_STREAM_STRUCT_H
#define SM_STREAM_STRUCT_H

#include "stream/stream.h"

/* Returns a struct, which the caller owns; NULL if the system has no memory. */
struct sm_stream *sm_stream_struct_take(void);

/* Takes back a struct that nobody refers to any more. The hot path may still read the struct of a created stream. So
 * such a struct is used again only after many others. Ignores NULL. */
void sm_stream_struct_give(struct sm_stream *stream);

/* Makes all returned structs available again or returns them to the system. For the shutdown. */
void sm_stream_structs_trim(void);

#endif
