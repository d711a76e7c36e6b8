/* Checks that a push or pull of a root lists each piece that it concerns, in order, and does not visit the others. */
#include "failing_calloc.h"
#include "views_kit.h"

#include "object/mentions.h"
#include "object/piece_tree.h"

enum { VIEWS = 40, PART = ROOT / VIEWS, ROOM = 4 * VIEWS };

static synced_mem *root;
static synced_mem *views[VIEWS];
static unsigned patterns;

/* ---- Listing ---- */

/* Lists the concerned pieces by a walk over all. Returns their number. */
static size_t walk(enum sm_side side, struct sm_piece **pieces)
{
    size_t count = 0;
    for (struct sm_piece *each = root->at.first; each; each = each->after)
        if (!each->record.at_rest || sm_head(&each->record) == sm_bit(sm_other(side)))
            pieces[count++] = each;
    return count;
}

/* Lists the pieces that a transfer of the root concerns, and compares them with those of the walk. Returns their
 * number. */
static size_t list(enum sm_side side)
{
    static struct sm_piece *walked[ROOM];
    static struct sm_mention given_room[ROOM];
    struct sm_mentions mentions;
    sm_lock_object(root);
    const size_t count = root->at.first ? walk(side, walked) : 0;
    const bool divided = root->at.first;
    sm_mentions_begin(&mentions, given_room, ROOM);
    OK(sm_mentions_list(&mentions, &root, 1, side));
    if (divided) {
        ck_assert_uint_eq(mentions.count, count);
        for (size_t i = 0; i < count; i++)
            ck_assert_ptr_eq(mentions.list[i].record, &walked[i]->record);
    }
    sm_mentions_end(&mentions);
    ck_assert(!divided || sm_piece_tree_is_valid(sm_division_of(root)));
    sm_unlock_object(root);
    return count;
}

static void make_parts(void)
{
    root = make_root(false);
    for (int i = 0; i < VIEWS; i++)
        views[i] = view_of(root, (size_t)i * PART, PART);
    host_writes(root, 1);
}

static void release_parts(void)
{
    ck_assert(host_reads_right(root));
    release_all(views, VIEWS);
    OK(synced_mem_release(root));
}

/* Views within views have most pieces in common. Each piece is listed once, for the first view that has it. */
START_TEST(nested_views)
{
    enum { NESTED = 100 };
    static synced_mem *nested[NESTED];
    static struct sm_mention given_room[2 * NESTED];
    struct sm_mentions mentions;
    root = make_root(false);
    for (size_t i = 0; i < NESTED; i++)
        nested[i] = view_of(root, 10 * i, ROOT - 20 * i);
    host_writes(root, 1);
    for (int times = 0; times < 2; times++) {
        sm_lock_object(root);
        sm_mentions_begin(&mentions, given_room, 2 * NESTED);
        OK(sm_mentions_list(&mentions, nested, NESTED, SM_GPU));
        ck_assert_uint_eq(mentions.count, 2 * NESTED - 1);
        for (size_t i = 0; i < mentions.count; i++)
            ck_assert_ptr_eq(mentions.list[i].object, nested[0]);
        sm_mentions_end(&mentions);
        ck_assert(sm_piece_tree_is_valid(sm_division_of(root)));
        sm_unlock_object(root);
    }
    if (gpu_expected()) {
        synced_mem *const last_first[] = {nested[NESTED - 1], nested[0], nested[1], root};
        const synced_mem_stats before = stats_now();
        OK(synced_mem_async_gpu_push_n(last_first, 4, NULL));
        check_bytes(&before, ROOT, 0);
        ck_assert(device_reads_right(root));
    }
    release_all(nested, NESTED);
    OK(synced_mem_release(root));
}
END_TEST

/* A call names a view twice, another that has parts of two views, one without bytes, and an object several times. Each
 * piece and each object is transferred once. */
