/* Checks sizes of objects that had views: parts that differ, and whose views are gone, are resized by bytes. */
#include "views_kit.h"

enum { PARTS = 5 };

/* Makes a root whose parts have different heads, and no view. */
static synced_mem *make_remains(bool pageable)
{
    static const size_t begins[PARTS + 1] = {0, 3001, 9000, 9001, 17000, ROOT};
    static const synced_mem_head_kind heads[PARTS] = {SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_GPU, SYNCED_MEM_UNINITIALIZED,
                                                      SYNCED_MEM_SYNCED, SYNCED_MEM_AT_GPU};
    synced_mem *const root = make_root(pageable);
    synced_mem *views[PARTS];
    for (int i = 0; i < PARTS; i++) {
        views[i] = view_of(root, begins[i], begins[i + 1] - begins[i]);
        const synced_mem_head_kind head =
            gpu_expected() ? heads[i] : (synced_mem_head_kind)(heads[i] & SYNCED_MEM_AT_CPU);
        bring_to(views[i], head, 1 + (unsigned)i);
    }
    for (int i = 0; i < PARTS; i++)
        OK(synced_mem_release(views[i * 3 % PARTS]));
    HEAD(root, MIXED);
    return root;
}

static bool has_old_bytes(const unsigned char *data, size_t size)
{
    const size_t kept = size < ROOT ? size : ROOT;
    return memcmp(data, expected, kept) == 0 && pattern_is(data + kept, size - kept, 0);
}

static bool contents_are_right(synced_mem *mem, size_t size, bool on_device)
{
    if (!on_device) {
        const void *const data = given(synced_mem_cpu_data(mem));
        gpu_note_host_read(data, size);
        return has_old_bytes(data, size);
    }
    unsigned char *const bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(bytes);
    gpu_read(bytes, given(synced_mem_gpu_data_on(mem, NULL)), size);
    const bool right = has_old_bytes(bytes, size);
    free(bytes);
    return right;
}

static const size_t sizes[] = {ROOT, ROOT + 1, 4 * ROOT, ROOT - 1, 9001, 9000, 3000, 1, 0};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

START_TEST(resized)
{
    const size_t size = sizes[_i % SIZES];
    const bool on_device = _i / SIZES % 2;
    if (on_device && !gpu_expected())
        return;
    synced_mem *const root = make_remains(_i / SIZES / 2);
    OK(synced_mem_resize(root, size));
    ck_assert_uint_eq(synced_mem_size(root), size);
    ck_assert(contents_are_right(root, size, on_device));
    if (size > 100) {
        synced_mem *const view = view_of(root, size - 100, 100);
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(root, size));
        host_fill(given(synced_mem_mutable_cpu_data(view)), 100, 8);
        OK(synced_mem_release(view));
    }
    OK(synced_mem_resize(root, 4 * ROOT));
    ck_assert(pattern_is((const unsigned char *)given(synced_mem_cpu_data(root)) + size, 4 * ROOT - size, 0) ||
              size == 4 * ROOT);
    OK(synced_mem_release(root));
}
END_TEST

/* Bytes that were cut off read as zero when they come back. */
START_TEST(smaller_and_larger)
{
    const size_t least = sizes[3 + _i % (SIZES - 3)];
    synced_mem *const root = make_remains(_i / (SIZES - 3) % 2);
    OK(synced_mem_resize(root, least));
    OK(synced_mem_resize(root, ROOT));
    memset(expected + least, 0, ROOT - least);
    if (gpu_expected())
        ck_assert(contents_are_right(root, ROOT, true));
    ck_assert(contents_are_right(root, ROOT, false));
    OK(synced_mem_release(root));
}
END_TEST

START_TEST(discarded)
{
    const size_t size = sizes[_i % SIZES];
    synced_mem *const root = make_remains(_i / SIZES);
    OK(synced_mem_resize_discard(root, size));
    HEAD(root, UNINITIALIZED);
    memset(expected, 0, sizeof expected);
    if (gpu_expected())
        ck_assert(contents_are_right(root, size, true));
    ck_assert(contents_are_right(root, size, false));
    OK(synced_mem_release(root));
}
END_TEST

/* The same with a kernel at work on the bytes of a view that is gone. */
START_TEST(resized_while_busy)
{
    const size_t size = sizes[_i % SIZES];
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const root = make_remains(_i / SIZES), *const a = view_of(root, 2000, 8000);
    synced_mem *const b = view_of(root, 15000, 5000);
    gpu_delay(stream);
    device_writes(a, 6, stream);
    device_writes(b, 7, other);
    OK(synced_mem_async_cpu_pull(b, other));
    OK(synced_mem_release(a));
    OK(synced_mem_release(b));
    OK(synced_mem_resize(root, size));
    ck_assert(contents_are_right(root, size, true));
    ck_assert(contents_are_right(root, size, false));
    OK(synced_mem_release(root));
    close_stream(stream);
    close_stream(other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("sizes after views");
    TCase *const tests = add_case(made, "sizes");
    tcase_add_loop_test(tests, resized, 0, 4 * SIZES);
    tcase_add_loop_test(tests, smaller_and_larger, 0, 2 * (SIZES - 3));
    tcase_add_loop_test(tests, discarded, 0, 2 * SIZES);
    tcase_add_loop_test(tests, resized_while_busy, 0, 2 * SIZES);
    return made;
}
