/*
 * Checks which views have their pointers published for the hot path, and that views which come and go take and leave
 * them.
 */
#include "views_kit.h"

#include "object/object.h"

enum { BEGIN = 1001, SIZE = 8000 };

/* Returns whether an access without a stream would return at once. */
static bool is_hot(synced_mem *mem, enum sm_side side, bool writing)
{
    return atomic_load(&mem->ready[side][writing]) != NULL;
}

/* The device's side is tested where there is one. */
static int sides(void)
{
    return gpu_expected() ? 2 : 1;
}

static const void *read_side(synced_mem *mem, enum sm_side side)
{
    return given(side == SM_CPU ? synced_mem_cpu_data(mem) : synced_mem_gpu_data(mem));
}

static void *mutate_side(synced_mem *mem, enum sm_side side)
{
    return given(side == SM_CPU ? synced_mem_mutable_cpu_data(mem) : synced_mem_mutable_gpu_data(mem));
}

static void write_side(synced_mem *mem, enum sm_side side, unsigned pattern)
{
    if (side == SM_CPU)
        host_writes(mem, pattern);
    else
        gpu_fill(given(synced_mem_overwrite_gpu_data(mem)), synced_mem_size(mem), pattern, NULL);
    expect(mem, pattern);
}

/* Reads by an access without a stream. */
static bool reads_right(synced_mem *mem, enum sm_side side)
{
    static unsigned char bytes[ROOT];
    if (side == SM_CPU)
        return host_reads_right(mem);
    gpu_read(bytes, read_side(mem, side), synced_mem_size(mem));
    return memcmp(bytes, expected + synced_mem_offset(mem), synced_mem_size(mem)) == 0;
}

/* ---- The hot path ---- */

START_TEST(a_view_is_hot)
{
    synced_mem *const root = make_root(_i), *const it = view_of(root, BEGIN, SIZE),
                      *const other = view_of(root, 0, BEGIN);
    for (enum sm_side side = SM_CPU; side < (enum sm_side)sides(); side++) {
        write_side(other, side, 1);
        void *const data = mutate_side(it, side);
        ck_assert_ptr_eq(read_side(it, side), data);
        ck_assert(is_hot(it, side, true));
        ck_assert(is_hot(it, side, false));
        ck_assert(!is_hot(it, SM_CPU + SM_GPU - side, false));
        const synced_mem_stats before = stats_now();
        const unsigned calls = gpu_calls(NULL);
        for (int i = 0; i < 3; i++) {
            ck_assert_ptr_eq(mutate_side(it, side), data);
            ck_assert_ptr_eq(read_side(it, side), data);
        }
        const synced_mem_stats after = stats_now();
        ck_assert_int_eq(memcmp(&before, &after, sizeof after), 0);
        ck_assert_uint_eq(gpu_calls(NULL), calls);
    }
    RELEASE_EACH(it, other, root);
}
END_TEST

/* A cut inside a view takes its published pointers; other views keep theirs. The view gets them back without the
 * cut. */
START_TEST(a_cut)
{
    const enum sm_side side = (enum sm_side)(_i / 2);
    if ((int)side >= sides())
        return;
    synced_mem *const root = make_root(_i % 2), *const it = view_of(root, BEGIN, SIZE);
    synced_mem *const beside = view_of(root, BEGIN + SIZE, SIZE);
    write_side(root, side, 1);
    void *const data = mutate_side(it, side), *const next = mutate_side(beside, side);
    ck_assert(is_hot(it, side, true));
    ck_assert(is_hot(beside, side, true));
    synced_mem *const inner = view_of(it, 1000, 1000);
    ck_assert(!is_hot(it, side, false));
    ck_assert(!is_hot(it, side, true));
    ck_assert_ptr_eq(atomic_load(&beside->ready[side][1]), next);
    ck_assert_ptr_eq(mutate_side(it, side), data);
    ck_assert(!is_hot(it, side, true)); /* it is in parts */
    ck_assert_ptr_eq(mutate_side(inner, side), (char *)data + 1000);
    ck_assert(is_hot(inner, side, true));
    write_side(inner, side, 2);
    ck_assert(reads_right(it, side));
    OK(synced_mem_release(inner));
    ck_assert_ptr_eq(mutate_side(it, side), data);
    ck_assert(is_hot(it, side, true));
    ck_assert(reads_right(it, side));
    RELEASE_EACH(it, beside);
    ck_assert(reads_right(root, side));
    host_writes(root, 3); /* ends the kernels' uses of the parts, which differ */
    (void)mutate_side(root, side);
    ck_assert(is_hot(root, side, true));
    ck_assert(reads_right(root, side));
    OK(synced_mem_release(root));
}
END_TEST

