/*
 * Compares random calls on evictable objects with a reference, which knows only the contents, the holds and the budget.
 * Budgets go from one that has room for nothing to one that has room for all. A budget that has room for a set and for
 * all that is held must not refuse it, one that has not must.
 */
#include "files_kit.h"
#include "hold_kit.h"

#include <string.h>

enum { OBJECTS = 6, STREAMS = 3, STEPS = 500, LARGEST = 40000, PATTERNS = 200 };

static const size_t sizes_of[OBJECTS] = {LARGEST, 20000, 10000, 30001, 1, 15000};

static struct object {
    synced_mem *mem;
    unsigned pattern;
    unsigned holds;
} objects[OBJECTS];
static synced_mem_stream streams[STREAMS];
static synced_mem_file *file; /* its bytes have the pattern PATTERNS + the object's number */
static uint64_t budget;
static uint64_t state;
static unsigned next_pattern;

static unsigned draw(unsigned below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % below;
}

static uint64_t file_offset(unsigned number)
{
    return (uint64_t)number * LARGEST;
}

static void make_contents_file(void)
{
    static unsigned char bytes[OBJECTS * LARGEST];
    for (unsigned i = 0; i < OBJECTS; i++)
        pattern_write(bytes + file_offset(i), LARGEST, PATTERNS + i);
    behind = tmpfile();
    ck_assert_ptr_nonnull(behind);
    ck_assert_uint_eq(fwrite(bytes, 1, sizeof bytes, behind), sizeof bytes);
    ck_assert_int_eq(fflush(behind), 0);
    OK(synced_mem_file_open(&file, file_number(behind)));
}

/* ---- The reference ---- */

static uint64_t sum_with(const bool *chosen)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        if (objects[i].holds > 0 || (chosen && chosen[i]))
            sum += sizes_of[i];
    return sum;
}

/* An object that is held, or named, and there already needs nothing more, whatever the budget is by now. */
static bool needs_memory(const bool *chosen)
{
    bool needs = false;
    for (unsigned i = 0; i < OBJECTS; i++)
        needs = needs || (chosen[i] && synced_mem_gpu_source(objects[i].mem) == SYNCED_MEM_SOURCE_NONE);
    return needs;
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
    for (size_t i = 1; i < count; i++) { /* in any order */
        const size_t other = draw((unsigned)i + 1);
        synced_mem *const kept = set[i];
        set[i] = set[other];
        set[other] = kept;
    }
    return count;
}

static synced_mem_stream draw_stream(void)
{
    return streams[draw(STREAMS)];
}

static void write_pattern(struct object *object, synced_mem_stream stream)
{
    object->pattern = next_pattern = (next_pattern + 1) % PATTERNS;
    gpu_fill(given(draw(2) ? synced_mem_overwrite_gpu_data_on(object->mem, stream)
                           : synced_mem_mutable_gpu_data_on(object->mem, stream)),
             sizes_of[object - objects], object->pattern, stream);
}

static void hold_some(void)
{
    bool chosen[OBJECTS];
    synced_mem *set[OBJECTS];
    const size_t count = draw_set(chosen, set);
    const bool fits = sum_with(chosen) <= budget || !needs_memory(chosen);
    const synced_mem_stream stream = draw(4) == 0 ? SYNCED_MEM_STREAM_LIBRARY : draw_stream();
    const synced_mem_status status =
        synced_mem_hold_n(set, count, SYNCED_MEM_SIDE_GPU, (synced_mem_mode)draw(3), stream);
    ck_assert_msg(status == (fits ? SYNCED_MEM_OK : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY), "%llu bytes, budget %llu: %s",
                  (unsigned long long)sum_with(chosen), (unsigned long long)budget, synced_mem_last_error_message());
    for (unsigned i = 0; i < OBJECTS && status == SYNCED_MEM_OK; i++)
        objects[i].holds += chosen[i];
}

static void unhold_some(void)
{
    bool chosen[OBJECTS];
    synced_mem *set[OBJECTS];
    const size_t count = draw_set(chosen, set);
    bool all = true;
    for (unsigned i = 0; i < OBJECTS; i++)
        all = all && (!chosen[i] || objects[i].holds > 0);
    const synced_mem_status status = synced_mem_unhold_n(set, count, SYNCED_MEM_SIDE_GPU);
    ck_assert_int_eq(status, all ? SYNCED_MEM_OK : SYNCED_MEM_ERR_INVALID_STATE);
    for (unsigned i = 0; i < OBJECTS && all; i++)
        objects[i].holds -= chosen[i];
}

