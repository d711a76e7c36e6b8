/* Contents in files: the calls that put an object into a file, and end that. */
#ifndef SM_USE_FILE_H
#define SM_USE_FILE_H

#include "object/backing.h"

/* Makes the bytes of the file the object's contents, and gives up those in its copies. Reads nothing.
 * ERR_INVALID_STATE: the object has a kind of memory that can't have it. ERR_FILE: the file is too short. */
synced_mem_status sm_use_file(struct synced_mem *mem, struct synced_mem_file *file, uint64_t offset);

/* Checks the object's kind and memory. ERR_INVALID_STATE: it can't be in a file. */
synced_mem_status sm_check_may_be_in_file(const struct synced_mem *mem);

/* Returns whether files have all contents. Takes the lock. */
bool sm_is_object_in_file(struct synced_mem *mem);

/* Ends the backings of an object that is no view, and whose memory is gone. Takes the lock if it is in parts. */
void sm_end_backings(struct synced_mem *mem);

#endif
