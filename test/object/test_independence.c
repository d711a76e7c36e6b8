/*
 * Checks that calls on independent bytes do not wait for one another: on separate objects, and on disjoint views of one
 * object. A kernel on a stream never ends while the other call is made.
 */
#include "fixture.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* MOST_ON_LEGACY: the bytes of the largest move that the legacy stream makes. */
enum { SIZE = 8000, LARGER = 30000, MOST_ON_LEGACY = 65536, LONG_ENOUGH = 20, STEP_US = 1000 };

/* ---- A call in a thread ---- */

struct call {
    synced_mem *mem;
    synced_mem *to; /* NULL: mem is read, otherwise a copy of it in to's host copy */
    const void *data;
    bool on_host;
    atomic_bool over;
    pthread_t thread;
};

static void *read_it(void *argument)
{
    struct call *const call = argument;
    synced_mem *const mem = call->to ? call->to : call->mem;
    if (call->to)
        OK(synced_mem_cpu_copy(call->to, call->mem));
    call->data = call->on_host ? synced_mem_cpu_data(mem) : synced_mem_gpu_data(mem);
    atomic_store(&call->over, true);
    return NULL;
}

static void begin_to_read(struct call *call)
{
    ck_assert_int_eq(pthread_create(&call->thread, NULL, read_it, call), 0);
}

/* Returns whether the call ends although the kernel does not. Threads that sleep for long have nothing left to do. */
static bool ends(struct call *call)
{
    int slept = 0;
    while (!atomic_load(&call->over) && slept < LONG_ENOUGH) {
        slept = others_sleep() ? slept + 1 : 0;
        (void)usleep(STEP_US);
    }
    return atomic_load(&call->over);
}

static void end_reading(struct call *call)
{
    ck_assert_int_eq(pthread_join(call->thread, NULL), 0);
    ck_assert_ptr_nonnull(call->data);
}

/* The kernel is held. Checks that one call waits for it and the other one does not. */
static void check_independent(struct call *blocked, struct call *free)
{
    begin_to_read(blocked);
    ck_assert(!ends(blocked));
    begin_to_read(free);
    const bool independent = ends(free);
    gpu_unhold();
    end_reading(blocked);
    end_reading(free);
    ck_assert(independent);
}

/* ---- Two objects ---- */

/* a and b have SIZE bytes each. */
struct pair {
    synced_mem *root; /* NULL: a and b are separate objects */
    synced_mem *a, *b;
    synced_mem_stream stream;
};

static synced_mem *view_of(synced_mem *root, size_t offset)
{
    synced_mem *view;
    OK(synced_mem_view(&view, root, offset, SIZE, NULL));
    return view;
}

static struct pair make_pair(bool views, int device)
{
    struct pair pair = {.stream = open_stream(NON_BLOCKING)};
    pair.root = views ? make_on((size_t)2 * SIZE, device) : NULL;
    pair.a = views ? view_of(pair.root, 0) : make_on(SIZE, device);
    pair.b = views ? view_of(pair.root, SIZE) : make_on(SIZE, device);
    return pair;
}

static void release_pair(struct pair *pair)
{
    RELEASE_EACH(pair->a, pair->b);
    if (pair->root)
        OK(synced_mem_release(pair->root));
    close_stream(pair->stream);
}

static void host_writes(synced_mem *mem, unsigned pattern)
{
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, pattern);
}

static void kernel_writes(synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, pattern, stream);
}

/* Both sides have memory, so no call has to make some. */
static void give_memory(const struct pair *pair)
{
    host_writes(pair->a, 9);
    host_writes(pair->b, 9);
    kernel_writes(pair->a, 9, pair->stream);
    kernel_writes(pair->b, 9, pair->stream);
    gpu_stream_sync(pair->stream);
    OK(synced_mem_end_use_on(pair->a, pair->stream));
    OK(synced_mem_end_use_on(pair->b, pair->stream));
}

/* ---- Tests ---- */

/* A call that comes after a caller's work finds an internal stream without a query, if the last work there was seen to
 * end. */
START_TEST(idle_stream_without_query)
{
    synced_mem *const mem = make(MOST_ON_LEGACY + 1);
    unsigned before = 0;
    for (int i = 0; i < 3; i++) {
        before = emu_calls("cudaStreamQuery");
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    }
    ck_assert_uint_eq(emu_calls("cudaStreamQuery"), before);
    OK(synced_mem_release(mem));
}
END_TEST

