/* Writes of contents to files. */
#include "object/write_file.h"

#include "base/status.h"
#include "copy/file_job.h"
#include "object/fetch_parts.h"
#include "object/move_stream.h"
#include "object/overwritten.h"
#include "object/reclaim.h"
#include "object/several.h"
#include "object/gate.h"
#include "object/span.h"
#include "object/use_file.h"
#include "object/user_allocator.h"

#include <stdlib.h>

/* One record of an object of the call, and where its bytes go. */
struct target {
    struct sm_record *record;
    struct sm_file_source source;
    struct sm_stream *stream; /* of a source on a device: comes after the work that brings the contents */
    uint64_t offset;
    size_t of;                  /* the object's index in the call */
    struct sm_backing *promise; /* of a call that stores, until the record has it */
    bool is_loaded;             /* from a file, by this call */
    struct sm_state before;     /* then: the state before */
};

struct call {
    const struct sm_write_call *of;
    struct sm_round round;
    struct target *targets; /* listed in each round, as the pieces may have been cut meanwhile */
    size_t count;
    size_t room;
};

/* ---- Checks ---- */

struct range {
    uint64_t begin;
    uint64_t end;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct range *const first = a;
    const struct range *const second = b;
    return (first->begin > second->begin) - (first->begin < second->begin);
}

static synced_mem_status check_apart(struct range *ranges, size_t count)
{
    qsort(ranges, count, sizeof *ranges, compare_ranges);
    for (size_t i = 1; i < count; i++)
        if (ranges[i].begin < ranges[i - 1].end)
            return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "two objects of the call would go to byte %llu of the file",
                           (unsigned long long)ranges[i].begin);
    return SYNCED_MEM_OK;
}

static synced_mem_status check_ranges(const struct sm_write_call *of, struct synced_mem **failed)
{
    size_t count = 0;
    struct range *const ranges = calloc(of->count, sizeof *ranges);
    if (!ranges)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu writes", of->count);
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < of->count && status == SYNCED_MEM_OK; i++) {
        const size_t size = sm_size(of->mems[i]);
        *failed = of->mems[i];
        status = sm_file_check_range(of->file, of->offsets[i], size);
        if (status == SYNCED_MEM_OK && size > 0)
            ranges[count++] = (struct range){.begin = of->offsets[i], .end = of->offsets[i] + size};
    }
    if (status == SYNCED_MEM_OK) {
        *failed = NULL;
        status = check_apart(ranges, count);
    }
    free(ranges);
    return status;
}

/* ---- One round, with all objects locked ---- */

static synced_mem_status add_target(struct call *call, struct sm_record *record, size_t of, uint64_t offset)
{
    if (call->count == call->room) {
        const size_t room = 2 * call->room + call->of->count;
        struct target *const targets = realloc(call->targets, room * sizeof *targets);
        if (!targets)
            return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu writes", room);
        call->targets = targets;
        call->room = room;
    }
    call->targets[call->count++] = (struct target){.record = record, .of = of, .offset = offset};
    return SYNCED_MEM_OK;
}

static synced_mem_status check_contents(const struct sm_record *record)
{
    if (sm_shared_copy(record))
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE,
                       "the object's placement is unified: it can't be written to a file");
    if (sm_whole_head(record) == SYNCED_MEM_UNINITIALIZED)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the object has no contents to write");
    return SYNCED_MEM_OK;
}

/* Lists the records of an object. A store leaves out those that are in their place already, so each is checked alone
 * against the objects in the file. */
