/* Checks forks while other threads are in the library: the state that the children find, and that no process hangs. */
#include "fork_kit.h"

#include "base/process.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Objects of the child's own ---- */

static atomic_bool enough;

/* Uses no assertions of Check, which are for the main thread. */
static void *work(void *with_device)
{
    unsigned failures = 0;
    for (unsigned i = 0; !atomic_load(&enough); i++) {
        synced_mem *mem = NULL;
        failures += synced_mem_create(&mem, SIZE, NULL) != SYNCED_MEM_OK;
        pattern_write(synced_mem_overwrite_cpu_data(mem), SIZE, i);
        if (with_device) {
            failures += synced_mem_async_gpu_push(mem, NULL) != SYNCED_MEM_OK;
            failures += synced_mem_mutable_gpu_data(mem) == NULL;
        }
        failures += !pattern_is(synced_mem_cpu_data(mem), SIZE, i);
        failures += synced_mem_release(mem) != SYNCED_MEM_OK;
        synced_mem_set_error_handler(NULL, NULL);
    }
    return (void *)(uintptr_t)failures;
}

START_TEST(forks_during_calls)
{
    enum { THREADS = 2 };
    pthread_t threads[THREADS];
    const int forks = forks_of_a_schedule();
    const bool with_device = gpu_expected() && _i == 0;
    if (with_device)
        use_the_device(NULL);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, with_device ? &enough : NULL), 0);
    for (int i = 0; i < forks; i++)
        ck_assert(child_succeeds(live_on_the_host, NULL));
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++) {
        void *failures = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failures), 0);
        ck_assert_ptr_null(failures);
    }
    OK(synced_mem_shutdown());
}
END_TEST

/* Each thread uses a stream, ends the use and forgets the stream, which takes several locks. A fork takes all of
 * them. */
struct user {
    pthread_t thread;
    synced_mem *mem;
    synced_mem_stream stream;
};

static void *use_streams(void *argument)
{
    const struct user *const user = argument;
    unsigned failures = 0;
    for (unsigned i = 1; !atomic_load(&enough); i++) {
        failures += synced_mem_gpu_data_on(user->mem, user->stream) == NULL;
        failures += i % 8 == 0 && synced_mem_end_use_on(user->mem, user->stream) != SYNCED_MEM_OK;
        failures += i % 16 == 0 && synced_mem_mutable_gpu_data_on(user->mem, user->stream) == NULL;
        failures += synced_mem_forget_stream(user->stream) != SYNCED_MEM_OK;
    }
    return (void *)(uintptr_t)failures;
}

static void live_a_moment(const void *unused)
{
    (void)unused;
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_reap());
    OK(synced_mem_release(mem));
}

START_TEST(forks_while_streams_come_and_go)
{
    enum { THREADS = 2 };
    struct user users[THREADS];
    const int forks = gpu_expected() ? 5 * forks_of_a_schedule() : 0;
    (void)alarm(PATIENCE_S); /* ends a fork that hangs */
    for (int i = 0; forks > 0 && i < THREADS; i++) {
        users[i].mem = make_at_gpu(SIZE, 1);
        users[i].stream = open_stream(NON_BLOCKING);
        ck_assert_int_eq(pthread_create(&users[i].thread, NULL, use_streams, &users[i]), 0);
    }
    for (int i = 0; i < forks; i++)
        ck_assert(child_succeeds(live_a_moment, NULL));
    atomic_store(&enough, true);
    for (int i = 0; forks > 0 && i < THREADS; i++) {
        void *failures = NULL;
        ck_assert_int_eq(pthread_join(users[i].thread, &failures), 0);
        ck_assert_ptr_null(failures);
        OK(synced_mem_release(users[i].mem));
        close_stream(users[i].stream);
    }
    (void)alarm(0);
}
END_TEST

/* The thread makes the first call in a process that has not used the library yet. */
static atomic_bool started;

static void *begin_to_work(void *unused)
{
    atomic_store(&started, true);
    return work(unused);
}

