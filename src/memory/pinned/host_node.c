/* The node of a device, which the system reports by the address on the PCI bus. Each device is queried once. */
#include "memory/pinned/host_node.h"

#include "device/device.h"
#include "memory/pinned/numa_nodes.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>

/* The place of each device plus 1; 0: not queried yet. */
static _Atomic unsigned char known[SM_MAX_DEVICES];

/* Reads the node from a file of the system. -1: not known. */
static int read_node(const char *path)
{
    int node = -1;
    FILE *const file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &node) != 1)
        node = -1;
    (void)fclose(file);
    return node;
}

static int query_node(int device)
{
    char id[SM_PCI_ID_BYTES];
    char path[64];
    if (sm_device_pci_id(device, id) != SYNCED_MEM_OK)
        return -1;
    /* The runtime writes capital letters, the system small ones. */
    for (char *c = id; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", id);
    return read_node(path);
}

unsigned sm_host_place_of(int device)
{
    unsigned place = atomic_load_explicit(&known[device], memory_order_relaxed);
    if (place == 0) {
        const int node = sm_numa_nodes() > 1 ? query_node(device) : -1;
        place = node >= 0 && node < SM_HOST_PLACES - 1 ? (unsigned)node + 2 : 1;
        atomic_store_explicit(&known[device], (unsigned char)place, memory_order_relaxed);
    }
    return place - 1;
}

void sm_host_places_forget(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        atomic_store_explicit(&known[device], 0, memory_order_relaxed);
}
