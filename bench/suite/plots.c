#include "plots.h"

#include "child.h"
#include "report.h"
#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum whose { NOBODY, OURS, LIMIT, CLASSIC };

/* One line: what is measured in a table, by whom. */
struct series {
    const char *table;
    enum whose whose;
    const char *label;
};

enum { MAX_SERIES = 6 };

static const struct plot {
    const char *group;
    const char *name; /* of the files */
    const char *title;
    const char *along;  /* what x is: bytes, threads, objects */
    const char *across; /* what y is */
    bool log_y;
    struct series series[MAX_SERIES];
} plots[] = {
    {"transfers",
     "bandwidth-to-device",
     "Transfers to the device",
     "bytes",
     "GB/s",
     false,
     {{"push", OURS, "push, page-locked"},
      {"push", LIMIT, "cudaMemcpyAsync, page-locked (limit)"},
      {"pageable-up", OURS, "gpu_data, pageable"},
      {"pageable-push", OURS, "push on a stream, pageable"},
      {"pageable-up", CLASSIC, "cudaMemcpy, pageable (classic)"}}},
    {"transfers",
     "bandwidth-from-device",
     "Transfers from the device",
     "bytes",
     "GB/s",
     false,
     {{"pull", OURS, "pull, page-locked"},
      {"pull", LIMIT, "cudaMemcpyAsync, page-locked (limit)"},
      {"pageable-down", OURS, "cpu_data, pageable"},
      {"pageable-pull", OURS, "pull on a stream, pageable"},
      {"pageable-down", CLASSIC, "cudaMemcpy, pageable (classic)"}}},
    {"transfers",
     "bandwidth-both",
     "Both directions at once",
     "bytes",
     "GB/s, both together",
     false,
     {{"both", OURS, "push and pull, page-locked"},
      {"both", LIMIT, "cudaMemcpyAsync on two streams, page-locked (limit)"},
      {"both", CLASSIC, "cudaMemcpy, page-locked, one after the other (classic)"},
      {"pageable-both", OURS, "pull and push, pageable"},
      {"pageable-both", CLASSIC, "cudaMemcpy, pageable, one after the other (classic)"}}},
    {"transfers",
     "many",
     "Pushes of many objects, page-locked",
     "bytes",
     "µs an object",
     true,
     {{"push-n", OURS, "one call"},
      {"push-each", OURS, "a call each"},
      {"push-n", LIMIT, "as many cudaMemcpyAsync (limit)"},
      {"push-n", CLASSIC, "as many cudaMemcpy (classic)"}}},
    {"allocation",
     "allocation-first",
     "Page-locked memory, the first time",
     "bytes",
     "ms",
     true,
     {{"pinned-first", OURS, "synced_mem"},
      {"pinned-first", LIMIT, "cudaHostRegister alone (limit)"},
      {"pinned-first", CLASSIC, "cudaMallocHost (classic)"}}},
    {"allocation",
     "allocation-again",
     "Page-locked memory that was used before",
     "bytes",
     "µs a call",
     true,
     {{"pool", OURS, "the pool alone, 1 thread"},
      {"pool", LIMIT, "malloc of 256 bytes (limit)"},
      {"pool-16", OURS, "the pool alone, 16 threads"},
      {"pool", CLASSIC, "cudaMallocHost (classic)"},
      {"pinned-again", OURS, "overwrite_cpu_data, 1 thread"}}},
    {"allocation",
     "allocation-device",
     "Device memory",
     "bytes",
     "µs",
     true,
     {{"device-again", OURS, "synced_mem, used before"},
      {"device-again", LIMIT, "cudaMallocFromPoolAsync (limit)"},
      {"device-first", OURS, "synced_mem, the first time"},
      {"device-again", CLASSIC, "cudaMalloc (classic)"}}},
    {"allocation",
     "allocation-again-threads",
     "Page-locked memory used before, 64 KiB, by threads",
     "threads",
     "µs a call, the slowest thread",
     true,
     {{"pinned-again-threads", OURS, "overwrite_cpu_data"},
      {"pinned-again-threads", LIMIT, "malloc of 256 bytes, one thread (limit)"},
      {"pinned-again-threads", CLASSIC, "cudaMallocHost, one thread (classic)"}}},
    {"allocation",
     "allocation-device-threads",
     "Device memory used before, 64 KiB, by threads",
     "threads",
     "µs a call, the slowest thread",
     true,
     {{"device-again-threads", OURS, "overwrite_gpu_data_on"},
      {"device-again-threads", LIMIT, "cudaMallocFromPoolAsync, as many threads (limit)"},
      {"device-again-threads", CLASSIC, "cudaMalloc, one thread (classic)"}}},
    {"accessors",
     "accessors",
     "cpu_data with nothing to do",
     "threads",
     "calls a µs, all threads",
     false,
     {{"threads-one", OURS, "one object"},
      {"threads-one", LIMIT, "one object, the equal call (limit)"},
      {"threads-apart", OURS, "an object each"},
      {"threads-one", CLASSIC, "one object, Caffe's class (classic)"}}},
    {"life",
     "life",
     "Create, overwrite on the host, gpu_data, destroy",
     "bytes",
     "µs, without the fill",
     true,
     {{"device", OURS, "synced_mem"},
      {"device", LIMIT, "the copy alone (limit)"},
      {"device", CLASSIC, "cudaMallocHost, cudaMalloc, cudaMemcpy (classic)"}}},
    {"resize",
     "resize-host",
     "Resize to twice the size, contents kept on the host",
     "bytes",
     "µs",
     true,
     {{"grow-host", OURS, "resize"},
      {"grow-host", LIMIT, "calloc and memcpy (limit)"},
      {"grow-host", CLASSIC, "another object (classic)"}}},
    {"resize",
     "resize-device",
     "Resize to twice the size, contents kept on the device",
     "bytes",
     "µs",
     true,
     {{"grow-device", OURS, "resize, and the wait for it"},
      {"grow-device", LIMIT, "a copy and a fill on the device (limit)"},
      {"grow-device", CLASSIC, "another object (classic)"}}},
    {"overlap",
     "overlap",
     "A step: pushes beside kernels of their length",
     "bytes",
     "µs",
     true,
     {{"fills", OURS, "push beside the kernels"},
      {"fills", LIMIT, "the larger of the two alone (limit)"},
      {"fills-by-hand", LIMIT, "by hand, with events (limit)"},
      {"fills", CLASSIC, "one after the other (classic)"}}},
    {"scale",
     "scale",
     "Few objects and many",
     "objects",
     "ns an object",
     false,
     {{"create", OURS, "create"},
      {"release", OURS, "release"},
      {"create", LIMIT, "malloc of 128 bytes"},
      {"release", LIMIT, "free"}}},
    {"scale",
     "scale-trips",
     "4 KiB to the device and back",
     "objects",
     "µs a round trip",
     false,
     {{"trip", OURS, "synced_mem"},
      {"trip", LIMIT, "cudaMemcpyAsync and waits (limit)"},
      {"trip", CLASSIC, "cudaMemcpy (classic)"}}},
    {"scale",
     "scale-threads",
     "Create and release an object, by threads",
     "threads",
     "ns, the slowest thread",
     true,
     {{"life-threads", OURS, "synced_mem"},
      {"life-threads", LIMIT, "malloc and free of 128 bytes (limit)"},
      {"life-threads", CLASSIC, "Caffe's object (classic)"}}},
};

