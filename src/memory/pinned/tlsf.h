/*
 * Which parts of some stretches of memory are free: a two-level index by size, so that to take and to give back are a
 * few steps however many parts there are. All that is known is kept beside the memory, which is never touched. The
 * caller's lock guards all spaces together.
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
    struct sm_block *before; /* its neighbours in the stretch, by address */
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
    uint32_t powers;                /* bit p is set where steps[p] has any */
    uint32_t steps[SM_TLSF_POWERS]; /* bit s is set where lists[p][s] has a block */
    struct sm_block *lists[SM_TLSF_POWERS][SM_TLSF_STEPS];
};

/* A block that is in no space yet; NULL when the system has no memory. */
struct sm_block *sm_tlsf_block(void);

/* Adds free memory: a block of sm_tlsf_block()'s becomes the whole of a stretch, whose bytes are a multiple of the
 * granule. stretch: whatever the caller knows it by. */
void sm_tlsf_add(struct sm_tlsf *space, struct sm_block *block, void *start, size_t bytes, void *stretch);

/* A block of the size, which is a multiple of the granule, or a larger one where there is no memory to note the rest.
 * NULL: there is none. What is free in lists of the very size is looked at up to a limit, or, if asked, all of it. */
struct sm_block *sm_tlsf_take(struct sm_tlsf *space, size_t bytes, bool look_at_all);

/* Returns the free block that it is part of from then on. */
struct sm_block *sm_tlsf_give(struct sm_tlsf *space, struct sm_block *block);

/* Whether the block is its whole stretch. */
static inline bool sm_block_is_all(const struct sm_block *block)
{
    return !block->before && !block->after;
}

/* A free block as it is, which is then in use. */
void sm_tlsf_take_block(struct sm_tlsf *space, struct sm_block *block);

/* Gives up a block that is in no space, or is in use and all of its stretch. */
void sm_tlsf_remove(struct sm_block *block);

/* Frees what all spaces keep, if no stretch is left in any. */
void sm_tlsf_trim(void);

#endif
