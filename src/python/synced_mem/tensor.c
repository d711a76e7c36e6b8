/* Objects as tensors: DLPack's structs and capsules. */
#include "core.h"
#include "gil.h"

#include <stdlib.h>

/* A tensor of the library's, and the exports that it is counted in. Consumers see a struct of the extension's, whose
 * deleter ends both. It uses nothing of Python's, as it may be called after the interpreter has ended. */
struct tensor {
    union {
        struct DLManagedTensorVersioned versioned;
        struct DLManagedTensor legacy;
    };
    union {
        struct DLManagedTensorVersioned *its_versioned;
        struct DLManagedTensor *its_legacy;
    };
    struct sm_exports *exports;
    synced_mem_side side;
};

/* ---- Ends ---- */

static void drop_export(struct sm_exports *exports, synced_mem_side side)
{
    atomic_fetch_sub(&exports->tensors[side], 1);
    sm_exports_release(exports);
}

void sm_exports_release(struct sm_exports *exports)
{
    if (exports && atomic_fetch_sub(&exports->references, 1) == 1)
        free(exports);
}

struct sm_exports *sm_exports_retain(struct sm_exports *exports)
{
    atomic_fetch_add_explicit(&exports->references, 1, memory_order_relaxed);
    return exports;
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    struct tensor *const tensor = self->context;
    PyThreadState *const state = sm_gil_release();
    tensor->its_versioned->deleter(tensor->its_versioned);
    sm_gil_restore(state);
    drop_export(tensor->exports, tensor->side);
    free(tensor);
}

static void delete_legacy(struct DLManagedTensor *self)
{
    struct tensor *const tensor = self->context;
    PyThreadState *const state = sm_gil_release();
    tensor->its_legacy->deleter(tensor->its_legacy);
    sm_gil_restore(state);
    drop_export(tensor->exports, tensor->side);
    free(tensor);
}

/* ---- Tensors ---- */

static synced_mem_dlpack_options describe(const struct sm_tensor_options *options)
{
    const struct sm_layout *const layout = options->layout;
    return (synced_mem_dlpack_options){.struct_size = sizeof(synced_mem_dlpack_options),
                                       .side = options->side,
                                       .mode = options->mode,
                                       .type_code = layout->dtype->type.code,
                                       .type_bits = layout->dtype->type.bits,
                                       .type_lanes = layout->dtype->type.lanes,
                                       .ndim = layout->ndim,
                                       .shape = layout->numbers,
                                       .stream = options->stream};
}

/* Counts an export, so that none is counted too late for a call that fails because of it. */
static struct tensor *begin_tensor(const struct sm_tensor_options *options)
{
    struct tensor *const tensor = malloc(sizeof *tensor);
    if (!tensor)
        return NULL;
    tensor->exports = sm_exports_retain(options->exports);
    tensor->side = options->side;
    atomic_fetch_add(&tensor->exports->tensors[tensor->side], 1);
    return tensor;
}

static synced_mem_status drop_tensor(struct tensor *tensor, synced_mem_status status)
{
    drop_export(tensor->exports, tensor->side);
    free(tensor);
    return status;
}

synced_mem_status sm_tensor_make(struct DLManagedTensorVersioned **out, const struct sm_tensor_options *options)
{
    const synced_mem_dlpack_options description = describe(options);
    struct tensor *const tensor = begin_tensor(options);
    if (!tensor)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const synced_mem_status status = synced_mem_to_dlpack(&tensor->its_versioned, options->handle, &description);
    if (status != SYNCED_MEM_OK)
        return drop_tensor(tensor, status);
    tensor->versioned = *tensor->its_versioned;
    tensor->versioned.context = tensor;
    tensor->versioned.deleter = delete_versioned;
    *out = &tensor->versioned;
    return SYNCED_MEM_OK;
}

/* A buffer needs no deleter of the extension's: the Access, which it keeps, has the count. Nobody sees the tensor, so
 * it is one of bytes. */
