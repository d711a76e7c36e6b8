/* Checks failures of calls on shareable objects, on the emulated runtime. A call that fails leaves the turns as they
 * were. */
#include "sharing_kit.h"

#include "processes_kit.h"

#include "device/device.h"

#include "cudart_emu.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>

static synced_mem *one;
static synced_mem *other;

/* The next callocs that are to be counted down to a failure; 0: none. */
static int fail_calloc_at;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return fail_calloc_at > 0 && --fail_calloc_at == 0 ? NULL : __real_calloc(count, size);
}

void *__real_sm_slab_take(void *slab);
void *__wrap_sm_slab_take(void *slab);
void *__wrap_sm_slab_take(void *slab)
{
    return fail_calloc_at > 0 && --fail_calloc_at == 0 ? NULL : __real_sm_slab_take(slab);
}

static bool fail_moves; /* of descriptors */

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *const argument = va_arg(arguments, void *);
    va_end(arguments);
    errno = EMFILE;
    return fail_moves && command == F_DUPFD_CLOEXEC ? -1 : __real_fcntl64(fd, command, argument);
}

int __wrap_fcntl(int fd, int command, ...) __attribute__((alias("__wrap_fcntl64")));

static void open_two(void)
{
    one = make_shareable(BYTES);
    other = share_with_myself(one);
}

static void release_two(void)
{
    OK(synced_mem_release(one));
    OK(synced_mem_release(other));
}

static bool is_gpu_error(synced_mem_status status)
{
    return status == SYNCED_MEM_ERR_CUDA || status == SYNCED_MEM_ERR_PEER ||
           status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY;
}

/* ---- Each call of the runtime ---- */

/* Makes the call again and again, each time with another call of the runtime that fails, until none does. */
static void sweep(synced_mem_status (*call)(void), void (*prepare)(void), void (*check)(void))
{
    unsigned nth = 1;
    for (unsigned failures = 1; failures > 0; nth++) {
        prepare();
        const unsigned before = emu_failures();
        emu_fail("*", nth, cudaErrorUnknown, false);
        const synced_mem_status status = call();
        failures = emu_failures() - before;
        emu_fail_clear();
        ck_assert_msg(status == SYNCED_MEM_OK || (failures > 0 && is_gpu_error(status)), "%s",
                      synced_mem_status_name(status));
        if (status != SYNCED_MEM_OK)
            OK(call());
        check();
    }
    ck_assert_uint_gt(nth, 4);
}

static void prepare_filled_host(void)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_hand_over(one));
}

static synced_mem_status acquire_on_device(void)
{
    return synced_mem_acquire(other, GPU, READ, 0);
}

static void check_on_device(void)
{
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 1));
    release_two();
}

static void prepare_filled_device(void)
{
    open_two();
    gpu_fill(synced_mem_overwrite_gpu_data(one), BYTES, 1, NULL);
    OK(synced_mem_hand_over(one));
}

static synced_mem_status acquire_on_host(void)
{
    return synced_mem_acquire(other, CPU, READ, 0);
}

static void check_on_host(void)
{
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    release_two();
}

static synced_mem_status acquire_to_write(void)
{
    return synced_mem_acquire(other, GPU, WRITE, 0);
}

START_TEST(an_acquire_fails)
{
    sweep(acquire_on_device, prepare_filled_host, check_on_device);
    sweep(acquire_on_host, prepare_filled_device, check_on_host);
    sweep(acquire_to_write, prepare_filled_device, check_on_host);
}
END_TEST

static synced_mem_stream stream;

static void prepare_work(void)
{
    open_two();
    stream = open_stream(NON_BLOCKING);
    (void)synced_mem_gpu_data(one);
    gpu_fill(synced_mem_overwrite_gpu_data_on(one, stream), BYTES, 1, stream);
}

static synced_mem_status hand_work_over(void)
{
    return synced_mem_hand_over(one);
}

