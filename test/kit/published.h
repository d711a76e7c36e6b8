/* The pointers and streams that an object has published, for suites that look inside. */
#ifndef PUBLISHED_H
#define PUBLISHED_H

#include "object/publish.h"

/* Returns what the hot path may use of the object now. */
static inline struct sm_published published_of(const struct synced_mem *mem)
{
    struct sm_published published;
    for (int writing = 0; writing < 2; writing++) {
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            published.ready[side][writing] = atomic_load(&mem->ready[side][writing]);
        published.on[writing] = atomic_load(&mem->on[writing]);
    }
    return published;
}

#endif
