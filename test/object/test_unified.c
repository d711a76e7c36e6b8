/*
 * Checks objects whose memory both sides use. From outside they behave as all other objects do, with the same heads and
 * the same one rule. Nothing is ever transferred.
 */
#include "accesses.h"
#include "unified_kit.h"

#include <string.h>

/* ---- The state table ---- */

/* A repeated access returns the same pointer, and does nothing. */
static void check_again(synced_mem *mem, enum access access, const void *data)
{
    const synced_mem_stats then = stats_now();
    for (int again = 0; again < 2; again++)
        ck_assert_ptr_eq(do_access(mem, access, work.other), data);
    const synced_mem_stats now = stats_now();
    ck_assert_int_eq(memcmp(&then, &now, sizeof now), 0);
}

/* Returns whether the side has the pattern. On the device a kernel reads it. */
static bool side_is(const void *data, bool gpu, bool on, unsigned pattern)
{
    if (!gpu)
        return host_is(data, SIZE, pattern);
    void *const looked = gpu_alloc(0, SIZE);
    gpu_copy(looked, data, SIZE, on ? work.other : NULL);
    gpu_stream_sync(on ? work.other : NULL);
    const bool is = device_is(looked, SIZE, pattern);
    gpu_free(looked);
    return is;
}

static void side_writes(void *data, bool gpu, bool on)
{
    if (gpu)
        gpu_fill(data, SIZE, 2, on ? work.other : NULL);
    else
        host_fill(data, SIZE, 2);
}

START_TEST(table)
{
    const synced_mem_placement_kind kind = kinds[_i / (WAYS * ACCESSES)];
    const enum way way = (enum way)(_i / ACCESSES % WAYS);
    const enum access access = (enum access)(_i % ACCESSES);
    const bool on = access >= ON_READ;
    const bool gpu = of_gpu(access);
    if (!has(kind))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kind);
    go(mem, way);
    const int head = head_of[way];
    ck_assert_int_eq(synced_mem_head(mem), head);
    const void *const data = do_access(mem, access, work.other);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    ck_assert_int_eq(synced_mem_head(mem), next_head[head][plain(access)]);
    check_again(mem, access, data);
    if (!overwrites(access))
        ck_assert(side_is(data, gpu, on, head == UN ? 0 : 1));
    if (writes(access))
        side_writes((void *)data, gpu, on);
    const unsigned pattern = writes(access) ? 2 : head == UN ? 0 : 1;
    const void *const there = gpu ? synced_mem_cpu_data(mem) : synced_mem_gpu_data(mem);
    ck_assert_ptr_eq(there, data);
    ck_assert(side_is(there, !gpu, false, pattern));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, pattern));
    finish(mem);
    clean_up();
}
END_TEST

/* ---- Facts ---- */

START_TEST(facts)
{
    const bool mapped = kinds[_i] == SYNCED_MEM_PLACEMENT_MAPPED;
    const synced_mem_source source = mapped ? SYNCED_MEM_SOURCE_MAPPED : SYNCED_MEM_SOURCE_MANAGED;
    if (!has(kinds[_i]))
        return;
    OK(synced_mem_shutdown());
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_device(mem), SYNCED_MEM_DEVICE_CURRENT);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_placement(mem), kinds[_i]);
    ck_assert_int_eq(synced_mem_cpu_source(mem), source);
    ck_assert_int_eq(synced_mem_gpu_source(mem), source);
    ck_assert_uint_ge(synced_mem_cpu_capacity(mem), SIZE);
    ck_assert_uint_eq(synced_mem_gpu_capacity(mem), synced_mem_cpu_capacity(mem));
    ck_assert_int_eq(synced_mem_device(mem), gpu_current_device());
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.pageable_bytes + stats.gpu_bytes, 0);
    ck_assert_uint_ge(mapped ? stats.pinned_bytes : stats.managed_bytes, SIZE);
    ck_assert_uint_eq(mapped ? stats.managed_bytes : stats.pinned_bytes, 0);
    finish(mem);
}
END_TEST

/* The object takes the device of the stream that makes the first access. */
START_TEST(device_of_the_stream)
{
    const int last = devices() - 1;
    if (!has(kinds[_i]))
        return;
    synced_mem_stream stream = gpu_stream_create(last, false);
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    void *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
    ck_assert_int_eq(synced_mem_device(mem), last);
    gpu_make_current(last);
    gpu_fill(data, SIZE, 1, stream);
    gpu_make_current(0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    finish(mem);
    close_stream(stream);
}
END_TEST

START_TEST(bad_options)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.placement = (synced_mem_placement_kind)(_i == 0 ? 4 : -1);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, SIZE, &options));
    SAYS("placement");
    ck_assert_ptr_null(mem);
    ck_assert_int_eq(synced_mem_placement(NULL), SYNCED_MEM_PLACEMENT_SEPARATE);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
}
END_TEST

