#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_ROUNDS = 101 };

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
    (void)fprintf(stderr, "memory: %s\n", what);
    exit(EXIT_FAILURE);
}

static int by_value(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

static struct result summarize(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (struct result){.median = values[count / 2], .least = values[0], .most = values[count - 1]};
}

void compare(const struct way *ways, int count, int rounds, void *state, struct result *results)
{
    static double values[MAX_WAYS][MAX_ROUNDS];
    must(rounds > 0 && rounds <= MAX_ROUNDS && count <= MAX_WAYS, "too many rounds or ways");
    for (int way = 0; way < count; way++)
        (void)ways[way].run(state);
    for (int round = 0; round < rounds; round++)
        for (int way = 0; way < count; way++)
            values[way][round] = ways[way].run(state);
    for (int way = 0; way < count; way++)
        results[way] = summarize(values[way], rounds);
}

void print_heading(const char *title, const struct way *ways, int count, const char *unit)
{
    (void)printf("\n%s, %s (median, fastest to slowest)\n%-22s", title, unit, "");
    for (int way = 0; way < count; way++)
        (void)printf(" | %-30s", ways[way].name);
    (void)printf("\n");
}

void print_row(const char *what, const struct result *results, int count, double unit)
{
    (void)printf("%-22s", what);
    for (int way = 0; way < count; way++)
        (void)printf(" | %9.2f (%8.2f .. %8.2f)", results[way].median / unit, results[way].least / unit,
                     results[way].most / unit);
    for (int way = 1; way < count; way++)
        (void)printf(" | / %d: %.2f", way, results[0].median / results[way].median);
    (void)printf("\n");
    (void)fflush(stdout);
}
