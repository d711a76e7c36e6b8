/* Checks objects in parts whose contents are in files: views read, write and leave their own bytes alone. */
#include "files_kit.h"

enum { ROOT = 300007, FROM = 5, FIRST = 100, SECOND = 100000, PART = 70001, LAST = 250000 };

static synced_mem *view_of(synced_mem *of, size_t offset, size_t size)
{
    synced_mem *out = NULL;
    OK(synced_mem_view(&out, of, offset, size, NULL));
    return out;
}

/* A view reads its bytes, and no others. */
START_TEST(a_view_reads_its_own)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const root = make_in_file(ROOT, file, FROM);
    synced_mem *const view = view_of(root, SECOND, PART), *const other = view_of(root, LAST, 11);
    STATE(view, UNINITIALIZED, 1);
    ck_assert(host_has(view, FROM + SECOND));
    ck_assert_uint_eq(stats_now().file_read_bytes, PART);
    STATE(view, AT_CPU, 1);
    STATE(other, UNINITIALIZED, 1);
    STATE(root, MIXED, 1);
    host_fill(given(synced_mem_mutable_cpu_data(other)), 11, 4);
    pattern_write(in_file + FROM + LAST, 11, 4);
    STATE(other, AT_CPU, 0);
    STATE(view, AT_CPU, 1);
    STATE(root, MIXED, 0);
    ck_assert(host_has(root, FROM));
    ck_assert_uint_eq(stats_now().file_read_bytes, ROOT + 11); /* with the small gap, though it was read before */
    STATE(root, AT_CPU, 0);
    RELEASE_EACH(view, other, root);
    end_file(file);
}
END_TEST

/* The pieces of a root are read by one call of the system, as they follow one another in the file. */
START_TEST(all_views_at_once)
{
    enum { COUNT = 100, EACH = 1003 };
    static synced_mem *views[COUNT];
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const root = make_in_file(COUNT * EACH, file, FROM);
    for (size_t i = 0; i < COUNT; i++)
        views[i] = view_of(root, i * EACH, EACH);
    if (_i == 0)
        ck_assert(host_has(root, FROM));
    else if (_i == 1)
        ck_assert(device_has(root, FROM));
    else if (_i == 2)
        OK(synced_mem_async_gpu_push(root, NULL));
    else
        OK(synced_mem_async_gpu_push_n(views, COUNT, NULL));
    ck_assert_int_eq(synced_mem_head(root), _i == 0 ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU);
    ck_assert_uint_eq(stats_now().file_read_bytes, COUNT * EACH);
    ck_assert_uint_eq(stats_now().file_reads, 1);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert(_i == 0 ? host_has(views[i], FROM + i * EACH) : device_has(views[i], FROM + i * EACH));
    ck_assert_int_eq(synced_mem_in_file(root), 1);
    release_all(views, COUNT);
    ck_assert(host_has(root, FROM));
    OK(synced_mem_release(root));
    end_file(file);
}
END_TEST

/* A push of a root in parts moves what is on the host, and reads what is in the file alone. */
START_TEST(a_push_of_mixed_parts)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const root = make_in_file(ROOT, file, FROM), *const view = view_of(root, SECOND, PART);
    host_fill(given(synced_mem_overwrite_cpu_data(view)), PART, 3);
    pattern_write(in_file + FROM + SECOND, PART, 3);
    OK(synced_mem_async_gpu_push(root, NULL));
    STATE(view, SYNCED, 0);
    HEAD(root, AT_GPU);
    ck_assert(device_has(root, FROM));
    ck_assert_uint_eq(stats_now().file_read_bytes, ROOT - PART);
    RELEASE_EACH(view, root);
    end_file(file);
}
END_TEST

/* Views may be in files on their own, at any places. */
START_TEST(views_in_files)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const root = make(2 * PART);
    synced_mem *const first = view_of(root, 0, PART), *const second = view_of(root, PART, PART);
    OK(synced_mem_use_file(first, file, 500000));
    STATE(first, UNINITIALIZED, 1);
    STATE(second, UNINITIALIZED, 0);
    STATE(root, UNINITIALIZED, 0);
    OK(synced_mem_use_file(second, file, FROM));
    STATE(root, UNINITIALIZED, 1);
    const unsigned char *const data = given(synced_mem_cpu_data(root));
    ck_assert(bytes_are_of_file(data, PART, 500000));
    ck_assert(bytes_are_of_file(data + PART, PART, FROM));
    RELEASE_EACH(first, second);
    STATE(root, AT_CPU, 1);
    synced_mem *const third = view_of(root, PART / 2, PART);
    OK(synced_mem_release_cpu_data(root));
    const unsigned char *const across = given(synced_mem_cpu_data(third));
    ck_assert(bytes_are_of_file(across, PART - PART / 2, 500000 + PART / 2));
    ck_assert(bytes_are_of_file(across + PART - PART / 2, PART / 2, FROM));
    RELEASE_EACH(root, third);
    end_file(file);
}
END_TEST

