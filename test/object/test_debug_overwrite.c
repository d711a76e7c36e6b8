/* Checks the fill of overwrite accesses in debug mode: bytes that the caller leaves unwritten show. */
#include "debug_kit.h"

/* NaN in every floating-point format. */
enum { UNWRITTEN = 0xff, LESS = SIZE / 2 };

static bool is_unwritten(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)data)[i] != UNWRITTEN)
            return false;
    return true;
}

/* Checks for the pattern, and for the fill behind it. */
static void check_part(const void *data, size_t written, size_t size, unsigned pattern)
{
    ck_assert_ptr_nonnull(data);
    ck_assert(host_is(data, written, pattern));
    ck_assert(is_unwritten((const char *)data + written, size - written));
}

/* ---- The host ---- */

static void overwrite_part_of(synced_mem *mem, size_t size, unsigned pattern)
{
    void *const data = synced_mem_overwrite_cpu_data(mem);
    ck_assert_ptr_nonnull(data);
    ck_assert(is_unwritten(data, size));
    host_fill(data, size / 2, pattern);
    check_part(synced_mem_cpu_data(mem), size / 2, size, pattern);
}

/* Overwrites from each head, and again where the hot path serves the access without debug mode. */
static void overwrite_on_the_host(void)
{
    synced_mem *const mem = make(SIZE);
    overwrite_part_of(mem, SIZE, 1);
    overwrite_part_of(mem, SIZE, 2);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
    ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 3));
    overwrite_part_of(mem, SIZE, 4);
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        overwrite_part_of(mem, SIZE, 5);
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 6, NULL);
        overwrite_part_of(mem, SIZE, 7);
        gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 8, NULL);
        OK(synced_mem_async_cpu_pull(mem, NULL));
        overwrite_part_of(mem, SIZE, 9);
    }
    OK(synced_mem_resize_discard(mem, 0));
    (void)synced_mem_overwrite_cpu_data(mem);
    OK(synced_mem_release(mem));
}

/* Only the object's bytes are filled, and not the rest of the memory. */
static void overwrite_memory_of_the_callers(void)
{
    unsigned char memory[2 * SIZE];
    memset(memory, 1, sizeof memory);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_set_cpu_data(mem, memory + LESS));
    overwrite_part_of(mem, SIZE, 2);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
    OK(synced_mem_resize_discard(mem, LESS));
    overwrite_part_of(mem, LESS, 4);
    for (size_t i = 0; i < sizeof memory; i++)
        if (i < LESS || i >= LESS + SIZE)
            ck_assert_uint_eq(memory[i], 1);
    for (size_t i = LESS; i < SIZE; i++)
        ck_assert_uint_eq(memory[LESS + i], pattern_byte(i, 3));
    OK(synced_mem_release(mem));
}

START_TEST(on_the_host)
{
    lives(overwrite_on_the_host);
    ck_assert_str_eq(said, "");
    lives(overwrite_memory_of_the_callers);
}
END_TEST

/* ---- The device ---- */

static synced_mem_stream stream;
static bool on_a_stream;

static void overwrite_part_on_device(synced_mem *mem, unsigned pattern)
{
    void *const data = on_a_stream ? synced_mem_overwrite_gpu_data_on(mem, stream) : synced_mem_overwrite_gpu_data(mem);
    ck_assert_ptr_nonnull(data);
    gpu_fill(data, LESS, pattern, on_a_stream ? stream : NULL);
    check_part(synced_mem_cpu_data(mem), LESS, SIZE, pattern);
}

/* The fill comes after kernels that use the old contents. */
static void overwrite_behind(synced_mem *mem, unsigned pattern)
{
    synced_mem_stream other = open_stream(NON_BLOCKING);
    gpu_delay(other);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, other), SIZE, 1, other);
    overwrite_part_on_device(mem, pattern);
    gpu_delay(NULL);
    gpu_fill(synced_mem_mutable_gpu_data(mem), SIZE, 1, NULL);
    overwrite_part_on_device(mem, pattern);
    close_stream(other);
}

static void overwrite_on_the_device(void)
{
    for (int kind = 0; kind < STREAM_KINDS; kind++) {
        stream = open_stream(kind);
        for (int way = 0; way < 2; way++) {
            synced_mem *const mem = make(SIZE);
            on_a_stream = way == 1;
            overwrite_part_on_device(mem, 2);
            overwrite_part_on_device(mem, 3);
            ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
            overwrite_part_on_device(mem, 4);
            host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 5);
            overwrite_part_on_device(mem, 6);
            overwrite_behind(mem, 7);
            gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 8, stream);
            ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, stream));
            ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 8));
            OK(synced_mem_resize_discard(mem, 0));
            (void)synced_mem_overwrite_gpu_data_on(mem, stream);
            (void)synced_mem_overwrite_gpu_data(mem);
            OK(synced_mem_release(mem));
        }
        close_stream(stream);
    }
}

