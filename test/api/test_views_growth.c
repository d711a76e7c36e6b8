/*
 * Checks how the cost of a call on a root grows with its number of parts: the steps inside the library, the calls of
 * the runtime and the processor's time are proportional to it, whatever is in flight on the parts.
 */
#include "views_kit.h"

#include "stream/waits.h"

#include <time.h>

enum { PART_SIZE = 64, MOST = SANITIZED ? 1000 : 10000, FEW = MOST / 10 };

/* The linker puts the wrappers in place of the library's own functions (--wrap). */
static unsigned long steps;
void __real_sm_publish(struct synced_mem *record);
void __wrap_sm_publish(struct synced_mem *record);
void __wrap_sm_publish(struct synced_mem *record)
{
    steps++;
    __real_sm_publish(record);
}

struct sm_piece;
struct sm_filled;
void __real_sm_publish_piece(struct sm_piece *piece);
void __wrap_sm_publish_piece(struct sm_piece *piece);
void __wrap_sm_publish_piece(struct sm_piece *piece)
{
    steps++;
    __real_sm_publish_piece(piece);
}

void __real_sm_publish_filled(struct sm_piece *piece, struct sm_filled *filled);
void __wrap_sm_publish_filled(struct sm_piece *piece, struct sm_filled *filled);
void __wrap_sm_publish_filled(struct sm_piece *piece, struct sm_filled *filled)
{
    steps++;
    __real_sm_publish_filled(piece, filled);
}

void __real_sm_publish_filled_too(struct sm_piece *piece, const struct sm_filled *filled);
void __wrap_sm_publish_filled_too(struct sm_piece *piece, const struct sm_filled *filled);
void __wrap_sm_publish_filled_too(struct sm_piece *piece, const struct sm_filled *filled)
{
    steps++;
    __real_sm_publish_filled_too(piece, filled);
}

struct sm_copy;
struct sm_stream;
synced_mem_status __real_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by)
{
    steps++;
    return __real_sm_inflight_settle(copy, conflicting, by);
}

static bool no_memory_for_waits;
static bool adds_wait;
static unsigned refused;

synced_mem_status __real_sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose);
synced_mem_status __wrap_sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose);
synced_mem_status __wrap_sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose)
{
    adds_wait = true;
    const synced_mem_status status = __real_sm_waits_add_fence(waits, fence, purpose);
    adds_wait = false;
    return status;
}

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
    refused += no_memory_for_waits && adds_wait;
    return no_memory_for_waits && adds_wait ? NULL : __real_realloc(memory, size);
}

static struct {
    size_t count;
    synced_mem *root, *other, **views;
    synced_mem_stream stream, second;
    unsigned char *pageable;
} it;

static void divide(size_t count, bool pageable)
{
    it.count = count;
    it.root = make_on(count * PART_SIZE, 0);
    it.other = make_on(count * PART_SIZE, 0);
    it.pageable = pageable ? aligned_alloc(4096, count * PART_SIZE / 4096 * 4096 + 4096) : NULL;
    if (pageable)
        OK(synced_mem_set_cpu_data(it.root, it.pageable));
    OK(synced_mem_clear(it.root));
    it.views = calloc(count, sizeof(synced_mem *));
    ck_assert_ptr_nonnull(it.views);
    for (size_t i = 0; i < count; i++)
        it.views[i] = view_of(it.root, i * PART_SIZE, PART_SIZE);
}

static void unite(void)
{
    release_all(it.views, (int)it.count);
    RELEASE_EACH(it.other, it.root);
    free(it.views);
    free(it.pageable);
}

static void write_on_device(void)
{
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(it.root, it.stream)), it.count * PART_SIZE, 1, it.stream);
}

/* ---- What is in flight ---- */

static void pull_each(void)
{
    write_on_device();
    for (size_t i = 0; i < it.count; i++)
        OK(synced_mem_async_cpu_pull(it.views[i], it.stream));
}

