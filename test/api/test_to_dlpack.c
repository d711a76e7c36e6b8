/* Checks objects that are given out as DLPack's tensors: their description, refusals, and the order of work. */
#include "dlpack_kit.h"
#include "failing_malloc.h"
#include "memory/guard.h"
#include "object/access.h"

static bool shrinks; /* the object shrinks before the next export retains it */
static char few[64];

synced_mem_status __real_sm_retain(struct synced_mem *mem);
synced_mem_status __wrap_sm_retain(struct synced_mem *mem);
synced_mem_status __wrap_sm_retain(struct synced_mem *mem)
{
    if (shrinks) {
        shrinks = false;
        OK(synced_mem_resize_discard(mem, sizeof few));
        OK(synced_mem_set_cpu_data(mem, few));
    }
    return __real_sm_retain(mem);
}

static unsigned slow_accesses; /* those that have not found a published pointer */

synced_mem_status __real_sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out);
synced_mem_status __wrap_sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out);
synced_mem_status __wrap_sm_access(struct synced_mem *mem, enum sm_side side, enum sm_mode mode, void **out)
{
    slow_accesses++;
    return __real_sm_access(mem, side, mode, out);
}

synced_mem_status __real_sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out);
synced_mem_status __wrap_sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out);
synced_mem_status __wrap_sm_access_on(struct synced_mem *mem, enum sm_mode mode, synced_mem_stream handle, void **out)
{
    slow_accesses++;
    return __real_sm_access_on(mem, mode, handle, out);
}

/* ---- Descriptions ---- */

START_TEST(the_host_copy)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(HOST(READ)));
    ck_assert_uint_eq(out->major, 1);
    ck_assert_uint_eq(out->flags, TENSOR_READ_ONLY);
    ck_assert_ptr_nonnull(out->context);
    ck_assert_ptr_eq(out->tensor.data, synced_mem_cpu_data(mem));
    ck_assert_int_eq(out->tensor.device_type, TENSOR_CPU);
    ck_assert_int_eq(out->tensor.device_id, 0);
    ck_assert_int_eq(out->tensor.ndim, 2);
    ck_assert_uint_eq(out->tensor.code, TENSOR_FLOAT);
    ck_assert_uint_eq(out->tensor.bits, 32);
    ck_assert_uint_eq(out->tensor.lanes, 1);
    ck_assert_ptr_ne(out->tensor.shape, shape);
    ck_assert_mem_eq(out->tensor.shape, shape, sizeof shape);
    ck_assert_int_eq(out->tensor.strides[0], COLUMNS);
    ck_assert_int_eq(out->tensor.strides[1], 1);
    ck_assert_uint_eq(out->tensor.byte_offset, 0);
    ck_assert(host_is(out->tensor.data, SIZE, 1));
    end(out);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(the_device_copy)
{
    const int device = devices() > 1 ? 1 : 0;
    synced_mem *const mem = make_on(SIZE, device);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(DEVICE(READ, SYNCED_MEM_NO_STREAM)));
    ck_assert_int_eq(out->tensor.device_type, TENSOR_CUDA);
    ck_assert_int_eq(out->tensor.device_id, device);
    ck_assert_uint_eq(out->flags, TENSOR_READ_ONLY);
    ck_assert_ptr_eq(out->tensor.data, synced_mem_gpu_data(mem));
    ck_assert(device_is(out->tensor.data, SIZE, 1));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    end(out);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(modes)
{
    synced_mem *const mem = make(SIZE);
    struct DLManagedTensorVersioned *out = export_of(mem, OPTIONS(HOST(OVERWRITE)));
    ck_assert_uint_eq(out->flags, 0);
    host_fill(out->tensor.data, SIZE, 1);
    end(out);
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    }
    out = export_of(mem, OPTIONS(HOST(MUTABLE)));
    ck_assert_uint_eq(out->flags, 0);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(out->tensor.data, SIZE, 1));
    end(out);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(legacy)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensor *out = (struct DLManagedTensor *)(void *)mem;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack_legacy(&out, mem, OPTIONS(HOST(READ))));
    SAYS("read-only");
    ck_assert_ptr_null(out);
    OK(synced_mem_to_dlpack_legacy(&out, mem, OPTIONS(HOST(MUTABLE))));
    ck_assert_ptr_eq(out->tensor.data, synced_mem_cpu_data(mem));
    ck_assert_mem_eq(out->tensor.shape, shape, sizeof shape);
    ck_assert(host_is(out->tensor.data, SIZE, 1));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(mem));
    out->deleter(out);
    OK(synced_mem_release_data(mem));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(shapes)
{
    static const int64_t four[] = {2, 3, 1, 4}, empty[] = {3, 0, INT64_MAX, INT64_MAX}, line[] = {SIZE};
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensorVersioned *out = export_of(mem, OPTIONS(HOST(READ), .ndim = 4, .shape = four));
    ck_assert_int_eq(out->tensor.strides[0], 12);
    ck_assert_int_eq(out->tensor.strides[1], 4);
    ck_assert_int_eq(out->tensor.strides[2], 4);
    ck_assert_int_eq(out->tensor.strides[3], 1);
    end(out);
    out = export_of(mem, OPTIONS(HOST(READ), .ndim = 4, .shape = empty));
    ck_assert_ptr_null(out->tensor.data);
    ck_assert_ptr_nonnull(out->tensor.strides);
    ck_assert_mem_eq(out->tensor.shape, empty, sizeof empty);
    end(out);
    out = export_of(mem, OPTIONS(HOST(READ), .ndim = 0, .shape = NULL));
    ck_assert_int_eq(out->tensor.ndim, 0);
    ck_assert_ptr_eq(out->tensor.data, synced_mem_cpu_data(mem));
    end(out);
    /* packed: two elements in a byte */
    out =
        export_of(mem, OPTIONS(HOST(READ), .type_code = 17, .type_bits = 4, .type_lanes = 2, .ndim = 1, .shape = line));
    ck_assert_uint_eq(out->tensor.lanes, 2);
    end(out);
    synced_mem *const nothing = make(0);
    out = export_of(nothing, OPTIONS(HOST(MUTABLE), .ndim = 4, .shape = empty));
    ck_assert_ptr_null(out->tensor.data);
    OK(synced_mem_release(nothing));
    end(out);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(a_view)
{
    synced_mem *const mem = make_at_cpu(2 * SIZE, 1);
    synced_mem *view, *empty;
    OK(synced_mem_view(&view, mem, SIZE, SIZE, NULL));
    OK(synced_mem_view(&empty, mem, 10, 0, NULL));
    struct DLManagedTensorVersioned *const out = export_of(view, OPTIONS(HOST(MUTABLE)));
    struct DLManagedTensorVersioned *const none =
        export_of(empty, OPTIONS(HOST(MUTABLE), .ndim = 1, .shape = (int64_t[]){0}));
    ck_assert_ptr_eq(out->tensor.data, (const char *)synced_mem_cpu_data(mem) + SIZE);
    ck_assert_ptr_null(none->tensor.data);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_cpu_data(mem));
    OK(synced_mem_release(view)); /* the tensor has a reference */
    OK(synced_mem_release(empty));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_cpu_data(mem));
    end(out);
    OK(synced_mem_release_data(mem));
    end(none);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Bad arguments ---- */

