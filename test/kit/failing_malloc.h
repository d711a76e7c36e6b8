/* Makes other allocations of the library fail too, as failing_calloc.h does. The suite lists 'calloc', 'malloc' and
 * 'realloc' among its wraps. It asserts nothing while an allocation is to fail, as Check's assertions allocate. */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include "failing_calloc.h"

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return is_calloc_to_fail() ? NULL : __real_malloc(size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return is_calloc_to_fail() ? NULL : __real_realloc(old, size);
}

#endif
