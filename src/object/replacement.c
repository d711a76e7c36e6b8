/* Replacing a side's memory. */
#include "object/replacement.h"

#include "base/hash.h"
#include "base/status.h"
#include "copy/host_transfer.h"
#include "copy/transfer.h"
#include "object/fetch.h"
#include "object/piece.h"
#include "object/span.h"
#include "object/user_allocator.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Contents ---- */

static bool is_overwritten(const struct sm_replacing *replacing, const struct sm_record *record)
{
    const struct synced_mem *const mem = replacing->transaction->mem;
    const size_t begin = sm_begin_of(record);
    return replacing->overwrites && begin >= sm_object_begin(mem) && begin < sm_object_begin(mem) + sm_size(mem);
}

/* An overwritten object of 0 bytes has no contents to copy either. */
static bool is_copied(const struct sm_replacing *replacing, const struct sm_record *record)
{
    const unsigned bits = sm_bits_of(sm_own_record(replacing->owner), replacing->side);
    return (sm_head(record) & bits) && sm_size_of(record) > 0 && !is_overwritten(replacing, record);
}

static size_t count_copied_records(const struct sm_replacing *replacing)
{
    size_t count = 0;
    for (struct sm_record *each = sm_first_record(replacing->owner); each;
         each = sm_next_record(replacing->owner, each))
        count += is_copied(replacing, each);
    return count;
}

/* Finds the wait for contents that the host copies. Returns why contents were lost. */
static synced_mem_status find_arrival(const struct sm_replacing *replacing)
{
    for (struct sm_record *each = sm_first_record(replacing->owner); each;
         each = sm_next_record(replacing->owner, each)) {
        if (!is_copied(replacing, each))
            continue;
        struct sm_copy *const copy = sm_copy_of(each, SM_CPU);
        struct sm_fence *const lost = sm_inflight_lost(copy);
        SM_TRY(lost ? sm_fence_wait_queued(lost) : sm_inflight_settle(copy, false, NULL));
        SM_TRY(sm_waits_add(&replacing->transaction->waits, sm_inflight_unfinished(copy, false)));
    }
    return SYNCED_MEM_OK;
}

static void list_copied_ranges(const struct sm_replacing *replacing, const struct sm_copy *from,
                               const struct sm_copy *to, struct sm_host_range *ranges)
{
    for (struct sm_record *each = sm_first_record(replacing->owner); each;
         each = sm_next_record(replacing->owner, each))
        if (is_copied(replacing, each))
            *ranges++ = (struct sm_host_range){.to = (char *)sm_copy_data(to) + sm_begin_of(each),
                                               .from = (const char *)sm_copy_data(from) + sm_begin_of(each),
                                               .size = sm_size_of(each)};
}

/* Makes a transfer of all contents that are copied. NULL: the system has no memory. */
static struct sm_fence *make_host_transfer(const struct sm_replacing *replacing, const struct sm_copy *from,
                                           const struct sm_copy *to, size_t count)
{
    struct sm_host_range *const ranges = calloc(count, sizeof *ranges);
    if (!ranges) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu copies", count);
        return NULL;
    }
    list_copied_ranges(replacing, from, to, ranges);
    struct sm_fence *const fence = sm_host_transfer_make(ranges, count);
    free(ranges);
    return fence;
}

/* Enters the fence of the fill as a read of each copied record. Some may be entered after a failure. */
static synced_mem_status enter_reads(const struct sm_replacing *replacing, struct sm_fence *fence)
{
    struct sm_replaced replaced = {.uses = NULL};
    synced_mem_status status = SYNCED_MEM_OK;
    for (struct sm_record *each = sm_first_record(replacing->owner); each && status == SYNCED_MEM_OK;
         each = sm_next_record(replacing->owner, each)) {
        if (!is_copied(replacing, each))
            continue;
        struct sm_use *const use = sm_inflight_reserve();
        if (use)
            sm_inflight_read(sm_copy_of(each, replacing->side), use, sm_fence_hold(fence), &replaced);
        else
            status = SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    }
    sm_replaced_drop(&replaced);
    return status;
}

synced_mem_status sm_replacement_enter_reads(const struct sm_replacing *replacing)
{
    struct sm_fence *const fence = replacing->transaction->replacement.copy->write;
    return fence ? enter_reads(replacing, fence) : SYNCED_MEM_OK;
}

/* Begins to copy the contents of a root in parts, for which no lock is held. Memory that is read-only gets no other
 * contents meanwhile, but some of them may become stale. */
static synced_mem_status begin_host_copy(const struct sm_replacing *replacing)
{
    const struct sm_copy *const from = sm_copy_of(sm_own_record(replacing->owner), SM_CPU);
    struct sm_replacement *const replacement = &replacing->transaction->replacement;
    const size_t count = count_copied_records(replacing);
    struct sm_fence *fence = NULL;
    if (count > 0) {
        fence = make_host_transfer(replacing, from, replacement->copy, count);
        const synced_mem_status status = fence ? enter_reads(replacing, fence) : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        if (status != SYNCED_MEM_OK) {
            if (fence)
                sm_fence_close(fence, SM_FENCE_DONE, false);
            sm_fence_drop(fence);
            return status;
        }
    }
    sm_inflight_written(replacement->copy, fence);
    replacement->is_filled = true;
    return sm_waits_add(&replacing->transaction->waits, fence);
}

