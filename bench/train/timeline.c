/* The times of the last pushes and kernels of a round, by marks on both streams of the backend. */
#include "timeline.h"

#include <math.h>
#include <stdio.h>

/* SHOWN steps, the push for the step after them, and before them the steps that their pushes wait for. */
enum { SHOWN = 8, WAITED_FOR = 2, SLOTS = WAITED_FOR + SHOWN + 1 };

/* The first mark is the origin of time. Each step has a begin and an end for push and kernels. */
enum { ORIGIN = 0, MARKS_OF_A_STEP = 4 };

_Static_assert(1 + SLOTS * MARKS_OF_A_STEP <= BACKEND_MARKS, "the backend has too few marks");

static int first_marked(const struct timeline *timeline)
{
    const int first = timeline->steps - SHOWN - WAITED_FOR;
    return first > 0 ? first : 0;
}

/* Returns -1 for a step that is not marked. */
static int mark_of(const struct timeline *timeline, enum timeline_what what, int step, bool end)
{
    const int slot = step - first_marked(timeline);
    if (!timeline->backend || slot < 0 || slot >= SLOTS)
        return -1;
    return 1 + slot * MARKS_OF_A_STEP + 2 * (int)what + (int)end;
}

static enum backend_stream stream_of(enum timeline_what what)
{
    return what == TIMELINE_PUSH ? BACKEND_PREFETCH : BACKEND_COMPUTE;
}

static bool set_mark(struct timeline *timeline, enum timeline_what what, int mark, int after)
{
    if (mark < 0)
        return true;
    timeline->marked[mark] = true;
    return timeline->backend->mark(stream_of(what), mark, after >= 0 && timeline->marked[after] ? after : -1);
}

bool timeline_start(struct timeline *timeline, const struct backend *backend, int steps)
{
    *timeline = (struct timeline){.backend = backend, .steps = steps};
    return backend->mark(BACKEND_COMPUTE, ORIGIN, -1);
}

bool timeline_begin(struct timeline *timeline, enum timeline_what what, int step)
{
    const int after = what == TIMELINE_PUSH ? mark_of(timeline, TIMELINE_KERNELS, step - 2, true)
                                            : mark_of(timeline, TIMELINE_PUSH, step, true);
    return set_mark(timeline, what, mark_of(timeline, what, step, false), after);
}

bool timeline_end(struct timeline *timeline, enum timeline_what what, int step)
{
    return set_mark(timeline, what, mark_of(timeline, what, step, true), -1);
}

/* ---- The bars ---- */

struct bar {
    bool there;
    double begin, end; /* in microseconds after the origin */
};

static bool read_bar(const struct timeline *timeline, enum timeline_what what, int step, struct bar *bar)
{
    const int begin = mark_of(timeline, what, step, false), end = mark_of(timeline, what, step, true);
    bar->there = begin >= 0 && timeline->marked[begin] && timeline->marked[end];
    return !bar->there || (timeline->backend->between(ORIGIN, begin, &bar->begin) &&
                           timeline->backend->between(ORIGIN, end, &bar->end));
}

static void print_bar(enum timeline_what what, int step, const struct bar *bar, double start)
{
    static const char *const names[] = {[TIMELINE_PUSH] = "push", [TIMELINE_KERNELS] = "kernels"};
    printf("{\"what\":\"%s\",\"step\":%d,\"begin_us\":%.2f,\"end_us\":%.2f}", names[what], step, bar->begin - start,
           bar->end - start);
}

bool timeline_stalled(const struct timeline *timeline, double *part)
{
    const int first = timeline->steps > SHOWN ? timeline->steps - SHOWN : 0;
    struct bar before, push, kernels;
    if (!read_bar(timeline, TIMELINE_KERNELS, first, &before))
        return false;
    const double start = before.end;
    double stalled = 0;
    for (int step = first + 1; step < timeline->steps; ++step) {
        if (!read_bar(timeline, TIMELINE_PUSH, step, &push) || !read_bar(timeline, TIMELINE_KERNELS, step, &kernels))
            return false;
        stalled += push.there && push.end > before.end ? push.end - before.end : 0;
        before = kernels;
    }
    *part = before.end > start ? stalled / (before.end - start) : 0;
    return true;
}

bool timeline_print(const struct timeline *timeline)
{
    const int first = timeline->steps > SHOWN ? timeline->steps - SHOWN : 0;
    const int count = timeline->steps - first + 1;
    struct bar bars[SHOWN + 1][2];
    double start = HUGE_VAL;
    for (int i = 0; i < 2 * count; ++i) {
        struct bar *const bar = &bars[i / 2][i % 2];
        if (!read_bar(timeline, (enum timeline_what)(i % 2), first + i / 2, bar))
            return false;
        if (bar->there && bar->begin < start)
            start = bar->begin;
    }
    const char *separator = "";
    printf("{\"timeline\":[");
    for (int i = 0; i < 2 * count; ++i) {
        const struct bar *const bar = &bars[i / 2][i % 2];
        if (!bar->there)
            continue;
        printf("%s", separator);
        print_bar((enum timeline_what)(i % 2), first + i / 2, bar, start);
        separator = ",";
    }
    printf("]}\n");
    return true;
}
