/*
 * The arena: the pool's segments, and which parts of them are in use. Each place (host_node.h) has its own index of
 * free blocks (tlsf.h) and its own runs (runs.h). One lock guards all of it. The lock is never held while a
 * segment is created or destroyed.
 */
#ifndef SM_ARENA_H
#define SM_ARENA_H

#include "synced_mem.h"

#include <stdbool.h>

struct sm_pinned {
    void *data;   /* aligned to SM_DEVICE_ALIGNMENT */
    size_t bytes; /* as requested */
    void *block;  /* the arena's struct, to be given back with data */
    bool fresh;   /* the pool grew for it */
};

/* Returns the size rounded up. Sizes that can use one another's memory round to the same value. */
size_t sm_arena_rounded(size_t size);
/* Returns the least size of a segment for the request. */
size_t sm_arena_least(size_t size);

/* Takes memory of the place. try_all: tries all free blocks of nearly the size, not only some. Returns false if
 * there is none. */
bool sm_arena_take(unsigned place, size_t size, bool try_all, struct sm_pinned *out);
/* Takes memory of any place. A small size may get a block of its own where no run fits. Returns false if there is
 * none. */
bool sm_arena_take_anywhere(size_t size, struct sm_pinned *out);
/* Gives memory back. data, block: as taken. */
void sm_arena_give(void *data, void *block);

/* Return the place and the bytes of memory that is taken. */
unsigned sm_arena_place_of(const void *block);
size_t sm_arena_bytes_of(const void *block);

/* Creates a segment and takes memory from it before any other thread can. One thread at a time.
 * ERR_OUT_OF_HOST_MEMORY: there is no memory, or the limit would be exceeded. Other errors are the runtime's. */
synced_mem_status sm_arena_grow(int device, unsigned place, size_t bytes, size_t size, struct sm_pinned *out);

/* Releases unused segments to the system while more than keep bytes are held. It releases those that were not used
 * since the time until, longest unused first. *any: any was released. Returns why the runtime has refused to unregister
 * one. */
synced_mem_status sm_arena_release(size_t keep, uint64_t until, bool *any);

/* Returns the time that many milliseconds ago, for sm_arena_release(). */
uint64_t sm_arena_time(unsigned ago);

/* Sets the limit of bytes held. 0: none. Returns whether more are held now. */
bool sm_arena_set_limit(size_t bytes);

struct sm_arena_facts {
    size_t held; /* bytes of all segments, including those that are being released */
    size_t peak_held;
    size_t used; /* bytes that are taken */
    size_t segments;
    uint64_t registrations;
};
struct sm_arena_facts sm_arena_facts(void);
void sm_arena_reset_peak(void);

/* Frees the structs of blocks and runs if there are none. */
void sm_arena_trim(void);

#endif