/* ---- Tables for gnuplot ---- */

static const struct summary *figure_of(const struct row *row, enum whose whose)
{
    return whose == OURS ? &row->ours : whose == LIMIT ? &row->limit : &row->classic;
}

/* Answers how many points there are. */
static int write_series(FILE *file, const struct plot *plot, const struct series *series)
{
    int count;
    int points = 0;
    const struct row *const rows = report_rows(&count);
    for (int i = 0; i < count; i++) {
        const struct summary *const figure = figure_of(&rows[i], series->whose);
        if (strcmp(rows[i].table->group, plot->group) != 0 || strcmp(rows[i].table->name, series->table) != 0 ||
            rows[i].verdict == SKIPPED || figure->rounds == 0)
            continue;
        (void)fprintf(file, "%.9g\t%.9g\t%.9g\t%.9g\n", rows[i].x, figure->median, figure->lower, figure->upper);
        points++;
    }
    return points;
}

static bool is_measured(const struct plot *plot)
{
    int count;
    const struct row *const rows = report_rows(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].table->group, plot->group) == 0)
            return true;
    return false;
}

/* The library in strong colours, limits in greys, the classic way in warm ones. */
static const char *colour_of(enum whose whose, int nth)
{
    static const char *const colours[][3] = {[OURS] = {"#0072b2", "#009e73", "#56b4e9"},
                                             [LIMIT] = {"#666666", "#aaaaaa", "#333333"},
                                             [CLASSIC] = {"#d55e00", "#e69f00", "#cc79a7"}};
    return colours[whose][nth % 3];
}

