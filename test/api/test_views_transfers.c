/* Checks pushes, pulls and copies of views where the random calls on views do not: without a GPU, by their events, and
 * where other objects have the same memory. */
#include "views_kit.h"

/* Head MIXED with nothing to push is no error: the contents stay where they are. */
START_TEST(mixed_without_a_gpu)
{
    synced_mem *const root = make_root(false), *const part = view_of(root, 100, 200);
    host_writes(part, 1);
    HEAD(root, MIXED);
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push(root, NULL));
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push(part, NULL));
    ck_assert_int_eq(synced_mem_head(part), gpu_expected() ? SYNCED_MEM_SYNCED : SYNCED_MEM_AT_CPU);
    HEAD(root, MIXED);
    ck_assert(host_reads_right(root));
    RELEASE_EACH(part, root);
}
END_TEST

/* One event serves all parts of all objects, of several roots. */
START_TEST(one_event)
{
    enum { ROOTS = 3, VIEWS = 8 };
    const bool push = _i % 2;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *roots[ROOTS], *views[ROOTS * VIEWS];
    for (int i = 0; i < ROOTS; i++) {
        roots[i] = make_on(ROOT, 0);
        host_writes(roots[i], 1);
        (void)given(synced_mem_gpu_data_on(roots[i], stream));
        OK(synced_mem_end_use_on(roots[i], stream));
        OK(synced_mem_wait(roots[i]));
        for (size_t j = 0; j < VIEWS; j++) {
            synced_mem *const view = view_of(roots[i], 1000 * j, 500);
            views[i * VIEWS + (int)j] = view;
            if (push)
                host_fill(synced_mem_mutable_cpu_data(view), 500, 2 + (unsigned)j);
            else
                gpu_fill(synced_mem_mutable_gpu_data_on(view, stream), 500, 2 + (unsigned)j, stream);
        }
    }
    const synced_mem_stats before = stats_now();
    synced_mem *const *const mems = _i / 2 ? roots : views;
    const size_t count = _i / 2 ? ROOTS : ROOTS * VIEWS;
    OK(push ? synced_mem_async_gpu_push_n(mems, count, stream) : synced_mem_async_cpu_pull_n(mems, count, stream));
    const synced_mem_stats after = stats_now();
    check_bytes(&before, push ? ROOTS * VIEWS * 500 : 0, push ? 0 : ROOTS * VIEWS * 500);
    ck_assert_uint_le(after.event_records - before.event_records, 2); /* one may end the kernels' writes */
    for (int i = 0; i < ROOTS * VIEWS; i++) {
        HEAD(views[i], SYNCED);
        ck_assert(device_is(synced_mem_gpu_data_on(views[i], NULL), 500, 2 + (unsigned)i % VIEWS));
        ck_assert(host_is(synced_mem_cpu_data(views[i]), 500, 2 + (unsigned)i % VIEWS));
    }
    release_all(views, ROOTS * VIEWS);
    release_all(roots, ROOTS);
    close_stream(stream);
}
END_TEST

/* Memory of the root is handed to another object. The view that has the same bytes was never used on this side. */
START_TEST(copies_within_memory)
{
    const bool on_host = _i % 2 == 0, is_source = _i >= 2;
    if (!on_host && !gpu_expected())
        return;
    synced_mem *const root = make_root(false), *const a = view_of(root, 0, 5000), *const b = view_of(root, 5000, 5000);
    synced_mem *const other = make_on(5000, on_host ? SYNCED_MEM_DEVICE_CURRENT : 0);
    if (on_host)
        host_writes(b, 1);
    else
        device_writes(b, 1, NULL);
    char *const bytes = (char *)given(on_host ? synced_mem_cpu_data(b) : synced_mem_gpu_data(b)) - 5000;
    OK(on_host ? synced_mem_set_cpu_data(other, bytes + 1) : synced_mem_set_gpu_data(other, bytes + 1));
    synced_mem *const to = is_source ? other : a, *const from = is_source ? b : other;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT,
          on_host ? synced_mem_cpu_copy(to, from) : synced_mem_async_gpu_copy(to, from, NULL));
    SAYS("overlaps");
    ck_assert(host_reads_right(b));
    OK(synced_mem_release_data(other));
    RELEASE_EACH(a, b, other, root);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("transfers of views");
    TCase *const tests = add_case(made, "transfers");
    tcase_add_test(tests, mixed_without_a_gpu);
    add_gpu_loop_test(tests, one_event, 0, 4);
    tcase_add_loop_test(tests, copies_within_memory, 0, 4);
    return made;
}
