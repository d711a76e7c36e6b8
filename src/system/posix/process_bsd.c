/* The parts of the process that NetBSD, OpenBSD and DragonFly have alike. */
#include "system/process.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Each of the systems has another call for the number by which it knows the thread. */
uint64_t sm_thread_id(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}

const char *sm_environment(const char *name)
{
    return issetugid() ? NULL : getenv(name);
}
