/* Ranges for a profiler: NVTX, which is nothing but a header until a profiler is there. */
#include "device/device.h"

/* It turns pointers to data into pointers to functions, as POSIX wants it and C does not. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
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
