/* Whether the calling thread has the interpreter's lock. The limited interface has no function for that before 3.13;
 * every version exports one. */
#include "gil.h"

#include <dlfcn.h>

static PyThreadState *(*get_current)(void);

void sm_gil_init(void)
{
    void *found = dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked"); /* since 3.13 */
    if (!found)
        found = dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet");
    *(void **)&get_current = found;
}

/* Until 3.11 the state is that of the thread which has the lock, later that of the calling thread if
 * that has it. */
PyThreadState *sm_gil_release(void)
{
    PyThreadState *const state = get_current && Py_IsInitialized() ? get_current() : NULL;
    return state && state == PyGILState_GetThisThreadState() ? PyEval_SaveThread() : NULL;
}

void sm_gil_restore(PyThreadState *state)
{
    if (state)
        PyEval_RestoreThread(state);
}
