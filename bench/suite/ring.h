/*
 * The measurement of all rows of transfers. Objects of one size form a ring. The library and its two references
 * transfer some of them at a time, in turn. From 1 MiB to 64 MiB there are so many objects that the host's caches
 * cannot hold them.
 */
#ifndef RING_H
#define RING_H

#include "report.h"

#include <stddef.h>

enum direction { UP, DOWN, DIRECTIONS };
enum who { OURS, LIMIT, CLASSIC, EVERYBODY };

/* The objects' host memory: page-locked memory of the library, or borrowed pageable memory. */
enum host { PINNED, PAGEABLE };

struct ring;

/* One way to transfer the objects of one step, from the first of them on. */
struct mover {
    void (*prepare)(const struct ring *ring, int first, enum direction direction); /* not timed; or NULL */
    void (*start)(const struct ring *ring, int first, enum direction direction);
    void (*finish)(const struct ring *ring, int first, enum direction direction); /* NULL: no wait is needed */
    void (*end)(void); /* after each batch, not timed; or NULL */
};

extern const struct mover queued;          /* a push or a pull of each object on a stream, and a wait */
extern const struct mover in_one_call;     /* one push or pull of all objects */
extern const struct mover accessed;        /* gpu_data or cpu_data of each */
extern const struct mover bare_queued;     /* cudaMemcpyAsync of page-locked memory, and a wait */
extern const struct mover bare_batched;    /* one cudaMemcpyBatchAsync of page-locked memory, and a wait */
extern const struct mover copied;          /* cudaMemcpy of page-locked memory */
extern const struct mover pageable_copied; /* cudaMemcpy of pageable memory */
extern const struct mover pushed_by_hand;  /* a push of pageable memory of at most 64 MiB by threads, and a wait */

/* The contents of a table of transfers. */
struct shape {
    const struct table *table;
    const struct table *calls; /* a second table: the host's time in the calls alone; or NULL */
    enum host host;
    const struct mover *movers[EVERYBODY];
    enum direction directions[DIRECTIONS]; /* in the order of their start */
    int direction_count;
    int objects; /* in one step, in each direction */
    size_t least, most;
    bool needs_batches;                           /* runtime and driver must have batches */
    void (*target)(struct row *row, size_t size); /* or NULL */
};

enum { MAX_SLOTS = 256 };

struct ring {
    const struct shape *shape;
    size_t size; /* of an object */
    int objects, slots;
    int steps; /* of a batch, before another way has its turn */
    int at[EVERYBODY];
    synced_mem *mems[MAX_SLOTS];
    char *pinned, *pageable, *device; /* each has a slot for every object */
    synced_mem_stream streams[DIRECTIONS];
    double calls[EVERYBODY][MAX_ROUNDS + 1]; /* of each batch: seconds of the calls alone, for an object */
    int batches[EVERYBODY];
};

/* Measures all sizes of a shape. */
void measure_shape(const struct shape *shape);

/* Measures one row of a shape. calls: receives the times of the calls alone, or NULL. */
void measure_ring(const struct shape *shape, size_t size, struct row *row, struct summary calls[EVERYBODY]);

#endif