static void check_work(void)
{
    OK(synced_mem_acquire(other, CPU, READ, 0));
    close_stream(stream);
    check_on_host();
}

START_TEST(a_hand_over_fails)
{
    sweep(hand_work_over, prepare_work, check_work);
}
END_TEST

static int ends[2];

static void prepare_share(void)
{
    one = make_shareable(BYTES);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static synced_mem_status share_it(void)
{
    return synced_mem_share(one, ends[0], 0);
}

static void check_share(void)
{
    OK(synced_mem_receive(&other, ends[1], 0));
    (void)close(ends[0]);
    (void)close(ends[1]);
    OK(synced_mem_hand_over(one));
    OK(synced_mem_acquire(other, GPU, READ, 0));
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 0));
    release_two();
}

START_TEST(a_share_fails)
{
    sweep(share_it, prepare_share, check_share);
}
END_TEST

/* ---- Memory of the system ---- */

static void check_no_memory(synced_mem_status status, int *failures)
{
    fail_calloc_at = 0;
    ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    *failures += status != SYNCED_MEM_OK;
}

START_TEST(no_memory_for_records)
{
    synced_mem_options options;
    int failures = 0;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    for (int at = 1; at < 8; at++) {
        const int before = count_open_descriptors();
        fail_calloc_at = at;
        const synced_mem_status made = synced_mem_create(&one, BYTES, &options);
        check_no_memory(made, &failures);
        ck_assert(made == SYNCED_MEM_OK || !one);
        if (made != SYNCED_MEM_OK) {
            ck_assert_int_eq(count_shared_mappings(), 0);
            ck_assert_int_eq(count_open_descriptors(), before);
            continue;
        }
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        OK(synced_mem_share(one, ends[0], 0));
        const int mapped = count_shared_mappings();
        fail_calloc_at = at - 3;
        const synced_mem_status received = synced_mem_receive(&other, ends[1], 0);
        check_no_memory(received, &failures);
        if (received == SYNCED_MEM_OK)
            OK(synced_mem_release(other));
        ck_assert_int_eq(count_shared_mappings(), mapped);
        OK(synced_mem_release(one));
        (void)close(ends[0]);
        (void)close(ends[1]);
        ck_assert_int_eq(count_open_descriptors(), before);
    }
    ck_assert_int_ge(failures, 6);
}
END_TEST

/* Of an acquire in an object with views, and of the device copy. */
START_TEST(no_memory_in_an_acquire)
{
    int failures = 0;
    for (int at = 1; at < 12; at++) {
        synced_mem *view;
        synced_mem *second;
        prepare_filled_device();
        OK(synced_mem_view(&view, other, 10, 20, NULL));
        OK(synced_mem_view(&second, other, 20, 4000, NULL));
        fail_calloc_at = at;
        const synced_mem_status status = synced_mem_acquire(other, CPU, READ, 0);
        check_no_memory(status, &failures);
        if (status != SYNCED_MEM_OK)
            OK(synced_mem_acquire(other, CPU, READ, 0));
        ck_assert_ptr_nonnull(synced_mem_cpu_data(view));
        OK(synced_mem_release(view));
        OK(synced_mem_release(second));
        check_on_host();
    }
    ck_assert_int_ge(failures, 3);
}
END_TEST

/* The device's memory is refused where it is needed, and missed where it is not. */
START_TEST(no_device_memory)
{
    one = make_shareable(BYTES);
    emu_set_device_memory(0, 1 << 20);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_share(one, ends[0], 0));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(one));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    emu_set_device_memory(0, 1u << 30);
    OK(synced_mem_share(one, ends[0], 0));
    OK(synced_mem_receive(&other, ends[1], 0));
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)synced_mem_gpu_data(one);
    OK(synced_mem_hand_over(one));
    emu_fail("cuMemImportFromShareableHandle", 1, cudaErrorUnknown, false);
    OK(synced_mem_acquire(other, CPU, READ, 0));
    HEAD_IS(other, AT_CPU); /* it is SYNCED in the other one */
    check_on_host();
}
END_TEST

