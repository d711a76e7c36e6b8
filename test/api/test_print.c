/* Checks numbers and objects as text: complete, readable, and at most 100 columns wide. */
#include "fixture.h"

#include "base/text.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 5000, COLUMNS = 100 };

static char text[65536];

/* Open a file in memory, and close it. The lines that were printed are checked for their width. */
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
    HAS("synced_mem 0.2.0\n");
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

static void has_staging(const char *what, const char *from)
{
    char line[COLUMNS + 1];
    (void)snprintf(line, sizeof line, "  %-46s %20s", what, from);
    HAS(line);
}

/* A push that is larger than a buffer is staged, whatever the minimum size is. */
START_TEST(staging_from_which_size)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    OK(synced_mem_get_staging(&staging));
    const synced_mem_staging before = staging;
    staging.buffer_bytes = 100000;
    staging.minimum_bytes = 70000;
    OK(synced_mem_set_staging(&staging));
    stats_text();
    has_staging("staging: to the host, from", "70000");
    has_staging("staging: to devices, from", "70000");
    staging.minimum_bytes = SIZE_MAX;
    OK(synced_mem_set_staging(&staging));
    stats_text();
    has_staging("staging: to the host, from", "never");
    has_staging("staging: to devices, from", "100001");
    OK(synced_mem_set_staging(&before));
}
END_TEST

START_TEST(objects)
{
    synced_mem_options options = default_options();
    synced_mem *mem = NULL;
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
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make(SIZE);
    void *const memory = gpu_pinned_alloc(SIZE);
    OK(USE(mem, .cpu_data = memory, .stream = stream));
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
        synced_mem_options options = default_options();
        synced_mem *mem = NULL;
        options.placement = (synced_mem_placement_kind)(SYNCED_MEM_PLACEMENT_MAPPED + i);
        OK(synced_mem_create(&mem, SIZE, &options));
        text_of(mem);
        HAS(words[i]);
        OK(synced_mem_release(mem));
    }
}
END_TEST

/* ---- All objects ---- */

static const char *all_text(void)
{
    FILE *const file = begin_text();
    OK(synced_mem_print_all(file));
    end_text(file);
    return text;
}

static unsigned titles(void)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "' at 0x")) != NULL; at++)
        count++;
    return count;
}

/* There are more objects than one chunk of the slab holds, and some are released again. */
START_TEST(all_objects)
{
    enum { MANY = 300 };
    synced_mem *mems[MANY];
    ck_assert_str_eq(all_text(), "0 objects\n");
    for (int i = 0; i < MANY; i++)
        mems[i] = make(SIZE);
    for (int i = 0; i < MANY; i++)
        if (i % 3 != 0) {
            OK(synced_mem_release(mems[i]));
            mems[i] = NULL;
        }
    synced_mem *const named = make_named("conv1.weight", 2 * SIZE);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(named));
    all_text();
    ck_assert_uint_eq(titles(), MANY / 3 + 1);
    HAS("101 objects\n");
    HAS("'conv1.weight' at 0x");
    HAS("  10000 bytes (9.7 KiB), AT_CPU, no device yet\n");
    release_all(mems, MANY);
    all_text();
    ck_assert_uint_eq(titles(), 1);
    HAS("1 object\n");
    OK(synced_mem_release(named));
    ck_assert_str_eq(all_text(), "0 objects\n");
}
END_TEST

enum { ROUNDS = 200 };

static void *make_and_release(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        synced_mem *const mem = make_named(i % 2 ? "comes and goes" : NULL, SIZE);
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
        OK(synced_mem_release(mem));
    }
    return unused;
}

/* An object that is released while it is printed is freed all the same. */
START_TEST(objects_that_come_and_go)
{
    pthread_t threads[3];
    synced_mem *const mem = make_named("stays", SIZE);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_and_release, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        all_text();
        HAS("'stays' at 0x");
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(stats_now().objects, 1);
    ck_assert_uint_eq(stats_now().pageable_bytes, 0);
    OK(synced_mem_release(mem));
}
END_TEST

static synced_mem *given_up;

static ssize_t give_up(void *cookie, const char *data, size_t size)
{
    (void)cookie, (void)data;
    OK(synced_mem_release(given_up));
    given_up = NULL;
    return (ssize_t)size;
}

