/* Slots. */
#include "memory/shared/slots.h"

#include "base/status.h"

/* The word of a slot that is taken: this bit, and the version. That of one that is free is 0. */
static const uint64_t TAKEN = (uint64_t)1 << 63;

static uint64_t make_word(struct sm_slot slot)
{
    return slot.taken ? TAKEN | slot.version : 0;
}

synced_mem_status sm_slot_read(const struct sm_control_page *page, unsigned index, struct sm_slot *slot)
{
    const uint64_t word = atomic_load(&page->slots[index]);
    *slot = (struct sm_slot){.taken = word >= TAKEN, .version = word & SM_MOST_VERSION};
    if (make_word(*slot) == word)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "another process has written an impossible slot, %#llx",
                   (unsigned long long)word);
}

static synced_mem_status fail_untaken(unsigned index)
{
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "slot %u is not taken", index);
}

synced_mem_status sm_slot_read_taken(const struct sm_control_page *page, unsigned index, struct sm_slot *slot)
{
    SM_TRY(sm_slot_read(page, index, slot));
    return slot->taken ? SYNCED_MEM_OK : fail_untaken(index);
}

static bool replace_slot(struct sm_control_page *page, unsigned index, struct sm_slot from, struct sm_slot to)
{
    unsigned long long seen = make_word(from);
    return atomic_compare_exchange_strong(&page->slots[index], &seen, make_word(to));
}

/* Turns to write may have ended since the version of a slot was read, before the slot was there. Their contents are not
 * its reader's. A writer that has found the slot in its way meanwhile is told. */
static void move_up(struct sm_control_page *page, unsigned index, struct sm_slot slot)
{
    struct sm_contents now;
    if (sm_contents_read(page, &now) == SYNCED_MEM_OK && now.version > slot.version &&
        replace_slot(page, index, slot, (struct sm_slot){.taken = true, .version = now.version}))
        sm_bell_ring(page);
}

/* The version is read first, so that no writer overwrites what the slot has not consumed. */
synced_mem_status sm_slot_take(struct sm_control_page *page, int wanted, unsigned *index)
{
    const unsigned first = wanted < 0 ? 0 : (unsigned)wanted;
    const unsigned end = wanted < 0 ? SM_SLOTS : first + 1;
    struct sm_contents contents;
    SM_TRY(sm_contents_read(page, &contents));
    const struct sm_slot mine = {.taken = true, .version = contents.version};
    for (unsigned i = first; i < end; i++) {
        if (replace_slot(page, i, (struct sm_slot){.taken = false}, mine)) {
            move_up(page, i, mine);
            *index = i;
            return SYNCED_MEM_OK;
        }
    }
    if (wanted < 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "all %d slots are taken", SM_SLOTS);
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "slot %d is taken: its reader goes on with it, or ends it", wanted);
}

/* A word that is malformed ends too. */
synced_mem_status sm_slot_end(struct sm_control_page *page, unsigned index)
{
    if (atomic_exchange(&page->slots[index], 0) != 0)
        return SYNCED_MEM_OK;
    return fail_untaken(index);
}

void sm_slot_consume(struct sm_control_page *page, unsigned index, struct sm_slot read, uint64_t version)
{
    (void)replace_slot(page, index, read, (struct sm_slot){.taken = true, .version = version});
}

synced_mem_status sm_slots_have_consumed(const struct sm_control_page *page, uint64_t version, bool *consumed)
{
    *consumed = true;
    for (unsigned i = 0; i < SM_SLOTS; i++) {
        struct sm_slot slot;
        SM_TRY(sm_slot_read(page, i, &slot));
        *consumed = *consumed && (!slot.taken || slot.version >= version);
    }
    return SYNCED_MEM_OK;
}
