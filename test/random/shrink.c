/* Shortens a sequence that fails: leaves out operations that are not needed, in large parts first. */
#include "random.h"

#include "gpu.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 10, MOST_S = 240, MOST_RUNS = 500, SCHEDULES = 3, LAST = 20 };

static int runs;
static char failure[MESSAGE];
static time_t began;

void say_reason(int status)
{
    if (!WIFSIGNALED(status))
        (void)snprintf(shared->message, MESSAGE, "a child failed without a message");
    else if (WTERMSIG(status) == SIGALRM)
        (void)snprintf(shared->message, MESSAGE, "a child hung");
    else
        (void)snprintf(shared->message, MESSAGE, "a child was ended by signal %d; its report is above",
                       WTERMSIG(status));
}

/* Prints the children's reports once, from the first child and from the last that prints. */
bool fails_in_child(const struct op *ops, int count, unsigned schedule, bool print_code)
{
    int status = 0;
    (void)fflush(stdout);
    shared->message[0] = '\0';
    const pid_t child = fork();
    if (child == 0) {
        struct listed listed;
        (void)alarm(PATIENCE_S);
        if (!print_code && runs > 0)
            if (!freopen("/dev/null", "w", stderr))
                _exit(EXIT_FAILURE);
        play(source_list(&listed, ops, count), schedule, print_code);
        _exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (status != 0 && !shared->message[0])
        say_reason(status);
    return status != 0;
}

/* Compares letters only, so that the same failure with other numbers is alike. */
static bool is_alike(const char *one, const char *other)
{
    for (;; one++, other++) {
        while (*one && !isalpha((unsigned char)*one))
            one++;
        while (*other && !isalpha((unsigned char)*other))
            other++;
        if (*one != *other || !*one)
            return *one == *other;
    }
}

/* A shorter sequence runs on another schedule. So several schedules are tried, and the one that fails is kept. */
static bool still_fails(const struct op *ops, int count, unsigned *schedule)
{
    const unsigned tries[SCHEDULES] = {*schedule, 0, *schedule + (unsigned)count};
    for (int i = 0; i < (gpu_schedules() > 1 ? SCHEDULES : 1); i++) {
        runs++;
        if (fails_in_child(ops, count, tries[i], false) && (!failure[0] || is_alike(shared->message, failure))) {
            *schedule = tries[i];
            return true;
        }
    }
    return false;
}

/* Tries the last operations first, which mostly suffice, as objects are short-lived. */
static int take_tail(struct op *ops, int count, unsigned *schedule)
{
    for (int tail = 32; tail < count; tail *= 4) {
        if (still_fails(ops + count - tail, tail, schedule)) {
            memmove(ops, ops + count - tail, (size_t)tail * sizeof *ops);
            return tail;
        }
    }
    return count;
}

/* Keeps the shorter sequence if it fails in the same way. */
static bool leave_out(struct op *ops, int *count, int at, int chunk, unsigned *schedule)
{
    struct op *const kept = malloc((size_t)(*count + 1) * sizeof *kept);
    if (!kept)
        return false;
    const int end = at + chunk < *count ? at + chunk : *count;
    memcpy(kept, ops, (size_t)at * sizeof *kept);
    memcpy(kept + at, ops + end, (size_t)(*count - end) * sizeof *kept);
    const bool fails = still_fails(kept, *count - (end - at), schedule);
    if (fails) {
        *count -= end - at;
        memcpy(ops, kept, (size_t)*count * sizeof *ops);
    }
    free(kept);
    return fails;
}

/* Limits runs and time, as a run of a sequence that hangs takes long. */
static bool goes_on(void)
{
    return runs < MOST_RUNS && time(NULL) - began < MOST_S;
}

/* Leaves out halves, quarters, and so on, then single operations until all are needed. */
static int leave_out_all(struct op *ops, int count, unsigned *schedule)
{
    bool shorter = true;
    for (int chunk = count / 2 > 0 ? count / 2 : 1; chunk > 0 && goes_on();) {
        shorter = false;
        for (int at = 0; at < count && goes_on();) {
            if (leave_out(ops, &count, at, chunk, schedule))
                shorter = true;
            else
                at += chunk;
        }
        if (!shorter || chunk > 1)
            chunk = chunk == 1 ? 0 : chunk / 2;
    }
    return count;
}

static void print_ops(const struct op *ops, int count, unsigned schedule)
{
    char text[100];
    (void)printf("--schedule %u --replay '", schedule);
    for (int i = 0; i < count; i++) {
        op_print(text, sizeof text, &ops[i]);
        (void)printf("%s%s", i > 0 ? ";\n" : "", text);
    }
    (void)printf("'\n\nAs code:\n");
}

void shrink(unsigned schedule)
{
    int count = shared->logged;
    struct op *const ops = malloc((size_t)(count + 1) * sizeof *ops);
    if (!ops || count == 0)
        return;
    memcpy(ops, shared->log, (size_t)count * sizeof *ops);
    began = time(NULL);
    (void)snprintf(failure, sizeof failure, "%s", shared->message);
    (void)printf("shrinking a sequence of %d operations\n", count);
    (void)fflush(stdout);
    if (!still_fails(ops, count, &schedule)) {
        const int last = count < LAST ? count : LAST;
        (void)printf("it does not fail again; the last operations were:\n");
        print_ops(ops + count - last, last, schedule);
        free(ops);
        return;
    }
    count = take_tail(ops, count, &schedule);
    count = leave_out_all(ops, count, &schedule);
    (void)printf("%d operations are left, after %d runs:\n", count, runs);
    print_ops(ops, count, schedule);
    if (fails_in_child(ops, count, schedule, true))
        (void)printf("    /* %s */\n", shared->message);
    free(ops);
}
