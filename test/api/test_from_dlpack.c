/* Checks DLPack's tensors as objects: adopted once, in order, or refused and left to the caller. */
#include "dlpack_kit.h"

#include <stddef.h>

/* ---- Tensors of the test ---- */

static int deleted;

/* A tensor of 50 x 25 floats, which lives as long as the test. */
struct sample {
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor legacy;
    int64_t shape[3], strides[3];
    void *data;
};

static void count_deletion(struct DLManagedTensorVersioned *self)
{
    ck_assert_ptr_nonnull(self->context);
    self->deleter = NULL;
    self->tensor.shape = NULL;
    deleted++;
}

static void count_legacy_deletion(struct DLManagedTensor *self)
{
    ck_assert_ptr_nonnull(self->context);
    self->deleter = NULL;
    deleted++;
}

static void make_sample(struct sample *sample, int device_type, void *data)
{
    *sample = (struct sample){.shape = {ROWS, COLUMNS, 1}, .strides = {COLUMNS, 1, 1}, .data = data};
    sample->versioned = (struct DLManagedTensorVersioned){
        .major = 1,
        .minor = 3,
        .context = sample,
        .deleter = count_deletion,
        .tensor = {.data = data,
                   .device_type = device_type,
                   .device_id = device_type == TENSOR_CUDA ? 7 : 0, /* nobody relies on it */
                   .ndim = 2,
                   .code = TENSOR_FLOAT,
                   .bits = 32,
                   .lanes = 1,
                   .shape = sample->shape,
                   .strides = sample->strides}};
    sample->legacy = (struct DLManagedTensor){
        .tensor = sample->versioned.tensor, .context = sample, .deleter = count_legacy_deletion};
    deleted = 0;
}

static void *host_memory(size_t size, unsigned pattern)
{
    void *const data = aligned_alloc(64, (size + 63) / 64 * 64);
    ck_assert_ptr_nonnull(data);
    pattern_write(data, size, pattern);
    return data;
}

static synced_mem *import(struct sample *sample)
{
    synced_mem *out = NULL;
    OK(synced_mem_from_dlpack(&out, &sample->versioned, NULL, NULL));
    ck_assert_ptr_nonnull(out);
    return out;
}

/* ---- Adoption ---- */

START_TEST(memory_of_the_host)
{
    struct sample sample;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    synced_mem *const mem = import(&sample);
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
    if (!gpu_expected())
        return;
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
    if (!gpu_expected())
        return;
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

START_TEST(legacy)
{
    struct sample sample;
    synced_mem *mem;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    OK(synced_mem_from_dlpack_legacy(&mem, &sample.legacy, NULL, NULL));
    ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), data);
    OK(synced_mem_release(mem));
    OK(synced_mem_reap());
    ck_assert_int_eq(deleted, 1);
    free(data);
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
    synced_mem_options options;
    synced_mem *mem;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    synced_mem_options_init(&options);
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
    OK(synced_mem_release(one));
    OK(synced_mem_release(two));
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
    if (!gpu_expected())
        return;
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

/* ---- Bad tensors ---- */

enum {
    MAJOR_0,
    MAJOR_2,
    DEVICE_0,
    DEVICE_ROCM,
    TYPE_OPAQUE,
    TYPE_18,
    TYPE_255,
    BITS_0,
    BITS_33,
    FP6_OF_8,
    LANES_0,
    LANES_LAST,
    NDIM_MINUS,
    NDIM_65,
    SHAPE_NULL,
    SHAPE_MINUS,
    SHAPE_OVERFLOW,
    SHAPE_LARGE,
    STRIDE_WIDE,
    STRIDE_TRANSPOSED,
    STRIDE_0,
    STRIDE_MINUS,
    STRIDE_LAST,
    DATA_NULL,
    OFFSET_OVERFLOW,
    END_OVERFLOW,
    BAD
};

static const char *const says[BAD] = {
    [MAJOR_0] = "version 0.3, not 1",
    [MAJOR_2] = "version 2.3, not 1",
    [DEVICE_0] = "device has the type 0",
    [DEVICE_ROCM] = "device has the type 10",
    [TYPE_OPAQUE] = "opaque handles",
    [TYPE_18] = "the code 18",
    [TYPE_255] = "the code 255",
    [BITS_0] = "0 bits",
    [BITS_33] = "33 bits",
    [FP6_OF_8] = "8 bits",
    [LANES_0] = "0 lanes",
    [LANES_LAST] = "65535 lanes",
    [NDIM_MINUS] = "-1 dimensions",
    [NDIM_65] = "65 dimensions",
    [SHAPE_NULL] = "shape is NULL",
    [SHAPE_MINUS] = "the size -25",
    [SHAPE_OVERFLOW] = "too many bytes",
    [SHAPE_LARGE] = "bytes",
    [STRIDE_WIDE] = "dimension 0 has the stride 26, not 25",
    [STRIDE_TRANSPOSED] = "compact and row-major",
    [STRIDE_0] = "dimension 0 has the stride 0",
    [STRIDE_MINUS] = "the stride -25",
    [STRIDE_LAST] = "dimension 1 has the stride 2",
    [DATA_NULL] = "data is NULL",
    [OFFSET_OVERFLOW] = "addresses overflow",
    [END_OVERFLOW] = "addresses overflow",
};

