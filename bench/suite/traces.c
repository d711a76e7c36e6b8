/* Page-locked memory held, compared to the memory in use, over allocations and frees in the sizes of networks' tensors.
 */
#include "report.h"
#include "suite.h"
#include "tensor_trace.h"

#include <stdlib.h>
#include <string.h>

static double seconds_in_library;

static void *take(size_t size, void **owner)
{
    synced_mem_options options;
    synced_mem *mem;
    synced_mem_options_init(&options);
    options.device = 0;
    const double begin = seconds_now();
    must_work(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    void *const data = synced_mem_overwrite_cpu_data(mem);
    seconds_in_library += seconds_now() - begin;
    must_work(data != NULL);
    *owner = mem;
    return data;
}

static void give(void *data, size_t size, void *owner)
{
    (void)data;
    (void)size;
    const double begin = seconds_now();
    must_work(synced_mem_release(owner) == SYNCED_MEM_OK);
    seconds_in_library += seconds_now() - begin;
}

static size_t live, peak; /* requested bytes */

static void *take_by_malloc(size_t size, void **owner)
{
    live += size;
    peak = live > peak ? live : peak;
    char *const data = malloc(256);
    must(data != NULL, "no memory");
    data[0] = 1;
    *owner = data;
    return data;
}

static void give_by_malloc(void *data, size_t size, void *owner)
{
    (void)data;
    live -= size;
    free(owner);
}

/* Returns the time of the trace with an allocator that ignores sizes. */
static double seconds_of_trace(enum trace_kind kind, unsigned events, unsigned shrink)
{
    const struct trace_user user = {.alloc = take_by_malloc, .free = give_by_malloc, .shrink = shrink};
    const double begin = seconds_now();
    live = peak = 0;
    trace_play(kind, events, &user);
    return seconds_now() - begin;
}

static void measure(const struct table *held, const struct table *time, enum trace_kind kind, const char *name,
                    struct row *timed)
{
    const unsigned events = suite.quick ? 2000 : 100000;
    const unsigned shrink = suite.emulated ? 32 : 1;
    const struct trace_user user = {.alloc = take, .free = give, .shrink = shrink};
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    struct row row = row_of(held, name, 0);
    *timed = row_of(time, name, 0);
    row_target(&row, TO_LIMIT, AT_MOST, 1.15);
    if (!row_can_run(&row, true, 0))
        return;
    timed->limit = summary_of_one(seconds_of_trace(kind, events, shrink) / events);
    if ((double)peak > suite.memory / 3) {
        report_skip(&row, "this machine has too little memory");
        return;
    }
    seconds_in_library = 0;
    must_work(synced_mem_host_pool_reset_peaks() == SYNCED_MEM_OK);
    trace_play(kind, events, &user);
    must_work(synced_mem_host_pool_get_stats(&stats) == SYNCED_MEM_OK);
    const struct summary results[3] = {summary_of_one((double)stats.peak_held_bytes),
                                       summary_of_one((double)stats.peak_requested_bytes), unmeasured};
    (void)snprintf(row.note, sizeof row.note, "%u allocations and frees", events);
    report_values(&row, results);
    timed->ours = summary_of_one(seconds_in_library / events);
    must_work(synced_mem_host_pool_trim(0) == SYNCED_MEM_OK);
}

void measure_traces(void)
{
    static const struct table held = {"allocation",
                                      "trace-held",
                                      "Peak of page-locked memory held, over a trace of tensors",
                                      UNIT_BYTES,
                                      "the peak of requested memory",
                                      NULL};
    static const struct table time = {"allocation",
                                      "trace-time",
                                      "... and the time of an allocation or a free in it, growth included",
                                      UNIT_NS,
                                      "the trace with malloc of 256 bytes in place of each",
                                      NULL};
    struct row timed[2];
    report_table(&held);
    measure(&held, &time, TRACE_TRAINING, "lives that nest", &timed[0]);
    measure(&held, &time, TRACE_MIXED, "lives that end in any order", &timed[1]);
    report_table(&time);
    for (int i = 0; i < 2; i++)
        if (timed[i].ours.rounds == 0)
            report_skip(&timed[i], suite.gpu ? "this machine has too little memory" : "no GPU");
        else
            report_times(&timed[i], (const struct summary[]){timed[i].ours, timed[i].limit, unmeasured}, 0);
}
