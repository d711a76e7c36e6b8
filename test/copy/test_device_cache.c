/* Checks the device cache: which requests get its memory, and when memory leaves it. */
#include "fixture.h"

#include "stream/stream.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { SIZE = 70000, MANY = 300 };

static synced_mem *make_written_on(synced_mem_stream stream, size_t size, unsigned pattern)
{
    synced_mem *const mem = make_on(size, 0);
    void *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
    ck_assert_ptr_nonnull(data);
    gpu_fill(data, size, pattern, stream);
    return mem;
}

/* On the same stream, memory changes hands with its work pending. There is neither a wait nor a call of the runtime. */
START_TEST(on_the_same_stream)
{
    synced_mem_stream stream = open_stream(_i);
    gpu_delay(stream);
    synced_mem *mem = make_written_on(stream, SIZE, 1);
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, SIZE);
    mem = make_on(SIZE, 0);
    const synced_mem_stats before = stats_now();
    const unsigned allocations = gpu_calls("cudaMallocFromPoolAsync");
    void *const again = synced_mem_overwrite_gpu_data_on(mem, stream);
    if (_i != LEGACY) {
        ck_assert_ptr_eq(again, data);
        ck_assert_uint_eq(gpu_calls("cudaMallocFromPoolAsync"), allocations);
        ck_assert_uint_eq(stats_now().event_records, before.event_records);
        ck_assert_uint_eq(stats_now().stream_waits, before.stream_waits);
        ck_assert_uint_eq(stats_now().gpu_spare_bytes, 0);
        ck_assert_uint_eq(stats_now().gpu_bytes, SIZE);
    }
    gpu_fill(again, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* Another stream gets the memory only after its work has ended. It never waits for a kernel that does not end. */
START_TEST(on_another_stream)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    synced_mem *mem = make_written_on(stream, SIZE, 1);
    const void *const data = synced_mem_gpu_data_on(mem, _i % 2 ? other : stream);
    gpu_hold(stream);
    OK(synced_mem_release(mem));
    mem = make_on(SIZE, 0);
    void *const second = synced_mem_overwrite_gpu_data_on(mem, other);
    if (_i == 0) /* otherwise the stream's use had ended before */
        ck_assert_ptr_ne(second, data);
    gpu_fill(second, SIZE, 2, other);
    gpu_stream_sync(other);
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_release(mem));
    for (int i = 0; i < 100 && stats_now().gpu_spare_bytes != SIZE; i++) {
        mem = make_written_on(i % 2 ? other : stream, SIZE, 3);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
        OK(synced_mem_release(mem));
    }
    CLOSE_EACH(stream, other);
}
END_TEST

/* Memory is requested without a stream, or was requested without one before. */
START_TEST(without_a_stream)
{
    for (unsigned i = 1; i < 20; i++) {
        synced_mem *const mem = i % 3 ? make_at_cpu(SIZE, i) : make_at_gpu(SIZE, i);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, i));
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, i + 1, NULL);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, i + 1));
        OK(synced_mem_release(mem));
    }
    synced_mem *const zeros = make_on(SIZE, 0);
    ck_assert(device_is(synced_mem_gpu_data(zeros), SIZE, 0));
    OK(synced_mem_release(zeros));
}
END_TEST

/* A request gets only memory of exactly its size. */
START_TEST(by_size)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (unsigned i = 1; i <= 40; i++)
        OK(synced_mem_release(make_written_on(stream, SIZE + i, i)));
    const uint64_t kept = stats_now().gpu_spare_bytes;
    ck_assert_uint_eq(kept, 40 * SIZE + 40 * 41 / 2);
    synced_mem *const other = make_written_on(stream, SIZE, 1);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, kept);
    synced_mem *const same = make_written_on(stream, SIZE + 7, 1);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, kept - SIZE - 7);
    ck_assert(host_is(synced_mem_cpu_data(same), SIZE + 7, 1));
    RELEASE_EACH(other, same);
    close_stream(stream);
}
END_TEST

