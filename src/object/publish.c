/* Publication. */
#include "object/publish.h"

#include "copy/inflight.h"
#include "copy/part.h"
#include "memory/guard.h"
#include "object/evictable.h"
#include "object/guarding.h"
#include "object/piece_tree.h"
#include "object/span.h"
#include "stream/stream_set.h"

/* The target of on while no stream may have the pointer. Its handle matches no stream. */
static struct sm_stream no_stream = {.hot = SM_NO_HANDLE, .kind = SM_STREAM_ANY};

/* Those that have a copy's pointer to read: the stream that was given it last, whether there are others, and whether one
 * is no stream. */
struct readers {
    struct sm_stream *last;
    bool are_several;
    bool has_streamless;
};

static inline __attribute__((always_inline)) struct readers find_readers(const struct sm_copy *copy)
{
    struct readers found = {.last = NULL};
    for (const struct sm_use *use = copy->reads; use; use = use->next) {
        if (!sm_use_is_open(use))
            continue;
        found.are_several = found.last != NULL;
        found.last = found.last ? found.last : use->by;
        found.has_streamless = found.has_streamless || use->by->kind == SM_STREAM_ANY;
    }
    return found;
}

/* Lists the streams that the hot path may find, the last one first, and one more at most than a set has room for. A
 * stream that is done has no handle. */
static unsigned list_readers(const struct sm_copy *copy, struct sm_stream *readers[SM_SET_MOST + 1])
{
    unsigned count = 0;
    for (const struct sm_use *use = copy->reads; use && count <= SM_SET_MOST; use = use->next)
        if (sm_use_is_open(use) && sm_stream_can_be_hot(use->by) &&
            atomic_load_explicit(&use->by->hot, memory_order_relaxed) != SM_NO_HANDLE)
            readers[count++] = use->by;
    return count;
}

void sm_publish_readers_together(const struct sm_copy *copy)
{
    struct sm_stream *readers[SM_SET_MOST + 1];
    const unsigned count = list_readers(copy, readers);
    if (count > 1 && count <= SM_SET_MOST)
        sm_stream_set_make(readers, count);
}

/* Returns the set of the streams that read, or the last of them, or no_stream. */
static __attribute__((noinline)) struct sm_stream *choose_of_several(const struct sm_copy *copy)
{
    struct sm_stream *readers[SM_SET_MOST + 1];
    const unsigned count = list_readers(copy, readers);
    struct sm_stream *const set = count > 1 && count <= SM_SET_MOST ? sm_stream_set_find(readers, count) : NULL;
    if (set)
        return set;
    return count > 0 ? readers[0] : &no_stream;
}

/* The publication of a record depends on these. Each is read once. */
struct facts {
    unsigned head;
    const struct sm_copy *host;
    const struct sm_copy *gpu;
};

/*
 * Returns whether the host's pointer is published in this mode. That to a shared copy is published to write only while no
 * stream has it to read: there is no fence to wait for yet, and the head does not always show it:
 *
 *    head      streams that have the pointer              the host may read at once   write
 *    AT_CPU    none                                       yes                         yes
 *    AT_CPU    to read: the device's side was released    yes                         no: the streams are waited for
 *    SYNCED    none, or to read                           yes, once arrived           no: the head changes
 *    AT_GPU    any                                        no: the open write ends     no
 *
 * The open write ends where the head gets the host's bit, so no stream has it then.
 */
static inline bool is_host_ready(const struct facts *facts, bool writing)
{
    const struct sm_copy *const host = facts->host;
    if (!(facts->head & SYNCED_MEM_AT_CPU) || sm_inflight_is_blocked(host, writing))
        return false;
    return !writing || (facts->head == SYNCED_MEM_AT_CPU && !host->read_only && !sm_inflight_last_reader(host));
}

/* Chooses what is published for the mode. together: several streams that read may be published as a set. */
static inline __attribute__((always_inline)) void choose_published(const struct facts *facts, bool writing,
                                                                   bool together, struct sm_published *chosen)
{
    const struct sm_copy *const gpu = facts->gpu;
    if (is_host_ready(facts, writing))
        chosen->ready[SM_CPU][writing] = sm_copy_data(facts->host);
    if (!(facts->head & SYNCED_MEM_AT_GPU) || (writing && facts->head != SYNCED_MEM_AT_GPU))
        return;
    struct readers by = {.last = NULL};
    if (!writing)
        by = find_readers(gpu);
    else if (gpu->writer && !gpu->writer_fence)
        by = (struct readers){.last = gpu->writer, .has_streamless = gpu->writer->kind == SM_STREAM_ANY};
    if (!by.last)
        return;
    /* An access without a stream must have returned the pointer in this mode. Only then is there a use to wait for
     * later. */
    const bool is_blocked = (writing || by.has_streamless) && sm_inflight_is_blocked(gpu, writing);
    if (by.has_streamless && !is_blocked && !(writing && gpu->read_only))
        chosen->ready[SM_GPU][writing] = sm_copy_data(gpu);
    /* After a failed call a stream that writes on comes behind the transfer that the call has queued. */
    if (by.are_several && together && !gpu->writer)
        chosen->on[writing] = choose_of_several(gpu);
    else if (sm_stream_can_be_hot(by.last) && !(writing && is_blocked))
        chosen->on[writing] = by.last;
}