static synced_mem_status list_records(struct call *call, size_t of)
{
    const struct sm_roots *const roots = &call->round.roots;
    struct synced_mem *const mem = call->of->mems[of];
    struct synced_mem_file *const file = call->of->file;
    for (struct sm_record *each = sm_first_record(mem); each; each = sm_next_record(mem, each)) {
        const uint64_t offset = call->of->offsets[of] + (sm_begin_of(each) - sm_object_begin(mem));
        sm_drop_lost(each);
        if (call->of->stores && sm_is_placed_at(each, file, offset))
            continue;
        if (call->of->stores)
            SM_TRY(sm_check_overwritten(file, offset, sm_size_of(each), roots->list, roots->count));
        SM_TRY(check_contents(each));
        SM_TRY(add_target(call, each, of, offset));
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status list_targets(struct call *call)
{
    const struct sm_roots *const roots = &call->round.roots;
    call->count = 0;
    for (size_t i = 0; i < call->of->count; i++) {
        struct synced_mem *const mem = call->of->mems[i];
        const uint64_t offset = call->of->offsets[i];
        call->round.failed = mem;
        if (call->of->stores)
            SM_TRY(sm_check_may_be_in_file(mem));
        if (sm_size(mem) == 0)
            continue;
        SM_TRY(sm_file_check_range(call->of->file, offset, sm_size(mem)));
        if (!call->of->stores)
            SM_TRY(sm_check_overwritten(call->of->file, offset, sm_size(mem), roots->list, roots->count));
        SM_TRY(list_records(call, i));
    }
    return SYNCED_MEM_OK;
}

/* Finds what the host waits for before the contents can be read to the host from their file, or in the order of a
 * stream from the device. SM_AGAIN without a wait: a user allocator has to be called, with nothing locked. */
static synced_mem_status plan_target(struct call *call, const struct target *target)
{
    struct sm_record *const record = target->record;
    struct sm_waits *const waits = &call->round.waits;
    struct synced_mem *const owner = sm_owner_of(record);
    if (sm_head(record) == SYNCED_MEM_AT_GPU)
        return sm_waits_add_for(waits, sm_inflight_queueing(sm_copy_of(record, SM_GPU), false), SM_UNTIL_QUEUED);
    if (!sm_is_in_file_alone(record))
        return SYNCED_MEM_OK;
    if (sm_user_allocator_wanted(owner, SM_CPU)) {
        call->round.alone = owner;
        call->round.alone_stream = NULL;
        return SM_AGAIN;
    }
    return sm_plan_load(record, SM_CPU, waits);
}

/* If a list has waits, they come before calls of allocators. */
static synced_mem_status plan_targets(struct call *call)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < call->count && !call->round.waits.full && (status == SYNCED_MEM_OK || status == SM_AGAIN);
         i++) {
        const synced_mem_status one = plan_target(call, &call->targets[i]);
        status = one == SYNCED_MEM_OK ? status : one;
    }
    return status;
}

/* Reads contents that are in files alone to the host. The job that writes them waits for that. */
static synced_mem_status load_targets(struct call *call)
{
    struct sm_file_reads reads = {.room = call->count};
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < call->count && status == SYNCED_MEM_OK; i++) {
        struct target *const target = &call->targets[i];
        if (!sm_is_in_file_alone(target->record))
            continue;
        target->before = sm_state_of(target->record);
        status = sm_fetch_memory(sm_owner_of(target->record), SM_CPU, NULL, false);
        if (status == SYNCED_MEM_OK)
            status = sm_queue_load(target->record, SM_CPU, NULL, &reads, &call->round.waits);
        target->is_loaded = status == SYNCED_MEM_OK;
        if (target->is_loaded)
            sm_set_head(target->record, sm_bit(SM_CPU));
    }
    sm_file_reads_begin(&reads);
    return status;
}

/* After a failure the file alone has these contents again. */
static void take_back_loads(struct call *call)
{
    for (size_t i = 0; i < call->count; i++)
        if (call->targets[i].is_loaded)
            sm_restore_record(call->targets[i].record, &call->targets[i].before);
}

/* ---- Sources ---- */

/* Finds the stream whose order counts: the caller's, or without one an internal one, which is made to come after all
 * work on the copy. */
static synced_mem_status find_stream(const struct call *call, const struct sm_copy *copy, struct sm_stream **stream)
{
    if (call->of->handle == SYNCED_MEM_NO_STREAM || call->of->handle == SM_HANDLE_OF_LIBRARY)
        return sm_transfer_stream(copy->device, SM_D2H, true, stream);
    return sm_callers_stream(copy->device, call->of->handle, stream);
}

