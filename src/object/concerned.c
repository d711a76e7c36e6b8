/* The pieces of a divided root that a push or pull concerns. */
#include "object/concerned.h"

#include <assert.h>
#include <stdlib.h>

enum { RUNS = 4 };

struct run {
    struct sm_piece *first;
    struct sm_piece *last; /* NULL: the run is empty */
};

struct list {
    struct run runs[RUNS];
    unsigned last; /* the index of the run that pieces are entered in */
    bool complete;
};

struct sm_concerned {
    struct list lists[SM_SIDES];
};

static struct list *get_list(const struct synced_mem *root, enum sm_side side)
{
    return &sm_division_of(root)->concerned->lists[side];
}

static bool is_entered(const struct sm_piece *piece, enum sm_side side)
{
    return piece->record.entered & sm_bit(side);
}

bool sm_concerned_begin(struct synced_mem *root)
{
    struct sm_division *const division = sm_division_of(root);
    if (!division->concerned)
        division->concerned = calloc(1, sizeof(struct sm_concerned));
    return division->concerned;
}

void sm_concerned_end(struct sm_division *division)
{
    free(division->concerned);
    division->concerned = NULL;
}

static void append_to_run(struct run *run, struct sm_piece *piece, enum sm_side side)
{
    piece->next_entered[side] = NULL;
    if (run->last)
        run->last->next_entered[side] = piece;
    else
        run->first = piece;
    run->last = piece;
}

static void enter_in_list(struct list *list, struct sm_piece *piece, enum sm_side side)
{
    const struct sm_piece *const last = list->runs[list->last].last;
    if (last && last->offset > piece->offset)
        list->complete = ++list->last < RUNS;
    if (list->complete)
        append_to_run(&list->runs[list->last], piece, side);
}

/* A piece is marked even if the list is incomplete, so that its next publication does nothing here. */
void sm_concerned_enter_in(struct sm_piece *piece, unsigned sides)
{
    const struct synced_mem *const root = piece->root;
    piece->record.entered |= (unsigned char)sides;
    if (!sm_division_of(root)->concerned || piece == root->at.first)
        return;
    for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
        if ((sides & sm_bit(side)) && get_list(root, side)->complete)
            enter_in_list(get_list(root, side), piece, side);
}

void sm_concerned_forget(const struct sm_piece *piece)
{
    for (enum sm_side side = SM_CPU; side < SM_SIDES && sm_division_of(piece->root)->concerned; side++)
        if (is_entered(piece, side))
            get_list(piece->root, side)->complete = false;
}

/* ---- Listing ---- */

static bool stays_entered(struct sm_piece *piece, enum sm_side side)
{
    const bool stays = sm_is_concerned(piece, side);
    if (stays)
        piece->record.entered |= (unsigned char)sm_bit(side);
    else
        piece->record.entered &= (unsigned char)~sm_bit(side);
    return stays;
}

static struct run list_all(const struct synced_mem *root, enum sm_side side)
{
    struct run kept = {NULL, NULL};
    for (struct sm_piece *each = root->at.first->after; each; each = each->after)
        if (stays_entered(each, side))
            append_to_run(&kept, each, side);
    return kept;
}

/* Returns the run without the pieces that are no longer concerned. */
static struct run drop_from_run(const struct run *run, enum sm_side side)
{
    struct run kept = {NULL, NULL};
    struct sm_piece **link = &kept.first;
    for (struct sm_piece *each = run->first; each; each = each->next_entered[side])
        if (stays_entered(each, side)) {
            *link = each;
            link = &each->next_entered[side];
            kept.last = each;
        }
    *link = NULL;
    return kept;
}

static struct run merge_runs(const struct run *one, const struct run *other, enum sm_side side)
{
    struct sm_piece *low = one->first;
    struct sm_piece *high = other->first;
    struct run merged = {.last = one->last};
    struct sm_piece **link = &merged.first;
    if (!one->last || (other->last && other->last->offset > one->last->offset))
        merged.last = other->last;
    while (low && high) {
        if (low->offset > high->offset) {
            struct sm_piece *const lower = high;
            high = low;
            low = lower;
        }
        *link = low;
        link = &low->next_entered[side];
        low = low->next_entered[side];
    }
    *link = low ? low : high;
    return merged;
}

static struct run list_runs(const struct list *list, enum sm_side side)
{
    struct run merged = {NULL, NULL};
    for (unsigned i = 0; i <= list->last; i++) {
        const struct run kept = drop_from_run(&list->runs[i], side);
        merged = merge_runs(&merged, &kept, side);
    }
    return merged;
}

struct sm_piece *sm_concerned_list(struct synced_mem *root, enum sm_side side)
{
    struct list *const list = get_list(root, side);
    assert(sm_concerned_is_valid(root));
    *list = (struct list){.runs = {list->complete ? list_runs(list, side) : list_all(root, side)}, .complete = true};
    return list->runs[0].first;
}

/* ---- Checks ---- */

/* Returns how many pieces the run has; -1: it is not in order. */
static long count_run(const struct run *run, enum sm_side side)
{
    long count = 0;
    for (const struct sm_piece *each = run->first; each; each = each->next_entered[side], count++) {
        const struct sm_piece *const next = each->next_entered[side];
        if (!is_entered(each, side) || (next ? next->offset <= each->offset : each != run->last))
            return -1;
    }
    return count;
}

static bool is_list_valid(const struct synced_mem *root, enum sm_side side)
{
    const struct list *const list = get_list(root, side);
    long count = 0;
    bool valid = true;
    for (int i = 0; i < RUNS && valid; i++) {
        valid = count_run(&list->runs[i], side) >= 0;
        count += count_run(&list->runs[i], side);
    }
    for (const struct sm_piece *each = root->at.first->after; each && valid; each = each->after) {
        valid = is_entered(each, side) || !sm_is_concerned(each, side);
        count -= is_entered(each, side);
    }
    return valid && count == 0;
}

bool sm_concerned_is_valid(const struct synced_mem *root)
{
    bool valid = true;
    for (enum sm_side side = SM_CPU; side < SM_SIDES && sm_division_of(root)->concerned; side++)
        valid = valid && (!get_list(root, side)->complete || is_list_valid(root, side));
    return valid;
}
