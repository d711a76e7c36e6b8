/* Checks contents in files: reads to the side that needs them, the head and the bit beside it, and calls that leave the
 * file. */
#include "accesses.h"
#include "files_kit.h"

enum { OFFSET = 4099, SIZE = 70001 };

/* ---- Reads ---- */

START_TEST(the_host_reads)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(FILE_BYTES - 7, file, 7);
    STATE(mem, UNINITIALIZED, 1);
    ck_assert_uint_eq(stats_now().file_read_bytes, 0);
    ck_assert(host_has(mem, 7));
    STATE(mem, AT_CPU, 1);
    ck_assert_uint_eq(stats_now().file_read_bytes, FILE_BYTES - 7);
    ck_assert(host_has(mem, 7));
    ck_assert_uint_eq(stats_now().file_read_bytes, FILE_BYTES - 7);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(the_device_reads_without_a_host_copy)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(FILE_BYTES - 7, file, 7);
    ck_assert(device_has(mem, 7));
    STATE(mem, AT_GPU, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(stats_now().file_read_bytes, FILE_BYTES - 7);
    ck_assert_uint_eq(stats_now().h2d_bytes, FILE_BYTES - 7);
    ck_assert(host_has(mem, 7)); /* from the device, which is nearer */
    STATE(mem, SYNCED, 1);
    ck_assert_uint_eq(stats_now().file_read_bytes, FILE_BYTES - 7);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(a_stream_reads)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_expect(given(synced_mem_gpu_data_on(mem, stream)), SIZE, in_file + OFFSET, stream);
    STATE(mem, AT_GPU, 1);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    close_stream(stream);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* A push reads to the device, and work that is queued afterwards sees the contents. */
START_TEST(a_push_reads)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(synced_mem_async_gpu_push(mem, stream));
    STATE(mem, AT_GPU, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    gpu_expect(given(synced_mem_gpu_data_on(mem, stream)), SIZE, in_file + OFFSET, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    close_stream(stream);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(a_pull_reads)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(synced_mem_async_cpu_pull(mem, stream));
    STATE(mem, AT_CPU, 1);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert(host_has(mem, OFFSET));
    close_stream(stream);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* Neighbours are read by one system call. */
START_TEST(a_list_is_read_at_once)
{
    enum { COUNT = 200, EACH = 1009 };
    static synced_mem *mems[COUNT];
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    for (size_t i = 0; i < COUNT; i++) /* not in the file's order */
        mems[i] = make_in_file(EACH, file, 3 + (i * 77 % COUNT) * EACH);
    if (_i == 0)
        OK(synced_mem_async_gpu_push_n(mems, COUNT, NULL));
    else
        OK(synced_mem_async_cpu_pull_n(mems, COUNT, NULL));
    for (size_t i = 0; i < COUNT; i++)
        ck_assert(_i == 0 ? device_has(mems[i], 3 + (i * 77 % COUNT) * EACH)
                          : host_has(mems[i], 3 + (i * 77 % COUNT) * EACH));
    ck_assert_uint_eq(stats_now().file_reads, 1);
    ck_assert_uint_eq(stats_now().file_read_bytes, COUNT * EACH);
    release_all(mems, COUNT);
    end_file(file);
}
END_TEST

/* Returns how many reads as many bytes take at least. */
static uint64_t count_reads(size_t bytes)
{
    return (bytes + 262143) / 262144;
}

/* Objects that are not much smaller than a chunk do not make the reads smaller. Those that lie side by side in memory
 * too, as views do, are read as one. */
START_TEST(chunks_reach_across_objects)
{
    enum { COUNT = 14, EACH = 100003 };
    synced_mem *mems[COUNT], *const root = make_on(COUNT * EACH, _i ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    for (size_t i = 0; i < COUNT; i++)
        mems[i] = make_in_file(EACH, file, 3 + i * EACH);
    if (_i == 1) {
        OK(synced_mem_async_gpu_push_n(mems, COUNT, NULL));
        ck_assert_uint_eq(stats_now().file_reads, count_reads(COUNT * EACH));
    }
    for (size_t i = 0; i < COUNT; i++)
        ck_assert(_i == 1 ? device_has(mems[i], 3 + i * EACH) : host_has(mems[i], 3 + i * EACH));
    release_all(mems, COUNT);
    const uint64_t before = stats_now().file_reads;
    OK(synced_mem_use_file(root, file, 3));
    for (size_t i = 0; i < COUNT; i++)
        OK(synced_mem_view(&mems[i], root, i * EACH, EACH, NULL));
    ck_assert(_i == 1 ? device_has(root, 3) : host_has(root, 3));
    ck_assert_uint_eq(stats_now().file_reads - before, count_reads(COUNT * EACH));
    release_all(mems, COUNT);
    OK(synced_mem_release(root));
    end_file(file);
}
END_TEST

/* Memory of two objects may be side by side by chance; no copy reaches across. */
START_TEST(memory_side_by_side)
{
    enum { COUNT = 128, EACH = 4096 };
    synced_mem *mems[COUNT];
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    for (size_t i = 0; i < COUNT; i++)
        mems[i] = make_in_file(EACH, file, i * EACH);
    OK(synced_mem_async_gpu_push_n(mems, COUNT, NULL));
    bool side_by_side = false;
    for (size_t i = 0; i < COUNT; i++) {
        ck_assert(device_has(mems[i], i * EACH));
        side_by_side = side_by_side || (i > 0 && (const char *)synced_mem_gpu_data(mems[i]) ==
                                                     (const char *)synced_mem_gpu_data(mems[i - 1]) + EACH);
    }
    ck_assert(side_by_side || !gpu_is_emulated());
    release_all(mems, COUNT);
    end_file(file);
}
END_TEST

/* Gaps are read too if they are small; objects may have the same bytes. */
START_TEST(gaps_and_overlaps)
{
    static const size_t places[][2] = {{900000, 5000}, {0, 3000}, {3001, 10},     {1000, 4000},
                                       {500000, 1},    {2, 1},    {2000, 450000}, {905000, 0}};
    enum { COUNT = sizeof places / sizeof places[0] };
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *mems[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        mems[i] = make_in_file(places[i][1], file, places[i][0]);
    OK(synced_mem_async_gpu_push_n(mems, COUNT, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        STATE(mems[i], AT_GPU, 1);
        ck_assert(device_has(mems[i], places[i][0]));
    }
    release_all(mems, COUNT);
    end_file(file);
}
END_TEST

START_TEST(several_files)
{
    synced_mem_file *const first = make_file(FILE_BYTES, 1), *second = NULL;
    FILE *const one = behind;
    second = make_file(FILE_BYTES, 1);
    synced_mem *mems[] = {make_in_file(SIZE, second, 1), make_in_file(SIZE, first, OFFSET),
                          make_in_file(SIZE, second, SIZE), make_at_cpu(SIZE, 2)};
    OK(synced_mem_async_gpu_push_n(mems, 4, NULL));
    ck_assert(device_has(mems[0], 1) && device_has(mems[1], OFFSET) && device_has(mems[2], SIZE));
    ck_assert(device_is(given(synced_mem_gpu_data(mems[3])), SIZE, 2));
    HEAD(mems[3], SYNCED);
    ck_assert_int_eq(synced_mem_in_file(mems[3]), 0);
    release_all(mems, 4);
    end_file(second);
    OK(synced_mem_file_release(first));
    (void)fclose(one);
}
END_TEST

START_TEST(no_bytes)
{
    synced_mem_file *const file = make_file(100, 1);
    synced_mem *const mem = make_in_file(0, file, 100), *const root = make(10);
    synced_mem *view = NULL;
    OK(synced_mem_view(&view, root, 10, 0, NULL));
    OK(synced_mem_use_file(view, file, 3));
    STATE(mem, UNINITIALIZED, 1);
    STATE(view, UNINITIALIZED, 1);
    (void)given(synced_mem_cpu_data(mem));
    (void)given(synced_mem_cpu_data(view));
    STATE(mem, AT_CPU, 1);
    STATE(view, AT_CPU, 1);
    (void)given(synced_mem_mutable_cpu_data(view));
    STATE(view, AT_CPU, 0);
    RELEASE_EACH(mem, view, root);
    end_file(file);
}
END_TEST

/* The library has a descriptor of its own. */
START_TEST(the_descriptor_may_be_closed)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    close_behind();
    OK(synced_mem_file_release(file)); /* the object keeps it */
    ck_assert(host_has(mem, OFFSET));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(references)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    OK(synced_mem_file_retain(file));
    OK(synced_mem_file_release(file));
    synced_mem *const mem = make_in_file(SIZE, file, 0);
    ck_assert(host_has(mem, 0));
    OK(synced_mem_release(mem));
    end_file(file);
    OK(synced_mem_file_release(NULL));
}
END_TEST

/* ---- The head ---- */

/* Brings an object in the file to the head. */
static void bring_to(synced_mem *mem, synced_mem_head_kind head)
{
    if (head & SYNCED_MEM_AT_CPU)
        (void)given(synced_mem_cpu_data(mem));
    if (head & SYNCED_MEM_AT_GPU)
        (void)given(synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), head);
    ck_assert_int_eq(synced_mem_in_file(mem), 1);
}

static bool has_contents(synced_mem *mem, const void *data, enum access access)
{
    unsigned char bytes[SIZE];
    if (of_gpu(access))
        gpu_read(bytes, data, SIZE);
    return bytes_are_of_file(of_gpu(access) ? bytes : data, synced_mem_size(mem), OFFSET);
}

/* Reads stay in the file, writes leave it, and the head is that of the table. */
START_TEST(every_access)
{
    const synced_mem_head_kind head = (synced_mem_head_kind)(_i / ACCESSES);
    const enum access access = (enum access)(_i % ACCESSES);
    if (!gpu_expected() && (of_gpu(access) || (head & SYNCED_MEM_AT_GPU)))
        return;
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    const synced_mem_stream stream = gpu_expected() ? open_stream(NON_BLOCKING) : NULL;
    bring_to(mem, head);
    const uint64_t read_before = stats_now().file_read_bytes;
    const void *const data = given(do_access(mem, access, stream));
    if (access >= ON_READ)
        gpu_stream_sync(stream);
    ck_assert_int_eq(synced_mem_head(mem), next_head[head][plain(access)]);
    ck_assert_int_eq(synced_mem_in_file(mem), !writes(access));
    ck_assert(overwrites(access) || has_contents(mem, data, access));
    ck_assert_uint_eq(stats_now().file_read_bytes - read_before,
                      head == SYNCED_MEM_UNINITIALIZED && !overwrites(access) ? SIZE : 0);
    if (stream)
        close_stream(stream);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* A pointer to write is not published while the object is in the file, so the write is noticed. */
START_TEST(no_write_goes_unnoticed)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    ck_assert(host_has(mem, OFFSET));
    ck_assert(host_has(mem, OFFSET));
    STATE(mem, AT_CPU, 1);
    host_fill(given(synced_mem_mutable_cpu_data(mem)), SIZE, 2);
    STATE(mem, AT_CPU, 0);
    OK(synced_mem_release_gpu_data(mem));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 2));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* ---- Other calls ---- */

START_TEST(releases_move_nothing)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    (void)given(synced_mem_gpu_data(mem));
    OK(synced_mem_release_gpu_data(mem));
    STATE(mem, UNINITIALIZED, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(stats_now().d2h_bytes, 0);
    bring_to(mem, SYNCED_MEM_SYNCED);
    OK(synced_mem_release_cpu_data(mem));
    STATE(mem, AT_GPU, 1);
    OK(synced_mem_release_gpu_data(mem));
    STATE(mem, UNINITIALIZED, 1);
    bring_to(mem, SYNCED_MEM_SYNCED);
    OK(synced_mem_release_data(mem));
    STATE(mem, UNINITIALIZED, 1);
    ck_assert(host_has(mem, OFFSET));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(clear_leaves_the_file)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    OK(synced_mem_clear(mem));
    STATE(mem, UNINITIALIZED, 0);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 0));
    OK(synced_mem_use_file(mem, file, OFFSET));
    STATE(mem, UNINITIALIZED, 1);
    ck_assert(host_has(mem, OFFSET));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(resizes)
{
    static const size_t sizes[] = {SIZE / 2, SIZE, 2 * SIZE};
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    const size_t size = sizes[_i], kept = size < SIZE ? size : SIZE;
    OK(synced_mem_resize(mem, size));
    STATE(mem, AT_CPU, 0);
    const unsigned char *const data = given(synced_mem_cpu_data(mem));
    ck_assert(bytes_are_of_file(data, kept, OFFSET));
    ck_assert(pattern_is(data + kept, size - kept, 0));
    OK(synced_mem_use_file(mem, file, 0));
    OK(synced_mem_resize_discard(mem, SIZE));
    STATE(mem, UNINITIALIZED, 0);
    ck_assert(pattern_is(given(synced_mem_cpu_data(mem)), SIZE, 0));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(memory_that_is_handed_in)
{
    static unsigned char memory[SIZE];
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    host_fill(memory, SIZE, 3);
    OK(synced_mem_set_cpu_data(mem, memory));
    STATE(mem, AT_CPU, 0);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 3));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* The source stays in its file, the target leaves its own. */
START_TEST(copies_to_the_host)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const from = make_in_file(SIZE, file, OFFSET), *const to = make_in_file(SIZE, file, 0);
    OK(synced_mem_cpu_copy(to, from));
    STATE(to, AT_CPU, 0);
    STATE(from, AT_CPU, 1);
    ck_assert(host_has(to, OFFSET) && host_has(from, OFFSET));
    RELEASE_EACH(from, to);
    end_file(file);
}
END_TEST

START_TEST(copies_to_the_device)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const from = make_in_file(SIZE, file, OFFSET), *const to = make_in_file(SIZE, file, 0);
    OK(synced_mem_async_gpu_copy(to, from, NULL));
    STATE(to, AT_GPU, 0);
    STATE(from, AT_GPU, 1);
    ck_assert(device_has(to, OFFSET) && device_has(from, OFFSET));
    RELEASE_EACH(from, to);
    end_file(file);
}
END_TEST

