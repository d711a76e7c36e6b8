/* The modules below the interface, called directly: records, host memory, fences, copies, and the seam's contract. */
#include "fixture.h"

#include "object/access.h"
#include "copy/copy.h"
#include "device/device.h"
#include "copy/inflight.h"
#include "memory/host_memory.h"
#include "base/slab.h"
#include "api/report.h"
#include "base/status.h"
#include "stream/stream_record.h"
#include "stream/fence.h"

#include <stdint.h>
#include <string.h>

/* ---- Records ---- */

struct cell {
    char bytes[56];
    void *link;
};

START_TEST(slab)
{
    enum { MANY = 10000 }; /* more than go about in batches */
    static struct sm_slab cells = SM_SLAB_INITIALIZER(struct cell);
    struct cell *taken[MANY];
    for (int i = 0; i < MANY; i++) {
        taken[i] = sm_slab_take(&cells);
        ck_assert_ptr_nonnull(taken[i]);
        ck_assert(pattern_is(taken[i], sizeof *taken[i], 0));
        pattern_write(taken[i]->bytes, sizeof taken[i]->bytes, (unsigned)i + 1);
    }
    ck_assert_uint_ge(cells.cells.used, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert(pattern_is(taken[i]->bytes, sizeof taken[i]->bytes, (unsigned)i + 1));
    sm_slab_trim(&cells);
    ck_assert(pattern_is(taken[0]->bytes, sizeof taken[0]->bytes, 1));
    sm_slab_give(&cells, taken[5]);
    ck_assert(pattern_is(taken[5]->bytes, sizeof taken[5]->bytes, 6));
    ck_assert_ptr_eq(sm_slab_take(&cells), taken[5]);
    for (int i = 0; i < MANY; i++)
        sm_slab_give(&cells, taken[i]);
    sm_slab_trim(&cells);
    ck_assert_ptr_null(cells.cells.chunks);
    ck_assert_ptr_null(cells.cells.free);
    struct cell *const again = sm_slab_take(&cells);
    ck_assert(pattern_is(again, sizeof *again, 0));
    sm_slab_give(&cells, again);
    sm_slab_trim(&cells);
}
END_TEST

START_TEST(host_memory)
{
    static const size_t sizes[] = {1, 100, 65536, (1 << 25) - 1, 1 << 25};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t alignment = sizeof(void *); alignment <= 4096; alignment *= 2) {
            void *const data = sm_host_memory_alloc(sizes[i], alignment, true);
            ck_assert_ptr_nonnull(data);
            ck_assert_uint_eq((uintptr_t)data % alignment, 0);
            ck_assert(pattern_is(data, sizes[i], 0));
            pattern_write(data, sizes[i], 1);
            sm_host_memory_free(data, sizes[i]);
        }
    }
    ck_assert_ptr_null(sm_host_memory_alloc((size_t)PTRDIFF_MAX - 4096, 64, true));
    ck_assert_ptr_null(sm_host_memory_alloc((size_t)PTRDIFF_MAX - 4096, 64, false));
}
END_TEST

/* ---- Fences ---- */

START_TEST(no_fence)
{
    ck_assert_int_eq(sm_fence_state(NULL), SM_FENCE_DONE);
    ck_assert(!sm_fence_pending(NULL));
    OK(sm_fence_wait(NULL));
    OK(sm_stream_wait(sm_stream_any(0), NULL));
    sm_fence_drop(NULL);
}
END_TEST

enum { THE_STREAM = 1000000 };

