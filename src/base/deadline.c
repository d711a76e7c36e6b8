/* Deadlines. */
#include "base/deadline.h"

static const uint64_t MILLISECOND = 1000000;

sm_deadline sm_deadline_after(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : sm_now() + (uint64_t)timeout_ms * MILLISECOND;
}

uint64_t sm_deadline_left(sm_deadline deadline)
{
    if (deadline == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t now = sm_now();
    return now < deadline ? deadline - now : 0;
}
