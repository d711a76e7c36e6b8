/* Pushes and pulls of the caller's: they pass the gate, and reclaim memory. */
#ifndef SM_MOVES_H
#define SM_MOVES_H

#include "object/transaction.h"

/* Does what sm_move_once() does (push_pull.h), also with objects that are not held. If memory is refused, reclaims some
 * and tries again. Errors also as sm_gates_begin(). */
synced_mem_status sm_move(struct synced_mem *const *mems, size_t count, enum sm_side side, bool is_urgent,
                          synced_mem_stream handle, struct synced_mem **failed);

#endif
