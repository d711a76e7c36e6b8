/*
 * The search for pieces of a divided root by offset, in a B+ tree. The words:
 *
 *    node     an array of entries, ordered by offset; each leads to what begins at its offset
 *    leaf     a node whose entries lead to pieces; those of other nodes lead to nodes
 *    few      so many pieces that the search walks the list of pieces; the root has no tree then
 *
 * The first piece has the tree. It is in the tree as long as there is one. All functions need the root's lock. None
 * blocks.
 */
#ifndef SM_PIECE_TREE_H
#define SM_PIECE_TREE_H

#include "object/object.h"

/* Returns the last piece that begins at the offset or before it. */
struct synced_mem *sm_piece_tree_find(struct synced_mem *first, size_t offset);

/* Adds a piece that is not in the list yet, behind the piece before it. Returns false if the system has no memory. The
 * tree then has the same pieces as before. */
bool sm_piece_tree_add(struct synced_mem *first, const struct synced_mem *before, struct synced_mem *piece);
/* Removes a piece other than the first. Needs no memory. */
void sm_piece_tree_remove(struct synced_mem *first, const struct synced_mem *piece);
/* Removes all pieces. */
void sm_piece_tree_end(struct synced_mem *first);

/* Returns whether the tree has the pieces of the list in their order, or there are few and no tree. */
bool sm_piece_tree_is_valid(const struct synced_mem *first);

/* Frees the memory of unused nodes. */
void sm_piece_tree_trim(void);

#endif