START_TEST(bad_arguments)
{
    static const int64_t negative[] = {5, -1}, large[] = {ROWS, COLUMNS + 1}, vast[] = {INT64_MAX, 1, 3};
    int64_t many[65];
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    const struct facts before = facts_of(mem);
    synced_mem_dlpack_options unsized = *OPTIONS(HOST(READ));
    unsized.struct_size = 3;
    for (int i = 0; i < 65; i++)
        many[i] = 1;
    const struct {
        const synced_mem_dlpack_options *options;
        const char *says;
    } bad[] = {
        {NULL, "options is NULL"},
        {&unsized, "struct_size"},
        {OPTIONS(.side = 0), "the side 0"},
        {OPTIONS(.side = 3), "the side 3"},
        {OPTIONS(.mode = 3), "the mode 3"},
        {OPTIONS(.mode = -1), "the mode -1"},
        {OPTIONS(.type_code = TENSOR_OPAQUE), "opaque handles"},
        {OPTIONS(.type_code = 18), "the code 18, which is not known"},
        {OPTIONS(.type_bits = 0), "cannot have 0 bits"},
        {OPTIONS(.type_bits = 24), "cannot have 24 bits"},
        {OPTIONS(.type_code = TENSOR_BFLOAT), "cannot have 32 bits"},
        {OPTIONS(.type_code = 7), "cannot have 32 bits"},
        {OPTIONS(.type_lanes = 65), "65 lanes"},
        {OPTIONS(.ndim = -1), "-1 dimensions"},
        {OPTIONS(.ndim = 65, .shape = many), "65 dimensions"},
        {OPTIONS(.shape = NULL), "shape is NULL"},
        {OPTIONS(.shape = negative), "dimension 1 has the size -1"},
        {OPTIONS(.shape = large), "5200 bytes, but the object has 5000"},
        {OPTIONS(.ndim = 3, .shape = vast), "too many bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct DLManagedTensorVersioned *out = (struct DLManagedTensorVersioned *)(void *)mem;
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack(&out, mem, bad[i].options));
        SAYS(bad[i].says);
        SAYS("synced_mem_to_dlpack");
        ck_assert_ptr_null(out);
    }
    struct DLManagedTensorVersioned *out;
    struct DLManagedTensor *old;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack(NULL, mem, OPTIONS(HOST(READ))));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack(&out, NULL, OPTIONS(HOST(READ))));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack_legacy(NULL, mem, OPTIONS(HOST(MUTABLE))));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack_legacy(&old, mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack_legacy(&old, NULL, OPTIONS(HOST(MUTABLE))));
    if (!gpu_expected())
        FAILS(SYNCED_MEM_ERR_NO_GPU, synced_mem_to_dlpack(&out, mem, OPTIONS(DEVICE(READ, NULL))));
    check_unchanged(mem, &before);
    OK(synced_mem_release(mem));
}
END_TEST

