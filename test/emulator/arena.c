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

/* One for each device and for the host. All fit into the address space that ThreadSanitizer leaves to a program. */
#define ARENA_SIZE ((size_t)32 << 30)
#define DEVICE_GRANULE ((size_t)512)
#define HOST_GRANULE ((size_t)4096)
/* Freed memory of at least this size is given back to the system instead of filled. */
#define RETURN_SIZE ((size_t)1 << 20)

static unsigned floor_log2(size_t value)
{
    return (unsigned)(8 * sizeof value - 1) - (unsigned)__builtin_clzl(value);
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
    return arena->file >= 0 ? DEVICE_GRANULE : HOST_GRANULE;
}

static bool open_arena(struct emu_arena *arena, bool host)
{
    if (arena->freed == NULL)
        arena->freed = calloc(EMU_CLASSES, sizeof *arena->freed);
    arena->file = host ? -1 : memfd_create("cudart_emu", MFD_CLOEXEC);
    if (arena->freed == NULL || (!host && (arena->file < 0 || ftruncate(arena->file, (off_t)ARENA_SIZE) != 0)))
        return false;
    const int sharing = MAP_NORESERVE | (host ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void *address = mmap(NULL, ARENA_SIZE, PROT_NONE, sharing, arena->file, 0);
    void *bytes = host ? address : mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE, sharing, arena->file, 0);
    if (address == MAP_FAILED || bytes == MAP_FAILED)
        return false;
    madvise(address, ARENA_SIZE, MADV_DONTDUMP);
    madvise(bytes, ARENA_SIZE, MADV_DONTDUMP);
    arena->address = address;
    arena->bytes = bytes;
    arena->top = 0;
    return true;
}

struct emu_arena *emu_device_arena(int device)
{
    struct emu_arena *arena = &emu.devices[device].arena;
    return arena->address != NULL || open_arena(arena, false) ? arena : NULL;
}

struct emu_arena *emu_host_arena(void)
{
    return emu.host.address != NULL || open_arena(&emu.host, true) ? &emu.host : NULL;
}

/* Makes host memory accessible. */
static void open_span(struct emu_arena *arena, char *start, size_t span)
{
    if (arena->file < 0)
        (void)mprotect(start, span, PROT_READ | PROT_WRITE);
}

char *emu_span_take(struct emu_arena *arena, size_t size)
{
    if (arena == NULL || size > ARENA_SIZE / 2)
        return NULL;
    size_t span;
    struct emu_spans *freed = &arena->freed[emu_size_class(size, granule_of(arena), &span)];
    size_t offset = arena->top;
    if (freed->count > 0)
        offset = freed->offsets[--freed->count];
    else if (span > ARENA_SIZE - arena->top)
        return NULL;
    else
        arena->top += span;
    open_span(arena, arena->address + offset, span);
    return arena->address + offset;
}

void emu_poison(struct emu_arena *arena, char *start, size_t span)
{
    const size_t offset = (size_t)(start - arena->address);
    if (arena->file < 0) {
        /* A late access faults. If the system refuses, it reads the poison. */
        if (span < RETURN_SIZE || madvise(start, span, MADV_DONTNEED) != 0)
            memset(start, EMU_STALE, span);
        (void)mprotect(start, span, PROT_NONE);
    } else if (span < RETURN_SIZE ||
               fallocate(arena->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)span) != 0) {
        memset(arena->bytes + offset, EMU_STALE, span);
    }
}

void emu_span_give(struct emu_arena *arena, char *start, size_t size)
{
    size_t span;
    struct emu_spans *freed = &arena->freed[emu_size_class(size, granule_of(arena), &span)];
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
    munmap(arena->address, ARENA_SIZE);
    if (arena->file >= 0) {
        munmap(arena->bytes, ARENA_SIZE);
        close(arena->file);
    }
    arena->address = arena->bytes = NULL;
    arena->top = 0;
}

void emu_arenas_reset(void)
{
    for (int device = 0; device < EMU_MAX_DEVICES; device++)
        reset_arena(&emu.devices[device].arena);
    reset_arena(&emu.host);
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
    return (char *)(uintptr_t)address;
}

bool emu_is_device_address(const void *address)
{
    size_t offset;
    for (int device = 0; device < emu.device_count; device++)
        if (arena_has(&emu.devices[device].arena, address, &offset))
            return true;
    return false;
}
