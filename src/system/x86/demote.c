/* Demotion by CLDEMOTE, which Intel's server processors have since Sapphire Rapids. For others it is a NOP. */
#include "system/demote.h"

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

enum { LINE = 64, LEAF = 7, ECX_BIT = 25 };

enum { UNKNOWN, ABSENT, PRESENT };

static int query_processor(void)
{
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    const bool known = __get_cpuid_count(LEAF, 0, &eax, &ebx, &ecx, &edx);
    return known && (ecx >> ECX_BIT & 1) ? PRESENT : ABSENT;
}

/* Asks once, since a virtual machine leaves the question to its host. All threads get the same answer. */
bool sm_can_demote(void)
{
    static atomic_int answer;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == UNKNOWN) {
        known = query_processor();
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == PRESENT;
}

__attribute__((target("cldemote"))) void sm_demote(void *data, size_t bytes)
{
    char *const lines = data;
    for (size_t at = 0; at < bytes; at += LINE)
        _cldemote(lines + at);
}
