/* The records that a push or pull concerns. */
#include "object/mentions.h"

#include "base/status.h"
#include "object/piece.h"
#include "object/piece_tree.h"
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
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu transfers", room);
    memcpy(list, mentions->list, mentions->count * sizeof *list);
    sm_mentions_end(mentions);
    mentions->list = list;
    mentions->room = room;
    return SYNCED_MEM_OK;
}

static inline synced_mem_status list_record(struct sm_mentions *mentions, struct sm_record *record,
                                            struct synced_mem *object)
{
    sm_drop_lost(record);
    if (mentions->count == mentions->room)
        SM_TRY(make_more_room(mentions));
    struct sm_mention *const last = &mentions->list[mentions->count];
    last->record = record;
    last->object = object;
    last->place = (unsigned)mentions->count++;
    last->direct = false;
    last->moves = false;
    last->writes = 0;
    return SYNCED_MEM_OK;
}

/* Returns whether a transfer of an object with this head to the side is allowed, though there may be nothing to do. */
static bool is_movable(synced_mem_head_kind head, enum sm_side side)
{
    return head == SYNCED_MEM_SYNCED || head == SYNCED_MEM_MIXED || (unsigned)head == sm_bit(sm_other(side));
}

/* A piece that several of the objects have is listed for the first one alone. So the list has no more mentions than
 * there are pieces and objects. */
static synced_mem_status list_piece(struct sm_mentions *mentions, struct sm_piece *piece, struct synced_mem *object)
{
    if (piece->record.marks & SM_MENTIONED)
        return SYNCED_MEM_OK;
    SM_TRY(list_record(mentions, &piece->record, object));
    mentions->pieces++;
    piece->record.marks |= SM_MENTIONED;
    return SYNCED_MEM_OK;
}

/* Lists the pieces that begin in a range, from the first one on, and adds their heads. Of a piece that is left out only
 * one cache line is read. */
static synced_mem_status list_range(struct sm_mentions *mentions, struct sm_piece *first, size_t end,
                                    struct synced_mem *object, enum sm_side side, struct sm_heads *heads)
{
    for (struct sm_piece *each = first; each && each->offset < end; each = each->after) {
        if (sm_is_concerned(each, side))
            SM_TRY(list_piece(mentions, each, object));
        sm_add_head(heads, sm_whole_head(&each->record));
    }
    return SYNCED_MEM_OK;
}

/* Returns the head by which an object is movable or not. Contents in a file alone can be moved to either side, as those
 * of a MIXED object. */
static synced_mem_head_kind get_movable_head(const struct sm_heads *heads)
{
    const unsigned head = sm_head_of_all(heads);
    const bool is_loaded = head == SYNCED_MEM_UNINITIALIZED && (heads->any & SM_IN_FILE);
    return (synced_mem_head_kind)(is_loaded ? (unsigned)SYNCED_MEM_MIXED : head);
}

/* Returns whether the heads are those of an object that is movable, whatever other pieces it has. */
static bool is_surely_movable(const struct sm_heads *heads, enum sm_side side)
{
    return heads->any && !(heads->all & sm_bit(side));
}

/* Adds the heads of pieces that were visited before, for other objects of the call. They need not be visited again if
 * all pieces of the object have the other side valid: then it is movable. */
static void add_visited_heads(const struct sm_visited *visited, struct sm_piece *first, size_t end, enum sm_side side,
                              struct sm_heads *heads)
{
    if (visited->heads.all & heads->all & sm_bit(sm_other(side))) {
        sm_add_head(heads, visited->heads.all);
        return;
    }
    for (struct sm_piece *each = first; each && each->offset < end && !is_surely_movable(heads, side);
         each = each->after)
        sm_add_head(heads, sm_whole_head(&each->record));
}

static bool touches(const struct sm_visited *visited, const struct synced_mem *root, size_t begin, size_t end)
{
    return visited->root == root && begin <= visited->end && visited->begin <= end;
}

