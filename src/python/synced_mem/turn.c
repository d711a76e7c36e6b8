/* Shareable objects: turns, and what goes over sockets. */
#include "core.h"

static PyTypeObject *turn_type;

/* The arguments of a turn, and the call that begins it. */
struct wish {
    synced_mem_side side;
    synced_mem_turn kind;
    int timeout;
    enum { ANY, NEWER, SLOT, CONSUMED } what;
    unsigned long long version; /* of NEWER */
    int slot;                   /* of SLOT */
};

struct turn {
    PyObject base;
    struct sm_memory *memory;
    struct wish wish;
};

/* ---- Turns ---- */

static int parse_kind(PyObject *object, synced_mem_turn *kind)
{
    *kind = SYNCED_MEM_TURN_READ;
    if (!object || (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, "read") == 0))
        return 0;
    *kind = SYNCED_MEM_TURN_WRITE;
    if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, "write") == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "a turn is \"read\" or \"write\", not %R", object);
    return -1;
}

static int parse_number(PyObject *object, int *number)
{
    const long value = PyLong_AsLong(object);
    if (value == -1 && PyErr_Occurred())
        return -1;
    *number = value >= 0 && value < SYNCED_MEM_SLOTS ? (int)value : SYNCED_MEM_SLOTS;
    return 0;
}

static int refuse_wish(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return -1;
}

static int parse_wish(PyObject *newer_than, PyObject *slot, int consumed, struct wish *wish)
{
    const bool is_newer = newer_than && newer_than != Py_None;
    const bool is_of_slot = slot && slot != Py_None;
    wish->what = is_newer ? NEWER : is_of_slot ? SLOT : consumed ? CONSUMED : ANY;
    if (is_newer + is_of_slot + consumed > 1)
        return refuse_wish("newer_than, slot and consumed exclude one another");
    if ((is_newer || is_of_slot) && wish->kind != SYNCED_MEM_TURN_READ)
        return refuse_wish("newer_than and slot are for turns to read");
    if (consumed && wish->kind != SYNCED_MEM_TURN_WRITE)
        return refuse_wish("consumed is for turns to write");
    if (is_of_slot && parse_number(slot, &wish->slot) < 0)
        return -1;
    wish->version = is_newer ? PyLong_AsUnsignedLongLong(newer_than) : 0;
    return PyErr_Occurred() ? -1 : 0;
}

static int parse_turn(PyObject *arguments, PyObject *names, struct wish *wish)
{
    static char *keywords[] = {"side", "turn", "timeout", "newer_than", "slot", "consumed", NULL};
    PyObject *side = NULL, *kind = NULL, *timeout = NULL, *newer_than = NULL, *slot = NULL;
    int consumed = 0;
    *wish = (struct wish){.side = SYNCED_MEM_SIDE_CPU};
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|OOO$OOp:turn", keywords, &side, &kind, &timeout, &newer_than,
                                     &slot, &consumed) ||
        (side && sm_parse_side(side, &wish->side) < 0) || parse_kind(kind, &wish->kind) < 0 ||
        sm_parse_timeout(timeout, &wish->timeout) < 0)
        return -1;
    return parse_wish(newer_than, slot, consumed, wish);
}

static synced_mem_status begin_turn(synced_mem *mem, const struct wish *wish)
{
    switch (wish->what) {
    case NEWER:
        return synced_mem_begin_newer_turn(mem, wish->side, wish->version, wish->timeout);
    case SLOT:
        return synced_mem_begin_slot_turn(mem, wish->side, wish->slot, wish->timeout);
    case CONSUMED:
        return synced_mem_begin_consumed_turn(mem, wish->side, wish->timeout);
    case ANY:
        break;
    }
    return synced_mem_begin_turn(mem, wish->side, wish->kind, wish->timeout);
}

PyObject *sm_memory_turn(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    struct turn *const turn = PyObject_New(struct turn, turn_type);
    if (!turn)
        return NULL;
    Py_INCREF((PyObject *)memory);
    turn->memory = memory;
    if (parse_turn(arguments, names, &turn->wish) == 0)
        return (PyObject *)turn;
    Py_DECREF((PyObject *)turn);
    return NULL;
}

static void free_turn(struct turn *turn)
{
    PyTypeObject *const type = Py_TYPE((PyObject *)turn);
    Py_DECREF((PyObject *)turn->memory);
    PyObject_Free(turn);
    Py_DECREF(type);
}

PyObject *sm_memory_begin_turn(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    synced_mem_status status;
    struct wish wish;
    if (parse_turn(arguments, names, &wish) < 0)
        return NULL;
    SM_CALL(status, begin_turn(memory->handle, &wish));
    return sm_none_if_ok(status);
}

PyObject *sm_memory_end_turn(struct sm_memory *memory, PyObject *nothing)
{
    synced_mem_status status;
    (void)nothing;
    SM_CALL(status, synced_mem_end_turn(memory->handle));
    return sm_raise_unless_exported(memory, status, 0);
}

PyObject *sm_memory_abandon_turn(struct sm_memory *memory, PyObject *nothing)
{
    synced_mem_status status;
    (void)nothing;
    SM_CALL(status, synced_mem_abandon_turn(memory->handle));
    return sm_raise_unless_exported(memory, status, 0);
}

static PyObject *enter_turn(struct turn *turn, PyObject *nothing)
{
    synced_mem_status status;
    (void)nothing;
    SM_CALL(status, begin_turn(turn->memory->handle, &turn->wish));
    if (status != SYNCED_MEM_OK)
        return sm_raise(status);
    Py_INCREF((PyObject *)turn->memory);
    return (PyObject *)turn->memory;
}

