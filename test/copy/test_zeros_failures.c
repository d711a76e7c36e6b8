/* Tests zeros for the parts of an object where a step of them fails, and the memory that their list takes. */
#include "break_device.h"
#include "failing_malloc.h"
#include "fixture.h"
#include "kernels.h"

#include "copy/kernel_way.h"
#include "device/device.h"

/* The linker puts the wrapper in place of the library's function (--wrap). */
static unsigned refused_buffers; /* the next ones */

struct sm_bounce *__real_sm_bounce_take(int device, const void *source, size_t size);
struct sm_bounce *__wrap_sm_bounce_take(int device, const void *source, size_t size);
struct sm_bounce *__wrap_sm_bounce_take(int device, const void *source, size_t size)
{
    if (refused_buffers == 0)
        return __real_sm_bounce_take(device, source, size);
    refused_buffers--;
    return NULL;
}

static synced_mem_stream stream;

static void begin(void)
{
    OK(sm_device_resolve(0, &(int){0}));
    use_kernels(1);
    stream = open_stream(NON_BLOCKING);
}

static void end(void)
{
    close_stream(stream);
}

enum { PARTS = 20, PART = 100 };

/* Returns an object, every second part of which has no contents. */
static synced_mem *make_parts(synced_mem **views)
{
    sm_kernel_way_set_least(1000);
    synced_mem *const root = make_on(PARTS * PART, 0);
    for (size_t i = 0; i < PARTS; i++)
        OK(synced_mem_view(&views[i], root, PART * i, PART, NULL));
    for (size_t i = 0; i < PARTS; i += 2)
        given(synced_mem_overwrite_gpu_data_on(views[i], stream));
    use_kernels(1);
    return root;
}

static void clear_all_parts(synced_mem *root, synced_mem *const *views)
{
    given(synced_mem_overwrite_gpu_data_on(root, stream));
    for (size_t i = 0; i < PARTS; i++)
        OK(synced_mem_clear(views[i]));
}

/* The calls that fail one after the other; the access then fails, and succeeds when it is made again. */
START_TEST(zeros_are_refused)
{
    static const struct {
        const char *calls[2];
        synced_mem_status status;
    } rows[] = {{{"cudaLaunchKernelExC", NULL}, SYNCED_MEM_OK},
                {{"cudaLaunchKernelExC", "cudaMemsetAsync"}, SYNCED_MEM_ERR_CUDA},
                {{"cudaEventRecord", "cudaStreamSynchronize"}, SYNCED_MEM_ERR_CUDA}};
    synced_mem *views[PARTS];
    unsigned char found[PART];
    begin();
    synced_mem *const root = make_parts(views);
    for (int i = 0; i < 2 && rows[_i].calls[i]; i++)
        emu_fail(rows[_i].calls[i], 1, cudaErrorUnknown, false);
    const synced_mem_status status = status_of(synced_mem_gpu_data_on(root, stream));
    ck_assert_int_eq(status, rows[_i].status);
    emu_fail_clear();
    if (_i < 2) {
        given(synced_mem_gpu_data_on(root, stream));
        gpu_sync_device(0);
        for (size_t i = 1; i < PARTS; i += 2) {
            gpu_read(found, given(synced_mem_gpu_data(views[i])), PART);
            for (size_t j = 0; j < PART; j++)
                ck_assert_uint_eq(found[j], 0);
        }
    } else {
        FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data_on(root, stream)); /* nobody knows when the fills end */
        gpu_stream_sync(stream);
    }
    release_all(views, PARTS);
    OK(synced_mem_release(root));
    end();
    if (_i == 2)
        emu_reset(0); /* memory is left that nobody may free */
}
END_TEST

/* Each allocation for the zeros of several parts fails once. If all parts have memory, the list that is made with that
 * of the parts can be made later. */
START_TEST(no_memory_for_zeros)
{
    synced_mem *views[PARTS];
    unsigned made_later = 0;
    begin();
    struct failing failing = each_calloc();
    while (next_failure(&failing)) {
        synced_mem *const root = make_parts(views);
        if (_i)
            clear_all_parts(root, views);
        begin_failing(&failing);
        const synced_mem_status status = status_of(synced_mem_gpu_data_on(root, stream));
        const bool has_failed = end_failing(&failing);
        made_later += has_failed && status == SYNCED_MEM_OK;
        if (!has_failed || status != SYNCED_MEM_OK)
            ck_assert_int_eq(status, has_failed ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_OK);
        ck_assert(device_is(given(synced_mem_gpu_data_on(root, stream)), _i ? (size_t)PARTS * PART : 0, 0));
        release_all(views, PARTS);
        OK(synced_mem_release(root));
    }
    ck_assert_uint_gt(failing.nth, 2);
    ck_assert_uint_eq(made_later, (unsigned)_i);
    end();
}
END_TEST