static void *alloc_nothing(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream, (void)user;
    return NULL;
}

static void free_nothing(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)data, (void)size, (void)alignment, (void)device, (void)stream, (void)user;
}

/* Memory for both sides comes from no allocator of the caller's. */
START_TEST(no_allocators)
{
    const synced_mem_allocator none = {.struct_size = sizeof none, .alloc = alloc_nothing, .free = free_nothing};
    synced_mem *mem = NULL;
    synced_mem_options options;
    for (int placement = SYNCED_MEM_PLACEMENT_MAPPED; placement <= SYNCED_MEM_PLACEMENT_AUTOMATIC; placement++) {
        synced_mem_options_init(&options);
        options.placement = (synced_mem_placement_kind)placement;
        *(_i == 0 ? &options.cpu_allocator : &options.gpu_allocator) = &none;
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, SIZE, &options));
        SAYS("separate");
        ck_assert_ptr_null(mem);
    }
}
END_TEST

START_TEST(alignment)
{
    synced_mem *mem = NULL;
    synced_mem_options options;
    if (!has(kinds[_i]))
        return;
    for (size_t bytes = 1; bytes <= 2 << 20; bytes *= 2) {
        synced_mem_options_init(&options);
        options.alignment = bytes;
        options.placement = kinds[_i];
        OK(synced_mem_create(&mem, SIZE, &options));
        const void *const data = synced_mem_cpu_data(mem);
        ck_assert_uint_eq((uintptr_t)data % bytes, 0);
        ck_assert(host_is(data, SIZE, 0));
        ck_assert_ptr_eq(synced_mem_gpu_data(mem), data);
        finish(mem);
    }
}
END_TEST

/* The largest size that an object can have, with the largest alignment. */
START_TEST(absurd_size)
{
    const size_t huge = (size_t)PTRDIFF_MAX - (2 << 20);
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    if (!has(kinds[_i]))
        return;
    options.alignment = 2 << 20;
    options.placement = kinds[_i];
    OK(synced_mem_create(&mem, huge, &options));
    const synced_mem_stats before = stats_now();
    const synced_mem_status refused = kinds[_i] == SYNCED_MEM_PLACEMENT_MANAGED ? SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY
                                                                                : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    FAILS_NULL(refused, synced_mem_cpu_data(mem));
    FAILS_NULL(refused, synced_mem_overwrite_gpu_data(mem));
    OK(synced_mem_resize_discard(mem, SIZE));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    FAILS(refused, synced_mem_resize(mem, huge));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    ck_assert_uint_le(stats_now().managed_bytes, before.managed_bytes + (4 << 20));
    finish(mem);
}
END_TEST

START_TEST(size_zero)
{
    if (!has(kinds[_i]))
        return;
    synced_mem *const mem = make_placed(0, kinds[_i]);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    OK(synced_mem_resize(mem, SIZE));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    finish(mem);
}
END_TEST

/* Without a device an object has only its host side, as with separate placement. */
START_TEST(without_gpu)
{
    if (gpu_expected())
        return;
    synced_mem *const mem = make_placed(SIZE, (synced_mem_placement_kind)(_i + 1));
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_placement(mem), _i + 1);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    ck_assert_int_eq(synced_mem_placement(mem), SYNCED_MEM_PLACEMENT_SEPARATE);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_mutable_gpu_data(mem));
    OK(synced_mem_resize(mem, LARGER));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(too_much)
{
    synced_mem *const mem = make_placed((size_t)1 << 50, kinds[_i]);
    const synced_mem_status expected = gpu_expected() && kinds[_i] == SYNCED_MEM_PLACEMENT_MANAGED
                                           ? SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY
                                           : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (!gpu_expected() || has(kinds[_i])) {
        FAILS_NULL(expected, synced_mem_cpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
        OK(synced_mem_resize_discard(mem, SIZE));
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    }
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Sizes and releases ---- */

static void check_sized(synced_mem *mem, size_t filled, size_t size)
{
    const unsigned char *const data = synced_mem_cpu_data(mem);
    ck_assert_uint_eq(synced_mem_size(mem), size);
    ck_assert(host_is(data, filled, 1));
    gpu_note_host_read(data, size);
    ck_assert(pattern_is(data + filled, size - filled, 0));
}

/* The head stays while there is room. A growth beyond that keeps the device's side of SYNCED. */
START_TEST(resizes)
{
    const enum way way = (enum way)(_i % WAYS);
    if (!has(kinds[_i / WAYS]))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kinds[_i / WAYS]);
    go(mem, way);
    const int head = head_of[way];
    const size_t filled = head == UN ? 0 : SIZE;
    OK(synced_mem_resize(mem, LARGER));
    ck_assert_int_eq(synced_mem_head(mem), head == SYN ? GPU : head);
    check_sized(mem, filled, LARGER);
    const void *const data = synced_mem_cpu_data(mem);
    for (int round = 0; round < 3; round++) {
        if (round == 1)
            ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        if (round == 2)
            ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, work.other));
        const synced_mem_head_kind before = synced_mem_head(mem);
        OK(synced_mem_resize(mem, SMALLER));
        OK(synced_mem_resize(mem, LARGER));
        ck_assert_int_eq(synced_mem_head(mem), before);
        ck_assert_ptr_eq(synced_mem_cpu_data(mem), data);
        check_sized(mem, filled ? SMALLER : 0, LARGER);
    }
    OK(synced_mem_resize_discard(mem, SIZE));
    ck_assert_int_eq(synced_mem_head(mem), UN);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), data);
    ck_assert(host_is(data, SIZE, 0));
    OK(synced_mem_resize_discard(mem, 2 * LARGER));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    finish(mem);
    clean_up();
}
END_TEST