static size_t min_offset(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t max_offset(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Visits the pieces of an object, but not those that it has in common with the objects before it: views that contain
 * each other would otherwise visit each piece many times. */
static synced_mem_status list_by_walk(struct sm_mentions *mentions, struct synced_mem *object, enum sm_side side,
                                      synced_mem_head_kind *head)
{
    struct sm_visited *const visited = &mentions->visited;
    struct sm_piece *const first = object->at.first;
    struct synced_mem *const root = first->root;
    const size_t begin = first->offset;
    const size_t end = begin + sm_size(object);
    struct sm_heads heads = SM_NO_HEADS;
    if (!touches(visited, root, begin, end)) {
        SM_TRY(list_range(mentions, first, end, object, side, &heads));
        *visited = (struct sm_visited){.root = root, .begin = begin, .end = end, .heads = heads};
    } else {
        const size_t common = max_offset(begin, visited->begin);
        const size_t behind = min_offset(end, visited->end);
        struct sm_heads more = SM_NO_HEADS;
        SM_TRY(list_range(mentions, first, min_offset(end, visited->begin), object, side, &more));
        if (end > visited->end)
            SM_TRY(list_range(mentions, sm_find_piece(root, visited->end), end, object, side, &more));
        heads = more;
        if (begin <= visited->begin && visited->end <= end)
            sm_add_heads(&heads, &visited->heads);
        else if (common < behind)
            add_visited_heads(visited, sm_find_piece(root, common), behind, side, &heads);
        sm_add_heads(&visited->heads, &more);
        visited->begin = min_offset(begin, visited->begin);
        visited->end = max_offset(end, visited->end);
    }
    *head = get_movable_head(&heads);
    return SYNCED_MEM_OK;
}

/* The visit of a root's concerned pieces. */
struct listing {
    struct sm_mentions *mentions;
    struct synced_mem *root;
    enum sm_side side;
    bool moves; /* a piece that is listed has contents to move */
};

static synced_mem_status list_visited(struct sm_piece *piece, void *context)
{
    struct listing *const listing = context;
    SM_TRY(list_piece(listing->mentions, piece, listing->root));
    listing->moves = listing->moves || sm_is_to_be_moved(&piece->record, listing->side);
    return SYNCED_MEM_OK;
}

/* If one of the concerned pieces moves, the heads of the others are not needed: the root's head is the other side or
 * MIXED. */
static synced_mem_status list_concerned(struct sm_mentions *mentions, struct synced_mem *root, enum sm_side side,
                                        synced_mem_head_kind *head)
{
    struct listing listing = {.mentions = mentions, .root = root, .side = side};
    SM_TRY(sm_piece_tree_visit(sm_division_of(root), side, list_visited, &listing));
    *head = (synced_mem_head_kind)(listing.moves ? (unsigned)SYNCED_MEM_MIXED : sm_head_of_records(root));
    return SYNCED_MEM_OK;
}

static __attribute__((noinline)) synced_mem_status
list_pieces_of(struct sm_mentions *mentions, struct synced_mem *object, enum sm_side side, synced_mem_head_kind *head)
{
    return object->record.kind == SM_WHOLE && !sm_has_one_record(object) ? list_concerned(mentions, object, side, head)
                                                                         : list_by_walk(mentions, object, side, head);
}

static inline synced_mem_status list_records_of(struct sm_mentions *mentions, struct synced_mem *object,
                                                enum sm_side side, synced_mem_head_kind *head)
{
    if (sm_is_divided(object))
        return list_pieces_of(mentions, object, side, head);
    SM_TRY(list_record(mentions, sm_own_record(object), object)); /* takes lost contents out of the head */
    const struct sm_record *const own = sm_own_record(object);
    *head = (synced_mem_head_kind)(sm_is_in_file_alone(own) ? (unsigned)SYNCED_MEM_MIXED : sm_head(own));
    return SYNCED_MEM_OK;
}

/* Begins to load the object that is 3 * SM_AHEAD places ahead, the first piece of the one at 2 * SM_AHEAD, and the parts
 * of that at SM_AHEAD. */
static void prefetch_pieces(struct synced_mem *const *mems, size_t i, size_t end)
{
    if (i + 3 * SM_AHEAD < end)
        sm_prefetch_record(&mems[i + 3 * SM_AHEAD]->record);
    if (i + 2 * SM_AHEAD < end && sm_is_divided(mems[i + 2 * SM_AHEAD]))
        sm_prefetch_record(&mems[i + 2 * SM_AHEAD]->at.first->record);
    if (i + SM_AHEAD < end && sm_is_divided(mems[i + SM_AHEAD]))
        sm_prefetch_parts(&mems[i + SM_AHEAD]->at.first->record, SM_BOTH_SIDES);
}

void sm_mentions_clear(struct sm_mentions *mentions)
{
    mentions->count = 0;
    mentions->visited.root = NULL;
    mentions->pieces = 0;
    mentions->refused = SM_NONE_REFUSED;
}

synced_mem_status sm_mentions_add(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t begin,
                                  size_t end, enum sm_side side)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = begin; i < end && status == SYNCED_MEM_OK; i++) {
        synced_mem_head_kind head;
        if (mentions->pieces > 0)
            prefetch_pieces(mems, i, end);
        else if (i + SM_AHEAD < end)
            sm_prefetch_record(&mems[i + SM_AHEAD]->record);
        status = list_records_of(mentions, mems[i], side, &head);
        if (status != SYNCED_MEM_OK || mentions->refused != SM_NONE_REFUSED || is_movable(head, side))
            continue;
        mentions->refused = i;
        mentions->refused_head = head;
    }
    return status;
}

