/* The two sides of an object, and the directions of its transfers. */
#ifndef SM_SIDE_H
#define SM_SIDE_H

enum sm_side { SM_CPU, SM_GPU, SM_SIDES };
enum sm_direction { SM_H2D, SM_D2H, SM_D2D };

/* Returns the side's bit in a synced_mem_head_kind. */
static inline unsigned sm_bit(enum sm_side side)
{
    return 1u << side;
}

static inline enum sm_side sm_other(enum sm_side side)
{
    return side == SM_CPU ? SM_GPU : SM_CPU;
}

#endif
