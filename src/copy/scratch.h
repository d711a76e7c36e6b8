/*
 * The scratch file: where contents go that only the host has, when its copies are evicted. The program gives the file,
 * and the library has all of it. The words:
 *
 *    spill    write contents to the scratch file, so that it is their file then
 *    range    bytes of the scratch file that are for one object's contents; whole blocks
 *
 * Ranges have a few sizes for each power of two, so that a range that was given back serves another object at once.
 */
#ifndef SM_SCRATCH_H
#define SM_SCRATCH_H

#include "copy/file.h"

struct sm_scratch;

struct sm_scratch_range {
    struct sm_scratch_range *next; /* of a free range */
    struct sm_scratch *scratch;    /* held */
    size_t holders;                /* its backing, and reads of it that go on */
    uint64_t offset;
    uint64_t size;
    unsigned short size_class;
    bool is_allocated; /* the file system keeps room for its bytes, if it can */
};

/* A change of the scratch file. */
struct sm_scratch_change {
    uint64_t serial;           /* greater than that of all changes before */
    struct sm_scratch *before; /* held; NULL: there was none */
};

/* Sets the scratch file for contents from now on; NULL: none. Contents in an earlier one stay there. Holds the file.
 * End the change by one of the next two functions. ERR_INVALID_ARGUMENT: it can't be written, or is in memory.
 * ERR_FORKED: the parent process has opened it. ERR_OUT_OF_HOST_MEMORY. On failure nothing has changed. */
synced_mem_status sm_scratch_set(struct synced_mem_file *file, struct sm_scratch_change *change);
void sm_scratch_keep(struct sm_scratch_change *change);
/* Restores the scratch file from before, unless there was a later change. Returns whether it did; the change has a new
 * serial then. */
bool sm_scratch_undo(struct sm_scratch_change *change);

/* Removes it, as at the shutdown. */
void sm_scratch_remove(void);

/* Returns whether there is one. */
bool sm_scratch_is_set(void);

/* Takes a range, for which the file system then has room, and holds it. *out is NULL if there is no scratch file, or on
 * failure. Blocks; no lock may be held. ERR_FILE: there is no room. ERR_FORKED: the file is that of
 * the parent process, which uses its ranges. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_scratch_take(uint64_t size, struct sm_scratch_range **out);
void sm_scratch_hold(struct sm_scratch_range *range);
/* Removes a holder. After the last one other contents may be there. Ignores NULL. */
void sm_scratch_drop(struct sm_scratch_range *range);

/* Returns the file of a range. */
struct synced_mem_file *sm_scratch_file(const struct sm_scratch_range *range);

#endif
