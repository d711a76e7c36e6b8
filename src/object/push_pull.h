/* Pushes and pulls: transfers on a caller's stream, of one object or of many. */
#ifndef SM_PUSH_PULL_H
#define SM_PUSH_PULL_H

#include "object/transaction.h"

/* Queues the transfer of the contents of each object to the side on the stream, with one event for all. The objects may
 * be used as they are: evictable ones are held, and it is this process's turn. Blocks for work that no stream can wait
 * for, and until staged pushes are queued. Without copy threads it also blocks until staged pulls have arrived.
 * *failed: the object that a failure is about; NULL: none. ERR_CAPTURING: the stream captures. ERR_INVALID_STATE: an
 * object has no contents to move. is_urgent, of one object: a kernel makes the transfer if it would come behind bulk
 * ones. */
synced_mem_status sm_move_once(struct synced_mem *const *mems, size_t count, enum sm_side side, bool is_urgent,
                               synced_mem_stream handle, struct synced_mem **failed);

#endif
