/*
 * Transfers, as all rows of them are measured: objects of one size in a ring, of which some are moved at a time, by the
 * library and by its two references in turn. From 1 MiB to 64 MiB there are so many that the host's memory is read and
 * not its caches.
 */
#ifndef RING_H
#define RING_H

#include "report.h"

#include <stddef.h>

enum direction { UP, DOWN, DIRECTIONS };
enum who { OURS, LIMIT, CLASSIC, EVERYBODY };

/* Whether the objects have page-locked memory of the library's, or borrow pageable memory. */
enum host { PINNED, PAGEABLE };

struct ring;

/* One way of moving as many objects as are moved at a time, from the first of them on. */
struct mover {
    void (*prepare)(const struct ring *ring, int first, enum direction direction); /* not timed; or NULL */
    void (*start)(const struct ring *ring, int first, enum direction direction);
    void (*finish)(const struct ring *ring, int first,
                   enum direction direction); /* NULL: there is nothing to wait for */
};

extern const struct mover queued;          /* a push or a pull of each object on a stream, and a wait */
extern const struct mover in_one_call;     /* one of all of them */
extern const struct mover accessed;        /* gpu_data or cpu_data of each */
extern const struct mover bare_queued;     /* cudaMemcpyAsync of page-locked memory, and a wait */
extern const struct mover bare_batched;    /* one cudaMemcpyBatchAsync of page-locked memory, and a wait */
extern const struct mover copied;          /* cudaMemcpy of page-locked memory */
extern const struct mover pageable_copied; /* cudaMemcpy of pageable memory */

/* What a table of transfers is of. */
struct shape {
    const struct table *table;
    const struct table *calls; /* beside it the time for which the calls alone take the host; or NULL */
    enum host host;
    const struct mover *movers[EVERYBODY];
    enum direction directions[DIRECTIONS]; /* in the order they are started */
    int direction_count;
    int objects; /* at a time, in each direction */
    size_t least, most;
    bool needs_batches;                           /* of the runtime */
    void (*target)(struct row *row, size_t size); /* or NULL */
};

enum { MAX_SLOTS = 256 };

struct ring {
    const struct shape *shape;
    size_t size; /* of an object */
    int objects, slots;
    int steps; /* in a batch: how often they are moved before another way has its turn */
    int at[EVERYBODY];
    synced_mem *mems[MAX_SLOTS];
    char *pinned, *pageable, *device; /* a slot of each for every object */
    synced_mem_stream streams[DIRECTIONS];
    double calls[EVERYBODY][MAX_ROUNDS + 1]; /* of each batch: seconds of the calls alone, an object's */
    int batches[EVERYBODY];
};

/* All sizes of a shape. */
void measure_shape(const struct shape *shape);

/* One row of it. calls: what the calls alone took; or NULL. */
void measure_ring(const struct shape *shape, size_t size, struct row *row, struct summary calls[EVERYBODY]);

#endif
