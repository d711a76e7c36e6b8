/* Accessors with nothing to do: nanoseconds, threads, instructions. The accessor programs, linked shared and static,
 * measure them. */
#include "child.h"
#include "report.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The program's output, or a part of callgrind's file. */
static char text[8192];

static const char *const linkages[] = {"shared", "static"};

static const struct call {
    const char *name;
    bool for_gpu;
    bool on_stream;
} calls[] = {{"cpu_data", false, false},  {"mutable_cpu_data", false, false},
             {"gpu_data", true, false},   {"mutable_gpu_data", true, false},
             {"gpu_data_on", true, true}, {"mutable_gpu_data_on", true, true}};
enum { CALLS = sizeof calls / sizeof *calls };

/* Returns NULL if there is no such program: a build may have the static library alone. */
static const char *program(const char *folder, const char *linkage)
{
    static char path[8192];
    const bool elsewhere = folder == suite.counted;
    (void)snprintf(path, sizeof path, "%s/accessor_%s_%s", folder, linkage, elsewhere ? "emulated" : suite.runtime);
    return access(path, X_OK) == 0 ? path : NULL;
}

/* Reads the line "NAME median least most lower upper rounds". */
static struct summary find(const char *name)
{
    struct summary summary = unmeasured;
    const size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ' &&
            sscanf(line + length, "%lf %lf %lf %lf %lf %d", &summary.median, &summary.least, &summary.most,
                   &summary.lower, &summary.upper, &summary.rounds) == 6)
            return summary;
    }
    return unmeasured;
}

/* threads: their number and the least duration of a run, or NULL. */
static void run_accessor(const char *path, const char *what, const char *threads)
{
    const char *const seconds = suite.quick ? "0.005" : threads ? "3" : "2";
    const char *const spell = suite.quick ? "0.0002" : "0.02";
    const char *const arguments[] = {path, what, seconds, threads, spell, NULL};
    must(run_program(arguments, NULL, false, text, sizeof text) == 0, "the accessor program failed");
}

/* Returns a row that names the call and the linkage of the library. */
static struct row row_for(const struct table *table, const struct call *call, const char *linkage)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s, %s", call->name, linkage);
    return row_of(table, name, 0);
}

/* ---- Nanoseconds ---- */

static void report_call(const struct table *table, const struct call *call, const char *linkage, bool is_built)
{
    struct row row = row_for(table, call, linkage);
    if (!is_built)
        report_skip(&row, "this linkage is not built");
    else if (row_can_run(&row, call->for_gpu, 0))
        report_times(&row, (const struct summary[]){find(call->name), find("equal"), find("classic")}, 0);
}

void measure_accessors(void)
{
    static const struct table table = {"accessors",
                                       "time",
                                       "An accessor with nothing to do, one thread, loop included",
                                       UNIT_NS,
                                       "a call that does an acquire load and two branches, linked alike",
                                       "cpu_data of Caffe's class, linked alike"};
    report_table(&table);
    for (size_t i = 0; i < sizeof linkages / sizeof *linkages; i++) {
        const char *const path = program(suite.folder, linkages[i]);
        if (path)
            run_accessor(path, "times", NULL);
        for (size_t call = 0; call < CALLS; call++)
            report_call(&table, &calls[call], linkages[i], path != NULL);
    }
}

/* ---- Threads ---- */

static void report_threads(const struct table *table, const char *kind, int threads, bool all)
{
    char name[64];
    struct summary results[3];
    static const char *const ways[] = {"ours", "equal", "classic"};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s_%s", kind, ways[i]);
        results[i] = find(name);
    }
    struct row row = row_of_threads(table, threads);
    if (all)
        row_target(&row, TO_LIMIT, AT_LEAST, 0.95);
    report_times(&row, results, 1);
}

/* Fills counts with the powers of two and the number of cores. Returns the number of counts. */
static int thread_counts(int counts[16])
{
    const int all = suite.cores < 256 ? suite.cores : 256;
    int count = 0;
    for (int threads = 1; threads < all; threads *= 2)
        counts[count++] = threads;
    counts[count++] = all;
    return count;
}

void measure_accessor_threads(void)
{
    static const struct table tables[] = {
        {"accessors", "threads-one", "cpu_data of one object by several threads, library shared", UNIT_CALLS_PER_US,
         "the equal call of one object by as many threads", "cpu_data of Caffe's class by as many threads"},
        {"accessors", "threads-apart", "cpu_data of an object each", UNIT_CALLS_PER_US,
         "the equal call by as many threads, an object each", "cpu_data of Caffe's class, an object each"}};
    static char kept[16][sizeof text];
    int counts[16];
    const int count = thread_counts(counts);
    const char *path = program(suite.folder, "shared");
    path = path ? path : program(suite.folder, "static");
    must(path != NULL, "there is no accessor program");
    for (int i = 0; i < count; i++) {
        char threads[16];
        (void)snprintf(threads, sizeof threads, "%d", counts[i]);
        run_accessor(path, "threads", threads);
        memcpy(kept[i], text, sizeof text);
    }
    for (int kind = 0; kind < 2; kind++) {
        report_table(&tables[kind]);
        for (int i = 0; i < count; i++) {
            memcpy(text, kept[i], sizeof text);
            report_threads(&tables[kind], kind == 0 ? "one" : "apart", counts[i], kind == 0 && i == count - 1);
        }
    }
}

