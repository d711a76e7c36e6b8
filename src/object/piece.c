/* The pieces of a divided root. */
#include "object/piece.h"

#include "base/slab.h"
#include "base/status.h"
#include "copy/part.h"
#include "memory/guard.h"
#include "object/concerned.h"
#include "object/guarding.h"
#include "object/piece_tree.h"
#include "object/publish.h"
#include "object/span.h"
#include "object/unified.h"
#include "trace/trace.h"

#include <assert.h>

static struct sm_slab pieces = SM_SLAB_INITIALIZER(struct synced_mem);

bool sm_pieces_are_valid(const struct synced_mem *root)
{
    unsigned loose = 0;
    for (const struct synced_mem *each = root->at.first->beside.after; each; each = each->beside.after)
        loose += each->holders == 0;
    return loose == root->at.first->loose && sm_piece_tree_is_valid(root->at.first) && sm_concerned_is_valid(root);
}

void sm_pieces_trim(void)
{
    sm_slab_trim(&pieces);
    sm_piece_tree_trim();
}

/* ---- Finding ---- */

static bool has_byte(const struct synced_mem *piece, size_t offset)
{
    return piece && piece->offset <= offset && offset - piece->offset < sm_size(piece);
}

struct synced_mem *sm_find_piece(struct synced_mem *root, size_t offset)
{
    struct synced_mem **const hint = &root->at.first->hint;
    struct synced_mem *at = *hint;
    if (at && !has_byte(at, offset))
        at = at->beside.after;
    if (!has_byte(at, offset))
        at = sm_piece_tree_find(root->at.first, offset);
    *hint = at;
    return at;
}

/* ---- Records ---- */

static struct synced_mem *make_piece(struct synced_mem *root, size_t offset, size_t size)
{
    struct synced_mem *const piece = sm_slab_take(&pieces);
    if (!piece) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the record of a part");
        return NULL;
    }
    piece->kind = SM_PIECE;
    piece->root = root;
    piece->offset = offset;
    piece->tree = NULL;
    piece->leaf = NULL;
    piece->hint = NULL;
    piece->beside = (struct sm_neighbours){.before = NULL};
    piece->holders = 0;
    piece->loose = 0;
    piece->kept = 0;
    piece->at_rest = false;
    piece->entered = 0;
    piece->generation = root->generation;
    piece->concerned = NULL;
    piece->given = 0;
    atomic_store_explicit(&piece->size, size, memory_order_relaxed);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_put_copy(piece, side, NULL);
    return piece;
}

/* Gives up a piece's copies and its record. */
static void give_piece(struct synced_mem *piece)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        sm_part_give(sm_take_copy(piece, side));
    sm_slab_give(&pieces, piece);
}

/* The record keeps its head, which its memory shows. */
static void set_piece_head(struct synced_mem *piece, unsigned head)
{
    atomic_store_explicit(&piece->head, (unsigned char)head, memory_order_relaxed);
}

static synced_mem_status attach_one(struct synced_mem *piece, enum sm_side side)
{
    struct sm_copy *const part = sm_part_make(sm_copy_of(piece->root, side), piece->offset, sm_size(piece));
    if (!part)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    sm_put_copy(piece, side, part);
    return SYNCED_MEM_OK;
}

/* Protects the new bounds of a host copy in debug mode. */
static void protect_piece(const struct synced_mem *piece)
{
    if (sm_guard_on())
        sm_protect(piece);
}

/* In debug mode a page that pieces share is protected only if all of them have their part of it. */
static void attach_others(const struct synced_mem *root)
{
    for (struct synced_mem *each = root->at.first; each; each = each->beside.after)
        if (!sm_copy_of(each, SM_CPU) && attach_one(each, SM_CPU) == SYNCED_MEM_OK)
            sm_protect(each);
}

synced_mem_status sm_attach_part(struct synced_mem *piece, enum sm_side side)
{
    if (sm_copy_of(piece, side))
        return SYNCED_MEM_OK;
    SM_TRY(attach_one(piece, side));
    if (side == SM_CPU && sm_guard_on())
        attach_others(piece->root);
    return SYNCED_MEM_OK;
}

