/* A process that takes turns is killed at each of its steps. Whatever it was about to do, the others go on. */
#include "leftovers.h"
#include "share_kit.h"
#include "steps_kit.h"

static struct shared_page made;
static struct sm_participant *me;
static unsigned head;

/* Joins, writes, reads, and leaves. */
static int take_all_turns(void *unused)
{
    struct sm_participant one;
    unsigned at;
    (void)unused;
    if (sm_participant_join(&one, made.page, made.fd, sm_deadline_after(100000)) != SYNCED_MEM_OK)
        return 1;
    if (sm_turn_wait(&one, true, sm_deadline_after(100000), &at) != SYNCED_MEM_OK)
        return 2;
    sm_turn_end_write(&one, SYNCED_MEM_AT_CPU);
    if (sm_turn_wait(&one, false, sm_deadline_after(100000), &at) != SYNCED_MEM_OK)
        return 3;
    sm_turn_read(&one, SYNCED_MEM_SYNCED);
    sm_turn_end_read(&one);
    sm_participant_leave(&one);
    return 0;
}

/* Joins, abandons a turn to write and one to read, and leaves. */
static int abandon_turns(void *unused)
{
    struct sm_participant one;
    unsigned at;
    (void)unused;
    if (sm_participant_join(&one, made.page, made.fd, sm_deadline_after(100000)) != SYNCED_MEM_OK)
        return 1;
    if (sm_turn_wait(&one, true, sm_deadline_after(100000), &at) != SYNCED_MEM_OK)
        return 2;
    sm_turn_abandon_write(&one);
    if (sm_turn_wait(&one, false, sm_deadline_after(100000), &at) != SYNCED_MEM_OK) /* it is not told */
        return 3;
    sm_turn_end_read(&one);
    sm_participant_leave(&one);
    return 0;
}

/* Waits in line behind this process, gives up, and leaves. */
static int wait_in_vain(void *unused)
{
    struct sm_participant one;
    unsigned at;
    (void)unused;
    if (sm_participant_join(&one, made.page, made.fd, sm_deadline_after(100000)) != SYNCED_MEM_OK)
        return 1;
    if (sm_turn_wait(&one, true, sm_deadline_after(2), &at) != SYNCED_MEM_ERR_TIMEOUT)
        return 2;
    sm_participant_leave(&one);
    return 0;
}

/* Cleans up after one that died, and dies. */
static int clean_up(void *unused)
{
    struct sm_participant one;
    unsigned at;
    (void)unused;
    if (sm_participant_join(&one, made.page, made.fd, sm_deadline_after(100000)) != SYNCED_MEM_OK)
        return 1;
    const synced_mem_status first = sm_turn_wait(&one, true, sm_deadline_after(100000), &at);
    if (first != SYNCED_MEM_ERR_OWNER_DIED && first != SYNCED_MEM_OK)
        return 2;
    if (first == SYNCED_MEM_OK)
        sm_turn_end_write(&one, at);
    sm_participant_leave(&one);
    return 0;
}

static int kill_at;

static int run_to_step(void *function)
{
    steps.count = 0;
    steps.kill_at = kill_at;
    return (*(int (**)(void *))function)(NULL);
}

/* Returns whether the child got to its end. */
static bool is_killed_at(int step, int (*function)(void *))
{
    kill_at = step;
    const int how = end_child(start_child(run_to_step, &function));
    ck_assert_msg(how == 0 || how == KILLED + SIGKILL, "step %d: %d", step, how);
    return how != 0;
}

/* A sanitizer tries some of the steps, as each is a process. */
enum { NEXT = SANITIZED ? 3 : 1 };

static struct sm_contents contents_now(void)
{
    struct sm_contents contents;
    ck_assert_int_eq(sm_contents_read(made.page, &contents), SYNCED_MEM_OK);
    return contents;
}

/* This process is told exactly if the other one was writing, or has abandoned what it wrote. Its next turn comes at
 * once. */