/* One thread waits for the kernel that writes a. b is read on the host meanwhile. */
START_TEST(contents_for_the_host)
{
    struct pair pair = make_pair(_i, 0);
    struct call blocked = {.mem = pair.a, .on_host = true};
    struct call free = {.mem = pair.b, .on_host = true};
    give_memory(&pair);
    kernel_writes(pair.b, 2, pair.stream);
    gpu_stream_sync(pair.stream);
    OK(synced_mem_end_use_on(pair.b, pair.stream));
    gpu_hold(pair.stream);
    kernel_writes(pair.a, 1, pair.stream);
    check_independent(&blocked, &free);
    ck_assert(host_is(blocked.data, SIZE, 1));
    ck_assert(host_is(free.data, SIZE, 2));
    release_pair(&pair);
}
END_TEST

/* One thread waits for the kernel that still reads a's device copy. b is read on the device meanwhile, also if accesses
 * without a stream have returned both before: then the legacy stream is not held up with the kernel's. */
START_TEST(contents_for_the_device)
{
    const bool marked = _i / 2;
    struct pair pair = make_pair(_i % 2, 0);
    struct call blocked = {.mem = pair.a};
    struct call free = {.mem = pair.b};
    give_memory(&pair);
    ck_assert(!marked || (synced_mem_gpu_data(pair.a) && synced_mem_gpu_data(pair.b)));
    gpu_hold(pair.stream);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(pair.a, pair.stream));
    host_writes(pair.a, 1);
    host_writes(pair.b, 2);
    check_independent(&blocked, &free);
    ck_assert(device_is(blocked.data, SIZE, 1));
    ck_assert(device_is(free.data, SIZE, 2));
    release_pair(&pair);
}
END_TEST

/* The first access to a makes the memory of all parts, on a stream that is held up. */
START_TEST(first_use_of_a_part)
{
    struct pair pair = make_pair(true, 0);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    gpu_hold(pair.stream);
    kernel_writes(pair.a, 1, pair.stream);
    kernel_writes(pair.b, 2, other);
    gpu_stream_sync(other);
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(pair.a), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(pair.b), SIZE, 2));
    release_pair(&pair);
    close_stream(other);
}
END_TEST

/* A copy to the other device comes after a stream that is held up. */
START_TEST(beside_a_copy_to_another_device)
{
    struct pair pair = make_pair(_i, 1);
    synced_mem *const from = make_on(SIZE, 0);
    struct call free = {.mem = pair.b};
    gpu_make_current(1);
    host_writes(pair.a, 9);
    host_writes(pair.b, 9);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(pair.a));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(pair.b));
    gpu_make_current(0);
    host_writes(from, 1);
    gpu_hold(pair.stream);
    OK(synced_mem_async_gpu_copy(pair.a, from, pair.stream));
    host_writes(pair.b, 2);
    begin_to_read(&free);
    const bool independent = ends(&free);
    gpu_unhold();
    end_reading(&free);
    ck_assert(independent);
    ck_assert(host_is(synced_mem_cpu_data(pair.a), SIZE, 1));
    release_pair(&pair);
    OK(synced_mem_release(from));
}
END_TEST

/* A resize comes after a kernel that does not end. Another object gets its first memory meanwhile. */
START_TEST(beside_a_resize)
{
    struct pair pair = make_pair(false, 0);
    struct call free = {.mem = pair.b};
    kernel_writes(pair.a, 1, pair.stream);
    gpu_stream_sync(pair.stream);
    gpu_hold(pair.stream);
    gpu_fill(synced_mem_mutable_gpu_data_on(pair.a, pair.stream), SIZE, 2, pair.stream);
    OK(synced_mem_resize(pair.a, LARGER));
    begin_to_read(&free);
    const bool independent = ends(&free);
    gpu_unhold();
    end_reading(&free);
    ck_assert(independent);
    ck_assert(host_is(synced_mem_cpu_data(pair.a), SIZE, 2));
    release_pair(&pair);
}
END_TEST

/* Zeros for a's device copy come after the kernel that still reads it. b gets its first memory meanwhile. */
START_TEST(beside_zeros)
{
    struct pair pair = make_pair(false, 0);
    struct call blocked = {.mem = pair.a};
    struct call free = {.mem = pair.b};
    kernel_writes(pair.a, 1, pair.stream);
    gpu_stream_sync(pair.stream);
    gpu_hold(pair.stream);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(pair.a, pair.stream));
    OK(synced_mem_clear(pair.a));
    check_independent(&blocked, &free);
    ck_assert(device_is(blocked.data, SIZE, 0));
    release_pair(&pair);
}
END_TEST

