/* Checks views as objects: their facts, their options, the parts that are refused, and the lives of view and root. */
#include "views_kit.h"

#include <stdint.h>
#include <stdio.h>

enum { OFFSET = 1001, PART = 5003 };

/* ---- Facts ---- */

START_TEST(facts)
{
    static int yours, roots;
    char name[] = "part";
    synced_mem *root = NULL, *view = NULL;
    synced_mem_options options = default_options();
    options.name = "whole";
    options.user = &roots;
    OK(synced_mem_create(&root, ROOT, &options));
    options.name = name;
    options.user = &yours;
    OK(synced_mem_view(&view, root, OFFSET, PART, &options));
    name[0] = 'x';
    ck_assert_ptr_eq(synced_mem_root(view), root);
    ck_assert_uint_eq(synced_mem_offset(view), OFFSET);
    ck_assert_uint_eq(synced_mem_size(view), PART);
    ck_assert_str_eq(synced_mem_name(view), "part");
    ck_assert_ptr_eq(synced_mem_user(view), &yours);
    ck_assert_int_eq(synced_mem_device(view), SYNCED_MEM_DEVICE_CURRENT);
    ck_assert_int_eq(synced_mem_placement(view), SYNCED_MEM_PLACEMENT_SEPARATE);
    ck_assert_int_eq(synced_mem_cpu_source(view), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_gpu_source(view), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(view), 0);
    HEAD(view, UNINITIALIZED);
    ck_assert_ptr_eq(synced_mem_root(root), root);
    ck_assert_uint_eq(synced_mem_offset(root), 0);
    ck_assert_uint_eq(synced_mem_size(root), ROOT);
    ck_assert_str_eq(synced_mem_name(root), "whole");
    ck_assert_ptr_eq(synced_mem_user(root), &roots);
    RELEASE_EACH(view, root);
}
END_TEST

START_TEST(facts_without_options)
{
    static const char longer[] = "0123456789012345678901234567890123456789012345678901234567890123456789";
    synced_mem_options options = default_options();
    synced_mem *const root = make_named("whole", ROOT), *const plain = view_of(root, 0, PART);
    synced_mem *view = NULL;
    ck_assert_str_eq(synced_mem_name(plain), "");
    ck_assert_ptr_null(synced_mem_user(plain));
    OK(synced_mem_view(&view, root, 0, PART, &options)); /* the defaults */
    ck_assert_str_eq(synced_mem_name(view), "");
    OK(synced_mem_release(view));
    options.name = longer;
    OK(synced_mem_view(&view, root, 0, PART, &options));
    ck_assert_uint_eq(strlen(synced_mem_name(view)), 47);
    ck_assert_int_eq(strncmp(synced_mem_name(view), longer, 47), 0);
    RELEASE_EACH(view, plain, root);
}
END_TEST

START_TEST(facts_of_null)
{
    ck_assert_ptr_null(synced_mem_root(NULL));
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    SAYS("synced_mem_root");
    ck_assert_uint_eq(synced_mem_offset(NULL), 0);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    SAYS("synced_mem_offset");
}
END_TEST