static void pull_each_on_two_streams(void)
{
    write_on_device();
    for (size_t i = 0; i < it.count; i++)
        OK(synced_mem_async_cpu_pull(it.views[i], i % 2 ? it.stream : it.second));
}

static void write_each(void)
{
    for (size_t i = 0; i < it.count; i++)
        given(synced_mem_overwrite_gpu_data_on(it.views[i], it.stream));
}

static void read_all(void)
{
    write_on_device();
    given(synced_mem_gpu_data(it.root));
}

static void push_each(void)
{
    memset(given(synced_mem_overwrite_cpu_data(it.root)), 1, it.count * PART_SIZE);
    for (size_t i = 0; i < it.count; i++)
        OK(synced_mem_async_gpu_push(it.views[i], it.stream));
}

static void write_on_host(void)
{
    memset(given(synced_mem_overwrite_cpu_data(it.root)), 1, it.count * PART_SIZE);
}

/* The order of the views is not that of their bytes. */
static void shuffle(void)
{
    write_on_host();
    for (size_t i = it.count - 1; i > 0; i--) {
        const size_t other = i * 7919 % (i + 1) * 31 % (i + 1);
        synced_mem *const view = it.views[i];
        it.views[i] = it.views[other];
        it.views[other] = view;
    }
}

/* Each view has all bytes of the next one. */
static void nest(void)
{
    release_all(it.views, (int)it.count);
    for (size_t i = 0; i < it.count; i++)
        it.views[i] = view_of(it.root, i * PART_SIZE / 2, (it.count - i) * PART_SIZE);
    write_on_host();
}

/* ---- The call ---- */

static void read_on_host(void)
{
    given(synced_mem_cpu_data(it.root));
}

static void copy_on_host(void)
{
    OK(synced_mem_cpu_copy(it.other, it.root));
}

static void write_on_device_without_stream(void)
{
    given(synced_mem_mutable_gpu_data(it.root));
}

static void write_on_second_stream(void)
{
    given(synced_mem_mutable_gpu_data_on(it.root, it.second));
}

static void wait_for_all(void)
{
    OK(synced_mem_wait(it.root));
}

static void query_all(void)
{
    int pending;
    gpu_stream_sync(it.stream);
    OK(synced_mem_query(it.root, &pending));
}

static void push_all(void)
{
    OK(synced_mem_async_gpu_push(it.root, it.second));
}

static void push_views(void)
{
    OK(synced_mem_async_gpu_push_n(it.views, it.count, it.stream));
}

static const struct {
    const char *name;
    void (*before)(void);
    void (*call)(void);
    bool pageable;
    unsigned most_events; /* recorded by the call */
    unsigned most_waits;  /* of the host and of streams */
} rows[] = {
    {"read behind pulls", pull_each, read_on_host, false, 0, 2},
    {"read behind pulls on two streams", pull_each_on_two_streams, read_on_host, false, 0, 3},
    {"read behind staged pulls", pull_each, read_on_host, true, 0, 0},
    {"copy behind pulls", pull_each, copy_on_host, false, 0, 2},
    {"wait for pulls", pull_each, wait_for_all, false, 0, 3},
    {"query of pulls", pull_each, query_all, false, 0, 1},
    {"first access with open writers", write_each, write_on_second_stream, false, 1, 1},
    {"read with open writers", write_each, read_on_host, false, 2, 2},
    {"write behind a read", read_all, write_on_device_without_stream, false, 2, 2},
    {"write behind pushes", push_each, write_on_device_without_stream, false, 1, 2},
    {"write on a stream behind pulls", pull_each, write_on_second_stream, false, 1, MOST + 1},
    {"push behind pushes", push_each, push_all, false, 0, MOST},
    {"push of shuffled views", shuffle, push_views, false, 2, 2},
    {"push of shuffled views of pageable memory", shuffle, push_views, true, 2 * MOST + 2, 2 * MOST + 2},
    {"push of nested views", nest, push_views, false, 2, 2},
    {"push behind staged pulls", pull_each, push_all, true, 0, MOST},
    {"write behind staged pulls", pull_each, write_on_second_stream, true, 0, MOST},
};