/* Only the head shows that the side is released. The memory stays, as it is the other side's too. */
START_TEST(sides_are_released)
{
    const enum way way = (enum way)(_i / 2 % WAYS);
    const bool gpu = _i % 2;
    if (!has(kinds[_i / (2 * WAYS)]))
        return;
    prepare();
    synced_mem *const mem = make_placed(SIZE, kinds[_i / (2 * WAYS)]);
    go(mem, way);
    const synced_mem_source source = synced_mem_cpu_source(mem);
    OK(gpu ? synced_mem_release_gpu_data(mem) : synced_mem_release_cpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), head_of[way] == UN ? UN : gpu ? CPU : GPU);
    ck_assert_int_eq(synced_mem_cpu_source(mem), source);
    ck_assert_int_eq(synced_mem_gpu_source(mem), source);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, head_of[way] == UN ? 0 : 1));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    OK(synced_mem_release_data(mem));
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    finish(mem);
    clean_up();
}
END_TEST

static void never(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    ck_abort_msg("a callback for memory that was not adopted");
}

static void check_refused(synced_mem *mem, void *host, void *device)
{
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_cpu_data(mem, host));
    SAYS("unified");
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, USE(mem, .cpu_data = host, .callback = never));
    if (device) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_gpu_data(mem, device));
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, USE(mem, .cpu_data = host, .gpu_data = device));
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, USE(mem, .gpu_data = device, .callback = never));
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, USE(mem, .cpu_data = host, .gpu_data = device, .callback = never));
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, USE(mem, .cpu_data = host, .stream = LEGACY_HANDLE));
        FAILS(SYNCED_MEM_ERR_INVALID_STATE,
              USE(mem, .cpu_data = host, .gpu_data = device, .callback = never, .stream = LEGACY_HANDLE));
    }
    check_unchanged(mem, &before);
}

/* Memory of the caller's is refused without a device too. So a program behaves the same with and without one. */
START_TEST(memory_of_the_callers)
{
    static char host[SIZE];
    void *const device = gpu_expected() ? gpu_alloc(0, SIZE) : NULL;
    synced_mem *const mem = make_placed(SIZE, kinds[_i]);
    check_refused(mem, host, device);
    if (!gpu_expected() || has(kinds[_i])) {
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
        check_refused(mem, host, device);
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    }
    OK(synced_mem_release(mem));
    if (device)
        gpu_free(device);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("unified");
    TCase *const states = add_case(made, "states");
    tcase_add_loop_test(states, table, 0, KINDS * WAYS * ACCESSES);
    tcase_add_loop_test(states, facts, 0, KINDS);
    tcase_add_loop_test(states, device_of_the_stream, 0, KINDS);
    tcase_add_loop_test(states, bad_options, 0, 2);
    tcase_add_loop_test(states, no_allocators, 0, 2);
    tcase_add_loop_test(states, alignment, 0, KINDS);
    tcase_add_loop_test(states, size_zero, 0, KINDS);
    tcase_add_loop_test(states, absurd_size, 0, KINDS);
    tcase_add_loop_test(states, without_gpu, 0, 3);
    tcase_add_loop_test(states, too_much, 0, KINDS);
    TCase *const memory = add_case(made, "memory");
    tcase_add_loop_test(memory, resizes, 0, KINDS * WAYS);
    tcase_add_loop_test(memory, sides_are_released, 0, KINDS * WAYS * 2);
    tcase_add_loop_test(memory, memory_of_the_callers, 0, KINDS);
    return made;
}
