/* Threads of the library. */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

bool sm_thread_start(void *(*run)(void *argument))
{
    pthread_t thread;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread, NULL, run, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        (void)pthread_detach(thread);
    return started;
}
