/* Checks the caller's memory and allocators where calls of the runtime fail, or the device is unusual or lost. */
#include "fixture.h"
#include "heap.h"

#include "cudart_emu.h"
#include "object/object.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 5000 };

static void use_a_device(void)
{
    synced_mem *const mem = make(64);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
}

/* ---- The kind of the memory ---- */

/* Without concurrent managed access, managed memory serves as device memory only: the host may not touch it beside
 * kernels. */
START_TEST(managed_memory_that_is_not_concurrent)
{
    void *const managed = gpu_managed_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    emu_set_attribute(0, cudaDevAttrConcurrentManagedAccess, 0);
    use_a_device();
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, managed));
    SAYS("managed");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = managed, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    check_unchanged(mem, &before);
    OK(synced_mem_set_gpu_data(mem, managed));
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    gpu_free(managed);
}
END_TEST

/* Memory counts as pageable if the runtime cannot report its kind. Each later call queries again. */
START_TEST(the_runtime_does_not_say)
{
    static const char *const calls[] = {"cudaPointerGetAttributes", "cudaPointerGetAttributes", "cudaGetDevice",
                                        "cudaThreadExchangeStreamCaptureMode"};
    void *const mine = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make(SIZE);
    use_a_device();
    emu_fail(calls[_i], _i == 1 ? 2 : 1, cudaErrorUnknown, false);
    OK(synced_mem_set_cpu_data(mem, mine));
    ck_assert_uint_eq(emu_failures(), 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    emu_fail("cudaPointerGetAttributes", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    emu_fail("cudaPointerGetAttributes", 1, cudaErrorUnknown, false);
    OK(synced_mem_async_gpu_push(mem, NULL));
    OK(synced_mem_release(mem));
    gpu_pinned_free(mine);
}
END_TEST

/* Device memory is refused if the runtime cannot report its kind. */
START_TEST(the_runtime_does_not_say_of_device_memory)
{
    void *const mine = gpu_alloc(0, SIZE);
    void *const managed = gpu_managed_alloc(0, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    emu_fail("cudaPointerGetAttributes", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_set_gpu_data(mem, mine));
    emu_fail("cudaDeviceGetAttribute", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_set_gpu_data(mem, managed));
    check_unchanged(mem, &before);
    OK(synced_mem_release(mem));
    gpu_free(managed);
    gpu_free(mine);
}
END_TEST

/* ---- Page-locking ---- */

START_TEST(page_locking_is_refused)
{
    void *const mine = malloc(SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 4);
    const struct facts before = facts_of(mem);
    emu_set_pinned_memory(SIZE);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    SAYS("5000 bytes");
    emu_set_pinned_memory(1 << 20);
    emu_fail("cudaHostRegister", 1, cudaErrorNotSupported, false);
    FAILS(SYNCED_MEM_ERR_CUDA, USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    check_unchanged(mem, &before);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    OK(USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    OK(synced_mem_release(mem));
    free(mine);
}
END_TEST

/* Memory that the process can't write is page-locked for reading, unless the device can't do that. */
START_TEST(page_locking_of_read_only_memory)
{
    enum { BOTH = SYNCED_MEM_MEMORY_PAGE_LOCK | SYNCED_MEM_MEMORY_READ_ONLY };
    void *const file = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    synced_mem *const mem = make_at_cpu(SIZE, 4), *const other = make_at_cpu(SIZE, 5);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_CUDA, USE(mem, .cpu_data = file, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    emu_fail("cudaHostRegister", 2, cudaErrorNotSupported, false);
    FAILS(SYNCED_MEM_ERR_CUDA, USE(mem, .cpu_data = file, .flags = BOTH));
    SAYS("the memory is read-only, and can't be page-locked for reading: ");
    SAYS("cudaErrorNotSupported");
    check_unchanged(mem, &before);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    OK(USE(mem, .cpu_data = file, .flags = BOTH));
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 1);
    OK(synced_mem_set_cpu_data(other, file)); /* a transfer may write it, so the runtime must not get the pointer */
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 0));
    ck_assert(device_is(synced_mem_gpu_data(other), SIZE, 0));
    ck_assert(sm_copy_of(&mem->record, SM_CPU)->pinned);
    ck_assert(!sm_copy_of(&other->record, SM_CPU)->pinned);
    OK(synced_mem_release(other));
    const unsigned locked = (unsigned)emu_live(EMU_REGISTERED); /* with a buffer of the library's */
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), locked - 1);
    ck_assert_int_eq(munmap(file, SIZE), 0);
}
END_TEST

/* A page lock is undone if the object cannot take the memory. */
START_TEST(page_locked_for_nothing)
{
    void *const mine = malloc(SIZE);
    void *const borrowed = gpu_pinned_alloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_set_cpu_data(mem, borrowed));
    OK(synced_mem_async_gpu_push(mem, stream));
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), borrowed);
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 0);
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_pinned_free(borrowed);
    free(mine);
}
END_TEST

