/* Extents, in a treap: a search tree by begin and address, and a heap by ranks that are as good as random. So its depth
 * is some multiple of the logarithm of the number of extents, whatever the order in which they come. */
#include "base/extents.h"

#include "base/hash.h"

#include <stddef.h>

static bool is_before(const struct sm_extent *a, const struct sm_extent *b)
{
    return a->begin != b->begin ? a->begin < b->begin : (uintptr_t)a < (uintptr_t)b;
}

static void update_last_end(struct sm_extent *extent)
{
    extent->last_end = extent->end;
    for (int i = 0; i < 2; i++)
        if (extent->below[i] && extent->below[i]->last_end > extent->last_end)
            extent->last_end = extent->below[i]->last_end;
}

/* Divides a tree into the extents before the given one and those behind it. The recursion is as deep as the tree. */
static void split(struct sm_extent *tree, const struct sm_extent *at, struct sm_extent **before,
                  struct sm_extent **behind)
{
    if (!tree) {
        *before = *behind = NULL;
        return;
    }
    if (is_before(tree, at)) {
        split(tree->below[1], at, &tree->below[1], behind);
        *before = tree;
    } else {
        split(tree->below[0], at, before, &tree->below[0]);
        *behind = tree;
    }
    update_last_end(tree);
}

static struct sm_extent *merge(struct sm_extent *before, struct sm_extent *behind)
{
    if (!before || !behind)
        return before ? before : behind;
    struct sm_extent *const top = before->rank > behind->rank ? before : behind;
    if (top == before)
        top->below[1] = merge(top->below[1], behind);
    else
        top->below[0] = merge(before, top->below[0]);
    update_last_end(top);
    return top;
}

static void add_below(struct sm_extent **link, struct sm_extent *extent)
{
    struct sm_extent *const tree = *link;
    if (!tree || tree->rank < extent->rank) {
        split(tree, extent, &extent->below[0], &extent->below[1]);
        *link = extent;
    } else {
        add_below(&tree->below[is_before(tree, extent)], extent);
    }
    update_last_end(*link);
}

void sm_extents_add(struct sm_extents *extents, struct sm_extent *extent)
{
    const uint64_t hash = sm_hash(++extents->state);
    extent->rank = sm_hash(hash ^ hash >> 29);
    add_below(&extents->top, extent);
}

static void remove_below(struct sm_extent **link, const struct sm_extent *extent)
{
    struct sm_extent *const tree = *link;
    if (tree == extent) {
        *link = merge(tree->below[0], tree->below[1]);
        return;
    }
    remove_below(&tree->below[is_before(tree, extent)], extent);
    update_last_end(tree);
}

void sm_extents_remove(struct sm_extents *extents, struct sm_extent *extent)
{
    remove_below(&extents->top, extent);
}

static bool visit_below(struct sm_extent *tree, uint64_t begin, uint64_t end,
                        bool (*visit)(struct sm_extent *extent, void *user), void *user)
{
    if (!tree || tree->last_end <= begin)
        return true;
    if (!visit_below(tree->below[0], begin, end, visit, user))
        return false;
    if (tree->begin >= end)
        return true;
    if (tree->end > begin && !visit(tree, user))
        return false;
    return visit_below(tree->below[1], begin, end, visit, user);
}

bool sm_extents_visit(const struct sm_extents *extents, uint64_t begin, uint64_t end,
                      bool (*visit)(struct sm_extent *extent, void *user), void *user)
{
    return visit_below(extents->top, begin, end, visit, user);
}
