/*
 * Participants of a control page. A participant is alive as long as it holds an OFD lock of its byte of the page's
 * file, on a descriptor that no other process has. The kernel releases the lock, whatever ends the process. A forked
 * child closes the descriptors that it has inherited, so it is none of its parent's participants. Its control pages
 * become memory of its own, all zeros.
 */
#ifndef SM_PARTICIPANT_H
#define SM_PARTICIPANT_H

#include "memory/shared/control_page.h"
#include "memory/shared/errand.h"

/* A search for dead participants. It has a descriptor of its own, as it may outlive the participant. */
struct sm_cleaning {
    struct sm_errand errand;
    atomic_bool is_under_way;
    int fd;
    unsigned next;
    uint64_t others;
};

/* The descriptor with the lock of a participant's byte. It may outlive the participant, and is counted. */
struct sm_byte_lock {
    struct sm_errand errand; /* to take the lock, and to release it */
    struct sm_cleaning cleaning;
    atomic_uint holders;
    int fd; /* -1 in a forked child */
    unsigned index;
    int error;                    /* why no byte could be locked; 0: one is */
    struct sm_control_page *page; /* of the participant, once it has joined */
    struct sm_byte_lock *next;    /* in the list of those that the process has */
    struct sm_byte_lock **link;
};

struct sm_participant {
    struct sm_control_page *page;
    struct sm_byte_lock *lock; /* NULL: it has not joined */
    unsigned index;            /* of its byte, and of its word in the line */
    unsigned char incarnation;
    uint16_t seen_deaths;     /* the last count that a turn has returned */
    struct sm_contents found; /* by its turn, before it changes them */
    bool has_news;            /* for those that watch, to be told when the turn ends */
    uint64_t choices;         /* counts the places that it has chosen */
    struct sm_line_word mine; /* its word in the line; the page's may be another process's doing */
};

/* Joins the participants: takes a free byte's lock. page: the mapped page of the file. Blocks until the deadline, and
 * SM_ERRAND_PATIENCE longer. On failure lock is NULL. ERR_INVALID_STATE: there are SM_PARTICIPANTS already.
 * ERR_TIMEOUT; ERR_PEER; ERR_OUT_OF_HOST_MEMORY; ERR_FILE. */
synced_mem_status sm_participant_join(struct sm_participant *participant, struct sm_control_page *page, int fd,
                                      sm_deadline deadline);

/* Leaves them. The participant has no turn, or dies in it. Blocks for SM_ERRAND_PATIENCE at most. Without effect if it
 * has not joined. */
void sm_participant_leave(struct sm_participant *participant);

/* Returns ERR_FORKED in a forked child: the participant is the parent's. */
synced_mem_status sm_participant_check_process(const struct sm_participant *participant);

/* Stores the participant's word. */
void sm_participant_store(struct sm_participant *participant, enum sm_line_kind kind, uint64_t place);

/* Takes the dead ones of these participants (bit i: that of index i) out of the line, and rings if there was one.
 * Blocks until the deadline; the cleaning goes on, for a tenth of a second at most. The next one goes on where it
 * ended. */
void sm_participant_clean_up(const struct sm_participant *participant, uint64_t others, sm_deadline until);

#endif