/* The sources are read to a device each, though one call copies both. */
START_TEST(copies_from_two_devices)
{
    synced_mem *from[2], *to[2];
    if (devices() < 2)
        return;
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    for (int i = 0; i < 2; i++) {
        from[i] = make_on(SIZE, i);
        to[i] = make_on(SIZE, 0);
        OK(synced_mem_use_file(from[i], file, OFFSET + (uint64_t)i));
    }
    OK(synced_mem_async_gpu_copy_n(to, from, 2, NULL));
    for (int i = 0; i < 2; i++) {
        STATE(to[i], AT_GPU, 0);
        STATE(from[i], AT_GPU, 1);
        ck_assert_int_eq(synced_mem_device(from[i]), i);
        ck_assert(device_has(to[i], OFFSET + (size_t)i) && host_has(from[i], OFFSET + (size_t)i));
        RELEASE_EACH(from[i], to[i]);
    }
    end_file(file);
}
END_TEST

START_TEST(copies_of_parts)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const from = make_in_file(SIZE, file, OFFSET), *const to = make_in_file(SIZE, file, 0);
    OK(synced_mem_copy(to, 100, from, 1000, 5000, SYNCED_MEM_NO_STREAM));
    ck_assert_int_eq(synced_mem_in_file(to), 0);
    const unsigned char *const data = given(synced_mem_cpu_data(to));
    ck_assert(bytes_are_of_file(data, 100, 0));
    ck_assert(bytes_are_of_file(data + 100, 5000, OFFSET + 1000));
    ck_assert(bytes_are_of_file(data + 5100, SIZE - 5100, 5100));
    RELEASE_EACH(from, to);
    end_file(file);
}
END_TEST

