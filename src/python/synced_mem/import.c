/* Tensors of other packages as objects, and objects of other extensions. */
#include "core.h"

#include <string.h>

/* A capsule keeps its name's address. */
static const char unused_names[2][20] = {"dltensor_versioned", "dltensor"};
static const char used_names[2][25] = {"used_dltensor_versioned", "used_dltensor"};

/* ---- Tensors ---- */

static struct sm_dl_tensor *get_tensor(void *managed, bool is_legacy)
{
    return is_legacy ? &((struct DLManagedTensor *)managed)->tensor
                     : &((struct DLManagedTensorVersioned *)managed)->tensor;
}

static struct sm_layout *read_layout(const struct sm_dl_tensor *tensor)
{
    const struct sm_dtype *const dtype = sm_dtype_find(tensor->type);
    if (tensor->ndim > 0 && !tensor->shape) {
        PyErr_SetString(PyExc_BufferError, "the tensor has no shape");
        return NULL;
    }
    if (dtype)
        return sm_layout_new(dtype, tensor->ndim, tensor->shape);
    PyErr_Format(PyExc_BufferError, "no data type of synced_mem: DLPack's code %d with %d bits and %d lanes",
                 (int)tensor->type.code, (int)tensor->type.bits, (int)tensor->type.lanes);
    return NULL;
}

static synced_mem_status adopt(synced_mem **handle, void *managed, bool is_legacy, synced_mem_stream stream,
                               const char *name)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = name;
    return is_legacy ? synced_mem_from_dlpack_legacy(handle, managed, stream, &options)
                     : synced_mem_from_dlpack(handle, managed, stream, &options);
}

static bool is_on_host(const struct sm_dl_tensor *tensor)
{
    return tensor->device.type == SM_DL_CPU || tensor->device.type == SM_DL_CUDA_HOST;
}

PyObject *sm_tensor_import(void *managed, bool is_legacy, synced_mem_stream stream, const char *name)
{
    synced_mem *handle;
    synced_mem_status status;
    if (!is_legacy && ((struct DLManagedTensorVersioned *)managed)->version.major != SM_DL_MAJOR) {
        PyErr_Format(PyExc_BufferError, "the tensor is of version %u of DLPack",
                     (unsigned)((struct DLManagedTensorVersioned *)managed)->version.major);
        return NULL;
    }
    const struct sm_dl_tensor *const tensor = get_tensor(managed, is_legacy);
    const bool on_host = is_on_host(tensor);
    struct sm_layout *const layout = read_layout(tensor);
    if (!layout)
        return NULL;
    SM_CALL(status, adopt(&handle, managed, is_legacy, on_host ? NULL : stream, name));
    PyObject *const memory =
        status == SYNCED_MEM_OK ? sm_memory_new(handle, layout, NULL,
                                                on_host ? SYNCED_MEM_SIDE_CPU : SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE)
                                : sm_raise(status);
    sm_layout_release(layout);
    return memory;
}

/* Renames the capsule first, so that no other thread takes the tensor too. */
static PyObject *import_capsule(PyObject *capsule, synced_mem_stream stream, const char *name)
{
    const bool is_legacy = PyCapsule_IsValid(capsule, unused_names[1]) != 0;
    if (!is_legacy && !PyCapsule_IsValid(capsule, unused_names[0])) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__() returned no unused capsule");
        return NULL;
    }
    void *const managed = PyCapsule_GetPointer(capsule, unused_names[is_legacy]);
    if (!managed || PyCapsule_SetName(capsule, used_names[is_legacy]) < 0)
        return NULL;
    PyObject *const memory = sm_tensor_import(managed, is_legacy, stream, name);
    if (!memory) {
        PyObject *error, *value, *traceback;
        PyErr_Fetch(&error, &value, &traceback);
        (void)PyCapsule_SetName(capsule, unused_names[is_legacy]);
        PyErr_Restore(error, value, traceback);
    }
    return memory;
}

/* ---- from_dlpack() ---- */

