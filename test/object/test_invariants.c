/* Checks the invariants of an object: the check notices each violation, and an idle object is small. */
#include "fixture.h"

#include "copy/copy.h"
#include "copy/inflight.h"
#include "object/transaction.h"
#include "stream/fence.h"

#include <string.h>

enum { THE_STREAM = 1000000 };

/* The check that debug builds make after each change detects invalid states. */
START_TEST(invariants)
{
    synced_mem *const mem = make_at_cpu(100, 1);
    void *const data = synced_mem_mutable_cpu_data(mem);
    char elsewhere = 0;
    ck_assert(sm_object_is_valid(mem));
    atomic_store(&mem->record.head, SYNCED_MEM_SYNCED);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->record.head, SYNCED_MEM_UNINITIALIZED);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->record.head, SYNCED_MEM_AT_CPU);
    atomic_store(&mem->ready[SM_CPU][0], (void *)&elsewhere);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->ready[SM_CPU][0], data);
    ck_assert(sm_object_is_valid(mem));
    struct sm_stream *const none = atomic_load(&mem->on[0]);
    struct sm_copy *const copy = sm_copy_of(&mem->record, SM_CPU);
    atomic_store(&mem->on[0], sm_stream_any(0));
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->on[0], none);
    atomic_store(&mem->ready[SM_CPU][1], (void *)&elsewhere);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->ready[SM_CPU][1], data);
    atomic_store(&mem->record.size, sm_copy_capacity(copy) + 1);
    ck_assert(!sm_object_is_valid(mem));
    atomic_store(&mem->record.size, 100);
    sm_put_copy(&mem->record, SM_GPU, copy);
    ck_assert(!sm_object_is_valid(mem));
    sm_put_copy(&mem->record, SM_GPU, NULL);
    ck_assert(sm_object_is_valid(mem));
    sm_put_copy(&mem->record, SM_CPU, NULL);
    ck_assert(!sm_object_is_valid(mem));
    sm_put_copy(&mem->record, SM_CPU, copy);
    const unsigned char source = copy->source;
    copy->source = SYNCED_MEM_SOURCE_MAPPED;
    ck_assert(!sm_object_is_valid(mem));
    copy->source = source;
    OK(synced_mem_release(mem));
}
END_TEST

/* The same for the pointers that the hot path may return of an object with both copies. */
START_TEST(invariants_of_both_copies)
{
    synced_mem *const mem = make_at_cpu(100, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    ck_assert(sm_object_is_valid(mem));
    atomic_store(&mem->ready[SM_CPU][1], sm_copy_of(&mem->record, SM_CPU)->data);
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

/* The same for views that have pointers published: each view's are checked, from the record of its bytes. */
START_TEST(invariants_of_views)
{
    enum { SIZE = 1000 };
    synced_mem *views[3];
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    char elsewhere = 0;
    for (int i = 0; i < 3; i++) { /* two views of the same bytes, and one beside them */
        OK(synced_mem_view(&views[i], mem, i < 2 ? 0 : SIZE / 2, SIZE / 2, NULL));
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(views[i]));
    }
    ck_assert(sm_object_is_valid(mem));
    for (int i = 0; i < 3; i++) {
        for (int writing = 0; writing < 2; writing++) {
            void *const data = atomic_load(&views[i]->ready[SM_CPU][writing]);
            ck_assert_ptr_nonnull(data);
            atomic_store(&views[i]->ready[SM_CPU][writing], (void *)&elsewhere);
            ck_assert(!sm_object_is_valid(views[i]));
            ck_assert(!sm_object_is_valid(mem));
            ck_assert_int_eq(sm_object_is_valid(views[0]), i == 2);
            atomic_store(&views[i]->ready[SM_CPU][writing], data);
            ck_assert(sm_object_is_valid(mem));
        }
        const size_t size = sm_size(views[i]);
        atomic_store(&views[i]->record.size, size + 1); /* it has bytes beyond the record */
        ck_assert(!sm_object_is_valid(views[i]));
        atomic_store(&views[i]->record.size, size);
        struct sm_piece *const first = views[i]->at.first;
        views[i]->at.first = views[i < 2 ? 2 : 0]->at.first; /* from another record */
        ck_assert(!sm_object_is_valid(mem));
        views[i]->at.first = first;
        ck_assert(sm_object_is_valid(mem));
    }
    release_all(views, 3);
    OK(synced_mem_release(mem));
}
END_TEST

/* Waits that fail in two threads at once can lose the contents of both copies. The object is then empty and has memory
 * with old bytes, but must read as zeros. */
START_TEST(zeros_over_old_memory)
{
    enum { BYTES = 1000 };
    synced_mem *const mem = make(BYTES);
    memset(synced_mem_overwrite_cpu_data(mem), 0xff, BYTES);
    atomic_store(&mem->record.head, SYNCED_MEM_UNINITIALIZED);
    for (int writing = 0; writing < 2; writing++)
        atomic_store(&mem->ready[SM_CPU][writing], NULL);
    synced_mem_stream stream = NULL;
    if (gpu_expected()) { /* the work that was to bring the contents may still run */
        stream = gpu_stream_create(0, false);
        gpu_delay(stream);
        OK(sm_fence_record(0, stream, THE_STREAM, &sm_copy_of(&mem->record, SM_CPU)->write));
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

/* ---- The cost of an object beside its data ---- */

/* A process may hold a million objects. Once a round trip is known to be over, none of its records is left. A piece of
 * page-locked memory costs a few bytes more. */
START_TEST(an_idle_object_is_small)
{
    enum { MOST = 384, OF_THE_POOL = 8 };
    ck_assert_uint_le(sizeof(struct synced_mem), 128);
    ck_assert_uint_eq(sizeof(struct sm_mutex), 4);
    ck_assert_uint_le(sizeof(struct synced_mem) + 2 * sizeof(struct sm_allocation) + OF_THE_POOL, MOST);
    ck_assert_uint_le(sizeof(struct synced_mem) + sizeof(struct sm_piece) + 2 * sizeof(struct sm_copy), MOST);
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_cpu(4096, 1);
    gpu_fill(synced_mem_mutable_gpu_data(mem), 4096, 2, NULL);
    ck_assert(host_is(synced_mem_cpu_data(mem), 4096, 2));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const struct sm_copy *const copy = sm_copy_of(&mem->record, side);
        ck_assert(!copy->reads && !copy->covered && !copy->write && !copy->writer_fence && !copy->writer);
    }
    ck_assert_ptr_null(mem->extras);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("invariants");
    TCase *const tests = add_case(made, "invariants");
    add_tests(tests, invariants, invariants_of_views, zeros_over_old_memory, an_idle_object_is_small);
    add_gpu_tests(tests, invariants_of_both_copies);
    return made;
}