static void spoil(struct sample *sample, int how)
{
    struct DLManagedTensorVersioned *const managed = &sample->versioned;
    struct tensor *const tensor = &managed->tensor;
    switch (how) {
    case MAJOR_0:
    case MAJOR_2:
        managed->major = how == MAJOR_2 ? 2 : 0;
        memset(tensor, 0xff, sizeof *tensor);
        break;
    case DEVICE_0:
    case DEVICE_ROCM:
        tensor->device_type = how == DEVICE_0 ? 0 : TENSOR_ROCM;
        break;
    case TYPE_OPAQUE:
        tensor->code = TENSOR_OPAQUE;
        tensor->bits = 64;
        break;
    case TYPE_18:
    case TYPE_255:
        tensor->code = how == TYPE_18 ? 18 : 255;
        break;
    case BITS_0:
    case BITS_33:
        tensor->bits = how == BITS_0 ? 0 : 33;
        break;
    case FP6_OF_8:
        tensor->code = 15;
        tensor->bits = 8;
        break;
    case LANES_0:
    case LANES_LAST:
        tensor->lanes = how == LANES_0 ? 0 : 65535;
        break;
    case NDIM_MINUS:
    case NDIM_65:
        tensor->ndim = how == NDIM_65 ? 65 : -1;
        break;
    case SHAPE_NULL:
        tensor->shape = NULL;
        break;
    case SHAPE_MINUS:
        sample->shape[1] = -25;
        break;
    case SHAPE_OVERFLOW:
        sample->shape[0] = INT64_MAX / 2;
        break;
    case SHAPE_LARGE:
        sample->shape[0] = PTRDIFF_MAX / (COLUMNS * 4) / 8;
        tensor->bits = 128;
        tensor->lanes = 2;
        break;
    case STRIDE_WIDE:
        sample->strides[0] = COLUMNS + 1;
        break;
    case STRIDE_TRANSPOSED:
        sample->strides[0] = 1;
        sample->strides[1] = ROWS;
        break;
    case STRIDE_0:
        sample->strides[0] = 0;
        break;
    case STRIDE_MINUS:
        sample->strides[0] = -COLUMNS;
        break;
    case STRIDE_LAST:
        sample->strides[1] = 2;
        break;
    case DATA_NULL:
        tensor->data = NULL;
        break;
    case OFFSET_OVERFLOW:
        tensor->byte_offset = UINT64_MAX;
        break;
    default:
        tensor->byte_offset = UINTPTR_MAX - (uintptr_t)tensor->data - 10;
        break;
    }
}

/* Refused, with a reason; the tensor is as it was, and still the caller's. */
START_TEST(bad_tensors)
{
    struct sample sample, before;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    spoil(&sample, _i);
    before = sample;
    synced_mem *out = (synced_mem *)data;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack(&out, &sample.versioned, NULL, NULL));
    SAYS(says[_i]);
    SAYS("synced_mem_from_dlpack");
    ck_assert_ptr_null(out);
    if (_i > MAJOR_2) {
        sample.legacy.tensor = sample.versioned.tensor;
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack_legacy(&out, &sample.legacy, NULL, NULL));
        SAYS(says[_i]);
        sample.legacy = before.legacy;
    }
    ck_assert_int_eq(deleted, 0);
    ck_assert_mem_eq(&sample, &before, sizeof sample);
    ck_assert_uint_eq(stats_now().objects, 0);
    free(data);
}
END_TEST

START_TEST(bad_arguments)
{
    struct sample sample;
    synced_mem *out;
    synced_mem_options options = {.struct_size = 1};
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CPU, data);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack(NULL, &sample.versioned, NULL, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack(&out, NULL, NULL, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack_legacy(NULL, &sample.legacy, NULL, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack_legacy(&out, NULL, NULL, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack(&out, &sample.versioned, NULL, &options));
    ck_assert_ptr_null(out);
    ck_assert_int_eq(deleted, 0);
    free(data);
}
END_TEST

/* The memory is refused after the object was made. */
START_TEST(refused_memory)
{
    struct sample sample;
    synced_mem *out;
    synced_mem_options options;
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CUDA, data);
    const synced_mem_status status = gpu_expected() ? SYNCED_MEM_ERR_INVALID_ARGUMENT : SYNCED_MEM_ERR_NO_GPU;
    FAILS(status, synced_mem_from_dlpack(&out, &sample.versioned, NULL, NULL));
    ck_assert_ptr_null(out);
    make_sample(&sample, TENSOR_CPU, (char *)data + 4);
    synced_mem_options_init(&options);
    options.alignment = 64;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack(&out, &sample.versioned, NULL, &options));
    SAYS("aligned");
    ck_assert_int_eq(deleted, 0);
    ck_assert_uint_eq(stats_now().objects, 0);
    free(data);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("DLPack, in");
    TCase *tcase = add_case(all, "adoption");
    tcase_add_test(tcase, memory_of_the_host);
    tcase_add_loop_test(tcase, memory_of_the_device, TENSOR_CUDA, TENSOR_CUDA + 1);
    tcase_add_loop_test(tcase, memory_of_the_device, TENSOR_CUDA_MANAGED, TENSOR_CUDA_MANAGED + 1);
    tcase_add_test(tcase, page_locked_memory);
    tcase_add_test(tcase, legacy);
    tcase_add_test(tcase, unusual_tensors);
    tcase_add_loop_test(tcase, small_elements, 0, 2);
    tcase_add_test(tcase, every_type);
    tcase_add_test(tcase, options_of_the_object);
    tcase_add_test(tcase, no_elements);
    tcase_add_test(tcase, no_deleter);
    tcase_add_test(tcase, read_only);
    tcase_add_test(tcase, one_storage_twice);
    tcase_add_test(tcase, there_and_back);
    tcase = add_case(all, "order");
    tcase_add_test(tcase, a_stream_that_fills_the_memory);
    tcase_add_test(tcase, the_deleter_comes_last);
    tcase = add_case(all, "bad tensors");
    tcase_add_loop_test(tcase, bad_tensors, 0, BAD);
    tcase_add_test(tcase, bad_arguments);
    tcase_add_test(tcase, refused_memory);
    return all;
}
