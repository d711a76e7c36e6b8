/* Checks unified placement on different machines: the properties and the memory of devices, hints, and failures. */
#include "break_device.h"
#include "fixture.h"

#include "base/status.h"
#include "cudart_emu.h"
#include "memory/managed_pool.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 20000, MIB = 1 << 20 };

#define MAPPED SYNCED_MEM_PLACEMENT_MAPPED
#define MANAGED SYNCED_MEM_PLACEMENT_MANAGED
#define AUTOMATIC SYNCED_MEM_PLACEMENT_AUTOMATIC
#define SEPARATE SYNCED_MEM_PLACEMENT_SEPARATE

static const synced_mem_placement_kind kinds[] = {MAPPED, MANAGED};

static synced_mem *make_placed(size_t size, synced_mem_placement_kind placement)
{
    return make_placed_on(size, placement, SYNCED_MEM_DEVICE_CURRENT);
}

static void fill_on(synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    void *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_fill(data, synced_mem_size(mem), pattern, stream);
}

/* ---- Properties of devices ---- */

/* Sets three attributes by bits: integrated 1, managed 2, concurrent 4. */
static void set_machine(int bits)
{
    for (int device = 0; device < 4; device++) {
        emu_set_attribute(device, cudaDevAttrIntegrated, bits & 1);
        emu_set_attribute(device, cudaDevAttrManagedMemory, bits >> 1 & 1);
        emu_set_attribute(device, cudaDevAttrConcurrentManagedAccess, bits >> 2 & 1);
    }
}

/* Either side may make the first access. */
START_TEST(automatic)
{
    const int bits = _i / 2;
    const synced_mem_placement_kind expected = !(bits & 1) ? SEPARATE : bits == 7 ? MANAGED : MAPPED;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_machine(bits);
    synced_mem *const mem = make_placed(SIZE, AUTOMATIC);
    ck_assert_int_eq(synced_mem_placement(mem), AUTOMATIC);
    if (_i % 2)
        fill_on(mem, 1, stream);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert_int_eq(synced_mem_placement(mem), expected);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    ck_assert_int_eq(synced_mem_cpu_data(mem) == synced_mem_gpu_data(mem), expected != SEPARATE);
    ck_assert_uint_eq(stats_now().h2d_transfers + stats_now().d2h_transfers, expected == SEPARATE);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* Memory of the caller's needs an object that is separate. It settles the placement, or is refused. */
START_TEST(automatic_and_the_callers_memory)
{
    static char host[SIZE];
    set_machine(_i);
    synced_mem *const mem = make_placed(SIZE, AUTOMATIC);
    if (_i & 1) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_cpu_data(mem, host));
        ck_assert_int_eq(synced_mem_placement(mem), AUTOMATIC);
    } else {
        emu_fail("cudaDeviceGetAttribute", 1, cudaErrorUnknown, false);
        FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_set_cpu_data(mem, host));
        ck_assert_int_eq(synced_mem_placement(mem), AUTOMATIC);
        OK(synced_mem_set_cpu_data(mem, host));
        ck_assert_int_eq(synced_mem_placement(mem), SEPARATE);
        set_machine(7);
        OK(synced_mem_release_data(mem));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_DEVICE);
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(managed_refused)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_machine(_i);
    synced_mem *const mem = make_placed(SIZE, MANAGED);
    if (_i < 6) {
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(mem));
        SAYS("concurrentManagedAccess is 0");
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_gpu_data(mem));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_gpu_data_on(mem, stream));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
        ck_assert_uint_eq(emu_calls("cudaMallocManaged"), 0);
    } else {
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    }
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* A device that does not exist shares no memory. The host copy is pageable memory of its own. */
START_TEST(no_such_device)
{
    synced_mem *const mem = make_placed_on(SIZE, kinds[_i], 77);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
}
END_TEST

/* The linker puts the wrapper in place of the runtime's function (--wrap). */
static bool elsewhere;
cudaError_t __real_cudaHostGetDevicePointer(void **there, void *host, unsigned flags);
cudaError_t __wrap_cudaHostGetDevicePointer(void **there, void *host, unsigned flags);
cudaError_t __wrap_cudaHostGetDevicePointer(void **there, void *host, unsigned flags)
{
    const cudaError_t code = __real_cudaHostGetDevicePointer(there, host, flags);
    if (code == cudaSuccess && elsewhere)
        *there = (char *)host + 4096;
    return code;
}

