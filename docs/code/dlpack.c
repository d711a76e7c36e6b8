/* Objects as DLPack's tensors, and DLPack's tensors as objects. */
#include "check.h"
#include "dlpack/dlpack.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <synced_mem/dlpack.h>

enum { ROWS = 100, COLUMNS = 20, SIZE = ROWS * COLUMNS * sizeof(float) };
static const int64_t shape[] = {ROWS, COLUMNS};

static synced_mem *make(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    return mem;
}

/* Another library. */
static float read_first(const DLManagedTensorVersioned *tensor)
{
    CHECK(tensor->dl_tensor.device.device_type == kDLCPU && tensor->dl_tensor.dtype.code == kDLFloat);
    CHECK(tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
    return *(const float *)tensor->dl_tensor.data;
}

static void give_out(void)
{
    synced_mem *const mem = make();
    ((float *)synced_mem_mutable_cpu_data(mem))[0] = 5;
    /* [out] */
    const synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                               .side = SYNCED_MEM_SIDE_CPU,
                                               .mode = SYNCED_MEM_READ,
                                               .type_code = kDLFloat,
                                               .type_bits = 32,
                                               .ndim = 2,
                                               .shape = shape};
    DLManagedTensorVersioned *tensor;
    CHECK(synced_mem_to_dlpack(&tensor, mem, &options) == SYNCED_MEM_OK);
    CHECK(tensor->dl_tensor.data == synced_mem_cpu_data(mem)); /* the access of the host: nothing is copied */
    CHECK(read_first(tensor) == 5);                            /* the other library uses the tensor */

    CHECK(synced_mem_resize(mem, 2 * SIZE) == SYNCED_MEM_ERR_INVALID_STATE); /* its memory stays */
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);                         /* the tensor keeps the object */
    tensor->deleter(tensor); /* the other library, at any time and in any thread: ends the object */
    /* [end] */
}

static void give_out_on_a_stream(void)
{
    synced_mem *const mem = make();
    cudaStream_t stream;
    DLManagedTensorVersioned *tensor;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    /* [stream] */
    const synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                               .side = SYNCED_MEM_SIDE_GPU,
                                               .mode = SYNCED_MEM_OVERWRITE,
                                               .type_code = kDLUInt,
                                               .type_bits = 8,
                                               .ndim = 1,
                                               .shape = (const int64_t[]){SIZE},
                                               .stream = stream}; /* the consumer's */
    CHECK(synced_mem_to_dlpack(&tensor, mem, &options) == SYNCED_MEM_OK);
    CHECK(cudaMemsetAsync(tensor->dl_tensor.data, 7, SIZE, stream) == cudaSuccess); /* the consumer's work */
    tensor->deleter(tensor);
    CHECK(((const char *)synced_mem_cpu_data(mem))[SIZE - 1] == 7); /* waits for that work, then transfers */
    /* [end] */
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

/* A tensor of another library, and all that it needs. */
struct made {
    DLManagedTensorVersioned managed;
    int64_t shape[2], strides[2];
    float values[ROWS * COLUMNS];
};

static void delete_made(DLManagedTensorVersioned *self)
{
    free(self->manager_ctx);
}

static DLManagedTensorVersioned *make_tensor(void)
{
    struct made *const made = calloc(1, sizeof *made);
    CHECK(made);
    made->shape[0] = ROWS;
    made->shape[1] = COLUMNS;
    made->strides[0] = COLUMNS;
    made->strides[1] = 1;
    made->managed = (DLManagedTensorVersioned){.version = {1, 1},
                                               .manager_ctx = made,
                                               .deleter = delete_made,
                                               .dl_tensor = {.data = made->values,
                                                             .device = {kDLCPU, 0},
                                                             .ndim = 2,
                                                             .dtype = {kDLFloat, 32, 1},
                                                             .shape = made->shape,
                                                             .strides = made->strides}};
    return &made->managed;
}

static void take_in(void)
{
    DLManagedTensorVersioned *const tensor = make_tensor();
    /* [in] */
    synced_mem *mem;
    const void *const data = tensor->dl_tensor.data; /* read what you need before the call */
    CHECK(synced_mem_from_dlpack(&mem, tensor, NULL, NULL) == SYNCED_MEM_OK);
    CHECK(synced_mem_size(mem) == SIZE && synced_mem_head(mem) == SYNCED_MEM_AT_CPU);
    CHECK(synced_mem_cpu_data(mem) == data);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK); /* calls the deleter when all work has finished */
    /* [end] */
}

static void take_in_what_is_refused(void)
{
    DLManagedTensorVersioned *const tensor = make_tensor();
    synced_mem *mem;
    /* [refused] */
    tensor->dl_tensor.strides[0] = 2 * COLUMNS; /* every second row of a larger tensor */
    CHECK(synced_mem_from_dlpack(&mem, tensor, NULL, NULL) == SYNCED_MEM_ERR_INVALID_ARGUMENT);
    tensor->deleter(tensor); /* the tensor is still the program's */
    /* [end] */
}

int main(void)
{
    give_out();
    take_in();
    take_in_what_is_refused();
    if (synced_mem_device_count() > 0)
        give_out_on_a_stream();
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
