/* Checks faulty allocators of the caller's: tables that are refused, and memory that cannot be used. */
#include "calls.h"
#include "heap.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 5000 };

/* ---- Bad tables ---- */

static void *never_alloc(size_t size, size_t alignment, int on, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)on, (void)stream, (void)user;
    ck_abort_msg("asked for memory through a table that was refused");
    return NULL;
}

static void never_free(void *data, size_t size, size_t alignment, int on, synced_mem_stream stream, void *user)
{
    (void)data, (void)size, (void)alignment, (void)on, (void)stream, (void)user;
    ck_abort_msg("memory was given back through a table that was refused");
}

START_TEST(bad_tables)
{
    static const synced_mem_allocator bad[] = {
        {.struct_size = 0, .alloc = never_alloc, .free = never_free},
        {.struct_size = sizeof bad[0] - 1, .alloc = never_alloc, .free = never_free},
        {.struct_size = sizeof bad[0] + 8, .alloc = never_alloc, .free = never_free},
        {.struct_size = sizeof bad[0], .free = never_free},
        {.struct_size = sizeof bad[0], .alloc = never_alloc},
        {.struct_size = sizeof bad[0], .alloc = never_alloc, .free = never_free, .flags = 2},
        {.struct_size = sizeof bad[0], .alloc = never_alloc, .free = never_free, .flags = ~0u}};
    enum { BAD = sizeof bad / sizeof bad[0] };
    const synced_mem_allocator good = heap_table(&heaps.host, false);
    for (int i = 0; i < 2 * BAD; i++) {
        const synced_mem_allocator *const table = &bad[i / 2];
        synced_mem *mem = (synced_mem *)(void *)&heaps.host;
        synced_mem_options options = default_options();
        options.cpu_allocator = i % 2 ? &good : table;
        options.gpu_allocator = i % 2 ? table : NULL;
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, SIZE, &options));
        ck_assert_ptr_null(mem);
        SAYS("allocator");
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_allocators(options.cpu_allocator, options.gpu_allocator));
    }
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Bad memory ---- */

/* The calls that need memory: 0 to 4 from the host allocator, the others from the device allocator. The object is
 * UNINITIALIZED for 0 to 2, AT_GPU for 4 and 10, otherwise AT_CPU. Calls from 4 on need a GPU. */
enum { GROW = CALLS };
static const int wants[] = {CPU_READ,      CPU_MUTABLE, CPU_OVERWRITE, GROW,       PULL, GPU_READ,
                            GPU_OVERWRITE, ON_MUTABLE,  PUSH,          PUSH_TWICE, GROW, FREE_CPU};
enum { WANTS = sizeof wants / sizeof wants[0], WANTS_ON_THE_HOST = 4 };

static synced_mem_status want(synced_mem *mem, int which, synced_mem_stream stream)
{
    return wants[which] == GROW ? synced_mem_resize(mem, 2 * SIZE) : make_call(mem, wants[which], stream);
}

static bool is_on_the_host(int which)
{
    return which <= 4;
}

static synced_mem *make_in_want(int which)
{
    synced_mem *const mem = heaps_make(SIZE);
    if (which == 4 || which == 10)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 4, NULL);
    else if (which >= 3)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 4);
    return mem;
}

static void check_in_want(synced_mem *mem, int which)
{
    if (which >= 3)
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, which == 6 || which == 7 ? 5 : 4));
}

/* A request that gets no memory is repeated after each step of reclaim. */
enum { TRIES = 4 };

/* One request in a call fails. The object stays as it was, and the next call succeeds. */
static void try_bad(int which, enum heap_fault fault, synced_mem_status expected)
{
    if (which >= WANTS_ON_THE_HOST && !gpu_expected())
        return;
    synced_mem_stream stream = which >= WANTS_ON_THE_HOST ? open_stream(NON_BLOCKING) : NULL;
    struct heap *const heap = is_on_the_host(which) ? &heaps.host : &heaps.device;
    synced_mem *const mem = make_in_want(which);
    const struct facts before = facts_of(mem);
    const size_t live = heap_live(heap);
    heap->fault = fault;
    heap->fails_at = heap->calls + 1;
    heap->more = fault == HEAP_GIVES_NOTHING ? TRIES - 1 : 0;
    FAILS(expected, want(mem, which, stream));
    SAYS(is_on_the_host(which) ? "host allocator" : "device allocator");
    check_unchanged(mem, &before);
    ck_assert_uint_eq(heap_live(heap), live);
    OK(want(mem, which, stream));
    if (which == 6 || which == 7)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 5, stream);
    check_in_want(mem, which);
    OK(synced_mem_release(mem));
    if (which >= WANTS_ON_THE_HOST)
        close_stream(stream);
    heaps_end();
}

START_TEST(no_memory)
{
    try_bad(_i, HEAP_GIVES_NOTHING,
            is_on_the_host(_i) ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
}
END_TEST

START_TEST(misaligned_memory)
{
    try_bad(_i, HEAP_MISALIGNS, SYNCED_MEM_ERR_INVALID_STATE);
}
END_TEST

/* The host allocator returns device memory, and the device allocator host memory. */
START_TEST(memory_of_the_wrong_kind)
{
    synced_mem *const first = make(64);
    if (gpu_expected())
        ck_assert_ptr_nonnull(synced_mem_gpu_data(first));
    OK(synced_mem_release(first));
    if (gpu_expected())
        try_bad(_i, HEAP_CONFUSES, SYNCED_MEM_ERR_INVALID_STATE);
}
END_TEST

START_TEST(memory_of_another_device)
{
    if (devices() < 2)
        return;
    synced_mem *const mem = heaps_make(SIZE);
    heaps.device.fault = HEAP_STRAYS;
    heaps.device.fails_at = 1;
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_uint_eq(heap_live(&heaps.device), 0);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
    heaps_end();
}
END_TEST

START_TEST(absurd_sizes)
{
    const size_t absurd = (size_t)PTRDIFF_MAX - (4 << 20);
    synced_mem *const mem = heaps_make(absurd);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
    ck_assert_uint_eq(heaps.host.asked, absurd);
    if (gpu_expected())
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    OK(synced_mem_resize(mem, 100));
    ck_assert(host_is(synced_mem_cpu_data(mem), 100, 0));
    OK(synced_mem_release(mem));
    heaps_end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("bad_allocator");
    TCase *const bad = add_case(made, "bad");
    add_tests(bad, bad_tables, memory_of_another_device, absurd_sizes);
    tcase_add_loop_test(bad, no_memory, 0, WANTS);
    tcase_add_loop_test(bad, misaligned_memory, 0, WANTS);
    tcase_add_loop_test(bad, memory_of_the_wrong_kind, 0, WANTS);
    return made;
}
