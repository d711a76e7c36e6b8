/* The contents of objects in files that a write would change. */
#ifndef SM_OVERWRITTEN_H
#define SM_OVERWRITTEN_H

#include "copy/file.h"
#include "object/object.h"

/* Checks that no object has contents in a range of a file that is about to be written. roots: those of the caller's
 * objects, ordered by address, whose locks are held; of these each record counts for itself. ERR_INVALID_STATE. */
synced_mem_status sm_check_overwritten(struct synced_mem_file *file, uint64_t offset, size_t size,
                                       struct synced_mem *const *roots, size_t count);
/* Settles the promises of all objects, since an object keeps its earlier place until a call on it notices that a store
 * in another one has ended. Returns whether one was settled. No lock may be held. */
bool sm_settle_all_promises(void);

#endif
