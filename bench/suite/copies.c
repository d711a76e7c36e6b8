/* Measures copies between objects: on one device, and from one device to another. */
#include "bare.h"
#include "object.h"
#include "report.h"
#include "suite.h"

struct pair {
    size_t size;
    synced_mem *to, *from;
    void *bare_to, *bare_from;
    synced_mem_stream stream;
};

static double copy_objects(void *state)
{
    const struct pair *const pair = state;
    const double begin = seconds_now();
    must_work(synced_mem_async_gpu_copy(pair->to, pair->from, pair->stream) == SYNCED_MEM_OK);
    bare_wait(pair->stream);
    return seconds_now() - begin;
}

static double copy_bare(void *state)
{
    const struct pair *const pair = state;
    const double begin = seconds_now();
    bare_queue_across(pair->bare_to, pair->bare_from, pair->size, pair->stream);
    bare_wait(pair->stream);
    return seconds_now() - begin;
}

static double copy_bare_peer(void *state)
{
    const struct pair *const pair = state;
    const double begin = seconds_now();
    bare_queue_peer(pair->bare_to, 1, pair->bare_from, 0, pair->size, pair->stream);
    bare_wait(pair->stream);
    return seconds_now() - begin;
}

/* Copies through the host, as a program without synced_mem_async_gpu_copy() does. */
static double copy_through_host(void *state)
{
    const struct pair *const pair = state;
    static void *host;
    static size_t size;
    if (size < pair->size) {
        if (host)
            bare_host_free(host);
        host = bare_host_alloc(size = pair->size);
    }
    const double begin = seconds_now();
    bare_copy_down(host, pair->bare_from, pair->size);
    bare_copy_up(pair->bare_to, host, pair->size);
    bare_wait_all();
    return seconds_now() - begin;
}

static void measure_pair(const struct table *table, size_t size, bool between)
{
    const struct way ways[] = {{"gpu_copy", copy_objects},
                               {"bare", between ? copy_bare_peer : copy_bare},
                               {"through the host", copy_through_host}};
    struct summary results[3];
    struct row row = row_of(table, size_name(size), (double)size);
    if (size >= MIB)
        row_target(&row, TO_LIMIT, AT_LEAST, !between && size >= 256 * MIB ? 0.98 : 0.97);
    if (!row_can_run(&row, true, size))
        return;
    if (between && synced_mem_device_count() < 2) {
        report_skip(&row, "there is one GPU");
        return;
    }
    struct pair pair = {.size = size,
                        .to = make_object_on(size, between ? 1 : 0),
                        .from = make_object(size),
                        .bare_to = bare_device_alloc_on(between ? 1 : 0, size),
                        .bare_from = bare_device_alloc(size),
                        .stream = bare_stream_create()};
    void *const data = synced_mem_overwrite_gpu_data_on(pair.from, pair.stream);
    must_work(data != NULL);
    bare_queue_fill(data, 1, size, pair.stream);
    compare(ways, 3, &pair, results);
    report_times(&row, results, (double)size);
    must_work(synced_mem_forget_stream(pair.stream) == SYNCED_MEM_OK);
    release_object(pair.to);
    release_object(pair.from);
    bare_device_free(pair.bare_to);
    bare_device_free(pair.bare_from);
    bare_stream_destroy(pair.stream);
}

void measure_device_copies(void)
{
    static const struct table table = {"copies",
                                       "copy",
                                       "A copy between two objects of one device",
                                       UNIT_GB_PER_S,
                                       "cudaMemcpyAsync from device to device, and cudaStreamSynchronize",
                                       "two cudaMemcpy, through page-locked memory"};
    report_table(&table);
    measure_pair(&table, 64 * KIB, false);
    measure_pair(&table, 16 * MIB, false);
    measure_pair(&table, (size_t)256 * MIB, false);
}

void measure_peer_copies(void)
{
    static const struct table table = {"copies",
                                       "peer-copy",
                                       "A copy between objects of two devices",
                                       UNIT_GB_PER_S,
                                       "cudaMemcpyPeerAsync with peer access, and cudaStreamSynchronize",
                                       "two cudaMemcpy, through page-locked memory"};
    report_table(&table);
    if (synced_mem_device_count() > 1)
        bare_let_reach(0, 1);
    measure_pair(&table, 64 * KIB, true);
    measure_pair(&table, 16 * MIB, true);
    measure_pair(&table, (size_t)GIB, true);
}
