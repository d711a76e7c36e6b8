/* Checks the devices that the library finds and the device that an object takes. Every call keeps the caller's current
 * device. */
#include "cpu_only.h"

#include <stdlib.h>

enum { SIZE = 5000 };

START_TEST(count)
{
    const int current = gpu_current_device();
    ck_assert_int_eq(synced_mem_device_count(), devices());
    ck_assert_int_eq(synced_mem_device_count(), devices());
    ck_assert_int_eq(gpu_current_device(), current);
}
END_TEST

START_TEST(without_gpu)
{
    if (gpu_expected())
        return;
    check_cpu_only(SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_ERR_NO_GPU);
    check_cpu_only(0, SYNCED_MEM_ERR_NO_GPU);
    check_cpu_only(1000, SYNCED_MEM_ERR_NO_GPU);
}
END_TEST

START_TEST(devices_that_do_not_exist)
{
    static const int beyond[] = {0, 1, 60, 1000, 32767};
    for (int i = 0; i < 5; i++) {
        const int device = beyond[i] < 1000 ? devices() + beyond[i] : beyond[i];
        check_cpu_only(device, SYNCED_MEM_ERR_INVALID_DEVICE);
        synced_mem *const mem = make_on(SIZE, device);
        void *const memory = gpu_alloc(0, SIZE);
        const struct facts before = facts_of(mem);
        FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_set_gpu_data(mem, memory));
        check_unchanged(mem, &before);
        OK(synced_mem_release(mem));
        gpu_free(memory);
    }
}
END_TEST

/* An object takes the device that is current when it first needs one, and keeps it. */
START_TEST(current_device_is_taken)
{
    const int last = devices() - 1;
    gpu_make_current(last);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(synced_mem_device(mem), SYNCED_MEM_DEVICE_CURRENT);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_device(mem), last);
    gpu_make_current(0);
    void *const data = synced_mem_mutable_gpu_data(mem);
    ck_assert_int_eq(synced_mem_device(mem), last);
    gpu_make_current(last);
    gpu_fill(data, SIZE, 2, NULL);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 2));
    gpu_make_current(0);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- The caller's current device ---- */

static int caller_on;

#define KEPT(call)                                                                                                     \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        ck_assert_msg(gpu_current_device() == caller_on, "%s left device %d current, not %d", #call,                   \
                      gpu_current_device(), caller_on);                                                                \
    } while (0)

static void note_current(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)stream;
    *(int *)user = gpu_current_device();
}

/* Makes every call on objects of each device, with each device current. */
START_TEST(current_device_is_kept)
{
    const int objects_on = _i / 4;
    caller_on = _i % 4;
    if (objects_on >= devices() || caller_on >= devices())
        return;
    void *const borrowed = gpu_alloc(objects_on, SIZE);
    void *const adopted = gpu_alloc(objects_on, SIZE);
    void *const host = malloc(SIZE);
    synced_mem_stream stream = gpu_stream_create(objects_on, false);
    int in_callback = -1;
    gpu_make_current(caller_on);
    synced_mem *const mem = make_on(SIZE, objects_on);
    KEPT(synced_mem_device_count());
    KEPT(synced_mem_overwrite_gpu_data(mem));
    KEPT(synced_mem_cpu_data(mem));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    KEPT(synced_mem_mutable_gpu_data(mem));
    KEPT(synced_mem_mutable_cpu_data(mem));
    KEPT(synced_mem_gpu_data(mem));
    KEPT(synced_mem_overwrite_cpu_data(mem));
    KEPT(synced_mem_async_gpu_push(mem, stream));
    KEPT(synced_mem_async_gpu_push(mem, stream));
    KEPT(synced_mem_release_gpu_data(mem));
    KEPT(synced_mem_release_cpu_data(mem));
    KEPT(synced_mem_set_gpu_data(mem, borrowed));
    KEPT(synced_mem_cpu_data(mem));
    KEPT(USE(mem, .cpu_data = host, .gpu_data = borrowed));
    KEPT(synced_mem_mutable_gpu_data(mem));
    KEPT(USE(mem, .gpu_data = adopted, .callback = note_current, .user = &in_callback));
    KEPT(synced_mem_mutable_gpu_data(mem));
    KEPT(synced_mem_cpu_data(mem));
    KEPT(synced_mem_release_data(mem));
    KEPT(synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_device(mem), objects_on);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_DEVICE);
    KEPT(synced_mem_release(mem));
    KEPT(synced_mem_shutdown());
    ck_assert_int_eq(in_callback, caller_on);
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
    gpu_free(borrowed);
    gpu_free(adopted);
    free(host);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("machine");
    TCase *const tests = add_case(made, "machine");
    add_tests(tests, count, without_gpu);
    add_gpu_tests(tests, devices_that_do_not_exist, current_device_is_taken);
    tcase_add_loop_test(tests, current_device_is_kept, 0, 16);
    return made;
}
