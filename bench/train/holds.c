/* Holds of the stages of a step. */
#include "holds.h"

#include "failure.h"

#include <string.h>

static size_t count_objects(synced_mem *const objects[HOLDS_MOST])
{
    size_t count = 0;
    while (count < HOLDS_MOST && objects[count])
        ++count;
    return count;
}

static synced_mem_status hold(const struct uses *uses, synced_mem_mode mode, synced_mem_stream stream)
{
    return synced_mem_hold_n(uses->objects[mode], count_objects(uses->objects[mode]), SYNCED_MEM_SIDE_GPU, mode,
                             stream);
}

static void unhold(const struct uses *uses, synced_mem_mode mode)
{
    (void)synced_mem_unhold_n(uses->objects[mode], count_objects(uses->objects[mode]), SYNCED_MEM_SIDE_GPU);
}

/* Holds the objects whose contents the stage needs. On failure none is held. */
static synced_mem_status hold_contents(const struct uses *uses, synced_mem_stream stream)
{
    synced_mem_status status = hold(uses, SYNCED_MEM_READ, stream);
    if (status != SYNCED_MEM_OK)
        return status;
    status = hold(uses, SYNCED_MEM_MUTABLE, stream);
    if (status != SYNCED_MEM_OK)
        unhold(uses, SYNCED_MEM_READ);
    return status;
}

static void unhold_contents(const struct uses *uses)
{
    unhold(uses, SYNCED_MEM_READ);
    unhold(uses, SYNCED_MEM_MUTABLE);
}

bool holds_start(struct holds *holds, int device, uint64_t budget, synced_mem_stream stream)
{
    if (synced_mem_gpu_set_budget(device, budget, NULL) != SYNCED_MEM_OK)
        return fail_library("budget");
    *holds = (struct holds){.on = true, .stream = stream};
    return true;
}

static void unhold_all(struct uses *uses)
{
    unhold_contents(uses);
    unhold(uses, SYNCED_MEM_OVERWRITE);
    *uses = (struct uses){0};
}

void holds_end(struct holds *holds)
{
    if (!holds->on)
        return;
    unhold_all(&holds->now);
    unhold_all(&holds->ahead);
    holds->on = false;
}

bool holds_begin_stage(struct holds *holds, const struct uses *uses)
{
    if (!holds->on)
        return true;
    if (!holds->is_ahead && hold_contents(uses, holds->stream) != SYNCED_MEM_OK)
        return fail_library("hold");
    holds->is_ahead = false;
    holds->ahead = (struct uses){0};
    if (hold(uses, SYNCED_MEM_OVERWRITE, holds->stream) != SYNCED_MEM_OK) {
        unhold_contents(uses);
        return fail_library("hold");
    }
    holds->now = *uses;
    return true;
}

static bool clear_dead(const struct uses *uses)
{
    const size_t count = count_objects(uses->dead);
    for (size_t i = 0; i < count; ++i) {
        if (synced_mem_clear(uses->dead[i]) != SYNCED_MEM_OK)
            return fail_library("clear");
    }
    return true;
}

bool holds_end_stage(struct holds *holds, const struct uses *next)
{
    if (!holds->on)
        return true;
    if (!clear_dead(&holds->now))
        return false;
    const synced_mem_status status = hold_contents(next, SYNCED_MEM_STREAM_LIBRARY);
    if (status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY)
        return fail_library("hold ahead");
    unhold_all(&holds->now);
    holds->is_ahead = status == SYNCED_MEM_OK;
    if (!holds->is_ahead)
        return true;
    memcpy(holds->ahead.objects, next->objects, SYNCED_MEM_OVERWRITE * sizeof next->objects[0]);
    return true;
}
