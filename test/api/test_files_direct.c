/*
 * Checks files that are read and written past the system's cache (O_DIRECT): offsets, sizes and memory at any place of
 * a block, and the short last block. Where no file system allows it, the same calls go through the cache.
 */
#include "files_kit.h"

#include "system/file_at.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { BLOCK = 4096, LARGE = 1100003 };

/* Checks what the library asks of the system: whole blocks, and memory at their bounds. */
static atomic_int unaligned, direct_calls;
static int direct_descriptor;

static void check_call(int file, const void *data, size_t bytes, uint64_t offset)
{
    if (file != direct_descriptor)
        return;
    direct_calls++;
    if ((uintptr_t)data % BLOCK != 0 || bytes % BLOCK != 0 || offset % BLOCK != 0)
        unaligned++;
}

int __real_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    check_call(file, data, bytes, offset);
    return __real_sm_file_read_at(file, data, bytes, offset, done);
}

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    check_call(file, data, bytes, offset);
    return __real_sm_file_write_at(file, data, bytes, offset);
}

/* A file system without direct reads plays one with them. */
int __real_sm_file_examine(int file, struct sm_file_facts *facts);
int __wrap_sm_file_examine(int file, struct sm_file_facts *facts);
int __wrap_sm_file_examine(int file, struct sm_file_facts *facts)
{
    const int error = __real_sm_file_examine(file, facts);
    facts->direct = true;
    facts->alignment = BLOCK;
    return error;
}

int __real_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out);
int __wrap_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out);
int __wrap_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out)
{
    int error = __real_sm_file_reopen(file, facts, cached, out);
    struct sm_file_facts through = *facts;
    through.direct = false;
    if (error == 0 && !cached && !(fcntl(*out, F_GETFL) & O_DIRECT)) /* a duplicate, as the system has refused */
        (void)close(*out), error = __real_sm_file_reopen(file, &through, false, out);
    if (!cached)
        direct_descriptor = *out;
    return error;
}

static const size_t begins[] = {0, 1, 511, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 7};
static const size_t sizes[] = {
    1, 2, 100, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5 * BLOCK + 13, 600001, LARGE - 3 * BLOCK + 7};
enum { BEGINS = sizeof begins / sizeof begins[0], SIZES = sizeof sizes / sizeof sizes[0] };

START_TEST(reads)
{
    synced_mem_file *const file = make_file(LARGE, 1);
    const bool to_device = _i == 1;
    for (int i = 0; i < BEGINS; i++)
        for (int j = 0; j < SIZES; j++) {
            const size_t size = begins[i] + sizes[j] < LARGE ? sizes[j] : LARGE - begins[i]; /* to the very end */
            synced_mem *const mem = make_in_file(size, file, begins[i]);
            ck_assert_msg(to_device ? device_has(mem, begins[i]) : host_has(mem, begins[i]), "%zu bytes at %zu", size,
                          begins[i]);
            OK(synced_mem_release(mem));
        }
    ck_assert_int_eq(unaligned, 0);
    ck_assert_int_gt(direct_calls, 0);
    end_file(file);
}
END_TEST

/* Two objects that meet in one block each read it. */
START_TEST(neighbours)
{
    synced_mem_file *const file = make_file(LARGE, 1);
    synced_mem *mems[40];
    for (size_t i = 0; i < 40; i++)
        mems[i] = make_in_file(1 + i * 500, file, 77 + i * (i - 1) / 2 * 500 + i);
    OK(synced_mem_async_gpu_push_n(mems, 40, NULL));
    for (size_t i = 0; i < 40; i++)
        ck_assert(device_has(mems[i], 77 + i * (i - 1) / 2 * 500 + i));
    ck_assert_int_eq(unaligned, 0);
    release_all(mems, 40);
    end_file(file);
}
END_TEST

/* The bytes before and behind those that are written stay. */
START_TEST(writes)
{
    synced_mem_file *const file = make_file(LARGE, 1);
    for (int i = 0; i < BEGINS; i++)
        for (int j = 0; j < SIZES; j++) {
            const size_t size = begins[i] + sizes[j] < LARGE ? sizes[j] : LARGE - begins[i];
            const unsigned pattern = 2 + (unsigned)(i * SIZES + j) % 100;
            synced_mem *const mem = _i == 1 ? make_at_gpu(size, pattern) : make_at_cpu(size, pattern);
            OK(synced_mem_async_write_file(mem, file, begins[i], SYNCED_MEM_NO_STREAM));
            OK(synced_mem_file_wait(file));
            pattern_write(in_file + begins[i], size, pattern);
            OK(synced_mem_release(mem));
            if (j % 3 == 0)
                ck_assert_msg(file_is_right(LARGE), "%zu bytes at %zu", size, begins[i]);
        }
    ck_assert(file_is_right(LARGE));
    ck_assert_int_eq(unaligned, 0);
    ck_assert_int_gt(direct_calls, 0);
    end_file(file);
}
END_TEST

/* Views of host memory that is at no bound of a block. */
START_TEST(parts)
{
    synced_mem_file *const file = make_file(LARGE, 1);
    synced_mem *const root = make_in_file(LARGE - 5, file, 5);
    synced_mem *view = NULL;
    OK(synced_mem_view(&view, root, 12345, 40001, NULL));
    ck_assert(host_has(view, 5 + 12345));
    host_fill(given(synced_mem_mutable_cpu_data(view)), 40001, 9);
    pattern_write(in_file + 5 + 12345, 40001, 9);
    OK(synced_mem_async_write_file(view, file, 5 + 12345, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(LARGE));
    ck_assert(host_has(root, 5));
    ck_assert_int_eq(unaligned, 0);
    RELEASE_EACH(view, root);
    end_file(file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_direct");
    TCase *const tests = add_case(made, "direct");
    tcase_add_loop_test(tests, reads, 0, gpu_expected() ? 2 : 1);
    tcase_add_loop_test(tests, writes, 0, gpu_expected() ? 2 : 1);
    add_tests(tests, parts);
    add_gpu_tests(tests, neighbours);
    return made;
}
