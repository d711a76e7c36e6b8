/* Ranges in a build without NVTX: no effect. */
#include "device/device.h"

void sm_device_range_begin(const char *text)
{
    (void)text;
}

void sm_device_range_end(void)
{
}
