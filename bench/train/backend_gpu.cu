/*
 * The arithmetic on the GPU: matrix products by cuBLAS, the rest in small kernels, all on the legacy default stream,
 * where the library's accessors follow the work. What is fetched ahead comes on a stream of its own.
 */
#include "backend.h"
#include "failure.h"
#include "kernels.cuh"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

static cublasHandle_t blas;
static cudaStream_t prefetch_stream;

/* ---- Operations ---- */

static const float *reads(synced_mem *object)
{
    return (const float *)synced_mem_gpu_data(object);
}

static float *changes(synced_mem *object)
{
    return (float *)synced_mem_mutable_gpu_data(object);
}

static float *overwrites(synced_mem *object)
{
    return (float *)synced_mem_overwrite_gpu_data(object);
}

/* The characters are only written by a draw, which asks for them with changed set. */
static struct window_pointers point(const struct windows *windows, bool changed)
{
    synced_mem *const object = windows->characters;
    struct window_pointers pointers;
    pointers.characters =
        (int32_t *)(changed ? synced_mem_mutable_gpu_data(object) : const_cast<void *>(synced_mem_gpu_data(object)));
    pointers.first = windows->first;
    pointers.stride = windows->stride;
    pointers.rows = windows->rows;
    pointers.context = windows->context;
    return pointers;
}

/* Enough blocks for one element a thread, up to a number that fills any GPU; the loops in the kernels do the rest. */
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

static bool gpu_prefetch(synced_mem *object)
{
    return synced_mem_async_gpu_push(object, prefetch_stream) == SYNCED_MEM_OK || fail_library("prefetch");
}

static bool gpu_zero(synced_mem *object, size_t length)
{
    float *const data = overwrites(object);
    if (!data)
        return fail_library("zero");
    const cudaError_t error = cudaMemsetAsync(data, 0, length, NULL);
    return error == cudaSuccess || fail("zero: %s", cudaGetErrorString(error));
}

/* cuBLAS reads columns where there are rows here, so it sees every matrix transposed: c' = b' * a'. */
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
    embed_kernel<<<blocks((size_t)in.rows * in.context * width), THREADS>>>(in, width, from, to);
    return launched("embed");
}

static bool gpu_embed_backward(const struct windows *windows, int width, int vocabulary, synced_mem *out_grad,
                               synced_mem *table_grad)
{
    const struct window_pointers in = point(windows, false);
    const float *const from = reads(out_grad);
    float *const to = overwrites(table_grad);
    if (!in.characters || !from || !to)
        return fail_library("embed backward");
    embed_backward_kernel<<<vocabulary, dim3(WARP, SLICES)>>>(in, width, from, to);
    return launched("embed backward");
}

static bool gpu_add_bias(int rows, int columns, synced_mem *bias, synced_mem *y)
{
    const size_t count = (size_t)rows * columns;
    const float *const from = reads(bias);
    float *const to = changes(y);
    if (!from || !to)
        return fail_library("add bias");
    add_bias_kernel<<<blocks(count), THREADS>>>(count, columns, from, to);
    return launched("add bias");
}

static bool gpu_bias_backward(int rows, int columns, synced_mem *y_grad, synced_mem *bias_grad)
{
    const float *const from = reads(y_grad);
    float *const to = overwrites(bias_grad);
    if (!from || !to)
        return fail_library("bias backward");
    bias_backward_kernel<<<(columns + WARP - 1) / WARP, dim3(WARP, SLICES)>>>(rows, columns, from, to);
    return launched("bias backward");
}

static bool gpu_squash(int count, synced_mem *y)
{
    float *const data = changes(y);
    if (!data)
        return fail_library("tanh");
    squash_kernel<<<blocks(count), THREADS>>>(count, data);
    return launched("tanh");
}

static bool gpu_squash_backward(int count, synced_mem *y, synced_mem *y_grad)
{
    const float *const from = reads(y);
    float *const to = changes(y_grad);
    if (!from || !to)
        return fail_library("tanh backward");
    squash_backward_kernel<<<blocks(count), THREADS>>>(count, from, to);
    return launched("tanh backward");
}

static bool gpu_softmax_loss(const struct windows *windows, int vocabulary, synced_mem *scores, synced_mem *grad,
                             synced_mem *row_loss, synced_mem *total)
{
    const struct window_pointers in = point(windows, false);
    const float *const from = reads(scores);
    float *const to = grad ? overwrites(grad) : NULL;
    float *const losses = overwrites(row_loss);
    double *const sum = (double *)synced_mem_mutable_gpu_data(total);
    if (!in.characters || !from || (grad && !to) || !losses || !sum)
        return fail_library("softmax");
    softmax_kernel<<<in.rows, WARP>>>(in, vocabulary, from, to, losses);
    add_losses_kernel<<<1, LOSS_THREADS>>>(in.rows, losses, sum);
    return launched("softmax");
}

static bool gpu_draw(const struct windows *windows, int vocabulary, synced_mem *scores)
{
    const struct window_pointers in = point(windows, true);
    const float *const from = reads(scores);
    if (!in.characters || !from)
        return fail_library("draw");
    draw_kernel<<<1, 1>>>(in, vocabulary, from);
    return launched("draw");
}

static bool gpu_descend(int count, float rate, float decay, synced_mem *grad, synced_mem *value)
{
    const float *const from = reads(grad);
    float *const to = changes(value);
    if (!from || !to)
        return fail_library("descend");
    descend_kernel<<<blocks(count), THREADS>>>(count, rate, decay, from, to);
    return launched("descend");
}

/* ---- Opening and closing ---- */

static void gpu_close(void)
{
    if (blas)
        cublasDestroy(blas);
    if (prefetch_stream)
        cudaStreamDestroy(prefetch_stream);
    blas = NULL;
    prefetch_stream = NULL;
}

/* Pedantic: float all the way, no tensor cores with fewer bits, so that CPU and GPU agree. */
static bool start_blas(void)
{
    cublasStatus_t status = cublasCreate(&blas);
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
        error = cudaStreamCreateWithFlags(&prefetch_stream, cudaStreamNonBlocking);
    return error == cudaSuccess || fail("device %d does not start: %s", device, cudaGetErrorString(error));
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
    if (!start_device(device, &properties) || !start_blas()) {
        gpu_close();
        return false;
    }
    memset(backend, 0, sizeof *backend);
    snprintf(backend->name, sizeof backend->name, "%s (GPU %d)", properties.name, device);
    backend->device = device;
    backend->on_gpu = true;
    backend->prefetch = gpu_prefetch;
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
