/* Memory: an object of the library, with a data type and a shape. */
#include "core.h"

#include <limits.h>
#include <string.h>
#include <structmember.h>

PyTypeObject *sm_memory_type;

/* ---- Life ---- */

void sm_release(synced_mem *handle)
{
    SM_UNLOCKED((void)synced_mem_release(handle));
}

PyObject *sm_memory_new(synced_mem *handle, struct sm_layout *layout, struct sm_exports *exports, synced_mem_side side,
                        synced_mem_mode mode)
{
    struct sm_memory *const memory = (struct sm_memory *)PyType_GenericAlloc(sm_memory_type, 0);
    struct sm_exports *const counts = exports ? sm_exports_retain(exports) : sm_exports_new();
    if (!memory || !counts) {
        Py_XDECREF((PyObject *)memory);
        sm_exports_release(counts);
        sm_release(handle);
        return PyErr_NoMemory();
    }
    memory->handle = handle;
    memory->layout = sm_layout_retain(layout);
    memory->exports = counts;
    memory->side = side;
    memory->mode = mode;
    return (PyObject *)memory;
}

PyObject *sm_memory_derive(const struct sm_memory *memory, synced_mem *handle, struct sm_layout *layout)
{
    PyObject *const other = sm_memory_new(handle, layout, memory->exports, memory->side, memory->mode);
    if (other)
        ((struct sm_memory *)other)->is_evictable = memory->is_evictable;
    return memory->is_gated ? sm_memory_gated(other) : other;
}

PyObject *sm_memory_gated(PyObject *memory)
{
    if (memory)
        ((struct sm_memory *)memory)->is_gated = true;
    return memory;
}

/* If the release fails, the object stays alive: nobody could repeat the call. */
static void free_memory(struct sm_memory *memory)
{
    PyTypeObject *const type = Py_TYPE((PyObject *)memory);
    PyObject *error, *value, *traceback;
    PyErr_Fetch(&error, &value, &traceback);
    if (memory->weak_references)
        PyObject_ClearWeakRefs((PyObject *)memory);
    if (memory->handle)
        sm_release(memory->handle);
    sm_layout_release(memory->layout);
    sm_exports_release(memory->exports);
    PyErr_Restore(error, value, traceback);
    PyObject_Free(memory);
    Py_DECREF(type);
}

/* ---- Arguments of the constructor ---- */

struct creation {
    PyObject *shape, *dtype, *device, *side, *mode, *shareable;
    const char *name, *placement;
    Py_ssize_t alignment;
    int evictable;
};

static int find_name(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static int fail_value(const char *format, const char *name)
{
    PyErr_Format(PyExc_ValueError, format, name);
    return -1;
}

static int parse_placement(const char *name, synced_mem_placement_kind *placement)
{
    static const char *const names[] = {"separate", "mapped", "managed", "automatic"};
    const int found = name ? find_name(name, names, 4) : 0;
    *placement = (synced_mem_placement_kind)found;
    return found < 0 ? fail_value("no placement: \"%s\"", name) : 0;
}

static int parse_shareable(PyObject *object, unsigned *shareable)
{
    static const char *const names[] = {"", "same user", "any user"};
    if (!object || object == Py_None || object == Py_False)
        return 0;
    const char *const name = object == Py_True         ? "same user"
                             : PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL)
                                                       : "of another type";
    const int found = name ? find_name(name, names, 3) : -1;
    *shareable = (unsigned)found;
    return found > 0 ? 0 : fail_value("shareable is False, True, \"same user\" or \"any user\", not \"%s\"", name);
}

static int parse_device(PyObject *object, int *device)
{
    if (!object || object == Py_None)
        return 0;
    const long number = PyLong_AsLong(object);
    if (number == -1 && PyErr_Occurred())
        return -1;
    *device = number < 0 || number > INT_MAX ? INT_MAX : (int)number; /* the library refuses it */
    return 0;
}

