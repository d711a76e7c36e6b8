/* The types and shapes of DLPack's tensors. */
#include "api/dlpack_type.h"

#include "base/status.h"

/* ---- Types ---- */

/* The bits that a lane can have: powers of two from least to most. */
struct bits {
    uint8_t least, most;
};

static struct bits get_bits(uint8_t code)
{
    switch (code) {
    case SM_DL_INT:
    case SM_DL_UINT:
        return (struct bits){1, 128};
    case SM_DL_FLOAT:
        return (struct bits){8, 128};
    case SM_DL_BFLOAT:
        return (struct bits){16, 16};
    case SM_DL_COMPLEX:
        return (struct bits){16, 128};
    case SM_DL_BOOL:
        return (struct bits){1, 8};
    case SM_DL_FLOAT6_FIRST:
    case SM_DL_FLOAT6_LAST:
        return (struct bits){6, 6};
    case SM_DL_FLOAT4:
        return (struct bits){4, 4};
    default:
        return code >= SM_DL_FLOAT8_FIRST && code <= SM_DL_FLOAT8_LAST ? (struct bits){8, 8} : (struct bits){0, 0};
    }
}

synced_mem_status sm_dl_check_type(struct sm_dl_type type)
{
    const struct bits bits = get_bits(type.code);
    const bool is_power = (type.bits & (type.bits - 1)) == 0;
    if (bits.most == 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's type has the code %u, which is %s",
                       (unsigned)type.code, type.code == SM_DL_OPAQUE ? "of opaque handles" : "not known");
    if (type.bits < bits.least || type.bits > bits.most || (!is_power && bits.least < bits.most))
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's type, of code %u, cannot have %u bits",
                       (unsigned)type.code, (unsigned)type.bits);
    if (type.lanes < 1 || type.lanes > SM_DL_MOST_LANES)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's type has %u lanes, not 1 to %d",
                       (unsigned)type.lanes, SM_DL_MOST_LANES);
    return SYNCED_MEM_OK;
}

/* ---- Shapes ---- */

static synced_mem_status check_shape(int32_t ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > SM_DL_MOST_DIMENSIONS)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor has %d dimensions, not 0 to %d", (int)ndim,
                       SM_DL_MOST_DIMENSIONS);
    if (ndim > 0 && !shape)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's shape is NULL");
    for (int32_t i = 0; i < ndim; i++)
        if (shape[i] < 0)
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's dimension %d has the size %lld", (int)i,
                           (long long)shape[i]);
    return SYNCED_MEM_OK;
}

static bool has_elements(int32_t ndim, const int64_t *shape)
{
    bool has = true;
    for (int32_t i = 0; i < ndim; i++)
        has = has && shape[i] > 0;
    return has;
}

/* Multiplies with a factor above 0. Returns whether the product is in range. Most factors are so small that no
 * division is needed, which takes as long as all else that an export checks. */
static bool multiply(uint64_t *product, uint64_t factor)
{
    if ((*product > INT32_MAX || factor > UINT32_MAX) && *product > INT64_MAX / factor)
        return false;
    *product *= factor;
    return true;
}

static uint64_t get_element_bits(struct sm_dl_type type, bool padded)
{
    return (uint64_t)(padded && type.bits < 8 ? 8 : type.bits) * type.lanes;
}

synced_mem_status sm_dl_count_bytes(struct sm_dl_type type, bool padded, int32_t ndim, const int64_t *shape,
                                    uint64_t *bytes)
{
    uint64_t bits = get_element_bits(type, padded);
    bool fits = true;
    SM_TRY(check_shape(ndim, shape));
    *bytes = 0;
    if (!has_elements(ndim, shape))
        return SYNCED_MEM_OK;
    for (int32_t i = 0; i < ndim && fits; i++)
        fits = multiply(&bits, (uint64_t)shape[i]);
    *bytes = bits / 8 + (bits % 8 > 0);
    return fits ? SYNCED_MEM_OK
                : sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the tensor's elements have too many bytes for any memory");
}

/* ---- Strides ---- */

/* A dimension of one element has no second one to reach. */
synced_mem_status sm_dl_check_strides(int32_t ndim, const int64_t *shape, const int64_t *strides)
{
    int64_t compact = 1;
    if (!strides || !has_elements(ndim, shape))
        return SYNCED_MEM_OK;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        if (shape[i] > 1 && strides[i] != compact)
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                           "the tensor is not compact and row-major: dimension %d has the stride %lld, not %lld",
                           (int)i, (long long)strides[i], (long long)compact);
        compact *= shape[i];
    }
    return SYNCED_MEM_OK;
}

/* Only a tensor without elements can have sizes whose product is out of range. Then its strides do not matter. */
void sm_dl_fill_strides(int32_t ndim, const int64_t *shape, int64_t *strides)
{
    uint64_t compact = 1;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        strides[i] = (int64_t)compact;
        (void)multiply(&compact, shape[i] > 0 ? (uint64_t)shape[i] : 1);
    }
}
