/*
 * Turns that begin once the contents are as wished: to read a version that a reader has not had, or to write the next
 * one when all readers have consumed the last. Until then the participant watches: it is in nobody's front
 * (docs/design/sharing.md). As for turns.h, one thread of a participant may be in these functions at a time.
 */
#ifndef SM_WATCH_H
#define SM_WATCH_H

#include "memory/shared/slots.h"
#include "memory/shared/turns.h"

enum sm_wish_kind {
    SM_WISH_ANY,     /* any contents */
    SM_WISH_NEWER,   /* of a version newer than this one */
    SM_WISH_SLOT,    /* of a version newer than that in the slot */
    SM_WISH_CONSUMED /* no reader with a slot has yet to consume them */
};

struct sm_wish {
    enum sm_wish_kind kind;
    bool writing;
    uint64_t version;    /* of NEWER */
    unsigned index;      /* of SLOT */
    struct sm_slot slot; /* of SLOT: as the turn has found it */
};

/* Waits until the contents are as wished, and for a turn. Otherwise as sm_turn_wait(). ERR_INVALID_STATE: the slot is
 * not taken. */
synced_mem_status sm_watch_and_wait(struct sm_participant *participant, struct sm_wish *wish, sm_deadline deadline,
                                    unsigned *head);

/* Notes, in a turn to read, that the slot's reader has consumed the contents. */
void sm_watch_consume(struct sm_participant *participant, const struct sm_wish *wish);

/* Ends a slot. Others may wait for its reader. ERR_INVALID_STATE: it is not taken. */
synced_mem_status sm_watch_end_slot(struct sm_participant *participant, unsigned index);

#endif
