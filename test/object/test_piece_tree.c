/* Checks the index of a root's pieces beside a naive reference: arrays of flags. The records have no contents. */
#include "fixture.h"

#include "base/slab.h"
#include "object/piece_tree.h"

#include <string.h>

/* ---- Memory ---- */

static int nodes;   /* that are taken */
static int takes;   /* attempts to take one */
static int fail_in; /* the number of further attempts until one fails; 0: none fails */
static int chunks;  /* that the slabs have obtained */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    chunks++;
    return __real_calloc(count, size);
}

void *__real_sm_slab_take(struct sm_slab *slab);
void *__wrap_sm_slab_take(struct sm_slab *slab);
void *__wrap_sm_slab_take(struct sm_slab *slab)
{
    takes++;
    if (fail_in > 0 && --fail_in == 0)
        return NULL;
    nodes++;
    return __real_sm_slab_take(slab);
}

void __real_sm_slab_give(struct sm_slab *slab, void *cell);
void __wrap_sm_slab_give(struct sm_slab *slab, void *cell);
void __wrap_sm_slab_give(struct sm_slab *slab, void *cell)
{
    nodes--;
    __real_sm_slab_give(slab, cell);
}

/* ---- The reference ---- */

enum { PLACES = 6000, STEP = 10, NODE_HAS = 29, FEW = 8, LEAST = 6 };

static struct sm_division division;    /* its first piece is the one at place 0 */
static struct synced_mem root;         /* that is divided */
static struct sm_piece others[PLACES]; /* each has the offset of its index times STEP */
static bool present[PLACES];
static unsigned concerned[PLACES]; /* 1 << side is set: a transfer to the side concerns the piece */
static int count;
static bool busy_added; /* an added piece is not at rest, whatever the one before it */
static uint64_t state;

static int draw(int below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (unsigned)below);
}

/* Check records each assertion. There are very many here, so only a failure is recorded. */
static void must(bool holds, const char *text)
{
    if (!holds)
        ck_abort_msg("%s", text);
}

static struct sm_piece *get_piece(int place)
{
    return place == 0 ? &division.first : &others[place];
}

static struct sm_piece *find_naively(int place)
{
    while (!present[place])
        place--;
    return get_piece(place);
}

static void check_finds(int place, int within)
{
    const size_t offset = (size_t)place * STEP + (size_t)within;
    must(sm_piece_tree_find(&division, offset) == find_naively(place), "the piece at an offset");
}

static void check_all(void)
{
    must(sm_piece_tree_is_valid(&division), "a valid tree");
    for (int i = 0; i < PLACES; i++)
        check_finds(i, i % STEP);
}

/* As cut_piece() does it: first the tree, then the list. The piece inherits the state of the one before it. */
static bool add(int place)
{
    struct sm_piece *const before = find_naively(place), *const piece = get_piece(place);
    piece->record.at_rest = before->record.at_rest && !busy_added;
    piece->record.head = before->record.head;
    piece->record.marks = (unsigned char)sm_needed_marks(piece);
    piece->leaf = NULL;
    if (!sm_piece_tree_add(&division, before, piece))
        return false;
    piece->before = before;
    piece->after = before->after;
    if (piece->after)
        piece->after->before = piece;
    before->after = piece;
    present[place] = true;
    concerned[place] = busy_added ? 1U << SM_CPU | 1U << SM_GPU : concerned[before->offset / STEP];
    count++;
    return true;
}

static void take_off_list(const struct sm_piece *piece)
{
    piece->before->after = piece->after;
    if (piece->after)
        piece->after->before = piece->before;
}

static void remove_at(int place)
{
    take_off_list(get_piece(place));
    sm_piece_tree_remove(&division, get_piece(place));
    present[place] = false;
    count--;
}

static void toggle(int place)
{
    if (present[place])
        remove_at(place);
    else
        must(add(place), "memory");
}

static void start(int seed)
{
    memset(others, 0, sizeof others);
    division = (struct sm_division){.tree = NULL};
    root.at.first = &division.first;
    memset(present, 0, sizeof present);
    memset(concerned, 0, sizeof concerned);
    for (int i = 0; i < PLACES; i++) {
        get_piece(i)->record.kind = SM_PIECE;
        get_piece(i)->record.at_rest = true;
        get_piece(i)->root = &root;
        get_piece(i)->offset = (size_t)i * STEP;
    }
    present[0] = true;
    count = 1;
    busy_added = false;
    nodes = takes = fail_in = 0;
    state = (uint64_t)seed;
}

