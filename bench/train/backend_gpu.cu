/*
 * The arithmetic on the GPU: matrix products by cuBLAS, the rest in small kernels. All of it and every access is on one
 * stream; prefetches are on another. Both are non-blocking, and the legacy default stream is not used.
 */
#include "backend.h"
#include "failure.h"
#include "kernels.cuh"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

static cublasHandle_t blas;
static cudaStream_t compute_stream;
static cudaStream_t prefetch_stream;
static cudaEvent_t marks[BACKEND_MARKS];

/* The partial sums of kernels that add up many rows. */
static synced_mem *partial_sums;

/* ---- Pointers ---- */

static const float *reads(synced_mem *object)
{
    return (const float *)synced_mem_gpu_data_on(object, compute_stream);
}

static float *changes(synced_mem *object)
{
    return (float *)synced_mem_mutable_gpu_data_on(object, compute_stream);
}

static float *overwrites(synced_mem *object)
{
    return (float *)synced_mem_overwrite_gpu_data_on(object, compute_stream);
}

/* changed: for a draw, which alone writes the characters. */
static struct window_pointers point(const struct windows *windows, bool changed)
{
    synced_mem *const object = windows->characters;
    struct window_pointers pointers;
    pointers.characters = (int32_t *)(changed ? synced_mem_mutable_gpu_data_on(object, compute_stream)
                                              : const_cast<void *>(synced_mem_gpu_data_on(object, compute_stream)));
    pointers.first = windows->first;
    pointers.stride = windows->stride;
    pointers.rows = windows->rows;
    pointers.mean_rows = windows->mean_rows;
    pointers.context = windows->context;
    return pointers;
}

/* Returns the number of parts of a sum over count, of about length each. A part has size floats of results. The number
 * depends only on the shape, so that the order of the sum is fixed too. */
static int parts(size_t count, size_t length, size_t size)
{
    const size_t most_floats = (size_t)1 << 24, most = 512;
    size_t wanted = count / length;
    if (wanted > most)
        wanted = most;
    if (wanted > most_floats / size)
        wanted = most_floats / size;
    return wanted > 1 ? (int)wanted : 1;
}

static float *room_for_parts(size_t floats)
{
    const size_t bytes = floats * sizeof(float);
    if (synced_mem_size(partial_sums) < bytes && synced_mem_resize_discard(partial_sums, bytes) != SYNCED_MEM_OK)
        return NULL;
    return overwrites(partial_sums);
}

/* Returns enough blocks for one element a thread, up to a number that fills any GPU. The kernels loop over the rest. */
static int blocks(size_t count)
{
    const size_t wanted = (count + THREADS - 1) / THREADS;
    return wanted < 4096 ? (int)wanted : 4096;
}

static bool launched(const char *what)
{
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess || fail("%s: the kernel could not be started: %s", what, cudaGetErrorString(error));
}

/* Adds up the parts, each with the sums of count results, that the previous kernel has written. A single part is the
 * result already. */
static bool add_parts(const char *what, int count, int parts, const float *from, float *to)
{
    if (parts > 1)
        add_parts_kernel<<<blocks((size_t)count * WARP), THREADS, 0, compute_stream>>>(count, parts, from, to);
    return launched(what);
}

/* ---- Transfers and streams ---- */

static bool gpu_prefetch(synced_mem *object)
{
    return synced_mem_async_gpu_push(object, prefetch_stream) == SYNCED_MEM_OK || fail_library("prefetch");
}

/* Uses the stream that writes the object. On the other stream, later prefetches would wait for the arithmetic. */
static bool gpu_fetch(synced_mem *object)
{
    return synced_mem_async_cpu_pull(object, compute_stream) == SYNCED_MEM_OK || fail_library("fetch");
}

static bool gpu_done(synced_mem *object)
{
    return synced_mem_end_use_on(object, compute_stream) == SYNCED_MEM_OK || fail_library("end of use");
}

static bool gpu_finish(void)
{
    cudaError_t error = cudaStreamSynchronize(prefetch_stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(compute_stream);
    return error == cudaSuccess || fail("the work on the device failed: %s", cudaGetErrorString(error));
}

static bool gpu_mark(enum backend_stream which, int number, int after)
{
    const cudaStream_t stream = which == BACKEND_COMPUTE ? compute_stream : prefetch_stream;
    cudaError_t error = cudaSuccess;
    if (!marks[number])
        error = cudaEventCreate(&marks[number]);
    if (error == cudaSuccess && after >= 0)
        error = cudaStreamWaitEvent(stream, marks[after], 0);
    if (error == cudaSuccess)
        error = cudaEventRecord(marks[number], stream);
    return error == cudaSuccess || fail("mark %d: %s", number, cudaGetErrorString(error));
}

static bool gpu_between(int from, int to, double *microseconds)
{
    float milliseconds = 0.0f;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, marks[from], marks[to]);
    *microseconds = 1e3 * (double)milliseconds;
    return error == cudaSuccess || fail("from mark %d to mark %d: %s", from, to, cudaGetErrorString(error));
}

