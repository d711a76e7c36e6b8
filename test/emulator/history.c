/*
 * The accesses of each allocation with which a later one may race, and the reports of races. An access leaves the
 * history once a later access stands for it: one that covers its bytes, is ordered after it, and races with all that it
 * races with.
 */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond this number accesses are forgotten or merged. That can only hide a race. */
#define MOST_ACCESSES 64

static bool conflict(const struct emu_access *one, const struct emu_access *other)
{
    return (one->write || other->write) && one->start < other->end && other->start < one->end;
}

/* A broken device runs nothing more. */
static bool is_broken(const struct emu_access *access)
{
    return access->device >= 0 && emu.devices[access->device].sticky != cudaSuccess;
}

/* The reverse order occurs if a host function announces its accesses late. */
static bool ordered(const struct emu_access *earlier, const struct emu_access *later)
{
    return emu_clock_before(earlier->clock, later->clock) || emu_clock_before(later->clock, earlier->clock) ||
           is_broken(earlier) || is_broken(later);
}

/* ---- Limiting its length ---- */

static void remove_at(struct emu_history *history, unsigned i)
{
    emu_clock_unref(history->accesses[i].clock);
    memmove(&history->accesses[i], &history->accesses[i + 1], (history->count - i - 1) * sizeof *history->accesses);
    history->count--;
}

/* Removes from the older access the bytes for which the newer one stands. Returns whether nothing is left. */
static bool replaced(struct emu_access *older, const struct emu_access *newer)
{
    if ((older->write && !newer->write) || older->start >= newer->end || newer->start >= older->end ||
        !emu_clock_before(older->clock, newer->clock))
        return false;
    if (newer->start <= older->start && newer->end >= older->end)
        return true;
    if (newer->start <= older->start)
        older->start = newer->end;
    else if (newer->end >= older->end)
        older->end = newer->start;
    return false;
}

static void drop_replaced(struct emu_history *history, const struct emu_access *newer)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < history->count; i++) {
        struct emu_access *access = &history->accesses[i];
        if (replaced(access, newer))
            emu_clock_unref(access->clock);
        else
            history->accesses[kept++] = *access;
    }
    history->count = kept;
}

static void drop_seen(struct emu_history *history)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < history->count; i++) {
        struct emu_access *access = &history->accesses[i];
        if (emu_all_hosts_saw(access->clock))
            emu_clock_unref(access->clock);
        else
            history->accesses[kept++] = *access;
    }
    history->count = kept;
}

/* Merges the oldest access with a neighbour in its lane, as if both were that old. Without a neighbour, drops it. */
static void merge_oldest(struct emu_history *history)
{
    struct emu_access *oldest = &history->accesses[0];
    for (unsigned i = 1; i < history->count; i++) {
        const struct emu_access *access = &history->accesses[i];
        if (access->clock->lane != oldest->clock->lane || access->write != oldest->write ||
            access->start > oldest->end || oldest->start > access->end)
            continue;
        if (access->start < oldest->start)
            oldest->start = access->start;
        if (access->end > oldest->end)
            oldest->end = access->end;
        remove_at(history, i);
        return;
    }
    remove_at(history, 0);
}

static void add(struct emu_history *history, const struct emu_access *access)
{
    drop_replaced(history, access);
    if (history->count >= MOST_ACCESSES)
        drop_seen(history);
    while (history->count >= MOST_ACCESSES)
        merge_oldest(history);
    if (history->count == history->room) {
        const unsigned room = history->room == 0 ? 2 : 2 * history->room;
        const size_t size = sizeof *history->accesses;
        history->accesses = emu_race_grow(history->accesses, history->room * size, room * size);
        history->room = room;
    }
    history->accesses[history->count] = *access;
    (void)emu_clock_ref(history->accesses[history->count].clock);
    history->count++;
}

void emu_history_clear(struct emu_history *history)
{
    for (unsigned i = 0; i < history->count; i++)
        emu_clock_unref(history->accesses[i].clock);
    emu_race_free(history->accesses, history->room * sizeof *history->accesses);
    *history = (struct emu_history){0};
}

/* ---- Finding and reporting ---- */

/* Copies of the accesses, as the originals may change during a report. */
struct pair {
    bool found;
    struct emu_access earlier, later;
    struct emu_origin born;
};

