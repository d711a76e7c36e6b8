/* The memory node near a device, which the system has in a file. */
#include "system/numa.h"

#include <stdio.h>

int sm_numa_node_of_pci(const char *address)
{
    char path[64];
    int node = -1;
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", address);
    FILE *const file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &node) != 1)
        node = -1;
    (void)fclose(file);
    return node;
}
