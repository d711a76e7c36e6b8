/* Shared by all suites. */
#include "fixture.h"

#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_S = 600 };

atomic_int unsound;

static unsigned schedule;
static bool is_first;    /* of the run's schedules */
static unsigned divided; /* the number of cases that the schedules divide, of those that were added */
static int device_count;

/* ---- Check ---- */

bool is_child_of_test;

void note_progress(const char *file, int line)
{
    static _Thread_local const char *last_file;
    static _Thread_local int last_line;
    if (is_child_of_test || (line == last_line && file == last_file))
        return;
    last_file = file;
    last_line = line;
    (_mark_point)(file, line);
}

/* ---- Around each test ---- */

/* The counters that only grow, as they were when the test began: without CK_FORK a process runs all tests. */
static synced_mem_stats before_test;

static void read_stats(synced_mem_stats *stats)
{
    *stats = (synced_mem_stats){.struct_size = sizeof *stats};
    OK(synced_mem_get_stats(stats));
}

static void start(void)
{
    device_count = gpu_start(schedule);
    use_kernels_if_asked(device_count);
    read_stats(&before_test);
}

static void end(void)
{
    OK(synced_mem_shutdown());
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.objects, 0);
    ck_assert_uint_eq(stats.pageable_bytes, 0);
    ck_assert_uint_eq(stats.pinned_bytes, 0);
    ck_assert_uint_eq(stats.gpu_bytes, 0);
    ck_assert_uint_eq(stats.managed_bytes, 0);
    ck_assert_uint_eq(stats.retired, 0);
    ck_assert_uint_eq(stats.quarantined, 0);
    gpu_check_nothing_left();
}

static TCase *add(Suite *of, const char *name, void (*at_start)(void), void (*at_end)(void))
{
    TCase *const added = tcase_create(name);
    tcase_add_checked_fixture(added, at_start, at_end);
    tcase_set_timeout(added, PATIENCE_S);
    suite_add_tcase(of, added);
    return added;
}

TCase *add_case(Suite *of, const char *name)
{
    return add(of, name, start, end);
}

TCase *add_case_without_end(Suite *of, const char *name)
{
    return add(of, name, start, NULL);
}

TCase *add_case_in_children(Suite *of, const char *name)
{
    return add(of, name, NULL, NULL);
}

void add_tests_of(TCase *to, const TTest *const *tests)
{
    for (int i = 0; tests[i]; i++)
        tcase_add_test(to, tests[i]);
}

void add_gpu_tests_of(TCase *to, const TTest *const *tests)
{
    if (gpu_expected())
        add_tests_of(to, tests);
}

void add_gpu_loop_test(TCase *to, const TTest *test, int begin, int end)
{
    if (gpu_expected())
        tcase_add_loop_test(to, test, begin, end);
}

static bool is_of_this_schedule(unsigned number)
{
    enum { WHOLE = 2, PARTS = 17 };
    return !gpu_is_emulated() || schedule < WHOLE || number % PARTS == schedule % PARTS;
}

void add_divided_test(TCase *to, const TTest *test, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (is_of_this_schedule(divided++))
            tcase_add_loop_test(to, test, i, i + 1);
}

unsigned fixture_schedule(void)
{
    return schedule;
}

/* Meson sets the second variable for suites whose tests can share a process. */
bool tests_share_process(void)
{
    const char *const fork_status = getenv("CK_FORK");
    return (fork_status && strcmp(fork_status, "no") == 0) || (!is_first && getenv("SYNCED_MEM_TEST_UNFORKED"));
}

int devices(void)
{
    return device_count;
}

bool old_pointers_fault(void)
{
    const char *const debug = getenv("SYNCED_MEM_DEBUG");
    return debug && strcmp(debug, "1") == 0;
}

void keep_no_spares(void)
{
    for (int device = 0; device < device_count; device++)
        OK(synced_mem_gpu_pool_set_spare_limit(device, 0));
}

/* ---- Objects ---- */

synced_mem *make(size_t size)
{
    synced_mem *mem = NULL;
    OK(synced_mem_create(&mem, size, NULL));
    ck_assert_ptr_nonnull(mem);
    return mem;
}

void release_all(synced_mem *const *mems, size_t count)
{
    for (size_t i = 0; i < count; i++)
        OK(synced_mem_release(mems[i]));
}

synced_mem_options default_options(void)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    return options;
}

void set_staging(unsigned threads, size_t minimum)
{
    const synced_mem_staging staging = {
        .struct_size = sizeof staging, .threads = threads, .buffer_bytes = STAGING_BUFFER, .minimum_bytes = minimum};
    OK(synced_mem_set_staging(&staging));
}

synced_mem *make_on(size_t size, int device)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.device = device;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

synced_mem *make_placed_on(size_t size, synced_mem_placement_kind placement, int device)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.device = device;
    options.placement = placement;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

synced_mem *make_named(const char *name, size_t size)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.name = name;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

synced_mem *make_named_on(const char *name, size_t size, int device)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.name = name;
    options.device = device;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

void host_fill(void *data, size_t size, unsigned pattern)
{
    ck_assert_ptr_nonnull(data);
    gpu_note_host_write(data, size);
    pattern_write(data, size, pattern);
}

bool host_is(const void *data, size_t size, unsigned pattern)
{
    ck_assert_ptr_nonnull(data);
    gpu_note_host_read(data, size);
    return pattern_is(data, size, pattern);
}