START_TEST(one_fence)
{
    struct sm_fence *first = NULL;
    int device;
    if (!gpu_expected())
        return;
    OK(sm_device_resolve(0, &device));
    synced_mem_stream stream = gpu_stream_create(0, false);
    gpu_delay(stream);
    OK(sm_fence_record(0, stream, THE_STREAM, &first));
    ck_assert_ptr_eq(sm_fence_hold(first), first);
    OK(sm_fence_wait(first));
    ck_assert_int_eq(sm_fence_state(first), SM_FENCE_DONE);
    ck_assert(!sm_fence_pending(first));
    OK(sm_fence_wait(first));
    ck_assert_uint_eq(stats_now().host_waits, 1);
    sm_fence_drop(first);
    struct sm_fence *second = NULL;
    OK(sm_fence_record(0, stream, THE_STREAM, &second));
    ck_assert_ptr_ne(second, first);
    sm_fence_drop(first);
    struct sm_fence *third = NULL;
    OK(sm_fence_record(0, stream, THE_STREAM, &third));
    ck_assert_ptr_eq(third, first);
    ck_assert_uint_eq(stats_now().events, 2);
    ck_assert_uint_eq(stats_now().event_records, 3);
    while (sm_fence_pending(second))
        continue;
    ck_assert_int_eq(sm_fence_state(second), SM_FENCE_DONE);
    sm_fence_drop(second);
    OK(sm_fence_wait(third));
    sm_fence_drop(third);
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

/* A stream waits for what is pending on another one, and for nothing else. */
static synced_mem_status say_why(struct sm_host_work *work, const struct sm_fence *fence)
{
    (void)work;
    ck_assert_int_eq(sm_fence_state(fence), SM_FENCE_LOST);
    return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
}

static int dropped;

static void drop(struct sm_host_work *work)
{
    (void)work;
    dropped++;
}

/* Who comes to wait when the work of the library's threads has failed already is told why. */
START_TEST(work_of_threads_fails)
{
    struct sm_host_work work = {.finish = say_why, .drop = drop};
    struct sm_fence *fence = NULL;
    int device;
    if (!gpu_expected())
        return;
    OK(sm_device_resolve(0, &device));
    OK(sm_fence_open(0, THE_STREAM, &work, &fence));
    ck_assert(sm_fence_pending(fence));
    sm_fence_close(fence, SM_FENCE_LOST, false);
    ck_assert_int_eq(sm_fence_wait(fence), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    ck_assert(!sm_fence_pending(fence));
    sm_fence_drop(fence);
    ck_assert_int_eq(dropped, 1);
}
END_TEST

START_TEST(streams_wait)
{
    struct sm_fence *fence = NULL;
    struct sm_stream *stream = NULL;
    struct sm_stream *other = NULL;
    if (!gpu_expected())
        return;
    synced_mem_stream handle = gpu_stream_create(0, false);
    OK(sm_stream_find(0, handle, &stream));
    OK(sm_internal_stream(0, SM_INTERNAL_H2D, &other));
    gpu_delay(handle);
    OK(sm_stream_queued(stream, &fence));
    OK(sm_stream_wait(stream, fence));
    ck_assert_uint_eq(stats_now().stream_waits, 0);
    OK(sm_stream_wait(other, fence));
    ck_assert_uint_eq(stats_now().stream_waits, 1);
    OK(sm_fence_wait(fence));
    OK(sm_stream_wait(other, fence));
    ck_assert_uint_eq(stats_now().stream_waits, 1);
    sm_fence_drop(fence);
    sm_stream_drop(stream);
    OK(synced_mem_forget_stream(handle));
    gpu_stream_destroy(handle);
}
END_TEST

/* ---- Streams ---- */

/* One record to a stream, for as long as it is known; the next stream with its handle gets another. */
START_TEST(records_of_streams)
{
    struct sm_stream *first = NULL;
    struct sm_stream *again = NULL;
    if (!gpu_expected())
        return;
    synced_mem_stream handle = gpu_stream_create(0, false);
    OK(sm_stream_find(SYNCED_MEM_DEVICE_CURRENT, handle, &first));
    OK(sm_stream_find(0, handle, &again));
    ck_assert_ptr_eq(first, again);
    ck_assert_int_eq(first->device, 0);
    ck_assert(sm_stream_can_be_hot(first));
    ck_assert(!sm_stream_is_over(first));
    sm_stream_drop(again);
    OK(synced_mem_forget_stream(handle));
    ck_assert(sm_stream_is_over(first));
    ck_assert_ptr_eq(first->hot, SM_NO_HANDLE);
    OK(sm_stream_find(0, handle, &again));
    ck_assert_ptr_ne(first, again);
    ck_assert_uint_ne(first->serial, again->serial);
    sm_stream_drop(first);
    sm_stream_drop(again);
    OK(synced_mem_forget_stream(handle));
    gpu_stream_destroy(handle);
}
END_TEST

/* Both handles of the legacy stream mean one and the same, on each device another. */
static struct sm_stream *new_record(enum sm_stream_kind kind)
{
    struct sm_stream *const stream = sm_stream_record_take();
    ck_assert_ptr_nonnull(stream);
    sm_stream_describe(stream, kind, 0, SM_NO_HANDLE);
    sm_mutex_init(&stream->lock);
    return stream;
}

/* One that a thread on the hot path may have in its hands does not soon become another stream's. */
START_TEST(records_used_again)
{
    enum { MANY = 4096 };
    struct sm_stream *const first = new_record(SM_STREAM_CREATED);
    sm_stream_record_give(first);
    for (int i = 0; i < MANY; i++) {
        struct sm_stream *const other = new_record(SM_STREAM_CREATED);
        ck_assert_ptr_ne(other, first);
        sm_stream_record_give(other);
    }
    ck_assert_ptr_eq(sm_stream_record_take(), first);
    struct sm_stream *const of_a_thread = new_record(SM_STREAM_PER_THREAD);
    sm_stream_record_give(of_a_thread);
    ck_assert_ptr_eq(new_record(SM_STREAM_PER_THREAD), of_a_thread);
    sm_stream_record_give(of_a_thread);
    sm_stream_record_give(first);
}
END_TEST

START_TEST(legacy_stream)
{
    struct sm_stream *legacy = NULL;
    struct sm_stream *again = NULL;
    if (!gpu_expected())
        return;
    OK(sm_stream_find(0, NULL, &legacy));
    OK(sm_stream_find(0, SM_HANDLE_LEGACY, &again));
    ck_assert_ptr_eq(legacy, again);
    ck_assert_ptr_ne(legacy, sm_stream_any(0));
    if (devices() > 1) {
        OK(sm_stream_find(1, NULL, &again));
        ck_assert_ptr_ne(legacy, again);
    }
    OK(synced_mem_forget_stream(NULL));
    OK(synced_mem_forget_stream(SM_HANDLE_LEGACY));
}
END_TEST

/* ---- Copies ---- */

static int called;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    called++;
}

START_TEST(copies)
{
    struct sm_copy *copy = NULL;
    char memory[64];
    OK(sm_copy_obtain_host(100, 64, -1, true, &copy));
    ck_assert(pattern_is(copy->data, 100, 0));
    ck_assert_int_eq(copy->source, SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_int_eq(copy->device, -1);
    ck_assert_ptr_null(sm_inflight_blocker(copy, true));
    ck_assert_ptr_null(sm_inflight_transfer(copy));
    ck_assert_uint_ge(sm_copy_capacity(copy), 100);
    sm_inflight_prune(copy);
    sm_copy_retire(copy);
    sm_copy_retire(NULL);
    OK(sm_copy_wrap(memory, sizeof memory, -1, count, NULL, &copy));
    ck_assert_int_eq(copy->source, SYNCED_MEM_SOURCE_ADOPTED);
    sm_copy_unwrap(copy);
    sm_copy_unwrap(NULL);
    ck_assert_int_eq(called, 0);
    OK(sm_copy_wrap(memory, sizeof memory, -1, count, NULL, &copy));
    sm_copy_retire(copy);
    ck_assert_int_eq(called, 1);
    OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &copy));
    ck_assert_int_eq(copy->source, SYNCED_MEM_SOURCE_BORROWED);
    sm_copy_retire(copy);
    OK(sm_copy_reap(true));
}
END_TEST

