/* Checks pushes and pulls of views, and of objects in parts: which bytes they move, and when they are refused. */
#include "views_kit.h"

#define UN SYNCED_MEM_UNINITIALIZED
#define CPU SYNCED_MEM_AT_CPU
#define GPU SYNCED_MEM_AT_GPU
#define SYN SYNCED_MEM_SYNCED

enum { HEADS = 4, PARTS = 3 };

static const size_t begins[PARTS] = {0, 7001, 15004}, ends[PARTS] = {7001, 15004, ROOT};

static synced_mem_status transfer(synced_mem *mem, bool push, synced_mem_stream stream)
{
    return push ? synced_mem_async_gpu_push(mem, stream) : synced_mem_async_cpu_pull(mem, stream);
}

static synced_mem_status transfer_n(synced_mem *const *mems, size_t count, bool push, synced_mem_stream stream)
{
    return push ? synced_mem_async_gpu_push_n(mems, count, stream) : synced_mem_async_cpu_pull_n(mems, count, stream);
}

/* ---- All combinations of heads ---- */

/* Transfers the root, by a call for one object or for several. */
static void check_combination(int combination, bool push, bool several, synced_mem_stream stream)
{
    synced_mem *const root = make_root(combination % 2);
    synced_mem *parts[PARTS];
    synced_mem_head_kind heads[PARTS];
    uint64_t bytes = 0;
    const synced_mem_head_kind from = push ? CPU : GPU, to = push ? GPU : CPU;
    for (int i = 0; i < PARTS; i++, combination /= HEADS) {
        heads[i] = (synced_mem_head_kind)(combination % HEADS);
        parts[i] = view_of(root, begins[i], ends[i] - begins[i]);
        bring_to(parts[i], heads[i], 1 + (unsigned)i);
        bytes += heads[i] == from ? ends[i] - begins[i] : 0;
    }
    const synced_mem_head_kind before = head_of_parts(heads, PARTS);
    ck_assert_int_eq(synced_mem_head(root), before);
    const synced_mem_stats stats = stats_now();
    if (before == UN || before == to) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE,
              several ? transfer_n(&root, 1, push, stream) : transfer(root, push, stream));
        SAYS(before == UN ? "UNINITIALIZED" : push ? "AT_GPU" : "AT_CPU");
        bytes = 0;
    } else {
        OK(several ? transfer_n(&root, 1, push, stream) : transfer(root, push, stream));
        for (int i = 0; i < PARTS; i++)
            heads[i] = heads[i] == from ? SYN : heads[i];
    }
    check_bytes(&stats, push ? bytes : 0, push ? 0 : bytes);
    for (int i = 0; i < PARTS; i++)
        ck_assert_int_eq(synced_mem_head(parts[i]), heads[i]);
    ck_assert_int_eq(synced_mem_head(root), head_of_parts(heads, PARTS));
    for (int i = 0; push && i < PARTS; i++)
        if (heads[i] & GPU) /* a kernel behind the push sees the contents */
            kernel_reads(parts[i], stream);
    const synced_mem_stats then = stats_now();
    for (int i = 0; i < PARTS; i++)
        if (heads[i] & CPU)
            ck_assert(host_reads_right(parts[i]));
    check_bytes(&then, 0, 0);
    ck_assert(host_reads_right(root));
    release_all(parts, PARTS);
    OK(synced_mem_release(root));
}

START_TEST(combinations)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (int i = 0; i < HEADS * HEADS * HEADS; i++)
        check_combination(i, _i % 2, _i / 2, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    close_stream(stream);
}
END_TEST

/* Head MIXED with nothing to push is no error: the contents stay where they are. */
START_TEST(mixed_without_a_gpu)
{
    synced_mem *const root = make_root(false), *const part = view_of(root, 100, 200);
    host_writes(part, 1);
    HEAD(root, MIXED);
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push(root, NULL));
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push(part, NULL));
    ck_assert_int_eq(synced_mem_head(part), gpu_expected() ? SYN : CPU);
    HEAD(root, MIXED);
    ck_assert(host_reads_right(root));
    OK(synced_mem_release(part));
    OK(synced_mem_release(root));
}
END_TEST

/* ---- A view ---- */

