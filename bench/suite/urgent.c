/* Small urgent pulls beside a bulk pull. */
#include "bare.h"
#include "object.h"
#include "report.h"
#include "suite.h"

#include "device/device.h"

#include <stdlib.h>

enum { MOST_PULLS = 1 << 16 };

struct beside {
    synced_mem *bulk, *small;
    synced_mem_stream busy, stream;
    char *host, *device; /* of bare copies as large as the small object */
    struct bare_event *end;
    double *latencies;
};

enum way_of_small { NONE, URGENT, PLAIN };

static double pull_small(const struct beside *on, enum way_of_small way)
{
    must_work(synced_mem_mutable_gpu_data_on(on->small, on->stream) != NULL);
    const double begin = seconds_now();
    must_work((way == URGENT ? synced_mem_async_cpu_pull_urgent(on->small, on->stream)
                             : synced_mem_async_cpu_pull(on->small, on->stream)) == SYNCED_MEM_OK);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Pulls the small object again and again while the bulk one is pulled. Returns the duration of the bulk pull, and the
 * 99th percentile of the small ones. */
static double pull_beside(const struct beside *on, enum way_of_small way, double *p99)
{
    int pulls = 0;
    must_work(synced_mem_mutable_gpu_data_on(on->bulk, on->busy) != NULL);
    bare_wait(on->busy);
    const double begin = seconds_now();
    must_work(synced_mem_async_cpu_pull(on->bulk, on->busy) == SYNCED_MEM_OK);
    bare_event_record(on->end, on->busy);
    while (way != NONE && pulls < MOST_PULLS && !bare_event_is_done(on->end))
        on->latencies[pulls++] = pull_small(on, way);
    bare_wait(on->busy);
    const double duration = seconds_now() - begin;
    qsort(on->latencies, (size_t)pulls, sizeof *on->latencies, compare_doubles);
    *p99 = pulls > 0 ? on->latencies[pulls - 1 - pulls / 100] : 0;
    return duration;
}

static double bulk_alone(void *state)
{
    double p99;
    return pull_beside(state, NONE, &p99);
}

static double bulk_beside_urgent(void *state)
{
    double p99;
    return pull_beside(state, URGENT, &p99);
}

static double urgent_p99(void *state)
{
    double p99;
    (void)pull_beside(state, URGENT, &p99);
    return p99;
}

static double plain_p99(void *state)
{
    double p99;
    (void)pull_beside(state, PLAIN, &p99);
    return p99;
}

/* Nothing else is on the link. */
static double bare_alone(void *state)
{
    const struct beside *const on = state;
    const double begin = seconds_now();
    bare_queue_down(on->host, on->device, synced_mem_size(on->small), on->stream);
    bare_wait(on->stream);
    return seconds_now() - begin;
}

static void make_beside(struct beside *on, size_t bulk, size_t small)
{
    on->busy = bare_stream_create();
    on->stream = bare_stream_create();
    on->end = bare_event_create();
    on->host = bare_host_alloc(small);
    on->device = bare_device_alloc(small);
    on->latencies = calloc(MOST_PULLS, sizeof *on->latencies);
    must(on->latencies != NULL, "no memory");
    on->bulk = make_object(bulk);
    on->small = make_object(small);
    must_work(synced_mem_gpu_data_on(on->bulk, on->busy) != NULL && synced_mem_cpu_data(on->bulk) != NULL);
    must_work(synced_mem_gpu_data_on(on->small, on->stream) != NULL && synced_mem_cpu_data(on->small) != NULL);
    bare_wait_all();
    /* Before the kernel is loaded, engines would copy. */
    (void)sm_device_list_processors(synced_mem_device(on->bulk));
    sm_device_await_lists();
}

static void free_beside(const struct beside *on)
{
    release_object(on->bulk);
    release_object(on->small);
    must_work(synced_mem_forget_stream(on->busy) == SYNCED_MEM_OK);
    must_work(synced_mem_forget_stream(on->stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on->busy);
    bare_stream_destroy(on->stream);
    bare_event_destroy(on->end);
    bare_host_free(on->host);
    bare_device_free(on->device);
    free(on->latencies);
}

void measure_urgent(void)
{
    static const struct table latency = {
        "transfers",
        "pull-urgent",
        "An urgent pull of 4 KiB beside a bulk pull, and the wait for it; the 99th percentile",
        UNIT_US,
        "cudaMemcpyAsync and cudaStreamSynchronize, alone",
        "the same pull, not urgent"};
    static const struct table bulk = {"transfers",   "pull-bulk",           "The bulk pull beside these urgent pulls",
                                      UNIT_GB_PER_S, "the bulk pull alone", NULL};
    const struct way ways[] = {{"urgent", urgent_p99}, {"alone", bare_alone}, {"plain", plain_p99}};
    const struct way bulk_ways[] = {{"beside", bulk_beside_urgent}, {"alone", bulk_alone}};
    const size_t most = (size_t)2 * GIB;
    const size_t size = suite.largest < most ? suite.largest : most;
    struct beside on;
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    char name[64];
    (void)snprintf(name, sizeof name, "beside %s", size_name(size));
    struct row row = row_of(&latency, name, 4096);
    row_target(&row, VALUE, AT_MOST, 50); /* us */
    report_table(&latency);
    if (!row_can_run(&row, true, size))
        return;
    make_beside(&on, size, 4096);
    compare(ways, 3, &on, results);
    report_times(&row, results, 1);
    row = row_of(&bulk, size_name(size), (double)size);
    row_target(&row, TO_LIMIT, AT_LEAST, 0.97);
    report_table(&bulk);
    results[2] = unmeasured;
    compare(bulk_ways, 2, &on, results);
    report_times(&row, results, (double)size);
    free_beside(&on);
}
