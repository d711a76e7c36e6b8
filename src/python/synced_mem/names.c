/* The names of attributes that the extension looks up. They are made once, since Python's caches keep each name that
 * they see. */
#include "core.h"

static const char *const texts[SM_NAMES] = {
    [SM_NAME_NAME] = "name",
    [SM_NAME_NAME_OF_TYPE] = "__name__",
    [SM_NAME_DTYPE] = "dtype",
    [SM_NAME_CUDA_STREAM_PROTOCOL] = "__cuda_stream__",
    [SM_NAME_CUDA_STREAM] = "cuda_stream",
    [SM_NAME_PTR] = "ptr",
    [SM_NAME_DLPACK] = "__dlpack__",
    [SM_NAME_DLPACK_DEVICE] = "__dlpack_device__",
    [SM_NAME_MAX_VERSION] = "max_version",
    [SM_NAME_STREAM] = "stream",
    [SM_NAME_STATUS] = "status",
    [SM_NAME_STATUS_NAME] = "status_name",
};
PyObject *sm_names[SM_NAMES];

int sm_names_init(PyObject *module)
{
    (void)module;
    for (int i = 0; i < SM_NAMES; i++)
        if (!sm_names[i] && !(sm_names[i] = PyUnicode_InternFromString(texts[i])))
            return -1;
    return 0;
}

PyObject *sm_get(PyObject *object, enum sm_name name)
{
    return PyObject_GetAttr(object, sm_names[name]);
}