START_TEST(limits)
{
    if (!gpu_expected()) {
        FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_pool_set_spare_limit(0, 1));
        return;
    }
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_pool_set_spare_limit(devices(), 1));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_pool_set_spare_limit(-2, 1));
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(synced_mem_gpu_pool_set_spare_limit(0, 3 * SIZE));
    synced_mem *mems[MANY];
    for (int i = 0; i < 5; i++)
        mems[i] = make_written_on(stream, SIZE, 1);
    release_all(mems, 5);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, 3 * SIZE);
    OK(synced_mem_gpu_pool_set_spare_limit(0, 3 * SIZE - 1));
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, 0);
    OK(synced_mem_gpu_pool_set_threshold(0, 0));
    OK(synced_mem_release(make_written_on(stream, SIZE, 1)));
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, 0);
    OK(synced_mem_gpu_pool_set_threshold(0, UINT64_MAX));
    for (int i = 0; i < MANY; i++)
        mems[i] = make_written_on(stream, 100, 1);
    release_all(mems, MANY);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, 256 * 100);
    OK(synced_mem_gpu_pool_trim(0, 0));
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, 0);
    close_stream(stream);
}
END_TEST

/* The stream is done, or destroyed, before its memory is requested. */
START_TEST(streams_that_go)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    OK(synced_mem_release(make_written_on(stream, SIZE, 1)));
    if (_i == 0)
        OK(synced_mem_forget_stream(stream));
    gpu_stream_sync(stream);
    if (_i == 0)
        gpu_stream_destroy(stream);
    for (unsigned i = 0; i < 30; i++) {
        synced_mem *const mem = make_written_on(other, SIZE, i);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, i));
        OK(synced_mem_release(mem));
    }
    if (_i == 1)
        close_stream(stream);
    close_stream(other);
}
END_TEST

static void in_child(const void *unused)
{
    (void)unused;
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, SIZE);
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_pool_set_spare_limit(0, 0));
}

/* A trim also returns memory that was freed on a stream that no call polls. */
START_TEST(trimmed)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem_gpu_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_release(make_written_on(stream, SIZE, 1)));
    gpu_stream_sync(stream);
    OK(synced_mem_gpu_pool_get_stats(0, &stats));
    ck_assert_uint_gt(stats.reserved, 0);
    for (int i = 0; i < 2000 && stats.reserved > 0; i++) {
        OK(synced_mem_gpu_pool_trim(0, 0));
        OK(synced_mem_gpu_pool_get_stats(0, &stats));
    }
    ck_assert_uint_eq(stats.reserved, 0);
    close_stream(stream);
}
END_TEST

START_TEST(of_a_parent)
{
    OK(synced_mem_release(make_written_on(NULL, SIZE, 1)));
    ck_assert(in_a_child(in_child, NULL));
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, SIZE);
}
END_TEST

/* Memory that a long kernel uses does not keep requests from idle memory that was released earlier. */
START_TEST(beside_a_busy_stream)
{
    enum { BUSY = 5, IDLE = 8 };
    synced_mem *mems[4 * IDLE];
    synced_mem_stream streams[IDLE];
    int count = 0;
    synced_mem_stream busy = open_stream(NON_BLOCKING);
    synced_mem_stream asking = open_stream(NON_BLOCKING);
    while (count < BUSY)
        mems[count++] = make_written_on(busy, SIZE, 1);
    for (int i = 0; i < IDLE; i++) {
        streams[i] = open_stream(NON_BLOCKING);
        mems[count++] = make_written_on(streams[i], SIZE, 2);
        gpu_stream_sync(streams[i]);
    }
    gpu_hold(busy);
    while (count > 0)
        OK(synced_mem_release(mems[--count]));
    const unsigned before = gpu_calls("cudaMallocFromPoolAsync");
    while (count < 4 * IDLE) {
        mems[count++] = make_written_on(asking, SIZE, 3);
        for (int i = 0; i < IDLE; i++)
            gpu_stream_sync(streams[i]);
    }
    ck_assert_uint_le(gpu_calls("cudaMallocFromPoolAsync") - before, 3 * IDLE);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, BUSY * SIZE);
    gpu_unhold();
    while (count > 0)
        OK(synced_mem_release(mems[--count]));
    for (int i = 0; i < IDLE; i++)
        close_stream(streams[i]);
    CLOSE_EACH(busy, asking);
}
END_TEST

/* Few streams have different shards, wherever their records lie and whatever the library does between their first uses.
 * The shard is the number's remainder. */
