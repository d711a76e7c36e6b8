/*
 * Checks the state table: every access from every head, with the head reached in several ways. Each cell checks the
 * next head, the transfers, and the contents on both sides. The same access once more returns the same pointer and
 * transfers nothing.
 */
#include "accesses.h"
#include "fixture.h"

#include <string.h>

enum work { NONE, ZERO, H2D, D2H };

static const struct cell {
    enum work work;
    synced_mem_head_kind next;
} table[4][PLAIN_ACCESSES] = {
    [SYNCED_MEM_UNINITIALIZED] = {{ZERO, SYNCED_MEM_AT_CPU},
                                  {ZERO, SYNCED_MEM_AT_CPU},
                                  {NONE, SYNCED_MEM_AT_CPU},
                                  {ZERO, SYNCED_MEM_AT_GPU},
                                  {ZERO, SYNCED_MEM_AT_GPU},
                                  {NONE, SYNCED_MEM_AT_GPU}},
    [SYNCED_MEM_AT_CPU] = {{NONE, SYNCED_MEM_AT_CPU},
                           {NONE, SYNCED_MEM_AT_CPU},
                           {NONE, SYNCED_MEM_AT_CPU},
                           {H2D, SYNCED_MEM_SYNCED},
                           {H2D, SYNCED_MEM_AT_GPU},
                           {NONE, SYNCED_MEM_AT_GPU}},
    [SYNCED_MEM_AT_GPU] = {{D2H, SYNCED_MEM_SYNCED},
                           {D2H, SYNCED_MEM_AT_CPU},
                           {NONE, SYNCED_MEM_AT_CPU},
                           {NONE, SYNCED_MEM_AT_GPU},
                           {NONE, SYNCED_MEM_AT_GPU},
                           {NONE, SYNCED_MEM_AT_GPU}},
    [SYNCED_MEM_SYNCED] = {{NONE, SYNCED_MEM_SYNCED},
                           {NONE, SYNCED_MEM_AT_CPU},
                           {NONE, SYNCED_MEM_AT_CPU},
                           {NONE, SYNCED_MEM_SYNCED},
                           {NONE, SYNCED_MEM_AT_GPU},
                           {NONE, SYNCED_MEM_AT_GPU}},
};

/* ---- Ways to each head; each leaves the pattern 1, or no contents ---- */

static synced_mem *uninitialized(size_t size)
{
    return make(size);
}

static synced_mem *uninitialized_again(size_t size)
{
    synced_mem *const mem = make_at_cpu(size, 5);
    OK(synced_mem_release_data(mem));
    return mem;
}

static synced_mem *at_cpu(size_t size)
{
    return make_at_cpu(size, 1);
}

static synced_mem *at_cpu_after_zeros(size_t size)
{
    synced_mem *const mem = make(size);
    host_fill(synced_mem_mutable_cpu_data(mem), size, 1);
    return mem;
}

static synced_mem *at_cpu_with_stale_device(size_t size)
{
    synced_mem *const mem = make_at_gpu(size, 6);
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 6));
    host_fill(synced_mem_mutable_cpu_data(mem), size, 1);
    return mem;
}

static synced_mem *at_gpu(size_t size)
{
    return make_at_gpu(size, 1);
}

static synced_mem *at_gpu_with_stale_host(size_t size)
{
    synced_mem *const mem = make_at_cpu(size, 7);
    gpu_fill(synced_mem_mutable_gpu_data(mem), size, 1, NULL);
    return mem;
}

static synced_mem *synced_by_gpu_data(size_t size)
{
    synced_mem *const mem = make_at_cpu(size, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    return mem;
}

static synced_mem *synced_by_cpu_data(size_t size)
{
    synced_mem *const mem = make_at_gpu(size, 1);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    return mem;
}

static synced_mem *synced_by_push(size_t size)
{
    synced_mem *const mem = make_at_cpu(size, 1);
    OK(synced_mem_async_gpu_push(mem, NULL));
    return mem;
}

static const struct way {
    synced_mem_head_kind head;
    bool with_gpu;
    synced_mem *(*go)(size_t size);
} ways[] = {
    {SYNCED_MEM_UNINITIALIZED, false, uninitialized},
    {SYNCED_MEM_UNINITIALIZED, false, uninitialized_again},
    {SYNCED_MEM_AT_CPU, false, at_cpu},
    {SYNCED_MEM_AT_CPU, false, at_cpu_after_zeros},
    {SYNCED_MEM_AT_CPU, true, at_cpu_with_stale_device},
    {SYNCED_MEM_AT_GPU, true, at_gpu},
    {SYNCED_MEM_AT_GPU, true, at_gpu_with_stale_host},
    {SYNCED_MEM_SYNCED, true, synced_by_gpu_data},
    {SYNCED_MEM_SYNCED, true, synced_by_cpu_data},
    {SYNCED_MEM_SYNCED, true, synced_by_push},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static const size_t sizes[] = {1, 4099, 200000};

/* ---- Checks of a cell ---- */

static void check_moved(const synced_mem_stats *before, enum work work, size_t size)
{
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_transfers - before->h2d_transfers, work == H2D);
    ck_assert_uint_eq(after.h2d_bytes - before->h2d_bytes, work == H2D ? size : 0);
    ck_assert_uint_eq(after.d2h_transfers - before->d2h_transfers, work == D2H);
    ck_assert_uint_eq(after.d2h_bytes - before->d2h_bytes, work == D2H ? size : 0);
}

static bool side_is(bool gpu, const void *data, size_t size, unsigned pattern)
{
    return gpu ? device_is(data, size, pattern) : host_is(data, size, pattern);
}

static void check_contents(synced_mem *mem, enum access access, const void *data, size_t size, unsigned pattern)
{
    ck_assert(side_is(of_gpu(access), data, size, pattern));
    if (synced_mem_head(mem) != SYNCED_MEM_SYNCED)
        return;
    const void *const there = of_gpu(access) ? synced_mem_cpu_data(mem) : synced_mem_gpu_data(mem);
    ck_assert(side_is(!of_gpu(access), there, size, pattern));
}

/* Writes through the pointer. A read of the other side then transfers the written contents. */
static void check_writable(synced_mem *mem, enum access access, void *data, size_t size)
{
    if (of_gpu(access))
        gpu_fill(data, size, 2, NULL);
    else
        host_fill(data, size, 2);
    if (!gpu_expected()) {
        ck_assert(host_is(synced_mem_cpu_data(mem), size, 2));
        return;
    }
    const synced_mem_stats before = stats_now();
    const void *const there = of_gpu(access) ? synced_mem_cpu_data(mem) : synced_mem_gpu_data(mem);
    ck_assert(side_is(!of_gpu(access), there, size, 2));
    check_moved(&before, of_gpu(access) ? D2H : H2D, size);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
}

static void check_refused(synced_mem *mem, enum access access)
{
    const struct facts before = facts_of(mem);
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, do_access(mem, access, NULL));
    check_unchanged(mem, &before);
    if (before.head == SYNCED_MEM_AT_CPU)
        ck_assert(host_is(synced_mem_cpu_data(mem), before.size, 1));
}

