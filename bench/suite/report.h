/* Rows: a figure, its two references and the verdict on its targets; printed as a table and as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include "measure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Times are measured. Rates are an amount (bytes, calls) divided by a time. The rest are counts. */
enum unit {
    UNIT_NS,
    UNIT_US,
    UNIT_MS,
    UNIT_S,
    UNIT_GB_PER_S,
    UNIT_CALLS_PER_US,
    UNIT_BYTES,
    UNIT_INSTRUCTIONS,
    UNIT_PERCENT,
    UNIT_TRANSFERS,
    UNIT_RATIO
};

struct table {
    const char *group;
    const char *name; /* in JSON */
    const char *title;
    enum unit unit;
    const char *limit;   /* the bare call that does the same work; NULL: none */
    const char *classic; /* the calls of a program without the library; NULL: none */
};

enum against {
    VALUE,      /* the figure itself */
    TO_LIMIT,   /* the figure divided by the limit's */
    OVER_LIMIT, /* the figure minus the limit's */
    FASTER      /* the classic way's time divided by the figure, or the figure divided by the classic way's rate */
};
enum bound { AT_MOST, AT_LEAST };

struct target {
    enum against against;
    enum bound bound;
    double number;
};

enum verdict { UNJUDGED, MET, MISSED, SKIPPED };

enum { MAX_TARGETS = 3, MAX_ROWS = 2048 };

struct row {
    const struct table *table;
    char name[64];
    double x; /* its x in a picture: a size, or a number of threads or objects */
    struct summary ours, limit, classic;
    struct target targets[MAX_TARGETS];
    int target_count;
    enum verdict verdict;
    char note[160]; /* a remark, or the reason why the row was skipped */
};

/* Prepares the rows. Called once, in the process that starts all others. json: NULL for none. */
void report_open(FILE *json);
const struct row *report_rows(int *count);

void report_table(const struct table *table);
struct row row_of(const struct table *table, const char *name, double x);
void row_target(struct row *row, enum against against, enum bound bound, double number);

/* Each of these ends the row: it is judged, printed and kept. Seconds are converted to the table's unit. amount: of a
 * rate. results: ours, the limit, the classic way. */
void report_times(struct row *row, const struct summary results[3], double amount);
void report_values(struct row *row, const struct summary results[3]);
void report_skip(struct row *row, const char *why);

/* Writes an object to the JSON file, if there is one. line: the object, without a line feed. */
void report_record(const char *line);

/* Returns whether the row can run. Otherwise reports it as skipped: there is no GPU, or bytes (memory in all) is too
 * large for this run. */
bool row_can_run(struct row *row, bool needs_gpu, size_t bytes);

/* Returns a row of this number of threads at once. */
struct row row_of_threads(const struct table *table, int threads);

/* Returns whether each thread has a processor. Otherwise notes the number of processors: threads that share one wait
 * for one another, whatever they do. */
bool row_has_processors(struct row *row, int threads);

/* Shows the row that is being measured in one line on stderr, on a terminal only. The next call overwrites it. */
void report_progress(const struct row *row);
void report_clear_progress(void);

/* Returns text such as "16 MiB", valid until the fourth call after this one. */
const char *size_name(size_t size);
void json_string(FILE *stream, const char *text);

#endif
