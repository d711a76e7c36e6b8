/*
 * The records of an object that a call works on, and the states that they had before. An access to the device copy by a
 * stream passes by the records whose pointer the stream has. All functions need the root's lock.
 */
#ifndef SM_LISTING_H
#define SM_LISTING_H

#include "object/restore.h"
#include "object/span.h"
#include "object/transitions.h"

/* The numbers of records that need the same for an access, by the work, and by whether both sides have one memory.
 * Those of SM_NOTHING need memory. */
struct sm_needs {
    size_t count[SM_WORKS][2];
};

struct sm_listing {
    struct sm_records records; /* good until the lock is released */
    struct sm_needs needs;     /* of the records of an object in parts, for an access */
    /* The fills of device copies without contents, which are listed with the records if a caller's stream comes after
     * all work on the copy; NULL: there are none. */
    struct sm_fills *zeros;
    /* That stream has filled the memory of all records. The fills are not entered yet: the caller gives the stream the
     * pointers, or calls sm_listing_enter_fills(). */
    bool is_filled;
    size_t room;            /* for records in the list */
    struct sm_record *only; /* the list if it has room for one */
    struct sm_state one;    /* of an object with one record */
    /* Of an object with several, by offset; NULL: it has one. None are noted if the listed fills are of all records: a
     * call that fails then has changed no head. */
    struct sm_state *every;
    size_t noted;          /* the number of states */
    struct sm_fence *lost; /* held: the fence of contents that were lost on arrival before the call began */
};

/* Makes an empty listing. */
void sm_listing_begin(struct sm_listing *listing);
/* Frees the lists, and drops the fence. */
void sm_listing_end(const struct sm_listing *listing);

/* Frees the list of zeros. */
void sm_listing_drop_zeros(struct sm_listing *listing);

/* Takes lost contents out of the object's one record, and notes its state. */
void sm_listing_note_one(struct sm_listing *listing, struct sm_record *record);

/* Lists the records for which an access to the side may have something to do, in place of those that were listed
 * before, and finds what they need. Lists the fills of those that a caller's stream can fill at once. Takes lost
 * contents out of those that no state is noted of, and notes theirs. stream: of a device access without one
 * sm_stream_any(); NULL: all records are listed. The caller publishes all records of the object, or at least those that
 * are listed. ERR_OUT_OF_HOST_MEMORY: only of an object in several pieces. */
synced_mem_status sm_listing_fill(struct sm_listing *listing, struct synced_mem *mem, enum sm_side side,
                                  struct sm_stream *stream, enum sm_mode mode);

/* Returns whether an access to the device copy would list nothing, of an object in several pieces. */
bool sm_listing_is_empty(struct synced_mem *mem, const struct sm_stream *stream, enum sm_mode mode);

/* Finds anew what the listed records need. */
void sm_listing_find_needs(struct sm_listing *listing, enum sm_side side, enum sm_mode mode);

/* Enters the fills of a listing, if it is filled, as the writes of the records. The heads stay. */
void sm_listing_enter_fills(struct sm_listing *listing);

/* Restores the heads of the object's records, as far as their states are noted. */
void sm_listing_restore(const struct sm_listing *listing, struct synced_mem *mem);

#endif
