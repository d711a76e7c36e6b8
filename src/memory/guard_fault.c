/*
 * The signal handler that reports the use of an expired pointer. It takes no lock, allocates no memory and uses no
 * stdio.
 */
#include "memory/guard.h"

#include "base/place.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct sigaction before;
static const struct sm_guard *(*find_protecting_guard)(uintptr_t address);

struct text {
    size_t used;
    char bytes[2048];
};

static void add_text(struct text *text, const char *more)
{
    while (*more && text->used < sizeof text->bytes)
        text->bytes[text->used++] = *more++;
}

static void add_number(struct text *text, uintptr_t number, unsigned base)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    add_text(text, digits + at);
}

/* Adds a line: "synced_mem: that call was made in 'train/conv1' at forward+0x1f < main+0x88". */
static void add_cause(struct text *text, const struct sm_guard *guard)
{
    char scope[SM_SCOPE_TEXT];
    const struct sm_place *const place = atomic_load(&guard->place);
    for (size_t i = 0; i < sizeof scope; i++)
        scope[i] = atomic_load_explicit(&guard->scope[i], memory_order_relaxed);
    scope[sizeof scope - 1] = 0;
    const bool known = place || scope[0];
    add_text(text, known ? "synced_mem: that call was made" : "");
    add_text(text, scope[0] ? " in '" : "");
    add_text(text, scope);
    add_text(text, scope[0] ? "'" : "");
    add_text(text, place ? " at " : "");
    add_text(text, place ? place->text : "");
    add_text(text, known ? "\n" : "");
}

/* Prints: "synced_mem: 'conv1.weight' (4096 bytes): its host copy at 0x7f00 is stale since synced_mem_mutable_gpu_data;
 * the pointer used at 0x7f08 expired then". */
static void print_fault(const struct sm_guard *guard, uintptr_t address)
{
    struct text text = {.used = 0};
    const char *const since = atomic_load(&guard->since);
    const bool stale = atomic_load(&guard->protection) == SM_PROTECT_ALL;
    add_text(&text, guard->name[0] ? "synced_mem: '" : "synced_mem: an object without a name");
    add_text(&text, guard->name);
    add_text(&text, guard->name[0] ? "' (" : " (");
    add_number(&text, guard->size, 10);
    add_text(&text, " bytes): its host copy at 0x");
    add_number(&text, (uintptr_t)guard->data, 16);
    add_text(&text, stale ? " is stale since " : " is read-only since ");
    add_text(&text, since ? since : "a call of the library");
    add_text(&text, "; the pointer used at 0x");
    add_number(&text, address, 16);
    add_text(&text, " expired then\n");
    add_cause(&text, guard);
    const ssize_t wrote = write(STDERR_FILENO, text.bytes, text.used);
    (void)wrote;
}

/* Restores the program's action. A real fault repeats at its instruction, with the default action. A signal that a
 * process sent is raised again. */
static void restore_action(int number, const siginfo_t *info)
{
    (void)sigaction(number, &before, NULL);
    if (info->si_code <= 0)
        (void)raise(number);
}

/* Returns the program's handler. One with SA_RESETHAND gets only the first fault; the next has the default action. */
static struct sigaction get_next_handler(void)
{
    const struct sigaction next = before;
    if (next.sa_flags & SA_RESETHAND) {
        before.sa_handler = SIG_DFL;
        before.sa_flags = 0;
    }
    return next;
}

static void pass_on_fault(int number, siginfo_t *info, void *context)
{
    const struct sigaction next = get_next_handler();
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
    const uintptr_t address = (uintptr_t)info->si_addr;
    const struct sm_guard *const guard = info->si_code > 0 ? find_protecting_guard(address) : NULL;
    if (guard)
        print_fault(guard, address);
    errno = error;
    pass_on_fault(number, info, context);
}

void sm_guard_catch_faults(const struct sm_guard *(*finder)(uintptr_t address))
{
    find_protecting_guard = finder;
    struct sigaction action;
    (void)sigaction(SIGSEGV, NULL, &before);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle_fault;
    action.sa_mask = before.sa_mask;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_NODEFER | SA_RESTART));
    (void)sigaction(SIGSEGV, &action, NULL);
}