static int parse_options(const struct creation *arguments, synced_mem_options *options)
{
    synced_mem_options_init(options);
    options->name = arguments->name;
    options->evictable = arguments->evictable != 0;
    options->alignment = arguments->alignment < 0 ? SIZE_MAX : (size_t)arguments->alignment;
    if (parse_device(arguments->device, &options->device) < 0 ||
        parse_placement(arguments->placement, &options->placement) < 0)
        return -1;
    return parse_shareable(arguments->shareable, &options->shareable);
}

static int parse_export(const struct creation *arguments, synced_mem_side *side, synced_mem_mode *mode)
{
    *side = SYNCED_MEM_SIDE_CPU;
    *mode = SYNCED_MEM_MUTABLE;
    if (arguments->side && sm_parse_side(arguments->side, side) < 0)
        return -1;
    if (arguments->mode && sm_parse_mode(arguments->mode, mode) < 0)
        return -1;
    return *mode == SYNCED_MEM_OVERWRITE ? fail_value("an object exports itself to be \"read\" or \"%s\"", "mutable")
                                         : 0;
}

static PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"shape",     "dtype",     "name",      "device",    "side", "mode",
                               "alignment", "placement", "shareable", "evictable", NULL};
    struct creation given = {0};
    synced_mem_options options;
    synced_mem_side side;
    synced_mem_mode mode;
    synced_mem *handle;
    synced_mem_status status;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|O$zOOOnzOp:Memory", keywords, &given.shape, &given.dtype,
                                     &given.name, &given.device, &given.side, &given.mode, &given.alignment,
                                     &given.placement, &given.shareable, &given.evictable))
        return NULL;
    if (parse_options(&given, &options) < 0 || parse_export(&given, &side, &mode) < 0)
        return NULL;
    const struct sm_dtype *const dtype =
        given.dtype ? sm_dtype_parse(given.dtype) : sm_dtype_find((struct sm_dl_type){2, 32, 1});
    struct sm_layout *const layout = dtype ? sm_layout_parse(dtype, given.shape) : NULL;
    if (!layout)
        return NULL;
    SM_CALL(status, synced_mem_create(&handle, layout->bytes, &options));
    PyObject *const memory =
        status == SYNCED_MEM_OK ? sm_memory_new(handle, layout, NULL, side, mode) : sm_raise(status);
    sm_layout_release(layout);
    if (memory)
        ((struct sm_memory *)memory)->is_evictable = options.evictable;
    return options.shareable || options.evictable ? sm_memory_gated(memory) : memory;
}

/* ---- Accesses ---- */

/* Stores the values of two arguments, given by place or by name. */
static int parse_access(PyObject *const *arguments, Py_ssize_t count, PyObject *names, PyObject **mode,
                        PyObject **stream)
{
    if (count > (stream ? 2 : 1)) {
        PyErr_SetString(PyExc_TypeError, "too many arguments of an access");
        return -1;
    }
    *mode = count > 0 ? arguments[0] : NULL;
    if (count > 1)
        *stream = arguments[1];
    for (Py_ssize_t i = 0; i < (names ? PyTuple_Size(names) : 0); i++) {
        PyObject *const name = PyTuple_GetItem(names, i);
        const bool is_mode = PyUnicode_CompareWithASCIIString(name, "mode") == 0;
        const bool is_stream = stream && PyUnicode_CompareWithASCIIString(name, "stream") == 0;
        if ((!is_mode && !is_stream) || count > (is_mode ? 0 : 1)) {
            PyErr_Format(PyExc_TypeError, "an access has no such argument, or has it twice: %R", name);
            return -1;
        }
        *(is_mode ? mode : stream) = arguments[count + i];
    }
    return 0;
}

static PyObject *access_cpu(struct sm_memory *memory, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    synced_mem_mode mode = SYNCED_MEM_READ;
    PyObject *named = NULL;
    if (count > 0 || names) {
        if (parse_access(arguments, count, names, &named, NULL) < 0 || (named && sm_parse_mode(named, &mode) < 0))
            return NULL;
    }
    return sm_access_new(memory, SYNCED_MEM_SIDE_CPU, mode, SM_NO_STREAM);
}

