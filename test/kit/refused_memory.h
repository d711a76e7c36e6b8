/* Makes all allocations of the library fail from one on. The suite lists 'calloc' and 'sm_slab_take' among its wraps. */
#ifndef REFUSED_MEMORY_H
#define REFUSED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

static int fail_in;          /* the number of further allocations until all fail; 0: none fails */
static bool slabs_are_large; /* then records are not among them */

static bool is_refused(void)
{
    if (fail_in == 1)
        return true;
    fail_in -= fail_in > 1;
    return false;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __real_calloc(count, size);
}

/* A slab obtains memory for many records at once. So each record that is taken counts as well. */
struct sm_slab;
void *__real_sm_slab_take(struct sm_slab *slab);
void *__wrap_sm_slab_take(struct sm_slab *slab);
void *__wrap_sm_slab_take(struct sm_slab *slab)
{
    return !slabs_are_large && is_refused() ? NULL : __real_sm_slab_take(slab);
}

#endif
