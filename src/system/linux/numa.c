/* Memory nodes by libnuma. It calls only functions that do not print errors. */
#include "system/numa.h"

#include <numa.h>
#include <numaif.h>

int sm_numa_nodes(void)
{
    return numa_available() < 0 ? 1 : numa_max_node() + 1;
}

void sm_numa_prefer(void *start, size_t bytes, int node)
{
    const unsigned long mask = 1ul << node;
    (void)mbind(start, bytes, MPOL_PREFERRED, &mask, sizeof mask * 8 + 1, 0);
}
