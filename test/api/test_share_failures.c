/* Checks failures of calls on shareable objects, on the emulated runtime. A call that fails leaves the turns as they
 * were. */
#include "failing_calloc.h"
#include "failing_calls.h"
#include "share_two_kit.h"

#include "base/status.h"
#include "device/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

void *__real_sm_slab_take(void *slab);
void *__wrap_sm_slab_take(void *slab);
void *__wrap_sm_slab_take(void *slab)
{
    return is_calloc_to_fail() ? NULL : __real_sm_slab_take(slab);
}

static bool fail_moves; /* of descriptors */

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *const argument = va_arg(arguments, void *);
    va_end(arguments);
    errno = EMFILE;
    return fail_moves && command == F_DUPFD_CLOEXEC ? -1 : __real_fcntl(fd, command, argument);
}

int __wrap_fcntl64(int fd, int command, ...) __attribute__((alias("__wrap_fcntl")));

static bool is_gpu_error(synced_mem_status status)
{
    return status == SYNCED_MEM_ERR_CUDA || status == SYNCED_MEM_ERR_PEER ||
           status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY;
}

/* ---- Each call of the runtime ---- */

/* Makes the call again and again, each time with another call of the runtime that fails, until none does. */
static void sweep(synced_mem_status (*call)(void), void (*prepare)(void), void (*check)(void))
{
    struct failing it = each_call("*", cudaErrorUnknown);
    while (next_failure(&it)) {
        prepare();
        begin_failing(&it);
        const synced_mem_status status = call();
        ck_assert_msg((end_failing(&it) && is_gpu_error(status)) || status == SYNCED_MEM_OK, "%s",
                      synced_mem_status_name(status));
        if (status != SYNCED_MEM_OK)
            OK(call());
        check();
    }
    ck_assert_uint_gt(it.nth, 3);
}

static void prepare_filled_host(void)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
}

static synced_mem_status acquire_on_device(void)
{
    return synced_mem_begin_turn(other, GPU, READ, 0);
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
    OK(synced_mem_end_turn(one));
}

static synced_mem_status acquire_on_host(void)
{
    return synced_mem_begin_turn(other, CPU, READ, 0);
}

static synced_mem_status acquire_to_write(void)
{
    return synced_mem_begin_turn(other, GPU, WRITE, 0);
}

static const struct {
    synced_mem_status (*call)(void);
    void (*prepare)(void);
    void (*check)(void);
} acquires[] = {{acquire_on_device, prepare_filled_host, check_on_device},
                {acquire_on_host, prepare_filled_device, check_on_host},
                {acquire_to_write, prepare_filled_device, check_on_host}};
enum { ACQUIRES = sizeof acquires / sizeof acquires[0] };

START_TEST(an_acquire_fails)
{
    sweep(acquires[_i].call, acquires[_i].prepare, acquires[_i].check);
}
END_TEST

static void prepare_work(void)
{
    open_two();
    stream = open_stream(NON_BLOCKING);
    (void)synced_mem_gpu_data(one);
    gpu_fill(synced_mem_overwrite_gpu_data_on(one, stream), BYTES, 1, stream);
}

static synced_mem_status hand_work_over(void)
{
    return synced_mem_end_turn(one);
}

static void check_work(void)
{
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    close_stream(stream);
    check_on_host();
}

START_TEST(a_hand_over_fails)
{
    sweep(hand_work_over, prepare_work, check_work);
}
END_TEST

static synced_mem_status abandon_work(void)
{
    return synced_mem_abandon_turn(one);
}

static void check_lost(void)
{
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(other, CPU, WRITE, 0));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    host_fill(synced_mem_overwrite_cpu_data(other), BYTES, 1);
    close_stream(stream);
    check_on_host();
}

/* The turn goes on after a failure. */
START_TEST(an_abandonment_fails)
{
    sweep(abandon_work, prepare_work, check_lost);
}
END_TEST

/* ---- Slots and versions ---- */

static uint64_t slot_version(void)
{
    uint64_t version = 77;
    OK(synced_mem_slot_version(one, 0, &version));
    return version;
}

static uint64_t version_now(void)
{
    uint64_t version = 77;
    OK(synced_mem_contents_version(one, &version));
    return version;
}

static void prepare_slot(void)
{
    open_two();
    OK(synced_mem_take_slot(one, 0, NULL));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
}

/* Begins the turn if it has not begun yet, and ends it. */
static bool is_in_turn;
static synced_mem_status read_for_slot(void)
{
    if (!is_in_turn)
        SM_TRY(synced_mem_begin_slot_turn(other, GPU, 0, 0));
    is_in_turn = true;
    if (!synced_mem_gpu_data(other)) /* the end of the turn has to wait for its use */
        return synced_mem_last_error();
    ck_assert_uint_eq(slot_version(), 0);
    const synced_mem_status status = synced_mem_end_turn(other);
    ck_assert_uint_eq(slot_version(), status == SYNCED_MEM_OK);
    is_in_turn = status != SYNCED_MEM_OK;
    return status;
}

static void check_slot(void)
{
    ck_assert_uint_eq(slot_version(), 1);
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_slot_turn(other, GPU, 0, 0));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    check_on_host();
}

static void prepare_consumed(void)
{
    prepare_slot();
    OK(synced_mem_end_slot(one, 0));
}

