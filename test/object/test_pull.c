/* Checks pulls, transfers of many objects with one event, and the queries and waits for transfers. The suite hazards
 * checks each call that comes while a pull is in flight. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 70000 };

/* Makes an object, AT_GPU, with page-locked host memory. A kernel on the stream has written the contents. */
static synced_mem *make_written_on(unsigned pattern, synced_mem_stream stream)
{
    synced_mem *const mem = make_on(SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    void *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_delay(stream);
    gpu_fill(data, SIZE, pattern, stream);
    return mem;
}

static synced_mem *make_pinned_at_cpu(unsigned pattern)
{
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, pattern);
    return mem;
}

static int is_pending(synced_mem *mem)
{
    int pending = -1;
    OK(synced_mem_query(mem, &pending));
    return pending;
}

/* ---- One object ---- */

START_TEST(pull_then_read)
{
    synced_mem_stream stream = open_stream(_i % STREAM_KINDS);
    synced_mem_stream writer = _i / STREAM_KINDS ? open_stream(NON_BLOCKING) : stream;
    synced_mem *const mem = make_written_on(1, writer);
    OK(synced_mem_async_cpu_pull(mem, stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    const synced_mem_stats pulled = stats_now();
    ck_assert_uint_eq(pulled.d2h_transfers, 1);
    ck_assert_uint_eq(pulled.d2h_bytes, SIZE);
    for (int i = 0; i < 3; i++)
        OK(synced_mem_async_cpu_pull(mem, i ? writer : NULL));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_uint_eq(stats_now().d2h_transfers, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    if (writer != stream)
        close_stream(writer);
    close_stream(stream);
}
END_TEST

START_TEST(pull_from_wrong_heads)
{
    synced_mem *const nothing = make(SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    const struct facts before[] = {facts_of(nothing), facts_of(mem)};
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(nothing, NULL));
    SAYS("synced_mem_async_cpu_pull: the head is UNINITIALIZED");
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(mem, NULL));
    SAYS("AT_CPU");
    check_unchanged(nothing, &before[0]);
    check_unchanged(mem, &before[1]);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    RELEASE_EACH(nothing, mem);
}
END_TEST

/* Later work on the stream is stuck. A call that needs the contents waits for the pull alone. */
START_TEST(only_the_pull_is_waited_for)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_written_on(1, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    gpu_hold(stream);
    switch (_i) {
    case 0:
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
        break;
    case 1:
        ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 1));
        break;
    case 2:
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
        break;
    case 3:
        OK(synced_mem_wait(mem));
        break;
    case 4:
        while (is_pending(mem))
            continue;
        break;
    }
    ck_assert(!gpu_stream_is_idle(stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    gpu_unhold();
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* ---- Many objects ---- */

enum { MANY = 20 };

/* Makes the objects. Every second one is SYNCED already. */
static void make_many(synced_mem *all[MANY], bool pull, synced_mem_stream stream)
{
    for (unsigned i = 0; i < MANY; i++) {
        all[i] = pull ? make_written_on(i + 1, stream) : make_pinned_at_cpu(i + 1);
        if (i % 2)
            OK(pull ? synced_mem_async_cpu_pull(all[i], stream) : synced_mem_async_gpu_push(all[i], stream));
    }
}

static synced_mem_status move_n(bool pull, synced_mem *const *all, size_t count, synced_mem_stream stream)
{
    return pull ? synced_mem_async_cpu_pull_n(all, count, stream) : synced_mem_async_gpu_push_n(all, count, stream);
}

START_TEST(many_with_one_event)
{
    synced_mem *all[MANY];
    const bool pull = _i % 2;
    synced_mem_stream kernels = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(_i / 2);
    make_many(all, pull, kernels);
    for (int i = 0; i < MANY && pull; i++)
        OK(synced_mem_end_use_on(all[i], kernels));
    const synced_mem_stats before = stats_now();
    OK(move_n(pull, all, MANY, stream));
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.event_records, before.event_records + 1);
    ck_assert_uint_eq(after.host_waits, before.host_waits);
    ck_assert_uint_eq(after.h2d_transfers + after.d2h_transfers - before.h2d_transfers - before.d2h_transfers,
                      MANY / 2);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_int_eq(synced_mem_head(all[i]), SYNCED_MEM_SYNCED);
        ck_assert(host_is(synced_mem_cpu_data(all[i]), SIZE, i + 1));
        ck_assert(device_is(synced_mem_gpu_data(all[i]), SIZE, i + 1));
        OK(synced_mem_release(all[i]));
    }
    CLOSE_EACH(kernels, stream);
}
END_TEST

START_TEST(the_same_object_twice)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const a = make_pinned_at_cpu(1);
    synced_mem *const b = make_pinned_at_cpu(2);
    synced_mem *const all[] = {b, a, b, b, a};
    OK(synced_mem_async_gpu_push_n(all, 5, stream));
    ck_assert_uint_eq(stats_now().h2d_transfers, 2);
    ck_assert(device_is(synced_mem_gpu_data(a), SIZE, 1));
    ck_assert(device_is(synced_mem_gpu_data(b), SIZE, 2));
    gpu_fill(synced_mem_mutable_gpu_data_on(a, stream), SIZE, 3, stream);
    gpu_fill(synced_mem_mutable_gpu_data_on(b, stream), SIZE, 4, stream);
    OK(synced_mem_async_cpu_pull_n(all, 5, stream));
    ck_assert_uint_eq(stats_now().d2h_transfers, 2);
    ck_assert(host_is(synced_mem_cpu_data(a), SIZE, 3));
    ck_assert(host_is(synced_mem_cpu_data(b), SIZE, 4));
    RELEASE_EACH(a, b);
    close_stream(stream);
}
END_TEST

