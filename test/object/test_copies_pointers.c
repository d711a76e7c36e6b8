/* Checks that a copy between objects that waits and then fails leaves the pointers of the source's writer valid. */
#include "copies_kit.h"

#include "cudart_emu.h"

enum { SIZE = 5000 };

struct sm_fence;

/* Called once in the thread of the test, with nothing locked, before that thread waits. */
static void (*meanwhile)(void);
static synced_mem *to, *part, *half;

synced_mem_status __real_sm_fence_wait(struct sm_fence *fence);
synced_mem_status __wrap_sm_fence_wait(struct sm_fence *fence);
synced_mem_status __wrap_sm_fence_wait(struct sm_fence *fence)
{
    void (*const call)(void) = meanwhile;
    meanwhile = NULL;
    if (call)
        call();
    return __real_sm_fence_wait(fence);
}

/* The next round of the copy fails at once. */
static void resize_target(void)
{
    OK(synced_mem_resize(to, 100));
}

static void fail_transfers(void)
{
    for (unsigned nth = 1; nth < 9; nth++)
        emu_fail("cudaMemcpyAsync", nth, cudaErrorUnknown, false);
}

static void cut_source_and_fail(void)
{
    OK(synced_mem_view(&half, part, SIZE / 2, SIZE / 2, NULL));
    fail_transfers();
}

static void cut_source_at_the_next_wait(void)
{
    meanwhile = cut_source_and_fail;
}

static const struct {
    void (*call)(void);
    synced_mem_status status;
} cases[] = {{resize_target, SYNCED_MEM_ERR_INVALID_ARGUMENT},
             {fail_transfers, SYNCED_MEM_ERR_CUDA},
             {cut_source_at_the_next_wait, SYNCED_MEM_ERR_CUDA}};
enum { CASES = sizeof cases / sizeof cases[0] };

START_TEST(a_writer_goes_on)
{
    static unsigned char memory[SIZE];
    set_staging(0, 1);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const from = make_on(2 * SIZE, 0);
    to = make_on(SIZE, 0);
    OK(synced_mem_set_cpu_data(to, memory));
    OK(synced_mem_view(&part, from, 0, SIZE, NULL));
    void *const data = synced_mem_overwrite_gpu_data_on(part, stream);
    gpu_fill(data, SIZE, 1, stream);
    meanwhile = cases[_i].call;
    FAILS(cases[_i].status, synced_mem_cpu_copy(to, part));
    ck_assert(!meanwhile);
    emu_fail_clear();
    gpu_fill(data, SIZE, 2, stream);
    if (half)
        ck_assert_ptr_nonnull(synced_mem_cpu_data(half)); /* the transfer comes after the kernel */
    ck_assert(host_is(synced_mem_cpu_data(part), SIZE, 2));
    release_both(part, half);
    release_both(to, from);
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("pointers after a copy that fails");
    TCase *const tests = add_case(made, "pointers");
    tcase_add_loop_test(tests, a_writer_goes_on, 0, CASES);
    return made;
}
