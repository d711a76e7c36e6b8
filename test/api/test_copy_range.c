/*
 * Checks copies of ranges: every head of one object against every head of the other, for each place of the range in
 * both and each kind of stream. The contents are compared with those of an array.
 */
#include "fixture.h"

#include "object/object.h"

#include <stdint.h>
#include <string.h>

enum { N = 4001, SIZE = 12000, HEADS = 4, LIBRARY = STREAM_KINDS, NONE, STREAMS };

#define UN SYNCED_MEM_UNINITIALIZED
#define CPU SYNCED_MEM_AT_CPU
#define GPU SYNCED_MEM_AT_GPU
#define SYN SYNCED_MEM_SYNCED

/* The places of a range in its object. */
static const struct place {
    size_t size; /* of the object */
    size_t offset;
    size_t bytes;
} places[] = {{N, 0, N}, {SIZE, 0, N}, {SIZE, 3001, N}, {SIZE, SIZE - N, N}, {SIZE, 5000, 0}, {SIZE, SIZE, 0}};
enum { PLACES = sizeof places / sizeof places[0] };

/* An object, and the bytes that it is to have. */
struct subject {
    synced_mem *mem;
    unsigned char bytes[SIZE];
};
static struct subject to, from;

static void begin(struct subject *subject, size_t size, synced_mem_head_kind head, unsigned pattern)
{
    subject->mem = make_on(size, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    pattern_write(subject->bytes, size, head == UN ? 0 : pattern);
    if (head == CPU || head == SYN)
        host_fill(given(synced_mem_overwrite_cpu_data(subject->mem)), size, pattern);
    if (head == GPU)
        gpu_fill(given(synced_mem_overwrite_gpu_data_on(subject->mem, NULL)), size, pattern, NULL);
    if (head == SYN)
        (void)given(synced_mem_gpu_data_on(subject->mem, NULL));
    ck_assert_int_eq(synced_mem_head(subject->mem), head);
}

static void open_kind(int kind, synced_mem_stream *stream)
{
    *stream = kind == NONE      ? SYNCED_MEM_NO_STREAM
              : kind == LIBRARY ? SYNCED_MEM_STREAM_LIBRARY
              : gpu_expected()  ? open_stream(kind)
                                : NULL;
}

static void close_kind(int kind, synced_mem_stream stream)
{
    if (kind < LIBRARY && gpu_expected())
        close_stream(stream);
}

static void host_reads(const struct subject *subject)
{
    const size_t size = synced_mem_size(subject->mem);
    const void *const data = given(synced_mem_cpu_data(subject->mem));
    gpu_note_host_read(data, size);
    ck_assert(memcmp(data, subject->bytes, size) == 0);
}

/* Work on the stream, or the host, reads the object. Then the host does. */
static void check_contents(const struct subject *subject, int kind, synced_mem_stream stream)
{
    static unsigned char read[SIZE];
    const size_t size = synced_mem_size(subject->mem);
    if (gpu_expected() && kind < LIBRARY) {
        gpu_expect(given(synced_mem_gpu_data_on(subject->mem, stream)), size, subject->bytes, stream);
    } else if (gpu_expected()) {
        gpu_read(read, given(synced_mem_gpu_data(subject->mem)), size);
        ck_assert(memcmp(read, subject->bytes, size) == 0);
    }
    host_reads(subject);
}

static bool is_whole(const struct place *place)
{
    return place->bytes == place->size;
}

static synced_mem_head_kind expect_side(const struct place *target, synced_mem_head_kind of_to,
                                        synced_mem_head_kind of_from, int kind)
{
    if (of_from == UN)
        return UN;
    if (kind == NONE)
        return CPU;
    if (!is_whole(target) && (of_to == CPU || of_to == GPU))
        return of_to;
    return of_from == CPU ? CPU : GPU;
}

static synced_mem_head_kind join(synced_mem_head_kind one, synced_mem_head_kind other)
{
    const unsigned all = (unsigned)one & (unsigned)other, any = (unsigned)one | (unsigned)other;
    return all == 0 && any != 0 ? SYNCED_MEM_MIXED : (synced_mem_head_kind)all;
}

/* Returns whether the heads alone keep parts apart: work and uses of the legacy stream have ended before. The end of a
 * view joins the parts. */
static bool is_in_parts(synced_mem *mem)
{
    synced_mem *view;
    if (gpu_expected())
        OK(synced_mem_end_use_on(mem, NULL));
    gpu_sync_device(0);
    OK(synced_mem_view(&view, mem, 0, synced_mem_size(mem), NULL));
    OK(synced_mem_release(view));
    return sm_is_divided(mem);
}

static void check_transfers(const synced_mem_stats *before, synced_mem_head_kind of_from, synced_mem_head_kind side,
                            size_t bytes)
{
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_bytes - before->h2d_bytes, side == GPU && of_from == CPU ? bytes : 0);
    ck_assert_uint_eq(after.d2h_bytes - before->d2h_bytes, side == CPU && of_from == GPU ? bytes : 0);
    ck_assert_uint_eq(after.objects, 2);
}

