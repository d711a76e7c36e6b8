/* Steps of a training beside a checkpoint: the weights are pulled and written to a file while the next steps run. */
#include "bare.h"
#include "kernels.h"
#include "object.h"
#include "parts_of_file.h"
#include "report.h"
#include "suite.h"
#include "test_file.h"

#include <unistd.h>

enum { WEIGHTS = 32, STEPS = 16, CHANGED = 4096 };

struct training {
    synced_mem *weights[WEIGHTS];
    uint64_t offsets[WEIGHTS];
    size_t size; /* of each */
    struct kernels kernels;
    synced_mem_stream stream;
    int descriptor;
    synced_mem_file *file;
    unsigned char step;
};

/* The kernels read all weights, then change them. */
static void queue_step(struct training *on)
{
    for (int i = 0; i < WEIGHTS; i++)
        must_work(synced_mem_gpu_data_on(on->weights[i], on->stream) != NULL);
    kernels_launch(&on->kernels, on->stream);
    on->step++;
    for (int i = 0; i < WEIGHTS; i++) {
        void *const weights = synced_mem_mutable_gpu_data_on(on->weights[i], on->stream);
        must_work(weights != NULL);
        bare_queue_fill(weights, on->step, CHANGED, on->stream);
    }
}

/* Changes to the weights wait for the pull, the kernels before do not. */
static void begin_checkpoint(const struct training *on)
{
    must_work(synced_mem_async_cpu_pull_n(on->weights, WEIGHTS, SYNCED_MEM_STREAM_LIBRARY) == SYNCED_MEM_OK);
    must_work(synced_mem_async_write_file_n(on->weights, on->file, on->offsets, WEIGHTS, SYNCED_MEM_NO_STREAM) ==
              SYNCED_MEM_OK);
}

/* Checks that the file has the weights of that step. */
static void check_checkpoint(const struct training *on, unsigned char step)
{
    unsigned char bytes[CHANGED];
    for (int i = 0; i < WEIGHTS; i++) {
        must(pread(on->descriptor, bytes, CHANGED, (off_t)on->offsets[i]) == CHANGED, "a file can't be read");
        for (int byte = 0; byte < CHANGED; byte++)
            must(bytes[byte] == step, "wrong result: the checkpoint has not the weights of its step");
    }
}

static double run_steps(struct training *on, bool with_checkpoint)
{
    const unsigned char step = on->step;
    const double begin = seconds_now();
    if (with_checkpoint)
        begin_checkpoint(on);
    for (int i = 0; i < STEPS; i++)
        queue_step(on);
    bare_wait(on->stream);
    const double seconds = seconds_now() - begin;
    must_work(synced_mem_file_wait(on->file) == SYNCED_MEM_OK);
    if (with_checkpoint)
        check_checkpoint(on, step);
    return seconds / STEPS;
}

static double steps_with(void *state)
{
    return run_steps(state, true);
}

static double steps_without(void *state)
{
    return run_steps(state, false);
}

static void begin_training(struct training *on)
{
    on->size = suite.emulated || suite.quick ? 64 * KIB : 16 * MIB;
    on->stream = bare_stream_create();
    on->descriptor = make_file(folder_in_memory(), WEIGHTS * on->size);
    on->file = open_for_objects(on->descriptor);
    for (int i = 0; i < WEIGHTS; i++) {
        on->weights[i] = make_object(on->size);
        on->offsets[i] = (size_t)i * on->size;
        must_work(synced_mem_overwrite_gpu_data_on(on->weights[i], on->stream) != NULL);
    }
    kernels_make(&on->kernels, suite.quick ? 0 : 0.02, on->stream);
    queue_step(on);
    bare_wait(on->stream);
}

static void end_training(const struct training *on)
{
    for (int i = 0; i < WEIGHTS; i++)
        release_object(on->weights[i]);
    kernels_free(&on->kernels);
    must_work(synced_mem_file_release(on->file) == SYNCED_MEM_OK);
    must_work(synced_mem_forget_stream(on->stream) == SYNCED_MEM_OK);
    bare_stream_destroy(on->stream);
    (void)close(on->descriptor);
}

void measure_checkpoint(void)
{
    static const struct way ways[] = {{"with", steps_with}, {"without", steps_without}};
    static const struct table table = {"files",
                                       "checkpoint",
                                       "A step of a training, with a checkpoint to tmpfs beside 16 of them",
                                       UNIT_MS,
                                       "without the checkpoint",
                                       NULL};
    static struct training on;
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    const size_t bytes = WEIGHTS * (suite.emulated || suite.quick ? 64 * KIB : 16 * MIB);
    struct row row = row_of(&table, size_name(bytes), (double)bytes);
    row_target(&row, TO_LIMIT, AT_MOST, 1.02);
    report_table(&table);
    if (!row_can_run(&row, true, 0))
        return;
    if (room_in_folder(folder_in_memory()) < bytes) {
        report_skip(&row, "too little room for a file in memory");
        return;
    }
    begin_training(&on);
    compare(ways, 2, &on, results);
    report_times(&row, results, 0);
    end_training(&on);
}
