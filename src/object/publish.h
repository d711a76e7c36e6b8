/* Publication: the pointers and streams that the hot path may use without the lock. An object has some published only
 * while it is exactly one record. All functions need the root's lock. */
#ifndef SM_PUBLISH_H
#define SM_PUBLISH_H

#include "copy/inflight.h"
#include "object/object.h"

/* All that is published of a record. */
struct sm_published {
    void *ready[SM_SIDES][2];
    struct sm_stream *on[2];
};

/* Begins to load an object that has the record's pointers published. */
static inline void sm_prefetch_hot(const struct sm_record *record)
{
    const struct synced_mem *const hot = record->kind == SM_PIECE ? sm_piece_of(record)->hot : NULL;
    if (hot) {
        __builtin_prefetch(hot->on, 1);
        __builtin_prefetch(&hot->at, 1);
    }
}

/* Publishes nothing for a new object. A view, or a divided root, has the head SM_HEAD_OF_PIECES then. */
void sm_publish_nothing(struct synced_mem *mem);

/* Lets the streams that have the copy's pointer to read be published as a set from now on. The hot path finds only the
 * last of them otherwise. */
void sm_publish_readers_together(const struct sm_copy *copy);

/* Publishes what the record's state allows, for all objects that are exactly this record. Prunes the record's work in
 * flight. */
void sm_publish(struct sm_record *record);
/* Does so for a piece. */
void sm_publish_piece(struct sm_piece *piece);

/* The publication of the pieces that one call has filled on a stream and has given to that stream. It is the same of
 * all, whatever work was on each before. */
struct sm_filled {
    struct sm_published published;
    unsigned marks; /* those that they need */
};

/* Publishes such a piece, and stores what is published of the others too. Prunes the work in flight of this one. */
void sm_publish_filled(struct sm_piece *piece, struct sm_filled *filled);
/* Publishes another one without a look at its work in flight. In debug mode sm_publish_filled() publishes each, as it
 * protects the piece's memory. */
void sm_publish_filled_too(struct sm_piece *piece, const struct sm_filled *filled);

/* Between the removal of holds, which takes no object's lock, and the look at is_used of their objects (evictable.h): a
 * publication that the look has missed sees that the objects are not held. Does not need a lock. */
void sm_publish_meet(void);

/* Publishes an evictable object after an unhold has ended the uses of the side, and notes whether any is left. */
void sm_publish_left(struct synced_mem *mem, enum sm_side side);

/* As sm_publish(), for an undivided object that is not evictable, right after a transfer between its two copies was
 * entered, and not in debug mode. That is the only work on the target, so the source alone is pruned. */
void sm_publish_moved(struct synced_mem *mem, struct sm_copy *from);

/* As sm_publish(), for an object that only the host uses (host_only.h), which has no device pointers to publish. */
void sm_publish_host_only(struct synced_mem *mem);

/* Publishes the pointers of a view or a divided root from now on, if it is exactly one piece. sm_publish() does it. */
void sm_publish_from_piece(struct synced_mem *mem);

/* Withdraws the pointers of a view or a divided root. The device pointer stays: a thread may be between the loads of
 * the hot path, and may use it. */
void sm_withdraw(struct synced_mem *mem);
/* Withdraws the pointers of all objects that are exactly this piece. */
void sm_withdraw_all(struct sm_piece *piece);

/* Returns whether what is published agrees with the record's state. */
bool sm_publication_is_valid(const struct sm_record *record);

#endif
