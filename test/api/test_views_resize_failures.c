/*
 * Checks failed resizes of a root whose views are gone, but which is still in parts: heads and contents are as before,
 * by bytes, and the same call succeeds when it is repeated. Contents stay on their side if they can.
 */
#include "failing_calls.h"
#include "views_kit.h"

enum { PARTS = 5, LARGE = 3 * ROOT };

static const size_t begins[PARTS + 1] = {0, 3001, 9000, 9001, 17000, ROOT};

/* The heads of the parts. With MIXED heads, one side or the other can have all contents without the loss of any. */
static const synced_mem_head_kind situations[][PARTS] = {
    {SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_GPU, SYNCED_MEM_UNINITIALIZED, SYNCED_MEM_SYNCED, SYNCED_MEM_AT_GPU},
    {SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU, SYNCED_MEM_UNINITIALIZED, SYNCED_MEM_SYNCED, SYNCED_MEM_AT_GPU},
    {SYNCED_MEM_AT_CPU, SYNCED_MEM_SYNCED, SYNCED_MEM_AT_CPU, SYNCED_MEM_SYNCED, SYNCED_MEM_AT_CPU},
    {SYNCED_MEM_AT_GPU, SYNCED_MEM_SYNCED, SYNCED_MEM_AT_GPU, SYNCED_MEM_SYNCED, SYNCED_MEM_AT_GPU},
    {SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU, SYNCED_MEM_AT_GPU},
    {SYNCED_MEM_SYNCED, SYNCED_MEM_SYNCED, SYNCED_MEM_SYNCED, SYNCED_MEM_SYNCED, SYNCED_MEM_SYNCED},
};
enum { SITUATIONS = sizeof situations / sizeof situations[0] };

static struct {
    synced_mem *root;
    synced_mem_stream streams[2];
    const synced_mem_head_kind *heads;
    synced_mem_head_kind head;
} root_of;

/* Brings a part to its head by work on one of two streams, so that two neighbours differ. */
static void bring_part(synced_mem *part, int i)
{
    synced_mem_stream stream = root_of.streams[i % 2];
    const synced_mem_head_kind head = root_of.heads[i];
    if (head == SYNCED_MEM_AT_GPU)
        device_writes(part, 1 + (unsigned)i, stream);
    else if (head != SYNCED_MEM_UNINITIALIZED)
        host_writes(part, 1 + (unsigned)i);
    if (head == SYNCED_MEM_SYNCED)
        (void)given(synced_mem_gpu_data_on(part, stream));
    ck_assert_int_eq(synced_mem_head(part), head);
}

/* busy: the work on the device takes a while. */
static void begin_remains(int situation, bool pageable, bool busy)
{
    synced_mem *views[PARTS];
    root_of.root = make_root(pageable);
    root_of.heads = situations[situation];
    for (int i = 0; i < 2; i++) {
        root_of.streams[i] = open_stream(NON_BLOCKING);
        if (busy)
            gpu_delay(root_of.streams[i]);
    }
    for (int i = 0; i < PARTS; i++) {
        views[i] = view_of(root_of.root, begins[i], begins[i + 1] - begins[i]);
        bring_part(views[i], i);
    }
    root_of.head = head_of_parts(root_of.heads, PARTS);
    release_all(views, PARTS);
    ck_assert_int_eq(synced_mem_head(root_of.root), root_of.head);
}

static void end_remains(void)
{
    OK(synced_mem_release(root_of.root));
    CLOSE_EACH(root_of.streams[0], root_of.streams[1]);
}

/* Checks the heads by bytes. The views are gone again afterwards. */
static void check_heads(void)
{
    ck_assert_uint_eq(synced_mem_size(root_of.root), ROOT);
    ck_assert_int_eq(synced_mem_head(root_of.root), root_of.head);
    for (int i = 0; i < PARTS; i++) {
        synced_mem *const view = view_of(root_of.root, begins[i], begins[i + 1] - begins[i]);
        ck_assert_int_eq(synced_mem_head(view), root_of.heads[i]);
        OK(synced_mem_release(view));
    }
}

static void check_contents(size_t size)
{
    const size_t kept = size < ROOT ? size : ROOT;
    const unsigned char *const data = given(synced_mem_cpu_data(root_of.root));
    gpu_note_host_read(data, size);
    ck_assert(memcmp(data, expected, kept) == 0 && pattern_is(data + kept, size - kept, 0));
}