/* The list of zeros finds no page-locked memory, and the kernel's copy of it does. Each has an event of its own; where
 * that of the copy and the wait for it fail, the access succeeds, but the code is never unloaded. */
START_TEST(a_list_of_zeros_is_copied)
{
    synced_mem *views[PARTS];
    begin();
    synced_mem *const root = make_parts(views);
    clear_all_parts(root, views);
    refused_buffers = 1;
    if (_i) {
        emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
        emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    }
    const uint64_t before = stats_now().kernel_copies;
    ck_assert(device_is(given(synced_mem_gpu_data_on(root, stream)), (size_t)PARTS * PART, 0));
    ck_assert_uint_eq(refused_buffers, 0);
    ck_assert_uint_eq(stats_now().kernel_copies - before, PARTS);
    ck_assert_uint_eq(emu_failures(), 2 * _i);
    emu_fail_clear();
    release_all(views, PARTS);
    OK(synced_mem_release(root));
    end();
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(emu_calls("cudaLibraryUnload"), !_i);
    if (_i)
        emu_reset(0); /* memory is left that nobody may free */
}
END_TEST

/* Without a wait too, nobody can tell when the kernel has read the list. So its code stays for good. */
START_TEST(no_event_and_no_wait)
{
    synced_mem *views[PARTS];
    begin();
    synced_mem *const root = make_parts(views);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data_on(root, stream));
    ck_assert_uint_eq(emu_failures(), 2);
    ck_assert_uint_eq(stats_now().quarantined, 1);
    gpu_stream_sync(stream);
    release_all(views, PARTS);
    OK(synced_mem_release(root));
    end();
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(emu_calls("cudaLibraryUnload"), 0);
    emu_reset(0); /* memory is left that nobody may free */
}
END_TEST

/* A part has no contents if a fill of the call is refused. So none can be lost with the device. */
START_TEST(refused_zeros_are_not_lost)
{
    synced_mem *views[PARTS];
    begin();
    synced_mem *const root = make_parts(views);
    clear_all_parts(root, views);
    gpu_hold(stream);
    emu_fail("cudaLaunchKernelExC", 1, cudaErrorUnknown, false);
    emu_fail("cudaMemsetAsync", 3, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data_on(root, stream));
    ck_assert_uint_eq(emu_failures(), 2);
    emu_fail_clear();
    emu_break_device(0, cudaErrorLaunchFailure);
    gpu_unhold();
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_wait(views[0])); /* for the work that is in flight */
    for (size_t i = 1; i < PARTS; i++) {
        ck_assert_int_eq(synced_mem_head(views[i]), SYNCED_MEM_UNINITIALIZED);
        OK(synced_mem_wait(views[i]));
    }
    release_all(views, PARTS);
    OK(synced_mem_release(root));
    end_without_device();
}
END_TEST

static size_t count_requested(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    return stats.requested_bytes;
}

/* Few fills in flight hold little page-locked memory, however many parts the access looks at. */
START_TEST(few_zeros_of_many_parts)
{
    enum { MANY = 4000, EACH = 16 };
    static synced_mem *views[MANY];
    synced_mem *all_but_one;
    begin();
    synced_mem *const root = make_on(MANY * EACH, 0);
    for (size_t i = 0; i < MANY; i++)
        OK(synced_mem_view(&views[i], root, EACH * i, EACH, NULL));
    OK(synced_mem_view(&all_but_one, root, 0, (MANY - 1) * EACH, NULL));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(all_but_one, stream)), (MANY - 1) * EACH, 1, stream);
    given(synced_mem_gpu_data_on(all_but_one, stream));
    given(synced_mem_gpu_data_on(all_but_one, stream));
    gpu_stream_sync(stream);
    const size_t before = count_requested();
    gpu_hold(stream);
    OK(synced_mem_clear(views[1]));
    OK(synced_mem_clear(views[2]));
    const unsigned char *const data = given(synced_mem_gpu_data_on(all_but_one, stream));
    ck_assert_uint_le(count_requested(), before + 4096);
    gpu_unhold();
    gpu_stream_sync(stream);
    ck_assert(device_is(data, EACH, 1));
    ck_assert(device_is(data + EACH, 2 * EACH, 0));
    release_all(views, MANY);
    RELEASE_EACH(all_but_one, root);
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("zeros_failures");
    TCase *const zeros = add_case(all, "failures");
    TCase *const left = add_case_without_end(all, "left");
    tcase_add_loop_test(zeros, zeros_are_refused, 0, 2);
    tcase_add_loop_test(zeros, no_memory_for_zeros, 0, 2);
    tcase_add_test(zeros, few_zeros_of_many_parts);
    tcase_add_loop_test(left, zeros_are_refused, 2, 3);
    tcase_add_loop_test(left, a_list_of_zeros_is_copied, 0, 2);
    add_tests(left, no_event_and_no_wait, refused_zeros_are_not_lost);
    return all;
}
