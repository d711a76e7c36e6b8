/* Guards: which ranges of host memory are protected, and against what. */
#include "memory/guard.h"

#include "base/caller.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/text.h"
#include "memory/guard_edges.h"
#include "memory/pinned/tlsf.h"
#include "system/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory up to SHARED_PAGES bytes may share its pages in the pool; larger memory has whole granules. */
enum { SHARED_PAGES = 16384, GUARDS = 256, BUCKETS = 1024, NOTICE = 400 };

/* Each guard may add two mappings to the process. Linux limits these to 65530. */
enum { MOST_GUARDS = 16384 };

struct chunk {
    struct sm_guard guards[GUARDS];
    struct chunk *next;
};

/* Chunks are added and never freed, so that the signal handler can read them at any time. */
static struct {
    struct sm_lock lock;
    _Atomic(struct chunk *) chunks;
    struct sm_guard *free;
    struct sm_guard *buckets[BUCKETS];
    size_t page;
    size_t used;         /* guards */
    bool off;            /* nothing is protected any more */
    bool noted;          /* there was a notice about unprotected memory */
    char notice[NOTICE]; /* printed after unlocking */
} guards = {.lock = SM_LOCK_INITIALIZER};

/* Returns the guard that protects the address, or NULL. Safe in a signal handler. */
static const struct sm_guard *find_guard_at(uintptr_t address)
{
    for (const struct chunk *chunk = atomic_load(&guards.chunks); chunk; chunk = chunk->next)
        for (int i = 0; i < GUARDS; i++) {
            const struct sm_guard *const guard = &chunk->guards[i];
            const bool has_edges = atomic_load(&guard->has_edges);
            const uintptr_t start = atomic_load(has_edges ? &guard->first : &guard->start);
            const uintptr_t end = atomic_load(has_edges ? &guard->past : &guard->end);
            if (atomic_load(&guard->protection) != SM_PROTECT_NOTHING && start <= address && address < end)
                return guard;
        }
    return NULL;
}

void sm_guard_start(void)
{
    guards.page = sm_page_size();
    sm_guard_catch_faults(find_guard_at);
    sm_caller_want();
    atomic_store_explicit(&sm_process.is_guarded, true, memory_order_relaxed);
}

size_t sm_guard_whole_pages(size_t bytes)
{
    return (bytes > SHARED_PAGES ? bytes : SHARED_PAGES) / SM_TLSF_GRANULE * SM_TLSF_GRANULE + SM_TLSF_GRANULE;
}

/* ---- With the lock held ---- */

static struct sm_guard **get_guard_bucket(const void *key)
{
    return &guards.buckets[sm_hash((uintptr_t)key) >> 54];
}

static struct sm_guard *find_guard(const void *key)
{
    struct sm_guard *guard = *get_guard_bucket(key);
    while (guard && guard->key != key)
        guard = guard->next;
    return guard;
}

static bool add_guard_chunk(void)
{
    struct chunk *const chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return false;
    for (int i = 0; i < GUARDS; i++) {
        chunk->guards[i].next = guards.free;
        guards.free = &chunk->guards[i];
    }
    chunk->next = atomic_load_explicit(&guards.chunks, memory_order_relaxed);
    atomic_store(&guards.chunks, chunk);
    return true;
}

static void note_unprotected(const struct sm_guard *guard, const char *why)
{
    sm_count_up(SM_COUNT_unprotected, 1);
    if (!guards.noted)
        (void)snprintf(guards.notice, sizeof guards.notice,
                       "synced_mem: SYNCED_MEM_DEBUG: the host copy of '%s' (%zu bytes) is not protected, as %s; "
                       "synced_mem_print_stats() counts all such copies\n",
                       guard->name, guard->size, why);
    guards.noted = true;
}

static bool change_edges(struct sm_guard *guard, enum sm_protection protection)
{
    const enum sm_protection before = guard->edges;
    guard->edges = protection;
    return !guard->has_edges || sm_edges_change(guard->first, guard->past, guards.page, before, protection);
}

static bool change_protection(struct sm_guard *guard, enum sm_protection protection)
{
    const uintptr_t start = atomic_load_explicit(&guard->start, memory_order_relaxed);
    const uintptr_t end = atomic_load_explicit(&guard->end, memory_order_relaxed);
    const bool done = start == end || sm_pages_protect((void *)start, end - start, protection);
    return change_edges(guard, protection) && done;
}

static enum sm_protection get_protection(const struct sm_guard *guard)
{
    return (enum sm_protection)atomic_load_explicit(&guard->protection, memory_order_relaxed);
}

