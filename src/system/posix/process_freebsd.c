/* The parts of the process that are FreeBSD's. */
#include "system/process.h"

#include <pthread.h>
#include <pthread_np.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t sm_thread_id(void)
{
    return (uint64_t)pthread_getthreadid_np();
}

const char *sm_environment(const char *name)
{
    return issetugid() ? NULL : getenv(name);
}
