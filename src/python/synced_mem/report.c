/* Numbers, traces, scopes, and calls of the whole library. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Numbers ---- */

/* A member of a struct of numbers. */
struct number {
    const char *name;
    size_t offset;
    size_t size;
};
#define NUMBER(type, member)                                                                                           \
    {                                                                                                                  \
#member, offsetof(type, member), sizeof(((type *)0)->member)                                                   \
    }

static const struct number stats_numbers[] = {
#define OF(member) NUMBER(synced_mem_stats, member)
    OF(objects),
    OF(h2d_transfers),
    OF(h2d_bytes),
    OF(d2h_transfers),
    OF(d2h_bytes),
    OF(staged_transfers),
    OF(host_allocations),
    OF(pageable_bytes),
    OF(pinned_bytes),
    OF(pageable_fallbacks),
    OF(gpu_allocations),
    OF(gpu_bytes),
    OF(retired),
    OF(quarantined),
    OF(events),
    OF(event_records),
    OF(stream_waits),
    OF(host_waits),
    OF(oom_reaps),
    OF(oom_waits),
    OF(oom_trims),
    OF(oom_callbacks),
    OF(oom_failures),
    OF(gpu_spare_bytes),
    OF(managed_bytes),
    OF(prefetches),
    OF(unprotected),
    OF(kernel_copies),
    OF(file_reads),
    OF(file_read_bytes),
    OF(file_writes),
    OF(file_write_bytes),
    OF(hold_hits),
    OF(hold_misses),
    OF(hold_nanoseconds),
    OF(clean_evictions),
    OF(dirty_evictions),
    OF(evicted_bytes),
    OF(host_evictions),
    OF(spills),
    OF(host_evicted_bytes),
    {NULL, 0, 0},
#undef OF
};

_Static_assert(offsetof(synced_mem_stats, objects) + (sizeof stats_numbers / sizeof *stats_numbers - 1) * 8 ==
                   sizeof(synced_mem_stats),
               "stats() returns each of the numbers");

static const struct number host_pool_numbers[] = {
#define OF(member) NUMBER(synced_mem_host_pool_stats, member)
    OF(requested_bytes), OF(peak_requested_bytes), OF(held_bytes),         OF(peak_held_bytes),   OF(free_bytes),
    OF(slabs),           OF(registrations),        OF(reused_allocations), OF(fresh_allocations), {NULL, 0, 0},
#undef OF
};

static const struct number gpu_pool_numbers[] = {
#define OF(member) NUMBER(synced_mem_gpu_pool_stats, member)
    OF(reserved), OF(reserved_high), OF(used), OF(used_high), {NULL, 0, 0},
#undef OF
};

static const struct number device_numbers[] = {
#define OF(member) NUMBER(synced_mem_device_info, member)
    OF(device),
    OF(driver_version),
    OF(runtime_version),
    OF(memory_pools),
    OF(pool_handles),
    OF(managed_memory),
    OF(concurrent_managed_access),
    OF(pageable_memory_access),
    OF(integrated),
    OF(can_map_host_memory),
    OF(host_register),
    OF(unified_addressing),
    OF(async_engines),
    OF(numa_node),
    OF(total_memory),
    {NULL, 0, 0},
#undef OF
};

static PyObject *read_number(const struct number *number, const void *from)
{
    const void *const place = (const char *)from + number->offset;
    if (number->size == sizeof(int))
        return PyLong_FromLong(*(const int *)place);
    return PyLong_FromUnsignedLongLong(*(const uint64_t *)place);
}

static PyObject *make_dict(const struct number *numbers, const void *from)
{
    PyObject *const dict = PyDict_New();
    for (; dict && numbers->name; numbers++) {
        PyObject *const value = read_number(numbers, from);
        const int result = value ? PyDict_SetItemString(dict, numbers->name, value) : -1;
        Py_XDECREF(value);
        if (result < 0) {
            Py_DECREF(dict);
            return NULL;
        }
    }
    return dict;
}

static PyObject *get_stats(PyObject *module, PyObject *nothing)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    synced_mem_status status;
    (void)module;
    (void)nothing;
    SM_CALL(status, synced_mem_get_stats(&stats));
    return status == SYNCED_MEM_OK ? make_dict(stats_numbers, &stats) : sm_raise(status);
}

static PyObject *get_host_pool_stats(PyObject *module, PyObject *nothing)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    synced_mem_status status;
    (void)module;
    (void)nothing;
    SM_CALL(status, synced_mem_host_pool_get_stats(&stats));
    return status == SYNCED_MEM_OK ? make_dict(host_pool_numbers, &stats) : sm_raise(status);
}