static void check_cell(int kind, synced_mem_head_kind of_to, synced_mem_head_kind of_from, const struct place *target,
                       const struct place *source)
{
    synced_mem_stream stream;
    open_kind(kind, &stream);
    begin(&to, target->size, of_to, 1);
    begin(&from, source->size, of_from, 9);
    const struct facts before_to = facts_of(to.mem), before_from = facts_of(from.mem);
    const synced_mem_stats stats = stats_now();
    const size_t bytes = target->bytes;
    OK(synced_mem_copy(to.mem, target->offset, from.mem, source->offset, bytes, stream));
    check_unchanged(from.mem, &before_from);
    const synced_mem_head_kind side = expect_side(target, of_to, of_from, kind);
    const synced_mem_head_kind next = is_whole(target) ? side : join(side, of_to);
    if (bytes == 0)
        check_unchanged(to.mem, &before_to);
    else
        ck_assert_int_eq(synced_mem_head(to.mem), next);
    check_transfers(&stats, bytes ? of_from : UN, bytes ? side : UN, bytes);
    memcpy(to.bytes + target->offset, from.bytes + source->offset, bytes);
    ck_assert(!is_in_parts(from.mem));
    ck_assert_int_eq(is_in_parts(to.mem), bytes > 0 && !is_whole(target) && side != of_to);
    check_contents(&to, kind, stream);
    ck_assert(!is_in_parts(to.mem));
    check_contents(&from, kind, stream);
    RELEASE_EACH(to.mem, from.mem);
    close_kind(kind, stream);
}

START_TEST(cell)
{
    const int kind = _i % STREAMS;
    const synced_mem_head_kind of_to = (synced_mem_head_kind)(_i / STREAMS % HEADS);
    const synced_mem_head_kind of_from = (synced_mem_head_kind)(_i / STREAMS / HEADS);
    if (!gpu_expected() && (of_to >= GPU || of_from >= GPU))
        return;
    for (int i = 0; i < PLACES * PLACES; i++)
        if (places[i % PLACES].bytes == places[i / PLACES].bytes)
            check_cell(kind, of_to, of_from, &places[i % PLACES], &places[i / PLACES]);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
}
END_TEST

/* ---- Order ---- */

/* A copy comes after the kernel that writes its source, and before one that writes the source again. The host does not
 * wait. */
