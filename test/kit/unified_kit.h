/*
 * Shared by the suites of unified placement: such objects, ways to each of their heads, and kernels on streams.
 */
#ifndef UNIFIED_KIT_H
#define UNIFIED_KIT_H

#include "fixture.h"

enum { SIZE = 20000, LARGER = 3 * SIZE, SMALLER = SIZE / 3, KINDS = 2 };

extern const synced_mem_placement_kind kinds[KINDS];

synced_mem *make_placed(size_t size, synced_mem_placement_kind placement);
/* Returns whether the machine has the placement. Some devices' managed memory cannot be used by the host at any time.
 * */
bool has(synced_mem_placement_kind placement);
/* Releases the object, and checks that nothing was transferred. */
void finish(synced_mem *mem);

/* ---- Ways to each head ---- */

enum { UN = SYNCED_MEM_UNINITIALIZED, CPU = SYNCED_MEM_AT_CPU, GPU = SYNCED_MEM_AT_GPU, SYN = SYNCED_MEM_SYNCED };

/* The contents are pattern 1, or zeros. */
enum way {
    NEW,
    DISCARDED, /* while a kernel writes */
    CPU_BY_HOST,
    CPU_AGAIN,  /* after the device */
    CPU_ALONE,  /* the device's side was released, while a kernel reads */
    GPU_BY_ANY, /* by a kernel on the legacy stream */
    GPU_BY_STREAM,
    GPU_DONE, /* the same, and its use is over */
    GPU_ALONE,
    SYNCED_BY_GPU,
    SYNCED_BY_STREAM, /* a kernel reads */
    SYNCED_BY_CPU,
    SYNCED_BY_PUSH,
    SYNCED_BY_PULL,
    WAYS
};

extern const int head_of[WAYS];

/* Brings a new object to that head. */
void go(synced_mem *mem, enum way way);

/* ---- Streams ---- */

struct work {
    synced_mem_stream stream, other;
    void *seen; /* written by the kernel that reads */
    bool reads;
};
extern struct work work;

/* Queue kernels on the first stream that write or read the object's contents a while later. */
void kernel_writes(synced_mem *mem, unsigned pattern);
void kernel_reads(synced_mem *mem);

/*
 * Begin and end a test that uses all that. The end checks that a kernel read the contents of the time of its launch.
 */
void prepare(void);
void clean_up(void);

#endif
