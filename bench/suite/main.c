/*
 * Measures everything that the library promises, beside the calls of a program without the library. suite --help prints
 * the options.
 *
 * Each part of a group runs in a process of its own. So pools and driver state of one part have no effect on the next,
 * a part can run where nothing has used a GPU yet, and the other parts go on if one fails.
 */
#include "child.h"
#include "machine.h"
#include "report.h"
#include "suite.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ENDED_WELL = 0, ENDED_BY_FAILURE = 1, ENDED_BY_MISUSE = 2 };

struct suite suite = {.runtime = SUITE_RUNTIME};

/* ---- Groups ---- */

static const struct group {
    const char *name;
    const char *what;
    bool only_by_name;
} groups[] = {
    {"accessors", "accessors with nothing to do: instructions, nanoseconds, threads", false},
    {"host", "first accesses in a process without a GPU", false},
    {"transfers", "transfers of page-locked and pageable memory, both directions, many, latency", false},
    {"copies", "copies between objects, on one device and between two", false},
    {"parts", "views of an object: accesses, many views, changed parts, reads beside kernels", false},
    {"allocation", "page-locked and device memory: first use, reuse, threads, a trace", false},
    {"tensors", "tensors of DLPack, out and in", false},
    {"turns", "turns of an object that several processes use", false},
    {"shared", "device memory that several processes use", false},
    {"queue", "batches from one process to the GPU of another", false},
    {"files", "files to the device and to the host, and back", false},
    {"budget", "more than the device holds: holds, evictions", false},
    {"life", "an object from creation to release", false},
    {"resize", "resizes within the capacity and beyond it", false},
    {"overlap", "copies beside kernels", false},
    {"scale", "10 to 1,000,000 objects", false},
    {"train", "the training run, end to end", false},
    {"staging", "how pageable transfers are staged: threads and buffers", true},
};
enum { GROUPS = sizeof groups / sizeof *groups };

static const struct part {
    const char *group;
    void (*run)(void);
} parts[] = {
    {"accessors", measure_instructions},
    {"accessors", measure_accessors},
    {"accessors", measure_accessor_threads},
    {"accessors", measure_common_reads},
    {"host", measure_first_reads},
    {"transfers", measure_pinned_transfers},
    {"transfers", measure_both_directions},
    {"transfers", measure_groups},
    {"transfers", measure_batches},
    {"transfers", measure_small_transfers},
    {"transfers", measure_kernels_beside},
    {"transfers", measure_urgent},
    {"transfers", measure_pageable_latency},
    {"transfers", measure_pageable_transfers},
    {"transfers", measure_pageable_by_hand},
    {"transfers", measure_pageable_on_stream},
    {"transfers", measure_pageable_both},
    {"copies", measure_device_copies},
    {"copies", measure_small_copies},
    {"copies", measure_peer_copies},
    {"parts", measure_view_accesses},
    {"parts", measure_many_views},
    {"parts", measure_view_memory},
    {"parts", measure_changed_parts},
    {"parts", measure_small_fills},
    {"parts", measure_reads_beside_kernels},
    {"allocation", measure_first_allocations},
    {"allocation", measure_reused_allocations},
    {"allocation", measure_pinned_releases},
    {"allocation", measure_device_allocations},
    {"allocation", measure_device_threads},
    {"allocation", measure_traces},
    {"tensors", measure_tensors},
    {"turns", measure_turns},
    {"shared", measure_shared},
    {"queue", measure_queue},
    {"files", measure_loads_from_memory},
    {"files", measure_loads_from_cache},
    {"files", measure_loads_from_disk},
    {"files", measure_reads_from_memory},
    {"files", measure_reads_from_cache},
    {"files", measure_stores},
    {"files", measure_load_memory},
    {"files", measure_checkpoint},
    {"budget", measure_holds},
    {"budget", measure_sweeps_read},
    {"budget", measure_sweeps_of_files},
    {"budget", measure_sweeps_of_files_ahead},
    {"budget", measure_sweeps_written},
    {"budget", measure_sweeps_written_ahead},
    {"budget", measure_layers},
    {"life", measure_lives},
    {"life", measure_nets},
    {"resize", measure_host_resizes},
    {"resize", measure_device_resizes},
    {"overlap", measure_overlap},
    {"overlap", measure_trainer_overlap},
    {"scale", measure_many},
    {"scale", measure_life_threads},
    {"scale", measure_many_on_device},
    {"scale", measure_resident},
    {"train", measure_training},
    {"staging", measure_staging},
};
enum { PARTS = sizeof parts / sizeof *parts };

