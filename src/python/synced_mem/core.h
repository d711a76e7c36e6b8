/*
 * The extension synced_mem._core. Its words:
 *
 * A *layout* is a data type and a shape. A *Memory* is one reference to an object of the library, with a layout. An
 * *Access* is the result of one access: a pointer, and what is needed to repeat the access for a consumer. An *export*
 * is memory that a consumer has as a tensor or as a buffer; the library keeps it in place.
 *
 * The interpreter's lock is released around each call of the library that takes a lock, since it may wait for another
 * thread, which may need the interpreter's. Only the head, the device, the size and the name are read with it. Structs
 * of the extension are protected by it, unless their comment says otherwise.
 */
#ifndef SM_PYTHON_CORE_H
#define SM_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <synced_mem.h>
#include <synced_mem/dlpack.h>

#include "dlpack_structs.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a shape is used as Python's and as DLPack's");

/* ---- Layouts ---- */

struct sm_dtype {
    const char *name;
    struct sm_dl_type type;
    const char *format;    /* of Python's buffers; NULL: it has none */
    const char *interface; /* the typestr of __cuda_array_interface__, or NULL */
};

struct sm_layout {
    size_t references;
    const struct sm_dtype *dtype;
    size_t bytes;
    int64_t elements;
    int ndim;
    int64_t numbers[]; /* the shape, the strides in elements, the strides in bytes */
};

/* Returns the data type of a name or of an object of NumPy, PyTorch, JAX or Python. NULL: TypeError. */
const struct sm_dtype *sm_dtype_parse(PyObject *object);
/* Returns the data type of DLPack's. NULL: it has no name here. Sets no exception. */
const struct sm_dtype *sm_dtype_find(struct sm_dl_type type);

/* Returns a new layout. NULL: an exception. */
struct sm_layout *sm_layout_new(const struct sm_dtype *dtype, int ndim, const int64_t *shape);
struct sm_layout *sm_layout_parse(const struct sm_dtype *dtype, PyObject *shape);
/* Returns the same bytes in another shape, of which one number may be -1; as another data type; or a part of the first
 * dimension, whose place it stores. NULL: an exception. */
struct sm_layout *sm_layout_reshape(const struct sm_layout *layout, PyObject *shape);
struct sm_layout *sm_layout_view(const struct sm_layout *layout, const struct sm_dtype *dtype);
struct sm_layout *sm_layout_part(const struct sm_layout *layout, PyObject *key, size_t *offset);
void sm_layout_release(struct sm_layout *layout);
PyObject *sm_layout_shape(const struct sm_layout *layout);

static inline struct sm_layout *sm_layout_retain(struct sm_layout *layout)
{
    layout->references++;
    return layout;
}

/* ---- Streams ---- */

struct sm_stream_use;

/* A stream of an argument. If an object has the stream, its use keeps the object; the end of the last use makes the
 * library forget the stream. The caller keeps other streams. */
struct sm_stream {
    synced_mem_stream handle;
    PyObject *object;
    struct sm_stream_use *use;
};

#define SM_NO_STREAM ((struct sm_stream){.handle = SYNCED_MEM_NO_STREAM})

/* Converts an integer, an object that has a stream, or None: the thread's current stream, else the default. */
int sm_stream_parse(struct sm_stream *stream, PyObject *object, synced_mem_stream otherwise);
void sm_stream_close(struct sm_stream *stream);
PyObject *sm_stream_object(const struct sm_stream *stream);
/* Returns the thread's current stream, else the default. */
synced_mem_stream sm_stream_current(synced_mem_stream otherwise);

/* ---- Objects ---- */

/* The exports of an object and of all that share its memory. Atomic, as consumers end exports in any thread. */
struct sm_exports {
    atomic_size_t references;
    atomic_size_t tensors[3]; /* by synced_mem_side */
    /* Protected by the interpreter's lock: */
    size_t buffers; /* which are of the host */
    long holds[3];  /* that the package has begun, by synced_mem_side */
};

static inline size_t sm_exports_count(struct sm_exports *exports, synced_mem_side side)
{
    return atomic_load(&exports->tensors[side]) + (side == SYNCED_MEM_SIDE_CPU ? exports->buffers : 0);
}

