/* The node of a device, by its place on the PCI bus, as the system tells it. Asked once. */
#include "memory/pinned/host_node.h"

#include "device/device.h"
#include "memory/pinned/numa_nodes.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>

/* Of each device: its place and one, or 0 while nobody has asked. */
static _Atomic unsigned char known[SM_MAX_DEVICES];

/* The file has -1 where the system does not know. */
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

static int node_of(int device)
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

static unsigned ask(int device)
{
    const int node = sm_numa_nodes() > 1 ? node_of(device) : -1;
    return node >= 0 && node < SM_HOST_PLACES - 1 ? (unsigned)node + 1 : 0;
}

unsigned sm_host_place_of(int device)
{
    unsigned place = atomic_load_explicit(&known[device], memory_order_relaxed);
    if (place == 0) {
        place = ask(device) + 1;
        atomic_store_explicit(&known[device], (unsigned char)place, memory_order_relaxed);
    }
    return place - 1;
}

void sm_host_places_forget(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        atomic_store_explicit(&known[device], 0, memory_order_relaxed);
}
