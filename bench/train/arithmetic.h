/* The arithmetic of backend.h on the host, on plain pointers: matrix products by CBLAS, the rest in plain loops. */
#ifndef TRAIN_ARITHMETIC_H
#define TRAIN_ARITHMETIC_H

#include "backend.h"

#include <stdbool.h>
#include <stdint.h>

/* Each computes the operation of the same name. characters are those of the windows' object. */
void arithmetic_multiply(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a, const float *b,
                         float *c);
void arithmetic_embed(const struct windows *windows, const int32_t *characters, int width, const float *table,
                      float *out);
void arithmetic_embed_backward(const struct windows *windows, const int32_t *characters, int width, int vocabulary,
                               const float *out_grad, float *table_grad);
void arithmetic_add_bias(int rows, int columns, const float *bias, float *y);
void arithmetic_bias_backward(int rows, int columns, const float *y_grad, float *bias_grad);
void arithmetic_squash(int count, float *y);
void arithmetic_squash_backward(int count, const float *y, float *y_grad);
void arithmetic_softmax_loss(const struct windows *windows, const int32_t *characters, int vocabulary,
                             const float *scores, float *grad, float *row_loss, double *total);
void arithmetic_draw(const struct windows *windows, int32_t *characters, int vocabulary, const float *scores);
void arithmetic_descend(int count, float rate, float decay, const float *grad, float *value);

#endif