/* ---- Instructions ---- */

enum { COUNTED = 20000, MAX_LOOPS = 32 };

struct counts {
    char name[MAX_LOOPS][32];
    int id[MAX_LOOPS];
    double total[MAX_LOOPS];
    int count;
};

/* Returns the index of a loop. Callgrind writes "(7) loop_equal" at first and "(7)" later. -1: not a loop. */
static int loop_of(struct counts *counts, const char *function)
{
    int id;
    char name[32] = "";
    if (sscanf(function, "(%d) loop_%31s", &id, name) == 2 && counts->count < MAX_LOOPS) {
        memcpy(counts->name[counts->count], name, sizeof name);
        counts->id[counts->count] = id;
        return counts->count++;
    }
    for (int i = 0; i < counts->count; i++)
        if (sscanf(function, "(%d)", &id) == 1 && counts->id[i] == id)
            return i;
    return -1;
}

/* Reads callgrind's file. Under each function it has the cost of the function's own lines and of its calls. */
static void read_counts(FILE *file, struct counts *counts)
{
    char line[4096];
    int current = -1;
    while (fgets(line, sizeof line, file)) {
        double cost;
        if (strncmp(line, "fn=", 3) == 0)
            current = loop_of(counts, line + 3);
        else if (strncmp(line, "cfn=", 4) == 0)
            (void)loop_of(counts, line + 4);
        else if (current >= 0 && strchr("0123456789+-*", line[0]) && sscanf(line, "%*s %lf", &cost) == 1)
            counts->total[current] += cost;
    }
}

/* Hides the GPU: its driver takes minutes under valgrind. */
static bool count_instructions(const char *path, struct counts *counts)
{
    char file[] = "/tmp/synced_mem_suite_XXXXXX";
    char out[128];
    char often[16];
    const int made = mkstemp(file);
    must(made >= 0, "can't create a file in /tmp");
    (void)close(made);
    (void)snprintf(out, sizeof out, "--callgrind-out-file=%s", file);
    (void)snprintf(often, sizeof often, "%d", COUNTED);
    const char *const arguments[] = {"valgrind", "--tool=callgrind", out, path, "count", often, NULL};
    const bool done = run_program(arguments, "CUDA_VISIBLE_DEVICES=-1", true, text, sizeof text) == 0;
    FILE *const stream = fopen(file, "r");
    if (done && stream)
        read_counts(stream, counts);
    if (stream)
        (void)fclose(stream);
    (void)unlink(file);
    return done;
}

static struct summary count_of(const struct counts *counts, const char *name)
{
    for (int i = 0; i < counts->count; i++)
        if (strcmp(counts->name[i], name) == 0)
            return summary_of_one(round(100 * counts->total[i] / COUNTED) /
                                  100); /* without the instructions before and after the loop */
    return unmeasured;
}

static void report_count(const struct table *table, const struct call *call, const char *linkage,
                         const struct counts *counts, const char *why_not)
{
    struct row row = row_for(table, call, linkage);
    const bool is_static = strcmp(linkage, "static") == 0;
    const double most = is_static ? 19 : call->on_stream ? 17 : 13;
    const struct summary results[] = {count_of(counts, call->name), count_of(counts, "equal"),
                                      count_of(counts, "classic")};
    row_target(&row, VALUE, AT_MOST, most);
    if (suite.counted)
        (void)snprintf(row.note, sizeof row.note, "on the emulated runtime");
    if (why_not)
        report_skip(&row, why_not);
    else if (results[0].rounds == 0)
        report_skip(&row, "no GPU");
    else
        report_values(&row, results);
}

void measure_instructions(void)
{
    static const struct table table = {"accessors",
                                       "instructions",
                                       "Instructions of a call, loop included, counted by callgrind",
                                       UNIT_INSTRUCTIONS,
                                       "a call that does an acquire load and two branches, linked alike",
                                       "cpu_data of Caffe's class, linked alike"};
    report_table(&table);
    for (size_t i = 0; i < sizeof linkages / sizeof *linkages; i++) {
        struct counts counts = {.count = 0};
        const char *const path = program(suite.counted ? suite.counted : suite.folder, linkages[i]);
        const char *why_not = NULL;
        if (!has_program("valgrind"))
            why_not = "valgrind is not installed";
        else if (!path)
            why_not = "this linkage is not built";
        else if (!count_instructions(path, &counts))
            why_not = "valgrind can't run this build";
        for (size_t call = 0; call < CALLS; call++)
            report_count(&table, &calls[call], linkages[i], &counts, why_not);
    }
}
