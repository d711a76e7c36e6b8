/* The records that a push or pull concerns. */
#include "object/mentions.h"

#include "base/status.h"
#include "object/concerned.h"
#include "object/several.h"
#include "object/span.h"

#include <stdlib.h>
#include <string.h>

void sm_mentions_begin(struct sm_mentions *mentions, struct sm_mention *given, size_t room)
{
    mentions->list = mentions->given = given;
    mentions->room = room;
    mentions->count = 0;
}

void sm_mentions_end(struct sm_mentions *mentions)
{
    if (mentions->list != mentions->given)
        free(mentions->list);
}

/* Rare work is not inlined, so that a call without it saves few registers. */
static __attribute__((noinline)) synced_mem_status make_more_room(struct sm_mentions *mentions)
{
    const size_t room = 2 * mentions->room;
    struct sm_mention *const list = calloc(room, sizeof *list);
    if (!list)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the records of %zu transfers", room);
    memcpy(list, mentions->list, mentions->count * sizeof *list);
    sm_mentions_end(mentions);
    mentions->list = list;
    mentions->room = room;
    return SYNCED_MEM_OK;
}

static synced_mem_status mention(struct sm_mentions *mentions, struct synced_mem *record, struct synced_mem *object)
{
    if (mentions->count == mentions->room)
        SM_TRY(make_more_room(mentions));
    mentions->list[mentions->count++] = (struct sm_mention){.record = record, .object = object};
    if (record->kind == SM_PIECE)
        record->entered |= SM_MENTIONED;
    return SYNCED_MEM_OK;
}

static bool has_something_to_move(synced_mem_state head, enum sm_side side)
{
    return head == SYNCED_MEM_SYNCED || head == SYNCED_MEM_MIXED || (unsigned)head == sm_bit(sm_other(side));
}

/* A piece that several of the objects have is listed for the first one alone. So the list has no more mentions than
 * there are pieces and objects. */
static synced_mem_status list_record(struct sm_mentions *mentions, struct synced_mem *record, struct synced_mem *object)
{
    if (record->kind == SM_PIECE && (record->entered & SM_MENTIONED))
        return SYNCED_MEM_OK;
    sm_drop_lost(record);
    return mention(mentions, record, object);
}

/* Visits all records. Of a piece that is left out only one cache line is read. */
static synced_mem_status list_by_walk(struct sm_mentions *mentions, struct synced_mem *object, enum sm_side side,
                                      synced_mem_state *head)
{
    struct synced_mem *each = sm_first_record(object);
    struct sm_heads heads = SM_NO_HEADS;
    size_t left = sm_size(object);
    for (;;) {
        if (each->kind != SM_PIECE || sm_is_concerned(each, side))
            SM_TRY(list_record(mentions, each, object));
        sm_add_head(&heads, sm_head(each));
        left -= sm_size(each);
        if (left == 0)
            break;
        each = each->beside.after;
    }
    *head = (synced_mem_state)sm_head_of_all(&heads);
    return SYNCED_MEM_OK;
}

/* Visits the pieces of a root that are concerned. If one of them moves, the heads of the others are not needed: the
 * root's head is the other side or MIXED. */
static synced_mem_status list_concerned(struct sm_mentions *mentions, struct synced_mem *root, enum sm_side side,
                                        synced_mem_state *head)
{
    bool moves = false;
    if (sm_is_concerned(root->at.first, side)) {
        SM_TRY(list_record(mentions, root->at.first, root));
        moves = sm_is_to_be_moved(root->at.first, side);
    }
    for (struct synced_mem *each = sm_concerned_list(root, side); each; each = each->next_entered[side]) {
        SM_TRY(list_record(mentions, each, root));
        moves = moves || sm_is_to_be_moved(each, side);
    }
    *head = (synced_mem_state)(moves ? (unsigned)SYNCED_MEM_MIXED : sm_head_of_records(root));
    return SYNCED_MEM_OK;
}

static synced_mem_status list_records_of(struct sm_mentions *mentions, struct synced_mem *object, enum sm_side side,
                                         synced_mem_state *head)
{
    const bool whole = object->kind == SM_WHOLE && !sm_has_one_record(object);
    return whole && sm_concerned_begin(object) ? list_concerned(mentions, object, side, head)
                                               : list_by_walk(mentions, object, side, head);
}

static synced_mem_status list_all_records(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                          enum sm_side side)
{
    for (size_t i = 0; i < count; i++) {
        synced_mem_state head;
        SM_TRY(list_records_of(mentions, mems[i], side, &head));
        if (mentions->refused < count || has_something_to_move(head, side))
            continue;
        mentions->refused = i;
        mentions->refused_head = head;
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_mentions_list(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                   enum sm_side side)
{
    mentions->count = 0;
    mentions->refused = count;
    const synced_mem_status status = list_all_records(mentions, mems, count, side);
    for (size_t i = 0; i < mentions->count; i++)
        if (mentions->list[i].record->kind == SM_PIECE)
            mentions->list[i].record->entered &= (unsigned char)~SM_MENTIONED;
    return status;
}

/* ---- Entries ---- */

static int compare_entries(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct sm_entry *)a)->transaction.mem;
    const uintptr_t second = (uintptr_t)((const struct sm_entry *)b)->transaction.mem;
    return (first > second) - (first < second);
}

size_t sm_entries_begin(struct sm_entry *entries, const struct sm_mentions *mentions)
{
    size_t count = 0;
    for (size_t i = 0; i < mentions->count; i++)
        entries[i].transaction.mem = mentions->list[i].record;
    sm_sort_unless_sorted(entries, mentions->count, sizeof *entries, compare_entries);
    for (size_t i = 0; i < mentions->count; i++) {
        struct synced_mem *const record = entries[i].transaction.mem;
        if (i > 0 && record == entries[count - 1].transaction.mem)
            continue;
        struct sm_entry *const entry = &entries[count++];
        sm_begin_record(&entry->transaction, record);
        entry->size = sm_size(record);
        entry->moves = false;
        entry->ready = NULL;
    }
    return count;
}

/* The entry has the index of the mention if the caller's array is sorted and has no object twice. */
struct sm_entry *sm_entries_find(struct sm_entry *entries, size_t count, const struct sm_mentions *mentions,
                                 size_t which)
{
    struct synced_mem *const record = mentions->list[which].record;
    if (which < count && entries[which].transaction.mem == record)
        return &entries[which];
    const struct sm_entry wanted = {.transaction.mem = record};
    return bsearch(&wanted, entries, count, sizeof *entries, compare_entries);
}

static size_t get_end(const struct sm_entry *entry)
{
    return entry->transaction.one.offset + entry->size;
}

struct synced_mem *sm_entry_next(const struct sm_entry *entry, const struct synced_mem *record)
{
    struct synced_mem *const next = record->kind == SM_PIECE ? record->beside.after : NULL;
    return next && next->offset < get_end(entry) ? next : NULL;
}

bool sm_entry_has(const struct sm_entry *entry, const struct synced_mem *record)
{
    return sm_begin_of(record) + sm_size(record) <= get_end(entry);
}