START_TEST(mapped_elsewhere)
{
    synced_mem *const mem = make_placed(SIZE, MAPPED);
    elsewhere = true;
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(mem));
    SAYS("at another address");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_int_eq(synced_mem_placement(mem), MAPPED);
    elsewhere = false;
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- The limit of managed memory ---- */

START_TEST(never_more_than_the_device_has)
{
    synced_mem *objects[8];
    emu_set_device_memory(0, 16 * MIB);
    void *const others = gpu_alloc(0, 4 * MIB);
    int made = 0;
    for (int i = 0; i < 8; i++) {
        objects[i] = make_placed(2 * MIB, MANAGED);
        if (!synced_mem_cpu_data(objects[i])) {
            ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
            SAYS("managed memory");
            continue;
        }
        made++;
        host_fill(synced_mem_mutable_cpu_data(objects[i]), 2 * MIB, 1);
        ck_assert_ptr_nonnull(synced_mem_gpu_data(objects[i]));
    }
    /* An unknown part of the device memory in use may be the library's own managed memory. */
    ck_assert_int_le(made, 8);
    ck_assert_uint_le(stats_now().managed_bytes, 16 * MIB);
    gpu_free(others);
    release_all(objects, 8);
}
END_TEST

/* On an otherwise unused device the limit is the device's memory, to the byte. */
START_TEST(as_much_as_the_device_has)
{
    synced_mem *objects[4];
    emu_set_device_memory(0, 8 * MIB);
    for (int i = 0; i < 4; i++) {
        objects[i] = make_placed(2 * MIB, MANAGED);
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(objects[i]));
    }
    synced_mem *const more = make_placed(1, MANAGED);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_cpu_data(more));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(more));
    /* Memory that is kept for another size is freed first. */
    OK(synced_mem_release(objects[0]));
    ck_assert_uint_eq(stats_now().managed_bytes, 8 * MIB);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(more));
    ck_assert_uint_lt(stats_now().managed_bytes, 7 * MIB);
    for (int i = 1; i < 4; i++)
        OK(synced_mem_release(objects[i]));
    OK(synced_mem_release(more));
}
END_TEST

START_TEST(beside_what_others_have)
{
    emu_set_device_memory(0, 8 * MIB);
    void *const others = gpu_alloc(0, 5 * MIB);
    synced_mem *const mem = make_placed(4 * MIB, MANAGED);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_cpu_data(mem));
    gpu_free(others);
    ck_assert(host_is(synced_mem_cpu_data(mem), 4 * MIB, 0));
    OK(synced_mem_release(mem));
}
END_TEST

/* Memory that the library's own pool has reserved is never counted as managed memory. */
START_TEST(beside_the_pool)
{
    emu_set_device_memory(0, 16 * MIB);
    synced_mem *const separate = make_on(8 * MIB, 0);
    synced_mem *const first = make_placed(6 * MIB, MANAGED);
    synced_mem *const second = make_placed(4 * MIB, MANAGED);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(separate));
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(first));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_cpu_data(second));
    SAYS("6291456 bytes managed");
    OK(synced_mem_resize_discard(second, 2 * MIB));
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(second));
    OK(synced_mem_release_data(second));
    OK(synced_mem_release(separate));
    gpu_sync_device(0);
    OK(synced_mem_resize_discard(second, 10 * MIB)); /* after a trim of the pool */
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(second));
    RELEASE_EACH(first, second);
}
END_TEST

START_TEST(no_page_locked_memory)
{
    emu_set_pinned_memory(MIB);
    synced_mem *const mem = make_placed(2 * MIB, MAPPED);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_gpu_data(mem));
    OK(synced_mem_resize_discard(mem, SIZE));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_resize(mem, 2 * MIB));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Memory kept for reuse ---- */

