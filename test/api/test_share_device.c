/* Checks the device memory of a shareable object: when it can be added, and on which device a receiver uses it. */
#include "sharing_kit.h"

#include <pthread.h>

enum { A_WHILE_US = 20000, SHORT_MS = 50 };

static synced_mem *one;
static synced_mem *other;
static int ends[2];

static void connect_ends(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_ends(void)
{
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void release_two(void)
{
    RELEASE_EACH(one, other);
}

/* ---- Adding it ---- */

/* Returns the number of bytes that were sent. */
static size_t fill_socket(void)
{
    static const char bytes[4096];
    size_t sent = 0;
    ssize_t more;
    for (size_t size = sizeof bytes; size > 0; size /= 2)
        while ((more = send(ends[0], bytes, size, MSG_DONTWAIT)) > 0)
            sent += (size_t)more;
    return sent;
}

static void empty_socket(size_t size)
{
    static char bytes[4096];
    while (size > 0) {
        const ssize_t got = recv(ends[1], bytes, size < sizeof bytes ? size : sizeof bytes, 0);
        ck_assert_int_gt(got, 0);
        size -= (size_t)got;
    }
}

static void *share_one(void *unused)
{
    OK(synced_mem_share(one, ends[0], LONG_MS));
    return unused;
}

/* The message can't go yet, and names no device memory. So none can be added. */
START_TEST(a_device_is_used_during_a_share)
{
    pthread_t thread;
    one = make_shareable_of(BYTES, SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_SAME_USER);
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    connect_ends();
    const size_t size = fill_socket();
    ck_assert_int_eq(pthread_create(&thread, NULL, share_one, NULL), 0);
    (void)usleep(A_WHILE_US);
    while (!others_sleep())
        (void)usleep(A_WHILE_US);
    ck_assert_ptr_null(synced_mem_mutable_gpu_data(one));
    ck_assert_int_eq(synced_mem_last_error(), gpu_expected() ? SYNCED_MEM_ERR_INVALID_STATE : SYNCED_MEM_ERR_NO_GPU);
    empty_socket(size);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    OK(synced_mem_receive(&other, ends[1], LONG_MS));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    close_ends();
    release_two();
}
END_TEST

/* Nobody has got the object, so device memory can still be added. */
START_TEST(a_device_is_used_after_a_failed_share)
{
    one = make_shareable_of(BYTES, SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_SAME_USER);
    connect_ends();
    (void)fill_socket();
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_share(one, ends[0], SHORT_MS));
    close_ends();
    gpu_fill(synced_mem_overwrite_gpu_data(one), BYTES, 2, NULL);
    other = share_with_myself(one);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, READ, 0));
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 2));
    release_two();
}
END_TEST

/* ---- Another device than the current one ---- */

static void access_device(void)
{
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 3));
}

static void push(void)
{
    OK(synced_mem_async_gpu_push(other, NULL));
}

static void copy_to_device(void)
{
    synced_mem *const ordinary = make_on(BYTES, 1);
    OK(synced_mem_async_gpu_copy(other, ordinary, NULL));
    OK(synced_mem_release(ordinary));
}

static void (*const uses[])(void) = {access_device, push, copy_to_device};
enum { USES = sizeof uses / sizeof *uses };

/* The receiver has the turn to write on the host, and uses the device for the first time. */
START_TEST(the_device_is_not_the_current_one)
{
    if (synced_mem_device_count() < 2)
        return;
    one = make_shareable_of(BYTES, 1, SYNCED_MEM_SHAREABLE_SAME_USER);
    other = share_with_myself(one);
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 3);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    uses[_i]();
    ck_assert_int_eq(synced_mem_device(other), 1);
    release_two();
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("device memory of a shareable object");
    TCase *const cases = add_case(suite, "device");
    tcase_add_test(cases, a_device_is_used_during_a_share);
    add_gpu_tests(cases, a_device_is_used_after_a_failed_share);
    tcase_add_loop_test(cases, the_device_is_not_the_current_one, 0, USES);
    return suite;
}
