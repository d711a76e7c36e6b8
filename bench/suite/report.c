#include "report.h"

#include "suite.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shared by all processes of a run. One of them writes at a time. */
static struct kept {
    int count;
    struct row rows[MAX_ROWS];
} * kept;

static FILE *json;
static double started;

static const struct {
    const char *name;
    double seconds; /* of a unit of time; 0: not a time */
    double amount;  /* of a unit of rate; 0: not a rate */
} units[] = {[UNIT_NS] = {"ns", 1e-9, 0},        [UNIT_US] = {"us", 1e-6, 0},
             [UNIT_MS] = {"ms", 1e-3, 0},        [UNIT_S] = {"s", 1, 0},
             [UNIT_GB_PER_S] = {"GB/s", 0, 1e9}, [UNIT_CALLS_PER_US] = {"calls/us", 0, 1e6},
             [UNIT_BYTES] = {"bytes", 0, 0},     [UNIT_INSTRUCTIONS] = {"instructions", 0, 0},
             [UNIT_PERCENT] = {"%", 0, 0},       [UNIT_TRANSFERS] = {"transfers", 0, 0},
             [UNIT_RATIO] = {"times", 0, 0}};

static const char *unit_name(enum unit unit)
{
    return units[unit].name;
}

static bool is_rate(const struct row *row)
{
    return units[row->table->unit].amount > 0;
}

static const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {
        [UNJUDGED] = "no target", [MET] = "met", [MISSED] = "missed", [SKIPPED] = "skipped"};
    return names[verdict];
}

const char *size_name(size_t size)
{
    static char texts[4][32];
    static int next;
    char *const text = texts[next++ % 4];
    const size_t unit = size >= GIB && size % GIB == 0 ? GIB : size >= MIB ? MIB : size >= KIB ? KIB : 1;
    const char *const name = unit == GIB ? "GiB" : unit == MIB ? "MiB" : unit == KIB ? "KiB" : "B";
    (void)snprintf(text, sizeof texts[0], "%zu %s", size / unit, name);
    return text;
}

