/*
 * Words on a system where threads can't sleep on memory: a table of condition variables. A word's address says which one
 * its sleepers wait for. Others may wait for the same one, so all of these are woken, and most sleep again.
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

/* What the thread does without while it has a place: signals, whose handlers might fork and wake, and its end. */
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

/* A sleeper takes signals as they come. */
static bool is_to_sleep(const atomic_uint *word, unsigned seen, const struct calm *before)
{
    const bool is_seen = atomic_load(word) == seen;
    if (is_seen)
        (void)pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
    return is_seen;
}

void sm_word_wait(atomic_uint *word, unsigned seen)
{
    struct calm before;
    struct place *const place = take_place(word, &before);
    if (is_to_sleep(word, seen, &before))
        (void)pthread_cond_wait(&place->woken, &place->mutex);
    leave_place(place, &before);
}

void sm_word_wait_for(atomic_uint *word, unsigned seen, uint64_t nanoseconds)
{
    struct calm before;
    struct place *const place = take_place(word, &before);
    if (is_to_sleep(word, seen, &before))
        sm_cond_wait_for(&place->woken, &place->mutex, nanoseconds);
    leave_place(place, &before);
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
