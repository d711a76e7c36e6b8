/*
 * Slots of a control page (docs/design/sharing.md): each has the version that one reader has consumed. A slot belongs
 * to no process. It is there from the call that takes it to the call that ends it, whoever dies in between. Any
 * participant may change any slot, by one compare-and-swap. The words in the page are not trusted.
 */
#ifndef SM_SLOTS_H
#define SM_SLOTS_H

#include "memory/shared/control_page.h"

/* A slot of a reader; one that is not taken has no version. */
struct sm_slot {
    bool taken;
    uint64_t version; /* the last one that the reader has consumed */
};

/* Reads a slot. ERR_PEER: its word is malformed. */
synced_mem_status sm_slot_read(const struct sm_control_page *page, unsigned index, struct sm_slot *slot);

/* Does the same. ERR_INVALID_STATE: the slot is not taken. */
synced_mem_status sm_slot_read_taken(const struct sm_control_page *page, unsigned index, struct sm_slot *slot);

/* Takes the wanted slot, or any that is free (wanted < 0). It begins with the version after that of the contents.
 * ERR_INVALID_STATE: the slot is taken, or all are. ERR_PEER. */
synced_mem_status sm_slot_take(struct sm_control_page *page, int wanted, unsigned *index);

/* Ends a slot, which keeps its reader's place no more. ERR_INVALID_STATE: it is not taken. */
synced_mem_status sm_slot_end(struct sm_control_page *page, unsigned index);

/* Notes that the reader has consumed a version, unless the slot has changed since it was read: another process has
 * consumed that version for the same reader, or has ended the slot. */
void sm_slot_consume(struct sm_control_page *page, unsigned index, struct sm_slot read, uint64_t version);

/* Sets *consumed: no reader with a slot has yet to consume the version. ERR_PEER. */
synced_mem_status sm_slots_have_consumed(const struct sm_control_page *page, uint64_t version, bool *consumed);

#endif
