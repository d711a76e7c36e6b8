/* The pieces of a divided root. */
#include "object/piece.h"

#include "base/slab.h"
#include "base/status.h"
#include "copy/part.h"
#include "memory/guard.h"
#include "object/backing.h"
#include "object/guarding.h"
#include "object/piece_tree.h"
#include "object/publish.h"
#include "object/span.h"
#include "object/unified.h"
#include "trace/trace.h"

#include <assert.h>
#include <stdlib.h>

static struct sm_slab pieces = SM_SLAB_INITIALIZER(struct sm_piece);
static struct sm_slab divisions = SM_SLAB_INITIALIZER(struct sm_division);

bool sm_pieces_are_valid(const struct synced_mem *root)
{
    unsigned loose = 0;
    for (const struct sm_piece *each = root->at.first->after; each; each = each->after)
        loose += each->record.holders == 0;
    return loose == sm_division_of(root)->loose && sm_piece_tree_is_valid(sm_division_of(root));
}

void sm_pieces_trim(void)
{
    sm_slab_trim(&pieces);
    sm_slab_trim(&divisions);
    sm_piece_tree_trim();
}

/* ---- Finding ---- */

static bool has_byte(const struct sm_piece *piece, size_t offset)
{
    return piece && piece->offset <= offset && offset - piece->offset < sm_size_of(&piece->record);
}

struct sm_piece *sm_find_piece(struct synced_mem *root, size_t offset)
{
    struct sm_piece **const hint = &sm_division_of(root)->hint;
    struct sm_piece *at = *hint;
    if (at && !has_byte(at, offset))
        at = at->after;
    if (!has_byte(at, offset))
        at = sm_piece_tree_find(sm_division_of(root), offset);
    *hint = at;
    return at;
}

/* ---- Records ---- */

static void init_piece(struct sm_piece *piece, struct synced_mem *root, size_t offset, size_t size)
{
    *piece = (struct sm_piece){.root = root, .offset = offset};
    piece->record.kind = SM_PIECE;
    atomic_store_explicit(&piece->record.size, size, memory_order_relaxed);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_put_copy(&piece->record, side, NULL);
}

/* Takes a cell for a piece, or for a division with its first piece. */
static void *take_cell(struct sm_slab *slab)
{
    void *const cell = sm_slab_take(slab);
    if (!cell)
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a part");
    return cell;
}

static void give_copies(struct sm_piece *piece)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_part_give(sm_take_copy(&piece->record, side));
}

/* Gives up a piece other than the first. */
static void give_piece(struct sm_piece *piece)
{
    give_copies(piece);
    sm_slab_give(&pieces, piece);
}

static void give_division(struct sm_division *division)
{
    give_copies(&division->first);
    sm_slab_give(&divisions, division);
}

/* The record keeps its whole head, which its memory and its backing show. */
static void set_record_head(struct sm_record *record, unsigned head)
{
    atomic_store_explicit(&record->head, (unsigned char)head, memory_order_relaxed);
}

static synced_mem_status attach_one(struct sm_piece *piece, enum sm_side side)
{
    struct sm_copy *const part = sm_part_make(sm_copy_of(sm_own_record(piece->root), side), piece->offset);
    if (!part)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    sm_put_copy(&piece->record, side, part);
    return SYNCED_MEM_OK;
}

/* Protects the new bounds of a host copy in debug mode. */
static void protect_piece(const struct sm_piece *piece)
{
    if (sm_guard_on())
        sm_protect(&piece->record);
}

/* In debug mode a page that pieces share is protected only if all of them have their part of it. */
static void attach_others(const struct synced_mem *root)
{
    for (struct sm_piece *each = root->at.first; each; each = each->after)
        if (!sm_copy_of(&each->record, SM_CPU) && attach_one(each, SM_CPU) == SYNCED_MEM_OK)
            sm_protect(&each->record);
}

synced_mem_status sm_attach_part(struct sm_piece *piece, enum sm_side side)
{
    if (sm_copy_of(&piece->record, side))
        return SYNCED_MEM_OK;
    SM_TRY(attach_one(piece, side));
    if (side == SM_CPU && sm_guard_on())
        attach_others(piece->root);
    return SYNCED_MEM_OK;
}

/* ---- Dividing ---- */