/* The count goes on: it tells that the record is another copy's now. */
START_TEST(a_record_used_again)
{
    char memory[64];
    struct sm_copy *first;
    struct sm_copy *again;
    OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &first));
    for (int i = 0; i < 3; i++) {
        const unsigned writes = first->writes;
        sm_copy_unwrap(first);
        OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &again));
        ck_assert_ptr_eq(again, first);
        ck_assert_uint_gt(again->writes, writes);
    }
    sm_copy_unwrap(again);
}
END_TEST

/* ---- The seam ---- */

/* Whatever the library asks of a runtime that is not there is refused, and nothing is ever given out. */
START_TEST(seam_without_gpu)
{
    uint64_t took;
    int device = 77;
    void *data = &device;
    synced_mem_stream stream = (synced_mem_stream)(void *)&device;
    sm_event event = (sm_event)(void *)&device;
    bool done = true;
    char id[SM_PCI_ID_BYTES] = "77";
    struct sm_stream_facts facts = {.id = 77};
    struct sm_pool_numbers numbers = {.used = 77};
    synced_mem_device_info info = {.device = 77};
    size_t free_bytes = 77;
    size_t total = 77;
    size_t locked = 77;
    struct sm_pointer_facts pointer;
    struct sm_unified_facts unified;
    const void *const from = data;
    const size_t size = 1;
    if (gpu_expected())
        return;
    ck_assert(!sm_device_frees_in_order(0));
    ck_assert(!sm_device_batch_takes(data, 1, true, stream));
    ck_assert_int_eq(sm_device_count(), 0);
    ck_assert(!sm_device_in_use());
    sm_device_stay(0);
    OK(sm_device_shutdown());
    const synced_mem_status all[] = {
        sm_device_resolve(0, &device),
        sm_device_look_at(0, data, &pointer),
        sm_device_pci_id(0, id),
        sm_device_host_register(0, data, 8, &locked),
        sm_device_host_unregister(0, data, 8, &locked),
        sm_device_alloc(0, 8, NULL, &data),
        sm_device_free(0, data, NULL),
        sm_device_unified_facts(0, &unified),
        sm_device_check_mapped(0, data),
        sm_device_managed_alloc(0, 8, &data),
        sm_device_managed_free(0, data),
        sm_device_managed_prefetch(0, data, 8, true, NULL),
        sm_device_managed_advise(0, data, 8),
        sm_device_stream_create(0, &stream),
        sm_device_stream_destroy(0, stream),
        sm_device_stream_sync(0, NULL),
        sm_device_stream_wait(0, NULL, event),
        sm_device_stream_look(0, stream, &facts),
        sm_device_of_stream(stream, 0, &device),
        sm_device_copy_h2d(0, data, data, 1, NULL),
        sm_device_copy_d2h(0, data, data, 1, NULL),
        sm_device_copy_d2d(0, data, data, 1, NULL),
        sm_device_fill(0, data, 0, 1, NULL),
        sm_device_copy_batch(0, &data, &from, &size, 1, true, NULL),
        sm_device_event_create(0, &event),
        sm_device_event_destroy(0, event),
        sm_device_event_record(0, event, NULL),
        sm_device_event_sync(0, event),
        sm_device_event_query(0, event, &done),
        sm_device_timing_create(0, &event),
        sm_device_elapsed(0, event, event, &took),
        sm_device_stream_query(0, NULL, &done),
        sm_device_info(0, &info),
        sm_device_memory_info(0, &free_bytes, &total),
        sm_device_pool_set_threshold(0, 0),
        sm_device_pool_set_reuse(0, 0),
        sm_device_pool_allow_peer(0, 1, true),
        sm_device_pool_trim(0, 0),
        sm_device_pool_reset_peaks(0),
        sm_device_pool_numbers(0, &numbers),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_int_eq(all[i], SYNCED_MEM_ERR_NO_GPU);
    ck_assert_int_eq(device, 77);
    ck_assert_ptr_eq(data, &device);
    ck_assert_ptr_eq(stream, (void *)&device);
    ck_assert_uint_eq(facts.id, 77);
    ck_assert_uint_eq(numbers.used, 77);
    ck_assert_int_eq(info.device, 77);
    ck_assert_uint_eq(free_bytes + total, 2 * 77);
    ck_assert_str_eq(id, "77");
}
END_TEST

START_TEST(internals)
{
    int device;
    struct sm_stream *internal[SM_INTERNALS];
    if (!gpu_expected())
        return;
    OK(sm_device_resolve(SYNCED_MEM_DEVICE_CURRENT, &device));
    ck_assert_int_eq(device, 0);
    ck_assert(sm_device_in_use());
    for (int i = 0; i < SM_INTERNALS; i++) {
        struct sm_stream *again = NULL;
        OK(sm_internal_stream(0, (enum sm_internal)i, &internal[i]));
        OK(sm_internal_stream(0, (enum sm_internal)i, &again));
        ck_assert_ptr_eq(internal[i], again);
        ck_assert_int_eq(internal[i]->kind, SM_STREAM_INTERNAL);
        ck_assert(!sm_stream_can_be_hot(internal[i]));
        for (int j = 0; j < i; j++)
            ck_assert_ptr_ne(internal[i]->handle, internal[j]->handle);
    }
    OK(sm_stream_shutdown());
    OK(sm_device_shutdown());
    ck_assert(!sm_device_in_use());
}
END_TEST

/* ---- Errors ---- */

/* A detail that is too long is cut, not written past its end. */
START_TEST(long_details)
{
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    ck_assert_int_eq(sm_fail(SYNCED_MEM_ERR_CUDA, "%s", long_text), SYNCED_MEM_ERR_CUDA);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_OK);
    ck_assert_int_eq(sm_report(SYNCED_MEM_ERR_CUDA, "a_function", "an object"), SYNCED_MEM_ERR_CUDA);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_CUDA);
    SAYS("a_function of 'an object': xxx");
    ck_assert_uint_lt(strlen(synced_mem_last_error_message()), 1000);
    ck_assert_int_eq(sm_report(SYNCED_MEM_OK, "a_function", NULL), SYNCED_MEM_OK);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_CUDA);
}
END_TEST

