/* The node of a device, which the system reports by the address on the PCI bus. Each device is queried once. */
#include "memory/pinned/host_node.h"

#include "device/device.h"
#include "system/numa.h"

#include <ctype.h>
#include <stdatomic.h>

/* The place of each device plus 1; 0: not queried yet. */
static _Atomic unsigned char known[SM_MAX_DEVICES];

static int query_node(int device)
{
    char id[SM_PCI_ID_BYTES];
    if (sm_device_pci_id(device, id) != SYNCED_MEM_OK)
        return -1;
    /* The runtime writes capital letters, the system small ones. */
    for (char *c = id; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return sm_numa_node_of_pci(id);
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