static void remove_all(void)
{
    for (int i = 1; i < PLACES; i++)
        if (present[i])
            remove_at(i);
    ck_assert_int_eq(nodes, 0);
    check_all();
}

/* ---- Marks ---- */

/* Gives a piece a state, and marks it as publication does. */
static void change(int place, unsigned head, bool at_rest)
{
    struct sm_piece *const piece = find_naively(place);
    piece->record.head = (unsigned char)head;
    piece->record.at_rest = at_rest;
    sm_piece_tree_mark(piece);
    concerned[piece->offset / STEP] = (!at_rest || head == SYNCED_MEM_AT_CPU ? 1U << SM_GPU : 0) |
                                      (!at_rest || head == SYNCED_MEM_AT_GPU ? 1U << SM_CPU : 0);
}

/* Of a hundred changes, so many concern a transfer. */
static void change_at_random(int part)
{
    static const struct {
        unsigned head;
        bool at_rest;
    } busy[] = {{SYNCED_MEM_AT_CPU, true}, {SYNCED_MEM_AT_GPU, true}, {SYNCED_MEM_SYNCED, false}};
    const int which = draw(3);
    if (draw(100) < part)
        change(draw(PLACES), busy[which].head, busy[which].at_rest);
    else
        change(draw(PLACES), which == 0 ? SYNCED_MEM_UNINITIALIZED : SYNCED_MEM_SYNCED, true);
}

struct visits {
    enum sm_side side;
    int next; /* the first place that is not yet expected to be visited */
    int left; /* the visits until one fails; 0: none fails */
};

static int find_concerned(int place, enum sm_side side)
{
    while (place < PLACES && !(present[place] && concerned[place] >> side & 1))
        place++;
    return place;
}

static synced_mem_status visit(struct sm_piece *piece, void *context)
{
    struct visits *const visits = context;
    const int place = find_concerned(visits->next, visits->side);
    must(place < PLACES && piece == get_piece(place), "a visit of the next concerned piece");
    visits->next = place + 1;
    return visits->left > 0 && --visits->left == 0 ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_OK;
}

/* Each concerned piece is visited, in order. Then no other piece is marked for the side. */
static void check_visits(enum sm_side side)
{
    struct visits visits = {.side = side};
    must(sm_piece_tree_visit(&division, side, visit, &visits) == SYNCED_MEM_OK, "a complete visit");
    must(find_concerned(visits.next, side) == PLACES, "a visit of all concerned pieces");
    for (int i = 0; i < PLACES; i++)
        must(!present[i] || (get_piece(i)->record.marks >> side & 1) == (concerned[i] >> side & 1), "a mark");
    must(sm_piece_tree_is_valid(&division), "a valid tree");
}

/* Pieces come, go and change at random, also while they are few. Few changes concern a transfer, or many. */
START_TEST(marks)
{
    start(_i);
    for (int phase = 0; phase < 16; phase++) {
        const bool falls = phase % 2;
        const int most = phase % 4 < 2 ? PLACES / 2 : 4 * FEW;
        const int wanted = falls ? 1 + draw(most / 4) : most / 2 + draw(most / 2);
        const int changes = draw(4), part = draw(2) == 0 ? draw(100) : draw(4), every = 1 + draw(most / 4);
        while (falls ? count > wanted : count < wanted) {
            const bool removes = falls != (draw(20) == 0);
            const int place = removes ? (int)(find_naively(draw(PLACES))->offset / STEP) : 1 + draw(PLACES - 1);
            busy_added = draw(100) < part / 2;
            if (place > 0 && present[place] == removes)
                toggle(place);
            for (int i = 0; i < changes; i++)
                change_at_random(part);
            if (draw(every) == 0)
                check_visits(draw(2) == 0 ? SM_CPU : SM_GPU);
        }
        check_visits(SM_GPU);
        check_visits(SM_CPU);
    }
    remove_all();
}
END_TEST

/* ---- Ranges ---- */

/* The streams to which pieces are given to read and to write, and copies that one of them has, both, or none. */
static struct sm_stream users[2];
static struct sm_use use_of_reader = {.by = &users[0]};
static struct sm_copy copies[2][2] = {{{.reads = NULL}, {.writer = &users[1]}},
                                      {{.reads = &use_of_reader}, {.reads = &use_of_reader, .writer = &users[1]}}};

