/* Checks accesses on streams: their results, and the waits of streams and of the host. */
#include "fixture.h"

#include <string.h>

enum { SIZE = 5000 };

enum { READ, MUTABLE, OVERWRITE, MODES };

static void *ask(synced_mem *mem, int mode, synced_mem_stream stream)
{
    void *const data = mode == READ      ? (void *)synced_mem_gpu_data_on(mem, stream)
                       : mode == MUTABLE ? synced_mem_mutable_gpu_data_on(mem, stream)
                                         : synced_mem_overwrite_gpu_data_on(mem, stream);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    return data;
}

/* These queue kernels of the caller's, on the stream that the pointer is requested for. */
static void write_on(synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    void *const data = ask(mem, MUTABLE, stream);
    gpu_delay(stream);
    gpu_fill(data, SIZE, pattern, stream);
}

static void read_on(synced_mem *mem, void *seen, synced_mem_stream stream)
{
    const void *const data = ask(mem, READ, stream);
    gpu_delay(stream);
    gpu_copy(seen, data, SIZE, stream);
}

/* The library's events and waits since earlier statistics. */
struct traffic {
    uint64_t records, stream_waits, host_waits;
};

static struct traffic traffic_since(const synced_mem_stats *before)
{
    const synced_mem_stats now = stats_now();
    return (struct traffic){.records = now.event_records - before->event_records,
                            .stream_waits = now.stream_waits - before->stream_waits,
                            .host_waits = now.host_waits - before->host_waits};
}

#define NO_TRAFFIC_SINCE(before)                                                                                       \
    do {                                                                                                               \
        const struct traffic traffic_ = traffic_since(before);                                                         \
        ck_assert_uint_eq(traffic_.records, 0);                                                                        \
        ck_assert_uint_eq(traffic_.stream_waits, 0);                                                                   \
        ck_assert_uint_eq(traffic_.host_waits, 0);                                                                     \
    } while (0)

/* Makes an object, SYNCED, with nothing in flight. */
static synced_mem *make_synced(unsigned pattern)
{
    synced_mem *const mem = make_at_cpu(SIZE, pattern);
    OK(synced_mem_async_gpu_push(mem, NULL));
    OK(synced_mem_wait(mem));
    return mem;
}

/* ---- Results ---- */

static synced_mem *make_with_head(synced_mem_head_kind head)
{
    switch (head) {
    case SYNCED_MEM_UNINITIALIZED:
    case SYNCED_MEM_MIXED:
        break;
    case SYNCED_MEM_AT_CPU:
        return make_at_cpu(SIZE, 1);
    case SYNCED_MEM_AT_GPU:
        return make_at_gpu(SIZE, 1);
    case SYNCED_MEM_SYNCED:
        return make_synced(1);
    }
    return make(SIZE);
}

static const struct cell {
    synced_mem_head_kind next;
    unsigned transfers;
    unsigned pattern; /* that a kernel behind the call sees */
} table[4][MODES] = {
    [SYNCED_MEM_UNINITIALIZED] = {{SYNCED_MEM_AT_GPU, 0, 0}, {SYNCED_MEM_AT_GPU, 0, 0}, {SYNCED_MEM_AT_GPU, 0, 0}},
    [SYNCED_MEM_AT_CPU] = {{SYNCED_MEM_SYNCED, 1, 1}, {SYNCED_MEM_AT_GPU, 1, 1}, {SYNCED_MEM_AT_GPU, 0, 0}},
    [SYNCED_MEM_AT_GPU] = {{SYNCED_MEM_AT_GPU, 0, 1}, {SYNCED_MEM_AT_GPU, 0, 1}, {SYNCED_MEM_AT_GPU, 0, 0}},
    [SYNCED_MEM_SYNCED] = {{SYNCED_MEM_SYNCED, 0, 1}, {SYNCED_MEM_AT_GPU, 0, 1}, {SYNCED_MEM_AT_GPU, 0, 0}},
};

/* A repeated access of one kind makes no call of the runtime. In debug mode each access to write takes the slow
 * path. */