static bool try_open_guard(struct sm_guard *guard)
{
    if (get_protection(guard) == SM_PROTECT_NOTHING)
        return true;
    if (!change_protection(guard, SM_PROTECT_NOTHING))
        return false;
    atomic_store(&guard->protection, SM_PROTECT_NOTHING);
    return true;
}

/* Opens all guards and turns protection off, since the system has no mapping left. Opening a part of a mapping would
 * need one more. But a mapping that opens may merge with its neighbours. So all are tried again while any succeeds. */
static void open_all_guards(void)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (struct chunk *chunk = atomic_load(&guards.chunks); chunk; chunk = chunk->next)
            for (int i = 0; i < GUARDS; i++) {
                struct sm_guard *const guard = &chunk->guards[i];
                const bool was_closed = guard->key && get_protection(guard) != SM_PROTECT_NOTHING;
                changed = (was_closed && try_open_guard(guard)) || changed;
                guard->hopeless = true;
            }
    }
    guards.off = true;
}

static void open_guard(struct sm_guard *guard)
{
    guard->lifted = SM_PROTECT_NOTHING;
    if (try_open_guard(guard))
        return;
    note_unprotected(guard, "the system refuses to lift a protection");
    open_all_guards();
}

/* Records the cause of the protection. The handler may read it meanwhile. */
static void record_cause(struct sm_guard *guard)
{
    struct sm_by by;
    sm_by_caller(&by);
    atomic_store(&guard->since, by.function);
    atomic_store(&guard->place, by.place);
    for (size_t i = 0; i < sizeof by.scope; i++)
        atomic_store_explicit(&guard->scope[i], by.scope[i], memory_order_relaxed);
}

static void close_guard(struct sm_guard *guard, enum sm_protection protection)
{
    guard->lifted = SM_PROTECT_NOTHING;
    atomic_store(&guard->protection, (unsigned char)protection);
    if (change_protection(guard, protection))
        return;
    note_unprotected(guard, "the system refuses it");
    guard->hopeless = true;
    if (!try_open_guard(guard)) /* a part of it may be closed */
        open_all_guards();
}

static void set_protection(struct sm_guard *guard, enum sm_protection protection)
{
    guard->lifted = SM_PROTECT_NOTHING;
    if (guard->hopeless || get_protection(guard) == protection)
        return;
    if (protection == SM_PROTECT_NOTHING) {
        open_guard(guard);
    } else {
        record_cause(guard);
        close_guard(guard, protection);
    }
}

/* Opens the guard until close_again(). */
static void open_for_now(struct sm_guard *guard)
{
    const enum sm_protection before = get_protection(guard);
    const enum sm_protection lifted = before != SM_PROTECT_NOTHING ? before : guard->lifted;
    open_guard(guard);
    guard->lifted = lifted;
}

static void close_again(struct sm_guard *guard)
{
    if (guard->lifted != SM_PROTECT_NOTHING && !guard->hopeless)
        close_guard(guard, guard->lifted);
}

static void drop_edges(struct sm_guard *guard)
{
    if (!guard->has_edges)
        return;
    (void)change_edges(guard, SM_PROTECT_NOTHING);
    sm_edges_remove(guard->first, guard->past, guards.page);
    atomic_store(&guard->has_edges, false);
}

static void give_up_guard(struct sm_guard *guard, const char *why)
{
    if (guard->hopeless)
        return;
    open_guard(guard);
    drop_edges(guard);
    guard->hopeless = true;
    note_unprotected(guard, why);
}

/* Returns whether the guard's pages overlap the bytes from first to past. */
static bool overlaps_bytes(const struct sm_guard *one, uintptr_t first, uintptr_t past)
{
    return one->start < past && first < one->end;
}

static void give_up_overlapping_guards(struct sm_guard *with)
{
    bool any = false;
    for (struct chunk *chunk = atomic_load(&guards.chunks); chunk; chunk = chunk->next)
        for (int i = 0; i < GUARDS; i++) {
            struct sm_guard *const guard = &chunk->guards[i];
            if (guard == with || !guard->key ||
                (!overlaps_bytes(guard, with->first, with->past) && !overlaps_bytes(with, guard->first, guard->past)))
                continue;
            give_up_guard(guard, "another object has the same memory");
            any = true;
        }
    if (any)
        give_up_guard(with, "another object has the same memory");
}

bool sm_guard_pool_has_pages(void)
{
    return guards.page <= SM_TLSF_GRANULE;
}

/* Sets the pages to protect. If the range is not alone on its pages, these are only the pages that lie inside it. */
static void set_pages(struct sm_guard *guard, const struct sm_guarded *range)
{
    const size_t page = guards.page;
    const uintptr_t data = (uintptr_t)range->base;
    const uintptr_t start = (data + page - 1) / page * page;
    const bool to_the_end = range->alone || (range->in_parts && range->is_last);
    const uintptr_t end = (data + range->bytes + (to_the_end ? page - 1 : 0)) / page * page;
    guard->first = data;
    guard->past = range->in_parts && range->is_last ? end : data + range->bytes;
    atomic_store(&guard->start, start);
    atomic_store(&guard->end, end > start ? end : start);
}