START_TEST(repeated_views_and_objects)
{
    enum { OTHERS = 6, OF_OTHER = 1000 };
    synced_mem *named[VIEWS + OTHERS];
    synced_mem *const other = make_at_cpu(OF_OTHER, 7);
    make_parts();
    synced_mem *const across = view_of(root, PART / 2, PART);
    synced_mem *const nothing = view_of(root, PART, 0);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(nothing));
    synced_mem *const others[OTHERS] = {views[1], across, views[0], nothing, other, other};
    for (int i = 0; i < VIEWS + OTHERS; i++)
        named[i] = i < OTHERS ? others[i] : views[i - OTHERS];
    named[VIEWS / 2] = other; /* instead of a view */
    const synced_mem_stats before = stats_now();
    OK(synced_mem_async_gpu_push_n(named, VIEWS + OTHERS, NULL));
    check_bytes(&before, ROOT - PART + OF_OTHER, 0);
    ck_assert(device_reads_right(root));
    ck_assert(device_is(synced_mem_gpu_data(other), OF_OTHER, 7));
    RELEASE_EACH(across, nothing, other);
    release_parts();
}
END_TEST

/* The system refuses memory for the list. The next one has all pieces. */
START_TEST(no_memory_for_nested_views)
{
    static struct sm_mention given_room[VIEWS];
    struct sm_mentions mentions;
    root = make_root(false);
    for (size_t i = 0; i < VIEWS; i++)
        views[i] = view_of(root, 10 * i, ROOT - 20 * i);
    host_writes(root, 1);
    sm_lock_object(root);
    for (int fails = 1; fails >= 0; fails--) {
        sm_mentions_begin(&mentions, given_room, VIEWS);
        no_calloc = fails;
        const synced_mem_status status = sm_mentions_list(&mentions, views, VIEWS, SM_GPU);
        no_calloc = false;
        ck_assert_int_eq(status, fails ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_OK);
        ck_assert_uint_eq(mentions.count, fails ? VIEWS : 2 * VIEWS - 1);
        sm_mentions_end(&mentions);
    }
    sm_unlock_object(root);
    release_all(views, VIEWS);
    OK(synced_mem_release(root));
}
END_TEST

/* Returns how many pieces are marked for the side, without a visit. */
static size_t count_marked(enum sm_side side)
{
    size_t count = 0;
    for (const struct sm_piece *each = root->at.first; each; each = each->after)
        count += each->record.marks >> side & 1;
    return count;
}

static void push_and_wait(void)
{
    OK(synced_mem_async_gpu_push(root, NULL));
    gpu_stream_sync(NULL);
}

/* Pushes until no piece has a write in flight. */
static void rest(void)
{
    for (int i = 0; i < 3; i++)
        push_and_wait();
    ck_assert_uint_eq(list(SM_GPU), 0);
    ck_assert_uint_eq(count_marked(SM_GPU), 0);
}

/* Parts are written in rising order, several times over. The list has them in the order of their offsets. */
START_TEST(orders)
{
    const int steps = _i + 1;
    make_parts();
    rest();
    for (int step = 0; step < steps; step++)
        for (int i = 1 + step; i < VIEWS; i += steps)
            host_writes(views[i], ++patterns);
    ck_assert_uint_eq(count_marked(SM_GPU), VIEWS - 1);
    ck_assert_uint_eq(list(SM_GPU), VIEWS - 1);
    const synced_mem_stats before = stats_now();
    push_and_wait();
    check_bytes(&before, ROOT - PART, 0);
    rest();
    release_parts();
}
END_TEST

START_TEST(first_piece)
{
    make_parts();
    rest();
    host_writes(views[0], ++patterns);
    ck_assert_uint_eq(list(SM_GPU), 1);
    const synced_mem_stats before = stats_now();
    push_and_wait();
    check_bytes(&before, PART, 0);
    rest();
    release_parts();
}
END_TEST

