/* Checks the end of a stream's use of an object, and of all its uses. Later calls wait for the work before the end, and
 * for no other work. */
#include "fixture.h"

enum { SIZE = 5000 };

static void *asked(const void *data)
{
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    return (void *)data;
}

static void write_on(synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    void *const data = asked(synced_mem_mutable_gpu_data_on(mem, stream));
    gpu_delay(stream);
    gpu_fill(data, SIZE, pattern, stream);
}

static void read_on(synced_mem *mem, void *seen, synced_mem_stream stream)
{
    const void *const data = asked(synced_mem_gpu_data_on(mem, stream));
    gpu_delay(stream);
    gpu_copy(seen, data, SIZE, stream);
}

/* The state of a test: an object whose copies are page-locked, two streams, and memory that kernels read into. */
static struct {
    synced_mem *mem;
    synced_mem_stream one, two;
    void *seen;
} it;

static void begin(void)
{
    it.mem = make_on(SIZE, 0);
    it.one = open_stream(NON_BLOCKING);
    it.two = open_stream(NON_BLOCKING);
    it.seen = gpu_alloc(0, SIZE);
    host_fill(synced_mem_overwrite_cpu_data(it.mem), SIZE, 1);
    OK(synced_mem_async_gpu_push(it.mem, it.two));
    OK(synced_mem_wait(it.mem));
}

static void finish(void)
{
    OK(synced_mem_release(it.mem));
    CLOSE_EACH(it.one, it.two);
    gpu_free(it.seen);
}

/* ---- One object ---- */

/* The host gets the contents although later work on the stream is stuck. */
START_TEST(the_host_waits_for_no_later_work)
{
    begin();
    write_on(it.mem, 2, it.one);
    OK(synced_mem_end_use_on(it.mem, it.one));
    gpu_hold(it.one);
    const void *const data = _i == 0   ? synced_mem_cpu_data(it.mem)
                             : _i == 1 ? synced_mem_mutable_cpu_data(it.mem)
                                       : NULL;
    if (_i < 2)
        ck_assert(host_is(data, SIZE, 2));
    else
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(it.mem));
    ck_assert(!gpu_stream_is_idle(it.one));
    gpu_unhold();
    finish();
}
END_TEST

/* Another stream does not wait for later work either. */
START_TEST(a_stream_waits_for_no_later_work)
{
    const bool reads = _i == 0;
    begin();
    if (reads)
        read_on(it.mem, it.seen, it.one);
    else
        write_on(it.mem, 2, it.one);
    OK(synced_mem_end_use_on(it.mem, it.one));
    gpu_hold(it.one);
    write_on(it.mem, 3, it.two);
    gpu_stream_sync(it.two);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 3));
    gpu_unhold();
    gpu_stream_sync(it.one);
    if (reads)
        ck_assert(device_is(it.seen, SIZE, 1));
    finish();
}
END_TEST

/* Work that was queued before the end of the use is waited for. */
START_TEST(earlier_work_is_waited_for)
{
    begin();
    read_on(it.mem, it.seen, it.one);
    OK(synced_mem_end_use_on(it.mem, it.one));
    write_on(it.mem, 3, it.two);
    OK(synced_mem_end_use_on(it.mem, it.two));
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 3));
    gpu_stream_sync(it.one);
    ck_assert(device_is(it.seen, SIZE, 1));
    finish();
}
END_TEST

/* The stream may request the pointer again, and its new use is waited for. */
START_TEST(after_done_comes_another_use)
{
    begin();
    for (unsigned i = 2; i < 6; i++) {
        write_on(it.mem, i, it.one);
        OK(synced_mem_end_use_on(it.mem, it.one));
        read_on(it.mem, it.seen, it.one);
        OK(synced_mem_end_use_on(it.mem, it.one));
    }
    write_on(it.mem, 6, it.one);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 6));
    ck_assert(device_is(it.seen, SIZE, 5));
    finish();
}
END_TEST

