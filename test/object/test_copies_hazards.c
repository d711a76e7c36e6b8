/* Tests copies between objects: with work in flight, of pageable memory, in unified placement, between devices. */
#include "copies_kit.h"

#include <string.h>

enum { SIZE = 5000 };

/* ---- Work in flight ---- */

/* Queues work of one kind on a separate stream. Then from has the pattern 1; the contents of to do not matter. */
enum busy {
    IDLE,
    KERNEL_WRITES_FROM,
    KERNEL_READS_FROM,
    PUSHED_FROM,
    PULLED_FROM,
    KERNEL_WRITES_TO,
    KERNEL_READS_TO,
    PUSHED_TO,
    PULLED_TO,
    ANY_WRITES_FROM,
    ANY_READS_TO,
    BUSY
};

static synced_mem_stream elsewhere, blocking;
static void *seen;

static void kernel_writes(synced_mem *mem, unsigned pattern)
{
    gpu_delay(elsewhere);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, elsewhere), SIZE, pattern, elsewhere);
}

static void kernel_reads(synced_mem *mem)
{
    gpu_delay(elsewhere);
    gpu_copy(seen, synced_mem_gpu_data_on(mem, elsewhere), SIZE, elsewhere);
}

static void make_busy(enum busy busy, synced_mem *to, synced_mem *from)
{
    switch (busy) {
    case KERNEL_WRITES_FROM:
        kernel_writes(from, 1);
        break;
    case KERNEL_READS_FROM:
        kernel_reads(from);
        break;
    case PUSHED_FROM:
        gpu_delay(elsewhere);
        OK(synced_mem_async_gpu_push(from, elsewhere));
        break;
    case PULLED_FROM:
        kernel_writes(from, 1);
        OK(synced_mem_async_cpu_pull(from, elsewhere));
        break;
    case KERNEL_WRITES_TO:
        kernel_writes(to, 7);
        break;
    case KERNEL_READS_TO:
        kernel_reads(to);
        break;
    case PUSHED_TO:
        gpu_delay(elsewhere);
        OK(synced_mem_async_gpu_push(to, elsewhere));
        break;
    case PULLED_TO:
        kernel_writes(to, 7);
        OK(synced_mem_async_cpu_pull(to, elsewhere));
        break;
    case ANY_WRITES_FROM:
        gpu_delay(blocking);
        gpu_fill(synced_mem_overwrite_gpu_data(from), SIZE, 1, blocking);
        break;
    case ANY_READS_TO:
        gpu_delay(blocking);
        gpu_copy(seen, synced_mem_gpu_data(to), SIZE, blocking);
        break;
    case IDLE:
    case BUSY:
        break;
    }
}

/* Uses the objects after the copy. */
enum after {
    NOTHING,
    WRITE_FROM_ON,
    WRITE_FROM_BY_HOST,
    READ_TO_BY_HOST,
    READ_TO_ON,
    WRITE_TO_BY_HOST,
    FREE_BOTH,
    COPY_ON,
    AFTERS
};

static void come_after(enum after after, synced_mem *to, synced_mem *from)
{
    switch (after) {
    case WRITE_FROM_ON:
        gpu_fill(synced_mem_overwrite_gpu_data_on(from, elsewhere), SIZE, 5, elsewhere);
        break;
    case WRITE_FROM_BY_HOST:
        host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 5);
        break;
    case READ_TO_BY_HOST:
        ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
        break;
    case READ_TO_ON:
        gpu_copy(seen, synced_mem_gpu_data_on(to, elsewhere), SIZE, elsewhere);
        gpu_stream_sync(elsewhere);
        ck_assert(device_is(seen, SIZE, 1));
        break;
    case WRITE_TO_BY_HOST:
        host_fill(synced_mem_overwrite_cpu_data(to), SIZE, 1);
        break;
    case COPY_ON:
        OK(synced_mem_async_gpu_copy(from, to, elsewhere));
        break;
    case NOTHING:
    case FREE_BOTH:
    case AFTERS:
        break;
    }
}

