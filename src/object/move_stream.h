/* The stream of a push, pull or copy. */
#ifndef SM_MOVE_STREAM_H
#define SM_MOVE_STREAM_H

#include "base/status.h"
#include "object/object.h"

/* Finds the stream for the transfer of one of the objects, mems[which]. All objects use the same one and are on its
 * device. *stream: of an earlier object; NULL: of none yet. SM_HANDLE_OF_LIBRARY is an internal stream, of the first
 * object's device. Needs the objects' locks. Does not block. Errors: as sm_stream_find(); ERR_CAPTURING: the stream
 * captures. */
synced_mem_status sm_move_stream(struct synced_mem *const *mems, size_t count, size_t which, enum sm_side side,
                                 synced_mem_stream handle, struct sm_stream **stream);

/* Finds the caller's stream, on which a call queues transfers. device: of a default stream. Errors: as
 * sm_stream_find(); ERR_CAPTURING: the stream captures. */
static inline synced_mem_status sm_callers_stream(int device, synced_mem_stream handle, struct sm_stream **stream)
{
    SM_TRY(sm_stream_find(device, handle, stream));
    if (*stream)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_CAPTURING,
                   "the stream is capturing, and the transfer would become part of the graph: call before the capture");
}

/* Returns whether the stream is the library's. Nothing that the caller queues comes after the transfers there. */
static inline bool sm_is_internal(const struct sm_stream *stream)
{
    return stream->kind == SM_STREAM_INTERNAL;
}

#endif