/* A view is pushed and pulled alone, while its neighbours and an overlapping view keep their bytes. */
START_TEST(a_view_alone)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const root = make_root(_i), *const it = view_of(root, 5001, 10000);
    synced_mem *const half = view_of(it, 5000, 5000), *const beyond = view_of(it, 9000, 1000);
    synced_mem *const mems[] = {it, half, beyond, root};
    host_writes(root, 1);
    synced_mem_stats before = stats_now();
    OK(synced_mem_async_gpu_push(half, stream));
    check_bytes(&before, 5000, 0);
    HEAD(it, AT_CPU);
    HEAD(half, SYNCED);
    HEAD(beyond, SYNCED);
    before = stats_now();
    OK(synced_mem_async_gpu_push(it, stream));
    check_bytes(&before, 5000, 0);
    HEAD(it, SYNCED);
    HEAD(root, AT_CPU);
    before = stats_now();
    OK(synced_mem_async_gpu_push(it, stream)); /* nothing is left to push */
    check_bytes(&before, 0, 0);
    device_writes(beyond, 2, stream);
    HEAD(it, AT_GPU);
    HEAD(half, AT_GPU);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(half, stream));
    SAYS("AT_GPU");
    HEAD(root, MIXED);
    before = stats_now();
    OK(synced_mem_async_cpu_pull(it, stream));
    check_bytes(&before, 0, 1000);
    HEAD(it, SYNCED);
    HEAD(root, AT_CPU);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(root, stream));
    SAYS("AT_CPU");
    before = stats_now();
    ck_assert(host_reads_right(root));
    check_bytes(&before, 0, 0);
    ck_assert(device_reads_right(it));
    release_all(mems, 4);
    close_stream(stream);
}
END_TEST

/* ---- Several objects ---- */

/* Overlapping views, equal views, a root and its views: no byte is transferred twice. */
START_TEST(several)
{
    const bool push = _i % 2;
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const root = make_root(_i / 2 % 2);
    synced_mem *const a = view_of(root, 1000, 6000), *const b = view_of(root, 4000, 6000);
    synced_mem *const same = view_of(root, 4000, 6000), *const inner = view_of(a, 10, 100);
    synced_mem *const lists[][6] = {{a, b, same, a, inner, b}, {inner, root, a, b, same, root}, {a, a, a, a, a, a}};
    static const uint64_t bytes[] = {9000, ROOT, 6000};
    for (int i = 0; i < 3; i++) {
        if (push)
            host_writes(root, 1 + (unsigned)i);
        else
            device_writes(root, 1 + (unsigned)i, stream);
        const synced_mem_stats before = stats_now();
        OK(transfer_n(lists[i], 6, push, stream));
        check_bytes(&before, push ? bytes[i] : 0, push ? 0 : bytes[i]);
        for (int j = 0; j < 6; j++)
            HEAD(lists[i][j], SYNCED);
        for (int j = 0; push && j < 6; j++)
            kernel_reads(lists[i][j], stream);
        for (int j = 0; j < 6; j++)
            ck_assert(host_reads_right(lists[i][j]));
        check_bytes(&before, push ? bytes[i] : 0, push ? 0 : bytes[i]);
        ck_assert(host_reads_right(root));
    }
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    synced_mem *const mems[] = {a, b, same, inner, root};
    release_all(mems, 5);
    close_stream(stream);
}
END_TEST

/* One event serves all parts of all objects, of several roots. */
START_TEST(one_event)
{
    enum { ROOTS = 3, VIEWS = 8 };
    const bool push = _i % 2;
    if (!gpu_expected())
        return;
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
    OK(transfer_n(_i / 2 ? roots : views, _i / 2 ? ROOTS : ROOTS * VIEWS, push, stream));
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

/* The first object that is refused decides, and nothing is done. */
START_TEST(one_of_several_is_refused)
{
    const bool push = _i % 2;
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const root = make_root(_i / 2), *const a = view_of(root, 0, 5000), *const b = view_of(root, 4000, 5000);
    synced_mem *const other = make_at_cpu(ROOT, 1), *const bad = view_of(root, 20000, 1000);
    bring_to(a, push ? CPU : GPU, 1);
    synced_mem *const rest = view_of(root, 5000, 4000);
    bring_to(rest, push ? CPU : GPU, 2);
    OK(synced_mem_release(rest));
    bring_to(bad, push ? GPU : CPU, 3);
    if (!push)
        gpu_fill(synced_mem_overwrite_gpu_data_on(other, NULL), ROOT, 1, NULL);
    synced_mem *const mems[] = {a, other, b, bad, root};
    const synced_mem_head_kind heads[] = {synced_mem_head(a), synced_mem_head(other), synced_mem_head(b),
                                          synced_mem_head(bad), synced_mem_head(root)};
    const synced_mem_stats before = stats_now();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, transfer_n(mems, 5, push, stream));
    check_bytes(&before, 0, 0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(synced_mem_head(mems[i]), heads[i]);
    synced_mem *const null[] = {a, NULL};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, transfer_n(null, 2, push, stream));
    check_bytes(&before, 0, 0);
    ck_assert_int_eq(synced_mem_head(a), heads[0]);
    OK(transfer_n(mems, 3, push, stream));
    ck_assert(host_reads_right(root));
    ck_assert(host_is(synced_mem_cpu_data(other), ROOT, 1));
    release_all(mems, 5);
    close_stream(stream);
}
END_TEST

