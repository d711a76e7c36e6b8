/* Checks debug mode with views: stale parts are protected where they fill pages, and all other bytes can be used. */
#include "debug_kit.h"

#include "object/span.h"
#include "stream/fence.h"

#include <unistd.h>

enum { PAGES = 8 };

static synced_mem *root, *views[PAGES];

static void make_pages(int device)
{
    root = make_named_on("weights", (size_t)PAGES * PAGE, device);
    for (size_t i = 0; i < PAGES; i++) {
        OK(synced_mem_view(&views[i], root, i * PAGE, PAGE, NULL));
        host_fill(synced_mem_overwrite_cpu_data(views[i]), PAGE, 1 + (unsigned)i);
    }
}

static void release_pages(void)
{
    release_all(views, PAGES);
    OK(synced_mem_release(root));
}

static int device_of_memory, page;

/* A view without a page in common with a stale one is used by the host. */
static void use_what_is_not_stale(void)
{
    make_pages(device_of_memory);
    unsigned char *const data = synced_mem_mutable_cpu_data(root);
    gpu_fill(synced_mem_overwrite_gpu_data_on(views[3], NULL), PAGE, 20, NULL);
    touch_to_read(data);
    touch_to_write(data + PAGE);
    touch_to_write(data + 2 * PAGE - 1);
    touch_to_write(data + 5 * PAGE);
    ck_assert(host_is(synced_mem_cpu_data(views[3]), PAGE, 20));
    touch_to_read(data + 3 * PAGE);
    release_pages();
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

static void read_stale(void)
{
    make_pages(device_of_memory);
    const unsigned char *const data = synced_mem_cpu_data(root);
    touch_to_read(data + 3 * PAGE);
    gpu_fill(synced_mem_overwrite_gpu_data_on(views[3], NULL), PAGE, 20, NULL);
    touch_to_read(data + 3 * PAGE + 100);
}

/* The pages before a stale part are used once more, and then the stale one. */
static void write_stale_after_a_cut(void)
{
    synced_mem *inner = NULL;
    make_pages(device_of_memory);
    unsigned char *const data = synced_mem_mutable_cpu_data(root);
    OK(synced_mem_view(&inner, root, 2 * PAGE, 4 * PAGE, NULL));
    gpu_fill(synced_mem_overwrite_gpu_data_on(inner, NULL), (size_t)4 * PAGE, 20, NULL);
    OK(synced_mem_release(inner));
    touch_to_write(data + PAGE);
    touch_to_write(data + 6 * PAGE);
    touch_to_write(data + 4 * PAGE);
}

/* A view is made and released within stale bytes, which stay protected. */
static void read_stale_after_a_release(void)
{
    synced_mem *inner = NULL, *beside = NULL;
    root = make_named_on("weights", (size_t)PAGES * PAGE, device_of_memory);
    const unsigned char *const data = synced_mem_overwrite_cpu_data(root);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(root, NULL));
    OK(synced_mem_view(&beside, root, 6 * PAGE, PAGE, NULL));
    OK(synced_mem_view(&inner, root, PAGE, 2 * PAGE, NULL));
    OK(synced_mem_release(inner));
    touch_to_read(data + (size_t)page * PAGE);
}

/* A copy cuts both objects at the borders of the other. */
static void read_stale_after_a_copy(void)
{
    synced_mem *beside = NULL, *beside_other = NULL;
    root = make_named_on("weights", (size_t)PAGES * PAGE, device_of_memory);
    const unsigned char *const data = synced_mem_overwrite_cpu_data(root);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(root, NULL));
    OK(synced_mem_view(&beside, root, 6 * PAGE, PAGE, NULL));
    synced_mem *const other = make_on((size_t)PAGES * PAGE, device_of_memory);
    host_fill(synced_mem_overwrite_cpu_data(other), (size_t)PAGES * PAGE, 1);
    OK(synced_mem_view(&beside_other, other, 3 * PAGE, PAGE, NULL));
    OK(synced_mem_cpu_copy(other, root));
    touch_to_read(data + (size_t)page * PAGE);
}