static void check_others_go_on(int step)
{
    const unsigned left = contents_now().head;
    const bool told = left == SM_CONTENTS_WRITTEN || contents_now().deaths != me->seen_deaths;
    const synced_mem_status status = sm_turn_wait(me, true, sm_deadline_after(100000), &head);
    ck_assert_msg(status == (told ? SYNCED_MEM_ERR_OWNER_DIED : SYNCED_MEM_OK), "step %d: %d", step, (int)status);
    if (told)
        ck_assert_int_eq(sm_turn_wait(me, true, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    ck_assert_uint_eq(head, told ? SYNCED_MEM_UNINITIALIZED : left);
    sm_turn_end_write(me, SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(sm_turn_wait(me, false, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    ck_assert_uint_eq(head, SYNCED_MEM_AT_GPU);
    sm_turn_end_read(me);
}

START_TEST(a_process_dies_at_each_step)
{
    int step = 1;
    made = make_page();
    me = join(&made);
    for (; is_killed_at(step, take_all_turns); step += NEXT)
        check_others_go_on(step);
    ck_assert_int_gt(step, 20);
    check_others_go_on(step);
    leave(me);
    drop_page(&made);
}
END_TEST

/* Whether it dies before it abandons, or afterwards: one death is counted, and the version stays. */
START_TEST(one_that_abandons_dies_at_each_step)
{
    int step = 1, lost = 0;
    bool killed = true;
    made = make_page();
    me = join(&made);
    for (; killed; step += NEXT) {
        const struct sm_contents before = contents_now();
        killed = is_killed_at(step, abandon_turns);
        const struct sm_contents after = contents_now();
        const bool abandoned = after.deaths != before.deaths;
        lost += abandoned;
        ck_assert_uint_le(after.deaths - before.deaths, 1);
        ck_assert_uint_eq(after.version, before.version);
        ck_assert(!abandoned || (after.lost && after.head == SYNCED_MEM_UNINITIALIZED));
        check_others_go_on(step);
    }
    ck_assert_int_gt(step, 20);
    ck_assert_int_gt(lost, 5);
    leave(me);
    drop_page(&made);
}
END_TEST

START_TEST(one_that_waits_dies_at_each_step)
{
    int step = 1;
    bool killed = true;
    made = make_page();
    me = join(&made);
    for (; killed; step += NEXT) {
        ck_assert_int_eq(sm_turn_wait(me, true, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
        killed = is_killed_at(step, wait_in_vain);
        sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
        check_others_go_on(step);
    }
    ck_assert_int_gt(step, 10);
    leave(me);
    drop_page(&made);
}
END_TEST

/* The first child dies in its turn to write, at this step: it has stored the contents. */
static int find_step_of_writing(void)
{
    int step = 1;
    while (is_killed_at(step, take_all_turns) && contents_now().head != SM_CONTENTS_WRITTEN)
        step++;
    check_others_go_on(step);
    return step;
}

START_TEST(one_that_cleans_up_dies_at_each_step)
{
    int step = 1;
    bool killed = true;
    made = make_page();
    me = join(&made);
    const int writing = find_step_of_writing();
    for (; killed; step += NEXT) {
        struct sm_participant *const blocker = join(&made); /* the next one has another index than the dead one */
        const struct sm_contents before = contents_now();
        ck_assert(is_killed_at(writing + 1, take_all_turns)); /* it tries one more byte */
        leave(blocker);
        killed = is_killed_at(step, clean_up);
        const struct sm_contents after = contents_now();
        ck_assert_uint_le(after.deaths, before.deaths + 1);
        const bool counted = after.deaths > before.deaths;
        const bool again = counted && after.head == SM_CONTENTS_WRITTEN;
        ck_assert(!again);
        ck_assert_int_eq(sm_turn_wait(me, false, sm_deadline_after(100000), &head), SYNCED_MEM_ERR_OWNER_DIED);
        ck_assert_uint_eq(contents_now().deaths, before.deaths + 1);
        check_others_go_on(step);
    }
    ck_assert_int_gt(step, 10);
    leave(me);
    drop_page(&made);
}
END_TEST

/* ---- The work of a turn ---- */

/* A turn that nobody waits for is a few stores, and no call of the system. */
START_TEST(a_free_turn_makes_no_call)
{
    enum { STORES_TO_WRITE = 5, STORES_TO_READ = 5 };
    made = make_page();
    me = join(&made);
    struct sm_participant *const other = join(&made);
    steps.count = 0;
    steps.calls = 0;
    ck_assert_int_eq(sm_turn_wait(me, true, sm_deadline_after(-1), &head), SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(steps.count, 2 * STORES_TO_WRITE);
    ck_assert_int_eq(sm_turn_wait(me, false, sm_deadline_after(-1), &head), SYNCED_MEM_OK);
    sm_turn_read(me, head);
    sm_turn_end_read(me);
    ck_assert_int_eq(steps.count, 2 * (STORES_TO_WRITE + STORES_TO_READ));
    ck_assert_int_eq(steps.calls, 0);
    leave(me);
    leave(other);
    drop_page(&made);
}
END_TEST

/* ---- Refusals by the system ---- */

/* Makes a file, maps it, joins, and leaves. Returns whether that succeeded. */
static bool use_all_calls(void)
{
    struct sm_participant one;
    int fd;
    void *data;
    synced_mem_status status = sm_memfd_make(SM_MEMFD_PAGE, &fd);
    if (status == SYNCED_MEM_OK) {
        status = sm_memfd_check(fd, SM_MEMFD_PAGE);
        if (status == SYNCED_MEM_OK)
            status = sm_memfd_map(fd, SM_MEMFD_PAGE, 1 << 16, &data);
        if (status == SYNCED_MEM_OK) {
            ck_assert_uint_eq((uintptr_t)data % (1 << 16), 0);
            status = sm_participant_join(&one, data, fd, sm_deadline_after(100000));
            ck_assert(status == SYNCED_MEM_OK || !one.lock);
            if (status == SYNCED_MEM_OK)
                sm_participant_leave(&one);
            sm_sealed_unmap(data, SM_MEMFD_PAGE);
        }
        sm_fd_close(&fd);
    }
    ck_assert_int_eq(fd, -1);
    return status == SYNCED_MEM_OK;
}

START_TEST(the_system_refuses_each_call)
{
    const int errors[] = {ENOMEM, EMFILE, EINVAL};
    const int before = count_open_descriptors();
    ck_assert(use_all_calls());
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        int failures = 0;
        for (int at = 1; at < 12; at++) {
            steps.calls = 0;
            steps.fail_at = at;
            steps.fail_with = errors[e];
            failures += !use_all_calls();
            steps.fail_at = 0;
            ck_assert_int_eq(count_open_descriptors(), before);
        }
        ck_assert_int_ge(failures, 7);
    }
}
END_TEST

/* The program has closed its standard descriptors. */
START_TEST(standard_descriptors_stay_free)
{
    int fds[3];
    for (int fd = 0; fd < 3; fd++) {
        fds[fd] = __real_fcntl(fd, F_DUPFD_CLOEXEC, (void *)10);
        (void)__real_close(fd);
    }
    const bool worked = use_all_calls();
    int got;
    const synced_mem_status status = sm_memfd_make(SM_MEMFD_PAGE, &got);
    const bool is_above = got > 2;
    sm_fd_close(&got);
    steps.calls = 0;
    steps.fail_at = 2; /* the move */
    steps.fail_with = EMFILE;
    const synced_mem_status refused = sm_memfd_make(SM_MEMFD_PAGE, &got);
    steps.fail_at = 0;
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(fds[fd], fd);
        (void)__real_close(fds[fd]);
    }
    ck_assert(worked);
    ck_assert_int_eq(status, SYNCED_MEM_OK);
    ck_assert(is_above);
    ck_assert_int_eq(refused, SYNCED_MEM_ERR_FILE);
    ck_assert_int_eq(got, -1);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("turn deaths");
    TCase *const cases = add_case(suite, "turn deaths");
    add_tests(cases, a_process_dies_at_each_step, one_that_abandons_dies_at_each_step, one_that_waits_dies_at_each_step,
              one_that_cleans_up_dies_at_each_step, a_free_turn_makes_no_call, the_system_refuses_each_call,
              standard_descriptors_stay_free);
    return suite;
}
