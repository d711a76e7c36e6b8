/* The head of a record. */
#include "object/head.h"

#include "base/status.h"
#include "object/piece_tree.h"
#include "object/span.h"

/* A trace has roots and the bytes of their parts, not pieces. */
static void trace_head(const struct sm_record *record, unsigned head)
{
    sm_trace_head(&(struct sm_trace_head){.subject = sm_subject_of(sm_owner_of(record)),
                                          .before = sm_head(record),
                                          .after = head,
                                          .part = record->kind == SM_PIECE,
                                          .offset = sm_begin_of(record),
                                          .bytes = sm_size_of(record)});
}

void sm_set_any_head(struct sm_record *record, unsigned head)
{
    if (sm_trace_on())
        trace_head(record, head);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_is_arriving(record, side) && !(head & sm_bits_of(record, side)))
            sm_copy_of(record, side)->arriving = false;
    atomic_store_explicit(&record->head, (unsigned char)(head | (sm_raw_head(record) & (SM_IN_FILE | SM_PROMISED))),
                          memory_order_relaxed);
}

/* Returns whether lost contents stay marked as lost. They do in an only copy on the host, whose device was lost while
 * it filled the memory. No access to the host would otherwise notice that. */
static bool stays_lost(const struct sm_record *record, enum sm_side side)
{
    return side == SM_CPU && sm_whole_head(record) == SYNCED_MEM_AT_CPU && !sm_copy_is_shared(sm_copy_of(record, side));
}

bool sm_is_lost(const struct sm_record *record)
{
    return stays_lost(record, SM_CPU) && sm_inflight_lost(sm_copy_of(record, SM_CPU));
}

/* Returns whether contents never arrived on a device that may still work: another device was lost that brought them, or
 * their staged transfer has failed. */
static bool has_failed_to_arrive(const struct sm_copy *copy, enum sm_side side, struct sm_fence *lost)
{
    if (side == SM_CPU && !sm_copy_is_shared(copy))
        return false;
    if (lost->device != copy->device)
        return true;
    if (side == SM_CPU || !lost->work)
        return false;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status why = sm_fence_wait_queued(lost);
    sm_detail_set(&first);
    return why != SYNCED_MEM_ERR_DEVICE_LOST;
}

/* Takes contents that were lost on arrival out of the head; the copy or the file that they came from still has them. If
 * there is no other valid copy the head stays: each access to the only copy reports that its device is lost. A shared
 * copy loses the host's bit, as the host's side comes first. A transfer from another object can fail although the
 * device of the memory works. Then no copy is valid. A piece is marked, so that an access that goes on after a wait
 * lists it. */
void sm_drop_arriving_if_lost(struct sm_record *record, struct sm_fence **lost)
{
    const unsigned before = sm_raw_head(record);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        struct sm_copy *const copy = sm_copy_of(record, side);
        struct sm_fence *const arrival = copy && copy->arriving ? sm_inflight_lost(copy) : NULL;
        if (arrival) {
            if (lost && !*lost)
                *lost = sm_fence_hold(arrival);
            copy->arriving = stays_lost(record, side);
            if (has_failed_to_arrive(copy, side, arrival))
                sm_set_head(record, sm_head(record) & ~sm_bits_of(record, side));
            else if (sm_whole_head(record) & ~sm_bit(side))
                sm_set_head(record, sm_head(record) & ~sm_bit(side));
        }
    }
    if (record->kind == SM_PIECE && sm_raw_head(record) != before)
        sm_piece_tree_mark(sm_piece_of(record));
}