/* The check that debug builds make after every change does notice what must not be. */
START_TEST(invariants)
{
    synced_mem *const mem = make_at_cpu(100, 1);
    void *const data = synced_mem_mutable_cpu_data(mem);
    char elsewhere = 0;
    ck_assert(sm_object_is_valid(mem));
    atomic_store(&mem->head, SYNCED_MEM_SYNCED);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->head, SYNCED_MEM_UNINITIALIZED);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->head, SYNCED_MEM_AT_CPU);
    atomic_store(&mem->ready[SM_CPU][0], (void *)&elsewhere);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->ready[SM_CPU][0], data);
    ck_assert(sm_object_is_valid(mem));
    struct sm_stream *const none = atomic_load(&mem->on[0]);
    struct sm_copy *const copy = sm_copy_of(mem, SM_CPU);
    atomic_store(&mem->on[0], sm_stream_any(0));
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->on[0], none);
    atomic_store(&mem->ready[SM_CPU][1], (void *)&elsewhere);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->ready[SM_CPU][1], data);
    atomic_store(&mem->size, sm_copy_capacity(copy) + 1);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->size, 100);
    sm_put_copy(mem, SM_GPU, copy);
    ck_assert(!sm_object_is_valid(mem));
    sm_put_copy(mem, SM_GPU, NULL);
    ck_assert(sm_object_is_valid(mem));
    sm_put_copy(mem, SM_CPU, NULL);
    ck_assert(!sm_object_is_valid(mem));
    sm_put_copy(mem, SM_CPU, copy);
    const unsigned char source = copy->source;
    copy->source = SYNCED_MEM_SOURCE_MAPPED;
    ck_assert(!sm_object_is_valid(mem));
    copy->source = source;
    OK(synced_mem_release(mem));
}
END_TEST

