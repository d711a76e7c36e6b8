/* The parts of the process that are Linux's. */
#include "system/process.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t sm_thread_id(void)
{
    return (uint64_t)syscall(SYS_gettid);
}

const char *sm_environment(const char *name)
{
    return secure_getenv(name);
}
