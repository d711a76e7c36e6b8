/* Rows: what was measured beside its two references, and whether its targets are met; as a table and as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include "measure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Times are measured; rates are an amount (bytes, calls) by time; the rest are counts. */
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
    const char *limit;   /* what no library can beat; NULL: there is no such thing */
    const char *classic; /* what a program does without the library; NULL likewise */
};

enum against {
    VALUE,      /* the figure itself */
    TO_LIMIT,   /* the figure by the limit's */
    OVER_LIMIT, /* the figure less the limit's */
    FASTER      /* the classic way's time by the figure, or the figure by the classic way's rate */
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
    double x; /* where it stands in a picture: a size, a number of threads or of objects */
    struct summary ours, limit, classic;
    struct target targets[MAX_TARGETS];
    int target_count;
    enum verdict verdict;
    char note[160]; /* or why it was skipped */
};

/* Once, in the process that starts all others: where rows are kept. json may be NULL. */
void report_open(FILE *json);
const struct row *report_rows(int *count);

void report_table(const struct table *table);
struct row row_of(const struct table *table, const char *name, double x);
void row_target(struct row *row, enum against against, enum bound bound, double number);

/* Each of these ends the row: it is judged, printed and kept. Seconds are turned into the table's unit; amount is that
 * of a rate. results: ours, the limit, the classic way. */
void report_times(struct row *row, const struct summary results[3], double amount);
void report_values(struct row *row, const struct summary results[3]);
void report_skip(struct row *row, const char *why);

/* Writes an object to the JSON, if there is one. line: the object, without the end of the line. */
void report_record(const char *line);

/* False: reports the row as skipped, because there is no GPU, or because bytes (of memory in all) are too many for this
 * run. */
bool row_can_run(struct row *row, bool needs_gpu, size_t bytes);

/* A row of so many threads at once. */
struct row row_of_threads(const struct table *table, int threads);

/* False: notes that there are fewer processors. Threads that share one wait for one another, whatever they do. */
bool row_has_processors(struct row *row, int threads);

/* What is being done, in a line on stderr that is written over; on a terminal only. */
void report_progress(const struct row *row);
void report_clear_progress(void);

/* "16 MiB"; the answer is good until the fourth call after it. */
const char *size_name(size_t size);
void json_string(FILE *stream, const char *text);

#endif
