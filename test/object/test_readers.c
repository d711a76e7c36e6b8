/* Checks that the hot path finds several streams that read one object. */
#include "fixture.h"

#include "object/access.h"
#include "published.h"
#include "stream/stream_set.h"

#include <pthread.h>

enum { SIZE = 256, READERS = 4, MANY = SM_SET_MOST + 2 };

static synced_mem_stream streams[MANY];

static void open_streams(int count)
{
    for (int i = 0; i < count; i++)
        streams[i] = gpu_stream_create(0, i % 2);
}

static void close_streams(int count)
{
    for (int i = 0; i < count; i++) {
        OK(synced_mem_forget_stream(streams[i]));
        gpu_stream_sync(streams[i]);
        gpu_stream_destroy(streams[i]);
    }
}

/* Returns whether the stream gets the pointer to read without the lock. */
static bool is_hot(synced_mem *mem, synced_mem_stream stream)
{
    void *data = NULL;
    return (sm_access_hot_on(mem, SM_READ, stream, &data) || sm_access_hot_together(mem, stream, &data)) && data;
}

static unsigned count_hot(synced_mem *mem, int readers)
{
    unsigned count = 0;
    for (int i = 0; i < readers; i++)
        count += is_hot(mem, streams[i]);
    return count;
}

static void read_by_all(synced_mem *mem, int readers)
{
    for (int i = 0; i < readers; i++)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, streams[i]));
}

static synced_mem *make_read(int readers)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    open_streams(readers);
    read_by_all(mem, readers);
    ck_assert(is_hot(mem, streams[readers - 1])); /* the others too, if an earlier test has made the set */
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, streams[0]));
    return mem;
}

/* An access without a stream, which is no member, is served beside the set. */
START_TEST(all_are_hot)
{
    for (int readers = 2; readers <= SM_SET_MOST; readers++) {
        synced_mem *const mem = make_read(readers);
        ck_assert_uint_eq(count_hot(mem, readers), (unsigned)readers);
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        ck_assert_uint_eq(count_hot(mem, readers), (unsigned)readers);
        OK(synced_mem_release(mem));
        close_streams(readers);
    }
}
END_TEST

START_TEST(too_many_for_a_set)
{
    synced_mem *const mem = make_read(MANY);
    ck_assert_uint_eq(count_hot(mem, MANY), 1);
    read_by_all(mem, MANY);
    ck_assert_uint_eq(count_hot(mem, MANY), 1);
    OK(synced_mem_release(mem));
    close_streams(MANY);
}
END_TEST

/* Another one joins, and is in the set once any of them comes again. */
START_TEST(one_joins)
{
    synced_mem *const mem = make_read(READERS);
    const synced_mem_stream joining = gpu_stream_create(0, false);
    ck_assert(!is_hot(mem, joining));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, joining));
    ck_assert(is_hot(mem, joining));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, streams[1]));
    ck_assert_uint_eq(count_hot(mem, READERS), READERS);
    ck_assert(is_hot(mem, joining));
    OK(synced_mem_release(mem));
    OK(synced_mem_forget_stream(joining));
    gpu_stream_destroy(joining);
    close_streams(READERS);
}
END_TEST

/* The one that ends its use is not hot, and the others are, once they have come again. */
START_TEST(one_ends)
{
    synced_mem *const mem = make_read(READERS);
    OK(synced_mem_end_use_on(mem, streams[2]));
    ck_assert(!is_hot(mem, streams[2]));
    read_by_all(mem, 2);
    read_by_all(mem, 2);
    ck_assert_uint_eq(count_hot(mem, READERS), READERS - 1);
    ck_assert(!is_hot(mem, streams[2]));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, streams[2]));
    ck_assert_uint_eq(count_hot(mem, READERS), READERS); /* the set exists since make_read() */
    OK(synced_mem_release(mem));
    close_streams(READERS);
}
END_TEST

/* A stream that is done is not hot, and no other one with the same handle is. */
START_TEST(one_is_done)
{
    synced_mem *const mem = make_read(READERS);
    OK(synced_mem_forget_stream(streams[1]));
    ck_assert(!is_hot(mem, streams[1]));
    ck_assert_uint_eq(count_hot(mem, READERS), READERS - 1);
    gpu_stream_destroy(streams[1]);
    streams[1] = gpu_stream_create(0, true);
    ck_assert(!is_hot(mem, streams[1]));
    read_by_all(mem, READERS);
    read_by_all(mem, READERS);
    ck_assert_uint_eq(count_hot(mem, READERS), READERS);
    OK(synced_mem_release(mem));
    close_streams(READERS);
}
END_TEST

/* A copy from the object reads it too. It publishes no source, so it must end no use, however many there are. */
START_TEST(one_is_done_before_a_copy)
{
    enum { OF_MANY = 12 };
    synced_mem *const to = make_at_cpu(SIZE, 2);
    synced_mem *const mem = make_read(OF_MANY);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(to, streams[0]));
    for (int i = 1; i < OF_MANY; i++) {
        OK(synced_mem_forget_stream(streams[i]));
        OK(synced_mem_async_gpu_copy(to, mem, streams[0]));
        ck_assert(sm_publication_is_valid(sm_own_record(mem)));
        ck_assert_uint_eq(count_hot(mem, OF_MANY), (unsigned)(OF_MANY - i));
    }
    RELEASE_EACH(to, mem);
    close_streams(OF_MANY);
}
END_TEST

