/* Ranges for a profiler, where there is no header for them. */
#include "device/device.h"

void sm_device_range_begin(const char *text)
{
    (void)text;
}

void sm_device_range_end(void)
{
}