/* Copies to the device on a stream, or to the host. */
START_TEST(hazard)
{
    const enum busy busy = (enum busy)(_i % BUSY);
    const enum after after = (enum after)(_i / BUSY % AFTERS);
    const bool on_host = _i / BUSY / AFTERS;
    elsewhere = open_stream(NON_BLOCKING);
    blocking = open_stream(BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    seen = gpu_alloc(0, SIZE);
    synced_mem *const to = make_pinned(SIZE, 6), *const from = make_pinned(SIZE, 1);
    make_busy(busy, to, from);
    if (on_host)
        OK(synced_mem_cpu_copy(to, from));
    else
        OK(synced_mem_async_gpu_copy(to, from, stream));
    come_after(after, to, from);
    if (after != FREE_BOTH)
        ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    RELEASE_EACH(from, to);
    CLOSE_EACH(stream, elsewhere, blocking);
    gpu_free(seen);
}
END_TEST

/* A copy on the writer's stream leaves the write open. A copy elsewhere ends it. */
START_TEST(open_write_of_the_source)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const to = make_on(SIZE, 0), *const from = make_on(SIZE, 0);
    void *const data = synced_mem_overwrite_gpu_data_on(from, stream);
    gpu_fill(data, SIZE, 1, stream);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(from), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    gpu_fill(synced_mem_mutable_gpu_data_on(from, stream), SIZE, 3, stream);
    OK(synced_mem_async_gpu_copy(to, from, other));
    const synced_mem_stats before = stats_now();
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(from, stream), data);
    ck_assert_uint_eq(stats_now().stream_waits - before.stream_waits, 1 + !gpu_has_stream_ids()); /* for the copy */
    gpu_fill(data, SIZE, 4, stream);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 3));
    RELEASE_EACH(from, to);
    CLOSE_EACH(stream, other);
}
END_TEST

/* The same for each source of one call. */
START_TEST(open_writes_of_two_sources)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const to[] = {make_on(SIZE, 0), make_on(SIZE, 0)}, *const from[] = {make_on(SIZE, 0), make_on(SIZE, 0)};
    for (unsigned i = 0; i < 2; i++)
        gpu_fill(synced_mem_overwrite_gpu_data_on(from[i], stream), SIZE, 1 + i, stream);
    OK(synced_mem_async_gpu_copy_n(to, from, 2, stream)); /* the targets get memory */
    void *const first = synced_mem_mutable_gpu_data_on(from[0], stream);
    void *const second = synced_mem_mutable_gpu_data_on(from[1], other);
    gpu_fill(first, SIZE, 3, stream);
    gpu_fill(second, SIZE, 4, other);
    gpu_delay(stream); /* the copy is not over when its sources are written again */
    OK(synced_mem_async_gpu_copy_n(to, from, 2, stream));
    const uint64_t waits = stats_now().stream_waits;
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(from[0], stream), first);
    ck_assert_uint_eq(stats_now().stream_waits, waits);
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(from[1], other), second);
    ck_assert_uint_eq(stats_now().stream_waits, waits + 1 + !gpu_has_stream_ids()); /* for the copy */
    gpu_fill(first, SIZE, 5, stream);
    gpu_fill(second, SIZE, 6, other);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(host_is(synced_mem_cpu_data(to[i]), SIZE, 3 + i));
        ck_assert(host_is(synced_mem_cpu_data(from[i]), SIZE, 5 + i));
    }
    RELEASE_EACH(to[0], to[1], from[0], from[1]);
    CLOSE_EACH(stream, other);
}
END_TEST

/* A copy on the writer's stream leaves the write open, also if the host or a stream of another device reads the mapped
 * source. */