START_TEST(behind_a_kernel)
{
    const int kind = _i % NONE;
    synced_mem_stream stream, writer = open_stream(NON_BLOCKING);
    open_kind(kind, &stream);
    begin(&to, SIZE, GPU, 1);
    begin(&from, SIZE, GPU, 2);
    gpu_sync_device(0);
    gpu_hold(writer);
    gpu_fill(given(synced_mem_mutable_gpu_data_on(from.mem, writer)), SIZE, 5, writer);
    OK(synced_mem_copy(to.mem, 100, from.mem, 3000, N, stream));
    gpu_fill(given(synced_mem_mutable_gpu_data_on(from.mem, writer)), SIZE, 6, writer);
    gpu_unhold();
    pattern_write(from.bytes, SIZE, 5);
    memcpy(to.bytes + 100, from.bytes + 3000, N);
    pattern_write(from.bytes, SIZE, 6);
    check_contents(&to, kind, stream);
    check_contents(&from, kind, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    RELEASE_EACH(to.mem, from.mem);
    close_kind(kind, stream);
    close_stream(writer);
}
END_TEST

/* A kernel that was given the target's pointer earlier goes on with the bytes beside the range. */
START_TEST(beside_a_kernel)
{
    const int kind = _i % STREAMS;
    synced_mem_stream stream, writer = open_stream(NON_BLOCKING);
    open_kind(kind, &stream);
    begin(&to, SIZE, GPU, 1);
    begin(&from, N, SYN, 2);
    gpu_pause(writer);
    gpu_fill(given(synced_mem_mutable_gpu_data_on(to.mem, writer)), SIZE, 5, writer);
    OK(synced_mem_copy(to.mem, SIZE - N, from.mem, 0, N, stream));
    pattern_write(to.bytes, SIZE, 5);
    memcpy(to.bytes + SIZE - N, from.bytes, N);
    check_contents(&to, kind, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    RELEASE_EACH(to.mem, from.mem);
    close_kind(kind, stream);
    close_stream(writer);
}
END_TEST

/* Each of many copies comes after the one before, whose target is its source. */
START_TEST(one_after_another)
{
    enum { MANY = 20 };
    const int kind = _i % STREAMS;
    synced_mem_stream stream;
    open_kind(kind, &stream);
    begin(&to, SIZE, gpu_expected() ? GPU : CPU, 1);
    begin(&from, SIZE, CPU, 2);
    for (int i = 0; i < MANY; i++) {
        const size_t here = (size_t)i * 307, there = (size_t)(MANY - i) * 101;
        struct subject *const target = i % 2 ? &from : &to, *const source = i % 2 ? &to : &from;
        OK(synced_mem_copy(target->mem, here, source->mem, there, N, stream));
        memcpy(target->bytes + here, source->bytes + there, N);
    }
    check_contents(&to, kind, stream);
    check_contents(&from, kind, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    RELEASE_EACH(to.mem, from.mem);
    close_kind(kind, stream);
}
END_TEST

/* ---- Within one object, and views ---- */

START_TEST(within_one_object)
{
    const int kind = _i % STREAMS;
    synced_mem_stream stream;
    open_kind(kind, &stream);
    begin(&to, SIZE, gpu_expected() ? (synced_mem_head_kind)(_i / STREAMS) : CPU, 3);
    OK(synced_mem_copy(to.mem, 1000, to.mem, 1000 + N, N, stream)); /* side by side */
    memmove(to.bytes + 1000, to.bytes + 1000 + N, N);
    OK(synced_mem_copy(to.mem, SIZE - 100, to.mem, 0, 100, stream));
    memmove(to.bytes + SIZE - 100, to.bytes, 100);
    const struct facts before = facts_of(to.mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 1000, to.mem, 999 + N, N, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 999 + N, to.mem, 1000, N, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 7, to.mem, 7, 1, stream));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 0, to.mem, 0, SIZE, stream));
    SAYS("names it a second time");
    check_unchanged(to.mem, &before);
    check_contents(&to, kind, stream);
    OK(synced_mem_release(to.mem));
    close_kind(kind, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
}
END_TEST

/* The objects are views, whose roots have other parts with other heads. */
START_TEST(between_views)
{
    const int kind = _i % STREAMS;
    synced_mem_stream stream;
    open_kind(kind, &stream);
    begin(&to, SIZE, CPU, 1);
    begin(&from, SIZE, CPU, 2);
    synced_mem *target, *source;
    OK(synced_mem_view(&target, to.mem, 2000, 6000, NULL));
    OK(synced_mem_view(&source, from.mem, 1000, 7000, NULL));
    if (gpu_expected()) {
        gpu_fill(given(synced_mem_overwrite_gpu_data(source)), 7000, 4, NULL);
        pattern_write(from.bytes + 1000, 7000, 4);
    }
    OK(synced_mem_copy(target, 500, source, 2500, N, stream));
    memcpy(to.bytes + 2500, from.bytes + 3500, N);
    ck_assert_int_eq(synced_mem_head(to.mem), CPU);              /* as the rest of the view */
    OK(synced_mem_copy(target, 0, from.mem, 500, 6000, stream)); /* of two heads, to a whole view */
    memcpy(to.bytes + 2000, from.bytes + 500, 6000);
    ck_assert_int_eq(synced_mem_head(target), gpu_expected() && kind != NONE ? GPU : CPU);
    RELEASE_EACH(target, source);
    check_contents(&to, kind, stream);
    check_contents(&from, kind, stream);
    ck_assert(!is_in_parts(to.mem));
    ck_assert(!is_in_parts(from.mem));
    RELEASE_EACH(to.mem, from.mem);
    close_kind(kind, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
}
END_TEST

/* The bytes without contents do not count: the other bytes have one side. */
START_TEST(bytes_without_contents)
{
    synced_mem *part;
    begin(&to, SIZE, UN, 1);
    begin(&from, SIZE, UN, 2);
    OK(synced_mem_view(&part, from.mem, 1000, N, NULL));
    host_fill(given(synced_mem_overwrite_cpu_data(part)), N, 2);
    pattern_write(from.bytes + 1000, N, 2);
    OK(synced_mem_copy(to.mem, 0, from.mem, 0, SIZE, NULL)); /* needs no device */
    memcpy(to.bytes, from.bytes, SIZE);
    ck_assert_int_eq(synced_mem_head(to.mem), SYNCED_MEM_MIXED);
    OK(synced_mem_copy(to.mem, 6000, from.mem, 1000, N, NULL)); /* the rest is AT_CPU but for zeros */
    memcpy(to.bytes + 6000, from.bytes + 1000, N);
    host_reads(&to);
    ck_assert_int_eq(synced_mem_head(to.mem), CPU);
    RELEASE_EACH(part, to.mem, from.mem);
}
END_TEST

/* The other bytes of the target have one side, though some have no contents. So that side gets the copy. */
START_TEST(beside_bytes_without_contents)
{
    synced_mem *part;
    begin(&to, SIZE, UN, 1);
    begin(&from, N, _i ? SYN : GPU, 2);
    OK(synced_mem_view(&part, to.mem, 1000, 500, NULL));
    host_fill(given(synced_mem_overwrite_cpu_data(part)), 500, 5);
    pattern_write(to.bytes + 1000, 500, 5);
    OK(synced_mem_copy(to.mem, 5000, from.mem, 0, N, NULL));
    memcpy(to.bytes + 5000, from.bytes, N);
    host_reads(&to);
    ck_assert_int_eq(synced_mem_head(to.mem), CPU);
    OK(synced_mem_release(part));
    ck_assert(!is_in_parts(to.mem));
    RELEASE_EACH(to.mem, from.mem);
}
END_TEST

/* Objects of which both sides use one memory. */
START_TEST(unified)
{
    static const synced_mem_placement_kind placements[] = {SYNCED_MEM_PLACEMENT_SEPARATE, SYNCED_MEM_PLACEMENT_MAPPED,
                                                           SYNCED_MEM_PLACEMENT_MANAGED};
    const int kind = _i % STREAMS;
    if (!gpu_is_emulated())
        return;
    synced_mem_stream stream;
    open_kind(kind, &stream);
    for (int i = 0; i < 4; i++) {
        struct subject *const subjects[] = {&to, &from};
        for (int j = 0; j < 2; j++) {
            synced_mem_options options;
            synced_mem_options_init(&options);
            options.device = 0;
            options.placement = placements[_i / STREAMS / (j ? 3 : 1) % 3];
            OK(synced_mem_create(&subjects[j]->mem, SIZE, &options));
            pattern_write(subjects[j]->bytes, SIZE, 1 + (unsigned)j);
            if (i >> j & 1)
                gpu_fill(given(synced_mem_overwrite_gpu_data_on(subjects[j]->mem, NULL)), SIZE, 1 + (unsigned)j, NULL);
            else
                host_fill(given(synced_mem_overwrite_cpu_data(subjects[j]->mem)), SIZE, 1 + (unsigned)j);
        }
        OK(synced_mem_copy(to.mem, 3001, from.mem, 17, N, stream));
        memcpy(to.bytes + 3001, from.bytes + 17, N);
        check_contents(&to, kind, stream);
        check_contents(&from, kind, stream);
        RELEASE_EACH(to.mem, from.mem);
    }
    close_kind(kind, stream);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
}
END_TEST

/* ---- Bad input, devices ---- */

START_TEST(bad_input)
{
    begin(&to, SIZE, CPU, 1);
    begin(&from, N, CPU, 2);
    const struct facts before = facts_of(to.mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(NULL, 0, from.mem, 0, 1, NULL));
    SAYS("to is NULL");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 0, NULL, 0, 0, NULL));
    SAYS("from is NULL");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(NULL, 0, NULL, 0, 0, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 0, from.mem, 0, N + 1, NULL));
    SAYS("the part of 4002 bytes at offset 0 is not within 4001 bytes");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, SIZE - N + 1, from.mem, 0, N, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, SIZE + 1, from.mem, 0, 0, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 0, from.mem, N + 1, 0, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, SIZE_MAX, from.mem, 0, 2, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(to.mem, 1, from.mem, 1, SIZE_MAX, NULL));
    check_unchanged(to.mem, &before);
    host_reads(&to);
    RELEASE_EACH(to.mem, from.mem);
}
END_TEST

