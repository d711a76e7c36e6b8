/* Makes all allocations of the library fail from one on. The suite lists 'calloc', 'malloc', 'realloc' and
 * 'sm_slab_take' among its wraps. */
#ifndef REFUSED_MEMORY_H
#define REFUSED_MEMORY_H

#include "each_failure.h"

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

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : __real_malloc(size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return is_refused() ? NULL : __real_realloc(old, size);
}

/* A slab obtains memory for many records at once. So each record that is taken counts as well. */
struct sm_slab;
void *__real_sm_slab_take(struct sm_slab *slab);
void *__wrap_sm_slab_take(struct sm_slab *slab);
void *__wrap_sm_slab_take(struct sm_slab *slab)
{
    return !slabs_are_large && is_refused() ? NULL : __real_sm_slab_take(slab);
}

static inline void begin_refusing(struct failing *it)
{
    fail_in = (int)it->nth;
}

static inline bool end_refusing(struct failing *it)
{
    (void)it;
    const bool happened = fail_in == 1;
    fail_in = 0;
    return happened;
}

/* All allocations fail from the nth on. */
static inline struct failing each_refusal(bool sparse)
{
    return (struct failing){begin_refusing, end_refusing, .sparse = sparse};
}

#endif
