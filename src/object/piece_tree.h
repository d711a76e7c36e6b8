/*
 * The index of a divided root's pieces, a B+ tree: the search by offset, and the marks of the pieces that a push, a
 * pull or an access concerns. The words:
 *
 *    node     an array of entries, ordered by offset; each leads to what begins at its offset
 *    leaf     a node whose entries lead to pieces; those of other nodes lead to nodes
 *    few      so many pieces that the search walks the list of pieces; the root has no tree then
 *    mark     a bit of an entry, of several kinds. In a leaf: the piece is marked. In another node: a piece below may
 *             be
 *    user     the stream that was given the pointers to the whole root's device copy last, to read or to write
 *
 * A piece that a transfer to a side concerns is marked for the side between calls. Publication marks it when it becomes
 * concerned. Only the next push or pull to the side, which visits the marked pieces, removes the marks of those that no
 * longer are, because it is in their leaf anyway. So a clean piece may be marked too.
 *
 * Two more kinds are for accesses to the device copy, to read and to write. A piece that its user does not have in this
 * mode is marked between calls. So an access by the user passes by all other pieces, however many there are. It takes
 * the marks of the pieces that it lists, and publication marks those again that the user does not have then.
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

/* The kinds of marks, which are bits of sm_record.marks: 1 << side, for transfers to the side, and these. */
enum { SM_MARK_TO_READ = SM_SIDES, SM_MARK_TO_WRITE, SM_MARKS };

/* Returns the marks that a piece needs, as bits. */
static inline unsigned sm_needed_marks(const struct sm_piece *piece)
{
    const struct sm_division *const division = sm_division_of(piece->root);
    unsigned needed = sm_concerned_sides(piece);
    for (int writing = 0; writing < 2; writing++)
        if (division->user[writing] && !sm_is_published_to(&piece->record, division->user[writing], writing))
            needed |= 1U << (SM_MARK_TO_READ + writing);
    return needed;
}

/* Adds marks that a piece does not have. For publication. */
void sm_piece_tree_add_marks(struct sm_piece *piece, unsigned marks);

/* Gives a piece the marks that it needs. */
static inline void sm_piece_tree_mark(struct sm_piece *piece)
{
    const unsigned marks = sm_needed_marks(piece) & ~(unsigned)piece->record.marks;
    if (marks)
        sm_piece_tree_add_marks(piece, marks);
}

/* The pieces that begin from one offset, where a piece begins, to before another. */
struct sm_piece_range {
    size_t begin, end;
    unsigned mark; /* the kind of mark that is taken; SM_MARKS: none */
    bool all;      /* pieces without the mark are in the range too */
};

/* Returns the number of the range's pieces. Reads no piece, unless there are few. */
size_t sm_piece_tree_count(const struct sm_division *division, const struct sm_piece_range *range);
/* Stores the records of the range's pieces, in the order of their offsets, and takes their mark from the nodes. Reads
 * no piece, unless there are few: a walk over the list waits for each piece before it knows the next. The caller takes
 * the mark from the records too, and publishes them before it releases the lock. */
void sm_piece_tree_take(struct sm_division *division, const struct sm_piece_range *range, struct sm_record **list);

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
