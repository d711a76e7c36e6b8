/* Memory nodes. numa_none.c is for systems and builds without them. A system that does not know where a device is
 * returns -1 for it. */
#ifndef SM_SYSTEM_NUMA_H
#define SM_SYSTEM_NUMA_H

#include <stddef.h>

/* Returns the number of memory nodes. 1: not known. */
int sm_numa_nodes(void);

/* Returns the node near the device with this address on the PCI bus, "0000:af:00.0" with small letters. -1: not known.
 * */
int sm_numa_node_of_pci(const char *address);

/* Takes pages of fresh memory from the node as they are first touched, as long as it has any. Ignores failures. */
void sm_numa_prefer(void *start, size_t bytes, int node);

#endif
