/* Whether a device has room for a kernel. */
#include "copy/kernel_start.h"

#include "base/status.h"
#include "device/device.h"
#include "stream/stream.h"
#include "system/clock.h"

#include <stdatomic.h>

static struct {
    atomic_uint launched; /* counts the probes */
    atomic_uint given_up; /* the number of the last probe that a call has given up, if waits is set */
    atomic_bool waits;
} probes[SM_MAX_DEVICES];
static _Atomic uint64_t patience_set;

static bool has_run(int device, unsigned number)
{
    return (int)(sm_device_probed(device) - number) >= 0;
}

static bool still_waits(int device)
{
    if (!atomic_load_explicit(&probes[device].waits, memory_order_relaxed))
        return false;
    const bool waits = !has_run(device, atomic_load_explicit(&probes[device].given_up, memory_order_relaxed));
    atomic_store_explicit(&probes[device].waits, waits, memory_order_relaxed);
    return waits;
}

static void give_up(int device, unsigned number)
{
    atomic_store_explicit(&probes[device].given_up, number, memory_order_relaxed);
    atomic_store_explicit(&probes[device].waits, true, memory_order_relaxed);
}

bool sm_kernel_probe_begin(struct sm_kernel_probe *probe, int device)
{
    struct sm_stream *stream;
    if (still_waits(device))
        return false;
    const struct sm_detail first = sm_detail_get();
    const unsigned number = atomic_fetch_add_explicit(&probes[device].launched, 1, memory_order_relaxed) + 1;
    if (sm_internal_stream(device, SM_INTERNAL_PROBE, &stream) == SYNCED_MEM_OK &&
        sm_device_run_probe(device, number, stream->handle) == SYNCED_MEM_OK)
        *probe = (struct sm_kernel_probe){.since = sm_now(), .number = number};
    sm_detail_set(&first);
    return probe->since > 0;
}

/* Reads the probe's word, which is faster than a query, and queries the stream at times: the device may be lost. */
static bool wait_until_run(const struct sm_kernel_probe *probe, int device, uint64_t patience)
{
    enum { READS = 256 };
    const struct sm_stream *const stream = sm_internal_stream_if_made(device, SM_INTERNAL_PROBE);
    bool is_done = false;
    synced_mem_status status = SYNCED_MEM_OK;
    while (status == SYNCED_MEM_OK && !is_done && sm_now() - probe->since < patience) {
        for (int i = 0; i < READS; i++)
            if (has_run(device, probe->number))
                return true;
        status = sm_device_stream_query(device, stream->handle, &is_done);
    }
    return has_run(device, probe->number);
}

bool sm_kernel_probe_has_run(const struct sm_kernel_probe *probe, int device, uint64_t patience)
{
    const uint64_t set = atomic_load_explicit(&patience_set, memory_order_relaxed);
    const struct sm_detail first = sm_detail_get();
    const bool has_room = wait_until_run(probe, device, set > 0 ? set : patience);
    if (!has_room)
        give_up(device, probe->number);
    sm_detail_set(&first);
    return has_room;
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
        atomic_store_explicit(&probes[device].waits, false, memory_order_relaxed);
    }
}
