/* Shared by the suites of tensors that become objects: tensors of the test, and how often they are deleted. */
#ifndef FROM_DLPACK_KIT_H
#define FROM_DLPACK_KIT_H

#include "dlpack_kit.h"

/* Counts the deletions since the last sample was made. */
static int deleted;

/* A tensor of 50 x 25 floats, which lives as long as the test. */
struct sample {
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor legacy;
    int64_t shape[3], strides[3];
    void *data;
};

static inline void count_deletion(struct DLManagedTensorVersioned *self)
{
    ck_assert_ptr_nonnull(self->context);
    self->deleter = NULL;
    self->tensor.shape = NULL;
    deleted++;
}

static inline void count_legacy_deletion(struct DLManagedTensor *self)
{
    ck_assert_ptr_nonnull(self->context);
    self->deleter = NULL;
    deleted++;
}

static inline void make_sample(struct sample *sample, int device_type, void *data)
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

static inline void *host_memory(size_t size, unsigned pattern)
{
    void *const data = aligned_alloc(64, (size + 63) / 64 * 64);
    ck_assert_ptr_nonnull(data);
    pattern_write(data, size, pattern);
    return data;
}

static inline synced_mem *import(struct sample *sample)
{
    synced_mem *out = NULL;
    OK(synced_mem_from_dlpack(&out, &sample->versioned, NULL, NULL));
    ck_assert_ptr_nonnull(out);
    return out;
}

#endif
