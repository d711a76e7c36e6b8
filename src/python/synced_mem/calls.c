/* The calls of a Memory that are neither accesses nor exports, and those of several. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Transfers ---- */

typedef synced_mem_status (*transfer)(synced_mem *, synced_mem_stream);

static PyObject *transfer_on(struct sm_memory *memory, PyObject *arguments, PyObject *names, transfer call)
{
    static char *keywords[] = {"stream", NULL};
    PyObject *object = NULL;
    struct sm_stream stream;
    synced_mem_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O", keywords, &object) ||
        sm_stream_parse(&stream, object, SYNCED_MEM_STREAM_LIBRARY) < 0)
        return NULL;
    SM_CALL(status, call(memory->handle, stream.handle));
    PyObject *const result = sm_none_if_ok(status);
    sm_stream_close(&stream);
    return result;
}

static PyObject *push(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    return transfer_on(memory, arguments, names, synced_mem_async_gpu_push);
}

static PyObject *pull(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    return transfer_on(memory, arguments, names, synced_mem_async_cpu_pull);
}

static PyObject *end_use(struct sm_memory *memory, PyObject *object)
{
    struct sm_stream stream;
    synced_mem_status status;
    if (sm_stream_parse(&stream, object, NULL) < 0)
        return NULL;
    SM_CALL(status, synced_mem_end_use_on(memory->handle, stream.handle));
    PyObject *const result = sm_none_if_ok(status);
    sm_stream_close(&stream);
    return result;
}

static PyObject *wait_for(struct sm_memory *memory, PyObject *nothing)
{
    synced_mem_status status;
    (void)nothing;
    SM_CALL(status, synced_mem_wait(memory->handle));
    return sm_none_if_ok(status);
}

static PyObject *query(struct sm_memory *memory, PyObject *nothing)
{
    synced_mem_status status;
    int pending;
    (void)nothing;
    SM_CALL(status, synced_mem_query(memory->handle, &pending));
    return status == SYNCED_MEM_OK ? PyBool_FromLong(pending) : sm_raise(status);
}

static PyObject *has_arrived(struct sm_memory *memory, PyObject *object)
{
    synced_mem_side side;
    synced_mem_status status;
    int arrived;
    if (sm_parse_side(object, &side) < 0)
        return NULL;
    SM_CALL(status, synced_mem_has_arrived(memory->handle, side, &arrived));
    return status == SYNCED_MEM_OK ? PyBool_FromLong(arrived) : sm_raise(status);
}

/* ---- Contents and memory ---- */

static PyObject *clear(struct sm_memory *memory, PyObject *nothing)
{
    synced_mem_status status;
    (void)nothing;
    SM_CALL(status, synced_mem_clear(memory->handle));
    return sm_none_if_ok(status);
}

static PyObject *resize(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"shape", "discard", NULL};
    PyObject *shape;
    synced_mem_status status;
    int discard = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|$p:resize", keywords, &shape, &discard))
        return NULL;
    struct sm_layout *const layout = sm_layout_parse(memory->layout->dtype, shape);
    if (!layout)
        return NULL;
    SM_CALL(status, discard ? synced_mem_resize_discard(memory->handle, layout->bytes)
                            : synced_mem_resize(memory->handle, layout->bytes));
    if (status != SYNCED_MEM_OK) {
        sm_layout_release(layout);
        return sm_raise_unless_exported(memory, status, 0);
    }
    sm_layout_release(memory->layout);
    memory->layout = layout;
    Py_RETURN_NONE;
}

static PyObject *release_data(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"side", NULL};
    PyObject *object = Py_None;
    synced_mem_side side = 0;
    synced_mem_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O:release_data", keywords, &object) ||
        (object != Py_None && sm_parse_side(object, &side) < 0))
        return NULL;
    SM_CALL(status, side == SYNCED_MEM_SIDE_CPU   ? synced_mem_release_cpu_data(memory->handle)
                    : side == SYNCED_MEM_SIDE_GPU ? synced_mem_release_gpu_data(memory->handle)
                                                  : synced_mem_release_data(memory->handle));
    return sm_raise_unless_exported(memory, status, (int)side);
}

