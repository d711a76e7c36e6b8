/* The trainer: a run end to end, and how far its pushes hide behind its kernels. */
#include "child.h"
#include "report.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[65536];

static const char *trainer(void)
{
    static char path[8192];
    (void)snprintf(path, sizeof path, "%s/../train/train", suite.folder);
    return access(path, X_OK) == 0 ? path : NULL;
}

/* Runs the trainer. words: its command line, separated by single spaces. */
static int run_trainer(const char *words)
{
    static char copy[8192];
    const char *arguments[30] = {trainer()};
    int count = 1;
    char *rest = NULL;
    (void)snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, " ", &rest); word && count < 29; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    /* In a quick run other tests may run beside this one, and several threads would mostly wait for one another. */
    return run_program(arguments, suite.quick ? "OPENBLAS_NUM_THREADS=1" : NULL, !suite.gpu || suite.emulated, text,
                       sizeof text);
}

/* Reads the first numbers of the line that begins with name. */
static bool find(const char *name, double *numbers, int count)
{
    const size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0)
            continue;
        char *at = (char *)(size_t)(line + length);
        for (int i = 0; i < count; i++)
            numbers[i] = strtod(at, &at);
        return true;
    }
    return false;
}

/* The trainer's median times of a step, in seconds. */
struct steps {
    struct summary kernels, pushes, both, in_turn;
    double stall; /* percent of the time that kernels waited for a push */
};

static struct summary find_step(const char *name)
{
    double ms[3] = {0};
    must(find(name, ms, 3), "the trainer's output can't be parsed");
    return (struct summary){ms[0] * 1e-3, ms[1] * 1e-3, ms[2] * 1e-3, ms[1] * 1e-3, ms[2] * 1e-3, 7};
}

/* Returns NULL, or the reason why there is no result. */
static const char *measure_steps(const char *words, struct steps *steps)
{
    if (!suite.gpu)
        return "no GPU";
    if (!trainer())
        return "the trainer is not built";
    const int status = run_trainer(words);
    if (status == 2)
        return "the trainer is built without kernels for this GPU";
    must(status == 0, "the trainer failed");
    *steps = (struct steps){.kernels = find_step("a  kernels alone"),
                            .pushes = find_step("b  pushes alone"),
                            .both = find_step("c  both"),
                            .in_turn = find_step("d  in turn")};
    must(find("stalled", &steps->stall, 1), "the trainer's output can't be parsed");
    return NULL;
}

/* ---- Pushes beside kernels ---- */

/* Few distinct characters make the kernels short, so that the link is busy for most of a step. */
static const char *few_characters(void)
{
    static char path[] = "/tmp/synced_mem_suite_XXXXXX";
    const int file = mkstemp(path);
    FILE *const stream = file >= 0 ? fdopen(file, "w") : NULL;
    must(stream != NULL, "can't create a file in /tmp");
    unsigned random = 1;
    for (int i = 0; i < 35000; i++) {
        random = random * 1664525u + 1013904223u;
        (void)fputc("abcd \n"[(random >> 16) % 6], stream);
    }
    must(fclose(stream) == 0, "a file in /tmp can't be written");
    return path;
}

/* Returns false if the row was skipped. */
static bool report_steps(const struct table *table, const char *name, const char *words)
{
    struct steps steps;
    struct row row = row_of(table, name, 0);
    row_target(&row, TO_LIMIT, AT_MOST, 1.05);
    report_progress(&row);
    const char *const why_not = measure_steps(words, &steps);
    if (why_not) {
        report_skip(&row, why_not);
        return false;
    }
    const bool by_pushes = steps.pushes.median > steps.kernels.median;
    (void)snprintf(row.note, sizeof row.note, "%s take longer; stalled for %.2f %%", by_pushes ? "pushes" : "kernels",
                   steps.stall);
    report_times(&row, (const struct summary[]){steps.both, by_pushes ? steps.pushes : steps.kernels, steps.in_turn},
                 0);
    return true;
}

/* Copies the line of JSON that the trainer prints with --timeline. */
static void report_timeline(void)
{
    char *const line = strstr(text, "{\"timeline\":");
    must(line != NULL, "the trainer's output can't be parsed");
    line[strcspn(line, "\n")] = '\0';
    report_record(line);
}

