/* Checks the contents of a trace: heads, memory, transfers and waits, and the summary of transfers back and forth. */
#include "trace_kit.h"

#include "trace/trace_file.h"
#include "trace/trace_timing.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Events ---- */

START_TEST(heads_and_memory)
{
    synced_mem *const before = make_named("before", SIZE);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(before));
    start();
    synced_mem *const mem = make_named("conv1.weight", SIZE);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    OK(synced_mem_resize_discard(mem, 8));
    RELEASE_EACH(mem, before);
    stop();
    ck_assert_int_eq(text[0], '[');
    HAS("\"name\":\"UNINITIALIZED \xe2\x86\x92 AT_CPU conv1.weight#1\"");
    HAS("\"before\":\"AT_CPU\",\"after\":\"UNINITIALIZED\"");
    HAS("\"call\":\"synced_mem_mutable_cpu_data\",\"bytes\":5000,\"source\":\"pageable\",\"from\":\"system\"");
    HAS("\"call\":\"synced_mem_resize_discard\"");
    HAS("\"events_lost\":0");
    ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
}
END_TEST

START_TEST(transfers_and_waits)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    start();
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_resize(mem, SIZE));
    stop();
    HAS("\"name\":\"h2d #1\"");
    HAS("\"from\":\"page-locked\",\"to\":\"device\",\"device\":0,");
    HAS("\"call\":\"synced_mem_mutable_gpu_data_on\",\"clock\":\"device\"");
    HAS("\"name\":\"d2h #1\"");
    HAS("\"name\":\"wait #1\"");
    HAS("\"name\":\"stream waits #1\"");
    HAS("\"args\":{\"name\":\"device 0\"}");
    HAS("the caller's stream");
    HAS("the library's stream");
    HAS("\"source\":\"page-locked\",\"from\":\"runtime\"");
    ck_assert_uint_eq(count_of("\"cat\":\"transfer\""), 2);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

/* The host fills and copies the bytes of views itself. That is no wait for a device. */
START_TEST(work_of_the_host)
{
    synced_mem *const root = make(SIZE), *const to = make(SIZE / 2);
    synced_mem *view;
    OK(synced_mem_view(&view, root, 100, SIZE / 2, NULL));
    start();
    ck_assert_ptr_nonnull(synced_mem_cpu_data(view));
    OK(synced_mem_cpu_copy(to, view));
    stop();
    HAS("AT_CPU");
    HAS_NOT("\"wait");
    RELEASE_EACH(view, root, to);
}
END_TEST