/* ---- Dividing ---- */

synced_mem_status sm_divide(struct synced_mem *root)
{
    struct synced_mem *const piece = make_piece(root, 0, sm_size(root));
    if (!piece)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(root, side) && sm_attach_part(piece, side) != SYNCED_MEM_OK) {
            give_piece(piece);
            return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        }
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        struct sm_copy *const memory = sm_copy_of(root, side);
        if (!memory || (side == SM_GPU && sm_copy_is_shared(memory)))
            continue;
        sm_guard_forget(memory);
        sm_part_move_work(sm_copy_of(piece, side), memory);
        piece->given = memory->given > piece->given ? memory->given : piece->given;
    }
    set_piece_head(piece, sm_head(root));
    root->at = (struct sm_position){.first = piece};
    sm_publish_nothing(root);
    sm_publish_from_piece(root);
    sm_publish(piece);
    return SYNCED_MEM_OK;
}

void sm_undivide(struct synced_mem *root)
{
    struct synced_mem *const piece = root->at.first;
    if (!piece || piece->beside.after || root->holders > 0)
        return;
    sm_withdraw_all(piece);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        struct sm_copy *const part = sm_take_copy(piece, side);
        if (part) {
            sm_part_take_over(part, sm_copy_of(root, side));
            sm_part_move_work(sm_copy_of(root, side), part);
        }
        sm_part_give(part);
    }
    sm_concerned_end(piece);
    root->at.first = NULL;
    set_piece_head(root, sm_head(piece));
    give_piece(piece);
    sm_publish(root);
}

/* ---- Cutting and joining ---- */

static synced_mem_status cut_parts(struct synced_mem *right, const struct synced_mem *piece, size_t at)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++) {
        const struct sm_copy *const part = sm_copy_of(piece, side);
        if (!part || sm_copy_of(right, side))
            continue;
        struct sm_copy *const rest = sm_part_cut(part, at);
        if (!rest)
            return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        sm_put_copy(right, side, rest);
    }
    return SYNCED_MEM_OK;
}

/* Sets where a piece ends. */
static void set_piece_size(struct synced_mem *piece, size_t size)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(piece, side))
            sm_part_end_at(sm_copy_of(piece, side), size);
    atomic_store_explicit(&piece->size, size, memory_order_relaxed);
}

static void insert_after(struct synced_mem *piece, struct synced_mem *right)
{
    right->beside.before = piece;
    right->beside.after = piece->beside.after;
    if (piece->beside.after)
        piece->beside.after->beside.before = right;
    piece->beside.after = right;
    piece->root->at.first->loose++;
}

/* Nothing of the root is changed before. */
static synced_mem_status add_to_tree(const struct synced_mem *piece, struct synced_mem *right)
{
    if (sm_piece_tree_add(piece->root->at.first, piece, right))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the tree of parts");
}

static synced_mem_status cut_piece(struct synced_mem *piece, size_t at)
{
    struct synced_mem *const right = make_piece(piece->root, piece->offset + at, sm_size(piece) - at);
    if (!right)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    if (cut_parts(right, piece, at) != SYNCED_MEM_OK || add_to_tree(piece, right) != SYNCED_MEM_OK) {
        give_piece(right);
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    }
    sm_withdraw_all(piece);
    set_piece_head(right, sm_head(piece));
    right->at_rest = piece->at_rest;
    set_piece_size(piece, at);
    insert_after(piece, right);
    sm_concerned_enter(right);
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

static void for_each_part(const struct synced_mem *piece, void (*act)(struct sm_copy *part))
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (sm_copy_of(piece, side))
            act(sm_copy_of(piece, side));
}

static bool are_all_alike(const struct synced_mem *left, const struct synced_mem *right,
                          void (*update)(struct sm_copy *part))
{
    bool alike = true;
    for_each_part(left, update);
    for_each_part(right, update);
    for (enum sm_side side = SM_CPU; side < SM_SIDES && alike; side++)
        alike = are_parts_alike(sm_copy_of(left, side), sm_copy_of(right, side));
    return alike;
}

