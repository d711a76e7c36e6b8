/* A push or pull of one object, where the stream can do all of it at once. */
#ifndef SM_MOVE_ONE_H
#define SM_MOVE_ONE_H

#include "object/object.h"

/* Pushes or pulls the object, as sm_move() does: at once if its host copy is page-locked and not of the caller's, both
 * copies exist, and the host has to wait for nothing. */
synced_mem_status sm_move_object(struct synced_mem *mem, enum sm_side side, bool is_urgent, synced_mem_stream handle);

#endif