START_TEST(streams_share_no_shard)
{
    enum { SHARDS = 16, DEVICES_USED = 2 };
    synced_mem_stream streams[DEVICES_USED][SHARDS];
    unsigned seen[DEVICES_USED] = {0};
    if (!gpu_expected() || devices() < DEVICES_USED)
        return;
    for (int i = 0; i < SHARDS; i++)
        for (int device = 0; device < DEVICES_USED; device++) {
            struct sm_stream *stream;
            gpu_make_current(device);
            streams[device][i] = open_stream(i % 2 ? BLOCKING : NON_BLOCKING);
            for (int j = 0; j < i; j++)
                OK(synced_mem_release(make_at_cpu(SIZE * (size_t)(1 + i), 1)));
            OK(synced_mem_release(make_at_gpu(SIZE, 1)));
            OK(sm_stream_find(device, streams[device][i], &stream));
            seen[device] |= 1u << stream->number % SHARDS;
            sm_stream_drop(stream);
        }
    for (int device = 0; device < DEVICES_USED; device++) {
        gpu_make_current(device);
        ck_assert_uint_eq(seen[device], (1u << SHARDS) - 1);
        for (int i = 0; i < SHARDS; i++)
            close_stream(streams[device][i]);
    }
    gpu_make_current(0);
}
END_TEST

/* ---- Threads ---- */

enum { THREADS = 5, TURNS = 50, TRIALS = 400 };

static struct {
    pthread_barrier_t barrier;
    void *memory[THREADS];
    synced_mem *last;
    atomic_uint came;
    int others; /* how often a thread got another one's memory */
} threads;

/* Each thread in its turn takes memory. Then each in its turn releases its own. */
static void *take_turns(void *number)
{
    const int own = (int)(intptr_t)number;
    for (int i = 0; i < TURNS; i++) {
        synced_mem *mem = NULL;
        for (int turn = 0; turn < THREADS; turn++) {
            if (turn == own) {
                mem = make(SIZE);
                void *const data = synced_mem_overwrite_gpu_data(mem);
                threads.others += i > 0 && data != threads.memory[own];
                threads.memory[own] = data;
            }
            (void)pthread_barrier_wait(&threads.barrier);
        }
        for (int turn = 0; turn < THREADS; turn++) {
            if (turn == own) {
                SOUND(synced_mem_release(mem) == SYNCED_MEM_OK);
                gpu_sync_device(0);
            }
            (void)pthread_barrier_wait(&threads.barrier);
        }
    }
    return NULL;
}

/* A thread that names no stream gets the memory back that it released, whatever other threads have released since. */
START_TEST(of_the_same_thread)
{
    pthread_t all[THREADS];
    ck_assert_int_eq(pthread_barrier_init(&threads.barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&all[i], NULL, take_turns, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(all[i], NULL), 0);
    ck_assert_int_eq(threads.others, 0);
    ck_assert_int_eq(unsound, 0);
    ck_assert_int_eq(pthread_barrier_destroy(&threads.barrier), 0);
}
END_TEST

/* Returns in both threads at once. A barrier wakes them one after the other. */
static void meet(void)
{
    const unsigned came = atomic_fetch_add(&threads.came, 1);
    while (atomic_load(&threads.came) / 2 == came / 2)
        (void)sched_yield();
}

static void *release_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < TRIALS; i++) {
        (void)pthread_barrier_wait(&threads.barrier);
        meet();
        SOUND(synced_mem_release(threads.last) == SYNCED_MEM_OK);
        (void)pthread_barrier_wait(&threads.barrier);
    }
    return NULL;
}

/* Two threads exceed the limit at once. Only what is in excess leaves. */
START_TEST(the_limit_by_threads)
{
    pthread_t other;
    synced_mem_stream streams[4];
    synced_mem *mems[4];
    for (int i = 0; i < 4; i++)
        streams[i] = open_stream(NON_BLOCKING);
    ck_assert_int_eq(pthread_barrier_init(&threads.barrier, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, release_often, NULL), 0);
    OK(synced_mem_gpu_pool_set_spare_limit(0, 2 * (size_t)SIZE));
    for (int i = 0; i < TRIALS; i++) {
        for (int j = 0; j < 4; j++)
            mems[j] = make_written_on(streams[j], SIZE, 1);
        OK(synced_mem_release(mems[0]));
        OK(synced_mem_release(mems[1]));
        threads.last = mems[2];
        (void)pthread_barrier_wait(&threads.barrier);
        meet();
        OK(synced_mem_release(mems[3]));
        (void)pthread_barrier_wait(&threads.barrier);
        ck_assert_uint_eq(stats_now().gpu_spare_bytes, 2 * SIZE);
    }
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_int_eq(unsound, 0);
    ck_assert_int_eq(pthread_barrier_destroy(&threads.barrier), 0);
    CLOSE_EACH(streams[0], streams[1], streams[2], streams[3]);
}
END_TEST

