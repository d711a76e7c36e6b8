/* The types and shapes of DLPack's tensors: which are known, and how many bytes they have. */
#ifndef SM_DLPACK_TYPE_H
#define SM_DLPACK_TYPE_H

#include "api/dlpack_abi.h"
#include "synced_mem.h"

#include <stdbool.h>

enum { SM_DL_MOST_DIMENSIONS = 64, SM_DL_MOST_LANES = 64 };

/* Checks that the type is known. ERR_INVALID_ARGUMENT. */
synced_mem_status sm_dl_check_type(struct sm_dl_type type);

/* Checks the number of dimensions and the sizes, and stores how many bytes the elements have. padded: each element of
 * less than 8 bits has a byte of its own. ERR_INVALID_ARGUMENT. */
synced_mem_status sm_dl_count_bytes(struct sm_dl_type type, bool padded, int32_t ndim, const int64_t *shape,
                                    uint64_t *bytes);

/* Checks that the elements are compact and row-major. The shape is checked. ERR_INVALID_ARGUMENT. */
synced_mem_status sm_dl_check_strides(int32_t ndim, const int64_t *shape, const int64_t *strides);

/* Fills in the strides of compact, row-major elements. */
void sm_dl_fill_strides(int32_t ndim, const int64_t *shape, int64_t *strides);

#endif
