/*
 * Needless transfers, found with a trace. In each iteration the host updates a weight, and the device reads it. So the
 * weight is transferred to the device each time. By mistake forward() requests it with a mutable access. So it is also
 * transferred back each time. With the argument "fixed" forward() uses a read access.
 *
 *     pingpong [fixed] [trace.json]
 */
#include <synced_mem.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 65536, ITERATIONS = 100, NO_GPU = 77 };

static void check(synced_mem_status status)
{
    if (status == SYNCED_MEM_OK)
        return;
    fprintf(stderr, "%s\n", synced_mem_last_error_message());
    exit(status == SYNCED_MEM_ERR_NO_GPU ? NO_GPU : EXIT_FAILURE);
}

static synced_mem *make(const char *name)
{
    synced_mem *mem;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = name;
    check(synced_mem_create(&mem, VALUES * sizeof(float), &options));
    return mem;
}

/* Stands for a function that launches a kernel with the two pointers. */
static void forward(synced_mem *weight, synced_mem *output, bool fixed)
{
    const void *read = fixed ? synced_mem_gpu_data_on(weight, NULL) : synced_mem_mutable_gpu_data_on(weight, NULL);
    void *write = synced_mem_overwrite_gpu_data_on(output, NULL);
    if (!read || !write)
        check(synced_mem_last_error());
}

static void update(synced_mem *weight)
{
    float *values = synced_mem_mutable_cpu_data(weight);
    if (!values)
        check(synced_mem_last_error());
    for (int i = 0; i < VALUES; i++)
        values[i] += 1;
}

int main(int argc, char **argv)
{
    const bool fixed = argc > 1 && strcmp(argv[1], "fixed") == 0;
    const char *path = argc > 1 + fixed ? argv[1 + fixed] : "/dev/null";
    check(synced_mem_trace_start(path));
    synced_mem *weight = make("conv1.weight");
    synced_mem *output = make("conv1.output");
    for (int i = 0; i < ITERATIONS; i++) {
        synced_mem_scope_begin("forward");
        forward(weight, output, fixed);
        synced_mem_scope_end();
        synced_mem_scope_begin("update");
        update(weight);
        synced_mem_scope_end();
    }
    if (!synced_mem_cpu_data(output))
        check(synced_mem_last_error());
    check(synced_mem_trace_summary(stdout));
    check(synced_mem_release(weight));
    check(synced_mem_release(output));
    check(synced_mem_trace_stop());
    check(synced_mem_shutdown());
    return EXIT_SUCCESS;
}
