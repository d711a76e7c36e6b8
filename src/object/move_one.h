/* A push or pull of one object, where the stream can do all of it at once. */
#ifndef SM_MOVE_ONE_H
#define SM_MOVE_ONE_H

#include "object/object.h"

/* Pushes or pulls the object, and stores the status, if its contents move between two copies of the library's own, and
 * the host has to wait for nothing. Returns false if not: then it has changed nothing. The object is not NULL, and its
 * gate is passed. */
bool sm_move_one(struct synced_mem *mem, enum sm_side side, synced_mem_stream handle, synced_mem_status *status);

#endif
