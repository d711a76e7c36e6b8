/*
 * A signal handler forks while its thread acquires a turn or hands over. The child returns from the handler into the
 * call, which fails there. The parent's call goes on, and no store of the child reaches the control page.
 */
#include "processes_kit.h"

#include "object/gate.h"
#include "object/transaction.h"

#include <pthread.h>

enum { CHILD_IS_DONE, PARENT_HAS_WRITTEN };

static synced_mem *one;
static synced_mem *other;
static pid_t parent;
static volatile pid_t child; /* 0: none, or this is the child */
static pthread_t forker;
static int ends[2];

static void fork_in_handler(int signal)
{
    (void)signal;
    if (child == 0 && getpid() == parent)
        child = fork();
    if (getpid() != parent)
        (void)alarm(200);
}

static bool is_child(void)
{
    return getpid() != parent;
}

/* In the child, which has no thread but this one. */
static _Noreturn void leave_child(bool well)
{
    raise_flag(CHILD_IS_DONE);
    _exit(well ? 0 : 1);
}

static void check_child(void)
{
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(end_child(child), 0);
}

static bool is_refused(synced_mem_status status)
{
    return status == SYNCED_MEM_ERR_FORKED && synced_mem_cpu_data(other) == NULL &&
           synced_mem_last_error() == SYNCED_MEM_ERR_FORKED && synced_mem_release(other) == SYNCED_MEM_OK &&
           synced_mem_release(one) == SYNCED_MEM_OK;
}

/* one has the turn to write. */
static void open_two(int device)
{
    const struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    common = make_common(sizeof *common);
    parent = getpid();
    forker = pthread_self();
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    one = make_shareable_of(BYTES, device, SYNCED_MEM_SHAREABLE_SAME_USER);
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    other = share_with_myself(one);
}

static void release_two(void)
{
    RELEASE_EACH(one, other);
}

/* Gives the main thread the time to wait, and interrupts its wait. */
static void interrupt_wait(void)
{
    (void)usleep(50000);
    SOUND(pthread_kill(forker, SIGUSR1) == 0);
    for (int i = 0; i < LONG_MS && atomic_load(&common->flags[CHILD_IS_DONE]) == 0; i++)
        (void)usleep(1000);
}

/* ---- Acquire ---- */

static void *hand_over_later(void *unused)
{
    (void)unused;
    interrupt_wait();
    SOUND(synced_mem_end_turn(one) == SYNCED_MEM_OK);
    return NULL;
}

START_TEST(a_fork_in_a_wait_for_a_turn)
{
    pthread_t thread;
    open_two(_i == 1 && gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    if (_i == 1 && gpu_expected())
        ck_assert_ptr_nonnull(synced_mem_gpu_data(one));
    ck_assert_int_eq(pthread_create(&thread, NULL, hand_over_later, NULL), 0);
    const synced_mem_status status = synced_mem_begin_turn(other, CPU, WRITE, LONG_MS);
    if (is_child())
        leave_child(is_refused(status));
    OK(status);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    check_child();
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(one, CPU, READ, 0)); /* the parent's word is in line */
    ck_assert(host_is(synced_mem_mutable_cpu_data(other), BYTES, 1));
    OK(synced_mem_end_turn(other));
    OK(synced_mem_begin_turn(one, CPU, READ, 0));
    release_two();
    ck_assert_int_eq(unsound, 0);
}
END_TEST

/* The child has no contents to wait for, and no time is over. */
START_TEST(a_fork_in_a_wait_for_contents)
{
    pthread_t thread;
    open_two(SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_take_slot(one, 0, NULL));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_slot_turn(one, CPU, 0, 0));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_consumed_turn(one, CPU, 0));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, hand_over_later, NULL), 0);
    const synced_mem_status status =
        _i ? synced_mem_begin_slot_turn(other, CPU, 0, -1) : synced_mem_begin_newer_turn(other, CPU, 1, -1);
    if (is_child())
        leave_child(is_refused(status));
    OK(status);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    check_child();
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 2));
    release_two();
    ck_assert_int_eq(unsound, 0);
}
END_TEST

/* Of the next transaction: after its begin, or before it publishes what it has changed. */
enum place { NOWHERE, AT_BEGIN, AT_END };
static enum place fork_where;
static bool child_waits;

static void fork_at(enum place place)
{
    if (fork_where == place) {
        fork_where = NOWHERE;
        (void)raise(SIGUSR1);
    }
    while (child_waits && is_child() && atomic_load(&common->flags[PARENT_HAS_WRITTEN]) == 0)
        (void)usleep(1000);
}

synced_mem_status __real_sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem)
{
    const synced_mem_status status = __real_sm_enter_restoring_nothing(transaction, mem);
    fork_at(AT_BEGIN);
    return status;
}

synced_mem_status __real_sm_leave_and_reap(struct sm_transaction *transaction, synced_mem_status status,
                                           bool may_block);
synced_mem_status __wrap_sm_leave_and_reap(struct sm_transaction *transaction, synced_mem_status status,
                                           bool may_block);
synced_mem_status __wrap_sm_leave_and_reap(struct sm_transaction *transaction, synced_mem_status status, bool may_block)
{
    fork_at(AT_END);
    return __real_sm_leave_and_reap(transaction, status, may_block);
}

