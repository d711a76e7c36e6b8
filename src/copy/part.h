/*
 * Parts of a copy: structs that share its memory, each with work in flight of its own. The copy that has the memory is
 * their whole. The words:
 *
 *    inherit      take over what is in flight on another copy, which keeps its own
 *    cut          make one part two; both inherit what was in flight
 *    alike        two parts are alike if an access to one waits for exactly what an access to the other waits for
 *    gather       enter what is in flight on a part as work in flight on its whole
 *
 * A part has no share in a registration (pin.h), and neither retires nor frees anything. The lock of the object that
 * holds the whole guards it.
 */
#ifndef SM_PART_H
#define SM_PART_H

#include "copy/inflight.h"

/* Returns a part of the whole's memory, or of a part's, from offset on; the caller knows where it ends. It inherits
 * what is in flight there. NULL: the system has no memory, and nothing has changed. */
struct sm_copy *sm_part_make(const struct sm_copy *whole, size_t offset);

/* Returns whether two parts are alike. Both must be pruned. */
bool sm_part_is_alike(const struct sm_copy *one, const struct sm_copy *other);

/* Polls all work in flight, and forgets what is over. */
void sm_part_poll(struct sm_copy *part);

/* Returns whether no write is open or in flight on a pruned part. */
static inline bool sm_part_has_no_write(const struct sm_copy *part)
{
    return !part->write && !part->writer && !part->writer_fence && !part->untracked;
}
/* Returns whether nothing is in flight on a pruned part. */
bool sm_part_is_idle(const struct sm_copy *part);

/* Takes over what the left one of two alike parts does not know of the other, such as covered transfers: only a call
 * that hands all of the memory back waits for those. */
void sm_part_absorb(struct sm_copy *part, struct sm_copy *other);

/* Takes over from an idle part, which is about to be given up, what a part that is made later must know. */
void sm_part_return(struct sm_copy *whole, const struct sm_copy *part);

/* Gives up a part. Ignores NULL. */
void sm_part_give(struct sm_copy *part);

/* Takes over the whole's own transfers, which a failed call has queued. Only a call that hands the memory back waits
 * for them. */
void sm_part_take_over(struct sm_copy *part, struct sm_copy *whole);

/* Enters the whole's unfinished transfers as reads of the part, for a failed call that has queued them. A write of the
 * part then comes after them. A transfer is left out if the system has no memory: its target is given up. */
void sm_part_share_reads(struct sm_copy *part, const struct sm_copy *whole);

/* Moves what is in flight from one copy to the other, which forgets its own. */
void sm_part_move_work(struct sm_copy *to, struct sm_copy *from);

/* Gathers a part's work for a call that gives up the whole. The part keeps its work. On failure a part of it may be
 * entered. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_part_gather(struct sm_copy *whole, const struct sm_copy *part);

/* Leaves one use of each stream among those that were gathered, as each list has it. */
void sm_part_unite_gathered(struct sm_copy *whole);

/* Takes over what is known of the whole's memory, which may have become page-locked. */
void sm_part_take_pin(struct sm_copy *part, const struct sm_copy *whole);

#endif