/* The file writes the first lines when its buffer is full. The object is being printed then. */
START_TEST(given_up_while_it_is_printed)
{
    const cookie_io_functions_t functions = {.write = give_up};
    FILE *const file = fopencookie(NULL, "w", functions);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(setvbuf(file, NULL, _IOFBF, 1024), 0);
    given_up = make_named("given up", SIZE);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(given_up));
    for (int i = 0; i < 1020; i++)
        (void)fputc(' ', file);
    OK(synced_mem_print_all(file));
    ck_assert_uint_eq(stats_now().objects, 0);
    ck_assert_uint_eq(stats_now().pageable_bytes, 0);
    (void)fclose(file);
}
END_TEST

START_TEST(alive_at_the_shutdown)
{
    static const char *const names[] = {"first", NULL, "a name that is too long by far to be kept as it was given",
                                        "fourth", "fifth"};
    synced_mem *mems[5];
    for (int i = 0; i < 5; i++) {
        char many[32];
        mems[i] = make_named(names[i], (size_t)SIZE + (size_t)i);
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_shutdown());
        (void)snprintf(many, sizeof many, i == 0 ? "1 object is alive" : "%d objects are alive", i + 1);
        SAYS(many);
        SAYS("'first' of 4.8 KiB");
        if (i >= 1)
            SAYS("0x");
        if (i >= 2)
            SAYS("'a name that is too long by far to be kept as it' of 4.8 KiB");
        if (i >= 3)
            SAYS(i == 3 ? " and 1 more" : " and 2 more");
    }
    release_all(mems, 5);
    OK(synced_mem_shutdown());
}
END_TEST

/* The message names objects with memory of the kind that is refused, the largest first, and no other objects. */
START_TEST(largest_when_memory_is_short)
{
    const bool gpu = _i == 1;
    static const size_t bytes[] = {3000, 100000, 2000, 50000, 4000};
    static const char *const names[] = {"c", "a", "e", "b", "d"};
    synced_mem *mems[5];
    if (gpu && !gpu_expected())
        return;
    synced_mem *const wanted = make_named("wanted", (size_t)1 << 60);
    synced_mem *const without = make_named("without", 1000000);
    if (gpu)
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(without));
    for (int i = 0; i < 5; i++) {
        mems[i] = make_named(names[i], bytes[i]);
        ck_assert_ptr_nonnull(gpu ? synced_mem_overwrite_gpu_data(mems[i]) : synced_mem_overwrite_cpu_data(mems[i]));
    }
    ck_assert_ptr_null(gpu ? synced_mem_overwrite_gpu_data(wanted) : synced_mem_overwrite_cpu_data(wanted));
    SAYS("largest objects there: 'a' of 97.6 KiB, 'b' of 48.8 KiB, 'd' of 3.9 KiB and 2 more");
    release_all(mems, 5);
    OK(synced_mem_release(without));
    ck_assert_ptr_null(gpu ? synced_mem_overwrite_gpu_data(wanted) : synced_mem_overwrite_cpu_data(wanted));
    SAYS("largest objects there: none");
    OK(synced_mem_release(wanted));
}
END_TEST

START_TEST(nowhere_to_print)
{
    synced_mem *const mem = make(SIZE);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_print_stats(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_print(mem, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_print(NULL, stderr));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_print_all(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_trace_summary(NULL));
    FILE *const full = fopen("/dev/full", "w");
    if (full) {
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_print_stats(full));
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_print(mem, full));
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_print_all(full));
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
    leaves_memory = true;
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_print(parents, stderr));
    synced_mem *const own = make_named("the child's", SIZE);
    all_text();
    HAS("  5000 bytes, belongs to the parent process\n");
    HAS("'the child's' at 0x");
    HAS("2 objects\n");
    OK(synced_mem_release(own));
    stats_text();
    ck_assert_ptr_null(strstr(text, "pool of device"));
}

START_TEST(in_a_forked_child)
{
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
    add_tests(cases, sizes, statistics, staging_from_which_size, objects, placements, all_objects,
              objects_that_come_and_go, given_up_while_it_is_printed, alive_at_the_shutdown, nowhere_to_print);
    add_gpu_tests(cases, arriving_and_page_locked, in_a_forked_child);
    tcase_add_loop_test(cases, largest_when_memory_is_short, 0, 2);
    return all;
}
