/*
 * Words on a system where threads can't sleep on memory: a table of condition variables. A word's address says which
 * one its sleepers wait for. Others may wait for the same one, so all of these are woken, and most sleep again.
 *
 * A forked child may have a table whose locks are held by threads that it does not have. It begins a new one, before
 * anything else in the library.
 */
#include "system/word.h"

#include "system/posix/cond.h"
#include "system/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

enum { PLACES = 64 };

static struct place {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
} places[PLACES];

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin_table(void)
{
    for (int i = 0; i < PLACES; i++) {
        (void)pthread_mutex_init(&places[i].mutex, NULL);
        sm_cond_init(&places[i].woken);
    }
}

static void begin_table_of_process(void)
{
    begin_table();
    (void)pthread_atfork(NULL, NULL, begin_table);
}

/* Hooks of a child run in the order of their registration, so the table's is the first. */
void sm_watch_forks(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)pthread_once(&once, begin_table_of_process);
    (void)pthread_atfork(before, in_parent, in_child);
}

/*
 * While a thread has a place, also in its sleep, it takes no signals, whose handlers might fork and wake words, and is
 * not cancelled. So that signals do not wait for long, a sleep ends after a while for no reason.
 */
static const uint64_t MOST_SLEEP = 100000000;

struct calm {
    sigset_t signals;
    int cancelling;
    int error;
};

static struct place *take_place(const atomic_uint *word, struct calm *before)
{
    struct place *const place = &places[((uintptr_t)word * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
    sigset_t all;
    before->error = errno;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before->signals);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->cancelling);
    (void)pthread_once(&once, begin_table_of_process);
    (void)pthread_mutex_lock(&place->mutex);
    return place;
}

static void leave_place(struct place *place, const struct calm *before)
{
    (void)pthread_mutex_unlock(&place->mutex);
    (void)pthread_setcancelstate(before->cancelling, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
    errno = before->error;
}

void sm_word_wait_for(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    struct calm before;
    struct place *const place = take_place(word, &before);
    if (atomic_load(word) == seen)
        sm_cond_wait_for(&place->woken, &place->mutex, nanoseconds < MOST_SLEEP ? nanoseconds : MOST_SLEEP);
    leave_place(place, &before);
}

void sm_word_wait(atomic_uint *word, unsigned seen)
{
    sm_word_wait_for(word, seen, MOST_SLEEP);
}

void sm_word_wake_all(atomic_uint *word)
{
    struct calm before;
    struct place *const place = take_place(word, &before);
    (void)pthread_cond_broadcast(&place->woken);
    leave_place(place, &before);
}

/* The one that a signal wakes might sleep on another word. */
void sm_word_wake_one(atomic_uint *word)
{
    sm_word_wake_all(word);
}