/* ---- Operations ---- */

static bool gpu_zero(synced_mem *object, size_t length)
{
    float *const data = overwrites(object);
    if (!data)
        return fail_library("zero");
    const cudaError_t error = cudaMemsetAsync(data, 0, length, compute_stream);
    return error == cudaSuccess || fail("zero: %s", cudaGetErrorString(error));
}

/* cuBLAS uses column-major order, so it sees every matrix transposed: c' = b' * a'. */
static bool gpu_multiply(bool a_transposed, bool b_transposed, int m, int n, int k, synced_mem *a, synced_mem *b,
                         synced_mem *c)
{
    const float *const from_a = reads(a);
    const float *const from_b = reads(b);
    float *const to = overwrites(c);
    if (!from_a || !from_b || !to)
        return fail_library("multiply");
    const float one = 1.0f, none = 0.0f;
    const cublasStatus_t status =
        cublasSgemm(blas, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k,
                    &one, from_b, b_transposed ? k : n, from_a, a_transposed ? m : k, &none, to, n);
    return status == CUBLAS_STATUS_SUCCESS || fail("multiply: %s", cublasGetStatusString(status));
}

static bool gpu_embed(const struct windows *windows, int width, synced_mem *table, synced_mem *out)
{
    const struct window_pointers in = point(windows, false);
    const float *const from = reads(table);
    float *const to = overwrites(out);
    if (!in.characters || !from || !to)
        return fail_library("embed");
    embed_kernel<<<blocks((size_t)in.rows * in.context * width), THREADS, 0, compute_stream>>>(in, width, from, to);
    return launched("embed");
}

static bool gpu_embed_backward(const struct windows *windows, int width, int vocabulary, synced_mem *out_grad,
                               synced_mem *table_grad)
{
    const struct window_pointers in = point(windows, false);
    const int size = vocabulary * width;
    const int cut = parts((size_t)in.rows * in.context, EMBED_PART, size);
    const float *const from = reads(out_grad);
    float *const to = overwrites(table_grad);
    float *const sums = cut > 1 ? room_for_parts((size_t)cut * size) : to;
    if (!in.characters || !from || !to || !sums)
        return fail_library("embed backward");
    embed_backward_kernel<<<dim3(vocabulary, cut), dim3(WARP, SLICES), 0, compute_stream>>>(in, width, from, sums);
    return add_parts("embed backward", size, cut, sums, to);
}

static bool gpu_add_bias(int rows, int columns, synced_mem *bias, synced_mem *y)
{
    const size_t count = (size_t)rows * columns;
    const float *const from = reads(bias);
    float *const to = changes(y);
    if (!from || !to)
        return fail_library("add bias");
    add_bias_kernel<<<blocks(count), THREADS, 0, compute_stream>>>(count, columns, from, to);
    return launched("add bias");
}

static bool gpu_bias_backward(int rows, int columns, synced_mem *y_grad, synced_mem *bias_grad)
{
    const int cut = parts(rows, BIAS_PART, columns);
    const dim3 grid((columns + WARP - 1) / WARP, cut);
    const float *const from = reads(y_grad);
    float *const to = overwrites(bias_grad);
    float *const sums = cut > 1 ? room_for_parts((size_t)cut * columns) : to;
    if (!from || !to || !sums)
        return fail_library("bias backward");
    bias_backward_kernel<<<grid, dim3(WARP, SLICES), 0, compute_stream>>>(rows, columns, from, sums);
    return add_parts("bias backward", columns, cut, sums, to);
}

static bool gpu_squash(int count, synced_mem *y)
{
    float *const data = changes(y);
    if (!data)
        return fail_library("tanh");
    squash_kernel<<<blocks(count), THREADS, 0, compute_stream>>>(count, data);
    return launched("tanh");
}

static bool gpu_squash_backward(int count, synced_mem *y, synced_mem *y_grad)
{
    const float *const from = reads(y);
    float *const to = changes(y_grad);
    if (!from || !to)
        return fail_library("tanh backward");
    squash_backward_kernel<<<blocks(count), THREADS, 0, compute_stream>>>(count, from, to);
    return launched("tanh backward");
}

