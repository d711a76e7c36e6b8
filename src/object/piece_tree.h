/*
 * The index of a divided root's pieces, a B+ tree: the search by offset, and the marks of the pieces that a push or
 * pull concerns. The words:
 *
 *    node     an array of entries, ordered by offset; each leads to what begins at its offset
 *    leaf     a node whose entries lead to pieces; those of other nodes lead to nodes
 *    few      so many pieces that the search walks the list of pieces; the root has no tree then
 *    mark     a bit of an entry for each side. In a leaf: the piece is marked. In another node: a piece below may be
 *
 * A piece that a transfer to a side concerns is marked for the side between calls. Publication marks it when it becomes
 * concerned. Only the next push or pull to the side, which visits the marked pieces, removes the marks of those that no
 * longer are, because it is in their leaf anyway. So a clean piece may be marked too.
 *
 * A division has the tree. The first piece is in it as long as there is one. Each piece has a pointer to its leaf, so
 * that a mark needs no search from the top. All functions need the root's lock. None blocks.
 */
#ifndef SM_PIECE_TREE_H
#define SM_PIECE_TREE_H

#include "object/span.h"

/* Returns the last piece that begins at the offset or before it. */
struct sm_piece *sm_piece_tree_find(struct sm_division *division, size_t offset);

/* Adds a piece that is not in the list yet, behind the piece before it, with the marks that its record has. Returns
 * false if the system has no memory. The tree then has the same pieces as before. Nothing else needs memory. */
bool sm_piece_tree_add(struct sm_division *division, const struct sm_piece *before, struct sm_piece *piece);
/* Removes a piece other than the first. */
void sm_piece_tree_remove(struct sm_division *division, const struct sm_piece *piece);
/* Removes all pieces. */
void sm_piece_tree_end(struct sm_division *division);

/* Marks a piece for these sides, for which it has no mark. For sm_piece_tree_mark(). */
void sm_piece_tree_mark_for(struct sm_piece *piece, unsigned sides);

/* Marks a piece for the sides whose transfers concern it. */
static inline void sm_piece_tree_mark(struct sm_piece *piece)
{
    const unsigned sides = sm_concerned_sides(piece) & ~(unsigned)piece->record.marks;
    if (sides)
        sm_piece_tree_mark_for(piece, sides);
}

typedef synced_mem_status sm_piece_visitor(struct sm_piece *piece, void *context);

/* Calls visit() for each piece that a transfer to the side concerns, in the order of their offsets, until it fails.
 * Returns the last status. visit() adds and removes no piece. */
synced_mem_status sm_piece_tree_visit(struct sm_division *division, enum sm_side side, sm_piece_visitor *visit,
                                      void *context);

/* Returns whether the tree has the pieces of the list in their order, or there are few and no tree, and all pieces that
 * are concerned are marked. */
bool sm_piece_tree_is_valid(const struct sm_division *division);

/* Frees the memory of unused nodes. */
void sm_piece_tree_trim(void);

#endif
