/* Checks slow files: reads of bytes that the file does not have yet, or that are about to be written, and when the file
 * is closed. */
#include "files_kit.h"

#include "system/file.h"
#include "system/file_at.h"

enum { SIZE = 5003, FILES_SIZE = 10 };

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    (void)usleep(20000);
    return __real_sm_file_write_at(file, data, bytes, offset);
}

static atomic_bool slow_reads;

int __real_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    if (slow_reads)
        (void)usleep(100000);
    return __real_sm_file_read_at(file, data, bytes, offset, done);
}

static atomic_int closed;

int __real_sm_file_close(int file);
int __wrap_sm_file_close(int file);
int __wrap_sm_file_close(int file)
{
    closed++;
    return __real_sm_file_close(file);
}

/* The bytes between the end of the file and those that are yet to be written are zeros. */
START_TEST(bytes_before_a_write)
{
    static const unsigned char zeros[SIZE];
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    OK(synced_mem_async_write_file(mem, file, 3 * SIZE, SYNCED_MEM_NO_STREAM));
    synced_mem *const between = make_in_file(SIZE, file, SIZE);
    if (_i == 0)
        ck_assert_int_eq(memcmp(given(synced_mem_cpu_data(between)), zeros, SIZE), 0);
    else
        ck_assert(given(synced_mem_gpu_data(between)));
    ck_assert_int_eq(memcmp(given(synced_mem_cpu_data(between)), zeros, SIZE), 0);
    RELEASE_EACH(mem, between);
    end_file(file);
}
END_TEST

/* A write of contents that are in a file alone has read them when it returns: others may then go there. */
START_TEST(a_write_reads_first)
{
    synced_mem_file *const file = make_file(2 * SIZE, 1);
    synced_mem *const mem = make_in_file(SIZE, file, 0), *const other = make_at_cpu(SIZE, 2);
    slow_reads = true;
    OK(synced_mem_async_write_file(mem, file, SIZE, SYNCED_MEM_NO_STREAM));
    OK(_i == 0 ? synced_mem_release(mem) : synced_mem_clear(mem));
    OK(synced_mem_async_write_file(other, file, 0, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    slow_reads = false;
    memcpy(in_file + SIZE, in_file, SIZE);
    pattern_write(in_file, SIZE, 2);
    ck_assert(file_is_right(2 * SIZE));
    OK(_i == 0 ? SYNCED_MEM_OK : synced_mem_release(mem));
    OK(synced_mem_release(other));
    end_file(file);
}
END_TEST

/* Nothing has polled the object since. */
START_TEST(the_file_closes_behind_a_write)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    const int before = closed;
    OK(synced_mem_async_write_file(mem, file, 0, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    ck_assert_int_eq(closed, before);
    OK(synced_mem_file_release(file));
    ck_assert_int_eq(closed, before + 1);
    OK(synced_mem_release(mem));
    close_behind();
}
END_TEST

/* The program has released the file before. */
START_TEST(a_write_closes_the_file)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    const int before = closed;
    OK(synced_mem_async_write_file(mem, file, 0, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_release(file));
    OK(synced_mem_wait(mem));
    ck_assert_int_eq(closed, before + 1);
    OK(synced_mem_release(mem));
    close_behind();
}
END_TEST

/* The object leaves the file, and nothing polls the stream on which its bytes were transferred. */
START_TEST(a_read_closes_the_file)
{
    synced_mem_file *const file = make_file(FILES_SIZE, 1);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_in_file(FILES_SIZE, file, 0);
    const int before = closed;
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_file_release(file));
    ck_assert_int_eq(closed, before);
    ck_assert(given(synced_mem_overwrite_gpu_data_on(mem, stream)));
    ck_assert_int_eq(closed, before + 1);
    close_stream(stream);
    OK(synced_mem_release(mem));
    close_behind();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_slow");
    TCase *const tests = add_case(made, "slow");
    tcase_add_loop_test(tests, bytes_before_a_write, 0, gpu_expected() ? 2 : 1);
    tcase_add_loop_test(tests, a_write_reads_first, 0, 2);
    add_tests(tests, the_file_closes_behind_a_write, a_write_closes_the_file);
    add_gpu_tests(tests, a_read_closes_the_file);
    return made;
}
