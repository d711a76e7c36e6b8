/* Checks children of processes that use the library. Some calls succeed, the others are refused, and none hangs. */
#include "fork_kit.h"

#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- The host alone ---- */

/* The parent has used only the host. The child may make every call, also on objects that it has inherited. */
static void inherit(const void *argument)
{
    synced_mem *const mem = *(synced_mem *const *)argument;
    ck_assert(pattern_is(synced_mem_cpu_data(mem), SIZE, 1));
    pattern_write(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert(pattern_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    live_on_the_host(NULL);
    OK(synced_mem_shutdown());
}

START_TEST(a_parent_without_gpu)
{
    synced_mem *mem = make_at_cpu(SIZE, 1);
    for (int i = 0; i < 3; i++)
        ck_assert(child_succeeds(inherit, &mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
}
END_TEST

/* The pool of page-locked memory can be set and trimmed although it is empty. */
static void trim_the_pool(const void *unused)
{
    (void)unused;
    OK(synced_mem_host_pool_trim(0));
    OK(synced_mem_host_pool_set_limit(1));
    OK(synced_mem_shutdown());
}

static atomic_bool trimmed_enough;

static void *trim_again_and_again(void *unused)
{
    while (!atomic_load(&trimmed_enough))
        (void)synced_mem_host_pool_trim(0);
    return unused;
}

/* A thread of the parent is inside a call at the fork. The child, which has no such thread, does not hang. */
START_TEST(the_pool_is_trimmed_meanwhile)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, trim_again_and_again, NULL), 0);
    for (int i = 0; i < 50; i++)
        ck_assert(child_succeeds(trim_the_pool, NULL));
    atomic_store(&trimmed_enough, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    OK(synced_mem_shutdown());
}
END_TEST

/* The device is unused before the fork. */
START_TEST(a_child_uses_the_device_first)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    for (int i = 0; i < 2; i++)
        ck_assert(child_succeeds(use_the_device, NULL));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    use_the_device(NULL);
    OK(synced_mem_shutdown());
}
END_TEST

/* ---- A parent that has used the device ---- */

/* The objects and the stream that the children inherit. */
static struct {
    synced_mem *at_cpu, *pinned, *at_gpu, *synced, *nothing;
    synced_mem_stream stream;
} all;

static synced_mem *pushed(synced_mem *mem)
{
    OK(synced_mem_async_gpu_push(mem, all.stream));
    OK(synced_mem_wait(mem));
    return mem;
}

static void prepare(void)
{
    all.stream = open_stream(NON_BLOCKING);
    all.at_cpu = make_at_cpu(SIZE, 1);
    all.at_gpu = make_at_gpu(SIZE, 2);
    all.pinned = make_at_cpu(SIZE, 3);
    ck_assert_int_eq(synced_mem_cpu_source(all.pinned), SYNCED_MEM_SOURCE_PINNED);
    all.synced = pushed(make_at_cpu(SIZE, 4));
    synced_mem *const gap = make(SIZE);
    all.nothing = make_named("nothing", SIZE);
    OK(synced_mem_release(gap)); /* its place is the next object's */
}

static void check_and_release(void)
{
    ck_assert(host_is(synced_mem_cpu_data(all.at_cpu), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(all.at_gpu), SIZE, 2));
    ck_assert(device_is(synced_mem_gpu_data(all.pinned), SIZE, 3));
    ck_assert(device_is(synced_mem_gpu_data(all.synced), SIZE, 4));
    ck_assert(device_is(synced_mem_gpu_data(all.nothing), SIZE, 0));
    synced_mem *const objects[] = {all.at_cpu, all.at_gpu, all.pinned, all.synced, all.nothing};
    release_all(objects, 5);
    close_stream(all.stream);
}

static void read_host_copies(const void *unused)
{
    (void)unused;
    ck_assert(pattern_is(synced_mem_cpu_data(all.at_cpu), SIZE, 1));
    ck_assert(pattern_is(synced_mem_cpu_data(all.pinned), SIZE, 3));
    ck_assert(pattern_is(synced_mem_cpu_data(all.synced), SIZE, 4));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(all.at_gpu));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(all.nothing));
    SAYS("parent");
    ck_assert_int_eq(synced_mem_head(all.synced), SYNCED_MEM_SYNCED);
    ck_assert_uint_eq(synced_mem_size(all.synced), SIZE);
    ck_assert_int_eq(synced_mem_device(all.synced), 0);
    ck_assert_int_eq(synced_mem_cpu_source(all.synced), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_FORKED);
}

