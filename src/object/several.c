/* Calls on several objects. */
#include "object/several.h"

#include "base/process.h"
#include "base/status.h"
#include "object/renew.h"

#include <stdint.h>

static int compare_owners(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t) * (struct synced_mem *const *)a;
    const uintptr_t second = (uintptr_t) * (struct synced_mem *const *)b;
    return (first > second) - (first < second);
}

static size_t count_ascending(const struct sm_owners *owners, size_t listed)
{
    size_t count = 1;
    while (count < listed && (uintptr_t)owners->list[count - 1] < (uintptr_t)owners->list[count])
        count++;
    return count;
}

void sm_owners_sort(struct sm_owners *owners, size_t listed)
{
    owners->count = count_ascending(owners, listed);
    if (owners->count >= listed)
        return;
    qsort(owners->list, listed, sizeof(struct synced_mem *), compare_owners);
    owners->count = 0;
    for (size_t i = 0; i < listed; i++)
        if (i == 0 || owners->list[i] != owners->list[owners->count - 1])
            owners->list[owners->count++] = owners->list[i];
}

bool sm_owners_have_parts(const struct sm_owners *owners)
{
    size_t i = 0;
    while (i < owners->count && !sm_is_divided(owners->list[i]))
        i++;
    return i < owners->count;
}

static void unlock_owners(const struct sm_owners *owners, size_t locked)
{
    for (size_t i = 0; i < locked; i++)
        sm_mutex_unlock(&owners->list[i]->lock);
    sm_process_leave();
}

synced_mem_status sm_round_begin(struct sm_round *round)
{
    const struct sm_owners *const owners = &round->owners;
    const unsigned generation = sm_process_generation();
    round->failed = NULL;
    round->without = NULL;
    sm_process_enter();
    for (size_t i = 0; i < owners->count; i++) {
        const bool passes = owners->list[i]->generation == generation && !sm_caller_is_wanted();
        const synced_mem_status status = passes ? SYNCED_MEM_OK : sm_check_first(owners->list[i]);
        if (status != SYNCED_MEM_OK) {
            round->failed = owners->list[i];
            unlock_owners(owners, i);
            return status;
        }
        sm_mutex_lock(&owners->list[i]->lock);
    }
    sm_share_ends(&round->ends);
    return SYNCED_MEM_OK;
}

void sm_round_end(struct sm_round *round)
{
    sm_share_no_ends();
    unlock_owners(&round->owners, round->owners.count);
}

synced_mem_status sm_round_wait(struct sm_round *round, enum sm_side side, synced_mem_status status)
{
    bool over;
    if (status == SM_AGAIN && round->waits.count > 0) {
        round->failed = NULL; /* the work may be any object's */
        status = sm_waits_wait(&round->waits, &over);
    } else if (status == SM_AGAIN) {
        status = sm_obtain_alone(round->without, side, round->allocates);
    }
    if (round->waits.count > 0)
        sm_waits_end(&round->waits);
    return status;
}