/* The program has closed its standard descriptors, and the file of the device's memory gets one of them. */
START_TEST(no_descriptor_is_left)
{
    int fds[3];
    prepare_share();
    (void)sm_device_count();
    for (int fd = 0; fd < 3; fd++)
        fds[fd] = __real_fcntl64(fd, F_DUPFD_CLOEXEC, (void *)10);
    for (int fd = 0; fd < 2; fd++)
        (void)close(fd);
    fail_moves = true;
    const synced_mem_status refused = share_it();
    fail_moves = false;
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(fds[fd], fd);
        (void)close(fds[fd]);
    }
    ck_assert_int_eq(refused, SYNCED_MEM_ERR_FILE);
    OK(share_it());
    check_share();
}
END_TEST

/* The host's memory stays pageable where it can't be page-locked. */
START_TEST(no_page_locked_memory)
{
    emu_set_pinned_memory(1 << 10);
    prepare_filled_device();
    OK(synced_mem_acquire(other, CPU, READ, 0));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(other), 0);
    check_on_host();
}
END_TEST

/* ---- Streams ---- */

START_TEST(a_stream_captures)
{
    cudaGraph_t graph;
    open_two();
    gpu_fill(synced_mem_overwrite_gpu_data(one), BYTES, 1, NULL);
    stream = open_stream(BLOCKING);
    ck_assert_int_eq(cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_hand_over(one));
    ck_assert_int_eq(cudaStreamEndCapture((cudaStream_t)stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    OK(synced_mem_hand_over(one));
    close_stream(stream);
    OK(synced_mem_acquire(other, CPU, READ, 0));
    check_on_host();
}
END_TEST

/* No event can be recorded behind a transfer. */
START_TEST(work_out_of_sight)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    for (unsigned i = 1; i < 30; i++) {
        emu_fail("cudaEventRecord", i, cudaErrorUnknown, false);
        emu_fail("cudaStreamSynchronize", i, cudaErrorUnknown, false);
    }
    (void)synced_mem_async_gpu_push(one, NULL);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_hand_over(one));
    emu_fail_clear();
    synced_mem_status status = synced_mem_hand_over(one);
    if (status != SYNCED_MEM_OK) { /* the work is on a stream of the program's */
        ck_assert_int_eq(status, SYNCED_MEM_ERR_CUDA);
        SAYS("unknown");
    }
    leaves_memory = true;
}
END_TEST

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
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_hand_over(one));
        FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_acquire(other, CPU, READ, 0));
        OK(synced_mem_release(one)); /* a death in the turn */
        FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_acquire(other, CPU, READ, 0));
        OK(synced_mem_acquire(other, CPU, READ, 0));
        ck_assert(pattern_is(synced_mem_cpu_data(other), BYTES, 0));
        FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_acquire(third, CPU, READ, 0));
    } else {
        host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
        const void *const data = synced_mem_gpu_data_on(one, NULL);
        ck_assert_ptr_nonnull(data);
        HEAD_IS(one, SYNCED);
        emu_break_device(0, cudaErrorLaunchFailure);
        (void)gpu_try_fill((void *)(uintptr_t)data, BYTES, 2, NULL);
        OK(synced_mem_hand_over(one));
        OK(synced_mem_acquire(other, CPU, READ, 0));
        ck_assert(pattern_is(synced_mem_cpu_data(other), BYTES, 1));
        OK(synced_mem_release(one));
    }
    OK(synced_mem_release(other));
    OK(synced_mem_release(third));
}
END_TEST

/* ---- Devices that a process does not see ---- */

