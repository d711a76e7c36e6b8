/* Checks device pointers requested without a stream and used after a read by the host, as in programs for Caffe. No
 * other request gets the memory while a kernel may use it. The tests run with the emulated runtime's check for races,
 * and without it. */
#include "fixture.h"

#include "cudart_emu.h"

#include <stdlib.h>

enum { SIZE = 40000, NEXT = 6 };

/* ---- A late kernel, and memory that the object gives up ---- */

/* The ways in which an object gives up the memory, and the kinds of memory. */
enum way { RELEASED, SIDE_RELEASED, DISCARDED, GROWN, REPLACED, WAYS };
enum kind { KEPT, FREED, MANAGED, MAPPED, KINDS };
/* The kernel's stream. AFTER_A_STREAM: the legacy stream, and another stream is the last user of the object. */
enum { ON_LEGACY, ON_BLOCKING, AFTER_A_STREAM, CASES };

static void *mine; /* device memory of the test's */
static void *seen;
static synced_mem_stream blocking;
static synced_mem_stream other;

static void begin(bool with_race_check)
{
    emu_set_race_check(with_race_check);
    mine = gpu_alloc(0, SIZE);
    seen = gpu_alloc(0, SIZE);
    blocking = open_stream(BLOCKING);
    other = open_stream(NON_BLOCKING);
}

static void finish(void)
{
    CLOSE_EACH(blocking, other);
    gpu_free(mine);
    gpu_free(seen);
}

static synced_mem *make_of(enum kind kind, size_t size)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.device = 0;
    if (kind == MANAGED || kind == MAPPED)
        options.placement = kind == MANAGED ? SYNCED_MEM_PLACEMENT_MANAGED : SYNCED_MEM_PLACEMENT_MAPPED;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

