/* The records that a call works on. */
#include "object/listing.h"

#include "base/status.h"
#include "copy/fills.h"
#include "object/fetch.h"
#include "object/head.h"
#include "object/piece_tree.h"
#include "object/unified.h"

#include <stdlib.h>

/* Leaves out the room for a state, which each call would take long to fill with zeros. */
void sm_listing_begin(struct sm_listing *listing)
{
    listing->records = (struct sm_records){.list = &listing->only};
    listing->room = 1;
    listing->every = NULL;
    listing->noted = 0;
    listing->is_filled = false;
    listing->zeros = NULL;
    listing->lost = NULL;
}

void sm_listing_drop_zeros(struct sm_listing *listing)
{
    sm_fills_free(listing->zeros);
    listing->zeros = NULL;
}

void sm_listing_end(const struct sm_listing *listing)
{
    if (listing->records.list != &listing->only)
        free(listing->records.list);
    if (listing->every)
        free(listing->every);
    if (listing->zeros)
        sm_fills_free(listing->zeros);
    sm_fence_drop(listing->lost);
}

static synced_mem_status fail_without_room(void)
{
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of an object's parts");
}

/* ---- States ---- */

void sm_listing_note_one(struct sm_listing *listing, struct sm_record *record)
{
    sm_take_out_lost(record, &listing->lost);
    listing->one = sm_state_of(record);
    listing->noted = 1;
}

/* Notes the states of listed records that were not listed before: another call has changed them while this one waited,
 * and lost contents were taken out after the wait. */
static synced_mem_status note_others(struct sm_listing *listing)
{
    const struct sm_records *const records = &listing->records;
    const struct sm_state *before = listing->every ? listing->every : &listing->one;
    const struct sm_state *const last = before + listing->noted;
    struct sm_state *const every = malloc((listing->noted + records->count) * sizeof *every);
    struct sm_state *next = every;
    if (!every)
        return fail_without_room();
    for (size_t i = 0; i < records->count; i++) {
        struct sm_record *const each = records->list[i];
        while (before < last && before->offset <= sm_begin_of(each))
            *next++ = *before++;
        if (next == every || next[-1].end <= sm_begin_of(each))
            *next++ = sm_state_of(each);
    }
    while (before < last)
        *next++ = *before++;
    free(listing->every);
    listing->every = every;
    listing->noted = (size_t)(next - every);
    return SYNCED_MEM_OK;
}

void sm_listing_restore(const struct sm_listing *listing, struct synced_mem *mem)
{
    const struct sm_state *const before = listing->every ? listing->every : &listing->one;
    if (listing->noted > 0)
        sm_restore_heads(sm_first_record(mem), sm_object_end(mem), before, before + listing->noted - 1);
}

void sm_listing_enter_fills(struct sm_listing *listing)
{
    for (size_t i = 0; listing->is_filled && i < listing->records.count; i++)
        sm_inflight_written(sm_copy_of(listing->records.list[i], SM_GPU), listing->zeros->fence);
    listing->is_filled = false;
}

/* ---- Needs ---- */

/* A copy is not usable while work may write it whose end nobody can tell. */
static bool has_usable_copy(const struct sm_record *record, enum sm_side side)
{
    const struct sm_copy *const copy = sm_copy_of(record, side);
    return copy && copy->untracked != SM_UNTRACKED_WRITE;
}

static void add_needs(struct sm_needs *needs, const struct sm_record *record, enum sm_side side, enum sm_mode mode)
{
    const enum sm_work work = sm_work_of(record, side, mode);
    if (work == SM_NOTHING && has_usable_copy(record, side))
        return;
    needs->count[work][sm_shared_copy(record) != NULL]++;
}

void sm_listing_find_needs(struct sm_listing *listing, enum sm_side side, enum sm_mode mode)
{
    const struct sm_records *const records = &listing->records;
    listing->needs = (struct sm_needs){.count = {{0}}};
    for (size_t i = 0; i < records->count; i++) {
        if (i + SM_AHEAD < records->count)
            sm_prefetch_record(records->list[i + SM_AHEAD]);
        add_needs(&listing->needs, records->list[i], side, mode);
    }
}

/* ---- Records ---- */

/* Makes room for so many records, and for their states if there are none yet. */
static bool make_room(struct sm_listing *listing, size_t count)
{
    struct sm_records *const records = &listing->records;
    if (count > listing->room) {
        struct sm_record **const list = malloc(count * sizeof *list);
        if (!list)
            return false;
        if (records->list != &listing->only)
            free(records->list);
        records->list = list;
        listing->room = count;
    }
    if (listing->noted > 0 || count == 0)
        return true;
    free(listing->every);
    listing->every = malloc(count * sizeof *listing->every);
    return listing->every != NULL;
}

/* Makes the stream the user of a whole root. In debug mode each overwrite fills its memory, so there are no users. */
static void set_user(const struct synced_mem *mem, const struct sm_stream *stream, bool writes)
{
    if (sm_size(mem) == sm_size(sm_root(mem)) && !sm_guard_on())
        sm_division_of(sm_root(mem))->user[writes] = stream;
}

/* Finds the pieces that an access has to look at. One by the user passes by those without a mark. An access to the
 * whole root makes its stream the user: all pieces that the stream does not have are listed then. */
