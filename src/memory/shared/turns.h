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

/* Publishes the head of a turn to fill, which becomes a turn to read. */
void sm_turn_read(struct sm_participant *participant, unsigned head);

/* Ends a turn to write, and publishes the head. */
void sm_turn_end_write(struct sm_participant *participant, unsigned head);

/* Ends a turn to read or to fill. */
void sm_turn_end_read(struct sm_participant *participant);

#endif
