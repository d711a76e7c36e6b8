#include "measure.h"

#include "processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct plan plan = {.seconds = 0.8, .fewest = 5, .most = 101};

const struct summary unmeasured = {.rounds = 0};

double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void must(bool is_true, const char *what)
{
    if (is_true)
        return;
    (void)fflush(stdout);
    (void)fprintf(stderr, "suite: %s\n", what);
    exit(EXIT_FAILURE);
}

void measure_by(const struct plan *by)
{
    plan = *by;
}

struct plan measure_plan(void)
{
    return plan;
}

static int by_value(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

/* Returns the value below which this part of the values lies, interpolated between two of them. */
static double quantile(const double *sorted, int count, double part)
{
    const double at = part * (count - 1);
    const int below = (int)at;
    const int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

struct summary summary_of(double *values, int count)
{
    if (count == 0)
        return unmeasured;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (struct summary){.median = quantile(values, count, 0.5),
                            .least = values[0],
                            .most = values[count - 1],
                            .lower = quantile(values, count, 0.25),
                            .upper = quantile(values, count, 0.75),
                            .rounds = count};
}

struct summary summary_of_one(double value)
{
    return summary_of(&value, 1);
}

static void warm_up(const struct way *ways, int count, void *state)
{
    for (int way = 0; way < count; way++)
        if (ways[way].run)
            (void)ways[way].run(state);
}

void compare(const struct way *ways, int count, void *state, struct summary *results)
{
    static double values[MAX_WAYS][MAX_ROUNDS];
    must(count <= MAX_WAYS && plan.fewest > 0 && plan.most <= MAX_ROUNDS, "too many rounds or ways");
    warm_up(ways, count, state);
    const double begin = seconds_now();
    int rounds = 0;
    while (rounds < plan.fewest || (rounds < plan.most && seconds_now() - begin < plan.seconds)) {
        find_quiet_processor();
        for (int i = 0; i < count; i++) {
            const int way = rounds % 2 ? count - 1 - i : i;
            if (ways[way].run)
                values[way][rounds] = ways[way].run(state);
        }
        rounds++;
    }
    for (int way = 0; way < count; way++)
        results[way] = summary_of(values[way], ways[way].run ? rounds : 0);
}
