/*
 * Lives of objects, made of steps in which something may fail. After a failed step the object must be as before, and
 * the same step must succeed when it is tried again.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "fixture.h"

enum step {
    END,
    CREATE,        /* an object of no device */
    CREATE_NAMED,  /* of the last device, with a name and an alignment */
    CREATE_ALLOC,  /* of the last device, with allocators for both copies */
    CREATE_MAPPED, /* as CREATE_NAMED, in unified placement */
    CREATE_MANAGED,
    CPU_READ,
    CPU_WRITE,
    CPU_OVERWRITE,
    GPU_READ,
    GPU_WRITE,
    GPU_OVERWRITE,
    READ_ON, /* on one stream, and on the other */
    READ_ON_2,
    WRITE_ON,
    WRITE_ON_2,
    OVERWRITE_ON,
    END_USE_ON,
    FORGET_STREAM,
    PUSH_LEGACY,
    PUSH_STREAM,
    PULL_STREAM,
    PULL_2,
    PUSH_N, /* with the object twice in the list */
    PULL_N,
    WRITE_COMPANIONS, /* objects of page-locked memory, and of a size that goes by a batch */
    WRITE_COMPANIONS_ON,
    PUSH_ALL, /* with the companions */
    PULL_ALL,
    RELEASE_COMPANIONS,
    QUERY,
    WAIT,
    REAP,
    GROW, /* beyond the present room */
    SHRINK,
    REGROW, /* within it */
    DISCARD,
    SET_CPU,
    LOCK_CPU,
    LOCK_BOTH_ON,
    ADOPT_LOCKED,
    SET_GPU,
    SET_BOTH,
    ADOPT_CPU,
    ADOPT_GPU,
    ADOPT_BOTH,
    SET_CPU_ON,
    SET_GPU_ON,
    SET_BOTH_ON,
    ADOPT_CPU_ON,
    ADOPT_GPU_ON,
    ADOPT_BOTH_ON,
    RELEASE_CPU,
    RELEASE_GPU,
    RELEASE_DATA,
    CLEAR,
    MAKE_OTHERS,   /* two more objects, for copies */
    MAKE_PAGEABLE, /* the same in pageable user memory */
    MAKE_MANAGED,
    OTHER_CPU, /* the first of them is written */
    OTHER_GPU,
    COPY_ON, /* from it */
    COPY_2,
    COPY_CPU,
    COPY_N, /* also to the second of them */
    COPY_CPU_N,
    RELEASE_OTHERS,
    DIVIDE, /* a view of the middle third */
    READ_VIEW_ON,
    UNITE, /* releases the view */
    RETAIN,
    RELEASE,
    SHUTDOWN,
    STAGE_ALONE, /* from now on stages all transfers of pageable memory, in the calling threads alone */
    STAGE,       /* the same with a copy thread */
    STAGE_MANY,
};

/* The lives. Those that need no GPU come first. */
enum { STEPS = 40 };
extern const enum step scenario_steps[][STEPS];
extern const int scenario_count;
extern const int scenario_count_without_gpu;

/* Create and free the caller's memory and streams, before and after the part that is counted or made to fail. The
 * caller's current device differs from the object's, if there are several; with at_home it is the same. */
void scenario_prepare(int scenario, int device_count, bool at_home);
void scenario_clean_up(void);

/* The permitted results of an injected failure. */
enum outcome {
    MUST_SUCCEED, /* nothing fails */
    MAY_FAIL,     /* one call fails, once: then the same step succeeds */
    MAY_FAIL_TWICE,
    MAY_BREAK /* the device breaks, for good */
};

/* Plays the steps. Exits with a message if anything is wrong. At the end the object is released. */
void scenario_run(int scenario, enum outcome expected);

/* Sets whether kernels compare what they read with what was written. Off at first. */
void scenario_compare(bool so);

/* Shuts the library down after any scenario, and checks that it has nothing left. */
void scenario_check_end(enum outcome expected);

#endif
