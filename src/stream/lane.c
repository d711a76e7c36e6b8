/* The library's own streams. */
#include "stream/stream.h"

#include "base/process.h"

static struct {
    struct sm_lock lock; /* held while one is made or destroyed */
    struct sm_stream stream[SM_MAX_DEVICES][SM_LANES];
    atomic_bool made[SM_MAX_DEVICES][SM_LANES];
} lanes = {.lock = SM_LOCK_INITIALIZER};

static synced_mem_status make_lane(int device, enum sm_lane lane)
{
    struct sm_stream *const stream = &lanes.stream[device][lane];
    const synced_mem_status status = sm_device_stream_create(device, &stream->handle);
    if (status != SYNCED_MEM_OK)
        return status;
    sm_stream_describe(stream, SM_STREAM_LANE, device, SM_NO_HANDLE);
    atomic_store_explicit(&lanes.made[device][lane], true, memory_order_release);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_stream_lane(int device, enum sm_lane lane, struct sm_stream **out)
{
    const atomic_bool *const made = &lanes.made[device][lane];
    synced_mem_status status = SYNCED_MEM_OK;
    if (!atomic_load_explicit(made, memory_order_acquire)) {
        sm_lock(&lanes.lock);
        if (!atomic_load_explicit(made, memory_order_relaxed))
            status = make_lane(device, lane);
        sm_unlock(&lanes.lock);
    }
    if (status == SYNCED_MEM_OK)
        *out = &lanes.stream[device][lane];
    return status;
}

struct sm_stream *sm_stream_lane_if_made(int device, enum sm_lane lane)
{
    const bool made = atomic_load_explicit(&lanes.made[device][lane], memory_order_acquire);
    return made ? &lanes.stream[device][lane] : NULL;
}

static synced_mem_status destroy_lane(int device, enum sm_lane lane)
{
    if (!atomic_load_explicit(&lanes.made[device][lane], memory_order_relaxed))
        return SYNCED_MEM_OK;
    const synced_mem_status status = sm_device_stream_destroy(device, lanes.stream[device][lane].handle);
    /* What was on a lost device went with it; what fails otherwise stays, for a later try. */
    if (status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_DEVICE_LOST)
        atomic_store_explicit(&lanes.made[device][lane], false, memory_order_relaxed);
    return status;
}

synced_mem_status sm_lanes_shutdown(void)
{
    synced_mem_status first = SYNCED_MEM_OK;
    sm_lock(&lanes.lock);
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        for (enum sm_lane lane = SM_LANE_H2D; lane < SM_LANES; lane++) {
            const synced_mem_status status = destroy_lane(device, lane);
            first = first != SYNCED_MEM_OK && first != SYNCED_MEM_ERR_DEVICE_LOST ? first : status;
        }
    }
    sm_unlock(&lanes.lock);
    return first;
}