static void make_on_both(int socket)
{
    synced_mem *const mem = make_and_share(socket);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), BYTES, 1, NULL);
    OK(synced_mem_hand_over(mem));
    raise_flag(0);
    await_flag(1, 1);
    OK(synced_mem_acquire(mem, CPU, READ, LONG_MS)); /* now both sides are valid */
    OK(synced_mem_hand_over(mem));
    raise_flag(0);
    await_flag(1, 2);
    OK(synced_mem_acquire(mem, GPU, READ, LONG_MS));
    ck_assert(device_is(synced_mem_gpu_data(mem), BYTES, 3));
    OK(synced_mem_release(mem));
}

static void receive_without_device(int socket)
{
    for (int i = 0; i < synced_mem_device_count(); i++)
        emu_set_gpu(i, 10 + i);
    synced_mem *const mem = receive(socket);
    await_flag(0, 1);
    for (int turn = 0; turn < 2; turn++) {
        FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_acquire(mem, CPU, turn ? WRITE : READ, LONG_MS));
        FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_acquire(mem, GPU, turn ? WRITE : READ, LONG_MS));
    }
    raise_flag(1);
    await_flag(0, 2);
    synced_mem *const other_device = make_at_gpu(BYTES, 9); /* the process uses a device */
    OK(synced_mem_acquire(mem, CPU, WRITE, LONG_MS));
    HEAD_IS(mem, AT_CPU);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), BYTES, 1));
    host_fill(synced_mem_mutable_cpu_data(mem), BYTES, 3);
    OK(synced_mem_hand_over(mem));
    raise_flag(1);
    OK(synced_mem_release(mem));
    OK(synced_mem_release(other_device));
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
    OK(synced_mem_hand_over(one));
    OK(synced_mem_acquire(other, CPU, WRITE, 0));
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
    one = make_shareable_of(BYTES, 77, SYNCED_MEM_SHAREABLE_SAME_USER);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_share(one, ends[0], 0));
    OK(synced_mem_release(one));
    (void)close(ends[0]);
    (void)close(ends[1]);
}
END_TEST

START_TEST(a_machine_without_a_device)
{
    emu_fail("cudaGetDeviceCount", 1, cudaErrorNoDevice, false);
    one = make_shareable(BYTES);
    other = share_with_myself(one);
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_hand_over(one));
    OK(synced_mem_acquire(other, CPU, READ, 0));
    check_on_host();
}
END_TEST

/* ---- Threads ---- */

static void *read_on_host(void *unused)
{
    const void *const data = synced_mem_cpu_data(one);
    SOUND(data != NULL && pattern_is(data, BYTES, 1));
    return unused;
}

static void *hand_one_over(void *unused)
{
    SOUND(synced_mem_hand_over(one) == SYNCED_MEM_OK);
    return unused;
}

/* A call that has passed the gate ends before the turn does. Others are refused meanwhile. */
START_TEST(a_hand_over_waits_for_calls)
{
    pthread_t reader;
    pthread_t ender;
    open_two();
    stream = open_stream(NON_BLOCKING);
    gpu_hold(stream);
    gpu_fill(synced_mem_overwrite_gpu_data_on(one, stream), BYTES, 1, stream);
    ck_assert_int_eq(pthread_create(&reader, NULL, read_on_host, NULL), 0);
    while (!others_sleep())
        continue;
    ck_assert_int_eq(pthread_create(&ender, NULL, hand_one_over, NULL), 0);
    while (!others_sleep())
        continue;
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(one));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_acquire(one, CPU, READ, 0));
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_acquire(other, CPU, READ, 0));
    gpu_unhold();
    ck_assert_int_eq(pthread_join(reader, NULL), 0);
    ck_assert_int_eq(pthread_join(ender, NULL), 0);
    ck_assert_int_eq(unsound, 0);
    OK(synced_mem_acquire(other, CPU, READ, 0));
    close_stream(stream);
    check_on_host();
}
END_TEST

/* ---- Callbacks ---- */