/* ---- The order in which memory leaves ---- */

/* The expected cache, as a list. A request takes the newest of its size. The oldest leave until the limits hold. */
struct kept {
    size_t sizes[MANY];
    int count;
    size_t bytes;
};

static void remove_at(struct kept *kept, int at)
{
    kept->bytes -= kept->sizes[at];
    kept->count--;
    memmove(kept->sizes + at, kept->sizes + at + 1, (size_t)(kept->count - at) * sizeof kept->sizes[0]);
}

static void expect_taken(struct kept *kept, size_t size)
{
    int at = kept->count - 1;
    while (at >= 0 && kept->sizes[at] != size)
        at--;
    if (at >= 0)
        remove_at(kept, at);
}

static void expect_kept(struct kept *kept, size_t size, size_t limit)
{
    if (size > limit)
        return;
    kept->sizes[kept->count++] = size;
    kept->bytes += size;
    while (kept->count > 256 || kept->bytes > limit)
        remove_at(kept, 0);
}

static unsigned drawn(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* Draws a small size, a size near the limit, or one between. */
static size_t drawn_size(unsigned *seed, size_t limit)
{
    switch (drawn(seed, 4)) {
    case 0:
        return limit - drawn(seed, 3) + 1;
    case 1:
        return limit / (2 + drawn(seed, 6));
    default:
        return 100 + 8 * drawn(seed, 40);
    }
}

START_TEST(the_oldest_go)
{
    enum { LIMIT = 20000, STEPS = 3000, HELD = 300 };
    struct kept kept = {.count = 0};
    synced_mem *held[HELD];
    unsigned seed = (unsigned)_i;
    int count = 0;
    const size_t limit = _i % 2 ? LIMIT : 100 * LIMIT;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(synced_mem_gpu_pool_set_spare_limit(0, limit));
    bool filling = true;
    for (int step = 0; step < STEPS; step++) {
        filling = count == 0 || (count < HELD && filling);
        if (filling && (count < 2 || drawn(&seed, 5) > 0)) {
            const size_t size = drawn_size(&seed, LIMIT);
            held[count++] = make_written_on(stream, size, 1);
            expect_taken(&kept, size);
        } else {
            const int which = (int)drawn(&seed, (unsigned)count);
            const size_t size = synced_mem_size(held[which]);
            OK(synced_mem_release(held[which]));
            held[which] = held[--count];
            expect_kept(&kept, size, limit);
        }
        ck_assert_uint_eq(stats_now().gpu_spare_bytes, kept.bytes);
        ck_assert_uint_eq(stats_now().retired, 0);
    }
    while (count > 0)
        OK(synced_mem_release(held[--count]));
    close_stream(stream);
}
END_TEST

/* A request that cannot use a piece does not change the piece's age. */
START_TEST(a_look_makes_nothing_younger)
{
    enum { PIECES = 5 };
    synced_mem_stream busy = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    synced_mem *mems[PIECES];
    OK(synced_mem_gpu_pool_set_spare_limit(0, PIECES * (SIZE + PIECES) - 1));
    for (int i = 0; i < PIECES; i++)
        mems[i] = make_written_on(busy, SIZE + (size_t)i, 1);
    gpu_hold(busy);
    release_all(mems, PIECES);
    const uint64_t all = stats_now().gpu_spare_bytes;
    for (int i = 0; i < PIECES; i++)
        mems[i] = make_written_on(other, SIZE + (size_t)((i + _i) % PIECES), 2);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, all);
    synced_mem *const more = make_written_on(other, SIZE + PIECES, 2);
    gpu_stream_sync(other);
    OK(synced_mem_release(more));
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, all + PIECES); /* the first piece, of SIZE bytes, has left */
    release_all(mems, PIECES);
    gpu_unhold();
    CLOSE_EACH(busy, other);
}
END_TEST

/* ---- Streams that vanish: destroyed without synced_mem_forget_stream(), and the handle reused ---- */

enum { READERS = 2 };