struct cost {
    unsigned long steps;
    double seconds;
    unsigned events, waits;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static unsigned count_waits(void)
{
    return gpu_calls("cudaEventSynchronize") + gpu_calls("cudaStreamSynchronize") + gpu_calls("cudaStreamWaitEvent");
}

static struct cost measure(int row, size_t count)
{
    divide(count, rows[row].pageable);
    rows[row].before();
    const unsigned events = gpu_calls("cudaEventRecord"), waits = count_waits();
    const double begin = now();
    steps = 0;
    rows[row].call();
    const struct cost cost = {.steps = steps,
                              .seconds = now() - begin,
                              .events = gpu_calls("cudaEventRecord") - events,
                              .waits = count_waits() - waits};
    unite();
    return cost;
}

/* A quadratic cost is a hundred times as large with ten times as many parts. Other processes affect the processor's
 * time little, and hardly at each of some tries. */
enum { TRIES = 20 };

static bool is_linear(double few, double most)
{
    return most <= 40 * few + 0.01;
}

/* Checks that the cost grows with the number of parts, and no faster. Returns that of the most parts. */
static struct cost measure_growth(int row)
{
    it.stream = open_stream(NON_BLOCKING);
    it.second = open_stream(NON_BLOCKING);
    (void)measure(row, 100);
    struct cost few = measure(row, FEW), most = measure(row, MOST);
    for (int i = 1; i < TRIES && !is_linear(few.seconds, most.seconds); i++) {
        few = measure(row, FEW);
        most = measure(row, MOST);
    }
    ck_assert_msg(is_linear(few.seconds, most.seconds), "%s: %f and %f s", rows[row].name, few.seconds, most.seconds);
    CLOSE_EACH(it.stream, it.second);
    return most;
}

/* Copy threads would record events and wait while the call is measured, so there are none. */
START_TEST(calls_on_a_root)
{
    if (fixture_schedule() > 1) /* the order of the emulator's work does not matter here */
        return;
    set_staging(0, STAGING_BUFFER);
    const struct cost most = measure_growth(_i);
    const char *const name = rows[_i].name;
    if (getenv("SYNCED_MEM_TEST_PRINT"))
        (void)fprintf(stderr, "%s: %lu steps, %.2f ms, %u events, %u waits\n", name, most.steps, 1e3 * most.seconds,
                      most.events, most.waits);
    ck_assert_msg(most.steps <= 10 * MOST, "%s: %lu steps", name, most.steps);
    ck_assert_msg(most.events <= rows[_i].most_events, "%s: %u events", name, most.events);
    ck_assert_msg(most.waits <= rows[_i].most_waits, "%s: %u waits", name, most.waits);
}
END_TEST

/* The time of the process has the copy threads' in it, and so that of the transfers that are in flight. */
START_TEST(calls_beside_copy_threads)
{
    if (fixture_schedule() > 1 || !rows[_i].pageable)
        return;
    set_staging(1, STAGING_BUFFER);
    (void)measure_growth(_i);
}
END_TEST

/* Parts whose pointer the stream has take no step, and those that have changed take as many as they are. */
START_TEST(accesses_again)
{
    enum { CHANGED = 10, STEPS_OF_EACH = 10 };
    it.stream = open_stream(NON_BLOCKING);
    for (size_t count = 100; count <= MOST; count *= 10) {
        divide(count, false);
        write_on_device();
        steps = 0;
        given(synced_mem_mutable_gpu_data_on(it.root, it.stream));
        ck_assert_uint_eq(steps, 0);
        for (size_t i = 0; i < CHANGED; i++)
            OK(synced_mem_clear(it.views[i * count / CHANGED]));
        steps = 0;
        given(synced_mem_mutable_gpu_data_on(it.root, it.stream));
        ck_assert_uint_ge(steps, CHANGED);
        ck_assert_uint_le(steps, CHANGED * STEPS_OF_EACH);
        unite();
    }
    close_stream(it.stream);
}
END_TEST

/* ---- Copies of one object ---- */

struct copies {
    unsigned transfers;
    double seconds;
};

/* Copies one object to many in two parts each, which are cut at different places. */
static struct copies copy_to_many(size_t count, bool to_host)
{
    enum { SIZE = 4096 };
    synced_mem *const source = make_on(SIZE, 0);
    synced_mem **const lists[] = {calloc(count, sizeof source), calloc(count, sizeof source),
                                  calloc(count, sizeof source)};
    host_fill(given(synced_mem_overwrite_cpu_data(source)), SIZE, 1);
    given(synced_mem_gpu_data_on(source, it.stream));
    gpu_stream_sync(it.stream);
    for (size_t i = 0; i < count; i++) {
        lists[0][i] = make_on(SIZE, 0);
        lists[1][i] = source;
        lists[2][i] = view_of(lists[0][i], 1 + i % (SIZE - 1), SIZE - 1 - i % (SIZE - 1));
        given(to_host ? synced_mem_overwrite_cpu_data(lists[0][i]) : synced_mem_overwrite_gpu_data(lists[0][i]));
    }
    const unsigned before = gpu_calls("cudaMemcpyAsync");
    const double begin = now();
    OK(to_host ? synced_mem_cpu_copy_n(lists[0], lists[1], count)
               : synced_mem_async_gpu_copy_n(lists[0], lists[1], count, it.stream));
    struct copies copies = {.transfers = gpu_calls("cudaMemcpyAsync") - before, .seconds = now() - begin};
    for (size_t i = 0; i < count; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(lists[0][i])), SIZE, 1));
    release_all(lists[2], (int)count);
    release_all(lists[0], (int)count);
    OK(synced_mem_release(source));
    for (int i = 0; i < 3; i++)
        free(lists[i]);
    return copies;
}