synced_mem_status sm_buffer_make(struct DLManagedTensorVersioned **out, const struct sm_tensor_options *options)
{
    const int64_t bytes = (int64_t)options->layout->bytes;
    const synced_mem_dlpack_options description = {.struct_size = sizeof description,
                                                   .side = options->side,
                                                   .mode = options->mode,
                                                   .type_code = 1,
                                                   .type_bits = 8,
                                                   .type_lanes = 1,
                                                   .ndim = 1,
                                                   .shape = &bytes,
                                                   .stream = options->stream};
    return synced_mem_to_dlpack(out, options->handle, &description);
}

synced_mem_status sm_tensor_make_legacy(struct DLManagedTensor **out, const struct sm_tensor_options *options)
{
    const synced_mem_dlpack_options description = describe(options);
    struct tensor *const tensor = begin_tensor(options);
    if (!tensor)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const synced_mem_status status = synced_mem_to_dlpack_legacy(&tensor->its_legacy, options->handle, &description);
    if (status != SYNCED_MEM_OK)
        return drop_tensor(tensor, status);
    tensor->legacy = *tensor->its_legacy;
    tensor->legacy.context = tensor;
    tensor->legacy.deleter = delete_legacy;
    *out = &tensor->legacy;
    return SYNCED_MEM_OK;
}

/* ---- Copies ---- */

static synced_mem_status copy_contents(synced_mem *copy, const struct sm_tensor_options *options)
{
    const synced_mem_stream stream = options->side == SYNCED_MEM_SIDE_CPU ? SYNCED_MEM_NO_STREAM : options->stream;
    return synced_mem_copy(copy, 0, options->handle, 0, options->layout->bytes, stream);
}

/* Makes an object with the contents. Its one reference is the caller's. */
static synced_mem_status make_copy(synced_mem **copy, const struct sm_tensor_options *options)
{
    synced_mem_options of_copy;
    synced_mem_options_init(&of_copy);
    of_copy.device = synced_mem_device(options->handle);
    of_copy.name = synced_mem_name(options->handle);
    synced_mem_status status = synced_mem_create(copy, options->layout->bytes, &of_copy);
    if (status != SYNCED_MEM_OK)
        return status;
    status = copy_contents(*copy, options);
    if (status != SYNCED_MEM_OK)
        (void)synced_mem_release(*copy);
    return status;
}

synced_mem_status sm_tensor_make_copy(struct DLManagedTensorVersioned **out, const struct sm_tensor_options *options)
{
    struct sm_tensor_options of_copy = *options;
    synced_mem_status status = make_copy(&of_copy.handle, options);
    if (status != SYNCED_MEM_OK)
        return status;
    of_copy.mode = SYNCED_MEM_MUTABLE;
    of_copy.exports = sm_exports_new();
    status = of_copy.exports ? sm_tensor_make(out, &of_copy) : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    sm_exports_release(of_copy.exports);
    (void)synced_mem_release(of_copy.handle); /* the tensor has a reference of its own */
    if (status == SYNCED_MEM_OK)
        (*out)->flags |= SM_DL_IS_COPIED;
    return status;
}

struct sm_exports *sm_exports_new(void)
{
    struct sm_exports *const exports = calloc(1, sizeof *exports);
    if (exports)
        atomic_init(&exports->references, 1);
    return exports;
}

/* ---- Capsules ---- */

static const char versioned_name[] = "dltensor_versioned", legacy_name[] = "dltensor";

/* A consumer that has taken the tensor has renamed the capsule. An exception may be on its way. */
static void free_capsule(PyObject *capsule)
{
    PyObject *error, *value, *traceback;
    PyErr_Fetch(&error, &value, &traceback);
    if (PyCapsule_IsValid(capsule, versioned_name)) {
        struct DLManagedTensorVersioned *const tensor = PyCapsule_GetPointer(capsule, versioned_name);
        tensor->deleter(tensor);
    } else if (PyCapsule_IsValid(capsule, legacy_name)) {
        struct DLManagedTensor *const tensor = PyCapsule_GetPointer(capsule, legacy_name);
        tensor->deleter(tensor);
    }
    PyErr_Restore(error, value, traceback);
}

