/* A change of an object's size. */
#ifndef SM_RESIZE_H
#define SM_RESIZE_H

#include "object/transaction.h"

/* Changes the object's size. keep: the contents are kept, and new bytes are zeros; else they are gone. Memory that has
 * room stays. Blocks where the host does the work, and until the library's work on borrowed memory without room has
 * ended. If memory is refused, reclaims some and tries again. On failure size and contents are unchanged. */
synced_mem_status sm_resize(struct synced_mem *mem, size_t size, bool keep);

#endif
