/* Transfers of the caller's pageable memory: by accessors, on a stream, in both directions at once, and small ones. */
#include "ring.h"
#include "suite.h"

static const char limit_up[] = "cudaMemcpyAsync from page-locked memory";
static const char limit_down[] = "cudaMemcpyAsync into page-locked memory";

static struct shape shape_of(const struct table *table, const struct mover *ours, enum direction direction)
{
    return (struct shape){.table = table,
                          .host = PAGEABLE,
                          .movers = {ours, &bare_queued, &pageable_copied},
                          .directions = {direction},
                          .direction_count = 1,
                          .objects = 1,
                          .least = 4 * KIB,
                          .most = GIB};
}

/* ---- By accessors ---- */

/* The least parts of the rate of page-locked memory. They are below 1, because threads have to wake up and to copy
 * through the host's caches. */
static const struct part_of_limit {
    size_t size;
    double up, down;
} parts_of_limit[] = {
    {256 * KIB, 0.33, 0.38}, {MIB, 0.34, 0.38}, {4 * MIB, 0.4, 0.4}, {16 * MIB, 0.54, 0.66}, {64 * MIB, 0.71, 0.79}};

static void part_target(struct row *row, size_t size, enum direction direction)
{
    for (size_t i = 0; i < sizeof parts_of_limit / sizeof *parts_of_limit; i++) {
        const struct part_of_limit *const of = &parts_of_limit[i];
        if (of->size == size)
            row_target(row, TO_LIMIT, AT_LEAST, direction == UP ? of->up : of->down);
    }
    if (size <= 256 * KIB)
        row_target(row, FASTER, AT_LEAST, 1);
}

static void up_target(struct row *row, size_t size)
{
    part_target(row, size, UP);
    if (size < (size_t)256 * MIB)
        return;
    row_target(row, VALUE, AT_LEAST, 40);
    row_target(row, FASTER, AT_LEAST, 5);
}

static void down_target(struct row *row, size_t size)
{
    part_target(row, size, DOWN);
    if (size >= (size_t)256 * MIB)
        row_target(row, TO_LIMIT, AT_LEAST, 0.7);
}

void measure_pageable_transfers(void)
{
    static const struct table tables[] = {
        {"transfers", "pageable-up", "gpu_data of the caller's pageable memory", UNIT_GB_PER_S, limit_up, "cudaMemcpy"},
        {"transfers", "pageable-down", "cpu_data into the caller's pageable memory", UNIT_GB_PER_S, limit_down,
         "cudaMemcpy"}};
    struct shape up = shape_of(&tables[UP], &accessed, UP);
    struct shape down = shape_of(&tables[DOWN], &accessed, DOWN);
    up.target = up_target;
    down.target = down_target;
    measure_shape(&up);
    measure_shape(&down);
}

/* ---- Beside threads by hand ---- */

/* The threads by hand never sleep, which weighs the more the smaller the push is. */
static void by_hand_target(struct row *row, size_t size)
{
    row_target(row, TO_LIMIT, AT_LEAST, size < 4 * (size_t)MIB ? 0.5 : 0.8);
}

void measure_pageable_by_hand(void)
{
    static const struct table table = {"transfers",
                                       "pageable-by-hand",
                                       "gpu_data of pageable memory beside threads that are awake, by hand",
                                       UNIT_GB_PER_S,
                                       "pieces of 16 KiB by up to 15 threads, and cudaMemcpyAsync of what is complete",
                                       "cudaMemcpy"};
    struct shape shape = shape_of(&table, &accessed, UP);
    shape.movers[LIMIT] = &pushed_by_hand;
    shape.target = by_hand_target;
    shape.least = 256 * KIB;
    shape.most = 64 * MIB;
    measure_shape(&shape);
}

/* ---- On a stream of the caller ---- */

void measure_pageable_on_stream(void)
{
    static const struct table tables[] = {
        {"transfers", "pageable-push", "Push of pageable memory on a stream, and the wait for it", UNIT_GB_PER_S,
         limit_up, "cudaMemcpy"},
        {"transfers", "pageable-pull", "Pull into pageable memory on a stream, and the wait for it", UNIT_GB_PER_S,
         limit_down, "cudaMemcpy"}};
    static const struct table calls[] = {
        {"transfers", "pageable-push-call", "... the time for which the call of the push takes the host", UNIT_US,
         limit_up, "cudaMemcpy"},
        {"transfers", "pageable-pull-call", "... the time for which the call of the pull takes the host", UNIT_US,
         limit_down, "cudaMemcpy"}};
    for (int i = 0; i < DIRECTIONS; i++) {
        struct shape shape = shape_of(&tables[i], &queued, (enum direction)i);
        shape.calls = &calls[i];
        shape.least = MIB;
        measure_shape(&shape);
    }
}

/* ---- Both directions at once ---- */

/* The pull comes first, because its call does not wait. The call of the push may wait until its source was read. */
void measure_pageable_both(void)
{
    static const struct table table = {"transfers",
                                       "pageable-both",
                                       "A pull and a push of different objects at once, pageable, bytes of both",
                                       UNIT_GB_PER_S,
                                       "cudaMemcpyAsync of page-locked memory on two streams",
                                       "two cudaMemcpy, one after the other"};
    struct shape shape = shape_of(&table, &queued, DOWN);
    shape.directions[1] = UP;
    shape.direction_count = 2;
    measure_shape(&shape);
}

/* ---- Small ones ---- */

void measure_pageable_latency(void)
{
    static const struct table tables[] = {
        {"transfers", "pageable-push-latency", "A small push of pageable memory, and the wait for it", UNIT_US,
         "cudaMemcpyAsync from page-locked memory, and cudaStreamSynchronize", "cudaMemcpy"},
        {"transfers", "pageable-pull-latency", "A small pull into pageable memory, and the wait for it", UNIT_US,
         "cudaMemcpyAsync into page-locked memory, and cudaStreamSynchronize", "cudaMemcpy"}};
    for (int i = 0; i < DIRECTIONS; i++) {
        struct shape shape = shape_of(&tables[i], &queued, (enum direction)i);
        shape.most = 256 * KIB;
        measure_shape(&shape);
    }
}