/* Makes a stream come after the work that brings the contents of a record that the device alone has. */
static synced_mem_status find_device_source(struct call *call, struct target *target)
{
    struct sm_file_source *const source = &target->source;
    if (sm_head(target->record) != SYNCED_MEM_AT_GPU)
        return SYNCED_MEM_OK;
    source->copy = sm_copy_of(target->record, SM_GPU);
    SM_TRY(sm_transfer_stream(source->copy->device, SM_D2H, false, &source->internal));
    SM_TRY(find_stream(call, source->copy, &target->stream));
    SM_TRY(sm_inflight_settle(source->copy, false, NULL));
    return sm_inflight_order(source->copy, false, target->stream);
}

/* Records one fence behind the work of all sources that follow one another on a stream. */
static synced_mem_status record_device_sources(struct call *call)
{
    const struct target *last = NULL;
    for (size_t i = 0; i < call->count; i++) {
        struct target *const target = &call->targets[i];
        if (!target->stream)
            continue;
        if (last && last->stream == target->stream)
            target->source.after = sm_fence_hold(last->source.after);
        else
            SM_TRY(sm_stream_record(target->stream, &target->source.after));
        last = target;
    }
    return SYNCED_MEM_OK;
}

/* Host copies may have contents that still arrive, or are lost by now. */
static synced_mem_status find_host_source(struct target *target)
{
    struct sm_file_source *const source = &target->source;
    source->size = sm_size_of(target->record);
    if (source->copy)
        return SYNCED_MEM_OK;
    source->copy = sm_copy_of(target->record, SM_CPU);
    SM_TRY(sm_inflight_settle(source->copy, false, NULL));
    struct sm_fence *const arrival = sm_inflight_blocker(source->copy, false);
    source->after = arrival ? sm_fence_hold(arrival) : NULL;
    return SYNCED_MEM_OK;
}

static void drop_sources(struct call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        sm_fence_drop(call->targets[i].source.after);
        sm_stream_drop(call->targets[i].stream);
    }
}

/* ---- Stores ---- */

/* Makes a promise for each target. The targets of an object follow one another, and get one backing. */
static synced_mem_status make_promises(struct call *call, struct sm_stored *stored)
{
    struct sm_backing *backing = NULL;
    for (size_t i = 0; i < call->count; i++) {
        struct target *const target = &call->targets[i];
        const struct synced_mem *const mem = call->of->mems[target->of];
        if (i == 0 || call->targets[i - 1].of != target->of) {
            SM_TRY(sm_backing_make(call->of->file, call->of->offsets[target->of], sm_root(mem), sm_object_begin(mem),
                                   sm_size(mem), &backing));
            sm_backing_await(backing, stored);
        }
        const synced_mem_status status = sm_promise_make(backing, &target->promise);
        if (status != SYNCED_MEM_OK && backing->records == 0)
            sm_backing_drop(sm_backing_share(backing));
        SM_TRY(status);
    }
    return SYNCED_MEM_OK;
}

static void end_promises(struct call *call)
{
    for (size_t i = 0; i < call->count; i++)
        sm_promise_end(call->targets[i].promise);
}

/* Puts objects of 0 bytes into the file. */
static void store_empty(const struct call *call)
{
    for (size_t i = 0; i < call->of->count && call->of->stores; i++)
        if (sm_size(call->of->mems[i]) == 0)
            sm_set_backing(sm_first_record(call->of->mems[i]), NULL);
}

/* ---- The job ---- */

/* The last step that can fail makes the job. */
static synced_mem_status make_job(struct call *call, struct sm_file_writes *writes)
{
    SM_TRY(load_targets(call));
    for (size_t i = 0; i < call->count; i++)
        SM_TRY(find_host_source(&call->targets[i]));
    call->round.failed = NULL;
    if (writes->stored)
        SM_TRY(make_promises(call, writes->stored));
    return sm_file_writes_make(writes);
}