START_TEST(kept_and_given_back)
{
    synced_mem *const first = make_placed(MIB, MANAGED);
    const void *const data = synced_mem_cpu_data(first);
    OK(synced_mem_release(first));
    ck_assert_uint_eq(emu_calls("cudaFree"), 0);
    synced_mem *const again = make_placed(MIB - 100, MANAGED);
    ck_assert_ptr_eq(synced_mem_cpu_data(again), data);
    ck_assert_uint_eq(emu_calls("cudaMallocManaged"), 1);
    OK(synced_mem_release(again));
    ck_assert_uint_eq(stats_now().managed_bytes, MIB);
    ck_assert(sm_managed_pool_reclaim());
    ck_assert_uint_eq(stats_now().managed_bytes, 0);
    ck_assert(!sm_managed_pool_reclaim());
    ck_assert_uint_eq(emu_live(EMU_MANAGED), 0);
}
END_TEST

/* A request is refused, and kept memory cannot be freed. The detail is the request's. */
START_TEST(refused_beside_kept_memory)
{
    void *data;
    OK(sm_managed_pool_alloc(0, MIB, &data));
    sm_managed_pool_free(0, data, MIB);
    emu_fail("cudaMallocManaged", 1, cudaErrorMemoryAllocation, false);
    emu_fail("cudaFree", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(sm_managed_pool_alloc(0, 3 * MIB, &data), SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
    ck_assert_uint_eq(emu_failures(), 2);
    ck_assert_ptr_nonnull(strstr(sm_detail_get().text, "cudaMallocManaged"));
}
END_TEST

/* Memory is kept for each device and each size. */
START_TEST(kept_for_its_like)
{
    void *first, *second, *third;
    OK(sm_managed_pool_alloc(0, MIB, &first));
    sm_managed_pool_free(0, first, MIB);
    OK(sm_managed_pool_alloc(1, MIB, &second));
    OK(sm_managed_pool_alloc(0, 3 * MIB, &third));
    ck_assert_uint_eq(emu_live(EMU_MANAGED), 3);
    sm_managed_pool_free(1, second, MIB);
    sm_managed_pool_free(0, third, 3 * MIB);
    ck_assert_uint_eq(emu_live(EMU_MANAGED), 3);
}
END_TEST

enum { MANY = 70 };

/* The number of blocks kept is limited. A block that cannot be freed either is quarantined. */
START_TEST(kept_up_to_a_limit)
{
    void *data[MANY];
    for (int i = 0; i < MANY; i++)
        OK(sm_managed_pool_alloc(0, SIZE, &data[i]));
    for (int i = 0; i < MANY - 1; i++)
        sm_managed_pool_free(0, data[i], SIZE);
    ck_assert_uint_eq(emu_live(EMU_MANAGED), 64 + 1);
    if (_i == 0) {
        sm_managed_pool_free(0, data[MANY - 1], SIZE);
        ck_assert_uint_eq(emu_live(EMU_MANAGED), 64);
        return;
    }
    emu_fail("cudaFree", 1, cudaErrorUnknown, false);
    sm_managed_pool_free(0, data[MANY - 1], SIZE);
    ck_assert_uint_eq(stats_now().quarantined, 1);
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(emu_live(EMU_MANAGED), 1);
    emu_reset(0);
    exit(EXIT_SUCCESS);
}
END_TEST

START_TEST(the_shutdown_is_tried_again)
{
    void *data;
    OK(sm_managed_pool_alloc(0, SIZE, &data));
    sm_managed_pool_free(0, data, SIZE);
    emu_fail("cudaFree", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_shutdown());
    ck_assert_uint_eq(emu_live(EMU_MANAGED), 1);
    OK(synced_mem_shutdown());
}
END_TEST

/* ---- Hints ---- */

/* Hints are given where the contents change sides, and only there. */
START_TEST(prefetches)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    const unsigned each = kinds[_i] == MANAGED;
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert_uint_eq(emu_calls("cudaMemAdvise"), each);
    for (unsigned round = 0; round < 4; round++) {
        ck_assert_uint_eq(stats_now().prefetches, 4 * each * round);
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        ck_assert_uint_eq(stats_now().prefetches, 4 * each * round + each);
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, round, stream);
        ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, round));
        ck_assert_uint_eq(stats_now().prefetches, 4 * each * round + 2 * each);
        OK(synced_mem_async_gpu_push(mem, stream));
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, round, stream);
        OK(synced_mem_async_cpu_pull(mem, stream));
        ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, round));
    }
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* An access succeeds even if a hint fails. */
START_TEST(hints_that_fail)
{
    static const char *const calls[] = {"cudaMemAdvise", "cudaMemPrefetchAsync", "cudaEventRecord"};
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_placed(SIZE, MANAGED);
    if (_i < 2)
        emu_fail(calls[_i], 1, cudaErrorInvalidValue, false);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    fill_on(mem, 2, stream);
    OK(synced_mem_end_use_on(mem, stream));
    if (_i > 0)
        emu_fail(calls[_i], 1, cudaErrorInvalidValue, false);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert_uint_eq(emu_failures(), 1);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_OK);
    emu_fail_clear();
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* A fill is untracked. The host may not overwrite the shared memory, which has the device's contents. */
START_TEST(a_fill_out_of_sight)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    fill_on(mem, 1, stream);
    OK(synced_mem_end_use_on(mem, stream));
    OK(synced_mem_resize(mem, SIZE / 2));
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_resize(mem, SIZE));
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_overwrite_cpu_data(mem));
    SAYS("is unknown");
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE / 2, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* ---- A device that breaks ---- */

