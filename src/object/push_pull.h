/* Pushes and pulls: transfers on a caller's stream, of one object or of many. */
#ifndef SM_PUSH_PULL_H
#define SM_PUSH_PULL_H

#include "object/transaction.h"

/* Queues the transfer of the contents of each object to the side on the stream, with one event for all. *failed, if not
 * NULL, receives the object that a failure is about; NULL if it is about none. */
synced_mem_status sm_move(struct synced_mem *const *mems, size_t count, enum sm_side side, synced_mem_stream handle,
                          struct synced_mem **failed);

#endif