START_TEST(open_write_of_a_mapped_source)
{
    const bool by_host = _i == 0;
    if (devices() < 2)
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const from = make_placed_on(SIZE, SYNCED_MEM_PLACEMENT_MAPPED, 0);
    synced_mem *const to = by_host ? make_placed_on(SIZE, SYNCED_MEM_PLACEMENT_MAPPED, 0) : make_on(SIZE, 1);
    void *const data = synced_mem_overwrite_gpu_data_on(from, stream);
    gpu_fill(data, SIZE, 1, stream);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    gpu_delay(stream);
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(from), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    RELEASE_EACH(from, to);
    close_stream(stream);
}
END_TEST

/* The host does not wait for any of the work. */
START_TEST(never_blocks)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    elsewhere = open_stream(NON_BLOCKING);
    synced_mem *const to = make_pinned(SIZE, 1), *const from = make_pinned(SIZE, 1),
                      *const second = make_pinned(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(to, elsewhere));
    gpu_fill(synced_mem_mutable_gpu_data_on(from, elsewhere), SIZE, 2, elsewhere);
    gpu_hold(elsewhere);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    OK(synced_mem_async_gpu_copy(second, to, elsewhere));
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(second), SIZE, 2));
    RELEASE_EACH(from, to, second);
    CLOSE_EACH(stream, elsewhere);
}
END_TEST

/* ---- Pageable memory ---- */

enum { LARGE = 300001 };

/* Copies user memory, staged by this number of threads or through a bounce buffer. */
START_TEST(pageable)
{
    const bool to_gpu = _i & 1, had = _i & 2, small = _i & 4, at_cpu = _i & 8;
    static unsigned char mine[LARGE], theirs[LARGE];
    const size_t size = small ? 3000 : LARGE;
    set_staging((unsigned)_i / 16 * 2, small ? (size_t)1 << 20 : 1);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const to = make_on(size, 0), *const from = make_on(size, 0);
    pattern_write(mine, size, 1);
    pattern_write(theirs, size, OF_TO);
    OK(synced_mem_set_cpu_data(from, mine));
    OK(synced_mem_set_cpu_data(to, theirs));
    if (had)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(to, stream));
    if (had && !at_cpu)
        gpu_fill(synced_mem_mutable_gpu_data_on(to, stream), size, OF_TO, stream);
    if (!to_gpu)
        gpu_fill(synced_mem_overwrite_gpu_data_on(from, stream), size, 1, stream);
    const synced_mem_stats before = stats_now();
    if (to_gpu) {
        OK(synced_mem_async_gpu_copy(to, from, stream));
        pattern_write(mine, size, 3); /* it has been read */
        gpu_fill(synced_mem_mutable_gpu_data_on(to, stream), size / 2, 1, stream);
    } else {
        OK(synced_mem_cpu_copy(to, from));
    }
    check_moved(&before, to_gpu, !to_gpu, size);
    ck_assert_uint_eq(stats_now().staged_transfers - before.staged_transfers, !small);
    ck_assert_int_eq(synced_mem_head(to), to_gpu ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(to), size, 1));
    RELEASE_EACH(to, from);
    close_stream(stream);
}
END_TEST

/* Work queued behind a staged copy sees the contents, even through the caller's own pointer. */
START_TEST(work_behind_a_staged_copy)
{
    static unsigned char mine[LARGE];
    set_staging((unsigned)_i, 1);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const device = gpu_alloc(0, LARGE), *const there = gpu_alloc(0, LARGE);
    synced_mem *const to = make_on(LARGE, 0), *const from = make_on(LARGE, 0);
    pattern_write(mine, LARGE, 1);
    OK(synced_mem_set_cpu_data(from, mine));
    OK(synced_mem_set_gpu_data(to, device));
    OK(synced_mem_async_gpu_copy(to, from, stream));
    gpu_copy(there, device, LARGE, stream);
    gpu_stream_sync(stream);
    ck_assert(device_is(there, LARGE, 1));
    RELEASE_EACH(to, from);
    gpu_free(device);
    gpu_free(there);
    close_stream(stream);
}
END_TEST