/* Polls only what has to be polled. */
static bool can_join(const struct synced_mem *left, const struct synced_mem *right)
{
    return right->holders == 0 && sm_head(left) == sm_head(right) &&
           (are_all_alike(left, right, sm_inflight_prune) || are_all_alike(left, right, sm_part_poll));
}

/* Joins the parts of a side. One that the other piece lacks is given up. */
static void join_parts(struct synced_mem *left, const struct synced_mem *right, enum sm_side side)
{
    struct sm_copy *const part = sm_copy_of(left, side);
    struct sm_copy *const other = sm_copy_of(right, side);
    struct sm_copy *const memory = sm_copy_of(left->root, side);
    if (part && other) {
        sm_part_absorb(part, other);
    } else if (part || other) {
        sm_part_return(memory, part ? part : other);
        sm_part_give(sm_take_copy(left, side));
    }
}

static void join_pieces(struct synced_mem *left, struct synced_mem *right)
{
    struct synced_mem **const hint = &left->root->at.first->hint;
    assert(!right->beside.hot);
    sm_withdraw_all(left);
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if (side == SM_CPU || !sm_shared_copy(left))
            join_parts(left, right, side);
    if (*hint == right)
        *hint = left;
    left->beside.after = right->beside.after;
    if (right->beside.after)
        right->beside.after->beside.before = left;
    sm_piece_tree_remove(left->root->at.first, right);
    left->root->at.first->loose--;
    sm_concerned_forget(right);
    const size_t size = sm_size(left) + sm_size(right);
    left->at_rest = left->at_rest && right->at_rest;
    give_piece(right);
    set_piece_size(left, size);
    protect_piece(left);
}

static bool join_if_alike(struct synced_mem *left, struct synced_mem *right)
{
    if (!left || !right || !can_join(left, right))
        return false;
    join_pieces(left, right);
    return true;
}

/* Of a piece that stays as it is, only one cache line is read. If views hold all borders, nothing is read. */
void sm_join_records(struct synced_mem *mem)
{
    if (!sm_is_divided(mem) || sm_root(mem)->at.first->loose == 0)
        return;
    struct synced_mem *each = sm_first_record(mem);
    size_t behind = sm_size(mem) - sm_size(each);
    bool joined = false;
    while (behind > 0) {
        struct synced_mem *const next = each->beside.after;
        behind -= sm_size(next);
        if (next->holders == 0 && join_if_alike(each, next)) {
            joined = true;
            continue;
        }
        if (joined)
            sm_publish(each);
        joined = false;
        each = next;
    }
    if (joined)
        sm_publish(each);
}

/* ---- Holding ---- */

static bool is_border(const struct synced_mem *root, size_t offset)
{
    return offset > 0 && offset < sm_size(root);
}

static void add_holder(struct synced_mem *piece)
{
    if (piece->holders++ == 0 && piece->offset > 0)
        piece->root->at.first->loose--;
}

static void remove_holder(struct synced_mem *piece)
{
    if (--piece->holders == 0 && piece->offset > 0)
        piece->root->at.first->loose++;
}

