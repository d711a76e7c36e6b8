/* Checks shareable objects with two objects of one process, which are two participants. */
#include "sharing_kit.h"

#include "dlpack_structs.h"
#include "synced_mem/dlpack.h"

static synced_mem *one;
static synced_mem *other;

static void open_two(void)
{
    one = make_shareable(BYTES);
    other = share_with_myself(one);
}

static void release_two(void)
{
    RELEASE_EACH(one, other);
}

/* ---- Turns ---- */

START_TEST(the_maker_has_a_turn)
{
    one = make_shareable(BYTES);
    HEAD_IS(one, UNINITIALIZED);
    ck_assert_int_eq(synced_mem_cpu_source(one), SYNCED_MEM_SOURCE_SHAREABLE);
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 0));
    host_fill(synced_mem_mutable_cpu_data(one), BYTES, 1);
    HEAD_IS(one, AT_CPU);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_turn(one, CPU, WRITE, 0));
    OK(synced_mem_end_turn(one));
    HEAD_IS(one, UNINITIALIZED);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(one, CPU, READ, 0));
    HEAD_IS(one, AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 1));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_release(one));
    ck_assert_int_eq(count_shared_mappings(), 0);
}
END_TEST

START_TEST(contents_go_from_turn_to_turn)
{
    OK(synced_mem_release(make(1))); /* the library may open a trace */
    const int before = count_open_descriptors();
    open_two();
    ck_assert_uint_eq(synced_mem_size(other), BYTES);
    ck_assert_str_eq(synced_mem_name(other), "");
    ck_assert_ptr_null(synced_mem_user(other));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(other, CPU, READ, 0));
    for (unsigned i = 1; i < 8; i++) {
        synced_mem *const from = i % 2 ? one : other;
        synced_mem *const to = i % 2 ? other : one;
        OK(synced_mem_end_turn(from));
        OK(synced_mem_begin_turn(to, CPU, WRITE, 0));
        ck_assert(host_is(synced_mem_cpu_data(to), BYTES, i));
        host_fill(synced_mem_mutable_cpu_data(to), BYTES, i + 1);
    }
    release_two();
    ck_assert(gpu_expected() || count_open_descriptors() == before);
    ck_assert_int_eq(count_shared_mappings(), 0);
}
END_TEST

START_TEST(both_read)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(one, CPU, READ, 0));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 1));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    OK(synced_mem_end_turn(one));
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(one, CPU, WRITE, 30));
    OK(synced_mem_end_turn(other));
    OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
    release_two();
}
END_TEST

/* A release hands over. */
START_TEST(a_release_in_a_turn)
{
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 3);
    OK(synced_mem_release(one));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 3));
    OK(synced_mem_release(other));
}
END_TEST

/* ---- Without a turn, and in one to read ---- */

static void writes_fail(synced_mem *mem)
{
    synced_mem *const ordinary = make_at_cpu(BYTES, 9);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_gpu_data_on(mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_clear(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_copy(mem, ordinary));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_copy(mem, ordinary, NULL));
    OK(synced_mem_release(ordinary));
}

START_TEST(without_a_turn)
{
    synced_mem *const ordinary = make(BYTES);
    synced_mem *all[2] = {ordinary, NULL};
    int pending = 1;
    open_two();
    all[1] = other;
    writes_fail(other);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(other));
    SAYS("synced_mem_begin_turn");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(other));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data_on(other, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(other, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_cpu_pull(other, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push_n(all, 2, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_copy(ordinary, other));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_share(other, 0, 0));
    OK(synced_mem_query(other, &pending));
    ck_assert_int_eq(pending, 0);
    OK(synced_mem_wait(other));
    OK(synced_mem_print(other, stdout));
    ck_assert_uint_ge(synced_mem_cpu_capacity(other), BYTES);
    release_two();
    OK(synced_mem_release(ordinary));
}
END_TEST

START_TEST(in_a_turn_to_read)
{
    synced_mem *const ordinary = make(BYTES);
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    writes_fail(other);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(other));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(other, NULL));
    OK(synced_mem_cpu_copy(ordinary, other));
    ck_assert(host_is(synced_mem_cpu_data(ordinary), BYTES, 1));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    synced_mem *const third = share_with_myself(other);
    OK(synced_mem_begin_turn(third, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(third), BYTES, 1));
    OK(synced_mem_release(third));
    release_two();
    OK(synced_mem_release(ordinary));
}
END_TEST

