/*
 * The arithmetic of the layers, once for the CPU and once for the GPU. A backend gets objects, asks each for its
 * pointer on the side where it computes and in the mode that fits, and computes in float.
 *
 * What holds for every operation:
 * - False means that it failed, with the reason kept by fail().
 * - Matrices are dense, row after row. An object may be larger than what the sizes say; the rest is not looked at.
 * - The order of every sum is fixed: the same input gives the same bits on the same machine.
 * - "overwrites": every element of the result is set, whatever was there; "changes": the result depends on what was
 *   there.
 */
#ifndef TRAIN_BACKEND_H
#define TRAIN_BACKEND_H

#include "synced_mem.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Windows into an object of int32_t: row r reads the context characters from first + r * stride on, and the one after
 * them is its target. */
struct windows {
    synced_mem *characters;
    int first;
    int stride;
    int rows;
    int context;
};

/* The queues that a GPU works through side by side. */
enum backend_lane {
    BACKEND_COMPUTE, /* the arithmetic */
    BACKEND_PREFETCH /* what is fetched ahead */
};

enum { BACKEND_MARKS = 64 };

struct backend {
    char name[320]; /* of the machine that computes, for the report */
    int device;     /* for the objects: a CUDA device number, or SYNCED_MEM_DEVICE_CURRENT for the CPU */
    bool on_gpu;

    /* Starts to bring an object to where it will be read; for objects written on the host some time before. */
    bool (*prefetch)(synced_mem *object);

    /* Starts to bring an object that operations have written to the host, which will read it later. */
    bool (*fetch)(synced_mem *object);

    /* The operations so far are the last that use the object's contents: who replaces them, a prefetch say, waits for
     * these and for nothing that is queued later. */
    bool (*done)(synced_mem *object);

    /* Blocks until all that was queued is done. */
    bool (*finish)(void);

    /* Mark number, below BACKEND_MARKS, becomes the time at which all that the internal stream has got so far is done and the mark
     * after, if it is not negative, has passed. Only where there are internal streams. */
    bool (*mark)(enum backend_lane internal, int number, int after);
    /* The time from one mark to a later one, in microseconds; after finish(). */
    bool (*between)(int from, int to, double *microseconds);

    /* Sets length bytes to zero; overwrites. */
    bool (*zero)(synced_mem *object, size_t length);

    /* c = a * b for a of m x k and b of k x n, each stored transposed where the flag says so; overwrites c. */
    bool (*multiply)(bool a_transposed, bool b_transposed, int m, int n, int k, synced_mem *a, synced_mem *b,
                     synced_mem *c);

    /* Row r of out: for each character of window r its row of table, side by side; overwrites out. */
    bool (*embed)(const struct windows *windows, int width, synced_mem *table, synced_mem *out);
    /* The gradient of the table; overwrites it. */
    bool (*embed_backward)(const struct windows *windows, int width, int vocabulary, synced_mem *out_grad,
                           synced_mem *table_grad);

    /* Adds bias to each row; changes y. */
    bool (*add_bias)(int rows, int columns, synced_mem *bias, synced_mem *y);
    /* The sum of the rows; overwrites bias_grad. */
    bool (*bias_backward)(int rows, int columns, synced_mem *y_grad, synced_mem *bias_grad);

    /* y = tanh(y); changes y. */
    bool (*squash)(int count, synced_mem *y);
    /* From the gradient by tanh(x) to the gradient by x, where y is tanh(x); changes y_grad. */
    bool (*squash_backward)(int count, synced_mem *y, synced_mem *y_grad);

    /* The softmax of each row of scores and the loss at its target, in nats: overwrites row_loss (a float for each
     * row), adds their sum to total, which holds one double, and where grad is not NULL overwrites it with the gradient
     * of the mean loss by the scores. */
    bool (*softmax_loss)(const struct windows *windows, int vocabulary, synced_mem *scores, synced_mem *grad,
                         synced_mem *row_loss, synced_mem *total);

    /* Draws a character by the softmax of the first row of scores. The target of windows, of one row, holds a random
     * number of 31 bits; the character takes its place. Changes windows->characters. */
    bool (*draw)(const struct windows *windows, int vocabulary, synced_mem *scores);

    /* value -= rate * (grad + decay * value); changes value. */
    bool (*descend)(int count, float rate, float decay, synced_mem *grad, synced_mem *value);

    /* Gives back what opening took, also when it fails. */
    bool (*close)(void);
};

/* Whether this program was built with CBLAS. */
bool backend_cpu_built(void);
bool backend_open_cpu(struct backend *backend);

/* Whether this program was built with cuBLAS. */
bool backend_gpu_built(void);
/* How many GPUs can be computed on. */
int backend_gpu_count(void);
/* One at a time. The device becomes the calling thread's current one; the work goes to streams of the backend's own. */
bool backend_open_gpu(struct backend *backend, int device);

#ifdef __cplusplus
}
#endif

#endif
