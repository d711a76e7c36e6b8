/* Tests the way by kernel: what goes by it, what does not, and the contents that it leaves. */
#include "fixture.h"
#include "kernels.h"

#include "copy/kernel_way.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 100, LARGE = SM_KERNEL_MOST_BYTES };

enum act { PUSH, PULL, COPY, ACTS };

static size_t many(void)
{
    return gpu_is_emulated() ? 3000 : 10000;
}

/* Odd sizes, of at most 9 KB. */
static size_t size_of(size_t i)
{
    return 1 + i * 7919 % 9001;
}

static uint64_t by_kernel(void)
{
    return stats_now().kernel_copies;
}

/* Returns whether the device's kernels copy at all. */
static bool begin(void)
{
    OK(sm_device_resolve(0, &(int){0}));
    use_kernels(1);
    return sm_device_list_processors(0) > 0;
}

static void write_mem(synced_mem *mem, bool gpu, unsigned pattern, synced_mem_stream stream)
{
    const size_t size = synced_mem_size(mem);
    if (gpu)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), size, pattern, stream);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), size, pattern);
}

struct set {
    synced_mem **mems;
    synced_mem **others; /* the targets of copies */
    size_t count;
};

static struct set make_set(size_t count)
{
    struct set set = {.mems = calloc(2 * count, sizeof(synced_mem *)), .count = count};
    ck_assert_ptr_nonnull(set.mems);
    set.others = set.mems + count;
    for (size_t i = 0; i < count; i++) {
        set.mems[i] = make_on(size_of(i), 0);
        set.others[i] = make_on(size_of(i), 0);
    }
    return set;
}

static void end_set(struct set *set)
{
    release_all(set->mems, 2 * set->count);
    free(set->mems);
}

static void write_set(const struct set *set, enum act act, unsigned pattern, synced_mem_stream stream)
{
    for (size_t i = 0; i < set->count; i++) {
        write_mem(set->mems[i], act != PUSH, pattern + (unsigned)i, stream);
        if (act == COPY) /* has memory */
            given(synced_mem_overwrite_gpu_data_on(set->others[i], stream));
    }
}

static synced_mem_status do_act(const struct set *set, enum act act, synced_mem_stream stream)
{
    if (act == COPY)
        return synced_mem_async_gpu_copy_n(set->others, set->mems, set->count, stream);
    return act == PUSH ? synced_mem_async_gpu_push_n(set->mems, set->count, stream)
                       : synced_mem_async_cpu_pull_n(set->mems, set->count, stream);
}

static void check_set(const struct set *set, enum act act, unsigned pattern)
{
    for (size_t i = 0; i < set->count; i++) {
        synced_mem *const mem = act == COPY ? set->others[i] : set->mems[i];
        if (act == PUSH)
            ck_assert(device_is(synced_mem_gpu_data(mem), size_of(i), pattern + (unsigned)i));
        else
            ck_assert(host_is(synced_mem_cpu_data(mem), size_of(i), pattern + (unsigned)i));
    }
}

/* The second time all objects have memory. */
START_TEST(all_go_by_kernel)
{
    const enum act act = (enum act)(_i % ACTS);
    const bool kernels = begin();
    struct set set = make_set(_i < ACTS ? FEW : many());
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (unsigned round = 0; round < 2; round++) {
        write_set(&set, act, round, stream);
        const synced_mem_stats before = stats_now();
        OK(do_act(&set, act, stream));
        const synced_mem_stats after = stats_now();
        ck_assert_uint_eq(after.h2d_transfers - before.h2d_transfers, act == PUSH ? set.count : 0);
        ck_assert_uint_eq(after.d2h_transfers - before.d2h_transfers, act == PULL ? set.count : 0);
        if (round == 1)
            ck_assert_uint_eq(after.kernel_copies - before.kernel_copies, kernels ? set.count : 0);
        check_set(&set, act, round);
    }
    end_set(&set);
    close_stream(stream);
}
END_TEST

