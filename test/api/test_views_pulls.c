/* Checks pulls of a whole object that gets views while the pull waits with nothing locked. */
#include "views_kit.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <unistd.h>

enum { STEP_US = 1000 };

struct pull {
    synced_mem *root;
    synced_mem_stream stream;
    synced_mem_status status;
    pthread_t thread;
};

static void *pull_root(void *argument)
{
    struct pull *const pull = argument;
    pull->status = synced_mem_async_cpu_pull(pull->root, pull->stream);
    return NULL;
}

/* A root that both sides have used, with a kernel that is held while it writes the root. */
static synced_mem *make_written(synced_mem_stream held)
{
    synced_mem *const root = make_root(true);
    host_writes(root, 1);
    device_writes(root, 2, held);
    gpu_stream_sync(held);
    ck_assert(host_reads_right(root));
    (void)given(synced_mem_gpu_data_on(root, held));
    gpu_stream_sync(held);
    gpu_hold(held);
    device_writes(root, 3, held);
    return root;
}

static void begin_pull(struct pull *pull)
{
    ck_assert_int_eq(pthread_create(&pull->thread, NULL, pull_root, pull), 0);
    while (!others_sleep())
        (void)usleep(STEP_US);
}

static void end_pull(struct pull *pull)
{
    gpu_unhold();
    ck_assert_int_eq(pthread_join(pull->thread, NULL), 0);
}

/* Without copy threads the pull waits for the kernel on the host. */
static void stage_without_threads(void)
{
    set_staging(0, 1);
}

/* _i == 1: the transfer fails. The root's pointers must not outlive what its parts have. */
START_TEST(divided_meanwhile)
{
    synced_mem_stream held = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    stage_without_threads();
    synced_mem *const root = make_written(held);
    struct pull pull = {.root = root, .stream = _i == 1 ? other : held};
    begin_pull(&pull);
    synced_mem *const views[] = {view_of(root, 0, 8000), view_of(root, 8000, 8000)};
    for (unsigned nth = 1; _i == 1 && nth < 9; nth++)
        emu_fail("cudaMemcpyAsync", nth, cudaErrorUnknown, false);
    end_pull(&pull);
    emu_fail_clear();
    ck_assert_int_eq(pull.status == SYNCED_MEM_OK, _i == 0);
    ck_assert(host_reads_right(root));
    device_writes(views[0], 7, other);
    gpu_stream_sync(other);
    OK(synced_mem_end_use_on(views[0], other));
    ck_assert(host_reads_right(root));
    ck_assert(host_reads_right(views[0]));
    release_all(views, 2);
    OK(synced_mem_release(root));
    CLOSE_EACH(held, other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views_pulls");
    TCase *const tests = add_case(made, "pulls");
    tcase_add_loop_test(tests, divided_meanwhile, 0, 2);
    return made;
}
