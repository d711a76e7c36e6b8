/*
 * Compares random calls on evictable objects with a reference, while device copies and host copies have budgets, from
 * those that have room for nothing to those that have room for all. The reference knows the contents, the holds on each
 * side and the budgets. A hold on the host that fits its budget must succeed, as the scratch file has room for all. A
 * hold on the device may need host memory for what it evicts.
 */
#include "host_budget_kit.h"

#include <string.h>

enum { OBJECTS = 6, STREAMS = 3, STEPS = 500, LARGEST = 40000, PATTERNS = 200 };

/* The number of synced_mem_side, whose numbers begin with 1. */
enum { SIDES = SYNCED_MEM_SIDE_GPU + 1 };

static const size_t sizes_of[OBJECTS] = {LARGEST, 20000, 10000, 30001, 1, 15000};

static struct object {
    synced_mem *mem;
    unsigned pattern;
    unsigned holds[SIDES];
} objects[OBJECTS];
static synced_mem_stream streams[STREAMS];
static synced_mem_file *scratch;
static uint64_t budgets[SIDES];
static uint64_t state;
static unsigned next_pattern;

static unsigned draw(unsigned below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % below;
}

/* ---- The reference ---- */

static uint64_t sum_with(synced_mem_side side, const bool *chosen)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        if (objects[i].holds[side] > 0 || (chosen && chosen[i]))
            sum += sizes_of[i];
    return sum;
}

static synced_mem_source source_of(const synced_mem *mem, synced_mem_side side)
{
    return side == SYNCED_MEM_SIDE_CPU ? synced_mem_cpu_source(mem) : synced_mem_gpu_source(mem);
}

/* An object that has its memory needs nothing more, whatever the budget is by now. */
static bool needs_memory(synced_mem_side side, const bool *chosen)
{
    bool needs = false;
    for (unsigned i = 0; i < OBJECTS; i++)
        needs = needs || (chosen[i] && source_of(objects[i].mem, side) == SYNCED_MEM_SOURCE_NONE);
    return needs;
}

static synced_mem_status refusal_of(synced_mem_side side)
{
    return side == SYNCED_MEM_SIDE_CPU ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY;
}

/* Evictions of device copies pull, which needs host memory. */
static bool may_lack_host_memory(synced_mem_status status)
{
    return status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY &&
           sum_with(SYNCED_MEM_SIDE_CPU, NULL) + LARGEST > budgets[SYNCED_MEM_SIDE_CPU];
}

/* ---- Steps ---- */

static size_t draw_set(bool *chosen, synced_mem **set)
{
    size_t count = 0;
    for (unsigned i = 0; i < OBJECTS; i++) {
        chosen[i] = draw(3) == 0;
        if (chosen[i])
            set[count++] = objects[i].mem;
    }
    return count;
}

static synced_mem_side draw_side(void)
{
    return draw(2) ? SYNCED_MEM_SIDE_CPU : SYNCED_MEM_SIDE_GPU;
}

static unsigned draw_pattern(void)
{
    return next_pattern = (next_pattern + 1) % PATTERNS;
}

static void hold_some(void)
{
    bool chosen[OBJECTS];
    synced_mem *set[OBJECTS];
    const synced_mem_side side = draw_side();
    const size_t count = draw_set(chosen, set);
    const bool fits = sum_with(side, chosen) <= budgets[side] || !needs_memory(side, chosen);
    const synced_mem_status status =
        synced_mem_hold_n(set, count, side, (synced_mem_mode)draw(3), streams[draw(STREAMS)]);
    const bool lacks = side == SYNCED_MEM_SIDE_GPU && may_lack_host_memory(status);
    ck_assert_msg(lacks || status == (fits ? SYNCED_MEM_OK : refusal_of(side)), "side %d, %llu bytes, budget %llu: %s",
                  (int)side, (unsigned long long)sum_with(side, chosen), (unsigned long long)budgets[side],
                  synced_mem_last_error_message());
    for (unsigned i = 0; i < OBJECTS && status == SYNCED_MEM_OK; i++)
        objects[i].holds[side] += chosen[i];
}

