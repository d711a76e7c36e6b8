/*
 * Segments: memory that the pool takes from the system and releases to it. Several threads touch its huge pages. Then
 * it is registered with the runtime as one, or beyond 64 GiB in extents. That is many times faster than
 * cudaMallocHost(), and takes one mapping of the driver, whose limit is some 65,000.
 */
#ifndef SM_SEGMENT_H
#define SM_SEGMENT_H

#include "memory/pinned/tlsf.h"
#include "synced_mem.h"

struct sm_segment {
    char *start;
    size_t bytes;
    size_t locked;  /* bytes from the start that are page-locked */
    int device;     /* the one in whose context it was registered */
    unsigned place; /* see host_node.h */
    /* The arena uses the rest, under its lock. */
    struct sm_segment *next;
    struct sm_segment *previous;
    struct sm_block *unused; /* the segment's only block while no part of it is in use; otherwise NULL */
    uint64_t since;          /* when unused was set, in milliseconds */
};

/* Creates a segment, all zeros. bytes: a multiple of the page size. ERR_OUT_OF_HOST_MEMORY, or another error of the
 * runtime. */
synced_mem_status sm_segment_create(int device, unsigned place, size_t bytes, struct sm_segment **out);

/* Destroys a segment. May wait for the device. If the device is lost, its registrations are gone, and the segment is
 * destroyed. If the runtime refuses for another reason, the segment stays, and its status is returned. A segment that
 * stays page-locked in part is of no use: it is destroyed, and its addresses are quarantined. */
synced_mem_status sm_segment_destroy(struct sm_segment *segment);

#endif