static void list_groups(void)
{
    for (int i = 0; i < GROUPS; i++)
        (void)printf("%-10s  %s%s\n", groups[i].name, groups[i].what,
                     groups[i].only_by_name ? "; only with --group" : "");
}

/* ---- The command line ---- */

struct options {
    bool chosen[GROUPS];
    bool any_chosen;
    bool help, list, quick, strict;
    const char *json, *counted;
};

static bool complain(const char *about, const char *what)
{
    (void)fprintf(stderr, "suite: %s: %s\n", about, what);
    return false;
}

static bool choose_group(struct options *options, const char *name)
{
    for (int i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, name) == 0) {
            options->chosen[i] = true;
            options->any_chosen = true;
            return true;
        }
    return complain(name, "there is no such group (--list prints them)");
}

/* Takes an option without a value. Returns false if it is none. */
static bool take_flag(struct options *options, const char *flag)
{
    const struct {
        const char *flag;
        bool *value;
    } flags[] = {{"--help", &options->help},
                 {"--list", &options->list},
                 {"--quick", &options->quick},
                 {"--strict", &options->strict}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flag, flags[i].flag) == 0)
            return *flags[i].value = true;
    return false;
}

static bool take_value(struct options *options, const char *flag, const char *value)
{
    const bool is_group = strcmp(flag, "--group") == 0;
    const struct {
        const char *flag;
        const char **value;
    } flags[] = {{"--json", &options->json}, {"--counted", &options->counted}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flag, flags[i].flag) == 0 || (is_group && i == 0)) {
            if (!value || !*value)
                return complain(flag, "its value is missing");
            if (is_group)
                return choose_group(options, value);
            *flags[i].value = value;
            return true;
        }
    return complain(flag, "there is no such option (--help lists them)");
}

static bool parse(struct options *options, int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        if (take_flag(options, arguments[i]))
            continue;
        if (!take_value(options, arguments[i], i + 1 < count ? arguments[i + 1] : NULL))
            return false;
        i++;
    }
    return true;
}

static void print_help(void)
{
    (void)printf(
        "usage: suite [options]\n"
        "\n"
        "Measures the library beside two references in the same run. The limit is the bare call that does the\n"
        "same work. The classic way is the calls of Caffe's SyncedMemory. Figures are medians. Rows that need a GPU\n"
        "are skipped if there is none.\n"
        "\n"
        "  --group NAME   run only this group; may be given several times\n"
        "  --list         print the groups\n"
        "  --quick        run few repetitions of small sizes, only to check that everything works\n"
        "  --json FILE    also write JSON: a line for the machine, for each row and for the end\n"
        "  --strict       fail if a target is missed\n"
        "  --counted DIR  count instructions of the accessor programs in DIR, built for the emulated runtime\n"
        "  --help         print this text\n"
        "\n"
        "bench/run --suite also takes --plots DIR: bench/plot.py draws the rows into DIR as SVG; and --compare FILE:\n"
        "bench/compare.py prints what has changed since the run that wrote FILE.\n"
        "\n"
        "Exit status: 0; 1 if a part failed or gave a wrong result; 2 for a wrong option.\n");
}

/* ---- Running ---- */

static struct machine *machine; /* shared with the process that reads it */

static void ask_machine(void)
{
    machine_read(machine);
}

static void find_folder(void)
{
    const ssize_t length = readlink("/proc/self/exe", suite.folder, sizeof suite.folder - 1);
    must(length > 0, "/proc/self/exe can't be read");
    suite.folder[length] = '\0';
    suite.folder[strlen(dirname(suite.folder))] = '\0';
}

