/* Loads of several objects by one job, for a call that does not wait for the reads. */
#ifndef SM_LOAD_SEVERAL_H
#define SM_LOAD_SEVERAL_H

#include "object/object.h"

struct sm_load_call {
    struct synced_mem *const *mems; /* undivided roots with memory of the library's own, each named once */
    size_t count;
    enum sm_side side;
    struct sm_stream *stream; /* on whose device objects without one get their memory; NULL: the current device */
};

/* Begins to read those of the objects that are in files alone to the side. Blocks only for work on the memory there,
 * and for writes of the bytes. *failed: the object that a failure is about, or NULL. After a failure, what has begun is
 * still read. Errors: as sm_queue_load(). */
synced_mem_status sm_load_several(const struct sm_load_call *call, struct synced_mem **failed);

#endif
