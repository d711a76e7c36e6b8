/* Checks debug mode with host memory that a host function of the caller's stream fills. The memory is not protected
 * before that function has ended. */
#include "debug_kit.h"

#include "cudart_emu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool may_fill;

static void fill_late(void *data)
{
    while (!atomic_load(&may_fill))
        (void)sched_yield();
    memset(data, 5, SIZE);
}

/* The memory that is handed in, and the call before the function fills it. */
enum { PINNED = 1, WITH_DEVICE = 2, PUSHED = 4, RESIZED = 8, WAYS = 16 };
static int way;

static void *host_memory(void)
{
    return way & PINNED ? gpu_pinned_alloc(2 * PAGE) : aligned_alloc(PAGE, 2 * PAGE);
}

static void free_host_memory(void *host)
{
    if (way & PINNED)
        gpu_pinned_free(host);
    else
        free(host);
}

/* A push of pageable memory would wait for the function. */
static bool can_push(void)
{
    return (way & PUSHED) && (way & (PINNED | WITH_DEVICE));
}

static void fill_handed_in_memory(void)
{
    synced_mem *const mem = make_named("filled", SIZE);
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    synced_mem_stream reader = open_stream(NON_BLOCKING);
    unsigned char *const host = host_memory();
    void *const device = way & WITH_DEVICE ? gpu_alloc(0, SIZE) : NULL;
    ck_assert_int_eq(cudaLaunchHostFunc(filling, fill_late, host), cudaSuccess);
    if (device)
        ck_assert_int_eq(cudaMemsetAsync(device, 5, SIZE, filling), cudaSuccess);
    OK(USE(mem, .cpu_data = host, .gpu_data = device, .stream = filling));
    if (can_push())
        OK(synced_mem_async_gpu_push(mem, reader));
    if (way & RESIZED)
        OK(synced_mem_resize_discard(mem, SIZE));
    atomic_store(&may_fill, true);
    gpu_stream_sync(filling);
    ck_assert_int_eq(host[SIZE - 1], 5);
    const unsigned char *const data = synced_mem_cpu_data(mem);
    ck_assert_ptr_eq(data, host);
    if (!(way & RESIZED))
        ck_assert_int_eq(data[SIZE - 1], 5);
    OK(synced_mem_release(mem));
    free_host_memory(host);
    if (device)
        gpu_free(device);
    CLOSE_EACH(filling, reader);
}

START_TEST(filled_late)
{
    way = _i;
    lives(fill_handed_in_memory);
}
END_TEST

/* A pull is queued behind the function, and writes the same memory. */
static void pull_behind_the_function(void)
{
    synced_mem *const mem = make_named("filled", SIZE);
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    synced_mem_stream puller = open_stream(NON_BLOCKING);
    unsigned char *const host = gpu_pinned_alloc(2 * PAGE);
    void *const device = gpu_alloc(0, SIZE);
    ck_assert_int_eq(cudaLaunchHostFunc(filling, fill_late, host), cudaSuccess);
    OK(USE(mem, .cpu_data = host, .gpu_data = device, .stream = filling));
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, puller), SIZE, 1, puller);
    OK(synced_mem_async_cpu_pull(mem, puller));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    atomic_store(&may_fill, true);
    gpu_stream_sync(puller);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    gpu_pinned_free(host);
    gpu_free(device);
    CLOSE_EACH(filling, puller);
}

START_TEST(pulled_late)
{
    lives(pull_behind_the_function);
}
END_TEST

/* The memory is protected again once the function has ended. */
static void write_filled(void)
{
    synced_mem *const mem = make_named("filled", SIZE);
    synced_mem_stream filling = open_stream(NON_BLOCKING);
    unsigned char *const host = host_memory();
    void *const device = gpu_alloc(0, SIZE);
    atomic_store(&may_fill, true);
    ck_assert_int_eq(cudaLaunchHostFunc(filling, fill_late, host), cudaSuccess);
    OK(USE(mem, .cpu_data = host, .gpu_data = device, .stream = filling));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), host);
    touch_to_read(host);
    touch_to_write(host);
}

START_TEST(written_afterwards)
{
    way = _i;
    dies(write_filled, "'filled' (5000 bytes)");
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("debug filled");
    TCase *const cases = add_case_in_children(all, "debug filled");
    tcase_add_test(cases, pulled_late);
    tcase_add_loop_test(cases, filled_late, 0, WAYS);
    tcase_add_loop_test(cases, written_afterwards, 0, PINNED + 1);
    return all;
}
