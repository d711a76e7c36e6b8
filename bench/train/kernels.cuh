/*
 * The kernels of the GPU backend, one for each operation of backend.h. Only backend_gpu.cu includes this file.
 *
 * No kernel adds with atomic operations, whose order changes from run to run.
 */
#ifndef TRAIN_KERNELS_CUH
#define TRAIN_KERNELS_CUH

#include <stddef.h>
#include <stdint.h>

#define WARP 32
#define EVERY_LANE 0xffffffffu

enum { THREADS = 256, LOSS_THREADS = 256, SLICES = 8 };

/* Sums over more characters or rows than this are cut into parts of about this length. */
enum { EMBED_PART = 8192, BIAS_PART = 256 };

/* As struct windows, with the object's pointer instead of the object. */
struct window_pointers {
    int32_t *characters;
    int first, stride, rows, mean_rows, context;
};

static __device__ const int32_t *window(struct window_pointers windows, int row)
{
    return windows.characters + windows.first + (size_t)row * windows.stride;
}

static __device__ float sum_of_lanes(float value)
{
    for (int other = WARP / 2; other > 0; other /= 2)
        value += __shfl_xor_sync(EVERY_LANE, value, other);
    return value;
}

static __device__ float largest_of_lanes(float value)
{
    for (int other = WARP / 2; other > 0; other /= 2)
        value = fmaxf(value, __shfl_xor_sync(EVERY_LANE, value, other));
    return value;
}

/* Loops over elements use unsigned indices: an index of INT_MAX elements plus a step overflows an int, and division of
 * 64 bits is slow. */