/* The work on each piece is in its own part. That on an undivided object is the transfer's to wait for. */
static synced_mem_status order_after_pieces(const struct sm_replacing *replacing, struct sm_stream *stream)
{
    if (!sm_is_divided(replacing->owner) || replacing->becomes_whole)
        return SYNCED_MEM_OK;
    for (struct sm_record *each = sm_first_record(replacing->owner); each;
         each = sm_next_record(replacing->owner, each))
        if (is_copied(replacing, each))
            SM_TRY(sm_inflight_order(sm_copy_of(each, SM_GPU), false, stream));
    return SYNCED_MEM_OK;
}

/* Copies all of the memory, since pieces without contents do no harm. */
static synced_mem_status queue_device_copy(const struct sm_replacing *replacing, struct sm_copy *from,
                                           struct sm_copy *to, struct sm_stream *stream)
{
    const size_t size = sm_size(replacing->owner);
    struct sm_transfer transfer = {.direction = SM_D2D, .to = to, .from = from, .size = size};
    if (count_copied_records(replacing) > 0) {
        SM_TRY(order_after_pieces(replacing, stream));
        SM_TRY(sm_transfer_queue(&transfer, stream));
        SM_TRY(sm_transfer_enter(&transfer, 1, NULL, stream));
    } else if (to->source != SYNCED_MEM_SOURCE_ALLOCATOR) { /* an allocator's memory has a fence already */
        SM_TRY(sm_transfer_order(to, stream));              /* an earlier try may have filled it on another stream */
        SM_TRY(sm_transfer_enter_write(to, stream));
    }
    return replacing->size > size ? sm_transfer_fill(to, 0, size, replacing->size, stream) : SYNCED_MEM_OK;
}

/* ---- Memory ---- */

/* Returns a number that differs after a write to the old memory or a part of it. An owner that stays in parts has
 * read-only memory, which nobody writes: its count tells it from other memory at the same address. A caller whose owner
 * becomes whole gathers the work on the parts, which counts writes on the owner's own copy, so those do not count. */
static uint64_t count_writes(const struct sm_replacing *replacing)
{
    uint64_t writes = 0;
    if (!replacing->becomes_whole)
        return sm_copy_of(sm_own_record(replacing->owner), replacing->side)->writes;
    for (struct sm_record *each = sm_first_record(replacing->owner); each;
         each = sm_next_record(replacing->owner, each)) {
        const struct sm_copy *const copy = sm_copy_of(each, replacing->side);
        writes = sm_hash(writes ^ sm_begin_of(each)) ^ (copy ? copy->writes : 0);
    }
    return writes;
}

/* A replacement of other memory, or of contents that have changed, is stale. Its memory serves for another try,
 * unless it is too small by now, or the host may still write it. */
static void begin_replacement(const struct sm_replacing *replacing)
{
    struct sm_replacement *const replacement = &replacing->transaction->replacement;
    const struct sm_replacement now = {.copy = replacement->copy,
                                       .from = sm_copy_of(sm_own_record(replacing->owner), replacing->side),
                                       .side = replacing->side,
                                       .writes = count_writes(replacing),
                                       .size = sm_size(replacing->owner)};
    if (now.from == replacement->from && now.side == replacement->side && now.writes == replacement->writes &&
        now.size == replacement->size && (!now.copy || sm_copy_capacity(now.copy) >= replacing->size))
        return;
    const bool is_usable = now.copy && now.side == replacement->side && sm_copy_capacity(now.copy) >= replacing->size &&
                           (now.side == SM_GPU || !replacement->is_filled);
    if (now.copy && !is_usable)
        sm_retire_later(replacing->transaction, now.copy);
    const bool is_zeroed = replacement->is_zeroed;
    *replacement = now;
    replacement->copy = is_usable ? now.copy : NULL;
    replacement->is_zeroed = is_usable && is_zeroed;
}

/* The stream in whose order new memory is usable, and contents are copied. */
static synced_mem_status find_working_stream(const struct sm_replacing *replacing, struct sm_stream **stream)
{
    *stream = replacing->stream;
    if (*stream)
        return SYNCED_MEM_OK;
    return sm_internal_stream_behind(sm_device(replacing->owner), SM_INTERNAL_MOVE_BEHIND, stream);
}

static synced_mem_status obtain_from_allocator(const struct sm_replacing *replacing,
                                               const struct sm_allocator *allocator)
{
    struct sm_stream *stream = NULL;
    if (replacing->side == SM_GPU)
        SM_TRY(find_working_stream(replacing, &stream));
    SM_TRY(sm_user_allocator_obtain_unlocked(replacing->owner, allocator, replacing->size, stream,
                                             &replacing->transaction->replacement.copy));
    return SM_AGAIN;
}

/* After a failure the next user of the memory has to come after its allocation. An allocator's memory, and that of an
 * earlier try, has a fence for that, perhaps of another stream. */