/* Destroys the stream, and opens others until one has its handle. Returns whether one has. */
static bool vanish(synced_mem_stream *stream)
{
    enum { MOST = 32 };
    const synced_mem_stream before = *stream;
    synced_mem_stream others[MOST];
    int count = 0;
    gpu_stream_destroy(before);
    while ((*stream = open_stream(NON_BLOCKING)) != before && count < MOST)
        others[count++] = *stream;
    for (int i = 0; i < count; i++)
        close_stream(others[i]);
    return *stream == before;
}

/* The kernel of a vanished stream may run for ever, so its memory is quarantined. The first request detects this.
 * Streams that used the memory too must not get it after that. */
START_TEST(a_reader_that_vanishes)
{
    static bool is_left; /* memory of an earlier test of the process: a later stream may get the handle */
    synced_mem_stream readers[READERS];
    const int first = _i % READERS;
    if (is_left || !gpu_has_stream_ids()) /* the library could pass the dead handle to the runtime, which may crash */
        return;
    const uint64_t before = stats_now().quarantined; /* other tests of the process may have lost memory */
    synced_mem_stream asking = open_stream(NON_BLOCKING);
    synced_mem *mem = make_at_cpu(SIZE, 1);
    void *const seen = gpu_alloc(0, SIZE);
    const void *data = NULL;
    for (int i = 0; i < READERS; i++)
        readers[i] = open_stream(NON_BLOCKING);
    for (int i = 0; i < READERS; i++)
        data = synced_mem_gpu_data_on(mem, readers[(first + i) % READERS]);
    gpu_stream_sync(readers[READERS - 1]);
    gpu_copy(seen, data, SIZE, readers[READERS - 1]);
    OK(synced_mem_release(mem));
    if (!vanish(&readers[READERS - 1])) {
        is_left = true;
        gpu_free(seen);
        return;
    }
    if (_i / READERS % 2) { /* the library detects the loss here, otherwise by a poll of the cache */
        mem = make_written_on(readers[READERS - 1], 100, 1);
        OK(synced_mem_release(mem));
    }
    for (int i = 0; i < 12; i++) {
        synced_mem_stream stream = i == 0 ? asking : readers[(i + 1) % READERS];
        mem = make_on(SIZE, 0);
        void *const got = synced_mem_overwrite_gpu_data_on(mem, stream);
        ck_assert_ptr_nonnull(got);
        ck_assert_ptr_ne(got, data);
        gpu_fill(got, SIZE, 2, stream);
        OK(synced_mem_release(mem));
    }
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().quarantined, before + 1);
    close_stream(asking);
    for (int i = 0; i < READERS; i++)
        close_stream(readers[i]);
    ck_assert(device_is(seen, SIZE, 1));
    gpu_free(seen);
    OK(synced_mem_shutdown());
}
END_TEST

enum { STREAMS = 5, OBJECTS = 12 };

/* An object, its pattern, and the streams that used it as bits. */
struct used {
    synced_mem *mem;
    unsigned pattern;
    unsigned by;
};

static void let_go(struct used *used)
{
    OK(synced_mem_release(used->mem));
    *used = (struct used){.mem = NULL};
}

static void use(struct used *used, bool writing, synced_mem_stream stream, unsigned pattern)
{
    unsigned char expected[SIZE + 1];
    const size_t size = synced_mem_size(used->mem);
    if (writing || used->pattern == 0) {
        used->pattern = pattern;
        void *const data = synced_mem_overwrite_gpu_data_on(used->mem, stream);
        ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
        gpu_fill(data, size, pattern, stream);
        return;
    }
    const void *const data = synced_mem_gpu_data_on(used->mem, stream);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    pattern_write(expected, size, used->pattern);
    gpu_expect(data, size, expected, stream);
}

/* Objects come and go on streams, and a stream vanishes after the release of the objects that it used. No request ever
 * gets their memory, whose work can no longer be queried. On a real runtime a handle is not always reused, and an
 * unused handle cannot be queried. */