/* Gives the first piece the root's copies, with what is in flight on them. */
static synced_mem_status take_over_copies(struct sm_division *division, struct synced_mem *root)
{
    struct sm_piece *const piece = &division->first;
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(sm_own_record(root), side) && !sm_copy_of(&piece->record, side))
            SM_TRY(attach_one(piece, side));
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        struct sm_copy *const memory = sm_copy_of(sm_own_record(root), side);
        if (!memory || (side == SM_GPU && sm_copy_is_shared(memory)))
            continue;
        sm_guard_forget(memory);
        sm_part_move_work(sm_copy_of(&piece->record, side), memory);
        division->given = memory->given > division->given ? memory->given : division->given;
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_divide(struct synced_mem *root)
{
    struct sm_division *const division = take_cell(&divisions);
    if (!division)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    *division = (struct sm_division){.loose = 0};
    init_piece(&division->first, root, 0, sm_size(root));
    if (take_over_copies(division, root) != SYNCED_MEM_OK) {
        give_division(division);
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    }
    set_record_head(&division->first.record, sm_raw_head(sm_own_record(root)));
    division->first.backing = root->at.backing;
    root->at = (struct sm_position){.first = &division->first};
    sm_publish_nothing(root);
    sm_publish_from_piece(root);
    sm_publish(&division->first.record);
    return SYNCED_MEM_OK;
}

void sm_undivide(struct synced_mem *root)
{
    struct sm_record *const own = sm_own_record(root);
    struct sm_piece *const piece = root->at.first;
    if (!piece || piece->after || own->holders > 0)
        return;
    sm_withdraw_all(piece);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        struct sm_copy *const part = sm_take_copy(&piece->record, side);
        if (part) {
            sm_part_take_over(part, sm_copy_of(own, side));
            sm_part_move_work(sm_copy_of(own, side), part);
        }
        sm_part_give(part);
    }
    set_record_head(own, sm_raw_head(&piece->record));
    struct sm_backing *const backing = piece->backing;
    give_division(sm_division_of(root));
    root->at = (struct sm_position){.backing = backing};
    sm_publish(own);
}

/* ---- Cutting and joining ---- */

static synced_mem_status cut_parts(struct sm_piece *right, const struct sm_piece *piece, size_t at)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const struct sm_copy *const part = sm_copy_of(&piece->record, side);
        if (!part || sm_copy_of(&right->record, side))
            continue;
        struct sm_copy *const rest = sm_part_make(part, at);
        if (!rest)
            return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        sm_put_copy(&right->record, side, rest);
    }
    return SYNCED_MEM_OK;
}

/* Sets where a piece ends. */
static void set_piece_size(struct sm_piece *piece, size_t size)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(&piece->record, side))
            sm_guard_forget(sm_copy_of(&piece->record, side));
    atomic_store_explicit(&piece->record.size, size, memory_order_relaxed);
}

/* Nothing of the root is changed before the tree has the new piece. */
static synced_mem_status cut_piece(struct sm_piece *piece, size_t at)
{
    struct sm_division *const division = sm_division_of(piece->root);
    struct sm_piece *const right = take_cell(&pieces);
    if (!right)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    init_piece(right, piece->root, piece->offset + at, sm_size_of(&piece->record) - at);
    set_record_head(&right->record, sm_raw_head(&piece->record));
    right->record.at_rest = piece->record.at_rest;
    right->record.marks = (unsigned char)sm_needed_marks(right);
    synced_mem_status status = cut_parts(right, piece, at);
    if (status == SYNCED_MEM_OK && !sm_piece_tree_add(division, piece, right))
        status = sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the tree of parts");
    if (status != SYNCED_MEM_OK) {
        give_piece(right);
        return status;
    }
    sm_withdraw_all(piece);
    set_piece_size(piece, at);
    right->backing = sm_backing_share(piece->backing);
    right->before = piece;
    right->after = piece->after;
    if (piece->after)
        piece->after->before = right;
    piece->after = right;
    division->loose++;
    protect_piece(piece);
    protect_piece(right);
    return SYNCED_MEM_OK;
}

/* A part on which nothing is in flight can be made again: it then inherits what is in flight on the root's memory. */
static bool are_parts_alike(const struct sm_copy *one, const struct sm_copy *other)
{
    if (!one || !other)
        return (!one || sm_part_is_idle(one)) && (!other || sm_part_is_idle(other));
    return sm_part_is_alike(one, other);
}

static void for_each_part(const struct sm_piece *piece, void (*act)(struct sm_copy *part))
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(&piece->record, side))
            act(sm_copy_of(&piece->record, side));
}