/* Makes every call on an object of the parent's, except reads of its host copy. */
static void use_the_parents(const void *unused)
{
    char data[SIZE];
    int pending = 0;
    synced_mem *const mem = all.synced;
    (void)unused;
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_mutable_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_overwrite_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_mutable_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_overwrite_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data_on(mem, all.stream));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_mutable_gpu_data_on(mem, all.stream));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_overwrite_gpu_data_on(mem, NULL));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_end_use_on(mem, all.stream));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push(mem, all.stream));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_cpu_pull(mem, NULL));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push_n(&mem, 1, NULL));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_query(mem, &pending));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_wait(mem));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_set_cpu_data(mem, data));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_set_gpu_data(mem, data));
    FAILS(SYNCED_MEM_ERR_FORKED, USE(mem, .cpu_data = data, .stream = all.stream));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_resize(mem, 2 * SIZE));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_resize_discard(mem, 10));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_release_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_release_gpu_data(mem));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_release_data(mem));
    ck_assert(pattern_is(synced_mem_cpu_data(mem), SIZE, 4));
}

/* A call on two objects is refused, and the child's own can be used again. It is locked before the parent's, as its
 * address is lower. */
static void use_both(const void *unused)
{
    synced_mem *const own = make_at_cpu(SIZE, 1);
    synced_mem *const both[] = {own, all.nothing}, *const swapped[] = {all.nothing, own};
    (void)unused;
    ck_assert((uintptr_t)own < (uintptr_t)all.nothing);
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push_n(both, 2, NULL));
    SAYS("of 'nothing'");
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_copy_n(both, swapped, 2));
    SAYS("of 'nothing'");
    OK(synced_mem_resize(own, 2 * SIZE));
    OK(synced_mem_resize(own, SIZE));
    ck_assert(pattern_is(synced_mem_cpu_data(own), SIZE, 1));
    OK(synced_mem_release(own));
}

/* Makes calls on the library and on objects of the child's own. */
static void use_a_device(const void *unused)
{
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem *const other = make(SIZE);
    synced_mem *const both[] = {mem, other};
    (void)unused;
    pattern_write(synced_mem_mutable_cpu_data(mem), SIZE, 5);
    pattern_write(synced_mem_mutable_cpu_data(other), SIZE, 6);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_int_eq(synced_mem_device_count(), 0);
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_shutdown());
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_reap());
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_forget_stream(all.stream));
    for (int i = 0; i < 2; i++) {
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(both[i]));
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_overwrite_gpu_data_on(both[i], NULL));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push(both[i], NULL));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_release_cpu_data(both[i]));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_set_gpu_data(both[i], &all));
        OK(synced_mem_release_gpu_data(both[i]));
    }
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push_n(both, 2, NULL));
    ck_assert(pattern_is(synced_mem_cpu_data(mem), SIZE, 5));
    ck_assert(pattern_is(synced_mem_cpu_data(other), SIZE, 6));
    RELEASE_EACH(mem, other);
}

