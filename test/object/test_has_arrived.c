/* Checks the question whether the contents of a side have arrived. */
#include "fixture.h"

#include <stdlib.h>

enum { SIZE = 70000, LARGE = 3 << 20 };

/* Checks the answers for both sides. They take no work to its end, so they are the same again. */
static void check_arrived(synced_mem *mem, int cpu, int gpu)
{
    for (int i = 0; i < 3; i++) {
        int arrived = -1;
        OK(synced_mem_has_arrived(mem, SYNCED_MEM_SIDE_CPU, &arrived));
        ck_assert_int_eq(arrived, cpu);
        OK(synced_mem_has_arrived(mem, SYNCED_MEM_SIDE_GPU, &arrived));
        ck_assert_int_eq(arrived, gpu);
    }
}

static int is_pending(synced_mem *mem)
{
    int pending = -1;
    OK(synced_mem_query(mem, &pending));
    return pending;
}

START_TEST(on_the_host)
{
    synced_mem *const mem = make(SIZE), *const empty = make(0);
    check_arrived(mem, 0, 0); /* no side is valid */
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 1);
    check_arrived(mem, 1, 0);
    OK(synced_mem_clear(mem));
    check_arrived(mem, 0, 0);
    check_arrived(empty, 0, 0);
    (void)given(synced_mem_cpu_data(empty));
    check_arrived(empty, 1, 0);
    RELEASE_EACH(mem, empty);
}
END_TEST

/* A push brings the contents to the device, and only reads the host copy. */
START_TEST(a_push)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 1);
    (void)given(synced_mem_gpu_data_on(mem, stream)); /* obtains the memory */
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 2);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    check_arrived(mem, 1, 0);
    ck_assert_int_eq(is_pending(mem), 1);
    gpu_fill(given(synced_mem_mutable_gpu_data_on(mem, stream)), SIZE, 3,
             stream); /* after contents that still arrive */
    check_arrived(mem, 0, 0);
    gpu_unhold();
    OK(synced_mem_wait(mem));
    check_arrived(mem, 0, 1);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* A pull brings the contents to the host. Neither it nor the caller's kernels delay those of the device. */
START_TEST(a_pull)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = _i ? malloc(LARGE) : NULL; /* staged */
    const size_t size = _i ? LARGE : SIZE;
    synced_mem *const mem = make_on(size, 0);
    if (mine)
        OK(synced_mem_set_cpu_data(mem, mine));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), size, 1, stream);
    gpu_stream_sync(stream);
    OK(synced_mem_wait(mem));
    check_arrived(mem, 0, 1);
    gpu_hold(stream);
    gpu_fill(given(synced_mem_mutable_gpu_data_on(mem, stream)), size, 2, stream);
    check_arrived(mem, 0, 1); /* a kernel is no transfer */
    OK(synced_mem_async_cpu_pull(mem, stream));
    check_arrived(mem, 0, 1);
    ck_assert_int_eq(is_pending(mem), 1);
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 2));
    check_arrived(mem, 1, 1);
    OK(synced_mem_release(mem));
    free(mine);
    close_stream(stream);
}
END_TEST

/* A transfer that only reads a copy, for another object. */
START_TEST(a_copy)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const from = make_on(SIZE, 0), *const to = make_on(SIZE, 0);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(from, stream)), SIZE, 1, stream);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(to, stream)), SIZE, 2, stream);
    gpu_stream_sync(stream);
    OK(synced_mem_wait(from));
    OK(synced_mem_wait(to));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    check_arrived(from, 0, 1);
    check_arrived(to, 0, 0);
    ck_assert_int_eq(is_pending(from), 1);
    gpu_unhold();
    OK(synced_mem_wait(to));
    check_arrived(to, 0, 1);
    RELEASE_EACH(from, to);
    close_stream(stream);
}
END_TEST

/* Of an object in parts all have to arrive. */
START_TEST(parts)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const root = make_on(SIZE, 0), *views[2];
    host_fill(given(synced_mem_overwrite_cpu_data(root)), SIZE, 1);
    (void)given(synced_mem_gpu_data_on(root, stream));
    gpu_stream_sync(stream);
    OK(synced_mem_end_use_on(root, stream));
    host_fill(given(synced_mem_overwrite_cpu_data(root)), SIZE, 1);
    OK(synced_mem_view(&views[0], root, 0, 30000, NULL));
    OK(synced_mem_view(&views[1], root, 30000, SIZE - 30000, NULL));
    OK(synced_mem_async_gpu_push(views[0], NULL));
    gpu_sync_device(0);
    check_arrived(views[0], 1, 1);
    check_arrived(root, 1, 0); /* a part is not valid */
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(root, stream));
    check_arrived(views[0], 1, 1);
    check_arrived(views[1], 1, 0);
    check_arrived(root, 1, 0);
    gpu_unhold();
    gpu_stream_sync(stream);
    check_arrived(root, 1, 1);
    OK(synced_mem_release(root));
    release_all(views, 2);
    close_stream(stream);
}
END_TEST

/* Device memory of the caller's that work on a stream fills. */
START_TEST(memory_of_the_callers)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_on(SIZE, 0);
    gpu_hold(stream);
    gpu_fill(mine, SIZE, 4, stream);
    OK(USE(mem, .gpu_data = mine, .stream = stream));
    check_arrived(mem, 0, 0);
    gpu_unhold();
    gpu_stream_sync(stream);
    check_arrived(mem, 0, 1);
    OK(synced_mem_release(mem));
    gpu_free(mine);
    close_stream(stream);
}
END_TEST

START_TEST(bad_input)
{
    synced_mem *const mem = make(1);
    int arrived = 7;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_has_arrived(NULL, SYNCED_MEM_SIDE_CPU, &arrived));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_has_arrived(mem, SYNCED_MEM_SIDE_CPU, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_has_arrived(mem, (synced_mem_side)0, &arrived));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_has_arrived(mem, (synced_mem_side)3, &arrived));
    ck_assert_int_eq(arrived, 7);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("has_arrived");
    TCase *const cases = add_case(made, "has_arrived");
    add_tests(cases, on_the_host, bad_input);
    add_gpu_tests(cases, a_push, a_copy, parts, memory_of_the_callers);
    add_gpu_loop_test(cases, a_pull, 0, 2);
    return made;
}
