/* A user allocator. It writes returned memory in the order in which it may be reused, for a runtime that searches for
 * races. It does not hand that memory out again. */
#include "heap.h"

#include "fixture.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static enum heap_place place_for(const struct heap *heap, bool confused)
{
    if (heap->managed)
        return HEAP_MANAGED;
    if (heap->of_device != confused)
        return HEAP_ON_DEVICE;
    return heap->pinned && !heap->lying ? HEAP_PINNED : HEAP_PAGEABLE;
}

static void *base_for(const struct heap_block *block, size_t room)
{
    switch (block->place) {
    case HEAP_ON_DEVICE:
        return gpu_alloc(block->device < 0 ? 0 : block->device, room);
    case HEAP_MANAGED:
        return gpu_managed_alloc(0, room);
    case HEAP_PINNED:
        return gpu_pinned_alloc(room);
    case HEAP_PAGEABLE:
        break;
    }
    return malloc(room);
}

static void release_base(const struct heap_block *block)
{
    if (block->place == HEAP_ON_DEVICE || block->place == HEAP_MANAGED)
        gpu_free(block->base);
    else if (block->place == HEAP_PINNED)
        gpu_pinned_free(block->base);
    else
        free(block->base);
}

/* Writes to memory before its first use and after its last. The contents do not matter, but the access shows races. */
static void scribble(struct heap *heap, const struct heap_block *block, synced_mem_stream stream)
{
    const int current = gpu_current_device();
    if (!heap->of_device && block->place != HEAP_ON_DEVICE) {
        host_fill(block->given, block->size, ++heap->patterns);
        return;
    }
    gpu_make_current(block->device < 0 ? 0 : block->device);
    gpu_fill(block->given, block->size, ++heap->patterns, stream);
    gpu_make_current(current);
}

static void *heap_alloc(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    struct heap *const heap = user;
    pthread_mutex_lock(&lock);
    void (*const during)(void) = heap->during;
    heap->during = NULL;
    heap->asked = size;
    const bool faulty =
        ++heap->calls >= heap->fails_at && heap->fails_at > 0 && heap->calls <= heap->fails_at + heap->more;
    const bool nothing = size > LARGEST || (faulty && heap->fault == HEAP_GIVES_NOTHING);
    struct heap_block *const block = &heap->blocks[heap->blocks_used];
    ck_assert_uint_lt(heap->blocks_used, HEAP_BLOCKS);
    if (!nothing) {
        *block = (struct heap_block){.size = size, .alignment = alignment, .device = device};
        block->place = place_for(heap, faulty && heap->fault == HEAP_CONFUSES);
        struct heap_block asked = *block;
        asked.device += faulty && heap->fault == HEAP_STRAYS;
        block->base = base_for(&asked, size + 2 * alignment);
        block->given = (char *)block->base + (0 - (uintptr_t)block->base) % alignment;
        block->given += faulty && heap->fault == HEAP_MISALIGNS ? 8 : 0;
        if (!faulty)
            scribble(heap, block, stream);
        heap->blocks_used++;
    }
    pthread_mutex_unlock(&lock);
    if (during)
        during();
    return nothing ? NULL : block->given;
}

static void heap_free(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    struct heap *const heap = user;
    pthread_mutex_lock(&lock);
    unsigned i = 0;
    while (i < heap->blocks_used && (heap->blocks[i].given != data || heap->blocks[i].freed))
        i++;
    ck_assert_uint_lt(i, heap->blocks_used);
    struct heap_block *const block = &heap->blocks[i];
    ck_assert_uint_eq(size, block->size);
    ck_assert_uint_eq(alignment, block->alignment);
    ck_assert_int_eq(device, block->device);
    if (!heap->of_device)
        ck_assert_ptr_null(stream);
    block->freed = true;
    heap->freed_on = stream;
    if (!heap->silent && (i + 1 != heap->fails_at || heap->fault == HEAP_GIVES_NOTHING))
        scribble(heap, block, stream);
    pthread_mutex_unlock(&lock);
}

synced_mem_allocator heap_table(struct heap *heap, bool of_device)
{
    heap->of_device = of_device;
    return (synced_mem_allocator){.struct_size = sizeof(synced_mem_allocator),
                                  .alloc = heap_alloc,
                                  .free = heap_free,
                                  .user = heap,
                                  .flags = heap->pinned ? SYNCED_MEM_ALLOCATOR_PINNED : 0};
}

unsigned heap_live(struct heap *heap)
{
    unsigned live = 0;
    for (unsigned i = 0; i < heap->blocks_used; i++)
        live += !heap->blocks[i].freed;
    return live;
}

void heap_forget(struct heap *heap)
{
    ck_assert_uint_eq(heap_live(heap), 0);
    for (unsigned i = 0; i < heap->blocks_used; i++)
        release_base(&heap->blocks[i]);
    heap->blocks_used = 0;
}

struct heaps heaps;

synced_mem *heaps_make(size_t size)
{
    const synced_mem_allocator cpu = heap_table(&heaps.host, false);
    const synced_mem_allocator gpu = heap_table(&heaps.device, true);
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.cpu_allocator = &cpu;
    options.gpu_allocator = &gpu;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

void heaps_end(void)
{
    OK(synced_mem_shutdown());
    heap_forget(&heaps.host);
    heap_forget(&heaps.device);
}