static bool are_all_alike(const struct sm_piece *left, const struct sm_piece *right,
                          void (*update)(struct sm_copy *part))
{
    bool alike = true;
    for_each_part(left, update);
    for_each_part(right, update);
    for (enum sm_side side = SM_CPU; side < SM_SIDES && alike; side++)
        alike = are_parts_alike(sm_copy_of(&left->record, side), sm_copy_of(&right->record, side));
    return alike;
}

/* Polls only what has to be polled. */
static bool can_join(const struct sm_piece *left, const struct sm_piece *right)
{
    return right->record.holders == 0 && sm_raw_head(&left->record) == sm_raw_head(&right->record) &&
           left->backing == right->backing &&
           (are_all_alike(left, right, sm_inflight_prune) || are_all_alike(left, right, sm_part_poll));
}

/* Joins the parts of a side. One that the other piece lacks is given up. */
static void join_parts(struct sm_piece *left, const struct sm_piece *right, enum sm_side side)
{
    struct sm_copy *const part = sm_copy_of(&left->record, side);
    struct sm_copy *const other = sm_copy_of(&right->record, side);
    struct sm_copy *const memory = sm_copy_of(sm_own_record(left->root), side);
    if (part && other) {
        sm_part_absorb(part, other);
    } else if (part || other) {
        sm_part_return(memory, part ? part : other);
        sm_part_give(sm_take_copy(&left->record, side));
    }
}

static void join_pieces(struct sm_piece *left, struct sm_piece *right)
{
    struct sm_piece **const hint = &sm_division_of(left->root)->hint;
    assert(!right->hot);
    sm_withdraw_all(left);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (side == SM_CPU || !sm_shared_copy(&left->record))
            join_parts(left, right, side);
    if (*hint == right)
        *hint = left;
    left->after = right->after;
    if (right->after)
        right->after->before = left;
    sm_piece_tree_remove(sm_division_of(left->root), right);
    sm_division_of(left->root)->loose--;
    const size_t size = sm_size_of(&left->record) + sm_size_of(&right->record);
    left->record.at_rest = left->record.at_rest && right->record.at_rest;
    sm_piece_tree_mark(left);
    sm_backing_drop(right->backing);
    give_piece(right);
    set_piece_size(left, size);
    protect_piece(left);
}

static bool join_if_alike(struct sm_piece *left, struct sm_piece *right)
{
    if (!left || !right || !can_join(left, right))
        return false;
    join_pieces(left, right);
    return true;
}

/* Of a piece that stays as it is, only one cache line is read. If views hold all borders, nothing is read. */
void sm_join_records(struct synced_mem *mem)
{
    if (!sm_is_divided(mem) || sm_division_of(sm_root(mem))->loose == 0)
        return;
    struct sm_piece *each = mem->at.first;
    size_t behind = sm_size(mem) - sm_size_of(&each->record);
    bool joined = false;
    while (behind > 0) {
        struct sm_piece *const next = each->after;
        behind -= sm_size_of(&next->record);
        if (next->record.holders == 0 && join_if_alike(each, next)) {
            joined = true;
            continue;
        }
        if (joined)
            sm_publish(&each->record);
        joined = false;
        each = next;
    }
    if (joined)
        sm_publish(&each->record);
}

/* ---- Holding ---- */

static void add_holder(struct sm_piece *piece)
{
    if (piece->record.holders++ == 0 && piece->offset > 0)
        sm_division_of(piece->root)->loose--;
}

static void remove_holder(struct sm_piece *piece)
{
    if (--piece->record.holders == 0 && piece->offset > 0)
        sm_division_of(piece->root)->loose++;
}

