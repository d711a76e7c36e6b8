/* Checks views, and calls on objects in parts, for whose records the host has no memory. */
#include "calls.h"
#include "refused_memory.h"
#include "views_kit.h"

/* ---- Making views ---- */

/* All allocations of making views fail, from one of them on. Nothing that was there changes, and nothing is left
 * behind. */
START_TEST(no_memory_for_a_view)
{
    enum { VIEWS = 700 };
    static synced_mem *views[VIEWS];
    const bool named = _i % 2;
    int failures = 0, of_trees = 0;
    synced_mem_options options = default_options();
    options.name = named ? "part" : NULL;
    /* more than are needed for nine pieces, which have a tree */
    for (struct failing it = each_refusal(false); it.nth < 60 && next_failure(&it);) {
        synced_mem *const root = make_root(false), *const first = view_of(root, 100, 5000);
        host_writes(first, 1);
        if (gpu_expected())
            device_writes(root, 2, NULL);
        else
            host_writes(root, 2);
        void *const data = given(synced_mem_mutable_cpu_data(first));
        const struct facts of_root = facts_of(root), of_first = facts_of(first);
        begin_failing(&it);
        int made = 0;
        synced_mem_status status = SYNCED_MEM_OK;
        while (made < VIEWS && status == SYNCED_MEM_OK) {
            views[made] = root;
            status = synced_mem_view(&views[made], made % 3 ? root : first, (size_t)made * 7, 30, &options);
            if (status == SYNCED_MEM_OK)
                made++;
        }
        ck_assert(end_failing(&it) || made == VIEWS);
        if (made < VIEWS) {
            failures++;
            of_trees += strstr(synced_mem_last_error_message(), "tree of parts") != NULL;
            ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
            ck_assert_ptr_null(views[made]);
        }
        ck_assert_uint_eq(stats_now().objects, 2 + (unsigned)made);
        check_unchanged(root, &of_root);
        check_unchanged(first, &of_first);
        for (int i = 0; i < made; i += 50)
            ck_assert(host_reads_right(views[i]));
        ck_assert_ptr_eq(synced_mem_mutable_cpu_data(first), data);
        ck_assert(host_reads_right(first));
        release_all(views, made);
        synced_mem *const again = view_of(first, 10, 10);
        ck_assert(host_reads_right(again));
        ck_assert(host_reads_right(root));
        RELEASE_EACH(again, first);
        OK(synced_mem_resize(root, ROOT + 1)); /* no view is left */
        OK(synced_mem_release(root));
        OK(synced_mem_shutdown());
    }
    ck_assert_int_gt(failures, 1);
    ck_assert_int_gt(of_trees, 0);
}
END_TEST

/* The same for the first view of an object, which divides it, with work in flight. */
START_TEST(no_memory_for_the_first_view)
{
    for (struct failing it = each_refusal(false); next_failure(&it);) {
        OK(synced_mem_shutdown());
        synced_mem *const root = make_root(_i % 2);
        synced_mem *view = root;
        synced_mem_stream stream = gpu_expected() ? open_stream(NON_BLOCKING) : NULL;
        host_writes(root, 1);
        if (gpu_expected()) {
            device_writes(root, 2, stream);
            if (!_i) /* a copy to pageable memory waits for the stream */
                gpu_hold(stream);
            OK(synced_mem_async_cpu_pull(root, stream));
        }
        const struct facts before = facts_of(root);
        begin_failing(&it);
        const synced_mem_status status = synced_mem_view(&view, root, 100, 200, NULL);
        (void)end_failing(&it);
        check_unchanged(root, &before);
        if (gpu_expected() && !_i)
            gpu_unhold();
        if (it.nth == 1) /* the slab of the parts is empty after a shutdown */
            ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        if (status != SYNCED_MEM_OK) {
            ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
            ck_assert_ptr_null(view);
            ck_assert_uint_eq(stats_now().objects, 1);
            OK(synced_mem_resize(root, ROOT)); /* it has no view */
        } else {
            ck_assert(host_reads_right(view));
            OK(synced_mem_release(view));
        }
        ck_assert(host_reads_right(root));
        OK(synced_mem_release(root));
        if (gpu_expected())
            close_stream(stream);
    }
}
END_TEST

/* ---- Calls on objects in parts ---- */

enum { PARTS = 400, PART = ROOT / PARTS };

static synced_mem *parts[PARTS];