/* ---- Text ---- */

/* Prints to a file in memory by a function of the library, and returns the text. */
PyObject *sm_text_of(synced_mem_status (*print)(const void *, FILE *), const void *what)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&text, &size);
    synced_mem_status status;
    if (!file)
        return PyErr_NoMemory();
    SM_CALL(status, print(what, file));
    fclose(file);
    PyObject *const result =
        status == SYNCED_MEM_OK ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "replace") : sm_raise(status);
    free(text);
    return result;
}

static synced_mem_status print_object(const void *object, FILE *file)
{
    return synced_mem_print(object, file);
}

static PyObject *describe(struct sm_memory *memory, PyObject *nothing)
{
    (void)nothing;
    return sm_text_of(print_object, memory->handle);
}

/* ---- Several objects ---- */

void sm_list_free(struct sm_list *list)
{
    PyMem_Free(list->handles);
    Py_XDECREF(list->objects);
}

int sm_list_read(struct sm_list *list, PyObject *sequence)
{
    *list = (struct sm_list){.objects = Py_TYPE(sequence) == sm_memory_type ? PyTuple_Pack(1, sequence)
                                                                            : PySequence_Tuple(sequence)};
    if (!list->objects)
        return -1;
    list->count = (size_t)PyTuple_Size(list->objects);
    list->handles = PyMem_Malloc((list->count + 1) * sizeof *list->handles);
    if (!list->handles) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < list->count; i++) {
        PyObject *const object = PyTuple_GetItem(list->objects, (Py_ssize_t)i);
        if (Py_TYPE(object) != sm_memory_type) {
            PyErr_Format(PyExc_TypeError, "not a Memory: %R", object);
            return -1;
        }
        list->handles[i] = ((struct sm_memory *)object)->handle;
    }
    return 0;
}

typedef synced_mem_status (*transfer_n)(synced_mem *const *, size_t, synced_mem_stream);

static PyObject *transfer_list(PyObject *arguments, PyObject *names, transfer_n call)
{
    static char *keywords[] = {"memories", "stream", NULL};
    PyObject *sequence, *object = NULL, *result = NULL;
    struct sm_stream stream;
    struct sm_list list;
    synced_mem_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|O", keywords, &sequence, &object) ||
        sm_stream_parse(&stream, object, SYNCED_MEM_STREAM_LIBRARY) < 0)
        return NULL;
    if (sm_list_read(&list, sequence) == 0) {
        SM_CALL(status, call(list.handles, list.count, stream.handle));
        result = sm_none_if_ok(status);
    }
    sm_list_free(&list);
    sm_stream_close(&stream);
    return result;
}

static PyObject *push_list(PyObject *module, PyObject *arguments, PyObject *names)
{
    (void)module;
    return transfer_list(arguments, names, synced_mem_async_gpu_push_n);
}

static PyObject *pull_list(PyObject *module, PyObject *arguments, PyObject *names)
{
    (void)module;
    return transfer_list(arguments, names, synced_mem_async_cpu_pull_n);
}

static PyObject *copy_lists(const struct sm_list *to, const struct sm_list *from, PyObject *of_side,
                            PyObject *of_stream)
{
    synced_mem_side side = SYNCED_MEM_SIDE_GPU;
    struct sm_stream stream;
    synced_mem_status status;
    if (to->count != from->count) {
        PyErr_SetString(PyExc_ValueError, "a copy has as many sources as targets");
        return NULL;
    }
    if ((of_side && sm_parse_side(of_side, &side) < 0) ||
        sm_stream_parse(&stream, of_stream, SYNCED_MEM_STREAM_LIBRARY) < 0)
        return NULL;
    SM_CALL(status, side == SYNCED_MEM_SIDE_GPU
                        ? synced_mem_async_gpu_copy_n(to->handles, from->handles, to->count, stream.handle)
                        : synced_mem_cpu_copy_n(to->handles, from->handles, to->count));
    PyObject *const result = sm_none_if_ok(status);
    sm_stream_close(&stream);
    return result;
}

