/* Checks transfers on the library's stream: they come after earlier work on the object, only later accesses wait for
 * them, and the host does not wait. Checks which calls refuse that stream. */
#include "fixture.h"
#include "synced_mem/dlpack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 70000, LARGE = 3 << 20 };

#define LIBRARY SYNCED_MEM_STREAM_LIBRARY

/* Creates an object, AT_CPU. Large contents are in pageable memory of the test, so that their transfers are staged. */
static synced_mem *make_filled(size_t size, unsigned pattern, void **mine)
{
    synced_mem *const mem = make_on(size, 0);
    *mine = size == LARGE ? malloc(LARGE) : NULL;
    if (*mine)
        OK(synced_mem_set_cpu_data(mem, *mine));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), size, pattern);
    return mem;
}

static int has_arrived(synced_mem *mem, synced_mem_side side)
{
    int arrived = -1;
    OK(synced_mem_has_arrived(mem, side, &arrived));
    return arrived;
}

static void end(synced_mem *mem, void *mine)
{
    OK(synced_mem_release(mem));
    free(mine);
}

/* ---- Order ---- */

/* Gives the device copy to a stream, to read or to write. The index also chooses an access without a stream. */
static const void *access_device(synced_mem *mem, bool write, bool named, synced_mem_stream stream)
{
    if (write)
        return given(named ? synced_mem_mutable_gpu_data_on(mem, stream) : synced_mem_mutable_gpu_data(mem));
    return given(named ? synced_mem_gpu_data_on(mem, stream) : synced_mem_gpu_data(mem));
}

/* A push comes after a kernel that reads the device copy, on a stream or on the legacy stream. */
START_TEST(push_behind_a_reader)
{
    const bool named = _i % 2;
    void *mine, *const seen = gpu_alloc(0, SIZE);
    synced_mem *const mem = make_filled(SIZE, 1, &mine);
    synced_mem_stream reader = named ? open_stream(NON_BLOCKING) : NULL, other = open_stream(NON_BLOCKING);
    const void *const data = access_device(mem, false, named, reader);
    gpu_hold(reader);
    gpu_copy(seen, data, SIZE, reader);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 2);
    OK(synced_mem_async_gpu_push(mem, LIBRARY));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert(!gpu_stream_is_idle(reader));
    ck_assert_int_eq(has_arrived(mem, SYNCED_MEM_SIDE_GPU), 0);
    gpu_unhold();
    static unsigned char expected[SIZE];
    pattern_write(expected, SIZE, 2);
    gpu_expect(given(synced_mem_gpu_data_on(mem, other)), SIZE, expected, other);
    ck_assert(device_is(seen, SIZE, 1));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    ck_assert_int_eq(has_arrived(mem, SYNCED_MEM_SIDE_GPU), 1);
    end(mem, mine);
    close_stream(other);
    if (named)
        close_stream(reader);
    gpu_free(seen);
}
END_TEST

/* A pull comes after a kernel that writes the device copy, also if it is staged. The host does not wait. */
START_TEST(pull_behind_a_writer)
{
    const bool named = _i % 2;
    const size_t size = _i / 2 ? LARGE : SIZE;
    void *mine;
    synced_mem *const mem = make_filled(size, 1, &mine);
    synced_mem_stream writer = named ? open_stream(NON_BLOCKING) : NULL;
    void *const data = (void *)(uintptr_t)access_device(mem, true, named, writer);
    gpu_sync_device(0);
    gpu_hold(writer);
    gpu_fill(data, size, 2, writer);
    OK(synced_mem_async_cpu_pull(mem, LIBRARY));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert_int_eq(has_arrived(mem, SYNCED_MEM_SIDE_CPU), 0);
    ck_assert_int_eq(has_arrived(mem, SYNCED_MEM_SIDE_GPU), 1);
    gpu_unhold();
    /* A later write comes after the pull. */
    gpu_fill(given(synced_mem_mutable_gpu_data_on(mem, writer)), size, 3, writer);
    ck_assert(host_is(synced_mem_cpu_data(mem), size, 3));
    OK(synced_mem_async_cpu_pull(mem, LIBRARY)); /* SYNCED: nothing is moved */
    ck_assert_uint_eq(stats_now().d2h_transfers, 2);
    end(mem, mine);
    if (named)
        close_stream(writer);
}
END_TEST

/* The contents are there for each next access, of both sizes. */
START_TEST(push_then_access)
{
    const size_t size = _i % 2 ? LARGE : SIZE;
    void *mine;
    synced_mem *const mem = make_filled(size, 4, &mine);
    synced_mem_stream stream = open_stream(_i / 2);
    OK(synced_mem_async_gpu_push(mem, LIBRARY));
    OK(synced_mem_async_gpu_push(mem, LIBRARY)); /* SYNCED: nothing is moved */
    OK(synced_mem_async_gpu_push(mem, stream));  /* the stream waits */
    ck_assert_uint_eq(stats_now().h2d_bytes, size);
    static unsigned char expected[LARGE];
    pattern_write(expected, size, 4);
    gpu_expect(given(synced_mem_gpu_data_on(mem, stream)), size, expected, stream);
    host_fill(given(synced_mem_mutable_cpu_data(mem)), size, 5); /* after the push has read it */
    ck_assert(device_is(given(synced_mem_gpu_data(mem)), size, 5));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    end(mem, mine);
    close_stream(stream);
}
END_TEST