static void set_name(struct sm_guard *guard, const struct sm_guarded *range)
{
    const struct sm_name_text name = sm_name_text(range->name);
    if (range->is_part)
        (void)snprintf(guard->name, sizeof guard->name, "%s[%zu:%zu]", name.text, range->offset,
                       range->offset + range->size);
    else
        (void)snprintf(guard->name, sizeof guard->name, "%s", name.text);
}

static void add_edges(struct sm_guard *guard)
{
    atomic_store(&guard->has_edges, sm_edges_add(guard->first, guard->past, guards.page));
    if (!guard->has_edges)
        give_up_guard(guard, "there is no memory");
}

static void init_guard(struct sm_guard *guard, const struct sm_guarded *range)
{
    struct sm_guard **const bucket = get_guard_bucket(range->key);
    guard->key = range->key;
    guard->data = range->data;
    guard->hopeless = guards.off;
    set_name(guard, range);
    guard->size = range->size;
    set_pages(guard, range);
    guard->edges = SM_PROTECT_NOTHING;
    atomic_store(&guard->has_edges, false);
    guard->next = *bucket;
    *bucket = guard;
    if (range->shared)
        give_up_guard(guard, "the device uses the same memory");
    else if (range->read_only)
        give_up_guard(guard, "it is read-only memory of the caller's");
    else if (range->in_parts && !guards.off)
        add_edges(guard);
    else if (guard->start == guard->end)
        give_up_guard(guard, "its memory fills no whole page");
    else if (guards.used > MOST_GUARDS)
        give_up_guard(guard, "too many copies are protected");
    if (!range->alone && !range->in_parts)
        give_up_overlapping_guards(guard);
}

static struct sm_guard *find_or_add_guard(const struct sm_guarded *range)
{
    struct sm_guard *guard = find_guard(range->key);
    if (guard)
        return guard;
    if (!guards.free && !add_guard_chunk())
        return NULL;
    guard = guards.free;
    guards.free = guard->next;
    guards.used++;
    init_guard(guard, range);
    return guard;
}

static void forget_guard(struct sm_guard *guard)
{
    struct sm_guard **link = get_guard_bucket(guard->key);
    open_guard(guard);
    drop_edges(guard);
    while (*link != guard)
        link = &(*link)->next;
    *link = guard->next;
    guard->key = NULL;
    guard->next = guards.free;
    guards.free = guard;
    guards.used--;
}

/* Unlocks, and then prints the notice if there is one. */
static void unlock_and_print(void)
{
    char notice[NOTICE];
    memcpy(notice, guards.notice, sizeof notice);
    guards.notice[0] = 0;
    sm_unlock(&guards.lock);
    (void)sm_file_write(SM_STDERR, notice, strlen(notice));
}

/* ---- Interface ---- */

bool sm_guard_knows(const void *key)
{
    sm_lock(&guards.lock);
    const bool known = find_guard(key) != NULL;
    unlock_and_print();
    return known;
}

void sm_guard_set(const struct sm_guarded *range, enum sm_protection protection)
{
    sm_lock(&guards.lock);
    struct sm_guard *const guard = find_or_add_guard(range);
    if (guard) {
        guard->size = range->size;
        set_protection(guard, protection);
    }
    unlock_and_print();
}

static void call_with_guard(const void *key, void (*act)(struct sm_guard *guard))
{
    sm_lock(&guards.lock);
    struct sm_guard *const guard = find_guard(key);
    if (guard)
        act(guard);
    unlock_and_print();
}

void sm_guard_open_now(const void *key)
{
    call_with_guard(key, open_guard);
}

void sm_guard_forget_now(const void *key)
{
    call_with_guard(key, forget_guard);
}

static void act_on_range(const void *data, size_t bytes, void (*act)(struct sm_guard *guard))
{
    sm_lock(&guards.lock);
    for (struct chunk *chunk = atomic_load(&guards.chunks); chunk; chunk = chunk->next)
        for (int i = 0; i < GUARDS; i++) {
            struct sm_guard *const guard = &chunk->guards[i];
            if (guard->key && overlaps_bytes(guard, (uintptr_t)data, (uintptr_t)data + bytes))
                act(guard);
        }
    unlock_and_print();
}

void sm_guard_open_range(const void *data, size_t bytes)
{
    act_on_range(data, bytes, open_for_now);
}

void sm_guard_close_range(const void *data, size_t bytes)
{
    act_on_range(data, bytes, close_again);
}
