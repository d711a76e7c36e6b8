/* The structs of copies. */
#include "copy/copy.h"

#include "copy/inflight.h"
#include "base/slab.h"
#include "base/status.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static char nowhere;
struct sm_copy sm_no_copy = {.data = &nowhere};

static struct sm_slab allocations = SM_SLAB_INITIALIZER(struct sm_allocation);
static struct sm_slab parts = SM_SLAB_INITIALIZER(struct sm_copy);

static_assert(offsetof(struct sm_copy, writes) + sizeof(unsigned) <= sizeof(struct sm_copy) - sizeof(void *),
              "a free struct keeps its count: the slab's link takes the last word");

/* Each thread takes several at a time. */
unsigned sm_copy_first_given(void)
{
    enum { AT_A_TIME = 64 };
    static atomic_uint taken;
    static _Thread_local unsigned next;
    if (next % AT_A_TIME == 0)
        next = atomic_fetch_add_explicit(&taken, AT_A_TIME, memory_order_relaxed);
    return next++ * SM_FIRST_GIVEN;
}

static struct sm_copy *fail_without_struct(void)
{
    (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a copy's record");
    return NULL;
}

/* For more than 64 bytes at a time, compilers use an instruction that takes long to begin. */
static inline void clear_members(void *of, size_t begin, size_t end)
{
    memset((char *)of + begin, 0, end - begin);
}

struct sm_copy *sm_copy_struct_take(int device, synced_mem_source source)
{
    struct sm_allocation *const allocation = sm_slab_take(&allocations);
    if (!allocation)
        return fail_without_struct();
    struct sm_copy *const copy = &allocation->copy;
    const unsigned writes = copy->writes + 1;
    clear_members(copy, offsetof(struct sm_copy, write), sizeof *copy);
    clear_members(allocation, offsetof(struct sm_allocation, base), sizeof *allocation);
    copy->device = (signed char)device;
    copy->source = (unsigned char)source;
    copy->pinned = source == SYNCED_MEM_SOURCE_PINNED || source == SYNCED_MEM_SOURCE_MAPPED;
    copy->writes = writes;
    return copy;
}

struct sm_copy *sm_part_struct_take(const struct sm_copy *whole)
{
    enum { BEGIN = offsetof(struct sm_copy, write) };
    struct sm_copy *const part = sm_slab_take(&parts);
    if (!part)
        return fail_without_struct();
    memcpy((char *)part + BEGIN, (const char *)whole + BEGIN, sizeof *part - BEGIN);
    part->is_part = true;
    part->reads = NULL;
    part->covered = NULL;
    part->arrivals = 0;
    return part;
}

void sm_copy_struct_give(struct sm_copy *copy)
{
    sm_inflight_forget(copy);
    if (copy->is_part)
        sm_slab_give(&parts, copy);
    else
        sm_slab_give(&allocations, sm_allocation_of(copy));
}

void sm_copy_trim(void)
{
    sm_slab_trim(&allocations);
    sm_slab_trim(&parts);
    sm_inflight_trim();
}