START_TEST(memory_and_size_stay)
{
    static char bytes[BYTES];
    one = make_shareable(BYTES);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(one, 2 * BYTES));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize_discard(one, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_cpu_data(one, bytes));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_cpu_data(one));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_gpu_data(one));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(one));
    OK(synced_mem_release(one));
}
END_TEST

/* ---- Arguments ---- */

static void *no_memory(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream;
    return user;
}

static void no_free(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)data, (void)size, (void)alignment, (void)device, (void)stream, (void)user;
}

START_TEST(options_that_exclude_one_another)
{
    const synced_mem_allocator allocator = {.struct_size = sizeof allocator, .alloc = no_memory, .free = no_free};
    synced_mem_options options = default_options();
    synced_mem *mem;
    ck_assert_uint_eq(options.shareable, 0);
    options.shareable = 3;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, BYTES, &options));
    options.shareable = SYNCED_MEM_SHAREABLE_ANY_USER;
    options.placement = SYNCED_MEM_PLACEMENT_AUTOMATIC;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, BYTES, &options));
    options.placement = SYNCED_MEM_PLACEMENT_SEPARATE;
    options.cpu_allocator = &allocator;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, BYTES, &options));
    options.cpu_allocator = NULL;
    options.gpu_allocator = &allocator;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, BYTES, &options));
    options.gpu_allocator = NULL;
    options.name = "shared";
    options.alignment = 1 << 16;
    options.user = &options;
    OK(synced_mem_set_allocators(&allocator, NULL)); /* it does not serve shareable objects */
    OK(synced_mem_create(&mem, BYTES, &options));
    ck_assert_uint_eq((uintptr_t)synced_mem_cpu_data(mem) % (1 << 16), 0);
    ck_assert_str_eq(synced_mem_name(mem), "shared");
    synced_mem *view;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_ANY_USER;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&view, mem, 0, 1, &options));
    OK(synced_mem_set_allocators(NULL, NULL));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(wrong_arguments)
{
    synced_mem *const ordinary = make(BYTES);
    synced_mem *got = ordinary;
    one = make_shareable(BYTES);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_share(NULL, 0, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_receive(NULL, 0, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_begin_turn(NULL, CPU, READ, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_end_turn(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_share(one, -1, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_receive(&got, -1, 0));
    ck_assert_ptr_null(got);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_begin_turn(one, (synced_mem_side)0, READ, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_begin_turn(one, CPU, (synced_mem_turn)2, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_share(ordinary, 0, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_turn(ordinary, CPU, READ, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_end_turn(ordinary));
    RELEASE_EACH(ordinary, one);
}
END_TEST

START_TEST(no_bytes)
{
    one = make_shareable(0);
    other = share_with_myself(one);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(one));
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    ck_assert_uint_eq(synced_mem_size(other), 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(other));
    release_two();
}
END_TEST

/* ---- Views ---- */

static synced_mem *make_view(synced_mem *of, size_t offset, size_t size)
{
    synced_mem *view;
    OK(synced_mem_view(&view, of, offset, size, NULL));
    return view;
}

START_TEST(views_of_one_process)
{
    open_two();
    synced_mem *const first = make_view(one, 0, BYTES / 2);
    synced_mem *const last = make_view(one, BYTES / 2, BYTES / 2);
    synced_mem *const seen = make_view(other, BYTES / 4, BYTES / 2);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_turn(seen, CPU, READ, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_end_turn(first));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_share(first, 0, 0));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(seen));
    for (int i = 0; i < 3; i++) {
        host_fill(synced_mem_overwrite_cpu_data(first), BYTES / 2, 1);
        host_fill(synced_mem_overwrite_cpu_data(last), BYTES / 2, 2);
        OK(synced_mem_end_turn(one));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(first));
        OK(synced_mem_begin_turn(other, CPU, i == 1 ? WRITE : READ, 0));
        ck_assert(pattern_is(synced_mem_cpu_data(other), BYTES / 2, 1));
        ck_assert_ptr_eq(synced_mem_cpu_data(seen), (const char *)synced_mem_cpu_data(other) + BYTES / 4);
        if (i != 1)
            FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_cpu_data(seen));
        else
            ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(seen));
        synced_mem *const more = make_view(other, 10, 20);
        ck_assert_ptr_nonnull(synced_mem_cpu_data(more));
        OK(synced_mem_end_turn(other));
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(more));
        OK(synced_mem_release(more));
        OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
    }
    OK(synced_mem_release(one)); /* the views keep it */
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(other, CPU, READ, 0));
    RELEASE_EACH(first, last);
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    RELEASE_EACH(other, seen);
}
END_TEST

