/* Errands, and the threads that run them. */
#include "memory/shared/errand.h"

#include "base/mutex.h"
#include "base/process.h"
#include "memory/shared/closer.h"
#include "system/file.h"
#include "system/process.h"
#include "system/thread.h"

#include <stddef.h>

enum { MOST_THREADS = 4 };
enum { UNDER_WAY, DONE, ABANDONED };

/* A waiting thread looks so often whether it is in a forked child, in nanoseconds. */
static const uint64_t LONGEST_SLEEP = 50000000;

static struct {
    struct sm_lock lock;
    struct sm_errand *first; /* those that no thread runs yet */
    struct sm_errand *last;
    unsigned waiting;
    unsigned running;
    unsigned threads;
    unsigned generation; /* the process that has the threads */
    struct sm_events ends;
} errands = {.lock = SM_LOCK_INITIALIZER};

/* ---- With the lock held ---- */

/* After a fork the child has neither the threads nor the errands. */
static void forget_parent(void)
{
    if (errands.generation == sm_process_generation())
        return;
    errands.generation = sm_process_generation();
    errands.first = errands.last = NULL;
    errands.waiting = errands.running = errands.threads = 0;
}

static void add_errand(struct sm_errand *errand)
{
    errand->next = NULL;
    if (errands.last)
        errands.last->next = errand;
    else
        errands.first = errand;
    errands.last = errand;
    errands.waiting++;
}

static struct sm_errand *take_errand(void)
{
    struct sm_errand *const errand = errands.first;
    if (!errand)
        return NULL;
    errands.first = errand->next;
    if (!errands.first)
        errands.last = NULL;
    errands.waiting--;
    return errand;
}

/* ---- Threads ---- */

static void end_errand(struct sm_errand *errand)
{
    if (atomic_exchange(&errand->state, DONE) == ABANDONED)
        errand->abandon(errand);
    else
        sm_events_add(&errands.ends);
}

static void *run_errands(void *unused)
{
    struct sm_errand *errand;
    sm_lock(&errands.lock);
    while ((errand = take_errand()) != NULL) {
        errands.running++;
        sm_unlock(&errands.lock);
        errand->run(errand);
        end_errand(errand);
        sm_lock(&errands.lock);
        errands.running--;
    }
    errands.threads -= errands.threads > 0; /* a fork may have forgotten this one */
    sm_unlock(&errands.lock);
    return unused;
}

/* Leaves a processor to the rest of the program. */
static unsigned get_most_threads(void)
{
    const unsigned processors = sm_processors();
    return processors <= 2 ? 1 : processors <= MOST_THREADS ? processors - 1 : MOST_THREADS;
}

/* If the system refuses a thread, this one runs what waits. No signal comes while the lock is held because of
 * sm_thread_start(): its handler might fork. */
static void hand_over(struct sm_errand *errand)
{
    const unsigned most = get_most_threads();
    sm_lock(&errands.lock);
    forget_parent();
    add_errand(errand);
    const bool needs_thread = errands.threads < most && errands.threads < errands.running + errands.waiting;
    errands.threads += needs_thread;
    sm_unlock(&errands.lock);
    if (needs_thread && !sm_thread_start(NULL, run_errands, NULL))
        (void)run_errands(NULL);
}

/* ---- Interface ---- */

bool sm_errand_run(struct sm_errand *errand, sm_deadline until)
{
    const unsigned generation = sm_process_generation();
    if (until == UINT64_MAX) {
        errand->run(errand);
        return true;
    }
    atomic_store(&errand->state, UNDER_WAY);
    hand_over(errand);
    for (;;) {
        const unsigned seen = sm_events_seen(&errands.ends);
        if (atomic_load(&errand->state) == DONE)
            return true;
        const uint64_t left = sm_deadline_left(until);
        unsigned state = UNDER_WAY;
        if (left == 0 || sm_process_generation() != generation)
            return !atomic_compare_exchange_strong(&errand->state, &state, ABANDONED);
        sm_events_wait_for(&errands.ends, seen, left < LONGEST_SLEEP ? left : LONGEST_SLEEP);
    }
}

bool sm_errand_is_abandoned(struct sm_errand *errand)
{
    return atomic_load(&errand->state) == ABANDONED;
}

/* Files that wait for their end. In a table, as a thread that gives memory back is in the way of forks. */
enum { CLOSINGS = 64 };

static struct closing {
    struct sm_errand errand;
    atomic_int fd; /* 0: free; no file has a standard descriptor */
} closings[CLOSINGS];

static struct closing *get_closing(struct sm_errand *errand)
{
    return (struct closing *)errand; /* its first member */
}

static void close_file(struct sm_errand *errand)
{
    (void)sm_file_close(atomic_load(&get_closing(errand)->fd));
}

static void end_closing(struct sm_errand *errand)
{
    atomic_store(&get_closing(errand)->fd, 0);
}

/* Returns NULL if all are in use. */
static struct closing *take_closing(int fd)
{
    for (int i = 0; i < CLOSINGS; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&closings[i].fd, &none, fd))
            return &closings[i];
    }
    return NULL;
}

void sm_errand_close(int fd)
{
    struct closing *const closing = fd >= 0 ? take_closing(fd) : NULL;
    if (!closing) {
        sm_closer_add(fd);
        return;
    }
    closing->errand = (struct sm_errand){.run = close_file, .abandon = end_closing};
    if (sm_errand_run(&closing->errand, 0))
        end_closing(&closing->errand);
}

bool sm_errand_none(void)
{
    sm_lock(&errands.lock);
    forget_parent();
    const bool none = errands.waiting + errands.threads == 0;
    sm_unlock(&errands.lock);
    return none;
}