static void check_hot(synced_mem *mem, int mode, synced_mem_stream stream, const void *data)
{
    if (mode != READ && old_pointers_fault())
        return;
    const synced_mem_stats before = stats_now();
    const unsigned calls = gpu_calls(NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(ask(mem, mode, stream), data);
    ck_assert_uint_eq(gpu_calls(NULL), calls);
    const synced_mem_stats after = stats_now();
    ck_assert_int_eq(memcmp(&before, &after, sizeof after), 0);
}

START_TEST(each_cell)
{
    const synced_mem_head_kind head = (synced_mem_head_kind)(_i / MODES);
    const int mode = _i % MODES;
    const struct cell *const expected = &table[head][mode];
    for (int kind = 0; gpu_expected() && kind < STREAM_KINDS; kind++) {
        synced_mem_stream stream = open_stream(kind);
        void *const seen = gpu_alloc(0, SIZE);
        synced_mem *const mem = make_with_head(head);
        const uint64_t before = stats_now().h2d_transfers;
        void *const data = ask(mem, mode, stream);
        ck_assert_int_eq(synced_mem_head(mem), expected->next);
        ck_assert_uint_eq(stats_now().h2d_transfers - before, expected->transfers);
        ck_assert_int_eq(synced_mem_device(mem), 0);
        check_hot(mem, mode, stream, data);
        if (mode != OVERWRITE) {
            gpu_copy(seen, data, SIZE, stream);
            gpu_stream_sync(stream);
            ck_assert(device_is(seen, SIZE, expected->pattern));
        }
        if (mode != READ) {
            gpu_fill(data, SIZE, 2, stream);
            ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
        }
        OK(synced_mem_release(mem));
        close_stream(stream);
        gpu_free(seen);
    }
}
END_TEST

START_TEST(without_a_gpu)
{
    if (gpu_expected())
        return;
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    const struct facts before = facts_of(mem);
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data_on(mem, NULL));
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_mutable_gpu_data_on(mem, NULL));
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_overwrite_gpu_data_on(mem, NULL));
    SAYS("synced_mem_overwrite_gpu_data_on");
    FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_end_use_on(mem, NULL));
    OK(synced_mem_forget_stream(NULL));
    OK(synced_mem_reap());
    OK(synced_mem_wait(mem));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- The device of a stream ---- */

START_TEST(stream_of_another_device)
{
    if (devices() < 2)
        return;
    synced_mem_stream theirs = gpu_stream_create(1, false);
    synced_mem *const mem = make_on(SIZE, 0);
    void *const data = synced_mem_mutable_gpu_data(mem);
    gpu_fill(data, SIZE, 1, NULL);
    const struct facts before = facts_of(mem);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_data_on(mem, theirs));
    SAYS("device 1");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_mutable_gpu_data_on(mem, theirs));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_overwrite_gpu_data_on(mem, theirs));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_async_cpu_pull(mem, theirs));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_end_use_on(mem, theirs));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, USE(mem, .cpu_data = (void *)&theirs, .stream = theirs));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, USE(mem, .gpu_data = data, .stream = theirs));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_async_gpu_push(mem, theirs));
    OK(synced_mem_release(mem));
    close_stream(theirs);
}
END_TEST

/* The first call with a stream, of any kind, settles the object's device. */
START_TEST(device_of_the_stream_is_taken)
{
    const int last = devices() - 1;
    char host[SIZE];
    synced_mem_stream stream = gpu_stream_create(last, false);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    switch (_i) {
    case 0:
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
        break;
    case 1:
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, stream));
        break;
    case 2:
        OK(synced_mem_async_gpu_push(mem, stream));
        break;
    case 3:
        OK(USE(mem, .cpu_data = host, .stream = stream));
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
        break;
    }
    ck_assert_int_eq(synced_mem_device(mem), last);
    ck_assert_int_eq(gpu_current_device(), 0);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* Two handles name the legacy stream, which never waits for itself. */
START_TEST(two_handles_of_the_legacy_stream)
{
    synced_mem_stream other = (synced_mem_stream)0x1;
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_synced(1);
    write_on(mem, 2, NULL);
    const synced_mem_stats before = stats_now();
    read_on(mem, seen, other);
    write_on(mem, 3, other);
    write_on(mem, 4, NULL);
    NO_TRAFFIC_SINCE(&before);
    OK(synced_mem_end_use_on(mem, other));
    ck_assert_uint_eq(traffic_since(&before).records, 1);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    ck_assert(device_is(seen, SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_free(seen);
}
END_TEST

/* The per-thread stream is another stream in each thread, and ends with the thread. The test has one thread. */
START_TEST(per_thread_stream)
{
    synced_mem_stream own = (synced_mem_stream)0x2;
    if (!gpu_expected() || !gpu_has_per_thread_stream())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_synced(1);
    write_on(mem, 2, own);
    read_on(mem, seen, stream);
    write_on(mem, 3, own);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    gpu_stream_sync(stream);
    ck_assert(device_is(seen, SIZE, 2));
    OK(synced_mem_forget_stream(own));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_free(seen);
}
END_TEST

/* Frameworks use -1 for no stream. The hot path compares the handle with records of streams that have no pointer, are
 * over, or have no handle. No record matches in any state of the object. */
START_TEST(a_handle_of_no_stream)
{
    synced_mem_stream none = (synced_mem_stream)UINTPTR_MAX;
    synced_mem *const mem = make(SIZE);
    for (int step = 0; step < (gpu_expected() ? 6 : 2); step++) {
        synced_mem_stream stream = step == 4 ? open_stream(NON_BLOCKING) : NULL;
        if (step == 1)
            host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
        if (step == 2)
            ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        if (step == 3 || step == 4)
            ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, stream));
        if (step == 4)
            close_stream(stream);
        if (step == 5 && gpu_has_per_thread_stream())
            ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, (synced_mem_stream)0x2));
        const struct facts before = facts_of(mem);
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_data_on(mem, none));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_mutable_gpu_data_on(mem, none));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_overwrite_gpu_data_on(mem, none));
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_end_use_on(mem, none));
        SAYS("no stream");
        check_unchanged(mem, &before);
        OK(synced_mem_forget_stream(none));
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Order ---- */