/* Small parts of one object, each second of which is stale. */
START_TEST(parts_go_by_kernel)
{
    enum { PART = 1000 };
    const bool kernels = begin();
    const size_t count = many();
    synced_mem *const root = make_on(PART * count, 0);
    synced_mem **const views = calloc(count, sizeof *views);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    host_fill(synced_mem_overwrite_cpu_data(root), PART * count, 1);
    OK(synced_mem_async_gpu_push(root, stream));
    for (size_t i = 0; i < count; i++)
        OK(synced_mem_view(&views[i], root, PART * i, PART, NULL));
    for (int pull = 0; pull < 2; pull++) {
        const unsigned pattern = 2 + (unsigned)pull;
        for (size_t i = 0; i < count; i += 2)
            write_mem(views[i], pull, pattern, stream);
        const uint64_t before = by_kernel();
        OK(pull ? synced_mem_async_cpu_pull(root, stream) : synced_mem_async_gpu_push(root, stream));
        ck_assert_uint_eq(by_kernel() - before, kernels ? count / 2 : 0);
        for (size_t i = 0; i < count; i += 2) {
            ck_assert(host_is(synced_mem_cpu_data(views[i]), PART, pattern));
            ck_assert(device_is(synced_mem_gpu_data(views[i]), PART, pattern));
        }
    }
    release_all(views, count);
    OK(synced_mem_release(root));
    free(views);
    close_stream(stream);
}
END_TEST

/* The transfers of an access go by engine, however many they are. */
START_TEST(accesses_go_by_engine)
{
    enum { PART = 1000, COUNT = 40 };
    synced_mem *views[COUNT];
    begin();
    synced_mem *const root = make_on(PART * COUNT, 0);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    host_fill(synced_mem_overwrite_cpu_data(root), PART * COUNT, 1);
    OK(synced_mem_async_gpu_push(root, stream));
    for (size_t i = 0; i < COUNT; i++)
        OK(synced_mem_view(&views[i], root, PART * i, PART, NULL));
    for (size_t i = 0; i < COUNT; i += 2)
        write_mem(views[i], _i, 2, stream);
    const synced_mem_stats before = stats_now();
    given(_i ? synced_mem_cpu_data(root) : synced_mem_gpu_data_on(root, stream));
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.h2d_transfers - before.h2d_transfers + after.d2h_transfers - before.d2h_transfers,
                      COUNT / 2);
    ck_assert_uint_eq(after.kernel_copies, before.kernel_copies);
    release_all(views, COUNT);
    OK(synced_mem_release(root));
    close_stream(stream);
}
END_TEST

/* The parts without contents become zeros, by one launch, while the others are moved by engines. */
START_TEST(zeros_by_kernel)
{
    enum { PART = 700 };
    const bool kernels = begin();
    const size_t count = many();
    synced_mem *const root = make_on(PART * count, 0);
    synced_mem **const views = calloc(count, sizeof *views);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    unsigned char zeros[PART] = {0};
    for (size_t i = 0; i < count; i++) {
        OK(synced_mem_view(&views[i], root, PART * i, PART, NULL));
        if (i % 2 == 1)
            write_mem(views[i], false, 7, stream);
    }
    const uint64_t before = by_kernel();
    const unsigned fills = gpu_calls("cudaMemsetAsync");
    given(_i ? synced_mem_gpu_data_on(root, stream) : synced_mem_gpu_data(root));
    ck_assert_uint_eq(by_kernel() - before, kernels ? count / 2 : 0);
    if (kernels)
        ck_assert_uint_eq(gpu_calls("cudaMemsetAsync"), fills);
    gpu_sync_device(0);
    for (size_t i = 0; i < count; i++) {
        unsigned char found[PART];
        gpu_read(found, given(synced_mem_gpu_data(views[i])), PART);
        ck_assert(i % 2 == 1 ? pattern_is(found, PART, 7) : memcmp(found, zeros, PART) == 0);
    }
    release_all(views, count);
    OK(synced_mem_release(root));
    free(views);
    close_stream(stream);
}
END_TEST

/* Neighbours in memory become one copy, which an engine makes once it is large; on the legacy stream, where engines
 * take no batches, it grows no further. */
