/* Checks accesses to an object in parts by a stream that has the pointer to all of them already, or to all but one. */
#include "views_kit.h"

#include "object/object.h"

enum { PARTS = 6, PART = ROOT / PARTS };

static synced_mem *root, *views[PARTS];
static synced_mem_stream stream, other;

static void divide(void)
{
    root = make_root(false);
    stream = open_stream(NON_BLOCKING);
    other = open_stream(NON_BLOCKING);
    for (int i = 0; i < PARTS; i++)
        views[i] = view_of(root, (size_t)i * PART, PART);
    device_writes(root, 1, stream);
}

static void release_views(void)
{
    for (int i = 0; i < PARTS; i++)
        OK(synced_mem_release(views[i]));
}

static void end(void)
{
    OK(synced_mem_release(root));
    CLOSE_EACH(stream, other);
}

enum { READ, MUTABLE, MODES };

static const void *use_all(int mode, synced_mem_stream by)
{
    if (mode == READ)
        return given(by ? synced_mem_gpu_data_on(root, by) : synced_mem_gpu_data(root));
    return given(by ? synced_mem_mutable_gpu_data_on(root, by) : synced_mem_mutable_gpu_data(root));
}

/* _i: the mode, and whether the accesses name a stream. */
START_TEST(nothing_to_do)
{
    const int mode = _i % MODES;
    divide();
    const synced_mem_stream by = _i / MODES == 0 ? stream : NULL;
    const void *const data = use_all(mode, by);
    const synced_mem_head_kind head = synced_mem_head(root);
    const synced_mem_stats before = stats_now();
    const unsigned calls = gpu_calls(NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(use_all(mode, by), data);
    const synced_mem_stats after = stats_now();
    ck_assert_int_eq(memcmp(&before, &after, sizeof after), 0);
    ck_assert_uint_eq(gpu_calls(NULL), calls);
    ck_assert_int_eq(synced_mem_head(root), head);
    if (by)
        kernel_reads(root, stream);
    ck_assert(device_reads_right(root));
    ck_assert(host_reads_right(root));
    release_views();
    end();
}
END_TEST

/* ---- Something happens to one part ---- */

static void write_on_host(synced_mem *view)
{
    host_writes(view, 2);
}

static void write_on_other_stream(synced_mem *view)
{
    gpu_delay(other);
    device_writes(view, 2, other);
}

static void write_without_stream(synced_mem *view)
{
    gpu_fill(given(synced_mem_overwrite_gpu_data(view)), PART, 2, NULL);
    expect(view, 2);
}

static void clear(synced_mem *view)
{
    OK(synced_mem_clear(view));
    memset(expected + synced_mem_offset(view), 0, PART);
}

static void pull(synced_mem *view)
{
    OK(synced_mem_async_cpu_pull(view, other));
}

static void read_on_other_stream(synced_mem *view)
{
    gpu_delay(other);
    kernel_reads(view, other);
}

static void write_on_the_stream(synced_mem *view)
{
    device_writes(view, 2, stream);
}

static void read_on_host(synced_mem *view)
{
    ck_assert(host_reads_right(view));
}

static void end_use(synced_mem *view)
{
    OK(synced_mem_end_use_on(view, stream));
}

static void release_device_copy(synced_mem *view)
{
    (void)view;
    OK(synced_mem_release_gpu_data(root));
}

static void (*const events[])(synced_mem *view) = {
    write_on_host,        write_on_other_stream, write_without_stream, clear,   pull,
    read_on_other_stream, write_on_the_stream,   read_on_host,         end_use, release_device_copy};
enum { EVENTS = sizeof events / sizeof *events };

/* _i: the event, the mode, and the part. What the stream does next comes after the event, and all know of it. */
START_TEST(one_part_has_changed)
{
    const int mode = _i / EVENTS % MODES;
    static const int parts[] = {0, 3, PARTS - 1};
    divide();
    (void)use_all(mode, stream);
    (void)use_all(mode, stream);
    events[_i % EVENTS](views[parts[_i / EVENTS / MODES]]);
    (void)use_all(mode, stream);
    kernel_reads(root, stream);
    if (mode == MUTABLE)
        device_writes(root, 3, stream);
    for (int i = 0; i < PARTS; i++)
        kernel_reads(views[i], other);
    ck_assert(host_reads_right(root));
    (void)use_all(mode, stream);
    kernel_reads(root, stream);
    release_views();
    end();
}
END_TEST

/* ---- Parts that are to be joined ---- */

/* Two pushes are in flight when their views end, so that the parts cannot be joined. The next access after the pushes
 * joins them, though it has nothing else to do. */
START_TEST(parts_are_joined)
{
    divide();
    host_writes(root, 2);
    gpu_hold(stream);
    for (int i = 0; i < PARTS; i++)
        OK(synced_mem_async_gpu_push(views[i], stream));
    const void *const data = use_all(READ, stream);
    release_views();
    ck_assert(sm_is_divided(root));
    gpu_unhold();
    gpu_stream_sync(stream);
    ck_assert_ptr_eq(use_all(READ, stream), data);
    ck_assert(!sm_is_divided(root));
    kernel_reads(root, stream);
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views_again");
    TCase *const tests = add_case(made, "views_again");
    tcase_add_loop_test(tests, nothing_to_do, 0, 2 * MODES);
    tcase_add_loop_test(tests, one_part_has_changed, 0, EVENTS * MODES * 3);
    add_tests(tests, parts_are_joined);
    return made;
}