/* One stream writes and another one reads, in turns. */
START_TEST(ping_pong)
{
    enum { ROUNDS = 8 };
    void *seen[ROUNDS];
    synced_mem_stream writer = open_stream(_i / STREAM_KINDS);
    synced_mem_stream reader = open_stream(_i % STREAM_KINDS);
    synced_mem *const mem = make(SIZE);
    for (unsigned i = 0; i < ROUNDS; i++) {
        seen[i] = gpu_alloc(0, SIZE);
        write_on(mem, i + 1, writer);
        read_on(mem, seen[i], reader);
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, ROUNDS));
    gpu_stream_sync(reader);
    for (unsigned i = 0; i < ROUNDS; i++) {
        ck_assert(device_is(seen[i], SIZE, i + 1));
        gpu_free(seen[i]);
    }
    OK(synced_mem_release(mem));
    CLOSE_EACH(writer, reader);
}
END_TEST

/* Two streams write, and one of them also reads the other's contents. */
START_TEST(two_writers)
{
    synced_mem_stream first = open_stream(NON_BLOCKING);
    synced_mem_stream second = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    write_on(mem, 2, first);
    write_on(mem, 3, second);
    read_on(mem, seen, first);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    write_on(mem, 4, first);
    write_on(mem, 5, second);
    ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 5));
    gpu_stream_sync(first);
    ck_assert(device_is(seen, SIZE, 3));
    OK(synced_mem_release(mem));
    CLOSE_EACH(first, second);
    gpu_free(seen);
}
END_TEST

/* A stream that writes may read too. It comes after its own work without an event. */
START_TEST(own_turn)
{
    synced_mem_stream stream = open_stream(_i);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_synced(1);
    write_on(mem, 2, stream);
    const synced_mem_stats before = stats_now();
    for (unsigned i = 3; i < 6; i++) {
        read_on(mem, seen, stream);
        write_on(mem, i, stream);
    }
    NO_TRAFFIC_SINCE(&before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 5));
    /* One event stands for all work of the stream, and one for the transfer, which the legacy stream makes itself. */
    ck_assert_uint_eq(traffic_since(&before).records, _i == LEGACY ? 1 : 2);
    ck_assert(device_is(seen, SIZE, 4));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_free(seen);
}
END_TEST

/* A read by another stream ends the open write. The writer's next access comes after that reader. */
START_TEST(a_turn_ends)
{
    synced_mem_stream writer = open_stream(NON_BLOCKING);
    synced_mem_stream reader = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_synced(1);
    write_on(mem, 2, writer);
    const synced_mem_stats before = stats_now();
    read_on(mem, seen, reader);
    ck_assert_uint_eq(traffic_since(&before).records, 1);
    ck_assert_uint_eq(traffic_since(&before).stream_waits, 1);
    write_on(mem, 3, writer);
    ck_assert_uint_eq(traffic_since(&before).records, 2);
    ck_assert_uint_eq(traffic_since(&before).stream_waits, 2 + !gpu_has_stream_ids());
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    gpu_stream_sync(reader);
    ck_assert(device_is(seen, SIZE, 2));
    OK(synced_mem_release(mem));
    CLOSE_EACH(writer, reader);
    gpu_free(seen);
}
END_TEST

/* ---- Waits that do not happen ---- */

