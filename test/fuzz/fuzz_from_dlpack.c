/*
 * A fuzz target: bytes become a tensor, which becomes an object, or is refused. An input that ends early is filled up
 * with zeros. The arrays of shape and strides have exactly as many numbers as the tensor's ndim allows to read, so that
 * the address sanitizer finds a read too far.
 */
#include "dlpack_structs.h"
#include "fuzz.h"
#include "synced_mem/dlpack.h"

#include <stdbool.h>

enum { MOST_DIMENSIONS = 64, MEMORY = 4096 };
enum { LEGACY = 1, NO_STRIDES = 2, NO_SHAPE = 4, NO_DELETER = 8, RAW_ADDRESS = 16 };

/* The first bytes of an input. The numbers of the shape and those of the strides follow. */
struct input {
    uint64_t flags, byte_offset, address;
    uint32_t major, minor;
    int32_t device_type, device_id, ndim;
    uint16_t lanes;
    uint8_t code, bits, kind;
};

static int deleted;

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    (void)self;
    deleted++;
}

static void delete_legacy(struct DLManagedTensor *self)
{
    (void)self;
    deleted++;
}

static int64_t *take_numbers(int32_t ndim)
{
    const size_t count = ndim > 0 && ndim <= MOST_DIMENSIONS ? (size_t)ndim : 0;
    int64_t *const numbers = malloc(count * sizeof *numbers + (count == 0));
    MUST(numbers);
    take(numbers, count * sizeof *numbers);
    return numbers;
}

/* Returns the bytes that an accepted tensor has, by other arithmetic than the library's. */
static size_t count_bytes(const struct tensor *tensor, uint64_t flags)
{
    const unsigned lane = (flags & TENSOR_PADDED) && tensor->bits < 8 ? 8 : tensor->bits;
    long double bits = (long double)lane * tensor->lanes;
    for (int32_t i = 0; i < tensor->ndim; i++)
        bits *= (long double)tensor->shape[i];
    return (size_t)((bits + 7) / 8);
}

static bool is_kind(const struct input *input, int bit)
{
    return (input->kind & bit) != 0;
}

/* The memory may lie anywhere, so it is not touched. */
static void check_object(synced_mem *mem, const struct input *input, const struct tensor *tensor)
{
    const size_t size = synced_mem_size(mem);
    MUST(size == count_bytes(tensor, is_kind(input, LEGACY) ? 0 : input->flags));
    MUST(deleted == (size == 0 && !is_kind(input, NO_DELETER)));
    if (size > 0 && synced_mem_head(mem) == SYNCED_MEM_AT_CPU)
        MUST(synced_mem_cpu_data(mem) == (char *)tensor->data + tensor->byte_offset);
    MUST(synced_mem_release(mem) == SYNCED_MEM_OK);
    MUST(synced_mem_reap() == SYNCED_MEM_OK);
    MUST(deleted == !is_kind(input, NO_DELETER));
}

static struct tensor describe(const struct input *input, int64_t *shape, int64_t *strides)
{
    static char memory[MEMORY];
    return (struct tensor){.data = is_kind(input, RAW_ADDRESS) ? (void *)(uintptr_t)input->address : memory,
                           .device_type = input->device_type,
                           .device_id = input->device_id,
                           .ndim = input->ndim,
                           .code = input->code,
                           .bits = input->bits,
                           .lanes = input->lanes,
                           .shape = is_kind(input, NO_SHAPE) ? NULL : shape,
                           .strides = is_kind(input, NO_STRIDES) ? NULL : strides,
                           .byte_offset = input->byte_offset};
}

static void import(const struct input *input, int64_t *shape, int64_t *strides)
{
    const struct tensor tensor = describe(input, shape, strides);
    struct DLManagedTensorVersioned versioned = {.major = input->major,
                                                 .minor = input->minor,
                                                 .deleter = is_kind(input, NO_DELETER) ? NULL : delete_versioned,
                                                 .flags = input->flags,
                                                 .tensor = tensor};
    struct DLManagedTensor legacy = {.tensor = tensor, .deleter = is_kind(input, NO_DELETER) ? NULL : delete_legacy};
    synced_mem *mem = NULL;
    deleted = 0;
    const synced_mem_status status = is_kind(input, LEGACY) ? synced_mem_from_dlpack_legacy(&mem, &legacy, NULL, NULL)
                                                            : synced_mem_from_dlpack(&mem, &versioned, NULL, NULL);
    MUST((status == SYNCED_MEM_OK) == (mem != NULL));
    if (mem)
        check_object(mem, input, &tensor);
    else
        MUST(deleted == 0 && *synced_mem_last_error_message() != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input;
    begin_input(data, size);
    take(&input, sizeof input);
    int64_t *const shape = take_numbers(input.ndim);
    int64_t *const strides = take_numbers(input.ndim);
    import(&input, shape, strides);
    free(shape);
    free(strides);
    return 0;
}
