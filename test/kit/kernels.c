/* The way by kernel in tests. */
#include "kernels.h"

#include "copy/kernel_start.h"
#include "copy/kernel_way.h"
#include "device/device.h"

#include <stdlib.h>

enum { LEAST = 2 };
#define NEVER_NS (UINT64_MAX / 4)

void use_kernels(int devices)
{
    sm_kernel_way_set(SM_BLOCKS_BY_DEVICE);
    sm_kernel_way_set_least(LEAST);
    sm_kernel_probe_set_patience(NEVER_NS);
    for (int device = 0; device < devices && device < sm_device_count(); device++) {
        (void)sm_device_list_processors(device);
        sm_device_await_lists();
    }
}

void use_no_kernels(void)
{
    sm_kernel_way_set(0);
}

void use_kernels_if_asked(int devices)
{
    const char *const value = getenv("SYNCED_MEM_TEST_KERNELS");
    if (value && value[0] != '\0')
        use_kernels(devices);
    else
        use_no_kernels();
}
