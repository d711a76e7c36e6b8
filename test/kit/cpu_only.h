/* The library where there is no GPU to use, for whatever reason: all that is tested must hold for each of them. */
#ifndef CPU_ONLY_H
#define CPU_ONLY_H

#include "fixture.h"

/* Everything that needs a device answers the status and changes nothing; everything else works, in pageable memory. */
void check_cpu_only(int device_of_objects, synced_mem_status expected);

#endif
