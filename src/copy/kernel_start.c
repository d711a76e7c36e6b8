/* Whether a device has room for a kernel. */
#include "copy/kernel_start.h"

#include "base/status.h"
#include "device/device.h"
#include "stream/stream.h"
#include "system/clock.h"

#include <stdatomic.h>

static atomic_bool waits[SM_MAX_DEVICES]; /* a call has given up a probe, which has not been seen ended since */
static _Atomic uint64_t patience_set;

static bool still_waits(int device, const struct sm_stream *stream)
{
    bool ended = false;
    if (!atomic_load_explicit(&waits[device], memory_order_relaxed))
        return false;
    (void)sm_device_stream_query(device, stream->handle, &ended);
    atomic_store_explicit(&waits[device], !ended, memory_order_relaxed);
    return !ended;
}

void sm_kernel_probe_begin(struct sm_kernel_probe *probe, int device)
{
    const struct sm_detail first = sm_detail_get();
    const struct sm_list_job nothing = {.count = 0};
    struct sm_stream *stream;
    if (sm_internal_stream(device, SM_INTERNAL_PROBE, &stream) == SYNCED_MEM_OK && !still_waits(device, stream) &&
        sm_device_run_list(device, &nothing, 1, stream->handle) == SYNCED_MEM_OK)
        probe->since = sm_now();
    sm_detail_set(&first);
}

/* The end of the stream's last probe is that of all before it. */
bool sm_kernel_probe_ended(const struct sm_kernel_probe *probe, int device, uint64_t patience)
{
    const struct sm_stream *const stream = sm_internal_stream_if_made(device, SM_INTERNAL_PROBE);
    const uint64_t set = atomic_load_explicit(&patience_set, memory_order_relaxed);
    if (probe->since == 0)
        return false;
    const struct sm_detail first = sm_detail_get();
    bool ended = false;
    synced_mem_status status;
    do
        status = sm_device_stream_query(device, stream->handle, &ended);
    while (status == SYNCED_MEM_OK && !ended && sm_now() - probe->since < (set > 0 ? set : patience));
    if (!ended)
        atomic_store_explicit(&waits[device], true, memory_order_relaxed);
    sm_detail_set(&first);
    return ended;
}

void sm_kernel_probe_set_patience(uint64_t nanoseconds)
{
    atomic_store_explicit(&patience_set, nanoseconds, memory_order_relaxed);
}

void sm_kernel_probes_shutdown(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        const struct sm_stream *const stream = sm_internal_stream_if_made(device, SM_INTERNAL_PROBE);
        if (stream)
            (void)sm_device_stream_sync(device, stream->handle);
        atomic_store_explicit(&waits[device], false, memory_order_relaxed);
    }
}
