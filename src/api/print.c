/* The numbers of the library and of objects, as text. */
#include "base/text.h"

#include "api/argument.h"
#include "object/transaction.h"
#include "memory/guard.h"
#include "object/exports.h"
#include "object/span.h"
#include "copy/inflight.h"
#include "memory/accounting.h"
#include "memory/pinned/host_pool.h"
#include "object/objects.h"
#include "copy/staging.h"
#include "base/stats.h"
#include "object/unified.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

synced_mem_status sm_check_file(const FILE *file)
{
    return file ? SYNCED_MEM_OK : sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "file is NULL");
}

synced_mem_status sm_check_printed(FILE *file)
{
    if (fflush(file) == 0 && !ferror(file))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FILE, "the file could not be written: %s", strerror(errno));
}

/* ---- The library ---- */

static void print_heading(FILE *file, const char *text)
{
    (void)fprintf(file, "%s\n", text);
}

static void print_number(FILE *file, const char *what, uint64_t value)
{
    (void)fprintf(file, "  %-46s %20llu\n", what, (unsigned long long)value);
}

static void print_size(FILE *file, const char *what, uint64_t bytes)
{
    (void)fprintf(file, "  %-46s %20llu bytes %12s\n", what, (unsigned long long)bytes, sm_size_text(bytes).text);
}

static void print_transfers(FILE *file)
{
    print_heading(file, "transfers");
    print_number(file, "to devices", sm_count_of(SM_COUNT_h2d_transfers));
    print_size(file, "to devices", sm_count_of(SM_COUNT_h2d_bytes));
    print_number(file, "to the host", sm_count_of(SM_COUNT_d2h_transfers));
    print_size(file, "to the host", sm_count_of(SM_COUNT_d2h_bytes));
    print_number(file, "in both directions, staged", sm_count_of(SM_COUNT_staged_transfers));
    print_number(file, "by kernels, also on one device", sm_count_of(SM_COUNT_kernel_copies));
    print_number(file, "prefetches of managed memory", sm_count_of(SM_COUNT_prefetches));
    print_number(file, "staging: copy threads at most", sm_staging_threads());
    print_size(file, "staging: a buffer", sm_staging_buffer());
    if (sm_staging_minimum() < SIZE_MAX)
        print_size(file, "staging: to the host, from", sm_staging_minimum());
    else
        (void)fprintf(file, "  %-46s %20s\n", "staging: to the host, from", "never");
    print_size(file, "staging: to devices, from", sm_staging_least_push());
}

static void print_files(FILE *file)
{
    print_heading(file, "files");
    print_number(file, "reads", sm_count_of(SM_COUNT_file_reads));
    print_size(file, "read", sm_count_of(SM_COUNT_file_read_bytes));
    print_number(file, "writes", sm_count_of(SM_COUNT_file_writes));
    print_size(file, "written", sm_count_of(SM_COUNT_file_write_bytes));
}

static void print_holds(FILE *file)
{
    print_heading(file, "holds and evictions");
    print_number(file, "held objects that were on their device", sm_count_of(SM_COUNT_hold_hits));
    print_number(file, "held objects that were not", sm_count_of(SM_COUNT_hold_misses));
    print_number(file, "microseconds to make room", sm_count_of(SM_COUNT_hold_nanoseconds) / 1000);
    print_number(file, "evictions, clean", sm_count_of(SM_COUNT_clean_evictions));
    print_number(file, "evictions, pulled first", sm_count_of(SM_COUNT_dirty_evictions));
    print_size(file, "evicted", sm_count_of(SM_COUNT_evicted_bytes));
    print_number(file, "evictions of host copies, clean", sm_count_of(SM_COUNT_host_evictions));
    print_number(file, "evictions of host copies, spilled first", sm_count_of(SM_COUNT_spills));
    print_size(file, "evicted host copies", sm_count_of(SM_COUNT_host_evicted_bytes));
}

