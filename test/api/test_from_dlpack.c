/* Checks DLPack's tensors as objects: adopted once, and in order. */
#include "from_dlpack_kit.h"

/* ---- Adoption ---- */

/* _i: by the struct without a version. */
START_TEST(memory_of_the_host)
{
    struct sample sample;
    synced_mem *mem = NULL;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    OK(_i ? synced_mem_from_dlpack_legacy(&mem, &sample.legacy, NULL, NULL)
          : synced_mem_from_dlpack(&mem, &sample.versioned, NULL, NULL));
    ck_assert_uint_eq(synced_mem_size(mem), SIZE);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ADOPTED);
    ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), data);
    if (gpu_expected())
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    ck_assert_int_eq(deleted, 0);
    OK(synced_mem_release(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    free(data);
}
END_TEST

START_TEST(memory_of_the_device)
{
    struct sample sample;
    void *const data = _i == TENSOR_CUDA ? gpu_alloc(0, SIZE) : gpu_managed_alloc(0, SIZE);
    gpu_fill(data, SIZE, 1, NULL);
    make_sample(&sample, _i, data);
    synced_mem *const mem = import(&sample);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(synced_mem_device(mem), 0);
    ck_assert_ptr_eq(synced_mem_gpu_data(mem), data);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    gpu_sync_device(0);
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    gpu_free(data);
}
END_TEST

START_TEST(page_locked_memory)
{
    struct sample sample;
    void *const data = gpu_pinned_alloc(SIZE);
    pattern_write(data, SIZE, 1);
    make_sample(&sample, TENSOR_CUDA_HOST, data);
    synced_mem *const mem = import(&sample);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    OK(synced_mem_release(mem));
    gpu_sync_device(0);
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    gpu_pinned_free(data);
}
END_TEST

/* The tensor's memory begins behind its data; strides may be missing, and of one element they do not matter. */
START_TEST(unusual_tensors)
{
    struct sample sample;
    void *const data = host_memory(2 * SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    sample.versioned.tensor.byte_offset = 64;
    sample.versioned.tensor.strides = NULL;
    synced_mem *mem = import(&sample);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), (char *)data + 64);
    OK(synced_mem_release(mem));

    make_sample(&sample, TENSOR_CPU, (void *)64); /* nobody touches the bytes */
    sample.versioned.tensor.byte_offset = (uint64_t)1 << 63;
    mem = import(&sample);
    ck_assert_uint_eq((uintptr_t)synced_mem_cpu_data(mem), ((uint64_t)1 << 63) + 64);
    OK(synced_mem_release(mem));

    make_sample(&sample, TENSOR_CPU, data);
    sample.versioned.tensor.ndim = 3;
    sample.strides[2] = -77;
    mem = import(&sample);
    OK(synced_mem_release(mem));

    make_sample(&sample, TENSOR_CPU, data);
    sample.versioned.tensor.ndim = 0;
    sample.versioned.tensor.shape = NULL;
    mem = import(&sample);
    ck_assert_uint_eq(synced_mem_size(mem), 4);
    OK(synced_mem_release(mem));

    make_sample(&sample, TENSOR_CPU, data);
    sample.versioned.flags = TENSOR_COPIED | (uint64_t)1 << 40; /* a later minor version may have more flags */
    mem = import(&sample);
    ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), data);
    OK(synced_mem_release(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    free(data);
}
END_TEST

START_TEST(small_elements)
{
    struct sample sample;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    sample.versioned.tensor.code = 17;
    sample.versioned.tensor.bits = 4;
    sample.versioned.tensor.ndim = 1;
    sample.shape[0] = 11;
    sample.strides[0] = 1;
    sample.versioned.flags = _i ? TENSOR_PADDED : 0;
    synced_mem *const mem = import(&sample);
    ck_assert_uint_eq(synced_mem_size(mem), _i ? 11 : 6);
    OK(synced_mem_release(mem));
    free(data);
}
END_TEST

START_TEST(every_type)
{
    static const struct {
        uint8_t code, bits;
    } types[] = {{TENSOR_INT, 8},
                 {TENSOR_INT, 64},
                 {TENSOR_UINT, 1},
                 {TENSOR_UINT, 16},
                 {TENSOR_FLOAT, 16},
                 {TENSOR_FLOAT, 64},
                 {TENSOR_BFLOAT, 16},
                 {TENSOR_COMPLEX, 64},
                 {TENSOR_COMPLEX, 128},
                 {TENSOR_BOOL, 8},
                 {7, 8},
                 {14, 8},
                 {15, 6},
                 {16, 6},
                 {17, 4}};
    void *const data = host_memory(64, 1);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct sample sample;
        make_sample(&sample, TENSOR_CPU, data);
        sample.versioned.tensor.code = types[i].code;
        sample.versioned.tensor.bits = types[i].bits;
        sample.versioned.tensor.lanes = 2;
        sample.versioned.tensor.ndim = 0;
        synced_mem *const mem = import(&sample);
        ck_assert_uint_eq(synced_mem_size(mem), (types[i].bits * 2u + 7) / 8);
        OK(synced_mem_release(mem));
        OK(synced_mem_reap());
        ck_assert_int_eq(deleted, 1);
    }
    free(data);
}
END_TEST

START_TEST(options_of_the_object)
{
    struct sample sample;
    synced_mem_options options = default_options();
    synced_mem *mem;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    options.name = "weights";
    OK(synced_mem_from_dlpack(&mem, &sample.versioned, NULL, &options));
    ck_assert_str_eq(synced_mem_name(mem), "weights");
    OK(synced_mem_release(mem));
    free(data);
}
END_TEST

