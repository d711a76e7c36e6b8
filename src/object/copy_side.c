/* The side that a copy of a range of bytes goes to. */
#include "object/copy_side.h"

#include "base/status.h"
#include "object/span.h"
#include "object/transaction.h"

/* A range of an object's bytes, or the object without it. */
struct range {
    const struct synced_mem *mem;
    size_t begin;
    size_t end;
    bool is_left_out;
};

/* Returns whether the range has bytes of a record, which has the object's bytes from begin to end. */
static bool has_bytes(const struct range *range, size_t begin, size_t end)
{
    if (range->is_left_out)
        return begin < range->begin || end > range->end;
    return begin < range->end && end > range->begin;
}

/* Another call may change the heads afterwards. The copy is right all the same, but may then leave to in parts. */
static synced_mem_status read_heads(const struct range *range, struct sm_heads *heads)
{
    struct synced_mem *const mem = (struct synced_mem *)(uintptr_t)range->mem;
    size_t begin = 0;
    SM_TRY(sm_check_and_lock(mem));
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        const size_t end = begin + sm_size_of(each);
        if (sm_whole_head(each) != SYNCED_MEM_UNINITIALIZED && has_bytes(range, begin, end)) {
            sm_add_head(heads, sm_head(each));
            heads->any |= sm_whole_head(each); /* contents in a file are on no side */
        }
        begin = end;
    }
    sm_unlock_root(sm_root(mem));
    return SYNCED_MEM_OK;
}

/* Returns whether all contents are valid on one side alone, and stores it. */
static bool have_one_side(const struct sm_heads *heads, enum sm_side *side)
{
    if (!heads->any || (heads->all != SYNCED_MEM_AT_CPU && heads->all != SYNCED_MEM_AT_GPU))
        return false;
    *side = heads->all == SYNCED_MEM_AT_CPU ? SM_CPU : SM_GPU;
    return true;
}

synced_mem_status sm_copy_side(const struct synced_mem *to, size_t to_offset, const struct synced_mem *from,
                               size_t from_offset, size_t size, enum sm_side *side)
{
    const struct range rest = {.mem = to, .begin = to_offset, .end = to_offset + size, .is_left_out = true};
    const struct range source = {.mem = from, .begin = from_offset, .end = from_offset + size};
    struct sm_heads of_rest = SM_NO_HEADS, of_source = SM_NO_HEADS;
    SM_TRY(read_heads(&rest, &of_rest));
    SM_TRY(read_heads(&source, &of_source));
    if (!have_one_side(&of_rest, side) && !have_one_side(&of_source, side))
        *side = of_source.any ? SM_GPU : SM_CPU;
    return SYNCED_MEM_OK;
}
