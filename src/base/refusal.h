/*
 * Refusals: a failure to get memory for contents is noted where it is first known. It is read where memory can be
 * reclaimed.
 */
#ifndef SM_REFUSAL_H
#define SM_REFUSAL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct sm_refusal {
    int device; /* -1: host memory */
    size_t bytes;
};

/* Notes for the calling thread that memory for contents was refused, if status is an out-of-memory error; otherwise
 * clears the note. device: -1 for host memory. Returns status. */
synced_mem_status sm_refusal_note(synced_mem_status status, int device, size_t bytes);

/* The note itself, which can be put aside. */
struct sm_refusal_noted {
    struct sm_refusal last;
    bool noted; /* not taken yet */
};
struct sm_refusal_noted sm_refusal_get(void);
void sm_refusal_set(const struct sm_refusal_noted *refusal);

/* Gets the calling thread's last refusal and clears it. Returns false if there was none since the last call. */
bool sm_refusal_take(struct sm_refusal *out);

#endif