bool device_is(const void *data, size_t size, unsigned pattern)
{
    ck_assert_ptr_nonnull(data);
    void *const bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    gpu_read(bytes, data, size);
    const bool is = pattern_is(bytes, size, pattern);
    free(bytes);
    return is;
}

synced_mem *make_at_cpu(size_t size, unsigned pattern)
{
    synced_mem *const mem = make(size);
    host_fill(synced_mem_overwrite_cpu_data(mem), size, pattern);
    return mem;
}

synced_mem *make_at_gpu(size_t size, unsigned pattern)
{
    synced_mem *const mem = make(size);
    void *const data = synced_mem_overwrite_gpu_data(mem);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_fill(data, size, pattern, NULL);
    return mem;
}

synced_mem_stats stats_now(void)
{
    synced_mem_stats stats;
    read_stats(&stats);
    stats.h2d_transfers -= before_test.h2d_transfers;
    stats.h2d_bytes -= before_test.h2d_bytes;
    stats.d2h_transfers -= before_test.d2h_transfers;
    stats.d2h_bytes -= before_test.d2h_bytes;
    stats.staged_transfers -= before_test.staged_transfers;
    stats.host_allocations -= before_test.host_allocations;
    stats.pageable_fallbacks -= before_test.pageable_fallbacks;
    stats.gpu_allocations -= before_test.gpu_allocations;
    stats.quarantined -= before_test.quarantined;
    stats.event_records -= before_test.event_records;
    stats.stream_waits -= before_test.stream_waits;
    stats.host_waits -= before_test.host_waits;
    stats.oom_reaps -= before_test.oom_reaps;
    stats.oom_waits -= before_test.oom_waits;
    stats.oom_trims -= before_test.oom_trims;
    stats.oom_callbacks -= before_test.oom_callbacks;
    stats.oom_failures -= before_test.oom_failures;
    stats.prefetches -= before_test.prefetches;
    stats.file_reads -= before_test.file_reads;
    stats.file_read_bytes -= before_test.file_read_bytes;
    stats.file_writes -= before_test.file_writes;
    stats.file_write_bytes -= before_test.file_write_bytes;
    stats.hold_hits -= before_test.hold_hits;
    stats.hold_misses -= before_test.hold_misses;
    stats.hold_nanoseconds -= before_test.hold_nanoseconds;
    stats.clean_evictions -= before_test.clean_evictions;
    stats.dirty_evictions -= before_test.dirty_evictions;
    stats.evicted_bytes -= before_test.evicted_bytes;
    stats.host_evictions -= before_test.host_evictions;
    stats.spills -= before_test.spills;
    stats.host_evicted_bytes -= before_test.host_evicted_bytes;
    return stats;
}

struct facts facts_of(const synced_mem *mem)
{
    return (struct facts){.head = synced_mem_head(mem),
                          .size = synced_mem_size(mem),
                          .device = synced_mem_device(mem),
                          .cpu = synced_mem_cpu_source(mem),
                          .gpu = synced_mem_gpu_source(mem),
                          .cpu_capacity = synced_mem_cpu_capacity(mem),
                          .gpu_capacity = synced_mem_gpu_capacity(mem)};
}

void check_unchanged(const synced_mem *mem, const struct facts *before)
{
    ck_assert_int_eq(synced_mem_head(mem), before->head);
    ck_assert_uint_eq(synced_mem_size(mem), before->size);
    ck_assert_int_eq(synced_mem_device(mem), before->device);
    ck_assert_int_eq(synced_mem_cpu_source(mem), before->cpu);
    ck_assert_int_eq(synced_mem_gpu_source(mem), before->gpu);
    ck_assert_uint_eq(synced_mem_cpu_capacity(mem), before->cpu_capacity);
    ck_assert_uint_eq(synced_mem_gpu_capacity(mem), before->gpu_capacity);
}

/* ---- Streams ---- */

synced_mem_stream open_stream(int kind)
{
    return kind == LEGACY ? NULL : gpu_stream_create(gpu_current_device(), kind == BLOCKING);
}

void close_stream(synced_mem_stream stream)
{
    gpu_stream_sync(stream);
    OK(synced_mem_forget_stream(stream));
    if (stream)
        gpu_stream_destroy(stream);
}

/* ---- Processes ---- */

bool leaves_memory;

/* The leak sanitizer calls this function before it checks. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return leaves_memory;
}

/* ---- All tests ---- */

static unsigned first_schedule(void)
{
    const char *const first = getenv("SYNCED_MEM_EMU_SEED");
    return first ? (unsigned)strtoul(first, NULL, 0) : 0;
}

int fixture_schedules(void)
{
    const char *const asked = getenv("SYNCED_MEM_TEST_SEEDS");
    return asked && gpu_schedules() > 1 ? atoi(asked) : gpu_schedules();
}

Suite *fixture_suite(int number)
{
    schedule = first_schedule() + (unsigned)number;
    is_first = number == 0;
    divided = 0;
    return suite();
}

void fixture_print_schedule(void)
{
    (void)fprintf(stderr, "failed with SYNCED_MEM_EMU_SEED=%u SYNCED_MEM_TEST_SEEDS=1\n", schedule);
}

int main(void)
{
    return run_all_tests();
}