static PyObject *copy(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"to", "from_", "side", "stream", NULL};
    PyObject *to, *from, *side = NULL, *stream = NULL, *result = NULL;
    struct sm_list targets = {0}, sources = {0};
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OO|OO:copy", keywords, &to, &from, &side, &stream))
        return NULL;
    if (sm_list_read(&targets, to) == 0 && sm_list_read(&sources, from) == 0)
        result = copy_lists(&targets, &sources, side, stream);
    sm_list_free(&targets);
    sm_list_free(&sources);
    return result;
}

/* ---- The methods and the functions ---- */

PyDoc_STRVAR(
    push_doc,
    "push(stream=None)\n--\n\n"
    "Queues the transfer to the device. stream: as in gpu(); None: the current stream of stream(), else one of "
    "the library's.\nRaises InvalidStateError if the host copy is not valid, or another Error.");
PyDoc_STRVAR(
    pull_doc,
    "pull(stream=None)\n--\n\n"
    "Queues the transfer to the host. stream: as in push(). Raises InvalidStateError if the device copy is not "
    "valid, or\nanother Error.");
PyDoc_STRVAR(end_use_doc,
             "end_use(stream, /)\n--\n\n"
             "Ends the stream's use of the device copy: later conflicting calls wait only for its work up to "
             "now. Raises an Error.");
PyDoc_STRVAR(wait_doc, "wait()\n--\n\nWaits for the library's transfers on the memory. Raises an Error.");
PyDoc_STRVAR(query_doc, "query()\n--\n\nReturns whether transfers on the memory are pending. Raises an Error.");
PyDoc_STRVAR(arrived_doc,
             "has_arrived(side, /)\n--\n\n"
             "Returns whether the side, \"cpu\" or \"gpu\", is valid and nothing is on its way to it. Raises "
             "an Error.");
PyDoc_STRVAR(clear_doc, "clear()\n--\n\nGives up the contents: the next read sees zeros. The memory stays. Raises an "
                        "Error.");
PyDoc_STRVAR(resize_doc,
             "resize(shape, *, discard=False)\n--\n\n"
             "Changes the shape, and keeps the contents up to the smaller size in bytes; discard=True: gives them up. "
             "Raises\nBufferError with the number of exports while there are any, InvalidStateError for a view, or "
             "another Error.");
PyDoc_STRVAR(
    release_doc,
    "release_data(side=None)\n--\n\n"
    "Gives up the memory of one side, whose contents go to the other side first if that is stale; None: of both, "
    "and the\ncontents. Raises BufferError with the number of exports while there are any, InvalidStateError for "
    "a view, or another Error.");
PyDoc_STRVAR(describe_doc, "describe()\n--\n\nReturns the state of the object and its copies as text, whose format may "
                           "change.");
PyDoc_STRVAR(
    begin_turn_doc,
    "begin_turn(side=\"cpu\", turn=\"read\", timeout=None, *, newer_than=None, slot=None, consumed=False)\n--\n\n"
    "Begins a turn of this process, which end_turn() ends. side: to which a turn to read brings the contents. "
    "timeout:\nseconds, or None for ever. newer_than: waits for a version that is newer. slot: waits for one "
    "that the slot has not\nconsumed, which the end of the turn does. consumed: to write, waits until all "
    "slots have consumed the contents. Raises\nTimeoutError, OwnerDiedError, ValueError, or another Error.");
PyDoc_STRVAR(end_turn_doc,
             "end_turn()\n--\n\n"
             "Ends the turn. Raises BufferError with the number of exports while there are any, or an Error: "
             "the turn goes on.");
PyDoc_STRVAR(
    abandon_turn_doc,
    "abandon_turn()\n--\n\n"
    "Ends the turn as the end of the process would: a turn to read consumes nothing, and what was written is "
    "lost. Raises\nBufferError with the number of exports while there are any, or an Error: the turn goes on.");
PyDoc_STRVAR(take_slot_doc, "take_slot(slot=None)\n--\n\n"
                            "Takes a slot of a reader, 0 to 63, or the lowest that is free. Returns its number. Raises "
                            "InvalidStateError if it is\ntaken, or all are, or another Error.");