static void print_memory(FILE *file)
{
    print_heading(file, "memory of the library's own");
    print_number(file, "host copies obtained", sm_count_of(SM_COUNT_host_allocations));
    print_number(file, "host copies that could not be page-locked", sm_count_of(SM_COUNT_pageable_fallbacks));
    print_size(file, "held: pageable", sm_count_of(SM_COUNT_pageable_bytes));
    print_size(file, "held: page-locked", sm_count_of(SM_COUNT_pinned_bytes));
    print_number(file, "device copies obtained", sm_count_of(SM_COUNT_gpu_allocations));
    print_size(file, "held: device", sm_count_of(SM_COUNT_gpu_bytes));
    print_size(file, "held: device, in the device cache", sm_count_of(SM_COUNT_gpu_spare_bytes));
    print_size(file, "held: managed", sm_count_of(SM_COUNT_managed_bytes));
}

static void print_work(FILE *file)
{
    print_heading(file, "work in flight");
    print_number(file, "copies retired: released, but still in use", sm_count_of(SM_COUNT_retired));
    print_number(file, "copies quarantined: never to be used again", sm_count_of(SM_COUNT_quarantined));
    print_number(file, "events held", sm_count_of(SM_COUNT_events));
    print_number(file, "events recorded", sm_count_of(SM_COUNT_event_records));
    print_number(file, "waits of streams", sm_count_of(SM_COUNT_stream_waits));
    print_number(file, "waits of the host", sm_count_of(SM_COUNT_host_waits));
    print_heading(file, "memory was refused");
    print_number(file, "finished memory was freed", sm_count_of(SM_COUNT_oom_reaps));
    print_number(file, "released memory was waited for", sm_count_of(SM_COUNT_oom_waits));
    print_number(file, "memory kept for reuse was given back", sm_count_of(SM_COUNT_oom_trims));
    print_number(file, "the handler was called", sm_count_of(SM_COUNT_oom_callbacks));
    print_number(file, "the call failed all the same", sm_count_of(SM_COUNT_oom_failures));
}

static void print_host_pool(FILE *file)
{
    synced_mem_host_pool_stats pool = {.struct_size = sizeof pool};
    sm_host_pool_get_stats(&pool);
    print_heading(file, "pool of page-locked memory");
    print_size(file, "in use, as requested", pool.requested_bytes);
    print_size(file, "in use, as requested, at most", pool.peak_requested_bytes);
    print_size(file, "held", pool.held_bytes);
    print_size(file, "held at most", pool.peak_held_bytes);
    print_size(file, "held and not in use", pool.free_bytes);
    print_number(file, "segments", pool.slabs);
    print_number(file, "segments ever page-locked", pool.registrations);
    print_number(file, "allocations of memory page-locked before", pool.reused_allocations);
    print_number(file, "allocations that page-locked more memory", pool.fresh_allocations);
}

/* Prints the pools of the devices that can be queried without starting a runtime. */
static void print_gpu_pools(FILE *file)
{
    const int count = sm_device_in_use() ? sm_device_count() : 0;
    for (int device = 0; device < count; device++) {
        struct sm_pool_numbers numbers = {.known = false};
        if (sm_gpu_numbers(device, &numbers) != SYNCED_MEM_OK || numbers.reserved_high == 0)
            continue;
        (void)fprintf(file, "pool of device %d\n", device);
        print_size(file, "in use", numbers.used);
        print_size(file, "in use at most", numbers.used_high);
        print_size(file, "reserved", numbers.reserved);
        print_size(file, "reserved at most", numbers.reserved_high);
    }
}

synced_mem_status synced_mem_print_stats(FILE *file)
{
    const synced_mem_status status = sm_check_file(file);
    if (status != SYNCED_MEM_OK)
        return sm_report(status, __func__, NULL);
    (void)fprintf(file, "synced_mem %d.%d.%d\n", SYNCED_MEM_VERSION_MAJOR, SYNCED_MEM_VERSION_MINOR,
                  SYNCED_MEM_VERSION_PATCH);
    print_number(file, "objects", sm_count_of(SM_COUNT_objects));
    print_transfers(file);
    if (sm_count_of(SM_COUNT_file_reads) + sm_count_of(SM_COUNT_file_writes) > 0)
        print_files(file);
    print_holds(file);
    print_memory(file);
    print_host_pool(file);
    print_gpu_pools(file);
    print_work(file);
    if (sm_guard_on()) {
        print_heading(file, "debug mode");
        print_number(file, "host copies that could not be protected", sm_count_of(SM_COUNT_unprotected));
    }
    return sm_report(sm_check_printed(file), __func__, NULL);
}

