/* The library without a usable GPU. The checks must hold for each reason why there is none. */
#ifndef CPU_ONLY_H
#define CPU_ONLY_H

#include "fixture.h"

/* Checks that every call that needs a device returns the status and changes nothing. All other calls must work, in
 * pageable memory. */
void check_cpu_only(int device_of_objects, synced_mem_status expected);

#endif
