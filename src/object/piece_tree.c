/* The index of a root's pieces. */
#include "object/piece_tree.h"

#include "base/slab.h"
#include "base/status.h"

#include <assert.h>
#include <string.h>

enum {
    MOST = 29,  /* entries of a node */
    SPARSE = 8, /* a node with fewer entries is joined to a neighbour if the two fit in one */
    FEW = 8,    /* a root with more pieces gets a tree; it keeps the tree until it has half as many */
    STRIDE = 8, /* of a search in a node */
    ROOM = (MOST + STRIDE - 1) / STRIDE * STRIDE /* offsets that a search may read */
};
#define NO_OFFSET SIZE_MAX

/* The offsets are contiguous, so that a search reads few cache lines. */
struct sm_piece_node {
    unsigned short count;
    unsigned short level;     /* 0: a leaf */
    unsigned marks[SM_MARKS]; /* bit i is set: the piece i is marked, or one below the node i may be */
    size_t offsets[ROOM];     /* those from count on are NO_OFFSET */
    void *below[MOST];        /* the pieces or nodes that begin there */
};

static_assert(sizeof(struct sm_piece_node) == 512 || sizeof(void *) < 8, "a node fills eight cache lines");

static struct sm_slab nodes = SM_SLAB_INITIALIZER(struct sm_piece_node);

void sm_piece_tree_trim(void)
{
    sm_slab_trim(&nodes);
}

/* ---- Nodes ---- */

static void clear_offsets(struct sm_piece_node *node)
{
    for (unsigned i = node->count; i < ROOM; i++)
        node->offsets[i] = NO_OFFSET;
}

static struct sm_piece_node *make_node(unsigned level)
{
    struct sm_piece_node *const node = sm_slab_take(&nodes);
    if (!node)
        return NULL;
    node->count = 0;
    node->level = (unsigned short)level;
    for (unsigned i = 0; i < SM_MARKS; i++)
        node->marks[i] = 0;
    clear_offsets(node);
    return node;
}

/* Returns the index of the last entry that begins at the offset or before it. Two short loops compare every eighth
 * offset, then those between two of them. No branch depends on the offset. */
static unsigned find_entry(const struct sm_piece_node *node, size_t offset)
{
    unsigned last = 0;
    for (unsigned i = STRIDE; i < MOST; i += STRIDE)
        last += node->offsets[i] <= offset ? STRIDE : 0;
    const size_t *const near = &node->offsets[last];
    for (unsigned i = 1; i < STRIDE; i++)
        last += near[i] <= offset;
    return last;
}

/* Returns the kinds of marks that entries of the node have, as bits. */
static unsigned get_marks_in(const struct sm_piece_node *node)
{
    unsigned marks = 0;
    for (unsigned i = 0; i < SM_MARKS; i++)
        marks |= (unsigned)(node->marks[i] != 0) << i;
    return marks;
}

/* Returns the marks of what the entry leads to, as bits. */
static unsigned get_marks_below(const struct sm_piece_node *node, unsigned index)
{
    return node->level > 0 ? get_marks_in(node->below[index])
                           : ((const struct sm_piece *)node->below[index])->record.marks;
}

static void mark_entry(struct sm_piece_node *node, unsigned index, unsigned marks)
{
    for (unsigned i = 0; i < SM_MARKS; i++)
        node->marks[i] |= (marks >> i & 1) << index;
}

/* Tells the pieces of a leaf's entries, from an index on, that the leaf has them. */
static void tell_pieces(struct sm_piece_node *leaf, unsigned from)
{
    for (unsigned i = from; i < leaf->count; i++)
        ((struct sm_piece *)leaf->below[i])->leaf = leaf;
}

