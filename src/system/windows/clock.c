/* The clock, by the performance counter. */
#include "system/clock.h"

#include <windows.h>

uint64_t sm_now(void)
{
    enum { SECOND = 1000000000 };
    LARGE_INTEGER frequency, now;
    (void)QueryPerformanceFrequency(&frequency);
    (void)QueryPerformanceCounter(&now);
    const uint64_t ticks = (uint64_t)now.QuadPart, in_second = (uint64_t)frequency.QuadPart;
    return ticks / in_second * SECOND + ticks % in_second * SECOND / in_second;
}

void sm_yield(void)
{
    (void)SwitchToThread();
}
