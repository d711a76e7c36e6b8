/* Memory nodes: numa.c where the build has libnuma, else numa_none.c. */
#ifndef SM_NUMA_NODES_H
#define SM_NUMA_NODES_H

#include <stddef.h>

/* How many memory nodes there are; 1 where nobody knows. */
int sm_numa_nodes(void);

/* Pages of fresh memory come from the node, from the first touch on, as long as it has any. Best effort. */
void sm_numa_prefer(void *start, size_t bytes, int node);

#endif
