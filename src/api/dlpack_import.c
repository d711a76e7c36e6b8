/* DLPack's tensors as objects. */
#include "synced_mem/dlpack.h"

#include "api/argument.h"
#include "api/dlpack_type.h"
#include "api/environment.h"
#include "api/life.h"
#include "api/options.h"
#include "api/user_memory.h"
#include "base/caller.h"
#include "base/status.h"

#include <limits.h>

/* A tensor of either struct. */
struct import {
    const struct sm_dl_tensor *tensor;
    uint64_t flags;
    synced_mem_release_callback callback; /* calls the deleter; NULL: there is none */
    void *managed;
    synced_mem_stream stream;
};

/* ---- Deleters ---- */

/* The work on adopted memory has finished, so there is no stream. */
static void delete_versioned_tensor(void *data, void *user, synced_mem_stream stream)
{
    struct DLManagedTensorVersioned *const managed = user;
    (void)data;
    (void)stream;
    managed->deleter(managed);
}

static void delete_legacy_tensor(void *data, void *user, synced_mem_stream stream)
{
    struct DLManagedTensor *const managed = user;
    (void)data;
    (void)stream;
    managed->deleter(managed);
}

/* ---- Checks ---- */

static synced_mem_status check_device(struct sm_dl_device device)
{
    switch (device.type) {
    case SM_DL_CPU:
    case SM_DL_CUDA:
    case SM_DL_CUDA_HOST:
    case SM_DL_CUDA_MANAGED:
        return SYNCED_MEM_OK;
    default:
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's device has the type %d, which is not known",
                       (int)device.type);
    }
}

/* Finds the first of the tensor's bytes. */
static synced_mem_status find_data(const struct sm_dl_tensor *tensor, uint64_t bytes, void **data)
{
    const uintptr_t begin = (uintptr_t)tensor->data;
    *data = NULL;
    if (bytes == 0)
        return SYNCED_MEM_OK;
    if (!tensor->data)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's data is NULL, but it has %llu bytes",
                       (unsigned long long)bytes);
    if (tensor->byte_offset > UINTPTR_MAX - begin || bytes > UINTPTR_MAX - begin - tensor->byte_offset)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "the tensor's addresses overflow: data %p, byte_offset %llu, %llu bytes", tensor->data,
                       (unsigned long long)tensor->byte_offset, (unsigned long long)bytes);
    *data = (void *)(begin + tensor->byte_offset); /* C's addition to a pointer takes no more than PTRDIFF_MAX */
    return SYNCED_MEM_OK;
}

static synced_mem_status check_import(const struct import *import, size_t *size, void **data)
{
    const struct sm_dl_tensor *const tensor = import->tensor;
    const bool is_padded = (import->flags & SM_DL_PADDED) != 0;
    uint64_t bytes;
    SM_TRY(check_device(tensor->device));
    SM_TRY(sm_dl_check_type(tensor->type));
    SM_TRY(sm_dl_count_bytes(tensor->type, is_padded, tensor->ndim, tensor->shape, &bytes));
    SM_TRY(sm_dl_check_strides(tensor->ndim, tensor->shape, tensor->strides));
    *size = bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
    SM_TRY(sm_check_size(*size));
    return find_data(tensor, bytes, data);
}

/* ---- Adoption ---- */

/* The deleter may call the library. */
static void call_deleter(const struct import *import)
{
    struct sm_put_aside aside;
    sm_caller_put_aside(&aside);
    if (import->callback)
        import->callback(NULL, import->managed, NULL);
    sm_caller_put_back(&aside);
}

/* Without elements there is no memory to adopt. */
static synced_mem_status adopt_memory(synced_mem *mem, const struct import *import, void *data)
{
    const int32_t type = import->tensor->device.type;
    const bool on_host = type == SM_DL_CPU || type == SM_DL_CUDA_HOST;
    if (!data) {
        call_deleter(import);
        return SYNCED_MEM_OK;
    }
    return sm_use_memory(
        mem, &(synced_mem_memory){.struct_size = sizeof(synced_mem_memory),
                                  .cpu_data = on_host ? data : NULL,
                                  .gpu_data = on_host ? NULL : data,
                                  .callback = import->callback,
                                  .user = import->managed,
                                  .stream = import->stream,
                                  .flags = import->flags & SM_DL_READ_ONLY ? SYNCED_MEM_MEMORY_READ_ONLY : 0});
}

static synced_mem_status import_tensor(synced_mem **out, const struct import *import, const synced_mem_options *options)
{
    size_t size;
    void *data;
    synced_mem *mem;
    SM_TRY(check_import(import, &size, &data));
    SM_TRY(sm_create(&mem, size, options));
    const synced_mem_status status = adopt_memory(mem, import, data);
    if (status == SYNCED_MEM_OK) {
        *out = mem;
        return SYNCED_MEM_OK;
    }
    const struct sm_detail first = sm_detail_get();
    (void)sm_release(mem); /* it has no memory, so this cannot fail */
    sm_detail_set(&first);
    return status;
}

static synced_mem_status check_pointers(synced_mem **out, const void *tensor)
{
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    return tensor ? SYNCED_MEM_OK : sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor is NULL");
}

/* Another major version may have all else elsewhere. */
static synced_mem_status import_versioned(synced_mem **out, struct DLManagedTensorVersioned *managed,
                                          synced_mem_stream stream, const synced_mem_options *options)
{
    SM_TRY(check_pointers(out, managed));
    if (managed->version.major != SM_DL_MAJOR)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor has DLPack's version %u.%u, not 1",
                       (unsigned)managed->version.major, (unsigned)managed->version.minor);
    const struct import import = {.tensor = &managed->tensor,
                                  .flags = managed->flags,
                                  .callback = managed->deleter ? delete_versioned_tensor : NULL,
                                  .managed = managed,
                                  .stream = stream};
    return import_tensor(out, &import, options);
}

static synced_mem_status import_legacy(synced_mem **out, struct DLManagedTensor *managed, synced_mem_stream stream,
                                       const synced_mem_options *options)
{
    SM_TRY(check_pointers(out, managed));
    const struct import import = {.tensor = &managed->tensor,
                                  .callback = managed->deleter ? delete_legacy_tensor : NULL,
                                  .managed = managed,
                                  .stream = stream};
    return import_tensor(out, &import, options);
}

synced_mem_status synced_mem_from_dlpack(synced_mem **out, struct DLManagedTensorVersioned *tensor,
                                         synced_mem_stream stream, const synced_mem_options *options)
{
    sm_read_environment();
    return SM_DO(import_versioned(out, tensor, stream, options), (synced_mem *)NULL);
}

synced_mem_status synced_mem_from_dlpack_legacy(synced_mem **out, struct DLManagedTensor *tensor,
                                                synced_mem_stream stream, const synced_mem_options *options)
{
    sm_read_environment();
    return SM_DO(import_legacy(out, tensor, stream, options), (synced_mem *)NULL);
}
