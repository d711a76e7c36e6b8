/* Files: contents of objects that are in one, and contents that are written to one. */
#include "core.h"

static PyTypeObject *file_type;

struct file {
    PyObject base;
    synced_mem_file *handle; /* a reference */
};

/* ---- The type ---- */

static PyObject *open_file(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"file", NULL};
    PyObject *object;
    synced_mem_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O:File", keywords, &object))
        return NULL;
    const int descriptor = PyObject_AsFileDescriptor(object);
    struct file *const file = descriptor >= 0 ? (struct file *)PyType_GenericAlloc(type, 0) : NULL;
    if (!file)
        return NULL;
    SM_CALL(status, synced_mem_file_open(&file->handle, descriptor));
    if (status == SYNCED_MEM_OK)
        return (PyObject *)file;
    Py_DECREF((PyObject *)file);
    return sm_raise(status);
}

static void free_file(struct file *file)
{
    PyTypeObject *const type = Py_TYPE((PyObject *)file);
    SM_UNLOCKED((void)synced_mem_file_release(file->handle));
    PyObject_Free(file);
    Py_DECREF(type);
}

int sm_file_parse(PyObject *object, synced_mem_file **file)
{
    *file = NULL;
    if (object == Py_None)
        return 0;
    if (Py_TYPE(object) != file_type) {
        PyErr_Format(PyExc_TypeError, "not a File: %R", object);
        return -1;
    }
    *file = ((struct file *)object)->handle;
    return 0;
}

static PyObject *wait_for(struct file *file, PyObject *nothing)
{
    synced_mem_status status;
    (void)nothing;
    SM_CALL(status, synced_mem_file_wait(file->handle));
    return sm_none_if_ok(status);
}

/* ---- One object ---- */

static int parse_offset(PyObject *object, uint64_t *offset)
{
    PyObject *const number = PyNumber_Index(object);
    *offset = number ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

/* The arguments of a call with a file and an offset. */
struct place {
    struct file *file;
    uint64_t offset;
    PyObject *stream; /* the last two are those of a write */
    int stores;
};

static int parse_place(PyObject *arguments, PyObject *names, bool is_write, struct place *place)
{
    static char *keywords[] = {"file", "offset", "stream", "place", NULL}, *of_use[] = {"file", "offset", NULL};
    PyObject *number = NULL;
    *place = (struct place){.stream = NULL};
    const int parsed =
        is_write
            ? PyArg_ParseTupleAndKeywords(arguments, names, "O!|OO$p:write_file", keywords, file_type, &place->file,
                                          &number, &place->stream, &place->stores)
            : PyArg_ParseTupleAndKeywords(arguments, names, "O!|O:use_file", of_use, file_type, &place->file, &number);
    return !parsed ? -1 : number ? parse_offset(number, &place->offset) : 0;
}

static PyObject *use_file(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    struct place place;
    synced_mem_status status;
    if (parse_place(arguments, names, false, &place) < 0)
        return NULL;
    SM_CALL(status, synced_mem_use_file(memory->handle, place.file->handle, place.offset));
    return sm_none_if_ok(status);
}

static PyObject *write_file(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    struct place place;
    struct sm_stream stream;
    synced_mem_status status;
    if (parse_place(arguments, names, true, &place) < 0 ||
        sm_stream_parse(&stream, place.stream, SYNCED_MEM_NO_STREAM) < 0)
        return NULL;
    SM_CALL(status, (place.stores ? synced_mem_async_store_in_file : synced_mem_async_write_file)(
                        memory->handle, place.file->handle, place.offset, stream.handle));
    PyObject *const result = sm_none_if_ok(status);
    sm_stream_close(&stream);
    return result;
}

/* ---- Several objects ---- */

static uint64_t *read_offsets(PyObject *sequence, size_t count)
{
    PyObject *const numbers = PySequence_Tuple(sequence);
    uint64_t *const offsets = numbers ? PyMem_Calloc(count + 1, sizeof *offsets) : NULL;
    bool read = offsets != NULL;
    if (numbers && !offsets)
        PyErr_NoMemory();
    if (read && (size_t)PyTuple_Size(numbers) != count) {
        PyErr_SetString(PyExc_ValueError, "a write has as many offsets as objects");
        read = false;
    }
    for (size_t i = 0; i < count && read; i++)
        read = parse_offset(PyTuple_GetItem(numbers, (Py_ssize_t)i), &offsets[i]) == 0;
    Py_XDECREF(numbers);
    if (read)
        return offsets;
    PyMem_Free(offsets);
    return NULL;
}

static PyObject *write_list(const struct sm_list *list, const struct place *place, PyObject *numbers)
{
    struct sm_stream stream;
    synced_mem_status status;
    uint64_t *const offsets = read_offsets(numbers, list->count);
    if (!offsets || sm_stream_parse(&stream, place->stream, SYNCED_MEM_NO_STREAM) < 0) {
        PyMem_Free(offsets);
        return NULL;
    }
    SM_CALL(status, (place->stores ? synced_mem_async_store_in_file_n : synced_mem_async_write_file_n)(
                        list->handles, place->file->handle, offsets, list->count, stream.handle));
    PyObject *const result = sm_none_if_ok(status);
    sm_stream_close(&stream);
    PyMem_Free(offsets);
    return result;
}

static PyObject *write_files(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"memories", "file", "offsets", "stream", "place", NULL};
    PyObject *sequence, *numbers, *result = NULL;
    struct place place = {.stream = NULL};
    struct sm_list list;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OO!O|O$p:write_file", keywords, &sequence, file_type,
                                     &place.file, &numbers, &place.stream, &place.stores))
        return NULL;
    if (sm_list_read(&list, sequence) == 0)
        result = write_list(&list, &place, numbers);
    sm_list_free(&list);
    return result;
}