static void unhold_some(void)
{
    bool chosen[OBJECTS];
    synced_mem *set[OBJECTS];
    const synced_mem_side side = draw_side();
    const size_t count = draw_set(chosen, set);
    bool all = true;
    for (unsigned i = 0; i < OBJECTS; i++)
        all = all && (!chosen[i] || objects[i].holds[side] > 0);
    const synced_mem_status status = synced_mem_unhold_n(set, count, side);
    ck_assert_int_eq(status, all ? SYNCED_MEM_OK : SYNCED_MEM_ERR_INVALID_STATE);
    for (unsigned i = 0; i < OBJECTS && all; i++)
        objects[i].holds[side] -= chosen[i];
}

/* Memory that an access to one side brings there, or makes stale, is not counted: a held object may not lose its
 * memory. */
static void access_device(struct object *object)
{
    static unsigned char expected[LARGEST];
    const size_t size = sizes_of[object - objects];
    const synced_mem_stream stream = streams[draw(STREAMS)];
    if (object->holds[SYNCED_MEM_SIDE_GPU] == 0) {
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data_on(object->mem, stream));
    } else if (draw(2)) {
        object->pattern = draw_pattern();
        gpu_fill(given(synced_mem_overwrite_gpu_data_on(object->mem, stream)), size, object->pattern, stream);
    } else {
        pattern_write(expected, size, object->pattern);
        gpu_expect(given(synced_mem_gpu_data_on(object->mem, stream)), size, expected, stream);
    }
}

static void access_host(struct object *object)
{
    const size_t size = sizes_of[object - objects];
    if (object->holds[SYNCED_MEM_SIDE_CPU] == 0 && budgets[SYNCED_MEM_SIDE_CPU] != SYNCED_MEM_NO_BUDGET) {
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(object->mem));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_cpu_data(object->mem));
    } else if (draw(2)) {
        ck_assert(host_is(given(synced_mem_cpu_data(object->mem)), size, object->pattern));
    } else {
        object->pattern = draw_pattern();
        host_fill(
            given(draw(2) ? synced_mem_overwrite_cpu_data(object->mem) : synced_mem_mutable_cpu_data(object->mem)),
            size, object->pattern);
    }
}

static void push_or_pull(void)
{
    bool chosen[OBJECTS];
    synced_mem *set[OBJECTS];
    const synced_mem_side side = draw_side();
    const size_t count = draw_set(chosen, set);
    const bool fits = sum_with(side, chosen) <= budgets[side] || !needs_memory(side, chosen);
    const synced_mem_stream stream = streams[draw(STREAMS)];
    const synced_mem_status status = side == SYNCED_MEM_SIDE_CPU ? synced_mem_async_cpu_pull_n(set, count, stream)
                                                                 : synced_mem_async_gpu_push_n(set, count, stream);
    ck_assert_msg(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_INVALID_STATE ||
                      (!fits && status == refusal_of(side)) || may_lack_host_memory(status),
                  "%s", synced_mem_last_error_message());
    ck_assert(fits || status != SYNCED_MEM_OK);
}

/* A release of the side that has the contents alone moves them, so it may be refused memory. */
static void change_memory(struct object *object)
{
    const bool held = object->holds[SYNCED_MEM_SIDE_CPU] > 0 || object->holds[SYNCED_MEM_SIDE_GPU] > 0;
    const synced_mem_side side = draw_side();
    const synced_mem_status status = side == SYNCED_MEM_SIDE_CPU ? synced_mem_release_cpu_data(object->mem)
                                                                 : synced_mem_release_gpu_data(object->mem);
    if (held)
        ck_assert_int_eq(status, SYNCED_MEM_ERR_INVALID_STATE);
    else
        ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY ||
                  status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
}