/* A failure is reported under the name of the caller's object, not of a view. */
START_TEST(names)
{
    synced_mem *const named_to = make_named("target", SIZE), *const named_from = make_named("source", SIZE);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(named_to, SIZE, named_from, 0, 1, NULL));
    SAYS("target");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(named_to, 0, named_from, SIZE, 1, NULL));
    SAYS("source");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_copy(named_to, 0, named_to, 1, 2, NULL));
    SAYS("target");
    RELEASE_EACH(named_to, named_from);
}
END_TEST

/* The host copies sizes that are staged from pageable memory. */
START_TEST(large)
{
    enum { LARGE = 3 << 20, PART = 2 << 20 };
    synced_mem_stream stream;
    open_kind(_i, &stream);
    synced_mem *const target = make(LARGE), *const source = make(LARGE);
    host_fill(given(synced_mem_overwrite_cpu_data(source)), LARGE, 2);
    host_fill(given(synced_mem_overwrite_cpu_data(target)), LARGE, 0);
    if (gpu_expected())
        (void)given(synced_mem_mutable_gpu_data(target));
    OK(synced_mem_copy(target, LARGE - PART, source, 0, PART, stream));
    unsigned char *const data = given(synced_mem_cpu_data(target));
    gpu_note_host_read(data, LARGE);
    ck_assert(pattern_is(data, LARGE - PART, 0));
    ck_assert(pattern_is(data + LARGE - PART, PART, 2));
    RELEASE_EACH(target, source);
    close_kind(_i, stream);
}
END_TEST