static PyObject *access_gpu(struct sm_memory *memory, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    synced_mem_mode mode = SYNCED_MEM_READ;
    PyObject *named = NULL, *object = NULL;
    struct sm_stream stream;
    if (parse_access(arguments, count, names, &named, &object) < 0 || (named && sm_parse_mode(named, &mode) < 0) ||
        sm_stream_parse(&stream, object, SYNCED_MEM_NO_STREAM) < 0)
        return NULL;
    return sm_access_new(memory, SYNCED_MEM_SIDE_GPU, mode, stream);
}

/* ---- Exports of the object by itself ---- */

static PyObject *export_dlpack(struct sm_memory *memory, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    synced_mem_mode mode = memory->mode;
    const struct sm_tensor_options options = {.handle = memory->handle,
                                              .layout = sm_layout_retain(memory->layout),
                                              .exports = memory->exports,
                                              .side = memory->side,
                                              .mode = mode,
                                              .stream = sm_stream_current(SYNCED_MEM_NO_STREAM)};
    Py_INCREF((PyObject *)memory);
    PyObject *const capsule = sm_tensor_capsule(&options, &mode, arguments, count, names);
    sm_layout_release((struct sm_layout *)options.layout);
    Py_DECREF((PyObject *)memory);
    return capsule;
}

/* The device of an object that has not been used on one is decided by its first access. */
static PyObject *find_device(struct sm_memory *memory, PyObject *nothing)
{
    (void)nothing;
    if (memory->side == SYNCED_MEM_SIDE_GPU && synced_mem_device(memory->handle) < 0) {
        PyObject *const access = sm_access_new(memory, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, SM_NO_STREAM);
        if (!access)
            return NULL;
        Py_DECREF((PyObject *)access);
    }
    return sm_tensor_device(memory->handle, memory->side);
}

/* The buffer is one of an Access. */
static int get_buffer(struct sm_memory *memory, Py_buffer *view, int flags)
{
    struct sm_access *const access = sm_access_prepare(memory, memory->layout, memory->side, memory->mode);
    view->obj = NULL;
    if (!access)
        return -1;
    const int result = sm_access_buffer(access, view, flags);
    Py_DECREF((PyObject *)access);
    return result;
}

/* ---- Parts ---- */

/* Makes another Memory with the same object. Takes the layout over. */
static PyObject *share_handle(struct sm_memory *memory, struct sm_layout *layout)
{
    synced_mem_status status;
    if (!layout)
        return NULL;
    SM_CALL(status, synced_mem_retain(memory->handle));
    PyObject *const other =
        status == SYNCED_MEM_OK ? sm_memory_derive(memory, memory->handle, layout) : sm_raise(status);
    sm_layout_release(layout);
    return other;
}

/* The conversion of numbers may call functions of the program's, which may resize the object. */
static PyObject *reshape(struct sm_memory *memory, PyObject *shape)
{
    struct sm_layout *const whole = sm_layout_retain(memory->layout);
    struct sm_layout *const layout = sm_layout_reshape(whole, shape);
    sm_layout_release(whole);
    return share_handle(memory, layout);
}

static PyObject *view_as(struct sm_memory *memory, PyObject *object)
{
    const struct sm_dtype *const dtype = sm_dtype_parse(object);
    return dtype ? share_handle(memory, sm_layout_view(memory->layout, dtype)) : NULL;
}

/* Makes a view of the library's. Takes the layout over. */
static PyObject *make_view(struct sm_memory *memory, struct sm_layout *layout, size_t offset, const char *name)
{
    synced_mem_options options;
    synced_mem_status status;
    synced_mem *view;
    if (!layout)
        return NULL;
    synced_mem_options_init(&options);
    options.name = name;
    SM_CALL(status, synced_mem_view(&view, memory->handle, offset, layout->bytes, &options));
    PyObject *const part = status == SYNCED_MEM_OK ? sm_memory_derive(memory, view, layout) : sm_raise(status);
    sm_layout_release(layout);
    return part;
}

