/* Checks debug mode where the runtime refuses calls that only debug mode makes. A failed fill does not fail the
 * access. */
#include "debug_kit.h"

#include "cudart_emu.h"

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

/* The access fails if its wait for the fill fails. The next access succeeds. */
static void fail_to_wait(void)
{
    unsigned failed = 0;
    on_a_stream = false;
    for (unsigned nth = 1; nth <= 3; nth++) {
        synced_mem *const mem = make_at_gpu(SIZE, 1);
        gpu_delay(NULL);
        emu_fail("cudaEventSynchronize", nth, cudaErrorUnknown, false);
        void *data = overwrite(mem);
        failed += data == NULL;
        ck_assert(data || synced_mem_last_error() == SYNCED_MEM_ERR_CUDA);
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
        emu_fail_clear();
        data = overwrite(mem);
        gpu_fill(data, SIZE, 2, NULL);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(failed, 1);
}

START_TEST(failures)
{
    lives(refuse_to_fill);
    lives(fail_to_wait);
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
    tcase_add_test(cases, failures);
    tcase_add_test(cases, captures);
    return all;
}