START_TEST(neighbours_become_one_copy)
{
    enum { PART = 20000, COUNT = 5 };
    const bool kernels = begin();
    synced_mem *const root = make_on(PART * COUNT, 0);
    synced_mem *views[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    const synced_mem_stream on = _i ? LEGACY_HANDLE : stream;
    host_fill(synced_mem_overwrite_cpu_data(root), PART * COUNT, 1);
    OK(synced_mem_async_gpu_push(root, stream));
    for (size_t i = 0; i < COUNT; i++) {
        OK(synced_mem_view(&views[i], root, PART * i, PART, NULL));
        write_mem(views[i], true, (unsigned)i, stream);
    }
    const synced_mem_stats before = stats_now();
    OK(synced_mem_async_cpu_pull(root, on));
    ck_assert_uint_eq(stats_now().d2h_bytes - before.d2h_bytes, PART * COUNT);
    if (kernels) {
        ck_assert_uint_eq(stats_now().d2h_transfers - before.d2h_transfers, _i ? 2 : 1);
        ck_assert_uint_eq(stats_now().kernel_copies - before.kernel_copies, _i ? 2 : 0);
    }
    for (size_t i = 0; i < COUNT; i++)
        ck_assert(host_is(synced_mem_cpu_data(views[i]), PART, (unsigned)i));
    release_all(views, COUNT);
    OK(synced_mem_release(root));
    close_stream(stream);
}
END_TEST

/* Memory of the caller's and large objects go by engine, beside small ones that do not. */
START_TEST(others_go_by_engine)
{
    enum { COUNT = 6, SIZE = 5000, OTHERS = 3 };
    const bool kernels = begin();
    const bool pull = _i;
    void *const pinned = gpu_pinned_alloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (int i = 0; i < COUNT; i++)
        mems[i] = make_on(i == 2 ? LARGE + 1 : i == 3 ? LARGE : SIZE, 0);
    OK(synced_mem_set_cpu_data(mems[0], pinned));
    OK(synced_mem_set_gpu_data(mems[1], device));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            write_mem(mems[i], pull, (unsigned)(i + round), stream);
        const synced_mem_stats before = stats_now();
        OK(pull ? synced_mem_async_cpu_pull_n(mems, COUNT, stream) : synced_mem_async_gpu_push_n(mems, COUNT, stream));
        const synced_mem_stats after = stats_now();
        ck_assert_uint_eq(after.kernel_copies - before.kernel_copies, kernels ? COUNT - OTHERS : 0);
        ck_assert_uint_eq(after.h2d_transfers - before.h2d_transfers + after.d2h_transfers - before.d2h_transfers,
                          COUNT);
        for (int i = 0; i < COUNT; i++) {
            ck_assert(host_is(synced_mem_cpu_data(mems[i]), synced_mem_size(mems[i]), (unsigned)(i + round)));
            ck_assert(device_is(synced_mem_gpu_data(mems[i]), synced_mem_size(mems[i]), (unsigned)(i + round)));
        }
    }
    release_all(mems, COUNT);
    close_stream(stream);
    gpu_pinned_free(pinned);
    gpu_free(device);
}
END_TEST

/* The host copies pageable memory into buffers, from which a kernel takes it. */
START_TEST(pageable_memory_goes_by_kernel)
{
    enum { COUNT = 40, SIZE = 3000 };
    static char memory[COUNT][SIZE];
    const bool kernels = begin();
    synced_mem *mems[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < COUNT; i++) {
        mems[i] = make_on(SIZE, 0);
        OK(synced_mem_set_cpu_data(mems[i], memory[i]));
        given(synced_mem_gpu_data_on(mems[i], stream)); /* has memory */
        host_fill(synced_mem_mutable_cpu_data(mems[i]), SIZE, i);
    }
    const uint64_t before = by_kernel();
    OK(synced_mem_async_gpu_push_n(mems, COUNT, stream));
    ck_assert_uint_eq(by_kernel() - before, kernels ? COUNT : 0);
    memset(memory, 0xee, sizeof memory); /* has been read */
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(device_is(synced_mem_gpu_data(mems[i]), SIZE, i));
    release_all(mems, COUNT);
    close_stream(stream);
}
END_TEST

