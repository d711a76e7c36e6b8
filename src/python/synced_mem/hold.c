/* Evictable objects: holds, and budgets. */
#include "core.h"

static PyTypeObject *hold_type;

/* The arguments of a hold. */
struct wish {
    struct sm_list list;
    synced_mem_side side;
    synced_mem_mode mode;
    struct sm_stream stream;
};

struct hold {
    PyObject base;
    struct wish wish;
};

/* ---- Arguments ---- */

static void free_wish(struct wish *wish)
{
    sm_list_free(&wish->list);
    sm_stream_close(&wish->stream);
}

/* On failure nothing is to be freed. */
static int parse_hold(PyObject *arguments, PyObject *names, struct wish *wish)
{
    static char *keywords[] = {"memories", "side", "mode", "stream", NULL};
    PyObject *memories, *side = NULL, *mode = NULL, *stream = NULL;
    *wish = (struct wish){.side = SYNCED_MEM_SIDE_GPU, .mode = SYNCED_MEM_READ};
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|OOO:hold", keywords, &memories, &side, &mode, &stream) ||
        (side && sm_parse_side(side, &wish->side) < 0) || (mode && sm_parse_mode(mode, &wish->mode) < 0) ||
        sm_stream_parse(&wish->stream, stream, SYNCED_MEM_STREAM_LIBRARY) < 0)
        return -1;
    if (sm_list_read(&wish->list, memories) == 0)
        return 0;
    free_wish(wish);
    return -1;
}

/* ---- Holds ---- */

static struct sm_exports *exports_of(const struct sm_list *list, size_t i)
{
    return ((struct sm_memory *)PyTuple_GetItem(list->objects, (Py_ssize_t)i))->exports;
}

/* Adds to the numbers of the objects' holds that the package has begun. A number is negative after the ends of holds
 * that another extension has begun. */
static void count_holds(const struct sm_list *list, synced_mem_side side, long change)
{
    for (size_t i = 0; i < list->count; i++)
        exports_of(list, i)->holds[side] += change;
}

static PyObject *begin_hold(const struct wish *wish)
{
    synced_mem_status status;
    SM_CALL(status,
            synced_mem_hold_n(wish->list.handles, wish->list.count, wish->side, wish->mode, wish->stream.handle));
    if (status == SYNCED_MEM_OK)
        count_holds(&wish->list, wish->side, 1);
    return sm_none_if_ok(status);
}

/* Returns the number of exports that would be left of objects which nobody holds any more. */
static size_t count_exports_left(const struct sm_list *list, synced_mem_side side)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (exports_of(list, i)->holds[side] <= 1)
            count += sm_exports_count(exports_of(list, i), side);
    return count;
}

/* The numbers change first, so that of two threads which end holds of an object one ends the last of them. */
static PyObject *end_hold(const struct sm_list *list, synced_mem_side side)
{
    synced_mem_status status;
    const size_t exports = count_exports_left(list, side);
    if (exports > 0) {
        PyErr_Format(PyExc_BufferError, "%zu exports of the %s copies exist: the objects stay held", exports,
                     side == SYNCED_MEM_SIDE_CPU ? "host" : "device");
        return NULL;
    }
    count_holds(list, side, -1);
    SM_CALL(status, synced_mem_unhold_n(list->handles, list->count, side));
    if (status != SYNCED_MEM_OK)
        count_holds(list, side, 1);
    return sm_none_if_ok(status);
}

static PyObject *begin_holds(PyObject *module, PyObject *arguments, PyObject *names)
{
    struct wish wish;
    (void)module;
    if (parse_hold(arguments, names, &wish) < 0)
        return NULL;
    PyObject *const result = begin_hold(&wish);
    free_wish(&wish);
    return result;
}

static PyObject *end_holds(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"memories", "side", NULL};
    PyObject *memories, *of_side = NULL, *result = NULL;
    synced_mem_side side = SYNCED_MEM_SIDE_GPU;
    struct sm_list list;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|O:end_hold", keywords, &memories, &of_side) ||
        (of_side && sm_parse_side(of_side, &side) < 0))
        return NULL;
    if (sm_list_read(&list, memories) == 0)
        result = end_hold(&list, side);
    sm_list_free(&list);
    return result;
}

/* ---- Holds as blocks ---- */

static PyObject *new_hold(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    struct wish wish;
    if (parse_hold(arguments, names, &wish) < 0)
        return NULL;
    struct hold *const hold = (struct hold *)PyType_GenericAlloc(type, 0);
    if (hold)
        hold->wish = wish;
    else
        free_wish(&wish);
    return (PyObject *)hold;
}

static void free_hold(struct hold *hold)
{
    PyTypeObject *const type = Py_TYPE((PyObject *)hold);
    PyObject *error, *value, *traceback;
    PyErr_Fetch(&error, &value, &traceback);
    free_wish(&hold->wish);
    PyErr_Restore(error, value, traceback);
    PyObject_Free(hold);
    Py_DECREF(type);
}

static PyObject *enter_hold(struct hold *hold, PyObject *nothing)
{
    (void)nothing;
    PyObject *const result = begin_hold(&hold->wish);
    Py_XDECREF(result);
    if (!result)
        return NULL;
    Py_INCREF((PyObject *)hold);
    return (PyObject *)hold;
}

