/* Checks pulls and copies of contents that were lost on their way to the device: a pull fails, and a copy has no
 * contents either. */
#include "copies_kit.h"

#include "cudart_emu.h"

enum { SIZE = 4096 };

/* Two copies to device 1 have one event. Device 0 is lost, and a call on the first target notices it. */
START_TEST(lost_with_another)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *to[2], *from[2];
    for (int i = 0; i < 2; i++) {
        to[i] = make_there(SIZE, 9);
        from[i] = make_on_device(SIZE, 1, stream);
    }
    synced_mem *const other = make_there(SIZE, 5);
    gpu_sync_device(1);
    gpu_make_current(1);
    synced_mem_stream there = gpu_stream_create(1, false);
    gpu_make_current(0);
    gpu_stream_sync(stream);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_copy_n(to, from, 2, stream));
    emu_break_device(0, cudaErrorIllegalAddress);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(to[0]));
    gpu_make_current(1);
    if (_i == 2) {
        OK(synced_mem_async_gpu_copy(other, to[1], there));
        ck_assert_int_eq(synced_mem_head(other), SYNCED_MEM_UNINITIALIZED);
    } else {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE,
              _i ? synced_mem_async_cpu_pull_n(&to[1], 1, there) : synced_mem_async_cpu_pull(to[1], there));
    }
    ck_assert_int_eq(synced_mem_head(to[1]), SYNCED_MEM_UNINITIALIZED);
    gpu_unhold();
    for (int i = 0; i < 2; i++)
        release_both(to[i], from[i]);
    OK(synced_mem_release(other));
    emu_reset(0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("lost_pulls");
    TCase *const tests = add_case_without_end(made, "lost pulls");
    tcase_add_loop_test(tests, lost_with_another, 0, 3);
    return made;
}
