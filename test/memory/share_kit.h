/* Control pages and their participants, for suites of processes. */
#ifndef SHARE_KIT_H
#define SHARE_KIT_H

#include "children.h"
#include "fixture.h"
#include "leftovers.h"

#include "base/deadline.h"
#include "memory/shared/turns.h"

#include <stdlib.h>
#include <unistd.h>

enum { MILLISECOND = 1000000 };

/* A control page with its file. */
struct shared_page {
    int fd;
    struct sm_control_page *page;
};

/* The one of the test. */
static struct shared_page newest_page;

static inline struct shared_page make_page(void)
{
    struct shared_page made;
    void *data;
    ck_assert_int_eq(sm_memfd_make(SM_MEMFD_PAGE, &made.fd), SYNCED_MEM_OK);
    ck_assert_int_eq(sm_memfd_map(made.fd, SM_MEMFD_PAGE, SM_MEMFD_PAGE, &data), SYNCED_MEM_OK);
    made.page = data;
    newest_page = made;
    return made;
}

/* A forked child of a process with participants has private memory instead of the page. */
static inline void map_page_in_child(void)
{
    void *const at = newest_page.page;
    if (at && mmap(at, SM_MEMFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, newest_page.fd, 0) != at)
        abort();
}

static inline void drop_page(struct shared_page *made)
{
    sm_sealed_unmap(made->page, SM_MEMFD_PAGE);
    sm_fd_close(&made->fd);
    newest_page.page = NULL;
}

static inline struct sm_participant *join(const struct shared_page *of)
{
    struct sm_participant *const participant = malloc(sizeof *participant);
    ck_assert_ptr_nonnull(participant);
    ck_assert_int_eq(sm_participant_join(participant, of->page, of->fd, sm_deadline_after(100000)), SYNCED_MEM_OK);
    return participant;
}

static inline void leave(struct sm_participant *participant)
{
    sm_participant_leave(participant);
    free(participant);
}

/* Starts a child that ends with the function's result. A child that hangs is killed. Nothing of Check's may be called
 * in it. */
static inline pid_t start_child(int (*function)(void *argument), void *argument)
{
    (void)fflush(NULL);
    await_threads();
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)alarm(200);
        map_page_in_child();
        exit(function(argument));
    }
    return child;
}

static inline void await_value(const atomic_int *value, int wanted)
{
    const uint64_t begin = sm_now();
    while (atomic_load(value) < wanted && sm_now() < begin + 100000ull * MILLISECOND)
        (void)usleep(200);
    ck_assert_int_ge(atomic_load(value), wanted);
}

#endif
