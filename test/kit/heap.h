/* A user allocator for tests. It records its blocks, and can be made to misbehave. */
#ifndef HEAP_H
#define HEAP_H

#include "synced_mem.h"

#include <pthread.h>
#include <stdbool.h>

enum { HEAP_BLOCKS = 256 };

enum heap_fault {
    HEAP_GIVES_NOTHING,
    HEAP_MISALIGNS, /* by eight bytes */
    HEAP_CONFUSES,  /* gives memory of the wrong side, host or device */
    HEAP_STRAYS     /* gives memory of the next device */
};

struct heap {
    bool of_device;
    bool pinned;       /* its flags say that its memory is page-locked */
    bool lying;        /* but the memory is not */
    bool managed;      /* gives managed memory */
    unsigned patterns; /* the last pattern that was written to memory */
    unsigned calls;    /* of alloc */
    unsigned fails_at; /* the number of the call that fails; 0: none */
    unsigned more;     /* the number of calls after it that fail too */
    enum heap_fault fault;
    size_t asked; /* the size of the last request */
    bool silent;  /* makes no calls of the runtime when memory comes back */
    synced_mem_stream freed_on;
    void (*during)(void); /* called by the next call of alloc */
    unsigned blocks_used;
    struct heap_block {
        char *given;
        void *base;
        size_t size;
        size_t alignment;
        int device;
        enum heap_place { HEAP_PAGEABLE, HEAP_PINNED, HEAP_MANAGED, HEAP_ON_DEVICE } place;
        bool freed;
    } blocks[HEAP_BLOCKS];
};

/* Returns the allocator's table. The heap must have nothing allocated. */
synced_mem_allocator heap_table(struct heap *heap, bool of_device);

/* Returns how many blocks are handed out. */
unsigned heap_live(struct heap *heap);
/* Frees all memory and records. No block may be handed out. */
void heap_forget(struct heap *heap);
/* One heap for each side, and a function that creates an object with both. */
extern struct heaps {
    struct heap host, device;
} heaps;
synced_mem *heaps_make(size_t size);
/* Ends a test: shuts the library down, and checks that no block is handed out. */
void heaps_end(void);

#endif
