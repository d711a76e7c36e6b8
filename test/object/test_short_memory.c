/* Checks requests that succeed although memory is short: it is held by released objects, by pools, or by the caller. */
#include "calls.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 5000, LARGE = 700000, ROOM = 1 << 20 }; /* room for one object of LARGE */

static synced_mem_stream one, two;

/* Freed memory can be used again only when the free is done. */
static void begin(void)
{
    emu_set_device_memory(0, ROOM);
    OK(synced_mem_gpu_pool_set_reuse(0, 0));
    one = open_stream(NON_BLOCKING);
    two = open_stream(NON_BLOCKING);
}

static void end(void)
{
    synced_mem_set_out_of_memory_handler(NULL, NULL);
    CLOSE_EACH(one, two);
}

static synced_mem *used_on(synced_mem_stream first, synced_mem_stream second)
{
    synced_mem *const mem = make_on(LARGE, 0);
    void *const data = synced_mem_overwrite_gpu_data_on(mem, first);
    ck_assert_ptr_nonnull(data);
    gpu_delay(first);
    gpu_fill(data, LARGE, 1, first);
    if (second)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, second));
    return mem;
}

/* The calls whose memory is refused at first. */
enum { GROW = CALLS };
static const int wants[] = {GPU_READ, ON_READ, ON_OVERWRITE, PUSH, PUSH_TWICE, FREE_CPU, GROW};
enum { WANTS = sizeof wants / sizeof wants[0] };

static synced_mem *before_want(int want)
{
    synced_mem *const mem = make_on(want == GROW ? SIZE : LARGE, 0);
    if (want == GROW)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 2, NULL);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), LARGE, 2);
    return mem;
}

static synced_mem_status try(synced_mem *mem, int want)
{
    return want == GROW ? synced_mem_resize(mem, LARGE) : make_call(mem, want, two);
}

static void check_contents(synced_mem *mem, int want)
{
    if (want == ON_OVERWRITE)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, two), LARGE, 2, two);
    ck_assert(host_is(synced_mem_cpu_data(mem), want == GROW ? SIZE : LARGE, 2));
}

static void check_taken(unsigned reaps, unsigned waits, unsigned trims, unsigned callbacks, unsigned failures)
{
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.oom_reaps, reaps);
    ck_assert_uint_eq(stats.oom_waits, waits);
    ck_assert_uint_eq(stats.oom_trims, trims);
    ck_assert_uint_eq(stats.oom_callbacks, callbacks);
    ck_assert_uint_eq(stats.oom_failures, failures);
}

/* ---- Memory that the library holds ---- */

/* The memory was freed behind a kernel, on the kernel's stream or on an internal stream. */
START_TEST(held_by_pending_frees)
{
    const int want = wants[_i / 2];
    begin();
    synced_mem *const first = used_on(one, _i % 2 ? two : NULL);
    synced_mem *const mem = make_on(want == GROW ? SIZE : LARGE, 0);
    emu_set_device_memory(0, ROOM);
    if (want == GROW)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 2, NULL);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), LARGE, 2);
    OK(synced_mem_release(first));
    ck_assert_uint_eq(stats_now().retired, 0);
    OK(try(mem, want));
    ck_assert_uint_le(stats_now().oom_waits, 1);
    ck_assert_uint_eq(stats_now().oom_trims, 0);
    check_contents(mem, want);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* A stream that used the memory was forgotten, so its handle may be any stream's. */