/* The second half of the cells chooses the access at run time. */
START_TEST(cell)
{
    const int at = _i % (WAYS * PLAIN_ACCESSES);
    const struct way *const way = &ways[at / PLAIN_ACCESSES];
    const enum access access = (enum access)(at % PLAIN_ACCESSES);
    const size_t size = sizes[(at / PLAIN_ACCESSES + at % PLAIN_ACCESSES) % 3];
    const void *(*const go)(synced_mem *, enum access, synced_mem_stream) = _i == at ? do_access : do_chosen_access;
    if (way->with_gpu && !gpu_expected())
        return;
    synced_mem *const mem = way->go(size);
    ck_assert_int_eq(synced_mem_head(mem), way->head);
    if (of_gpu(access) && !gpu_expected()) {
        check_refused(mem, access);
        OK(synced_mem_release(mem));
        return;
    }
    const struct cell *const expected = &table[way->head][access];
    const synced_mem_stats before = stats_now();
    const void *const data = go(mem, access, NULL);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    check_moved(&before, expected->work, size);
    ck_assert_int_eq(synced_mem_head(mem), expected->next);

    const synced_mem_stats then = stats_now();
    for (int again = 0; again < 2; again++)
        ck_assert_ptr_eq(go(mem, access, NULL), data);
    ck_assert_int_eq(synced_mem_head(mem), expected->next);
    const synced_mem_stats now = stats_now();
    ck_assert_int_eq(memcmp(&then, &now, sizeof now), 0);

    /* An overwrite access changes no byte: a copy that was valid still has its contents. */
    if (overwrites(access) && (way->head & expected->next))
        ck_assert(side_is(of_gpu(access), data, size, 1));
    if (!overwrites(access))
        check_contents(mem, access, data, size, expected->work == ZERO ? 0 : 1);
    if (writes(access))
        check_writable(mem, access,
                       of_gpu(access) ? synced_mem_mutable_gpu_data(mem) : synced_mem_mutable_cpu_data(mem), size);
    OK(synced_mem_release(mem));
}
END_TEST

/* Memory that was used before is filled with zeros too, not only new memory. */
START_TEST(zeros_in_used_memory)
{
    synced_mem *const mem = make_at_cpu(4099, 3);
    OK(synced_mem_release_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), 4099, 0));
    OK(synced_mem_release(mem));
}
END_TEST

/* Repeated accesses of one kind cause no transfer and return the same pointer, thousands of times. */
START_TEST(no_such_access)
{
    synced_mem *const mem = make_at_cpu(100, 1);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT,
               synced_mem_access(mem, (synced_mem_side)0, SYNCED_MEM_READ, SYNCED_MEM_NO_STREAM));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT,
               synced_mem_access(mem, (synced_mem_side)3, SYNCED_MEM_READ, SYNCED_MEM_NO_STREAM));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT,
               synced_mem_access(mem, SYNCED_MEM_SIDE_CPU, (synced_mem_mode)3, SYNCED_MEM_NO_STREAM));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT,
               synced_mem_access(NULL, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, SYNCED_MEM_NO_STREAM));
    ck_assert(host_is(synced_mem_cpu_data(mem), 100, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(many_times)
{
    synced_mem *const mem = make_at_cpu(100, 1);
    const void *const data = synced_mem_cpu_data(mem);
    for (int i = 0; i < 5000; i++)
        ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), data);
    if (gpu_expected()) {
        const void *const there = synced_mem_gpu_data(mem);
        for (int i = 0; i < 5000; i++) {
            ck_assert_ptr_eq(synced_mem_gpu_data(mem), there);
            ck_assert_ptr_eq(synced_mem_cpu_data(mem), data);
        }
        ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    }
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("state");
    TCase *const tests = add_case(made, "table");
    add_tests(tests, no_such_access, zeros_in_used_memory, many_times);
    tcase_add_loop_test(tests, cell, 0, 2 * WAYS * PLAIN_ACCESSES);
    return made;
}
