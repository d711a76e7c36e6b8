/* The heads of a pair, while it is copied and afterwards. */
#include "object/pair_heads.h"

#include "object/piece.h"
#include "object/publish.h"
#include "object/span.h"

void sm_give_up_contents(struct sm_record *record)
{
    sm_close_write(record);
    sm_set_head(record, SYNCED_MEM_UNINITIALIZED);
    sm_leave_file(record);
}

/* Returns the next record of the pair's target, which views may have cut. */
static struct sm_record *next_target(const struct sm_pair *pair, const struct sm_record *each)
{
    return sm_next_before(each, sm_begin_of(pair->to) + pair->size);
}

/* Returns whether the record's copy is the one that was read, or a part of it with bytes that were, and nobody has
 * written it since. Parts inherit the counts. */
static bool is_source_unwritten(const struct sm_pair *pair, const struct sm_record *record, const struct sm_copy *gpu)
{
    const char *const data = sm_copy_data(gpu);
    const bool has_bytes = data < pair->source_data + pair->size && pair->source_data < data + sm_size_of(record);
    return pair->reads_gpu && (gpu == pair->source || (gpu->is_part && has_bytes)) &&
           gpu->writes == pair->source_writes;
}

/* If another call has let a stream write meanwhile, that open write is not this call's to end. */
static void end_record_write(const struct sm_pairs *pairs, const struct sm_pair *pair, struct sm_record *record)
{
    struct sm_copy *const gpu = sm_copy_of(record, SM_GPU);
    if (!gpu || !gpu->writer || !gpu->writer_fence || !is_source_unwritten(pair, record, gpu))
        return;
    if (gpu->writer == pairs->stream)
        sm_inflight_reopen(gpu);
    else
        sm_close_write(record);
    if (record != pair->from)
        sm_publish(record);
}

void sm_pair_end_source_write(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    const size_t end = sm_begin_of(pair->from) + pair->from_offset + pair->size;
    for (struct sm_record *each = sm_first_of(pair->from); each; each = sm_next_before(each, end))
        end_record_write(pairs, pair, each);
}

void sm_pair_complete(const struct sm_pairs *pairs, struct sm_pair *pair)
{
    sm_count_given(pair->to, pairs->side);
    sm_close_write(pair->to);
    sm_set_head(pair->to, sm_bit(pairs->side));
    sm_leave_file(pair->to);
    pair->done = true;
}

void sm_pair_drop_target(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    for (struct sm_record *each = sm_first_of(pair->to); each; each = next_target(pair, each))
        sm_set_head(each, sm_head(each) & ~sm_bits_of(each, pairs->side));
}

void sm_pair_set_heads(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status)
{
    pair->queued = false;
    if (!pair->direct)
        pair->fresh = NULL;
    if (status == SYNCED_MEM_OK)
        sm_pair_complete(pairs, pair);
    else
        sm_pair_drop_target(pairs, pair);
}

void sm_pair_begin(const struct sm_pairs *pairs, struct sm_pair *pair, struct sm_copy *target)
{
    sm_settle(pair->to);
    const unsigned before = sm_head(pair->to);
    const unsigned rest = before & ~sm_bits_of(pair->to, pairs->side);
    pair->counted = rest == SYNCED_MEM_UNINITIALIZED && before != SYNCED_MEM_UNINITIALIZED && !sm_is_in_file(pair->to);
    if (pair->counted)
        sm_count_given(pair->to, pairs->side); /* a call that fails meanwhile must not take the head back */
    else
        sm_set_head(pair->to, rest);
    pair->arrival = sm_fence_hold(target->write);
    pair->target = target;
    pair->target_writes = target->writes;
    pair->target_given = target->given;
    pair->head = sm_head(pair->to);
    pair->fresh = NULL;
}

/* Returns whether nobody has used the target, or a part of it, since the transfer began. A pointer that was given out
 * meanwhile may have been written through, by the host without a count of the write. Parts inherit the counts. */
static bool is_target_untouched(const struct sm_pair *pair, const struct sm_copy *now)
{
    return now && (now == pair->target || now->is_part) && now->writes == pair->target_writes &&
           now->given == pair->target_given;
}

/* Takes the target out of the heads, except of parts that another call has used since. */
static void drop_untouched_contents(const struct sm_pairs *pairs, const struct sm_pair *pair)
{
    for (struct sm_record *each = sm_first_of(pair->to); each; each = next_target(pair, each))
        if (is_target_untouched(pair, sm_copy_of(each, pairs->side)))
            sm_set_head(each, sm_head(each) & ~sm_bits_of(each, pairs->side));
}

static void leave_target(const struct sm_pair *pair)
{
    for (struct sm_record *each = sm_first_of(pair->to); each; each = next_target(pair, each)) {
        if (pair->done)
            sm_close_write(each);
        if (each != pair->to)
            sm_publish(each);
    }
}

/* If an object has become divided meanwhile, the pair is copied once more, unless the head counted on the contents. If
 * the head counted on the arriving contents, a call that used the target meanwhile came after the copy. */
static void end_pair(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status)
{
    struct sm_record *const to = pair->to;
    if (status != SYNCED_MEM_OK && pair->counted)
        drop_untouched_contents(pairs, pair);
    if (status != SYNCED_MEM_OK)
        return;
    const bool same = sm_first_of(to) == to && is_target_untouched(pair, sm_copy_of(to, pairs->side));
    const bool as_left = same && sm_head(to) == pair->head && sm_size_of(to) == pair->size;
    if (as_left) {
        sm_set_head(to, sm_bit(pairs->side));
        sm_leave_file(to);
        sm_count_given(to, pairs->side);
        pair->target->arriving = pair->target->write == pair->arrival;
    }
    pair->done = as_left || pair->counted;
}

void sm_pair_finish(const struct sm_pairs *pairs, struct sm_pair *pair, synced_mem_status status)
{
    (void)sm_lock_record(pair->to); /* cannot fail, as the record was locked before */
    for (struct sm_record *each = sm_first_of(pair->to); each; each = next_target(pair, each))
        sm_drop_lost(each);
    end_pair(pairs, pair, status);
    leave_target(pair);
    sm_unlock_record(pair->to);
    sm_fence_drop(pair->arrival);
    pair->arrival = NULL;
}
