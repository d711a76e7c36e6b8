/* Fetching for objects that may have several records. All functions need the root's lock. waits: as in fetch.h. */
#ifndef SM_FETCH_PARTS_H
#define SM_FETCH_PARTS_H

#include "object/fetch.h"

/* Gives the root of a divided object memory on the side, if it has none. A piece's copies are parts of it. Other
 * streams use device memory behind the stream's work. stream: NULL: an internal one. may_unlock: a user allocator may
 * be called, see sm_user_allocator_obtain(); otherwise the memory is the library's own. No effect on an undivided
 * object. */
synced_mem_status sm_fetch_memory(const struct synced_mem *mem, enum sm_side side, struct sm_stream *stream,
                                  bool may_unlock);

/* Returns whether a transfer of any of the object's records to the side may come after a caller's work. Queries no
 * device. */
bool sm_moves_follow_work(const struct synced_mem *mem, enum sm_side side);

/* Gives each of the object's records memory on the side, and does the work of its transition, on the stream or on one
 * of the library's choice (NULL), for which the caller waits. The transfers of several records go to the runtime in one
 * call, and have one event. *fetched: some record's head has changed, so the caller calls again before it relies on the
 * records. waits: gets those of all records; the caller ends them, also after a failure. Blocks as
 * sm_transfer_queue(). */
synced_mem_status sm_fetch_for_access(struct synced_mem *mem, struct sm_listing *listing, enum sm_side side,
                                      enum sm_mode mode, struct sm_stream *stream, bool *fetched,
                                      struct sm_waits *waits);

/* Enters the fills that the caller's stream has made of all listed records, if it has, for a call that gives the stream
 * no pointers. Their heads get the device's bit. */
void sm_keep_zeros(struct sm_listing *listing, enum sm_mode mode);

#endif