/* A pull has marks of its own. Pieces that are valid on the device alone do not concern a push. */
START_TEST(sides)
{
    make_parts();
    rest();
    for (int i = 0; i < VIEWS; i++)
        device_writes(views[i], ++patterns, NULL);
    gpu_stream_sync(NULL);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(root, NULL));
    host_writes(views[7], ++patterns);
    host_writes(views[9], ++patterns);
    const synced_mem_stats before_push = stats_now();
    push_and_wait();
    check_bytes(&before_push, (uint64_t)2 * PART, 0);
    OK(synced_mem_wait(root)); /* publishes all pieces */
    ck_assert_uint_eq(list(SM_CPU), VIEWS - 2);
    ck_assert_uint_eq(count_marked(SM_CPU), VIEWS - 2);
    const synced_mem_stats before = stats_now();
    OK(synced_mem_async_cpu_pull(root, NULL));
    check_bytes(&before, 0, ROOT - 2 * PART);
    release_parts();
}
END_TEST

/* Pieces that are marked are joined to their neighbours, and cut again. */
START_TEST(joins)
{
    make_parts();
    rest();
    for (int i = 3; i < 9; i++)
        host_writes(views[i], ++patterns);
    RELEASE_EACH(views[5], views[6]);
    ck_assert_uint_eq(count_marked(SM_GPU), 5);
    ck_assert_uint_eq(list(SM_GPU), 5);
    views[5] = view_of(root, (size_t)5 * PART, PART);
    views[6] = view_of(root, (size_t)6 * PART, PART);
    ck_assert_uint_eq(count_marked(SM_GPU), 6);
    ck_assert_uint_eq(list(SM_GPU), 6);
    const synced_mem_stats before = stats_now();
    push_and_wait();
    check_bytes(&before, (uint64_t)6 * PART, 0);
    release_parts();
}
END_TEST

/* A few parts have no tree. */
START_TEST(few)
{
    enum { FEW = 4 };
    root = make_root(false);
    for (int i = 0; i < FEW; i++)
        views[i] = view_of(root, (size_t)i * PART, PART);
    host_writes(root, 1);
    ck_assert_ptr_null(sm_division_of(root)->tree);
    rest();
    host_writes(views[1], ++patterns);
    host_writes(views[3], ++patterns);
    ck_assert_uint_eq(list(SM_GPU), 2);
    const synced_mem_stats before = stats_now();
    push_and_wait();
    check_bytes(&before, (uint64_t)2 * PART, 0);
    rest();
    ck_assert(host_reads_right(root));
    release_all(views, FEW);
    OK(synced_mem_release(root));
}
END_TEST

/* Marks, and a visit of the marked pieces, need no memory. */
START_TEST(no_memory)
{
    make_parts();
    no_calloc = true;
    ck_assert_uint_eq(list(SM_GPU), VIEWS);
    no_calloc = false;
    rest();
    no_calloc = true;
    host_writes(views[3], ++patterns);
    host_writes(views[9], ++patterns);
    ck_assert_uint_eq(list(SM_GPU), 2);
    no_calloc = false;
    push_and_wait();
    rest();
    release_parts();
}
END_TEST

/* The check that debug builds make detects a piece that is concerned and not marked. */
START_TEST(check)
{
    make_parts();
    rest();
    struct sm_piece *const piece = views[3]->at.first;
    piece->record.at_rest = false;
    ck_assert(!sm_piece_tree_is_valid(sm_division_of(root)));
    piece->record.at_rest = true;
    ck_assert(sm_piece_tree_is_valid(sm_division_of(root)));
    release_parts();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("pieces that a push or pull concerns");
    TCase *const lists = add_case(made, "lists");
    add_tests(lists, nested_views, repeated_views_and_objects, no_memory_for_nested_views, first_piece, sides, joins,
              few, no_memory, check);
    tcase_add_loop_test(lists, orders, 0, 6);
    return made;
}
