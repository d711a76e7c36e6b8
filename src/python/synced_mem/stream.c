/* CUDA streams of other packages, and the current stream of a thread. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- Uses of streams that objects have ---- */

struct sm_stream_use {
    struct sm_stream_use *next;
    synced_mem_stream handle;
    size_t count;
};

enum { BUCKETS = 64 };

/* The end of a stream's last use tells the library to forget the stream. Another thread that begins a use meanwhile
 * waits, because its work must come after that. The lock is never taken with the interpreter's lock held. A callback of
 * the library may begin a use in the same thread, so the lock is recursive. */
static struct {
    pthread_mutex_t lock;
    struct sm_stream_use *buckets[BUCKETS];
} uses;

static void make_lock(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&uses.lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static struct sm_stream_use **find_use(synced_mem_stream handle)
{
    const uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    struct sm_stream_use **each = &uses.buckets[hash >> 58];
    while (*each && (*each)->handle != handle)
        each = &(*each)->next;
    return each;
}

static struct sm_stream_use *begin_use(synced_mem_stream handle)
{
    pthread_mutex_lock(&uses.lock);
    struct sm_stream_use **const place = find_use(handle);
    struct sm_stream_use *use = *place;
    if (!use && (use = calloc(1, sizeof *use))) {
        use->handle = handle;
        *place = use;
    }
    if (use)
        use->count++;
    pthread_mutex_unlock(&uses.lock);
    return use;
}

/* A failure to forget is met again by the library's next call that needs the stream. */
static void end_use(struct sm_stream_use *use)
{
    pthread_mutex_lock(&uses.lock);
    if (--use->count == 0) {
        (void)synced_mem_forget_stream(use->handle);
        if (use->count == 0) {
            *find_use(use->handle) = use->next;
            free(use);
        }
    }
    pthread_mutex_unlock(&uses.lock);
}

/* ---- Arguments ---- */

/* The default streams are never destroyed. */
static bool is_default(synced_mem_stream handle)
{
    return (uintptr_t)handle <= 2;
}

static int parse_handle(PyObject *number, synced_mem_stream *handle)
{
    const unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "a stream is no negative number, and no larger one than an address");
        return -1;
    }
    *handle = (synced_mem_stream)(uintptr_t)value;
    if (*handle != SYNCED_MEM_NO_STREAM && *handle != SYNCED_MEM_STREAM_LIBRARY)
        return 0;
    PyErr_SetString(PyExc_ValueError, "the number is no stream");
    return -1;
}

/* Returns the attribute, or NULL without an exception if there is none. */
static PyObject *find_attribute(PyObject *object, enum sm_name name)
{
    PyObject *const found = sm_get(object, name);
    if (!found && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return found;
}

/* The protocol of NVIDIA's cuda.core: a method that returns a version and a handle. */
static PyObject *call_protocol(PyObject *method)
{
    PyObject *const pair = PyObject_CallNoArgs(method);
    PyObject *number = NULL;
    if (pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        number = PyTuple_GetItem(pair, 1);
        Py_XINCREF(number);
    } else if (pair) {
        PyErr_SetString(PyExc_TypeError, "__cuda_stream__() returns a tuple of a version and a handle");
    }
    Py_XDECREF(pair);
    return number;
}

static PyObject *find_number(PyObject *object)
{
    PyObject *const method = find_attribute(object, SM_NAME_CUDA_STREAM_PROTOCOL);
    if (method) {
        PyObject *const number = call_protocol(method);
        Py_DECREF(method);
        return number;
    }
    PyObject *number = PyErr_Occurred() ? NULL : find_attribute(object, SM_NAME_CUDA_STREAM); /* PyTorch */
    if (!number && !PyErr_Occurred())
        number = find_attribute(object, SM_NAME_PTR); /* CuPy */
    if (!number && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "no stream: %R has neither __cuda_stream__() nor cuda_stream nor ptr", object);
    return number;
}

static int parse_object(struct sm_stream *stream, PyObject *object)
{
    PyObject *const number = find_number(object);
    const bool is_parsed = number && parse_handle(number, &stream->handle) == 0;
    Py_XDECREF(number);
    if (!is_parsed)
        return -1;
    if (!is_default(stream->handle)) {
        SM_CALL(stream->use, begin_use(stream->handle));
        if (!stream->use) {
            PyErr_NoMemory();
            return -1;
        }
    }
    Py_INCREF(object);
    stream->object = object;
    return 0;
}

/* ---- The current stream of a thread ---- */

struct block {
    PyObject base;
    struct sm_stream stream;
    struct block *outer;
    bool is_open;
};

static _Thread_local struct block *current;
static PyTypeObject *block_type;

synced_mem_stream sm_stream_current(synced_mem_stream otherwise)
{
    return current ? current->stream.handle : otherwise;
}

int sm_stream_parse(struct sm_stream *stream, PyObject *object, synced_mem_stream otherwise)
{
    *stream = (struct sm_stream){.handle = otherwise};
    if (object == NULL || object == Py_None) {
        stream->handle = sm_stream_current(otherwise);
        return 0;
    }
    if (PyBool_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a stream is no bool");
        return -1;
    }
    return PyLong_Check(object) ? parse_handle(object, &stream->handle) : parse_object(stream, object);
}

void sm_stream_close(struct sm_stream *stream)
{
    if (stream->use)
        SM_UNLOCKED(end_use(stream->use));
    Py_XDECREF(stream->object);
    *stream = SM_NO_STREAM;
}

PyObject *sm_stream_object(const struct sm_stream *stream)
{
    if (stream->object) {
        Py_INCREF(stream->object);
        return stream->object;
    }
    if (stream->handle == SYNCED_MEM_NO_STREAM)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(stream->handle);
}

static PyObject *new_block(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"stream", NULL};
    PyObject *object;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O:stream", keywords, &object))
        return NULL;
    if (object == Py_None) {
        PyErr_SetString(PyExc_TypeError, "a block has a stream");
        return NULL;
    }
    struct block *const block = (struct block *)PyType_GenericAlloc(type, 0);
    if (!block)
        return NULL;
    if (sm_stream_parse(&block->stream, object, NULL) < 0) {
        Py_DECREF((PyObject *)block);
        return NULL;
    }
    return (PyObject *)block;
}