/* Moves the entries from one index on to another. */
static void shift_entries(struct sm_piece_node *node, unsigned from, unsigned to)
{
    const unsigned count = node->count - from;
    if (count > 0) { /* pieces are often added in order */
        memmove(&node->offsets[to], &node->offsets[from], count * sizeof *node->offsets);
        memmove(&node->below[to], &node->below[from], count * sizeof *node->below);
    }
    const unsigned stay = (1U << (from < to ? from : to)) - 1;
    for (unsigned i = 0; i < SM_MARKS; i++)
        node->marks[i] = (node->marks[i] & stay) | node->marks[i] >> from << to;
    node->count = (unsigned short)(to + count);
}

static void insert_entry(struct sm_piece_node *node, unsigned index, size_t offset, void *below)
{
    shift_entries(node, index, index + 1);
    node->offsets[index] = offset;
    node->below[index] = below;
    mark_entry(node, index, get_marks_below(node, index));
    if (node->level == 0)
        ((struct sm_piece *)below)->leaf = node;
}

static void remove_entry(struct sm_piece_node *node, unsigned index)
{
    shift_entries(node, index + 1, index);
    node->offsets[node->count] = NO_OFFSET;
}

/* Moves the entries of a node from an index on to the end of another node. */
static void move_entries(struct sm_piece_node *to, struct sm_piece_node *node, unsigned from)
{
    const unsigned count = node->count - from;
    const unsigned end = to->count;
    memcpy(&to->offsets[end], &node->offsets[from], count * sizeof *to->offsets);
    memcpy(&to->below[end], &node->below[from], count * sizeof *to->below);
    for (unsigned i = 0; i < SM_MARKS; i++) {
        to->marks[i] |= node->marks[i] >> from << end;
        node->marks[i] &= (1U << from) - 1;
    }
    to->count = (unsigned short)(end + count);
    node->count = (unsigned short)from;
    clear_offsets(node);
    if (to->level == 0)
        tell_pieces(to, end);
}

/* ---- Finding ---- */

/* The leaf that was found last serves again if the offset is between its entries. */
static struct sm_piece_node *find_leaf(struct sm_division *division, size_t offset)
{
    struct sm_piece_node *node = division->leaf;
    if (node && node->offsets[0] <= offset && offset <= node->offsets[node->count - 1])
        return node;
    node = division->tree;
    while (node->level > 0)
        node = node->below[find_entry(node, offset)];
    division->leaf = node;
    return node;
}

struct sm_piece *sm_piece_tree_find(struct sm_division *division, size_t offset)
{
    if (division->tree) {
        const struct sm_piece_node *const leaf = find_leaf(division, offset);
        return leaf->below[find_entry(leaf, offset)];
    }
    struct sm_piece *each = &division->first;
    while (each->after && each->after->offset <= offset)
        each = each->after;
    return each;
}

/* ---- Marks ---- */

/* Marks the way from the top to the leaf that has the offset. */
static void mark_above(struct sm_division *division, size_t offset, unsigned marks)
{
    for (struct sm_piece_node *node = division->tree; marks && node->level > 0;) {
        const unsigned index = find_entry(node, offset);
        mark_entry(node, index, marks);
        node = node->below[index];
    }
}

/* The nodes above know of a leaf in which something is marked. So most marks concern the leaf alone. */
void sm_piece_tree_add_marks(struct sm_piece *piece, unsigned marks)
{
    struct sm_piece_node *const leaf = piece->leaf;
    piece->record.marks |= (unsigned char)marks;
    if (!leaf)
        return;
    mark_above(sm_division_of(piece->root), piece->offset, marks & ~get_marks_in(leaf));
    mark_entry(leaf, find_entry(leaf, piece->offset), marks);
}

static synced_mem_status visit_if_concerned(struct sm_piece *piece, enum sm_side side, sm_piece_visitor *visit,
                                            void *context)
{
    if (sm_is_concerned(piece, side))
        return visit(piece, context);
    piece->record.marks &= (unsigned char)~sm_bit(side);
    return SYNCED_MEM_OK;
}

