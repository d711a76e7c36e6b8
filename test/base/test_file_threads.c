/* Checks when the threads that read and write files rest. */
#include "fixture.h"

#include "base/file_threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4 };

static atomic_int rests, worked;

static bool count_rest(bool waits)
{
    atomic_fetch_add(&rests, !waits);
    return true;
}

struct task {
    struct sm_file_task task; /* the first member */
    atomic_bool is_begun;
};

/* Each thread works on a large task: it stays until all have come. Two threads may come to a small one, which counts
 * once. */
static void work(struct sm_file_task *task)
{
    if (!atomic_exchange(&((struct task *)task)->is_begun, true) || !task->is_small)
        atomic_fetch_add(&worked, 1);
    for (int i = 0; !task->is_small && i < 100000 && atomic_load(&worked) < THREADS; i++)
        (void)usleep(1000);
}

static void free_task(struct sm_file_task *task)
{
    free(task);
}

static void add_task(bool is_small)
{
    struct task *const made = calloc(1, sizeof *made);
    ck_assert_ptr_nonnull(made);
    made->task = (struct sm_file_task){.work = work, .free = free_task, .holders = 1, .is_small = is_small};
    sm_file_threads_add(SM_FILE_READERS, &made->task);
    sm_file_task_drop(&made->task);
}

/* A thread that gets no task rests, although others get small ones all the time. Fewer tasks come in the 10 ms after
 * which a thread rests than there are threads, so one gets none, whichever threads the system wakes. */
START_TEST(rests_beside_others)
{
    ck_assert(sm_file_threads_start(SM_FILE_READERS, THREADS, count_rest));
    add_task(false);
    for (int i = 0; i < 100000 && atomic_load(&worked) < THREADS; i++)
        (void)usleep(1000);
    atomic_store(&rests, 0);
    int added = 0;
    for (; added < 1000 && atomic_load(&rests) == 0; added++) {
        add_task(true);
        (void)usleep(4000);
    }
    ck_assert_int_gt(atomic_load(&rests), 0);
    sm_file_threads_end();
    ck_assert_int_eq(atomic_load(&worked), THREADS + added);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("file_threads");
    tcase_add_test(add_case(made, "threads"), rests_beside_others);
    return made;
}