/* The end of a use records one event. Without a use, or once it has ended, none is recorded. */
START_TEST(events_of_done)
{
    begin();
    const uint64_t before = stats_now().event_records;
    OK(synced_mem_end_use_on(it.mem, it.one));
    OK(synced_mem_end_use_on(it.mem, NULL));
    OK(synced_mem_forget_stream(it.one));
    ck_assert_uint_eq(stats_now().event_records, before);
    read_on(it.mem, it.seen, it.one);
    OK(synced_mem_end_use_on(it.mem, it.one));
    ck_assert_uint_eq(stats_now().event_records, before + 1);
    OK(synced_mem_end_use_on(it.mem, it.one));
    ck_assert_uint_eq(stats_now().event_records, before + 1);
    write_on(it.mem, 2, it.one);
    read_on(it.mem, it.seen, it.one);
    OK(synced_mem_end_use_on(it.mem, it.one));
    ck_assert_uint_eq(stats_now().event_records, before + 2);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 2));
    finish();
}
END_TEST

/* The object has no device copy, or the stream was never given its pointer. */
START_TEST(nothing_to_end)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    FAILS_WITHOUT_GPU(synced_mem_end_use_on(mem, NULL));
    OK(synced_mem_forget_stream(NULL));
    if (gpu_expected()) {
        synced_mem_stream stream = open_stream(NON_BLOCKING);
        OK(synced_mem_forget_stream(stream));
        OK(synced_mem_end_use_on(mem, stream));
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        OK(synced_mem_end_use_on(mem, stream));
        close_stream(stream);
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Streams that go ---- */

/* A stream is forgotten and destroyed while its work is pending, and the next stream may get its handle. Later accesses
 * come after that work. */
START_TEST(done_destroyed_and_another)
{
    begin();
    for (unsigned i = 0; i < 6; i++) {
        synced_mem_stream stream = gpu_stream_create(0, i % 2 != 0);
        write_on(it.mem, 10 + i, stream);
        OK(synced_mem_forget_stream(stream));
        gpu_stream_destroy(stream);
        synced_mem_stream next = gpu_stream_create(0, false);
        const synced_mem_stats before = stats_now();
        switch (_i) {
        case 0:
            read_on(it.mem, it.seen, next);
            ck_assert_uint_eq(stats_now().stream_waits, before.stream_waits + 1);
            break;
        case 1:
            write_on(it.mem, 20 + i, next);
            ck_assert_uint_eq(stats_now().stream_waits, before.stream_waits + 1);
            break;
        case 2:
            OK(synced_mem_async_cpu_pull(it.mem, next));
            break;
        }
        ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, _i == 1 ? 20 + i : 10 + i));
        close_stream(next);
        if (_i == 0)
            ck_assert(device_is(it.seen, SIZE, 10 + i));
    }
    finish();
}
END_TEST

/* The same with streams that only read. */
START_TEST(readers_that_go)
{
    enum { MANY = 30 };
    void *seen[MANY];
    begin();
    for (int i = 0; i < MANY; i++) {
        synced_mem_stream stream = open_stream(NON_BLOCKING);
        seen[i] = gpu_alloc(0, SIZE);
        read_on(it.mem, seen[i], stream);
        if (i % 3 == 1)
            OK(synced_mem_end_use_on(it.mem, stream));
        OK(synced_mem_forget_stream(stream));
        gpu_stream_destroy(stream);
    }
    host_fill(synced_mem_mutable_cpu_data(it.mem), SIZE, 2);
    OK(synced_mem_async_gpu_push(it.mem, it.two));
    ck_assert(device_is(synced_mem_gpu_data(it.mem), SIZE, 2));
    for (int i = 0; i < MANY; i++) {
        ck_assert(device_is(seen[i], SIZE, 1));
        gpu_free(seen[i]);
    }
    finish();
}
END_TEST

/* An object that short-lived streams read keeps no record of uses that have ended. */
START_TEST(notes_are_not_piled_up)
{
    enum { ROUNDS = 200 };
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        synced_mem_stream stream = open_stream(NON_BLOCKING);
        read_on(it.mem, it.seen, stream);
        close_stream(stream);
    }
    ck_assert_uint_le(stats_now().events, 30);
    write_on(it.mem, 2, it.one);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 2));
    finish();
}
END_TEST