static void set_sizes(void)
{
    static const struct plan quick = {.seconds = 0, .fewest = 3, .most = 3};
    static const struct plan full = {.seconds = 0.6, .fewest = 5, .most = 301};
    const bool small = suite.quick || suite.emulated;
    suite.largest = suite.quick ? MIB : suite.emulated ? 4 * MIB : GIB;
    suite.ring = small ? 2 * suite.largest : (size_t)256 * MIB;
    suite.objects = suite.quick ? 10000 : 1000000;
    suite.gpu_objects = suite.quick ? 100 : suite.emulated ? 1000 : 1000000;
    suite.spell = suite.quick ? 0.0002 : 0.01;
    measure_by(suite.quick ? &quick : &full);
}

static bool prepare(const struct options *options)
{
    suite.quick = options->quick;
    suite.counted = options->counted;
    machine = mmap(NULL, sizeof *machine, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(machine != MAP_FAILED, "no memory");
    find_folder();
    if (!run_apart(ask_machine))
        return complain("the machine", "its GPU could not be queried");
    suite.gpu = machine->has_gpu;
    suite.emulated = machine->is_emulated;
    suite.cores = machine->cores;
    suite.memory = machine->memory;
    set_sizes();
    return true;
}

static bool is_chosen(const struct options *options, const char *name)
{
    for (int i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, name) == 0)
            return options->any_chosen ? options->chosen[i] : !groups[i].only_by_name;
    return false;
}

/* Returns the number of failed parts. */
static int run_parts(const struct options *options)
{
    int failed = 0;
    for (int i = 0; i < PARTS; i++) {
        if (!is_chosen(options, parts[i].group) || run_apart(parts[i].run))
            continue;
        report_clear_progress();
        (void)fprintf(stderr, "suite: %s: a part of this group failed\n", parts[i].group);
        failed++;
    }
    return failed;
}

/* Returns the number of missed targets. */
static int sum_up(int failed, double seconds, FILE *json)
{
    int count;
    int by_verdict[SKIPPED + 1] = {0};
    const struct row *const rows = report_rows(&count);
    for (int i = 0; i < count; i++)
        by_verdict[rows[i].verdict]++;
    (void)printf("\n%d rows: targets met %d, missed %d; without target %d; skipped %d; parts failed %d; %.0f s\n",
                 count, by_verdict[MET], by_verdict[MISSED], by_verdict[UNJUDGED], by_verdict[SKIPPED], failed,
                 seconds);
    for (int i = 0; i < count; i++)
        if (rows[i].verdict == MISSED)
            (void)printf("  missed: %s, %s: %s\n", rows[i].table->group, rows[i].table->title, rows[i].name);
    if (json)
        (void)fprintf(
            json, "{\"end\":{\"rows\":%d,\"met\":%d,\"missed\":%d,\"no_target\":%d,\"skipped\":%d,\"failed\":%d}}\n",
            count, by_verdict[MET], by_verdict[MISSED], by_verdict[UNJUDGED], by_verdict[SKIPPED], failed);
    return by_verdict[MISSED];
}

static int run(const struct options *options, FILE *json)
{
    const double begin = seconds_now();
    if (!prepare(options))
        return ENDED_BY_FAILURE;
    report_open(json);
    machine_print(machine);
    if (json)
        machine_write_json(machine, json);
    const int failed = run_parts(options);
    const int missed = sum_up(failed, seconds_now() - begin, json);
    return failed > 0 || (missed > 0 && options->strict) ? ENDED_BY_FAILURE : ENDED_WELL;
}

static bool open_json(const char *path, FILE **json)
{
    *json = path ? fopen(path, "w") : NULL;
    if (!path || *json)
        return true;
    (void)fprintf(stderr, "suite: --json %s: %s\n", path, strerror(errno));
    return false;
}

static int close_all(FILE *json, const char *path, int ended)
{
    if (json && fclose(json) != 0) {
        (void)fprintf(stderr, "suite: --json %s: it could not be written\n", path);
        ended = ENDED_BY_FAILURE;
    }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return ended;
    (void)complain("the output", "it could not be written");
    return ENDED_BY_FAILURE;
}

int main(int count, char **arguments)
{
    struct options options = {.help = false};
    FILE *json = NULL;
    if (!parse(&options, count, arguments))
        return ENDED_BY_MISUSE;
    if (options.help || options.list) {
        options.help ? print_help() : list_groups();
        return close_all(NULL, NULL, ENDED_WELL);
    }
    if (!open_json(options.json, &json))
        return ENDED_BY_MISUSE;
    return close_all(json, options.json, run(&options, json));
}
