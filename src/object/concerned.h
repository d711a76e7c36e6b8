/*
 * The pieces of a divided root that a push or pull concerns. A list for each side has those that a transfer to the side
 * concerns. So a call on a root in thousands of pieces visits only those that have changed.
 *
 * Publication enters a piece that is concerned. The listing removes the pieces that no longer are. So between calls a
 * list has all pieces that are concerned, and some that no longer are. The first piece of a root is in no list.
 *
 * A list consists of a few runs, each ordered by offset. A piece is entered behind the last run, or begins a new one.
 * The listing merges the runs. A list becomes incomplete if it needs more runs, or if one of its pieces is joined to
 * the piece before it. Nothing is entered then. The next listing makes it again, from all pieces. A list is incomplete
 * until the first listing.
 *
 * All functions need the root's lock.
 */
#ifndef SM_CONCERNED_H
#define SM_CONCERNED_H

#include "object/span.h"

/* Returns the bits of the sides whose transfers concern the piece: its contents need them, or a write of its copies was
 * open or in flight. */
static inline unsigned sm_concerned_sides(const struct sm_piece *piece)
{
    const unsigned head = sm_head(&piece->record);
    const unsigned both = sm_bit(SM_CPU) | sm_bit(SM_GPU);
    if (!piece->record.at_rest)
        return both;
    return head == sm_bit(SM_CPU) || head == sm_bit(SM_GPU) ? head ^ both : 0;
}

static inline bool sm_is_concerned(const struct sm_piece *piece, enum sm_side side)
{
    return !piece->record.at_rest || sm_is_to_be_moved(&piece->record, side);
}

/* Makes the lists of a divided root, unless it has them. Returns whether it has them: there may be too little
 * memory. */
bool sm_concerned_begin(struct synced_mem *root);
/* Frees a division's lists, if it has some. */
void sm_concerned_end(struct sm_division *division);

/* Enters a piece in the lists of these sides. For sm_concerned_enter(). */
void sm_concerned_enter_in(struct sm_piece *piece, unsigned sides);

/* Enters a piece in the lists that it belongs to. */
static inline void sm_concerned_enter(struct sm_piece *piece)
{
    const unsigned sides = sm_concerned_sides(piece) & ~(unsigned)piece->record.entered;
    if (sides)
        sm_concerned_enter_in(piece, sides);
}

/* Makes the lists incomplete that have the piece, whose record is given up. */
void sm_concerned_forget(const struct sm_piece *piece);

/* Returns the pieces that a transfer to the side concerns, without the first one. They are ordered by offset, and
 * linked by next_entered[side]. The root has lists. */
struct sm_piece *sm_concerned_list(struct synced_mem *root, enum sm_side side);

/* Returns whether the complete lists of a divided root have all pieces that are concerned. */
bool sm_concerned_is_valid(const struct synced_mem *root);

#endif