static synced_mem_status find_border(struct synced_mem *root, size_t offset, struct synced_mem **piece)
{
    struct synced_mem *const at = sm_find_piece(root, offset);
    const bool begins = at->offset == offset;
    if (!begins)
        SM_TRY(cut_piece(at, offset - at->offset));
    *piece = begins ? at : at->beside.after;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_cut_at(struct synced_mem *root, size_t offset)
{
    struct synced_mem *piece;
    return find_border(root, offset, &piece);
}

synced_mem_status sm_hold_border(struct synced_mem *root, size_t offset, struct synced_mem **piece)
{
    *piece = offset == 0 ? root->at.first : NULL;
    if (!is_border(root, offset))
        return SYNCED_MEM_OK;
    SM_TRY(find_border(root, offset, piece));
    add_holder(*piece);
    return SYNCED_MEM_OK;
}

void sm_drop_border(struct synced_mem *piece)
{
    if (!piece || piece->offset == 0)
        return;
    remove_holder(piece);
    (void)join_if_alike(piece->beside.before, piece);
}

void sm_keep_record(struct synced_mem *record)
{
    if (record->kind != SM_PIECE)
        return;
    add_holder(record);
    record->root->holders++;
    record->root->at.first->kept++;
}

/* ---- Waiting for kept records ---- */

static atomic_uint waiting;
static struct sm_events released;

bool sm_has_views(const struct synced_mem *root)
{
    return sm_is_divided(root) && root->holders > root->at.first->kept;
}

bool sm_has_kept_records(const struct synced_mem *root)
{
    return root->at.first->kept > 0;
}

unsigned sm_kept_begin(void)
{
    atomic_fetch_add(&waiting, 1);
    return sm_events_seen(&released);
}

void sm_kept_wait(unsigned seen)
{
    sm_events_wait(&released, seen);
    atomic_fetch_sub(&waiting, 1);
}

void sm_release_record(struct synced_mem *record)
{
    if (record->kind != SM_PIECE)
        return;
    record->root->holders--;
    remove_holder(record);
    if (--record->root->at.first->kept == 0 && atomic_load(&waiting) > 0)
        sm_events_add(&released);
    (void)join_if_alike(record->beside.before, record);
}

/* ---- Replacing the memory ---- */

static bool is_shared_again(enum sm_side side, const struct sm_copy *copy)
{
    return side == SM_GPU && sm_copy_is_shared(copy);
}

synced_mem_status sm_gather_parts(const struct synced_mem *root, enum sm_side side)
{
    struct sm_copy *const memory = sm_copy_of(root, side);
    synced_mem_status status = SYNCED_MEM_OK;
    if (!memory || is_shared_again(side, memory))
        return SYNCED_MEM_OK;
    for (const struct synced_mem *each = root->at.first; each && status == SYNCED_MEM_OK; each = each->beside.after)
        if (sm_copy_of(each, side))
            status = sm_part_gather(memory, sm_copy_of(each, side));
    return status;
}

void sm_share_reads(const struct synced_mem *root)
{
    for (const struct synced_mem *each = root->at.first; each; each = each->beside.after)
        if (sm_copy_of(each, SM_GPU))
            sm_part_share_reads(sm_copy_of(each, SM_GPU), sm_copy_of(root, SM_GPU));
}

void sm_drop_parts(const struct synced_mem *root, enum sm_side side)
{
    for (struct synced_mem *each = root->at.first; each; each = each->beside.after)
        sm_part_give(sm_take_copy(each, side));
}

void sm_drop_pieces(struct synced_mem *root)
{
    struct synced_mem *each = root->at.first;
    const unsigned head = sm_head(each);
    assert(root->holders == 0);
    sm_concerned_end(each);
    sm_piece_tree_end(each);
    while (each) {
        struct synced_mem *const piece = each;
        each = piece->beside.after;
        sm_withdraw_all(piece);
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            if (sm_copy_of(piece, side))
                sm_part_return(sm_copy_of(root, side), sm_copy_of(piece, side));
        give_piece(piece);
    }
    root->at.first = NULL;
    set_piece_head(root, head);
}

void sm_give_parts(struct sm_copy *list)
{
    while (list) {
        struct sm_copy *const part = list;
        list = list->next;
        sm_part_give(part);
    }
}

synced_mem_status sm_make_parts(const struct synced_mem *root, const struct sm_copy *memory, struct sm_copy **list)
{
    struct sm_copy **link = list;
    *list = NULL;
    for (const struct synced_mem *each = root->at.first; each; each = each->beside.after) {
        *link = sm_part_make(memory, each->offset, sm_size(each));
        if (!*link) {
            sm_give_parts(*list);
            *list = NULL;
            return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
        }
        link = &(*link)->next;
    }
    return SYNCED_MEM_OK;
}

void sm_put_parts(const struct synced_mem *root, enum sm_side side, struct sm_copy *list)
{
    for (struct synced_mem *each = root->at.first; each; each = each->beside.after) {
        struct sm_copy *const part = list;
        list = list->next;
        part->next = NULL;
        sm_put_copy(each, side, part);
    }
}