static bool gpu_softmax_loss(const struct windows *windows, int vocabulary, synced_mem *scores, synced_mem *grad,
                             synced_mem *row_loss, synced_mem *total)
{
    const struct window_pointers in = point(windows, false);
    const float *const from = reads(scores);
    float *const to = grad ? overwrites(grad) : NULL;
    float *const losses = overwrites(row_loss);
    double *const sum = (double *)synced_mem_mutable_gpu_data_on(total, compute_stream);
    if (!in.characters || !from || (grad && !to) || !losses || !sum)
        return fail_library("softmax");
    softmax_kernel<<<in.rows, WARP, 0, compute_stream>>>(in, vocabulary, from, to, losses);
    add_losses_kernel<<<1, LOSS_THREADS, 0, compute_stream>>>(in.rows, losses, sum);
    return launched("softmax");
}

static bool gpu_draw(const struct windows *windows, int vocabulary, synced_mem *scores)
{
    const struct window_pointers in = point(windows, true);
    const float *const from = reads(scores);
    if (!in.characters || !from)
        return fail_library("draw");
    draw_kernel<<<1, 1, 0, compute_stream>>>(in, vocabulary, from);
    return launched("draw");
}

static bool gpu_descend(int count, float rate, float decay, synced_mem *grad, synced_mem *value)
{
    const float *const from = reads(grad);
    float *const to = changes(value);
    if (!from || !to)
        return fail_library("descend");
    descend_kernel<<<blocks(count), THREADS, 0, compute_stream>>>(count, rate, decay, from, to);
    return launched("descend");
}

/* ---- Opening and closing ---- */

/* The library must be told to forget a stream before the stream is destroyed. */
static bool close_stream(cudaStream_t *stream)
{
    bool closed = true;
    if (*stream) {
        closed = synced_mem_forget_stream(*stream) == SYNCED_MEM_OK || fail_library("forget stream");
        const cudaError_t error = cudaStreamDestroy(*stream);
        if (error != cudaSuccess)
            closed = fail("a stream can't be destroyed: %s", cudaGetErrorString(error));
    }
    *stream = NULL;
    return closed;
}

static bool gpu_close(void)
{
    synced_mem_release(partial_sums);
    partial_sums = NULL;
    for (int i = 0; i < BACKEND_MARKS; ++i) {
        if (marks[i])
            cudaEventDestroy(marks[i]);
        marks[i] = NULL;
    }
    if (blas)
        cublasDestroy(blas);
    blas = NULL;
    const bool closed = close_stream(&compute_stream);
    return close_stream(&prefetch_stream) && closed;
}

/* Pedantic math mode: float throughout, no tensor cores with fewer bits, so that CPU and GPU agree. */
static bool start_blas(void)
{
    cublasStatus_t status = cublasCreate(&blas);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetStream(blas, compute_stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetAtomicsMode(blas, CUBLAS_ATOMICS_NOT_ALLOWED);
    return status == CUBLAS_STATUS_SUCCESS || fail("cuBLAS does not start: %s", cublasGetStatusString(status));
}

static bool start_device(int device, struct cudaDeviceProp *properties)
{
    cudaError_t error = cudaSetDevice(device);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(properties, device);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&compute_stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&prefetch_stream, cudaStreamNonBlocking);
    return error == cudaSuccess || fail("device %d does not start: %s", device, cudaGetErrorString(error));
}

static bool make_partial_sums(int device)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = device;
    options.name = "partial sums";
    return synced_mem_create(&partial_sums, 0, &options) == SYNCED_MEM_OK || fail_library("partial sums");
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
    struct cudaDeviceProp properties;
    if (!start_device(device, &properties) || !start_blas() || !make_partial_sums(device)) {
        gpu_close();
        return false;
    }
    memset(backend, 0, sizeof *backend);
    snprintf(backend->name, sizeof backend->name, "%s (GPU %d)", properties.name, device);
    backend->device = device;
    backend->on_gpu = true;
    backend->stream = compute_stream;
    backend->prefetch = gpu_prefetch;
    backend->fetch = gpu_fetch;
    backend->done = gpu_done;
    backend->finish = gpu_finish;
    backend->mark = gpu_mark;
    backend->between = gpu_between;
    backend->zero = gpu_zero;
    backend->multiply = gpu_multiply;
    backend->embed = gpu_embed;
    backend->embed_backward = gpu_embed_backward;
    backend->add_bias = gpu_add_bias;
    backend->bias_backward = gpu_bias_backward;
    backend->squash = gpu_squash;
    backend->squash_backward = gpu_squash_backward;
    backend->softmax_loss = gpu_softmax_loss;
    backend->draw = gpu_draw;
    backend->descend = gpu_descend;
    backend->close = gpu_close;
    return true;
}