/* ---- Tensors ---- */

START_TEST(a_tensor_is_out)
{
    int64_t shape = BYTES;
    synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                         .side = SYNCED_MEM_SIDE_CPU,
                                         .mode = SYNCED_MEM_READ,
                                         .type_code = 1,
                                         .type_bits = 8,
                                         .type_lanes = 1,
                                         .ndim = 1,
                                         .shape = &shape};
    struct DLManagedTensorVersioned *tensor;
    open_two();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_to_dlpack(&tensor, other, &options));
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    OK(synced_mem_to_dlpack(&tensor, one, &options));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_end_turn(one));
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 1)); /* the turn goes on */
    tensor->deleter(tensor);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    options.mode = SYNCED_MEM_MUTABLE;
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_to_dlpack(&tensor, other, &options));
    release_two();
}
END_TEST

/* ---- Devices ---- */

START_TEST(without_device_memory)
{
    one = make_shareable_of(BYTES, SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_ANY_USER);
    other = share_with_myself(one);
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 1);
    if (gpu_expected()) {
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(one));
        SAYS("without device memory");
    } else {
        FAILS_NULL(SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(one));
    }
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 1));
    OK(synced_mem_end_turn(one));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_turn(other, GPU, READ, 0));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    release_two();
}
END_TEST

/* Contents go back and forth between the sides of both objects. */
START_TEST(contents_on_the_device)
{
    open_two();
    ck_assert_int_eq(synced_mem_gpu_source(one), SYNCED_MEM_SOURCE_SHAREABLE);
    gpu_fill(synced_mem_overwrite_gpu_data(one), BYTES, 1, NULL);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, WRITE, 0));
    HEAD_IS(other, AT_GPU);
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 1));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 1));
    HEAD_IS(other, SYNCED);
    OK(synced_mem_end_turn(other));
    OK(synced_mem_begin_turn(one, CPU, READ, 0));
    HEAD_IS(one, SYNCED);
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 1));
    ck_assert(device_is(synced_mem_gpu_data(one), BYTES, 1)); /* this side was valid too */
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
    host_fill(synced_mem_mutable_cpu_data(one), BYTES, 2);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, READ, 0)); /* fills the device's side */
    HEAD_IS(other, SYNCED);
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 2));
    OK(synced_mem_begin_turn(one, GPU, READ, 0));
    ck_assert(device_is(synced_mem_gpu_data(one), BYTES, 2));
    release_two();
}
END_TEST

/* Handing over waits for the streams that were given a pointer. */
START_TEST(work_on_streams_ends_before)
{
    open_two();
    for (int kind = 0; kind < STREAM_KINDS; kind++) {
        synced_mem_stream stream = open_stream(kind);
        gpu_pause(stream);
        gpu_fill(synced_mem_overwrite_gpu_data_on(one, stream), BYTES, 5 + (unsigned)kind, stream);
        OK(synced_mem_end_turn(one));
        ck_assert(gpu_stream_is_idle(stream));
        OK(synced_mem_begin_turn(other, GPU, READ, 0));
        gpu_pause(stream);
        const void *const data = synced_mem_gpu_data_on(other, stream);
        ck_assert_ptr_nonnull(data);
        OK(synced_mem_end_turn(other)); /* also for readers */
        ck_assert(gpu_stream_is_idle(stream));
        OK(synced_mem_begin_turn(other, CPU, READ, 0));
        ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 5 + (unsigned)kind));
        OK(synced_mem_end_turn(other));
        OK(synced_mem_begin_turn(one, CPU, WRITE, 0));
        close_stream(stream);
    }
    release_two();
}
END_TEST

