/* DLPack's tensors: accesses by them, and objects of them. */
#include "world.h"

#include "dlpack_structs.h"
#include "synced_mem/dlpack.h"

#include <stdlib.h>
#include <string.h>

/* ---- Out ---- */

/* A call that would give up the memory is refused while the tensor is there. */
static void check_kept(const struct object *object)
{
    synced_mem *const root = object->root ? object->root->mem : object->mem;
    (void)answered("release of exported memory", synced_mem_release_data(root), 1u << SYNCED_MEM_ERR_INVALID_STATE);
}

static void check_tensor(const struct tensor *tensor, const struct object *object, enum side side)
{
    const bool right = tensor->ndim == 1 && tensor->shape[0] == (int64_t)object->size && tensor->strides[0] == 1 &&
                       tensor->byte_offset == 0 && tensor->code == TENSOR_UINT && tensor->bits == 8 &&
                       tensor->device_type == (side == CPU ? TENSOR_CPU : TENSOR_CUDA) &&
                       tensor->device_id == (side == CPU ? 0 : synced_mem_device(object->mem));
    if (!right)
        fail("the tensor is not the one that was requested");
}

void *access_by_tensor(const struct object *object, enum side side, enum mode mode, int stream,
                       synced_mem_stream handle)
{
    const int64_t size = (int64_t)object->size;
    struct DLManagedTensorVersioned *managed = NULL;
    const synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                               .side = side == CPU ? SYNCED_MEM_SIDE_CPU : SYNCED_MEM_SIDE_GPU,
                                               .mode = (synced_mem_mode)mode,
                                               .type_code = TENSOR_UINT,
                                               .type_bits = 8,
                                               .ndim = 1,
                                               .shape = &size,
                                               .stream = stream == NO_STREAM ? SYNCED_MEM_NO_STREAM : handle};
    if (synced_mem_to_dlpack(&managed, object->mem, &options) != SYNCED_MEM_OK)
        return NULL;
    void *const data = managed->tensor.data;
    if ((managed->flags == TENSOR_READ_ONLY) != (mode == READ))
        fail("the tensor has the flags %llu", (unsigned long long)managed->flags);
    check_tensor(&managed->tensor, object, side);
    check_kept(object);
    managed->deleter(managed);
    return data;
}

/* ---- In ---- */

struct incoming {
    struct DLManagedTensorVersioned managed;
    int64_t shape;
    struct block *block;
};

static void delete_incoming(struct DLManagedTensorVersioned *managed)
{
    struct incoming *const incoming = managed->context;
    struct block *const block = incoming->block;
    free(incoming);
    block_callback(block->data, block, NULL);
}

synced_mem_status import_tensor(synced_mem **out, struct block *block, size_t size, bool read_only,
                                synced_mem_stream filled)
{
    struct incoming *const incoming = calloc(1, sizeof *incoming);
    if (!incoming)
        fail("no memory for a tensor");
    incoming->shape = (int64_t)size;
    incoming->block = block;
    incoming->managed =
        (struct DLManagedTensorVersioned){.major = 1,
                                          .context = incoming,
                                          .deleter = delete_incoming,
                                          .flags = read_only ? TENSOR_READ_ONLY : 0,
                                          .tensor = {.data = block->data,
                                                     .device_type = block->kind == DEVICE_BLOCK   ? TENSOR_CUDA
                                                                    : block->kind == PINNED_BLOCK ? TENSOR_CUDA_HOST
                                                                                                  : TENSOR_CPU,
                                                     .ndim = 1,
                                                     .code = TENSOR_UINT,
                                                     .bits = 8,
                                                     .lanes = 1,
                                                     .shape = &incoming->shape}};
    const synced_mem_status status = synced_mem_from_dlpack(out, &incoming->managed, filled, NULL);
    if (status != SYNCED_MEM_OK)
        free(incoming);
    return status;
}