static synced_mem_status in_callback = SYNCED_MEM_STATUS_FORCE_INT; /* it was not called yet */

static void hand_over_in_callback(void *data, void *user, synced_mem_stream unused)
{
    (void)data, (void)user, (void)unused;
    in_callback = synced_mem_hand_over(one);
}

/* The callback runs in a call on the object itself. */
START_TEST(a_callback_hands_over)
{
    static char bytes[BYTES];
    synced_mem *const adopted = make(BYTES);
    const synced_mem_memory memory = {.struct_size = sizeof memory,
                                      .cpu_data = bytes,
                                      .callback = hand_over_in_callback,
                                      .flags = SYNCED_MEM_MEMORY_PAGE_LOCK};
    open_two();
    OK(synced_mem_use_memory(adopted, &memory));
    stream = open_stream(NON_BLOCKING);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(adopted, stream));
    OK(synced_mem_release(adopted));
    ck_assert_int_eq(in_callback, SYNCED_MEM_STATUS_FORCE_INT);
    gpu_unhold();
    gpu_stream_sync(stream);
    const void *const data = synced_mem_overwrite_cpu_data(one);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    ck_assert_int_eq(in_callback, SYNCED_MEM_ERR_INVALID_STATE);
    OK(synced_mem_hand_over(one));
    close_stream(stream);
    release_two();
}
END_TEST

static int hand_over_in_handler(const synced_mem_out_of_memory *request, void *user)
{
    (void)request, (void)user;
    in_callback = synced_mem_hand_over(one);
    return 0;
}

/* The handler runs in a call on the object that is refused memory. */
START_TEST(a_handler_hands_over)
{
    open_two();
    OK(synced_mem_hand_over(one));
    OK(synced_mem_release(one));
    OK(synced_mem_acquire(other, CPU, WRITE, 0));
    one = other;
    synced_mem_set_out_of_memory_handler(hand_over_in_handler, NULL);
    emu_fail("cuMemImportFromShareableHandle", 1, cudaErrorMemoryAllocation, false);
    emu_fail("cuMemImportFromShareableHandle", 2, cudaErrorMemoryAllocation, false);
    emu_fail("cuMemImportFromShareableHandle", 3, cudaErrorMemoryAllocation, false);
    emu_fail("cuMemImportFromShareableHandle", 4, cudaErrorMemoryAllocation, false);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(one));
    ck_assert_int_eq(in_callback, SYNCED_MEM_ERR_INVALID_STATE);
    emu_fail_clear();
    synced_mem_set_out_of_memory_handler(NULL, NULL);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(one));
    OK(synced_mem_release(one));
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_failures");
    TCase *const cases = add_case(suite, "share_failures");
    TCase *const lost = add_case_without_end(suite, "lost");
    TCase *const processes = add_case_in_children(suite, "processes");
    tcase_add_test(cases, an_acquire_fails);
    tcase_add_test(cases, a_hand_over_fails);
    tcase_add_test(cases, a_share_fails);
    tcase_add_test(cases, no_memory_for_records);
    tcase_add_test(cases, no_memory_in_an_acquire);
    tcase_add_test(cases, no_device_memory);
    tcase_add_test(cases, no_descriptor_is_left);
    tcase_add_test(cases, no_page_locked_memory);
    tcase_add_test(cases, a_stream_captures);
    tcase_add_test(cases, a_stream_of_another_device);
    tcase_add_test(cases, a_device_that_does_not_exist);
    tcase_add_test(cases, a_machine_without_a_device);
    tcase_add_test(cases, a_hand_over_waits_for_calls);
    tcase_add_test(cases, a_callback_hands_over);
    tcase_add_test(cases, a_handler_hands_over);
    tcase_add_test(lost, work_out_of_sight);
    tcase_add_loop_test(lost, a_device_is_lost, 0, 2);
    tcase_add_test(processes, a_process_sees_other_devices);
    return suite;
}
