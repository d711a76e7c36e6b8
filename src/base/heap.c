/* The pairing heap. */
#include "base/heap.h"

#include <assert.h>

/* Joins two trees, of which one may be empty. Returns the one with the lesser root. */
static struct sm_heap_node *join_trees(struct sm_heap_node *a, struct sm_heap_node *b)
{
    if (!a || !b)
        return a ? a : b;
    struct sm_heap_node *const least = b->key < a->key ? b : a;
    struct sm_heap_node *const other = least == a ? b : a;
    other->before = least;
    other->next = least->child;
    if (other->next)
        other->next->before = other;
    least->child = other;
    return least;
}

static struct sm_heap_node *take_next_tree(struct sm_heap_node **list)
{
    struct sm_heap_node *const tree = *list;
    if (tree) {
        *list = tree->next;
        tree->next = NULL;
        tree->before = NULL;
    }
    return tree;
}

/* Joins the trees of a list in pairs, and then the pairs. The pairs form a list through next, the last one first. */
static struct sm_heap_node *join_all_trees(struct sm_heap_node *list)
{
    struct sm_heap_node *pairs = NULL;
    while (list) {
        struct sm_heap_node *const first = take_next_tree(&list);
        struct sm_heap_node *const pair = join_trees(first, take_next_tree(&list));
        pair->next = pairs;
        pairs = pair;
    }
    struct sm_heap_node *all = NULL;
    while (pairs)
        all = join_trees(all, take_next_tree(&pairs));
    return all;
}

void sm_heap_add(struct sm_heap *heap, struct sm_heap_node *node, uint64_t key)
{
    *node = (struct sm_heap_node){.key = key};
    heap->least = join_trees(heap->least, node);
}

void sm_heap_remove(struct sm_heap *heap, struct sm_heap_node *node)
{
    struct sm_heap_node *const rest = join_all_trees(node->child);
    if (!node->before) {
        assert(heap->least == node);
        heap->least = rest;
    } else {
        if (node->before->child == node)
            node->before->child = node->next;
        else
            node->before->next = node->next;
        if (node->next)
            node->next->before = node->before;
        heap->least = join_trees(heap->least, rest);
    }
    *node = (struct sm_heap_node){.key = 0};
}