static int parse_device(PyObject *arguments, PyObject *names, int *device)
{
    static char *keywords[] = {"device", NULL};
    PyObject *object = Py_None;
    *device = SYNCED_MEM_DEVICE_CURRENT;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O", keywords, &object))
        return -1;
    if (object == Py_None)
        return 0;
    const long number = PyLong_AsLong(object);
    if (number == -1 && PyErr_Occurred())
        return -1;
    *device = number < 0 || number > INT16_MAX ? INT16_MAX : (int)number; /* the library refuses it */
    return 0;
}

static PyObject *get_gpu_pool_stats(PyObject *module, PyObject *arguments, PyObject *names)
{
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats};
    synced_mem_status status;
    int device;
    (void)module;
    if (parse_device(arguments, names, &device) < 0)
        return NULL;
    SM_CALL(status, synced_mem_gpu_pool_get_stats(device, &stats));
    return status == SYNCED_MEM_OK ? make_dict(gpu_pool_numbers, &stats) : sm_raise(status);
}

static PyObject *get_device_info(PyObject *module, PyObject *arguments, PyObject *names)
{
    synced_mem_device_info info = {.struct_size = sizeof info};
    synced_mem_status status;
    int device;
    (void)module;
    if (parse_device(arguments, names, &device) < 0)
        return NULL;
    SM_CALL(status, synced_mem_get_device_info(device, &info));
    PyObject *const dict = status == SYNCED_MEM_OK ? make_dict(device_numbers, &info) : sm_raise(status);
    PyObject *const bus = dict ? PyUnicode_FromString(info.pci_bus_id) : NULL;
    const bool is_set = bus && PyDict_SetItemString(dict, "pci_bus_id", bus) == 0;
    Py_XDECREF(bus);
    if (is_set)
        return dict;
    Py_XDECREF(dict);
    return NULL;
}

static PyObject *count_devices(PyObject *module, PyObject *nothing)
{
    int count;
    (void)module;
    (void)nothing;
    SM_CALL(count, synced_mem_device_count());
    return PyLong_FromLong(count);
}

/* ---- Text ---- */

static synced_mem_status print_stats(const void *nothing, FILE *file)
{
    (void)nothing;
    return synced_mem_print_stats(file);
}

static synced_mem_status print_objects(const void *nothing, FILE *file)
{
    (void)nothing;
    return synced_mem_print_all(file);
}

static synced_mem_status print_summary(const void *nothing, FILE *file)
{
    (void)nothing;
    return synced_mem_trace_summary(file);
}

static PyObject *describe_stats(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return sm_text_of(print_stats, NULL);
}

static PyObject *describe_objects(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return sm_text_of(print_objects, NULL);
}

static PyObject *summarize_trace(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return sm_text_of(print_summary, NULL);
}

/* ---- Traces ---- */

static PyObject *start_trace(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"path", NULL};
    PyObject *path = Py_None, *bytes = NULL;
    synced_mem_status status;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O:trace_start", keywords, &path) ||
        (path != Py_None && !PyUnicode_FSConverter(path, &bytes)))
        return NULL;
    const char *const name = bytes ? PyBytes_AsString(bytes) : NULL;
    SM_CALL(status, synced_mem_trace_start(name));
    Py_XDECREF(bytes);
    return sm_none_if_ok(status);
}

static PyObject *stop_trace(PyObject *module, PyObject *nothing)
{
    synced_mem_status status;
    (void)module;
    (void)nothing;
    SM_CALL(status, synced_mem_trace_stop());
    return sm_none_if_ok(status);
}

/* ---- The whole library ---- */

static PyObject *reap(PyObject *module, PyObject *nothing)
{
    synced_mem_status status;
    (void)module;
    (void)nothing;
    SM_CALL(status, synced_mem_reap());
    return sm_none_if_ok(status);
}

static PyObject *shut_down(PyObject *module, PyObject *nothing)
{
    synced_mem_status status;
    (void)module;
    (void)nothing;
    SM_CALL(status, synced_mem_shutdown());
    return sm_none_if_ok(status);
}

/* ---- Scopes ---- */

struct scope {
    PyObject base;
    PyObject *name; /* bytes */
};

static PyTypeObject *scope_type;

static PyObject *new_scope(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"name", NULL};
    const char *name;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "s:scope", keywords, &name))
        return NULL;
    struct scope *const scope = (struct scope *)PyType_GenericAlloc(type, 0);
    if (scope && !(scope->name = PyBytes_FromString(name))) {
        Py_DECREF((PyObject *)scope);
        return NULL;
    }
    return (PyObject *)scope;
}

static void free_scope(struct scope *scope)
{
    PyTypeObject *const type = Py_TYPE((PyObject *)scope);
    Py_XDECREF(scope->name);
    PyObject_Free(scope);
    Py_DECREF(type);
}