struct sm_exports *sm_exports_new(void); /* NULL: no memory */
struct sm_exports *sm_exports_retain(struct sm_exports *exports);
void sm_exports_release(struct sm_exports *exports); /* ignores NULL */

struct sm_memory {
    PyObject base;
    PyObject *weak_references;
    synced_mem *handle; /* a reference */
    struct sm_layout *layout;
    struct sm_exports *exports;
    synced_mem_side side; /* that the object exports by itself */
    synced_mem_mode mode;
    bool is_evictable; /* as far as the package knows */
    bool is_gated;     /* accesses may be refused: the object is shareable or evictable, or may be */
};

struct sm_access {
    PyObject base;
    struct sm_memory *memory;
    struct sm_layout *layout;
    void *data; /* NULL: an access without a stream that is yet to be made */
    synced_mem_side side;
    synced_mem_mode mode;
    struct sm_stream stream;                    /* SYNCED_MEM_NO_STREAM: none */
    struct DLManagedTensorVersioned *interface; /* the export of __cuda_array_interface__ */
};

extern PyTypeObject *sm_memory_type;
extern PyTypeObject *sm_access_type;

/* Makes a Memory of a reference, which it takes over also on failure, and a layout, of which it makes a reference. NULL
 * as exports: none so far. */
PyObject *sm_memory_new(synced_mem *handle, struct sm_layout *layout, struct sm_exports *exports, synced_mem_side side,
                        synced_mem_mode mode);
/* Makes a Memory of the same object or of a part of it, as the above. */
PyObject *sm_memory_derive(const struct sm_memory *memory, synced_mem *handle, struct sm_layout *layout);
/* Returns a Memory whose object may refuse accesses; NULL is passed on. */
PyObject *sm_memory_gated(PyObject *memory);
/* Makes the access, on a stream whose reference it takes over. */
PyObject *sm_access_new(struct sm_memory *memory, synced_mem_side side, synced_mem_mode mode, struct sm_stream stream);
/* Makes an Access without an access, for exports. */
struct sm_access *sm_access_prepare(struct sm_memory *memory, struct sm_layout *layout, synced_mem_side side,
                                    synced_mem_mode mode);
int sm_access_buffer(struct sm_access *access, Py_buffer *view, int flags);
/* Gives up a reference. */
void sm_release(synced_mem *handle);

/* The handles of a sequence of objects, which the sequence keeps. */
struct sm_list {
    PyObject *objects; /* a tuple */
    synced_mem **handles;
    size_t count;
};

int sm_list_read(struct sm_list *list, PyObject *sequence); /* -1: an exception, and a list to free */
void sm_list_free(struct sm_list *list);

/* ---- Tensors ---- */

/* An export to make. */
struct sm_tensor_options {
    synced_mem *handle;
    const struct sm_layout *layout;
    struct sm_exports *exports;
    synced_mem_side side;
    synced_mem_mode mode;
    synced_mem_stream stream;
};

/* Makes a tensor, which is counted as an export. Without the interpreter's lock, and without an exception. */
synced_mem_status sm_tensor_make(struct DLManagedTensorVersioned **out, const struct sm_tensor_options *options);
synced_mem_status sm_tensor_make_legacy(struct DLManagedTensor **out, const struct sm_tensor_options *options);
/* Makes the tensor behind a buffer, which is not counted; without the interpreter's lock, and without an exception. */
synced_mem_status sm_buffer_make(struct DLManagedTensorVersioned **out, const struct sm_tensor_options *options);
/* Makes a tensor of a copy, likewise. */
synced_mem_status sm_tensor_make_copy(struct DLManagedTensorVersioned **out, const struct sm_tensor_options *options);

/* Return what __dlpack__() and __dlpack_device__() do. An overwrite ends in *mode. */
PyObject *sm_tensor_capsule(const struct sm_tensor_options *options, synced_mem_mode *mode, PyObject *const *arguments,
                            Py_ssize_t count, PyObject *names);
PyObject *sm_tensor_device(const synced_mem *handle, synced_mem_side side);
/* Makes a Memory of a tensor, which the library takes over on success. */
PyObject *sm_tensor_import(void *tensor, bool is_legacy, synced_mem_stream stream, const char *name);
int sm_import_init(PyObject *module);
int sm_tensor_init(PyObject *module);
/* Sets the attribute __dlpack_c_exchange_api__ of both types. */
int sm_exchange_init(void);