static __device__ unsigned first_element(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ unsigned element_step(void)
{
    return gridDim.x * blockDim.x;
}

static __global__ void embed_kernel(struct window_pointers windows, int width, const float *table, float *out)
{
    const unsigned columns = windows.context * width, count = windows.rows * columns;
    for (unsigned i = first_element(); i < count; i += element_step()) {
        const int row = (int)(i / columns), column = (int)(i % columns);
        const int character = window(windows, row)[column / width];
        out[i] = table[(size_t)character * width + column % width];
    }
}

/*
 * One block for each pair of a row of the table and a part of all windows' characters. A block has a warp for each
 * slice of the part, and a warp a thread for each number of the row. A warp reads 32 characters at once and adds, in
 * order, the gradients of its row. The slices are then added in order.
 */
static __global__ void embed_backward_kernel(struct window_pointers windows, int width, const float *out_grad,
                                             float *table_grads)
{
    __shared__ float partial[SLICES][WARP];
    const int lane = threadIdx.x, slice = threadIdx.y, character = blockIdx.x;
    const unsigned context = windows.context, count = windows.rows * context;
    const unsigned length = (count + SLICES * gridDim.y - 1) / (SLICES * gridDim.y);
    const unsigned begin = (blockIdx.y * SLICES + slice) * length;
    const unsigned end = begin + length < count ? begin + length : count;
    float *const table_grad = table_grads + (size_t)blockIdx.y * gridDim.x * width;

    for (int base = 0; base < width; base += WARP) {
        const bool active = base + lane < width;
        float sum = 0.0f;
        unsigned row = (begin + lane) / context, column = (begin + lane) % context;
        for (unsigned at = begin; at < end; at += WARP) {
            unsigned matches =
                __ballot_sync(EVERY_LANE, at + lane < end && window(windows, (int)row)[column] == character);
            while (matches) {
                const size_t match = at + __ffs((int)matches) - 1;
                matches &= matches - 1;
                if (active)
                    sum += out_grad[match * width + base + lane];
            }
            /* A division here would cost more than the rest of the loop. */
            row += WARP / context;
            column += WARP % context;
            if (column >= context) {
                column -= context;
                ++row;
            }
        }
        partial[slice][lane] = sum;
        __syncthreads();
        if (slice == 0 && active) {
            float total = 0.0f;
            for (int i = 0; i < SLICES; ++i)
                total += partial[i][lane];
            table_grad[(size_t)character * width + base + lane] = total;
        }
        __syncthreads();
    }
}

static __global__ void add_bias_kernel(unsigned count, int columns, const float *bias, float *y)
{
    for (unsigned i = first_element(); i < count; i += element_step())
        y[i] += bias[i % columns];
}

/* A block has as many columns as a warp has threads. Each of the blocks of a column has a part of the rows, and each of
 * its slices sums every SLICES-th row of the part. */
static __global__ void bias_backward_kernel(int rows, int columns, const float *y_grad, float *bias_grads)
{
    __shared__ float partial[SLICES][WARP];
    const int column = blockIdx.x * WARP + threadIdx.x;
    const int length = (rows + gridDim.y - 1) / gridDim.y;
    const int begin = blockIdx.y * length;
    const int end = begin + length < rows ? begin + length : rows;
    float sum = 0.0f;
    if (column < columns) {
        for (int row = begin + threadIdx.y; row < end; row += SLICES)
            sum += y_grad[(size_t)row * columns + column];
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        float total = 0.0f;
        for (int i = 0; i < SLICES; ++i)
            total += partial[i][threadIdx.x];
        bias_grads[(size_t)blockIdx.y * columns + column] = total;
    }
}

/* Adds up the parts, which are stored one after the other. A warp computes each result. */
static __global__ void add_parts_kernel(unsigned count, int parts, const float *from, float *to)
{
    const int lane = threadIdx.x % WARP;
    for (unsigned i = first_element() / WARP; i < count; i += element_step() / WARP) {
        float sum = 0.0f;
        for (int part = lane; part < parts; part += WARP)
            sum += from[(size_t)part * count + i];
        sum = sum_of_lanes(sum);
        if (lane == 0)
            to[i] = sum;
    }
}

static __global__ void squash_kernel(unsigned count, float *y)
{
    for (unsigned i = first_element(); i < count; i += element_step())
        y[i] = tanhf(y[i]);
}

static __global__ void squash_backward_kernel(unsigned count, const float *y, float *y_grad)
{
    for (unsigned i = first_element(); i < count; i += element_step())
        y_grad[i] *= 1.0f - y[i] * y[i];
}

/* A warp for each row. Subtracts the largest score first, so that no exponential overflows. */
static __global__ void softmax_kernel(struct window_pointers windows, int vocabulary, const float *scores, float *grad,
                                      float *row_loss)
{
    const int row = blockIdx.x, lane = threadIdx.x;
    const int target = window(windows, row)[windows.context];
    const float *const from = scores + (size_t)row * vocabulary;

    float most = from[0];
    for (int i = lane; i < vocabulary; i += WARP)
        most = fmaxf(most, from[i]);
    most = largest_of_lanes(most);

    float sum = 0.0f;
    for (int i = lane; i < vocabulary; i += WARP)
        sum += expf(from[i] - most);
    sum = sum_of_lanes(sum);

    if (lane == 0)
        row_loss[row] = logf(sum) + most - from[target];
    if (grad) {
        const float scale = 1.0f / (float)windows.mean_rows;
        for (int i = lane; i < vocabulary; i += WARP) {
            const float share = expf(from[i] - most) / sum;
            grad[(size_t)row * vocabulary + i] = (i == target ? share - 1.0f : share) * scale;
        }
    }
}

static __global__ void add_losses_kernel(int rows, const float *row_loss, double *total)
{
    __shared__ double partial[LOSS_THREADS];
    double sum = 0.0;
    for (int row = threadIdx.x; row < rows; row += LOSS_THREADS)
        sum += row_loss[row];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = LOSS_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *total += partial[0];
}

/* One thread: there are only as many scores as characters, and one draw. */
static __global__ void draw_kernel(struct window_pointers windows, int vocabulary, const float *scores)
{
    int32_t *const place = windows.characters + windows.first + windows.context;
    float most = scores[0];
    for (int i = 1; i < vocabulary; ++i)
        most = fmaxf(most, scores[i]);
    float sum = 0.0f;
    for (int i = 0; i < vocabulary; ++i)
        sum += expf(scores[i] - most);
    float left = (float)*place / 2147483648.0f * sum;
    int drawn = 0;
    while (drawn < vocabulary - 1 && (left -= expf(scores[drawn] - most)) >= 0.0f)
        ++drawn;
    *place = drawn;
}

static __global__ void descend_kernel(unsigned count, float rate, float decay, const float *grad, float *value)
{
    for (unsigned i = first_element(); i < count; i += element_step())
        value[i] -= rate * (grad[i] + decay * value[i]);
}

#endif