/* ---- The module's part ---- */

PyDoc_STRVAR(file_doc,
             "File(file)\n--\n\n"
             "A file for contents of objects. file: an object with fileno(), or a descriptor, which stays the caller's "
             "and may be\nclosed. It must allow reads, and writes if the file is to be written. Memories in the file, "
             "and writes that go on, keep\nthe file open. Raises InvalidArgumentError for a pipe, a socket or a "
             "folder, or another Error.");
PyDoc_STRVAR(wait_doc, "wait()\n--\n\n"
                       "Waits for the writes to the file that were begun before, and raises why the first one failed, "
                       "once: FileError, or\nanother Error.");
PyDoc_STRVAR(use_doc,
             "use_file(file, offset=0)\n--\n\n"
             "Makes the bytes of a File from the offset on the contents. Nothing is read yet: an access reads what it "
             "needs, straight\nto its side, and so does push() or pull(). The contents are in the file until a call "
             "writes. Raises FileError, also if\nthe file is too short, InvalidStateError for a shareable object, "
             "unified placement or another package's memory, or\nanother Error.");
PyDoc_STRVAR(
    write_doc,
    "write_file(file, offset=0, stream=None, *, place=False)\n--\n\n"
    "Begins to write the contents to a File, from the offset on, whose wait() says whether that has "
    "succeeded. stream: as in\ngpu(), whose order counts if the device alone has the contents; None: the "
    "current stream of stream(), else after all\nwork on them. place: when that has succeeded, the contents are in "
    "the file, unless a call has written since. Raises\nInvalidStateError without contents, or for bytes that "
    "a Memory is in, or with a place as use_file() does, or another Error.");
PyDoc_STRVAR(write_list_doc, "write_file(memories, file, offsets, stream=None, *, place=False)\n--\n\n"
                             "As Memory.write_file(), of a sequence of objects to as many offsets in one call.");

static PyMethodDef file_methods[] = {
    {"wait", (PyCFunction)wait_for, METH_NOARGS, wait_doc},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef memory_methods[] = {
    {"use_file", (PyCFunction)(void (*)(void))use_file, METH_VARARGS | METH_KEYWORDS, use_doc},
    {"write_file", (PyCFunction)(void (*)(void))write_file, METH_VARARGS | METH_KEYWORDS, write_doc},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef functions[] = {
    {"write_file", (PyCFunction)(void (*)(void))write_files, METH_VARARGS | METH_KEYWORDS, write_list_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)file_doc},
    {Py_tp_new, open_file},
    {Py_tp_dealloc, free_file},
    {Py_tp_methods, file_methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "synced_mem.File",
    .basicsize = sizeof(struct file),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int sm_file_init(PyObject *module)
{
    if (sm_add_type(module, &spec, &file_type) < 0 || sm_add_methods(sm_memory_type, memory_methods) < 0)
        return -1;
    return sm_add_functions(module, functions);
}
