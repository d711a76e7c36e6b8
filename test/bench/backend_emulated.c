/*
 * Replaces backend_gpu.cu in a trainer on the emulated CUDA runtime. Accesses and streams are as there. The kernels are
 * functions of the host, which the emulated runtime runs late.
 */
#include "arithmetic.h"
#include "backend.h"
#include "failure.h"

#include "cudart_emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cudaStream_t compute_stream;
static cudaStream_t prefetch_stream;
static cudaEvent_t marks[BACKEND_MARKS];

/* ---- Kernels ---- */

enum { MOST_OBJECTS = 5 };

struct job {
    void (*run)(const struct job *job, void *const at[MOST_OBJECTS]);
    const char *what;
    bool refused; /* an access failed */
    int count;    /* of objects */
    struct emu_range ranges[MOST_OBJECTS];
    struct windows windows;
    bool a_transposed, b_transposed;
    int numbers[3];
    float rate, decay;
};

enum mode { READS, CHANGES, OVERWRITES };

static struct job *make_job(void (*run)(const struct job *job, void *const at[MOST_OBJECTS]), const char *what)
{
    struct job *const job = calloc(1, sizeof *job);
    if (!job)
        abort();
    job->run = run;
    job->what = what;
    return job;
}

/* Adds the next object that the kernel uses. NULL: none. */
static void add(struct job *job, synced_mem *object, enum mode mode)
{
    struct emu_range *const range = &job->ranges[job->count++];
    if (!object)
        return;
    range->size = synced_mem_size(object);
    range->write = mode != READS;
    if (mode == READS)
        range->data = synced_mem_gpu_data_on(object, compute_stream);
    else if (mode == CHANGES)
        range->data = synced_mem_mutable_gpu_data_on(object, compute_stream);
    else
        range->data = synced_mem_overwrite_gpu_data_on(object, compute_stream);
    if (!range->data && !job->refused)
        job->refused = !fail_library(job->what);
}

static void run_job(void *argument)
{
    struct job *const job = argument;
    void *at[MOST_OBJECTS] = {NULL};
    for (int i = 0; i < job->count; ++i)
        at[i] = job->ranges[i].data ? emu_pointer(job->ranges[i].data) : NULL;
    job->run(job, at);
    free(job);
}

static bool launch(struct job *job)
{
    const char *const what = job->what;
    const bool refused = job->refused;
    const cudaError_t error =
        refused ? cudaSuccess : emu_launch(compute_stream, run_job, job, job->ranges, (size_t)job->count);
    if (refused || error != cudaSuccess)
        free(job);
    return !refused && (error == cudaSuccess || fail("%s: %s", what, cudaGetErrorString(error)));
}

static void run_multiply(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_multiply(job->a_transposed, job->b_transposed, job->numbers[0], job->numbers[1], job->numbers[2], at[0],
                        at[1], at[2]);
}

static void run_embed(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_embed(&job->windows, at[0], job->numbers[0], at[1], at[2]);
}

static void run_embed_backward(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_embed_backward(&job->windows, at[0], job->numbers[0], job->numbers[1], at[1], at[2]);
}

static void run_add_bias(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_add_bias(job->numbers[0], job->numbers[1], at[0], at[1]);
}

static void run_bias_backward(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_bias_backward(job->numbers[0], job->numbers[1], at[0], at[1]);
}

static void run_squash(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_squash(job->numbers[0], at[0]);
}

static void run_squash_backward(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_squash_backward(job->numbers[0], at[0], at[1]);
}

static void run_softmax_loss(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_softmax_loss(&job->windows, at[0], job->numbers[0], at[1], at[2], at[3], at[4]);
}

static void run_draw(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_draw(&job->windows, at[0], job->numbers[0], at[1]);
}

static void run_descend(const struct job *job, void *const at[MOST_OBJECTS])
{
    arithmetic_descend(job->numbers[0], job->rate, job->decay, at[0], at[1]);
}

