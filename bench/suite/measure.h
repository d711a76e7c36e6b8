/* The one measuring kit: a clock, ways of doing the same thing compared in turn, and what came out of it. */
#ifndef MEASURE_H
#define MEASURE_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>

double seconds_now(void);

/* Ends the process with a line on stderr if it is not true: a figure from work that failed would be worth nothing. */
void must(bool is_true, const char *what);

/* As that, with the library's last error. Here, so that the references need not be linked with the library. */
static inline void must_work(bool is_true)
{
    must(is_true, is_true ? "" : synced_mem_last_error_message());
}

/* How long a comparison may take, and of how many rounds it is at least and at most. */
struct plan {
    double seconds;
    int fewest;
    int most;
};
void measure_by(const struct plan *plan);
struct plan measure_plan(void);

/* One way: does it once, and answers how many seconds the part that counts took. NULL: there is no such way. */
struct way {
    const char *name;
    double (*run)(void *state);
};

enum { MAX_WAYS = 16, MAX_ROUNDS = 301 };

/* Of several values; rounds is 0 where there are none. */
struct summary {
    double median;
    double least, most;
    double lower, upper; /* quartiles */
    int rounds;
};

extern const struct summary unmeasured; /* of none */

struct summary summary_of(double *values, int count);

/* Of a single value. */
struct summary summary_of_one(double value);

/* Runs each way once to warm up, and then all of them in turn, as often as the plan says; every other round backwards,
 * so that none always comes after the same other. */
void compare(const struct way *ways, int count, void *state, struct summary *results);

#endif
