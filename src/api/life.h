/* The making of views. */
#ifndef SM_LIFE_H
#define SM_LIFE_H

#include "synced_mem.h"

/* Makes a view. options: only name and user are read; NULL: none. The caller owns *out. On failure *out is unchanged.
 * Errors: as sm_view_begin(). */
synced_mem_status sm_create_view(synced_mem **out, synced_mem *of, size_t offset, size_t size,
                                 const synced_mem_options *options);

#endif