/* The host reads pageable memory, and waits for the caller's work that fills it. */
START_TEST(pageable_memory_that_is_filled)
{
    static unsigned char mine[SIZE];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    elsewhere = open_stream(NON_BLOCKING);
    synced_mem *const to = make_on(SIZE, 0), *const from = make_on(SIZE, 0);
    gpu_pause(elsewhere);
    pattern_write(mine, SIZE, 1);
    OK(USE(from, .cpu_data = mine, .stream = elsewhere));
    OK(synced_mem_async_gpu_copy(to, from, stream));
    ck_assert(gpu_stream_is_idle(elsewhere));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    RELEASE_EACH(to, from);
    CLOSE_EACH(stream, elsewhere);
}
END_TEST

/* ---- Placements ---- */

static synced_mem *make_with_head(synced_mem_placement_kind placement, synced_mem_head_kind head, unsigned pattern)
{
    synced_mem *const mem = make_placed_on(SIZE, placement, 0);
    if (head == SYNCED_MEM_AT_CPU)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, pattern);
    if (head & SYNCED_MEM_AT_GPU) {
        gpu_delay(elsewhere);
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, elsewhere), SIZE, pattern, elsewhere);
    }
    if (head == SYNCED_MEM_SYNCED)
        OK(synced_mem_async_cpu_pull(mem, elsewhere));
    return mem;
}

START_TEST(placement)
{
    const synced_mem_placement_kind of_to = (synced_mem_placement_kind)(_i % 3);
    const synced_mem_placement_kind of_from = (synced_mem_placement_kind)(_i / 3 % 3);
    const synced_mem_head_kind head_to = (synced_mem_head_kind)(_i / 9 % 4),
                               head_from = (synced_mem_head_kind)(_i / 36 % 4);
    const bool on_host = _i / 144;
    synced_mem_device_info info = {.struct_size = sizeof info};
    OK(synced_mem_get_device_info(0, &info));
    if (!info.concurrent_managed_access)
        return;
    elsewhere = open_stream(NON_BLOCKING);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const from = make_with_head(of_from, head_from, 1), *const to = make_with_head(of_to, head_to, OF_TO);
    const struct facts before = facts_of(from);
    if (on_host)
        OK(synced_mem_cpu_copy(to, from));
    else
        OK(synced_mem_async_gpu_copy(to, from, stream));
    check_unchanged(from, &before);
    const synced_mem_head_kind next = on_host ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU;
    ck_assert_int_eq(synced_mem_head(to), head_from ? next : SYNCED_MEM_UNINITIALIZED);
    void *const there = gpu_alloc(0, SIZE);
    gpu_copy(there, synced_mem_gpu_data_on(to, stream), SIZE, stream);
    gpu_stream_sync(stream);
    ck_assert(device_is(there, SIZE, head_from ? 1 : 0));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, head_from ? 1 : 0));
    host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 4);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, head_from ? 1 : 0));
    RELEASE_EACH(to, from);
    gpu_free(there);
    CLOSE_EACH(stream, elsewhere);
}
END_TEST

/* ---- Devices ---- */

enum { HERE, THERE };

