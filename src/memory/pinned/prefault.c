/* Prefaulting: the calling thread and a few short-lived ones each take the next huge page until none is left. */
#include "memory/pinned/prefault.h"

#include "system/pages.h"
#include "system/process.h"
#include "system/thread.h"

#include <stdatomic.h>

enum { MOST_THREADS = 8 };

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
    const size_t page = sm_page_size();
    size_t from;
    while ((from = atomic_fetch_add_explicit(&work->next, HUGE_PAGE, memory_order_relaxed)) < work->bytes)
        for (size_t at = from; at < work->bytes && at < from + HUGE_PAGE; at += page)
            *(volatile char *)(work->start + at) = 0;
    return NULL;
}

static unsigned count_helpers(size_t bytes)
{
    const unsigned processors = bytes < WORTH_THREADS ? 1 : sm_processors();
    return (processors < MOST_THREADS ? processors : MOST_THREADS) - 1;
}

void sm_prefault(void *start, size_t bytes)
{
    struct work work = {.start = start, .bytes = bytes};
    sm_thread helpers[MOST_THREADS];
    const unsigned wanted = count_helpers(bytes);
    unsigned started = 0;
    while (started < wanted && sm_thread_start(&helpers[started], prefault_huge_pages, &work))
        started++;
    (void)prefault_huge_pages(&work);
    for (unsigned i = 0; i < started; i++)
        sm_thread_join(helpers[i]);
}