/* Every third part is written by a kernel, the others by the host. */
static synced_mem *make_parts(bool fresh)
{
    synced_mem *const root = make_root(false);
    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = view_of(root, i * PART, PART);
        if (fresh)
            continue;
        if (gpu_expected() && i % 3 == 0)
            device_writes(parts[i], 1 + (unsigned)i, NULL);
        else if (i % 3 != 1)
            host_writes(parts[i], 1 + (unsigned)i);
    }
    return root;
}

enum { SET_HOST = CALLS };
static const int calls[] = {CPU_READ, CPU_MUTABLE, ON_READ, PUSH, PULL, SET_HOST, FREE_CPU, FREE_GPU, FREE_DATA};
enum { COUNT = sizeof calls / sizeof calls[0] };

static synced_mem_status call_on(synced_mem *root, int call)
{
    static unsigned char memory[ROOT];
    if (call != SET_HOST)
        return make_call(root, call, NULL);
    memcpy(memory, expected, ROOT);
    return synced_mem_set_cpu_data(root, memory);
}

/* A call that fails changes nothing, and succeeds when there is memory. */
static void refuse_in_call(int call, bool fresh, struct failing *it)
{
    synced_mem_head_kind heads[PARTS];
    synced_mem *const root = make_parts(fresh);
    for (int i = 0; i < PARTS; i++)
        heads[i] = synced_mem_head(parts[i]);
    const synced_mem_head_kind head = synced_mem_head(root);
    begin_failing(it);
    const synced_mem_status status = call_on(root, call);
    ck_assert(end_failing(it) || status == SYNCED_MEM_OK);
    if (status != SYNCED_MEM_OK) {
        ck_assert_msg(status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "call %d: %s", call,
                      synced_mem_last_error_message());
        for (int i = 0; i < PARTS; i++)
            ck_assert_int_eq(synced_mem_head(parts[i]), heads[i]);
        ck_assert_int_eq(synced_mem_head(root), head);
        OK(call_on(root, call));
    }
    if (call == FREE_DATA)
        memset(expected, 0, sizeof expected);
    ck_assert(host_reads_right(root));
    for (int i = 0; i < PARTS; i += 7)
        ck_assert(host_reads_right(parts[i]));
    release_all(parts, PARTS);
    OK(synced_mem_release(root));
    OK(synced_mem_shutdown());
}

START_TEST(no_memory_for_a_call)
{
    const int call = calls[_i % COUNT];
    const bool fresh = _i / COUNT;
    const bool with_device = call == ON_READ || call == PUSH || call == PULL || call == FREE_GPU || call == FREE_CPU;
    const bool with_contents = call == PUSH || call == PULL;
    if ((with_device && !gpu_expected()) || (with_contents && fresh))
        return;
    for (struct failing it = each_refusal(true); next_failure(&it);)
        refuse_in_call(call, fresh, &it);
}
END_TEST

/* ---- Copies ---- */

enum copy { TO_PARTS, FROM_PARTS, TO_PARTS_ON_DEVICE, FROM_PARTS_ON_DEVICE, COPIES };

static synced_mem_status make_copy(enum copy copy, synced_mem *to, synced_mem *from)
{
    return copy < TO_PARTS_ON_DEVICE ? synced_mem_cpu_copy(to, from) : synced_mem_async_gpu_copy(to, from, NULL);
}

/* Checks that each part of the target has its old contents or the copy. Returns how many have the copy. */
static int count_copied(synced_mem *to, const unsigned char *before, const unsigned char *copied)
{
    int count = 0;
    const unsigned char *const data = given(synced_mem_cpu_data(to));
    gpu_note_host_read(data, ROOT);
    for (size_t at = 0; at < ROOT; at += PART) {
        const bool is_copied = memcmp(data + at, copied + at, PART) == 0;
        ck_assert(is_copied || memcmp(data + at, before + at, PART) == 0);
        count += is_copied;
    }
    return count;
}

/* The contents of the object that is copied to or from the parts. They differ from all patterns. */
static unsigned char of_other[ROOT];

static void fill_other(synced_mem *other)
{
    void *const data = given(synced_mem_overwrite_cpu_data(other));
    for (size_t i = 0; i < ROOT; i++)
        of_other[i] = (unsigned char)(100 + 3 * i);
    gpu_note_host_write(data, ROOT);
    memcpy(data, of_other, ROOT);
}

/* Checks that a refused copy has not changed its source, and its target only by whole parts. A refused list of parts
 * leaves the target as it was. The record of a use may be refused after some parts were copied. Returns whether a list
 * was refused. */