synced_mem_status sm_mentions_list(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                   enum sm_side side)
{
    sm_mentions_clear(mentions);
    const synced_mem_status status = sm_mentions_add(mentions, mems, 0, count, side);
    for (size_t i = 0; mentions->pieces > 0 && i < mentions->count; i++)
        if (mentions->list[i].record->kind == SM_PIECE)
            mentions->list[i].record->marks &= (unsigned char)~SM_MENTIONED;
    return status;
}

synced_mem_status sm_mentions_refuse(const struct sm_mentions *mentions, enum sm_side side)
{
    const bool pulls = side == SM_CPU;
    if (mentions->refused_head == SYNCED_MEM_UNINITIALIZED)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the head is UNINITIALIZED: there is nothing to %s",
                       pulls ? "pull" : "push");
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "the head is %s copy is stale",
                   pulls ? "AT_CPU: the device" : "AT_GPU: the host");
}

/* ---- Repeated mentions ---- */

static int compare_mentioned_records(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct sm_mention *)a)->record;
    const uintptr_t second = (uintptr_t)((const struct sm_mention *)b)->record;
    return (first > second) - (first < second);
}

static int compare_places(const void *a, const void *b)
{
    const unsigned first = ((const struct sm_mention *)a)->place;
    const unsigned second = ((const struct sm_mention *)b)->place;
    return (first > second) - (first < second);
}

static int compare_records_and_places(const void *a, const void *b)
{
    const int records = compare_mentioned_records(a, b);
    return records ? records : compare_places(a, b);
}

/* A piece is listed once, so there may be nothing to look for. */
void sm_mentions_remove_repeated(struct sm_mentions *mentions)
{
    struct sm_mention *const list = mentions->list;
    size_t count = 0;
    if (mentions->count - mentions->pieces < 2)
        return;
    sm_sort_unless_sorted(list, mentions->count, sizeof *list, compare_records_and_places);
    for (size_t i = 0; i < mentions->count; i++)
        if (i == 0 || list[i].record != list[count - 1].record)
            list[count++] = list[i];
    sm_sort_unless_sorted(list, count, sizeof *list, compare_places);
    mentions->count = count;
}

/* ---- Around a wait ---- */

void sm_mentions_hold(struct sm_mentions *mentions)
{
    for (size_t i = 0; i < mentions->count; i++) {
        struct sm_mention *const each = &mentions->list[i];
        each->before = sm_state_of(each->record);
        each->size = sm_size_of(each->record);
        sm_hold_record(each->record);
    }
}

void sm_mentions_drop(const struct sm_mentions *mentions)
{
    for (size_t i = 0; i < mentions->count; i++)
        sm_drop_held_record(mentions->list[i].record);
}

static size_t get_end(const struct sm_mention *mention)
{
    return mention->before.offset + mention->size;
}

struct sm_record *sm_mention_next(const struct sm_mention *mention, const struct sm_record *record)
{
    return sm_next_before(record, get_end(mention));
}

bool sm_mention_has(const struct sm_mention *mention, const struct sm_record *record)
{
    return sm_begin_of(record) + sm_size_of(record) <= get_end(mention);
}