/* No stream waits for the arrival before an access does. */
START_TEST(nobody_waits)
{
    if (!gpu_is_emulated())
        return;
    void *mine;
    synced_mem *const mem = make_filled(LARGE, 4, &mine), *const other = make_on(LARGE, 0);
    (void)given(synced_mem_overwrite_gpu_data(other)); /* has memory */
    (void)given(synced_mem_overwrite_gpu_data(mem));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), LARGE, 5);
    gpu_sync_device(0);
    const unsigned waits = gpu_calls("cudaStreamWaitEvent");
    OK(synced_mem_async_gpu_push(mem, LIBRARY));
    OK(synced_mem_async_gpu_push(mem, LIBRARY));
    const unsigned pushed = gpu_calls("cudaStreamWaitEvent");
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), LARGE, 6);
    gpu_sync_device(0);
    const unsigned before = gpu_calls("cudaStreamWaitEvent");
    OK(synced_mem_async_gpu_copy(other, mem, LIBRARY));
    ck_assert_uint_eq(pushed - waits, 1); /* of the legacy stream, for the pointer that was given without a stream */
    ck_assert_uint_eq(gpu_calls("cudaStreamWaitEvent") - before, 1);
    ck_assert(device_is(given(synced_mem_gpu_data(other)), LARGE, 6));
    OK(synced_mem_release(other));
    end(mem, mine);
}
END_TEST

/* Work on other objects holds up neither a push nor a pull. */
START_TEST(beside_other_work)
{
    if (!gpu_is_emulated())
        return;
    void *mine;
    synced_mem *const busy = make_on(SIZE, 0), *const ready = make_on(SIZE, 0),
                      *const mem = make_filled(SIZE, 1, &mine);
    synced_mem_stream stream = open_stream(NON_BLOCKING), done = open_stream(NON_BLOCKING);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(ready, done)), SIZE, 8, done);
    gpu_sync_device(0);
    gpu_hold(stream);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(busy, stream)), SIZE, 9, stream);
    OK(synced_mem_async_cpu_pull(busy, LIBRARY));
    OK(synced_mem_async_gpu_push(mem, LIBRARY));
    OK(synced_mem_async_cpu_pull(ready, LIBRARY));
    OK(synced_mem_wait(mem));
    OK(synced_mem_wait(ready));
    ck_assert(!gpu_stream_is_idle(stream));
    ck_assert_int_eq(has_arrived(busy, SYNCED_MEM_SIDE_CPU), 0);
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(busy), SIZE, 9));
    ck_assert(host_is(synced_mem_cpu_data(ready), SIZE, 8));
    RELEASE_EACH(busy, ready);
    close_stream(done);
    end(mem, mine);
    close_stream(stream);
}
END_TEST

/* ---- Lists, parts, copies ---- */

START_TEST(lists)
{
    enum { MANY = 5 };
    synced_mem *mems[MANY], *part;
    void *mine[MANY];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (int i = 0; i < MANY; i++)
        mems[i] = make_filled(i == 3 ? LARGE : SIZE, (unsigned)i + 1, &mine[i]);
    OK(synced_mem_view(&part, mems[4], 1000, 5000, NULL));
    gpu_hold(stream);
    gpu_fill(given(synced_mem_mutable_gpu_data_on(mems[1], stream)), SIZE, 7, stream);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push_n(mems, MANY, LIBRARY));
    OK(synced_mem_async_gpu_push_n(mems + 2, MANY - 2, LIBRARY));
    OK(synced_mem_async_cpu_pull_n(mems + 1, MANY - 1, LIBRARY));
    gpu_unhold();
    for (int i = 2; i < MANY; i++)
        ck_assert(device_is(given(synced_mem_gpu_data(mems[i])), synced_mem_size(mems[i]), (unsigned)i + 1));
    ck_assert(host_is(synced_mem_cpu_data(mems[1]), SIZE, 7));
    OK(synced_mem_release(part));
    for (int i = 0; i < MANY; i++)
        end(mems[i], mine[i]);
    close_stream(stream);
}
END_TEST

/* Copies come after the kernels that write their sources and use their targets. */
START_TEST(copies)
{
    const size_t size = _i % 2 ? LARGE : SIZE;
    void *mine[2];
    synced_mem *const from[] = {make_filled(size, 1, &mine[0]), make_filled(size, 2, &mine[1])};
    synced_mem *const to[] = {make_on(size, 0), make_on(size, 0)};
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(to[0], stream)), size, 8, stream);
    gpu_sync_device(0);
    gpu_pause(stream);
    gpu_fill(given(synced_mem_mutable_gpu_data_on(from[0], stream)), size, 3, stream);
    if (_i / 2) {
        OK(synced_mem_async_gpu_copy_n(to, from, 2, LIBRARY));
    } else {
        OK(synced_mem_async_gpu_copy(to[0], from[0], LIBRARY));
        OK(synced_mem_async_gpu_copy(to[1], from[1], LIBRARY));
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(synced_mem_head(to[i]), SYNCED_MEM_AT_GPU);
        ck_assert(host_is(synced_mem_cpu_data(to[i]), size, i ? 2 : 3));
        OK(synced_mem_release(to[i]));
        end(from[i], mine[i]);
    }
    close_stream(stream);
}
END_TEST