START_TEST(none_or_no_array)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem *const with_null[] = {mem, NULL, mem};
    for (int pull = 0; pull < 2; pull++) {
        OK(move_n(pull, NULL, 0, NULL));
        OK(move_n(pull, with_null, 0, NULL));
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, move_n(pull, NULL, 1, NULL));
        SAYS(pull ? "synced_mem_async_cpu_pull_n" : "synced_mem_async_gpu_push_n");
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, move_n(pull, with_null, 3, NULL));
        SAYS("mems[1] of 3");
    }
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    OK(synced_mem_release(mem));
}
END_TEST

/* One object of several cannot be moved. The error names it, and all heads stay as they were. */
START_TEST(one_of_many_fails)
{
    const bool pull = _i % 2;
    synced_mem_options options = default_options();
    synced_mem *wrong = NULL;
    options.name = "wrong";
    if (gpu_expected() && _i >= 6)
        options.device = 0; /* as the others */
    OK(synced_mem_create(&wrong, SIZE, &options));
    synced_mem *first = wrong;
    synced_mem *last = wrong;
    if (gpu_expected()) {
        first = pull ? make_written_on(1, NULL) : make_pinned_at_cpu(1);
        last = pull ? make_written_on(2, NULL) : make_pinned_at_cpu(2);
    }
    synced_mem *const orders[][3] = {{first, wrong, last}, {wrong, first, last}, {first, last, wrong}};
    const struct facts before[] = {facts_of(first), facts_of(last)};
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, move_n(pull, orders[_i % 6 / 2], 3, NULL));
    SAYS("'wrong'");
    SAYS("UNINITIALIZED");
    ck_assert_int_eq(synced_mem_head(first), before[0].head);
    ck_assert_int_eq(synced_mem_head(last), before[1].head);
    if (gpu_expected()) {
        ck_assert(host_is(synced_mem_cpu_data(first), SIZE, 1));
        ck_assert(device_is(synced_mem_gpu_data(last), SIZE, 2));
        RELEASE_EACH(first, last);
    }
    OK(synced_mem_release(wrong));
}
END_TEST

START_TEST(many_of_two_devices)
{
    if (devices() < 2)
        return;
    synced_mem *const all[] = {make_pinned_at_cpu(1), make_on(SIZE, 1), make_pinned_at_cpu(3)};
    synced_mem_stream streams[] = {gpu_stream_create(0, false), gpu_stream_create(1, false)};
    host_fill(synced_mem_overwrite_cpu_data(all[1]), SIZE, 2);
    for (int i = 0; i < 2; i++) {
        FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_async_gpu_push_n(all, 3, streams[i]));
        for (unsigned j = 0; j < 3; j++) {
            ck_assert_int_eq(synced_mem_head(all[j]), SYNCED_MEM_AT_CPU);
            ck_assert(host_is(synced_mem_mutable_cpu_data(all[j]), SIZE, j + 1));
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        OK(synced_mem_async_gpu_push(all[i], streams[i % 2]));
        ck_assert(host_is(synced_mem_cpu_data(all[i]), SIZE, i + 1));
        OK(synced_mem_release(all[i]));
    }
    CLOSE_EACH(streams[0], streams[1]);
}
END_TEST

