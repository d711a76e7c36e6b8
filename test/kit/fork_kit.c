#include "fork_kit.h"

#include <unistd.h>

static struct child {
    void (*function)(const void *argument);
    const void *argument;
} child;

static void run_child(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    (void)alarm(PATIENCE_S);
    child.function(child.argument);
}

bool child_succeeds(void (*function)(const void *argument), const void *argument)
{
    child = (struct child){function, argument};
    return in_a_child(run_child, NULL);
}

int forks_of_a_schedule(void)
{
    enum { OF_CUDA = FORKS / 4 }; /* each child starts the runtime, which takes a tenth of a second */
    const int forks = gpu_expected() && !gpu_is_emulated() ? OF_CUDA : FORKS;
    return (forks + gpu_schedules() - 1) / gpu_schedules();
}

void live_on_the_host(const void *unused)
{
    char borrowed[SIZE];
    (void)unused;
    const uint64_t objects = stats_now().objects;
    synced_mem *const mem = make(SIZE);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    pattern_write(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    OK(synced_mem_resize(mem, 3 * SIZE));
    ck_assert(pattern_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_wait(mem));
    pattern_write(borrowed, SIZE, 2);
    OK(synced_mem_resize_discard(mem, SIZE));
    OK(synced_mem_set_cpu_data(mem, borrowed));
    ck_assert(pattern_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release_data(mem));
    OK(synced_mem_retain(mem));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().objects, objects);
}

void use_the_device(const void *unused)
{
    (void)unused;
    if (gpu_start(fixture_schedule()) == 0)
        return;
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
}