/* Removes the marks that nothing below needs. */
static synced_mem_status visit_node(struct sm_piece_node *node, enum sm_side side, sm_piece_visitor *visit,
                                    void *context)
{
    for (unsigned left = node->marks[side]; left; left &= left - 1) {
        const unsigned index = (unsigned)__builtin_ctz(left);
        SM_TRY(node->level > 0 ? visit_node(node->below[index], side, visit, context)
                               : visit_if_concerned(node->below[index], side, visit, context));
        if (!(get_marks_below(node, index) & sm_bit(side)))
            node->marks[side] &= ~(1U << index);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_piece_tree_visit(struct sm_division *division, enum sm_side side, sm_piece_visitor *visit,
                                      void *context)
{
    assert(sm_piece_tree_is_valid(division));
    if (division->tree)
        return visit_node(division->tree, side, visit, context);
    for (struct sm_piece *each = &division->first; each; each = each->after)
        SM_TRY(visit_if_concerned(each, side, visit, context));
    return SYNCED_MEM_OK;
}

/* ---- Ranges ---- */

/* Returns how many entries of the node begin before the offset. The first one does. */
static unsigned count_before(const struct sm_piece_node *node, size_t offset)
{
    return node->offsets[node->count - 1] < offset ? node->count : find_entry(node, offset - 1) + 1;
}

/* Returns the entries of the node that are in the range, or lead to pieces that may be, as bits. */
static unsigned get_entries(const struct sm_piece_node *node, const struct sm_piece_range *range)
{
    const unsigned first = node->offsets[0] < range->begin ? find_entry(node, range->begin) : 0;
    const unsigned entries = ((1U << count_before(node, range->end)) - 1) & ~((1U << first) - 1);
    return range->all ? entries : entries & node->marks[range->mark];
}

/* Begins to load a node, whose begin and entries the walks read. */
static void prefetch_node(const struct sm_piece_node *node)
{
    enum { LINE = 64 };
    for (size_t i = 0; i < sizeof *node; i += LINE)
        __builtin_prefetch((const char *)node + i);
}

static bool is_in_range(const struct sm_piece *piece, const struct sm_piece_range *range)
{
    return piece->offset >= range->begin && piece->offset < range->end &&
           (range->all || piece->record.marks >> range->mark & 1);
}

static size_t count_below(const struct sm_piece_node *node, const struct sm_piece_range *range)
{
    unsigned left = get_entries(node, range);
    size_t count = 0;
    if (node->level == 0)
        return (size_t)__builtin_popcount(left);
    for (; left; left &= left - 1)
        count += count_below(node->below[__builtin_ctz(left)], range);
    return count;
}

size_t sm_piece_tree_count(const struct sm_division *division, const struct sm_piece_range *range)
{
    size_t count = 0;
    if (division->tree)
        return count_below(division->tree, range);
    for (const struct sm_piece *each = &division->first; each; each = each->after)
        count += is_in_range(each, range);
    return count;
}

/* Takes the pieces of a node, and returns the end of the list. An entry of a node that is no leaf stays marked if
 * pieces below are, as they are not in the range. */
static struct sm_record **take_below(struct sm_piece_node *node, const struct sm_piece_range *range,
                                     struct sm_record **list)
{
    const unsigned entries = get_entries(node, range);
    unsigned taken = entries;
    for (unsigned left = entries; left;) {
        const unsigned index = (unsigned)__builtin_ctz(left);
        struct sm_piece_node *const below = node->below[index];
        left &= left - 1;
        if (node->level == 0) {
            *list++ = &((struct sm_piece *)node->below[index])->record;
            continue;
        }
        if (left)
            prefetch_node(node->below[__builtin_ctz(left)]);
        list = take_below(below, range, list);
        if (range->mark < SM_MARKS && below->marks[range->mark])
            taken &= ~(1U << index);
    }
    if (range->mark < SM_MARKS)
        node->marks[range->mark] &= ~taken;
    return list;
}

void sm_piece_tree_take(struct sm_division *division, const struct sm_piece_range *range, struct sm_record **list)
{
    if (division->tree) {
        (void)take_below(division->tree, range, list);
        return;
    }
    for (struct sm_piece *each = &division->first; each; each = each->after)
        if (is_in_range(each, range))
            *list++ = &each->record;
}

/* ---- Adding ---- */

static bool are_fewer(const struct sm_division *division, unsigned than)
{
    unsigned count = 0;
    for (const struct sm_piece *each = &division->first; each && count < than; each = each->after)
        count++;
    return count < than;
}

/* Makes a leaf of the pieces in the list. */
static bool begin_tree(struct sm_division *division)
{
    struct sm_piece_node *const leaf = make_node(0);
    if (!leaf)
        return false;
    for (struct sm_piece *each = &division->first; each; each = each->after)
        insert_entry(leaf, leaf->count, each->offset, each);
    division->tree = leaf;
    return true;
}

static bool add_level(struct sm_division *division)
{
    struct sm_piece_node *const top = make_node(division->tree->level + 1);
    if (!top)
        return false;
    insert_entry(top, 0, division->tree->offsets[0], division->tree);
    division->tree = top;
    return true;
}

/* Returns the node below that gets the offset, and splits it if it is full. NULL: the system has no memory. If the
 * offset follows all others, the left half keeps all but one. So pieces that are added in order leave full nodes
 * behind. */
static struct sm_piece_node *step_down(struct sm_piece_node *node, size_t offset)
{
    const unsigned index = find_entry(node, offset);
    struct sm_piece_node *const left = node->below[index];
    if (left->count < MOST)
        return left;
    struct sm_piece_node *const right = make_node(left->level);
    if (!right)
        return NULL;
    move_entries(right, left, offset > left->offsets[MOST - 1] ? MOST - 1 : MOST / 2);
    insert_entry(node, index + 1, right->offsets[0], right);
    return offset < right->offsets[0] ? left : right;
}

/* Returns a leaf that gets the offset and is not full. Each full node on the way down is split. So the node above has
 * room. NULL: the system has no memory. */
static struct sm_piece_node *make_room(struct sm_division *division, size_t offset)
{
    if (division->tree->count == MOST && !add_level(division))
        return NULL;
    struct sm_piece_node *node = division->tree;
    while (node && node->level > 0)
        node = step_down(node, offset);
    return node;
}

bool sm_piece_tree_add(struct sm_division *division, const struct sm_piece *before, struct sm_piece *piece)
{
    if (!division->tree && are_fewer(division, FEW))
        return true;
    if (!division->tree && !begin_tree(division))
        return false;
    struct sm_piece_node *const leaf = before->leaf->count < MOST ? before->leaf : make_room(division, piece->offset);
    if (!leaf)
        return false;
    const unsigned marked = get_marks_in(leaf);
    insert_entry(leaf, find_entry(leaf, piece->offset) + 1, piece->offset, piece);
    mark_above(division, piece->offset, piece->record.marks & ~marked);
    return true;
}

/* ---- Removing ---- */

/* Joins a node to the next one, if there is one and the two fit in one. */
static bool join_to_next(struct sm_piece_node *above, unsigned index)
{
    struct sm_piece_node *const node = above->below[index];
    struct sm_piece_node *const next = index + 1 < above->count ? above->below[index + 1] : NULL;
    if (!next || node->count + next->count > MOST)
        return false;
    move_entries(node, next, 0);
    above->offsets[index] = node->offsets[0];
    mark_entry(above, index, get_marks_below(above, index));
    sm_slab_give(&nodes, next);
    remove_entry(above, index + 1);
    return true;
}

/* An empty node fits in one with any. If it has no neighbour, the node above becomes empty too. */
static void thin_out(struct sm_piece_node *above, unsigned index)
{
    struct sm_piece_node *const node = above->below[index];
    if (node->count >= SPARSE || (index > 0 && join_to_next(above, index - 1)) || join_to_next(above, index) ||
        node->count > 0)
        return;
    sm_slab_give(&nodes, node);
    remove_entry(above, index);
}

static void remove_below(struct sm_piece_node *node, size_t offset)
{
    const unsigned index = find_entry(node, offset);
    if (node->level == 0) {
        remove_entry(node, index);
        return;
    }
    struct sm_piece_node *const below = node->below[index];
    remove_below(below, offset);
    node->offsets[index] = below->offsets[0];
    thin_out(node, index);
}

static void end_tree_of_few(struct sm_division *division)
{
    while (division->tree->level > 0 && division->tree->count == 1) {
        struct sm_piece_node *const top = division->tree;
        division->tree = top->below[0];
        sm_slab_give(&nodes, top);
    }
    if (division->tree->level > 0 || division->tree->count > FEW / 2)
        return;
    for (struct sm_piece *each = &division->first; each; each = each->after)
        each->leaf = NULL;
    sm_piece_tree_end(division);
}

/* If the leaf keeps its first entry and enough others, no other node changes. */
void sm_piece_tree_remove(struct sm_division *division, const struct sm_piece *piece)
{
    if (!division->tree)
        return;
    struct sm_piece_node *const leaf = piece->leaf;
    const unsigned index = find_entry(leaf, piece->offset);
    if (index > 0 && leaf->count > SPARSE) {
        remove_entry(leaf, index);
        return;
    }
    division->leaf = NULL;
    remove_below(division->tree, piece->offset);
    end_tree_of_few(division);
}

static void give_nodes(struct sm_piece_node *node)
{
    for (unsigned i = 0; node->level > 0 && i < node->count; i++)
        give_nodes(node->below[i]);
    sm_slab_give(&nodes, node);
}

void sm_piece_tree_end(struct sm_division *division)
{
    if (division->tree)
        give_nodes(division->tree);
    division->tree = NULL;
    division->leaf = NULL;
}

/* ---- Checks ---- */

static bool is_marked_well(const struct sm_piece *piece)
{
    return (sm_needed_marks(piece) & ~(unsigned)piece->record.marks) == 0;
}

/* A leaf has the marks of its pieces and no others. Another node has at least those of the nodes below. */
static bool are_marks_valid(const struct sm_piece_node *node, unsigned index)
{
    bool valid = true;
    for (unsigned i = 0; i < SM_MARKS && valid; i++) {
        const bool marked = node->marks[i] >> index & 1;
        const bool marked_below = get_marks_below(node, index) >> i & 1;
        valid = (node->marks[i] >> node->count) == 0 &&
                (node->level > 0 ? marked || !marked_below : marked == marked_below);
    }
    return valid;
}

static bool is_node_valid(const struct sm_piece_node *node, const struct sm_piece **next)
{
    bool valid = node->count > 0 && node->count <= MOST;
    for (unsigned i = 0; i < node->count && valid; i++) {
        const struct sm_piece_node *const below = node->below[i];
        valid = *next && node->offsets[i] == (*next)->offset && are_marks_valid(node, i);
        if (valid && node->level > 0) {
            valid = below->level == node->level - 1 && is_node_valid(below, next);
        } else if (valid) {
            valid = node->below[i] == *next && (*next)->leaf == node && is_marked_well(*next);
            *next = (*next)->after;
        }
    }
    return valid;
}

static bool are_few_valid(const struct sm_division *division)
{
    bool valid = are_fewer(division, FEW + 1);
    for (const struct sm_piece *each = &division->first; each && valid; each = each->after)
        valid = !each->leaf && is_marked_well(each);
    return valid;
}

bool sm_piece_tree_is_valid(const struct sm_division *division)
{
    const struct sm_piece *next = &division->first;
    return division->tree ? is_node_valid(division->tree, &next) && !next : are_few_valid(division);
}
