/*
 * The pieces of a divided root, for parts of its bytes. Each has a head, and copies that are parts of the root's
 * (copy/part.h). All rules for an undivided object's record are rules for a piece's. The words:
 *
 *    divide       give a root its first piece, which has all bytes and takes over the root's head and work in flight
 *    cut          make one piece two. The record of the left one stays; both inherit what is in flight
 *    join         make two neighbours one again. The record of the left one stays
 *    hold         count on the border where a piece begins: it is not joined to the left. A view holds its borders, and
 *                 a call holds the pieces that it uses before and after a wait
 *    undivide     make a root without views whole again
 *
 * A piece that begins where a view begins is held, so it is the view's first piece as long as the view exists.
 * Neighbours that nobody holds apart are joined when a call on both of them ends, or the last view between them is
 * released, if their heads and their work in flight are alike.
 *
 * The pieces are in a list, ordered by offset. More than a few are also in a search tree (piece_tree.h). All functions
 * need the root's lock. None blocks, but for sm_drops_wait().
 */
#ifndef SM_PIECE_H
#define SM_PIECE_H

#include "object/object.h"

/* Divides an undivided root. On failure nothing has changed. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_divide(struct synced_mem *root);
/* Undivides a root that nobody holds divided, if it has one piece. */
void sm_undivide(struct synced_mem *root);

/* Makes a piece of a divided root begin at the offset. On failure nothing has changed. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_cut_at(struct synced_mem *root, size_t offset);

/* Makes a piece of a divided root begin at the offset, and holds it. Stores the piece; NULL: the root ends there. On
 * failure nothing has changed. The begin and the end of the root need no hold. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_hold_border(struct synced_mem *root, size_t offset, struct sm_piece **piece);
/* Ends a hold on the border where the piece begins, and joins it to the left if it was the last hold. NULL, and the
 * first piece: no effect. */
void sm_drop_border(struct sm_piece *piece);

/* Holds a record, and its root divided, until sm_drop_record(). It may become smaller. No effect on a record that is no
 * piece. */
void sm_hold_record(struct sm_record *record);
void sm_drop_record(struct sm_record *record);

/* Returns whether a root has views that have bytes. */
bool sm_has_views(const struct synced_mem *root);
/* Returns whether calls hold pieces of a divided root. */
bool sm_has_held_records(const struct synced_mem *root);

/* Wait until a root without held records is possible: sm_drops_begin() with the lock held, then sm_drops_wait()
 * without. The second blocks until a call has dropped the last piece that it held, of any root. The caller reads the
 * root's state again. */
unsigned sm_drops_begin(void);
void sm_drops_wait(unsigned seen);

/* Returns the piece of a divided root that has the byte at the offset. */
struct sm_piece *sm_find_piece(struct synced_mem *root, size_t offset);

/* Joins the pieces of an object that can be joined, and publishes those that it has joined. */
void sm_join_records(struct synced_mem *mem);

/* Gives a piece a copy on the side, which is a part of the root's, unless it has one. The root must have memory there.
 * ERR_OUT_OF_HOST_MEMORY: there is no memory for the struct. */
synced_mem_status sm_attach_part(struct sm_piece *piece, enum sm_side side);

/* ---- Replacing the root's memory ---- */

/* Gathers what is in flight on the parts of the root's memory, which is about to be given up (copy/part.h).
 * ERR_OUT_OF_HOST_MEMORY: some of it may be entered. */
synced_mem_status sm_gather_parts(const struct synced_mem *root, enum sm_side side);
/* Enters the root's own transfers as reads of the parts on the device, after a failure (copy/part.h). */
void sm_share_reads(const struct synced_mem *root);
/* Makes a root undivided, whose pieces have one head and nobody holds. Their work in flight is forgotten. */
void sm_drop_pieces(struct synced_mem *root);
/* Gives up the pieces' copies on the side, and on both if they are shared. */
void sm_drop_parts(const struct synced_mem *root, enum sm_side side);

/* Makes a part of new memory for each piece. *out: gets them, in the order of the pieces, and NULL behind the last; on
 * failure it is unchanged. ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_make_parts(const struct synced_mem *root, const struct sm_copy *memory, struct sm_copy ***out);
/* Puts the parts from sm_make_parts() into the pieces, which have no copies on the side. The root has not been unlocked
 * since. Frees the array. */
void sm_put_parts(const struct synced_mem *root, enum sm_side side, struct sm_copy **parts);
/* Gives up parts from sm_make_parts(), and frees the array. Ignores NULL. */
void sm_give_parts(struct sm_copy **parts);

/* Returns whether the pieces of a divided root without holders are counted right, and its tree is valid. With the lock
 * held. */
bool sm_pieces_are_valid(const struct synced_mem *root);

/* Frees the memory of unused structs, and of the trees' unused nodes. */
void sm_pieces_trim(void);

#endif
