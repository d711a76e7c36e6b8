/* Another extension: it takes tensors by DLPack's C exchange, and makes and takes objects of the library by
 * capsules. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <synced_mem.h>

#include "dlpack_structs.h"

#include <string.h>

/* ---- The C exchange ---- */

static struct sm_dl_exchange *find_table(PyObject *object)
{
    static PyObject *name; /* Python's caches keep each name that they see */
    if (!name && !(name = PyUnicode_InternFromString("__dlpack_c_exchange_api__")))
        return NULL;
    PyObject *const capsule = PyObject_GetAttr((PyObject *)Py_TYPE(object), name);
    struct sm_dl_exchange *const table = capsule ? PyCapsule_GetPointer(capsule, SM_DL_EXCHANGE_NAME) : NULL;
    Py_XDECREF(capsule);
    if (table && table->version.major != 1) {
        PyErr_SetString(PyExc_BufferError, "another major version");
        return NULL;
    }
    return table;
}

static PyObject *describe(const struct sm_dl_tensor *tensor)
{
    PyObject *const shape = PyTuple_New(tensor->ndim), *const strides = PyTuple_New(tensor->ndim);
    for (int i = 0; shape && strides && i < tensor->ndim; i++) {
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(tensor->shape[i]));
        PyTuple_SetItem(strides, i, PyLong_FromLongLong(tensor->strides[i]));
    }
    return Py_BuildValue("(N(ii)(iii)NN)", PyLong_FromVoidPtr(tensor->data), tensor->device.type, tensor->device.id,
                         tensor->type.code, tensor->type.bits, tensor->type.lanes, shape, strides);
}

/* A tensor that the test ends. Its capsule has no destructor. */
static PyObject *export_tensor(PyObject *module, PyObject *object)
{
    struct DLManagedTensorVersioned *tensor;
    struct sm_dl_exchange *const table = find_table(object);
    (void)module;
    if (!table || table->tensor_of_object(object, &tensor) < 0)
        return NULL;
    return Py_BuildValue("(NNK)", PyCapsule_New(tensor, "tensor", NULL), describe(&tensor->tensor), tensor->flags);
}

static PyObject *end_tensor(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    int without_lock = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O|p", &capsule, &without_lock))
        return NULL;
    struct DLManagedTensorVersioned *const tensor = PyCapsule_GetPointer(capsule, "tensor");
    if (!tensor)
        return NULL;
    PyThreadState *const state = without_lock ? PyEval_SaveThread() : NULL;
    tensor->deleter(tensor);
    if (state)
        PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

static PyObject *borrow_tensor(PyObject *module, PyObject *object)
{
    struct sm_dl_tensor tensor;
    struct sm_dl_exchange *const table = find_table(object);
    (void)module;
    if (!table || table->borrow_tensor(object, &tensor) < 0)
        return NULL;
    return describe(&tensor);
}

static PyObject *import_tensor(PyObject *module, PyObject *arguments)
{
    PyObject *object, *capsule;
    void *made;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &object, &capsule))
        return NULL;
    struct sm_dl_exchange *const table = find_table(object);
    struct DLManagedTensorVersioned *const tensor = PyCapsule_GetPointer(capsule, "tensor");
    if (!table || !tensor || table->object_of_tensor(tensor, &made) < 0)
        return NULL;
    return made;
}

static PyObject *current_stream(PyObject *module, PyObject *arguments)
{
    PyObject *object;
    int device;
    void *stream;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oi", &object, &device))
        return NULL;
    struct sm_dl_exchange *const table = find_table(object);
    if (!table || table->current_stream(device, 0, &stream) < 0)
        return NULL;
    return PyLong_FromVoidPtr(stream);
}

static void set_error(void *context, const char *kind, const char *message)
{
    snprintf(context, 200, "%s: %s", kind, message);
}

/* The table's function is called without the interpreter's lock. */
static PyObject *allocate(PyObject *module, PyObject *arguments)
{
    PyObject *object;
    int device, number;
    long long rows;
    char error[200] = "";
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OiiL", &object, &device, &number, &rows))
        return NULL;
    struct sm_dl_exchange *const table = find_table(object);
    int64_t shape[2] = {rows, 3};
    struct sm_dl_tensor prototype = {
        .device = {.type = device, .id = number}, .ndim = 2, .type = {2, 32, 1}, .shape = shape};
    struct DLManagedTensorVersioned *tensor = NULL;
    int result = -1;
    if (!table)
        return NULL;
    Py_BEGIN_ALLOW_THREADS result = table->allocate(&prototype, &tensor, error, set_error);
    Py_END_ALLOW_THREADS if (result == 0) return Py_BuildValue("(NN)", PyCapsule_New(tensor, "tensor", NULL),
                                                               describe(&tensor->tensor));
    PyErr_SetString(PyExc_BufferError, error);
    return NULL;
}