synced_mem_status synced_mem_get_stats(synced_mem_stats *stats)
{
    const synced_mem_status status = SM_CHECK_STRUCT(stats, "stats");
    if (status != SYNCED_MEM_OK)
        return sm_report(status, __func__, NULL);
#define READ(field) stats->field = sm_count_of(SM_COUNT_##field);
    SM_COUNTER_MAP(READ)
#undef READ
    return SYNCED_MEM_OK;
}

/* ---- An object ---- */

/* Of the contents of a copy. */
enum presence { ABSENT, IN_PARTS, WHOLE };

/* The facts of a copy at one moment. */
struct copy_facts {
    synced_mem_source source;
    size_t capacity;
    unsigned arrivals;
    bool pinned;
    bool read_only;
    bool exported;
    enum presence presence;
    bool pending;
};

static enum presence get_presence(const struct synced_mem *mem, enum sm_side side)
{
    struct sm_heads heads = SM_NO_HEADS;
    for (const struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        sm_add_head(&heads, sm_head(each));
    return heads.all & sm_bit(side) ? WHOLE : heads.any & sm_bit(side) ? IN_PARTS : ABSENT;
}

static enum presence get_presence_in_file(const struct synced_mem *mem)
{
    size_t in = 0, all = 0;
    for (const struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each), all++)
        in += sm_is_in_file(each);
    return in == all ? WHOLE : in > 0 ? IN_PARTS : ABSENT;
}

static void add_record_facts(struct copy_facts *facts, const struct sm_copy *copy)
{
    if (!copy)
        return;
    facts->arrivals += copy->arrivals;
    facts->pending = facts->pending || sm_fence_state(sm_inflight_arrival(copy)) != SM_FENCE_DONE;
}

static struct copy_facts read_copy_facts(const struct synced_mem *mem, enum sm_side side)
{
    const struct sm_copy *const memory = sm_copy_of(sm_own_record(sm_owner(mem)), side);
    if (!memory)
        return (struct copy_facts){.source = SYNCED_MEM_SOURCE_NONE};
    struct copy_facts facts = {.source = (synced_mem_source)memory->source,
                               .capacity = sm_owner(mem) == mem ? sm_copy_capacity(memory) : sm_size(mem),
                               .pinned = memory->pinned,
                               .read_only = memory->read_only,
                               .exported = sm_is_exported(sm_owner(mem), side),
                               .presence = get_presence(mem, side),
                               .arrivals = sm_is_divided(mem) && mem->record.kind == SM_WHOLE ? memory->arrivals : 0};
    for (const struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each))
        add_record_facts(&facts, sm_copy_of(each, side));
    return facts;
}

static void print_copy(FILE *file, const char *which, const struct copy_facts *copy_facts)
{
    const bool locked = copy_facts->pinned && copy_facts->source != SYNCED_MEM_SOURCE_PINNED;
    static const char *const states[] = {"stale", "in parts", "valid"};
    const bool arriving = copy_facts->presence == WHOLE && copy_facts->pending;
    const char *const state = arriving ? "arriving" : states[copy_facts->presence];
    if (copy_facts->source == SYNCED_MEM_SOURCE_NONE) {
        (void)fprintf(file, "  %-6s  none\n", which);
        return;
    }
    (void)fprintf(file, "  %-6s  %-11s%-13s %10s  %-8s  %u transfers to it%s%s\n", which,
                  sm_source_name(copy_facts->source), locked ? " page-locked" : "",
                  sm_size_text(copy_facts->capacity).text, state, copy_facts->arrivals,
                  copy_facts->read_only ? ", read-only" : "", copy_facts->exported ? ", exported" : "");
}

/* All facts that are printed of an object, which may be gone when they are printed. */
struct view {
    const void *address;
    struct sm_name_text name;
    synced_mem_status status; /* ERR_FORKED: the fields after size are not known */
    size_t size;
    unsigned head;
    enum presence in_file;
    int device;
    unsigned placement;
    struct sm_name_text root; /* of a view: its root's name, or an empty one */
    const void *root_address; /* NULL: no view */
    size_t offset;
    struct copy_facts copies[SM_SIDES];
};