PyDoc_STRVAR(end_slot_doc, "end_slot(slot)\n--\n\nEnds a slot: turns to write wait for it no more. Raises an Error.");
PyDoc_STRVAR(slot_version_doc,
             "slot_version(slot)\n--\n\nReturns the version that a slot has consumed. Raises an Error.");
PyDoc_STRVAR(
    share_doc,
    "share(socket, timeout=None)\n--\n\n"
    "Gives a shareable object to the process at the other end of a Unix socket (a socket or a descriptor). "
    "timeout: seconds,\nor None for ever. Raises TimeoutError, PeerError, or another Error. Close the socket after "
    "a failure.");

static PyMethodDef methods[] = {
    {"push", (PyCFunction)(void (*)(void))push, METH_VARARGS | METH_KEYWORDS, push_doc},
    {"pull", (PyCFunction)(void (*)(void))pull, METH_VARARGS | METH_KEYWORDS, pull_doc},
    {"end_use", (PyCFunction)end_use, METH_O, end_use_doc},
    {"wait", (PyCFunction)wait_for, METH_NOARGS, wait_doc},
    {"query", (PyCFunction)query, METH_NOARGS, query_doc},
    {"has_arrived", (PyCFunction)has_arrived, METH_O, arrived_doc},
    {"clear", (PyCFunction)clear, METH_NOARGS, clear_doc},
    {"resize", (PyCFunction)(void (*)(void))resize, METH_VARARGS | METH_KEYWORDS, resize_doc},
    {"release_data", (PyCFunction)(void (*)(void))release_data, METH_VARARGS | METH_KEYWORDS, release_doc},
    {"describe", (PyCFunction)describe, METH_NOARGS, describe_doc},
    {"begin_turn", (PyCFunction)(void (*)(void))sm_memory_begin_turn, METH_VARARGS | METH_KEYWORDS, begin_turn_doc},
    {"end_turn", (PyCFunction)sm_memory_end_turn, METH_NOARGS, end_turn_doc},
    {"abandon_turn", (PyCFunction)sm_memory_abandon_turn, METH_NOARGS, abandon_turn_doc},
    {"take_slot", (PyCFunction)(void (*)(void))sm_memory_take_slot, METH_VARARGS | METH_KEYWORDS, take_slot_doc},
    {"end_slot", (PyCFunction)sm_memory_end_slot, METH_O, end_slot_doc},
    {"slot_version", (PyCFunction)sm_memory_slot_version, METH_O, slot_version_doc},
    {"share", (PyCFunction)(void (*)(void))sm_memory_share, METH_VARARGS | METH_KEYWORDS, share_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(push_list_doc,
             "push(memories, stream=None)\n--\n\nAs Memory.push(), of a sequence of objects in one call.");
PyDoc_STRVAR(pull_list_doc,
             "pull(memories, stream=None)\n--\n\nAs Memory.pull(), of a sequence of objects in one call.");
PyDoc_STRVAR(copy_doc,
             "copy(to, from_, side=\"gpu\", stream=None)\n--\n\n"
             "Copies the contents of an object to another of the same size in bytes, or of a sequence of objects to as "
             "many others.\nside: of the copies that get them. \"gpu\" queues the copy on the stream, which is as in "
             "Memory.push(); \"cpu\" waits\nuntil the contents have arrived. Raises an Error.");

static PyMethodDef functions[] = {
    {"push", (PyCFunction)(void (*)(void))push_list, METH_VARARGS | METH_KEYWORDS, push_list_doc},
    {"pull", (PyCFunction)(void (*)(void))pull_list, METH_VARARGS | METH_KEYWORDS, pull_list_doc},
    {"copy", (PyCFunction)(void (*)(void))copy, METH_VARARGS | METH_KEYWORDS, copy_doc},
    {NULL, NULL, 0, NULL},
};

int sm_calls_init(PyObject *module)
{
    return sm_add_methods(sm_memory_type, methods) < 0 ? -1 : sm_add_functions(module, functions);
}