START_TEST(streams_that_vanish)
{
    enum { STEPS = 400 };
    synced_mem_stream streams[STREAMS];
    struct used all[OBJECTS] = {{.mem = NULL}};
    unsigned seed = (unsigned)_i + 7 * fixture_schedule();
    if (!gpu_is_emulated())
        return;
    for (int i = 0; i < STREAMS; i++)
        streams[i] = open_stream(NON_BLOCKING);
    for (unsigned step = 0; step < STEPS; step++) {
        struct used *const used = &all[drawn(&seed, OBJECTS)];
        const unsigned on = drawn(&seed, STREAMS);
        const unsigned act = drawn(&seed, 16);
        if (!used->mem)
            used->mem = make_on(SIZE + drawn(&seed, 2), 0);
        if (act < 12) {
            use(used, act < 3, streams[on], 1 + step % 250);
            used->by |= 1u << on;
        } else if (act < 15) {
            let_go(used);
        } else {
            for (int i = 0; i < OBJECTS; i++)
                if (all[i].by & 1u << on)
                    let_go(&all[i]);
            ck_assert(vanish(&streams[on]));
        }
    }
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    for (int i = 0; i < OBJECTS; i++)
        if (all[i].mem)
            let_go(&all[i]);
    for (int i = 0; i < STREAMS; i++)
        close_stream(streams[i]);
    synced_mem_status status = synced_mem_shutdown();
    for (int i = 0; i < STREAMS && status != SYNCED_MEM_OK; i++) { /* the shutdown may be first to detect a loss */
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, status);
        status = synced_mem_shutdown();
    }
    OK(status);
}
END_TEST

/* Memory of many streams keeps the limit, though each has little and one has most of it. A smaller limit holds at once
 * too. */
START_TEST(the_limit_of_many_streams)
{
    enum { LIMIT = 20, OF_ONE = 18, OTHERS = 16 };
    synced_mem_stream streams[OTHERS];
    synced_mem *mems[OF_ONE];
    OK(synced_mem_gpu_pool_set_spare_limit(0, LIMIT * SIZE));
    for (int i = 0; i < OTHERS; i++)
        streams[i] = open_stream(NON_BLOCKING);
    for (int i = 0; i < OF_ONE; i++)
        mems[i] = make_written_on(streams[0], SIZE, 1);
    release_all(mems, OF_ONE);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, OF_ONE * SIZE);
    for (int i = 1; i < OTHERS; i++) {
        OK(synced_mem_release(make_written_on(streams[i], SIZE + (size_t)i, 1))); /* another one's has another size */
        const uint64_t spare = stats_now().gpu_spare_bytes;
        ck_assert_uint_le(spare, LIMIT * SIZE);
        ck_assert_uint_ge(spare, i < LIMIT - OF_ONE ? (OF_ONE + i) * SIZE : (LIMIT - 1) * SIZE);
    }
    OK(synced_mem_gpu_pool_set_spare_limit(0, 1000 * SIZE)); /* of which no stream has a large part */
    OK(synced_mem_release(make_written_on(streams[0], SIZE + 100, 1)));
    OK(synced_mem_gpu_pool_set_spare_limit(0, (LIMIT + 2) * SIZE));
    for (int i = 1; i < OTHERS; i++)
        OK(synced_mem_release(make_written_on(streams[i], SIZE / 4 + (size_t)i, 1)));
    ck_assert_uint_le(stats_now().gpu_spare_bytes, (LIMIT + 2) * SIZE);
    ck_assert_uint_ge(stats_now().gpu_spare_bytes, LIMIT * SIZE);
    for (int i = 0; i < OTHERS; i++)
        close_stream(streams[i]);
}
END_TEST

Suite *suite(void)
{
    Suite *const of = suite_create("device_cache");
    TCase *tests = add_case(of, "spare");
    add_tests(tests, streams_share_no_shard, limits);
    add_gpu_tests(tests, beside_a_busy_stream, without_a_stream, by_size, trimmed, of_a_parent, of_the_same_thread,
                  the_limit_by_threads, the_limit_of_many_streams);
    add_gpu_loop_test(tests, on_the_same_stream, 0, STREAM_KINDS);
    add_gpu_loop_test(tests, on_another_stream, 0, 2);
    add_gpu_loop_test(tests, streams_that_go, 0, 2);
    add_gpu_loop_test(tests, the_oldest_go, 0, 4);
    add_gpu_loop_test(tests, a_look_makes_nothing_younger, 0, 2);
    TCase *const gone = add_case_without_end(of, "gone");
    add_gpu_loop_test(gone, a_reader_that_vanishes, 0, 2 * READERS);
    tcase_add_loop_test(gone, streams_that_vanish, 0, 20);
    return of;
}
