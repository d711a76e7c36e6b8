/*
 * Shared by the suites of the pool of page-locked memory. Most of their tests need no GPU. Wrappers (--wrap) replace
 * the functions that register memory with the runtime, and only count. They do so where a test asks for it; other tests
 * use the runtime's.
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

/* ---- Replacements of the runtime and the system ---- */

struct fake {
    bool on;         /* registration only counts */
    bool untouched;  /* prefault does nothing either */
    bool unreserved; /* mappings may exceed the machine's memory */
    atomic_uint registered;
    atomic_uint unregistered;
    unsigned register_fails_at; /* the number of the call that fails, from the next on; 0: none */
    synced_mem_status register_answers;
    synced_mem_status unregister_answers; /* the result of all calls */
    const void *stuck;                    /* this memory is never unregistered */
    void (*meanwhile)(void);              /* called while memory is being registered, for another thread's actions */
};
extern struct fake fake;

struct machine {
    int nodes;          /* the number of nodes; 0: the machine's */
    const char *file;   /* the contents of the file with each device's node; NULL: there is no such file */
    unsigned asked;     /* counts queries of a device's place */
    bool refused;       /* such queries fail */
    char path[128];     /* the last file opened */
    size_t preferred;   /* bytes for which a node was requested */
    int preferred_node; /* the node of the last request */
};
extern struct machine machine;

/* The function of the system that fails at present. */
enum lack { NOTHING, MAPPING, RECORD_OF_SLAB, RECORDS, THREAD };
extern enum lack lacks;

/* The replaced functions themselves. */
int __real_sm_numa_nodes(void);
synced_mem_status __real_sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES]);

/* From now on nothing is registered, and memory is not prefaulted. */
void use_fake(void);

/* ---- The pool ---- */

/* Returns the pool's statistics, and checks that they are consistent. */
synced_mem_host_pool_stats pool_now(void);
/* Allocate a piece for the first device, which must succeed, and free it. */
struct sm_pinned alloc(size_t size);
void give(struct sm_pinned memory);
/* Checks that everything was given back. */
void check_nothing_held(void);
/* Sleeps longer than the shortest decay. */
void pass_some_time(void);

#endif