/* A list is of the first object's device. Without one that is the current device. */
START_TEST(several_devices)
{
    if (devices() < 2)
        return;
    synced_mem *const mems[] = {make(SIZE), make_on(SIZE, 1)};
    for (int i = 0; i < 2; i++)
        host_fill(given(synced_mem_overwrite_cpu_data(mems[i])), SIZE, 1);
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_async_gpu_push_n(mems, 2, LIBRARY));
    for (int i = 0; i < 2; i++) {
        OK(synced_mem_async_gpu_push(mems[i], LIBRARY));
        ck_assert_int_eq(synced_mem_device(mems[i]), i);
    }
    synced_mem *const to = make(SIZE);
    OK(synced_mem_async_gpu_copy(to, mems[1], LIBRARY)); /* to has no device: that of the source */
    ck_assert_int_eq(synced_mem_device(to), 1);
    OK(synced_mem_async_gpu_copy(mems[0], to, LIBRARY));
    ck_assert(host_is(synced_mem_cpu_data(mems[0]), SIZE, 1));
    ck_assert_int_eq(gpu_current_device(), 0);
    OK(synced_mem_release(to));
    release_all(mems, 2);
}
END_TEST

/* Memory that both sides use. */
START_TEST(unified)
{
    static const synced_mem_placement_kind placements[] = {SYNCED_MEM_PLACEMENT_MAPPED, SYNCED_MEM_PLACEMENT_MANAGED};
    if (!gpu_is_emulated())
        return;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.placement = placements[_i];
    options.device = 0;
    synced_mem *mem;
    OK(synced_mem_create(&mem, SIZE, &options));
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 1);
    OK(synced_mem_async_gpu_push(mem, LIBRARY));
    gpu_pause(stream);
    gpu_fill(given(synced_mem_mutable_gpu_data_on(mem, stream)), SIZE, 2, stream);
    OK(synced_mem_async_cpu_pull(mem, LIBRARY));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert_uint_eq(stats_now().h2d_transfers + stats_now().d2h_transfers, 0);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* ---- Refusals ---- */

/* Nobody could launch kernels on it. */
START_TEST(refused_by_accesses)
{
    static const synced_mem_mode modes[] = {SYNCED_MEM_READ, SYNCED_MEM_MUTABLE, SYNCED_MEM_OVERWRITE};
    synced_mem *const mem = make(SIZE);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 1);
    if (gpu_expected())
        OK(synced_mem_async_gpu_push(mem, LIBRARY));
    const struct facts before = facts_of(mem);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_data_on(mem, LIBRARY));
    SAYS("SYNCED_MEM_STREAM_LIBRARY takes transfers alone");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_mutable_gpu_data_on(mem, LIBRARY));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_overwrite_gpu_data_on(mem, LIBRARY));
    for (int i = 0; i < 3; i++)
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_access(mem, SYNCED_MEM_SIDE_GPU, modes[i], LIBRARY));
    ck_assert_ptr_nonnull(synced_mem_access(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, LIBRARY)); /* ignores it */
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_end_use_on(mem, LIBRARY));
    struct DLManagedTensorVersioned *tensor;
    const synced_mem_dlpack_options options = {
        .struct_size = sizeof options, .side = SYNCED_MEM_SIDE_GPU, .stream = LIBRARY};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack(&tensor, mem, &options));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(bad_heads)
{
    synced_mem *const mem = make(SIZE), *const other = make(SIZE);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, LIBRARY));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(mem, LIBRARY));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 1);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(mem, LIBRARY));
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push(mem, LIBRARY));
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_push_n(&mem, 1, LIBRARY));
    FAILS_WITHOUT_GPU(synced_mem_async_gpu_copy(other, mem, LIBRARY));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_async_gpu_push(mem, SYNCED_MEM_NO_STREAM));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    RELEASE_EACH(mem, other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("library_stream");
    TCase *const order = add_case(made, "order");
    add_tests(order, beside_other_work, nobody_waits);
    add_gpu_loop_test(order, push_behind_a_reader, 0, 2);
    add_gpu_loop_test(order, pull_behind_a_writer, 0, 4);
    add_gpu_loop_test(order, push_then_access, 0, 2 * STREAM_KINDS);
    TCase *const objects = add_case(made, "objects");
    tcase_add_test(objects, several_devices);
    add_gpu_tests(objects, lists);
    add_gpu_loop_test(objects, copies, 0, 4);
    tcase_add_loop_test(objects, unified, 0, 2);
    TCase *const refusals = add_case(made, "refusals");
    add_tests(refusals, refused_by_accesses, bad_heads);
    return made;
}
