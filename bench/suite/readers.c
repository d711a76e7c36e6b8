/* Reads of one object on the device by several streams, with nothing to do: in turn, and by a thread each. */
#include "bare.h"
#include "crowd.h"
#include "object.h"
#include "report.h"
#include "suite.h"

enum { MAX_STREAMS = 16, CALLS = 100000 };

struct readers {
    int count;
    synced_mem *common;
    synced_mem *own[MAX_STREAMS];
    synced_mem_stream streams[MAX_STREAMS];
    synced_mem_stream same[MAX_STREAMS]; /* the first one, as often */
};

/* ---- In turn ---- */

static double read_by(const struct readers *on, const synced_mem_stream *streams)
{
    const double begin = seconds_now();
    for (int i = 0, next = 0; i < CALLS; i++) {
        must_work(synced_mem_gpu_data_on(on->common, streams[next]) != NULL);
        next = next + 1 < on->count ? next + 1 : 0;
    }
    return (seconds_now() - begin) / CALLS;
}

static double in_turn(void *state)
{
    const struct readers *const on = state;
    return read_by(on, on->streams);
}

static double by_one_stream(void *state)
{
    const struct readers *const on = state;
    return read_by(on, on->same);
}

/* ---- By threads ---- */

static double read_often(synced_mem *mem, synced_mem_stream stream, struct member *member)
{
    int times = 0;
    must_work(synced_mem_gpu_data_on(mem, stream) != NULL);
    crowd_begin(member);
    for (double now = member->began; now - member->began < suite.spell; now = seconds_now(), times++)
        for (int i = 0; i < CALLS / 100; i++)
            must_work(synced_mem_gpu_data_on(mem, stream) != NULL);
    crowd_end(member);
    return (member->ended - member->began) / times / (CALLS / 100);
}

static double read_common(void *state, struct member *member)
{
    const struct readers *const on = state;
    return read_often(on->common, on->streams[member->number], member);
}

static double read_own(void *state, struct member *member)
{
    const struct readers *const on = state;
    return read_often(on->own[member->number], on->streams[member->number], member);
}

static double common_by_threads(void *state)
{
    return crowd_run(((const struct readers *)state)->count, read_common, state).slowest;
}

static double own_by_threads(void *state)
{
    return crowd_run(((const struct readers *)state)->count, read_own, state).slowest;
}

/* ---- The rows ---- */

static void begin(struct readers *on)
{
    on->common = make_object(64 * KIB);
    for (int i = 0; i < on->count; i++) {
        on->streams[i] = bare_stream_create();
        on->same[i] = on->streams[0];
        on->own[i] = make_object(64 * KIB);
        must_work(synced_mem_gpu_data_on(on->common, on->streams[i]) != NULL);
    }
    bare_wait(on->streams[0]);
}

static void end(struct readers *on)
{
    release_object(on->common);
    for (int i = 0; i < on->count; i++) {
        release_object(on->own[i]);
        must_work(synced_mem_forget_stream(on->streams[i]) == SYNCED_MEM_OK);
        bare_stream_destroy(on->streams[i]);
    }
}

static void measure_readers(struct row *row, int count, const struct way ways[2])
{
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    struct readers on = {.count = count};
    if (!row_can_run(row, true, 64 * KIB))
        return;
    begin(&on);
    compare(ways, 2, &on, results);
    report_times(row, results, 0);
    end(&on);
}

void measure_common_reads(void)
{
    static const struct table turns = {"accessors",
                                       "streams-in-turn",
                                       "gpu_data_on of one object by several streams in turn, loop included",
                                       UNIT_NS,
                                       "the same loop by one stream",
                                       NULL};
    static const struct table threads = {
        "accessors",
        "streams-of-threads",
        "gpu_data_on of one object by several threads, a stream each, the slowest one's",
        UNIT_NS,
        "by as many threads, an object each",
        NULL};
    static const struct way in_turns[] = {{"in turn", in_turn}, {"one stream", by_one_stream}};
    static const struct way by_threads[] = {{"one object", common_by_threads}, {"an object each", own_by_threads}};
    report_table(&turns);
    for (int count = 2; count <= MAX_STREAMS; count *= 2) {
        char name[32];
        (void)snprintf(name, sizeof name, "%d streams", count);
        struct row row = row_of(&turns, name, count);
        measure_readers(&row, count, in_turns);
    }
    report_table(&threads);
    for (int count = 1; count <= MAX_STREAMS; count *= 2) {
        struct row row = row_of_threads(&threads, count);
        measure_readers(&row, count, by_threads);
    }
}