static PyObject *exit_hold(struct hold *hold, PyObject *arguments)
{
    PyObject *type, *own, *traceback;
    if (!PyArg_ParseTuple(arguments, "OOO:__exit__", &type, &own, &traceback))
        return NULL;
    PyObject *const result = end_hold(&hold->wish.list, hold->wish.side);
    if (!result && own != Py_None)
        sm_chain_exception(own);
    return result;
}

/* ---- Budgets ---- */

/* Stores bytes, or no budget for None. */
static int parse_bytes(PyObject *object, uint64_t *bytes)
{
    *bytes = object == Py_None ? SYNCED_MEM_NO_BUDGET : PyLong_AsUnsignedLongLong(object);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *set_gpu_budget(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"device", "bytes", NULL};
    PyObject *of_bytes;
    synced_mem_status status;
    uint64_t bytes, over;
    int device;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "iO:gpu_set_budget", keywords, &device, &of_bytes) ||
        parse_bytes(of_bytes, &bytes) < 0)
        return NULL;
    SM_CALL(status, synced_mem_gpu_set_budget(device, bytes, &over));
    return status == SYNCED_MEM_OK ? PyLong_FromUnsignedLongLong(over) : sm_raise(status);
}

static PyObject *set_cpu_budget(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"bytes", "scratch", NULL};
    PyObject *of_bytes, *file = Py_None;
    synced_mem_file *scratch;
    synced_mem_status status;
    uint64_t bytes, over;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|O:cpu_set_budget", keywords, &of_bytes, &file) ||
        parse_bytes(of_bytes, &bytes) < 0 || sm_file_parse(file, &scratch) < 0)
        return NULL;
    SM_CALL(status, synced_mem_cpu_set_budget(bytes, scratch, &over));
    return status == SYNCED_MEM_OK ? PyLong_FromUnsignedLongLong(over) : sm_raise(status);
}

/* ---- The module's part ---- */

PyDoc_STRVAR(
    hold_doc,
    "hold(memories, side=\"gpu\", mode=\"read\", stream=None)\n--\n\n"
    "A block in which evictable objects are held on a side: \"with synced_mem.hold([a, b], \"gpu\", \"mutable\"):\". "
    "Arguments:\nbegin_hold(). An array that outlives the last hold of its object would use memory that may go. The "
    "end of the block then\nraises BufferError with the number of exports and keeps the hold: drop them, and call "
    "end_hold().");
PyDoc_STRVAR(
    begin_doc,
    "begin_hold(memories, side=\"gpu\", mode=\"read\", stream=None)\n--\n\n"
    "Holds evictable objects on a side, which gets memory and the contents, until as many calls of end_hold().\n\n"
    "memories: a Memory or a sequence; all of them are held, or none. mode: of the accesses; nothing is moved for "
    "\"overwrite\".\nstream: as in gpu(), in whose order the contents come to the device; None: the current stream of "
    "stream(), else one of the\nlibrary's, so that a hold ahead is a prefetch. Raises OutOfDeviceMemoryError or "
    "OutOfHostMemoryError if they do not fit,\nInvalidStateError if an object is not evictable, "
    "InvalidArgumentError if it is named twice, or another Error.");
PyDoc_STRVAR(end_doc, "end_hold(memories, side=\"gpu\")\n--\n\n"
                      "Ends a hold of each object on the side. Work that uses the arrays is queued before. Raises "
                      "BufferError with the number of\nexports of objects that would not be held any more, "
                      "InvalidStateError if an object is not held, or another Error: all\nstay held.");
PyDoc_STRVAR(gpu_budget_doc,
             "gpu_set_budget(device, bytes)\n--\n\n"
             "Sets the most memory that the library has on a device, in bytes; None: no limit. Evictable objects that "
             "nobody holds go.\nReturns by how many bytes the library still exceeds it. Raises an Error.");
PyDoc_STRVAR(cpu_budget_doc,
             "cpu_set_budget(bytes, scratch=None)\n--\n\n"
             "Sets the most memory that host copies have, in bytes; None: no limit. Accesses to the host copies of "
             "evictable objects\nthen need a hold on the host, so set it while no array uses them. scratch: a File on "
             "a disk that the library overwrites,\nfor contents that only the host has; None: these stay. Returns by "
             "how many bytes they still exceed it. Raises\nInvalidArgumentError for a file that can't be written or is "
             "in memory, or another Error.");

static PyMethodDef methods[] = {
    {"__enter__", (PyCFunction)enter_hold, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)exit_hold, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)hold_doc},
    {Py_tp_new, new_hold},
    {Py_tp_dealloc, free_hold},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "synced_mem.hold",
    .basicsize = sizeof(struct hold),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"begin_hold", (PyCFunction)(void (*)(void))begin_holds, METH_VARARGS | METH_KEYWORDS, begin_doc},
    {"end_hold", (PyCFunction)(void (*)(void))end_holds, METH_VARARGS | METH_KEYWORDS, end_doc},
    {"gpu_set_budget", (PyCFunction)(void (*)(void))set_gpu_budget, METH_VARARGS | METH_KEYWORDS, gpu_budget_doc},
    {"cpu_set_budget", (PyCFunction)(void (*)(void))set_cpu_budget, METH_VARARGS | METH_KEYWORDS, cpu_budget_doc},
    {NULL, NULL, 0, NULL},
};

int sm_hold_init(PyObject *module)
{
    return sm_add_type(module, &spec, &hold_type) < 0 ? -1 : sm_add_functions(module, functions);
}
