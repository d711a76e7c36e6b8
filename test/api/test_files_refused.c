/* Checks what files are refused, and what calls on objects in them. */
#include "files_kit.h"

#include <fcntl.h>
#include <stdint.h>

#if WITH_POSIX
#include <sys/socket.h>
#endif

enum { SIZE = 10007 };

/* ---- Arguments ---- */

START_TEST(nothing)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *const mem = make(SIZE);
    const uint64_t offset = 0;
    synced_mem *none[] = {mem, NULL};
    const uint64_t offsets[] = {0, SIZE};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(NULL, file_number(behind)));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_retain(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_wait(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_use_file(NULL, file, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_use_file(mem, NULL, 0));
    ck_assert_int_eq(synced_mem_in_file(NULL), 0);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_write_file(NULL, file, 0, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_write_file(mem, NULL, 0, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_write_file_n(NULL, file, &offset, 1, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_write_file_n(none, file, NULL, 1, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_write_file_n(none, file, offsets, 2, SYNCED_MEM_NO_STREAM));
    SAYS("mems[1]");
    OK(synced_mem_async_write_file_n(NULL, file, NULL, 0, SYNCED_MEM_NO_STREAM));
    STATE(mem, UNINITIALIZED, 0);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(descriptors)
{
    synced_mem_file *file = (synced_mem_file *)&file;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, -1));
    ck_assert_ptr_null(file);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, 1000000));
#if WITH_POSIX
    int ends[2];
    char path[] = "/tmp/synced_mem_files.XXXXXX";
    ck_assert_int_eq(pipe(ends), 0);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, ends[0]));
    SAYS("a pipe");
    (void)close(ends[0]);
    (void)close(ends[1]);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, ends[0]));
    (void)close(ends[0]);
    (void)close(ends[1]);
    const int folder = open("/", O_RDONLY);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, folder));
    (void)close(folder);
    const int device = open("/dev/zero", O_RDONLY);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, device));
    (void)close(device);
    (void)close(mkstemp(path));
    const int writer = open(path, O_WRONLY);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, writer));
    SAYS("does not allow reads");
    (void)close(writer);
    const int appender = open(path, O_RDWR | O_APPEND);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_file_open(&file, appender));
    SAYS("O_APPEND");
    (void)close(appender);
    const int reader = open(path, O_RDONLY);
    OK(synced_mem_file_open(&file, reader));
    (void)close(reader);
    (void)unlink(path);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_write_file(mem, file, 0, SYNCED_MEM_NO_STREAM));
    SAYS("does not allow writes");
    OK(synced_mem_release(mem));
    OK(synced_mem_file_release(file));
#endif
}
END_TEST

START_TEST(ranges)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_use_file(mem, file, 1));
    SAYS("does not have 10007 bytes at offset 1");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_use_file(mem, file, UINT64_MAX));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_use_file(mem, file, (uint64_t)INT64_MAX - SIZE + 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT,
          synced_mem_async_write_file(mem, file, (uint64_t)INT64_MAX - SIZE + 1, SYNCED_MEM_NO_STREAM));
    STATE(mem, AT_CPU, 0);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 2));
    OK(synced_mem_use_file(mem, file, 0));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* ---- Objects ---- */

START_TEST(user_memory)
{
    static unsigned char memory[SIZE];
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_set_cpu_data(mem, memory));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_use_file(mem, file, 0));
    STATE(mem, AT_CPU, 0);
    OK(synced_mem_release_data(mem));
    OK(synced_mem_use_file(mem, file, 0));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(unified_placement)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *const mem = make_placed_on(SIZE, SYNCED_MEM_PLACEMENT_MAPPED, 0);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_use_file(mem, file, 0));
    (void)given(synced_mem_overwrite_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(mem, file, 0, NULL));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

#if WITH_LINUX
START_TEST(shareable_objects)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    OK(synced_mem_create(&mem, SIZE, &options));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_use_file(mem, file, 0));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST
#endif

/* ---- Writes ---- */

START_TEST(nothing_to_write)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *const mem = make(SIZE), *const empty = make(0);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(mem, file, 0, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_async_write_file(empty, file, 0, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(SIZE));
    RELEASE_EACH(mem, empty);
    end_file(file);
}
END_TEST

/* A write must not change the contents of a living object. */
START_TEST(over_living_objects)
{
    synced_mem_file *const file = make_file(3 * SIZE, 1);
    synced_mem *const first = make_in_file(SIZE, file, 0), *const second = make_in_file(SIZE, file, SIZE + 1);
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(mem, file, 1, SYNCED_MEM_NO_STREAM));
    SAYS("an object has contents among the 10007 bytes at offset 0 of the file");
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(mem, file, SIZE, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(first, file, 0, SYNCED_MEM_NO_STREAM));
    ck_assert(host_has(first, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(first, file, 0, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(3 * SIZE));
    OK(synced_mem_async_write_file(mem, file, 2 * SIZE + 1, SYNCED_MEM_NO_STREAM)); /* right behind */
    OK(synced_mem_release(second));
    host_fill(given(synced_mem_mutable_cpu_data(first)), SIZE, 3);
    OK(synced_mem_async_write_file(first, file, 0, SYNCED_MEM_NO_STREAM)); /* it has left the file */
    OK(synced_mem_file_wait(file));
    RELEASE_EACH(first, mem);
    end_file(file);
}
END_TEST

/* Of the objects of the call each part counts for itself. */
START_TEST(over_parts)
{
    synced_mem_file *const file = make_file(3 * SIZE, 1);
    synced_mem *const root = make_in_file(3 * SIZE, file, 0), *const other = make_at_cpu(SIZE, 2);
    synced_mem *view = NULL;
    OK(synced_mem_view(&view, root, SIZE, SIZE, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(view, file, SIZE, SYNCED_MEM_NO_STREAM));
    host_fill(given(synced_mem_mutable_cpu_data(view)), SIZE, 3);
    pattern_write(in_file + SIZE, SIZE, 3);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(view, file, SIZE + 1, SYNCED_MEM_NO_STREAM));
    SAYS("the 10007 bytes at offset 20014 "); /* of the part behind the view */
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(other, file, SIZE, SYNCED_MEM_NO_STREAM));
    SAYS("the 30021 bytes at offset 0 "); /* all of them have to leave the file */
    OK(synced_mem_async_write_file(view, file, SIZE, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(3 * SIZE));
    RELEASE_EACH(view, root, other);
    end_file(file);
}
END_TEST

START_TEST(over_one_another)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *const mems[] = {make_at_cpu(SIZE, 2), make_at_cpu(SIZE, 3)};
    const uint64_t offsets[] = {SIZE - 1, 0};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_write_file_n(mems, file, offsets, 2, SYNCED_MEM_NO_STREAM));
    SAYS("byte 10006");
    ck_assert(file_is_right(SIZE));
    release_all(mems, 2);
    end_file(file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_refused");
    TCase *const arguments = add_case(made, "arguments");
    add_tests(arguments, nothing, descriptors, ranges);
    TCase *const objects = add_case(made, "objects");
    add_tests(objects, user_memory);
#if WITH_LINUX
    add_tests(objects, shareable_objects);
#endif
    add_gpu_tests(objects, unified_placement);
    TCase *const writes = add_case(made, "writes");
    add_tests(writes, nothing_to_write, over_living_objects, over_parts, over_one_another);
    return made;
}
