/* A process that gives or gets shared memory is killed at each step, or refused each call of the system. */
#define STEPS_OF_MEMORY
#include "leftovers.h"
#include "peer.h"
#include "share_kit.h"
#include "steps_kit.h"

#include "memory/shared/shared_memory.h"

static int ends[2];
static struct sm_shared_memory *mine;
static int kill_at;

static int give(void *unused)
{
    struct sm_shared_memory *made;
    (void)unused;
    steps.count = 0;
    steps.kill_at = kill_at;
    if (sm_shared_make(10, 64, SYNCED_MEM_SHAREABLE_SAME_USER, &made) != SYNCED_MEM_OK)
        return 1;
    if (sm_shared_send(made, ends[1], sm_deadline_after(100000)) != SYNCED_MEM_OK)
        return 2;
    sm_turn_end_write(&made->participant, SYNCED_MEM_AT_CPU);
    sm_shared_drop(made);
    return 0;
}

static int get(void *unused)
{
    struct sm_shared_memory *got;
    unsigned head;
    (void)unused;
    steps.count = 0;
    steps.kill_at = kill_at;
    if (sm_shared_receive(ends[1], sm_deadline_after(100000), &got) != SYNCED_MEM_OK)
        return 1;
    if (sm_turn_wait(&got->participant, false, sm_deadline_after(100000), &head) != SYNCED_MEM_OK)
        return 2;
    sm_turn_read(&got->participant, head);
    sm_turn_end_read(&got->participant);
    sm_shared_drop(got);
    return 0;
}

/* Returns whether the child got to its end. This process has only its own end of the socket then. */
static bool child_is_killed(int (*function)(void *))
{
    const pid_t kid = start_child(function, NULL);
    sm_fd_close(&ends[1]);
    const int how = end_child(kid);
    ck_assert_msg(how == 0 || how == KILLED + SIGKILL, "step %d: %d", kill_at, how);
    return how != 0;
}

START_TEST(a_giver_dies_at_each_step)
{
    bool killed = true;
    int received = 0;
    const int before = count_open_descriptors();
    for (kill_at = 1; killed; kill_at++) {
        struct sm_shared_memory *got;
        unsigned head;
        ck_assert(open_pair(SOCK_STREAM, ends));
        killed = child_is_killed(give);
        const synced_mem_status status = sm_shared_receive(ends[0], sm_deadline_after(100000), &got);
        ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_PEER);
        if (status == SYNCED_MEM_OK) {
            const synced_mem_status turn = sm_turn_wait(&got->participant, false, sm_deadline_after(100000), &head);
            ck_assert(turn == SYNCED_MEM_OK || turn == SYNCED_MEM_ERR_OWNER_DIED);
            if (turn != SYNCED_MEM_OK)
                ck_assert_int_eq(sm_turn_wait(&got->participant, true, sm_deadline_after(100000), &head),
                                 SYNCED_MEM_OK);
            sm_shared_drop(got);
            received++;
        }
        sm_fd_close(&ends[0]);
        ck_assert_int_eq(count_open_descriptors(), before);
    }
    ck_assert_int_gt(kill_at, 25);
    ck_assert_int_gt(received, 5);
}
END_TEST

START_TEST(a_getter_dies_at_each_step)
{
    bool killed = true;
    unsigned head;
    const int before = count_open_descriptors();
    ck_assert_int_eq(sm_shared_make(10, 64, SYNCED_MEM_SHAREABLE_SAME_USER, &mine), SYNCED_MEM_OK);
    for (kill_at = 1; killed; kill_at++) {
        ck_assert(open_pair(SOCK_STREAM, ends));
        ck_assert_int_eq(sm_shared_send(mine, ends[0], sm_deadline_after(0)), SYNCED_MEM_OK);
        sm_turn_end_write(&mine->participant, SYNCED_MEM_AT_CPU);
        killed = child_is_killed(get);
        ck_assert_int_eq(sm_turn_wait(&mine->participant, true, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
        ck_assert_uint_eq(head, SYNCED_MEM_AT_CPU);
        sm_fd_close(&ends[0]);
    }
    ck_assert_int_gt(kill_at, 20);
    sm_shared_drop(mine);
    ck_assert_int_eq(count_open_descriptors(), before);
}
END_TEST

/* Makes, sends, receives and drops. Returns whether that succeeded. */
static bool use_all_calls(void)
{
    struct sm_shared_memory *made;
    struct sm_shared_memory *got = NULL;
    bool well = sm_shared_make(10, 8192, SYNCED_MEM_SHAREABLE_SAME_USER, &made) == SYNCED_MEM_OK;
    ck_assert(well || !made);
    if (well)
        well = sm_shared_send(made, ends[0], sm_deadline_after(0)) == SYNCED_MEM_OK &&
               sm_shared_receive(ends[1], sm_deadline_after(100000), &got) == SYNCED_MEM_OK;
    ck_assert(well || !got);
    if (well)
        sm_shared_drop(got);
    if (made)
        sm_shared_drop(made);
    return well;
}

START_TEST(the_system_refuses_each_call)
{
    const int errors[] = {ENOMEM, EMFILE, EINVAL, ECONNRESET};
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        int failures = 0;
        for (int at = 1; at < 40; at++) {
            const int before = count_open_descriptors();
            ck_assert(open_pair(SOCK_STREAM, ends));
            steps.calls = 0;
            steps.fail_at = at;
            steps.fail_with = errors[e];
            failures += !use_all_calls();
            steps.fail_at = 0;
            sm_fd_close(&ends[0]); /* with what was sent and not received */
            sm_fd_close(&ends[1]);
            ck_assert_int_eq(count_open_descriptors(), before);
        }
        ck_assert_int_ge(failures, 18);
    }
}
END_TEST

/* The program's standard descriptors are closed, so each one that comes is moved. */
START_TEST(each_move_is_refused)
{
    int fds[3];
    for (int fd = 0; fd < 3; fd++) {
        fds[fd] = __real_fcntl(fd, F_DUPFD_CLOEXEC, (void *)10);
        (void)__real_close(fd);
    }
    const int before = count_open_descriptors();
    bool clean = true;
    int failures = 0;
    for (int at = 1; at < 40; at++) {
        const bool opened = open_pair(SOCK_STREAM, ends);
        steps.calls = 0;
        steps.fail_at = at;
        steps.fail_with = EMFILE;
        failures += opened && !use_all_calls();
        steps.fail_at = 0;
        close_pair(ends);
        clean = clean && opened && count_open_descriptors() == before;
    }
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(fds[fd], fd);
        (void)__real_close(fds[fd]);
    }
    ck_assert(clean);
    ck_assert_int_ge(failures, 18);
}
END_TEST

/* The program has set SO_PASSPIDFD, by which the system adds a descriptor. */
START_TEST(a_descriptor_of_a_process)
{
    const int before = count_open_descriptors();
    ck_assert(open_pair(SOCK_STREAM, ends));
    steps.sends_processes = true;
    ck_assert(!use_all_calls());
    steps.sends_processes = false;
    close_pair(ends);
    ck_assert_int_eq(count_open_descriptors(), before);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_deaths");
    TCase *const cases = add_case(suite, "share_deaths");
    add_tests(cases, a_giver_dies_at_each_step, a_getter_dies_at_each_step, the_system_refuses_each_call,
              each_move_is_refused, a_descriptor_of_a_process);
    return suite;
}
