/*
 * Handles: slots of address space that is never given back. A dead handle can be told from a live one. The next object
 * gets a freed handle at once, as on the real runtime.
 */
#include "emu.h"

#include <string.h>
#include <sys/mman.h>

void emu_slots_reset(struct emu_slots *slots, size_t slot_size, size_t room)
{
    if (slots->base == NULL) {
        void *base =
            mmap(NULL, slot_size * room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        slots->base = base == MAP_FAILED ? NULL : base;
        slots->room = base == MAP_FAILED ? 0 : room;
        slots->slot_size = slot_size;
    } else {
        memset(slots->base, 0, slots->used * slots->slot_size);
    }
    slots->used = 0;
    slots->free = NULL;
}

void *emu_slot_take(struct emu_slots *slots)
{
    struct emu_slot *slot = slots->free;
    if (slot != NULL) {
        slots->free = slot->next_free;
    } else {
        if (slots->used == slots->room)
            return NULL;
        slot = (struct emu_slot *)(void *)(slots->base + slots->used++ * slots->slot_size);
    }
    memset(slot, 0, slots->slot_size);
    slot->live = true;
    return slot;
}

void emu_slot_give(struct emu_slots *slots, void *slot)
{
    struct emu_slot *dead = slot;
    dead->live = false;
    dead->next_free = slots->free;
    slots->free = dead;
}

bool emu_slot_is_live(const struct emu_slots *slots, const void *slot)
{
    const uintptr_t at = (uintptr_t)slot - (uintptr_t)slots->base;
    return at < slots->used * slots->slot_size && at % slots->slot_size == 0 && ((const struct emu_slot *)slot)->live;
}
