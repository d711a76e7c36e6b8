/*
 * An index of the free parts of some stretches of memory, in two levels by size. Taking and giving back take a few
 * steps, however many parts there are. All structs are outside the memory, which is never touched. The caller's lock
 * guards all indices together.
 *
 * A stretch is always wholly covered by its blocks, and no two free blocks are neighbours.
 */
#ifndef SM_TLSF_H
#define SM_TLSF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks begin and end at multiples of it from the start of their stretch. */
#define SM_TLSF_GRANULE ((size_t)4096)

/* The largest block: more than a process can map. */
#define SM_TLSF_LARGEST ((size_t)1 << 47)

enum { SM_TLSF_STEPS_LOG = 5, SM_TLSF_STEPS = 1 << SM_TLSF_STEPS_LOG, SM_TLSF_POWERS = 32 };

struct sm_block {
    char *start;
    size_t bytes;
    struct sm_block *before; /* neighbours in the stretch, by address */
    struct sm_block *after;
    void *stretch; /* as given to sm_tlsf_add() */
    union {
        struct {
            struct sm_block *next; /* in the list of free blocks of about the size */
            struct sm_block *previous;
        };
        void *user; /* of a block in use; NULL when it is taken */
    };
    bool free;
};

struct sm_tlsf {
    uint32_t powers;                /* bit p is set if steps[p] has a bit set */
    uint32_t steps[SM_TLSF_POWERS]; /* bit s is set if lists[p][s] has a block */
    struct sm_block *lists[SM_TLSF_POWERS][SM_TLSF_STEPS];
};

/* Returns a block that is in no index yet. NULL: the system has no memory. */
struct sm_block *sm_tlsf_block(void);

/* Adds free memory. A block from sm_tlsf_block() becomes a whole stretch. bytes: a multiple of the granule. stretch:
 * the caller's own name for it. */
void sm_tlsf_add(struct sm_tlsf *tlsf, struct sm_block *block, void *start, size_t bytes, void *stretch);

/* Takes a block of bytes, a multiple of the granule. The block is larger if there is no memory for the rest's struct.
 * NULL: there is none. try_all: tries all free blocks of nearly the size, not only the first few. */
struct sm_block *sm_tlsf_take(struct sm_tlsf *tlsf, size_t bytes, bool try_all);

/* Gives a block back. Returns the free block that it is then part of. */
struct sm_block *sm_tlsf_give(struct sm_tlsf *tlsf, struct sm_block *block);

/* Returns whether the block is its whole stretch. */
static inline bool sm_block_is_all(const struct sm_block *block)
{
    return !block->before && !block->after;
}

/* Takes a free block as it is. */
void sm_tlsf_take_block(struct sm_tlsf *tlsf, struct sm_block *block);

/* Frees the struct of a block. The block is in no index, or it is in use and its whole stretch. */
void sm_tlsf_remove(struct sm_block *block);

/* Frees all structs if no index has a stretch. */
void sm_tlsf_trim(void);

#endif
