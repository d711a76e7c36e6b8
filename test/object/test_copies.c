/*
 * Tests copies between objects: every head of one against every head of the other, with the transfer that each needs;
 * several pairs, bad input, forks; and synced_mem_clear().
 */
#include "copies_kit.h"
#include "fork_kit.h"

#include "copy/cut.h"
#include "copy/staging.h"

#include <stdint.h>
#include <string.h>

enum { ROOM = 200000 };

/* ---- The table ---- */

/* Returns how many calls of cudaMemcpyAsync a copy takes that is one transfer of all bytes. */
static unsigned calls_of_copy(size_t size, bool is_staged)
{
    return is_staged ? (unsigned)sm_cut_up(size, true, sm_staging_buffer()).chunks : 1;
}

/* Bring an object to a head, with the pattern. */
static synced_mem *new_one(size_t size, unsigned pattern)
{
    (void)pattern;
    return make(size);
}

static synced_mem *cleared(size_t size, unsigned pattern)
{
    synced_mem *const mem = make_at_cpu(size, pattern);
    OK(synced_mem_clear(mem));
    return mem;
}

static synced_mem *at_cpu_beside_stale(size_t size, unsigned pattern)
{
    synced_mem *const mem = make_at_gpu(size, 6);
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 6));
    host_fill(synced_mem_mutable_cpu_data(mem), size, pattern);
    return mem;
}

static synced_mem *at_gpu_beside_stale(size_t size, unsigned pattern)
{
    synced_mem *const mem = make_at_cpu(size, 7);
    gpu_fill(synced_mem_mutable_gpu_data(mem), size, pattern, NULL);
    return mem;
}

static synced_mem *synced_by_push(size_t size, unsigned pattern)
{
    synced_mem *const mem = make_at_cpu(size, pattern);
    OK(synced_mem_async_gpu_push(mem, NULL));
    return mem;
}

static synced_mem *synced_by_pull(size_t size, unsigned pattern)
{
    synced_mem *const mem = make_at_gpu(size, pattern);
    OK(synced_mem_async_cpu_pull(mem, NULL));
    return mem;
}

static const struct way {
    synced_mem_head_kind head;
    bool with_gpu;
    synced_mem *(*go)(size_t size, unsigned pattern);
} ways[] = {
    {SYNCED_MEM_UNINITIALIZED, false, new_one}, {SYNCED_MEM_UNINITIALIZED, false, cleared},
    {SYNCED_MEM_AT_CPU, false, make_at_cpu},    {SYNCED_MEM_AT_CPU, true, at_cpu_beside_stale},
    {SYNCED_MEM_AT_GPU, true, make_at_gpu},     {SYNCED_MEM_AT_GPU, true, at_gpu_beside_stale},
    {SYNCED_MEM_SYNCED, true, synced_by_push},  {SYNCED_MEM_SYNCED, true, synced_by_pull},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bool contents_are(synced_mem *mem, size_t size, unsigned pattern)
{
    const synced_mem_head_kind head = synced_mem_head(mem);
    bool same = true;
    if (head & SYNCED_MEM_AT_GPU)
        same = device_is(synced_mem_gpu_data(mem), size, pattern);
    return same && host_is(synced_mem_cpu_data(mem), size, pattern);
}

static void check_cell(synced_mem *to, synced_mem *from, synced_mem_head_kind next, size_t size)
{
    const unsigned expected = next == SYNCED_MEM_UNINITIALIZED ? 0 : OF_FROM;
    ck_assert_int_eq(synced_mem_head(to), next);
    ck_assert(contents_are(to, size, expected));
    ck_assert(contents_are(from, size, expected));
    host_fill(synced_mem_mutable_cpu_data(to), size, 3); /* this does not change the other object */
    ck_assert(contents_are(from, size, expected));
    RELEASE_EACH(to, from);
}

static const size_t sizes[] = {1, 4099, ROOM, 0};

START_TEST(gpu_cell)
{
    const struct way *const of_to = &ways[_i % WAYS], *const of_from = &ways[_i / WAYS];
    const size_t size = sizes[_i % 4];
    if ((of_to->with_gpu || of_from->with_gpu) && !gpu_expected())
        return;
    synced_mem *const to = of_to->go(size, OF_TO), *const from = of_from->go(size, OF_FROM);
    const struct facts before = facts_of(from), before_to = facts_of(to);
    if (!gpu_expected()) {
        FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_async_gpu_copy(to, from, NULL));
        check_unchanged(from, &before);
        check_unchanged(to, &before_to);
        RELEASE_EACH(to, from);
        return;
    }
    synced_mem_stream stream = open_stream(_i % STREAM_KINDS);
    const synced_mem_stats stats = stats_now();
    const unsigned calls = gpu_calls("cudaMemcpyAsync");
    OK(synced_mem_async_gpu_copy(to, from, stream));
    check_moved(&stats, of_from->head == SYNCED_MEM_AT_CPU && size > 0, 0, size);
    const bool is_staged = stats_now().staged_transfers > stats.staged_transfers;
    if (gpu_is_emulated())
        ck_assert_uint_eq(gpu_calls("cudaMemcpyAsync") - calls,
                          of_from->head != 0 && size > 0 ? calls_of_copy(size, is_staged) : 0);
    check_unchanged(from, &before);
    ck_assert_int_eq(synced_mem_head(to), of_from->head ? SYNCED_MEM_AT_GPU : SYNCED_MEM_UNINITIALIZED);
    if (of_from->head && size > 0) {
        static unsigned char expected[ROOM];
        pattern_write(expected, size, OF_FROM);
        gpu_expect(synced_mem_gpu_data_on(to, stream), size, expected, stream);
    }
    check_cell(to, from, of_from->head ? SYNCED_MEM_AT_GPU : SYNCED_MEM_UNINITIALIZED, size);
    close_stream(stream);
}
END_TEST

