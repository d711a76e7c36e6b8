/* A change of an object's size. */
#ifndef SM_RESIZE_H
#define SM_RESIZE_H

#include "object/transaction.h"

/* keep: the contents are kept, and bytes that are new are zeros. */
synced_mem_status sm_resize(struct synced_mem *mem, size_t size, bool keep);

#endif
