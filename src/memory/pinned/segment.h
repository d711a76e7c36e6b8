/*
 * Slabs: what the pool of page-locked memory takes from the system and gives back to it. Huge pages, touched by
 * several threads, then registered with the runtime as one, or beyond 64 GiB in pieces: many times faster than
 * cudaMallocHost, and one mapping of the driver's, which has a limit of some 65,000.
 */
#ifndef SM_SEGMENT_H
#define SM_SEGMENT_H

#include "memory/pinned/tlsf.h"
#include "synced_mem.h"

struct sm_segment {
    char *start;
    size_t bytes;
    size_t locked;  /* of them, from the start: page-locked */
    int device;     /* in whose context it was registered */
    unsigned place; /* see host_node.h */
    /* The pool's, guarded by its lock. */
    struct sm_segment *next;
    struct sm_segment *previous;
    struct sm_block *unused; /* its one block, while nothing of it is in use; else NULL */
    uint64_t since;          /* when that began, in milliseconds */
};

/* Of a multiple of the page's size, all zeros. ERR_OUT_OF_HOST_MEMORY, or whatever else the runtime answers. */
synced_mem_status sm_segment_create(int device, unsigned place, size_t bytes, struct sm_segment **out);

/* May wait for the device. If it is lost, what was registered in its context went with it, and the slab goes; if the
 * runtime refuses for another reason it stays. A slab that is left page-locked in part is of no use: it goes, and its
 * addresses are quarantined. */
synced_mem_status sm_segment_destroy(struct sm_segment *slab);

#endif
