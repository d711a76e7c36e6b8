/* The arithmetic on the CPU: matrix products by CBLAS, the rest in plain loops. */
#include "backend.h"
#include "failure.h"

#include <cblas.h>
#include <math.h>
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

static const int32_t *window(const int32_t *characters, const struct windows *windows, int row)
{
    return characters + windows->first + (size_t)row * (size_t)windows->stride;
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
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, m, n,
                k, 1.0F, from_a, a_transposed ? m : k, from_b, b_transposed ? k : n, 0.0F, to, n);
    return true;
}

static bool cpu_embed(const struct windows *windows, int width, synced_mem *table, synced_mem *out)
{
    const int32_t *const characters = synced_mem_cpu_data(windows->characters);
    const float *const from = reads(table);
    float *to = overwrites(out);
    if (!characters || !from || !to)
        return fail_library("embed");
    for (int row = 0; row < windows->rows; ++row) {
        const int32_t *const in = window(characters, windows, row);
        for (int i = 0; i < windows->context; ++i, to += width)
            memcpy(to, from + (size_t)in[i] * (size_t)width, (size_t)width * sizeof *to);
    }
    return true;
}

static bool cpu_embed_backward(const struct windows *windows, int width, int vocabulary, synced_mem *out_grad,
                               synced_mem *table_grad)
{
    const int32_t *const characters = synced_mem_cpu_data(windows->characters);
    const float *from = reads(out_grad);
    float *const to = overwrites(table_grad);
    if (!characters || !from || !to)
        return fail_library("embed backward");
    memset(to, 0, (size_t)vocabulary * (size_t)width * sizeof *to);
    for (int row = 0; row < windows->rows; ++row) {
        const int32_t *const in = window(characters, windows, row);
        for (int i = 0; i < windows->context; ++i, from += width) {
            float *const sum = to + (size_t)in[i] * (size_t)width;
            for (int j = 0; j < width; ++j)
                sum[j] += from[j];
        }
    }
    return true;
}

static bool cpu_add_bias(int rows, int columns, synced_mem *bias, synced_mem *y)
{
    const float *const from = reads(bias);
    float *to = changes(y);
    if (!from || !to)
        return fail_library("add bias");
    for (int row = 0; row < rows; ++row, to += columns) {
        for (int i = 0; i < columns; ++i)
            to[i] += from[i];
    }
    return true;
}

static bool cpu_bias_backward(int rows, int columns, synced_mem *y_grad, synced_mem *bias_grad)
{
    const float *from = reads(y_grad);
    float *const to = overwrites(bias_grad);
    if (!from || !to)
        return fail_library("bias backward");
    memset(to, 0, (size_t)columns * sizeof *to);
    for (int row = 0; row < rows; ++row, from += columns) {
        for (int i = 0; i < columns; ++i)
            to[i] += from[i];
    }
    return true;
}

static bool cpu_squash(int count, synced_mem *y)
{
    float *const data = changes(y);
    if (!data)
        return fail_library("tanh");
    for (int i = 0; i < count; ++i)
        data[i] = tanhf(data[i]);
    return true;
}

static bool cpu_squash_backward(int count, synced_mem *y, synced_mem *y_grad)
{
    const float *const from = reads(y);
    float *const to = changes(y_grad);
    if (!from || !to)
        return fail_library("tanh backward");
    for (int i = 0; i < count; ++i)
        to[i] *= 1.0F - from[i] * from[i];
    return true;
}

static float largest(const float *scores, int count)
{
    float most = scores[0];
    for (int i = 1; i < count; ++i)
        most = scores[i] > most ? scores[i] : most;
    return most;
}

/* Subtracts the largest score first, so that no exponential overflows. */
static float sum_of_exponentials(const float *scores, int count, float most)
{
    float sum = 0.0F;
    for (int i = 0; i < count; ++i)
        sum += expf(scores[i] - most);
    return sum;
}

static void softmax_gradient(const float *scores, int count, float most, float sum, int target, float scale, float *to)
{
    for (int i = 0; i < count; ++i)
        to[i] = expf(scores[i] - most) / sum * scale;
    to[target] -= scale;
}

static bool cpu_softmax_loss(const struct windows *windows, int vocabulary, synced_mem *scores, synced_mem *grad,
                             synced_mem *row_loss, synced_mem *total)
{
    const int32_t *const characters = synced_mem_cpu_data(windows->characters);
    const float *from = reads(scores);
    float *to = grad ? overwrites(grad) : NULL;
    float *const losses = overwrites(row_loss);
    double *const sum = synced_mem_mutable_cpu_data(total);
    if (!characters || !from || (grad && !to) || !losses || !sum)
        return fail_library("softmax");
    for (int row = 0; row < windows->rows; ++row, from += vocabulary) {
        const int32_t target = window(characters, windows, row)[windows->context];
        const float most = largest(from, vocabulary);
        const float exponentials = sum_of_exponentials(from, vocabulary, most);
        losses[row] = logf(exponentials) + most - from[target];
        *sum += (double)losses[row];
        if (to) {
            softmax_gradient(from, vocabulary, most, exponentials, target, 1.0F / (float)windows->mean_rows, to);
            to += vocabulary;
        }
    }
    return true;
}

static bool cpu_draw(const struct windows *windows, int vocabulary, synced_mem *scores)
{
    int32_t *const characters = synced_mem_mutable_cpu_data(windows->characters);
    const float *const from = reads(scores);
    if (!characters || !from)
        return fail_library("draw");
    int32_t *const place = characters + windows->first + windows->context;
    const float most = largest(from, vocabulary);
    float left = (float)*place / 2147483648.0F * sum_of_exponentials(from, vocabulary, most);
    int drawn = 0;
    while (drawn < vocabulary - 1 && (left -= expf(from[drawn] - most)) >= 0.0F)
        ++drawn;
    *place = drawn;
    return true;
}

static bool cpu_descend(int count, float rate, float decay, synced_mem *grad, synced_mem *value)
{
    const float *const from = reads(grad);
    float *const to = changes(value);
    if (!from || !to)
        return fail_library("descend");
    for (int i = 0; i < count; ++i)
        to[i] -= rate * (from[i] + decay * to[i]);
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
