/* The records of an object. */
#include "object/span.h"

unsigned sm_head_of_records(const struct synced_mem *mem)
{
    unsigned all = SYNCED_MEM_SYNCED;
    unsigned any = SYNCED_MEM_UNINITIALIZED;
    for (const struct synced_mem *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        all &= sm_head(each);
        any |= sm_head(each);
    }
    return all || !any ? all : SYNCED_MEM_MIXED;
}