/* An open block has a reference of its thread's. */
static void free_block(struct block *block)
{
    PyTypeObject *const type = Py_TYPE((PyObject *)block);
    PyObject *error, *value, *traceback;
    PyErr_Fetch(&error, &value, &traceback);
    sm_stream_close(&block->stream);
    PyErr_Restore(error, value, traceback);
    PyObject_Free(block);
    Py_DECREF(type);
}

static PyObject *enter_block(struct block *block, PyObject *nothing)
{
    (void)nothing;
    if (block->is_open) {
        PyErr_SetString(PyExc_RuntimeError, "the block has begun already");
        return NULL;
    }
    block->is_open = true;
    block->outer = current;
    current = block;
    Py_INCREF((PyObject *)block); /* the thread's */
    Py_INCREF((PyObject *)block);
    return (PyObject *)block;
}

static PyObject *exit_block(struct block *block, PyObject *arguments)
{
    (void)arguments;
    if (current != block) {
        PyErr_SetString(PyExc_RuntimeError, "blocks end in their thread, the last one first");
        return NULL;
    }
    current = block->outer;
    block->is_open = false;
    Py_DECREF((PyObject *)block);
    Py_RETURN_NONE;
}

static PyObject *get_block_stream(struct block *block, void *nothing)
{
    (void)nothing;
    return PyLong_FromVoidPtr(block->stream.handle);
}

static PyObject *call_block_protocol(struct block *block, PyObject *nothing)
{
    (void)nothing;
    return Py_BuildValue("(iN)", 0, PyLong_FromVoidPtr(block->stream.handle));
}

/* ---- The module's part ---- */

PyDoc_STRVAR(block_doc,
             "stream(stream)\n--\n\n"
             "A block with a current stream: \"with synced_mem.stream(s):\". In it the thread's accesses to device "
             "memory, pushes,\npulls and copies that name no stream are on this one, and so are the accesses that "
             "other packages make by the C\nexchange of DLPack.\n\n"
             "stream is an integer (a cudaStream_t, which the caller keeps), or an object with __cuda_stream__(), "
             "cuda_stream or ptr,\nwhich is kept until the block ends.");

static PyMethodDef block_methods[] = {
    {"__enter__", (PyCFunction)enter_block, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)exit_block, METH_VARARGS, NULL},
    {"__cuda_stream__", (PyCFunction)call_block_protocol, METH_NOARGS, "Returns the version 0 and the handle."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef block_members[] = {
    {"cuda_stream", (getter)get_block_stream, NULL, "The handle of the stream, an integer.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_doc, (void *)block_doc}, {Py_tp_new, new_block},        {Py_tp_dealloc, free_block},
    {Py_tp_methods, block_methods}, {Py_tp_getset, block_members}, {0, NULL},
};

static PyType_Spec block_spec = {
    .name = "synced_mem.stream",
    .basicsize = sizeof(struct block),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = block_slots,
};

PyDoc_STRVAR(current_doc, "current_stream()\n--\n\n"
                          "Returns the handle of the thread's current stream, an integer, or None outside of all "
                          "blocks of stream().");

static PyObject *get_current(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    if (!current)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(current->stream.handle);
}

PyDoc_STRVAR(forget_doc,
             "forget_stream(stream)\n--\n\n"
             "Ends the stream's use of all objects. Call it before you destroy a stream that was passed as an integer, "
             "after its\nlast work is queued. Streams that were passed as objects need no call.");

static PyObject *forget_stream(PyObject *module, PyObject *object)
{
    (void)module;
    struct sm_stream stream;
    synced_mem_status status;
    if (object == Py_None) {
        PyErr_SetString(PyExc_TypeError, "None is no stream");
        return NULL;
    }
    if (sm_stream_parse(&stream, object, NULL) < 0)
        return NULL;
    SM_CALL(status, synced_mem_forget_stream(stream.handle));
    PyObject *const result = sm_none_if_ok(status);
    sm_stream_close(&stream);
    return result;
}

static PyMethodDef functions[] = {
    {"current_stream", get_current, METH_NOARGS, current_doc},
    {"forget_stream", forget_stream, METH_O, forget_doc},
    {NULL, NULL, 0, NULL},
};

int sm_stream_init(PyObject *module)
{
    make_lock();
    pthread_atfork(NULL, NULL, make_lock); /* another thread of the parent may have had the lock */
    return sm_add_type(module, &block_spec, &block_type) < 0 ? -1 : sm_add_functions(module, functions);
}
