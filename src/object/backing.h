/*
 * Backings: the bytes of files that objects have as their contents. A record that is in a file has a backing, which it
 * shares with the other records that one call has put into the file. Pieces that are cut share that of the whole. All
 * functions need the root's lock, unless stated otherwise.
 */
#ifndef SM_BACKING_H
#define SM_BACKING_H

#include "copy/file.h"
#include "copy/scratch.h"
#include "object/object.h"

struct sm_backing {
    struct sm_extent extent;      /* first, as the tree of the file gives it back */
    struct synced_mem_file *file; /* held */
    const struct synced_mem *root;
    uint64_t origin; /* where the first byte of the root would be in the file; wraps around */
    size_t records;
    struct sm_scratch_range *range; /* of contents that were spilled (copy/scratch.h); NULL: the program's file */
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

/* Adds a record to the backing, and returns it. NULL: no effect. */
struct sm_backing *sm_backing_share(struct sm_backing *backing);
/* Removes a record. The last one ends the backing. NULL: no effect. */
void sm_backing_drop(struct sm_backing *backing);

/* Returns the backing of a record that is in a file and has bytes. */
const struct sm_backing *sm_backing_of(const struct sm_record *record);

/* Returns where the record's bytes begin in its file. */
uint64_t sm_offset_in_file(const struct sm_record *record);

#endif