/* ---- Operations ---- */

static bool emulated_zero(synced_mem *object, size_t length)
{
    void *const data = synced_mem_overwrite_gpu_data_on(object, compute_stream);
    if (!data)
        return fail_library("zero");
    const cudaError_t error = cudaMemsetAsync(data, 0, length, compute_stream);
    return error == cudaSuccess || fail("zero: %s", cudaGetErrorString(error));
}

static bool emulated_multiply(bool a_transposed, bool b_transposed, int m, int n, int k, synced_mem *a, synced_mem *b,
                              synced_mem *c)
{
    struct job *const job = make_job(run_multiply, "multiply");
    job->a_transposed = a_transposed;
    job->b_transposed = b_transposed;
    memcpy(job->numbers, (const int[]){m, n, k}, sizeof job->numbers);
    add(job, a, READS);
    add(job, b, READS);
    add(job, c, OVERWRITES);
    return launch(job);
}

static bool emulated_embed(const struct windows *windows, int width, synced_mem *table, synced_mem *out)
{
    struct job *const job = make_job(run_embed, "embed");
    job->windows = *windows;
    job->numbers[0] = width;
    add(job, windows->characters, READS);
    add(job, table, READS);
    add(job, out, OVERWRITES);
    return launch(job);
}

static bool emulated_embed_backward(const struct windows *windows, int width, int vocabulary, synced_mem *out_grad,
                                    synced_mem *table_grad)
{
    struct job *const job = make_job(run_embed_backward, "embed backward");
    job->windows = *windows;
    job->numbers[0] = width;
    job->numbers[1] = vocabulary;
    add(job, windows->characters, READS);
    add(job, out_grad, READS);
    add(job, table_grad, OVERWRITES);
    return launch(job);
}

/* A kernel with two sizes and two objects. */
static bool launch_pair(struct job *job, int first, int second, synced_mem *from, synced_mem *to, enum mode mode)
{
    job->numbers[0] = first;
    job->numbers[1] = second;
    add(job, from, READS);
    add(job, to, mode);
    return launch(job);
}

static bool emulated_add_bias(int rows, int columns, synced_mem *bias, synced_mem *y)
{
    return launch_pair(make_job(run_add_bias, "add bias"), rows, columns, bias, y, CHANGES);
}

static bool emulated_bias_backward(int rows, int columns, synced_mem *y_grad, synced_mem *bias_grad)
{
    return launch_pair(make_job(run_bias_backward, "bias backward"), rows, columns, y_grad, bias_grad, OVERWRITES);
}

static bool emulated_squash(int count, synced_mem *y)
{
    struct job *const job = make_job(run_squash, "tanh");
    job->numbers[0] = count;
    add(job, y, CHANGES);
    return launch(job);
}

static bool emulated_squash_backward(int count, synced_mem *y, synced_mem *y_grad)
{
    return launch_pair(make_job(run_squash_backward, "tanh backward"), count, 0, y, y_grad, CHANGES);
}

static bool emulated_softmax_loss(const struct windows *windows, int vocabulary, synced_mem *scores, synced_mem *grad,
                                  synced_mem *row_loss, synced_mem *total)
{
    struct job *const job = make_job(run_softmax_loss, "softmax");
    job->windows = *windows;
    job->numbers[0] = vocabulary;
    add(job, windows->characters, READS);
    add(job, scores, READS);
    add(job, grad, OVERWRITES);
    add(job, row_loss, OVERWRITES);
    add(job, total, CHANGES);
    return launch(job);
}

static bool emulated_draw(const struct windows *windows, int vocabulary, synced_mem *scores)
{
    struct job *const job = make_job(run_draw, "draw");
    job->windows = *windows;
    job->numbers[0] = vocabulary;
    add(job, windows->characters, CHANGES);
    add(job, scores, READS);
    return launch(job);
}

