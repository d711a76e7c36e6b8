/* The measuring kit: a clock, ways of the same operation compared in turn, and their summaries. */
#ifndef MEASURE_H
#define MEASURE_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>

double seconds_now(void);

/* Ends the process with a line on stderr if the condition is false: a figure of failed work would be worthless. */
void must(bool is_true, const char *what);

/* As must(), with the library's last error. Inline, so that the references need not be linked with the library. */
static inline void must_work(bool is_true)
{
    must(is_true, is_true ? "" : synced_mem_last_error_message());
}

/* The duration of a comparison, and its least and greatest number of rounds. */
struct plan {
    double seconds;
    int fewest;
    int most;
};
void measure_by(const struct plan *plan);
struct plan measure_plan(void);

/* One way: runs the operation once and returns the seconds of the timed part. NULL: there is no such way. */
struct way {
    const char *name;
    double (*run)(void *state);
};

enum { MAX_WAYS = 16, MAX_ROUNDS = 301 };

/* A summary of several values. rounds: their number; 0: none. */
struct summary {
    double median;
    double least, most;
    double lower, upper; /* quartiles */
    int rounds;
};

extern const struct summary unmeasured; /* of no values */

struct summary summary_of(double *values, int count);

/* Returns the summary of a single value. */
struct summary summary_of_one(double value);

/* Runs each way once to warm up, and then all of them in turn, as often as the plan sets. Every other round runs
 * backwards, so that no way always follows the same one. Each round begins on a quiet processor (processor.h). */
void compare(const struct way *ways, int count, void *state, struct summary *results);

#endif