static PyObject *get_part(struct sm_memory *memory, PyObject *key)
{
    size_t offset;
    struct sm_layout *const whole = sm_layout_retain(memory->layout);
    struct sm_layout *const layout = sm_layout_part(whole, key, &offset);
    sm_layout_release(whole);
    return make_view(memory, layout, offset, NULL);
}

static PyObject *part(struct sm_memory *memory, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "shape", "dtype", "name", NULL};
    PyObject *shape, *type;
    Py_ssize_t offset;
    const char *name = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "nOO|$z:part", keywords, &offset, &shape, &type, &name))
        return NULL;
    const struct sm_dtype *const dtype = sm_dtype_parse(type);
    if (offset < 0) {
        PyErr_SetString(PyExc_ValueError, "an offset is not negative");
        return NULL;
    }
    return dtype ? make_view(memory, sm_layout_parse(dtype, shape), (size_t)offset, name) : NULL;
}

static Py_ssize_t get_length(struct sm_memory *memory)
{
    if (memory->layout->ndim > 0)
        return memory->layout->numbers[0];
    PyErr_SetString(PyExc_TypeError, "len() of an object without dimensions");
    return -1;
}

/* ---- Facts ---- */

static PyObject *get_shape(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return sm_layout_shape(memory->layout);
}

static PyObject *get_dtype(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyUnicode_FromString(memory->layout->dtype->name);
}

static PyObject *get_dimensions(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyLong_FromLong(memory->layout->ndim);
}

static PyObject *get_elements(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyLong_FromLongLong(memory->layout->elements);
}

static PyObject *get_bytes(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyLong_FromSize_t(memory->layout->bytes);
}

static PyObject *get_side(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyUnicode_FromString(sm_side_name(memory->side));
}

static PyObject *get_mode(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyUnicode_FromString(sm_mode_name(memory->mode));
}

static PyObject *get_exports(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyLong_FromSize_t(sm_exports_count(memory->exports, SYNCED_MEM_SIDE_CPU) +
                             sm_exports_count(memory->exports, SYNCED_MEM_SIDE_GPU));
}

static PyObject *get_name(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    const char *const name = synced_mem_name(memory->handle);
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
}

