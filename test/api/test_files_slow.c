/* Checks slow files: reads of bytes that the file does not have yet, or that are about to be written, and when the file
 * is closed. */
#include "files_kit.h"

#include "system/file.h"
#include "system/file_at.h"
#include "system/process.h"

#include <errno.h>

enum { SIZE = 5003, FILES_SIZE = 10 };

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    (void)usleep(20000);
    return __real_sm_file_write_at(file, data, bytes, offset);
}

/* While reads are held they do not begin, for half a minute at most. */
static atomic_bool holds_reads;
static atomic_bool fails_reads;
static atomic_uint reads, wrong_reads;

static void hold_reads(void)
{
    reads = wrong_reads = 0;
    holds_reads = true;
}

static void wait_for_held_reads(void)
{
    for (int i = 0; i < 20000 && holds_reads; i++)
        (void)usleep(1000);
}

/* Reads wait until there are so many, for half a minute at most. */
static atomic_uint at_once, begun;

static void wait_for_others(void)
{
    begun++;
    for (int i = 0; i < 20000 && begun < at_once; i++)
        (void)usleep(1000);
}

int __real_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    wait_for_held_reads();
    wait_for_others();
    if (fails_reads)
        return EIO;
    const int error = __real_sm_file_read_at(file, data, bytes, offset, done);
    wrong_reads += memcmp(data, in_file + offset, *done) != 0;
    reads++;
    return error;
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

/* Lets another object write the bytes that reads of the object have yet to read, once it has left its file. The calls
 * return before these are read. */
static void write_over_held_reads(synced_mem *mem, synced_mem_file *file)
{
    synced_mem *const other = make_at_cpu(SIZE, 2);
    OK(synced_mem_async_write_file(other, file, 0, SYNCED_MEM_NO_STREAM));
    ck_assert_uint_eq(reads, 0);
    (void)usleep(50000); /* a write that does not wait would be over */
    ck_assert_uint_eq(reads, 0);
    holds_reads = false;
    OK(synced_mem_file_wait(file));
    ck_assert_uint_ge(reads, 1);
    ck_assert_uint_eq(wrong_reads, 0);
    OK(synced_mem_release(mem));
    OK(synced_mem_release(other));
}

/* A write of contents that are in a file alone has yet to read them when it returns. */
START_TEST(a_write_reads_before_others_write)
{
    synced_mem_file *const file = make_file(2 * SIZE, 1);
    synced_mem *const mem = make_in_file(SIZE, file, 0);
    hold_reads();
    OK(synced_mem_async_write_file(mem, file, SIZE, SYNCED_MEM_NO_STREAM));
    if (_i == 0)
        OK(synced_mem_clear(mem));
    else
        OK(synced_mem_release(mem));
    write_over_held_reads(_i == 0 ? mem : NULL, file);
    memcpy(in_file + SIZE, in_file, SIZE);
    pattern_write(in_file, SIZE, 2);
    ck_assert(file_is_right(2 * SIZE));
    end_file(file);
}
END_TEST

/* A hold returns before it has read. */
START_TEST(a_hold_reads_before_others_write)
{
    synced_mem_options options = default_options();
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *mem;
    options.evictable = 1;
    OK(synced_mem_create(&mem, SIZE, &options));
    OK(synced_mem_use_file(mem, file, 0));
    hold_reads();
    OK(synced_mem_hold(mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, SYNCED_MEM_STREAM_LIBRARY));
    ck_assert(given(synced_mem_overwrite_cpu_data(mem)));
    OK(synced_mem_unhold(mem, SYNCED_MEM_SIDE_GPU));
    write_over_held_reads(mem, file);
    end_file(file);
}
END_TEST