static struct view read_object_view(const synced_mem *mem)
{
    struct sm_transaction transaction;
    struct view view = {.address = mem, .name = sm_name_text(sm_object_name(mem)), .size = sm_size(mem)};
    view.status = sm_enter_restoring_nothing(&transaction, (synced_mem *)(uintptr_t)mem);
    if (view.status != SYNCED_MEM_OK)
        return view;
    view.size = sm_size(mem);
    if (mem->record.kind == SM_VIEW) {
        view.root = sm_name_text(sm_object_name(sm_root(mem)));
        view.root_address = sm_root(mem);
        view.offset = sm_offset(mem);
    }
    view.head = sm_head_of_records(mem);
    view.in_file = get_presence_in_file(mem);
    view.device = sm_device(mem);
    view.placement = sm_placement(mem);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        view.copies[side] = read_copy_facts(mem, side);
    (void)sm_leave(&transaction, SYNCED_MEM_OK);
    return view;
}

static void print_title(const struct view *view, FILE *file)
{
    (void)fprintf(file, "'%s' at %p\n", view->name.text, view->address);
}

static void print_view(const struct view *view, FILE *file)
{
    static const char *const placements[] = {"", ", mapped", ", managed", ", automatic placement"};
    static const char *const files[] = {"", ", in a file in parts", ", in a file"};
    char device[24] = "no device yet";
    if (view->device >= 0)
        (void)snprintf(device, sizeof device, "device %d", view->device);
    print_title(view, file);
    (void)fprintf(file, "  %zu bytes (%s), %s%s, %s%s\n", view->size, sm_size_text(view->size).text,
                  sm_head_name(view->head), files[view->in_file], device, placements[view->placement]);
    if (view->root_address)
        (void)fprintf(file, "  a view of '%s' at %p, from byte %zu on\n", view->root.text, view->root_address,
                      view->offset);
    print_copy(file, "host", &view->copies[SM_CPU]);
    print_copy(file, "device", &view->copies[SM_GPU]);
}

static synced_mem_status print_object(const synced_mem *mem, FILE *file)
{
    const struct view view = read_object_view(mem);
    if (view.status != SYNCED_MEM_OK)
        return view.status;
    print_view(&view, file);
    return SYNCED_MEM_OK;
}

synced_mem_status synced_mem_print(const synced_mem *mem, FILE *file)
{
    synced_mem_status status = mem ? sm_check_file(file) : sm_no_object();
    if (status == SYNCED_MEM_OK)
        status = print_object(mem, file);
    if (status == SYNCED_MEM_OK)
        status = sm_check_printed(file);
    return SM_REPORT(status, mem);
}

/* ---- All objects ---- */

static bool accept_object(const struct synced_mem *mem, void *view)
{
    (void)mem, (void)view;
    return true;
}

static void store_object_view(const struct synced_mem *mem, void *view)
{
    *(struct view *)view = read_object_view(mem);
    sm_caller.subject = (struct sm_subject){.name = ""}; /* the object may be gone before the call ends */
}

static void print_parents(const struct view *view, FILE *file)
{
    print_title(view, file);
    (void)fprintf(file, "  %zu bytes, belongs to the parent process\n", view->size);
}

static void print_all(FILE *file)
{
    struct sm_slab_walk walk = {.begun = false};
    struct view view;
    uint64_t objects = 0;
    for (; sm_objects_next(&walk, accept_object, store_object_view, &view); objects++) {
        if (view.status == SYNCED_MEM_OK)
            print_view(&view, file);
        else
            print_parents(&view, file);
    }
    (void)fprintf(file, "%llu %s\n", (unsigned long long)objects, objects == 1 ? "object" : "objects");
}

synced_mem_status synced_mem_print_all(FILE *file)
{
    synced_mem_status status = sm_check_file(file);
    if (status == SYNCED_MEM_OK) {
        print_all(file);
        status = sm_check_printed(file);
    }
    return sm_report(status, __func__, NULL);
}
