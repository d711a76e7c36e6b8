/* DLPack's table of functions, by which extensions exchange tensors without Python's calls. Accesses to device memory
 * are on the current stream of the thread, else on the legacy stream, and the consumer launches its work there. */
#include "core.h"
#include "gil.h"

#include <string.h>

static synced_mem_stream get_stream(void)
{
    return sm_stream_current(NULL);
}

/* ---- A new tensor, without the interpreter's lock ---- */

static synced_mem_status check_prototype(const struct sm_dl_tensor *prototype, synced_mem_options *options)
{
    synced_mem_options_init(options);
    if (prototype->device.type == SM_DL_CUDA)
        options->device = prototype->device.id;
    return prototype->device.type == SM_DL_CPU || prototype->device.type == SM_DL_CUDA ? SYNCED_MEM_OK
                                                                                       : SYNCED_MEM_ERR_INVALID_DEVICE;
}

/* Counts bytes, and returns false if there are too many to count. */
static bool count_bytes(const struct sm_dl_tensor *prototype, size_t *bytes)
{
    size_t bits = (size_t)prototype->type.bits * prototype->type.lanes;
    for (int32_t i = 0; i < prototype->ndim; i++)
        if (prototype->shape[i] < 0 || __builtin_mul_overflow(bits, (size_t)prototype->shape[i], &bits))
            return false;
    *bytes = bits / 8 + (bits % 8 != 0);
    return true;
}

static synced_mem_status make_tensor(const struct sm_dl_tensor *prototype, struct DLManagedTensorVersioned **out)
{
    synced_mem_options options;
    synced_mem *handle;
    size_t bytes;
    synced_mem_status status = check_prototype(prototype, &options);
    if (status == SYNCED_MEM_OK && !count_bytes(prototype, &bytes))
        status = SYNCED_MEM_ERR_INVALID_ARGUMENT;
    if (status == SYNCED_MEM_OK)
        status = synced_mem_create(&handle, bytes, &options);
    if (status != SYNCED_MEM_OK)
        return status;
    const synced_mem_dlpack_options description = {.struct_size = sizeof description,
                                                   .side = (synced_mem_side)prototype->device.type,
                                                   .mode = SYNCED_MEM_OVERWRITE,
                                                   .type_code = prototype->type.code,
                                                   .type_bits = prototype->type.bits,
                                                   .type_lanes = prototype->type.lanes,
                                                   .ndim = prototype->ndim,
                                                   .shape = prototype->shape,
                                                   .stream = get_stream()};
    status = synced_mem_to_dlpack(out, handle, &description);
    (void)synced_mem_release(handle);
    return status;
}

/* The caller may have the interpreter's lock or not. set_error() may take it. */
static int allocate(struct sm_dl_tensor *prototype, struct DLManagedTensorVersioned **out, void *context,
                    sm_dl_set_error set_error)
{
    *out = NULL;
    PyThreadState *const state = sm_gil_release();
    const synced_mem_status status = make_tensor(prototype, out);
    sm_gil_restore(state);
    if (status == SYNCED_MEM_OK)
        return 0;
    set_error(context, status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY ? "MemoryError" : "BufferError",
              synced_mem_status_message(status));
    return -1;
}

/* ---- Tensors of objects ---- */

/* The object and the mode of an export. */
struct source {
    struct sm_tensor_options options;
    struct sm_access *access; /* or NULL */
};

static int find_source(PyObject *object, struct source *source)
{
    *source = (struct source){.options = {.stream = get_stream()}};
    struct sm_memory *memory = NULL;
    if (Py_TYPE(object) == sm_access_type) {
        source->access = (struct sm_access *)object;
        memory = source->access->memory;
        source->options.layout = source->access->layout;
        source->options.side = source->access->side;
        source->options.mode = source->access->mode;
    } else if (Py_TYPE(object) == sm_memory_type) {
        memory = (struct sm_memory *)object;
        source->options.layout = memory->layout;
        source->options.side = memory->side;
        source->options.mode = memory->mode;
    } else {
        PyErr_SetString(PyExc_BufferError, "neither a Memory nor an Access");
        return -1;
    }
    source->options.handle = memory->handle;
    source->options.exports = memory->exports;
    return 0;
}

/* An overwrite is for one consumer. */
static void note_export(const struct source *source)
{
    if (source->access && source->access->mode == SYNCED_MEM_OVERWRITE)
        source->access->mode = SYNCED_MEM_MUTABLE;
}

static int make_of_object(void *object, struct DLManagedTensorVersioned **out)
{
    struct source source;
    synced_mem_status status;
    if (find_source(object, &source) < 0)
        return -1;
    SM_CALL(status, sm_tensor_make(out, &source.options));
    if (status == SYNCED_MEM_OK) {
        note_export(&source);
        return 0;
    }
    sm_raise(status);
    sm_raise_buffer_error();
    return -1;
}

/* A tensor that is good until control returns, and keeps nothing. */
static int borrow(void *object, struct sm_dl_tensor *out)
{
    struct source source;
    void *data;
    if (find_source(object, &source) < 0)
        return -1;
    const struct sm_tensor_options *const options = &source.options;
    SM_CALL(data, synced_mem_access(options->handle, options->side, options->mode, options->stream));
    if (!data) {
        sm_raise_last();
        sm_raise_buffer_error();
        return -1;
    }
    note_export(&source);
    struct sm_layout *const layout = (struct sm_layout *)options->layout;
    const bool on_host = options->side == SYNCED_MEM_SIDE_CPU;
    *out = (struct sm_dl_tensor){
        .data = layout->elements > 0 ? data : NULL,
        .device = {.type = (int32_t)options->side, .id = on_host ? 0 : synced_mem_device(options->handle)},
        .ndim = layout->ndim,
        .type = layout->dtype->type,
        .shape = layout->numbers,
        .strides = layout->numbers + layout->ndim};
    return 0;
}

/* ---- Objects of tensors ---- */

/* After a failure the tensor is the caller's. */
static int make_object(struct DLManagedTensorVersioned *tensor, void **out)
{
    const synced_mem_stream current = get_stream();
    PyObject *const memory = sm_tensor_import(tensor, false, current ? current : (synced_mem_stream)(uintptr_t)1, NULL);
    *out = memory;
    return memory ? 0 : -1;
}

static int find_current_stream(int32_t device_type, int32_t device_id, void **out)
{
    (void)device_id;
    *out = device_type == SM_DL_CUDA ? get_stream() : NULL;
    return 0;
}

/* ---- The table ---- */

static struct sm_dl_exchange table = {.version = {.major = SM_DL_MAJOR, .minor = SM_DL_MINOR},
                                      .allocate = allocate,
                                      .tensor_of_object = make_of_object,
                                      .object_of_tensor = make_object,
                                      .borrow_tensor = borrow,
                                      .current_stream = find_current_stream};

int sm_exchange_init(void)
{
    PyObject *const capsule = PyCapsule_New(&table, SM_DL_EXCHANGE_NAME, NULL);
    if (!capsule)
        return -1;
    const int result =
        PyObject_SetAttrString((PyObject *)sm_memory_type, "__dlpack_c_exchange_api__", capsule) < 0 ||
                PyObject_SetAttrString((PyObject *)sm_access_type, "__dlpack_c_exchange_api__", capsule) < 0
            ? -1
            : 0;
    Py_DECREF(capsule);
    return result;
}