START_TEST(copies_of_one_object)
{
    if (fixture_schedule() > 1)
        return;
    it.stream = open_stream(NON_BLOCKING);
    for (int to_host = 0; to_host < 2; to_host++) {
        struct copies few = copy_to_many(FEW, to_host), most = copy_to_many(MOST, to_host);
        for (int i = 1; i < TRIES && !is_linear(few.seconds, most.seconds); i++) {
            few = copy_to_many(FEW, to_host);
            most = copy_to_many(MOST, to_host);
        }
        if (getenv("SYNCED_MEM_TEST_PRINT"))
            (void)fprintf(stderr, "copies to %d: %u and %u transfers, %.2f and %.2f ms\n", to_host, few.transfers,
                          most.transfers, 1e3 * few.seconds, 1e3 * most.seconds);
        ck_assert_uint_eq(most.transfers, to_host ? 0 : 2 * MOST);
        ck_assert_msg(is_linear(few.seconds, most.seconds), "%f and %f s", few.seconds, most.seconds);
    }
    close_stream(it.stream);
}
END_TEST

/* Without memory for all fences a call waits for some of them at a time. */
START_TEST(waits_without_memory)
{
    it.stream = open_stream(NON_BLOCKING);
    it.second = open_stream(NON_BLOCKING);
    divide(100, false);
    pull_each();
    no_memory_for_waits = true;
    const unsigned char *const data = given(synced_mem_cpu_data(it.root));
    no_memory_for_waits = false;
    ck_assert_uint_gt(refused, 1);
    ck_assert(host_is(data, it.count * PART_SIZE, 1));
    unite();
    CLOSE_EACH(it.stream, it.second);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("growth with views");
    TCase *const tests = add_case(made, "growth");
    add_tests(tests, accesses_again, copies_of_one_object, waits_without_memory);
    tcase_add_loop_test(tests, calls_on_a_root, 0, sizeof rows / sizeof rows[0]);
    tcase_add_loop_test(tests, calls_beside_copy_threads, 0, sizeof rows / sizeof rows[0]);
    return made;
}