void measure_trainer_overlap(void)
{
    static const struct table table = {"overlap",
                                       "training",
                                       "A training step: the push of the next batch beside the kernels of this one",
                                       UNIT_MS,
                                       "the larger of kernels alone and pushes alone",
                                       "no push: the host waits for each batch to arrive, then queues the kernels"};
    char words[200];
    report_table(&table);
    (void)report_steps(&table, "16384 x 256", "--overlap 100 --batch 16384 --context 256 --embed 1 --hidden 8");
    (void)report_steps(&table, "8192 x 256", "--overlap 100 --batch 8192 --context 256 --embed 1 --hidden 8");
    (void)report_steps(&table, "65536 x 64", "--overlap 100 --batch 65536 --context 64 --embed 1 --hidden 8");
    const char *const file = few_characters();
    (void)snprintf(words, sizeof words, "--overlap 200 --timeline --batch 16384 --context 256 --embed 1 --hidden 8 %s",
                   file);
    if (report_steps(&table, "16384 x 256, six characters", words))
        report_timeline();
    (void)unlink(file);
}

/* ---- The whole run ---- */

struct run {
    double seconds, steps;
    double transfers, fewest;
    double loss, gain;
};

static struct run read_run(void)
{
    struct run run = {0};
    double up[4] = {0};
    double down[4] = {0};
    const char *const gain = strstr(text, "gain ");
    must(find("time", &run.seconds, 1) && find("training", &run.steps, 1) && find("host to device", up, 4) &&
             find("device to host", down, 4) && find("held-out loss", &run.loss, 1) && gain,
         "the trainer's output can't be parsed");
    run.gain = strtod(gain + strlen("gain "), NULL);
    run.transfers = up[0] + down[0];
    run.fewest = up[2] + down[2];
    /* Any other text may be too short to learn from. */
    if (strstr(text, "/common-licenses/"))
        must(run.gain > (suite.quick ? 0 : 0.8), "wrong result: the gain over the unigram entropy is too small");
    return run;
}

static void report_run(const struct run *run, const struct steps *steps, const char *why_not)
{
    static const struct table table = {"train",
                                       "time",
                                       "Training end to end, default settings",
                                       UNIT_S,
                                       "as many steps of the kernels alone",
                                       "as many steps where the host waits for each batch to arrive"};
    struct summary results[3] = {summary_of_one(run->seconds)};
    struct row row = row_of(&table, why_not ? "on the CPU" : "on the GPU", run->steps);
    if (!why_not) {
        results[1] = summary_of_one(steps->kernels.median * run->steps);
        results[2] = summary_of_one(steps->in_turn.median * run->steps);
    }
    (void)snprintf(row.note, sizeof row.note, "%.0f steps; held-out loss %.4f, %.4f below the unigram entropy",
                   run->steps, run->loss, run->gain);
    report_table(&table);
    report_times(&row, results, 0);
}

static double share(double whole, double part)
{
    return whole > part ? 100 * (whole - part) / whole : 0;
}

static void report_hidden(const struct steps *steps, const char *why_not)
{
    static const struct table table = {
        "train",      "not-hidden", "Of the time of the training run",
        UNIT_PERCENT, NULL,         "all but the kernels, if the host waits for each batch"};
    struct row stall = row_of(&table, "kernels wait for a transfer", 0);
    struct row push = row_of(&table, "pushes, with the host's part", 0);
    row_target(&stall, VALUE, AT_MOST, 2);
    report_table(&table);
    if (why_not) {
        report_skip(&stall, why_not);
        report_skip(&push, why_not);
        return;
    }
    const double kernels = steps->kernels.median;
    const struct summary classic = summary_of_one(share(steps->in_turn.median, kernels));
    report_values(&stall, (const struct summary[]){summary_of_one(steps->stall), unmeasured, classic});
    report_values(&push,
                  (const struct summary[]){summary_of_one(share(steps->both.median, kernels)), unmeasured, classic});
}

static void report_transfers(const struct run *run, const char *why_not)
{
    static const struct table table = {
        "train", "transfers", "Transfers of the training run", UNIT_TRANSFERS, "the fewest that the algorithm needs",
        NULL};
    struct row row = row_of(&table, "up and down", 0);
    row_target(&row, TO_LIMIT, AT_MOST, 1);
    report_table(&table);
    if (why_not)
        report_skip(&row, why_not);
    else
        report_values(
            &row, (const struct summary[]){summary_of_one(run->transfers), summary_of_one(run->fewest), unmeasured});
}

void measure_training(void)
{
    static const struct table none = {"train", "time", "Training end to end", UNIT_S, NULL, NULL};
    struct row row = row_of(&none, "default settings", 0);
    struct steps steps = {0};
    report_progress(&row);
    if (!trainer()) {
        report_table(&none);
        report_skip(&row, "the trainer is not built: it needs CBLAS, or cuBLAS and nvcc");
        return;
    }
    must(run_trainer(suite.quick ? "--quiet --sample 0 --steps 100" : "--quiet --sample 0") == 0, "the trainer failed");
    const struct run run = read_run();
    const char *const why_not = measure_steps(suite.quick ? "--overlap 20" : "--overlap 500", &steps);
    report_run(&run, &steps, why_not);
    report_hidden(&steps, why_not);
    report_transfers(&run, why_not);
}