static synced_mem_status write_next(void)
{
    if (!is_in_turn)
        SM_TRY(synced_mem_begin_consumed_turn(other, GPU, 0));
    if (!is_in_turn)
        host_fill(synced_mem_overwrite_cpu_data(other), BYTES, 1);
    is_in_turn = true;
    if (!synced_mem_mutable_gpu_data(other))
        return synced_mem_last_error();
    ck_assert_uint_eq(version_now(), 1);
    const synced_mem_status status = synced_mem_end_turn(other);
    ck_assert_uint_eq(version_now(), status == SYNCED_MEM_OK ? 2 : 1);
    is_in_turn = status != SYNCED_MEM_OK;
    return status;
}

static void check_consumed(void)
{
    OK(synced_mem_begin_newer_turn(other, CPU, 1, 0));
    check_on_host();
}

/* A call that fails consumes nothing, and makes no version. */
START_TEST(a_turn_by_version_fails)
{
    if (_i == 0)
        sweep(read_for_slot, prepare_slot, check_slot);
    else
        sweep(write_next, prepare_consumed, check_consumed);
}
END_TEST

/* ---- Sharing ---- */

static int ends[2];

static void prepare_share(void)
{
    one = make_shareable(BYTES);
    ck_assert(open_pair(SOCK_STREAM, ends));
}

static synced_mem_status share_it(void)
{
    return synced_mem_share(one, ends[0], 0);
}

static void check_share(void)
{
    OK(synced_mem_receive(&other, ends[1], LONG_MS));
    close_pair(ends);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, READ, 0));
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
    fail_calloc_in = 0;
    ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    *failures += status != SYNCED_MEM_OK;
}

START_TEST(no_memory_for_records)
{
    synced_mem_options options = default_options();
    int failures = 0;
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    for (int at = 1; at < 8; at++) {
        const int before = count_open_descriptors();
        fail_calloc_in = at;
        const synced_mem_status made = synced_mem_create(&one, BYTES, &options);
        check_no_memory(made, &failures);
        ck_assert(made == SYNCED_MEM_OK || !one);
        if (made != SYNCED_MEM_OK) {
            ck_assert_int_eq(count_shared_mappings(), 0);
            ck_assert_int_eq(count_open_descriptors(), before);
            continue;
        }
        ck_assert(open_pair(SOCK_STREAM, ends));
        OK(synced_mem_share(one, ends[0], 0));
        const int mapped = count_shared_mappings();
        fail_calloc_in = at - 3;
        const synced_mem_status received = synced_mem_receive(&other, ends[1], LONG_MS);
        check_no_memory(received, &failures);
        if (received == SYNCED_MEM_OK)
            OK(synced_mem_release(other));
        ck_assert_int_eq(count_shared_mappings(), mapped);
        OK(synced_mem_release(one));
        close_pair(ends);
        ck_assert_int_eq(count_open_descriptors(), before);
    }
    ck_assert_int_ge(failures, 6);
}
END_TEST

/* Of an acquire in an object with views, and of the device copy. */
START_TEST(no_memory_in_an_acquire)
{
    int failures = 0;
    for (struct failing it = each_calloc(); next_failure(&it);) {
        synced_mem *view;
        synced_mem *second;
        prepare_filled_device();
        OK(synced_mem_view(&view, other, 10, 20, NULL));
        OK(synced_mem_view(&second, other, 20, 4000, NULL));
        begin_failing(&it);
        const synced_mem_status status = synced_mem_begin_turn(other, CPU, READ, 0);
        (void)end_failing(&it);
        check_no_memory(status, &failures);
        if (status != SYNCED_MEM_OK)
            OK(synced_mem_begin_turn(other, CPU, READ, 0));
        ck_assert_ptr_nonnull(synced_mem_cpu_data(view));
        RELEASE_EACH(view, second);
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
    ck_assert(open_pair(SOCK_STREAM, ends));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_share(one, ends[0], 0));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(one));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    emu_set_device_memory(0, 1u << 30);
    OK(synced_mem_share(one, ends[0], 0));
    OK(synced_mem_receive(&other, ends[1], LONG_MS));
    close_pair(ends);
    (void)synced_mem_gpu_data(one);
    OK(synced_mem_end_turn(one));
    emu_fail("cuMemImportFromShareableHandle", 1, cudaErrorUnknown, false);
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
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
        fds[fd] = __real_fcntl(fd, F_DUPFD_CLOEXEC, (void *)10);
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
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(other), 0);
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
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_end_turn(one));
    emu_fail_clear();
    synced_mem_status status = synced_mem_end_turn(one);
    if (status != SYNCED_MEM_OK) { /* the work is on a stream of the program's */
        ck_assert_int_eq(status, SYNCED_MEM_ERR_CUDA);
        SAYS("unknown");
    }
    leaves_memory = true;
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_failures");
    TCase *const cases = add_case(suite, "share_failures");
    TCase *const lost = add_case_without_end(suite, "lost");
    add_divided_test(cases, an_acquire_fails, 0, ACQUIRES);
    add_divided_test(cases, a_hand_over_fails, 0, 1);
    add_divided_test(cases, an_abandonment_fails, 0, 1);
    add_divided_test(cases, a_turn_by_version_fails, 0, 2);
    add_divided_test(cases, a_share_fails, 0, 1);
    add_divided_test(cases, no_memory_for_records, 0, 1);
    add_divided_test(cases, no_memory_in_an_acquire, 0, 1);
    add_tests(cases, no_device_memory, no_descriptor_is_left, no_page_locked_memory);
    tcase_add_test(lost, work_out_of_sight);
    return suite;
}
