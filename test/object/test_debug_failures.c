/* Checks debug mode where the runtime refuses calls that only debug mode makes. A failed fill does not fail the
 * access. */
#include "debug_kit.h"
#include "failing_calls.h"

static bool on_a_stream;

static void *overwrite(synced_mem *mem)
{
    return on_a_stream ? synced_mem_overwrite_gpu_data_on(mem, NULL) : synced_mem_overwrite_gpu_data(mem);
}

/* Fills of new memory and of existing memory fail. */
static void refuse_to_fill(void)
{
    for (int way = 0; way < 2; way++) {
        on_a_stream = way == 1;
        synced_mem *const mem = make(SIZE);
        for (int round = 0; round < 2; round++) {
            emu_fail("cudaMemsetAsync", 1, cudaErrorUnknown, false);
            gpu_fill(overwrite(mem), SIZE, 1, NULL);
            ck_assert_uint_eq(emu_failures(), 2u * (unsigned)way + (unsigned)round + 1);
            ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
        }
        OK(synced_mem_release(mem));
    }
}

/* A wait for the fill that fails is tried again. */
static void fail_to_wait(void)
{
    on_a_stream = false;
    for (unsigned nth = 1; nth <= 3; nth++) {
        synced_mem *const mem = make_at_gpu(SIZE, 1);
        gpu_delay(NULL);
        emu_fail("cudaEventSynchronize", nth, cudaErrorUnknown, false);
        void *data = overwrite(mem);
        ck_assert_ptr_nonnull(data);
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
        emu_fail_clear();
        data = overwrite(mem);
        gpu_fill(data, SIZE, 2, NULL);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
        OK(synced_mem_release(mem));
    }
}

static const size_t borders[] = {1000, 3000};

/* Divides the object if it is to have views. */
static void make_views(synced_mem *mem, synced_mem **views, bool wanted)
{
    views[0] = views[1] = NULL;
    for (int i = 0; i < 2 && wanted; i++)
        OK(synced_mem_view(&views[i], mem, borders[i], 1500, NULL));
}

static void release_with_views(synced_mem *mem, synced_mem *const *views)
{
    release_all(views, 2);
    OK(synced_mem_release(mem));
}

/* One call of the runtime fails. If the access fails the contents are as before. */
static void fail_once(void)
{
    unsigned failed = 0;
    for (int way = 0; way < 4; way++)
        for (struct failing it = each_call("*", cudaErrorUnknown); next_failure(&it);) {
            synced_mem *views[2];
            synced_mem *const mem = make_at_gpu(SIZE, 1);
            on_a_stream = way % 2;
            make_views(mem, views, way >= 2);
            gpu_sync_device(0);
            begin_failing(&it);
            const bool done = overwrite(mem) != NULL;
            ck_assert(end_failing(&it) || done);
            failed += !done;
            ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
            ck_assert_msg(done || host_is(synced_mem_cpu_data(mem), SIZE, 1), "call %u, way %d", it.nth, way);
            release_with_views(mem, views);
        }
    ck_assert_uint_ge(failed, 4);
}

/* All waits fail from one on. Contents that the fill has replaced are not valid any more. */
static void fail_from_one_wait_on(void)
{
    unsigned lost = 0;
    on_a_stream = false;
    for (unsigned first = 1; first <= 6; first++)
        for (int way = 0; way < 4; way++) {
            synced_mem *views[2];
            synced_mem *const mem = make_at_gpu(SIZE, 1);
            make_views(mem, views, way >= 2);
            if (way % 2)
                ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
            gpu_delay(NULL);
            for (unsigned i = 0; i < 20; i++)
                emu_fail("cudaEventSynchronize", first + i, cudaErrorUnknown, false);
            const bool done = overwrite(mem) != NULL;
            emu_fail_clear();
            const unsigned head = synced_mem_head(mem);
            lost += head == SYNCED_MEM_UNINITIALIZED;
            ck_assert(head != SYNCED_MEM_UNINITIALIZED || (!done && way % 2 == 0));
            ck_assert(done || head == SYNCED_MEM_UNINITIALIZED || host_is(synced_mem_cpu_data(mem), SIZE, 1));
            gpu_fill(overwrite(mem), SIZE, 2, NULL);
            ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
            release_with_views(mem, views);
        }
    ck_assert_uint_gt(lost, 0);
}

START_TEST(failures)
{
    lives(refuse_to_fill);
    lives(fail_to_wait);
    lives(fail_once);
    lives(fail_from_one_wait_on);
}
END_TEST

/* A graph would repeat the fill at each launch, so no fill is captured. */
static void overwrite_in_a_capture(void)
{
    cudaGraph_t graph = NULL;
    synced_mem *const mem = make(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    const unsigned calls = gpu_calls("cudaMemsetAsync");
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, stream));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, stream));
    ck_assert_uint_eq(gpu_calls("cudaMemsetAsync"), calls);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
}

START_TEST(captures)
{
    lives(overwrite_in_a_capture);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("debug failures");
    TCase *const cases = add_case_in_children(all, "debug failures");
    add_tests(cases, failures, captures);
    return all;
}