/* The last reference may be a view's, or the root's while it is in parts. */
START_TEST(ends_in_parts)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const root = make(2 * PART);
    synced_mem *const first = view_of(root, 0, PART), *const second = view_of(root, PART, PART);
    OK(synced_mem_use_file(first, file, 500000));
    OK(synced_mem_use_file(second, file, FROM));
    if (_i & 1)
        (void)given(synced_mem_cpu_data(second));
    if (_i & 2)
        RELEASE_EACH(root, first, second);
    else
        RELEASE_EACH(first, second, root);
    ck_assert_uint_eq(stats_now().objects, 0);
    end_file(file);
}
END_TEST

/* An object that has views for a while is in its file before and after. */
START_TEST(divided_for_a_while)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const root = make_in_file(ROOT, file, FROM), *const view = view_of(root, SECOND, PART);
    OK(synced_mem_release(view));
    STATE(root, UNINITIALIZED, 1);
    ck_assert(host_has(root, FROM));
    synced_mem *const again = view_of(root, FIRST, PART);
    STATE(again, AT_CPU, 1);
    OK(synced_mem_release_cpu_data(root));
    STATE(again, UNINITIALIZED, 1);
    ck_assert(host_has(again, FROM + FIRST));
    OK(synced_mem_release(again));
    STATE(root, MIXED, 1);
    ck_assert(host_has(root, FROM));
    OK(synced_mem_resize(root, 2 * ROOT));
    STATE(root, AT_CPU, 0);
    ck_assert(bytes_are_of_file(given(synced_mem_cpu_data(root)), ROOT, FROM));
    OK(synced_mem_release(root));
    end_file(file);
}
END_TEST

/* Resizes gather parts from files and from both sides. */
START_TEST(resize_of_parts)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const root = make(2 * PART);
    synced_mem *const first = view_of(root, 0, PART), *const second = view_of(root, PART, PART);
    OK(synced_mem_use_file(first, file, 500000));
    OK(synced_mem_use_file(second, file, FROM));
    if (_i == 1)
        (void)given(synced_mem_gpu_data(second));
    if (_i == 2)
        (void)given(synced_mem_cpu_data(first));
    RELEASE_EACH(first, second);
    OK(synced_mem_resize(root, 2 * PART + 10));
    ck_assert_int_eq(synced_mem_in_file(root), 0);
    const unsigned char *const data = given(synced_mem_cpu_data(root));
    ck_assert(bytes_are_of_file(data, PART, 500000));
    ck_assert(bytes_are_of_file(data + PART, PART, FROM));
    ck_assert(pattern_is(data + 2 * PART, 10, 0));
    OK(synced_mem_release(root));
    end_file(file);
}
END_TEST

/* A copy of parts that are in a file and on the sides. */
START_TEST(copies_of_mixed_parts)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const from = make_in_file(ROOT, file, FROM), *const to = make(ROOT);
    synced_mem *const view = view_of(from, SECOND, PART), *const of_to = view_of(to, FIRST, PART);
    host_fill(given(synced_mem_mutable_cpu_data(view)), PART, 3);
    pattern_write(in_file + FROM + SECOND, PART, 3);
    if (_i == 0)
        OK(synced_mem_cpu_copy(to, from));
    else
        OK(synced_mem_async_gpu_copy(to, from, NULL));
    ck_assert(_i == 0 ? host_has(to, FROM) : device_has(to, FROM));
    RELEASE_EACH(view, of_to, from, to);
    end_file(file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_views");
    TCase *const tests = add_case(made, "views");
    add_tests(tests, a_view_reads_its_own, views_in_files, divided_for_a_while);
    tcase_add_loop_test(tests, all_views_at_once, 0, gpu_expected() ? 4 : 1);
    tcase_add_loop_test(tests, ends_in_parts, 0, 4);
    tcase_add_loop_test(tests, copies_of_mixed_parts, 0, gpu_expected() ? 2 : 1);
    add_gpu_tests(tests, a_push_of_mixed_parts);
    add_gpu_loop_test(tests, resize_of_parts, 0, 3);
    return made;
}
