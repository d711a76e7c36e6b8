/* A test of a framework's GPU path, on a machine without a GPU. */
#include "check.h"

#include <cudart_emu.h>
#include <string.h>

enum { SIZE = 1 << 12, SEEDS = 20 };

/* [kernel] */
/* In the product a .cu file has the kernel and the function that launches it. This code replaces both in the test. */
struct add {
    unsigned char *data;
    unsigned char value;
};

static void add_kernel(void *argument)
{
    struct add *const add = argument;
    unsigned char *const data = emu_pointer(add->data); /* the address at which the host can touch the bytes */
    for (int i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(data[i] + add->value);
    free(add);
}

static cudaError_t launch_add(unsigned char *data, unsigned char value, cudaStream_t stream)
{
    struct add *const add = malloc(sizeof *add); /* must stay valid until the kernel runs */
    CHECK(add);
    *add = (struct add){data, value};
    const struct emu_range range = {.data = data, .size = EMU_WHOLE, .write = true}; /* data's whole allocation */
    return emu_launch(stream, add_kernel, add, &range, 1);
}
/* [end] */

/* [test] */
static void test_layer(void)
{
    synced_mem *mem;
    cudaStream_t stream;
    CHECK(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);

    memset(synced_mem_overwrite_cpu_data(mem), 1, SIZE);
    CHECK(launch_add(synced_mem_mutable_gpu_data_on(mem, stream), 2, stream) == cudaSuccess);
    CHECK(((const unsigned char *)synced_mem_cpu_data(mem))[SIZE - 1] == 3);

    CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
}
/* [end] */

/* [fail] */
static void test_no_memory(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    memset(synced_mem_overwrite_cpu_data(mem), 1, SIZE);

    emu_set_device_memory(0, 0);
    CHECK(!synced_mem_gpu_data(mem));
    CHECK(synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
    CHECK(synced_mem_head(mem) == SYNCED_MEM_AT_CPU); /* unchanged */

    emu_set_device_memory(0, 1 << 30);
    CHECK(synced_mem_gpu_data(mem));
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
}
/* [end] */

int main(void)
{
    /* [seeds] */
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        emu_reset(seed); /* a new machine; the seed decides when queued work runs */
        test_layer();
        test_no_memory();
        for (enum emu_kind kind = 0; kind < EMU_KINDS; kind++)
            CHECK(emu_live(kind) == 0); /* no memory, stream or event is left */
    }
    /* [end] */
    return 0;
}
