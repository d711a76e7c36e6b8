/* Calls on several objects. */
#include "object/several.h"

#include <stdint.h>

static int compare_owners(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t) * (struct synced_mem *const *)a;
    const uintptr_t second = (uintptr_t) * (struct synced_mem *const *)b;
    return (first > second) - (first < second);
}

void sm_owners_sort(struct sm_owners *owners, size_t listed)
{
    sm_sort_unless_sorted(owners->list, listed, sizeof(struct synced_mem *), compare_owners);
    owners->count = 0;
    for (size_t i = 0; i < listed; i++)
        if (i == 0 || owners->list[i] != owners->list[owners->count - 1])
            owners->list[owners->count++] = owners->list[i];
}

static void unlock_first(const struct sm_owners *owners, size_t locked)
{
    for (size_t i = 0; i < locked; i++)
        sm_unlock_last(owners->list[i]);
}

synced_mem_status sm_owners_lock(const struct sm_owners *owners, struct synced_mem **failed)
{
    for (size_t i = 0; i < owners->count; i++) {
        const synced_mem_status status = sm_lock_first(owners->list[i]);
        if (status != SYNCED_MEM_OK) {
            *failed = owners->list[i];
            unlock_first(owners, i);
            return status;
        }
    }
    return SYNCED_MEM_OK;
}

bool sm_owners_have_parts(const struct sm_owners *owners)
{
    size_t i = 0;
    while (i < owners->count && !sm_is_divided(owners->list[i]))
        i++;
    return i < owners->count;
}

void sm_owners_unlock(const struct sm_owners *owners)
{
    unlock_first(owners, owners->count);
}
