/* The table of transitions: the work that an access needs, and the next head. */
#ifndef SM_TRANSITIONS_H
#define SM_TRANSITIONS_H

#include "base/side.h"

enum sm_mode { SM_READ, SM_MUTABLE, SM_OVERWRITE, SM_MODES };

/* The work that makes a side's copy valid. SM_LOAD: it is read from a file. */
enum sm_work { SM_NOTHING, SM_ZERO, SM_MOVE, SM_LOAD, SM_WORKS };

struct sm_transition {
    unsigned char work; /* enum sm_work */
    unsigned char next; /* synced_mem_head_kind; an access that writes leaves the file, others do not */
};

/* Indexed by whole head (object.h), side and mode. */
extern const struct sm_transition sm_transitions[8][SM_SIDES][SM_MODES];

#endif
