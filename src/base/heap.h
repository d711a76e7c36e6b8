/*
 * A heap: a set of nodes of which the one with the least key is found at once. It is a pairing heap (Fredman,
 * Sedgewick, Sleator, Tarjan, Algorithmica 1986): to add a node takes one step, to remove one takes log n steps on
 * average. The nodes are members of the caller's structs, so nothing is allocated and nothing can fail. The caller
 * locks.
 */
#ifndef SM_HEAP_H
#define SM_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros: in no heap. */
struct sm_heap_node {
    uint64_t key;
    struct sm_heap_node *child;
    struct sm_heap_node *next;   /* the next child of the same parent */
    struct sm_heap_node *before; /* the one before among these, or the parent; NULL: the node is the least */
};

/* All zeros: empty. */
struct sm_heap {
    struct sm_heap_node *least;
};

/* Adds a node that is in no heap, with this key. */
void sm_heap_add(struct sm_heap *heap, struct sm_heap_node *node, uint64_t key);

/* Removes a node of this heap. */
void sm_heap_remove(struct sm_heap *heap, struct sm_heap_node *node);

#endif
