/* Checks the parts below the pool of page-locked memory. The index of free blocks and the runs of small cells are
 * compared with naive references. Pools of records run out of memory. */
#include "fixture.h"

#include "memory/pinned/runs.h"
#include "base/slab.h"
#include "memory/pinned/tlsf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- Refused memory for records ---- */

static bool refused;

void *__real_calloc(size_t number, size_t size);
void *__wrap_calloc(size_t number, size_t size);
void *__wrap_calloc(size_t number, size_t size)
{
    return refused ? NULL : __real_calloc(number, size);
}

/* Check records each assertion for a parent, which reads all records of a test. There are very many assertions here, so
 * only a failure is recorded. */
static void must(bool holds, const char *what)
{
    if (!holds)
        ck_abort_msg("%s", what);
}

/* ---- A naive reference: the owner of each granule ---- */

enum { STRETCHES = 3, GRANULES = 600, MOST_BLOCKS = STRETCHES * GRANULES };

/* Addresses that are never accessed. */
static char *const memory[STRETCHES] = {(char *)0x10000000, (char *)0x20000000, (char *)0x10000000 + GRANULES * 4096};

static struct sm_tlsf space;
static struct sm_block *taken[MOST_BLOCKS];
static int count;
static int owner[STRETCHES][GRANULES]; /* 0: no owner */
static uint64_t state;

static unsigned draw(unsigned below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % below;
}

static void add_stretches(void)
{
    for (int i = 0; i < STRETCHES; i++) {
        struct sm_block *const block = sm_tlsf_block();
        ck_assert_ptr_nonnull(block);
        sm_tlsf_add(&space, block, memory[i], GRANULES * SM_TLSF_GRANULE, owner[i]);
    }
}

static int *granules_of(const struct sm_block *block)
{
    const int index = block->stretch == owner[0] ? 0 : block->stretch == owner[1] ? 1 : 2;
    const size_t from = (size_t)(block->start - memory[index]);
    must(block->stretch == owner[index], "a block knows its stretch");
    must(block->start >= memory[index], "a block begins in its stretch");
    must(from % SM_TLSF_GRANULE == 0, "a block begins with a granule");
    must(from + block->bytes <= GRANULES * SM_TLSF_GRANULE, "a block ends in its stretch");
    return &owner[index][from / SM_TLSF_GRANULE];
}

static size_t largest_free(void)
{
    size_t largest = 0;
    for (int i = 0; i < STRETCHES; i++) {
        size_t length = 0;
        for (int j = 0; j < GRANULES; j++) {
            length = owner[i][j] == 0 ? length + 1 : 0;
            largest = length > largest ? length : largest;
        }
    }
    return largest;
}

static void take(size_t granules, bool look_at_all)
{
    const size_t bytes = granules * SM_TLSF_GRANULE;
    const size_t largest = largest_free();
    struct sm_block *const block = sm_tlsf_take(&space, bytes, look_at_all);
    if (!block) { /* a quick search may miss a block that is less than a step larger */
        must(largest < (look_at_all ? granules : granules + granules / SM_TLSF_STEPS + 1), "a free block is found");
        return;
    }
    must(block->bytes == bytes, "a block has the size that was asked for");
    must(!block->user, "a block is nobody's");
    int *const of = granules_of(block);
    for (size_t i = 0; i < granules; i++) {
        must(of[i] == 0, "what is taken was free");
        of[i] = 1;
    }
    taken[count++] = block;
}

static void give(int index)
{
    struct sm_block *const block = taken[index];
    memset(granules_of(block), 0, block->bytes / SM_TLSF_GRANULE * sizeof owner[0][0]);
    taken[index] = taken[--count];
    const struct sm_block *const merged = sm_tlsf_give(&space, block);
    must(merged->free, "what was given is free");
    const int *const of = granules_of(merged);
    for (size_t i = 0; i < merged->bytes / SM_TLSF_GRANULE; i++)
        must(of[i] == 0, "what is merged was free");
    must(!merged->before || !merged->before->free, "free blocks before are merged");
    must(!merged->after || !merged->after->free, "free blocks behind are merged");
}

static void remove_stretches(void)
{
    for (int i = 0; i < STRETCHES; i++) {
        struct sm_block *const block = sm_tlsf_take(&space, GRANULES * SM_TLSF_GRANULE, true);
        ck_assert_ptr_nonnull(block);
        ck_assert(sm_block_is_all(block));
        sm_tlsf_remove(block);
    }
    ck_assert_ptr_null(sm_tlsf_take(&space, SM_TLSF_GRANULE, true));
    ck_assert_uint_eq(space.powers, 0);
    sm_tlsf_trim();
}