/* ---- Objects by capsules ---- */

static void free_object(PyObject *capsule)
{
    (void)synced_mem_release(PyCapsule_GetPointer(capsule, "synced_mem"));
}

/* Makes an object that begins with 1, 2, 3. With another address as the maker's, it is another copy's. */
static PyObject *make_object(PyObject *module, PyObject *arguments)
{
    synced_mem *mem;
    Py_ssize_t size;
    int is_other = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "n|p", &size, &is_other))
        return NULL;
    if (synced_mem_create(&mem, (size_t)size, NULL) != SYNCED_MEM_OK)
        return PyErr_NoMemory();
    char *const data = synced_mem_mutable_cpu_data(mem);
    if (!data)
        return PyErr_NoMemory();
    memcpy(data, "\1\2\3", 3);
    PyObject *const capsule = PyCapsule_New(mem, "synced_mem", free_object);
    void *const maker = is_other ? (void *)&free_object : (void *)&synced_mem_release;
    if (capsule && PyCapsule_SetContext(capsule, maker) < 0) {
        Py_DECREF(capsule);
        return NULL;
    }
    return capsule;
}

static PyObject *read_object(PyObject *module, PyObject *capsule)
{
    (void)module;
    synced_mem *const mem = PyCapsule_GetPointer(capsule, "synced_mem");
    if (!mem || PyCapsule_GetContext(capsule) != (void *)&synced_mem_release)
        return PyErr_Format(PyExc_ImportError, "no object of this library");
    return PyBytes_FromStringAndSize(synced_mem_cpu_data(mem), (Py_ssize_t)synced_mem_size(mem));
}

/* ---- The interpreter's lock ---- */

int PyGILState_Check(void); /* not in the limited interface */

static int callbacks, callbacks_with_lock;

static void note_lock(void *data, void *user, synced_mem_stream stream)
{
    (void)data;
    (void)user;
    (void)stream;
    callbacks++;
    callbacks_with_lock += PyGILState_Check();
}

/* Makes an object whose memory is adopted. The callback notes whether its thread has the lock. */
static PyObject *make_adopted(PyObject *module, PyObject *nothing)
{
    static char memory[64];
    synced_mem *mem;
    (void)module;
    (void)nothing;
    const synced_mem_memory adopted = {.struct_size = sizeof adopted, .cpu_data = memory, .callback = note_lock};
    if (synced_mem_create(&mem, sizeof memory, NULL) != SYNCED_MEM_OK)
        return PyErr_NoMemory();
    if (synced_mem_use_memory(mem, &adopted) != SYNCED_MEM_OK)
        return PyErr_Format(PyExc_ValueError, "%s", synced_mem_last_error_message());
    PyObject *const capsule = PyCapsule_New(mem, "synced_mem", free_object);
    if (capsule && PyCapsule_SetContext(capsule, (void *)&synced_mem_release) < 0)
        return NULL;
    return capsule;
}

/* Returns how many callbacks there were, and how many in a thread with the lock. */
static PyObject *count_callbacks(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return Py_BuildValue("(ii)", callbacks, callbacks_with_lock);
}

static PyMethodDef functions[] = {
    {"make_adopted", make_adopted, METH_NOARGS, NULL},
    {"count_callbacks", count_callbacks, METH_NOARGS, NULL},
    {"export_tensor", export_tensor, METH_O, NULL},
    {"end_tensor", end_tensor, METH_VARARGS, NULL},
    {"borrow_tensor", borrow_tensor, METH_O, NULL},
    {"import_tensor", import_tensor, METH_VARARGS, NULL},
    {"current_stream", current_stream, METH_VARARGS, NULL},
    {"allocate", allocate, METH_VARARGS, NULL},
    {"make_object", make_object, METH_VARARGS, NULL},
    {"read_object", read_object, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "consumer", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit_consumer(void);
PyMODINIT_FUNC PyInit_consumer(void)
{
    return PyModule_Create(&definition);
}
