/* Checks sizes: contents that stay, zeros behind them, memory that is kept, and memory that is handed back. */
#include "fixture.h"

#include <stdint.h>
#include <stdlib.h>

/* ---- Contents of a copy ---- */

/* Returns whether the bytes are the pattern up to filled, and zeros behind it. */
static bool bytes_are(const unsigned char *data, size_t size, size_t filled, unsigned pattern)
{
    return pattern_is(data, filled, pattern) && pattern_is(data + filled, size - filled, 0);
}

static bool host_has(synced_mem *mem, size_t filled, unsigned pattern)
{
    const void *const data = synced_mem_cpu_data(mem);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_note_host_read(data, synced_mem_size(mem));
    return bytes_are(data, synced_mem_size(mem), filled, pattern);
}

static bool device_has(synced_mem *mem, size_t filled, unsigned pattern)
{
    const size_t size = synced_mem_size(mem);
    const void *const data = synced_mem_gpu_data(mem);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    unsigned char *const bytes = malloc(size + 1);
    gpu_read(bytes, data, size);
    const bool has = bytes_are(bytes, size, filled, pattern);
    free(bytes);
    return has;
}

/* Checks each valid side, without a transfer, and then the other side. */
static void check_sides(synced_mem *mem, size_t filled, unsigned pattern)
{
    const synced_mem_head_kind head = synced_mem_head(mem);
    const synced_mem_stats before = stats_now();
    if (head & SYNCED_MEM_AT_CPU)
        ck_assert(host_has(mem, filled, pattern));
    if (head & SYNCED_MEM_AT_GPU)
        ck_assert(device_has(mem, filled, pattern));
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_transfers + after.d2h_transfers, before.h2d_transfers + before.d2h_transfers);
    ck_assert_int_eq(synced_mem_head(mem), head);
    ck_assert(host_has(mem, filled, pattern));
    if (gpu_expected())
        ck_assert(device_has(mem, filled, pattern));
}

/* The ways to each head, with the pattern 1. The last two have capacity on both sides, one of them stale. */
enum way { NOTHING, AT_CPU, AT_GPU, SYNCED, AT_CPU_WITH_BOTH, AT_GPU_WITH_BOTH, WAYS };

static bool can_go(enum way way)
{
    return gpu_expected() || way <= AT_CPU;
}

static synced_mem *make_by(enum way way, size_t size)
{
    if (way == NOTHING)
        return make(size);
    if (way == AT_GPU)
        return make_at_gpu(size, 1);
    synced_mem *const mem = make_at_cpu(size, 1);
    if (way != AT_CPU)
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    if (way == AT_CPU_WITH_BOTH)
        host_fill(synced_mem_mutable_cpu_data(mem), size, 1);
    if (way == AT_GPU_WITH_BOTH)
        gpu_fill(synced_mem_mutable_gpu_data(mem), size, 1, NULL);
    return mem;
}

/* ---- With room ---- */

