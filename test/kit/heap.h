/* An allocator as a caller might bring: it keeps books, and can be made to misbehave. */
#ifndef HEAP_H
#define HEAP_H

#include "synced_mem.h"

#include <pthread.h>
#include <stdbool.h>

enum { HEAP_BLOCKS = 256 };

enum heap_fault {
    HEAP_GIVES_NOTHING,
    HEAP_MISALIGNS, /* by eight bytes */
    HEAP_CONFUSES,  /* memory of the host with that of a device */
    HEAP_STRAYS     /* memory of the next device */
};

struct heap {
    bool of_device;
    bool pinned;       /* says that its memory is page-locked */
    bool lying;        /* but it is not */
    bool managed;      /* gives managed memory */
    unsigned patterns; /* the last one that memory was filled with */
    unsigned calls;    /* of alloc */
    unsigned fails_at; /* which of them has the fault; 0: none */
    unsigned more;     /* so many after it have it too */
    enum heap_fault fault;
    size_t asked; /* by the last call */
    bool silent;  /* makes no calls of the runtime when memory comes back */
    synced_mem_stream freed_on;
    void (*during)(void); /* called by the next alloc */
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

/* Its table; with the heap in a state in which nothing was allocated. */
synced_mem_allocator heap_table(struct heap *heap, bool of_device);

/* How many blocks are given out. */
unsigned heap_live(struct heap *heap);
/* Once nothing is given out: takes up no more memory, and forgets what it had. */
void heap_forget(struct heap *heap);
/* One for each side, and an object that has them. */
extern struct heaps {
    struct heap host, device;
} heaps;
synced_mem *heaps_make(size_t size);
/* At the end of a test: shuts the library down, after which nothing may be given out. */
void heaps_end(void);

#endif
