/* The same as test_share_kills.c, with the calls of the emulated runtime as steps. */
#define STEPS_OF_RUNTIME
#include "test_share_kills.c"
