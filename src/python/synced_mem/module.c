/* The module synced_mem._core. */
#include "core.h"
#include "gil.h"

#include <string.h>

/* ---- Helpers of the parts ---- */

int sm_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type ? PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, (PyObject *)*type) : -1;
}

int sm_add_methods(PyTypeObject *type, PyMethodDef *methods)
{
    for (; methods->ml_name; methods++) {
        PyObject *const method = PyDescr_NewMethod(type, methods);
        const int result = method ? PyObject_SetAttrString((PyObject *)type, methods->ml_name, method) : -1;
        Py_XDECREF(method);
        if (result < 0)
            return -1;
    }
    return 0;
}

int sm_add_functions(PyObject *module, PyMethodDef *functions)
{
    return PyModule_AddFunctions(module, functions);
}

/* ---- The import ---- */

/* A library of another minor version has another soname. The package may need what later versions have added. */
static int check_version(void)
{
    const int built = SYNCED_MEM_VERSION_MAJOR * 10000 + SYNCED_MEM_VERSION_MINOR * 100 + SYNCED_MEM_VERSION_PATCH;
    const int found = synced_mem_version();
    if (found / 100 == built / 100 && found >= built)
        return 0;
    PyErr_Format(PyExc_ImportError, "the package was built for libsynced_mem %d.%d.%d, but the library is %d.%d.%d",
                 built / 10000, built / 100 % 100, built % 100, found / 10000, found / 100 % 100, found % 100);
    return -1;
}

/* Types are the process's, so they belong to one interpreter. A later import of the module gets the first one. */
static int check_interpreter(void)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
        return 0;
    PyErr_SetString(PyExc_ImportError, "synced_mem can be imported by the main interpreter alone");
    return -1;
}

static int add_version(PyObject *module)
{
    PyObject *const text =
        PyUnicode_FromFormat("%d.%d.%d", SYNCED_MEM_VERSION_MAJOR, SYNCED_MEM_VERSION_MINOR, SYNCED_MEM_VERSION_PATCH);
    const int result = text ? PyModule_AddObjectRef(module, "__version__", text) : -1;
    Py_XDECREF(text);
    return result;
}

static int fill_module(PyObject *module)
{
    sm_gil_init();
    int (*const parts[])(PyObject *) = {sm_names_init,  sm_error_init,  sm_tensor_init, sm_stream_init,
                                        sm_memory_init, sm_access_init, sm_calls_init,  sm_turn_init,
                                        sm_hold_init,   sm_file_init,   sm_import_init, sm_report_init};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](module) < 0)
            return -1;
    return add_version(module) < 0 ? -1 : sm_exchange_init();
}

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "synced_mem._core",
                                        .m_doc = "The extension of synced_mem."};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    static PyObject *made;
    if (check_interpreter() < 0 || check_version() < 0)
        return NULL;
    if (!made) {
        PyObject *const module = PyModule_Create(&definition);
        if (!module || fill_module(module) < 0) {
            Py_XDECREF(module);
            return NULL;
        }
        made = module;
    }
    Py_INCREF(made);
    return made;
}
