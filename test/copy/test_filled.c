/* Checks host memory that a stream of the caller's fills, and the loss of the device meanwhile. */
#include "fixture.h"

#include "cudart_emu.h"

enum { SIZE = 5000 };

static void end(void)
{
    (void)synced_mem_shutdown();
    ck_assert_uint_eq(stats_now().objects, 0);
    ck_assert_uint_eq(stats_now().retired, 0);
    emu_reset(0);
}

/* The device breaks while a stream fills the caller's host memory, so the contents are lost. Each call that needs the
 * contents fails, every time. All other calls succeed. */
START_TEST(broken_while_the_host_copy_was_filled)
{
    void *const host = gpu_pinned_alloc(SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const from = make_on(SIZE, 0);
    synced_mem *const mem = make_on(SIZE, 0);
    void *const device = synced_mem_overwrite_gpu_data_on(from, stream);
    pattern_write(host, SIZE, 7);
    gpu_fill(device, SIZE, 1, stream);
    gpu_hold(stream);
    gpu_copy_to_host(host, device, SIZE, stream);
    OK(USE(mem, .cpu_data = host, .stream = stream));
    emu_break_device(0, cudaErrorLaunchFailure);
    gpu_unhold();
    if (_i % 2 == 0)
        (void)cudaStreamSynchronize(stream);
    for (int again = 0; again < 2; again++) {
        switch (_i / 2) {
        case 0:
            FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
            break;
        case 1:
            FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_cpu_data(mem));
            break;
        case 2:
            FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_resize(mem, 2 * SIZE));
            ck_assert_uint_eq(synced_mem_size(mem), SIZE);
            break;
        case 3:
            FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_release_cpu_data(mem));
            break;
        case 4:
            FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
            FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_async_gpu_push(mem, stream));
            break;
        case 5:
            FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
            FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
            OK(synced_mem_release_gpu_data(mem));
            FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_wait(mem));
            break;
        case 6:
            host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 2);
            ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
            break;
        case 7:
            OK(synced_mem_resize_discard(mem, SIZE / 2));
            host_fill(synced_mem_overwrite_cpu_data(mem), SIZE / 2, 0);
            break;
        }
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    }
    RELEASE_EACH(from, mem);
    end();
}
END_TEST

/* The release of memory that the caller's stream still fills does not wait for the stream. */
START_TEST(handed_back_while_it_is_filled)
{
    void *const host = gpu_pinned_alloc(SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_on(SIZE, 0);
    int pending = 1;
    gpu_hold(stream);
    gpu_fill_host(host, SIZE, 1, stream);
    OK(USE(mem, .cpu_data = host, .stream = stream));
    OK(synced_mem_query(mem, &pending));
    ck_assert_int_eq(pending, 0);
    OK(synced_mem_wait(mem));
    OK(synced_mem_release_gpu_data(mem));
    OK(synced_mem_release_data(mem));
    ck_assert(!gpu_stream_is_idle(stream));
    OK(synced_mem_release(mem));
    gpu_unhold();
    gpu_stream_sync(stream);
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const of = suite_create("filled");
    TCase *const tests = add_case_without_end(of, "filled");
    tcase_add_test(tests, handed_back_while_it_is_filled);
    tcase_add_loop_test(tests, broken_while_the_host_copy_was_filled, 0, 16);
    return of;
}
