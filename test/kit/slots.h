/* An allocator that makes no call which could fail: it hands out slots of memory that was there before, each once. */
#ifndef SLOTS_H
#define SLOTS_H

#include "synced_mem.h"

#include <stdbool.h>

enum { SLOTS = 12 };

struct slots {
    char *memory; /* SLOTS of the size, one behind the other, aligned to all that is asked for */
    size_t size;
    unsigned used;  /* have been given out */
    unsigned freed; /* of those */
    bool wrong;     /* something came back that was not given out so */
    struct {
        size_t size;
        size_t alignment;
        int device;
        bool freed;
    } slot[SLOTS];
};

synced_mem_allocator slots_table(struct slots *slots);

#endif