START_TEST(cpu_cell)
{
    const struct way *const of_to = &ways[_i % WAYS], *const of_from = &ways[_i / WAYS];
    const size_t size = sizes[_i % 4];
    if ((of_to->with_gpu || of_from->with_gpu) && !gpu_expected())
        return;
    synced_mem *const to = of_to->go(size, OF_TO), *const from = of_from->go(size, OF_FROM);
    const struct facts before = facts_of(from);
    const synced_mem_stats stats = stats_now();
    OK(synced_mem_cpu_copy(to, from));
    check_moved(&stats, 0, of_from->head == SYNCED_MEM_AT_GPU && size > 0, size);
    check_unchanged(from, &before);
    check_cell(to, from, of_from->head ? SYNCED_MEM_AT_CPU : SYNCED_MEM_UNINITIALIZED, size);
}
END_TEST

/* ---- Several pairs ---- */

enum { PAIRS = 5, SOURCES = 3 };

START_TEST(pairs)
{
    synced_mem *to[PAIRS], *from[PAIRS], *sources[SOURCES];
    const bool on_host = _i % 2;
    if (!gpu_expected() && !on_host)
        return;
    sources[0] = make(SIZE);
    sources[1] = make_at_cpu(SIZE, 1);
    sources[2] = gpu_expected() ? make_at_gpu(SIZE, 2) : make_at_cpu(SIZE, 2);
    for (int i = 0; i < PAIRS; i++) {
        to[i] = i % 2 ? make(SIZE) : make_at_cpu(SIZE, OF_TO);
        from[i] = sources[i % SOURCES];
    }
    const synced_mem_stats stats = stats_now();
    if (on_host)
        OK(synced_mem_cpu_copy_n(to, from, PAIRS));
    else
        OK(synced_mem_async_gpu_copy_n(to, from, PAIRS, NULL));
    if (!on_host)
        check_moved(&stats, 2, 0, SIZE);
    if (!on_host) /* one event for all, and one for the kernel */
        ck_assert_uint_le(stats_now().event_records - stats.event_records, 2);
    for (int i = 0; i < PAIRS; i++) {
        ck_assert(host_is(synced_mem_cpu_data(to[i]), SIZE, (unsigned)i % SOURCES));
        OK(synced_mem_release(to[i]));
    }
    release_all(sources, SOURCES);
}
END_TEST

START_TEST(no_pairs)
{
    OK(synced_mem_async_gpu_copy_n(NULL, NULL, 0, NULL));
    OK(synced_mem_cpu_copy_n(NULL, NULL, 0));
}
END_TEST

/* ---- Bad input ---- */

START_TEST(bad_input)
{
    synced_mem *const a = make_at_cpu(SIZE, 1), *const b = make_at_cpu(SIZE, 2), *const small = make_at_cpu(10, 3);
    synced_mem *const both[] = {a, b}, *const twice[] = {a, a}, *const other[] = {b, small}, *const none[] = {a, NULL};
    const struct facts before = facts_of(a);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy(NULL, a, NULL));
    SAYS("to is NULL");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy(a, NULL, NULL));
    SAYS("from is NULL");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(NULL, a));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(a, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(a, a));
    SAYS("names it a second time");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy(a, a, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(a, small));
    SAYS("the object to copy has 10 bytes, but this object has 5000 bytes");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy(small, a, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy_n(NULL, both, 2));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy_n(both, NULL, 2));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy_n(both, none, 2, NULL));
    SAYS("from[1] of 2 objects");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy_n(none, both, 2, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy_n(twice, other, 2));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy_n(both, other, 2));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy_n(other, both, 2));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy(a, b, (synced_mem_stream)(uintptr_t)-1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_clear(NULL));
    check_unchanged(a, &before);
    ck_assert(host_is(synced_mem_cpu_data(a), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(b), SIZE, 2));
    RELEASE_EACH(a, b, small);
}
END_TEST