/* An access again fills all parts again. */
static void overwrite_parts_on_the_device(void)
{
    synced_mem *view;
    stream = open_stream(NON_BLOCKING);
    for (int way = 0; way < 2; way++) {
        synced_mem *const mem = make(SIZE);
        OK(synced_mem_view(&view, mem, 0, SIZE / 4, NULL));
        on_a_stream = way == 1;
        for (int i = 0; i < 3; i++) {
            void *const data =
                on_a_stream ? synced_mem_overwrite_gpu_data_on(mem, stream) : synced_mem_overwrite_gpu_data(mem);
            gpu_fill(data, i < 2 ? SIZE : LESS, 1, on_a_stream ? stream : NULL);
        }
        check_part(synced_mem_cpu_data(mem), LESS, SIZE, 1);
        RELEASE_EACH(view, mem);
    }
    close_stream(stream);
}

static void overwrite_memory_of_the_callers_on_the_device(void)
{
    char *const memory = gpu_alloc(0, 2 * SIZE);
    gpu_fill(memory, 2 * SIZE, 1, NULL);
    synced_mem *const mem = make_on(SIZE, 0);
    OK(synced_mem_set_gpu_data(mem, memory));
    for (int way = 0; way < 2; way++) {
        on_a_stream = way == 1;
        stream = NULL;
        overwrite_part_on_device(mem, 2);
    }
    static unsigned char behind[2 * SIZE];
    gpu_read(behind, memory, 2 * SIZE);
    for (size_t i = SIZE; i < 2 * SIZE; i++)
        ck_assert_uint_eq(behind[i], pattern_byte(i, 1));
    OK(synced_mem_release(mem));
    gpu_free(memory);
}

/* Without a kernel of the caller's, the fill is the only work in flight. */
static void hand_back_what_is_being_filled(void)
{
    char *const memory = gpu_alloc(0, SIZE);
    static unsigned char seen[SIZE];
    synced_mem_stream other = open_stream(NON_BLOCKING);
    stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    for (int way = 0; way < 2; way++) {
        OK(synced_mem_set_gpu_data(mem, memory));
        gpu_delay(stream);
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, stream));
        OK(way == 0 ? synced_mem_release_data(mem) : synced_mem_resize_discard(mem, 2 * SIZE));
        gpu_fill(memory, SIZE, 1, other);
        gpu_read(seen, memory, SIZE);
        ck_assert(pattern_is(seen, SIZE, 1));
        OK(synced_mem_resize_discard(mem, SIZE));
    }
    OK(synced_mem_release(mem));
    gpu_free(memory);
    CLOSE_EACH(stream, other);
}

/* Both sides share one memory. */
static void overwrite_unified(void)
{
    for (int placement = SYNCED_MEM_PLACEMENT_MAPPED; placement <= SYNCED_MEM_PLACEMENT_MANAGED; placement++)
        for (int way = 0; way < 2; way++) {
            synced_mem_options options = default_options();
            synced_mem *mem = NULL;
            options.placement = (synced_mem_placement_kind)placement;
            OK(synced_mem_create(&mem, SIZE, &options));
            on_a_stream = way == 1;
            stream = NULL;
            if (synced_mem_gpu_data(mem)) {
                overwrite_part_of(mem, SIZE, 1);
                overwrite_part_on_device(mem, 2);
                overwrite_part_of(mem, SIZE, 3);
                overwrite_part_on_device(mem, 4);
                overwrite_part_on_device(mem, 5);
            }
            OK(synced_mem_release(mem));
        }
}

/* A stream that has the pointer to read, and overwrites, may go on to read once the host has read too. */
static void overwrite_what_is_read_on(void)
{
    static unsigned char expected[SIZE];
    synced_mem_stream other = open_stream(NON_BLOCKING);
    for (int way = 0; way < 2; way++) {
        synced_mem *const mem = make_at_cpu(SIZE, 1);
        on_a_stream = way == 1;
        stream = on_a_stream ? open_stream(NON_BLOCKING) : NULL;
        const void *const data = on_a_stream ? synced_mem_gpu_data_on(mem, stream) : synced_mem_gpu_data(mem);
        ck_assert_ptr_nonnull(data);
        overwrite_part_on_device(mem, 2);
        memcpy(expected, synced_mem_cpu_data(mem), SIZE);
        gpu_delay(stream);
        gpu_expect(data, SIZE, expected, stream);
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, other), SIZE, 3, other);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
        OK(synced_mem_release(mem));
        ck_assert_uint_eq(gpu_mismatches(true), 0);
        if (on_a_stream)
            close_stream(stream);
    }
    close_stream(other);
}

START_TEST(on_the_device)
{
    lives(overwrite_on_the_device);
    lives(overwrite_what_is_read_on);
    lives(overwrite_parts_on_the_device);
    lives(overwrite_memory_of_the_callers_on_the_device);
    lives(hand_back_what_is_being_filled);
    lives(overwrite_unified);
}
END_TEST

/* ---- Without debug mode nothing is filled ---- */

static void overwrite_what_stays(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert(host_is(synced_mem_overwrite_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}

START_TEST(off)
{
    ck_assert_int_eq(run(overwrite_what_stays, "0"), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("debug overwrite");
    TCase *const cases = add_case_in_children(all, "debug overwrite");
    add_tests(cases, on_the_host, off);
    add_gpu_tests(cases, on_the_device);
    return all;
}
