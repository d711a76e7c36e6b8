/* The checks of the library without a usable GPU. */
#include "cpu_only.h"

enum { SIZE = 5000 };

static void never(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    ck_abort_msg("a callback for memory that was not adopted");
}

static void check_gpu_calls(synced_mem *mem, synced_mem_status expected)
{
    char *memory = (char *)(void *)mem;
    const struct facts before = facts_of(mem);
    FAILS_NULL(expected, synced_mem_gpu_data(mem));
    FAILS_NULL(expected, synced_mem_mutable_gpu_data(mem));
    FAILS_NULL(expected, synced_mem_overwrite_gpu_data(mem));
    FAILS_NULL(expected, synced_mem_gpu_data_on(mem, NULL));
    FAILS_NULL(expected, synced_mem_mutable_gpu_data_on(mem, NULL));
    FAILS_NULL(expected, synced_mem_overwrite_gpu_data_on(mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(mem, NULL));
    FAILS(expected, synced_mem_end_use_on(mem, NULL));
    OK(synced_mem_wait(mem));
    if (before.head == SYNCED_MEM_AT_CPU) {
        FAILS(expected, synced_mem_async_gpu_push(mem, NULL));
        FAILS(expected, synced_mem_release_cpu_data(mem));
    } else {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, NULL));
    }
    if (synced_mem_device_count() == 0) {
        FAILS(expected, synced_mem_set_gpu_data(mem, memory));
        FAILS(expected, USE(mem, .cpu_data = memory + 8, .gpu_data = memory));
        FAILS(expected, USE(mem, .gpu_data = memory, .callback = never));
        FAILS(expected, USE(mem, .cpu_data = memory + 8, .gpu_data = memory, .callback = never));
    }
    OK(synced_mem_release_gpu_data(mem));
    check_unchanged(mem, &before);
}

void check_cpu_only(int device_of_objects, synced_mem_status expected)
{
    static char borrowed[SIZE];
    synced_mem *const mem = device_of_objects < 0 ? make(SIZE) : make_on(SIZE, device_of_objects);
    check_gpu_calls(mem, expected);
    const void *const data = synced_mem_cpu_data(mem);
    ck_assert(host_is(data, SIZE, 0));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    check_gpu_calls(mem, expected);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), data);
    ck_assert(host_is(data, SIZE, 1));
    pattern_write(borrowed, SIZE, 2);
    OK(synced_mem_set_cpu_data(mem, borrowed));
    check_gpu_calls(mem, expected);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release_data(mem));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 3);
    check_gpu_calls(mem, expected);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    ck_assert_uint_eq(stats_now().pinned_bytes, 0);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
}
