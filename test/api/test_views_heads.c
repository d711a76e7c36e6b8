/*
 * Checks the state table on a view: every access from every head, beside parts with every head. The neighbours keep
 * their heads and contents, and exactly the view's bytes are transferred.
 */
#include "accesses.h"
#include "views_kit.h"

#define UN SYNCED_MEM_UNINITIALIZED
#define CPU SYNCED_MEM_AT_CPU
#define GPU SYNCED_MEM_AT_GPU
#define SYN SYNCED_MEM_SYNCED

enum { HEADS = 4, LEFT = 7001, MIDDLE = 8003, RIGHT = ROOT - LEFT - MIDDLE };

/* A repeated access returns the same pointer, and does nothing. In debug mode each access to write does something. */
static void check_again(synced_mem *mem, enum access access, synced_mem_stream stream, const void *data)
{
    if (writes(access) && old_pointers_fault())
        return;
    const synced_mem_stats before = stats_now();
    const unsigned calls = gpu_calls(NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(do_access(mem, access, stream), data);
    const synced_mem_stats after = stats_now();
    ck_assert_int_eq(memcmp(&before, &after, sizeof after), 0);
    ck_assert_uint_eq(gpu_calls(NULL), calls);
}

struct parts {
    synced_mem *root, *left, *it, *right;
    synced_mem_head_kind head, beside;
};

static void check_heads(const struct parts *of)
{
    const synced_mem_head_kind heads[] = {of->beside, of->head, of->beside};
    ck_assert_int_eq(synced_mem_head(of->left), of->beside);
    ck_assert_int_eq(synced_mem_head(of->it), of->head);
    ck_assert_int_eq(synced_mem_head(of->right), of->beside);
    ck_assert_int_eq(synced_mem_head(of->root), head_of_parts(heads, 3));
}

static struct parts make_parts(synced_mem *root, synced_mem_head_kind head, synced_mem_head_kind beside)
{
    const struct parts made = {
        root, view_of(root, 0, LEFT), view_of(root, LEFT, MIDDLE), view_of(root, LEFT + MIDDLE, RIGHT), head, beside};
    bring_to(made.left, beside, 8);
    bring_to(made.right, beside, 9);
    bring_to(made.it, head, 1);
    check_heads(&made);
    return made;
}

static bool has_contents(synced_mem *mem, enum access access, const void *data, synced_mem_stream stream)
{
    unsigned char bytes[MIDDLE];
    if (!of_gpu(access))
        return bytes_are_right(mem, data);
    gpu_stream_sync(stream);
    gpu_read(bytes, data, MIDDLE);
    return memcmp(bytes, expected + LEFT, MIDDLE) == 0;
}

static void check_cell(struct parts *of, enum access access, synced_mem_stream stream)
{
    const synced_mem_head_kind next = next_head[of->head][plain(access)];
    const synced_mem_stats before = stats_now();
    void *const data = given(do_chosen_access(of->it, access, stream));
    const bool moves = !overwrites(access) && of->head == (of_gpu(access) ? CPU : GPU);
    check_bytes(&before, moves && of_gpu(access) ? MIDDLE : 0, moves && !of_gpu(access) ? MIDDLE : 0);
    of->head = next;
    check_heads(of);
    if (!overwrites(access))
        ck_assert(has_contents(of->it, access, data, stream));
    check_again(of->it, access, stream, data);
    if (writes(access) && of_gpu(access))
        gpu_fill(data, MIDDLE, 2, access >= ON_READ ? stream : NULL);
    else if (writes(access))
        host_fill(data, MIDDLE, 2);
    if (writes(access))
        expect(of->it, 2);
    check_heads(of);
}

static void check_contents(const struct parts *of)
{
    synced_mem *const mems[] = {of->left, of->it, of->right, of->root};
    for (int i = 0; i < 4 && gpu_expected(); i++)
        if (synced_mem_head(mems[i]) & SYNCED_MEM_AT_GPU)
            ck_assert(device_reads_right(mems[i]));
    for (int i = 0; i < 4; i++)
        ck_assert(host_reads_right(mems[i]));
    release_all(mems, 4);
}

START_TEST(cell)
{
    const synced_mem_head_kind head = (synced_mem_head_kind)(_i / ACCESSES);
    const enum access access = (enum access)(_i % ACCESSES);
    if (!gpu_expected() && (of_gpu(access) || head & GPU))
        return;
    for (int i = 0; i < 2 * HEADS; i++) {
        const synced_mem_head_kind beside = (synced_mem_head_kind)(i / 2);
        if (!gpu_expected() && beside & GPU)
            continue;
        synced_mem_stream stream = gpu_expected() ? open_stream(NON_BLOCKING) : NULL;
        struct parts parts = make_parts(make_root(i % 2), head, beside);
        check_cell(&parts, access, stream);
        check_contents(&parts);
        if (stream)
            close_stream(stream);
    }
}
END_TEST

/* ---- Heads of objects in parts ---- */

static bool is_possible(int combination)
{
    for (int i = 0; i < 3; i++, combination /= HEADS)
        if (combination % HEADS & GPU && !gpu_expected())
            return false;
    return true;
}

/* An access to an object in parts is that access to each part: of the root, or of a view over two parts and a half. */
static void check_combination(int combination, enum access access, bool whole, synced_mem_stream stream)
{
    const size_t sizes[] = {LEFT, MIDDLE, RIGHT};
    synced_mem *const root = make_root(combination % 2);
    synced_mem *parts[] = {view_of(root, 0, LEFT), view_of(root, LEFT, MIDDLE), view_of(root, LEFT + MIDDLE, RIGHT)};
    synced_mem *const object = whole ? root : view_of(root, 1000, LEFT + MIDDLE - 1000 + RIGHT / 2);
    const size_t begin = whole ? 0 : 1000, end = whole ? ROOT : LEFT + MIDDLE + RIGHT / 2;
    synced_mem_head_kind heads[3], after[3];
    uint64_t up = 0, down = 0;
    size_t at = 0;
    for (int i = 0; i < 3; i++, combination /= HEADS) {
        heads[i] = (synced_mem_head_kind)(combination % HEADS);
        after[i] = next_head[heads[i]][plain(access)];
        bring_to(parts[i], heads[i], 1 + (unsigned)i);
        const size_t first = at > begin ? at : begin, last = at + sizes[i] < end ? at + sizes[i] : end;
        if (heads[i] == CPU && of_gpu(access) && !overwrites(access))
            up += last - first;
        if (heads[i] == GPU && !of_gpu(access) && !overwrites(access))
            down += last - first;
        at += sizes[i];
    }
    ck_assert_int_eq(synced_mem_head(root), head_of_parts(heads, 3));
    ck_assert_int_eq(synced_mem_head(object), head_of_parts(heads, 3));
    if (whole)
        release_all(parts, 3); /* which changes nothing */
    const synced_mem_stats before = stats_now();
    void *const data = given(do_access(object, access, stream));
    check_bytes(&before, up, down);
    ck_assert_int_eq(synced_mem_head(object), head_of_parts(after, 3));
    const size_t size = synced_mem_size(object);
    if (overwrites(access) && of_gpu(access))
        gpu_fill(data, size, 5, access == ON_OVERWRITE ? stream : NULL);
    else if (overwrites(access))
        host_fill(data, size, 5);
    if (overwrites(access))
        expect(object, 5);
    if (of_gpu(access))
        ck_assert(device_reads_right(object));
    if (!whole) {
        const synced_mem_head_kind outside[] = {heads[0], after[0], after[1], after[2], heads[2]};
        ck_assert_int_eq(synced_mem_head(root), head_of_parts(outside, 5));
        ck_assert_int_eq(synced_mem_head(parts[1]), after[1]);
        const synced_mem_head_kind left[] = {heads[0], after[0]}, right[] = {after[2], heads[2]};
        ck_assert_int_eq(synced_mem_head(parts[0]), head_of_parts(left, 2));
        ck_assert_int_eq(synced_mem_head(parts[2]), head_of_parts(right, 2));
        release_all(parts, 3);
    }
    ck_assert(host_reads_right(root));
    if (!whole)
        OK(synced_mem_release(object));
    OK(synced_mem_release(root));
}

START_TEST(combinations)
{
    const enum access access = (enum access)(_i / 2);
    if (of_gpu(access) && !gpu_expected())
        return;
    synced_mem_stream stream = gpu_expected() ? open_stream(NON_BLOCKING) : NULL;
    for (int i = 0; i < HEADS * HEADS * HEADS; i++)
        if (is_possible(i))
            check_combination(i, access, _i % 2, stream);
    if (stream)
        close_stream(stream);
}
END_TEST

/* ---- Overlaps ---- */

/* Bytes that are written through one view are seen through every other, on either side. */
START_TEST(overlapping)
{
    const bool by_device = _i % 2, at_device = _i / 2;
    if (!gpu_expected() && _i > 0)
        return;
    synced_mem *const root = make_root(_i / 2), *const a = view_of(root, 1, 10000),
                      *const b = view_of(root, 6001, 10000);
    synced_mem *const inner = view_of(b, 100, 1000), *const same = view_of(b, 0, 10000);
    synced_mem *const mems[] = {a, b, inner, same, root};
    for (unsigned writer = 0; writer < 5; writer++)
        for (unsigned reader = 0; reader < 5; reader++) {
            if (by_device)
                device_writes(mems[writer], 1 + 5 * writer + reader, NULL);
            else
                host_writes(mems[writer], 1 + 5 * writer + reader);
            ck_assert(at_device ? device_reads_right(mems[reader]) : host_reads_right(mems[reader]));
            ck_assert_int_eq(synced_mem_head(b), synced_mem_head(same));
        }
    for (int i = 0; i < 5; i++)
        ck_assert(host_reads_right(mems[i]));
    release_all(mems, 5);
}
END_TEST

/* A write through a view makes stale what overlaps it, and nothing else. */
START_TEST(overlapping_heads)
{
    if (!gpu_expected())
        return;
    synced_mem *const root = make_root(_i), *const a = view_of(root, 0, 1000), *const b = view_of(root, 500, 1000);
    synced_mem *const touching = view_of(root, 1000, 1000), *const mems[] = {a, b, touching, root};
    host_writes(root, 1);
    device_writes(a, 2, NULL);
    HEAD(a, AT_GPU);
    HEAD(b, MIXED);
    HEAD(touching, AT_CPU);
    HEAD(root, MIXED);
    synced_mem_stats before = stats_now();
    ck_assert(host_reads_right(b));
    check_bytes(&before, 0, 500);
    HEAD(b, AT_CPU);
    HEAD(a, AT_GPU);
    HEAD(root, MIXED);
    before = stats_now();
    ck_assert(host_reads_right(a));
    check_bytes(&before, 0, 500);
    HEAD(a, SYNCED);
    HEAD(root, AT_CPU);
    before = stats_now();
    ck_assert(device_reads_right(b));
    check_bytes(&before, 500, 0);
    HEAD(b, SYNCED);
    HEAD(touching, AT_CPU); /* in both halves; the first is on the device too */
    release_all(mems, 4);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("heads of views");
    TCase *const table = add_case(made, "table");
    tcase_add_loop_test(table, cell, 0, HEADS * ACCESSES);
    tcase_add_loop_test(table, combinations, 0, 2 * ACCESSES);
    TCase *const overlaps = add_case(made, "overlaps");
    tcase_add_loop_test(overlaps, overlapping, 0, 4);
    tcase_add_loop_test(overlaps, overlapping_heads, 0, 2);
    return made;
}
