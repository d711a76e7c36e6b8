/* Checks writes of contents to files: their sources, their order, and what waits for them. */
#include "files_kit.h"

enum { SIZE = 70001, FILES_SIZE = 300000 };

/* Writes the object, and checks the bytes of the file, of which those from the offset on have the pattern. */
static void check_written(synced_mem *mem, synced_mem_file *file, uint64_t offset, unsigned pattern,
                          synced_mem_stream stream)
{
    OK(synced_mem_async_write_file(mem, file, offset, stream));
    OK(synced_mem_file_wait(file));
    pattern_write(in_file + offset, synced_mem_size(mem), pattern);
    ck_assert(file_is_right(FILES_SIZE));
}

START_TEST(from_the_host)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    check_written(mem, file, 3, 2, SYNCED_MEM_NO_STREAM);
    STATE(mem, AT_CPU, 0);
    ck_assert_uint_eq(stats_now().file_write_bytes, SIZE);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* No host copy is made. */
START_TEST(from_the_device)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_gpu(SIZE, 2);
    check_written(mem, file, 3, 2, _i == 0 ? SYNCED_MEM_NO_STREAM : NULL);
    STATE(mem, AT_GPU, 0);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(stats_now().d2h_bytes, SIZE);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* The file gets the contents as they are in the order of the stream. */
START_TEST(in_the_order_of_a_stream)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    const synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), SIZE, 2, stream);
    OK(synced_mem_async_write_file(mem, file, 3, _i == 0 ? stream : other));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), SIZE, 4, stream); /* comes after the write */
    OK(synced_mem_file_wait(file));
    pattern_write(in_file + 3, SIZE, 2);
    ck_assert(file_is_right(FILES_SIZE));
    CLOSE_EACH(stream, other);
    ck_assert(device_is(given(synced_mem_gpu_data(mem)), SIZE, 4));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* A pull is in flight: the write comes after it. */
START_TEST(after_a_pull)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), SIZE, 2, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    check_written(mem, file, 3, 2, stream);
    close_stream(stream);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* Contents in one file go to another place of it, or to another file. */
START_TEST(from_a_file)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_in_file(SIZE, file, 7);
    memcpy(in_file + 100000, in_file + 7, SIZE);
    OK(synced_mem_async_write_file(mem, file, 100000, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(FILES_SIZE));
    STATE(mem, AT_CPU, 1);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(the_object_may_go)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = _i == 0 ? make_at_cpu(SIZE, 2) : make_at_gpu(SIZE, 2);
    OK(synced_mem_async_write_file(mem, file, 3, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_release(mem));
    OK(synced_mem_file_wait(file));
    pattern_write(in_file + 3, SIZE, 2);
    ck_assert(file_is_right(FILES_SIZE));
    end_file(file);
}
END_TEST

START_TEST(the_file_may_go)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    OK(synced_mem_async_write_file(mem, file, 3, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_release(file));
    OK(synced_mem_wait(mem));
    pattern_write(in_file + 3, SIZE, 2);
    ck_assert(file_is_right(FILES_SIZE));
    OK(synced_mem_release(mem));
    close_behind();
}
END_TEST

/* A host write after the call waits until the bytes are in the file. */
START_TEST(writes_wait)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    for (unsigned round = 0; round < 20; round++) {
        OK(synced_mem_async_write_file(mem, file, 3, SYNCED_MEM_NO_STREAM));
        ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 2 + round)); /* readers go on */
        host_fill(given(synced_mem_mutable_cpu_data(mem)), SIZE, 3 + round);
        OK(synced_mem_file_wait(file));
        pattern_write(in_file + 3, SIZE, 2 + round);
        ck_assert(file_is_right(FILES_SIZE));
    }
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* Writes of the same bytes go in the order of the calls, and reads come after them. */
START_TEST(overlaps_go_in_order)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *mems[30];
    for (unsigned i = 0; i < 30; i++) {
        mems[i] = i % 2 && gpu_expected() ? make_at_gpu(SIZE, 2 + i) : make_at_cpu(SIZE, 2 + i);
        OK(synced_mem_async_write_file(mems[i], file, 1000 * i, SYNCED_MEM_NO_STREAM));
        pattern_write(in_file + 1000 * (size_t)i, SIZE, 2 + i);
    }
    synced_mem *const reader = make_in_file(FILES_SIZE, file, 0);
    ck_assert(host_has(reader, 0));
    ck_assert(file_is_right(FILES_SIZE));
    OK(synced_mem_release(reader));
    release_all(mems, 30);
    OK(synced_mem_file_wait(file));
    end_file(file);
}
END_TEST

/* Bytes that a pending write makes can be used at once, also behind the file's end. */
START_TEST(behind_the_end)
{
    synced_mem_file *const file = make_file(10, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2), *const other = make(SIZE);
    OK(synced_mem_async_write_file(mem, file, 10, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_use_file(other, file, 10));
    ck_assert(host_is(given(synced_mem_cpu_data(other)), SIZE, 2));
    RELEASE_EACH(mem, other);
    end_file(file);
}
END_TEST

START_TEST(a_list)
{
    enum { COUNT = 50, EACH = 4999 };
    static synced_mem *mems[COUNT];
    static uint64_t offsets[COUNT];
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        mems[i] = i % 3 || !gpu_expected() ? make_at_cpu(EACH, 2 + i) : make_at_gpu(EACH, 2 + i);
        offsets[i] = 5 + (i * 7 % COUNT) * EACH;
        pattern_write(in_file + offsets[i], EACH, 2 + i);
    }
    OK(synced_mem_async_write_file_n(mems, file, offsets, COUNT, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(FILES_SIZE));
    release_all(mems, COUNT);
    end_file(file);
}
END_TEST

/* Parts go from where each of them is valid. */
START_TEST(of_parts)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const root = make_at_cpu(SIZE, 2);
    synced_mem *view = NULL;
    OK(synced_mem_view(&view, root, 1000, 20000, NULL));
    if (gpu_expected())
        gpu_fill(given(synced_mem_overwrite_gpu_data(view)), 20000, 3, NULL);
    else
        host_fill(given(synced_mem_overwrite_cpu_data(view)), 20000, 3);
    OK(synced_mem_async_write_file(root, file, 3, gpu_expected() ? NULL : SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    pattern_write(in_file + 3, SIZE, 2);
    pattern_write(in_file + 1003, 20000, 3);
    ck_assert(file_is_right(FILES_SIZE));
    RELEASE_EACH(view, root);
    end_file(file);
}
END_TEST

START_TEST(query_includes_it)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    int pending = 1;
    OK(synced_mem_async_write_file(mem, file, 3, SYNCED_MEM_NO_STREAM));
    while (pending)
        OK(synced_mem_query(mem, &pending));
    pattern_write(in_file + 3, SIZE, 2);
    ck_assert(file_is_right(FILES_SIZE));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_writes");
    TCase *const sources = add_case(made, "sources");
    add_tests(sources, from_the_host, from_a_file, a_list, of_parts);
    add_gpu_loop_test(sources, from_the_device, 0, 2);
    add_gpu_loop_test(sources, in_the_order_of_a_stream, 0, 2);
    add_gpu_tests(sources, after_a_pull);
    TCase *const waits = add_case(made, "waits");
    add_tests(waits, the_file_may_go, writes_wait, overlaps_go_in_order, behind_the_end, query_includes_it);
    tcase_add_loop_test(waits, the_object_may_go, 0, gpu_expected() ? 2 : 1);
    return made;
}
