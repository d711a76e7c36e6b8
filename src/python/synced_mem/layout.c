/* Data types and shapes. */
#include "core.h"

#include <string.h>

/* ---- Data types ---- */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ORDER ">"
#else
#define ORDER "<"
#endif

/* Names are NumPy's and ml_dtypes'. Codes are DLPack's. */
static const struct sm_dtype dtypes[] = {
    {"float32", {2, 32, 1}, "f", ORDER "f4"},
    {"float16", {2, 16, 1}, "e", ORDER "f2"},
    {"bfloat16", {4, 16, 1}, NULL, NULL},
    {"float64", {2, 64, 1}, "d", ORDER "f8"},
    {"uint8", {1, 8, 1}, "B", "|u1"},
    {"uint16", {1, 16, 1}, "H", ORDER "u2"},
    {"uint32", {1, 32, 1}, "I", ORDER "u4"},
    {"uint64", {1, 64, 1}, sizeof(long) == 8 ? "L" : "Q", ORDER "u8"},
    {"int8", {0, 8, 1}, "b", "|i1"},
    {"int16", {0, 16, 1}, "h", ORDER "i2"},
    {"int32", {0, 32, 1}, "i", ORDER "i4"},
    {"int64", {0, 64, 1}, sizeof(long) == 8 ? "l" : "q", ORDER "i8"},
    {"bool", {6, 8, 1}, "?", "|b1"},
    {"complex64", {5, 64, 1}, "Zf", ORDER "c8"},
    {"complex128", {5, 128, 1}, "Zd", ORDER "c16"},
    {"float8_e3m4", {7, 8, 1}, NULL, NULL},
    {"float8_e4m3", {8, 8, 1}, NULL, NULL},
    {"float8_e4m3b11fnuz", {9, 8, 1}, NULL, NULL},
    {"float8_e4m3fn", {10, 8, 1}, NULL, NULL},
    {"float8_e4m3fnuz", {11, 8, 1}, NULL, NULL},
    {"float8_e5m2", {12, 8, 1}, NULL, NULL},
    {"float8_e5m2fnuz", {13, 8, 1}, NULL, NULL},
    {"float8_e8m0fnu", {14, 8, 1}, NULL, NULL},
    {"float6_e2m3fn", {15, 6, 1}, NULL, NULL},
    {"float6_e3m2fn", {16, 6, 1}, NULL, NULL},
    {"float4_e2m1fn", {17, 4, 1}, NULL, NULL},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static const struct sm_dtype *find_name(const char *name)
{
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0 || (dtypes[i].interface && strcmp(dtypes[i].interface, name) == 0))
            return &dtypes[i];
    return NULL;
}

const struct sm_dtype *sm_dtype_find(struct sm_dl_type type)
{
    for (int i = 0; i < DTYPES; i++)
        if (memcmp(&dtypes[i].type, &type, sizeof type) == 0)
            return &dtypes[i];
    return NULL;
}

/* Python's own types are those that NumPy takes them for. */
static const struct sm_dtype *find_python_type(PyObject *object)
{
    static const char *const names[] = {"float64", "int64", "bool", "complex128"};
    PyTypeObject *const types[] = {&PyFloat_Type, &PyLong_Type, &PyBool_Type, &PyComplex_Type};
    for (int i = 0; i < 4; i++)
        if (object == (PyObject *)types[i])
            return find_name(names[i]);
    return NULL;
}

/* Finds a name after the last dot, as in "torch.float32". Takes the reference over; NULL and other objects have none.
 * Leaves no exception. */
static const struct sm_dtype *find_text(PyObject *text)
{
    const struct sm_dtype *found = NULL;
    const char *const whole = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (whole) {
        const char *const dot = strrchr(whole, '.');
        found = find_name(dot ? dot + 1 : whole);
    }
    PyErr_Clear();
    Py_XDECREF(text);
    return found;
}

static PyObject *attribute_of_dtype(PyObject *object)
{
    PyObject *const dtype = sm_get(object, SM_NAME_DTYPE);
    PyObject *const name = dtype ? sm_get(dtype, SM_NAME_NAME) : NULL;
    Py_XDECREF(dtype);
    return name;
}

