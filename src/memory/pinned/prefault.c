/* Prefaulting: the calling thread and a few short-lived ones each take the next huge page until none is left. */
#include "memory/pinned/prefault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { PAGE = 4096, MOST_THREADS = 8 };

/* Below WORTH_THREADS bytes, starting a thread costs more than it saves. */
static const size_t HUGE_PAGE = (size_t)2 << 20;
static const size_t WORTH_THREADS = (size_t)8 << 20;

struct work {
    char *start;
    size_t bytes;
    atomic_size_t next; /* offset of the next huge page */
};

static void *prefault_huge_pages(void *argument)
{
    struct work *const work = argument;
    size_t from;
    while ((from = atomic_fetch_add_explicit(&work->next, HUGE_PAGE, memory_order_relaxed)) < work->bytes)
        for (size_t at = from; at < work->bytes && at < from + HUGE_PAGE; at += PAGE)
            *(volatile char *)(work->start + at) = 0;
    return NULL;
}

static int count_helpers(size_t bytes)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (bytes < WORTH_THREADS)
        return 0;
    return (processors < MOST_THREADS ? (int)processors : MOST_THREADS) - 1;
}

/* Starts threads with all signals blocked: the program's handlers must not run in them. Returns their number, which may
 * be less than wanted. */
static int start_helpers(pthread_t *helpers, int wanted, struct work *work)
{
    sigset_t all;
    sigset_t before;
    int started = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < wanted && pthread_create(&helpers[started], NULL, prefault_huge_pages, work) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void sm_prefault(void *start, size_t bytes)
{
    struct work work = {.start = start, .bytes = bytes};
    pthread_t helpers[MOST_THREADS];
    const int wanted = count_helpers(bytes);
    const int started = wanted > 0 ? start_helpers(helpers, wanted, &work) : 0;
    (void)prefault_huge_pages(&work);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
}
