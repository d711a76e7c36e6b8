/* Numbers as text: readable, complete, within 100 columns. */
#include "fixture.h"

#include "print.h"

#include <stdio.h>
#include <string.h>

enum { SIZE = 5000, COLUMNS = 100 };

static char text[65536];

/* What a child has inherited it does not free: the leak sanitizer asks here before it looks. */
static bool leaves_something;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return leaves_something;
}

/* What a call prints, into a file in memory. */
static FILE *begin_text(void)
{
    FILE *const file = fmemopen(text, sizeof text, "w");
    ck_assert_ptr_nonnull(file);
    return file;
}

static void end_text(FILE *file)
{
    ck_assert_int_eq(fclose(file), 0);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        ck_assert_ptr_nonnull(strchr(line, '\n'));
        ck_assert_int_le(strchr(line, '\n') - line, COLUMNS);
    }
}

static const char *stats_text(void)
{
    FILE *const file = begin_text();
    OK(synced_mem_print_stats(file));
    end_text(file);
    return text;
}

static const char *text_of(const synced_mem *mem)
{
    FILE *const file = begin_text();
    OK(synced_mem_print(mem, file));
    end_text(file);
    return text;
}

#define HAS(words) ck_assert_msg(strstr(text, (words)) != NULL, "'%s' is not in:\n%s", (words), text)

START_TEST(sizes)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {{0, "0 B"},
                {1023, "1023 B"},
                {1024, "1.0 KiB"},
                {1536, "1.5 KiB"},
                {1048575, "1023.9 KiB"},
                {(uint64_t)5 << 30, "5.0 GiB"},
                {UINT64_MAX, "15.9 EiB"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_str_eq(sm_size_text(rows[i].bytes).text, rows[i].text);
}
END_TEST

START_TEST(statistics)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    stats_text();
    HAS("synced_mem 0.1.0\n");
    HAS("  objects                                                           1\n");
    HAS("5000 bytes      4.8 KiB\n");
    HAS("pool of page-locked memory\n");
    HAS("memory was refused\n");
    ck_assert_ptr_null(strstr(text, "pool of device"));
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        stats_text();
        HAS("pool of device 0\n");
        ck_assert_ptr_null(strstr(text, "pool of device 1"));
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(staging_that_is_never_done)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    OK(synced_mem_get_staging(&staging));
    const size_t before = staging.minimum_bytes;
    staging.minimum_bytes = SIZE_MAX;
    OK(synced_mem_set_staging(&staging));
    stats_text();
    HAS("never\n");
    staging.minimum_bytes = before;
    OK(synced_mem_set_staging(&staging));
}
END_TEST

START_TEST(objects)
{
    synced_mem_options options;
    synced_mem *mem = NULL;
    synced_mem_options_init(&options);
    options.name = "conv1\n.weight";
    OK(synced_mem_create(&mem, SIZE, &options));
    text_of(mem);
    HAS("'conv1?.weight' at ");
    HAS("  5000 bytes (4.8 KiB), UNINITIALIZED, no device yet\n");
    HAS("  host    none\n");
    HAS("  device  none\n");
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    text_of(mem);
    HAS("AT_CPU");
    HAS("  host    pageable ");
    HAS("  valid     0 transfers to it\n");
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
        text_of(mem);
        HAS("AT_GPU, device 0\n");
        HAS("  stale     0 transfers to it\n");
        HAS("  device  device ");
        HAS("  valid     1 transfers to it\n");
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(arriving_and_page_locked)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make(SIZE);
    void *const memory = gpu_pinned_alloc(SIZE);
    OK(synced_mem_set_cpu_data_on(mem, memory, stream));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    text_of(mem);
    HAS("  host    borrowed    page-locked ");
    HAS("  arriving  1 transfers to it\n");
    gpu_unhold();
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_pinned_free(memory);
}
END_TEST

START_TEST(placements)
{
    static const char *const words[] = {", mapped", ", managed", ", automatic placement"};
    for (int i = 0; i < 3; i++) {
        synced_mem_options options;
        synced_mem *mem = NULL;
        synced_mem_options_init(&options);
        options.placement = (synced_mem_placement_kind)(SYNCED_MEM_PLACEMENT_MAPPED + i);
        OK(synced_mem_create(&mem, SIZE, &options));
        text_of(mem);
        HAS(words[i]);
        OK(synced_mem_release(mem));
    }
}
END_TEST

START_TEST(nowhere_to_print)
{
    synced_mem *const mem = make(SIZE);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_print_stats(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_print(mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_print(NULL, stderr));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_trace_summary(NULL));
    FILE *const full = fopen("/dev/full", "w");
    if (full) {
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_print_stats(full));
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_print(mem, full));
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_trace_summary(full));
        SAYS("No space left");
        (void)fclose(full);
    }
    OK(synced_mem_release(mem));
}
END_TEST

static const synced_mem *parents;

static void print_parents(const void *unused)
{
    (void)unused;
    leaves_something = true;
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_print(parents, stderr));
    stats_text();
    ck_assert_ptr_null(strstr(text, "pool of device"));
}

START_TEST(in_a_forked_child)
{
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    parents = mem;
    ck_assert(in_a_child(print_parents, NULL));
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("print");
    TCase *const cases = add_case(all, "print");
    tcase_add_test(cases, sizes);
    tcase_add_test(cases, statistics);
    tcase_add_test(cases, staging_that_is_never_done);
    tcase_add_test(cases, objects);
    tcase_add_test(cases, arriving_and_page_locked);
    tcase_add_test(cases, placements);
    tcase_add_test(cases, nowhere_to_print);
    tcase_add_test(cases, in_a_forked_child);
    return all;
}
