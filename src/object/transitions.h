/* The state machine's table: what an access has to do, and which head comes next. */
#ifndef SM_TRANSITIONS_H
#define SM_TRANSITIONS_H

#include "base/side.h"

enum sm_mode { SM_READ, SM_MUTABLE, SM_OVERWRITE, SM_MODES };

/* What has to be done to make a side's copy valid. */
enum sm_work { SM_NOTHING, SM_ZERO, SM_MOVE };

struct sm_transition {
    unsigned char work; /* enum sm_work */
    unsigned char next; /* synced_mem_state */
};

/* By head, side and mode. */
extern const struct sm_transition sm_transitions[4][SM_SIDES][SM_MODES];

#endif
