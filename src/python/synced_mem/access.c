/* Access: the result of an access, which consumers repeat. */
#include "core.h"

PyTypeObject *sm_access_type;

/* ---- Life ---- */

struct sm_access *sm_access_prepare(struct sm_memory *memory, struct sm_layout *layout, synced_mem_side side,
                                    synced_mem_mode mode)
{
    struct sm_access *const access = PyObject_New(struct sm_access, sm_access_type);
    if (!access)
        return NULL;
    Py_INCREF((PyObject *)memory);
    access->memory = memory;
    access->layout = sm_layout_retain(layout);
    access->data = NULL;
    access->side = side;
    access->mode = mode;
    access->stream = SM_NO_STREAM;
    access->interface = NULL;
    return access;
}

static int make_access(struct sm_access *access)
{
    SM_CALL(access->data, synced_mem_access(access->memory->handle, access->side, access->mode, access->stream.handle));
    if (access->data)
        return 0;
    sm_raise_last();
    return -1;
}

/* Whether an access would move nothing and change no head. Without a stream such an access is made when the address is
 * asked for, because each export makes it anyway. An access to the device would wait for the work of a consumer's
 * stream, though the next consumer names its own. An access that may be refused is made at once, and one that writes
 * the host copy, as contents then leave their file. */
static bool is_accessed(const struct sm_memory *memory, synced_mem_side side, synced_mem_mode mode)
{
    const synced_mem_head_kind head = synced_mem_head(memory->handle);
    if (memory->is_gated || (side == SYNCED_MEM_SIDE_CPU && mode != SYNCED_MEM_READ))
        return false;
    return head == (side == SYNCED_MEM_SIDE_CPU ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU) ||
           (head == SYNCED_MEM_SYNCED && mode == SYNCED_MEM_READ);
}

PyObject *sm_access_new(struct sm_memory *memory, synced_mem_side side, synced_mem_mode mode, struct sm_stream stream)
{
    struct sm_access *const access = sm_access_prepare(memory, memory->layout, side, mode);
    if (!access) {
        sm_stream_close(&stream);
        return NULL;
    }
    access->stream = stream;
    if (stream.handle == SYNCED_MEM_NO_STREAM && is_accessed(memory, side, mode))
        return (PyObject *)access;
    if (make_access(access) == 0)
        return (PyObject *)access;
    Py_DECREF((PyObject *)access);
    return NULL;
}

static void end_interface(struct sm_access *access)
{
    struct DLManagedTensorVersioned *const tensor = access->interface;
    access->interface = NULL;
    if (tensor)
        tensor->deleter(tensor);
}

static void free_access(struct sm_access *access)
{
    PyTypeObject *const type = Py_TYPE((PyObject *)access);
    if (access->interface || access->stream.object) {
        PyObject *error, *value, *traceback;
        PyErr_Fetch(&error, &value, &traceback);
        end_interface(access);
        sm_stream_close(&access->stream);
        PyErr_Restore(error, value, traceback);
    }
    sm_layout_release(access->layout);
    Py_DECREF((PyObject *)access->memory);
    PyObject_Free(access);
    Py_DECREF(type);
}

/* ---- Exports ---- */

static struct sm_tensor_options describe(const struct sm_access *access, synced_mem_mode mode)
{
    return (struct sm_tensor_options){.handle = access->memory->handle,
                                      .layout = access->layout,
                                      .exports = access->memory->exports,
                                      .side = access->side,
                                      .mode = mode,
                                      .stream = access->stream.handle};
}

typedef synced_mem_status (*maker)(struct DLManagedTensorVersioned **, const struct sm_tensor_options *);

/* Makes an export. An overwrite becomes a mutable access, since a second export must keep what the first consumer has
 * written. */