/* Two views become one piece again, of which only the first was used on the host. */
static void read_stale_beside_unused(void)
{
    synced_mem *used = NULL, *unused = NULL, *beside = NULL;
    root = make_named_on("weights", (size_t)PAGES * PAGE, device_of_memory);
    OK(synced_mem_view(&used, root, 0, 3 * PAGE, NULL));
    OK(synced_mem_view(&unused, root, 3 * PAGE, 3 * PAGE, NULL));
    OK(synced_mem_view(&beside, root, 6 * PAGE, PAGE, NULL));
    const unsigned char *const data = synced_mem_overwrite_cpu_data(used);
    gpu_fill(synced_mem_overwrite_gpu_data_on(used, NULL), (size_t)3 * PAGE, 1, NULL);
    gpu_fill(synced_mem_overwrite_gpu_data_on(unused, NULL), (size_t)3 * PAGE, 1, NULL);
    OK(synced_mem_end_use_on(used, NULL));
    OK(synced_mem_end_use_on(unused, NULL));
    gpu_sync_device(0);
    RELEASE_EACH(used, unused);
    touch_to_read(data + PAGE);
}

/* The first transfer of a shareable object page-locks all of it. */
static void read_stale_after_page_locking(void)
{
    synced_mem_options options = default_options();
    options.name = "weights";
    options.device = device_of_memory;
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    OK(synced_mem_create(&root, (size_t)PAGES * PAGE, &options));
    OK(synced_mem_view(&views[3], root, 3 * PAGE, PAGE, NULL));
    OK(synced_mem_view(&views[5], root, 5 * PAGE, PAGE, NULL));
    const unsigned char *const data = synced_mem_overwrite_cpu_data(root);
    gpu_fill(synced_mem_overwrite_gpu_data_on(views[3], NULL), PAGE, 20, NULL);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(views[5], NULL));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(root), 1);
    touch_to_read(data + 5 * PAGE);
    touch_to_read(data + 3 * PAGE);
}

/* The copy thread may still be at work on one part when another has arrived. */
static void await_pull(synced_mem *view)
{
    struct sm_copy *const copy = sm_copy_of(sm_first_record(view), SM_CPU);
    while (sm_fence_poll(copy->write))
        (void)usleep(100);
}

/* While a pull to the caller's memory is in flight, the host copies of cleared parts are not protected. They are by the
 * access that fills the parts, once the pull is over. */
static void read_stale_after_zeros(void)
{
    static _Alignas(PAGE) unsigned char memory[PAGES * PAGE];
    set_staging(1, 1);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_pages(device_of_memory);
    OK(synced_mem_set_cpu_data(root, memory));
    gpu_fill(synced_mem_overwrite_gpu_data_on(root, stream), sizeof memory, 20, stream);
    gpu_hold(stream);
    OK(synced_mem_async_cpu_pull(root, stream));
    OK(synced_mem_clear(views[1]));
    OK(synced_mem_clear(views[2]));
    touch_to_read(memory + (size_t)page * PAGE);
    gpu_unhold();
    OK(synced_mem_wait(views[5]));
    await_pull(views[1]);
    await_pull(views[2]);
    touch_to_read(memory + (size_t)page * PAGE);
    (void)fputs("pulled\n", stderr);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(root, stream));
    touch_to_read(memory + (size_t)page * PAGE);
}

static void write_synced(void)
{
    make_pages(device_of_memory);
    unsigned char *const data = synced_mem_mutable_cpu_data(views[2]);
    touch_to_write(data);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(views[2], NULL));
    touch_to_read(data);
    touch_to_write(data);
}

/* Views whose borders lie within pages. */
static void use_small_views(void)
{
    synced_mem *small[64];
    root = make_named_on("weights", 64 * 100, device_of_memory);
    for (size_t i = 0; i < 64; i++) {
        OK(synced_mem_view(&small[i], root, i * 100, 100, NULL));
        host_fill(synced_mem_overwrite_cpu_data(small[i]), 100, 1 + (unsigned)i);
    }
    for (unsigned i = 0; i < 64; i += 2)
        gpu_fill(synced_mem_overwrite_gpu_data_on(small[i], NULL), 100, 100 + i, NULL);
    for (unsigned i = 1; i < 64; i += 2) {
        ck_assert(host_is(synced_mem_mutable_cpu_data(small[i]), 100, 1 + i));
        host_fill(synced_mem_mutable_cpu_data(small[i]), 100, 7);
    }
    for (unsigned i = 0; i < 64; i++)
        ck_assert(host_is(synced_mem_cpu_data(small[i]), 100, i % 2 ? 7 : 100 + i));
    ck_assert(device_is(synced_mem_gpu_data(small[63]), 100, 7));
    release_all(small, 64);
    touch_to_write(synced_mem_mutable_cpu_data(root));
    OK(synced_mem_release(root));
}

