/* Deadlines. */
#include "base/deadline.h"

#include <time.h>

static const uint64_t SECOND = 1000000000;
static const uint64_t MILLISECOND = 1000000;

uint64_t sm_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

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