/* The child gives up what its acquire has published. */
START_TEST(a_fork_while_contents_are_taken_over)
{
    open_two(SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_end_turn(one));
    fork_where = _i / 2 ? AT_END : AT_BEGIN;
    const synced_mem_status status = synced_mem_begin_turn(other, CPU, _i % 2 ? WRITE : READ, LONG_MS);
    if (is_child())
        leave_child(is_refused(status));
    OK(status);
    check_child();
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(one, CPU, WRITE, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    release_two();
}
END_TEST

/* The child fills the side with zeros, after others have written the object. */
START_TEST(a_child_writes_memory_of_its_own)
{
    open_two(SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_clear(one));
    OK(synced_mem_end_turn(one));
    child_waits = true;
    fork_where = _i ? AT_END : AT_BEGIN;
    const synced_mem_status status = synced_mem_begin_turn(other, CPU, READ, LONG_MS);
    child_waits = false;
    if (is_child())
        leave_child(is_refused(status));
    OK(status);
    OK(synced_mem_end_turn(other));
    OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 5);
    raise_flag(PARENT_HAS_WRITTEN);
    check_child();
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 5));
    release_two();
}
END_TEST

/* The child sees no counts of deaths. Its error is the fork all the same. */
START_TEST(a_death_came_before_the_fork)
{
    pthread_t thread;
    open_two(SYNCED_MEM_DEVICE_CURRENT);
    sm_sharing_of(one)->memory->participant.seen_deaths = 1;
    sm_sharing_of(other)->memory->participant.seen_deaths = 1;
    ck_assert_int_eq(pthread_create(&thread, NULL, hand_over_later, NULL), 0);
    const synced_mem_status status = synced_mem_begin_turn(other, CPU, WRITE, LONG_MS);
    if (is_child())
        leave_child(status == SYNCED_MEM_ERR_FORKED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    check_child();
    release_two();
}
END_TEST

/* ---- Hand over ---- */

/* The call of another thread, for whose end the hand-over waits: the socket is full. */
static void *share_in_vain(void *unused)
{
    (void)unused;
    interrupt_wait();
    (void)close(ends[1]);
    return NULL;
}

static atomic_bool shares;

static void *share_for_long(void *unused)
{
    (void)unused;
    atomic_store(&shares, true);
    SOUND(synced_mem_share(one, ends[0], LONG_MS) == SYNCED_MEM_ERR_PEER);
    return NULL;
}

START_TEST(a_fork_in_a_wait_for_calls)
{
    static const char bytes[4096];
    pthread_t threads[2];
    open_two(SYNCED_MEM_DEVICE_CURRENT);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    while (send(ends[0], bytes, 1, MSG_DONTWAIT) > 0)
        continue;
    ck_assert_int_eq(pthread_create(&threads[0], NULL, share_for_long, NULL), 0);
    while (!atomic_load(&shares) || !others_sleep())
        (void)usleep(1000);
    ck_assert_int_eq(pthread_create(&threads[1], NULL, share_in_vain, NULL), 0);
    const synced_mem_status status = synced_mem_end_turn(one);
    if (is_child()) {
        (void)close(ends[1]);
        leave_child(is_refused(status));
    }
    OK(status);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    check_child();
    (void)close(ends[0]);
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    release_two();
    ck_assert_int_eq(unsound, 0);
}
END_TEST

/* ---- Locks ---- */

static _Atomic(struct sm_mutex *) held;

/* Holds the lock that guards the turn while the main thread forks. */
static void *hold_lock(void *sharing)
{
    sm_mutex_lock(&((struct sm_sharing *)sharing)->lock);
    atomic_store(&held, &((struct sm_sharing *)sharing)->lock);
    while (atomic_load(&held))
        (void)usleep(100);
    sm_mutex_unlock(&((struct sm_sharing *)sharing)->lock);
    return NULL;
}

/* A call began before the fork, and ends in the child. */
START_TEST(a_call_ends_in_the_child)
{
    pthread_t thread;
    open_two(SYNCED_MEM_DEVICE_CURRENT);
    struct sm_sharing *const sharing = sm_sharing_of(one);
    OK(sm_gate_begin(one, SM_CPU, SM_READ));
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_lock, sharing), 0);
    while (!atomic_load(&held))
        (void)usleep(100);
    (void)raise(SIGUSR1);
    if (is_child()) {
        sm_gate_end(one);
        leave_child(!sm_gate_is_passed());
    }
    atomic_store(&held, NULL);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    check_child();
    sm_gate_end(one);
    release_two();
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_forks");
    TCase *const cases = add_case(suite, "share_forks");
    add_tests(cases, a_death_came_before_the_fork, a_fork_in_a_wait_for_calls, a_call_ends_in_the_child);
    tcase_add_loop_test(cases, a_fork_in_a_wait_for_a_turn, 0, 2);
    tcase_add_loop_test(cases, a_fork_in_a_wait_for_contents, 0, 2);
    tcase_add_loop_test(cases, a_fork_while_contents_are_taken_over, 0, 4);
    tcase_add_loop_test(cases, a_child_writes_memory_of_its_own, 0, 2);
    return suite;
}
