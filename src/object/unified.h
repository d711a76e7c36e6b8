/*
 * Unified placement: one allocation that host and device both use. Its copy is in both slots of the object. So both
 * sides have one list of work in flight. An access on either side waits for the work of both. Heads and transitions are
 * those of two copies, but a transfer only orders work. To the device: all work queued later sees the bytes that the
 * host has written. To the host: the contents arrive when the work that writes them is done.
 */
#ifndef SM_UNIFIED_H
#define SM_UNIFIED_H

#include "object/object.h"

/* Returns the copy that both sides of the record share; NULL: none. */
static inline struct sm_copy *sm_shared_copy(const struct sm_record *record)
{
    struct sm_copy *const copy = sm_slot_of(record, SM_CPU);
    return sm_copy_is_shared(copy) ? copy : NULL;
}

/* Returns the placement in effect, or before it is decided the one in the options. */
synced_mem_placement_kind sm_placement(const struct synced_mem *mem);

/* Obtains memory of size bytes for both sides, if the object's placement is unified; else *out is NULL. The object's
 * first memory decides the placement. The caller owns *out. wanted: the device of the access, or the object's.
 * ERR_INVALID_STATE: the device does not support the placement. */
synced_mem_status sm_unified_obtain(const struct synced_mem *mem, int wanted, size_t size, bool zeroed,
                                    struct sm_copy **out);

/* Decides that the placement is separate, so that the object can take memory of the caller's. ERR_INVALID_STATE: it is
 * unified. */
synced_mem_status sm_unified_check_user_memory(const struct synced_mem *mem);

/* Orders the side, and the stream if not NULL, after the work that writes the contents. Prefetches managed memory in
 * the stream's order. Blocks only for work that is still queueing. ERR_DEVICE_LOST: the device was lost before that
 * work ended, or it cannot use the memory any more. */
synced_mem_status sm_unified_move(const struct sm_record *record, enum sm_side side, struct sm_stream *stream);

/* Fails with ERR_DEVICE_LOST if the device was lost before it had written the contents. */
synced_mem_status sm_unified_check_contents(const struct sm_copy *shared);

/* Enters the arrival of the contents on the host, after sm_unified_move(). They arrive with the work that writes them,
 * or with the work queued on the stream. */
void sm_unified_arrive(struct sm_copy *shared, struct sm_stream *stream);

#endif
