/*
 * Checks calls about memory. On views they are refused. On roots they replace or release the memory of all views at
 * once: adopted memory goes back behind the work of every view. The random calls on views check the contents.
 */
#include "views_kit.h"

enum { PARTS = 4, PART = ROOT / PARTS };

/* A root whose parts have the four heads, as far as there is a device. */
static struct {
    synced_mem *root, *parts[PARTS];
    synced_mem_head_kind heads[PARTS];
} it;

static void make_parts(bool pageable)
{
    it.root = make_root(pageable);
    for (int i = 0; i < PARTS; i++) {
        it.heads[i] = gpu_expected() ? (synced_mem_head_kind)i : (synced_mem_head_kind)(i % 2);
        it.parts[i] = view_of(it.root, (size_t)i * PART, PART);
        bring_to(it.parts[i], it.heads[i], (unsigned)i);
    }
    HEAD(it.root, MIXED);
}

static void check_heads(void)
{
    for (int i = 0; i < PARTS; i++)
        ck_assert_int_eq(synced_mem_head(it.parts[i]), it.heads[i]);
    ck_assert_int_eq(synced_mem_head(it.root), head_of_parts(it.heads, PARTS));
}

static void all_are(synced_mem_head_kind head)
{
    for (int i = 0; i < PARTS; i++)
        it.heads[i] = head;
    check_heads();
}

static void check_pointers(bool gpu)
{
    const char *const data = given(gpu ? synced_mem_gpu_data(it.root) : synced_mem_cpu_data(it.root));
    for (int i = 0; i < PARTS; i++)
        ck_assert_ptr_eq(gpu ? synced_mem_gpu_data(it.parts[i]) : synced_mem_cpu_data(it.parts[i]),
                         data + (size_t)i * PART);
}

/* Checks the contents on both sides, through the views and the root, and releases all. */
static void check_and_release(void)
{
    for (int i = 0; i < PARTS; i++)
        ck_assert(host_reads_right(it.parts[i]));
    if (gpu_expected()) {
        ck_assert(device_reads_right(it.root));
        check_pointers(true);
    }
    check_pointers(false);
    release_all(it.parts, PARTS);
    ck_assert(host_reads_right(it.root));
    OK(synced_mem_release(it.root));
}

/* ---- Refused ---- */

static void never(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    ck_abort_msg("a callback for memory that was not adopted");
}

static void check_refused(synced_mem *view)
{
    static unsigned char memory[ROOT];
    const struct facts before = facts_of(view), of_root = facts_of(it.root);
    const synced_mem_status refused = SYNCED_MEM_ERR_INVALID_STATE;
    FAILS(refused, synced_mem_resize(view, PART));
    SAYS("synced_mem_resize");
    SAYS("view");
    FAILS(refused, synced_mem_resize(view, 2));
    FAILS(refused, synced_mem_resize_discard(view, PART));
    SAYS("view");
    FAILS(refused, synced_mem_set_cpu_data(view, memory));
    SAYS("view");
    FAILS(refused, synced_mem_set_gpu_data(view, memory));
    SAYS("view");
    FAILS(refused, USE(view, .cpu_data = memory));
    SAYS("view");
    FAILS(refused, USE(view, .cpu_data = memory, .callback = never));
    FAILS(refused, synced_mem_release_cpu_data(view));
    SAYS("view");
    FAILS(refused, synced_mem_release_gpu_data(view));
    SAYS("view");
    FAILS(refused, synced_mem_release_data(view));
    SAYS("view");
    check_unchanged(view, &before);
    check_unchanged(it.root, &of_root);
}

START_TEST(refused_on_views)
{
    make_parts(_i);
    synced_mem *const inner = view_of(it.parts[1], 10, 100), *const whole = view_of(it.root, 0, ROOT);
    synced_mem *const none = view_of(it.root, 10, 0);
    synced_mem *const views[] = {it.parts[0], it.parts[1], it.parts[2], it.parts[3], inner, whole, none};
    for (int i = 0; i < 7; i++)
        check_refused(views[i]);
    check_heads();
    release_all(views + 4, 3);
    check_and_release();
}
END_TEST