/* The memory returns to the caller even if cudaHostUnregister fails. It can be page-locked once more. */
START_TEST(undoing_it_is_refused)
{
    void *const mine = malloc(SIZE);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    emu_fail("cudaHostUnregister", 1, cudaErrorUnknown, false);
    emu_fail("cudaHostUnregister", 2, cudaErrorUnknown, false);
    OK(synced_mem_release_data(mem));
    ck_assert_uint_eq(emu_live(EMU_REGISTERED), 1);
    OK(USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    OK(synced_mem_release(mem));
    gpu_unregister(mine);
    free(mine);
}
END_TEST

/* ---- A device that is lost ---- */

START_TEST(a_lost_device)
{
    void *const mine = malloc(SIZE);
    void *const seen = malloc(SIZE);
    synced_mem *const mem = make(SIZE);
    synced_mem *const other = heaps_make(SIZE);
    pattern_write(mine, SIZE, 1);
    OK(USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(other));
    host_fill(synced_mem_overwrite_cpu_data(other), SIZE, 2);
    emu_break_device(0, cudaErrorIllegalAddress);
    (void)gpu_try_fill(gpu_pinned_alloc(64), 64, 1, NULL);
    emu_run_all();
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_set_cpu_data(mem, seen));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 0);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, USE(mem, .cpu_data = mine, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    OK(synced_mem_release(mem));
    heaps.device.silent = true;
    OK(synced_mem_release(other));
    ck_assert_uint_eq(heap_live(&heaps.device), 0);
    ck_assert_uint_eq(heap_live(&heaps.host), 0);
    ck_assert_ptr_null(heaps.device.freed_on);
    (void)synced_mem_shutdown();
    emu_reset(0);
    free(mine);
    free(seen);
}
END_TEST

/* ---- Allocators ---- */

/* No event can be recorded behind an allocation. The access synchronizes the stream, and fails if that fails too. */
START_TEST(no_event_behind_an_allocation)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = heaps_make(SIZE);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    if (_i > 0)
        emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    if (_i == 0)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    else
        FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data_on(mem, stream));
    emu_fail_clear();
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    OK(synced_mem_release(mem));
    close_stream(stream);
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(stats_now().quarantined, (uint64_t)_i);
    ck_assert_uint_eq(heap_live(&heaps.device), (unsigned)_i);
}
END_TEST

/* The memory goes back in a later call if its free cannot be ordered behind the work now. */
START_TEST(given_back_later)
{
    synced_mem *const mem = heaps_make(SIZE);
    gpu_fill(synced_mem_overwrite_gpu_data(mem), SIZE, 1, NULL);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaEventRecord", 2, cudaErrorUnknown, false);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(heap_live(&heaps.device), 1);
    OK(synced_mem_reap());
    ck_assert_uint_eq(heap_live(&heaps.device), 0);
    ck_assert_ptr_nonnull(heaps.device.freed_on);
    heaps_end();
}
END_TEST

/* An access on a capturing stream fails without a call of the allocator. */
START_TEST(not_while_it_captures)
{
    cudaGraph_t graph = NULL;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = heaps_make(SIZE);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data_on(mem, stream));
    ck_assert_uint_eq(heaps.device.calls, 0);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* A resize fails if the internal stream for larger memory cannot be created. */
START_TEST(growth_without_a_lane)
{
    synced_mem *const mem = heaps_make(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    emu_fail("cudaStreamCreateWithFlags", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_resize(mem, 2 * SIZE));
    OK(synced_mem_resize(mem, 2 * SIZE));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    heaps_end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("callers");
    TCase *const memory = add_case(made, "memory");
    add_tests(memory, managed_memory_that_is_not_concurrent, the_runtime_does_not_say_of_device_memory,
              page_locking_is_refused, page_locking_of_read_only_memory, page_locked_for_nothing,
              undoing_it_is_refused);
    tcase_add_loop_test(memory, the_runtime_does_not_say, 0, 4);
    TCase *const left = add_case_without_end(made, "left");
    tcase_add_test(left, a_lost_device);
    tcase_add_loop_test(left, no_event_behind_an_allocation, 0, 2);
    TCase *const allocators = add_case(made, "allocators");
    add_tests(allocators, given_back_later, not_while_it_captures, growth_without_a_lane);
    return made;
}
