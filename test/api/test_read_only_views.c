/* Checks views of objects with read-only memory: no call on a view writes it. */
#include "read_only_kit.h"

enum { PARTS = 5, PART = SIZE / PARTS };

static synced_mem *view_of(synced_mem *of, size_t offset, size_t size)
{
    synced_mem *view;
    OK(synced_mem_view(&view, of, offset, size, NULL));
    return view;
}

static void fill_part(void *bytes, size_t part, unsigned pattern)
{
    pattern_write((char *)bytes + part * PART, PART, pattern);
}

START_TEST(a_view_writes_other_memory)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i % 2);
    synced_mem *const view = view_of(mem, PART, PART);
    synced_mem *const other = view_of(mem, 3 * PART, PART);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    fill_part(expected, 3, 3);
    ck_assert_ptr_eq(synced_mem_cpu_data(other), (char *)file + 3 * PART);
    void *const data = _i / 2 ? synced_mem_overwrite_cpu_data(view) : synced_mem_mutable_cpu_data(view);
    if (_i / 2 == 0)
        ck_assert_mem_eq(data, (char *)file + PART, PART);
    host_fill(data, PART, 2);
    ck_assert_ptr_eq(synced_mem_cpu_data(other), (char *)data + 2 * PART);
    host_fill(synced_mem_mutable_cpu_data(other), PART, 3);
    check_renewed(mem, file, _i % 2);
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE);
    unmap_file(file, SIZE, 1);
    RELEASE_EACH(view, other, mem);
}
END_TEST

enum { VIEW_READ, VIEW_PULL, VIEW_COPY, VIEW_RELEASE, VIEW_WAYS };

/* A kernel has written one view, so the file is stale in part. */
START_TEST(a_transfer_of_a_view_takes_other_memory)
{
    const int way = _i / 2;
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i % 2);
    synced_mem *const view = view_of(mem, PART, PART);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    write_on_device(view, PART, 2);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_MIXED);
    if (way == VIEW_READ)
        ck_assert_ptr_nonnull(synced_mem_cpu_data(view));
    if (way == VIEW_PULL)
        OK(synced_mem_async_cpu_pull(mem, NULL));
    if (way == VIEW_COPY) {
        synced_mem *const from = make_at_cpu(PART, 2);
        OK(synced_mem_cpu_copy(view, from));
        OK(synced_mem_release(from));
    }
    if (way == VIEW_RELEASE)
        OK(synced_mem_release_gpu_data(mem));
    ck_assert_int_ne(synced_mem_head(view), SYNCED_MEM_AT_GPU);
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE);
    check_renewed(mem, file, _i % 2);
    unmap_file(file, SIZE, 1);
    RELEASE_EACH(view, mem);
}
END_TEST

/* The host has written one view of read-only device memory. */
START_TEST(a_view_writes_other_device_memory)
{
    const bool adopted = _i % 2;
    void *const data = read_only_device(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, adopted);
    synced_mem *const view = view_of(mem, PART, PART);
    synced_mem *const other = view_of(mem, 3 * PART, PART);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    ck_assert_ptr_eq(synced_mem_gpu_data(other), (char *)data + 3 * PART);
    host_fill(synced_mem_overwrite_cpu_data(view), PART, 2);
    if (_i / 2 == 0)
        OK(synced_mem_async_gpu_push(view, stream));
    if (_i / 2 == 1)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(view, stream));
    if (_i / 2 == 2)
        gpu_fill(synced_mem_overwrite_gpu_data_on(view, stream), PART, 2, stream);
    gpu_expect(synced_mem_gpu_data_on(other, stream), PART, expected + 3 * PART, stream);
    gpu_expect(synced_mem_gpu_data_on(mem, stream), SIZE, expected, stream);
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    ck_assert(device_is(data, SIZE, 1));
    OK(synced_mem_wait(mem));
    close_stream(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, adopted);
    RELEASE_EACH(view, other, mem);
    gpu_free(data);
}
END_TEST

/* The object stays in parts, of which some are AT_GPU. */
START_TEST(a_resize_of_an_object_in_parts)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, _i);
    synced_mem *const view = view_of(mem, PART, PART);
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 1);
    fill_part(expected, 1, 2);
    write_on_device(view, PART, 2);
    OK(synced_mem_release(view));
    OK(synced_mem_resize(mem, SIZE - 1));
    ck_assert_mem_eq(synced_mem_cpu_data(mem), expected, SIZE - 1);
    check_renewed(mem, file, _i);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("views of read-only memory");
    TCase *const tcase = add_case(all, "views");
    tcase_add_loop_test(tcase, a_view_writes_other_memory, 0, 4);
    add_gpu_loop_test(tcase, a_transfer_of_a_view_takes_other_memory, 0, 2 * VIEW_WAYS);
    add_gpu_loop_test(tcase, a_view_writes_other_device_memory, 0, 6);
    add_gpu_loop_test(tcase, a_resize_of_an_object_in_parts, 0, 2);
    return all;
}