/* A stream is forgotten and goes on. It then counts as a new stream. */
START_TEST(a_stream_that_stays)
{
    begin();
    write_on(it.mem, 2, it.one);
    read_on(it.mem, it.seen, it.one);
    OK(synced_mem_forget_stream(it.one));
    OK(synced_mem_forget_stream(it.one));
    const uint64_t waits = stats_now().stream_waits;
    write_on(it.mem, 3, it.one);
    ck_assert_uint_eq(stats_now().stream_waits, waits + 1);
    write_on(it.mem, 4, it.two);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 4));
    ck_assert(device_is(it.seen, SIZE, 2));
    finish();
}
END_TEST

/* A forgotten stream gets one event for all objects that it used. None of them waits for its later work. */
START_TEST(all_objects_at_once)
{
    enum { OBJECTS = 5 };
    synced_mem *all[OBJECTS];
    begin();
    for (unsigned i = 0; i < OBJECTS; i++) {
        all[i] = make_on(SIZE, 0);
        write_on(all[i], i + 1, it.one);
    }
    const uint64_t records = stats_now().event_records;
    OK(synced_mem_forget_stream(it.one));
    ck_assert_uint_eq(stats_now().event_records, records + 1);
    gpu_hold(it.one);
    for (unsigned i = 0; i < OBJECTS; i++)
        read_on(all[i], it.seen, it.two);
    ck_assert_uint_eq(stats_now().event_records, records + 1);
    for (unsigned i = 0; i < OBJECTS; i++)
        ck_assert(host_is(synced_mem_cpu_data(all[i]), SIZE, i + 1));
    gpu_unhold();
    release_all(all, OBJECTS);
    finish();
}
END_TEST

/* The objects are released before their stream is forgotten, and another object may have the memory. */
START_TEST(objects_that_go_first)
{
    begin();
    synced_mem *const other = make_on(SIZE, 0);
    write_on(other, 2, it.one);
    read_on(other, it.seen, it.one);
    OK(synced_mem_release(other));
    OK(synced_mem_forget_stream(it.one));
    synced_mem *const next = make_on(SIZE, 0);
    write_on(next, 3, it.two);
    ck_assert(host_is(synced_mem_cpu_data(next), SIZE, 3));
    ck_assert(device_is(it.seen, SIZE, 2));
    OK(synced_mem_release(next));
    finish();
}
END_TEST

/* ---- Streams that are destroyed without synced_mem_forget_stream() ---- */
/*
 * A runtime without ids of streams may crash when the library passes it the dead handle.
 */

static void meet(synced_mem_stream stream)
{
    synced_mem *const other = make_on(SIZE, 0);
    write_on(other, 5, stream);
    OK(synced_mem_release(other));
}

/* Destroys a stream, without a word to the library. Returns another stream with the same handle. NULL: the runtime
 * gives another handle. */
static synced_mem_stream replace(synced_mem_stream stream)
{
    gpu_stream_destroy(stream);
    synced_mem_stream next = open_stream(NON_BLOCKING);
    if (next == stream)
        return next;
    gpu_stream_destroy(next);
    return NULL;
}

static synced_mem_stream forget_an_open_write(void)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(it.mem, stream));
    return replace(stream);
}

/* The handle belongs to another stream now. The first call that depends on the lost stream fails. The memory is
 * quarantined. */
