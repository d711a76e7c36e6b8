/*
 * The search for pieces of a divided root by offset, in a B+ tree. The words:
 *
 *    node     an array of entries, ordered by offset; each leads to what begins at its offset
 *    leaf     a node whose entries lead to pieces; those of other nodes lead to nodes
 *    few      so many pieces that the search walks the list of pieces; the root has no tree then
 *
 * A division has the tree. The first piece is in it as long as there is one. All functions need the root's lock. None
 * blocks.
 */
#ifndef SM_PIECE_TREE_H
#define SM_PIECE_TREE_H

#include "object/object.h"

/* Returns the last piece that begins at the offset or before it. */
struct sm_piece *sm_piece_tree_find(struct sm_division *division, size_t offset);

/* Adds a piece that is not in the list yet, behind the piece before it. Returns false if the system has no memory. The
 * tree then has the same pieces as before. */
bool sm_piece_tree_add(struct sm_division *division, const struct sm_piece *before, struct sm_piece *piece);
/* Removes a piece other than the first. Needs no memory. */
void sm_piece_tree_remove(struct sm_division *division, const struct sm_piece *piece);
/* Removes all pieces. */
void sm_piece_tree_end(struct sm_division *division);

/* Returns whether the tree has the pieces of the list in their order, or there are few and no tree. */
bool sm_piece_tree_is_valid(const struct sm_division *division);

/* Frees the memory of unused nodes. */
void sm_piece_tree_trim(void);

#endif