/* A stream of the device of either object takes the transfer; the library's is of the target's device. */
START_TEST(between_devices)
{
    if (devices() < 2)
        return;
    synced_mem_stream stream;
    open_kind(_i, &stream);
    begin(&from, SIZE, GPU, 4);
    to.mem = make_on(SIZE, 1);
    host_fill(given(synced_mem_overwrite_cpu_data(to.mem)), SIZE, 1);
    pattern_write(to.bytes, SIZE, 1);
    gpu_make_current(1);
    (void)given(synced_mem_mutable_gpu_data(to.mem));
    gpu_make_current(0);
    if (_i == BLOCKING || _i == NON_BLOCKING || _i == LEGACY || _i == LIBRARY)
        OK(synced_mem_copy(to.mem, 10, from.mem, 20, N, stream));
    memcpy(to.bytes + 10, from.bytes + 20, N);
    host_reads(&to);
    host_reads(&from);
    RELEASE_EACH(to.mem, from.mem);
    close_kind(_i, stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copy_range");
    TCase *const cells = add_case(made, "cells");
    tcase_add_loop_test(cells, cell, 0, STREAMS * HEADS * HEADS);
    TCase *const order = add_case(made, "order");
    add_gpu_loop_test(order, behind_a_kernel, 0, NONE);
    add_gpu_loop_test(order, beside_a_kernel, 0, STREAMS);
    tcase_add_loop_test(order, one_after_another, 0, STREAMS);
    TCase *const objects = add_case(made, "objects");
    add_tests(objects, bytes_without_contents, bad_input, names);
    tcase_add_loop_test(objects, within_one_object, 0, STREAMS * HEADS);
    tcase_add_loop_test(objects, between_views, 0, STREAMS);
    add_gpu_loop_test(objects, beside_bytes_without_contents, 0, 2);
    tcase_add_loop_test(objects, unified, 0, STREAMS * 9);
    tcase_add_loop_test(objects, large, 0, STREAMS);
    tcase_add_loop_test(objects, between_devices, 0, NONE);
    return made;
}