static size_t border;

/* The zeros come behind a part that the host may only read. The parts stay apart, as a stream reads only one of
 * them. */
static void grow_behind_parts(void)
{
    enum { SHORT = PAGE + 100 };
    synced_mem *parts[2];
    root = make_on((size_t)PAGES * PAGE, device_of_memory);
    host_fill(synced_mem_overwrite_cpu_data(root), (size_t)PAGES * PAGE, 1);
    OK(synced_mem_resize(root, SHORT));
    OK(synced_mem_view(&parts[0], root, 0, border, NULL));
    OK(synced_mem_view(&parts[1], root, border, SHORT - border, NULL));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(parts[0], NULL));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(parts[1]));
    release_all(parts, 2);
    OK(synced_mem_resize(root, (size_t)3 * PAGE));
    const unsigned char *const data = synced_mem_cpu_data(root);
    ck_assert(host_is(data, SHORT, 1));
    ck_assert(host_is(data + SHORT, (size_t)3 * PAGE - SHORT, 0));
    OK(synced_mem_release(root));
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

static void use_on_the_host(void)
{
    make_pages(SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_clear(views[1]));
    touch_to_write(synced_mem_mutable_cpu_data(views[0]));
    touch_to_write(synced_mem_mutable_cpu_data(views[2]));
    ck_assert(host_is(synced_mem_cpu_data(views[1]), PAGE, 0));
    touch_to_write(synced_mem_mutable_cpu_data(root));
    release_pages();
}

static void read_cleared(void)
{
    make_pages(SYNCED_MEM_DEVICE_CURRENT);
    const unsigned char *const data = synced_mem_cpu_data(root);
    OK(synced_mem_clear(views[1]));
    touch_to_read(data + PAGE - 1);
    touch_to_read(data + 2 * PAGE);
    touch_to_read(data + PAGE + 10);
}

START_TEST(on_the_host)
{
    lives(use_on_the_host);
    dies(read_cleared, "is stale since synced_mem_clear;");
}
END_TEST

START_TEST(correct_programs)
{
    device_of_memory = _i ? 0 : SYNCED_MEM_DEVICE_CURRENT;
    lives(use_what_is_not_stale);
    ck_assert_str_eq(said, "");
    lives(use_small_views);
    for (border = PAGE - 100; border <= PAGE + 50; border += 50)
        lives(grow_behind_parts);
}
END_TEST

START_TEST(old_pointers)
{
    device_of_memory = _i ? 0 : SYNCED_MEM_DEVICE_CURRENT;
    dies(read_stale, "is stale since synced_mem_overwrite_gpu_data_on;");
    SAID("synced_mem: 'weights[12288:16384]' (4096 bytes): its host copy");
    for (page = 0; page < PAGES; page++) {
        dies(read_stale_after_a_release, "is stale since ");
        dies(read_stale_after_a_copy, "is stale since ");
    }
    dies(read_stale_beside_unused, "is stale since ");
    if (WITH_LINUX)
        dies(read_stale_after_page_locking, "is stale since synced_mem_overwrite_gpu_data_on;");
    for (page = 1; page <= 2; page++)
        dies(read_stale_after_zeros, "pulled\nsynced_mem: ");
    dies(write_stale_after_a_cut, "is stale since synced_mem_overwrite_gpu_data_on;");
    dies(write_synced, "is read-only since synced_mem_gpu_data_on;");
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views in debug mode");
    TCase *const tests = add_case_in_children(made, "debug mode");
    tcase_add_test(tests, on_the_host);
    add_gpu_loop_test(tests, correct_programs, 0, 2);
    add_gpu_loop_test(tests, old_pointers, 0, 2);
    return made;
}