static synced_mem_status find_border(struct synced_mem *root, size_t offset, struct sm_piece **piece)
{
    struct sm_piece *const at = sm_find_piece(root, offset);
    const bool begins = at->offset == offset;
    if (!begins)
        SM_TRY(cut_piece(at, offset - at->offset));
    *piece = begins ? at : at->after;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_cut_at(struct synced_mem *root, size_t offset)
{
    struct sm_piece *piece;
    return find_border(root, offset, &piece);
}

synced_mem_status sm_hold_border(struct synced_mem *root, size_t offset, struct sm_piece **piece)
{
    *piece = offset == 0 ? root->at.first : NULL;
    if (offset == 0 || offset >= sm_size(root))
        return SYNCED_MEM_OK;
    SM_TRY(find_border(root, offset, piece));
    add_holder(*piece);
    return SYNCED_MEM_OK;
}

void sm_drop_border(struct sm_piece *piece)
{
    if (!piece || piece->offset == 0)
        return;
    remove_holder(piece);
    (void)join_if_alike(piece->before, piece);
}

void sm_hold_record(struct sm_record *record)
{
    if (record->kind != SM_PIECE)
        return;
    struct sm_piece *const piece = sm_piece_of(record);
    add_holder(piece);
    piece->root->record.holders++;
    sm_division_of(piece->root)->held++;
}

/* ---- Waiting for held records ---- */

static atomic_uint waiting;
static struct sm_events released;

bool sm_has_views(const struct synced_mem *root)
{
    return sm_is_divided(root) && root->record.holders > sm_division_of(root)->held;
}

bool sm_has_held_records(const struct synced_mem *root)
{
    return sm_division_of(root)->held > 0;
}

unsigned sm_drops_begin(void)
{
    atomic_fetch_add(&waiting, 1);
    return sm_events_seen(&released);
}

void sm_drops_wait(unsigned seen)
{
    sm_events_wait(&released, seen);
    atomic_fetch_sub(&waiting, 1);
}

void sm_drop_record(struct sm_record *record)
{
    if (record->kind != SM_PIECE)
        return;
    struct sm_piece *const piece = sm_piece_of(record);
    piece->root->record.holders--;
    remove_holder(piece);
    if (--sm_division_of(piece->root)->held == 0 && atomic_load(&waiting) > 0)
        sm_events_add(&released);
    (void)join_if_alike(piece->before, piece);
}

/* ---- Replacing the memory ---- */

synced_mem_status sm_gather_parts(const struct synced_mem *root, enum sm_side side)
{
    struct sm_copy *const memory = sm_copy_of(sm_own_record(root), side);
    synced_mem_status status = SYNCED_MEM_OK;
    if (!memory || (side == SM_GPU && sm_copy_is_shared(memory))) /* gathered for the host's side */
        return SYNCED_MEM_OK;
    for (const struct sm_piece *each = root->at.first; each && status == SYNCED_MEM_OK; each = each->after)
        if (sm_copy_of(&each->record, side))
            status = sm_part_gather(memory, sm_copy_of(&each->record, side));
    sm_part_unite_gathered(memory);
    return status;
}

void sm_share_reads(const struct synced_mem *root)
{
    for (const struct sm_piece *each = root->at.first; each; each = each->after)
        if (sm_copy_of(&each->record, SM_GPU))
            sm_part_share_reads(sm_copy_of(&each->record, SM_GPU), sm_copy_of(sm_own_record(root), SM_GPU));
}

void sm_drop_parts(const struct synced_mem *root, enum sm_side side)
{
    for (struct sm_piece *each = root->at.first; each; each = each->after)
        sm_part_give(sm_take_copy(&each->record, side));
}

void sm_drop_pieces(struct synced_mem *root)
{
    struct sm_division *const division = sm_division_of(root);
    const unsigned head = sm_raw_head(&division->first.record);
    assert(root->record.holders == 0 && !division->first.backing);
    sm_piece_tree_end(division);
    for (struct sm_piece *each = &division->first, *next; each; each = next) {
        next = each->after;
        sm_withdraw_all(each);
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            if (sm_copy_of(&each->record, side))
                sm_part_return(sm_copy_of(sm_own_record(root), side), sm_copy_of(&each->record, side));
        if (each != &division->first)
            give_piece(each);
    }
    give_division(division);
    root->at = (struct sm_position){.first = NULL};
    set_record_head(sm_own_record(root), head);
}

void sm_give_parts(struct sm_copy **parts)
{
    for (struct sm_copy **each = parts; each && *each; each++)
        sm_part_give(*each);
    free(parts);
}

synced_mem_status sm_make_parts(const struct synced_mem *root, const struct sm_copy *memory, struct sm_copy ***out)
{
    size_t count = 0;
    for (const struct sm_piece *each = root->at.first; each; each = each->after)
        count++;
    struct sm_copy **const parts = calloc(count + 1, sizeof *parts);
    struct sm_copy **next = parts;
    if (!parts)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to list an object's parts");
    for (const struct sm_piece *each = root->at.first; each; each = each->after) {
        *next = sm_part_make(memory, each->offset);
        if (!*next++) {
            sm_give_parts(parts);
            return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        }
    }
    *out = parts;
    return SYNCED_MEM_OK;
}

void sm_put_parts(const struct synced_mem *root, enum sm_side side, struct sm_copy **parts)
{
    struct sm_copy *const *part = parts;
    for (struct sm_piece *each = root->at.first; each; each = each->after)
        sm_put_copy(&each->record, side, *part++);
    free(parts);
}
