/* The parts of the process for which POSIX alone has no call. */
#include "system/process.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* The system may know the thread by another number. */
uint64_t sm_thread_id(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}

const char *sm_environment(const char *name)
{
    const bool has_more_rights = getuid() != geteuid() || getgid() != getegid();
    return has_more_rights ? NULL : getenv(name);
}