void report_open(FILE *to)
{
    kept = mmap(NULL, sizeof *kept, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(kept != MAP_FAILED, "no memory");
    json = to;
    started = seconds_now();
}

const struct row *report_rows(int *count)
{
    *count = kept->count;
    return kept->rows;
}

/* ---- Judging ---- */

static double figure_against(const struct row *row, enum against against)
{
    const double ours = row->ours.median;
    switch (against) {
    case VALUE:
        break;
    case TO_LIMIT:
        return ours / row->limit.median;
    case OVER_LIMIT:
        return ours - row->limit.median;
    case FASTER:
        return is_rate(row) ? ours / row->classic.median : row->classic.median / ours;
    }
    return ours;
}

static bool is_met(const struct row *row, const struct target *target)
{
    const double figure = figure_against(row, target->against);
    return isfinite(figure) && (target->bound == AT_MOST ? figure <= target->number : figure >= target->number);
}

static void judge(struct row *row)
{
    row->verdict = row->target_count > 0 ? MET : UNJUDGED;
    for (int i = 0; i < row->target_count; i++)
        if (!is_met(row, &row->targets[i]))
            row->verdict = MISSED;
}

static void describe_target(const struct row *row, const struct target *target, char *text, size_t room)
{
    const char *const sign = target->bound == AT_MOST ? "<=" : ">=";
    const char *const unit = unit_name(row->table->unit);
    switch (target->against) {
    case VALUE:
        (void)snprintf(text, room, "%s %g %s", sign, target->number, unit);
        break;
    case TO_LIMIT:
        (void)snprintf(text, room, "%s %g x limit", sign, target->number);
        break;
    case OVER_LIMIT:
        (void)snprintf(text, room, "%s limit + %g %s", sign, target->number, unit);
        break;
    case FASTER:
        (void)snprintf(text, room, "%s %g x faster than classic", sign, target->number);
        break;
    }
}

/* ---- For people ---- */

static bool shows_progress(void)
{
    return isatty(STDERR_FILENO) != 0;
}

void report_progress(const struct row *row)
{
    if (!shows_progress())
        return;
    (void)fprintf(stderr, "\r\033[K%4.0f s  %s, %s: %s", seconds_now() - started, row->table->group, row->table->name,
                  row->name);
    (void)fflush(stderr);
}

void report_clear_progress(void)
{
    if (shows_progress())
        (void)fputs("\r\033[K", stderr);
}

void report_table(const struct table *table)
{
    report_clear_progress();
    (void)printf("\n%s [%s]\n", table->title, unit_name(table->unit));
    if (table->limit)
        (void)printf("  limit: %s\n", table->limit);
    if (table->classic)
        (void)printf("  classic: %s\n", table->classic);
    (void)printf("  %-34s %10s %21s %10s %8s %10s %8s  %s\n", "", "median", "fastest to slowest", "limit", "/limit",
                 "classic", "/classic", "target");
    (void)fflush(stdout);
}

/* Prints four significant digits and no exponent. */
static void print_number(double number, int width)
{
    const double size = fabs(number);
    const int decimals = size >= 1000 || size < 1e-9 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 4;
    (void)printf("%*.*f", width, decimals, number);
}

static void print_reference(const struct summary *reference, double ours)
{
    if (reference->rounds == 0) {
        (void)printf(" %10s %8s", "-", "-");
        return;
    }
    (void)printf(" ");
    print_number(reference->median, 10);
    (void)printf(" ");
    print_number(ours / reference->median, 8);
}

static void print_verdict(const struct row *row)
{
    char text[64];
    (void)printf("  %s", row->target_count ? verdict_name(row->verdict) : "-");
    for (int i = 0; i < row->target_count; i++) {
        describe_target(row, &row->targets[i], text, sizeof text);
        (void)printf("%s%s", i == 0 ? ": " : ", ", text);
    }
    (void)printf(row->note[0] ? "  (%s)\n" : "%s\n", row->note);
}

static void print_row(const struct row *row)
{
    if (row->verdict == SKIPPED) {
        (void)printf("  %-34s skipped: %s\n", row->name, row->note);
        return;
    }
    const bool rate = is_rate(row);
    (void)printf("  %-34s ", row->name);
    print_number(row->ours.median, 10);
    print_number(rate ? row->ours.most : row->ours.least, 10);
    (void)printf(" ..");
    print_number(rate ? row->ours.least : row->ours.most, 9);
    print_reference(&row->limit, row->ours.median);
    print_reference(&row->classic, row->ours.median);
    print_verdict(row);
}

/* ---- For machines ---- */

void json_string(FILE *stream, const char *text)
{
    (void)fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', stream);
        (void)fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
    }
    (void)fputc('"', stream);
}

static void json_number(const char *name, double number)
{
    if (isfinite(number))
        (void)fprintf(json, ",\"%s\":%.9g", name, number);
}

static void json_summary(const char *name, const char *what, const struct summary *summary, double ours)
{
    if (summary->rounds == 0)
        return;
    (void)fprintf(json, ",\"%s\":{\"rounds\":%d", name, summary->rounds);
    json_number("median", summary->median);
    json_number("least", summary->least);
    json_number("lower_quartile", summary->lower);
    json_number("upper_quartile", summary->upper);
    json_number("most", summary->most);
    if (what) {
        json_number("ratio", ours / summary->median);
        (void)fputs(",\"what\":", json);
        json_string(json, what);
    }
    (void)fputc('}', json);
}

static void json_targets(const struct row *row)
{
    char text[64];
    (void)fputs(",\"targets\":[", json);
    for (int i = 0; i < row->target_count; i++) {
        describe_target(row, &row->targets[i], text, sizeof text);
        (void)fprintf(json, "%s{\"target\":", i ? "," : "");
        json_string(json, text);
        (void)fprintf(json, ",\"result\":\"%s\"}",
                      row->verdict == SKIPPED         ? "skipped"
                      : is_met(row, &row->targets[i]) ? "met"
                                                      : "missed");
    }
    (void)fputc(']', json);
}

