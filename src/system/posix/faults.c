/* Faults, by a signal handler in front of the program's. */
#include "system/faults.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

/* Some systems send SIGBUS where the program may not touch a page, and macOS either. */
static struct sigaction before[2]; /* for SIGSEGV and for SIGBUS */
static void (*report_fault)(uintptr_t address);

static struct sigaction *get_before(int number)
{
    return &before[number == SIGBUS];
}

/* Restores the program's action. A real fault repeats at its instruction, with the default action. A signal that a
 * process sent is raised again. */
static void restore_action(int number, const siginfo_t *info)
{
    (void)sigaction(number, get_before(number), NULL);
    if (info->si_code <= 0)
        (void)raise(number);
}

/* Returns the program's handler. One with SA_RESETHAND gets only the first fault; the next has the default action. */
static struct sigaction get_next_handler(int number)
{
    struct sigaction *const its = get_before(number);
    const struct sigaction next = *its;
    if (next.sa_flags & SA_RESETHAND) {
        its->sa_handler = SIG_DFL;
        its->sa_flags = 0;
    }
    return next;
}

static void pass_on_fault(int number, siginfo_t *info, void *context)
{
    const struct sigaction next = get_next_handler(number);
    if (next.sa_flags & SA_SIGINFO)
        next.sa_sigaction(number, info, context);
    else if (next.sa_handler == SIG_DFL || (next.sa_handler == SIG_IGN && info->si_code > 0))
        restore_action(number, info);
    else if (next.sa_handler != SIG_IGN)
        next.sa_handler(number);
}

static void handle_fault(int number, siginfo_t *info, void *context)
{
    const int error = errno;
    if (info->si_code > 0)
        report_fault((uintptr_t)info->si_addr);
    errno = error;
    pass_on_fault(number, info, context);
}

static void watch_signal(int number)
{
    struct sigaction *const its = get_before(number);
    struct sigaction action;
    (void)sigaction(number, NULL, &action);
    if ((action.sa_flags & SA_SIGINFO) && action.sa_sigaction == handle_fault)
        return;
    *its = action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle_fault;
    action.sa_mask = its->sa_mask;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (its->sa_flags & (SA_NODEFER | SA_RESTART));
    (void)sigaction(number, &action, NULL);
}

void sm_faults_watch(void (*report)(uintptr_t address))
{
    report_fault = report;
    watch_signal(SIGSEGV);
    watch_signal(SIGBUS);
}