/* Two tensors on one storage conflict only in the bytes that they have in common. */
START_TEST(overlapping_host_memory)
{
    static unsigned char storage[4 * SIZE];
    synced_mem *const a = make(SIZE), *const b = make(SIZE), *const c = make(SIZE);
    pattern_write(storage, sizeof storage, 1);
    OK(synced_mem_set_cpu_data(a, storage));
    OK(synced_mem_set_cpu_data(b, storage + SIZE));
    OK(synced_mem_cpu_copy(a, b)); /* no byte in common */
    ck_assert_int_eq(memcmp(storage, storage + SIZE, SIZE), 0);
    OK(synced_mem_set_cpu_data(c, storage + SIZE - 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(a, c));
    SAYS("overlaps");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(c, a));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(c, b));
    synced_mem *const into[] = {a, c}, *const x = make_at_cpu(SIZE, 4), *const same[] = {x, x};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy_n(into, same, 2));
    synced_mem *const y = make(SIZE), *const targets[] = {x, y}, *const readers[] = {a, c};
    OK(synced_mem_cpu_copy_n(targets, readers, 2)); /* both are only read */
    ck_assert_int_eq(memcmp(synced_mem_cpu_data(y), storage + SIZE - 1, SIZE), 0);
    synced_mem *const all[] = {a, b, c, x, y};
    release_all(all, 5);
}
END_TEST

START_TEST(overlapping_device_memory)
{
    char *const storage = gpu_alloc(0, 2 * SIZE);
    synced_mem *const a = make_on(SIZE, 0), *const b = make_on(SIZE, 0);
    OK(synced_mem_set_gpu_data(a, storage));
    OK(synced_mem_set_gpu_data(b, storage + SIZE));
    gpu_fill(synced_mem_mutable_gpu_data_on(b, NULL), SIZE, 2, NULL);
    OK(synced_mem_async_gpu_copy(a, b, NULL));
    ck_assert(device_is(storage, SIZE, 2));
    OK(synced_mem_set_gpu_data(b, storage + SIZE / 2));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy(a, b, NULL));
    RELEASE_EACH(a, b);
    gpu_free(storage);
}
END_TEST

/* The memory of both sides of an object is another's host memory too. That object is copied on the device, beside a
 * copy that would overwrite its host memory. */
START_TEST(host_memory_that_a_copy_on_the_device_would_overwrite)
{
    synced_mem *const shared = make_placed_on(SIZE, SYNCED_MEM_PLACEMENT_MANAGED, 0);
    synced_mem *const borrower = make_on(SIZE, 0), *const other = make_on(SIZE, 0), *const target = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(shared), SIZE, 1);
    OK(synced_mem_set_cpu_data(borrower, (void *)(uintptr_t)synced_mem_cpu_data(shared)));
    OK(synced_mem_async_gpu_push(borrower, NULL));
    gpu_fill(synced_mem_overwrite_gpu_data_on(other, NULL), SIZE, 2, NULL);
    gpu_fill(synced_mem_overwrite_gpu_data_on(target, NULL), SIZE, 3, NULL);
    synced_mem *const to[] = {shared, target}, *const from[] = {other, borrower};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_copy_n(to, from, 2, NULL));
    SAYS("overlaps");
    ck_assert(host_is(synced_mem_cpu_data(borrower), SIZE, 1));
    RELEASE_EACH(borrower, other, target, shared);
}
END_TEST

/* ---- Giving up contents ---- */

START_TEST(clear)
{
    const struct way *const way = &ways[_i];
    if (way->with_gpu && !gpu_expected())
        return;
    synced_mem *const mem = way->go(SIZE, 1);
    const struct facts before = facts_of(mem);
    const synced_mem_stats stats = stats_now();
    for (int i = 0; i < 2; i++)
        OK(synced_mem_clear(mem));
    check_moved(&stats, 0, 0, SIZE);
    struct facts expected = before;
    expected.head = SYNCED_MEM_UNINITIALIZED;
    check_unchanged(mem, &expected);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, NULL));
    SAYS("there is nothing to push");
    if (gpu_expected())
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 0));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Forks ---- */

static void in_child(const void *both)
{
    synced_mem *const *const mems = both;
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_copy(mems[0], mems[1]));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_copy(mems[0], mems[1], NULL));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_clear(mems[0]));
    synced_mem *const to = make(SIZE), *const from = make_at_cpu(SIZE, 1);
    OK(synced_mem_cpu_copy(to, from));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_copy(to, from, NULL));
    RELEASE_EACH(to, from);
}

START_TEST(in_a_forked_child)
{
    synced_mem *const mems[] = {make_at_gpu(SIZE, 1), make_at_cpu(SIZE, 2)};
    ck_assert(child_succeeds(in_child, mems));
    RELEASE_EACH(mems[0], mems[1]);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copies");
    TCase *const table = add_case(made, "table");
    add_tests(table, no_pairs, bad_input, overlapping_host_memory);
    add_gpu_tests(table, overlapping_device_memory, host_memory_that_a_copy_on_the_device_would_overwrite);
    tcase_add_loop_test(table, gpu_cell, 0, WAYS * WAYS);
    tcase_add_loop_test(table, cpu_cell, 0, WAYS * WAYS);
    tcase_add_loop_test(table, pairs, 0, 2);
    TCase *const given_up = add_case(made, "given up");
    add_gpu_tests(given_up, in_a_forked_child);
    tcase_add_loop_test(given_up, clear, 0, WAYS);
    return made;
}
