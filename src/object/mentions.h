/*
 * The records that a push or pull concerns. An object in many pieces has few of them: a piece is
 * left out if its contents need no transfer, and no write of them is open or in flight. A piece is mentioned once, an
 * undivided object each time that the caller lists it. All functions need the roots' locks.
 */
#ifndef SM_MENTIONS_H
#define SM_MENTIONS_H

#include "object/span.h"
#include "object/transaction.h"

/* A record, and its part in the call. */
struct sm_mention {
    struct sm_record *record;
    struct synced_mem *object; /* the caller's object that has it */
    unsigned place;            /* in the list */
    bool direct;               /* it moves, has two copies, its transfer is not staged, and the host need not wait */
    bool moves;                /* the call moves its contents */
    unsigned writes;           /* writes to the device copy when the head was set */
    /* Of a record that is held while nothing is locked: the state before the call changed the head, and the size, as
     * views may cut the record. */
    struct sm_state before;
    size_t size;
};

#define SM_NONE_REFUSED SIZE_MAX

/* The bytes of a root whose pieces were visited, without a gap. */
struct sm_visited {
    const struct synced_mem *root; /* NULL: none */
    size_t begin;
    size_t end;
    struct sm_heads heads;
};

struct sm_mentions {
    struct sm_mention *list; /* in the order given */
    size_t count;
    size_t room;
    size_t pieces;             /* so many of the records are pieces */
    struct sm_visited visited; /* by the objects before */
    struct sm_mention *given;  /* the caller's memory, which the list uses first */
    size_t refused;            /* the index of the first object that is not movable, or SM_NONE_REFUSED */
    synced_mem_head_kind refused_head;
};

/* Makes an empty list in memory of the caller's for room mentions. */
void sm_mentions_begin(struct sm_mentions *mentions, struct sm_mention *given, size_t room);
/* Takes lost contents out of the heads, and lists the records that a transfer of the objects to the side concerns. A
 * piece is listed for the first object that has it, and an undivided object each time that the caller names it. On
 * failure some heads may have changed. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_mentions_list(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                   enum sm_side side);
/* The parts of sm_mentions_list() for undivided objects, of which none is named twice: empties the list; adds some of
 * the objects, of which those before are in the list. Cannot fail while there is room for a mention of each object. */
void sm_mentions_clear(struct sm_mentions *mentions);
synced_mem_status sm_mentions_add(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t begin,
                                  size_t end, enum sm_side side);
/* Keeps the first mention of each record. */
void sm_mentions_remove_repeated(struct sm_mentions *mentions);
void sm_mentions_end(struct sm_mentions *mentions);

/* Fails because the head of the first object that was refused allows no transfer to the side. */
synced_mem_status sm_mentions_refuse(const struct sm_mentions *mentions, enum sm_side side);

/* Holds the records before all locks are released, and notes the state and the size of each. */
void sm_mentions_hold(struct sm_mentions *mentions);
/* Drops them, with no lock held. */
void sm_mentions_drop(const struct sm_mentions *mentions);
/* Views may cut such a record while nothing is locked. Returns the next record of its bytes; NULL: there is none. The
 * first one is the mentioned record itself, or the first piece of an object that was divided. */
struct sm_record *sm_mention_next(const struct sm_mention *mention, const struct sm_record *record);
/* Returns whether such a record has no bytes behind those of the mention. */
bool sm_mention_has(const struct sm_mention *mention, const struct sm_record *record);

#endif
