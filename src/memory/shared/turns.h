/*
 * Turns of the participants: many read, or one writes, in order of arrival (docs/design/sharing.md). One thread of a
 * participant may be in these functions at a time.
 */
#ifndef SM_TURNS_H
#define SM_TURNS_H

#include "base/deadline.h"
#include "memory/shared/participant.h"

/* Waits in line for a turn. writing: the turn is to write. Otherwise it is to fill a side alone beside readers, and
 * sm_turn_read() makes it a turn to read. *head: the published head. Blocks until the deadline. On failure there is no
 * turn. ERR_TIMEOUT. ERR_OWNER_DIED: a participant died while it wrote, and this one was not told yet. The
 * contents were lost; another one may have written since. ERR_PEER: another process has written values that are
 * impossible. */
synced_mem_status sm_turn_wait(struct sm_participant *participant, bool writing, sm_deadline deadline, unsigned *head);

/* Does the first part of that: the participant has a turn, with the contents that it has found, and has written nothing
 * yet. sm_turn_start() does the rest; sm_turn_end_read() ends the turn instead. */
synced_mem_status sm_turn_arrive(struct sm_participant *participant, bool writing, sm_deadline deadline);
synced_mem_status sm_turn_start(struct sm_participant *participant, bool writing, unsigned *head);

/* Publishes the head of a turn to fill, which becomes a turn to read. */
void sm_turn_read(struct sm_participant *participant, unsigned head);

/* Ends a turn to write, and publishes the head, with the next version. */
void sm_turn_end_write(struct sm_participant *participant, unsigned head);
/* Ends a turn to write in which nothing was written: the version stays. */
void sm_turn_give_up_write(struct sm_participant *participant, unsigned head);

/* Ends a turn to write whose contents nobody may use: as the death of the participant, which is not told of it. */
void sm_turn_abandon_write(struct sm_participant *participant);

/* Ends a turn to read or to fill, or one that has not started. */
void sm_turn_end_read(struct sm_participant *participant);

/* Rings if a participant may sleep, this one included, as another thread may wait for it. */
void sm_turn_ring(const struct sm_participant *participant);

#endif
