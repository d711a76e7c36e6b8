/* Checks views in children of a process. Without a GPU a child may do everything, otherwise it reads and releases. */
#include "fork_kit.h"

#include "views_kit.h"

#include <pthread.h>

enum { HALF = ROOT / 2 };

static struct {
    synced_mem *root, *at_cpu, *at_gpu, *across;
    synced_mem *piece; /* no other view begins or ends within it */
    synced_mem_stream stream;
} it;

static void release_the_objects(int first)
{
    synced_mem *const mems[] = {it.root, it.at_cpu, it.at_gpu, it.across, it.piece};
    for (int i = 0; i < 5; i++)
        OK(synced_mem_release(mems[(first + i) % 5]));
}

static void make_views(void)
{
    it.root = make_root(false);
    it.at_cpu = view_of(it.root, 0, HALF);
    it.at_gpu = view_of(it.root, HALF, HALF);
    it.across = view_of(it.root, HALF / 2, HALF);
    it.piece = view_of(it.root, 100, 1000);
}

/* ---- The host alone ---- */

static void use_all(const void *unused)
{
    (void)unused;
    ck_assert(host_reads_right(it.root));
    host_writes(it.across, 5);
    synced_mem *const view = view_of(it.at_gpu, 10, 100);
    ck_assert(host_reads_right(view));
    host_writes(view, 6);
    ck_assert(host_reads_right(it.root));
    HEAD(it.root, AT_CPU);
    OK(synced_mem_release(view));
    release_the_objects(1);
    ck_assert_uint_eq(stats_now().objects, 0);
    live_on_the_host(NULL);
    OK(synced_mem_shutdown());
}

START_TEST(a_parent_without_gpu)
{
    synced_mem *const root = make(ROOT);
    it.root = root;
    it.at_cpu = view_of(root, 0, HALF);
    it.at_gpu = view_of(root, HALF, HALF - 1);
    it.across = view_of(root, HALF / 2, HALF);
    memset(expected, 0, sizeof expected);
    host_writes(it.at_cpu, 1);
    host_writes(it.across, 2);
    synced_mem *const last = view_of(root, ROOT - 1, 1);
    OK(synced_mem_clear(last));
    OK(synced_mem_release(last));
    for (int i = 0; i < 2; i++)
        ck_assert(child_succeeds(use_all, NULL));
    OK(synced_mem_clear(it.at_gpu));
    expect(it.at_gpu, 0);
    ck_assert(host_reads_right(root));
    release_the_objects(0);
    OK(synced_mem_shutdown());
}
END_TEST

/* ---- A parent that has used the device ---- */

static void prepare(void)
{
    make_views();
    it.stream = open_stream(NON_BLOCKING);
    host_writes(it.at_cpu, 1);
    device_writes(it.at_gpu, 2, it.stream);
    ck_assert(host_reads_right(it.at_cpu));
    ck_assert(host_reads_right(it.piece));
}

/* A child gets the right contents of an object in parts, or an error. */
static void read_or_not(synced_mem *mem)
{
    const void *const data = synced_mem_cpu_data(mem);
    if (data)
        ck_assert_int_eq(memcmp(data, expected + synced_mem_offset(mem), synced_mem_size(mem)), 0);
    else
        ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_FORKED);
}

static void read_in_child(const void *unused)
{
    (void)unused;
    ck_assert_ptr_eq(synced_mem_root(it.across), it.root);
    ck_assert_uint_eq(synced_mem_offset(it.across), HALF / 2);
    ck_assert_uint_eq(synced_mem_size(it.across), HALF);
    void *const data = given(synced_mem_cpu_data(it.piece));
    ck_assert(bytes_are_right(it.piece, data));
    HEAD(it.piece, AT_CPU);
    synced_mem *const in_parts[] = {it.at_cpu, it.across, it.root};
    for (int i = 0; i < 3; i++) {
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(in_parts[i]));
        HEAD(in_parts[i], MIXED);
    }
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(it.at_gpu));
    if (!old_pointers_fault()) /* debug mode publishes no pointer to write */
        ck_assert_ptr_eq(synced_mem_mutable_cpu_data(it.piece), data);
    memset(data, 0, synced_mem_size(it.piece)); /* the child's own memory */
    ck_assert_ptr_eq(synced_mem_cpu_data(it.piece), data);
}

/* The view was in one part when the parent read it, and no more since. */
static void refuse_to_read_in_child(const void *unused)
{
    (void)unused;
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(it.piece));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_mutable_cpu_data(it.piece));
    HEAD(it.piece, MIXED);
}

static void check_cut_pieces(void)
{
    synced_mem *const inside = view_of(it.piece, 10, 20);
    ck_assert(child_succeeds(refuse_to_read_in_child, NULL));
    OK(synced_mem_release(inside));
    ck_assert(child_succeeds(refuse_to_read_in_child, NULL));
    ck_assert(host_reads_right(it.piece));
    ck_assert(child_succeeds(read_in_child, NULL));
}