const struct sm_dtype *sm_dtype_parse(PyObject *object)
{
    const struct sm_dtype *found = find_python_type(object);
    if (!found && PyUnicode_Check(object)) {
        Py_INCREF(object);
        found = find_text(object);
    } else if (!found) {
        found = find_text(sm_get(object, SM_NAME_NAME));                         /* numpy.dtype */
        found = found ? found : find_text(sm_get(object, SM_NAME_NAME_OF_TYPE)); /* numpy.float32 */
        found = found ? found : find_text(attribute_of_dtype(object));           /* jax.numpy.float32 */
        found = found ? found : find_text(PyObject_Str(object));                 /* torch.float32 */
    }
    if (!found)
        PyErr_Format(PyExc_TypeError, "no data type of synced_mem: %R", object);
    return found;
}

/* ---- Layouts ---- */

static struct sm_layout *fail_value(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

static bool multiply(int64_t *product, int64_t factor)
{
    return !__builtin_mul_overflow(*product, factor, product);
}

/* Fills strides in elements, and returns false if the numbers are too large. */
static bool fill_strides(struct sm_layout *layout, const int64_t *shape)
{
    int64_t step = 1; /* a size of 0 counts as 1, as in NumPy */
    layout->elements = 1;
    for (int i = layout->ndim - 1; i >= 0; i--) {
        layout->numbers[i] = shape[i];
        layout->numbers[layout->ndim + i] = step;
        if (!multiply(&step, shape[i] > 0 ? shape[i] : 1))
            return false;
        layout->elements *= shape[i];
    }
    int64_t bits = step;
    return multiply(&bits, layout->dtype->type.bits) && bits < INT64_MAX - 7;
}

struct sm_layout *sm_layout_new(const struct sm_dtype *dtype, int ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > 64)
        return fail_value("a shape has at most 64 dimensions");
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0)
            return fail_value("a shape has no negative numbers");
    struct sm_layout *const layout = PyMem_Malloc(sizeof *layout + 3 * (size_t)ndim * sizeof *layout->numbers);
    if (!layout) {
        PyErr_NoMemory();
        return NULL;
    }
    layout->references = 1;
    layout->dtype = dtype;
    layout->ndim = ndim;
    if (!fill_strides(layout, shape)) {
        PyMem_Free(layout);
        return fail_value("the shape is too large");
    }
    layout->bytes = ((size_t)layout->elements * dtype->type.bits + 7) / 8;
    for (int i = 0; i < ndim; i++)
        layout->numbers[2 * ndim + i] = layout->numbers[ndim + i] * dtype->type.bits / 8;
    return layout;
}

void sm_layout_release(struct sm_layout *layout)
{
    if (layout && --layout->references == 0)
        PyMem_Free(layout);
}

