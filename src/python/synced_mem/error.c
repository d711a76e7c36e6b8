/* Exceptions, and the arguments that most functions have. */
#include "core.h"

#include <limits.h>
#include <string.h>

PyObject *sm_error;
static PyObject *classes[32]; /* by status */
static int intern_names(void);

struct class
{
    synced_mem_status status;
    const char *name;
    const char *builtin; /* a second base */
    const char *doc;
};

static const struct class names[] = {
    {SYNCED_MEM_ERR_INVALID_ARGUMENT, "InvalidArgumentError", "ValueError", "An argument is not valid."},
    {SYNCED_MEM_ERR_INVALID_STATE, "InvalidStateError", "RuntimeError", "The object's state does not allow this call."},
    {SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "OutOfHostMemoryError", "MemoryError", "Host memory is short."},
    {SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, "OutOfDeviceMemoryError", "MemoryError", "Device memory is short."},
    {SYNCED_MEM_ERR_NO_GPU, "NoGpuError", NULL, "The library has no CUDA, or the machine no driver or device."},
    {SYNCED_MEM_ERR_INVALID_DEVICE, "InvalidDeviceError", NULL,
     "There is no such device, or the memory or stream is another device's."},
    {SYNCED_MEM_ERR_DEVICE_LOST, "DeviceLostError", NULL,
     "Earlier work on the device failed, and the device can no longer be used."},
    {SYNCED_MEM_ERR_CUDA, "CudaError", NULL, "A call of the CUDA runtime failed."},
    {SYNCED_MEM_ERR_CAPTURING, "CapturingError", NULL, "A stream is capturing a graph, which forbids this call."},
    {SYNCED_MEM_ERR_FORKED, "ForkedError", NULL, "The process was forked from one that had used a GPU."},
    {SYNCED_MEM_ERR_FILE, "FileError", "OSError", "A file can't be read or written."},
    {SYNCED_MEM_ERR_OWNER_DIED, "OwnerDiedError", NULL,
     "A process ended or abandoned its turn while it wrote the object, whose contents are lost."},
    {SYNCED_MEM_ERR_TIMEOUT, "TimeoutError", "TimeoutError", "The time is over."},
    {SYNCED_MEM_ERR_PEER, "PeerError", "ConnectionError",
     "The other process has closed the socket, or sent or written impossible values."},
};

/* The names of built-in exceptions are looked up, since the interpreter has them as variables. */
static PyObject *find_builtin(const char *name)
{
    PyObject *const builtins = PyImport_ImportModule("builtins");
    PyObject *const found = builtins ? PyObject_GetAttrString(builtins, name) : NULL;
    Py_XDECREF(builtins);
    return found;
}

static PyObject *make_class(const char *name, PyObject *bases, const char *doc)
{
    PyObject *const full = PyUnicode_FromFormat("synced_mem.%s", name);
    const char *const text = full ? PyUnicode_AsUTF8AndSize(full, NULL) : NULL;
    PyObject *const made = text ? PyErr_NewExceptionWithDoc(text, doc, bases, NULL) : NULL;
    Py_XDECREF(full);
    return made;
}

static PyObject *make_error(const struct class *class)
{
    PyObject *bases = NULL;
    if (class->builtin) {
        PyObject *const builtin = find_builtin(class->builtin);
        bases = builtin ? PyTuple_Pack(2, sm_error, builtin) : NULL;
        Py_XDECREF(builtin);
    } else {
        bases = PyTuple_Pack(1, sm_error);
    }
    PyObject *const made = bases ? make_class(class->name, bases, class->doc) : NULL;
    Py_XDECREF(bases);
    return made;
}

int sm_error_init(PyObject *module)
{
    sm_error = make_class("Error", NULL,
                          "A failed call of the library. status is the number of the status, and status_name its name "
                          "in C. Each status has a class of its own below this one.");
    if (!sm_error || PyModule_AddObjectRef(module, "Error", sm_error) < 0 || intern_names() < 0)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *const made = make_error(&names[i]);
        if (!made || PyModule_AddObjectRef(module, names[i].name, made) < 0)
            return -1;
        classes[names[i].status] = made;
    }
    return 0;
}

static PyObject *make_exception(synced_mem_status status)
{
    PyObject *const known = (unsigned)status < 32 ? classes[status] : NULL;
    /* A name of the program's may be cut in the middle of a character. */
    const char *const detail = synced_mem_last_error_message();
    PyObject *const text = PyUnicode_DecodeUTF8(detail, (Py_ssize_t)strlen(detail), "replace");
    PyObject *const exception = text ? PyObject_CallFunctionObjArgs(known ? known : sm_error, text, NULL) : NULL;
    Py_XDECREF(text);
    PyObject *const number = exception ? PyLong_FromLong((long)status) : NULL;
    PyObject *const name = number ? PyUnicode_FromString(synced_mem_status_name(status)) : NULL;
    const bool is_set = name && PyObject_SetAttr(exception, sm_names[SM_NAME_STATUS], number) == 0 &&
                        PyObject_SetAttr(exception, sm_names[SM_NAME_STATUS_NAME], name) == 0;
    Py_XDECREF(number);
    Py_XDECREF(name);
    if (is_set)
        return exception;
    Py_XDECREF(exception);
    return NULL;
}

