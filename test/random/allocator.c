/*
 * User allocators. Memory is written before the library can use it, and again before it is reused after the free. The
 * writes are in the order that the allocator and the library promise each other. So work out of that order is detected.
 */
#include "world.h"

#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GARBAGE = 0x5A, CHUNK = 4096, ALIGNMENT = 4096, CACHED = 24 };

struct piece {
    void *base; /* the runtime's address */
    unsigned char *data;
    size_t size, alignment;
    int device; /* the requested device; -1: none */
    bool of_device, pinned;
    struct piece *next;
};

/* Small pieces of device memory are kept, behind the work that was queued when they were freed. */
struct chunk {
    void *base;
    bool clean; /* no work is queued on it */
};

static struct {
    pthread_mutex_t lock;
    struct piece *first;
    struct chunk kept[DEVICES][CACHED];
    int count[DEVICES];
} allocators = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Records of allocations ---- */

static void *remember(struct piece wanted)
{
    struct piece *const piece = malloc(sizeof *piece);
    if (!piece || !wanted.base)
        fail("a user allocator of the test has no memory");
    *piece = wanted;
    piece->data = (unsigned char *)wanted.base + (0 - (uintptr_t)wanted.base) % wanted.alignment;
    (void)pthread_mutex_lock(&allocators.lock);
    piece->next = allocators.first;
    allocators.first = piece;
    (void)pthread_mutex_unlock(&allocators.lock);
    return piece->data;
}

static struct piece forget(const void *data, size_t size, size_t alignment, int device, bool of_device)
{
    (void)pthread_mutex_lock(&allocators.lock);
    struct piece **link = &allocators.first;
    while (*link && ((*link)->data != data || (*link)->of_device != of_device))
        link = &(*link)->next;
    struct piece *const piece = *link;
    if (!piece)
        fail("an allocator's free got %p, which it has not allocated", data);
    *link = piece->next;
    (void)pthread_mutex_unlock(&allocators.lock);
    const struct piece found = *piece;
    free(piece);
    if (found.size != size || found.alignment != alignment || found.device != device)
        fail("an allocator's free got %zu bytes, aligned to %zu, of device %d; allocated: %zu, %zu, %d", size,
             alignment, device, found.size, found.alignment, found.device);
    return found;
}

/* ---- Host memory ---- */

static void *host_alloc(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    const bool pinned = user != NULL;
    const size_t least = alignment > sizeof(void *) ? alignment : sizeof(void *);
    void *const base =
        pinned ? gpu_pinned_alloc(size + alignment) : aligned_alloc(least, (size + least - 1) / least * least);
    if (stream)
        fail("an allocator of host memory got a stream");
    void *const data = remember(
        (struct piece){.base = base, .size = size, .alignment = alignment, .device = device, .pinned = pinned});
    gpu_note_host_write(data, size);
    memset(data, GARBAGE, size);
    return data;
}

static void host_free(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    const struct piece piece = forget(data, size, alignment, device, false);
    if (stream || piece.pinned != (user != NULL))
        fail("an allocator of host memory got a stream, or memory of another allocator");
    gpu_note_host_write(data, size);
    memset(data, GARBAGE, size);
    if (piece.pinned)
        gpu_pinned_free(piece.base);
    else
        free(piece.base);
}

/* ---- Device memory ---- */

static void fill_garbage(void *data, size_t size, int device, synced_mem_stream stream)
{
    const int current = gpu_current_device();
    gpu_make_current(device);
    gpu_fill(data, size, GARBAGE, stream);
    gpu_make_current(current);
}

static bool is_small(size_t size, size_t alignment)
{
    return size <= CHUNK && alignment <= ALIGNMENT;
}

/* Takes the piece that was freed first. A wait for one covers the work on all. */
static void *take_chunk(int device)
{
    struct chunk *const kept = allocators.kept[device];
    if (allocators.count[device] < CACHED / 2)
        return gpu_alloc(device, CHUNK + ALIGNMENT);
    if (!kept[0].clean) {
        gpu_sync_device(device);
        ref_device_synced(device);
        for (int i = 0; i < allocators.count[device]; i++)
            kept[i].clean = true;
    }
    void *const base = kept[0].base;
    allocators.count[device]--;
    memmove(kept, kept + 1, (size_t)allocators.count[device] * sizeof *kept);
    return base;
}

/* Returns memory that is usable by work queued on the stream from now on. */
static void *device_alloc(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)user;
    if (device < 0 || device >= machine.devices)
        fail("an allocator got a request for memory of device %d", device);
    void *const base = is_small(size, alignment) ? take_chunk(device) : gpu_alloc(device, size + alignment);
    void *const data = remember(
        (struct piece){.base = base, .size = size, .alignment = alignment, .device = device, .of_device = true});
    fill_garbage(data, size, device, stream);
    return data;
}

/* Takes back memory that is usable by work queued on the stream from now on. NULL would mean a lost device. */
static void device_free(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)user;
    const struct piece piece = forget(data, size, alignment, device, true);
    if (!stream)
        fail("device memory was freed without a stream");
    fill_garbage(data, size, device, stream);
    if (is_small(size, alignment) && allocators.count[device] < CACHED) {
        allocators.kept[device][allocators.count[device]++] = (struct chunk){.base = piece.base};
    } else {
        gpu_stream_sync(stream);
        gpu_free(piece.base);
    }
}

/* ---- For objects ---- */

const synced_mem_allocator *allocator_of_host(bool pinned)
{
    static const synced_mem_allocator pageable = {
        .struct_size = sizeof pageable, .alloc = host_alloc, .free = host_free};
    static const synced_mem_allocator page_locked = {.struct_size = sizeof page_locked,
                                                     .alloc = host_alloc,
                                                     .free = host_free,
                                                     .user = &allocators,
                                                     .flags = SYNCED_MEM_ALLOCATOR_PINNED};
    return pinned ? &page_locked : &pageable;
}

const synced_mem_allocator *allocator_of_device(void)
{
    static const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = device_alloc, .free = device_free};
    return &allocator;
}

void allocators_unmake(void)
{
    if (allocators.first)
        fail("an allocator did not get its memory back");
    for (int device = 0; device < machine.devices; device++)
        while (allocators.count[device] > 0)
            gpu_free(allocators.kept[device][--allocators.count[device]].base);
}