/* Objects without a device take the device of the stream. */
START_TEST(many_of_no_device)
{
    const int last = devices() - 1;
    synced_mem_stream stream = gpu_stream_create(last, false);
    synced_mem *const all[] = {make_at_cpu(SIZE, 1), make_at_cpu(SIZE, 2)};
    OK(synced_mem_async_gpu_push_n(all, 2, stream));
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(synced_mem_device(all[i]), last);
        OK(synced_mem_release_cpu_data(all[i]));
        ck_assert(host_is(synced_mem_cpu_data(all[i]), SIZE, i + 1));
        OK(synced_mem_release(all[i]));
    }
    close_stream(stream);
}
END_TEST

/* ---- Queries and waits ---- */

START_TEST(query_and_wait)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_pinned_at_cpu(1);
    ck_assert_int_eq(is_pending(mem), 0);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(is_pending(mem), 1);
    gpu_unhold();
    OK(synced_mem_wait(mem));
    ck_assert_int_eq(is_pending(mem), 0);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* Neither a query nor a wait covers the caller's own work, with a transfer before it or without one. */
START_TEST(kernels_are_not_asked_about)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_pinned_at_cpu(1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    OK(synced_mem_wait(mem));
    gpu_hold(stream);
    gpu_copy(seen, synced_mem_gpu_data_on(mem, stream), SIZE, stream);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
    ck_assert_int_eq(is_pending(mem), 0);
    OK(synced_mem_wait(mem));
    ck_assert(!gpu_stream_is_idle(stream));
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_free(seen);
}
END_TEST

/* A query also covers a transfer that a later open write comes after. */
START_TEST(transfers_before_a_turn)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_pinned_at_cpu(1);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
    ck_assert_int_eq(is_pending(mem), 1);
    gpu_unhold();
    OK(synced_mem_wait(mem));
    ck_assert_int_eq(is_pending(mem), 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

START_TEST(nothing_to_ask_about)
{
    int pending = 77;
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_query(mem, &pending));
    ck_assert_int_eq(pending, 0);
    OK(synced_mem_wait(mem));
    OK(synced_mem_reap());
    pending = 77;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_query(NULL, &pending));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_query(NULL, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_query(mem, NULL));
    SAYS("pending");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_wait(NULL));
    ck_assert_int_eq(pending, 77);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Reaping ---- */

static int handed_over;

static void note(void *data, void *user, synced_mem_stream stream)
{
    (void)user;
    ck_assert_ptr_null(stream);
    handed_over++;
    gpu_pinned_free(data);
}

/* Adopted memory goes back when its last transfer has ended, in the first call that polls. */
START_TEST(reap)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    OK(USE(mem, .cpu_data = gpu_pinned_alloc(SIZE), .callback = note));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 1);
    ck_assert_int_eq(handed_over, 0);
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_over, 1);
    ck_assert_uint_eq(stats_now().retired, 0);
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("pull");
    TCase *const one = add_case(made, "one");
    tcase_add_test(one, pull_from_wrong_heads);
    add_gpu_loop_test(one, pull_then_read, 0, 2 * STREAM_KINDS);
    add_gpu_loop_test(one, only_the_pull_is_waited_for, 0, 5);
    TCase *const many = add_case(made, "many");
    add_tests(many, none_or_no_array, many_of_two_devices);
    add_gpu_tests(many, the_same_object_twice, many_of_no_device);
    add_gpu_loop_test(many, many_with_one_event, 0, 2 * STREAM_KINDS);
    tcase_add_loop_test(many, one_of_many_fails, 0, 12);
    TCase *const asking = add_case(made, "asking");
    tcase_add_test(asking, nothing_to_ask_about);
    add_gpu_tests(asking, query_and_wait, kernels_are_not_asked_about, transfers_before_a_turn, reap);
    return made;
}