/* Takes and gives blocks of all sizes: more takes until little is left, then more gives. */
START_TEST(against_the_model)
{
    static const unsigned largest[] = {4, 20, 100, 500};
    state = (uint64_t)_i;
    add_stretches();
    for (int step = 0; step < 6000; step++) {
        const bool filling = step / 500 % 2 == 0;
        if (count > 0 && draw(10) < (filling ? 3 : 6))
            give((int)draw((unsigned)count));
        else
            take(1 + draw(largest[draw(4)]), draw(2));
    }
    while (count > 0)
        give((int)draw((unsigned)count));
    remove_stretches();
}
END_TEST

/* Only one of many blocks of nearly the same size fits. Only a full search finds it. */
START_TEST(a_crowded_list)
{
    enum { LENGTH = 64, SKIPPED = 12 };
    struct sm_block *between[SKIPPED + 1];
    struct sm_block *blocks[SKIPPED + 1];
    struct sm_block *const all = sm_tlsf_block();
    sm_tlsf_add(&space, all, memory[0], (SKIPPED + 1) * (LENGTH + 1) * SM_TLSF_GRANULE + SM_TLSF_GRANULE, NULL);
    for (int i = 0; i <= SKIPPED; i++) { /* the first block is a granule larger */
        blocks[i] = sm_tlsf_take(&space, (LENGTH + (i == 0)) * SM_TLSF_GRANULE, true);
        between[i] = sm_tlsf_take(&space, SM_TLSF_GRANULE, true);
    }
    for (int i = 0; i <= SKIPPED; i++)
        ck_assert_ptr_eq(sm_tlsf_give(&space, blocks[i]), blocks[i]);
    ck_assert_ptr_null(sm_tlsf_take(&space, (LENGTH + 1) * SM_TLSF_GRANULE, false));
    ck_assert_ptr_eq(sm_tlsf_take(&space, (LENGTH + 1) * SM_TLSF_GRANULE, true), blocks[0]);
    (void)sm_tlsf_give(&space, blocks[0]);
    struct sm_block *merged = NULL;
    for (int i = 0; i <= SKIPPED; i++)
        merged = sm_tlsf_give(&space, between[i]);
    ck_assert(sm_block_is_all(merged));
    sm_tlsf_take_block(&space, merged);
    ck_assert(!merged->free);
    ck_assert_ptr_null(sm_tlsf_take(&space, SM_TLSF_GRANULE, true));
    sm_tlsf_remove(merged);
    sm_tlsf_trim();
}
END_TEST

/* Every size that a process can have has its place in the index. */
START_TEST(all_sizes)
{
    for (size_t bytes = SM_TLSF_GRANULE; bytes <= SM_TLSF_LARGEST; bytes *= 2) {
        const size_t sizes[] = {bytes, bytes + (bytes < SM_TLSF_LARGEST ? SM_TLSF_GRANULE : 0)};
        for (int i = 0; i < 2; i++) {
            struct sm_block *const block = sm_tlsf_block();
            sm_tlsf_add(&space, block, memory[0], sizes[i], NULL);
            if (i == 1 && sizes[1] > sizes[0])
                ck_assert_ptr_null(sm_tlsf_take(&space, sizes[1] + SM_TLSF_GRANULE, true));
            ck_assert_ptr_eq(sm_tlsf_take(&space, sizes[i], false), block);
            sm_tlsf_remove(block);
        }
    }
    sm_tlsf_trim();
}
END_TEST

/* A block whose rest cannot be recorded is given out whole. */
START_TEST(no_memory_for_a_rest)
{
    struct sm_block *blocks[1000];
    int records = 0;
    refused = true;
    ck_assert_ptr_null(sm_tlsf_block());
    refused = false;
    struct sm_block *const all = sm_tlsf_block();
    refused = true;
    while ((blocks[records] = sm_tlsf_block()) != NULL)
        records++;
    sm_tlsf_add(&space, all, memory[0], 10 * SM_TLSF_GRANULE, NULL);
    ck_assert_ptr_eq(sm_tlsf_take(&space, SM_TLSF_GRANULE, false), all);
    ck_assert_uint_eq(all->bytes, 10 * SM_TLSF_GRANULE);
    ck_assert(sm_block_is_all(all));
    struct sm_runs runs = {.open = {NULL}};
    ck_assert(!sm_runs_add(&runs, 0, all));
    ck_assert_ptr_null(all->user);
    sm_tlsf_remove(all);
    while (records > 0)
        sm_tlsf_remove(blocks[--records]);
    sm_tlsf_trim();
}
END_TEST

/* ---- Runs ---- */

START_TEST(classes)
{
    size_t before = 0;
    for (size_t size = 1; size <= SM_RUNS_LARGEST; size++) {
        const unsigned class = sm_runs_class(size);
        const size_t cell = sm_runs_cell(class);
        must(class < SM_RUNS_CLASSES, "there is a class");
        must(cell >= size, "there is room in a cell");
        must(cell - size < (size / 8 > SM_RUNS_SMALLEST ? size / 8 : SM_RUNS_SMALLEST), "little of a cell is wasted");
        must(cell % SM_RUNS_SMALLEST == 0, "cells are aligned");
        must(cell >= before, "cells grow with sizes");
        must(sm_runs_class(cell) == class, "a cell is of its class");
        must(sm_runs_bytes(class) % SM_TLSF_GRANULE == 0, "runs are whole granules");
        must(sm_runs_bytes(class) >= 8 * cell, "a run has eight cells at least");
        before = cell;
    }
    ck_assert_uint_eq(sm_runs_cell(SM_RUNS_CLASSES - 1), SM_RUNS_LARGEST);
}
END_TEST

