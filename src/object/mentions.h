/*
 * The records that a push or pull of several objects concerns. An object in many pieces has few of them: a piece is
 * left out if its contents need no transfer, and no write of them is open or in flight. A piece is mentioned once, an
 * undivided object each time that the caller lists it. All functions need the owners' locks.
 */
#ifndef SM_MENTIONS_H
#define SM_MENTIONS_H

#include "object/transaction.h"

/* A record as one of the caller's objects has it. */
struct sm_mention {
    struct synced_mem *record;
    struct synced_mem *object;
};

struct sm_mentions {
    struct sm_mention *list; /* in the order given */
    size_t count;
    size_t room;
    struct sm_mention *given; /* the caller's memory, which the list uses first */
    size_t refused;           /* the index of the first object that has nothing to move; the number of objects: none */
    synced_mem_state refused_head;
};

/* Makes an empty list in memory of the caller's for room mentions. */
void sm_mentions_begin(struct sm_mentions *mentions, struct sm_mention *given, size_t room);
/* Takes lost contents out of the heads, and lists the records that a transfer of the objects to the side concerns. On
 * failure some heads may have changed. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_mentions_list(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                   enum sm_side side);
void sm_mentions_end(struct sm_mentions *mentions);

/* A record that is mentioned, once. */
struct sm_entry {
    struct sm_transaction transaction;
    /* The host copy, if its transfer is not staged and the host need not wait; NULL: that is not known. */
    const struct sm_copy *ready;
    size_t size;     /* of the record, which views may cut while nothing is locked */
    bool moves;      /* its transfer is queued */
    unsigned writes; /* writes to the device copy when the head was set */
};

/* Begins a transaction for each record that is mentioned, in an array with room for all mentions. The entries are
 * ordered by the records' addresses. Returns their number. */
size_t sm_entries_begin(struct sm_entry *entries, const struct sm_mentions *mentions);
/* Returns the entry of a mention. */
struct sm_entry *sm_entries_find(struct sm_entry *entries, size_t count, const struct sm_mentions *mentions,
                                 size_t which);

/* Views may cut an entry's record while nothing is locked. Returns the next record of its bytes; NULL: there is none.
 * The first one is the first record of the transaction's object. */
struct synced_mem *sm_entry_next(const struct sm_entry *entry, const struct synced_mem *record);
/* Returns whether such a record has no bytes behind those of the entry. */
bool sm_entry_has(const struct sm_entry *entry, const struct synced_mem *record);

#endif