static struct DLManagedTensorVersioned *make_export(struct sm_access *access, maker make)
{
    struct DLManagedTensorVersioned *tensor;
    synced_mem_status status;
    const struct sm_tensor_options options = describe(access, access->mode);
    if (access->mode == SYNCED_MEM_OVERWRITE)
        access->mode = SYNCED_MEM_MUTABLE;
    SM_CALL(status, make(&tensor, &options));
    if (status == SYNCED_MEM_OK)
        return tensor;
    access->mode = options.mode;
    sm_raise(status);
    return NULL;
}

static PyObject *export_dlpack(struct sm_access *access, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    const struct sm_tensor_options options = describe(access, access->mode);
    Py_INCREF((PyObject *)access); /* another thread may release it during the call */
    PyObject *const capsule = sm_tensor_capsule(&options, &access->mode, arguments, count, names);
    Py_DECREF((PyObject *)access);
    return capsule;
}

static PyObject *find_device(struct sm_access *access, PyObject *nothing)
{
    (void)nothing;
    return sm_tensor_device(access->memory->handle, access->side);
}

/* ---- Buffers ---- */

static int refuse(const char *message)
{
    PyErr_SetString(PyExc_BufferError, message);
    return -1;
}

static int check_request(const struct sm_access *access, int flags)
{
    if (access->side != SYNCED_MEM_SIDE_CPU)
        return refuse("device memory can't be a buffer: use DLPack, or access the host copy");
    if (!access->layout->dtype->format) {
        PyErr_Format(PyExc_BufferError, "buffers have no type for %s: use DLPack, or view(\"uint%d\")",
                     access->layout->dtype->name, access->layout->dtype->type.bits > 8 ? 16 : 8);
        return -1;
    }
    if ((flags & PyBUF_WRITABLE) && access->mode == SYNCED_MEM_READ)
        return refuse("the access is to read: the buffer can't be written");
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && access->layout->ndim > 1)
        return refuse("the buffer is in the order of C");
    return 0;
}

