/* The memory node near a device is not known. */
#include "system/numa.h"

int sm_numa_node_of_pci(const char *address)
{
    (void)address;
    return -1;
}