static void copy_contents(const struct object *from)
{
    const size_t size = sizes_of[from - objects];
    synced_mem *const other = make_evictable("copy", size);
    const synced_mem_status status = synced_mem_cpu_copy(other, from->mem);
    const uint64_t both = from->holds[SYNCED_MEM_SIDE_CPU] > 0 ? size : 2 * size; /* it may have to be read first */
    const bool fits = sum_with(SYNCED_MEM_SIDE_CPU, NULL) + both <= budgets[SYNCED_MEM_SIDE_CPU];
    ck_assert_msg(status == SYNCED_MEM_OK || (!fits && status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY) ||
                      may_lack_host_memory(status),
                  "%s", synced_mem_last_error_message());
    if (status == SYNCED_MEM_OK && fits)
        ck_assert(host_has(other, from->pattern));
    OK(synced_mem_release(other));
}

static void change_budget(void)
{
    const synced_mem_side side = draw_side();
    uint64_t over;
    uint64_t all = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        all += sizes_of[i];
    budgets[side] = draw(5) == 0 ? SYNCED_MEM_NO_BUDGET : draw((unsigned)all + 1);
    if (side == SYNCED_MEM_SIDE_CPU)
        OK(synced_mem_cpu_set_budget(budgets[side], scratch, &over));
    else
        OK(synced_mem_gpu_set_budget(0, budgets[side], &over));
    const uint64_t held = sum_with(side, NULL);
    const bool may_stay = side == SYNCED_MEM_SIDE_GPU && budgets[SYNCED_MEM_SIDE_CPU] != SYNCED_MEM_NO_BUDGET;
    ck_assert(may_stay || over <= (held > budgets[side] ? held - budgets[side] : 0));
}

static void check_host_copies(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        if (has_host_copy(objects[i].mem))
            sum += sizes_of[i];
    const uint64_t held = sum_with(SYNCED_MEM_SIDE_CPU, NULL);
    const uint64_t budget = budgets[SYNCED_MEM_SIDE_CPU];
    ck_assert_uint_le(sum, held > budget ? held : budget);
}

static void play_step(void)
{
    struct object *const object = &objects[draw(OBJECTS)];
    switch (draw(14)) {
    case 0:
    case 1:
    case 2:
        hold_some();
        break;
    case 3:
    case 4:
    case 5:
        unhold_some();
        break;
    case 6:
    case 7:
        access_device(object);
        break;
    case 8:
    case 9:
        access_host(object);
        break;
    case 10:
        push_or_pull();
        break;
    case 11:
        change_memory(object);
        break;
    case 12:
        copy_contents(object);
        break;
    default:
        if (draw(4) == 0)
            change_budget();
        break;
    }
    check_host_copies();
}

START_TEST(like_the_reference)
{
    state = (uint64_t)_i * 1000 + fixture_schedule() + 1;
    scratch = make_scratch();
    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = open_stream(i == 0 ? BLOCKING : NON_BLOCKING);
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = (struct object){.mem = make_evictable("random", sizes_of[i]), .pattern = i};
        host_fill(given(synced_mem_overwrite_cpu_data(objects[i].mem)), sizes_of[i], i);
    }
    budgets[SYNCED_MEM_SIDE_CPU] = budgets[SYNCED_MEM_SIDE_GPU] = SYNCED_MEM_NO_BUDGET;
    for (unsigned step = 0; step < STEPS; step++)
        play_step();
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    for (unsigned i = 0; i < OBJECTS; i++) {
        for (int side = SYNCED_MEM_SIDE_CPU; side < SIDES; side++)
            for (; objects[i].holds[side] > 0; objects[i].holds[side]--)
                OK(synced_mem_unhold(objects[i].mem, (synced_mem_side)side));
        ck_assert(host_is(given(synced_mem_cpu_data(objects[i].mem)), sizes_of[i], objects[i].pattern));
        OK(synced_mem_release(objects[i].mem));
    }
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    end_scratch(scratch);
    for (unsigned i = 0; i < STREAMS; i++)
        close_stream(streams[i]);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_budget_random");
    TCase *const tests = add_case(made, "random");
    add_gpu_loop_test(tests, like_the_reference, 0, 40);
    return made;
}