/* Queues a kernel on the pointer that was requested before the host's read. */
static synced_mem *make_used(enum kind kind, int by, bool writes)
{
    synced_mem *const mem = make_of(kind, SIZE);
    synced_mem_stream stream = by == ON_BLOCKING ? blocking : NULL;
    void *const old = synced_mem_mutable_gpu_data(mem);
    ck_assert_ptr_nonnull(old);
    gpu_fill(old, SIZE, 1, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    if (by == AFTER_A_STREAM)
        ck_assert_ptr_eq(synced_mem_gpu_data_on(mem, other), old);
    if (writes)
        gpu_fill(old, SIZE, 2, stream);
    else
        gpu_copy(seen, old, SIZE, stream);
    return mem;
}

static void let_go(synced_mem **mem, enum way way)
{
    switch (way) {
    case RELEASED:
        OK(synced_mem_release(*mem));
        *mem = NULL;
        break;
    case SIDE_RELEASED:
        OK(synced_mem_release_gpu_data(*mem));
        break;
    case DISCARDED:
        OK(synced_mem_resize_discard(*mem, 2 * SIZE));
        break;
    case GROWN:
        OK(synced_mem_resize(*mem, 2 * SIZE));
        break;
    case REPLACED:
        OK(synced_mem_set_gpu_data(*mem, mine));
        break;
    case WAYS:
        break;
    }
}

/* Makes the next objects of the size, one of which could get the memory, with a stream and without. */
static void use_next(enum kind kind, int rotation)
{
    synced_mem *next[NEXT];
    const void *data[NEXT];
    for (int i = 0; i < NEXT; i++) {
        synced_mem_stream stream = (i + rotation) % 2 ? other : blocking;
        next[i] = make_of(kind, SIZE);
        host_fill(synced_mem_overwrite_cpu_data(next[i]), SIZE, 10 + (unsigned)i);
        data[i] = i % 3 == 2 ? synced_mem_gpu_data(next[i]) : synced_mem_gpu_data_on(next[i], stream);
        ck_assert_ptr_nonnull(data[i]);
    }
    emu_run_all();
    for (int i = 0; i < NEXT; i++) {
        ck_assert_msg(device_is(data[i], SIZE, 10 + (unsigned)i), "object %d", i);
        OK(synced_mem_release(next[i]));
    }
}

static bool is_sensible(enum way way, enum kind kind, bool writes)
{
    const bool shared = kind == MANAGED || kind == MAPPED;
    if (way == GROWN && writes) /* would move contents while they are written */
        return false;
    return !shared || (way != SIDE_RELEASED && way != REPLACED && way != GROWN);
}

START_TEST(nobody_gets_the_memory)
{
    const enum way way = (enum way)(_i / 2 % WAYS);
    const enum kind kind = (enum kind)(_i / 2 / WAYS % KINDS);
    const int by = _i / 2 / WAYS / KINDS % CASES;
    for (int writes = 0; writes < 2; writes++) {
        if (!is_sensible(way, kind, writes))
            continue;
        begin(_i % 2);
        if (kind == FREED)
            keep_no_spares();
        synced_mem *mem = make_used(kind, by, writes);
        let_go(&mem, way);
        use_next(kind, _i / 2 % 2 + writes);
        ck_assert(writes || device_is(seen, SIZE, 1));
        if (mem)
            OK(synced_mem_release(mem));
        finish();
    }
}
END_TEST

/* ---- A late kernel, and zeros ---- */

/* The object keeps the memory although its contents are discarded. The zeros come behind the kernel. */
START_TEST(zeros_come_behind)
{
    const enum kind kind = (enum kind)(_i / 2);
    begin(_i % 2);
    synced_mem *const mem = make_used(kind, ON_LEGACY, false);
    OK(synced_mem_resize_discard(mem, SIZE - 1));
    const void *const data = synced_mem_gpu_data(mem);
    emu_run_all();
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert(device_is(data, SIZE - 1, 0));
    OK(synced_mem_release(mem));
    finish();
}
END_TEST

/* ---- Memory of the caller's ---- */

static int called;

static void count_call(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    called++;
}

START_TEST(adopted_memory_stays)
{
    begin(true);
    synced_mem *const mem = make_on(SIZE, 0);
    OK(USE(mem, .gpu_data = mine, .callback = count_call));
    void *const old = synced_mem_mutable_gpu_data(mem);
    gpu_fill(old, SIZE, 1, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    gpu_hold(blocking);
    gpu_fill(old, SIZE, 2, blocking);
    OK(synced_mem_release(mem));
    for (int i = 0; i < 3; i++)
        OK(synced_mem_reap());
    ck_assert_int_eq(called, 0);
    ck_assert_uint_eq(stats_now().retired, 1);
    gpu_unhold();
    gpu_stream_sync(blocking);
    gpu_stream_sync(NULL);
    OK(synced_mem_reap());
    ck_assert_int_eq(called, 1);
    finish();
}
END_TEST

/* Borrowed memory is handed back at once, as the caller knows its own kernels. */
START_TEST(borrowed_memory_goes)
{
    begin(true);
    synced_mem *const mem = make_on(SIZE, 0);
    OK(synced_mem_set_gpu_data(mem, mine));
    void *const old = synced_mem_mutable_gpu_data(mem);
    gpu_hold(blocking);
    gpu_fill(old, SIZE, 2, blocking);
    const unsigned records = emu_calls("cudaEventRecord");
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().retired, 0);
    ck_assert_uint_eq(emu_calls("cudaEventRecord"), records);
    gpu_unhold();
    finish();
}
END_TEST

/* ---- While a blocking stream captures ---- */

static void begin_capture(void)
{
    ck_assert_int_eq(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
}

static void end_capture(void)
{
    cudaGraph_t graph;
    ck_assert_int_eq(cudaStreamEndCapture(blocking, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
}

START_TEST(a_capture_keeps_it)
{
    const enum kind kind = (enum kind)(_i / 2);
    begin(true);
    if (kind == FREED)
        keep_no_spares();
    synced_mem *mem = make_used(kind, ON_LEGACY, true);
    begin_capture();
    let_go(&mem, RELEASED);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(stats_now().retired, 1);
        ck_assert_uint_eq(stats_now().gpu_spare_bytes, 0);
        OK(synced_mem_reap());
    }
    if (_i % 2)
        FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_shutdown());
    ck_assert_uint_eq(stats_now().retired, 1);
    end_capture();
    if (_i % 2)
        OK(synced_mem_shutdown());
    OK(synced_mem_reap());
    gpu_stream_sync(NULL);
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 0);
    use_next(kind, 0);
    finish();
}
END_TEST

/* ---- Failures, and short memory ---- */

START_TEST(a_failure_delays_it)
{
    static const char *const calls[] = {"cudaEventRecord", "cudaStreamIsCapturing"};
    begin(true);
    synced_mem *mem = make_used(KEPT, ON_LEGACY, true);
    const unsigned before = emu_failures();
    for (unsigned nth = 1; nth <= 3; nth++) /* the call tries so often */
        emu_fail(calls[_i], nth, cudaErrorUnknown, false);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(emu_failures(), before + 3);
    ck_assert_uint_eq(stats_now().retired, 1);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, 0);
    emu_fail_clear();
    use_next(KEPT, 0);
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().retired, 0);
    finish();
}
END_TEST

