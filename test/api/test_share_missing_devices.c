/* Checks shareable objects whose device is lost or missing, or whose processes see different devices. On the emulated
 * runtime. */
#include "share_two_kit.h"

#include "break_device.h"
#include "processes_kit.h"

/* ---- Lost devices ---- */

static void lose_device(void)
{
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)gpu_try_fill(synced_mem_overwrite_gpu_data(one), BYTES, 2, NULL);
}

/* Contents on the host alone are handed over; those on the device are lost. */
START_TEST(a_device_is_lost)
{
    open_two();
    synced_mem *const third = share_with_myself(one);
    leaves_memory = true;
    if (_i == 0) {
        lose_device();
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_end_turn(one));
        FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(other, CPU, READ, 0));
        OK(synced_mem_release(one)); /* a death in the turn */
        FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(other, CPU, READ, 0));
        OK(synced_mem_begin_turn(other, CPU, READ, 0));
        ck_assert(pattern_is(synced_mem_cpu_data(other), BYTES, 0));
        FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(third, CPU, READ, 0));
    } else {
        host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
        const void *const data = synced_mem_gpu_data_on(one, NULL);
        ck_assert_ptr_nonnull(data);
        HEAD_IS(one, SYNCED);
        emu_break_device(0, cudaErrorLaunchFailure);
        (void)gpu_try_fill((void *)(uintptr_t)data, BYTES, 2, NULL);
        OK(synced_mem_end_turn(one));
        OK(synced_mem_begin_turn(other, CPU, READ, 0));
        ck_assert(pattern_is(synced_mem_cpu_data(other), BYTES, 1));
        OK(synced_mem_release(one));
    }
    RELEASE_EACH(other, third);
}
END_TEST

/* An abandoned turn needs no contents, so its end succeeds: of a writer, of a reader for a slot. */
START_TEST(a_device_is_lost_in_a_turn_that_is_abandoned)
{
    open_two();
    synced_mem *const third = share_with_myself(one);
    leaves_memory = true;
    OK(synced_mem_take_slot(one, 0, NULL));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    OK(_i == 0 ? synced_mem_begin_turn(one, GPU, WRITE, 0) : synced_mem_begin_slot_turn(one, GPU, 0, 0));
    void *const data = _i == 0 ? synced_mem_mutable_gpu_data(one) : (void *)(uintptr_t)synced_mem_gpu_data(one);
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)gpu_try_fill(data, BYTES, 2, NULL);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_end_turn(one));
    OK(synced_mem_abandon_turn(one));
    if (_i == 0) {
        FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(other, CPU, READ, 0));
        OK(synced_mem_begin_turn(other, CPU, READ, 0));
        ck_assert(pattern_is(synced_mem_cpu_data(other), BYTES, 0));
        FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(third, CPU, READ, 0));
    } else {
        OK(synced_mem_begin_slot_turn(other, CPU, 0, 0));
        ck_assert(pattern_is(synced_mem_cpu_data(other), BYTES, 1));
        OK(synced_mem_end_turn(other));
        FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_slot_turn(third, CPU, 0, 0));
    }
    RELEASE_EACH(one, other, third);
}
END_TEST

/* A reader's copy of a batch fails with the device, whatever finds that first: the end of the turn, a wait for the
 * copy, the release, or a call before the turn, which is one on the host then. It has not consumed the batch, and its
 * successor reads it again. */
enum { THE_END, A_WAIT, THE_RELEASE, CALL_BEFORE, FINDERS };

static void break_device_and_notice(synced_mem *own)
{
    break_device();
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_overwrite_gpu_data(own));
}

START_TEST(a_batch_whose_copy_is_lost)
{
    const int finder = _i % FINDERS;
    const synced_mem_side side = _i < FINDERS ? CPU : GPU;
    open_two();
    synced_mem *const third = share_with_myself(one);
    synced_mem *const own = make(BYTES);
    leaves_memory = true;
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_take_slot(one, 0, NULL));
    OK(synced_mem_end_turn(one));
    if (finder == CALL_BEFORE)
        break_device_and_notice(own);
    OK(synced_mem_begin_slot_turn(other, side, 0, 0));
    if (finder != CALL_BEFORE)
        emu_break_device(0, cudaErrorLaunchFailure);
    (void)synced_mem_async_gpu_copy(own, other, SYNCED_MEM_STREAM_LIBRARY); /* may notice */
    if (finder == A_WAIT)
        (void)synced_mem_wait(own);
    for (int again = 0; again < 2 && finder != THE_RELEASE; again++)
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_end_turn(other));
    OK(synced_mem_release(other));
    OK(synced_mem_begin_slot_turn(third, CPU, 0, 0)); /* the host's side is there all the same */
    ck_assert(pattern_is(synced_mem_cpu_data(third), BYTES, 1));
    OK(synced_mem_end_turn(third));
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_slot_turn(third, CPU, 0, 0));
    (void)synced_mem_release(own);
    RELEASE_EACH(one, third);
}
END_TEST