PyObject *sm_raise(synced_mem_status status)
{
    PyObject *const exception = make_exception(status);
    if (exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

PyObject *sm_raise_last(void)
{
    return sm_raise(synced_mem_last_error());
}

PyObject *sm_none_if_ok(synced_mem_status status)
{
    if (status != SYNCED_MEM_OK)
        return sm_raise(status);
    Py_RETURN_NONE;
}

/* Takes the current exception. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

PyObject *sm_raise_buffer_error(void)
{
    PyObject *const cause = take_exception();
    PyObject *const text = cause ? PyObject_Str(cause) : NULL;
    PyObject *const error = text ? PyObject_CallFunctionObjArgs(PyExc_BufferError, text, NULL) : NULL;
    Py_XDECREF(text);
    if (!error) {
        Py_XDECREF(cause);
        PyErr_Clear();
        PyErr_SetString(PyExc_BufferError, "no memory for an error");
        return NULL;
    }
    PyException_SetCause(error, cause); /* takes the reference over */
    PyErr_SetObject(PyExc_BufferError, error);
    Py_DECREF(error);
    return NULL;
}

void sm_chain_exception(PyObject *of_block)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && value != of_block) {
        Py_INCREF(of_block);
        PyException_SetContext(value, of_block); /* takes the reference over */
    }
    PyErr_Restore(type, value, traceback);
}

PyObject *sm_raise_unless_exported(const struct sm_memory *memory, synced_mem_status status, int side)
{
    size_t count = 0;
    if (side != SYNCED_MEM_SIDE_GPU)
        count += sm_exports_count(memory->exports, SYNCED_MEM_SIDE_CPU);
    if (side != SYNCED_MEM_SIDE_CPU)
        count += sm_exports_count(memory->exports, SYNCED_MEM_SIDE_GPU);
    if (status == SYNCED_MEM_OK || status != SYNCED_MEM_ERR_INVALID_STATE || count == 0)
        return sm_none_if_ok(status);
    const char *const detail = synced_mem_last_error_message();
    PyErr_Format(PyExc_BufferError, "%zu exports of the memory exist: %.400s", count, detail);
    return NULL;
}

/* ---- Arguments ---- */

static const char *const side_names[] = {NULL, "cpu", "gpu"};
static const char *const mode_names[] = {"read", "mutable", "overwrite"};

const char *sm_side_name(synced_mem_side side)
{
    return side_names[side];
}

const char *sm_mode_name(synced_mem_mode mode)
{
    return mode_names[mode];
}

/* Literals of programs are interned, so that most names are found by their address. */
static PyObject *interned[2][3];

static int intern_names(void)
{
    const char *const *const names_of[] = {side_names, mode_names};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            if (names_of[i][j] && !interned[i][j] && !(interned[i][j] = PyUnicode_InternFromString(names_of[i][j])))
                return -1;
    return 0;
}

static int find_string(PyObject *object, PyObject *const *known)
{
    for (int i = 0; i < 3; i++)
        if (known[i] == object)
            return i;
    for (int i = 0; PyUnicode_Check(object) && i < 3; i++)
        if (known[i] && PyUnicode_Compare(object, known[i]) == 0)
            return i;
    return -1;
}

int sm_parse_side(PyObject *object, synced_mem_side *side)
{
    const int found = find_string(object, interned[0]);
    if (found >= 0) {
        *side = (synced_mem_side)found;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "a side is \"cpu\" or \"gpu\", not %R", object);
    return -1;
}

int sm_parse_mode(PyObject *object, synced_mem_mode *mode)
{
    const int found = find_string(object, interned[1]);
    if (found >= 0) {
        *mode = (synced_mem_mode)found;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "a mode is \"read\", \"mutable\" or \"overwrite\", not %R", object);
    return -1;
}

int sm_parse_timeout(PyObject *object, int *milliseconds)
{
    *milliseconds = -1;
    if (object == NULL || object == Py_None)
        return 0;
    const double seconds = PyFloat_AsDouble(object);
    if (seconds == -1 && PyErr_Occurred())
        return -1;
    if (!(seconds >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a timeout is not negative; None is for ever");
        return -1;
    }
    *milliseconds = seconds < INT_MAX / 1000 ? (int)(seconds * 1000) : INT_MAX;
    return 0;
}