static inline void store_published(struct synced_mem *mem, const struct sm_published *chosen)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        for (int writing = 0; writing < 2; writing++)
            atomic_store_explicit(&mem->ready[side][writing], chosen->ready[side][writing], memory_order_release);
    for (int writing = 0; writing < 2; writing++)
        atomic_store_explicit(&mem->on[writing], chosen->on[writing], memory_order_release);
}

static void store_head(struct synced_mem *mem, unsigned head)
{
    atomic_store_explicit(&mem->record.head, (unsigned char)head, memory_order_relaxed);
}

void sm_publish_nothing(struct synced_mem *mem)
{
    const struct sm_published nothing = {.on = {&no_stream, &no_stream}};
    store_published(mem, &nothing);
    if (sm_is_divided(mem))
        store_head(mem, SM_HEAD_OF_PIECES);
}

/* In debug mode each overwrite fills its memory. */
static inline __attribute__((always_inline)) struct sm_published choose_all_published(const struct sm_record *record,
                                                                                      bool together)
{
    const struct facts facts = {sm_raw_head(record), sm_slot_of(record, SM_CPU), sm_slot_of(record, SM_GPU)};
    struct sm_published chosen = {.on = {&no_stream, &no_stream}};
    choose_published(&facts, false, together, &chosen);
    if (facts.head < SYNCED_MEM_SYNCED && !sm_guard_on())
        choose_published(&facts, true, together, &chosen);
    return chosen;
}

/* Before any thread gets a pointer. */
static inline void prepare_publication(const struct sm_record *record)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_inflight_prune(sm_slot_of(record, side));
    if (sm_guard_on())
        sm_protect(record);
}

/* Stores what is published, and the head, in all objects that are exactly the piece. */
static inline void store_published_of_piece(const struct sm_piece *piece, const struct sm_published *chosen,
                                            unsigned head)
{
    struct sm_copy *const gpu = sm_copy_of(&piece->record, SM_GPU);
    for (struct synced_mem *each = piece->hot; each; each = each->at.next_hot) {
        if (each->record.kind == SM_VIEW && gpu)
            atomic_store_explicit(&each->gpu_data, sm_copy_data(gpu), memory_order_relaxed);
        store_published(each, chosen);
        store_head(each, head);
    }
}

void sm_publish_piece(struct sm_piece *piece)
{
    const struct sm_record *const record = &piece->record;
    prepare_publication(record);
    const struct sm_published chosen = choose_all_published(record, true);
    piece->record.at_rest =
        sm_part_has_no_write(sm_slot_of(record, SM_CPU)) && sm_part_has_no_write(sm_slot_of(record, SM_GPU));
    sm_piece_tree_mark(piece);
    store_published_of_piece(piece, &chosen, sm_head(record));
}

void sm_publish_filled(struct sm_piece *piece, struct sm_filled *filled)
{
    prepare_publication(&piece->record);
    piece->record.at_rest = false;
    /* The fill has ended all uses but the stream's own. */
    *filled = (struct sm_filled){choose_all_published(&piece->record, false), sm_needed_marks(piece)};
    sm_piece_tree_mark(piece);
    store_published_of_piece(piece, &filled->published, sm_bit(SM_GPU));
}

void sm_publish_filled_too(struct sm_piece *piece, const struct sm_filled *filled)
{
    const unsigned marks = filled->marks & ~(unsigned)piece->record.marks;
    piece->record.at_rest = false;
    if (marks)
        sm_piece_tree_add_marks(piece, marks);
    store_published_of_piece(piece, &filled->published, sm_bit(SM_GPU));
}

/* The pointers of an evictable object to a side where it is not held are not good. */
static void withdraw_side(struct sm_published *chosen, enum sm_side side)
{
    for (int writing = 0; writing < 2; writing++) {
        chosen->ready[side][writing] = NULL;
        if (side == SM_GPU)
            chosen->on[writing] = &no_stream;
    }
}

/* All count here, so of an unhold and a publication one comes second, and sees what the other has stored before. */
static atomic_uint meetings;

void sm_publish_meet(void)
{
    atomic_fetch_add_explicit(&meetings, 1, memory_order_acq_rel);
}

static void store_use(struct sm_evictable *evictable, enum sm_side side, bool is_used)
{
    atomic_store_explicit(&evictable->is_used[side], is_used, memory_order_relaxed);
}

void sm_publish_left(struct synced_mem *mem, enum sm_side side)
{
    store_use(sm_evictable_of(mem), side, false);
    sm_publish(sm_own_record(mem));
}

/* Notes a use of the side that has begun: its pointers are given out, and those to the device while a stream's use is
 * open. Then withdraws them if the side is not held. */