START_TEST(between_devices)
{
    const bool from_device = _i & 1, named = _i & 2, fresh = _i & 4;
    if (devices() < 2)
        return;
    const int home[] = {0, devices() - 1};
    synced_mem_stream stream = gpu_stream_create(home[_i / 16], false);
    gpu_make_current(home[HERE]);
    synced_mem *const to = named ? make_on(SIZE, home[THERE]) : make(SIZE), *const from = make_on(SIZE, home[HERE]);
    host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 1);
    if (from_device)
        gpu_fill(synced_mem_mutable_gpu_data_on(from, NULL), SIZE, 1, NULL);
    gpu_stream_sync(NULL);
    gpu_make_current(home[_i / 8 % 2]);
    if (!fresh && named)
        ck_assert_ptr_nonnull(synced_mem_gpu_data(to));
    for (int i = 0; i < 2; i++)
        OK(synced_mem_async_gpu_copy(to, from, stream));
    ck_assert_int_eq(synced_mem_device(to), named ? home[THERE] : home[_i / 16]);
    ck_assert_int_eq(synced_mem_device(from), home[HERE]);
    host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 2);
    OK(synced_mem_async_gpu_push(from, home[_i / 16] == home[HERE] ? stream : NULL));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    OK(synced_mem_cpu_copy(to, from));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 2));
    RELEASE_EACH(from, to);
    OK(synced_mem_forget_stream(stream));
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
    gpu_make_current(0);
}
END_TEST

START_TEST(default_streams_are_the_targets)
{
    if (devices() < 2)
        return;
    const int last = devices() - 1;
    synced_mem *const to = make_on(SIZE, last), *const from = make_on(SIZE, 0), *const free_one = make(SIZE);
    gpu_fill(synced_mem_overwrite_gpu_data(from), SIZE, 1, NULL);
    OK(synced_mem_async_gpu_copy(to, from, NULL));
    OK(synced_mem_async_gpu_copy(free_one, from, NULL));
    ck_assert_int_eq(synced_mem_device(free_one), 0);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(free_one), SIZE, 1));
    RELEASE_EACH(to, from, free_one);
}
END_TEST

START_TEST(a_stream_of_neither_device)
{
    if (devices() < 3)
        return;
    synced_mem_stream stream = gpu_stream_create(1, false);
    synced_mem *const to = make_on(SIZE, 2), *const from = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 1);
    const struct facts before = facts_of(to);
    FAILS(SYNCED_MEM_ERR_INVALID_DEVICE, synced_mem_async_gpu_copy(to, from, stream));
    SAYS("on device 1, but the objects are on devices 2 and 0");
    check_unchanged(to, &before);
    RELEASE_EACH(to, from);
    gpu_stream_destroy(stream);
}
END_TEST

/* ---- Giving up contents ---- */

START_TEST(clear_while_busy)
{
    const enum busy busy = (enum busy)(_i % BUSY);
    elsewhere = open_stream(NON_BLOCKING);
    blocking = open_stream(BLOCKING);
    seen = gpu_alloc(0, SIZE);
    synced_mem *const to = make_pinned(SIZE, 6), *const from = make_pinned(SIZE, 1);
    make_busy(busy, to, from);
    OK(synced_mem_clear(to));
    OK(synced_mem_clear(from));
    if (_i / BUSY)
        ck_assert(device_is(synced_mem_gpu_data_on(to, NULL), SIZE, 0));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 0));
    ck_assert(host_is(synced_mem_cpu_data(from), SIZE, 0));
    RELEASE_EACH(to, from);
    CLOSE_EACH(elsewhere, blocking);
    gpu_free(seen);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copies and work in flight");
    TCase *const flight = add_case(made, "in flight");
    add_gpu_tests(flight, open_write_of_the_source, open_writes_of_two_sources, never_blocks,
                  pageable_memory_that_is_filled);
    add_gpu_loop_test(flight, hazard, 0, BUSY * AFTERS * 2);
    tcase_add_loop_test(flight, open_write_of_a_mapped_source, 0, 2);
    add_gpu_loop_test(flight, pageable, 0, 32);
    add_gpu_loop_test(flight, work_behind_a_staged_copy, 0, 3);
    add_gpu_loop_test(flight, clear_while_busy, 0, 2 * BUSY);
    TCase *const places = add_case(made, "places");
    add_tests(places, default_streams_are_the_targets, a_stream_of_neither_device);
    add_gpu_loop_test(places, placement, 0, 288);
    tcase_add_loop_test(places, between_devices, 0, 32);
    return made;
}
