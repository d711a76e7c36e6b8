/* The arithmetic of backend.h on the host, on plain pointers. */
#include "arithmetic.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

static const int32_t *window(const int32_t *characters, const struct windows *windows, int row)
{
    return characters + windows->first + (size_t)row * (size_t)windows->stride;
}

void arithmetic_multiply(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a, const float *b,
                         float *c)
{
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, m, n,
                k, 1.0F, a, a_transposed ? m : k, b, b_transposed ? k : n, 0.0F, c, n);
}

void arithmetic_embed(const struct windows *windows, const int32_t *characters, int width, const float *table,
                      float *out)
{
    for (int row = 0; row < windows->rows; ++row) {
        const int32_t *const in = window(characters, windows, row);
        for (int i = 0; i < windows->context; ++i, out += width)
            memcpy(out, table + (size_t)in[i] * (size_t)width, (size_t)width * sizeof *out);
    }
}

void arithmetic_embed_backward(const struct windows *windows, const int32_t *characters, int width, int vocabulary,
                               const float *out_grad, float *table_grad)
{
    memset(table_grad, 0, (size_t)vocabulary * (size_t)width * sizeof *table_grad);
    for (int row = 0; row < windows->rows; ++row) {
        const int32_t *const in = window(characters, windows, row);
        for (int i = 0; i < windows->context; ++i, out_grad += width) {
            float *const sum = table_grad + (size_t)in[i] * (size_t)width;
            for (int j = 0; j < width; ++j)
                sum[j] += out_grad[j];
        }
    }
}

void arithmetic_add_bias(int rows, int columns, const float *bias, float *y)
{
    for (int row = 0; row < rows; ++row, y += columns) {
        for (int i = 0; i < columns; ++i)
            y[i] += bias[i];
    }
}

void arithmetic_bias_backward(int rows, int columns, const float *y_grad, float *bias_grad)
{
    memset(bias_grad, 0, (size_t)columns * sizeof *bias_grad);
    for (int row = 0; row < rows; ++row, y_grad += columns) {
        for (int i = 0; i < columns; ++i)
            bias_grad[i] += y_grad[i];
    }
}

void arithmetic_squash(int count, float *y)
{
    for (int i = 0; i < count; ++i)
        y[i] = tanhf(y[i]);
}

void arithmetic_squash_backward(int count, const float *y, float *y_grad)
{
    for (int i = 0; i < count; ++i)
        y_grad[i] *= 1.0F - y[i] * y[i];
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

void arithmetic_softmax_loss(const struct windows *windows, const int32_t *characters, int vocabulary,
                             const float *scores, float *grad, float *row_loss, double *total)
{
    for (int row = 0; row < windows->rows; ++row, scores += vocabulary) {
        const int32_t target = window(characters, windows, row)[windows->context];
        const float most = largest(scores, vocabulary);
        const float exponentials = sum_of_exponentials(scores, vocabulary, most);
        row_loss[row] = logf(exponentials) + most - scores[target];
        *total += (double)row_loss[row];
        if (grad) {
            softmax_gradient(scores, vocabulary, most, exponentials, target, 1.0F / (float)windows->mean_rows, grad);
            grad += vocabulary;
        }
    }
}

void arithmetic_draw(const struct windows *windows, int32_t *characters, int vocabulary, const float *scores)
{
    int32_t *const place = characters + windows->first + windows->context;
    const float most = largest(scores, vocabulary);
    float left = (float)*place / 2147483648.0F * sum_of_exponentials(scores, vocabulary, most);
    int drawn = 0;
    while (drawn < vocabulary - 1 && (left -= expf(scores[drawn] - most)) >= 0.0F)
        ++drawn;
    *place = drawn;
}

void arithmetic_descend(int count, float rate, float decay, const float *grad, float *value)
{
    for (int i = 0; i < count; ++i)
        value[i] -= rate * (grad[i] + decay * value[i]);
}