/* Two objects may have one memory, which a kernel and an engine then write one after the other, in the order of the
 * call. On the legacy stream no batch takes what goes by engine. */
START_TEST(memory_of_another_object)
{
    enum { COUNT = 3, SIZE = 1000 };
    synced_mem *mems[COUNT];
    begin();
    synced_mem_stream stream = _i < 2 ? open_stream(NON_BLOCKING) : LEGACY_HANDLE;
    for (int i = 0; i < COUNT; i++) {
        mems[i] = make_on(SIZE, 0);
        write_mem(mems[i], false, (unsigned)i, stream);
    }
    synced_mem *const owner = mems[2 * (_i % 2)];
    synced_mem *const guest = mems[2 - 2 * (_i % 2)];
    OK(synced_mem_set_cpu_data(guest, synced_mem_overwrite_cpu_data(owner)));
    for (int i = 0; i < COUNT; i++)
        write_mem(mems[i], true, (unsigned)i + 1, stream);
    OK(synced_mem_async_cpu_pull_n(mems, COUNT, stream));
    gpu_stream_sync(stream);
    ck_assert(host_is(synced_mem_cpu_data(owner), SIZE, 3));
    ck_assert(host_is(synced_mem_cpu_data(mems[1]), SIZE, 2));
    OK(synced_mem_release(guest));
    RELEASE_EACH(mems[1], owner);
    if (_i < 2)
        close_stream(stream);
}
END_TEST

/* Large parts without contents are filled one by one. */
START_TEST(large_zeros)
{
    enum { PART = LARGE + 4096, COUNT = 6 };
    begin();
    synced_mem *const root = make_on(PART * COUNT, 0);
    synced_mem *views[COUNT];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (size_t i = 0; i < COUNT; i++) {
        OK(synced_mem_view(&views[i], root, PART * i, PART, NULL));
        if (i % 2 == 1)
            write_mem(views[i], true, 7, stream);
    }
    const uint64_t before = by_kernel();
    given(synced_mem_gpu_data_on(root, stream));
    ck_assert_uint_eq(by_kernel(), before);
    for (size_t i = 0; i < COUNT; i++) {
        const unsigned char *const data = given(synced_mem_cpu_data(views[i]));
        ck_assert(i % 2 == 1 ? host_is(data, PART, 7) : data[0] == 0 && data[PART / 2] == 0 && data[PART - 1] == 0);
    }
    release_all(views, COUNT);
    OK(synced_mem_release(root));
    close_stream(stream);
}
END_TEST

/* The setting. 0 means never, and one block serves as well. */
START_TEST(number_of_blocks)
{
    const bool kernels = begin();
    struct set set = make_set(FEW);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    const int settings[] = {-1, 0, 1, 1024};
    for (unsigned i = 0; i < 4; i++) {
        OK(synced_mem_set_kernel_blocks(settings[i]));
        write_set(&set, PUSH, i, stream);
        const uint64_t before = by_kernel();
        OK(do_act(&set, PUSH, stream));
        ck_assert_uint_eq(by_kernel() - before, kernels && settings[i] != 0 ? FEW : 0);
        check_set(&set, PUSH, i);
    }
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_kernel_blocks(-2));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_kernel_blocks(1025));
    SAYS("1025");
    end_set(&set);
    close_stream(stream);
}
END_TEST

/* By default a call on a few copies asks for no kernel, and the first one on many goes by engine while it is loaded. */
START_TEST(from_sixteen_copies_on)
{
    enum { LEAST = 16 };
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    OK(sm_device_resolve(0, &(int){0}));
    use_kernels(0);
    sm_kernel_way_set_least(0);
    struct set set = make_set(LEAST);
    const uint64_t before = by_kernel();
    for (unsigned i = 0; i < 3; i++) {
        write_set(&set, PUSH, i, stream);
        if (i == 2)
            set.count--;
        OK(do_act(&set, PUSH, stream));
        check_set(&set, PUSH, i);
        set.count = LEAST;
        sm_device_await_lists();
        if (i > 0)
            ck_assert_uint_eq(by_kernel() - before, (sm_device_list_processors(0) > 0 ? LEAST : 0));
    }
    end_set(&set);
    close_stream(stream);
}
END_TEST