/* As that, for what the hot path may hand out of an object with both copies. */
START_TEST(invariants_of_both_copies)
{
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_cpu(100, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    ck_assert(sm_object_is_valid(mem));
    atomic_store(&mem->ready[SM_CPU][1], sm_copy_of(mem, SM_CPU)->data);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->ready[SM_CPU][1], NULL);
    struct sm_stream *const none = atomic_load(&mem->on[0]);
    for (int writing = 0; writing < 2; writing++) {
        struct sm_stream *stream;
        OK(sm_stream_find(0, NULL, &stream));
        atomic_store(&mem->on[writing], stream);
        ck_assert(!sm_object_is_valid(mem));
        atomic_store(&mem->on[writing], none);
    }
    ck_assert(sm_object_is_valid(mem));
    OK(synced_mem_release(mem));
}
END_TEST

/* The contents of both copies can get lost, by waits that fail in two threads at once. What is left is memory with
 * something old in it, and an object that must read as zeros. */
START_TEST(zeros_over_old_memory)
{
    enum { BYTES = 1000 };
    synced_mem *const mem = make(BYTES);
    memset(synced_mem_overwrite_cpu_data(mem), 0xff, BYTES);
    atomic_store(&mem->head, SYNCED_MEM_UNINITIALIZED);
    for (int writing = 0; writing < 2; writing++)
        atomic_store(&mem->ready[SM_CPU][writing], NULL);
    synced_mem_stream stream = NULL;
    if (gpu_expected()) { /* what was to bring them may still run */
        stream = gpu_stream_create(0, false);
        gpu_delay(stream);
        OK(sm_fence_record(0, stream, THE_STREAM, &sm_copy_of(mem, SM_CPU)->write));
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), BYTES, 0));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    OK(synced_mem_release(mem));
    if (gpu_expected()) {
        ck_assert(gpu_stream_is_idle(stream));
        gpu_stream_destroy(stream);
    }
}
END_TEST

