/* The changes of a target's head by a pair's copy, for pair.c. Both locks are held. */
#ifndef SM_PAIR_HEADS_H
#define SM_PAIR_HEADS_H

#include "object/pair.h"

/* Sets the head, as the contents are in the target or arrive without the host. The pair is done. */
void sm_pair_complete(const struct sm_pairs *pairs, struct sm_pair *pair);

/*
 * Notes that the transfer has begun. Until it has ended the head has only the copies that the transfer does not write:
 *
 *    valid before        head meanwhile
 *    the other side      that side alone: it has the old contents, as a file has that the target is in besides
 *    nothing             unchanged
 *    the target alone    unchanged: its contents are arriving, and a call that needs them waits
 *
 * A store of the old contents from the target has ended, so it is settled: a call that settled it meanwhile would put
 * the arriving contents into the file.
 */
void sm_pair_begin(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_copy *target);

/* Takes the target out of the head: an unknown part of it was written. */
void sm_pair_drop_target(const struct sm_pairs *pairs, const struct sm_pair *pair);

#endif
