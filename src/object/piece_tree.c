/* The search tree of a root's pieces. */
#include "object/piece_tree.h"

#include "base/slab.h"

#include <assert.h>
#include <string.h>

enum {
    MOST = 31,  /* entries of a node */
    SPARSE = 8, /* a node with fewer entries is joined to a neighbour if the two fit in one */
    FEW = 8,    /* a root with more pieces gets a tree; it keeps the tree until it has half as many */
    STRIDE = 8  /* of a search in a node */
};
#define NO_OFFSET SIZE_MAX

/* The offsets are contiguous, so that a search reads few cache lines. */
struct sm_piece_node {
    unsigned count;
    unsigned level;           /* 0: a leaf */
    size_t offsets[MOST + 1]; /* those from count on are NO_OFFSET */
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
    for (unsigned i = node->count; i <= MOST; i++)
        node->offsets[i] = NO_OFFSET;
}

static struct sm_piece_node *make_node(unsigned level)
{
    struct sm_piece_node *const node = sm_slab_take(&nodes);
    if (!node)
        return NULL;
    node->count = 0;
    node->level = level;
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

/* Moves the entries from one index on to another. */
static void shift_entries(struct sm_piece_node *node, unsigned from, unsigned to)
{
    const unsigned count = node->count - from;
    memmove(&node->offsets[to], &node->offsets[from], count * sizeof *node->offsets);
    memmove(&node->below[to], &node->below[from], count * sizeof *node->below);
    node->count = to + count;
}

static void insert_entry(struct sm_piece_node *node, unsigned index, size_t offset, void *below)
{
    shift_entries(node, index, index + 1);
    node->offsets[index] = offset;
    node->below[index] = below;
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
    memcpy(&to->offsets[to->count], &node->offsets[from], count * sizeof *to->offsets);
    memcpy(&to->below[to->count], &node->below[from], count * sizeof *to->below);
    to->count += count;
    node->count = from;
    clear_offsets(node);
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
    struct sm_piece_node *leaf = find_leaf(division, before->offset);
    if (leaf->count == MOST)
        leaf = make_room(division, piece->offset);
    if (leaf)
        insert_entry(leaf, find_entry(leaf, piece->offset) + 1, piece->offset, piece);
    return leaf != NULL;
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
    if (division->tree->level == 0 && division->tree->count <= FEW / 2)
        sm_piece_tree_end(division);
}

/* If the leaf keeps its first entry and enough others, no other node changes. */
void sm_piece_tree_remove(struct sm_division *division, const struct sm_piece *piece)
{
    if (!division->tree)
        return;
    struct sm_piece_node *const leaf = find_leaf(division, piece->offset);
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

static bool is_node_valid(const struct sm_piece_node *node, const struct sm_piece **next)
{
    bool valid = node->count > 0 && node->count <= MOST;
    for (unsigned i = 0; i < node->count && valid; i++) {
        const struct sm_piece_node *const below = node->below[i];
        valid = *next && node->offsets[i] == (*next)->offset;
        if (valid && node->level > 0) {
            valid = below->level == node->level - 1 && is_node_valid(below, next);
        } else if (valid) {
            valid = node->below[i] == *next;
            *next = (*next)->after;
        }
    }
    return valid;
}

bool sm_piece_tree_is_valid(const struct sm_division *division)
{
    const struct sm_piece *next = &division->first;
    return division->tree ? is_node_valid(division->tree, &next) && !next : are_fewer(division, FEW + 1);
}
