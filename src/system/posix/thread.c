/* Threads, by POSIX. */
#include "system/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

bool sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument)
{
    pthread_t made;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&made, NULL, run, argument) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started)
        return false;
    if (thread)
        *thread = (sm_thread)made;
    else
        (void)pthread_detach(made);
    return true;
}

void sm_thread_join(sm_thread thread)
{
    (void)pthread_join((pthread_t)thread, NULL);
}

static pthread_key_t thread_end;
static bool watched;

void sm_thread_watch_ends(void (*end)(void *value))
{
    watched = pthread_key_create(&thread_end, end) == 0;
}

void sm_thread_set_end(void *value)
{
    if (watched)
        (void)pthread_setspecific(thread_end, value);
}