START_TEST(another_place_in_the_file)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make_in_file(SIZE, file, OFFSET);
    ck_assert(host_has(mem, OFFSET));
    OK(synced_mem_use_file(mem, file, 3));
    STATE(mem, UNINITIALIZED, 1);
    ck_assert(host_has(mem, 3));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* A kernel that still writes is waited for before the memory is read into. */
START_TEST(after_a_kernel)
{
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem *const mem = make(SIZE);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), SIZE, 5, stream);
    OK(synced_mem_use_file(mem, file, OFFSET));
    ck_assert(device_has(mem, OFFSET));
    close_stream(stream);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files");
    TCase *const reads = add_case(made, "reads");
    add_tests(reads, the_host_reads, no_bytes, the_descriptor_may_be_closed, references);
    add_gpu_tests(reads, the_device_reads_without_a_host_copy, a_stream_reads, a_push_reads, a_pull_reads,
                  memory_side_by_side, gaps_and_overlaps, several_files);
    add_gpu_loop_test(reads, a_list_is_read_at_once, 0, 2);
    tcase_add_loop_test(reads, chunks_reach_across_objects, 0, gpu_expected() ? 2 : 1);
    TCase *const heads = add_case(made, "heads");
    tcase_add_loop_test(heads, every_access, 0, 4 * ACCESSES);
    add_tests(heads, no_write_goes_unnoticed);
    TCase *const calls = add_case(made, "calls");
    add_tests(calls, clear_leaves_the_file, memory_that_is_handed_in, copies_to_the_host, copies_of_parts,
              another_place_in_the_file);
    tcase_add_loop_test(calls, resizes, 0, 3);
    add_gpu_tests(calls, releases_move_nothing, copies_to_the_device, copies_from_two_devices, after_a_kernel);
    return made;
}
