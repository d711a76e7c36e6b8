/* Makes an allocation of the library fail. The suite lists 'calloc' among its wraps. */
#ifndef FAILING_CALLOC_H
#define FAILING_CALLOC_H

#include "each_failure.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_int fail_calloc_in; /* the number of further allocations until one fails; 0: none fails */
static atomic_bool no_calloc;     /* all fail */

/* Counts an allocation, on any thread. Returns whether it is to fail. */
static inline bool is_calloc_to_fail(void)
{
    int in = atomic_load(&fail_calloc_in);
    while (in > 0 && !atomic_compare_exchange_weak(&fail_calloc_in, &in, in - 1))
        continue;
    return in == 1;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return is_calloc_to_fail() || atomic_load(&no_calloc) ? NULL : __real_calloc(count, size);
}

static inline void begin_failing_calloc(struct failing *it)
{
    fail_calloc_in = (int)it->nth;
}

static inline bool end_failing_calloc(struct failing *it)
{
    (void)it;
    return atomic_exchange(&fail_calloc_in, 0) == 0;
}

static inline struct failing each_calloc(void)
{
    return (struct failing){begin_failing_calloc, end_failing_calloc, .call = NULL};
}

#endif