START_TEST(a_lost_device_keeps_nothing)
{
    begin(true);
    synced_mem *const mem = make_used(_i ? MANAGED : KEPT, ON_LEGACY, true);
    emu_break_device(0, cudaErrorIllegalAddress);
    (void)cudaStreamSynchronize(NULL);
    (void)cudaGetLastError();
    OK(synced_mem_release(mem));
    (void)synced_mem_shutdown();
    ck_assert_uint_eq(stats_now().retired, 0);
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    ck_assert_uint_eq(stats_now().quarantined, 0);
    emu_reset(0);
}
END_TEST

/* The memory that the request waits for is enough. */
START_TEST(short_memory)
{
    enum { LARGE = 40 << 20 };
    begin(_i % 2);
    emu_set_device_memory(0, LARGE + LARGE / 2);
    synced_mem *const mem = make_on(LARGE, 0);
    void *const old = synced_mem_mutable_gpu_data(mem);
    ck_assert_ptr_nonnull(old);
    gpu_fill(old, LARGE, 1, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), LARGE, 1));
    gpu_fill(old, LARGE, 2, NULL);
    OK(synced_mem_release(mem));
    synced_mem *const next = make_on(LARGE + 1, 0);
    host_fill(synced_mem_overwrite_cpu_data(next), LARGE + 1, 3);
    ck_assert(device_is(synced_mem_gpu_data(next), LARGE + 1, 3));
    OK(synced_mem_release(next));
    finish();
}
END_TEST

/* ---- Costs ---- */

/* One event is recorded when the memory is given up. None is recorded for memory that only streams have used, even if
 * they reuse it. */
START_TEST(events)
{
    begin(true);
    synced_mem *mem = make_used(KEPT, ON_LEGACY, false);
    const void *const data = synced_mem_gpu_data(mem);
    uint64_t before = stats_now().event_records;
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().event_records, before + 1);
    gpu_stream_sync(NULL);
    mem = make_on(SIZE, 0);
    before = stats_now().event_records;
    ck_assert_ptr_eq(synced_mem_overwrite_gpu_data_on(mem, other), data);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().event_records, before);
    finish();
}
END_TEST

/* ---- A random program ---- */

enum { OBJECTS = 8, STEPS = 400 };

/* An object, and the pointer that its program requested first. */
struct blob {
    synced_mem *mem;
    void *old;
    unsigned pattern;
    bool spoilt; /* a kernel wrote through the old pointer after the host's read: only a release is left */
};