static void fill_buffer(const struct sm_layout *layout, Py_buffer *view, int flags)
{
    const bool has_shape = (flags & PyBUF_ND) && layout->ndim > 0;
    view->len = (Py_ssize_t)layout->bytes;
    view->itemsize = layout->dtype->type.bits / 8;
    view->format = flags & PyBUF_FORMAT ? (char *)layout->dtype->format : NULL;
    view->ndim = flags & PyBUF_ND ? layout->ndim : 1;
    view->shape = has_shape ? (Py_ssize_t *)layout->numbers : NULL;
    view->strides =
        has_shape && (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? (Py_ssize_t *)layout->numbers + 2 * layout->ndim : NULL;
    view->suboffsets = NULL;
}

int sm_access_buffer(struct sm_access *access, Py_buffer *view, int flags)
{
    static char nothing;
    view->obj = NULL;
    if (check_request(access, flags) < 0)
        return -1;
    Py_INCREF((PyObject *)access);
    access->memory->exports->buffers++; /* before the call, so that a call that fails because of it counts it */
    struct DLManagedTensorVersioned *const tensor = make_export(access, sm_buffer_make);
    if (!tensor) {
        access->memory->exports->buffers--;
        Py_DECREF((PyObject *)access);
        sm_raise_buffer_error();
        return -1;
    }
    fill_buffer(access->layout, view, flags);
    view->buf = tensor->tensor.data ? tensor->tensor.data : &nothing;
    view->readonly = (tensor->flags & SM_DL_READ_ONLY) != 0;
    view->internal = tensor;
    view->obj = (PyObject *)access;
    return 0;
}

/* The Access has a reference to the object, so the deleter drops another one than the last. Then it takes no other lock
 * than that of the exports, which no thread keeps while it waits for anything. So the interpreter's lock is kept. */
static void release_buffer(struct sm_access *access, Py_buffer *view)
{
    struct DLManagedTensorVersioned *const tensor = view->internal;
    tensor->deleter(tensor);
    access->memory->exports->buffers--;
}

/* ---- __cuda_array_interface__ ---- */

/* Consumers order their stream behind the named one, and keep the Access, which keeps the export. */
static PyObject *get_interface(struct sm_access *access, void *nothing)
{
    (void)nothing;
    const char *const type = access->layout->dtype->interface;
    if (access->side != SYNCED_MEM_SIDE_GPU || !type) {
        PyErr_Format(PyExc_AttributeError, "%s of the %s copy has no __cuda_array_interface__",
                     access->layout->dtype->name, access->side == SYNCED_MEM_SIDE_GPU ? "device" : "host");
        return NULL;
    }
    struct DLManagedTensorVersioned *const tensor = make_export(access, sm_tensor_make);
    if (!tensor)
        return NULL;
    end_interface(access);
    access->interface = tensor;
    const uintptr_t handle = (uintptr_t)access->stream.handle;
    PyObject *const shape = sm_layout_shape(access->layout);
    const bool is_default = access->stream.handle == SYNCED_MEM_NO_STREAM || handle == 0;
    return !shape ? NULL
                  : Py_BuildValue("{sN ss s(NO) sO sK si}", "shape", shape, "typestr", type, "data",
                                  PyLong_FromVoidPtr(tensor->tensor.data),
                                  tensor->flags & SM_DL_READ_ONLY ? Py_True : Py_False, "strides", Py_None, "stream",
                                  (unsigned long long)(is_default ? 1 : handle), "version", 3);
}

/* ---- Members ---- */

static PyObject *get_pointer(struct sm_access *access, void *nothing)
{
    (void)nothing;
    if (!access->data && make_access(access) < 0)
        return NULL;
    return PyLong_FromVoidPtr(access->data);
}

static PyObject *get_shape(struct sm_access *access, void *nothing)
{
    (void)nothing;
    return sm_layout_shape(access->layout);
}

static PyObject *get_dtype(struct sm_access *access, void *nothing)
{
    (void)nothing;
    return PyUnicode_FromString(access->layout->dtype->name);
}

static PyObject *get_bytes(struct sm_access *access, void *nothing)
{
    (void)nothing;
    return PyLong_FromSize_t(access->layout->bytes);
}

static PyObject *get_side(struct sm_access *access, void *nothing)
{
    (void)nothing;
    return PyUnicode_FromString(sm_side_name(access->side));
}

static PyObject *get_mode(struct sm_access *access, void *nothing)
{
    (void)nothing;
    return PyUnicode_FromString(sm_mode_name(access->mode));
}

static PyObject *get_stream(struct sm_access *access, void *nothing)
{
    (void)nothing;
    return sm_stream_object(&access->stream);
}

static PyObject *get_memory(struct sm_access *access, void *nothing)
{
    (void)nothing;
    Py_INCREF((PyObject *)access->memory);
    return (PyObject *)access->memory;
}

/* ---- Methods ---- */

/* Makes an Access of the same pointer with another layout, which it takes over. */
static PyObject *change_layout(struct sm_access *access, struct sm_layout *layout)
{
    if (!layout)
        return NULL;
    struct sm_access *const other = sm_access_prepare(access->memory, layout, access->side, access->mode);
    sm_layout_release(layout);
    if (!other)
        return NULL;
    other->data = access->data;
    other->stream.handle = access->stream.handle;
    if (access->stream.object && sm_stream_parse(&other->stream, access->stream.object, NULL) < 0) {
        Py_DECREF(other);
        return NULL;
    }
    return (PyObject *)other;
}

static PyObject *view_as(struct sm_access *access, PyObject *object)
{
    const struct sm_dtype *const dtype = sm_dtype_parse(object);
    return dtype ? change_layout(access, sm_layout_view(access->layout, dtype)) : NULL;
}

static PyObject *reshape(struct sm_access *access, PyObject *shape)
{
    return change_layout(access, sm_layout_reshape(access->layout, shape));
}

static PyObject *describe_access(struct sm_access *access)
{
    PyObject *const shape = sm_layout_shape(access->layout);
    PyObject *const text = !shape
                               ? NULL
                               : PyUnicode_FromFormat("<synced_mem.Access to the %s copy, %s, %s, shape %S>",
                                                      access->side == SYNCED_MEM_SIDE_CPU ? "host" : "device",
                                                      sm_mode_name(access->mode), access->layout->dtype->name, shape);
    Py_XDECREF(shape);
    return text;
}

/* ---- The type ---- */

PyDoc_STRVAR(
    access_doc,
    "The result of Memory.cpu() or Memory.gpu().\n\n"
    "It is given to other packages: numpy.asarray(access), memoryview(access), torch.from_dlpack(access),\n"
    "cupy.from_dlpack(access), jax.dlpack.from_dlpack(access). Each such export repeats the access, on the consumer's\n"
    "stream, and until the consumer's array is gone the memory is neither resized nor released, and the object lives.\n"
    "The array is good until the next conflicting call on the object. After it the array's memory stays, but its\n"
    "contents may be stale: ask for a new one.");

PyDoc_STRVAR(
    dlpack_doc,
    "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
    "Returns a capsule with a tensor. Repeats the access: device memory on stream (1 and None: the legacy "
    "stream; 2: the\nthread's; -1: this Access's own; larger: a handle), or on the side that dl_device names. "
    "copy=True: of a copy.\n\n"
    "Raises BufferError, also for failures of the library, whose error is the cause; ValueError for an argument "
    "that is\nnot DLPack's.");
PyDoc_STRVAR(device_doc, "__dlpack_device__()\n--\n\nReturns DLPack's type and number of the device: (1, 0) for the "
                         "host, (2, number) for CUDA.");
PyDoc_STRVAR(view_doc, "view(dtype, /)\n--\n\n"
                       "Returns an Access of the same bytes as another data type. If elements have another size, the "
                       "last dimension changes.\nRaises ValueError if it can't be divided.");
PyDoc_STRVAR(reshape_doc, "reshape(shape, /)\n--\n\n"
                          "Returns an Access of the same elements in another shape, of which one number may be -1.");

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))export_dlpack, METH_FASTCALL | METH_KEYWORDS, dlpack_doc},
    {"__dlpack_device__", (PyCFunction)find_device, METH_NOARGS, device_doc},
    {"view", (PyCFunction)view_as, METH_O, view_doc},
    {"reshape", (PyCFunction)reshape, METH_O, reshape_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef members[] = {
    {"ptr", (getter)get_pointer, NULL,
     "The address, an integer. It protects nothing: keep the Access while you use it.", NULL},
    {"shape", (getter)get_shape, NULL, "The shape, a tuple.", NULL},
    {"dtype", (getter)get_dtype, NULL, "The name of the data type.", NULL},
    {"nbytes", (getter)get_bytes, NULL, "The size in bytes.", NULL},
    {"side", (getter)get_side, NULL, "\"cpu\" or \"gpu\".", NULL},
    {"mode", (getter)get_mode, NULL,
     "\"read\", \"mutable\" or \"overwrite\", which becomes \"mutable\" after the first export.", NULL},
    {"stream", (getter)get_stream, NULL, "The stream of the access: as it was passed, or None without one.", NULL},
    {"memory", (getter)get_memory, NULL, "The Memory.", NULL},
    {"__cuda_array_interface__", (getter)get_interface, NULL,
     "The device copy as version 3 of the CUDA array interface. The export lasts as long as this Access.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)access_doc},
    {Py_tp_dealloc, free_access},
    {Py_tp_repr, describe_access},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {Py_bf_getbuffer, sm_access_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "synced_mem.Access",
    .basicsize = sizeof(struct sm_access),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int sm_access_init(PyObject *module)
{
    return sm_add_type(module, &spec, &sm_access_type);
}
