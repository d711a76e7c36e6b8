/* Shared by the suites of holds in which memory is out as a tensor, so that it can't go. */
#ifndef HOLD_TENSOR_KIT_H
#define HOLD_TENSOR_KIT_H

#include "hold_kit.h"

#include "dlpack_structs.h"
#include "synced_mem/dlpack.h"

/* Makes a tensor of the object's bytes on the side. */
static inline synced_mem_status give_out(synced_mem *mem, synced_mem_side side, struct DLManagedTensorVersioned **out)
{
    const int64_t shape[] = {(int64_t)synced_mem_size(mem)};
    const synced_mem_dlpack_options options = {.struct_size = sizeof options,
                                               .side = side,
                                               .type_code = TENSOR_UINT,
                                               .type_bits = 8,
                                               .ndim = 1,
                                               .shape = shape,
                                               .stream = SYNCED_MEM_NO_STREAM};
    return synced_mem_to_dlpack(out, mem, &options);
}

#endif
