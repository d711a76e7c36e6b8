/*
 * Backings: the bytes of files that objects have as their contents. A record that is in a file has a backing, which it
 * shares with the other records that one call has put into the file. Pieces that are cut share that of the whole.
 *
 * A write that is to put a record into a file gives it a promise in place of its backing. The promise has both: the one
 * that the record has until the write has succeeded, and the one that it gets then, unless a call changes the contents
 * before: that gives up the promise. Calls settle promises when they begin: until then the record is where it was. All
 * functions need the root's lock, unless stated otherwise.
 */
#ifndef SM_BACKING_H
#define SM_BACKING_H

#include "copy/file.h"
#include "copy/scratch.h"
#include "copy/stored.h"
#include "object/object.h"

struct sm_backing {
    struct sm_extent extent;      /* first, as the tree of the file gives it back */
    struct synced_mem_file *file; /* held */
    const struct synced_mem *root;
    uint64_t origin; /* where the first byte of the root would be in the file; wraps around */
    size_t records;
    struct sm_scratch_range *range; /* of contents that were spilled (copy/scratch.h); NULL: the program's file */
    struct sm_stored *stored;       /* of one that is promised: the write; guarded by the lock of all files; or NULL */
    /* Of a promise, which has none of the above but records: */
    struct sm_backing *promised; /* NULL: this is no promise */
    struct sm_backing *before;   /* NULL: the record is in no file */
};

/* Makes the backing of some bytes of a root, which begin at the offset in the file, and enters them there. The caller
 * gives it to one record at least. Needs no lock. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_backing_make(struct synced_mem_file *file, uint64_t offset, const struct synced_mem *root,
                                  size_t begin, size_t size, struct sm_backing **out);

/* Makes the backing of a root's contents in a range of the scratch file, and takes over the range, also on failure. */
synced_mem_status sm_backing_make_spilled(struct sm_scratch_range *range, const struct synced_mem *root, size_t size,
                                          struct sm_backing **out);

/* Gives the record a backing in place of the one that it had. Its contents are then in that file. NULL: those of a
 * record of 0 bytes. */
void sm_set_backing(struct sm_record *record, struct sm_backing *backing);
/* Takes away the backing of a record that is in a file. */
void sm_give_up_backing(struct sm_record *record);

/* Notes the write that has yet to bring the bytes of a new backing, and holds it. */
void sm_backing_await(struct sm_backing *backing, struct sm_stored *stored);
/* Makes a promise of the backing, for sm_set_promise(). Needs no lock. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_promise_make(struct sm_backing *backing, struct sm_backing **out);
/* Gives the record the promise in place of the backing or promise that it had. It is where it was. */
void sm_set_promise(struct sm_record *record, struct sm_backing *promise);
/* Ends a promise that no record has. NULL: no effect. */
void sm_promise_end(struct sm_backing *promise);

void sm_settle_promise(struct sm_record *record);

/* Puts a record into the file that it was promised, if the write has succeeded; if it has failed, ends the promise. */
static inline void sm_settle(struct sm_record *record)
{
    if (sm_raw_head(record) & SM_PROMISED)
        sm_settle_promise(record);
}

/* Returns the fence of the write that has promised the record a file; NULL: no write has. */
struct sm_fence *sm_promise_fence(const struct sm_record *record);

/* Adds a record to the backing, and returns it. NULL: no effect. */
struct sm_backing *sm_backing_share(struct sm_backing *backing);
/* Removes a record. The last one ends the backing. NULL: no effect. */
void sm_backing_drop(struct sm_backing *backing);

/* Returns the backing of a record that is in a file and has bytes. */
const struct sm_backing *sm_backing_of(const struct sm_record *record);

/* Returns whether the record's contents are in the backing's bytes, or about to be. Needs the lock of all files too. */
bool sm_is_backed_by(const struct sm_record *record, const struct sm_backing *backing);
/* Returns whether the record's contents are in the file from the offset on, or about to be, and nowhere else. */
bool sm_is_placed_at(const struct sm_record *record, const struct synced_mem_file *file, uint64_t offset);

/* Returns where the record's bytes begin in its file. */
uint64_t sm_offset_in_file(const struct sm_record *record);

#endif