/* Stores DLPack's type of the array's device. */
static int find_device_type(PyObject *array, long *type)
{
    PyObject *const method = sm_get(array, SM_NAME_DLPACK_DEVICE);
    PyObject *const device = method ? PyObject_CallNoArgs(method) : NULL;
    PyObject *const first = device ? PySequence_GetItem(device, 0) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(device);
    *type = first ? PyLong_AsLong(first) : -1;
    Py_XDECREF(first);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *call_with(PyObject *method, PyObject *keywords)
{
    PyObject *const nothing = PyTuple_New(0);
    PyObject *const result = nothing ? PyObject_Call(method, nothing, keywords) : NULL;
    Py_XDECREF(nothing);
    return result;
}

/* Calls __dlpack__(), again without a version if the array's package knows legacy tensors alone. Memory of the host has
 * no stream. */
static PyObject *ask_for_capsule(PyObject *array, PyObject *stream)
{
    PyObject *const method = sm_get(array, SM_NAME_DLPACK);
    PyObject *const keywords =
        method ? Py_BuildValue("{O(ii)}", sm_names[SM_NAME_MAX_VERSION], SM_DL_MAJOR, SM_DL_MINOR) : NULL;
    PyObject *capsule = NULL;
    if (keywords && (!stream || PyDict_SetItem(keywords, sm_names[SM_NAME_STREAM], stream) == 0))
        capsule = call_with(method, keywords);
    if (keywords && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        if (PyDict_DelItem(keywords, sm_names[SM_NAME_MAX_VERSION]) == 0)
            capsule = call_with(method, keywords);
    }
    Py_XDECREF(keywords);
    Py_XDECREF(method);
    return capsule;
}

/* On the device the array's package makes the stream wait for the contents. */
static PyObject *import_array(PyObject *array, synced_mem_stream stream, const char *name)
{
    long type;
    if (find_device_type(array, &type) < 0)
        return NULL;
    const bool on_host = type == SM_DL_CPU || type == SM_DL_CUDA_HOST;
    PyObject *const number = on_host ? NULL : PyLong_FromVoidPtr(stream);
    PyObject *const capsule = number || on_host ? ask_for_capsule(array, number) : NULL;
    PyObject *const memory = capsule ? import_capsule(capsule, stream, name) : NULL;
    Py_XDECREF(number);
    Py_XDECREF(capsule);
    return memory;
}

PyDoc_STRVAR(
    from_dlpack_doc,
    "from_dlpack(array, /, *, stream=None, name=None)\n--\n\n"
    "Returns a Memory that uses the memory of an array of another package, which stays until the Memory no "
    "longer uses it.\nThe library never writes memory that is read-only.\n\n"
    "stream: on which the object is used first, as in Memory.gpu(); None: the current stream of stream(), else "
    "the legacy\nstream. The array's package makes it wait for the contents. Raises what __dlpack__() of the "
    "array raises, BufferError for\na data type without a name, InvalidArgumentError for an array that is not "
    "contiguous, or another Error.");

static PyObject *from_dlpack(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"", "stream", "name", NULL};
    PyObject *array, *object = NULL;
    const char *name = NULL;
    struct sm_stream stream;
    const synced_mem_stream legacy = (synced_mem_stream)(uintptr_t)1;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|$Oz:from_dlpack", keywords, &array, &object, &name) ||
        sm_stream_parse(&stream, object, legacy) < 0)
        return NULL;
    PyObject *const memory = import_array(array, stream.handle ? stream.handle : legacy, name);
    sm_stream_close(&stream);
    return memory;
}

/* ---- Objects of other extensions ---- */

/* A capsule of this name has a synced_mem *. Its context is the address of synced_mem_release() in the library that
 * made the object, since a second copy of the library would not know it. */
static const char object_name[] = "synced_mem";

static void free_object(PyObject *capsule)
{
    PyObject *error, *value, *traceback;
    PyErr_Fetch(&error, &value, &traceback);
    synced_mem *const handle = PyCapsule_GetPointer(capsule, object_name);
    if (handle)
        sm_release(handle);
    PyErr_Restore(error, value, traceback);
}

PyDoc_STRVAR(
    wrap_doc,
    "wrap(capsule, shape, dtype, /)\n--\n\n"
    "Returns a Memory of an object of another extension. The capsule has the name \"synced_mem\", a synced_mem * "
    "as its pointer,\nand the address of the maker's synced_mem_release() as its context. The Memory has a "
    "reference of its own.\n\nRaises ImportError if the object is another copy's of the library, ValueError "
    "if it has fewer bytes than the shape.");

static PyObject *wrap(PyObject *module, PyObject *arguments)
{
    PyObject *capsule, *shape, *type;
    synced_mem_status status;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO:wrap", &capsule, &shape, &type))
        return NULL;
    if (!PyCapsule_CheckExact(capsule) || !PyCapsule_IsValid(capsule, object_name)) {
        PyErr_SetString(PyExc_TypeError, "no capsule with the name \"synced_mem\"");
        return NULL;
    }
    synced_mem *const handle = PyCapsule_GetPointer(capsule, object_name);
    if (PyCapsule_GetContext(capsule) != (void *)(uintptr_t)&synced_mem_release) {
        PyErr_SetString(PyExc_ImportError, "the object was made by another copy of libsynced_mem, which this package "
                                           "can't use: link the shared library");
        return NULL;
    }
    const struct sm_dtype *const dtype = sm_dtype_parse(type);
    struct sm_layout *const layout = dtype ? sm_layout_parse(dtype, shape) : NULL;
    if (!layout)
        return NULL;
    PyObject *memory = NULL;
    if (layout->bytes > synced_mem_size(handle)) {
        PyErr_Format(PyExc_ValueError, "the shape has %zu bytes, the object %zu", layout->bytes,
                     synced_mem_size(handle));
    } else {
        SM_CALL(status, synced_mem_retain(handle));
        memory = status == SYNCED_MEM_OK ? sm_memory_new(handle, layout, NULL, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE)
                                         : sm_raise(status);
    }
    sm_layout_release(layout);
    return sm_memory_gated(memory);
}

PyDoc_STRVAR(unwrap_doc,
             "unwrap(memory, /)\n--\n\n"
             "Returns a capsule that wrap() takes, for another extension. It has a reference to the object.");

static PyObject *unwrap(PyObject *module, PyObject *object)
{
    synced_mem_status status;
    (void)module;
    if (Py_TYPE(object) != sm_memory_type) {
        PyErr_SetString(PyExc_TypeError, "unwrap() takes a Memory");
        return NULL;
    }
    synced_mem *const handle = ((struct sm_memory *)object)->handle;
    SM_CALL(status, synced_mem_retain(handle));
    if (status != SYNCED_MEM_OK)
        return sm_raise(status);
    PyObject *const capsule = PyCapsule_New(handle, object_name, free_object);
    if (!capsule)
        sm_release(handle);
    else
        (void)PyCapsule_SetContext(capsule, (void *)(uintptr_t)&synced_mem_release);
    return capsule;
}

static PyMethodDef functions[] = {
    {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_VARARGS | METH_KEYWORDS, from_dlpack_doc},
    {"wrap", wrap, METH_VARARGS, wrap_doc},
    {"unwrap", unwrap, METH_O, unwrap_doc},
    {NULL, NULL, 0, NULL},
};

int sm_import_init(PyObject *module)
{
    return sm_add_functions(module, functions);
}