static struct sm_piece_range find_range(const struct synced_mem *mem, const struct sm_stream *stream, enum sm_mode mode)
{
    const bool writes = mode != SM_READ;
    const struct sm_division *const division = sm_division_of(sm_root(mem));
    const bool all = !stream || division->user[writes] != stream;
    if (stream && all)
        set_user(mem, stream, writes);
    const bool is_user = stream && division->user[writes] == stream;
    return (struct sm_piece_range){.begin = sm_object_begin(mem),
                                   .end = sm_object_end(mem),
                                   .mark = is_user ? SM_MARK_TO_READ + writes : SM_MARKS,
                                   .all = all};
}

/* A stream that has all pieces of a whole root becomes the user. They may have marks of an earlier one. */
bool sm_listing_is_empty(struct synced_mem *mem, const struct sm_stream *stream, enum sm_mode mode)
{
    const bool writes = mode != SM_READ;
    const struct sm_division *const division = sm_division_of(sm_root(mem));
    const size_t end = sm_object_end(mem);
    if (division->user[writes] == stream)
        return sm_piece_tree_count(division, &(struct sm_piece_range){.begin = sm_object_begin(mem),
                                                                      .end = end,
                                                                      .mark = SM_MARK_TO_READ + writes}) == 0;
    bool is_empty = true;
    for (struct sm_record *each = sm_first_record(mem); each && is_empty; each = sm_next_before(each, end))
        is_empty = sm_is_published_to(each, stream, writes);
    if (is_empty)
        set_user(mem, stream, writes);
    return is_empty;
}

/* Lists the fill of a record that has no contents, as what it needs, if the stream comes after all work on its memory.
 * room: for a new list. */
static bool list_zeros(struct sm_listing *listing, const struct sm_record *record, struct sm_stream *stream,
                       enum sm_mode mode, size_t room)
{
    if (sm_work_of(record, SM_GPU, mode) != SM_ZERO || !sm_is_ready_for_zeros(record, stream))
        return false;
    if (!listing->zeros)
        listing->zeros = sm_fills_make(stream, room);
    if (!listing->zeros)
        return false;
    sm_fills_add(listing->zeros, sm_slot_of(record, SM_GPU), sm_size_of(record));
    listing->needs.count[SM_ZERO][false]++;
    return true;
}

/* Keeps those records in the list for which the stream has something to do. Notes the states of those that no listed
 * zeros fill. */
static void pass_by_others(struct sm_listing *listing, const struct sm_piece_range *range, enum sm_side side,
                           struct sm_stream *stream, enum sm_mode mode)
{
    struct sm_records *const records = &listing->records;
    const bool notes = listing->noted == 0;
    const bool fills = side == SM_GPU && stream && stream->kind != SM_STREAM_ANY;
    const unsigned char stay = (unsigned char)~(range->mark < SM_MARKS ? 1U << range->mark : 0);
    size_t count = 0;
    for (size_t i = 0; i < records->count; i++) {
        struct sm_record *const each = records->list[i];
        sm_prefetch_listed(records, i, sm_bit(SM_GPU));
        each->marks &= stay;
        if (stream && sm_is_published_to(each, stream, mode != SM_READ))
            continue;
        if (notes)
            sm_take_out_lost(each, &listing->lost);
        records->list[count++] = each;
        if (fills && list_zeros(listing, each, stream, mode, records->count - i))
            continue;
        if (notes)
            listing->every[listing->noted++] = sm_state_of(each);
        add_needs(&listing->needs, each, side, mode);
    }
    records->count = count;
}

/* Returns whether the list of zeros is used as it is: it is of all records, so that the call does not wait first, and
 * has little memory for others, which passed by. */
static bool sends_zeros(const struct sm_listing *listing, size_t room)
{
    const size_t zeros = listing->zeros->count;
    return zeros > 1 && zeros == listing->records.count && zeros >= room / 2;
}

static synced_mem_status list_pieces(struct sm_listing *listing, struct synced_mem *mem, enum sm_side side,
                                     struct sm_stream *stream, enum sm_mode mode)
{
    struct sm_division *const division = sm_division_of(sm_root(mem));
    const struct sm_piece_range range = find_range(mem, stream, mode);
    const size_t count = sm_piece_tree_count(division, &range);
    const bool is_again = listing->noted > 0;
    listing->needs = (struct sm_needs){.count = {{0}}};
    listing->records.count = 0;
    sm_listing_drop_zeros(listing);
    if (!make_room(listing, count))
        return fail_without_room();
    sm_piece_tree_take(division, &range, listing->records.list);
    listing->records.count = count;
    pass_by_others(listing, &range, side, stream, mode);
    const bool had_zeros = listing->zeros != NULL;
    if (had_zeros && !sends_zeros(listing, count))
        sm_listing_drop_zeros(listing);
    return is_again || (had_zeros && !listing->zeros) ? note_others(listing) : SYNCED_MEM_OK;
}

synced_mem_status sm_listing_fill(struct sm_listing *listing, struct synced_mem *mem, enum sm_side side,
                                  struct sm_stream *stream, enum sm_mode mode)
{
    struct sm_record *const first = sm_first_record(mem);
    listing->is_filled = false;
    if (!sm_has_one_record(mem))
        return list_pieces(listing, mem, side, stream, mode);
    listing->records.list[0] = first;
    listing->records.count = !stream || !sm_is_published_to(first, stream, mode != SM_READ);
    if (sm_is_divided(mem))
        sm_listing_find_needs(listing, side, mode);
    return SYNCED_MEM_OK;
}
