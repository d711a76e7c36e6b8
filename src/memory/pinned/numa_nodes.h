/* Memory nodes: numa.c if the build has libnuma, otherwise numa_none.c. */
#ifndef SM_NUMA_NODES_H
#define SM_NUMA_NODES_H

#include <stddef.h>

/* Returns the number of memory nodes. 1: not known. */
int sm_numa_nodes(void);

/* Takes pages of fresh memory from the node as they are first touched, as long as it has any. Ignores failures. */
void sm_numa_prefer(void *start, size_t bytes, int node);

#endif