static bool check_refused(synced_mem *root, synced_mem *other, bool to_parts)
{
    const bool lists = strstr(synced_mem_last_error_message(), "keep track of 400 copies") != NULL;
    const int copied = to_parts ? count_copied(root, expected, of_other) : count_copied(other, of_other, expected);
    ck_assert_int_lt(copied, PARTS);
    ck_assert(copied == 0 || !lists);
    if (to_parts)
        ck_assert_int_eq(memcmp(given(synced_mem_cpu_data(other)), of_other, ROOT), 0);
    else
        ck_assert(host_reads_right(root));
    return lists;
}

/* A copy between an object in parts and an undivided one. It succeeds when there is memory. Returns whether a list was
 * refused. */
static bool refuse_in_copy(enum copy copy, struct failing *it)
{
    bool lists = false;
    const bool to_parts = copy == TO_PARTS || copy == TO_PARTS_ON_DEVICE;
    synced_mem *const root = make_parts(false), *const other =
                                                    make_on(ROOT, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    synced_mem *const to = to_parts ? root : other, *const from = to_parts ? other : root;
    fill_other(other);
    begin_failing(it);
    const synced_mem_status status = make_copy(copy, to, from);
    ck_assert(end_failing(it) || status == SYNCED_MEM_OK);
    if (status != SYNCED_MEM_OK) {
        ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        if (it->nth < 5 || it->nth % 2) /* otherwise the copy is repeated first */
            lists = check_refused(root, other, to_parts);
        OK(make_copy(copy, to, from));
    }
    if (to_parts)
        memcpy(expected, of_other, ROOT);
    ck_assert(host_reads_right(root));
    ck_assert(bytes_are_right(root, given(synced_mem_cpu_data(other))));
    for (int i = 0; i < PARTS; i += 7)
        ck_assert(host_reads_right(parts[i]));
    release_all(parts, PARTS);
    RELEASE_EACH(root, other);
    OK(synced_mem_shutdown());
    return lists;
}

START_TEST(no_memory_for_a_copy)
{
    int lists = 0;
    slabs_are_large = true;
    if (_i >= TO_PARTS_ON_DEVICE && !gpu_expected())
        return;
    for (struct failing it = each_refusal(true); next_failure(&it);)
        lists += refuse_in_copy((enum copy)_i, &it);
    ck_assert_int_gt(lists, 0);
}
END_TEST

/* The views are gone, but their parts have different heads. */
START_TEST(no_memory_for_a_resize)
{
    synced_mem *const root = make_parts(false);
    release_all(parts, PARTS);
    fail_in = 1;
    const synced_mem_status status = synced_mem_resize(root, 2 * ROOT);
    fail_in = 0;
    ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    ck_assert_uint_eq(synced_mem_size(root), ROOT);
    ck_assert(host_reads_right(root));
    OK(synced_mem_resize(root, 2 * ROOT));
    OK(synced_mem_release(root));
}
END_TEST

/* Borrowed device memory in parts is outgrown. */
static void refuse_in_growth(struct failing *it, void *device)
{
    synced_mem *const root = make_root(false);
    gpu_fill(device, ROOT, 1, NULL);
    gpu_stream_sync(NULL);
    OK(synced_mem_set_gpu_data(root, device));
    expect(root, 1);
    synced_mem *const view = view_of(root, 100, 5000);
    ck_assert(host_reads_right(view));
    OK(synced_mem_release(view));
    OK(synced_mem_wait(root));
    begin_failing(it);
    const synced_mem_status status = synced_mem_resize(root, 2 * ROOT);
    ck_assert(end_failing(it) || status == SYNCED_MEM_OK);
    if (status != SYNCED_MEM_OK) {
        ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        ck_assert_uint_eq(synced_mem_size(root), ROOT);
        HEAD(root, AT_GPU);
        ck_assert(device_reads_right(root));
        ck_assert(host_reads_right(root));
        OK(synced_mem_resize(root, 2 * ROOT));
    }
    ck_assert_int_eq(memcmp(given(synced_mem_cpu_data(root)), expected, ROOT), 0);
    OK(synced_mem_release(root));
}

START_TEST(no_memory_for_larger_device_memory)
{
    void *const device = gpu_alloc(0, ROOT);
    struct failing it = each_refusal(false);
    while (next_failure(&it))
        refuse_in_growth(&it, device);
    ck_assert_uint_gt(it.nth, 4);
    gpu_free(device);
}
END_TEST

/* Calls that only read an object in parts need no memory. */
START_TEST(no_memory_for_facts)
{
    synced_mem *const root = make_parts(false);
    FILE *const file = tmpfile();
    int pending;
    ck_assert_ptr_nonnull(file);
    fail_in = 1;
    const synced_mem_source source = synced_mem_cpu_source(root);
    const size_t capacity = synced_mem_cpu_capacity(root);
    const size_t gpu_capacity = synced_mem_gpu_capacity(root);
    const int is_pinned = synced_mem_cpu_is_pinned(root);
    const synced_mem_head_kind head = synced_mem_head(root);
    const synced_mem_status printed = synced_mem_print(root, file);
    const synced_mem_status queried = synced_mem_query(root, &pending);
    const synced_mem_status waited = synced_mem_wait(root);
    fail_in = 0;
    ck_assert_int_eq(source, gpu_expected() ? SYNCED_MEM_SOURCE_PINNED : SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_ge(capacity, ROOT);
    ck_assert_int_eq(gpu_capacity >= ROOT, gpu_expected());
    ck_assert_int_eq(is_pinned, gpu_expected());
    ck_assert_int_eq(head, SYNCED_MEM_MIXED);
    OK(printed);
    OK(queried);
    OK(waited);
    ck_assert_int_eq(fclose(file), 0);
    release_all(parts, PARTS);
    OK(synced_mem_release(root));
}
END_TEST

/* A read of a root fills the parts without contents. Without memory for the fill's records it fails, and what the other
 * parts have stays. */
START_TEST(no_memory_for_zeros)
{
    int failures = 0;
    for (struct failing it = each_refusal(false); next_failure(&it);) {
        synced_mem *const root = make_root(false);
        synced_mem *const views[] = {view_of(root, 0, 5000), view_of(root, 5000, 3000)};
        host_writes(views[0], 1);
        begin_failing(&it);
        const void *const data = synced_mem_cpu_data(root);
        ck_assert(end_failing(&it) || data);
        failures += data == NULL;
        if (!data)
            ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        ck_assert(host_reads_right(views[0]));
        ck_assert(host_reads_right(root));
        release_all(views, 2);
        OK(synced_mem_release(root));
        OK(synced_mem_shutdown());
    }
    ck_assert_int_gt(failures, 1);
}
END_TEST

static unsigned handed_back;

static void count_hand_back(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    handed_back++;
}

static bool is_all(const char *data, size_t size, char value)
{
    size_t i = 0;
    while (i < size && data[i] == value)
        i++;
    return i == size;
}

/* A write to a part replaces read-only memory of the root. The other parts are copied by the host. */
START_TEST(no_memory_for_a_copy_of_read_only_memory)
{
    static char memory[ROOT];
    int failures = 0;
    memset(memory, 5, sizeof memory);
    for (struct failing it = each_refusal(false); next_failure(&it);) {
        synced_mem *const root = make_root(false);
        synced_mem *const views[] = {view_of(root, 0, 5000), view_of(root, 5000, 3000)};
        handed_back = 0;
        OK(USE(root, .cpu_data = memory, .flags = SYNCED_MEM_MEMORY_READ_ONLY, .callback = count_hand_back));
        begin_failing(&it);
        char *data = synced_mem_mutable_cpu_data(views[0]);
        ck_assert(end_failing(&it) || data);
        if (!data) {
            failures++;
            ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
            ck_assert_uint_eq(handed_back, 0);
            ck_assert_ptr_eq(synced_mem_cpu_data(root), memory);
            data = synced_mem_mutable_cpu_data(views[0]);
        }
        ck_assert_ptr_nonnull(data);
        ck_assert(is_all(data, 5000, 5));
        data[0] = 6;
        ck_assert(is_all((const char *)given(synced_mem_cpu_data(root)) + 1, ROOT - 1, 5));
        ck_assert(is_all(memory, ROOT, 5));
        release_all(views, 2);
        OK(synced_mem_release(root));
        OK(synced_mem_shutdown());
    }
    ck_assert_int_gt(failures, 2);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views without memory");
    TCase *const memory = add_case(made, "no memory");
    add_tests(memory, no_memory_for_facts, no_memory_for_zeros, no_memory_for_a_copy_of_read_only_memory,
              no_memory_for_a_resize);
    add_gpu_tests(memory, no_memory_for_larger_device_memory);
    add_divided_test(memory, no_memory_for_a_view, 0, 2);
    add_divided_test(memory, no_memory_for_the_first_view, 0, 2);
    add_divided_test(memory, no_memory_for_a_call, 0, 2 * COUNT);
    add_divided_test(memory, no_memory_for_a_copy, 0, COPIES);
    return made;
}