START_TEST(no_elements)
{
    struct sample sample;
    make_sample(&sample, TENSOR_CPU, NULL);
    sample.shape[1] = 0;
    sample.strides[0] = 5;
    synced_mem *const mem = import(&sample);
    ck_assert_int_eq(deleted, 1);
    ck_assert_uint_eq(synced_mem_size(mem), 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    OK(synced_mem_release(mem));
    make_sample(&sample, TENSOR_CUDA, NULL);
    sample.shape[0] = 0;
    sample.versioned.deleter = NULL;
    OK(synced_mem_release(import(&sample)));
}
END_TEST

/* Its memory is the caller's again when the object is released. */
START_TEST(no_deleter)
{
    struct sample sample;
    synced_mem *mem;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    sample.versioned.deleter = NULL;
    sample.legacy.deleter = NULL;
    mem = import(&sample);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    OK(synced_mem_release(mem));
    OK(synced_mem_from_dlpack_legacy(&mem, &sample.legacy, NULL, NULL));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_BORROWED);
    OK(synced_mem_release(mem));
    free(data);
}
END_TEST

START_TEST(read_only)
{
    struct sample sample;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    sample.versioned.flags = TENSOR_READ_ONLY;
    synced_mem *const mem = import(&sample);
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), data);
    void *const own = synced_mem_mutable_cpu_data(mem);
    ck_assert_ptr_ne(own, data);
    ck_assert(host_is(own, SIZE, 1));
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    OK(synced_mem_release(mem));
    free(data);
}
END_TEST

/* Two tensors of one storage: each has its own deletion. */
START_TEST(one_storage_twice)
{
    struct sample first, second;
    void *const data = host_memory(SIZE, 1);
    make_sample(&first, TENSOR_CPU, data);
    make_sample(&second, TENSOR_CPU, data);
    synced_mem *const one = import(&first), *const two = import(&second);
    ck_assert_ptr_eq(synced_mem_cpu_data(one), synced_mem_cpu_data(two));
    RELEASE_EACH(one, two);
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 2);
    free(data);
}
END_TEST

/* Out and in again: the new object has the memory of the old one, which stays alive. */
START_TEST(there_and_back)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem *again;
    OK(synced_mem_from_dlpack(&again, export_of(mem, OPTIONS(HOST(MUTABLE))), NULL, NULL));
    ck_assert_ptr_eq(synced_mem_cpu_data(again), synced_mem_cpu_data(mem));
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().objects, 2);
    host_fill(synced_mem_mutable_cpu_data(again), SIZE, 2);
    OK(synced_mem_release(again));
    OK(synced_mem_reap());
    ck_assert_uint_eq(stats_now().objects, 0);
    /* without elements the deleter is called at once, and its object ends within the call */
    synced_mem *const small = make(8);
    struct DLManagedTensorVersioned *const nothing =
        export_of(small, OPTIONS(HOST(READ), .ndim = 1, .shape = (int64_t[]){0}));
    OK(synced_mem_release(small));
    OK(synced_mem_from_dlpack(&again, nothing, NULL, NULL));
    ck_assert_uint_eq(stats_now().objects, 1);
    OK(synced_mem_release(again));
}
END_TEST

/* ---- The order of work ---- */

START_TEST(a_stream_that_fills_the_memory)
{
    struct sample sample;
    synced_mem *mem;
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const data = gpu_alloc(0, SIZE);
    gpu_delay(stream);
    gpu_fill(data, SIZE, 1, stream);
    make_sample(&sample, TENSOR_CUDA, data);
    OK(synced_mem_from_dlpack(&mem, &sample.versioned, stream, NULL));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    gpu_free(data);
}
END_TEST

/* The deleter is not called while a kernel of the object's user reads the memory. */
START_TEST(the_deleter_comes_last)
{
    struct sample sample;
    if (!gpu_expected() || !gpu_is_emulated())
        return;
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    unsigned char bytes[SIZE];
    pattern_write(bytes, SIZE, 1);
    void *const data = gpu_alloc(0, SIZE);
    gpu_fill(data, SIZE, 1, NULL);
    gpu_sync_device(0);
    make_sample(&sample, TENSOR_CUDA, data);
    synced_mem *const mem = import(&sample);
    gpu_hold(stream);
    gpu_expect(synced_mem_gpu_data_on(mem, stream), SIZE, bytes, stream);
    OK(synced_mem_release(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 0);
    gpu_unhold();
    close_stream(stream);
    gpu_sync_device(0);
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    gpu_free(data);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("DLPack, in");
    TCase *tcase = add_case(all, "adoption");
    tcase_add_loop_test(tcase, memory_of_the_host, 0, 2);
    add_gpu_loop_test(tcase, memory_of_the_device, TENSOR_CUDA, TENSOR_CUDA + 1);
    add_gpu_loop_test(tcase, memory_of_the_device, TENSOR_CUDA_MANAGED, TENSOR_CUDA_MANAGED + 1);
    add_tests(tcase, unusual_tensors, every_type, options_of_the_object, no_elements, no_deleter, read_only,
              one_storage_twice, there_and_back);
    add_gpu_tests(tcase, page_locked_memory);
    tcase_add_loop_test(tcase, small_elements, 0, 2);
    tcase = add_case(all, "order");
    tcase_add_test(tcase, the_deleter_comes_last);
    add_gpu_tests(tcase, a_stream_that_fills_the_memory);
    return all;
}