static PyObject *make_capsule_versioned(const struct sm_tensor_options *options, bool copy)
{
    struct DLManagedTensorVersioned *tensor;
    synced_mem_status status;
    SM_CALL(status, copy ? sm_tensor_make_copy(&tensor, options) : sm_tensor_make(&tensor, options));
    if (status != SYNCED_MEM_OK)
        return sm_raise(status);
    PyObject *const capsule = PyCapsule_New(tensor, versioned_name, free_capsule);
    if (!capsule)
        tensor->deleter(tensor);
    return capsule;
}

static PyObject *make_capsule_legacy(const struct sm_tensor_options *options)
{
    struct DLManagedTensor *tensor;
    synced_mem_status status;
    if (options->mode == SYNCED_MEM_READ) {
        PyErr_SetString(PyExc_BufferError, "the consumer reads no version of DLPack in which tensors can be read-only: "
                                           "make a mutable access");
        return NULL;
    }
    SM_CALL(status, sm_tensor_make_legacy(&tensor, options));
    if (status != SYNCED_MEM_OK)
        return sm_raise(status);
    PyObject *const capsule = PyCapsule_New(tensor, legacy_name, free_capsule);
    if (!capsule)
        tensor->deleter(tensor);
    return capsule;
}

/* ---- __dlpack__() ---- */

enum { STREAM, MAX_VERSION, DL_DEVICE, COPY, KEYWORDS };

static PyObject *fail(PyObject *error, const char *message)
{
    PyErr_SetString(error, message);
    return NULL;
}

/* Names of arguments are interned, unless they come from a dict. */
static PyObject *keywords[KEYWORDS];

int sm_tensor_init(PyObject *module)
{
    static const char *const names[KEYWORDS] = {"stream", "max_version", "dl_device", "copy"};
    (void)module;
    for (int i = 0; i < KEYWORDS; i++)
        if (!(keywords[i] = PyUnicode_InternFromString(names[i])))
            return -1;
    return 0;
}

static int find_keyword(PyObject *name)
{
    for (int i = 0; i < KEYWORDS; i++)
        if (keywords[i] == name)
            return i;
    for (int i = 0; i < KEYWORDS; i++)
        if (PyUnicode_Compare(name, keywords[i]) == 0)
            return i;
    return -1;
}

/* A TypeError would make consumers try again without a version, so none is raised. */
static int parse_keywords(PyObject **values, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    if (count > 0) {
        PyErr_SetString(PyExc_ValueError, "__dlpack__() takes keyword arguments alone");
        return -1;
    }
    for (Py_ssize_t i = 0; i < (names ? PyTuple_Size(names) : 0); i++) {
        const int keyword = find_keyword(PyTuple_GetItem(names, i));
        if (keyword < 0) {
            PyErr_Format(PyExc_ValueError, "__dlpack__() has no argument %R", PyTuple_GetItem(names, i));
            return -1;
        }
        values[keyword] = arguments[i] == Py_None ? NULL : arguments[i];
    }
    return 0;
}

/* Stores the numbers of a pair. Returns -1 with a ValueError. */
static int parse_pair(PyObject *pair, long *numbers, const char *name)
{
    for (int i = 0; i < 2; i++) {
        PyObject *const number = PyTuple_Check(pair) && PyTuple_Size(pair) == 2 ? PyTuple_GetItem(pair, i) : NULL;
        numbers[i] = number ? PyLong_AsLong(number) : -1;
        if (!number || (numbers[i] == -1 && PyErr_Occurred())) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "%s is a tuple of two integers", name);
            return -1;
        }
    }
    return 0;
}

static int wants_versioned(PyObject *max_version, bool *versioned)
{
    long version[2] = {0};
    if (max_version && parse_pair(max_version, version, "max_version") < 0)
        return -1;
    *versioned = version[0] >= 1;
    return 0;
}

/* Consumers' numbers: NULL: 1, the legacy stream; 2: that of the thread; 0 is ambiguous; -1: the consumer wants no
 * synchronization, so that the producer's own stream is used. */
