/* Ranges with NVTX, which is a header only until a profiler is attached. */
#include "device/device.h"

/* The header casts data pointers to function pointers. POSIX allows that, ISO C does not. That of CUDA 11.8 has a
 * switch without some of an enum's values. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wswitch-enum"
#include <nvtx3/nvToolsExt.h>
#pragma GCC diagnostic pop

void sm_device_range_begin(const char *text)
{
    (void)nvtxRangePushA(text);
}

void sm_device_range_end(void)
{
    (void)nvtxRangePop();
}