/* Another thread resizes the object after the first check. */
START_TEST(resized_meanwhile)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensorVersioned *out;
    shrinks = true;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_to_dlpack(&out, mem, OPTIONS(HOST(READ))));
    SAYS("but the object has 64 bytes");
    ck_assert_ptr_null(out);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

/* Without memory for the tensor, or for the access, the object is as it was and has no more references. */
START_TEST(no_memory)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    const synced_mem_dlpack_options *const options =
        gpu_expected() && _i ? OPTIONS(DEVICE(READ, NULL)) : OPTIONS(HOST(MUTABLE));
    for (struct failing it = each_calloc(); next_failure(&it);) {
        const struct facts before = facts_of(mem);
        struct DLManagedTensorVersioned *out;
        begin_failing(&it);
        const synced_mem_status status = synced_mem_to_dlpack(&out, mem, options);
        ck_assert(end_failing(&it) || status == SYNCED_MEM_OK);
        if (status == SYNCED_MEM_OK) {
            ck_assert_uint_gt(it.nth, 1);
            end(out);
            continue;
        }
        /* The CUDA runtime allocates host memory as well. Its failure names the device. */
        if (status != SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY || !_i)
            ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        ck_assert_ptr_null(out);
        ck_assert_int_eq(synced_mem_head(mem), before.head);
        OK(synced_mem_resize(mem, SIZE)); /* nothing is exported */
    }
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

/* ---- The order of work ---- */

/* A consumer's stream comes after the contents, and later accesses after the consumer's work. */
START_TEST(a_consumer_on_a_stream)
{
    const synced_mem_stream writer = open_stream(NON_BLOCKING), consumer = open_stream(_i % STREAM_KINDS);
    unsigned char bytes[SIZE];
    pattern_write(bytes, SIZE, 1);
    synced_mem *const mem = make_on(SIZE, 0);
    gpu_delay(writer);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, writer), SIZE, 1, writer);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(DEVICE(MUTABLE, consumer)));
    gpu_expect(out->tensor.data, SIZE, bytes, consumer);
    gpu_delay(consumer);
    gpu_fill(out->tensor.data, SIZE, 2, consumer);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    end(out);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    CLOSE_EACH(writer, consumer);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- The hot path ---- */

/* Exports the object, ends the export, and returns how many accesses that took the lock. */
static unsigned count_slow_accesses(synced_mem *mem, const synced_mem_dlpack_options *options)
{
    const unsigned before = slow_accesses;
    end(export_of(mem, options));
    return slow_accesses - before;
}

/* In debug mode no pointer to write is published. */
static unsigned count_to_write(void)
{
    return sm_guard_on() ? 1 : 0;
}

/* An export that has nothing to do finds the pointer as an accessor does. */
START_TEST(published_on_the_host)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(HOST(MUTABLE))), count_to_write());
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(HOST(READ))), 0);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(published_on_a_stream)
{
    const synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(DEVICE(READ, stream))), 1);
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(DEVICE(READ, stream))), 0);
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(DEVICE(MUTABLE, stream))), 1);
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(DEVICE(MUTABLE, stream))), count_to_write());
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(DEVICE(OVERWRITE, stream))), count_to_write());
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(DEVICE(MUTABLE, other))), 1);
    ck_assert_uint_eq(count_slow_accesses(mem, OPTIONS(DEVICE(MUTABLE, stream))), 1);
    CLOSE_EACH(stream, other);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("DLPack, out");
    TCase *const tcase = add_case(all, "tensors");
    add_tests(tcase, the_host_copy, modes, legacy, shapes, a_view, bad_arguments, resized_meanwhile,
              published_on_the_host);
    add_gpu_tests(tcase, the_device_copy, published_on_a_stream);
    tcase_add_loop_test(tcase, no_memory, 0, 2);
    add_gpu_loop_test(tcase, a_consumer_on_a_stream, 0, STREAM_KINDS);
    return all;
}
