/*
 * Unified placement: one allocation that host and device both use. Its copy stands in both slots of the object, so that
 * what is in flight on it is one list for both sides, and an access on either waits for the work of both. Heads and the
 * work of the state table are those of two copies; but a transfer is nothing but an order: to the device, what the host
 * has written is there for all that is queued later; to the host, the contents arrive when what writes them is done.
 */
#ifndef SM_UNIFIED_H
#define SM_UNIFIED_H

#include "object/object.h"

/* The copy that both sides of the object share; NULL: none. */
static inline struct sm_copy *sm_shared_copy(const struct synced_mem *mem)
{
    struct sm_copy *const copy = sm_copy_of(mem, SM_CPU);
    return copy && sm_copy_is_shared(copy) ? copy : NULL;
}

/* The placement in effect, or the one asked for while there is none yet. */
synced_mem_placement_kind sm_placement(const struct synced_mem *mem);

/* Memory of size bytes for both sides, where the object's placement, which is decided with its first memory, is
 * unified; else *out is NULL. wanted: the device that asks, or the object's. */
synced_mem_status sm_unified_obtain(const struct synced_mem *mem, int wanted, size_t size, bool zeroed,
                                    struct sm_copy **out);

/* ERR_INVALID_STATE: the object takes no memory of the caller's. */
synced_mem_status sm_unified_check_user_memory(const struct synced_mem *mem);

/* Sees to it that the side may have the contents, as they are or as they will have arrived; the stream, NULL: none,
 * comes after what writes them. Managed memory is brought there in the stream's order. */
synced_mem_status sm_unified_move(struct synced_mem *mem, enum sm_side side, struct sm_stream *stream);

/* After that the host has the contents: they arrive with what writes them, or with what was queued on the stream. */
void sm_unified_arrive(struct sm_copy *shared, struct sm_stream *stream);

#endif