START_TEST(down_and_up)
{
    static const size_t sizes[][3] = {{100, 50, 100}, {100, 0, 100}, {5000, 4999, 5000}, {200000, 1, 200000}};
    const enum way way = (enum way)(_i / 4);
    const size_t *const size = sizes[_i % 4];
    if (!can_go(way))
        return;
    synced_mem *const mem = make_by(way, size[0]);
    const struct facts before = facts_of(mem);
    OK(synced_mem_resize(mem, size[1]));
    ck_assert_uint_eq(synced_mem_size(mem), size[1]);
    ck_assert_int_eq(synced_mem_head(mem), before.head);
    const synced_mem_stats stats = stats_now();
    OK(synced_mem_resize(mem, size[2]));
    check_unchanged(mem, &before);
    ck_assert_uint_eq(stats_now().host_allocations, stats.host_allocations);
    ck_assert_uint_eq(stats_now().gpu_allocations, stats.gpu_allocations);
    check_sides(mem, way == NOTHING ? 0 : size[1], 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* To shrink an object takes neither a transfer nor a call of the runtime. */
START_TEST(down)
{
    const enum way way = (enum way)_i;
    if (!can_go(way))
        return;
    synced_mem *const mem = make_by(way, 5000);
    const unsigned calls = gpu_calls(NULL);
    OK(synced_mem_resize(mem, 3000));
    OK(synced_mem_resize(mem, 3000));
    ck_assert_uint_eq(gpu_calls(NULL), calls);
    check_sides(mem, way == NOTHING ? 0 : 3000, 1);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(pointers_stay)
{
    synced_mem *const mem = make_by(SYNCED, 5000);
    const void *const host = synced_mem_cpu_data(mem);
    const void *const device = synced_mem_gpu_data(mem);
    static const size_t sizes[] = {100, 4000, 4000, 5000, 0, 1, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        OK(synced_mem_resize(mem, sizes[i]));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
        ck_assert_ptr_eq(synced_mem_cpu_data(mem), host);
        ck_assert_ptr_eq(synced_mem_gpu_data(mem), device);
        ck_assert_uint_ge(synced_mem_cpu_capacity(mem), 5000);
        ck_assert_uint_ge(synced_mem_gpu_capacity(mem), 5000);
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Without room ---- */

static const struct growth {
    synced_mem_head_kind next;
    bool cpu, gpu; /* has memory afterwards */
} growths[WAYS] = {
    [NOTHING] = {SYNCED_MEM_UNINITIALIZED, false, false},  [AT_CPU] = {SYNCED_MEM_AT_CPU, true, false},
    [AT_GPU] = {SYNCED_MEM_AT_GPU, false, true},           [SYNCED] = {SYNCED_MEM_AT_GPU, false, true},
    [AT_CPU_WITH_BOTH] = {SYNCED_MEM_AT_CPU, true, false}, [AT_GPU_WITH_BOTH] = {SYNCED_MEM_AT_GPU, false, true},
};

START_TEST(up)
{
    static const size_t sizes[][2] = {{100, 1000}, {5000, 70000}, {0, 100}, {70000, 1 << 20}};
    const enum way way = (enum way)(_i / 4);
    const size_t *const size = sizes[_i % 4];
    const struct growth *const expected = &growths[way];
    if (!can_go(way))
        return;
    synced_mem *const mem = make_by(way, size[0]);
    OK(synced_mem_resize(mem, size[1]));
    ck_assert_uint_eq(synced_mem_size(mem), size[1]);
    ck_assert_int_eq(synced_mem_head(mem), expected->next);
    ck_assert_int_eq(synced_mem_cpu_capacity(mem) >= size[1], expected->cpu);
    ck_assert_int_eq(synced_mem_gpu_capacity(mem) >= size[1], expected->gpu);
    ck_assert_int_eq(synced_mem_cpu_source(mem) != SYNCED_MEM_SOURCE_NONE, expected->cpu);
    ck_assert_int_eq(synced_mem_gpu_source(mem) != SYNCED_MEM_SOURCE_NONE, expected->gpu);
    check_sides(mem, way == NOTHING ? 0 : size[0], 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* One of two valid copies has room. The contents stay there, and the other copy is released. */
START_TEST(one_side_has_room)
{
    char *const host = calloc(1, 1000);
    void *const device = gpu_alloc(0, 1000);
    synced_mem *const mem = make(1000);
    OK(_i ? synced_mem_set_gpu_data(mem, device) : synced_mem_set_cpu_data(mem, host));
    OK(synced_mem_resize(mem, 100));
    if (_i) {
        gpu_fill(synced_mem_mutable_gpu_data(mem), 100, 1, NULL);
        ck_assert(host_is(synced_mem_cpu_data(mem), 100, 1));
    } else {
        host_fill(synced_mem_mutable_cpu_data(mem), 100, 1);
        ck_assert(device_is(synced_mem_gpu_data(mem), 100, 1));
    }
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    OK(synced_mem_resize(mem, 1000));
    ck_assert_int_eq(synced_mem_head(mem), _i ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(_i ? synced_mem_cpu_source(mem) : synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(_i ? synced_mem_gpu_source(mem) : synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    check_sides(mem, 100, 1);
    OK(synced_mem_release(mem));
    gpu_free(device);
    free(host);
}
END_TEST

/* A new size never reduces the capacity. */
START_TEST(capacity_only_grows)
{
    static const size_t sizes[] = {100, 5000, 10, 70000, 0, 65536, 100000, 1};
    synced_mem *const mem = make_at_cpu(10, 1);
    size_t largest = 0;
    size_t kept = 10;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        OK(synced_mem_resize(mem, sizes[i]));
        largest = sizes[i] > largest ? sizes[i] : largest;
        kept = sizes[i] < kept ? sizes[i] : kept;
        ck_assert_uint_ge(synced_mem_cpu_capacity(mem), largest);
        ck_assert(host_has(mem, kept, 1));
    }
    ck_assert_uint_eq(synced_mem_gpu_capacity(mem), 0);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(synced_mem_cpu_capacity(NULL) + synced_mem_gpu_capacity(NULL), 0);
}
END_TEST

/* Larger memory has the requested alignment too. */
START_TEST(alignment_is_kept)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.alignment = 8192;
    OK(synced_mem_create(&mem, 100, &options));
    host_fill(synced_mem_mutable_cpu_data(mem), 100, 1);
    OK(synced_mem_resize(mem, 9000));
    ck_assert_uint_eq((uintptr_t)synced_mem_cpu_data(mem) % 8192, 0);
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
        OK(synced_mem_resize(mem, 90000));
        ck_assert_uint_eq((uintptr_t)synced_mem_gpu_data(mem) % 8192, 0);
    }
    ck_assert(host_has(mem, 100, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Memory of the caller's ---- */

static int callbacks;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    callbacks++;
}

static synced_mem *make_foreign(void *host, void *device, bool adopt)
{
    synced_mem *const mem = make(100);
    host_fill(host, 100, 1);
    if (!device) {
        OK(adopt ? USE(mem, .cpu_data = host, .callback = count) : synced_mem_set_cpu_data(mem, host));
        return mem;
    }
    gpu_fill(device, 100, 1, NULL);
    OK(adopt ? USE(mem, .cpu_data = host, .gpu_data = device, .callback = count)
             : USE(mem, .cpu_data = host, .gpu_data = device));
    return mem;
}

/* The caller's memory has room for the object's size at the time it was set. Beyond that it goes back to the caller. */
START_TEST(memory_of_the_caller)
{
    const bool adopt = _i % 2;
    const bool discard = _i / 2;
    char *const host = calloc(1, 200);
    void *const device = gpu_expected() ? gpu_alloc(0, 200) : NULL;
    synced_mem *const mem = make_foreign(host, device, adopt);
    const int before = callbacks;
    OK(synced_mem_resize(mem, 60));
    OK(synced_mem_resize(mem, 100));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), host);
    ck_assert_int_eq(callbacks, before);
    OK(discard ? synced_mem_resize_discard(mem, 200) : synced_mem_resize(mem, 200));
    host_fill(host, 200, 9);
    if (device && !adopt)
        gpu_fill(device, 200, 9, NULL);
    check_sides(mem, discard ? 0 : 60, 1);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(callbacks, before + (adopt ? device ? 2 : 1 : 0));
    ck_assert(host_is(host, 200, 9));
    if (device)
        gpu_free(device);
    free(host);
}
END_TEST

/* ---- Discarded contents ---- */

START_TEST(discard)
{
    const enum way way = (enum way)(_i / 3);
    static const size_t sizes[] = {3000, 5000, 9000};
    const size_t size = sizes[_i % 3];
    if (!can_go(way))
        return;
    synced_mem *const mem = make_by(way, 5000);
    const struct facts before = facts_of(mem);
    const synced_mem_stats stats = stats_now();
    OK(synced_mem_resize_discard(mem, size));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_uint_eq(synced_mem_size(mem), size);
    const size_t cpu = before.cpu_capacity >= size ? before.cpu_capacity : 0;
    const size_t gpu = before.gpu_capacity >= size ? before.gpu_capacity : 0;
    ck_assert_uint_eq(synced_mem_cpu_capacity(mem), cpu);
    ck_assert_uint_eq(synced_mem_gpu_capacity(mem), gpu);
    ck_assert_uint_eq(stats_now().host_allocations + stats_now().gpu_allocations,
                      stats.host_allocations + stats.gpu_allocations);
    check_sides(mem, 0, 0);
    OK(synced_mem_release(mem));
}
END_TEST

/* An inference loop: batches of changing size in the same memory. */
START_TEST(batches)
{
    synced_mem *const mem = make_on(20000, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    const synced_mem_stats before = stats_now();
    for (unsigned i = 1; i < 40; i++) {
        const size_t size = i * 7919 % 20000;
        OK(synced_mem_resize_discard(mem, size));
        host_fill(synced_mem_overwrite_cpu_data(mem), size, i);
        OK(synced_mem_async_gpu_push(mem, NULL));
        ck_assert(device_has(mem, size, i));
    }
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.host_allocations + after.gpu_allocations, before.host_allocations + before.gpu_allocations);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Refused sizes ---- */

START_TEST(sizes_that_cannot_be)
{
    static const size_t sizes[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1, (size_t)PTRDIFF_MAX - (2 << 20) + 1};
    synced_mem *const mem = make_at_cpu(100, 1);
    const struct facts before = facts_of(mem);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_resize(mem, sizes[i]));
        SAYS("synced_mem_resize:");
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_resize_discard(mem, sizes[i]));
        SAYS("synced_mem_resize_discard:");
    }
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_resize(NULL, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_resize_discard(NULL, 1));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), 100, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* There is no memory for contents that have to be kept. Without contents, no memory is needed yet. */
START_TEST(more_than_there_is)
{
    const enum way way = (enum way)_i;
    const size_t huge = (size_t)PTRDIFF_MAX - (4 << 20);
    if (!can_go(way))
        return;
    synced_mem *const mem = make_by(way, 100);
    const struct facts before = facts_of(mem);
    if (way == NOTHING) {
        OK(synced_mem_resize(mem, huge));
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
        OK(synced_mem_resize(mem, 100));
    } else {
        FAILS(growths[way].gpu ? SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
              synced_mem_resize(mem, huge));
    }
    check_unchanged(mem, &before);
    check_sides(mem, way == NOTHING ? 0 : 100, 1);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("resize");
    TCase *const room = add_case(made, "room");
    add_gpu_tests(room, pointers_stay);
    tcase_add_loop_test(room, down_and_up, 0, 4 * WAYS);
    tcase_add_loop_test(room, down, 0, WAYS);
    TCase *const growing = add_case(made, "growing");
    add_tests(growing, capacity_only_grows, alignment_is_kept);
    tcase_add_loop_test(growing, up, 0, 4 * WAYS);
    add_gpu_loop_test(growing, one_side_has_room, 0, 2);
    tcase_add_loop_test(growing, memory_of_the_caller, 0, 4);
    TCase *const discarding = add_case(made, "discard");
    add_gpu_tests(discarding, batches);
    tcase_add_loop_test(discarding, discard, 0, 3 * WAYS);
    TCase *const refused = add_case(made, "refused");
    tcase_add_test(refused, sizes_that_cannot_be);
    tcase_add_loop_test(refused, more_than_there_is, 0, WAYS);
    return made;
}