/* A block for each line, under its label: what gnuplot's "index" and "columnheader" take. Answers how many, and their
 * colours. */
static int write_table(const char *path, const struct plot *plot, char colours[128])
{
    FILE *const file = fopen(path, "w");
    int blocks = 0;
    int used[4] = {0};
    colours[0] = '\0';
    must(file != NULL, "a table for a picture can't be written");
    for (int i = 0; i < MAX_SERIES && plot->series[i].table; i++) {
        char *block = NULL;
        size_t length;
        FILE *const memory = open_memstream(&block, &length);
        must(memory != NULL, "no memory");
        const int points = write_series(memory, plot, &plot->series[i]);
        (void)fclose(memory);
        if (points > 1) {
            const enum whose whose = plot->series[i].whose;
            (void)fprintf(file, "%s\"%s\"\n%s", blocks++ ? "\n\n" : "", plot->series[i].label, block);
            (void)strcat(strcat(colours, colour_of(whose, used[whose]++)), " ");
        }
        free(block);
    }
    must(fclose(file) == 0, "a table for a picture can't be written");
    return blocks;
}

/* ---- gnuplot ---- */

static bool draw(const char *settings, const char *script, const char *name)
{
    char path[4200], output[4096];
    (void)snprintf(path, sizeof path, "%s/%s", SUITE_SOURCE, script);
    const char *const arguments[] = {"gnuplot", "-e", settings, path, NULL};
    if (run_program(arguments, NULL, false, output, sizeof output) == 0) {
        (void)printf("  %s/%s.svg\n", suite.plots, name);
        return true;
    }
    (void)fprintf(stderr, "suite: gnuplot could not draw %s\n", name);
    return false;
}

static bool draw_plot(const struct plot *plot)
{
    char table[4200], settings[10000], colours[128];
    if (!is_measured(plot))
        return true;
    (void)snprintf(table, sizeof table, "%s/%s.tsv", suite.plots, plot->name);
    const int blocks = write_table(table, plot, colours);
    if (blocks == 0) {
        (void)unlink(table);
        (void)printf("  %s: skipped, as too little of it was measured\n", plot->name);
        return true;
    }
    (void)snprintf(settings, sizeof settings,
                   "table='%s'; picture='%s/%s.svg'; heading='%s'; along='%s'; across='%s'; log_y=%d; blocks=%d; "
                   "remark='%s'; colours='%s'",
                   table, suite.plots, plot->name, plot->title, plot->along, plot->across, plot->log_y, blocks,
                   suite.emulated ? " (emulated: the figures mean nothing)"
                   : suite.quick  ? " (quick run)"
                                  : "",
                   colours);
    return draw(settings, "suite/lines.gp", plot->name);
}

/* The trainer has written it, if it ran on a GPU. */
static bool draw_timeline(void)
{
    char table[4200], settings[9000];
    (void)snprintf(table, sizeof table, "%s/timeline.tsv", suite.plots);
    if (access(table, R_OK) != 0) {
        (void)printf("  timeline: skipped, as no training was overlapped on a GPU\n");
        return true;
    }
    (void)snprintf(settings, sizeof settings, "table='%s'; picture='%s/timeline.svg'", table, suite.plots);
    return draw(settings, "train/timeline.gp", "timeline");
}

bool plots_draw(void)
{
    bool drawn = true;
    (void)printf("\nPictures\n");
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++)
        drawn = draw_plot(&plots[i]) && drawn;
    return draw_timeline() && drawn;
}

bool plots_can_be_drawn(const char *folder)
{
    struct stat status;
    char old[4200];
    if (strpbrk(folder, "' \"\\\n")) {
        (void)fprintf(stderr, "suite: --plots %s: a folder without spaces and quotes is needed\n", folder);
        return false;
    }
    if ((mkdir(folder, 0777) != 0 && errno != EEXIST) || stat(folder, &status) != 0 || !S_ISDIR(status.st_mode) ||
        access(folder, W_OK | X_OK) != 0) {
        (void)fprintf(stderr, "suite: --plots %s: no folder that can be written to: %s\n", folder,
                      errno == EEXIST ? "it is something else" : strerror(errno));
        return false;
    }
    if (!has_program("gnuplot")) {
        (void)fprintf(stderr, "suite: --plots: gnuplot is not installed (bench/run --suite --plots installs it)\n");
        return false;
    }
    (void)snprintf(old, sizeof old, "%s/timeline.tsv", folder);
    (void)unlink(old); /* of an earlier run */
    return true;
}