/* Parts that are valid on different sides are brought together. */
START_TEST(mixed_contents_are_handed_over)
{
    open_two();
    synced_mem *const first = make_view(one, 0, BYTES / 2);
    synced_mem *const last = make_view(one, BYTES / 2, BYTES / 2);
    host_fill(synced_mem_overwrite_cpu_data(first), BYTES / 2, 1);
    gpu_fill(synced_mem_overwrite_gpu_data(last), BYTES / 2, 2, NULL);
    HEAD_IS(one, MIXED);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, READ, 0));
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES / 2, 1));
    ck_assert(device_is((const char *)synced_mem_gpu_data(other) + BYTES / 2, BYTES / 2, 2));
    OK(synced_mem_begin_turn(one, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(first), BYTES / 2, 1));
    ck_assert(host_is(synced_mem_cpu_data(last), BYTES / 2, 2));
    release_two();
    RELEASE_EACH(first, last);
}
END_TEST

/* Bytes that nobody has written read as zeros, on both sides. */
START_TEST(zeros)
{
    open_two();
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, READ, 0));
    HEAD_IS(other, AT_GPU);
    ck_assert(device_is(synced_mem_gpu_data(other), BYTES, 0));
    OK(synced_mem_begin_turn(one, CPU, READ, 0));
    HEAD_IS(one, SYNCED);
    ck_assert(host_is(synced_mem_cpu_data(one), BYTES, 0));
    release_two();
}
END_TEST

/* The first transfer page-locks the host copy. Turns and copies on the device alone do not. */
START_TEST(copies_with_other_objects)
{
    synced_mem *const ordinary = make_at_gpu(BYTES, 7);
    open_two();
    OK(synced_mem_async_gpu_copy(one, ordinary, NULL));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(one), 0);
    OK(synced_mem_end_turn(one));
    OK(synced_mem_begin_turn(other, GPU, READ, 0));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(other), 0);
    OK(synced_mem_end_turn(other));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(other), 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(one), 0);
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 7));
    OK(synced_mem_clear(ordinary));
    OK(synced_mem_async_gpu_copy(ordinary, other, NULL));
    ck_assert(device_is(synced_mem_gpu_data(ordinary), BYTES, 7));
    release_two();
    OK(synced_mem_release(ordinary));
}
END_TEST

/* A copy of the host copy to another object's device copy is such a transfer. */
START_TEST(a_copy_of_the_host_copy)
{
    synced_mem *const ordinary = make_at_gpu(BYTES, 7);
    open_two();
    host_fill(synced_mem_overwrite_cpu_data(one), BYTES, 3);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(one), 0);
    OK(synced_mem_async_gpu_copy(ordinary, one, NULL));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(one), 1);
    ck_assert(device_is(synced_mem_gpu_data(ordinary), BYTES, 3));
    release_two();
    OK(synced_mem_release(ordinary));
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share");
    TCase *const cases = add_case(suite, "share");
    add_tests(cases, the_maker_has_a_turn, contents_go_from_turn_to_turn, both_read, a_release_in_a_turn,
              without_a_turn, in_a_turn_to_read, memory_and_size_stay, options_that_exclude_one_another,
              wrong_arguments, no_bytes, views_of_one_process, a_tensor_is_out, without_device_memory);
    add_gpu_tests(cases, contents_on_the_device, work_on_streams_ends_before, mixed_contents_are_handed_over, zeros,
                  copies_with_other_objects, a_copy_of_the_host_copy);
    return suite;
}