/* Gives a piece a head and a copy, and marks it as publication does. */
static void give(struct sm_piece *piece, unsigned head, bool to_read, bool to_write)
{
    piece->record.copy[SM_GPU] = &copies[to_read][to_write];
    piece->record.head = (unsigned char)head;
    sm_piece_tree_mark(piece);
}

/* Returns whether the user lacks the piece, which is to be listed then. */
static bool is_lacking(const struct sm_piece *piece, bool writing)
{
    const struct sm_copy *const copy = piece->record.copy[SM_GPU];
    return writing ? piece->record.head != SYNCED_MEM_AT_GPU || !copy->writer
                   : !(piece->record.head & SYNCED_MEM_AT_GPU) || !copy->reads;
}

static bool is_in(const struct sm_piece *piece, const struct sm_piece_range *range)
{
    return piece->offset >= range->begin && piece->offset < range->end;
}

/* Takes a range as an access does, and gives the user all that were listed, or leaves them as they are. */
static void check_range(const struct sm_piece_range *range, bool gives)
{
    static struct sm_record *list[PLACES];
    const bool writing = range->mark == SM_MARK_TO_WRITE;
    const size_t listed = sm_piece_tree_count(&division, range);
    size_t at = 0;
    must(listed <= (size_t)count, "no more than there are");
    sm_piece_tree_take(&division, range, list);
    for (int i = 0; i < PLACES; i++) {
        struct sm_piece *const piece = get_piece(i);
        if (!present[i] || !is_in(piece, range))
            continue;
        const bool is_listed = at < listed && list[at] == &piece->record;
        must(is_listed || !range->all, "all pieces");
        must(is_listed || range->mark == SM_MARKS || !is_lacking(piece, writing), "a piece that the user lacks");
        at += is_listed;
    }
    must(at == listed, "pieces of the range alone");
    for (size_t i = 0; i < listed && range->mark < SM_MARKS; i++) {
        struct sm_piece *const piece = sm_piece_of(list[i]);
        piece->record.marks &= (unsigned char)~(1U << range->mark);
        if (gives)
            give(piece, SYNCED_MEM_AT_GPU, true, true);
        else
            sm_piece_tree_mark(piece);
    }
    must(sm_piece_tree_is_valid(&division), "a valid tree");
    const struct sm_piece_range again = {.begin = range->begin, .end = range->end, .mark = range->mark};
    must(!gives || range->mark == SM_MARKS || sm_piece_tree_count(&division, &again) == 0, "no mark is left");
}

static void check_random_range(void)
{
    const int first = draw(4) == 0 ? 0 : (int)(find_naively(draw(PLACES))->offset / STEP);
    const int end = draw(4) == 0 ? PLACES : first + 1 + draw(PLACES - first);
    const unsigned mark = SM_MARK_TO_READ + (unsigned)draw(3);
    const bool all = mark == SM_MARKS || draw(8) == 0;
    check_range(&(struct sm_piece_range){(size_t)first * STEP, (size_t)end * STEP, mark, all}, draw(3) > 0);
}

/* Accesses by the users list the pieces that they lack, while pieces come, go and change. */
START_TEST(ranges)
{
    start(_i);
    for (int i = 0; i < PLACES; i++)
        for (enum sm_side side = SM_CPU; side < SM_SIDES; side++)
            get_piece(i)->record.copy[side] = side == SM_CPU ? &sm_no_copy : &copies[0][0];
    division.user[0] = &users[0];
    division.user[1] = &users[1];
    sm_piece_tree_mark(&division.first);
    for (int round = 0; round < 200; round++) {
        const bool falls = round % 40 >= 20;
        for (int i = draw(PLACES / 2); i > 0; i--) {
            const int place = 1 + draw(PLACES - 1);
            if (present[place] == falls)
                toggle(place);
        }
        for (int i = draw(round % 3 == 0 ? 4 : count); i > 0; i--)
            give(find_naively(draw(PLACES)), (unsigned)draw(4), draw(2), draw(2));
        for (int i = draw(3); i >= 0; i--)
            check_random_range();
    }
    remove_all();
}
END_TEST

