/* Objects as DLPack's tensors. */
#include "synced_mem/dlpack.h"

#include "api/argument.h"
#include "api/dlpack_type.h"
#include "api/life.h"
#include "base/status.h"
#include "object/gate.h"
#include "object/access.h"
#include "object/exports.h"

#include <stdlib.h>
#include <string.h>

/* A tensor of the library's, and all that its deleter needs. The tensor's context points to it. */
struct export
{
    struct sm_export memory;
    struct synced_mem *mem; /* a reference */
    union {
        struct DLManagedTensorVersioned versioned;
        struct DLManagedTensor legacy;
    };
    int64_t numbers[]; /* the shape, then the strides */
};

/* ---- Arguments ---- */

static struct sm_dl_type get_type(const synced_mem_dlpack_options *options)
{
    return (struct sm_dl_type){
        .code = options->type_code, .bits = options->type_bits, .lanes = options->type_lanes ? options->type_lanes : 1};
}

static synced_mem_status check_enums(const synced_mem_dlpack_options *options)
{
    if (options->side != SYNCED_MEM_SIDE_CPU && options->side != SYNCED_MEM_SIDE_GPU)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "options has the side %d, which is not known",
                       (int)options->side);
    if ((unsigned)options->mode > SYNCED_MEM_OVERWRITE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "options has the mode %d, which is not known",
                       (int)options->mode);
    return SYNCED_MEM_OK;
}

static synced_mem_status check_export(const synced_mem *mem, const synced_mem_dlpack_options *options, uint64_t *bytes)
{
    if (!mem)
        return sm_no_object();
    SM_TRY(SM_CHECK_STRUCT(options, "options"));
    SM_TRY(check_enums(options));
    SM_TRY(sm_dl_check_type(get_type(options)));
    SM_TRY(sm_dl_count_bytes(get_type(options), false, options->ndim, options->shape, bytes));
    return sm_export_check(mem, *bytes);
}

/* ---- Access ---- */

static synced_mem_status access_without_stream(synced_mem *mem, enum sm_side side, enum sm_mode mode, void **data)
{
    *data = sm_access_hot(mem, side, mode);
    return *data ? SYNCED_MEM_OK : sm_access(mem, side, mode, data);
}

static synced_mem_status access_side(synced_mem *mem, const synced_mem_dlpack_options *options, void **data)
{
    const enum sm_mode mode = (enum sm_mode)options->mode;
    if (options->side == SYNCED_MEM_SIDE_CPU)
        return access_without_stream(mem, SM_CPU, mode, data);
    if (options->stream == SYNCED_MEM_NO_STREAM)
        return access_without_stream(mem, SM_GPU, mode, data);
    if (sm_access_hot_on(mem, mode, options->stream, data) ||
        (mode == SM_READ && sm_access_hot_together(mem, options->stream, data)))
        return SYNCED_MEM_OK;
    return sm_access_on(mem, mode, options->stream, data);
}

/* Accesses the object and exports its memory. Another thread may replace the memory, or resize the object, in between.
 * */
static synced_mem_status export_memory(struct export *export, const synced_mem_dlpack_options *options, uint64_t bytes,
                                       void **data)
{
    const enum sm_side side = options->side == SYNCED_MEM_SIDE_CPU ? SM_CPU : SM_GPU;
    bool begun = false;
    SM_TRY(sm_gate_begin(export->mem, side, (enum sm_mode)options->mode));
    synced_mem_status status = SYNCED_MEM_OK;
    while (status == SYNCED_MEM_OK && !begun) {
        status = access_side(export->mem, options, data);
        if (status == SYNCED_MEM_OK)
            status = sm_export_begin(&export->memory, export->mem, side, *data, bytes, &begun);
    }
    sm_gate_end(export->mem);
    return status;
}

/* ---- Tensors ---- */