static synced_mem_status fill_on_device(const struct sm_replacing *replacing)
{
    struct sm_replacement *const replacement = &replacing->transaction->replacement;
    struct sm_copy *const from = sm_copy_of(sm_own_record(replacing->owner), SM_GPU);
    struct sm_stream *stream;
    SM_TRY(find_working_stream(replacing, &stream));
    const bool fresh = !replacement->copy;
    if (fresh)
        SM_TRY(sm_obtain_device(replacing->owner, replacing->size, stream, &replacement->copy));
    const synced_mem_status status = queue_device_copy(replacing, from, replacement->copy, stream);
    replacement->is_filled = status == SYNCED_MEM_OK;
    if (fresh && status != SYNCED_MEM_OK && !replacement->copy->untracked) {
        const struct sm_detail first = sm_detail_get();
        (void)sm_transfer_enter_write(replacement->copy, stream);
        sm_detail_set(&first);
    }
    return status;
}

/* A stream comes after the copy, which is on it. Without one the host waits, so that a failed copy loses no
 * contents. */
static synced_mem_status prepare_on_device(const struct sm_replacing *replacing)
{
    const struct sm_replacement *const replacement = &replacing->transaction->replacement;
    if (!replacement->is_filled)
        SM_TRY(fill_on_device(replacing));
    if (replacing->stream || replacing->becomes_whole)
        return SYNCED_MEM_OK;
    struct sm_fence *const lost = sm_inflight_lost(replacement->copy);
    SM_TRY(lost ? sm_fence_wait_queued(lost) : SYNCED_MEM_OK);
    return sm_waits_add(&replacing->transaction->waits, sm_inflight_unfinished(replacement->copy, true));
}

/* The host copies an undivided owner's contents at the commit. */
static synced_mem_status prepare_on_host(const struct sm_replacing *replacing)
{
    struct sm_replacement *const replacement = &replacing->transaction->replacement;
    if (!replacement->copy) {
        const bool zeroed = replacing->size > sm_size(replacing->owner);
        SM_TRY(sm_obtain_host(replacing->owner, replacing->size, zeroed, &replacement->copy));
        replacement->is_zeroed = zeroed;
    }
    if (replacement->is_filled || replacing->becomes_whole)
        return SYNCED_MEM_OK;
    SM_TRY(find_arrival(replacing));
    return sm_is_divided(replacing->owner) ? begin_host_copy(replacing) : SYNCED_MEM_OK;
}

synced_mem_status sm_replacement_prepare(const struct sm_replacing *replacing)
{
    const struct sm_allocator *const allocator = sm_object_allocator(replacing->owner, replacing->side);
    begin_replacement(replacing);
    if (!replacing->transaction->replacement.copy && allocator)
        return obtain_from_allocator(replacing, allocator);
    return replacing->side == SM_GPU ? prepare_on_device(replacing) : prepare_on_host(replacing);
}

/* ---- Replacing ---- */

/* Copies the contents of an undivided owner, and appends zeros. */
static void fill_on_host(const struct sm_replacing *replacing, const struct sm_copy *from)
{
    const struct sm_replacement *const replacement = &replacing->transaction->replacement;
    char *const data = sm_copy_data(replacement->copy);
    const size_t size = sm_size(replacing->owner);
    if (is_copied(replacing, sm_own_record(replacing->owner)))
        memcpy(data, sm_copy_data(from), size);
    if (replacing->size > size && !replacement->is_zeroed)
        memset(data + size, 0, replacing->size - size);
}

/* Calls notice by these counts that another one has given out a pointer. */
static void take_over_counts(const struct synced_mem *owner, enum sm_side side, struct sm_copy *to,
                             struct sm_copy *const *parts)
{
    to->given = sm_copy_of(sm_own_record(owner), side)->given;
    for (const struct sm_piece *each = owner->at.first; each && parts; each = each->after) {
        const struct sm_copy *const part = sm_copy_of(&each->record, side);
        (*parts++)->given = part ? part->given : to->given;
    }
}

synced_mem_status sm_replacement_commit(const struct sm_replacing *replacing)
{
    struct synced_mem *const owner = replacing->owner;
    struct sm_replacement *const replacement = &replacing->transaction->replacement;
    struct sm_copy **parts = NULL;
    if (sm_is_divided(owner)) {
        SM_TRY(sm_gather_parts(owner, replacing->side));
        SM_TRY(sm_make_parts(owner, replacement->copy, &parts));
    }
    if (replacing->side == SM_CPU && !replacement->is_filled)
        fill_on_host(replacing, sm_copy_of(sm_own_record(owner), SM_CPU));
    take_over_counts(owner, replacing->side, replacement->copy, parts);
    if (parts)
        sm_drop_parts(owner, replacing->side);
    sm_detach_copy_of(replacing->transaction, owner, replacing->side);
    sm_put_copy(sm_own_record(owner), replacing->side, replacement->copy);
    if (parts)
        sm_put_parts(owner, replacing->side, parts);
    *replacement = (struct sm_replacement){.copy = NULL};
    return SYNCED_MEM_OK;
}
