/* The table in synced_mem.h: work and next head, by head, side and mode. */
#include "object/transitions.h"

#include "synced_mem.h"

#define UN SYNCED_MEM_UNINITIALIZED
#define CPU SYNCED_MEM_AT_CPU
#define GPU SYNCED_MEM_AT_GPU
#define SYN SYNCED_MEM_SYNCED
#define IN_FILE (1 << SM_SIDES)

/* clang-format off */
const struct sm_transition sm_transitions[8][SM_SIDES][SM_MODES] = {
/*  head      side       read               mutable            overwrite          */
    [UN]  = {[SM_CPU] = {{SM_ZERO,    CPU}, {SM_ZERO,    CPU}, {SM_NOTHING, CPU}},
             [SM_GPU] = {{SM_ZERO,    GPU}, {SM_ZERO,    GPU}, {SM_NOTHING, GPU}}},
    [CPU] = {[SM_CPU] = {{SM_NOTHING, CPU}, {SM_NOTHING, CPU}, {SM_NOTHING, CPU}},
             [SM_GPU] = {{SM_MOVE,    SYN}, {SM_MOVE,    GPU}, {SM_NOTHING, GPU}}},
    [GPU] = {[SM_CPU] = {{SM_MOVE,    SYN}, {SM_MOVE,    CPU}, {SM_NOTHING, CPU}},
             [SM_GPU] = {{SM_NOTHING, GPU}, {SM_NOTHING, GPU}, {SM_NOTHING, GPU}}},
    [SYN] = {[SM_CPU] = {{SM_NOTHING, SYN}, {SM_NOTHING, CPU}, {SM_NOTHING, CPU}},
             [SM_GPU] = {{SM_NOTHING, SYN}, {SM_NOTHING, GPU}, {SM_NOTHING, GPU}}},
/*  in a file besides */
    [UN  | IN_FILE] = {[SM_CPU] = {{SM_LOAD, CPU}, {SM_LOAD,    CPU}, {SM_NOTHING, CPU}},
                       [SM_GPU] = {{SM_LOAD, GPU}, {SM_LOAD,    GPU}, {SM_NOTHING, GPU}}},
    [CPU | IN_FILE] = {[SM_CPU] = {{SM_NOTHING, CPU}, {SM_NOTHING, CPU}, {SM_NOTHING, CPU}},
                       [SM_GPU] = {{SM_MOVE,    SYN}, {SM_MOVE,    GPU}, {SM_NOTHING, GPU}}},
    [GPU | IN_FILE] = {[SM_CPU] = {{SM_MOVE,    SYN}, {SM_MOVE,    CPU}, {SM_NOTHING, CPU}},
                       [SM_GPU] = {{SM_NOTHING, GPU}, {SM_NOTHING, GPU}, {SM_NOTHING, GPU}}},
    [SYN | IN_FILE] = {[SM_CPU] = {{SM_NOTHING, SYN}, {SM_NOTHING, CPU}, {SM_NOTHING, CPU}},
                       [SM_GPU] = {{SM_NOTHING, SYN}, {SM_NOTHING, GPU}, {SM_NOTHING, GPU}}},
};
/* clang-format on */
