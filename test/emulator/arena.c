/*
 * Address space. A device's memory is a file that is mapped twice. No thread may touch the mapping that the program
 * sees; the emulator reads and writes the other one. Host memory of the runtime has one mapping, accessible while it is
 * allocated. Spans come in size classes, four to each power of two. The span freed last is handed out first, so that a
 * late use of freed memory collides with the next owner's.
 */
#include "emu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One for each device and for the host, and one for reserved addresses. All fit into the address space that
 * ThreadSanitizer leaves to a program. Valgrind leaves less: each is as large as the system permits, down to the
 * least. */
#define ARENA_SIZE ((size_t)32 << 30)
#define RESERVED_SIZE ((size_t)128 << 30)
#define LEAST_SIZE ((size_t)1 << 30)
#define DEVICE_GRANULE ((size_t)512)
#define HOST_GRANULE ((size_t)4096)
/* Freed memory of at least this size is given back to the system instead of filled. */
#define RETURN_SIZE ((size_t)1 << 20)

static unsigned floor_log2(size_t value)
{
    return 63 - (unsigned)__builtin_clzll(value);
}

size_t emu_size_class(size_t size, size_t granule, size_t *span)
{
    size_t units = (size + granule - 1) / granule;
    unsigned log2 = floor_log2(units);
    if (log2 >= 2) {
        const size_t step = (size_t)1 << (log2 - 2);
        units = (units + step - 1) / step * step;
        log2 = floor_log2(units);
    }
    *span = units * granule;
    return log2 < 2 ? units : 4 * log2 + (units >> (log2 - 2)) - 4;
}

static size_t granule_of(const struct emu_arena *arena)
{
    static const size_t granules[] = {
        [EMU_ARENA_DEVICE] = DEVICE_GRANULE, [EMU_ARENA_HOST] = HOST_GRANULE, [EMU_ARENA_RESERVED] = EMU_GRANULARITY};
    return granules[arena->kind];
}