/* ---- Failures ---- */

START_TEST(a_failure_changes_nothing)
{
    const int situation = _i % SITUATIONS;
    const bool pageable = _i / SITUATIONS % 2, discards = _i / SITUATIONS / 2 % 2;
    const size_t size = _i / SITUATIONS / 4 ? LARGE : ROOT - 100;
    for (struct failing it = each_call("*", cudaErrorUnknown); next_failure(&it);) {
        begin_remains(situation, pageable, !pageable);
        begin_failing(&it);
        const synced_mem_status status =
            discards ? synced_mem_resize_discard(root_of.root, size) : synced_mem_resize(root_of.root, size);
        ck_assert(end_failing(&it) || status == SYNCED_MEM_OK);
        if (status != SYNCED_MEM_OK) {
            check_heads();
            OK(discards ? synced_mem_resize_discard(root_of.root, size) : synced_mem_resize(root_of.root, size));
        }
        ck_assert_uint_eq(synced_mem_size(root_of.root), size);
        if (discards)
            HEAD(root_of.root, UNINITIALIZED);
        else
            check_contents(size);
        end_remains();
    }
}
END_TEST

/* Memory is refused, also after reclaim. */
START_TEST(refused_memory_changes_nothing)
{
    begin_remains(_i % SITUATIONS, _i / SITUATIONS, true);
    OK(synced_mem_wait(root_of.root));
    OK(synced_mem_host_pool_set_limit(1));
    for (unsigned nth = 1; nth < 9; nth++)
        emu_fail("cudaMallocFromPoolAsync", nth, cudaErrorMemoryAllocation, false);
    const synced_mem_status status = synced_mem_resize(root_of.root, (size_t)64 << 20);
    emu_fail_clear();
    OK(synced_mem_host_pool_set_limit(0));
    ck_assert_int_ne(status, SYNCED_MEM_OK);
    check_heads();
    ck_assert(host_reads_right(root_of.root));
    end_remains();
}
END_TEST

/* After the failure a stream may go on to write through the pointer that it had. */
START_TEST(pointers_stay_after_a_failure)
{
    begin_remains(4, false, true);
    synced_mem *const view = view_of(root_of.root, 3001, 5999);
    void *const data = given(synced_mem_overwrite_gpu_data_on(view, root_of.streams[1]));
    OK(synced_mem_release(view));
    emu_fail("cudaMallocFromPoolAsync", 1, cudaErrorUnknown, false);
    ck_assert_int_ne(synced_mem_resize(root_of.root, LARGE), SYNCED_MEM_OK);
    emu_fail_clear();
    gpu_delay(root_of.streams[1]);
    gpu_fill(data, 5999, 9, root_of.streams[1]);
    pattern_write(expected + 3001, 5999, 9);
    ck_assert(host_reads_right(root_of.root));
    end_remains();
}
END_TEST

/* ---- Sides ---- */

/* Contents that one side has stay on that side, and no byte is transferred to the other. */
START_TEST(contents_stay_on_their_side)
{
    static const int of[] = {2, 3, 4, 5};
    static const size_t sizes[] = {ROOT - 8, ROOT, 9001, LARGE};
    const int situation = of[_i % 4];
    const size_t size = sizes[_i / 4 % 4];
    begin_remains(situation, false, true);
    OK(synced_mem_wait(root_of.root));
    const synced_mem_stats before = stats_now();
    const synced_mem_head_kind head = root_of.head;
    OK(synced_mem_resize(root_of.root, size));
    check_bytes(&before, 0, 0);
    if (size <= ROOT)
        ck_assert_int_eq(synced_mem_head(root_of.root), head);
    else
        ck_assert_int_eq(synced_mem_head(root_of.root) & ~head, 0);
    check_contents(size);
    end_remains();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("failed sizes after views");
    TCase *const tests = add_case(made, "failures");
    tcase_add_test(tests, pointers_stay_after_a_failure);
    add_divided_test(tests, a_failure_changes_nothing, 0, 8 * SITUATIONS);
    tcase_add_loop_test(tests, refused_memory_changes_nothing, 0, 2 * SITUATIONS);
    tcase_add_loop_test(tests, contents_stay_on_their_side, 0, 16);
    return made;
}
