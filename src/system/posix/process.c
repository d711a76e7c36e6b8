/* The process, by POSIX. */
#include "system/process.h"

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

void sm_watch_exit(void (*function)(void))
{
    (void)atexit(function);
}

/* Other threads run until the process is gone. */
bool sm_is_last_thread(void)
{
    return false;
}
