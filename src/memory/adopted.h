/* Which memory of the caller's has been adopted and is the library's still: to adopt it once more would mean to free it
 * twice. */
#ifndef SM_ADOPTED_H
#define SM_ADOPTED_H

#include "synced_mem.h"

/* ERR_INVALID_ARGUMENT: it is there already. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_adopted_add(const void *data);
/* Before the caller gets it back: it may adopt the same address again at once. */
void sm_adopted_remove(const void *data);

/* Returns what the module keeps, if nothing is adopted. */
void sm_adopted_trim(void);

#endif
