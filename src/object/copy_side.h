/* The side that a copy of a range of bytes goes to. */
#ifndef SM_COPY_SIDE_H
#define SM_COPY_SIDE_H

#include "object/object.h"

/* Stores the first that applies: the only side on which the rest of to is valid; the only side on which the range of
 * from is valid; the device, if that range has contents; the host. Records without contents do not count. The ranges
 * lie in the objects. Takes the locks of both, one after the other, and changes nothing. ERR_FORKED. */
synced_mem_status sm_copy_side(const struct synced_mem *to, size_t to_offset, const struct synced_mem *from,
                               size_t from_offset, size_t size, enum sm_side *side);

#endif