/* Sixteen copies of this size are faster by engine, and forty by kernel. */
START_TEST(more_make_it_faster)
{
    enum { COUNT = 40 };
    synced_mem *mems[COUNT];
    const bool kernels = begin();
    sm_kernel_way_set_least(0);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    for (int i = 0; i < COUNT; i++) {
        mems[i] = make_on(LARGE, 0);
        write_mem(mems[i], true, (unsigned)i, stream);
    }
    for (int half = 1; half >= 0; half--) {
        const size_t count = half ? 16 : COUNT;
        const uint64_t before = by_kernel();
        OK(synced_mem_async_cpu_pull_n(mems, count, stream));
        ck_assert_uint_eq(by_kernel() - before, kernels && !half ? COUNT : 0);
        gpu_stream_sync(stream);
        for (size_t i = 0; i < count; i++) {
            ck_assert(host_is(synced_mem_cpu_data(mems[i]), LARGE, (unsigned)i));
            write_mem(mems[i], true, (unsigned)i, stream);
        }
    }
    gpu_stream_sync(stream);
    release_all(mems, COUNT);
    close_stream(stream);
}
END_TEST

/* Small copies up, from the device and on it: the model prefers the kernel; not for large ones that an engine makes. */
START_TEST(the_model)
{
    use_no_kernels();
    OK(sm_device_resolve(0, &(int){0}));
    sm_kernel_way_set_least(0);
    sm_kernel_way_set(SM_BLOCKS_BY_DEVICE);
    (void)sm_device_list_processors(0);
    sm_device_await_lists();
    const unsigned processors = sm_device_list_processors(0);
    if (processors == 0)
        return;
    for (enum sm_direction direction = SM_H2D; direction <= SM_D2D; direction++) {
        const unsigned blocks = sm_kernel_way_blocks(0, direction, 10000, 10000ull << 12, 1u << 12);
        ck_assert_uint_ge(blocks, 1);
        ck_assert_uint_le(blocks, processors);
        ck_assert_uint_ge(sm_kernel_way_blocks(0, direction, 10000, 10000ull << 6, 1u << 6), blocks);
        ck_assert_uint_eq(sm_kernel_way_blocks(0, direction, 15, 15ull << 12, 1u << 12), 0);
        ck_assert_uint_le(sm_kernel_way_blocks(0, direction, 20, 20ull << 12, 1u << 12), 2);
        ck_assert_uint_eq(sm_kernel_way_blocks(0, direction, 16, 16ull << 30, 1u << 30), 0);
    }
    ck_assert_uint_ge(sm_kernel_way_blocks(0, SM_H2D, 64, 64ull << 12, 1u << 12), 1);
    sm_kernel_way_set(3);
    ck_assert_uint_eq(sm_kernel_way_blocks(0, SM_H2D, 10000, 10000ull << 6, 1u << 6), 3);
    sm_kernel_way_set(1000);
    ck_assert_uint_eq(sm_kernel_way_blocks(0, SM_H2D, 64, 64ull << 12, 1u << 12), 4);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("kernels");
    TCase *const kernels = add_case(all, "kernels");
    add_gpu_loop_test(kernels, all_go_by_kernel, 0, 2 * ACTS);
    add_gpu_loop_test(kernels, accesses_go_by_engine, 0, 2);
    add_gpu_loop_test(kernels, zeros_by_kernel, 0, 2);
    add_gpu_loop_test(kernels, neighbours_become_one_copy, 0, 2);
    add_gpu_loop_test(kernels, memory_of_another_object, 0, 4);
    add_gpu_tests(kernels, large_zeros);
    add_gpu_loop_test(kernels, others_go_by_engine, 0, 2);
    add_gpu_tests(kernels, pageable_memory_goes_by_kernel, parts_go_by_kernel, number_of_blocks, from_sixteen_copies_on,
                  more_make_it_faster, the_model);
    return all;
}
