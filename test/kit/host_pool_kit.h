/*
 * What the suites of the pool of page-locked memory share. Most of their tests need no GPU: what registers memory with
 * the runtime is replaced (--wrap) by functions that only count, where a test says so; the others use the runtime's.
 */
#ifndef HOST_POOL_KIT_H
#define HOST_POOL_KIT_H

#include "fixture.h"

#include "device/device.h"
#include "memory/pinned/host_node.h"
#include "memory/pinned/host_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static const size_t MIB = (size_t)1 << 20;

/* ---- In place of the runtime and of the system ---- */

struct fake {
    bool on;         /* the runtime is not asked */
    bool untouched;  /* nor does memory become the process's own */
    bool unreserved; /* there may be more of it than the machine has */
    atomic_uint registered;
    atomic_uint unregistered;
    unsigned register_fails_at; /* the how manieth call from now on; 0: none */
    synced_mem_status register_answers;
    synced_mem_status unregister_answers; /* all calls */
    const void *stuck;                    /* this is never unregistered */
    void (*meanwhile)(void);              /* what another thread does while memory is registered */
};
extern struct fake fake;

struct machine {
    int nodes;          /* 0: as many as there are */
    const char *file;   /* what the system says of each device's node; NULL: there is no such file */
    unsigned asked;     /* the runtime, for a device's place */
    bool refused;       /* that is */
    char path[128];     /* which file was opened */
    size_t preferred;   /* bytes of which */
    int preferred_node; /* was the last wish */
};
extern struct machine machine;

/* One of the system's functions has nothing to give. */
enum lack { NOTHING, MAPPING, RECORD_OF_SLAB, RECORDS, THREAD };
extern enum lack lacks;

/* What is replaced, as it is. */
int __real_sm_numa_nodes(void);
synced_mem_status __real_sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES]);

/* From now on nothing is registered, and memory is not touched. */
void use_fake(void);

/* ---- The pool ---- */

/* Its numbers, which must fit together. */
synced_mem_host_pool_stats pool_now(void);
/* A piece for the first device, which must be had; and back. */
struct sm_pinned alloc(size_t size);
void give(struct sm_pinned memory);
/* All is given back. */
void check_nothing_held(void);
/* More than the shortest decay. */
void pass_some_time(void);

#endif
