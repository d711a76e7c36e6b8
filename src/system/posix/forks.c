/* Forks, where nothing below the library has to be ready first. */
#include "system/process.h"

#include <pthread.h>

void sm_watch_forks(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)pthread_atfork(before, in_parent, in_child);
}