static unsigned drawn(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void make_blob(struct blob *blob, unsigned pattern, synced_mem_stream stream)
{
    blob->mem = make(SIZE);
    blob->pattern = pattern;
    blob->spoilt = false;
    if (pattern % 2) {
        blob->old = synced_mem_mutable_gpu_data(blob->mem);
        ck_assert_ptr_nonnull(blob->old);
        gpu_fill(blob->old, SIZE, pattern, stream);
        return;
    }
    host_fill(synced_mem_mutable_cpu_data(blob->mem), SIZE, pattern);
    blob->old = (void *)synced_mem_gpu_data(blob->mem);
    ck_assert_ptr_nonnull(blob->old);
}

static void expect_blob(const struct blob *blob, synced_mem_stream stream)
{
    unsigned char expected[SIZE];
    pattern_write(expected, SIZE, blob->pattern);
    gpu_expect(blob->old, SIZE, expected, stream);
}

/* Objects come and go beside late kernels, and each kernel uses an old pointer. */
START_TEST(a_program)
{
    struct blob blobs[OBJECTS] = {{.mem = NULL}};
    unsigned seed = (unsigned)_i + 100 * fixture_schedule();
    begin(_i % 2);
    if (_i % 4 < 2)
        keep_no_spares();
    for (unsigned step = 0; step < STEPS; step++) {
        struct blob *const blob = &blobs[drawn(&seed, OBJECTS)];
        synced_mem_stream stream = drawn(&seed, 3) == 0 ? blocking : NULL;
        const unsigned act = drawn(&seed, 8);
        if (!blob->mem)
            make_blob(blob, 1 + step % 200, stream);
        else if (act < 2 && !blob->spoilt)
            ck_assert(host_is(synced_mem_cpu_data(blob->mem), SIZE, blob->pattern));
        else if (act < 4 && !blob->spoilt)
            expect_blob(blob, stream);
        else if (act == 4) {
            if (!blob->spoilt)
                ck_assert(host_is(synced_mem_cpu_data(blob->mem), SIZE, blob->pattern));
            gpu_fill(blob->old, SIZE, 201, NULL);
            blob->spoilt = true;
        } else if (act > 5) {
            OK(synced_mem_release(blob->mem));
            blob->mem = NULL;
        }
    }
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    for (int i = 0; i < OBJECTS; i++)
        OK(synced_mem_release(blobs[i].mem));
    finish();
}
END_TEST

/* A push that cannot record its event leaves the object as it was. Calls that succeeded before still do. */
START_TEST(a_refused_push_enters_nothing)
{
    begin(_i % 2);
    synced_mem *const mem = make_of(KEPT, SIZE);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, other));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
    cudaGraph_t graph;
    ck_assert_int_eq(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push(mem, other));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data_on(mem, other));
    void *const data = synced_mem_overwrite_gpu_data_on(mem, other);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_fill(data, SIZE, 4, other);
    ck_assert_int_eq(cudaStreamEndCapture(blocking, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    OK(synced_mem_release(mem));
    finish();
}
END_TEST

Suite *suite(void)
{
    Suite *const of = suite_create("old_pointers");
    TCase *const tests = add_case(of, "old_pointers");
    add_tests(tests, adopted_memory_stays, borrowed_memory_goes, events);
    tcase_add_loop_test(tests, nobody_gets_the_memory, 0, 2 * WAYS * KINDS * CASES);
    tcase_add_loop_test(tests, zeros_come_behind, 0, 2 * KINDS);
    tcase_add_loop_test(tests, a_capture_keeps_it, 0, 2 * KINDS);
    tcase_add_loop_test(tests, a_failure_delays_it, 0, 2);
    tcase_add_loop_test(tests, short_memory, 0, 2);
    tcase_add_loop_test(tests, a_refused_push_enters_nothing, 0, 2);
    tcase_add_loop_test(tests, a_program, 0, 12);
    TCase *const lost = add_case_without_end(of, "lost");
    tcase_add_loop_test(lost, a_lost_device_keeps_nothing, 0, 2);
    return of;
}
