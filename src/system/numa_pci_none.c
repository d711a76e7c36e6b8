/* The memory node near a device, on a system that does not say it. */
#include "system/numa.h"

int sm_numa_node_of_pci(const char *address)
{
    (void)address;
    return -1;
}