/* One thread copies a to another object's host copy, after the kernel that writes a. b is read on the host
 * meanwhile. */
START_TEST(beside_a_copy_to_the_host)
{
    struct pair pair = make_pair(_i, 0);
    synced_mem *const to = make_on(SIZE, 0);
    struct call blocked = {.mem = pair.a, .to = to, .on_host = true};
    struct call free = {.mem = pair.b, .on_host = true};
    give_memory(&pair);
    host_writes(to, 2);
    OK(synced_mem_async_gpu_copy(pair.b, to, pair.stream));
    OK(synced_mem_wait(pair.b));
    gpu_hold(pair.stream);
    kernel_writes(pair.a, 1, pair.stream);
    check_independent(&blocked, &free);
    ck_assert(host_is(blocked.data, SIZE, 1));
    ck_assert(host_is(free.data, SIZE, 2));
    release_pair(&pair);
    OK(synced_mem_release(to));
}
END_TEST

/* A transfer into memory that an access without a stream has returned comes after the legacy stream. */
START_TEST(beside_a_transfer_into_marked_memory)
{
    struct pair pair = make_pair(_i, 0);
    struct call blocked = {.mem = pair.a};
    struct call free = {.mem = pair.b};
    give_memory(&pair);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(pair.a));
    kernel_writes(pair.a, 3, pair.stream);
    gpu_stream_sync(pair.stream);
    OK(synced_mem_end_use_on(pair.a, pair.stream));
    host_writes(pair.a, 1);
    host_writes(pair.b, 2);
    gpu_hold(NULL);
    check_independent(&blocked, &free);
    ck_assert(device_is(blocked.data, SIZE, 1));
    ck_assert(device_is(free.data, SIZE, 2));
    release_pair(&pair);
}
END_TEST

/* A pull comes after the legacy stream, and after a copy on another one that reads the host's bytes. */
START_TEST(beside_a_pull_behind_another_stream)
{
    struct pair pair = make_pair(_i, 0);
    synced_mem *const to = make_on(SIZE, 0);
    struct call blocked = {.mem = pair.a, .on_host = true};
    struct call free = {.mem = pair.b};
    give_memory(&pair);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(pair.b));
    host_writes(pair.a, 1);
    gpu_hold(pair.stream);
    OK(synced_mem_async_gpu_copy(to, pair.a, pair.stream));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(pair.a));
    host_writes(pair.b, 2);
    check_independent(&blocked, &free);
    ck_assert(host_is(blocked.data, SIZE, 1));
    ck_assert(device_is(free.data, SIZE, 2));
    release_pair(&pair);
    OK(synced_mem_release(to));
}
END_TEST

/* The legacy stream makes small moves of accesses without a stream itself. Larger ones are on another stream, which
 * waits for an event there. */
START_TEST(moves_on_the_legacy_stream)
{
    static const size_t sizes[] = {1, MOST_ON_LEGACY, MOST_ON_LEGACY + 1};
    const size_t size = sizes[_i];
    const unsigned waits = size > MOST_ON_LEGACY;
    synced_mem *const mem = make_on(size, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), size, 1);
    gpu_fill(synced_mem_mutable_gpu_data(mem), size, 2, NULL);
    synced_mem_stats before = stats_now();
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 2));
    ck_assert_uint_eq(stats_now().stream_waits - before.stream_waits, waits);
    host_fill(synced_mem_mutable_cpu_data(mem), size, 3);
    before = stats_now();
    ck_assert(device_is(synced_mem_gpu_data(mem), size, 3));
    ck_assert_uint_eq(stats_now().stream_waits - before.stream_waits, waits);
    ck_assert_uint_eq(stats_now().event_records - before.event_records, 1 + waits);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("independence");
    TCase *const tests = add_case(made, "independence");
    add_tests(tests, idle_stream_without_query, first_use_of_a_part, beside_a_resize, beside_zeros);
    tcase_add_loop_test(tests, contents_for_the_host, 0, 2);
    tcase_add_loop_test(tests, contents_for_the_device, 0, 4);
    tcase_add_loop_test(tests, beside_a_copy_to_another_device, 0, 2);
    tcase_add_loop_test(tests, beside_a_copy_to_the_host, 0, 2);
    tcase_add_loop_test(tests, beside_a_transfer_into_marked_memory, 0, 2);
    tcase_add_loop_test(tests, beside_a_pull_behind_another_stream, 0, 2);
    tcase_add_loop_test(tests, moves_on_the_legacy_stream, 0, 3);
    return made;
}