/* Calls each function of the seam. */
static void use_the_seam(const void *unused)
{
    int device = 77;
    void *data = &device;
    sm_event event = NULL;
    bool done = false;
    char id[SM_PCI_ID_BYTES];
    struct sm_stream_facts facts;
    struct sm_pointer_facts pointer;
    struct sm_unified_facts unified;
    size_t left;
    size_t locked = 8;
    synced_mem_stream stream = NULL;
    const void *const from = data;
    const size_t size = 1;
    (void)unused;
    ck_assert_int_eq(sm_device_count(), 0);
    ck_assert(!sm_device_in_use());
    uint64_t took;
    const synced_mem_status answers[] = {
        sm_device_resolve(0, &device),
        sm_device_query_pointer(0, data, &pointer),
        sm_device_pci_id(0, id),
        sm_device_host_register(0, data, 8, false, &locked),
        sm_device_host_unregister(0, data, 8, &locked),
        sm_device_alloc(0, 8, NULL, &data),
        sm_device_free(0, data, NULL),
        sm_device_unified_facts(0, &unified),
        sm_device_check_mapped(0, data),
        sm_device_memory_info(0, &left, &left),
        sm_device_managed_alloc(0, 8, &data),
        sm_device_managed_free(0, data),
        sm_device_managed_prefetch(0, data, 8, true, NULL),
        sm_device_managed_advise(0, data, 8),
        sm_device_stream_create(0, &stream),
        sm_device_stream_destroy(0, all.stream),
        sm_device_stream_sync(0, NULL),
        sm_device_stream_wait(0, NULL, event),
        sm_device_stream_query_capture(0, all.stream, &facts),
        sm_device_copy_h2d(0, data, data, 1, NULL),
        sm_device_copy_d2h(0, data, data, 1, NULL),
        sm_device_copy_d2d(0, data, data, 1, NULL),
        sm_device_copy_any(0, data, data, 1, NULL),
        sm_device_copy_peer(0, data, 0, data, 1, 1, NULL),
        sm_device_fill(0, data, 0, 1, NULL),
        sm_device_copy_batch(0, &data, &from, &size, 1, true, NULL),
        sm_device_event_create(0, &event),
        sm_device_event_destroy(0, event),
        sm_device_event_record(0, event, NULL),
        sm_device_event_sync(0, event),
        sm_device_event_query(0, event, &done),
        sm_device_timing_create(0, &event),
        sm_device_elapsed(0, event, event, &took),
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        ck_assert_int_eq(answers[i], SYNCED_MEM_ERR_FORKED);
    ck_assert_int_eq(device, 77);
}

static void release_the_parents(const void *unused)
{
    synced_mem *const objects[] = {all.at_cpu, all.at_gpu, all.pinned, all.synced, all.nothing};
    (void)unused;
    for (int i = 0; i < 5; i++) {
        OK(synced_mem_retain(objects[i]));
        RELEASE_EACH(objects[i], objects[i]);
    }
    ck_assert_uint_eq(stats_now().objects, 0);
    live_on_the_host(NULL);
}

static void have_a_child(const void *unused)
{
    (void)unused;
    read_host_copies(NULL);
    ck_assert(child_succeeds(release_the_parents, NULL));
    live_on_the_host(NULL);
}

static void (*const lives[])(const void *) = {use_the_seam, read_host_copies,    use_the_parents,  use_both,
                                              use_a_device, release_the_parents, live_on_the_host, have_a_child};
enum { LIVES = sizeof lives / sizeof lives[0] };

START_TEST(a_parent_with_gpu)
{
    prepare();
    for (int i = 0; i < 2; i++)
        ck_assert(child_succeeds(lives[_i], NULL));
    check_and_release();
}
END_TEST

/* The least uses of a device by a parent. Each of them bars the child from the device. */
enum first_use { COUNTED, PAGE_LOCKED, HANDED_IN, RESOLVED, FIRST_USES };

static void use_after(const void *argument)
{
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem *const parents = *(synced_mem *const *)argument;
    ck_assert_int_eq(synced_mem_device_count(), 0);
    if (parents) {
        FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(parents));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_resize(parents, 10));
        FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_release_data(parents));
    }
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(mem));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_reap());
    pattern_write(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push(mem, NULL));
    RELEASE_EACH(mem, parents);
    live_on_the_host(NULL);
}

START_TEST(a_parent_that_has_hardly_used_the_gpu)
{
    synced_mem *mem = NULL;
    void *device = NULL;
    switch ((enum first_use)_i) {
    case COUNTED:
        ck_assert_int_gt(synced_mem_device_count(), 0);
        break;
    case PAGE_LOCKED:
        mem = make_on(SIZE, 0);
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
        ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PINNED);
        break;
    case HANDED_IN:
        device = gpu_alloc(0, SIZE);
        mem = make(SIZE);
        OK(synced_mem_set_gpu_data(mem, device));
        break;
    case RESOLVED:
    case FIRST_USES:
        mem = make(SIZE);
        OK(synced_mem_end_use_on(mem, NULL));
        break;
    }
    ck_assert(child_succeeds(use_after, &mem));
    OK(synced_mem_release(mem));
    if (device)
        gpu_free(device);
}
END_TEST

/* Contents in transfer at the fork arrive in the parent only. */
static void ask_for_what_is_arriving(const void *argument)
{
    synced_mem *const mem = *(synced_mem *const *)argument;
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(mem));
    OK(synced_mem_release(mem));
    live_on_the_host(NULL);
}

START_TEST(work_in_flight)
{
    prepare();
    synced_mem *mem = make_on(SIZE, 0);
    synced_mem *const gone = pushed(make_at_cpu(SIZE, 6));
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, all.stream), SIZE, 5, all.stream);
    host_fill(synced_mem_mutable_cpu_data(gone), SIZE, 6);
    gpu_hold(all.stream);
    OK(synced_mem_async_cpu_pull(mem, all.stream));
    OK(synced_mem_async_gpu_push(gone, all.stream));
    OK(synced_mem_release(gone)); /* the parent reaps its memory when the transfer is over */
    ck_assert(child_succeeds(ask_for_what_is_arriving, &mem));
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 5));
    OK(synced_mem_release(mem));
    check_and_release();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("fork");
    TCase *const host = add_case_in_children(made, "host");
    add_tests(host, a_parent_without_gpu, the_pool_is_trimmed_meanwhile, a_child_uses_the_device_first);
    TCase *const device = add_case(made, "device");
    add_gpu_tests(device, work_in_flight);
    add_gpu_loop_test(device, a_parent_with_gpu, 0, LIVES);
    add_gpu_loop_test(device, a_parent_that_has_hardly_used_the_gpu, 0, FIRST_USES);
    return made;
}
