/*
 * The arithmetic of the layers, once for the CPU and once for the GPU. A backend gets objects, accesses each on the
 * side where it computes, in the mode that fits, and computes in float.
 *
 * Every operation:
 * - It returns false if it failed; fail() keeps the reason.
 * - Matrices are dense, in row-major order. An object may be larger than the sizes say; the rest is not used.
 * - The order of every sum is fixed: the same input gives the same bits on the same machine.
 * - "overwrites": the operation sets every element of the result. "changes": the result depends on the old contents.
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
    int mean_rows; /* the mean loss, whose gradient is computed, is over these rows: those of all ranks */
    int context;
};

/* The streams of a GPU backend, which run side by side. */
enum backend_stream {
    BACKEND_COMPUTE, /* the arithmetic */
    BACKEND_PREFETCH /* prefetched objects */
};

enum { BACKEND_MARKS = 256 };

struct backend {
    char name[320]; /* of the computing machine, for the report */
    int device;     /* for the objects: a CUDA device number, or SYNCED_MEM_DEVICE_CURRENT for the CPU */
    bool on_gpu;
    synced_mem_stream stream; /* of the arithmetic, if on_gpu */

    /* Starts to transfer an object, written on the host some time before, to the side that will read it. */
    bool (*prefetch)(synced_mem *object);

    /* Starts to transfer an object that operations have written to the host, which will read it later. */
    bool (*fetch)(synced_mem *object);

    /* Ends the use of the object's contents by the operations so far. A call that replaces the contents, such as a
     * prefetch, waits for these operations and for none that is queued later. */
    bool (*done)(synced_mem *object);

    /* Blocks until all queued work is done. */
    bool (*finish)(void);

    /* Sets mark number, which is below BACKEND_MARKS. It is the time when all work queued on the stream so far is done
     * and the mark after, unless negative, has passed. Fails on a backend without streams. */
    bool (*mark)(enum backend_stream which, int number, int after);
    /* Stores the time from one mark to a later one, in microseconds. Call it after finish(). */
    bool (*between)(int from, int to, double *microseconds);

    /* Sets length bytes to zero; overwrites. */
    bool (*zero)(synced_mem *object, size_t length);

    /* c = a * b for a of m x k and b of k x n, each stored transposed if its flag is set; overwrites c. */
    bool (*multiply)(bool a_transposed, bool b_transposed, int m, int n, int k, synced_mem *a, synced_mem *b,
                     synced_mem *c);

    /* Sets row r of out to the rows of table for the characters of window r, side by side; overwrites out. */
    bool (*embed)(const struct windows *windows, int width, synced_mem *table, synced_mem *out);
    /* Computes the gradient of the table; overwrites it. */
    bool (*embed_backward)(const struct windows *windows, int width, int vocabulary, synced_mem *out_grad,
                           synced_mem *table_grad);

    /* Adds bias to each row; changes y. */
    bool (*add_bias)(int rows, int columns, synced_mem *bias, synced_mem *y);
    /* Computes the sum of the rows; overwrites bias_grad. */
    bool (*bias_backward)(int rows, int columns, synced_mem *y_grad, synced_mem *bias_grad);

    /* y = tanh(y); changes y. */
    bool (*squash)(int count, synced_mem *y);
    /* Turns the gradient by y = tanh(x) into the gradient by x; changes y_grad. */
    bool (*squash_backward)(int count, synced_mem *y, synced_mem *y_grad);

    /* Computes the softmax of each row of scores and the loss at its target, in nats. Overwrites row_loss, a float for
     * each row, and adds their sum to total, which holds one double. If grad is not NULL, overwrites it with the
     * gradient of the mean loss by the scores. The mean is over windows->mean_rows. */
    bool (*softmax_loss)(const struct windows *windows, int vocabulary, synced_mem *scores, synced_mem *grad,
                         synced_mem *row_loss, synced_mem *total);

    /* Draws a character by the softmax of the first row of scores. The target of windows, which has one row, holds a
     * random number of 31 bits; the character replaces the number. Changes windows->characters. */
    bool (*draw)(const struct windows *windows, int vocabulary, synced_mem *scores);

    /* value -= rate * (grad + decay * value); changes value. */
    bool (*descend)(int count, float rate, float decay, synced_mem *grad, synced_mem *value);

    /* Frees the resources of the backend, also if it fails. */
    bool (*close)(void);
};

/* Returns whether this program was built with CBLAS. */
bool backend_cpu_built(void);
/* processes: of this program on the machine, which share its cores. */
bool backend_open_cpu(struct backend *backend, int processes);

/* Returns whether this program was built with cuBLAS. */
bool backend_gpu_built(void);
/* Returns the number of usable GPUs. */
int backend_gpu_count(void);
/* Opens a GPU, one at a time. Makes the device current in the calling thread. The work goes to streams of its own. */
bool backend_open_gpu(struct backend *backend, int device);

#ifdef __cplusplus
}
#endif

#endif