static void fork_at_the_first_call(const void *unused)
{
    pthread_t thread;
    (void)unused;
    ck_assert_int_eq(pthread_create(&thread, NULL, begin_to_work, NULL), 0);
    while (!atomic_load(&started))
        continue;
    const bool succeeded = child_succeeds(live_on_the_host, NULL);
    atomic_store(&enough, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(succeeded);
}

START_TEST(forks_during_the_first_call)
{
    const int forks = forks_of_a_schedule();
    for (int i = 0; i < forks; i++)
        ck_assert(in_a_child(fork_at_the_first_call, NULL));
}
END_TEST

/* ---- Objects that another thread uses ---- */

enum { OBJECTS = 3 };

/* The first object's contents change in size. The second object is empty. The third one's memory comes and goes. */
static synced_mem *shared[OBJECTS];
static char borrowed[SIZE];
static FILE *nowhere;

static unsigned ask_for_facts(unsigned i)
{
    const synced_mem *const mem = shared[i % OBJECTS];
    const size_t capacity = synced_mem_cpu_capacity(mem) + synced_mem_gpu_capacity(mem);
    (void)synced_mem_cpu_source(mem), (void)synced_mem_gpu_source(mem), (void)synced_mem_cpu_is_pinned(mem);
    return capacity > 4 * SIZE || synced_mem_print(mem, nowhere) != SYNCED_MEM_OK;
}

static unsigned change_the_size(unsigned i)
{
    return synced_mem_resize(shared[0], i % 2 ? SIZE : 3 * SIZE) != SYNCED_MEM_OK || !synced_mem_cpu_data(shared[0]);
}

/* Locks all objects at once. The push fails, as the second object is empty. */
static unsigned push_all(unsigned i)
{
    synced_mem *const in_turn[] = {shared[1], shared[i % OBJECTS], shared[0], shared[2]};
    return synced_mem_async_gpu_push_n(in_turn, 4, NULL) == SYNCED_MEM_OK;
}

static unsigned borrow_and_give_back(unsigned i)
{
    if (i % 2)
        return synced_mem_release_data(shared[2]) != SYNCED_MEM_OK;
    return synced_mem_set_cpu_data(shared[2], borrowed) != SYNCED_MEM_OK;
}

static unsigned (*const uses[])(unsigned i) = {ask_for_facts, change_the_size, push_all, borrow_and_give_back};
enum { USES = sizeof uses / sizeof uses[0], USERS = 2 };

static void *use_again_and_again(void *kind)
{
    unsigned failures = 0;
    for (unsigned i = 0; !atomic_load(&enough); i++)
        failures += uses[(uintptr_t)kind](i);
    return (void *)(uintptr_t)failures;
}

/* Each object is as before or as after the call that the parent's thread was in. */
static void use_all_of_them(const void *unused)
{
    (void)unused;
    /* A thread of the parent may have had the lock of this stream, which not every C library frees in a child. */
    nowhere = fopen("/dev/null", "w");
    for (unsigned i = 0; i < OBJECTS; i++)
        ck_assert_uint_eq(ask_for_facts(i), 0);
    ck_assert_uint_eq(push_all(0), 0);
    const size_t size = synced_mem_size(shared[0]);
    const char *const data = synced_mem_cpu_data(shared[0]);
    ck_assert(size == SIZE || size == 3 * SIZE);
    ck_assert(pattern_is(data, SIZE, 1));
    for (size_t at = SIZE; at < size; at++)
        ck_assert_int_eq(data[at], 0);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(change_the_size(i), 0);
        ck_assert_uint_eq(borrow_and_give_back(i), 0);
    }
    release_all(shared, OBJECTS);
    live_on_the_host(NULL);
    OK(synced_mem_shutdown());
}

START_TEST(forks_while_objects_are_used)
{
    pthread_t users[USERS];
    const int forks = forks_of_a_schedule();
    (void)alarm(PATIENCE_S); /* ends a fork that hangs */
    nowhere = fopen("/dev/null", "w");
    shared[0] = make_at_cpu(SIZE, 1);
    shared[1] = make(SIZE);
    shared[2] = make(SIZE);
    for (int i = 0; forks > 0 && i < USERS; i++)
        ck_assert_int_eq(pthread_create(&users[i], NULL, use_again_and_again, (void *)(uintptr_t)_i), 0);
    for (int i = 0; i < forks; i++)
        ck_assert(child_succeeds(use_all_of_them, NULL));
    atomic_store(&enough, true);
    for (int i = 0; forks > 0 && i < USERS; i++) {
        void *failures = NULL;
        ck_assert_int_eq(pthread_join(users[i], &failures), 0);
        ck_assert_ptr_null(failures);
    }
    release_all(shared, OBJECTS);
    (void)fclose(nowhere);
    (void)alarm(0);
}
END_TEST

/* ---- Waits of a fork ---- */

/* A fork handler that runs before the library's sets it. */
static atomic_bool forking;
static atomic_bool forked;
static atomic_bool stay;
static atomic_bool inside;
static atomic_uint entered;

static void about_to_fork(void)
{
    atomic_store(&forking, true);
}

static void wait_for(const atomic_bool *flag)
{
    while (!atomic_load(flag))
        (void)usleep(100);
}