static int parse_consumer_stream(PyObject *number, synced_mem_stream *stream)
{
    if (!number) {
        *stream = (synced_mem_stream)(uintptr_t)1;
        return 0;
    }
    int overflow = 0;
    const long long value = PyLong_Check(number) ? PyLong_AsLongLongAndOverflow(number, &overflow) : -2;
    if (PyBool_Check(number) || overflow || value < -1 || value == 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "no stream of DLPack's: %R", number);
        return -1;
    }
    if (value > 0)
        *stream = (synced_mem_stream)(uintptr_t)value;
    return 0;
}

/* A consumer may ask for the other side. */
static int choose_side(struct sm_tensor_options *options, PyObject *const *values)
{
    long device[2];
    const synced_mem_side own = options->side;
    if (values[DL_DEVICE]) {
        if (parse_pair(values[DL_DEVICE], device, "dl_device") < 0)
            return -1;
        const int its_device = synced_mem_device(options->handle);
        if ((device[0] != SM_DL_CPU && device[0] != SM_DL_CUDA) || (device[0] == SM_DL_CPU && device[1] != 0) ||
            (device[0] == SM_DL_CUDA && its_device >= 0 && device[1] != its_device)) {
            PyErr_Format(PyExc_BufferError, "the object has no memory on the device (%ld, %ld)", device[0], device[1]);
            return -1;
        }
        options->side = (synced_mem_side)device[0];
    }
    if (options->side == own && own == SYNCED_MEM_SIDE_CPU && values[STREAM]) {
        PyErr_SetString(PyExc_ValueError, "memory of the host has no stream");
        return -1;
    }
    if (options->side == SYNCED_MEM_SIDE_GPU && parse_consumer_stream(values[STREAM], &options->stream) < 0)
        return -1;
    if (options->side != own && values[COPY] && PyObject_IsTrue(values[COPY]) == 0) {
        PyErr_SetString(PyExc_BufferError, "without a copy the memory is on its own device alone");
        return -1;
    }
    return 0;
}

/* Takes values in the order above, NULL for None. */
static PyObject *make_capsule(struct sm_tensor_options *options, PyObject *const *values)
{
    bool versioned;
    if (wants_versioned(values[MAX_VERSION], &versioned) < 0 || choose_side(options, values) < 0)
        return NULL;
    const int copy = values[COPY] ? PyObject_IsTrue(values[COPY]) : 0;
    if (copy > 0 && !versioned)
        return fail(PyExc_BufferError, "the consumer reads no version of DLPack in which tensors can be copies");
    return versioned ? make_capsule_versioned(options, copy > 0) : make_capsule_legacy(options);
}

/* An overwrite is meant for the first consumer. A later one would lose what the first has written, so it gets a mutable
 * access. */
PyObject *sm_tensor_capsule(const struct sm_tensor_options *options, synced_mem_mode *mode, PyObject *const *arguments,
                            Py_ssize_t count, PyObject *names)
{
    PyObject *values[KEYWORDS] = {NULL};
    struct sm_tensor_options mine = *options;
    if (parse_keywords(values, arguments, count, names) < 0)
        return NULL;
    const bool copies = values[COPY] && PyObject_IsTrue(values[COPY]) > 0;
    const bool is_first = mine.mode == SYNCED_MEM_OVERWRITE && !copies;
    if (is_first)
        *mode = SYNCED_MEM_MUTABLE;
    PyObject *const capsule = make_capsule(&mine, values);
    if (capsule)
        return capsule;
    if (is_first)
        *mode = SYNCED_MEM_OVERWRITE;
    return PyErr_ExceptionMatches(PyExc_BufferError) ||
                   (PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(sm_error))
               ? NULL
               : sm_raise_buffer_error();
}

PyObject *sm_tensor_device(const synced_mem *handle, synced_mem_side side)
{
    if (side == SYNCED_MEM_SIDE_CPU)
        return Py_BuildValue("(ii)", SM_DL_CPU, 0);
    const int device = synced_mem_device(handle);
    return Py_BuildValue("(ii)", SM_DL_CUDA, device > 0 ? device : 0);
}
