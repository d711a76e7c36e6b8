/* Deleters of tensors are called by any thread, with the interpreter's lock or without it. */
#ifndef SM_PYTHON_GIL_H
#define SM_PYTHON_GIL_H

#include "core.h"

/* Finds the interpreter's functions. */
void sm_gil_init(void);
/* Releases the interpreter's lock if the thread has it, and returns what sm_gil_restore() needs. */
PyThreadState *sm_gil_release(void);
void sm_gil_restore(PyThreadState *state);

#endif