START_TEST(refused_on_roots)
{
    static const size_t sizes[] = {0, 1, ROOT, ROOT + 1};
    make_parts(_i);
    const struct facts before = facts_of(it.root);
    for (int i = 0; i < 4; i++) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(it.root, sizes[i]));
        SAYS("view");
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize_discard(it.root, sizes[i]));
        SAYS("view");
    }
    check_unchanged(it.root, &before);
    check_heads();
    OK(synced_mem_release(it.parts[0]));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(it.root, 1));
    it.parts[0] = view_of(it.root, 0, PART);
    check_heads();
    check_and_release();
}
END_TEST

/* ---- Given back ---- */

static int callbacks;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data;
    ck_assert_ptr_eq(user, &it);
    ck_assert_ptr_null(stream);
    callbacks++;
}

/* Ways to take adopted memory from a root. Each returns how many pointers go back. */
static int take_away(int way, void *other)
{
    switch (way) {
    case 0:
        OK(synced_mem_set_cpu_data(it.root, other));
        return 1;
    case 1:
        OK(synced_mem_release_data(it.root));
        return 2;
    default:
        release_all(it.parts, PARTS);
        OK(synced_mem_release(it.root));
        return 2;
    }
}

enum busy { KERNEL_WRITES, KERNEL_READS, PUSHED, PULLED, BUSY };

/* Queues work of one kind on one view. Returns how many of the root's two copies are in use by it. */
static int keep_busy(enum busy busy, synced_mem_stream stream)
{
    switch (busy) {
    case KERNEL_WRITES:
        device_writes(it.parts[0], 4, stream);
        return 1;
    case KERNEL_READS:
        kernel_reads(it.parts[3], stream);
        return 1;
    case PUSHED:
        OK(synced_mem_async_gpu_push(it.parts[1], stream));
        return 2;
    case PULLED:
        OK(synced_mem_async_cpu_pull(it.parts[2], stream));
        return 2;
    case BUSY:
        break;
    }
    return 0;
}

/* Adopted memory goes back once, when the work of every view has finished, and nobody waits for that. */
START_TEST(given_back_after_the_work)
{
    static unsigned char other[ROOT];
    const int way = _i % 3;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const host = gpu_pinned_alloc(ROOT), *const device = gpu_alloc(0, ROOT);
    make_parts(false);
    host_fill(host, ROOT, 1);
    gpu_fill(device, ROOT, 1, stream);
    expect(it.root, 1);
    gpu_expect(device, ROOT, expected, stream); /* prepares such kernels */
    OK(USE(it.root, .cpu_data = host, .gpu_data = device, .stream = stream, .callback = count, .user = &it));
    host_writes(it.parts[1], 2);
    device_writes(it.parts[2], 3, stream);
    OK(synced_mem_end_use_on(it.root, stream));
    gpu_sync_device(0);
    OK(synced_mem_wait(it.root));
    gpu_hold(stream);
    const int copies = keep_busy((enum busy)(_i / 3), stream);
    pattern_write(other, ROOT, 5);
    const int due = take_away(way, other);
    OK(synced_mem_reap());
    ck_assert_int_eq(callbacks, copies == 2 ? 0 : 1); /* of kernels the host's memory is free */
    ck_assert(!gpu_stream_is_idle(stream));
    gpu_unhold();
    gpu_sync_device(0);
    OK(synced_mem_reap());
    ck_assert_int_eq(callbacks, due);
    if (way < 2) {
        pattern_write(expected, ROOT, way ? 0 : 5);
        all_are(way ? SYNCED_MEM_UNINITIALIZED : SYNCED_MEM_AT_CPU);
        check_and_release();
    }
    close_stream(stream);
    OK(synced_mem_shutdown());
    ck_assert_int_eq(callbacks, 2);
    gpu_pinned_free(host);
    gpu_free(device);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("memory of views");
    TCase *const refused = add_case(made, "refused");
    tcase_add_loop_test(refused, refused_on_views, 0, 2);
    tcase_add_loop_test(refused, refused_on_roots, 0, 2);
    TCase *const given_memory = add_case(made, "given back");
    add_gpu_loop_test(given_memory, given_back_after_the_work, 0, 3 * BUSY);
    return made;
}
