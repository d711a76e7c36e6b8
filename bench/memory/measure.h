/* Comparing ways of doing the same thing: each in turn, several times, medians. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stddef.h>

double seconds_now(void);

/* One way: does it once, and answers how many seconds the part that counts took. */
struct way {
    const char *name;
    double (*run)(void *state);
};

enum { MAX_WAYS = 6 };

struct result {
    double median;
    double least;
    double most;
};

/* Runs each way once to warm up, and then all of them in turn, rounds times. */
void compare(const struct way *ways, int count, int rounds, void *state, struct result *results);

/* A line of a table: what, then for each way its median in the unit. */
void print_heading(const char *title, const struct way *ways, int count, const char *unit);
void print_row(const char *what, const struct result *results, int count, double unit);

/* Ends the program with the message if it is not true. */
void must(bool is_true, const char *what);

#endif
