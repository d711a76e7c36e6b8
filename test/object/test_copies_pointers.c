/* Checks the pointers after copies: the source's writer goes on after one that waits and then fails, and nobody has
 * those to targets that were written. */
#include "copies_kit.h"

#include "cudart_emu.h"
#include "published.h"

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

static unsigned publications; /* with a look at what is in flight */

void __real_sm_publish_object(struct synced_mem *mem);
void __wrap_sm_publish_object(struct synced_mem *mem);
void __wrap_sm_publish_object(struct synced_mem *mem)
{
    publications++;
    __real_sm_publish_object(mem);
}

/* The streams that have used a target before the copy: 1, 2: one of two reads; negative: it writes; 3: some stream. */
static const int pasts[][3] = {{0}, {1}, {2}, {3}, {-1}, {-2}, {-3}, {1, 2}, {2, 1, 3}, {-1, 1}, {-2, 1}, {3, -1}};
enum { PASTS = sizeof pasts / sizeof *pasts };

static synced_mem *live_through(const int *past, bool is_evictable, const synced_mem_stream *streams)
{
    synced_mem_options options = default_options();
    synced_mem *mem = NULL;
    options.device = 0;
    options.evictable = is_evictable;
    OK(synced_mem_create(&mem, SIZE, &options));
    for (int side = SYNCED_MEM_SIDE_CPU; is_evictable && side <= SYNCED_MEM_SIDE_GPU; side++)
        OK(synced_mem_hold(mem, (synced_mem_side)side, SYNCED_MEM_OVERWRITE, SYNCED_MEM_STREAM_LIBRARY));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 1);
    (void)given(synced_mem_gpu_data_on(mem, streams[1]));
    OK(synced_mem_end_use_on(mem, streams[1]));
    for (int i = 0; i < 3 && past[i]; i++)
        (void)given(past[i] < 0 ? synced_mem_mutable_gpu_data_on(mem, streams[-past[i]])
                                : synced_mem_gpu_data_on(mem, streams[past[i]]));
    return mem;
}

/* However targets were used before, publication of each anew finds nothing. */
START_TEST(nobody_has_targets)
{
    synced_mem *targets[PASTS], *sources[PASTS];
    const synced_mem_stream streams[] = {NULL, open_stream(NON_BLOCKING), open_stream(NON_BLOCKING), NULL};
    for (size_t i = 0; i < PASTS; i++) {
        targets[i] = live_through(pasts[i], _i, streams);
        sources[i] = make_at_cpu(SIZE, 2);
        (void)given(synced_mem_gpu_data_on(sources[i], streams[1]));
    }
    gpu_delay(streams[1]);
    publications = 0;
    OK(synced_mem_async_gpu_copy_n(targets, sources, PASTS, streams[1]));
    ck_assert_uint_eq(publications, 0);
    for (size_t i = 0; i < PASTS; i++) {
        ck_assert_int_eq(synced_mem_head(targets[i]), SYNCED_MEM_AT_GPU);
        const struct sm_published before = published_of(targets[i]);
        sm_publish(&targets[i]->record);
        const struct sm_published after = published_of(targets[i]);
        ck_assert_mem_eq(&before, &after, sizeof before);
        ck_assert_ptr_null(before.ready[SM_CPU][0]);
        ck_assert_ptr_null(before.ready[SM_GPU][1]);
    }
    for (size_t i = 0; i < PASTS; i++) {
        ck_assert(device_is(given(synced_mem_gpu_data_on(targets[i], streams[i % 4])), SIZE, 2));
        for (int side = SYNCED_MEM_SIDE_CPU; _i && side <= SYNCED_MEM_SIDE_GPU; side++)
            OK(synced_mem_unhold(targets[i], (synced_mem_side)side));
        release_both(targets[i], sources[i]);
    }
    CLOSE_EACH(streams[1], streams[2]);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("pointers after copies");
    TCase *const tests = add_case(made, "pointers");
    tcase_add_loop_test(tests, a_writer_goes_on, 0, CASES);
    tcase_add_loop_test(tests, nobody_has_targets, 0, 2);
    return made;
}
