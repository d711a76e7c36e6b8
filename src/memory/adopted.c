/* The set of adopted pointers: open addressing, at most half full. */
#include "memory/adopted.h"

#include "base/process.h"
#include "base/status.h"

#include <stdlib.h>

enum { SMALLEST = 64 };

static struct {
    struct sm_lock lock;
    const void **slots; /* NULL: free */
    size_t room;        /* a power of two, or 0 */
    size_t used;
} adopted = {.lock = SM_LOCK_INITIALIZER};

/* Pointers that are alike in their lower bits are spread by the upper half of the product. */
static size_t home_of(const void *data)
{
    return (size_t)(((uint64_t)(uintptr_t)data * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (adopted.room - 1);
}

static size_t next_slot(size_t slot)
{
    return (slot + 1) & (adopted.room - 1);
}

/* Where it is, or would be put. */
static size_t find(const void *data)
{
    size_t slot = home_of(data);
    while (adopted.slots[slot] && adopted.slots[slot] != data)
        slot = next_slot(slot);
    return slot;
}

static synced_mem_status make_room(void)
{
    const size_t before = adopted.room;
    const void **const old = adopted.slots;
    if (2 * (adopted.used + 1) <= before)
        return SYNCED_MEM_OK;
    const size_t room = before > 0 ? 2 * before : SMALLEST;
    const void **const slots = calloc(room, sizeof *slots);
    if (!slots)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no memory for a note of %zu adopted pointers",
                       adopted.used + 1);
    adopted.slots = slots;
    adopted.room = room;
    for (size_t i = 0; i < before; i++)
        if (old[i])
            slots[find(old[i])] = old[i];
    free(old);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_adopted_add(const void *data)
{
    sm_lock(&adopted.lock);
    synced_mem_status status = make_room();
    const size_t slot = status == SYNCED_MEM_OK ? find(data) : 0;
    if (status == SYNCED_MEM_OK && adopted.slots[slot]) {
        status = sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "%p was adopted before, and not handed back yet", data);
    } else if (status == SYNCED_MEM_OK) {
        adopted.slots[slot] = data;
        adopted.used++;
    }
    sm_unlock(&adopted.lock);
    return status;
}

/* Those behind the gap that would not be found any more move into it. */
static void close_gap(size_t gap)
{
    for (size_t slot = next_slot(gap); adopted.slots[slot]; slot = next_slot(slot)) {
        const size_t from_home = (slot - home_of(adopted.slots[slot])) & (adopted.room - 1);
        const size_t from_gap = (slot - gap) & (adopted.room - 1);
        if (from_home < from_gap)
            continue;
        adopted.slots[gap] = adopted.slots[slot];
        adopted.slots[slot] = NULL;
        gap = slot;
    }
}

void sm_adopted_remove(const void *data)
{
    sm_lock(&adopted.lock);
    const size_t slot = find(data);
    adopted.slots[slot] = NULL;
    adopted.used--;
    close_gap(slot);
    sm_unlock(&adopted.lock);
}

void sm_adopted_trim(void)
{
    sm_lock(&adopted.lock);
    if (adopted.used == 0) {
        free(adopted.slots);
        adopted.slots = NULL;
        adopted.room = 0;
    }
    sm_unlock(&adopted.lock);
}