static PyObject *enter_scope(struct scope *scope, PyObject *nothing)
{
    (void)nothing;
    const char *const name = PyBytes_AsString(scope->name);
    SM_UNLOCKED(synced_mem_scope_begin(name));
    Py_INCREF((PyObject *)scope);
    return (PyObject *)scope;
}

static PyObject *exit_scope(struct scope *scope, PyObject *arguments)
{
    (void)scope;
    (void)arguments;
    SM_UNLOCKED(synced_mem_scope_end());
    Py_RETURN_NONE;
}

static PyMethodDef scope_methods[] = {
    {"__enter__", (PyCFunction)enter_scope, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)exit_scope, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(scope_doc, "scope(name)\n--\n\n"
                        "A block whose name traces and messages of debug mode show: \"with synced_mem.scope(name):\".");

static PyType_Slot scope_slots[] = {
    {Py_tp_doc, (void *)scope_doc},
    {Py_tp_new, new_scope},
    {Py_tp_dealloc, free_scope},
    {Py_tp_methods, scope_methods},
    {0, NULL},
};

static PyType_Spec scope_spec = {
    .name = "synced_mem.scope",
    .basicsize = sizeof(struct scope),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = scope_slots,
};

/* ---- The functions ---- */

PyDoc_STRVAR(stats_doc, "stats()\n--\n\n"
                        "Returns the library's counters as a dict; \"objects\" are those alive. Sizes are in bytes. "
                        "synced_mem_stats explains\nthem.");
PyDoc_STRVAR(host_pool_doc,
             "host_pool_stats()\n--\n\nReturns the numbers of the pool of page-locked memory as a dict.");
PyDoc_STRVAR(gpu_pool_doc,
             "gpu_pool_stats(device=None)\n--\n\n"
             "Returns the numbers of a device's memory pool as a dict, in bytes. None: the current device.");
PyDoc_STRVAR(info_doc, "device_info(device=None)\n--\n\nReturns the abilities of a device as a dict. Raises an Error.");
PyDoc_STRVAR(count_doc, "device_count()\n--\n\nReturns the number of CUDA devices, 0 also without CUDA or a driver.");
PyDoc_STRVAR(start_doc, "trace_start(path=None)\n--\n\n"
                        "Starts to write a trace in Chrome's format to a file, which is emptied; None: only counts for "
                        "trace_summary().\nRaises FileError, or InvalidStateError if there is a trace.");
PyDoc_STRVAR(stop_doc, "trace_stop()\n--\n\nWrites the rest of the trace, and closes the file. Raises an Error.");
PyDoc_STRVAR(summary_doc, "trace_summary()\n--\n\nReturns the objects that went back and forth most, as text.");
PyDoc_STRVAR(stats_text_doc, "describe_stats()\n--\n\nReturns the statistics and the pools as text.");
PyDoc_STRVAR(objects_doc, "describe_objects()\n--\n\nReturns every living object and their number as text.");
PyDoc_STRVAR(reap_doc, "reap()\n--\n\n"
                       "Frees memory that finished work no longer needs, and ends arrays that objects have adopted. "
                       "Raises an Error.");
PyDoc_STRVAR(shutdown_doc, "shutdown()\n--\n\n"
                           "Frees the library's streams, events and pools, until it is used again. Raises "
                           "InvalidStateError while objects\nare alive, or another Error.");

static PyMethodDef functions[] = {
    {"stats", get_stats, METH_NOARGS, stats_doc},
    {"host_pool_stats", get_host_pool_stats, METH_NOARGS, host_pool_doc},
    {"gpu_pool_stats", (PyCFunction)(void (*)(void))get_gpu_pool_stats, METH_VARARGS | METH_KEYWORDS, gpu_pool_doc},
    {"device_info", (PyCFunction)(void (*)(void))get_device_info, METH_VARARGS | METH_KEYWORDS, info_doc},
    {"device_count", count_devices, METH_NOARGS, count_doc},
    {"trace_start", (PyCFunction)(void (*)(void))start_trace, METH_VARARGS | METH_KEYWORDS, start_doc},
    {"trace_stop", stop_trace, METH_NOARGS, stop_doc},
    {"trace_summary", summarize_trace, METH_NOARGS, summary_doc},
    {"describe_stats", describe_stats, METH_NOARGS, stats_text_doc},
    {"describe_objects", describe_objects, METH_NOARGS, objects_doc},
    {"reap", reap, METH_NOARGS, reap_doc},
    {"shutdown", shut_down, METH_NOARGS, shutdown_doc},
    {NULL, NULL, 0, NULL},
};

int sm_report_init(PyObject *module)
{
    return sm_add_type(module, &scope_spec, &scope_type) < 0 ? -1 : sm_add_functions(module, functions);
}