/* A visit that fails leaves the marks of the pieces behind. */
START_TEST(visit_fails)
{
    const int pieces_here = _i == 0 ? FEW : PLACES;
    start(0);
    for (int i = 1; i < pieces_here; i++)
        ck_assert(add(i));
    for (int i = 1; i < pieces_here; i += 2)
        change(i, SYNCED_MEM_AT_CPU, true);
    for (int i = 1; i < pieces_here; i += 4)
        change(i, SYNCED_MEM_SYNCED, true);
    struct visits visits = {.side = SM_GPU, .left = pieces_here / 8};
    ck_assert_int_eq(sm_piece_tree_visit(&division, SM_GPU, visit, &visits), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    ck_assert_int_eq(visits.left, 0);
    ck_assert(sm_piece_tree_is_valid(&division));
    check_visits(SM_GPU);
    check_visits(SM_CPU);
    sm_piece_tree_end(&division);
}
END_TEST

/* ---- Orders ---- */

/* Few pieces have no node. One more makes one, and half as many end it. */
START_TEST(few)
{
    start(0);
    for (int i = 1; i < FEW; i++)
        ck_assert(add(i));
    ck_assert_int_eq(takes, 0);
    check_all();
    ck_assert(add(FEW));
    ck_assert_int_eq(nodes, 1);
    for (int i = 1; count > FEW / 2; i++) {
        ck_assert_int_eq(nodes, 1);
        check_all();
        remove_at(i);
    }
    ck_assert_int_eq(nodes, 0);
    check_all();
    sm_piece_tree_end(&division);
    check_all();
}
END_TEST

/* Pieces that are added in order fill their nodes. */
START_TEST(in_order)
{
    start(0);
    for (int i = 1; i < PLACES; i++)
        ck_assert(add(i));
    check_all();
    ck_assert_int_le(nodes, PLACES / (NODE_HAS - 1) * 11 / 10);
    remove_all();
}
END_TEST

/* Half of a node at least is in use. */
START_TEST(in_reverse)
{
    start(0);
    for (int i = PLACES - 1; i > 0; i--)
        ck_assert(add(i));
    check_all();
    ck_assert_int_le(nodes, PLACES / (NODE_HAS / 2) * 11 / 10);
    for (int i = PLACES - 1; i > 0; i--)
        remove_at(i);
    ck_assert_int_eq(nodes, 0);
    check_all();
}
END_TEST

/* Each node above the leaves has all the entries it can have. So the node behind it is not joined to it, and loses its
 * last leaf. */
START_TEST(full_neighbours)
{
    enum { BELOW = 2 * (NODE_HAS - 1) * (NODE_HAS - 1) }; /* the places below a node above the leaves */
    start(0);
    for (int i = 2; i < PLACES; i += 2)
        ck_assert(add(i));
    for (int i = BELOW / 4 * 2 + 1; i < PLACES - BELOW; i += BELOW) {
        ck_assert(add(i));
        ck_assert(add(i + 2));
    }
    for (int i = PLACES - 1; i > 0; i--)
        if (present[i]) {
            remove_at(i);
            must(sm_piece_tree_is_valid(&division), "a valid tree");
        }
    ck_assert_int_eq(nodes, 0);
}
END_TEST

/* The number of pieces rises and falls at random, down to a share that differs. Sparse nodes are joined. */
START_TEST(at_random)
{
    start(_i);
    for (int phase = 0; phase < 8; phase++) {
        const bool falls = phase % 2;
        const int against = 20 + draw(80); /* one toggle of so many is against the trend */
        const int wanted = falls ? PLACES / 16 + draw(PLACES / 8) : PLACES / 2 + draw(PLACES / 3);
        for (int step = 0; falls ? count > wanted : count < wanted; step++) {
            const int place = 1 + draw(PLACES - 1);
            if (present[place] == falls || draw(against) == 0)
                toggle(place);
            check_finds(draw(PLACES), draw(STEP));
            if (step % 1000 == 0)
                check_all();
        }
        check_all();
        ck_assert_int_le(nodes, 2 + count / LEAST);
    }
    remove_all();
}
END_TEST

/* The pieces of a stretch come and go. Its nodes become sparse beside full ones. */
START_TEST(stretches)
{
    start(_i);
    for (int i = 1; i < PLACES; i++)
        ck_assert(add(i));
    for (int round = 0; round < 60; round++) {
        const int begin = 1 + draw(PLACES - 1), length = draw(900), part = draw(100);
        for (int i = begin; i < PLACES && i < begin + length; i++)
            if (draw(100) <= part)
                toggle(i);
        check_all();
        ck_assert_int_le(nodes, 2 + count / LEAST);
    }
    remove_all();
}
END_TEST

START_TEST(end_with_pieces)
{
    start(0);
    for (int i = 1; i < PLACES; i++)
        ck_assert(add(i));
    sm_piece_tree_end(&division);
    ck_assert_int_eq(nodes, 0);
    const int before = chunks;
    start(0);
    for (int i = 1; i < PLACES; i++)
        ck_assert(add(i));
    ck_assert_int_eq(chunks, before); /* from the nodes given back */
    sm_piece_tree_end(&division);
    sm_piece_tree_trim();
    start(0);
    for (int i = 1; i <= FEW; i++)
        ck_assert(add(i));
    ck_assert_int_gt(chunks, before);
    sm_piece_tree_end(&division);
    sm_piece_tree_trim();
}
END_TEST

/* ---- Failures ---- */

/* Attempts to take a node fail. Nothing is lost, and the next attempt succeeds. Removal needs no node. */
START_TEST(no_memory)
{
    int failures = 0;
    start(_i);
    while (count < PLACES / 2) {
        const int place = _i == 0 ? count : 1 + draw(PLACES - 1);
        if (present[place])
            continue;
        change_at_random(50);
        fail_in = 1 + (draw(3) == 0); /* the first or the second that is needed */
        if (!add(place)) {
            failures++;
            check_all();
            check_visits(failures % 2 ? SM_CPU : SM_GPU);
            fail_in = 0;
            ck_assert(add(place));
            check_all();
        }
    }
    ck_assert_int_gt(failures, PLACES / 4 / NODE_HAS);
    fail_in = 1;
    remove_all();
    ck_assert_int_eq(fail_in, 1);
}
END_TEST

/* ---- Checks ---- */

START_TEST(check_finds_errors)
{
    const int pieces_here = _i == 0 ? FEW : 100;
    start(0);
    for (int i = 1; i < pieces_here; i++)
        ck_assert(add(i));
    ck_assert(sm_piece_tree_is_valid(&division));
    struct sm_piece *const last = get_piece(pieces_here - 1);
    last->after = get_piece(pieces_here);
    ck_assert(!sm_piece_tree_is_valid(&division)); /* one in the list alone */
    last->after = NULL;
    ck_assert(sm_piece_tree_is_valid(&division));
    last->record.at_rest = false;
    ck_assert(!sm_piece_tree_is_valid(&division)); /* one that is concerned and not marked */
    sm_piece_tree_mark(last);
    ck_assert(sm_piece_tree_is_valid(&division));
    struct sm_piece_node *const leaf = last->leaf;
    last->leaf = _i == 0 ? (struct sm_piece_node *)&division : NULL;
    ck_assert(!sm_piece_tree_is_valid(&division)); /* another leaf */
    last->leaf = leaf;
    if (_i == 0)
        return;
    last->before->record.marks = (unsigned char)sm_bit(SM_CPU);
    ck_assert(!sm_piece_tree_is_valid(&division)); /* a mark that the leaf lacks */
    last->before->record.marks = 0;
    take_off_list(last);
    ck_assert(!sm_piece_tree_is_valid(&division)); /* one in the tree alone */
    last->before->after = last;
    last->offset += STEP;
    ck_assert(!sm_piece_tree_is_valid(&division)); /* another offset */
    last->offset -= STEP;
    struct sm_piece other = *last;
    last->before->after = &other;
    ck_assert(!sm_piece_tree_is_valid(&division)); /* another piece at the offset */
    last->before->after = last;
    ck_assert(sm_piece_tree_is_valid(&division));
    sm_piece_tree_end(&division);
    ck_assert(!sm_piece_tree_is_valid(&division)); /* no tree */
}
END_TEST

/* The schedules of the runtime make no difference to the suite. */
Suite *suite(void)
{
    Suite *const made = suite_create("piece_tree");
    if (fixture_schedule() > 0)
        return made;
    TCase *const orders = add_case(made, "orders");
    add_tests(orders, few, in_order, in_reverse, full_neighbours, end_with_pieces);
    tcase_add_loop_test(orders, at_random, 0, 8);
    tcase_add_loop_test(orders, stretches, 0, 8);
    TCase *const marked = add_case(made, "marks");
    tcase_add_loop_test(marked, marks, 0, 6);
    tcase_add_loop_test(marked, visit_fails, 0, 2);
    tcase_add_loop_test(marked, ranges, 0, 6);
    TCase *const failures = add_case(made, "failures");
    tcase_add_loop_test(failures, no_memory, 0, 3);
    TCase *const checks = add_case(made, "checks");
    tcase_add_loop_test(checks, check_finds_errors, 0, 2);
    return made;
}
