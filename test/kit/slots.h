/* An allocator without any call that could fail. It hands out slots of existing memory, each once. */
#ifndef SLOTS_H
#define SLOTS_H

#include "synced_mem.h"

#include <stdbool.h>

enum { SLOTS = 12 };

struct slots {
    char *memory; /* SLOTS adjacent slots of the size, with any alignment that is requested */
    size_t size;
    unsigned used;  /* the number handed out */
    unsigned freed; /* the number of those that came back */
    bool wrong;     /* memory came back that was not handed out so */
    struct {
        size_t size;
        size_t alignment;
        int device;
        bool freed;
    } slot[SLOTS];
};

synced_mem_allocator slots_table(struct slots *slots);

#endif
