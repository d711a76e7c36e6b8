/* Checks sizes of an object without views, while another thread's call works on parts of it or makes a view. */
#include "views_busy_kit.h"

static synced_mem *root, *other, *resized;
static struct {
    size_t size;
    bool discards;
    synced_mem_status status;
    atomic_bool done;
} resize;
static struct {
    synced_mem_status status;
    atomic_bool done;
} copy;

static void *make_copy(void *unused)
{
    copy.status = synced_mem_cpu_copy(other, root);
    atomic_store(&copy.done, true);
    return unused;
}

static void *make_resize(void *unused)
{
    resize.status =
        resize.discards ? synced_mem_resize_discard(resized, resize.size) : synced_mem_resize(resized, resize.size);
    atomic_store(&resize.done, true);
    return unused;
}

static pthread_t start(void *(*job)(void *), atomic_bool *done)
{
    pthread_t thread;
    atomic_store(done, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, job, NULL), 0);
    return thread;
}

/* A copy of an object in parts cuts its target, and waits for a kernel that writes the source. */
START_TEST(beside_a_copy)
{
    synced_mem_stream const stream = open_stream(NON_BLOCKING);
    resize.discards = _i % 2;
    resize.size = ROOT;
    pthread_t copying, resizing;
    root = make_root(false);
    resized = other = make_on(ROOT, 0);
    synced_mem *const part = _i / 2 ? view_of(root, 0, 100) : NULL;
    device_writes(root, 1, stream);
    gpu_hold(stream);
    device_writes(root, 2, stream);
    copying = start(make_copy, &copy.done);
    (void)usleep(A_WHILE_US);
    ck_assert(!atomic_load(&copy.done));
    resizing = start(make_resize, &resize.done);
    (void)usleep(A_WHILE_US);
    gpu_unhold();
    ck_assert_int_eq(pthread_join(copying, NULL), 0);
    ck_assert_int_eq(pthread_join(resizing, NULL), 0);
    ck_assert_int_eq(resize.status, SYNCED_MEM_OK);
    ck_assert_int_eq(copy.status, SYNCED_MEM_OK);
    ck_assert(host_reads_right(root));
    ck_assert(resize.discards || host_reads_right(other));
    if (part)
        OK(synced_mem_release(part));
    RELEASE_EACH(root, other);
    close_stream(stream);
}
END_TEST

/* ---- Views that are made while the call waits ---- */

/* The call waits to hand back borrowed memory. */
START_TEST(beside_a_new_view)
{
    static _Alignas(4096) unsigned char memory[6 * 4096];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    resize.discards = _i;
    resize.size = (size_t)3 * ROOT;
    gpu_register(memory, sizeof memory);
    resized = root = make_root(false);
    OK(synced_mem_set_cpu_data(root, memory));
    synced_mem *const low = view_of(root, 0, 9000), *const high = view_of(root, 9000, ROOT - 9000);
    host_writes(low, 1);
    host_writes(high, 2);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(low, stream));
    RELEASE_EACH(low, high);
    HEAD(root, AT_CPU);
    const pthread_t resizing = start(make_resize, &resize.done);
    (void)usleep(A_WHILE_US);
    ck_assert(!atomic_load(&resize.done));
    synced_mem *const view = view_of(root, 5000, 8000);
    gpu_unhold();
    ck_assert_int_eq(pthread_join(resizing, NULL), 0);
    ck_assert_int_eq(resize.status, SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_uint_eq(synced_mem_size(root), ROOT);
    HEAD(root, AT_CPU);
    ck_assert(host_reads_right(view));
    ck_assert(host_reads_right(root));
    RELEASE_EACH(view, root);
    close_stream(stream);
    OK(synced_mem_shutdown());
    gpu_unregister(memory);
}
END_TEST

/* ---- In a callback ---- */

static void *alloc_and_resize(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)alignment, (void)device, (void)stream, (void)user;
    resize.status = resize.discards ? synced_mem_resize_discard(other, ROOT) : synced_mem_resize(other, ROOT);
    atomic_store(&resize.done, true);
    return aligned_alloc(4096, (size + 4095) / 4096 * 4096);
}

static void free_it(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream, (void)user;
    free(data);
}

/* The copy has cut its target where its source is cut, and counts on the parts while it calls the target's
 * allocator. */
START_TEST(in_a_callback)
{
    const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = alloc_and_resize, .free = free_it};
    const synced_mem_options options = {
        .struct_size = sizeof options, .device = SYNCED_MEM_DEVICE_CURRENT, .cpu_allocator = &allocator};
    resize.discards = _i;
    atomic_store(&resize.done, false);
    root = make_root(false);
    OK(synced_mem_create(&other, ROOT, &options));
    synced_mem *const part = view_of(root, 0, 100);
    host_writes(root, 3);
    OK(synced_mem_cpu_copy(other, root));
    ck_assert(atomic_load(&resize.done));
    ck_assert_int_eq(resize.status, SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert(host_reads_right(other));
    OK(synced_mem_resize(other, ROOT));
    ck_assert(host_reads_right(other));
    RELEASE_EACH(part, root, other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("sizes beside calls");
    TCase *const tests = add_case(made, "threads");
    add_gpu_loop_test(tests, beside_a_copy, 0, 4);
    add_gpu_loop_test(tests, beside_a_new_view, 0, 2);
    tcase_add_loop_test(tests, in_a_callback, 0, 2);
    return made;
}
