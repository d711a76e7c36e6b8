/* Whether a device has room for a kernel. */
#include "copy/kernel_start.h"

#include "base/process.h"
#include "base/status.h"
#include "device/device.h"
#include "stream/stream.h"
#include "system/clock.h"

#include <stdatomic.h>

/* Guarded by the lock, so that probes are launched in the order of their numbers, and the word ascends. */
static struct {
    unsigned launched; /* counts the probes */
    unsigned given_up; /* the number of the last probe that a call has given up, if waits is set */
    bool waits;
} probes[SM_MAX_DEVICES];
static struct sm_lock lock = SM_LOCK_INITIALIZER;
static _Atomic uint64_t patience_set;
static atomic_bool has_run_lately[SM_MAX_DEVICES];

static bool has_run(int device, unsigned number)
{
    return (int)(sm_device_probed(device) - number) >= 0;
}

static bool still_waits(int device)
{
    probes[device].waits = probes[device].waits && !has_run(device, probes[device].given_up);
    return probes[device].waits;
}

static void give_up(int device, unsigned number)
{
    sm_lock(&lock);
    probes[device].given_up = number;
    probes[device].waits = true;
    sm_unlock(&lock);
}

bool sm_kernel_probe_begin(struct sm_kernel_probe *probe, int device)
{
    struct sm_stream *stream;
    const struct sm_detail first = sm_detail_get();
    const bool has_stream = sm_internal_stream(device, SM_INTERNAL_PROBE, &stream) == SYNCED_MEM_OK;
    sm_lock(&lock);
    if (has_stream && !still_waits(device) &&
        sm_device_run_probe(device, probes[device].launched + 1, stream->handle) == SYNCED_MEM_OK)
        *probe = (struct sm_kernel_probe){.since = sm_now(), .number = ++probes[device].launched};
    sm_unlock(&lock);
    sm_detail_set(&first);
    return probe->since > 0;
}

/* Polls the probe's word, which is faster than a query, and queries the stream seldom: the device may be lost. */
static bool wait_until_run(const struct sm_kernel_probe *probe, int device, uint64_t patience)
{
    enum { READS = 64, BETWEEN_QUERIES = 10000 };
    const struct sm_stream *const stream = sm_internal_stream_if_made(device, SM_INTERNAL_PROBE);
    bool is_done = false;
    synced_mem_status status = SYNCED_MEM_OK;
    uint64_t query_at = probe->since + BETWEEN_QUERIES;
    for (uint64_t now = sm_now(); status == SYNCED_MEM_OK && !is_done && now - probe->since < patience;
         now = sm_now()) {
        for (int i = 0; i < READS; i++)
            if (has_run(device, probe->number))
                return true;
        if (now < query_at)
            continue;
        status = sm_device_stream_query(device, stream->handle, &is_done);
        query_at = now + BETWEEN_QUERIES;
    }
    return is_done || has_run(device, probe->number);
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

void sm_kernel_note_run(int device)
{
    atomic_store_explicit(&has_run_lately[device], true, memory_order_relaxed);
}

bool sm_kernel_has_run_lately(int device)
{
    return atomic_exchange_explicit(&has_run_lately[device], false, memory_order_relaxed);
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
        sm_lock(&lock);
        probes[device].waits = false;
        sm_unlock(&lock);
        (void)sm_kernel_has_run_lately(device);
    }
}
