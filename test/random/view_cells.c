/* Counts the states that calls on views met, and calls on objects in parts. */
#include "gpu.h"
#include "world.h"

#include <stdio.h>

/* With fewer calls some cells may stay without a hit. */
enum { ENOUGH_CALLS = 400000 };

static const char *const heads[VIEW_HEADS] = {"UNINITIALIZED", "AT_CPU", "AT_GPU", "SYNCED", "MIXED"};
static const char *const shapes[SHAPES] = {"view, one part", "view, several", "root"};

unsigned *view_cell_count(const struct view_cell *cell)
{
    return &shared->view_cells[cell->code][cell->head][cell->shape];
}

static bool is_set(int code)
{
    return code >= OP_SET_CPU && code <= OP_ADOPT_BOTH_ON;
}

/* Returns whether the operation is about one object, or one of several. */
static bool has_cells(int code)
{
    if (code == OP_VIEW || code == OP_RETAIN || code == OP_RELEASE || code == OP_DESTROY || code == OP_FACTS)
        return true;
    if (code == OP_FAILING || code == OP_CLEAR || code == OP_END_USE_ON)
        return true;
    if (code == OP_COPY || code == OP_COPY_OUT || code == OP_CPU_COPY || code == OP_CPU_COPY_OUT)
        return true;
    return (code >= OP_CPU_READ && code <= OP_GPU_OVERWRITE_ON) || (code >= OP_PUSH && code <= OP_WAIT) ||
           is_set(code) || (code >= OP_RESIZE && code <= OP_RELEASE_DATA);
}

/* Without a GPU nothing is handed in on a stream or for the device. */
static bool needs_gpu(const struct view_cell *cell)
{
    const int set = cell->code - OP_SET_CPU;
    return cell->head == SYNCED_MEM_AT_GPU || cell->head == SYNCED_MEM_SYNCED ||
           (is_set(cell->code) && (set >= OP_SET_CPU_ON - OP_SET_CPU || set % 3 != 0));
}

bool view_cell_is_impossible(const struct view_cell *cell)
{
    if (!has_cells(cell->code) || (cell->head == SYNCED_MEM_MIXED && cell->shape == ONE_PART))
        return true;
    if (cell->code == OP_FAILING && !gpu_is_emulated()) /* nothing can be made to fail */
        return true;
    return !machine.gpu && needs_gpu(cell);
}

static bool next_cell(struct view_cell *cell)
{
    if (++cell->shape < SHAPES)
        return true;
    cell->shape = 0;
    if (++cell->head < VIEW_HEADS)
        return true;
    cell->head = 0;
    return ++cell->code < OP_CODES;
}

#define EACH_CELL(cell) (struct view_cell cell = {0}, *go_ = &cell; go_; go_ = next_cell(&cell) ? &cell : NULL)

bool view_cell_rarest(uint64_t *random, unsigned enough, struct view_cell *out)
{
    unsigned least = enough, found = 0;
    for
        EACH_CELL(cell)
        {
            const unsigned count = *view_cell_count(&cell);
            if (count > least || view_cell_is_impossible(&cell))
                continue;
            if (count < least) {
                least = count;
                found = 0;
            }
            if (least < enough && random_below(random, ++found) == 0)
                *out = cell;
        }
    return found > 0;
}

bool view_cells_report(bool all, unsigned goal)
{
    unsigned possible = 0, below = 0, least = (unsigned)-1;
    for
        EACH_CELL(cell)
        {
            const unsigned count = *view_cell_count(&cell);
            if (view_cell_is_impossible(&cell))
                continue;
            possible++;
            below += count < goal;
            least = count < least ? count : least;
            if (all || (count < goal && shared->calls >= ENOUGH_CALLS))
                (void)printf("%-13s  %-20s  %-14s  %u\n", heads[cell.head], op_name(cell.code), shapes[cell.shape],
                             count);
        }
    (void)printf("%u cells of views possible; the rarest was hit %u times", possible, least);
    if (below > 0)
        (void)printf("; %u fewer than %u times", below, goal);
    (void)printf("\n");
    return below == 0;
}