static void *fork_once(void *unused)
{
    const pid_t process = fork();
    if (process == 0)
        _exit(0);
    atomic_store(&forked, true);
    (void)waitpid(process, NULL, 0);
    return unused;
}

static void *stay_inside(void *unused)
{
    sm_process_enter();
    atomic_store(&inside, true);
    while (atomic_load(&stay))
        (void)usleep(100);
    sm_process_leave();
    return unused;
}

static void *come_and_go(void *unused)
{
    while (!atomic_load(&forked)) {
        sm_process_enter();
        sm_process_enter();
        sm_process_leave();
        sm_process_leave();
        atomic_fetch_add(&entered, 1);
        (void)usleep(100);
    }
    return unused;
}

/* The fork waits for the thread that is inside, and threads that come meanwhile wait for the fork. The fork no longer
 * waits once a GPU is used. */
static void meet_at_the_gate(const void *with_gpu)
{
    enum { WHILE_US = 200000 };
    pthread_t stayer;
    pthread_t forker;
    pthread_t comer;
    atomic_store(&stay, true);
    ck_assert_int_eq(pthread_atfork(about_to_fork, NULL, NULL), 0);
    ck_assert_int_eq(pthread_create(&stayer, NULL, stay_inside, NULL), 0);
    wait_for(&inside);
    ck_assert_int_eq(pthread_create(&forker, NULL, fork_once, NULL), 0);
    ck_assert_int_eq(pthread_create(&comer, NULL, come_and_go, NULL), 0);
    wait_for(&forking);
    unsigned entered_before;
    do { /* the fork is about to close the gate */
        entered_before = atomic_load(&entered);
        (void)usleep(WHILE_US);
    } while (atomic_load(&entered) != entered_before);
    ck_assert(!atomic_load(&forked));
    if (with_gpu) {
        sm_process_uses_gpu();
        sm_process_uses_gpu();
        wait_for(&forked);
    }
    atomic_store(&stay, false);
    ck_assert_int_eq(pthread_join(stayer, NULL), 0);
    ck_assert_int_eq(pthread_join(forker, NULL), 0);
    ck_assert_int_eq(pthread_join(comer, NULL), 0);
}

START_TEST(a_fork_waits_for_calls)
{
    ck_assert(child_succeeds(meet_at_the_gate, _i == 0 ? NULL : &stay));
}
END_TEST

static void fork_in_handler(int unused)
{
    (void)unused;
    (void)fork_once(NULL);
}

/* A signal handler forks, as a handler that prints where the program crashed may do. */
static void fork_inside(const void *unused)
{
    (void)unused;
    ck_assert(signal(SIGUSR1, fork_in_handler) != SIG_ERR);
    sm_process_enter();
    ck_assert(sm_process_is_inside());
    ck_assert_int_eq(raise(SIGUSR1), 0);
    sm_process_leave();
    ck_assert(!sm_process_is_inside());
    ck_assert(atomic_load(&forked));
    live_on_the_host(NULL);
}

START_TEST(a_thread_that_is_inside_forks)
{
    ck_assert(child_succeeds(fork_inside, NULL));
}
END_TEST

/* ---- Generations ---- */

enum { DESCENDANTS = 257 };

/* Each process forks a child. Even the last child is refused the objects of the first process. */
static void descend(const void *argument)
{
    synced_mem *const mem = *(synced_mem *const *)argument;
    for (int i = 1; i < DESCENDANTS; i++) {
        int status = 0;
        (void)alarm(PATIENCE_S);
        const pid_t child = fork();
        if (child != 0) {
            const bool waited = child > 0 && waitpid(child, &status, 0) == child;
            _exit(waited && WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
        }
        if (synced_mem_cpu_source(mem) != SYNCED_MEM_SOURCE_NONE || synced_mem_last_error() != SYNCED_MEM_ERR_FORKED)
            _exit(EXIT_FAILURE);
    }
    _exit(EXIT_SUCCESS);
}

START_TEST(many_generations)
{
    if (!gpu_expected() || FORKS == 0)
        return;
    synced_mem *mem = make_at_gpu(SIZE, 1);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert(child_succeeds(descend, &mem));
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("fork_threads");
    TCase *const threads = add_case_in_children(made, "threads");
    add_tests(threads, forks_during_the_first_call, a_thread_that_is_inside_forks);
    tcase_add_loop_test(threads, forks_during_calls, 0, 2);
    tcase_add_loop_test(threads, forks_while_objects_are_used, 0, USES);
    tcase_add_loop_test(threads, a_fork_waits_for_calls, 0, 2);
    TCase *const device = add_case(made, "device");
    add_tests(device, forks_while_streams_come_and_go, many_generations);
    return made;
}