/* Another object that is the same bytes has the same readers. */
START_TEST(one_ends_by_a_view)
{
    synced_mem *view = NULL;
    synced_mem *const mem = make_read(READERS);
    OK(synced_mem_view(&view, mem, 0, SIZE, NULL));
    read_by_all(view, READERS);
    read_by_all(mem, READERS);
    read_by_all(mem, READERS);
    ck_assert_uint_eq(count_hot(mem, READERS), READERS);
    ck_assert_uint_eq(count_hot(view, READERS), READERS);
    OK(synced_mem_end_use_on(view, streams[1]));
    ck_assert(!is_hot(mem, streams[1]) && !is_hot(view, streams[1]));
    gpu_fill(synced_mem_mutable_gpu_data_on(view, streams[2]), SIZE, 4, streams[2]);
    ck_assert_uint_le(count_hot(mem, READERS), 1);
    ck_assert(!is_hot(mem, streams[0]));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    RELEASE_EACH(view, mem);
    close_streams(READERS);
}
END_TEST

/* A writer waits for kernels of all of them, and withdraws the pointer from all others. */
START_TEST(one_writes)
{
    synced_mem *const mem = make_read(READERS);
    void *const seen = gpu_alloc(0, READERS * SIZE);
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < READERS; i++) {
            ck_assert(is_hot(mem, streams[i]));
            const void *const data = synced_mem_gpu_data_on(mem, streams[i]);
            gpu_delay(streams[i]);
            gpu_copy((char *)seen + i * SIZE, data, SIZE, streams[i]);
        }
    void *const data = synced_mem_mutable_gpu_data_on(mem, streams[3]);
    gpu_fill(data, SIZE, 2, streams[3]);
    ck_assert_uint_eq(count_hot(mem, READERS), 1);
    ck_assert(is_hot(mem, streams[3]));
    for (int i = 0; i < READERS; i++)
        gpu_stream_sync(streams[i]);
    for (int i = 0; i < READERS; i++)
        ck_assert(device_is((char *)seen + i * SIZE, SIZE, 1));
    read_by_all(mem, READERS);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, streams[0]));
    ck_assert_uint_eq(count_hot(mem, READERS), READERS);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
    ck_assert_uint_eq(count_hot(mem, READERS), 0);
    OK(synced_mem_release(mem));
    gpu_free(seen);
    close_streams(READERS);
}
END_TEST

static synced_mem *common;

static void *read_often(void *stream)
{
    enum { READS = 300, ENDS = 50 };
    for (int i = 1; i <= READS; i++) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(common, stream));
        if (i % ENDS == 0)
            OK(synced_mem_end_use_on(common, stream));
    }
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(common, stream));
    return NULL;
}

/* Threads with a stream each join and leave meanwhile. */
START_TEST(threads_read_together)
{
    enum { TIMES = 5 };
    pthread_t threads[READERS];
    common = make_at_cpu(SIZE, 1);
    open_streams(READERS);
    for (int time = 0; time < TIMES; time++) {
        for (int i = 0; i < READERS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, read_often, streams[i]), 0);
        for (int i = 0; i < READERS; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        read_by_all(common, READERS);
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(common, streams[0]));
        ck_assert_uint_eq(count_hot(common, READERS), READERS);
        gpu_fill(synced_mem_mutable_gpu_data_on(common, streams[1]), SIZE, 2 + (unsigned)time, streams[1]);
        ck_assert(host_is(synced_mem_cpu_data(common), SIZE, 2 + (unsigned)time));
    }
    OK(synced_mem_release(common));
    close_streams(READERS);
}
END_TEST

/* A view and its root have sets of their own. A view that cuts them withdraws both. */
START_TEST(views_have_sets)
{
    synced_mem *view = NULL;
    synced_mem *cut = NULL;
    synced_mem *const mem = make_read(READERS);
    OK(synced_mem_view(&view, mem, 0, SIZE / 2, NULL));
    ck_assert_uint_eq(count_hot(mem, READERS), 0);
    read_by_all(view, READERS);
    read_by_all(view, READERS);
    ck_assert_uint_eq(count_hot(view, READERS), READERS);
    OK(synced_mem_view(&cut, view, SIZE / 4, SIZE / 4, NULL));
    ck_assert_uint_eq(count_hot(view, READERS), 0);
    read_by_all(cut, 2);
    read_by_all(cut, 2);
    ck_assert_uint_ge(count_hot(cut, 2), 2);
    gpu_fill(synced_mem_mutable_gpu_data_on(view, streams[0]), SIZE / 2, 5, streams[0]);
    ck_assert(!is_hot(cut, streams[1]));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE / 2, 5));
    RELEASE_EACH(cut, view, mem);
    close_streams(READERS);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("readers");
    TCase *const tests = add_case(made, "readers");
    add_gpu_tests(tests, all_are_hot, too_many_for_a_set, one_joins, one_ends, one_ends_by_a_view, one_is_done,
                  one_is_done_before_a_copy, one_writes, threads_read_together, views_have_sets);
    return made;
}
