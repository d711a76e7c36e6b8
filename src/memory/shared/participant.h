/*
 * Participants of a control page. A participant is alive as long as it holds an OFD lock of its byte of the page's file,
 * on a descriptor that no other process has. The kernel releases the lock, whatever ends the process. A forked child
 * closes the descriptors that it has inherited, so it is none of its parent's participants. Its control pages become
 * memory of its own, all zeros.
 */
#ifndef SM_PARTICIPANT_H
#define SM_PARTICIPANT_H

#include "base/deadline.h"
#include "memory/shared/control_page.h"

struct sm_participant {
    struct sm_control_page *page;
    int lock;                    /* the descriptor that has the lock; -1: none */
    unsigned index;              /* of its byte, and of its word in the line */
    uint32_t seen_deaths;        /* the last count that a turn has returned */
    uint64_t choices;            /* counts the places that it has chosen */
    struct sm_line_word mine;    /* its word in the line; the page's may be another process's doing */
    struct sm_participant *next; /* in the list of those that the process has */
    struct sm_participant **link;
};

/* Joins the participants: takes a free byte's lock. page: the mapped page of the file. Does not block. On failure
 * lock is -1. ERR_INVALID_STATE: there are SM_PARTICIPANTS already. ERR_PEER; ERR_OUT_OF_HOST_MEMORY; ERR_FILE. */
synced_mem_status sm_participant_join(struct sm_participant *participant, struct sm_control_page *page, int fd);

/* Leaves them. The participant has no turn, or dies in it. Without effect in a forked child, and if it has not joined. */
void sm_participant_leave(struct sm_participant *participant);

/* Stores the participant's word. */
void sm_participant_store(struct sm_participant *participant, enum sm_line_kind kind, uint64_t place);

/* Takes the dead ones of these participants (bit i: that of index i) out of the line, from *next on. Returns whether there
 * was one. Does not block, but a hostile process can make each look take tens of milliseconds, by locks on the file. So
 * it ends after the look at which the deadline has passed, and *next is where the next call goes on. */
bool sm_participant_clean_up(const struct sm_participant *participant, uint64_t others, sm_deadline until,
                             unsigned *next);

#endif