static void choose_of_evictable(struct synced_mem *mem, struct sm_published *chosen, enum sm_side side)
{
    struct sm_evictable *const evictable = sm_evictable_of(mem);
    const bool publishes = chosen->ready[side][0] || chosen->ready[side][1];
    const bool is_open = sm_inflight_last_user(sm_slot_of(sm_own_record(mem), side)) != NULL;
    if (!sm_is_used(evictable, side) && (is_open || (publishes && !sm_is_unheld(mem, side)))) {
        store_use(evictable, side, true);
        sm_publish_meet();
    }
    if (sm_is_unheld(mem, side))
        withdraw_side(chosen, side);
}

static __attribute__((noinline)) void publish_evictable(struct synced_mem *mem, struct sm_published chosen)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        choose_of_evictable(mem, &chosen, side);
    store_published(mem, &chosen);
}

void sm_publish(struct sm_record *record)
{
    struct synced_mem *const mem = sm_owner_of(record);
    if (record->kind == SM_PIECE) {
        sm_publish_piece(sm_piece_of(record));
        return;
    }
    prepare_publication(record);
    const struct sm_published chosen = choose_all_published(record, true); /* in registers */
    if (sm_evictable_of(mem))
        publish_evictable(mem, chosen);
    else
        store_published(mem, &chosen);
}

void sm_publish_moved(struct synced_mem *mem, struct sm_copy *from)
{
    const struct sm_record *const record = sm_own_record(mem);
    const struct facts facts = {SYNCED_MEM_SYNCED, sm_slot_of(record, SM_CPU), sm_slot_of(record, SM_GPU)};
    struct sm_published chosen = {.on = {&no_stream, &no_stream}};
    sm_inflight_prune(from);
    choose_published(&facts, false, true, &chosen);
    store_published(mem, &chosen);
}

void sm_publish_host_only(struct synced_mem *mem)
{
    const struct sm_record *const own = sm_own_record(mem);
    void *const data = sm_raw_head(own) == sm_bit(SM_CPU) ? sm_copy_data(sm_copy_of(own, SM_CPU)) : NULL;
    for (int writing = 0; writing < 2; writing++)
        atomic_store_explicit(&mem->ready[SM_CPU][writing], data, memory_order_release);
}

void sm_publish_from_piece(struct synced_mem *mem)
{
    struct sm_piece *const piece = mem->at.first;
    if (!sm_is_divided(mem) || mem->at.hot_link || !sm_has_one_record(mem))
        return;
    mem->at.next_hot = piece->hot;
    if (piece->hot)
        piece->hot->at.hot_link = &mem->at.next_hot;
    mem->at.hot_link = &piece->hot;
    piece->hot = mem;
}

void sm_withdraw(struct synced_mem *mem)
{
    if (!mem->at.hot_link)
        return;
    *mem->at.hot_link = mem->at.next_hot;
    if (mem->at.next_hot)
        mem->at.next_hot->at.hot_link = mem->at.hot_link;
    mem->at.hot_link = NULL;
    mem->at.next_hot = NULL;
    sm_publish_nothing(mem);
}

void sm_withdraw_all(struct sm_piece *piece)
{
    while (piece->hot)
        sm_withdraw(piece->hot);
}

/* ---- Checks ---- */

/* Returns whether the stream, or each of the set, was given the pointer and uses it. */
static bool have_pointer(const struct sm_copy *copy, const struct sm_stream *on, bool writing)
{
    if (atomic_load_explicit(&on->hot, memory_order_relaxed) != SM_HANDLE_OF_SET)
        return sm_inflight_has(copy, on, writing);
    struct sm_stream *const *members;
    bool have = !writing;
    for (unsigned i = sm_stream_set_members(on, &members); i > 0; i--)
        have = have && sm_inflight_has(copy, members[i - 1], false);
    return have;
}

static bool is_published_well(const struct synced_mem *mem, const struct sm_record *record, bool writing)
{
    const unsigned head = sm_raw_head(record);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const void *const ready = atomic_load_explicit(&mem->ready[side][writing], memory_order_relaxed);
        if (ready && (!(head & sm_bit(side)) || ready != sm_copy_data(sm_copy_of(record, side))))
            return false;
        if (ready && writing && head != sm_bit(side))
            return false;
    }
    const struct sm_stream *const on = atomic_load_explicit(&mem->on[writing], memory_order_relaxed);
    if (on == &no_stream)
        return true;
    return (writing ? head == sm_bit(SM_GPU) : (head & sm_bit(SM_GPU)) != 0) &&
           have_pointer(sm_copy_of(record, SM_GPU), on, writing);
}

bool sm_publication_is_valid(const struct sm_record *record)
{
    if (record->kind != SM_PIECE)
        return is_published_well(sm_owner_of(record), record, false) &&
               is_published_well(sm_owner_of(record), record, true);
    bool valid = true;
    for (const struct synced_mem *each = sm_piece_of(record)->hot; each && valid; each = each->at.next_hot)
        valid = sm_first_record(each) == record && sm_has_one_record(each) && is_published_well(each, record, false) &&
                is_published_well(each, record, true);
    return valid;
}