static bool emulated_descend(int count, float rate, float decay, synced_mem *grad, synced_mem *value)
{
    struct job *const job = make_job(run_descend, "descend");
    job->rate = rate;
    job->decay = decay;
    return launch_pair(job, count, 0, grad, value, CHANGES);
}

/* ---- Transfers and streams ---- */

static bool emulated_prefetch(synced_mem *object)
{
    return synced_mem_async_gpu_push(object, prefetch_stream) == SYNCED_MEM_OK || fail_library("prefetch");
}

static bool emulated_fetch(synced_mem *object)
{
    return synced_mem_async_cpu_pull(object, compute_stream) == SYNCED_MEM_OK || fail_library("fetch");
}

static bool emulated_done(synced_mem *object)
{
    return synced_mem_end_use_on(object, compute_stream) == SYNCED_MEM_OK || fail_library("end of use");
}

static bool emulated_finish(void)
{
    cudaError_t error = cudaStreamSynchronize(prefetch_stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(compute_stream);
    return error == cudaSuccess || fail("the work on the device failed: %s", cudaGetErrorString(error));
}

static bool emulated_mark(enum backend_stream which, int number, int after)
{
    const cudaStream_t stream = which == BACKEND_COMPUTE ? compute_stream : prefetch_stream;
    cudaError_t error = marks[number] ? cudaSuccess : cudaEventCreate(&marks[number]);
    if (error == cudaSuccess && after >= 0)
        error = cudaStreamWaitEvent(stream, marks[after], 0);
    if (error == cudaSuccess)
        error = cudaEventRecord(marks[number], stream);
    return error == cudaSuccess || fail("mark %d: %s", number, cudaGetErrorString(error));
}

static bool emulated_between(int from, int to, double *microseconds)
{
    float milliseconds = 0.0F;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, marks[from], marks[to]);
    *microseconds = 1e3 * (double)milliseconds;
    return error == cudaSuccess || fail("from mark %d to mark %d: %s", from, to, cudaGetErrorString(error));
}

static bool close_stream(cudaStream_t stream)
{
    return (synced_mem_forget_stream(stream) == SYNCED_MEM_OK && cudaStreamDestroy(stream) == cudaSuccess) ||
           fail("a stream can't be destroyed");
}

static bool emulated_close(void)
{
    for (int i = 0; i < BACKEND_MARKS; ++i) {
        if (marks[i])
            cudaEventDestroy(marks[i]);
        marks[i] = NULL;
    }
    return close_stream(compute_stream) && close_stream(prefetch_stream);
}

bool backend_gpu_built(void)
{
    return true;
}

int backend_gpu_count(void)
{
    return synced_mem_device_count();
}

bool backend_open_gpu(struct backend *backend, int device)
{
    if (cudaSetDevice(device) != cudaSuccess ||
        cudaStreamCreateWithFlags(&compute_stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaStreamCreateWithFlags(&prefetch_stream, cudaStreamNonBlocking) != cudaSuccess)
        return fail("device %d does not start", device);
    *backend = (struct backend){
        .device = device,
        .on_gpu = true,
        .stream = compute_stream,
        .prefetch = emulated_prefetch,
        .fetch = emulated_fetch,
        .done = emulated_done,
        .finish = emulated_finish,
        .mark = emulated_mark,
        .between = emulated_between,
        .zero = emulated_zero,
        .multiply = emulated_multiply,
        .embed = emulated_embed,
        .embed_backward = emulated_embed_backward,
        .add_bias = emulated_add_bias,
        .bias_backward = emulated_bias_backward,
        .squash = emulated_squash,
        .squash_backward = emulated_squash_backward,
        .softmax_loss = emulated_softmax_loss,
        .draw = emulated_draw,
        .descend = emulated_descend,
        .close = emulated_close,
    };
    snprintf(backend->name, sizeof backend->name, "emulated (GPU %d)", device);
    return true;
}