static void check_let_go(synced_mem *mem)
{
    OK(synced_mem_release(mem));
    (void)synced_mem_shutdown();
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.objects + stats.retired + stats.pinned_bytes + stats.managed_bytes, 0);
    emu_reset(0);
}

/* The host keeps its contents, also beside a stream that reads. */
START_TEST(host_contents_stay)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_placed(SIZE, kinds[_i / 2]);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    if (_i % 2)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    const synced_mem_head_kind head = synced_mem_head(mem);
    break_device();
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_gpu_data_on(mem, stream));
    if (head == SYNCED_MEM_AT_CPU)
        FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), head);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    check_let_go(mem);
}
END_TEST

/* The host cannot read the contents of a lost kernel. An overwrite by the host makes the object usable again. */
START_TEST(contents_that_never_come)
{
    enum { STILL_OPEN, PULLED, DONE } how = _i % 3;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_placed(SIZE, kinds[_i / 3]);
    void *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
    ck_assert_ptr_nonnull(data);
    emu_break_device(0, cudaErrorLaunchFailure);
    gpu_fill(data, SIZE, 1, stream);
    if (how != STILL_OPEN) {
        const synced_mem_status status =
            how == PULLED ? synced_mem_async_cpu_pull(mem, stream) : synced_mem_end_use_on(mem, stream);
        if (status != SYNCED_MEM_OK)
            FAILS(SYNCED_MEM_ERR_DEVICE_LOST, status);
    }
    for (int i = 0; i < 3; i++) {
        FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
        FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_cpu_data(mem));
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_release_gpu_data(mem));
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_resize(mem, 2 * SIZE));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    }
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 2);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    check_let_go(mem);
}
END_TEST

/* Without a device, a new object has host memory only. */
START_TEST(made_after_that)
{
    emu_set_machine(EMU_UNLOADING);
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    ck_assert_int_eq(synced_mem_placement(mem), SEPARATE);
    check_let_go(mem);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("managed");
    TCase *const machines = add_case(made, "machines");
    tcase_add_test(machines, mapped_elsewhere);
    tcase_add_loop_test(machines, automatic, 0, 16);
    tcase_add_loop_test(machines, automatic_and_the_callers_memory, 0, 8);
    tcase_add_loop_test(machines, managed_refused, 0, 8);
    tcase_add_loop_test(machines, no_such_device, 0, 2);
    TCase *const memory = add_case(made, "memory");
    add_tests(memory, never_more_than_the_device_has, as_much_as_the_device_has, beside_what_others_have,
              beside_the_pool, no_page_locked_memory);
    TCase *const kept = add_case(made, "kept");
    add_tests(kept, kept_and_given_back, kept_for_its_like, refused_beside_kept_memory, the_shutdown_is_tried_again);
    tcase_add_loop_test(kept, kept_up_to_a_limit, 0, 2);
    TCase *const hints = add_case(made, "hints");
    tcase_add_loop_test(hints, prefetches, 0, 2);
    tcase_add_loop_test(hints, hints_that_fail, 0, 3);
    tcase_add_loop_test(hints, a_fill_out_of_sight, 0, 2);
    TCase *const lost = add_case_without_end(made, "lost");
    tcase_add_loop_test(lost, host_contents_stay, 0, 4);
    tcase_add_loop_test(lost, contents_that_never_come, 0, 6);
    tcase_add_loop_test(lost, made_after_that, 0, 2);
    return made;
}
