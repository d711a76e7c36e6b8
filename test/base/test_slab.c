/* Checks the slab: the pool of equal structs. */
#include "fixture.h"

#include "base/slab.h"

struct cell {
    char bytes[56];
    void *link;
};

static struct sm_slab cells = SM_SLAB_INITIALIZER(struct cell);

START_TEST(slab)
{
    enum { MANY = 140000 }; /* more than the shelves and bundles hold */
    static struct cell *taken[MANY];
    for (int i = 0; i < MANY; i++) {
        taken[i] = sm_slab_take(&cells);
        ck_assert_ptr_nonnull(taken[i]);
        ck_assert(pattern_is(taken[i], sizeof *taken[i], 0));
        pattern_write(taken[i]->bytes, sizeof taken[i]->bytes, (unsigned)i + 1);
    }
    ck_assert_uint_ge(cells.cells.used, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert(pattern_is(taken[i]->bytes, sizeof taken[i]->bytes, (unsigned)i + 1));
    sm_slab_trim(&cells);
    ck_assert(pattern_is(taken[0]->bytes, sizeof taken[0]->bytes, 1));
    sm_slab_give(&cells, taken[5]);
    ck_assert(pattern_is(taken[5]->bytes, sizeof taken[5]->bytes, 6));
    ck_assert_ptr_eq(sm_slab_take(&cells), taken[5]);
    for (int i = 0; i < MANY; i++)
        sm_slab_give(&cells, taken[i]);
    void *const chunk = cells.cells.chunks;
    for (int i = 0; i < MANY; i++)
        taken[i] = sm_slab_take(&cells);
    ck_assert_ptr_eq(cells.cells.chunks, chunk); /* all of them are cells that were given back */
    for (int i = 0; i < MANY; i++)
        sm_slab_give(&cells, taken[i]);
    sm_slab_trim(&cells);
    ck_assert_ptr_null(cells.cells.chunks);
    ck_assert_ptr_null(cells.cells.free);
    struct cell *const again = sm_slab_take(&cells);
    ck_assert(pattern_is(again, sizeof *again, 0));
    sm_slab_give(&cells, again);
    sm_slab_trim(&cells);
}
END_TEST

/* Takes and gives back more cells at once than a shelf has. */
START_TEST(lists)
{
    enum { MANY = 300, BEFORE = 20 };
    struct cell *taken[MANY];
    int count = 0;
    for (int i = 0; i < BEFORE; i++)
        taken[i] = sm_slab_take(&cells);
    for (int i = 0; i < BEFORE; i++)
        sm_slab_give(&cells, taken[i]);
    ck_assert_ptr_null(sm_slab_take_list(&cells, 0));
    for (struct cell *cell = sm_slab_take_list(&cells, MANY); cell; count++) {
        ck_assert_int_lt(count, MANY);
        taken[count] = cell;
        cell = cell->link;
        pattern_write(taken[count], sizeof *taken[count], (unsigned)count + 1); /* also the link */
    }
    ck_assert_int_eq(count, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert(pattern_is(taken[i], sizeof *taken[i], (unsigned)i + 1));
    for (int i = 0; i < MANY; i++)
        taken[i]->link = i + 1 < MANY ? taken[i + 1] : NULL;
    sm_slab_give_list(&cells, taken[0]);
    sm_slab_give_list(&cells, NULL);
    sm_slab_trim(&cells);
    ck_assert_ptr_null(cells.cells.chunks);
}
END_TEST

static struct sm_slab counted = SM_COUNTED_SLAB_INITIALIZER(struct cell, SM_COUNT_spills);

/* The counter has the cells that are taken and not given back, wherever they wait. */
START_TEST(taken_cells_are_counted)
{
    enum { MANY = 200 };
    struct cell *taken[MANY];
    ck_assert_uint_eq(sm_count_of(SM_COUNT_spills), 0);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_ptr_nonnull(taken[i] = sm_slab_take(&counted));
        ck_assert_uint_eq(sm_count_of(SM_COUNT_spills), i + 1);
    }
    for (unsigned i = 1; i < MANY; i++) {
        sm_slab_give(&counted, taken[i]);
        ck_assert_uint_eq(sm_count_of(SM_COUNT_spills), MANY - i);
    }
    sm_slab_uncount(&counted);
    ck_assert_uint_eq(sm_count_of(SM_COUNT_spills), 0);
    struct cell *const next = sm_slab_take(&counted);
    ck_assert_ptr_ne(next, taken[0]);
    sm_slab_give(&counted, next);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("slab");
    TCase *const tests = add_case(made, "slab");
    add_tests(tests, slab, lists, taken_cells_are_counted);
    return made;
}
