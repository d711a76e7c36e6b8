/* Eviction of host copies. */
#ifndef SM_EVICT_HOST_H
#define SM_EVICT_HOST_H

#include "object/departure.h"
#include "object/evictable.h"

/* Evicts the host copy of a victim, unless it is held by now. Contents that the device or a file has are dropped;
 * others are spilled first, and that is waited for. No lock may be held. ERR_FILE: the scratch file could not be
 * written; the host copy stays. */
synced_mem_status sm_evict_host_victim(struct sm_member *victim, enum sm_departure_lock how,
                                       enum sm_departure_end *end);

/* Returns whether the host alone has the contents. An object of no bytes has none. */
bool sm_is_host_only_copy(const struct synced_mem *mem);

#endif