START_TEST(memory_that_is_reused)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *mem = make_on(SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    OK(synced_mem_release(mem));
    start();
    mem = make_on(SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    stop();
    HAS("\"source\":\"page-locked\",\"from\":\"pool\"");
    HAS("\"source\":\"device\",\"from\":\"spare\"");
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

START_TEST(staged_transfers)
{
    synced_mem *const mem = make_at_cpu(MUCH, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    start();
    ck_assert(device_is(synced_mem_mutable_gpu_data(mem), MUCH, 1));
    ck_assert(host_is(synced_mem_cpu_data(mem), MUCH, 1));
    OK(synced_mem_shutdown() == SYNCED_MEM_ERR_INVALID_STATE ? SYNCED_MEM_OK : SYNCED_MEM_ERR_CUDA);
    summary();
    HAS("1        1    3.0 MiB        1    3.0 MiB\n");
    stop();
    HAS("\"name\":\"h2d part #1\"");
    HAS("\"name\":\"d2h part #1\"");
    HAS("\"name\":\"fill buffer #1\"");
    HAS("\"name\":\"empty buffer #1\"");
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(managed_memory)
{
    synced_mem_options options = default_options();
    synced_mem *mem = NULL;
    options.placement = SYNCED_MEM_PLACEMENT_MANAGED;
    OK(synced_mem_create(&mem, SIZE, &options));
    start();
    if (synced_mem_mutable_gpu_data(mem) && synced_mem_cpu_data(mem)) {
        stop();
        HAS("\"name\":\"prefetch #1\"");
        HAS("\"source\":\"managed\"");
    } else {
        stop();
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(objects_of_one_name)
{
    start();
    synced_mem *const first = make_named("a \"name\"\n\xff", SIZE);
    synced_mem *const second = make_named("a \"name\"\n\xff", SIZE);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(first));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(second));
    stop();
    HAS("\"object\":\"a \\u0022name\\u0022\\u000a\\ufffd#1\"");
    HAS("\"object\":\"a \\u0022name\\u0022\\u000a\\ufffd#2\"");
    RELEASE_EACH(first, second);
}
END_TEST

START_TEST(escapes)
{
    static const struct {
        const char *text;
        const char *escaped;
    } rows[] = {{"", ""},
                {"plain", "plain"},
                {"\"\\/", "\\u0022\\u005c/"},
                {"\x01\x1f\x7f", "\\u0001\\u001f\\u007f"},
                {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
                {"\x80", "\\ufffd"},
                {"\xc0\xaf", "\\ufffd\\ufffd"},
                {"\xe0\x80\x80", "\\ufffd\\ufffd\\ufffd"},
                {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},
                {"\xf0\x80\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
                {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
                {"\xf5", "\\ufffd"},
                {"cut \xe2\x82", "cut \\ufffd\\ufffd"}};
    char out[128];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sm_trace_escape(out, rows[i].text);
        ck_assert_str_eq(out, rows[i].escaped);
    }
}
END_TEST

/* Calls inside a callback of the caller's are not named as the cause of later events. */
static void *give(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)device, (void)stream, (void)user;
    synced_mem *const other = make(16);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(other));
    OK(synced_mem_release(other));
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void take(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream, (void)user;
    free(data);
}

static void adopted_back(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    free(data);
    synced_mem *const other = make(16);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(other));
    OK(synced_mem_release(other));
}

START_TEST(calls_inside_callbacks)
{
    const synced_mem_allocator table = {.struct_size = sizeof table, .alloc = give, .free = take};
    synced_mem_options options = default_options();
    synced_mem *mem = NULL;
    options.cpu_allocator = &table;
    options.name = "outer";
    start();
    OK(synced_mem_create(&mem, SIZE, &options));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    void *const data = malloc(SIZE);
    OK(USE(mem, .cpu_data = data, .callback = adopted_back));
    OK(synced_mem_release_data(mem));
    stop();
    HAS("\"object\":\"#1\",\"call\":\"synced_mem_overwrite_cpu_data\"");
    HAS("AT_CPU outer#2\",\"cat\":\"head\"");
    HAS("\"object\":\"outer#2\",\"call\":\"synced_mem_cpu_data\",\"before\":\"UNINITIALIZED\"");
    HAS("\"object\":\"outer#2\",\"call\":\"synced_mem_cpu_data\",\"bytes\":5000,\"source\":\"allocator\"");
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Back and forth ---- */

START_TEST(summaries)
{
    enum { ROUNDS = 30 };
    synced_mem *const once = make_named("once", SIZE);
    synced_mem *const often = make_named("often", SIZE);
    start();
    summary();
    HAS("(no transfers while there was a trace)");
    ck_assert_ptr_nonnull(synced_mem_cpu_data(once));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(once));
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(often));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(often));
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(often));
    }
    for (int i = 0; i < 20; i++) { /* objects that are released */
        synced_mem *const mem = make_named("short", SIZE);
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        OK(synced_mem_release(mem));
    }
    OK(synced_mem_release(often));
    summary();
    const char *const first = strstr(text, "often#2 ");
    const char *const second = strstr(text, "once#1 ");
    ck_assert_ptr_nonnull(first);
    ck_assert(second > first);
    HAS(" 58       30  146.4 KiB       29  141.6 KiB\n");
    HAS("    to the device by synced_mem_gpu_data, stale by synced_mem_mutable_cpu_data\n");
    HAS("    to the host by synced_mem_mutable_cpu_data, stale by synced_mem_mutable_gpu_data\n");
    ck_assert_uint_eq(count_of("short#"), 8);
    stop();
    HAS("\"name\":\"back and forth: often#2\"");
    HAS("\"rank\":1,\"object\":\"often#2\",\"turns\":58,\"h2d_transfers\":30,\"h2d_bytes\":150000,\"d2h_transfers\":"
        "29");
    summary();
    HAS("often#2 ");
    OK(synced_mem_release(once));
}
END_TEST

/* A trace without a file keeps no events and loses none, and times no transfer. */
START_TEST(summary_without_a_file)
{
    synced_mem *const mem = make_named("counted", SIZE);
    OK(synced_mem_trace_start(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_start(NULL));
    const uint64_t events = stats_now().event_records;
    for (int i = 0; i < 600; i++) {
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
        OK(synced_mem_resize_discard(mem, SIZE));
    }
    ck_assert_uint_eq(sm_trace_buffered(), 0);
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, NULL));
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        ck_assert_uint_eq(sm_timing_pending(), 0);
        ck_assert_uint_le(stats_now().event_records - events, 3);
    }
    summary();
    if (gpu_expected())
        HAS("counted#1                                                  1        1    4.8 KiB        1    4.8 KiB\n");
    else
        HAS("(no transfers while there was a trace)");
    OK(synced_mem_trace_stop());
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
    summary();
    if (gpu_expected())
        HAS("counted#1");
    start(); /* with a file again, which has the later events */
    OK(synced_mem_resize_discard(mem, SIZE));
    stop();
    HAS("\"events_lost\":0");
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(many_objects)
{
    enum { MANY = 3000 };
    static synced_mem *mems[MANY];
    if (fixture_schedule() > 1)
        return;
    start();
    for (int i = 0; i < MANY; i++) {
        mems[i] = make(1);
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mems[i]));
    }
    if (gpu_expected())
        for (int i = 0; i < 20; i++)
            for (int k = i; k < 20; k++)
                OK(synced_mem_resize_discard(mems[k], 1) == SYNCED_MEM_OK && synced_mem_cpu_data(mems[k]) &&
                           synced_mem_gpu_data(mems[k])
                       ? SYNCED_MEM_OK
                       : SYNCED_MEM_ERR_CUDA);
    summary();
    if (gpu_expected())
        ck_assert(strstr(text, "#20 ") < strstr(text, "#19 "));
    release_all(mems, MANY);
    stop();
    HAS("#3000\"");
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("trace");
    TCase *const cases = add_case(all, "trace");
    add_tests(cases, heads_and_memory, work_of_the_host, objects_of_one_name, escapes, calls_inside_callbacks,
              summary_without_a_file, many_objects);
    add_gpu_tests(cases, transfers_and_waits, memory_that_is_reused, staged_transfers, managed_memory, summaries);
    return all;
}