static void look(const struct emu_alloc *alloc, const struct emu_access *access, bool hosts_too, struct pair *pair)
{
    const struct emu_history *history = &alloc->history;
    for (unsigned i = 0; i < history->count && !pair->found; i++) {
        const struct emu_access *earlier = &history->accesses[i];
        if ((!hosts_too && earlier->device < 0) || !conflict(earlier, access) || ordered(earlier, access))
            continue;
        *pair = (struct pair){true, *earlier, *access, alloc->born};
    }
}

static const char *who(const struct emu_access *access, char *buffer, size_t size)
{
    if (access->device < 0)
        snprintf(buffer, size, "the host");
    else
        snprintf(buffer, size, "stream %llu of device %d", (unsigned long long)access->stream_id, access->device);
    return buffer;
}

static void report(const struct pair *pair)
{
    const struct emu_access *earlier = &pair->earlier, *later = &pair->later;
    char first[64], second[64], name[128];
    if (!pair->found)
        return;
    const char *named = emu_name_of((const void *)later->start, name, sizeof name);
    (void)emu_misuse("race: %s (%s, %s %p to %p) and %s (%s, %s %p to %p) are not ordered; the memory is from %s%s%s",
                     emu_describe(&later->origin), who(later, second, sizeof second), later->write ? "writes" : "reads",
                     (void *)later->start, (void *)later->end, emu_describe(&earlier->origin),
                     who(earlier, first, sizeof first), earlier->write ? "writes" : "reads", (void *)earlier->start,
                     (void *)earlier->end, emu_describe(&pair->born), named[0] ? ", of " : "", named);
}

/* ---- Accesses ---- */

static struct emu_access access_of(const struct emu_op *op, uintptr_t start, size_t size, bool write)
{
    return (struct emu_access){.start = start,
                               .end = start + size,
                               .write = write,
                               .device = op->device,
                               .stream_id = op->stream_id,
                               .origin = op->origin,
                               .clock = op->clock};
}

/* A prefetch does not race with accesses: it moves pages and changes no byte. */
void emu_race_accesses(struct emu_op *op)
{
    struct pair pair = {0};
    if (!emu_race_checks() || op->kind == EMU_OP_MARK)
        return;
    for (unsigned i = 0; i < op->use_count; i++) {
        const struct emu_use *use = &op->uses[i];
        const struct emu_access access = access_of(op, (uintptr_t)use->start, use->size, use->write);
        look(use->alloc, &access, true, &pair);
        add(&use->alloc->history, &access);
    }
    if (op->kind == EMU_OP_FREE) {
        const struct emu_access access = access_of(op, (uintptr_t)op->alloc->start, op->alloc->size, true);
        look(op->alloc, &access, true, &pair);
        emu_history_clear(&op->alloc->history);
    }
    report(&pair);
}

static struct emu_access host_access(uintptr_t start, size_t size, bool write)
{
    return (struct emu_access){.start = start,
                               .end = start + size,
                               .write = write,
                               .device = -1,
                               .origin = emu_self()->origin,
                               .clock = emu_host_clock()};
}

void emu_race_host_access(struct emu_alloc *alloc, const void *start, size_t size, bool write)
{
    struct emu_op *function = emu_self()->function;
    struct pair pair = {0};
    struct emu_access access;
    if (!emu_race_checks() || (function != NULL && function->clock == NULL))
        return;
    if (function != NULL) {
        access = access_of(function, (uintptr_t)start, size, write);
        access.origin = emu_self()->origin;
        (void)emu_clock_ref(access.clock);
    } else {
        access = host_access((uintptr_t)start, size, write);
    }
    look(alloc, &access, true, &pair);
    add(&alloc->history, &access);
    emu_clock_unref(access.clock);
    report(&pair);
}

void emu_race_host_free(struct emu_alloc *alloc)
{
    struct pair pair = {0};
    if (emu_race_checks()) {
        /* Unregistering does not change the host's memory. */
        const struct emu_access access = host_access((uintptr_t)alloc->start, alloc->size, true);
        look(alloc, &access, alloc->kind != EMU_REGISTERED, &pair);
        emu_clock_unref(access.clock);
    }
    emu_history_clear(&alloc->history);
    report(&pair);
}

void emu_race_uses_done(struct emu_alloc *alloc)
{
    for (unsigned i = 0; i < alloc->history.count; i++)
        if (alloc->history.accesses[i].device >= 0)
            emu_host_saw(emu_clock_ref(alloc->history.accesses[i].clock));
}
