/*
 * Finds the allocation in which an address lies. A treap over the start addresses of all memory that the runtime knows,
 * of every kind and device, as addressing is unified. Allocations never overlap.
 */
#include "emu.h"

static struct emu_alloc *rotate_right(struct emu_alloc *node)
{
    struct emu_alloc *up = node->left;
    node->left = up->right;
    up->right = node;
    return up;
}

static struct emu_alloc *rotate_left(struct emu_alloc *node)
{
    struct emu_alloc *up = node->right;
    node->right = up->left;
    up->left = node;
    return up;
}

static struct emu_alloc *insert(struct emu_alloc *root, struct emu_alloc *node)
{
    if (root == NULL)
        return node;
    if ((uintptr_t)node->start < (uintptr_t)root->start) {
        root->left = insert(root->left, node);
        return root->left->priority > root->priority ? rotate_right(root) : root;
    }
    root->right = insert(root->right, node);
    return root->right->priority > root->priority ? rotate_left(root) : root;
}

static struct emu_alloc *join(struct emu_alloc *low, struct emu_alloc *high)
{
    if (low == NULL)
        return high;
    if (high == NULL)
        return low;
    if (low->priority > high->priority) {
        low->right = join(low->right, high);
        return low;
    }
    high->left = join(low, high->left);
    return high;
}

void emu_tree_insert(struct emu_alloc *alloc)
{
    static unsigned priority = 1;
    /* The treap has its own generator. So its shape does not depend on the seed's random numbers, nor they on the
     * treap. */
    priority = priority * 1664525u + 1013904223u;
    alloc->priority = priority ^ priority >> 16;
    alloc->left = alloc->right = NULL;
    alloc->in_tree = true;
    emu.tree = insert(emu.tree, alloc);
}

void emu_tree_remove(struct emu_alloc *alloc)
{
    struct emu_alloc **link = &emu.tree;
    while (*link != alloc)
        link = (uintptr_t)alloc->start < (uintptr_t)(*link)->start ? &(*link)->left : &(*link)->right;
    *link = join(alloc->left, alloc->right);
    alloc->in_tree = false;
}

struct emu_alloc *emu_find(const void *address)
{
    struct emu_alloc *below = NULL;
    for (struct emu_alloc *node = emu.tree; node != NULL;) {
        if ((uintptr_t)node->start <= (uintptr_t)address) {
            below = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return below != NULL && (uintptr_t)address - (uintptr_t)below->start < below->size ? below : NULL;
}

struct emu_alloc *emu_find_overlap(const void *start, size_t size)
{
    struct emu_alloc *found = emu_find(start);
    if (found != NULL)
        return found;
    for (struct emu_alloc *node = emu.tree; node != NULL;) {
        if ((uintptr_t)node->start > (uintptr_t)start) {
            found = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return found != NULL && (uintptr_t)found->start - (uintptr_t)start < size ? found : NULL;
}