static PyObject *get_device(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    const int device = synced_mem_device(memory->handle);
    if (device < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(device);
}

static PyObject *get_head(struct sm_memory *memory, void *nothing)
{
    static const char *const heads[] = {"UNINITIALIZED", "AT_CPU", "AT_GPU", "SYNCED", "MIXED"};
    (void)nothing;
    const synced_mem_head_kind head = synced_mem_head(memory->handle);
    return PyUnicode_FromString((unsigned)head < 5 ? heads[head] : "UNKNOWN");
}

static PyObject *get_evictable(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    return PyBool_FromLong(memory->is_evictable);
}

static PyObject *get_in_file(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    int in_file;
    SM_CALL(in_file, synced_mem_in_file(memory->handle));
    return PyBool_FromLong(in_file);
}

static PyObject *get_offset(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    size_t offset;
    SM_CALL(offset, synced_mem_offset(memory->handle));
    return PyLong_FromSize_t(offset);
}

static PyObject *get_is_view(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    synced_mem *root;
    SM_CALL(root, synced_mem_root(memory->handle));
    return PyBool_FromLong(root != memory->handle);
}

static PyObject *name_source(synced_mem_source source)
{
    static const char *const sources[] = {"none",    "pageable",  "pinned", "device",  "borrowed",
                                          "adopted", "allocator", "mapped", "managed", "shareable"};
    return PyUnicode_FromString((unsigned)source < 10 ? sources[source] : "unknown");
}

static PyObject *get_cpu_source(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    synced_mem_source source;
    SM_CALL(source, synced_mem_cpu_source(memory->handle));
    return name_source(source);
}

static PyObject *get_gpu_source(struct sm_memory *memory, void *nothing)
{
    (void)nothing;
    synced_mem_source source;
    SM_CALL(source, synced_mem_gpu_source(memory->handle));
    return name_source(source);
}

static PyObject *describe_memory(struct sm_memory *memory)
{
    PyObject *const shape = sm_layout_shape(memory->layout);
    PyObject *const head = get_head(memory, NULL), *const name = get_name(memory, NULL);
    PyObject *text = NULL;
    if (shape && head && name)
        text = PyUnicode_FromFormat("<synced_mem.Memory %R, %s, shape %S, %U>", name, memory->layout->dtype->name,
                                    shape, head);
    Py_XDECREF(shape);
    Py_XDECREF(head);
    Py_XDECREF(name);
    return text;
}

/* ---- The type ---- */

PyDoc_STRVAR(
    memory_doc,
    "Memory(shape, dtype=\"float32\", *, name=None, device=None, side=\"cpu\", mode=\"mutable\", alignment=0,\n"
    "       placement=\"separate\", shareable=False, evictable=False)\n--\n\n"
    "One buffer with a copy in host memory and a copy on a GPU. The library tracks which of them is current, and "
    "moves\n"
    "bytes when an access needs them. Nothing is allocated before the first access, whose contents are zeros.\n\n"
    "shape: an integer or a sequence of integers. dtype: a name such as \"float32\" or \"bfloat16\", or a type of "
    "NumPy,\n"
    "PyTorch, JAX or Python. name: for messages and traces, of at most 47 bytes. device: its number; None: that of "
    "the\n"
    "first use. side, mode: of the access that the object makes if it is itself given to another package.\n"
    "alignment: in bytes, a power of two up to 2 MiB; 0: 64. placement: \"separate\", \"mapped\", \"managed\" or\n"
    "\"automatic\". shareable: True or \"same user\": processes of the user may receive it; \"any user\": all may.\n"
    "evictable: the device copy may go while nobody holds the object, and gpu() needs a hold.\n\n"
    "Raises ValueError, TypeError, or an Error.");
PyDoc_STRVAR(
    cpu_doc,
    "cpu(mode=\"read\")\n--\n\n"
    "Accesses the host copy, and returns an Access. If contents have to be moved, it waits until they have arrived; "
    "else an\naccess to read is made by the first use of the Access.\n\n"
    "mode: \"read\"; \"mutable\", to read and write; \"overwrite\", to write every element before reading any. "
    "The last two\nmake the device copy stale. Raises an Error.");
PyDoc_STRVAR(
    gpu_doc,
    "gpu(mode=\"read\", stream=None)\n--\n\n"
    "Accesses the device copy, and returns an Access, for work on the stream.\n\n"
    "mode: as in cpu(); writing makes the host copy stale. stream: an integer (a cudaStream_t, which the caller "
    "keeps), or\nan object with __cuda_stream__(), cuda_stream or ptr, which is kept as long as the Access. "
    "None: the current stream of\nstream(), else no stream: the call waits until contents that it moves have arrived, "
    "and work with the address is on the\nlegacy stream or on blocking streams. Raises an Error.");
PyDoc_STRVAR(dlpack_doc, "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
                         "As Access.__dlpack__(), of the side and the mode with which the object was made.");
PyDoc_STRVAR(device_doc, "__dlpack_device__()\n--\n\nReturns DLPack's type and number of the device: (1, 0) for the "
                         "host, (2, number) for CUDA.");
PyDoc_STRVAR(reshape_doc, "reshape(shape, /)\n--\n\n"
                          "Returns a Memory of the same object in another shape, of which one number may be -1.");
PyDoc_STRVAR(view_doc, "view(dtype, /)\n--\n\n"
                       "Returns a Memory of the same object as another data type. If elements have another size, the "
                       "last dimension changes.\nRaises ValueError if it can't be divided.");
PyDoc_STRVAR(part_doc,
             "part(offset, shape, dtype, *, name=None)\n--\n\n"
             "Returns a view of the bytes from offset on, with a shape and a data type. Raises an Error if the "
             "object has fewer.");
PyDoc_STRVAR(
    turn_doc,
    "turn(side=\"cpu\", turn=\"read\", timeout=None, *, newer_than=None, slot=None, consumed=False)\n--\n\n"
    "Returns a block in which this process has a turn of a shareable object: \"with mem.turn(...):\". Arguments: "
    "begin_turn().\nIts end is end_turn(); an exception that leaves it abandons the turn. If exports exist then, it "
    "raises BufferError with\ntheir number and keeps the turn: drop them, and call end_turn() or abandon_turn(). The "
    "begin raises TimeoutError, or\nanother Error.");

static PyMethodDef methods[] = {
    {"cpu", (PyCFunction)(void (*)(void))access_cpu, METH_FASTCALL | METH_KEYWORDS, cpu_doc},
    {"gpu", (PyCFunction)(void (*)(void))access_gpu, METH_FASTCALL | METH_KEYWORDS, gpu_doc},
    {"__dlpack__", (PyCFunction)(void (*)(void))export_dlpack, METH_FASTCALL | METH_KEYWORDS, dlpack_doc},
    {"__dlpack_device__", (PyCFunction)find_device, METH_NOARGS, device_doc},
    {"reshape", (PyCFunction)reshape, METH_O, reshape_doc},
    {"view", (PyCFunction)view_as, METH_O, view_doc},
    {"part", (PyCFunction)(void (*)(void))part, METH_VARARGS | METH_KEYWORDS, part_doc},
    {"turn", (PyCFunction)(void (*)(void))sm_memory_turn, METH_VARARGS | METH_KEYWORDS, turn_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef members[] = {
    {"shape", (getter)get_shape, NULL, "The shape, a tuple.", NULL},
    {"dtype", (getter)get_dtype, NULL, "The name of the data type.", NULL},
    {"ndim", (getter)get_dimensions, NULL, "The number of dimensions.", NULL},
    {"size", (getter)get_elements, NULL, "The number of elements.", NULL},
    {"nbytes", (getter)get_bytes, NULL, "The size in bytes.", NULL},
    {"side", (getter)get_side, NULL, "The side that the object exports by itself.", NULL},
    {"mode", (getter)get_mode, NULL, "The mode of these exports.", NULL},
    {"exports", (getter)get_exports, NULL, "The number of exports of the memory, also by its views.", NULL},
    {"name", (getter)get_name, NULL, "The name, \"\" without one.", NULL},
    {"device", (getter)get_device, NULL, "The number of the device, or None before there is one.", NULL},
    {"head", (getter)get_head, NULL,
     "Where the contents are: \"UNINITIALIZED\", \"AT_CPU\", \"AT_GPU\", \"SYNCED\" or \"MIXED\".", NULL},
    {"in_file", (getter)get_in_file, NULL, "Whether all contents are in a file, besides those that copies have.", NULL},
    {"evictable", (getter)get_evictable, NULL, "Whether the object was made as evictable, by this package.", NULL},
    {"version", (getter)sm_memory_version, NULL,
     "The version of a shareable object's contents: how many turns to write have ended.", NULL},
    {"is_view", (getter)get_is_view, NULL, "Whether the object is a part of another.", NULL},
    {"offset", (getter)get_offset, NULL, "The place of a view in its root, in bytes.", NULL},
    {"cpu_source", (getter)get_cpu_source, NULL, "The source of the host copy's memory, such as \"pinned\".", NULL},
    {"gpu_source", (getter)get_gpu_source, NULL, "The source of the device copy's memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef fields[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct sm_memory, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)memory_doc},
    {Py_tp_new, create},
    {Py_tp_dealloc, free_memory},
    {Py_tp_repr, describe_memory},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {Py_tp_members, fields},
    {Py_mp_subscript, get_part},
    {Py_mp_length, get_length},
    {Py_bf_getbuffer, get_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "synced_mem.Memory",
    .basicsize = sizeof(struct sm_memory),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int sm_memory_init(PyObject *module)
{
    return sm_add_type(module, &spec, &sm_memory_type);
}
