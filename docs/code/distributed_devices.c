/* One process that trains on several GPUs, by copies between objects. */
#include "check.h"

#include <cuda_runtime_api.h>

enum { DEVICES = 2, SIZE = 1 << 12, STEPS = 3 };

struct device {
    cudaStream_t stream;
    synced_mem *parameters;
    synced_mem *grads;
    synced_mem *arrived; /* on device 0: the gradients of this device */
};

static synced_mem *make(int device)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = device;
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, &options) == SYNCED_MEM_OK);
    return mem;
}

static void make_device(struct device *device, int number)
{
    CHECK(cudaSetDevice(number) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking) == cudaSuccess);
    device->parameters = make(number);
    device->grads = make(number);
    device->arrived = make(0);
}

static void free_device(struct device *device)
{
    CHECK(synced_mem_release(device->parameters) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(device->grads) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(device->arrived) == SYNCED_MEM_OK);
    CHECK(synced_mem_forget_stream(device->stream) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(device->stream) == cudaSuccess);
}

/* Stands for the kernels of the forward and the backward pass. */
static void compute_gradients(struct device *device, int number)
{
    CHECK(cudaSetDevice(number) == cudaSuccess);
    const void *const parameters = synced_mem_gpu_data_on(device->parameters, device->stream);
    void *const grads = synced_mem_overwrite_gpu_data_on(device->grads, device->stream);
    CHECK(parameters && grads);
    CHECK(cudaMemcpyAsync(grads, parameters, SIZE, cudaMemcpyDeviceToDevice, device->stream) == cudaSuccess);
}

/* Stands for the kernel that adds the gradients of a device to the parameters. */
static void add(const struct device *first, synced_mem *grads)
{
    const void *const from = synced_mem_gpu_data_on(grads, first->stream);
    void *const to = synced_mem_mutable_gpu_data_on(first->parameters, first->stream);
    CHECK(from && to && cudaMemcpyAsync(to, from, SIZE, cudaMemcpyDeviceToDevice, first->stream) == cudaSuccess);
}

static void take_step(struct device devices[DEVICES])
{
    for (int i = 0; i < DEVICES; i++)
        compute_gradients(&devices[i], i);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    /* [gather] */
    for (int i = 1; i < DEVICES; i++) /* each copy comes after the kernels of its device */
        CHECK(synced_mem_async_gpu_copy(devices[i].arrived, devices[i].grads, devices[0].stream) == SYNCED_MEM_OK);
    add(&devices[0], devices[0].grads); /* the kernels that add, on the stream of device 0 */
    for (int i = 1; i < DEVICES; i++)
        add(&devices[0], devices[i].arrived);
    /* [end] */
    /* [spread] */
    for (int i = 1; i < DEVICES; i++) /* the next step of device i comes after its copy, and waits for no other */
        CHECK(synced_mem_async_gpu_copy(devices[i].parameters, devices[0].parameters, devices[i].stream) ==
              SYNCED_MEM_OK);
    /* [end] */
}

int main(void)
{
    static struct device devices[DEVICES];
    if (synced_mem_device_count() < DEVICES)
        return SKIPPED;
    for (int i = 0; i < DEVICES; i++)
        make_device(&devices[i], i);
    float *const parameters = synced_mem_overwrite_cpu_data(devices[0].parameters);
    CHECK(parameters);
    for (size_t i = 0; i < SIZE / sizeof(float); i++)
        parameters[i] = 1.0F;
    CHECK(synced_mem_async_gpu_copy(devices[1].parameters, devices[0].parameters, devices[1].stream) == SYNCED_MEM_OK);
    for (int step = 0; step < STEPS; step++)
        take_step(devices);
    const float *const learned = synced_mem_cpu_data(devices[1].parameters);
    CHECK(learned && learned[0] == 1.0F && learned[SIZE / sizeof(float) - 1] == 1.0F);
    for (int i = 0; i < DEVICES; i++)
        free_device(&devices[i]);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
