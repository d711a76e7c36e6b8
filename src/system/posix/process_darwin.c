/* The parts of the process that are macOS's. */
#include "system/process.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t sm_thread_id(void)
{
    uint64_t number = 0;
    (void)pthread_threadid_np(NULL, &number);
    return number;
}

const char *sm_environment(const char *name)
{
    return issetugid() ? NULL : getenv(name);
}