/* ---- Copies ---- */

/* Views of one root are copied to one another if no byte is in both. */
START_TEST(copies_within_a_root)
{
    const bool on_host = _i % 2;
    if (!gpu_expected() && !on_host)
        return;
    synced_mem *const root = make_root(_i / 2), *const a = view_of(root, 100, 5000),
                      *const b = view_of(root, 5100, 5000);
    synced_mem *const across = view_of(root, 5099, 5000), *const mems[] = {a, b, across, root};
    host_writes(root, 1);
    host_writes(a, 2);
    if (gpu_expected() && _i / 2)
        device_writes(a, 3, NULL);
    OK(on_host ? synced_mem_cpu_copy(b, a) : synced_mem_async_gpu_copy(b, a, NULL));
    memcpy(expected + 5100, expected + 100, 5000);
    ck_assert_int_eq(synced_mem_head(b), on_host ? CPU : GPU);
    ck_assert(host_reads_right(b));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT,
          on_host ? synced_mem_cpu_copy(across, a) : synced_mem_async_gpu_copy(across, a, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT,
          on_host ? synced_mem_cpu_copy(a, across) : synced_mem_async_gpu_copy(a, across, NULL));
    ck_assert(host_reads_right(root));
    release_all(mems, 4);
}
END_TEST

/* The other object gets all of an object in parts, wherever its parts are. */
START_TEST(copies_of_parts)
{
    const bool on_host = _i % 2;
    if (!gpu_expected() && !on_host)
        return;
    synced_mem *const root = make_root(_i / 2), *const to = make(12000);
    synced_mem *const it = view_of(root, 1000, 12000), *const first = view_of(it, 0, 4000);
    synced_mem *const second = view_of(it, 4000, 4000), *const third = view_of(it, 8000, 4000);
    synced_mem *const mems[] = {it, first, second, third, root, to};
    bring_to(first, CPU, 1);
    bring_to(second, gpu_expected() ? GPU : CPU, 2);
    bring_to(third, gpu_expected() ? SYN : CPU, 3);
    OK(on_host ? synced_mem_cpu_copy(to, it) : synced_mem_async_gpu_copy(to, it, NULL));
    const void *const data = given(synced_mem_cpu_data(to));
    gpu_note_host_read(data, 12000);
    ck_assert_int_eq(memcmp(data, expected + 1000, 12000), 0);
    ck_assert(host_reads_right(root));
    host_fill(synced_mem_mutable_cpu_data(to), 12000, 4);
    OK(on_host ? synced_mem_cpu_copy(it, to) : synced_mem_async_gpu_copy(it, to, NULL));
    expect(it, 4);
    ck_assert_int_eq(synced_mem_head(it), on_host ? CPU : GPU);
    ck_assert_int_eq(synced_mem_head(second), on_host ? CPU : GPU);
    ck_assert_int_eq(synced_mem_head(root), on_host ? CPU : SYNCED_MEM_MIXED);
    ck_assert(host_reads_right(root));
    release_all(mems, 6);
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
    synced_mem *const mems[] = {a, b, other, root};
    release_all(mems, 4);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("transfers of views");
    TCase *const one = add_case(made, "one object");
    tcase_add_loop_test(one, combinations, 0, 4);
    tcase_add_test(one, mixed_without_a_gpu);
    tcase_add_loop_test(one, a_view_alone, 0, 2);
    TCase *const many = add_case(made, "several objects");
    tcase_add_loop_test(many, several, 0, 4);
    tcase_add_loop_test(many, one_event, 0, 4);
    tcase_add_loop_test(many, one_of_several_is_refused, 0, 4);
    TCase *const copies = add_case(made, "copies");
    tcase_add_loop_test(copies, copies_within_a_root, 0, 4);
    tcase_add_loop_test(copies, copies_of_parts, 0, 4);
    tcase_add_loop_test(copies, copies_within_memory, 0, 4);
    return made;
}