/* ---- Devices that a process does not see ---- */

static void make_on_both(int socket)
{
    synced_mem *const mem = make_and_share(socket);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), BYTES, 1, NULL);
    OK(synced_mem_end_turn(mem));
    raise_flag(0);
    await_flag(1, 1);
    OK(synced_mem_begin_turn(mem, CPU, READ, LONG_MS)); /* now both sides are valid */
    OK(synced_mem_end_turn(mem));
    raise_flag(0);
    await_flag(1, 2);
    OK(synced_mem_begin_turn(mem, GPU, READ, LONG_MS));
    ck_assert(device_is(synced_mem_gpu_data(mem), BYTES, 3));
    OK(synced_mem_release(mem));
}

/* Calls that need no device work: a copy from the object, a share, and at last a clear. */
static void use_host_side(synced_mem *mem)
{
    int ends[2];
    synced_mem *const target = make(BYTES);
    OK(synced_mem_cpu_copy(target, mem));
    ck_assert(host_is(synced_mem_cpu_data(target), BYTES, 1));
    OK(synced_mem_release(target));
    ck_assert(open_pair(SOCK_STREAM, ends));
    OK(synced_mem_share(mem, ends[0], LONG_MS));
    close_pair(ends);
    OK(synced_mem_clear(mem));
    HEAD_IS(mem, UNINITIALIZED);
}

static void receive_without_device(int socket)
{
    for (int i = 0; i < synced_mem_device_count(); i++)
        emu_set_gpu(i, 10 + i);
    synced_mem *const mem = receive(socket);
    await_flag(0, 1);
    for (int turn = 0; turn < 2; turn++) {
        FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_begin_turn(mem, CPU, turn ? WRITE : READ, LONG_MS));
        FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_begin_turn(mem, GPU, turn ? WRITE : READ, LONG_MS));
    }
    raise_flag(1);
    await_flag(0, 2);
    synced_mem *const other_device = make_at_gpu(BYTES, 9); /* the process uses a device */
    OK(synced_mem_begin_turn(mem, CPU, WRITE, LONG_MS));
    HEAD_IS(mem, AT_CPU);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), BYTES, 1));
    use_host_side(mem);
    host_fill(synced_mem_mutable_cpu_data(mem), BYTES, 3);
    OK(synced_mem_end_turn(mem));
    raise_flag(1);
    RELEASE_EACH(mem, other_device);
}

START_TEST(a_process_sees_other_devices)
{
    run_two(make_on_both, receive_without_device);
}
END_TEST

/* A stream of another device than the memory's. */
START_TEST(a_stream_of_another_device)
{
    open_two();
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    gpu_make_current(1);
    stream = gpu_stream_create(1, true);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_overwrite_gpu_data_on(other, stream));
    close_stream(stream);
    gpu_make_current(0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(other));
    release_two();
}
END_TEST

/* The maker names a device that does not exist, or there is none. */
START_TEST(a_device_that_does_not_exist)
{
    int ends[2];
    one = make_shareable_of(BYTES, 77, SYNCED_MEM_SHAREABLE_SAME_USER);
    ck_assert(open_pair(SOCK_STREAM, ends));
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_share(one, ends[0], 0));
    OK(synced_mem_release(one));
    close_pair(ends);
}
END_TEST

START_TEST(a_machine_without_a_device)
{
    emu_fail("cudaGetDeviceCount", 1, cudaErrorNoDevice, false);
    one = make_shareable(BYTES);
    other = share_with_myself(one);
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    check_on_host();
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_missing_devices");
    TCase *const cases = add_case(suite, "share_missing_devices");
    TCase *const lost = add_case_without_end(suite, "lost");
    TCase *const processes = add_case_in_children(suite, "processes");
    add_tests(cases, a_stream_of_another_device, a_device_that_does_not_exist, a_machine_without_a_device);
    tcase_add_loop_test(lost, a_device_is_lost, 0, 2);
    tcase_add_loop_test(lost, a_device_is_lost_in_a_turn_that_is_abandoned, 0, 2);
    tcase_add_loop_test(lost, a_batch_whose_copy_is_lost, 0, 2 * FINDERS - 1);
    tcase_add_test(processes, a_process_sees_other_devices);
    return suite;
}
