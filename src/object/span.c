/* The records of an object. */
#include "object/span.h"

unsigned sm_head_of_records(const struct synced_mem *mem)
{
    struct sm_heads heads = SM_NO_HEADS;
    for (const struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_add_head(&heads, sm_head(each));
    return sm_head_of_all(&heads);
}
