/* Shared by the suites of DLPack: options to make tensors. */
#ifndef DLPACK_KIT_H
#define DLPACK_KIT_H

#include "dlpack_structs.h"
#include "fixture.h"

#include "synced_mem/dlpack.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 50, COLUMNS = 25, SIZE = ROWS * COLUMNS * 4 };
static const int64_t shape[] = {ROWS, COLUMNS};

/* Options for floats in two dimensions. Members that are named later replace these. */
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
#define OPTIONS(...)                                                                                                   \
    (&(synced_mem_dlpack_options){.struct_size = sizeof(synced_mem_dlpack_options),                                    \
                                  .side = SYNCED_MEM_SIDE_CPU,                                                         \
                                  .type_code = TENSOR_FLOAT,                                                           \
                                  .type_bits = 32,                                                                     \
                                  .ndim = 2,                                                                           \
                                  .shape = shape,                                                                      \
                                  __VA_ARGS__})

#define HOST(m) .side = SYNCED_MEM_SIDE_CPU, .mode = SYNCED_MEM_##m
#define DEVICE(m, s) .side = SYNCED_MEM_SIDE_GPU, .mode = SYNCED_MEM_##m, .stream = (s)

static inline struct DLManagedTensorVersioned *export_of(synced_mem *mem, const synced_mem_dlpack_options *options)
{
    struct DLManagedTensorVersioned *out = NULL;
    OK(synced_mem_to_dlpack(&out, mem, options));
    ck_assert_ptr_nonnull(out);
    return out;
}

static inline void end(struct DLManagedTensorVersioned *managed)
{
    managed->deleter(managed);
}

#endif