/* As in a sweep over objects in a file: the one that was used last is yet to be read when the next one needs memory. */
START_TEST(a_hold_does_not_wait_for_reads)
{
    enum { OBJECTS = 4, FIT = 3 };
    synced_mem_options options = default_options();
    synced_mem_file *const file = make_file(OBJECTS * SIZE, 1);
    synced_mem *mems[OBJECTS];
    options.evictable = 1;
    for (unsigned i = 0; i < OBJECTS; i++) {
        OK(synced_mem_create(&mems[i], SIZE, &options));
        OK(synced_mem_use_file(mems[i], file, i * SIZE));
    }
    OK(synced_mem_gpu_set_budget(0, FIT * SIZE, NULL));
    for (unsigned i = 0; i < OBJECTS; i++) {
        if (i == FIT - 1) {
            gpu_sync_device(0);
            hold_reads();
        }
        OK(synced_mem_hold(mems[i], SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, SYNCED_MEM_STREAM_LIBRARY));
        if (i < FIT - 1)
            ck_assert(device_has(mems[i], i * SIZE));
        OK(synced_mem_unhold(mems[i], SYNCED_MEM_SIDE_GPU));
    }
    ck_assert_uint_eq(reads, 0);
    ck_assert_int_eq(synced_mem_head(mems[FIT - 1]), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(synced_mem_head(mems[FIT - 2]), SYNCED_MEM_UNINITIALIZED);
    holds_reads = false;
    for (unsigned i = 0; i < OBJECTS; i++)
        ck_assert(host_has(mems[i], i * SIZE));
    release_all(mems, OBJECTS);
    end_file(file);
}
END_TEST

/* Lets each internal stream for transfers behind a caller's work wait for the held stream. */
static void block_transfers(synced_mem **blockers, unsigned count, synced_mem_stream stream)
{
    for (unsigned i = 0; i < count; i++) {
        blockers[i] = make_at_cpu(SIZE, 3);
        ck_assert(given(synced_mem_gpu_data_on(blockers[i], stream)));
    }
    gpu_stream_sync(stream);
    gpu_hold(stream);
    for (unsigned i = 0; i < count; i++) {
        ck_assert(given(synced_mem_mutable_cpu_data(blockers[i])));
        OK(synced_mem_async_gpu_push(blockers[i], SYNCED_MEM_STREAM_LIBRARY));
    }
}

/* Copies to the device have yet to run. The threads that have read their bytes read those of the next job meanwhile,
 * and no call waits for the copies. The first job has a chunk for each thread, of which all are read at once. */
START_TEST(threads_read_while_copies_are_queued)
{
    enum { LEAST_THREADS = 4, MOST_THREADS = 16, CHUNK = 262144, STREAMS = 4 };
    const unsigned processors = sm_processors();
    const unsigned least = processors < LEAST_THREADS ? LEAST_THREADS : processors;
    const unsigned threads = least < MOST_THREADS ? least : MOST_THREADS;
    const size_t end = threads * CHUNK;
    synced_mem_file *const file = make_file(end + CHUNK, 1);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const first[2] = {make_in_file(end - CHUNK, file, 0), make_in_file(SIZE, file, end - SIZE)};
    synced_mem *const next = make_in_file(CHUNK, file, end);
    synced_mem *blockers[STREAMS];
    block_transfers(blockers, STREAMS, stream);
    reads = begun = 0;
    at_once = threads;
    OK(synced_mem_async_gpu_push_n(first, 2, SYNCED_MEM_STREAM_LIBRARY));
    at_once = 0;
    ck_assert_uint_eq(reads, threads);
    OK(synced_mem_async_gpu_push(next, SYNCED_MEM_STREAM_LIBRARY));
    ck_assert_uint_eq(reads, threads + 1);
    gpu_unhold();
    ck_assert(device_has(first[0], 0) && device_has(first[1], end - SIZE) && device_has(next, end));
    RELEASE_EACH(first[0], first[1], next);
    release_all(blockers, STREAMS);
    CLOSE_EACH(stream);
    end_file(file);
}
END_TEST

/* A write does not fail with a read that it has waited for. */
START_TEST(a_failed_read_fails_no_write)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    FILE *const elsewhere_behind = tmpfile();
    synced_mem_file *elsewhere = NULL;
    OK(synced_mem_file_open(&elsewhere, file_number(elsewhere_behind)));
    synced_mem *const mem = make_in_file(SIZE, file, 0), *const other = make_at_cpu(SIZE, 2);
    hold_reads();
    fails_reads = true;
    OK(synced_mem_async_write_file(mem, elsewhere, 0, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_release(mem));
    OK(synced_mem_async_write_file(other, file, 0, SYNCED_MEM_NO_STREAM));
    holds_reads = false;
    OK(synced_mem_file_wait(file));
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_file_wait(elsewhere));
    pattern_write(in_file, SIZE, 2);
    ck_assert(file_is_right(SIZE));
    OK(synced_mem_release(other));
    OK(synced_mem_file_release(elsewhere));
    (void)fclose(elsewhere_behind);
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
    tcase_add_loop_test(tests, a_write_reads_before_others_write, 0, 2);
    add_tests(tests, a_failed_read_fails_no_write, the_file_closes_behind_a_write, a_write_closes_the_file);
    add_gpu_tests(tests, a_hold_reads_before_others_write, a_read_closes_the_file, a_hold_does_not_wait_for_reads,
                  threads_read_while_copies_are_queued);
    return made;
}