/* Views of the same bytes are hot at the same time. A write through one takes the other's pointers. */
START_TEST(the_same_bytes)
{
    synced_mem *const root = make_root(_i % 2), *const a = _i / 2 ? root : view_of(root, BEGIN, SIZE);
    synced_mem *const b = view_of(a, 0, synced_mem_size(a)), *const c = view_of(b, 0, synced_mem_size(a));
    synced_mem *const mems[] = {a, b, c};
    host_writes(root, 1);
    for (int i = 0; i < 3; i++)
        (void)mutate_side(mems[i], SM_CPU);
    for (int i = 0; i < 3; i++)
        ck_assert(is_hot(mems[i], SM_CPU, true));
    for (unsigned i = 0; gpu_expected() && i < 9; i++) {
        const enum sm_side side = i % 2 ? SM_CPU : SM_GPU, other = i % 2 ? SM_GPU : SM_CPU;
        for (int j = 0; j < 3; j++)
            (void)mutate_side(mems[j], other);
        write_side(mems[i % 3], side, 2 + i);
        for (int j = 0; j < 3; j++)
            ck_assert(!is_hot(mems[j], other, false));
        for (int j = 0; j < 3; j++)
            ck_assert(reads_right(mems[(i + 1 + (unsigned)j) % 3], other));
        for (int j = 0; j < 3; j++)
            ck_assert(!is_hot(mems[j], side, true)); /* both sides are valid */
    }
    OK(synced_mem_release(c));
    ck_assert(host_reads_right(b));
    OK(synced_mem_release(b));
    ck_assert(host_reads_right(a));
    if (a != root)
        OK(synced_mem_release(a));
    OK(synced_mem_release(root));
}
END_TEST

/* A write to some of its bytes, through another view, takes a view's pointers. */
START_TEST(bytes_in_common)
{
    synced_mem *const root = make_root(_i % 2), *const a = view_of(root, BEGIN, SIZE);
    host_writes(root, 1);
    (void)read_side(a, SM_CPU);
    ck_assert(is_hot(a, SM_CPU, false));
    if (_i / 2) {
        device_writes(root, 2, NULL);
        ck_assert(!is_hot(a, SM_CPU, false));
    } else {
        synced_mem *const b = view_of(root, BEGIN + SIZE - 1, SIZE);
        device_writes(b, 2, NULL);
        ck_assert(!is_hot(a, SM_CPU, false));
        OK(synced_mem_release(b));
    }
    ck_assert(host_reads_right(a));
    OK(synced_mem_release(a));
    ck_assert(host_reads_right(root));
    OK(synced_mem_release(root));
}
END_TEST

/* A stream's repeated accesses to a view call nothing, also beside other views' streams. */
START_TEST(hot_on_streams)
{
    synced_mem_stream one = open_stream(NON_BLOCKING), two = open_stream(NON_BLOCKING);
    synced_mem *const root = make_root(_i), *const a = view_of(root, 0, SIZE), *const b = view_of(root, SIZE, SIZE);
    host_writes(root, 1);
    void *const data = given(synced_mem_mutable_gpu_data_on(a, one));
    const void *const there = given(synced_mem_gpu_data_on(b, two));
    ck_assert_ptr_eq(synced_mem_gpu_data_on(a, one), data);
    const synced_mem_stats before = stats_now();
    const unsigned calls = gpu_calls(NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(a, one), data);
        ck_assert_ptr_eq(synced_mem_gpu_data_on(b, two), there);
        ck_assert_ptr_eq(synced_mem_gpu_data_on(a, one), data);
    }
    const synced_mem_stats after = stats_now();
    ck_assert_int_eq(memcmp(&before, &after, sizeof after), 0);
    ck_assert_uint_eq(gpu_calls(NULL), calls);
    ck_assert_ptr_eq((char *)data + SIZE, there);
    RELEASE_EACH(a, b, root);
    CLOSE_EACH(one, two);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("pointers of views");
    TCase *const hot = add_case(made, "hot path");
    tcase_add_loop_test(hot, a_view_is_hot, 0, 2);
    tcase_add_loop_test(hot, a_cut, 0, 4);
    tcase_add_loop_test(hot, the_same_bytes, 0, 4);
    add_gpu_loop_test(hot, bytes_in_common, 0, 4);
    add_gpu_loop_test(hot, hot_on_streams, 0, 2);
    return made;
}
