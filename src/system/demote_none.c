/* Where no instruction demotes lines of a cache. */
#include "system/demote.h"

bool sm_can_demote(void)
{
    return false;
}

void sm_demote(void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
}
