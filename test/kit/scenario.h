/*
 * Lives of objects, made of steps, in which something may fail: after every step that did, the object must be what
 * it was before, and the step must succeed when it is tried again.
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
    WRITE_OTHERS, /* objects of page-locked memory, and of a size that goes by a batch */
    WRITE_OTHERS_ON,
    PUSH_ALL, /* with the others */
    PULL_ALL,
    RELEASE_OTHERS,
    QUERY,
    WAIT,
    REAP,
    GROW, /* beyond the room there is */
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
    RETAIN,
    RELEASE,
    SHUTDOWN,
    STAGE_ALONE, /* from now on all transfers of pageable memory, by the callers alone */
    STAGE,       /* with a copy thread */
    STAGE_MANY,
};

/* The lives; those that need no GPU come first. */
enum { STEPS = 40 };
extern const enum step scenario_steps[][STEPS];
extern const int scenario_count;
extern const int scenario_count_without_gpu;

/* What the caller brings to the scenario is made before and given back after what is counted or made to fail. The
 * caller's current device is another than the object's where it can be; at_home: it is the object's. */
void scenario_prepare(int scenario, int device_count, bool at_home);
void scenario_clean_up(void);

/* How a failure that was set off shows. */
enum outcome {
    MUST_SUCCEED, /* nothing fails */
    MAY_FAIL,     /* one call, once: then the same step succeeds */
    MAY_FAIL_TWICE,
    MAY_BREAK /* the device, for good */
};

/* Goes through the steps; exits with a message if anything is wrong. At the end the object is gone. */
void scenario_run(int scenario, enum outcome expected);

/* Whether kernels compare what they read with what was written; not at first. */
void scenario_compare(bool so);

/* Whatever was there: the library shut down, and nothing of its own left. */
void scenario_check_end(enum outcome expected);

#endif
