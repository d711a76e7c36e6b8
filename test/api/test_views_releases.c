/* Checks releases of views and their root by two threads at once, where one is stopped in the middle. */
#include "views_busy_kit.h"

#include "cudart_emu.h"

/* A thread that ends a view is stopped with the root's lock held. */
static struct {
    atomic_bool is_armed, is_reached, is_open;
} gate;

static void await(atomic_bool *flag)
{
    for (int ms = 0; ms < PATIENCE_S * 1000 && !atomic_load(flag); ms++)
        (void)usleep(1000);
    SOUND(atomic_load(flag));
}

/* The linker puts the wrapper in place of the library's own function (--wrap). */
void __real_sm_withdraw(struct synced_mem *mem);
void __wrap_sm_withdraw(struct synced_mem *mem);
void __wrap_sm_withdraw(struct synced_mem *mem)
{
    if (atomic_exchange(&gate.is_armed, false)) {
        atomic_store(&gate.is_reached, true);
        await(&gate.is_open);
    }
    __real_sm_withdraw(mem);
}

static struct release {
    synced_mem *mem;
    synced_mem_status status;
    pthread_t thread;
    atomic_bool done;
} first, second;

static void *make_release(void *argument)
{
    struct release *const release = argument;
    release->status = synced_mem_release(release->mem);
    atomic_store(&release->done, true);
    return NULL;
}

static void start(struct release *release, synced_mem *mem)
{
    release->mem = mem;
    atomic_store(&release->done, false);
    ck_assert_int_eq(pthread_create(&release->thread, NULL, make_release, release), 0);
}

/* Stops the first thread in its release, and lets the second go as far as it can. */
static void release_both(synced_mem *one, synced_mem *other)
{
    atomic_store(&gate.is_open, false);
    atomic_store(&gate.is_reached, false);
    atomic_store(&gate.is_armed, true);
    start(&first, one);
    await(&gate.is_reached);
    start(&second, other);
    (void)usleep(10 * A_WHILE_US);
}

static void finish_both(void)
{
    atomic_store(&gate.is_open, true);
    ck_assert_int_eq(pthread_join(first.thread, NULL), 0);
    ck_assert_int_eq(pthread_join(second.thread, NULL), 0);
}

/* The wait for the root's borrowed memory fails. The view whose release reports that is still there. */
START_TEST(last_two_views)
{
    static _Alignas(4096) unsigned char memory[6 * 4096];
    gpu_register(memory, sizeof memory);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const root = make_on(ROOT, 0);
    OK(synced_mem_set_cpu_data(root, memory));
    synced_mem *const low = view_of(root, 0, 9000), *const high = view_of(root, 9000, ROOT - 9000);
    host_writes(low, 1);
    host_writes(high, 2);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(low, stream));
    OK(synced_mem_async_gpu_push(high, stream));
    OK(synced_mem_release(root));
    release_both(low, high);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    finish_both();
    emu_fail_clear();
    OK(first.status);
    ck_assert_int_eq(second.status, SYNCED_MEM_ERR_CUDA);
    ck_assert_uint_eq(stats_now().objects, 2); /* the view and its root */
    ck_assert_ptr_eq(synced_mem_root(high), root);
    ck_assert(host_reads_right(high));
    OK(synced_mem_release(high));
    ck_assert_uint_eq(stats_now().objects, 0);
    close_stream(stream);
    OK(synced_mem_shutdown());
    gpu_unregister(memory);
}
END_TEST

/* The same of a view of 0 bytes, which has memory of its own. It is as it was before the release that fails. */
START_TEST(last_view_of_no_bytes)
{
    static _Alignas(4096) unsigned char memory[6 * 4096];
    const bool in_parts = _i;
    gpu_register(memory, sizeof memory);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const root = make_on(ROOT, 0);
    OK(synced_mem_set_cpu_data(root, memory));
    host_writes(root, 1);
    synced_mem *const none = view_of(root, 100, 0), *const part = view_of(root, 0, in_parts ? 9000 : 0);
    (void)given(synced_mem_mutable_cpu_data(none));
    (void)given(synced_mem_mutable_cpu_data(part));
    const synced_mem_source source = synced_mem_cpu_source(none);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(root, stream));
    RELEASE_EACH(root, part);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_release(none));
    emu_fail_clear();
    HEAD(none, AT_CPU);
    ck_assert_int_eq(synced_mem_cpu_source(none), source);
    ck_assert(host_reads_right(synced_mem_root(none)));
    OK(synced_mem_release(none));
    ck_assert_uint_eq(stats_now().objects, 0);
    close_stream(stream);
    OK(synced_mem_shutdown());
    gpu_unregister(memory);
}
END_TEST

/* The root is not destroyed before the view has left it. */
START_TEST(view_and_root)
{
    synced_mem *const root = make_on(ROOT, 0);
    synced_mem *const view = view_of(root, 100, 9000);
    if (_i)
        host_fill(given(synced_mem_overwrite_cpu_data(view)), 9000, 1);
    release_both(view, root);
    ck_assert(!atomic_load(&second.done));
    finish_both();
    OK(first.status);
    OK(second.status);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("releases of views");
    TCase *const tests = add_case(made, "releases");
    tcase_add_test(tests, last_two_views);
    tcase_add_loop_test(tests, last_view_of_no_bytes, 0, 2);
    tcase_add_loop_test(tests, view_and_root, 0, 2);
    return made;
}
