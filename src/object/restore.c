/* The states of records before a call, and how they are restored. */
#include "object/restore.h"

#include "copy/staged.h"
#include "object/head.h"
#include "object/span.h"

/* Returns whether no other call has counted on a copy. On new memory none has. */
static bool is_uncounted(unsigned before, unsigned now)
{
    return now == before || sm_copy_is_first_given(now);
}

/* Restores the head after a failed call. The call may have made another side valid, but a side that had the contents
 * before still has them. A side stays valid if another thread's call has given out its pointer or brought its contents
 * meanwhile. Without copy threads nobody would work on a transfer that no head counts on, so it is cancelled. */
static void restore_head(struct sm_record *record, const struct sm_state *before)
{
    unsigned head = sm_head(record);
    const bool still = (head & before->head) == before->head;
    for (enum sm_side side = SM_CPU; still && side < SM_SIDES; side++)
        if (!(before->head & sm_bit(side)) && is_uncounted(before->given[side], sm_given_of(record, side)))
            head &= ~sm_bit(side);
    const unsigned taken_back = sm_head(record) & ~head;
    sm_set_head(record, head);
    for (enum sm_side side = SM_CPU; taken_back && side < SM_SIDES; side++)
        if (taken_back & sm_bit(side))
            sm_staged_cancel(sm_copy_of(record, side)->write);
}

/* Stores the state that the record had. Another call may have joined it from several. Returns false if these had
 * different heads, or the call did not work on all: the head no longer separates bytes that were valid before, so what
 * is valid stays valid. */
static bool find_before(const struct sm_record *record, const struct sm_state *before, const struct sm_state *last,
                        struct sm_state *out)
{
    const size_t end = sm_begin_of(record) + sm_size_of(record);
    bool alike = before->offset <= sm_begin_of(record);
    *out = *before;
    for (; before < last && before->end < end && alike; before++) {
        alike = before[1].head == out->head && before[1].offset == before->end;
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            out->given[side] = before[1].given[side] > out->given[side] ? before[1].given[side] : out->given[side];
    }
    return alike && before->end >= end;
}

void sm_restore_heads(struct sm_record *first, size_t end, const struct sm_state *before, const struct sm_state *last)
{
    for (struct sm_record *each = first; each; each = sm_next_before(each, end)) {
        while (before < last && before[1].offset <= sm_begin_of(each))
            before++;
        struct sm_state whole;
        if (find_before(each, before, last, &whole))
            restore_head(each, &whole);
    }
}

/* The record of an object that was divided meanwhile stands for all pieces. */
void sm_restore_record(struct sm_record *record, const struct sm_state *before)
{
    const struct sm_detail first = sm_detail_get();
    const size_t end = record->kind == SM_PIECE ? sm_begin_of(record) + 1 : SIZE_MAX;
    for (struct sm_record *each = sm_first_of(record); each; each = sm_next_before(each, end)) {
        sm_drop_lost(each);
        sm_reopen_uses_of(each);
    }
    sm_restore_heads(sm_first_of(record), end, before, before);
    sm_detail_set(&first);
}