static void json_end_line(void)
{
    (void)fputc('\n', json);
    must(fflush(json) == 0, "the JSON file can't be written");
}

static void json_row(const struct row *row)
{
    const struct table *const table = row->table;
    (void)fprintf(json, "{\"group\":\"%s\",\"table\":\"%s\",\"row\":", table->group, table->name);
    json_string(json, row->name);
    (void)fputs(",\"title\":", json);
    json_string(json, table->title);
    json_number("x", row->x);
    (void)fprintf(json, ",\"unit\":\"%s\",\"verdict\":\"%s\"", unit_name(table->unit), verdict_name(row->verdict));
    json_summary("ours", NULL, &row->ours, 0);
    json_summary("limit", table->limit, &row->limit, row->ours.median);
    json_summary("classic", table->classic, &row->classic, row->ours.median);
    json_targets(row);
    (void)fputs(",\"note\":", json);
    json_string(json, row->note);
    (void)fputc('}', json);
    json_end_line();
}

void report_record(const char *line)
{
    if (!json)
        return;
    (void)fputs(line, json);
    json_end_line();
}

/* ---- Rows ---- */

struct row row_of(const struct table *table, const char *name, double x)
{
    struct row row = {.table = table, .x = x};
    (void)snprintf(row.name, sizeof row.name, "%s", name);
    return row;
}

void row_target(struct row *row, enum against against, enum bound bound, double number)
{
    must(row->target_count < MAX_TARGETS, "too many targets");
    row->targets[row->target_count++] = (struct target){against, bound, number};
}

static void finish(const struct row *row)
{
    report_clear_progress();
    print_row(row);
    (void)fflush(stdout);
    if (json)
        json_row(row);
    must(kept->count < MAX_ROWS, "too many rows");
    kept->rows[kept->count++] = *row;
}

void report_values(struct row *row, const struct summary results[3])
{
    row->ours = results[0];
    row->limit = results[1];
    row->classic = results[2];
    judge(row);
    finish(row);
}

/* The highest rate has the least time. */
static struct summary in_unit(const struct summary *seconds, enum unit unit, double amount)
{
    const double scale = units[unit].seconds;
    const double rate = amount / units[unit].amount;
    const struct summary *const s = seconds;
    if (s->rounds == 0)
        return *s;
    if (scale > 0)
        return (struct summary){s->median / scale, s->least / scale, s->most / scale,
                                s->lower / scale,  s->upper / scale, s->rounds};
    return (struct summary){rate / s->median, rate / s->most,  rate / s->least,
                            rate / s->upper,  rate / s->lower, s->rounds};
}

void report_times(struct row *row, const struct summary results[3], double amount)
{
    struct summary converted[3];
    for (int i = 0; i < 3; i++)
        converted[i] = in_unit(&results[i], row->table->unit, amount);
    report_values(row, converted);
}

void report_skip(struct row *row, const char *why)
{
    row->verdict = SKIPPED;
    (void)snprintf(row->note, sizeof row->note, "%s", why);
    finish(row);
}

bool row_can_run(struct row *row, bool needs_gpu, size_t bytes)
{
    if (needs_gpu && !suite.gpu)
        report_skip(row, "no GPU");
    else if (bytes > suite.largest)
        report_skip(row, suite.quick ? "too large for --quick" : "too large for the emulated runtime");
    else {
        report_progress(row);
        return true;
    }
    return false;
}

bool row_has_processors(struct row *row, int threads)
{
    if (threads <= suite.cores)
        return true;
    (void)snprintf(row->note, sizeof row->note, "only %d processors", suite.cores);
    return false;
}

struct row row_of_threads(const struct table *table, int threads)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%d thread%s", threads, threads == 1 ? "" : "s");
    struct row row = row_of(table, name, threads);
    (void)row_has_processors(&row, threads);
    return row;
}