static void refuse_in_child(const void *unused)
{
    static unsigned char memory[ROOT];
    synced_mem *view = it.root;
    synced_mem *const mems[] = {it.root, it.at_cpu, it.at_gpu, it.across};
    (void)unused;
    for (int i = 0; i < 4; i++) {
        int pending;
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_view(&view, mems[i], 0, 100, NULL));
        ck_assert_ptr_null(view);
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_mutable_cpu_data(mems[i]));
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_overwrite_cpu_data(mems[i]));
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(mems[i]));
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_overwrite_gpu_data_on(mems[i], it.stream));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push(mems[i], it.stream));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_cpu_pull(mems[i], NULL));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push_n(mems, 4, NULL));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_query(mems[i], &pending));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_wait(mems[i]));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_clear(mems[i]));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_end_use_on(mems[i], it.stream));
    }
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_set_cpu_data(it.root, memory));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_resize(it.root, 10));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_release_data(it.root));
    FILE *const file = fopen("/dev/null", "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 4; i++)
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_print(mems[i], file));
    OK(synced_mem_print_all(file));
    (void)fclose(file);
}

static void release_in_child(const void *first)
{
    release_the_objects(*(const int *)first);
    ck_assert_uint_eq(stats_now().objects, 0);
    live_on_the_host(NULL);
}

/* The child makes views of its own objects. */
static void live_in_child(const void *unused)
{
    (void)unused;
    synced_mem *const root = make(ROOT), *const view = view_of(root, 10, 1000);
    pattern_write(given(synced_mem_mutable_cpu_data(view)), 1000, 3);
    HEAD(root, MIXED);
    const unsigned char *const data = given(synced_mem_cpu_data(root));
    ck_assert(pattern_is(data, 10, 0));
    ck_assert(pattern_is(data + 10, 1000, 3));
    ck_assert(pattern_is(data + 1010, ROOT - 1010, 0));
    RELEASE_EACH(root, view);
}

START_TEST(a_parent_with_gpu)
{
    int first = _i;
    prepare();
    if (_i % 2) { /* while a thread of the parent could be inside, and with work in flight */
        gpu_hold(it.stream);
        OK(synced_mem_async_cpu_pull(it.at_gpu, it.stream));
        OK(synced_mem_end_use_on(it.root, it.stream));
    } else {
        ck_assert(child_succeeds(read_in_child, NULL));
        check_cut_pieces();
    }
    ck_assert(child_succeeds(refuse_in_child, NULL));
    ck_assert(child_succeeds(release_in_child, &first));
    ck_assert(child_succeeds(live_in_child, NULL));
    if (_i % 2)
        gpu_unhold();
    ck_assert(host_reads_right(it.root));
    ck_assert(host_reads_right(it.across));
    release_the_objects(_i);
    close_stream(it.stream);
}
END_TEST

/* ---- Forks while a thread divides objects ---- */

static atomic_bool enough;

/* Uses no assertions of Check, which are for the main thread. */
static void *divide_again_and_again(void *unused)
{
    for (unsigned i = 0; !atomic_load(&enough); i++) {
        synced_mem *view = NULL, *inner = NULL;
        SOUND(synced_mem_view(&view, it.root, i * 7 % HALF, 1 + i % 1000, NULL) == SYNCED_MEM_OK);
        SOUND(synced_mem_view(&inner, view, 0, 1, NULL) == SYNCED_MEM_OK);
        SOUND(synced_mem_release(view) == SYNCED_MEM_OK);
        SOUND(synced_mem_release(inner) == SYNCED_MEM_OK);
    }
    return unused;
}

static void live_with_views(const void *unused)
{
    live_in_child(unused);
    read_or_not(it.at_cpu);
    release_the_objects(2);
    live_in_child(unused);
}

START_TEST(forks_during_calls)
{
    pthread_t thread;
    const int forks = forks_of_a_schedule();
    const bool with_device = gpu_expected() && _i == 0;
    if (with_device) {
        prepare();
    } else {
        it.root = make(ROOT);
        it.at_cpu = view_of(it.root, 0, HALF);
        it.at_gpu = view_of(it.root, HALF, 10);
        it.across = view_of(it.root, 5, HALF);
        it.piece = view_of(it.root, ROOT - 1, 1);
        memset(expected, 0, sizeof expected);
        host_writes(it.root, 1);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, divide_again_and_again, NULL), 0);
    for (int i = 0; i < forks; i++)
        ck_assert(child_succeeds(live_with_views, NULL));
    atomic_store(&enough, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert(host_reads_right(it.root));
    release_the_objects(0);
    if (with_device)
        close_stream(it.stream);
    OK(synced_mem_shutdown());
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views and forks");
    TCase *const host = add_case_in_children(made, "host");
    tcase_add_test(host, a_parent_without_gpu);
    TCase *const device = add_case(made, "device");
    add_gpu_loop_test(device, a_parent_with_gpu, 0, 4);
    tcase_add_loop_test(device, forks_during_calls, 0, 2);
    return made;
}