/* The first reader is stuck. Neither another stream that reads nor the host waits for it. */
START_TEST(readers_do_not_wait_for_one_another)
{
    synced_mem_stream stuck = open_stream(NON_BLOCKING);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    void *const late = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_synced(1);
    const synced_mem_stats before = stats_now();
    gpu_hold(stuck);
    read_on(mem, late, stuck);
    read_on(mem, seen, other);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    NO_TRAFFIC_SINCE(&before);
    gpu_stream_sync(other);
    ck_assert(!gpu_stream_is_idle(stuck));
    /* The host may write its copy as well. The device copy becomes stale, and is not touched yet. */
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    OK(synced_mem_async_gpu_push(mem, other));
    gpu_unhold();
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    gpu_stream_sync(stuck);
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert(device_is(late, SIZE, 1));
    OK(synced_mem_release(mem));
    CLOSE_EACH(stuck, other);
    gpu_free(seen);
    gpu_free(late);
}
END_TEST

/* A stream that reads again does not wait either, after another stream has read. */
START_TEST(readers_in_turns)
{
    synced_mem_stream streams[] = {open_stream(NON_BLOCKING), open_stream(BLOCKING), NULL};
    void *const seen[] = {gpu_alloc(0, SIZE), gpu_alloc(0, SIZE), gpu_alloc(0, SIZE)};
    synced_mem *const mem = make_synced(1);
    const synced_mem_stats before = stats_now();
    for (int i = 0; i < 9; i++)
        read_on(mem, seen[i % 3], streams[i % 3]);
    NO_TRAFFIC_SINCE(&before);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    OK(synced_mem_async_gpu_push(mem, streams[0]));
    ck_assert_uint_eq(traffic_since(&before).stream_waits, 2);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    for (int i = 0; i < 3; i++) {
        close_stream(streams[i]);
        ck_assert(device_is(seen[i], SIZE, 1));
        gpu_free(seen[i]);
    }
}
END_TEST

/* An access without a stream returns when conflicting work of all streams is over. */
START_TEST(without_a_stream_is_for_all_streams)
{
    synced_mem_stream stream = open_stream(_i);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_synced(1);
    write_on(mem, 2, stream);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    ck_assert(gpu_stream_is_idle(stream));
    read_on(mem, seen, stream);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert(gpu_stream_is_idle(stream));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_free(seen);
}
END_TEST

/* Kernels on a pointer that was requested without a stream come first. */
START_TEST(behind_kernels_of_no_stream)
{
    synced_mem_stream kernels = open_stream(_i % 2);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    void *const data = synced_mem_mutable_gpu_data(mem);
    gpu_delay(kernels);
    gpu_fill(data, SIZE, 2, kernels);
    if (_i / 2)
        write_on(mem, 3, stream);
    else
        read_on(mem, seen, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, _i / 2 ? 3 : 2));
    gpu_stream_sync(stream);
    if (!(_i / 2))
        ck_assert(device_is(seen, SIZE, 2));
    OK(synced_mem_release(mem));
    CLOSE_EACH(kernels, stream);
    gpu_free(seen);
}
END_TEST

/* The transfer for an access is queued on the stream itself. The host does not wait if the source is page-locked. */
START_TEST(a_transfer_on_the_stream)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_on(SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    const synced_mem_stats before = stats_now();
    gpu_hold(stream);
    read_on(mem, seen, stream);
    ck_assert_uint_eq(traffic_since(&before).host_waits, 0);
    ck_assert(!gpu_stream_is_idle(stream));
    gpu_unhold();
    gpu_stream_sync(stream);
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_free(seen);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("stream");
    TCase *const tests = add_case(made, "values");
    tcase_add_test(tests, without_a_gpu);
    tcase_add_loop_test(tests, each_cell, 0, 4 * MODES);
    TCase *const whose = add_case(made, "whose");
    add_tests(whose, stream_of_another_device, per_thread_stream, a_handle_of_no_stream);
    add_gpu_tests(whose, two_handles_of_the_legacy_stream);
    add_gpu_loop_test(whose, device_of_the_stream_is_taken, 0, 4);
    TCase *const order = add_case(made, "order");
    add_gpu_tests(order, two_writers, a_turn_ends, readers_do_not_wait_for_one_another, readers_in_turns,
                  a_transfer_on_the_stream);
    add_gpu_loop_test(order, ping_pong, 0, STREAM_KINDS * STREAM_KINDS);
    add_gpu_loop_test(order, own_turn, 0, STREAM_KINDS);
    add_gpu_loop_test(order, without_a_stream_is_for_all_streams, 0, STREAM_KINDS);
    add_gpu_loop_test(order, behind_kernels_of_no_stream, 0, 4);
    return made;
}
