/* Transfers of page-locked memory: in one direction, in both at once, and of many objects in one call. */
#include "ring.h"
#include "suite.h"

static const char limit[] = "cudaMemcpyAsync from and to memory of cudaMallocHost, and cudaStreamSynchronize";
static const char classic_up[] = "cudaMemcpy, as Caffe's gpu_data()";
static const char classic_down[] = "cudaMemcpy, as Caffe's cpu_data()";

/* ---- One direction ---- */

static void latency_target(struct row *row, size_t size)
{
    if (size == 4 * KIB)
        row_target(row, OVER_LIMIT, AT_MOST, 1);
}

static void bandwidth_target(struct row *row, size_t size)
{
    if (size >= MIB)
        row_target(row, TO_LIMIT, AT_LEAST, size < 16 * MIB ? 0.97 : 0.99);
}

static void measure_one_way(const struct table *table, enum direction direction, size_t most,
                            void (*target)(struct row *row, size_t size))
{
    const struct shape shape = {.table = table,
                                .host = PINNED,
                                .movers = {&queued, &bare_queued, &copied},
                                .directions = {direction},
                                .direction_count = 1,
                                .objects = 1,
                                .least = 4 * KIB,
                                .most = most,
                                .target = target};
    measure_shape(&shape);
}

void measure_pinned_transfers(void)
{
    static const struct table up = {"transfers",   "push", "Push of page-locked memory",
                                    UNIT_GB_PER_S, limit,  classic_up};
    static const struct table down = {"transfers",   "pull", "Pull into page-locked memory",
                                      UNIT_GB_PER_S, limit,  classic_down};
    static const struct table small_up = {"transfers", "push-latency", "A small push, and the wait for it",
                                          UNIT_US,     limit,          classic_up};
    static const struct table small_down = {"transfers", "pull-latency", "A small pull, and the wait for it",
                                            UNIT_US,     limit,          classic_down};
    measure_one_way(&small_up, UP, 64 * KIB, latency_target);
    measure_one_way(&small_down, DOWN, 64 * KIB, latency_target);
    measure_one_way(&up, UP, GIB, bandwidth_target);
    measure_one_way(&down, DOWN, GIB, bandwidth_target);
}

/* ---- Both directions at once ---- */

static void both_target(struct row *row, size_t size)
{
    if (size >= MIB)
        row_target(row, TO_LIMIT, AT_LEAST, 0.95);
}

void measure_both_directions(void)
{
    static const struct table table = {"transfers",
                                       "both",
                                       "A push and a pull of different objects at once, page-locked, bytes of both",
                                       UNIT_GB_PER_S,
                                       "cudaMemcpyAsync on two streams",
                                       "two cudaMemcpy, one after the other"};
    static const struct shape shape = {.table = &table,
                                       .host = PINNED,
                                       .movers = {&queued, &bare_queued, &copied},
                                       .directions = {UP, DOWN},
                                       .direction_count = 2,
                                       .objects = 1,
                                       .least = 4 * KIB,
                                       .most = GIB,
                                       .target = both_target};
    measure_shape(&shape);
}

/* ---- Many objects in one call ---- */

static void push_each_target(struct row *row, size_t size)
{
    if (size <= 64 * KIB)
        row_target(row, TO_LIMIT, AT_MOST, 1.1);
}

static void pull_each_target(struct row *row, size_t size)
{
    if (size <= 64 * KIB)
        row_target(row, TO_LIMIT, AT_MOST, 1.35);
}

void measure_groups(void)
{
    static const char limit_of_many[] = "as many cudaMemcpyAsync of page-locked memory, and one wait";
    static const char classic[] = "as many cudaMemcpy";
    static const struct {
        struct table table;
        const struct mover *mover;
        enum direction direction;
        void (*target)(struct row *row, size_t size);
    } rows[] = {{{"transfers", "push-n", "Push of many objects in one call, and the wait for all; an object's time",
                  UNIT_US, limit_of_many, classic},
                 &in_one_call,
                 UP,
                 NULL},
                {{"transfers", "push-each", "... by a push of each, and one wait", UNIT_US, limit_of_many, classic},
                 &queued,
                 UP,
                 push_each_target},
                {{"transfers", "pull-n", "Pull of many objects in one call, and the wait for all; an object's time",
                  UNIT_US, limit_of_many, classic},
                 &in_one_call,
                 DOWN,
                 NULL},
                {{"transfers", "pull-each", "... by a pull of each, and one wait", UNIT_US, limit_of_many, classic},
                 &queued,
                 DOWN,
                 pull_each_target}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct shape shape = {.table = &rows[i].table,
                                    .host = PINNED,
                                    .movers = {rows[i].mover, &bare_queued, &copied},
                                    .directions = {rows[i].direction},
                                    .direction_count = 1,
                                    .objects = 64,
                                    .least = 4 * KIB,
                                    .most = MIB,
                                    .target = rows[i].target};
        measure_shape(&shape);
    }
}

/* ---- Many objects beside a batch ---- */

static void push_batch_target(struct row *row, size_t size)
{
    row_target(row, TO_LIMIT, AT_MOST, 1.15);
    if (size == 4 * KIB)
        row_target(row, FASTER, AT_LEAST, 1.3);
}

static void pull_batch_target(struct row *row, size_t size)
{
    row_target(row, TO_LIMIT, AT_MOST, 1.15);
    if (size == 4 * KIB)
        row_target(row, FASTER, AT_LEAST, 3);
}

void measure_batches(void)
{
    static const char batch[] = "one cudaMemcpyBatchAsync of page-locked memory, and one wait";
    static const char each[] = "as many cudaMemcpyAsync, and one wait";
    static const struct {
        struct table table;
        enum direction direction;
        void (*target)(struct row *row, size_t size);
    } rows[] = {{{"transfers", "push-batch",
                  "Push of many objects in one call beside a batch of copies; an object's time", UNIT_US, batch, each},
                 UP,
                 push_batch_target},
                {{"transfers", "pull-batch",
                  "Pull of many objects in one call beside a batch of copies; an object's time", UNIT_US, batch, each},
                 DOWN,
                 pull_batch_target}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct shape shape = {.table = &rows[i].table,
                                    .host = PINNED,
                                    .movers = {&in_one_call, &bare_batched, &bare_queued},
                                    .directions = {rows[i].direction},
                                    .direction_count = 1,
                                    .objects = 64,
                                    .least = 4 * KIB,
                                    .most = 256 * KIB,
                                    .needs_batches = true,
                                    .target = rows[i].target};
        measure_shape(&shape);
    }
}