/* Maps address space that begins at a multiple of the granularity. NULL: there is none. */
static char *map_arena(size_t size, int protection, int sharing, int file)
{
    char *mapped = mmap(NULL, size + EMU_GRANULARITY, PROT_NONE, MAP_NORESERVE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    char *start = mapped + (EMU_GRANULARITY - (uintptr_t)mapped % EMU_GRANULARITY) % EMU_GRANULARITY;
    char *end = start + size;
    if (start > mapped)
        munmap(mapped, (size_t)(start - mapped));
    munmap(end, (size_t)(mapped + size + EMU_GRANULARITY - end));
    if (mmap(start, size, protection, MAP_FIXED | MAP_NORESERVE | sharing, file, 0) == MAP_FAILED)
        return NULL;
    emu_pages_leave_out_of_dumps(start, size);
    return start;
}

static bool map_both(struct emu_arena *arena)
{
    const bool device = arena->kind == EMU_ARENA_DEVICE;
    const int sharing = device ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    char *address = map_arena(arena->size, PROT_NONE, sharing, arena->file);
    if (address == NULL)
        return false;
    char *bytes = arena->kind == EMU_ARENA_HOST
                      ? address
                      : map_arena(arena->size, device ? PROT_READ | PROT_WRITE : PROT_NONE, sharing, arena->file);
    if (bytes == NULL) {
        munmap(address, arena->size);
        return false;
    }
    arena->address = address;
    arena->bytes = bytes;
    return true;
}

static bool open_arena(struct emu_arena *arena, enum emu_arena_kind kind)
{
    const bool device = kind == EMU_ARENA_DEVICE;
    if (arena->freed == NULL)
        arena->freed = calloc(EMU_CLASSES, sizeof *arena->freed);
    arena->kind = kind;
    arena->size = kind == EMU_ARENA_RESERVED ? RESERVED_SIZE : ARENA_SIZE;
    arena->file = device ? emu_file_make() : -1;
    arena->top = 0;
    if (arena->freed == NULL || (device && (arena->file < 0 || ftruncate(arena->file, (off_t)arena->size) != 0)))
        return false;
    while (!map_both(arena))
        if ((arena->size /= 2) < LEAST_SIZE)
            return false;
    return true;
}

static struct emu_arena *opened(struct emu_arena *arena, enum emu_arena_kind kind)
{
    return arena->address != NULL || open_arena(arena, kind) ? arena : NULL;
}

struct emu_arena *emu_device_arena(int device)
{
    return opened(&emu.devices[device].arena, EMU_ARENA_DEVICE);
}

struct emu_arena *emu_host_arena(void)
{
    return opened(&emu.host, EMU_ARENA_HOST);
}

struct emu_arena *emu_reserved_arena(void)
{
    return opened(&emu.reserved, EMU_ARENA_RESERVED);
}

/* Makes host memory accessible. */
static void open_span(struct emu_arena *arena, char *start, size_t span)
{
    if (arena->kind == EMU_ARENA_HOST)
        (void)mprotect(start, span, PROT_READ | PROT_WRITE);
}

char *emu_span_take(struct emu_arena *arena, size_t size)
{
    if (arena == NULL || size > arena->size / 2)
        return NULL;
    size_t span;
    struct emu_spans *freed = &arena->freed[emu_size_class(size, granule_of(arena), &span)];
    size_t offset = arena->top;
    if (freed->count > 0)
        offset = freed->offsets[--freed->count];
    else if (span > arena->size - arena->top)
        return NULL;
    else
        arena->top += span;
    open_span(arena, arena->address + offset, span);
    return arena->address + offset;
}

void emu_poison(struct emu_arena *arena, char *start, size_t span)
{
    const size_t offset = (size_t)(start - arena->address);
    if (arena->kind == EMU_ARENA_HOST) {
        /* A late access faults. If the system refuses, it reads the poison. */
        if (span < RETURN_SIZE || !emu_pages_release(start, span))
            memset(start, EMU_STALE, span);
        (void)mprotect(start, span, PROT_NONE);
    } else if (span < RETURN_SIZE || !emu_file_release(arena->file, offset, span)) {
        memset(arena->bytes + offset, EMU_STALE, span);
    }
}

void emu_span_give(struct emu_arena *arena, char *start, size_t size)
{
    size_t span;
    struct emu_spans *freed = &arena->freed[emu_size_class(size, granule_of(arena), &span)];
    if (arena->kind != EMU_ARENA_RESERVED)
        emu_poison(arena, start, span);
    if (freed->count == freed->room) {
        const size_t room = freed->room == 0 ? 16 : 2 * freed->room;
        size_t *offsets = realloc(freed->offsets, room * sizeof *offsets);
        if (offsets == NULL)
            return;
        freed->offsets = offsets;
        freed->room = room;
    }
    freed->offsets[freed->count++] = (size_t)(start - arena->address);
}

/* A forked process shares the mappings with its parent, so new mappings replace them. */
static void reset_arena(struct emu_arena *arena)
{
    for (size_t i = 0; arena->freed != NULL && i < EMU_CLASSES; i++)
        arena->freed[i].count = 0;
    if (arena->address == NULL)
        return;
    munmap(arena->address, arena->size);
    if (arena->kind != EMU_ARENA_HOST)
        munmap(arena->bytes, arena->size);
    if (arena->file >= 0)
        close(arena->file);
    arena->address = arena->bytes = NULL;
    arena->top = 0;
}

void emu_arenas_reset(void)
{
    for (int device = 0; device < EMU_MAX_DEVICES; device++)
        reset_arena(&emu.devices[device].arena);
    reset_arena(&emu.host);
    reset_arena(&emu.reserved);
}

static bool arena_has(const struct emu_arena *arena, const void *address, size_t *offset)
{
    *offset = (uintptr_t)address - (uintptr_t)arena->address;
    return arena->address != NULL && *offset < arena->top;
}

char *emu_bytes(const void *address)
{
    size_t offset;
    for (int device = 0; device < emu.device_count; device++) {
        const struct emu_arena *arena = &emu.devices[device].arena;
        if (arena_has(arena, address, &offset))
            return arena->bytes + offset;
    }
    if (arena_has(&emu.reserved, address, &offset))
        return emu.reserved.bytes + offset;
    return (char *)(uintptr_t)address;
}

bool emu_is_device_address(const void *address)
{
    size_t offset;
    for (int device = 0; device < emu.device_count; device++)
        if (arena_has(&emu.devices[device].arena, address, &offset))
            return true;
    return arena_has(&emu.reserved, address, &offset);
}
