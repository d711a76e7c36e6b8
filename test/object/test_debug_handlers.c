/* Checks the program's own signal handlers in debug mode: each is called as it is without debug mode. */
#include "debug_kit.h"

#include "system/faults.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    (void)number;
    exit(42); /* not async-signal-safe, but this handler interrupts no function that exit() calls */
}

static void on_signal_with_facts(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    exit(43);
}

static void count_signal(int number)
{
    (void)number;
    caught++;
}

static void set_handler(void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    (void)sigaction(SIGSEGV, &action, NULL);
}

static void with_handler(void)
{
    set_handler(on_signal);
    use_old_pointer();
}

static void with_other_handler(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal_with_facts;
    action.sa_flags = SA_SIGINFO;
    (void)sigaction(SIGSEGV, &action, NULL);
    use_old_pointer();
}

/* Many crash handlers are installed so: they print and return, and the second fault ends the process. */
static void with_handler_for_once(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count_signal;
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)alarm(200);
    use_old_pointer();
}

static void fault_at_no_copy(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    touch_to_read(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    OK(synced_mem_release(mem));
}

static void fault_elsewhere(void)
{
    set_handler(SIG_DFL);
    fault_at_no_copy();
}

static void fault_elsewhere_with_handler(void)
{
    set_handler(on_signal);
    fault_at_no_copy();
}

static void report_nothing(uintptr_t address)
{
    (void)address;
}

/* A forked child whose parent was in the first call makes one too. */
static void with_handler_watched_twice(void)
{
    set_handler(on_signal);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    sm_faults_watch(report_nothing);
    touch_to_read(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    OK(synced_mem_release(mem));
}

/* Some systems send SIGBUS for a protected page. Here a page of a file with no bytes stands for one. */
static void use_old_pointer_to_no_bytes(void)
{
    synced_mem *const mem = make(SIZE);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    OK(synced_mem_resize_discard(mem, SIZE));
    FILE *const empty = tmpfile();
    ck_assert_ptr_nonnull(empty);
    void *const page = data - (uintptr_t)data % PAGE;
    ck_assert_ptr_eq(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fileno(empty), 0), page);
    touch_to_write(data);
}

static void with_handler_of_the_other_signal(void)
{
    (void)signal(SIGBUS, SIG_DFL);
    set_handler(on_signal);
    use_old_pointer_to_no_bytes();
}

static void with_handler_of_each_signal(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal_with_facts;
    action.sa_flags = SA_SIGINFO;
    (void)sigaction(SIGBUS, &action, NULL);
    set_handler(on_signal);
    use_old_pointer_to_no_bytes();
}

static void be_sent_a_signal(void)
{
    set_handler(SIG_DFL);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    OK(synced_mem_release(mem));
}

static void ignore_a_signal(void)
{
    set_handler(SIG_IGN);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    OK(synced_mem_release(mem));
}

static void count_a_signal(void)
{
    set_handler(count_signal);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    ck_assert_int_eq(caught, 1);
    OK(synced_mem_release(mem));
}

static void count_a_signal_once(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count_signal;
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGSEGV, &action, NULL);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)raise(SIGSEGV);
    ck_assert_int_eq(caught, 1);
    OK(synced_mem_release(mem));
}

/* Passes a signal on to the default action. The signal is blocked, so the process goes on. */
static void pass_on_to_default(void)
{
    struct sigaction ours;
    siginfo_t info = {.si_code = SI_USER};
    sigset_t signals;
    set_handler(SIG_DFL);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    (void)sigaction(SIGSEGV, NULL, &ours);
    sigemptyset(&signals);
    sigaddset(&signals, SIGSEGV);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    ours.sa_sigaction(SIGSEGV, &info, NULL);
    (void)sigpending(&signals);
    ck_assert_int_eq(sigismember(&signals, SIGSEGV), 1);
    (void)sigaction(SIGSEGV, NULL, &ours);
    ck_assert(ours.sa_handler == SIG_DFL);
    OK(synced_mem_release(mem));
}

START_TEST(handlers)
{
    int status = run(with_handler, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 42, "%#x %s", (unsigned)status, said);
    SAID("is stale since");
    status = run(with_other_handler, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 43, "%#x %s", (unsigned)status, said);
    SAID("is stale since");
    status = run(with_handler_for_once, "1");
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "%#x %s", (unsigned)status, said);
    status = run(fault_elsewhere, "1");
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    ck_assert_ptr_null(strstr(said, "synced_mem:"));
    status = run(fault_elsewhere_with_handler, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 42, "%#x %s", (unsigned)status, said);
    ck_assert_str_eq(said, "");
    status = run(with_handler_watched_twice, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 42, "%#x %s", (unsigned)status, said);
    status = run(with_handler_of_the_other_signal, "1");
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "%#x %s", (unsigned)status, said);
    SAID("is stale since");
    status = run(with_handler_of_each_signal, "1");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 43, "%#x %s", (unsigned)status, said);
    SAID("is stale since");
    status = run(be_sent_a_signal, "1");
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    lives(pass_on_to_default);
    lives(ignore_a_signal);
    lives(count_a_signal);
    lives(count_a_signal_once);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("debug handlers");
    TCase *const cases = add_case_in_children(all, "debug handlers");
    if (fixture_schedule() == 0)
        tcase_add_test(cases, handlers);
    return all;
}