static PyObject *exit_turn(struct turn *turn, PyObject *arguments)
{
    PyObject *type, *own, *traceback;
    if (!PyArg_ParseTuple(arguments, "OOO:__exit__", &type, &own, &traceback))
        return NULL;
    if (own == Py_None)
        return sm_memory_end_turn(turn->memory, NULL);
    PyObject *const result = sm_memory_abandon_turn(turn->memory, NULL);
    if (!result)
        sm_chain_exception(own);
    return result;
}

/* ---- Versions and slots ---- */

PyObject *sm_memory_version(struct sm_memory *memory, void *unused)
{
    synced_mem_status status;
    uint64_t version;
    (void)unused;
    SM_CALL(status, synced_mem_contents_version(memory->handle, &version));
    return status == SYNCED_MEM_OK ? PyLong_FromUnsignedLongLong(version) : sm_raise(status);
}

PyObject *sm_memory_take_slot(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"slot", NULL};
    PyObject *of_slot = NULL;
    synced_mem_status status;
    int wanted = SYNCED_MEM_ANY_SLOT, slot;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O:take_slot", keywords, &of_slot) ||
        (of_slot && of_slot != Py_None && parse_number(of_slot, &wanted) < 0))
        return NULL;
    SM_CALL(status, synced_mem_take_slot(memory->handle, wanted, &slot));
    return status == SYNCED_MEM_OK ? PyLong_FromLong(slot) : sm_raise(status);
}

PyObject *sm_memory_end_slot(struct sm_memory *memory, PyObject *of_slot)
{
    synced_mem_status status;
    int slot;
    if (parse_number(of_slot, &slot) < 0)
        return NULL;
    SM_CALL(status, synced_mem_end_slot(memory->handle, slot));
    return sm_none_if_ok(status);
}

PyObject *sm_memory_slot_version(struct sm_memory *memory, PyObject *of_slot)
{
    synced_mem_status status;
    uint64_t version;
    int slot;
    if (parse_number(of_slot, &slot) < 0)
        return NULL;
    SM_CALL(status, synced_mem_slot_version(memory->handle, slot, &version));
    return status == SYNCED_MEM_OK ? PyLong_FromUnsignedLongLong(version) : sm_raise(status);
}

/* ---- Sockets ---- */

PyObject *sm_memory_share(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"socket", "timeout", NULL};
    PyObject *socket, *of_timeout = NULL;
    synced_mem_status status;
    int timeout;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|O:share", keywords, &socket, &of_timeout) ||
        sm_parse_timeout(of_timeout, &timeout) < 0)
        return NULL;
    const int descriptor = PyObject_AsFileDescriptor(socket);
    if (descriptor < 0)
        return NULL;
    SM_CALL(status, synced_mem_share(memory->handle, descriptor, timeout));
    return sm_none_if_ok(status);
}

PyDoc_STRVAR(
    receive_doc,
    "receive(socket, shape=None, dtype=\"uint8\", timeout=None)\n--\n\n"
    "Returns a Memory of the object that the process at the other end of a Unix socket gives by Memory.share(). "
    "It has no turn.\n\nshape and dtype are this process's own; None: all bytes. timeout: seconds, or None for "
    "ever. Raises ValueError if the\nobject has fewer bytes, TimeoutError, PeerError, or another Error. Close "
    "the socket after a failure.");

/* Makes the Memory of a received object, whose reference it takes over. */
static PyObject *wrap_received(synced_mem *handle, const struct sm_dtype *dtype, PyObject *shape)
{
    const size_t size = synced_mem_size(handle);
    const int64_t whole = (int64_t)(size * 8 / dtype->type.bits);
    struct sm_layout *const layout =
        shape && shape != Py_None ? sm_layout_parse(dtype, shape) : sm_layout_new(dtype, 1, &whole);
    PyObject *memory = NULL;
    if (layout && layout->bytes <= size)
        memory = sm_memory_gated(sm_memory_new(handle, layout, NULL, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE));
    else
        sm_release(handle);
    if (layout && layout->bytes > size)
        PyErr_Format(PyExc_ValueError, "the shape has %zu bytes, the object %zu", layout->bytes, size);
    sm_layout_release(layout);
    return memory;
}

static PyObject *receive(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"socket", "shape", "dtype", "timeout", NULL};
    PyObject *socket, *shape = NULL, *type = NULL, *of_timeout = NULL;
    synced_mem_status status;
    synced_mem *handle;
    int timeout;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|OOO:receive", keywords, &socket, &shape, &type,
                                     &of_timeout) ||
        sm_parse_timeout(of_timeout, &timeout) < 0)
        return NULL;
    const struct sm_dtype *const dtype = type ? sm_dtype_parse(type) : sm_dtype_find((struct sm_dl_type){1, 8, 1});
    const int descriptor = dtype ? PyObject_AsFileDescriptor(socket) : -1;
    if (descriptor < 0)
        return NULL;
    SM_CALL(status, synced_mem_receive(&handle, descriptor, timeout));
    return status == SYNCED_MEM_OK ? wrap_received(handle, dtype, shape) : sm_raise(status);
}

/* ---- The module's part ---- */

static PyMethodDef methods[] = {
    {"__enter__", (PyCFunction)enter_turn, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)exit_turn, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {{Py_tp_dealloc, free_turn}, {Py_tp_methods, methods}, {0, NULL}};

static PyType_Spec spec = {
    .name = "synced_mem.Turn",
    .basicsize = sizeof(struct turn),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"receive", (PyCFunction)(void (*)(void))receive, METH_VARARGS | METH_KEYWORDS, receive_doc},
    {NULL, NULL, 0, NULL},
};

int sm_turn_init(PyObject *module)
{
    return sm_add_type(module, &spec, &turn_type) < 0 ? -1 : sm_add_functions(module, functions);
}
