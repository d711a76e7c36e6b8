/* No demotion, on processors of which no instruction for it is known. */
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