static void access_device(struct object *object)
{
    static unsigned char expected[LARGEST];
    const synced_mem_stream stream = draw_stream();
    if (object->holds == 0) {
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data_on(object->mem, stream));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_gpu_data(object->mem));
    } else if (draw(2)) {
        write_pattern(object, stream);
    } else {
        pattern_write(expected, sizes_of[object - objects], object->pattern);
        gpu_expect(given(synced_mem_gpu_data_on(object->mem, stream)), sizes_of[object - objects], expected, stream);
    }
}

static void access_host(struct object *object)
{
    const size_t size = sizes_of[object - objects];
    if (draw(2)) {
        ck_assert(host_is(given(synced_mem_cpu_data(object->mem)), size, object->pattern));
        return;
    }
    object->pattern = next_pattern = (next_pattern + 1) % PATTERNS;
    host_fill(given(synced_mem_overwrite_cpu_data(object->mem)), size, object->pattern);
}

static void push_or_pull(void)
{
    bool chosen[OBJECTS];
    synced_mem *set[OBJECTS];
    const size_t count = draw_set(chosen, set);
    synced_mem_status status;
    if (draw(2)) {
        status = synced_mem_async_cpu_pull_n(set, count, draw_stream());
        ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_INVALID_STATE);
        return;
    }
    const bool fits = sum_with(chosen) <= budget || !needs_memory(chosen);
    status = synced_mem_async_gpu_push_n(set, count, draw_stream());
    ck_assert_msg(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_INVALID_STATE ||
                      (!fits && status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY),
                  "%s", synced_mem_last_error_message());
    ck_assert(fits || status != SYNCED_MEM_OK);
}

static void change_memory(struct object *object)
{
    const unsigned number = (unsigned)(object - objects);
    const synced_mem_status expected = object->holds > 0 ? SYNCED_MEM_ERR_INVALID_STATE : SYNCED_MEM_OK;
    switch (draw(3)) {
    case 0:
        ck_assert_int_eq(synced_mem_release_gpu_data(object->mem), expected);
        break;
    case 1:
        /* moves contents that only the host has */
        if (expected == SYNCED_MEM_OK && sum_with(NULL) + sizes_of[number] > budget)
            (void)synced_mem_release_cpu_data(object->mem);
        else
            ck_assert_int_eq(synced_mem_release_cpu_data(object->mem), expected);
        break;
    default:
        ck_assert_int_eq(synced_mem_use_file(object->mem, file, file_offset(number)), expected);
        if (expected == SYNCED_MEM_OK)
            object->pattern = PATTERNS + number;
        break;
    }
}

static void change_budget(void)
{
    uint64_t over;
    uint64_t all = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        all += sizes_of[i];
    budget = draw(5) == 0 ? SYNCED_MEM_NO_BUDGET : draw((unsigned)all + 1);
    OK(synced_mem_gpu_set_budget(0, budget, &over));
    const uint64_t held = sum_with(NULL);
    ck_assert_uint_le(over, held > budget ? held - budget : 0);
}

static void play_step(void)
{
    struct object *const object = &objects[draw(OBJECTS)];
    switch (draw(12)) {
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
        access_host(object);
        break;
    case 9:
        push_or_pull();
        break;
    case 10:
        change_memory(object);
        break;
    default:
        if (draw(4) == 0)
            change_budget();
        break;
    }
    const synced_mem_stats stats = stats_now();
    const uint64_t held = sum_with(NULL);
    ck_assert_uint_le(stats.gpu_bytes + stats.gpu_spare_bytes, held > budget ? held : budget);
}

START_TEST(like_the_reference)
{
    state = (uint64_t)_i * 1000 + fixture_schedule() + 1;
    make_contents_file();
    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = open_stream(i == 0 ? BLOCKING : NON_BLOCKING);
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i].mem = make_evictable("random", sizes_of[i]);
        objects[i].pattern = i;
        host_fill(given(synced_mem_overwrite_cpu_data(objects[i].mem)), sizes_of[i], i);
    }
    budget = SYNCED_MEM_NO_BUDGET;
    for (unsigned step = 0; step < STEPS; step++)
        play_step();
    for (unsigned i = 0; i < OBJECTS; i++) {
        for (; objects[i].holds > 0; objects[i].holds--)
            OK(unhold_one(objects[i].mem));
        ck_assert(host_is(given(synced_mem_cpu_data(objects[i].mem)), sizes_of[i], objects[i].pattern));
        OK(synced_mem_release(objects[i].mem));
    }
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    end_file(file);
    for (unsigned i = 0; i < STREAMS; i++)
        close_stream(streams[i]);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_random");
    TCase *const tests = add_case(made, "random");
    add_gpu_loop_test(tests, like_the_reference, 0, 40);
    return made;
}