/* ---- What an object costs beside its data ---- */

/* A million of them are held; nothing is left of a round trip once it is known to be over. A piece of page-locked
 * memory costs a few bytes more. */
START_TEST(an_idle_object_is_small)
{
    enum { MOST = 384, OF_THE_POOL = 8 };
    ck_assert_uint_le(sizeof(struct synced_mem), 128);
    ck_assert_uint_eq(sizeof(struct sm_mutex), 4);
    ck_assert_uint_le(sizeof(struct synced_mem) + 2 * sizeof(struct sm_copy) + OF_THE_POOL, MOST);
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_cpu(4096, 1);
    gpu_fill(synced_mem_mutable_gpu_data(mem), 4096, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), 4096, 2));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const struct sm_copy *const copy = sm_copy_of(mem, side);
        ck_assert(!copy->reads && !copy->covered && !copy->write && !copy->writer_fence && !copy->writer);
    }
    ck_assert_ptr_null(mem->extras);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("units");
    TCase *const tests = add_case(made, "units");
    tcase_add_test(tests, slab);
    tcase_add_test(tests, host_memory);
    tcase_add_test(tests, no_fence);
    tcase_add_test(tests, one_fence);
    tcase_add_test(tests, work_of_threads_fails);
    tcase_add_test(tests, streams_wait);
    tcase_add_test(tests, records_of_streams);
    tcase_add_test(tests, records_used_again);
    tcase_add_test(tests, legacy_stream);
    tcase_add_test(tests, copies);
    tcase_add_test(tests, a_record_used_again);
    tcase_add_test(tests, seam_without_gpu);
    tcase_add_test(tests, internals);
    tcase_add_test(tests, long_details);
    tcase_add_test(tests, invariants);
    tcase_add_test(tests, invariants_of_both_copies);
    tcase_add_test(tests, zeros_over_old_memory);
    tcase_add_test(tests, an_idle_object_is_small);
    return made;
}