/* ---- Names of attributes ---- */

enum sm_name {
    SM_NAME_NAME,
    SM_NAME_NAME_OF_TYPE,
    SM_NAME_DTYPE,
    SM_NAME_CUDA_STREAM_PROTOCOL,
    SM_NAME_CUDA_STREAM,
    SM_NAME_PTR,
    SM_NAME_DLPACK,
    SM_NAME_DLPACK_DEVICE,
    SM_NAME_MAX_VERSION,
    SM_NAME_STREAM,
    SM_NAME_STATUS,
    SM_NAME_STATUS_NAME,
    SM_NAMES
};
extern PyObject *sm_names[SM_NAMES];
int sm_names_init(PyObject *module);
PyObject *sm_get(PyObject *object, enum sm_name name);

/* ---- Errors ---- */

extern PyObject *sm_error;
int sm_error_init(PyObject *module);
/* Raises the exception of the status, with the detail of the thread's last error, and returns NULL. */
PyObject *sm_raise(synced_mem_status status);
PyObject *sm_raise_last(void); /* of an accessor */
/* Raises BufferError with the current exception as its cause. */
PyObject *sm_raise_buffer_error(void);
/* Raises BufferError if the status says that exports keep the memory, else the exception of the status. side 0: both
 * sides. */
PyObject *sm_raise_unless_exported(const struct sm_memory *memory, synced_mem_status status, int side);
/* Makes the exception of a block the context of the current one. */
void sm_chain_exception(PyObject *of_block);
/* Returns None, or NULL with an exception. */
PyObject *sm_none_if_ok(synced_mem_status status);

/* ---- Arguments ---- */

int sm_parse_side(PyObject *object, synced_mem_side *side);
int sm_parse_mode(PyObject *object, synced_mem_mode *mode);
int sm_file_parse(PyObject *object, synced_mem_file **file); /* a File, or None: NULL */
int sm_parse_timeout(PyObject *object, int *milliseconds);   /* seconds, or None for ever */
const char *sm_side_name(synced_mem_side side);
const char *sm_mode_name(synced_mem_mode mode);

/* ---- Parts of the module ---- */

int sm_memory_init(PyObject *module);
int sm_access_init(PyObject *module);
int sm_stream_init(PyObject *module);
int sm_turn_init(PyObject *module);
int sm_hold_init(PyObject *module);
int sm_file_init(PyObject *module);
int sm_report_init(PyObject *module);
/* Adds the type of a spec to the module. */
int sm_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type);
/* Returns what a function of the library prints. */
PyObject *sm_text_of(synced_mem_status (*print)(const void *, FILE *), const void *what);
/* Adds methods to a type that has been made. */
int sm_add_methods(PyTypeObject *type, PyMethodDef *methods);
/* Adds functions to the module. */
int sm_add_functions(PyObject *module, PyMethodDef *functions);
/* The calls of a Memory that are neither accesses nor exports. */
int sm_calls_init(PyObject *module);
/* Methods of a Memory, in turn.c. */
PyObject *sm_memory_turn(struct sm_memory *memory, PyObject *arguments, PyObject *names);
PyObject *sm_memory_begin_turn(struct sm_memory *memory, PyObject *arguments, PyObject *names);
PyObject *sm_memory_end_turn(struct sm_memory *memory, PyObject *nothing);
PyObject *sm_memory_abandon_turn(struct sm_memory *memory, PyObject *nothing);
PyObject *sm_memory_version(struct sm_memory *memory, void *unused);
PyObject *sm_memory_take_slot(struct sm_memory *memory, PyObject *arguments, PyObject *names);
PyObject *sm_memory_end_slot(struct sm_memory *memory, PyObject *of_slot);
PyObject *sm_memory_slot_version(struct sm_memory *memory, PyObject *of_slot);
PyObject *sm_memory_share(struct sm_memory *memory, PyObject *arguments, PyObject *names);

/* Executes a statement without the interpreter's lock. */
#define SM_UNLOCKED(statement)                                                                                         \
    do {                                                                                                               \
        PyThreadState *const unlocked_state = PyEval_SaveThread();                                                     \
        statement;                                                                                                     \
        PyEval_RestoreThread(unlocked_state);                                                                          \
    } while (0)
#define SM_CALL(result, call) SM_UNLOCKED((result) = (call))

#endif