static void describe_tensor(struct export *export, const synced_mem_dlpack_options *options, void *data,
                            struct sm_dl_tensor *tensor)
{
    const size_t ndim = (size_t)options->ndim;
    if (ndim > 0)
        memcpy(export->numbers, options->shape, ndim * sizeof *options->shape);
    sm_dl_fill_strides(options->ndim, export->numbers, export->numbers + ndim);
    const bool on_host = options->side == SYNCED_MEM_SIDE_CPU;
    *tensor =
        (struct sm_dl_tensor){.data = data,
                              .device = {.type = (int32_t)options->side, .id = on_host ? 0 : sm_device(export->mem)},
                              .ndim = options->ndim,
                              .type = get_type(options),
                              .shape = export->numbers,
                              .strides = export->numbers + ndim};
}

/* The object stays alive if its release fails. */
static void end_export(struct export *export)
{
    struct synced_mem *const mem = export->mem;
    sm_export_end(&export->memory);
    free(export);
    (void)synced_mem_release(mem);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    end_export(self->context);
}

static void delete_legacy(struct DLManagedTensor *self)
{
    end_export(self->context);
}

static synced_mem_status retain_and_export(struct export *export, synced_mem *mem,
                                           const synced_mem_dlpack_options *options, uint64_t bytes, void **data)
{
    SM_TRY(sm_retain(mem));
    export->mem = mem;
    const synced_mem_status status = export_memory(export, options, bytes, data);
    if (status == SYNCED_MEM_OK)
        return SYNCED_MEM_OK;
    const struct sm_detail first = sm_detail_get();
    (void)sm_release(mem); /* the caller has another reference, so this cannot fail */
    sm_detail_set(&first);
    return status;
}

/* Makes the export, without the tensor, whose data it stores. */
static synced_mem_status make_export(struct export **out, synced_mem *mem, const synced_mem_dlpack_options *options,
                                     void **data)
{
    uint64_t bytes;
    SM_TRY(check_export(mem, options, &bytes));
    /* Every member is set below. calloc() would cost more, as in glibc it takes nothing from the thread's cache. */
    struct export *const export = malloc(sizeof *export + 2 * (size_t)options->ndim * sizeof *export->numbers);
    if (!export)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a tensor");
    const synced_mem_status status = retain_and_export(export, mem, options, bytes, data);
    if (status != SYNCED_MEM_OK) {
        free(export);
        return status;
    }
    if (bytes == 0)
        *data = NULL;
    *out = export;
    return SYNCED_MEM_OK;
}

static synced_mem_status make_versioned(struct DLManagedTensorVersioned **out, synced_mem *mem,
                                        const synced_mem_dlpack_options *options)
{
    struct export *export;
    void *data;
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    SM_TRY(make_export(&export, mem, options, &data));
    struct DLManagedTensorVersioned *const tensor = &export->versioned;
    tensor->version = (struct sm_dl_version){.major = SM_DL_MAJOR, .minor = SM_DL_MINOR};
    tensor->context = export;
    tensor->deleter = delete_versioned;
    tensor->flags = options->mode == SYNCED_MEM_READ ? SM_DL_READ_ONLY : 0;
    describe_tensor(export, options, data, &tensor->tensor);
    *out = tensor;
    return SYNCED_MEM_OK;
}

static synced_mem_status make_legacy(struct DLManagedTensor **out, synced_mem *mem,
                                     const synced_mem_dlpack_options *options)
{
    struct export *export;
    void *data;
    if (!out)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    SM_TRY(SM_CHECK_STRUCT(options, "options"));
    if (options->mode == SYNCED_MEM_READ)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "the legacy struct cannot say that a tensor is read-only: use a mode that may write");
    SM_TRY(make_export(&export, mem, options, &data));
    struct DLManagedTensor *const tensor = &export->legacy;
    tensor->context = export;
    tensor->deleter = delete_legacy;
    describe_tensor(export, options, data, &tensor->tensor);
    *out = tensor;
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_to_dlpack(struct DLManagedTensorVersioned **out, synced_mem *mem,
                                       const synced_mem_dlpack_options *options)
{
    return SM_DO(make_versioned(out, mem, options), mem);
}

synced_mem_status synced_mem_to_dlpack_legacy(struct DLManagedTensor **out, synced_mem *mem,
                                              const synced_mem_dlpack_options *options)
{
    return SM_DO(make_legacy(out, mem, options), mem);
}