/* The memory is the root's, so its facts are too. */
START_TEST(facts_of_memory)
{
    synced_mem *const root = make(ROOT), *const view = view_of(root, OFFSET, PART);
    host_writes(view, 1);
    ck_assert_int_eq(synced_mem_cpu_source(view), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_int_eq(synced_mem_cpu_source(root), SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_uint_ge(synced_mem_cpu_capacity(root), ROOT);
    ck_assert_uint_ge(synced_mem_cpu_capacity(view), PART);
    ck_assert_uint_eq(stats_now().host_allocations, 1);
    if (gpu_expected()) {
        device_writes(view, 2, NULL);
        ck_assert_int_eq(synced_mem_device(view), 0);
        ck_assert_int_eq(synced_mem_device(root), 0);
        ck_assert_int_eq(synced_mem_gpu_source(view), SYNCED_MEM_SOURCE_DEVICE);
        ck_assert_int_eq(synced_mem_gpu_source(root), SYNCED_MEM_SOURCE_DEVICE);
        ck_assert_uint_ge(synced_mem_gpu_capacity(root), ROOT);
        ck_assert_uint_ge(synced_mem_gpu_capacity(view), PART);
        ck_assert_uint_eq(stats_now().gpu_allocations, 1);
    }
    RELEASE_EACH(root, view);
}
END_TEST

START_TEST(view_of_a_view)
{
    synced_mem *const root = make(ROOT), *const outer = view_of(root, 100, 10000);
    synced_mem *const inner = view_of(outer, 1000, 2000), *const innermost = view_of(inner, 1999, 1);
    ck_assert_ptr_eq(synced_mem_root(inner), root);
    ck_assert_uint_eq(synced_mem_offset(inner), 1100);
    ck_assert_uint_eq(synced_mem_size(inner), 2000);
    ck_assert_ptr_eq(synced_mem_root(innermost), root);
    ck_assert_uint_eq(synced_mem_offset(innermost), 3099);
    host_writes(inner, 1);
    RELEASE_EACH(outer, inner);
    ck_assert_ptr_eq(synced_mem_root(innermost), root);
    ck_assert(host_reads_right(innermost));
    OK(synced_mem_release(root));
    ck_assert(host_reads_right(innermost));
    OK(synced_mem_release(innermost));
}
END_TEST

static char text[65536];

static const char *text_of(const synced_mem *mem)
{
    FILE *const file = fmemopen(text, sizeof text, "w");
    ck_assert_ptr_nonnull(file);
    OK(mem ? synced_mem_print(mem, file) : synced_mem_print_all(file));
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

#define HAS(words) ck_assert_msg(strstr(text, (words)) != NULL, "'%s' is not in:\n%s", (words), text)

START_TEST(as_text)
{
    synced_mem *const root = make_named("whole", ROOT);
    synced_mem *view = NULL;
    synced_mem_options options = default_options();
    options.name = "part";
    OK(synced_mem_view(&view, root, OFFSET, PART, &options));
    text_of(view);
    HAS("'part' at ");
    HAS("  5003 bytes (4.8 KiB), UNINITIALIZED");
    host_writes(view, 1);
    text_of(view);
    HAS("AT_CPU");
    HAS("  host    pageable ");
    HAS("  valid  ");
    text_of(root);
    HAS("'whole' at ");
    HAS("  24000 bytes (23.4 KiB), MIXED");
    HAS("  in parts  0 transfers to it\n");
    text_of(NULL);
    HAS("'part' at ");
    HAS("'whole' at ");
    ck_assert_uint_eq(stats_now().objects, 2);
    OK(synced_mem_release(view));
    text_of(root);
    HAS("  24000 bytes (23.4 KiB), MIXED");
    OK(synced_mem_release(root));
}
END_TEST

static void has_transfers(synced_mem *mem, const char *state, unsigned count)
{
    char words[64];
    (void)snprintf(words, sizeof words, "  %-8s  %u transfers to it\n", state, count);
    OK(synced_mem_wait(mem));
    text_of(mem);
    HAS(words);
}

/* The transfers of all parts count, each once, also after parts were cut and joined. */
START_TEST(transfers_as_text)
{
    synced_mem *const root = make_root(false);
    host_writes(root, 1);
    OK(synced_mem_async_gpu_push(root, NULL));
    synced_mem *const a = view_of(root, 100, 8000), *const b = view_of(root, 8100, 8000), *const mems[] = {a, b};
    has_transfers(root, "valid", 1);
    for (unsigned i = 0; i < 3; i++) {
        host_writes(a, 2 + i);
        OK(synced_mem_async_gpu_push(a, NULL));
    }
    host_writes(b, 5);
    has_transfers(root, "in parts", 4);
    OK(synced_mem_async_gpu_push(b, NULL));
    has_transfers(a, "valid", 3);
    has_transfers(b, "valid", 1);
    has_transfers(root, "valid", 5);
    release_all(mems, 2);
    ck_assert(host_reads_right(root));
    has_transfers(root, "valid", 5);
    OK(synced_mem_release(root));
}
END_TEST

/* ---- Parts of 0 bytes ---- */

START_TEST(no_bytes)
{
    static const size_t offsets[] = {0, 100, ROOT};
    synced_mem *const root = make(ROOT), *const none = view_of(root, offsets[_i], 0);
    ck_assert_ptr_eq(synced_mem_root(none), root);
    ck_assert_uint_eq(synced_mem_offset(none), offsets[_i]);
    ck_assert_uint_eq(synced_mem_size(none), 0);
    HEAD(none, UNINITIALIZED);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(none));
    HEAD(none, AT_CPU);
    HEAD(root, UNINITIALIZED);
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data(none));
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(none, NULL));
        HEAD(none, AT_GPU);
        OK(synced_mem_async_cpu_pull(none, NULL));
        HEAD(none, SYNCED);
    }
    host_writes(root, 1);
    HEAD(root, AT_CPU);
    check_bytes(&(synced_mem_stats){0}, 0, 0);
    synced_mem *const again = view_of(none, 0, 0);
    ck_assert_ptr_eq(synced_mem_root(again), root);
    ck_assert_uint_eq(synced_mem_offset(again), offsets[_i]);
    synced_mem *refused = root;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&refused, none, 0, 1, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&refused, none, 1, 0, NULL));
    ck_assert_ptr_null(refused);
    RELEASE_EACH(root, none);
    ck_assert_ptr_eq(synced_mem_root(again), root);
    ck_assert(host_is(synced_mem_cpu_data(root), ROOT, 1)); /* the views have kept it */
    OK(synced_mem_release(again));
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

/* ---- Bad input ---- */

