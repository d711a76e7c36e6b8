/*
 * What the pool of page-locked memory has: slabs, and which parts of them are in use. One space (tlsf.h) and its runs
 * (runs.h) for each place that memory is kept apart by (host_node.h). One lock guards all of it; it is never held while
 * the system or the runtime is asked for anything.
 */
#ifndef SM_ARENA_H
#define SM_ARENA_H

#include "synced_mem.h"

#include <stdbool.h>

struct sm_pinned {
    void *data;   /* aligned to SM_DEVICE_ALIGNMENT */
    size_t bytes; /* as asked for */
    void *owner;  /* the store's, to be handed back with the data */
    bool fresh;   /* more memory was page-locked for it */
};

/* What a size is rounded to: the same for all that could have one another's memory. */
size_t sm_arena_rounded(size_t size);
/* The least that a slab for the size has to have. */
size_t sm_arena_least(size_t size);

/* Memory of that place; with look_at_all a free block of nearly the size is found however many there are. */
bool sm_arena_take(unsigned place, size_t size, bool look_at_all, struct sm_pinned *out);
/* Memory of any place, a small one also from where a run of its size does not fit. */
bool sm_arena_take_anywhere(size_t size, struct sm_pinned *out);
void sm_arena_give(void *data, void *owner);

/* Of memory that was taken, and not given back yet. */
unsigned sm_arena_place_of(const void *owner);
size_t sm_arena_bytes_of(const void *owner);

/* A new slab, and memory from it before anybody else can have that. ERR_OUT_OF_HOST_MEMORY, also if more than the limit
 * would be held, or what the runtime answers. One thread at a time. */
synced_mem_status sm_arena_grow(int device, unsigned place, size_t bytes, size_t size, struct sm_pinned *out);

/* Gives back to the system, while more than keep bytes are held, slabs that nobody has used since the time, the longest
 * unused first. *any: whether there were; the status: why the runtime has refused to let go of one. */
synced_mem_status sm_arena_release(size_t keep, uint64_t until, bool *any);

/* A time as above, so many milliseconds ago. */
uint64_t sm_arena_time(unsigned ago);

/* More than so many bytes are not held; 0: no limit. Answers whether more are now. */
bool sm_arena_set_limit(size_t bytes);

struct sm_arena_facts {
    size_t held; /* bytes of the slabs, those included that are being given back */
    size_t peak_held;
    size_t used; /* bytes of what was taken and not given back */
    size_t slabs;
    uint64_t registrations;
};
struct sm_arena_facts sm_arena_facts(void);
void sm_arena_reset_peak(void);

/* Frees what is kept to know of blocks, if there are none. */
void sm_arena_trim(void);

#endif
