/*
 * Holds: with a budget for device memory, the objects that a stage of the arithmetic uses are held while it is queued,
 * and the contents that the next stage needs come to the device meanwhile. Without a budget nothing is held.
 */
#ifndef TRAIN_HOLDS_H
#define TRAIN_HOLDS_H

#include "synced_mem.h"
#include "synced_mem/budget.h"

#include <stdbool.h>
#include <stdint.h>

enum { HOLDS_MOST = 3 };

/* The objects of a stage, by the accesses to them: read, changed, overwritten. */
struct uses {
    synced_mem *objects[SYNCED_MEM_OVERWRITE + 1][HOLDS_MOST]; /* by synced_mem_mode; NULL after the last one */
    synced_mem *dead[HOLDS_MOST]; /* whose contents nobody needs after the stage, so an eviction transfers nothing */
};

/* All zeros: without a budget. */
struct holds {
    bool on;
    synced_mem_stream stream; /* of the arithmetic */
    struct uses now;          /* of the stage that is being queued; all NULL between stages */
    struct uses ahead;        /* contents held for the next stage; all NULL: none */
    bool is_ahead;
};

/* Sets the budget of the device, in bytes. Objects are then held for the arithmetic on the stream. */
bool holds_start(struct holds *holds, int device, uint64_t budget, synced_mem_stream stream);
/* Ends all holds. Call it before the objects are released. */
void holds_end(struct holds *holds);

/* Holds the objects of a stage that is about to be queued. Fails if the budget is too small for them. */
bool holds_begin_stage(struct holds *holds, const struct uses *uses);
/* Call it when the stage is queued. Holds what the next one reads or changes, if there is room for it beside this one,
 * and ends the holds of this one. */
bool holds_end_stage(struct holds *holds, const struct uses *next);

#endif