/* Each cell is given out once, from two runs. */
START_TEST(cells_of_runs)
{
    enum { RUNS = 2 };
    const unsigned class = (unsigned)_i;
    struct sm_runs runs = {.open = {NULL}};
    struct sm_block *blocks[RUNS];
    void *got[RUNS * 64];
    struct sm_block *of[RUNS * 64];
    int cells = 0;
    struct sm_block *block;
    ck_assert_ptr_null(sm_runs_take(&runs, class, &block));
    for (int i = 0; i < RUNS; i++) {
        blocks[i] = sm_tlsf_block();
        sm_tlsf_add(&space, blocks[i], memory[i], sm_runs_bytes(class), NULL);
        sm_tlsf_take_block(&space, blocks[i]);
        ck_assert(sm_runs_add(&runs, class, blocks[i]));
    }
    while ((got[cells] = sm_runs_take(&runs, class, &of[cells])) != NULL) {
        const size_t at = (size_t)((char *)got[cells] - of[cells]->start);
        must(at % sm_runs_cell(class) == 0, "a cell is at a cell's place");
        must(at + sm_runs_cell(class) <= of[cells]->bytes, "a cell is in its run");
        must(sm_runs_cell_of(of[cells]) == sm_runs_cell(class), "a run knows its cells");
        for (int i = 0; i < cells; i++)
            must(got[i] != got[cells], "each cell is given out once");
        cells++;
        if (cells == RUNS * 64)
            break;
    }
    ck_assert_ptr_null(sm_runs_take(&runs, class, &block));
    /* A cell in the middle is given back, and taken again. */
    ck_assert(!sm_runs_give(&runs, of[3], got[3]));
    ck_assert_ptr_eq(sm_runs_take(&runs, class, &of[3]), got[3]);
    int emptied = 0;
    for (int i = 0; i < cells; i++)
        emptied += sm_runs_give(&runs, of[i], got[i]);
    ck_assert_int_eq(emptied, RUNS);
    for (int i = 0; i < RUNS; i++) {
        ck_assert_ptr_null(blocks[i]->user);
        sm_tlsf_remove(blocks[i]);
    }
    ck_assert_ptr_null(runs.open[class]);
    sm_tlsf_trim();
    sm_runs_trim();
}
END_TEST

/* ---- Records ---- */

static struct sm_slab records = SM_SLAB_INITIALIZER(struct sm_tlsf);
enum { RECORDS = 20 };

static void *take_and_give_back(void *unused)
{
    void *own[RECORDS];
    (void)unused;
    for (int i = 0; i < RECORDS; i++)
        own[i] = sm_slab_take(&records);
    for (int i = 0; i < RECORDS; i++)
        sm_slab_give(&records, own[i]);
    return NULL;
}

/* Records that other threads have given back are used when the system has no memory for more. */
START_TEST(records_of_other_threads)
{
    enum { THREADS = 3, MANY = 20000 };
    static void *found[MANY];
    int many = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, take_and_give_back, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    const size_t used = records.cells.used; /* the records are on the threads' shelves */
    ck_assert_uint_ge(used, RECORDS);
    refused = true;
    while (many < MANY && (found[many] = sm_slab_take(&records)) != NULL)
        many++;
    refused = false;
    ck_assert_uint_eq(records.cells.used, (size_t)many);
    ck_assert_uint_eq(records.cells.fresh_cells, 0);
    for (int i = 0; i < SM_SHARDS; i++)
        ck_assert(!records.shelves[i].list && !records.shelves[i].bundle);
    while (many > 0)
        sm_slab_give(&records, found[--many]);
    sm_slab_trim(&records);
    ck_assert_ptr_null(records.cells.chunks);
}
END_TEST

/* The schedules of the runtime make no difference to the suite. */
Suite *suite(void)
{
    Suite *const made = suite_create("tlsf");
    if (fixture_schedule() > 0)
        return made;
    TCase *const blocks = add_case(made, "blocks");
    add_tests(blocks, a_crowded_list, all_sizes, no_memory_for_a_rest);
    tcase_add_loop_test(blocks, against_the_model, 0, 12);
    TCase *const runs = add_case(made, "runs");
    tcase_add_test(runs, classes);
    tcase_add_loop_test(runs, cells_of_runs, 0, SM_RUNS_CLASSES);
    TCase *const slabs = add_case(made, "records");
    tcase_add_test(slabs, records_of_other_threads);
    return made;
}
