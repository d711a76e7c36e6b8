/* The ways of transfer that the rows compare. */
#include "bare.h"
#include "ring.h"

static char *slot_of(const struct ring *ring, char *memory, int slot)
{
    return memory + (size_t)slot * ring->size;
}

/* ---- The library ---- */

/* Leaves the contents on one side only, as after work on them there. */
static void touch_on_stream(const struct ring *ring, int first, enum direction direction)
{
    for (int i = first; i < first + ring->objects; i++)
        must_work(direction == UP ? synced_mem_mutable_cpu_data(ring->mems[i]) != NULL
                                  : synced_mem_mutable_gpu_data_on(ring->mems[i], ring->streams[DOWN]) != NULL);
}

static void touch(const struct ring *ring, int first, enum direction direction)
{
    for (int i = first; i < first + ring->objects; i++)
        must_work(direction == UP ? synced_mem_mutable_cpu_data(ring->mems[i]) != NULL
                                  : synced_mem_mutable_gpu_data(ring->mems[i]) != NULL);
}

static void queue_each(const struct ring *ring, int first, enum direction direction)
{
    const synced_mem_stream stream = ring->streams[direction];
    for (int i = first; i < first + ring->objects; i++)
        must_work((direction == UP ? synced_mem_async_gpu_push(ring->mems[i], stream)
                                   : synced_mem_async_cpu_pull(ring->mems[i], stream)) == SYNCED_MEM_OK);
}

static void queue_all(const struct ring *ring, int first, enum direction direction)
{
    const synced_mem_stream stream = ring->streams[direction];
    synced_mem *const *const mems = ring->mems + first;
    const size_t count = (size_t)ring->objects;
    must_work((direction == UP ? synced_mem_async_gpu_push_n(mems, count, stream)
                               : synced_mem_async_cpu_pull_n(mems, count, stream)) == SYNCED_MEM_OK);
}

/* A pull into pageable memory may have left the stream before its bytes have arrived: the object knows. */
static void wait_for_them(const struct ring *ring, int first, enum direction direction)
{
    if (direction == UP || ring->shape->host == PINNED) {
        bare_wait(ring->streams[direction]);
        return;
    }
    for (int i = first; i < first + ring->objects; i++)
        must_work(synced_mem_cpu_data(ring->mems[i]) != NULL);
}

static void access_each(const struct ring *ring, int first, enum direction direction)
{
    for (int i = first; i < first + ring->objects; i++)
        must_work((direction == UP ? synced_mem_gpu_data(ring->mems[i]) : synced_mem_cpu_data(ring->mems[i])) != NULL);
}

const struct mover queued = {.prepare = touch_on_stream, .start = queue_each, .finish = wait_for_them};
const struct mover in_one_call = {.prepare = touch_on_stream, .start = queue_all, .finish = wait_for_them};
const struct mover accessed = {.prepare = touch, .start = access_each};

/* ---- The runtime's calls alone ---- */

static void queue_bare(const struct ring *ring, int first, enum direction direction)
{
    const synced_mem_stream stream = ring->streams[direction];
    for (int i = first; i < first + ring->objects; i++)
        if (direction == UP)
            bare_queue_up(slot_of(ring, ring->device, i), slot_of(ring, ring->pinned, i), ring->size, stream);
        else
            bare_queue_down(slot_of(ring, ring->pinned, i), slot_of(ring, ring->device, i), ring->size, stream);
}

/* Fills the arrays in each call. A program has them ready, or needs as little time for them. */
static void queue_batch(const struct ring *ring, int first, enum direction direction)
{
    void *to[MAX_SLOTS];
    const void *from[MAX_SLOTS];
    size_t sizes[MAX_SLOTS];
    for (int i = 0; i < ring->objects; i++) {
        char *const device = slot_of(ring, ring->device, first + i);
        char *const host = slot_of(ring, ring->pinned, first + i);
        to[i] = direction == UP ? device : host;
        from[i] = direction == UP ? host : device;
        sizes[i] = ring->size;
    }
    bare_queue_batch(to, from, sizes, (size_t)ring->objects, ring->streams[direction]);
}

static void wait_for_stream(const struct ring *ring, int first, enum direction direction)
{
    (void)first;
    bare_wait(ring->streams[direction]);
}

static void copy_each(const struct ring *ring, char *host, int first, enum direction direction)
{
    for (int i = first; i < first + ring->objects; i++)
        if (direction == UP)
            bare_copy_up(slot_of(ring, ring->device, i), slot_of(ring, host, i), ring->size);
        else
            bare_copy_down(slot_of(ring, host, i), slot_of(ring, ring->device, i), ring->size);
}

static void copy_pinned(const struct ring *ring, int first, enum direction direction)
{
    copy_each(ring, ring->pinned, first, direction);
}

static void copy_pageable(const struct ring *ring, int first, enum direction direction)
{
    copy_each(ring, ring->pageable, first, direction);
}

/* From pageable memory the call may return while the last bytes are still in the runtime's buffer. */
static void wait_if_up(const struct ring *ring, int first, enum direction direction)
{
    (void)ring;
    (void)first;
    if (direction == UP)
        bare_wait(NULL);
}

const struct mover bare_queued = {.start = queue_bare, .finish = wait_for_stream};
const struct mover bare_batched = {.start = queue_batch, .finish = wait_for_stream};
const struct mover copied = {.start = copy_pinned};
const struct mover pageable_copied = {.start = copy_pageable, .finish = wait_if_up};
