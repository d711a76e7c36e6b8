/* Checks DLPack's tensors that are refused: they stay the caller's, as they were. */
#include "from_dlpack_kit.h"

#include <stddef.h>

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
    synced_mem_options options = default_options();
    void *const data = host_memory(SIZE, 1);
    make_sample(&sample, TENSOR_CUDA, data);
    const synced_mem_status status = gpu_expected() ? SYNCED_MEM_ERR_INVALID_ARGUMENT : SYNCED_MEM_ERR_NO_GPU;
    FAILS(status, synced_mem_from_dlpack(&out, &sample.versioned, NULL, NULL));
    ck_assert_ptr_null(out);
    make_sample(&sample, TENSOR_CPU, (char *)data + 4);
    options.alignment = 64;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_from_dlpack(&out, &sample.versioned, NULL, &options));
    SAYS("aligned");
    ck_assert_int_eq(deleted, 0);
    ck_assert_uint_eq(stats_now().objects, 0);
    free(data);
}

Suite *suite(void)
{
    Suite *const all = suite_create("DLPack, refused");
    TCase *const tcase = add_case(all, "bad tensors");
    add_tests(tcase, bad_arguments, refused_memory);
    tcase_add_loop_test(tcase, bad_tensors, 0, BAD);
    return all;
}
