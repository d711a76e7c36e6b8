/* Tensors of DLPack: an object's memory as a tensor, and a tensor's memory as an object. */
#include "bare.h"
#include "dlpack_structs.h"
#include "object.h"
#include "report.h"
#include "suite.h"

#include "synced_mem/dlpack.h"

enum { BYTES = 65536, COLUMNS = 128, CALLS = 2000, EVENTS = 8 };

struct exchange {
    synced_mem *mem;
    struct bare_event *events[EVENTS];
    synced_mem_dlpack_options options;
    struct DLManagedTensorVersioned tensor;
    int deleted;
};

static int count_calls(void)
{
    return suite.quick ? 20 : CALLS;
}

/* ---- Out ---- */

static double make_and_delete(void *state)
{
    const struct exchange *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < count_calls(); i++) {
        struct DLManagedTensorVersioned *tensor;
        must_work(synced_mem_to_dlpack(&tensor, on->mem, &on->options) == SYNCED_MEM_OK);
        tensor->deleter(tensor);
    }
    return (seconds_now() - begin) / count_calls();
}

static void measure_out(const struct table *table, synced_mem_side side)
{
    static const struct way ways[] = {{"synced_mem", make_and_delete}};
    static const int64_t shape[] = {BYTES / sizeof(float) / COLUMNS, COLUMNS};
    const bool on_device = side == SYNCED_MEM_SIDE_GPU;
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, on_device ? "the device copy, on a stream" : "the host copy", side);
    struct exchange on = {.options = {.struct_size = sizeof on.options,
                                      .side = side,
                                      .type_code = TENSOR_FLOAT,
                                      .type_bits = 32,
                                      .ndim = 2,
                                      .shape = shape}};
    row_target(&row, VALUE, AT_MOST, 0.3);
    if (!row_can_run(&row, on_device, 0))
        return;
    on.mem = make_object(BYTES);
    on.options.stream = on_device ? bare_stream_create() : NULL;
    must_work((on_device ? synced_mem_overwrite_gpu_data_on(on.mem, on.options.stream)
                         : synced_mem_overwrite_cpu_data(on.mem)) != NULL);
    compare(ways, 1, &on, results);
    report_times(&row, results, 0);
    release_object(on.mem);
    if (on_device) {
        must_work(synced_mem_forget_stream(on.options.stream) == SYNCED_MEM_OK);
        bare_stream_destroy(on.options.stream);
    }
}

/* ---- In ---- */

static void count_deleted(struct DLManagedTensorVersioned *tensor)
{
    ++*(int *)tensor->context;
}

static double take_and_release(void *state)
{
    struct exchange *const on = state;
    on->deleted = 0;
    const double begin = seconds_now();
    for (int i = 0; i < count_calls(); i++) {
        must_work(synced_mem_from_dlpack(&on->mem, &on->tensor, NULL, NULL) == SYNCED_MEM_OK);
        must_work(synced_mem_release(on->mem) == SYNCED_MEM_OK);
    }
    while (on->deleted < count_calls()) /* device memory waits for the legacy stream's work */
        must_work(synced_mem_reap() == SYNCED_MEM_OK);
    return (seconds_now() - begin) / count_calls();
}

/* Every program has to query whether the memory is page-locked. */
static double query_bare(void *state)
{
    const struct exchange *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < count_calls(); i++)
        (void)bare_device_of(on->tensor.tensor.data);
    return (seconds_now() - begin) / count_calls();
}

/* Every program has to query which device has the memory, and whether the work on it has ended. */
static double take_and_release_bare(void *state)
{
    const struct exchange *const on = state;
    const double begin = seconds_now();
    for (int i = 0; i < count_calls(); i++) {
        must_work(bare_device_of(on->tensor.tensor.data) == 0);
        bare_event_record(on->events[i % EVENTS], NULL);
        (void)bare_event_is_done(on->events[(i + 1) % EVENTS]);
    }
    bare_event_wait_here(on->events[(count_calls() - 1) % EVENTS]);
    return (seconds_now() - begin) / count_calls();
}

static void measure_in(const struct table *table, bool on_device)
{
    static const struct way host_ways[] = {{"synced_mem", take_and_release}, {"bare calls", query_bare}};
    static const struct way device_ways[] = {{"synced_mem", take_and_release}, {"bare calls", take_and_release_bare}};
    static _Alignas(64) char memory[BYTES];
    static int64_t shape[] = {BYTES / sizeof(float) / COLUMNS, COLUMNS};
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct row row = row_of(table, on_device ? "device memory" : "host memory", on_device);
    row_target(&row, VALUE, AT_MOST, 1);
    if (!row_can_run(&row, on_device, 0))
        return;
    struct exchange on = {.tensor = {.major = 1,
                                     .context = &on.deleted,
                                     .deleter = count_deleted,
                                     .tensor = {.data = on_device ? bare_device_alloc(BYTES) : memory,
                                                .device_type = on_device ? TENSOR_CUDA : TENSOR_CPU,
                                                .ndim = 2,
                                                .code = TENSOR_FLOAT,
                                                .bits = 32,
                                                .lanes = 1,
                                                .shape = shape}}};
    for (int i = 0; i < EVENTS && on_device; i++)
        on.events[i] = bare_event_create();
    compare(on_device ? device_ways : host_ways, suite.gpu ? 2 : 1, &on, results);
    report_times(&row, results, 0);
    for (int i = 0; i < EVENTS && on_device; i++)
        bare_event_destroy(on.events[i]);
    if (on_device)
        bare_device_free(on.tensor.tensor.data);
}

void measure_tensors(void)
{
    static const struct table out = {"tensors", "to-dlpack", "A tensor of an object: to_dlpack and the deleter",
                                     UNIT_US,   NULL,        NULL};
    static const struct table in = {"tensors",
                                    "from-dlpack",
                                    "An object of a tensor: from_dlpack and release",
                                    UNIT_US,
                                    "cudaPointerGetAttributes; on the device also an event recorded and queried",
                                    NULL};
    report_table(&out);
    measure_out(&out, SYNCED_MEM_SIDE_CPU);
    measure_out(&out, SYNCED_MEM_SIDE_GPU);
    report_table(&in);
    measure_in(&in, false);
    measure_in(&in, true);
}