PyObject *sm_layout_shape(const struct sm_layout *layout)
{
    PyObject *const shape = PyTuple_New(layout->ndim);
    for (int i = 0; shape && i < layout->ndim; i++) {
        PyObject *const number = PyLong_FromLongLong(layout->numbers[i]);
        if (!number || PyTuple_SetItem(shape, i, number) < 0) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

/* Stores the numbers of a shape, and returns how many there are; -1: an exception. */
static int parse_shape(PyObject *object, int64_t *shape)
{
    if (PyIndex_Check(object)) {
        shape[0] = PyNumber_AsSsize_t(object, PyExc_OverflowError);
        return shape[0] == -1 && PyErr_Occurred() ? -1 : 1;
    }
    PyObject *const numbers = PySequence_Tuple(object);
    if (!numbers)
        return -1;
    const Py_ssize_t ndim = PyTuple_Size(numbers);
    for (Py_ssize_t i = 0; i < ndim && i < 64; i++) {
        shape[i] = PyNumber_AsSsize_t(PyTuple_GetItem(numbers, i), PyExc_OverflowError);
        if (shape[i] == -1 && PyErr_Occurred()) {
            Py_DECREF(numbers);
            return -1;
        }
    }
    Py_DECREF(numbers);
    return ndim <= 64 ? (int)ndim : 65; /* too many for sm_layout_new() */
}

struct sm_layout *sm_layout_parse(const struct sm_dtype *dtype, PyObject *shape)
{
    int64_t numbers[64];
    const int ndim = parse_shape(shape, numbers);
    return ndim < 0 ? NULL : sm_layout_new(dtype, ndim, numbers);
}

/* ---- The same bytes ---- */

/* Replaces the one number that may be -1. */
static int complete_shape(const struct sm_layout *layout, int ndim, int64_t *shape)
{
    int64_t known = 1;
    int open = -1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == -1 && open < 0)
            open = i;
        else if (shape[i] < 0 || !multiply(&known, shape[i]))
            return -1;
    if (open >= 0 && (known == 0 || layout->elements % known != 0))
        return -1;
    if (open >= 0) {
        shape[open] = layout->elements / known;
        known = layout->elements;
    }
    return known == layout->elements ? 0 : -1;
}

struct sm_layout *sm_layout_reshape(const struct sm_layout *layout, PyObject *shape)
{
    int64_t numbers[64];
    const int ndim = parse_shape(shape, numbers);
    if (ndim < 0)
        return NULL;
    if (ndim > 64 || complete_shape(layout, ndim, numbers) < 0) {
        PyErr_Format(PyExc_ValueError, "%lld elements can't have the shape %R", (long long)layout->elements, shape);
        return NULL;
    }
    return sm_layout_new(layout->dtype, ndim, numbers);
}

struct sm_layout *sm_layout_view(const struct sm_layout *layout, const struct sm_dtype *dtype)
{
    int64_t shape[64];
    const int last = layout->ndim - 1;
    const int64_t old = layout->dtype->type.bits, new = dtype->type.bits;
    memcpy(shape, layout->numbers, (size_t)layout->ndim * sizeof *shape);
    if (old != new) {
        if (last < 0)
            return fail_value("an array without dimensions keeps the size of its elements");
        if (shape[last] > INT64_MAX / old || shape[last] * old % new != 0 || (new % 8 != 0 && old % 8 != 0))
            return fail_value("the last dimension can't be divided into elements of that size");
        shape[last] = shape[last] * old / new;
    }
    return sm_layout_new(dtype, layout->ndim, shape);
}

/* ---- Parts ---- */

static int parse_index(const struct sm_layout *layout, PyObject *key, Py_ssize_t *index)
{
    *index = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (*index == -1 && PyErr_Occurred())
        return -1;
    const Py_ssize_t given = *index;
    if (*index < 0)
        *index += layout->numbers[0];
    if (*index >= 0 && *index < layout->numbers[0])
        return 0;
    PyErr_Format(PyExc_IndexError, "the first dimension has %lld elements, the index is %zd",
                 (long long)layout->numbers[0], given);
    return -1;
}

static int parse_slice(const struct sm_layout *layout, PyObject *key, Py_ssize_t *begin, int64_t *count)
{
    Py_ssize_t end, step;
    if (PySlice_Unpack(key, begin, &end, &step) < 0)
        return -1;
    *count = PySlice_AdjustIndices(layout->numbers[0], begin, &end, step);
    if (step == 1)
        return 0;
    PyErr_SetString(PyExc_ValueError, "views are contiguous: a slice's step is 1");
    return -1;
}

struct sm_layout *sm_layout_part(const struct sm_layout *layout, PyObject *key, size_t *offset)
{
    int64_t shape[64];
    Py_ssize_t begin;
    if (layout->ndim == 0) {
        PyErr_SetString(PyExc_IndexError, "an array without dimensions has no parts");
        return NULL;
    }
    const bool is_index = PyIndex_Check(key);
    if (!is_index && !PySlice_Check(key)) {
        PyErr_SetString(PyExc_TypeError, "views are made by an index or a slice of the first dimension");
        return NULL;
    }
    memcpy(shape, layout->numbers, (size_t)layout->ndim * sizeof *shape);
    if ((is_index ? parse_index(layout, key, &begin) : parse_slice(layout, key, &begin, &shape[0])) < 0)
        return NULL;
    const size_t row = (size_t)layout->numbers[layout->ndim] * layout->dtype->type.bits;
    if (row % 8 != 0)
        return fail_value("a row of these elements does not end at a byte");
    *offset = layout->elements ? (size_t)begin * (row / 8) : 0;
    return sm_layout_new(layout->dtype, layout->ndim - is_index, shape + is_index);
}
