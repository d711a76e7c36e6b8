/* Calls on several objects. */
#include "object/several.h"

#include "base/process.h"
#include "base/status.h"
#include "object/renew.h"

#include <stdint.h>

static int compare_roots(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t) * (struct synced_mem *const *)a;
    const uintptr_t second = (uintptr_t) * (struct synced_mem *const *)b;
    return (first > second) - (first < second);
}

static size_t count_ascending(const struct sm_roots *roots, size_t listed)
{
    size_t count = 1;
    while (count < listed && (uintptr_t)roots->list[count - 1] < (uintptr_t)roots->list[count])
        count++;
    return count;
}

void sm_roots_sort(struct sm_roots *roots, size_t listed)
{
    roots->count = count_ascending(roots, listed);
    if (roots->count >= listed)
        return;
    qsort(roots->list, listed, sizeof(struct synced_mem *), compare_roots);
    roots->count = 0;
    for (size_t i = 0; i < listed; i++)
        if (i == 0 || roots->list[i] != roots->list[roots->count - 1])
            roots->list[roots->count++] = roots->list[i];
}

/* Merges the roots of two arrays of objects, of which each is sorted. Returns false if one is not. */
static bool merge_roots(struct sm_roots *roots, struct synced_mem *const *one, struct synced_mem *const *other,
                        size_t count)
{
    struct synced_mem *last = NULL;
    size_t listed = 0;
    for (size_t i = 0, j = 0; i < count || j < count;) {
        struct synced_mem *const first = i < count ? sm_root(one[i]) : NULL;
        struct synced_mem *const second = j < count ? sm_root(other[j]) : NULL;
        const bool takes_first = first && (!second || (uintptr_t)first <= (uintptr_t)second);
        struct synced_mem *const next = takes_first ? first : second;
        i += takes_first;
        j += !takes_first;
        if ((uintptr_t)next < (uintptr_t)last)
            return false;
        if (next != last)
            roots->list[listed++] = next;
        last = next;
    }
    roots->count = listed;
    return true;
}

void sm_roots_list_both(struct sm_roots *roots, struct synced_mem *const *one, struct synced_mem *const *other,
                        size_t count)
{
    if (merge_roots(roots, one, other, count))
        return;
    for (size_t i = 0; i < count; i++) {
        roots->list[i] = sm_root(one[i]);
        roots->list[count + i] = sm_root(other[i]);
    }
    sm_roots_sort(roots, 2 * count);
}

bool sm_roots_have_parts(const struct sm_roots *roots)
{
    size_t i = 0;
    while (i < roots->count && !sm_is_divided(roots->list[i]))
        i++;
    return i < roots->count;
}

static void unlock_roots(const struct sm_roots *roots, size_t locked)
{
    for (size_t i = 0; i < locked; i++)
        sm_mutex_unlock(&roots->list[i]->lock);
    sm_process_leave();
}

synced_mem_status sm_round_begin(struct sm_round *round)
{
    const struct sm_roots *const roots = &round->roots;
    round->has_parts = false;
    round->failed = NULL;
    sm_process_enter();
    for (size_t i = 0; i < roots->count; i++) {
        const synced_mem_status status = sm_check_usable(roots->list[i]);
        if (status != SYNCED_MEM_OK) {
            round->failed = roots->list[i];
            unlock_roots(roots, i);
            return status;
        }
        sm_mutex_lock(&roots->list[i]->lock);
        round->has_parts = round->has_parts || sm_is_divided(roots->list[i]);
    }
    sm_share_ends(&round->ends);
    return SYNCED_MEM_OK;
}

void sm_round_end(struct sm_round *round)
{
    sm_share_no_ends();
    unlock_roots(&round->roots, round->roots.count);
}

synced_mem_status sm_round_wait(struct sm_round *round, enum sm_side side, synced_mem_status status)
{
    bool ended;
    if (status == SM_AGAIN && round->waits.count > 0) {
        round->failed = NULL; /* the work may be any object's */
        status = sm_waits_wait(&round->waits, &ended);
    } else if (status == SM_AGAIN) {
        status = sm_obtain_alone(round->alone, side, round->alone_stream);
    }
    if (round->waits.count > 0)
        sm_waits_end(&round->waits);
    return status;
}