START_TEST(parts_beyond_the_end)
{
    static const struct {
        size_t offset, size;
    } parts[] = {{ROOT, 1},
                 {0, ROOT + 1},
                 {ROOT - 1, 2},
                 {ROOT + 1, 0},
                 {SIZE_MAX, 0},
                 {SIZE_MAX, 1},
                 {SIZE_MAX, 2},
                 {1, SIZE_MAX},
                 {2, SIZE_MAX},
                 {SIZE_MAX, SIZE_MAX},
                 {SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1},
                 {SIZE_MAX - 99, 200}};
    synced_mem *const root = make_at_cpu(ROOT, 1), *const view = view_of(root, 100, 1000);
    const struct facts before = facts_of(root);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        synced_mem *out = root;
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&out, root, parts[i].offset, parts[i].size, NULL));
        SAYS("synced_mem_view");
        ck_assert_ptr_null(out);
        out = root;
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&out, view, parts[i].offset, parts[i].size, NULL));
        ck_assert_ptr_null(out);
    }
    synced_mem *out = root;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&out, view, 0, 1001, NULL)); /* within the root */
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&out, view, 1000, 1, NULL));
    ck_assert_ptr_null(out);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(NULL, root, 0, 1, NULL));
    out = root;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&out, NULL, 0, 1, NULL));
    ck_assert_ptr_null(out);
    check_unchanged(root, &before);
    ck_assert_uint_eq(stats_now().objects, 2);
    RELEASE_EACH(view, root);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

static void *refuse(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream, (void)user;
    return NULL;
}

static void never(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)data, (void)size, (void)alignment, (void)device, (void)stream, (void)user;
}

START_TEST(options_that_are_the_roots)
{
    const synced_mem_allocator table = {.struct_size = sizeof table, .alloc = refuse, .free = never};
    synced_mem *const root = make(ROOT);
    for (int i = 0; i < 8; i++) {
        synced_mem_options options = default_options();
        synced_mem *out = root;
        switch (i) {
        case 0:
            options.device = 0;
            break;
        case 1:
            options.alignment = 64; /* though the root has it */
            break;
        case 2:
            options.cpu_allocator = &table;
            break;
        case 3:
            options.gpu_allocator = &table;
            break;
        case 4:
            options.placement = SYNCED_MEM_PLACEMENT_MAPPED;
            break;
        case 5:
            options.placement = SYNCED_MEM_PLACEMENT_AUTOMATIC;
            break;
        case 6:
            options.struct_size = 0;
            break;
        case 7:
            options.struct_size = sizeof options + 8;
            break;
        }
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_view(&out, root, 0, PART, &options));
        ck_assert_ptr_null(out);
    }
    ck_assert_uint_eq(stats_now().objects, 1);
    OK(synced_mem_resize(root, ROOT + 1)); /* it has no view */
    OK(synced_mem_release(root));
}
END_TEST

/* ---- Lives ---- */

START_TEST(a_view_keeps_its_root)
{
    synced_mem *const root = make(ROOT), *const view = view_of(root, OFFSET, PART), *const other = view_of(root, 0, 10);
    host_writes(view, 1);
    const uint64_t held = stats_now().pageable_bytes;
    ck_assert_uint_ge(held, ROOT);
    ck_assert_uint_eq(stats_now().objects, 3);
    OK(synced_mem_release(root));
    ck_assert_uint_eq(stats_now().objects, 3);
    ck_assert_uint_eq(stats_now().pageable_bytes, held);
    ck_assert_ptr_eq(synced_mem_root(view), root);
    ck_assert(host_reads_right(view));
    ck_assert(host_reads_right(root)); /* which the views have kept */
    OK(synced_mem_release(view));
    ck_assert_uint_eq(stats_now().objects, 2);
    ck_assert_uint_eq(stats_now().pageable_bytes, held);
    OK(synced_mem_retain(other));
    OK(synced_mem_release(other));
    ck_assert_uint_eq(stats_now().objects, 2);
    ck_assert(host_reads_right(other));
    OK(synced_mem_release(other));
    ck_assert_uint_eq(stats_now().objects, 0);
    ck_assert_uint_eq(stats_now().pageable_bytes, 0);
}
END_TEST

/* A root that is given up can be had again from its view. */
START_TEST(a_root_is_retained_again)
{
    synced_mem *const view = view_of(make(ROOT), OFFSET, PART);
    OK(synced_mem_release(synced_mem_root(view)));
    OK(synced_mem_retain(synced_mem_root(view)));
    synced_mem *const root = synced_mem_root(view);
    host_writes(root, 1);
    OK(synced_mem_release(view));
    ck_assert(host_reads_right(root));
    ck_assert_uint_eq(stats_now().objects, 1);
    OK(synced_mem_release(root));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views");
    TCase *const tests = add_case(made, "facts");
    add_tests(tests, facts, facts_without_options, facts_of_null, facts_of_memory, view_of_a_view, as_text);
    add_gpu_tests(tests, transfers_as_text);
    tcase_add_loop_test(tests, no_bytes, 0, 3);
    TCase *const bad = add_case(made, "bad input");
    add_tests(bad, parts_beyond_the_end, options_that_are_the_roots);
    TCase *const lives = add_case(made, "lives");
    add_tests(lives, a_view_keeps_its_root, a_root_is_retained_again);
    return made;
}
