/* Memory for contents that was refused: noted where it is first known, read where something can be done about it. */
#ifndef SM_REFUSAL_H
#define SM_REFUSAL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct sm_refusal {
    int device; /* -1: of the host's memory */
    size_t bytes;
};

/* Notes, for the thread, that memory for contents was refused, if that is the status. device: -1 for the host's.
 * Returns the status. */
synced_mem_status sm_refusal_note(synced_mem_status status, int device, size_t bytes);

/* The thread's last refusal. False: there was none since the last call. */
bool sm_refusal_take(struct sm_refusal *out);

#endif