static synced_mem_status write_targets(struct call *call, struct sm_stored *stored)
{
    struct sm_file_writes writes = {.room = call->count, .file = call->of->file, .stored = stored};
    SM_TRY(make_job(call, &writes));
    for (size_t i = 0; i < call->count; i++) {
        struct target *const target = &call->targets[i];
        sm_note_record(target->record);
        sm_file_writes_add(&writes, &target->source, target->offset);
        sm_close_write(target->record);
        if (target->promise)
            sm_set_promise(target->record, target->promise);
        target->promise = NULL;
    }
    sm_file_writes_begin(&writes);
    return SYNCED_MEM_OK;
}

/* A store shares with the job how that ends. */
static synced_mem_status write_or_store_targets(struct call *call)
{
    struct sm_stored *const stored = call->of->stores ? sm_stored_make() : NULL;
    if (call->of->stores && !stored)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu writes", call->count);
    const synced_mem_status status = write_targets(call, stored);
    end_promises(call);
    sm_stored_drop(stored);
    return status;
}

/* Nothing changes before all checks have passed and all waits are over. */
static synced_mem_status run_locked_round(struct call *call)
{
    SM_TRY(list_targets(call));
    SM_TRY(plan_targets(call));
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < call->count && status == SYNCED_MEM_OK; i++)
        status = find_device_source(call, &call->targets[i]);
    if (status == SYNCED_MEM_OK)
        status = record_device_sources(call);
    if (status == SYNCED_MEM_OK && call->count > 0)
        status = write_or_store_targets(call);
    drop_sources(call);
    if (status == SYNCED_MEM_OK)
        store_empty(call);
    else
        take_back_loads(call);
    return status;
}

static synced_mem_status run_round(struct call *call)
{
    SM_TRY(sm_round_begin(&call->round));
    const synced_mem_status status = run_locked_round(call);
    for (size_t i = 0; i < call->of->count; i++)
        sm_publish_object(call->of->mems[i]);
    sm_round_end(&call->round);
    return status;
}

/* ---- All ---- */

static synced_mem_status run_rounds(struct call *call)
{
    const size_t count = call->of->count;
    struct sm_roots *const roots = &call->round.roots;
    sm_roots_list(roots, call->of->mems, count);
    sm_roots_sort(roots); /* sm_check_overwritten() searches them */
    synced_mem_status status;
    do {
        status = run_round(call);
        if (status != SM_AGAIN)
            break;
        status = sm_round_wait(&call->round, SM_CPU, status);
    } while (status == SYNCED_MEM_OK);
    for (size_t i = 0; i < count && status != SYNCED_MEM_OK; i++)
        sm_reopen_object(call->of->mems[i]);
    return status;
}

static synced_mem_status write_once(const struct sm_write_call *of, struct synced_mem **failed)
{
    struct call call = {.of = of};
    SM_TRY(check_ranges(of, failed));
    call.round.roots.list = calloc(of->count, SM_ROOTS_ROOM * sizeof(struct synced_mem *));
    if (!call.round.roots.list)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu writes", of->count);
    const synced_mem_status status = run_rounds(&call);
    *failed = call.round.failed;
    free(call.targets);
    free(call.round.roots.list);
    return sm_reap_after(status, false);
}

synced_mem_status sm_write_files(const struct sm_write_call *of, struct synced_mem **failed)
{
    struct sm_reclaim reclaim = {.handler_calls = 0};
    struct sm_gates gates = {.mems = of->mems, .count = of->count, .side = SM_SIDES};
    synced_mem_status status;
    *failed = NULL;
    if (!of->file->facts.writes)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the file's descriptor does not allow writes");
    if (of->count == 0)
        return SYNCED_MEM_OK;
    SM_TRY(sm_gates_begin(&gates, SM_READ, failed));
    do
        status = write_once(of, failed);
    while (sm_reclaim_helps(&reclaim, status) || (status == SYNCED_MEM_ERR_INVALID_STATE && sm_settle_all_promises()));
    sm_gates_end(&gates);
    return status;
}
