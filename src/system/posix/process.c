/* The process, by POSIX. */
#include "system/process.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

long sm_process_id(void)
{
    return (long)getpid();
}

unsigned sm_processors(void)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (unsigned)processors : 1;
}

void sm_watch_forks(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)pthread_atfork(before, in_parent, in_child);
}

void sm_watch_exit(void (*function)(void))
{
    (void)atexit(function);
}

/* Other threads run until the process is gone. */
bool sm_is_last_thread(void)
{
    return false;
}