START_TEST(held_by_a_stream_that_is_done)
{
    begin();
    synced_mem *const first = used_on(one, two);
    OK(synced_mem_forget_stream(one));
    OK(synced_mem_release(first));
    synced_mem *const mem = before_want(GPU_READ);
    OK(try(mem, GPU_READ));
    check_contents(mem, GPU_READ);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* A capturing stream is not waited for. The request may fail until the capture has ended. */
START_TEST(held_by_a_stream_that_captures)
{
    cudaGraph_t graph = NULL;
    begin();
    OK(synced_mem_release(used_on(one, NULL)));
    synced_mem *const mem = before_want(GPU_READ);
    ck_assert_int_eq(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    const void *const data = synced_mem_gpu_data(mem);
    if (!data)
        ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
    ck_assert_int_eq(cudaStreamEndCapture(one, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    gpu_stream_sync(one);
    OK(try(mem, GPU_READ));
    check_contents(mem, GPU_READ);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* Enough memory is free, but in pieces. */
START_TEST(fragmented)
{
    enum { PIECES = 10, PIECE = 70000 };
    synced_mem *pieces[PIECES];
    begin();
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = make_on(PIECE, 0);
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(pieces[i], i % 2 ? one : two));
    }
    release_all(pieces, PIECES);
    synced_mem *const mem = before_want(GPU_READ);
    OK(try(mem, GPU_READ));
    check_contents(mem, GPU_READ);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* Each refusal leads to the next step of reclaim. The step after the last refusal helps. */
static int say_yes(const synced_mem_out_of_memory *request, void *user)
{
    (void)request, (void)user;
    return 1;
}

START_TEST(each_step)
{
    static const struct {
        unsigned refusals, reaps, waits, trims, callbacks, failures;
    } cases[] = {{0, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}, {2, 1, 1, 0, 0, 0}, {3, 1, 1, 1, 0, 0}, {4, 1, 1, 1, 1, 0},
                 {5, 2, 1, 1, 1, 0}, {6, 2, 2, 1, 1, 0}, {7, 2, 2, 2, 1, 0}, {8, 2, 2, 2, 2, 0}};
    const bool host = _i % 2 == 1;
    const unsigned refusals = cases[_i / 2].refusals;
    synced_mem *const mem = make_on(LARGE, 0);
    synced_mem_set_out_of_memory_handler(say_yes, NULL);
    if (host)
        emu_set_pinned_memory(1);
    for (unsigned i = 1; i <= refusals; i++)
        emu_fail("cudaMallocFromPoolAsync", i, cudaErrorMemoryAllocation, false);
    /* The pool of page-locked memory tries twice. */
    for (unsigned i = 1; i <= 2 * refusals; i++)
        emu_fail("cudaHostRegister", i, cudaErrorMemoryAllocation, false);
    emu_set_pinned_memory(ROOM);
    ck_assert_ptr_nonnull(host ? synced_mem_overwrite_cpu_data(mem) : synced_mem_overwrite_gpu_data(mem));
    emu_fail_clear();
    check_taken(cases[_i / 2].reaps, cases[_i / 2].waits, cases[_i / 2].trims, cases[_i / 2].callbacks,
                cases[_i / 2].failures);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Page-locked memory ---- */

/* A transfer from the memory is in flight when its object is released. */
START_TEST(page_locked_in_flight)
{
    synced_mem *const first = make_on(LARGE, 0);
    emu_set_pinned_memory(ROOM);
    one = open_stream(NON_BLOCKING);
    two = open_stream(NON_BLOCKING);
    host_fill(synced_mem_overwrite_cpu_data(first), LARGE, 1);
    gpu_delay(one);
    OK(synced_mem_async_gpu_push(first, one));
    OK(synced_mem_release(first));
    synced_mem *const mem = make_on(LARGE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), LARGE, 2);
    ck_assert_uint_le(stats_now().oom_waits, 1);
    ck_assert_uint_eq(stats_now().oom_failures, 0);
    synced_mem *const more = make_on(LARGE, 0);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(more));
    SAYS("cudaHostRegister");
    SAYS("0 bytes pageable");
    ck_assert_uint_eq(stats_now().oom_failures, 1);
    ck_assert(host_is(synced_mem_cpu_data(mem), LARGE, 2));
    RELEASE_EACH(mem, more);
    end();
}
END_TEST

/* ---- Memory that the caller holds ---- */

static int handed_back;

static void free_it(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    gpu_free(data);
    handed_back++;
}

/* Adopted memory goes back to the caller, which frees it. */
START_TEST(held_by_adopted_memory)
{
    begin();
    synced_mem *const first = make_on(LARGE, 0);
    OK(USE(first, .gpu_data = gpu_alloc(0, LARGE), .callback = free_it));
    gpu_delay(one);
    gpu_fill(synced_mem_overwrite_gpu_data_on(first, one), LARGE, 1, one);
    OK(synced_mem_release(first));
    const int want = wants[_i];
    synced_mem *const mem = before_want(want);
    OK(try(mem, want));
    ck_assert_int_eq(handed_back, 1);
    check_contents(mem, want);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* A release callback that requests device memory, and does not get it at once, or not at all. */
static void request_memory(void *data, void *user, synced_mem_stream stream)
{
    const size_t *const wanted = user;
    synced_mem *const mem = make_on(*wanted, 0);
    (void)stream;
    ck_assert_int_eq(synced_mem_overwrite_gpu_data(mem) != NULL, *wanted < ROOM);
    OK(synced_mem_release(mem));
    gpu_pinned_free(data);
    handed_back++;
}

/* Adopted memory comes back in the call that was refused memory. Its callback is refused memory too, which does not
 * affect the call: it takes all steps, and has its own error. */
START_TEST(beside_a_callback_that_requests_memory)
{
    const int want = wants[_i % WANTS];
    size_t wanted = _i / WANTS == 0 ? LARGE - SIZE : 2 * ROOM;
    const bool too_little = _i / WANTS == 2;
    begin();
    synced_mem *const other = make_on(LARGE / 2 + SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(other, two));
    synced_mem *const adopted = make_on(SIZE, 0);
    OK(USE(adopted, .cpu_data = gpu_pinned_alloc(SIZE), .callback = request_memory, .user = &wanted));
    gpu_hold(one);
    OK(synced_mem_async_gpu_push(adopted, one));
    OK(synced_mem_release(adopted));
    synced_mem *const mem = before_want(want);
    if (!too_little)
        OK(synced_mem_release(other)); /* in the device cache now */
    gpu_unhold();
    gpu_stream_sync(one);
    ck_assert_int_eq(handed_back, 0);
    if (too_little)
        FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, try(mem, want));
    else
        OK(try(mem, want));
    ck_assert_int_eq(handed_back, 1);
    ck_assert_uint_eq(stats_now().oom_failures, (unsigned)_i / WANTS);
    if (too_little)
        SAYS("largest objects there: ");
    else
        check_contents(mem, want);
    if (too_little)
        OK(synced_mem_release(other));
    OK(synced_mem_release(mem));
    end();
}
END_TEST

static int free_what_is_given(const synced_mem_out_of_memory *request, void *user)
{
    void **const data = user;
    ck_assert_int_eq(request->device, 0);
    ck_assert_uint_ge(request->bytes, LARGE);
    gpu_free(*data);
    *data = NULL;
    return 1;
}

START_TEST(held_by_the_caller)
{
    const int want = wants[_i];
    begin();
    synced_mem *const mem = before_want(want);
    void *data = gpu_alloc(0, LARGE);
    synced_mem_set_out_of_memory_handler(free_what_is_given, &data);
    OK(try(mem, want));
    ck_assert_ptr_null(data);
    check_taken(1, 1, 1, 1, 0);
    check_contents(mem, want);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* The handler releases an object of the library's, whose memory is still in use. */
static int release_it(const synced_mem_out_of_memory *request, void *user)
{
    synced_mem **const mem = user;
    (void)request;
    if (!*mem)
        return 0;
    OK(synced_mem_release(*mem));
    *mem = NULL;
    return 1;
}

START_TEST(held_by_an_object)
{
    const int want = wants[_i];
    begin();
    synced_mem *const mem = before_want(want);
    synced_mem *other = used_on(one, two);
    synced_mem_set_out_of_memory_handler(release_it, &other);
    OK(try(mem, want));
    ck_assert_uint_eq(stats_now().oom_callbacks, 1);
    check_contents(mem, want);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* ---- Nothing helps ---- */

START_TEST(too_little)
{
    const int want = wants[_i % WANTS];
    begin();
    synced_mem *const mem = before_want(want);
    void *const data = gpu_alloc(0, LARGE);
    const struct facts before = facts_of(mem);
    if (_i >= WANTS)
        emu_fail("cudaMemGetInfo", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, try(mem, want));
    SAYS("cudaMallocFromPoolAsync");
    SAYS("700000");
    SAYS(_i >= WANTS ? "of the device's 0 bytes 0 are free" : "of the device's 1048576 bytes ");
    SAYS(want == GROW ? "uses 5000 of 5120" : "uses 0 of 0");
    check_unchanged(mem, &before);
    check_taken(1, 1, 1, 0, 1);
    if (want == GROW)
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    gpu_free(data);
    OK(try(mem, want));
    check_contents(mem, want);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* Several threads request memory that suffices for some of them at a time. With turns, a thread that requests memory
 * must get it, whatever the others do. Without turns, it gets memory or an error. In the end any request gets the
 * memory. */
enum { THREADS = 6, AT_A_TIME = 3, TURNS = 30 };
enum kind { ON_THE_DEVICE, ON_ANY_STREAM, PAGE_LOCKED, OF_MANY_SIZES, KINDS };

static struct {
    sem_t turn;
    bool with_turns;
    enum kind kind;
    synced_mem_stream streams[THREADS];
    atomic_int wrong;
    pthread_t threads[THREADS];
} all;

static void sound(bool condition)
{
    if (!condition)
        atomic_fetch_add(&all.wrong, 1);
}

/* Sizes differ, and the memory suffices for the largest. */
static size_t size_for(size_t me, size_t turn)
{
    const size_t part = LARGE / 8;
    return all.kind == OF_MANY_SIZES ? LARGE - (me * 5 + turn * 3) % 6 * part : LARGE;
}

static void use(synced_mem *mem, size_t size, synced_mem_stream stream)
{
    void *const data =
        all.kind == PAGE_LOCKED ? synced_mem_overwrite_cpu_data(mem) : synced_mem_overwrite_gpu_data_on(mem, stream);
    const synced_mem_status refused =
        all.kind == PAGE_LOCKED ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY;
    if (!data) {
        sound(!all.with_turns && synced_mem_last_error() == refused);
        if (all.with_turns)
            (void)fprintf(stderr, "%s\n", synced_mem_last_error_message());
    } else if (all.kind == PAGE_LOCKED) {
        gpu_note_host_write(data, size);
        pattern_write(data, size, 1);
        sound(synced_mem_async_gpu_push(mem, stream) == SYNCED_MEM_OK);
    } else {
        gpu_fill(data, size, 1, stream);
    }
}

static void *want_often(void *which)
{
    const size_t me = (size_t)which;
    for (size_t turn = 0; turn < TURNS; turn++) {
        const bool other = all.kind == ON_ANY_STREAM || all.kind == OF_MANY_SIZES;
        synced_mem *mem = NULL;
        synced_mem_options options = default_options();
        options.device = 0;
        if (all.with_turns)
            while (sem_wait(&all.turn) != 0)
                continue;
        const size_t size = size_for(me, turn);
        sound(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
        use(mem, size, all.streams[other ? (me + turn) % THREADS : me]);
        sound(synced_mem_release(mem) == SYNCED_MEM_OK);
        if (all.with_turns)
            sound(sem_post(&all.turn) == 0);
    }
    return NULL;
}

static void limit_memory(size_t large)
{
    const bool on_host = all.kind == PAGE_LOCKED;
    emu_set_device_memory(0, (on_host ? 8 * THREADS : large) * ROOM);
    if (on_host)
        emu_set_pinned_memory(large * (2 << 20));
}

START_TEST(several_threads)
{
    all.kind = (enum kind)(_i / 2);
    all.with_turns = _i % 2 == 1;
    begin();
    limit_memory(all.with_turns ? AT_A_TIME : 1);
    ck_assert_int_eq(sem_init(&all.turn, 0, AT_A_TIME), 0);
    for (int i = 0; i < THREADS; i++)
        all.streams[i] = open_stream(NON_BLOCKING);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&all.threads[i], NULL, want_often, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(all.threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&all.wrong), 0);
    if (all.with_turns)
        ck_assert_uint_eq(stats_now().oom_failures, 0);
    for (int i = 0; i < THREADS; i++)
        close_stream(all.streams[i]);
    emu_set_device_memory(0, ROOM);
    synced_mem *const mem = before_want(GPU_READ);
    OK(try(mem, GPU_READ));
    check_contents(mem, GPU_READ);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* The memory of another device is neither waited for nor freed. */
START_TEST(on_another_device)
{
    begin();
    synced_mem *const first = used_on(one, two);
    gpu_hold(one);
    OK(synced_mem_release(first));
    emu_set_device_memory(1, ROOM);
    synced_mem *const mem = make_on(2 * ROOM, 1);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(mem));
    SAYS("device 1");
    OK(synced_mem_release(mem));
    gpu_unhold();
    end();
}
END_TEST

/* The device has no pools. */
START_TEST(without_pools)
{
    emu_set_pools_supported(0, false);
    begin();
    synced_mem *const first = used_on(one, two);
    synced_mem *const mem = before_want(GPU_READ);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
    SAYS("cudaMalloc of 700000 bytes");
    SAYS("uses 700000 of 700000");
    OK(synced_mem_release(first));
    OK(try(mem, GPU_READ));
    check_contents(mem, GPU_READ);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* Reclaim does not run if another call than an allocation reports a lack of memory. */
START_TEST(other_failures)
{
    begin();
    synced_mem *const mem = before_want(GPU_READ);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorMemoryAllocation, false);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
    check_taken(0, 0, 0, 0, 0);
    OK(try(mem, GPU_READ));
    check_contents(mem, GPU_READ);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("short_memory");
    TCase *const tests = add_case(made, "short_memory");
    add_tests(tests, held_by_a_stream_that_is_done, held_by_a_stream_that_captures, fragmented, page_locked_in_flight,
              on_another_device, without_pools, other_failures);
    tcase_add_loop_test(tests, held_by_pending_frees, 0, 2 * WANTS);
    tcase_add_loop_test(tests, each_step, 0, 18);
    tcase_add_loop_test(tests, held_by_adopted_memory, 0, WANTS);
    tcase_add_loop_test(tests, beside_a_callback_that_requests_memory, 0, 3 * WANTS);
    tcase_add_loop_test(tests, held_by_the_caller, 0, WANTS);
    tcase_add_loop_test(tests, held_by_an_object, 0, WANTS);
    tcase_add_loop_test(tests, too_little, 0, 2 * WANTS);
    tcase_add_loop_test(tests, several_threads, 0, 2 * KINDS);
    return made;
}
