/* The arithmetic on the CPU. */
#include "arithmetic.h"
#include "backend.h"
#include "failure.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const float *reads(synced_mem *object)
{
    return synced_mem_cpu_data(object);
}

static float *changes(synced_mem *object)
{
    return synced_mem_mutable_cpu_data(object);
}

static float *overwrites(synced_mem *object)
{
    return synced_mem_overwrite_cpu_data(object);
}

/* ---- Transfers and streams: none on the CPU ---- */

static bool cpu_nothing_to_move(synced_mem *object)
{
    (void)object;
    return true;
}

static bool cpu_finish(void)
{
    return true;
}

static bool cpu_mark(enum backend_stream which, int number, int after)
{
    (void)which, (void)number, (void)after;
    return fail("the CPU has no streams to be timed");
}

static bool cpu_between(int from, int to, double *microseconds)
{
    (void)from, (void)to, (void)microseconds;
    return fail("the CPU has no streams to be timed");
}

static bool cpu_close(void)
{
    return true;
}

/* ---- Operations ---- */

static bool cpu_zero(synced_mem *object, size_t length)
{
    float *const data = overwrites(object);
    if (!data)
        return fail_library("zero");
    memset(data, 0, length);
    return true;
}

static bool cpu_multiply(bool a_transposed, bool b_transposed, int m, int n, int k, synced_mem *a, synced_mem *b,
                         synced_mem *c)
{
    const float *const from_a = reads(a);
    const float *const from_b = reads(b);
    float *const to = overwrites(c);
    if (!from_a || !from_b || !to)
        return fail_library("multiply");
    arithmetic_multiply(a_transposed, b_transposed, m, n, k, from_a, from_b, to);
    return true;
}

static bool cpu_embed(const struct windows *windows, int width, synced_mem *table, synced_mem *out)
{
    const int32_t *const characters = synced_mem_cpu_data(windows->characters);
    const float *const from = reads(table);
    float *const to = overwrites(out);
    if (!characters || !from || !to)
        return fail_library("embed");
    arithmetic_embed(windows, characters, width, from, to);
    return true;
}

static bool cpu_embed_backward(const struct windows *windows, int width, int vocabulary, synced_mem *out_grad,
                               synced_mem *table_grad)
{
    const int32_t *const characters = synced_mem_cpu_data(windows->characters);
    const float *const from = reads(out_grad);
    float *const to = overwrites(table_grad);
    if (!characters || !from || !to)
        return fail_library("embed backward");
    arithmetic_embed_backward(windows, characters, width, vocabulary, from, to);
    return true;
}

static bool cpu_add_bias(int rows, int columns, synced_mem *bias, synced_mem *y)
{
    const float *const from = reads(bias);
    float *const to = changes(y);
    if (!from || !to)
        return fail_library("add bias");
    arithmetic_add_bias(rows, columns, from, to);
    return true;
}

static bool cpu_bias_backward(int rows, int columns, synced_mem *y_grad, synced_mem *bias_grad)
{
    const float *const from = reads(y_grad);
    float *const to = overwrites(bias_grad);
    if (!from || !to)
        return fail_library("bias backward");
    arithmetic_bias_backward(rows, columns, from, to);
    return true;
}

static bool cpu_squash(int count, synced_mem *y)
{
    float *const data = changes(y);
    if (!data)
        return fail_library("tanh");
    arithmetic_squash(count, data);
    return true;
}

static bool cpu_squash_backward(int count, synced_mem *y, synced_mem *y_grad)
{
    const float *const from = reads(y);
    float *const to = changes(y_grad);
    if (!from || !to)
        return fail_library("tanh backward");
    arithmetic_squash_backward(count, from, to);
    return true;
}

static bool cpu_softmax_loss(const struct windows *windows, int vocabulary, synced_mem *scores, synced_mem *grad,
                             synced_mem *row_loss, synced_mem *total)
{
    const int32_t *const characters = synced_mem_cpu_data(windows->characters);
    const float *const from = reads(scores);
    float *const to = grad ? overwrites(grad) : NULL;
    float *const losses = overwrites(row_loss);
    double *const sum = synced_mem_mutable_cpu_data(total);
    if (!characters || !from || (grad && !to) || !losses || !sum)
        return fail_library("softmax");
    arithmetic_softmax_loss(windows, characters, vocabulary, from, to, losses, sum);
    return true;
}

static bool cpu_draw(const struct windows *windows, int vocabulary, synced_mem *scores)
{
    int32_t *const characters = synced_mem_mutable_cpu_data(windows->characters);
    const float *const from = reads(scores);
    if (!characters || !from)
        return fail_library("draw");
    arithmetic_draw(windows, characters, vocabulary, from);
    return true;
}

static bool cpu_descend(int count, float rate, float decay, synced_mem *grad, synced_mem *value)
{
    const float *const from = reads(grad);
    float *const to = changes(value);
    if (!from || !to)
        return fail_library("descend");
    arithmetic_descend(count, rate, decay, from, to);
    return true;
}

bool backend_cpu_built(void)
{
    return true;
}

/* OpenBLAS alone has this function. */
void openblas_set_num_threads(int threads) __attribute__((weak));

/* By default OpenBLAS uses every core in each process. */
static void share_cores(int processes)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t own;
    if (!openblas_set_num_threads || getenv("OPENBLAS_NUM_THREADS") || getenv("OMP_NUM_THREADS") ||
        sched_getaffinity(0, sizeof own, &own) != 0)
        return;
    const long share = cores / processes < CPU_COUNT(&own) ? cores / processes : CPU_COUNT(&own);
    openblas_set_num_threads(share > 1 ? (int)share : 1);
}

bool backend_open_cpu(struct backend *backend, int processes)
{
    if (processes > 1)
        share_cores(processes);
    *backend = (struct backend){
        .name = "CPU",
        .device = SYNCED_MEM_DEVICE_CURRENT,
        .prefetch = cpu_nothing_to_move,
        .fetch = cpu_nothing_to_move,
        .done = cpu_nothing_to_move,
        .finish = cpu_finish,
        .mark = cpu_mark,
        .between = cpu_between,
        .zero = cpu_zero,
        .multiply = cpu_multiply,
        .embed = cpu_embed,
        .embed_backward = cpu_embed_backward,
        .add_bias = cpu_add_bias,
        .bias_backward = cpu_bias_backward,
        .squash = cpu_squash,
        .squash_backward = cpu_squash_backward,
        .softmax_loss = cpu_softmax_loss,
        .draw = cpu_draw,
        .descend = cpu_descend,
        .close = cpu_close,
    };
    return true;
}
