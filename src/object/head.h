/* The head of a record: which sides have the contents. All functions need the root's lock. */
#ifndef SM_HEAD_H
#define SM_HEAD_H

#include "copy/inflight.h"
#include "object/backing.h"
#include "object/object.h"
#include "object/transitions.h"
#include "trace/trace.h"

/* The part of sm_set_head() for a side that loses contents which are arriving, and for traces. */
__attribute__((cold)) void sm_set_any_head(struct sm_record *record, unsigned head);

/* Sets the sides in the head of a record, which stays in its file. No other function changes them, except where records
 * are divided, cut or joined (piece.c). A copy that loses the contents has none arriving either. */
static inline void sm_set_head(struct sm_record *record, unsigned head)
{
    const struct sm_copy *const host = sm_slot_of(record, SM_CPU), *const gpu = sm_slot_of(record, SM_GPU);
    const unsigned of_file = sm_raw_head(record) & (SM_IN_FILE | SM_PROMISED);
    if (sm_trace_on() || (host->arriving && !(head & sm_bit(SM_CPU))) || (gpu->arriving && !(head & sm_bit(SM_GPU))))
        sm_set_any_head(record, head);
    else
        atomic_store_explicit(&record->head, (unsigned char)(head | of_file), memory_order_relaxed);
}

/* Returns the work of an access to the record. */
static inline enum sm_work sm_work_of(const struct sm_record *record, enum sm_side side, enum sm_mode mode)
{
    return (enum sm_work)sm_transitions[sm_whole_head(record)][side][mode].work;
}

/* Returns whether contents of a record are arriving on the side. */
static inline bool sm_is_arriving(const struct sm_record *record, enum sm_side side)
{
    return sm_slot_of(record, side)->arriving;
}

/* For sm_take_out_lost(). *lost: gets the fence, held, if it is NULL; or NULL. */
void sm_drop_arriving_if_lost(struct sm_record *record, struct sm_fence **lost);

/* Takes contents that were lost on arrival out of the record's head, and settles its promise. lost: as for
 * sm_drop_arriving_if_lost(). */
static inline void sm_take_out_lost(struct sm_record *record, struct sm_fence **lost)
{
    if (sm_inflight_lost(sm_slot_of(record, SM_CPU)) || sm_inflight_lost(sm_slot_of(record, SM_GPU)))
        sm_drop_arriving_if_lost(record, lost);
    sm_settle(record);
}

/* The same, for a call that does not report the loss. */
static inline void sm_drop_lost(struct sm_record *record)
{
    sm_take_out_lost(record, NULL);
}

/* Returns whether the record's host copy alone is valid and its contents are lost on arrival. An access that needs them
 * fails. */
bool sm_is_lost(const struct sm_record *record);

#endif