START_TEST(destroyed_without_a_word)
{
    synced_mem_status status = SYNCED_MEM_OK;
    if (!gpu_has_stream_ids())
        return;
    begin();
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    if (_i % 2)
        read_on(it.mem, it.seen, stream);
    else
        write_on(it.mem, 2, stream);
    gpu_stream_sync(stream);
    synced_mem_stream next = replace(stream);
    if (!next)
        return;
    switch (_i / 2) {
    case 0:
        if (!synced_mem_mutable_gpu_data_on(it.mem, it.one))
            status = synced_mem_last_error();
        break;
    case 1:
        status = synced_mem_forget_stream(next);
        ck_assert_int_eq(status, SYNCED_MEM_OK);
        if (!synced_mem_mutable_gpu_data(it.mem))
            status = synced_mem_last_error();
        break;
    case 2: /* the new stream is used with another object first */
        meet(next);
        if (!synced_mem_mutable_gpu_data_on(it.mem, next))
            status = synced_mem_last_error();
        break;
    case 3:
        status = synced_mem_end_use_on(it.mem, stream);
        if (status == SYNCED_MEM_OK && !synced_mem_mutable_gpu_data(it.mem))
            status = synced_mem_last_error();
        break;
    }
    ck_assert_int_eq(status, SYNCED_MEM_ERR_INVALID_STATE);
    SAYS("synced_mem_forget_stream()");
    write_on(it.mem, 3, it.one);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 3));
    finish();
    ck_assert_uint_eq(stats_now().quarantined, 1);
    close_stream(next);
    OK(synced_mem_shutdown());
}
END_TEST

/* A push was in flight when the stream began its open write. The open write is lost with the stream, but the push is
 * not. One later call reports the loss, and the calls after it come behind the push. */
START_TEST(a_push_before_a_forgotten_turn)
{
    void *data = NULL;
    if (!gpu_has_stream_ids())
        return;
    begin();
    host_fill(synced_mem_mutable_cpu_data(it.mem), SIZE, 2);
    gpu_delay(it.two);
    gpu_fill(it.seen, SIZE, 1, it.two);
    OK(synced_mem_async_gpu_push(it.mem, it.two));
    synced_mem_stream next = forget_an_open_write();
    if (!next)
        return;
    switch (_i) {
    case 0:
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data_on(it.mem, next));
        data = (void *)synced_mem_gpu_data_on(it.mem, it.one);
        break;
    case 1:
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_gpu_data_on(it.mem, it.one));
        data = synced_mem_mutable_gpu_data_on(it.mem, it.one);
        break;
    case 2:
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(it.mem, it.one));
        data = (void *)synced_mem_gpu_data_on(it.mem, it.one);
        break;
    }
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_copy(it.seen, data, SIZE, it.one);
    if (_i == 1)
        gpu_fill(data, SIZE, 3, it.one);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, _i == 1 ? 3 : 2));
    gpu_stream_sync(it.one);
    ck_assert(device_is(it.seen, SIZE, 2));
    finish();
    ck_assert_uint_eq(stats_now().quarantined, 1);
    close_stream(next);
    OK(synced_mem_shutdown());
}
END_TEST

/* The same with a pull in flight before the open write. */
START_TEST(a_pull_before_a_forgotten_turn)
{
    if (!gpu_has_stream_ids())
        return;
    begin();
    gpu_delay(it.two);
    write_on(it.mem, 2, it.two);
    OK(synced_mem_async_cpu_pull(it.mem, it.two));
    synced_mem_stream next = forget_an_open_write();
    if (!next)
        return;
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_gpu_data_on(it.mem, it.one));
    write_on(it.mem, 3, it.one);
    ck_assert(host_is(synced_mem_cpu_data(it.mem), SIZE, 3));
    finish();
    close_stream(next);
    OK(synced_mem_shutdown());
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("end_use");
    TCase *const object = add_case(made, "object");
    tcase_add_test(object, nothing_to_end);
    add_gpu_tests(object, earlier_work_is_waited_for, after_done_comes_another_use, events_of_done);
    add_gpu_loop_test(object, the_host_waits_for_no_later_work, 0, 3);
    add_gpu_loop_test(object, a_stream_waits_for_no_later_work, 0, 2);
    TCase *const streams = add_case(made, "streams");
    add_gpu_tests(streams, readers_that_go, notes_are_not_piled_up, a_stream_that_stays, all_objects_at_once,
                  objects_that_go_first);
    add_gpu_loop_test(streams, done_destroyed_and_another, 0, 3);
    TCase *const gone = add_case_without_end(made, "gone");
    add_gpu_tests(gone, a_pull_before_a_forgotten_turn);
    add_gpu_loop_test(gone, destroyed_without_a_word, 0, 8);
    add_gpu_loop_test(gone, a_push_before_a_forgotten_turn, 0, 3);
    return made;
}
