/* Checks the names in a trace, for a profiler and in reports of races: the public function that was called, and the
 * object. */
#include "trace_kit.h"

#include "cudart_emu.h"
#include "device/device.h"

#include <stdio.h>

/* The ranges of a profiler. */
static char last_range[128];
static int open_ranges;
void __wrap_sm_device_range_begin(const char *words);
void __wrap_sm_device_range_begin(const char *words)
{
    (void)snprintf(last_range, sizeof last_range, "%s", words);
    open_ranges++;
}

void __wrap_sm_device_range_end(void);
void __wrap_sm_device_range_end(void)
{
    open_ranges--;
}

#define IS_RANGE(words, call)                                                                                          \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        ck_assert_str_eq(last_range, words);                                                                           \
        ck_assert_int_eq(open_ranges, 0);                                                                              \
    } while (0)

static char summary_text[8192];

/* Functions without an object have a range too. */
START_TEST(ranges)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.name = "subject";
    OK(synced_mem_create(&mem, SIZE, &options));
    start();
    IS_RANGE("synced_mem_wait subject", synced_mem_wait(mem));
    IS_RANGE("synced_mem_forget_stream", synced_mem_forget_stream(NULL));
    IS_RANGE("synced_mem_host_pool_reserve", synced_mem_host_pool_reserve(0, SIZE));
    IS_RANGE("synced_mem_host_pool_trim", synced_mem_host_pool_trim(0));
    IS_RANGE("synced_mem_host_pool_set_limit", synced_mem_host_pool_set_limit(1 << 30));
    IS_RANGE("synced_mem_host_pool_set_decay", synced_mem_host_pool_set_decay(100));
    move(mem);
    ck_assert_int_eq(open_ranges, 0);
    stop();
    OK(synced_mem_release(mem));
}
END_TEST

static char race[2048];
static void note_race(const char *report, void *user)
{
    (void)user;
    (void)snprintf(race, sizeof race, "%s", report);
}

/* The emulated runtime names the object whose bytes two streams write at once. */
START_TEST(races)
{
    static const struct {
        const char *name, *words;
    } rows[] = {{"params", ", of object 'params'"}, {"", ", of the object at 0x"}};
    synced_mem *const mem = _i == 0 ? make_named(rows[_i].name, SIZE) : make_on(SIZE, 0);
    synced_mem_stream one = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    unsigned char *const data = synced_mem_overwrite_gpu_data_on(mem, one);
    ck_assert_ptr_nonnull(data);
    gpu_fill(data, SIZE, 1, one);
    emu_set_misuse_handler(note_race, NULL);
    (void)gpu_try_fill(data + 100, 10, 2, other);
    emu_set_misuse_handler(NULL, NULL);
    ck_assert_msg(strstr(race, "race: ") && strstr(race, rows[_i].words), "%s", race);
    OK(synced_mem_release(mem));
    CLOSE_EACH(one, other);
}
END_TEST

static int find_memory(const synced_mem_out_of_memory *request, void *user)
{
    (void)request, (void)user;
    emu_set_device_memory(0, 1 << 30);
    return 1;
}

/* A call that goes on after the caller's handler has found memory is named. */
START_TEST(call_that_asked_for_memory)
{
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem_set_out_of_memory_handler(find_memory, NULL);
    start();
    emu_set_device_memory(0, 1);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    stop();
    synced_mem_set_out_of_memory_handler(NULL, NULL);
    ck_assert_uint_eq(stats_now().oom_callbacks, 1);
    HAS("\"object\":\"#1\",\"call\":\"synced_mem_overwrite_gpu_data\",\"bytes\":");
    HAS_NOT("\"call\":\"\"");
    ck_assert_int_eq(open_ranges, 0);
    OK(synced_mem_release(mem));
}
END_TEST

/* A view is named by its own name or by its place. The memory is its root's. */
START_TEST(views)
{
    synced_mem *const root = make_on(SIZE, 0);
    synced_mem *const params = make_named("params", SIZE);
    synced_mem *weight, *bias, *rest, *plain;
    synced_mem_options options = default_options();
    options.name = "we\"ight";
    OK(synced_mem_view(&weight, params, 0, 256, &options));
    OK(synced_mem_view(&bias, params, 256, 256, NULL));
    OK(synced_mem_view(&rest, params, SIZE, 0, NULL));
    OK(synced_mem_view(&plain, root, 128, 64, NULL));
    start();
    move(bias);
    move(weight);
    move(plain);
    OK(synced_mem_wait(bias));
    IS_RANGE("synced_mem_wait params[256:512]", synced_mem_wait(bias));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(params));
    (void)synced_mem_mutable_cpu_data(rest);
    FILE *const file = fmemopen(summary_text, sizeof summary_text, "w");
    OK(synced_mem_trace_summary(file));
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_msg(strstr(summary_text, "\nparams[256:512]#2 "), "%s", summary_text);
    stop();
    HAS("\"name\":\"allocate params#1\"");
    HAS_NOT("allocate params[");
    HAS_NOT("allocate we");
    HAS("\"name\":\"h2d part params[256:512]#2\"");
    HAS("\"object\":\"params[256:512]#2\",\"direction\":\"h2d\",\"bytes\":256,");
    HAS(",\"offset\":256,\"view_of\":\"params#1\",\"at\":");
    HAS("\"name\":\"h2d part we\\u0022ight#");
    HAS(",\"offset\":0,\"view_of\":\"params#1\",\"at\":");
    HAS("\"name\":\"h2d [128:192]#");
    RELEASE_EACH(weight, bias, rest, plain, params, root);
}
END_TEST

/* Calls on several objects name each, and each part of it. */
START_TEST(several_views)
{
    synced_mem *const root = make_named("root", SIZE);
    synced_mem *const params = make_named("params", SIZE);
    synced_mem *both[2], *inner;
    OK(synced_mem_view(&both[0], params, 256, 512, NULL));
    OK(synced_mem_view(&inner, params, 512, 64, NULL));
    OK(synced_mem_view(&both[1], root, 0, 512, NULL));
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(params));
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(root));
    start();
    OK(synced_mem_async_gpu_push_n(both, 2, NULL));
    OK(synced_mem_async_gpu_copy(both[0], both[1], NULL));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(params));
    stop();
    HAS("\"object\":\"params[256:768]#");
    HAS("\"offset\":256,\"view_of\":\"params#");
    HAS("\"offset\":512,\"view_of\":\"params#");
    HAS("\"offset\":576,\"view_of\":\"params#");
    HAS("\"object\":\"root[0:512]#");
    HAS("\"offset\":0,\"view_of\":\"root#");
    HAS("\"name\":\"allocate params#");
    HAS("\"name\":\"allocate root#");
    HAS_NOT("allocate root[");
    HAS_NOT("allocate params[");
    HAS("\"name\":\"d2d params[256:768]#");
    HAS("\"name\":\"d2h part params#");
    RELEASE_EACH(both[0], both[1], inner, params, root);
}
END_TEST

static void take_back(void *data, void *user, synced_mem_stream stream)
{
    (void)stream;
    (*(int *)user)++;
    gpu_pinned_free(data);
}

/* A call that hands back adopted memory, as calls do in passing, is named too. */
START_TEST(call_that_gave_memory_back)
{
    int given = 0;
    void *const data = gpu_pinned_alloc(SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem *const other = make_on(SIZE, 0);
    OK(USE(mem, .cpu_data = data, .callback = take_back, .user = &given));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    gpu_unhold();
    gpu_stream_sync(stream);
    ck_assert_int_eq(given, 0);
    start();
    ck_assert_ptr_nonnull(synced_mem_cpu_data(other));
    ck_assert_int_eq(given, 1);
    stop();
    HAS("\"object\":\"#1\",\"call\":\"synced_mem_cpu_data\",\"bytes\":");
    HAS_NOT("\"call\":\"\"");
    ck_assert_int_eq(open_ranges, 0);
    OK(synced_mem_release(other));
    close_stream(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("trace names");
    TCase *const cases = add_case(all, "trace names");
    add_tests(cases, ranges, views, several_views, call_that_asked_for_memory, call_that_gave_memory_back);
    tcase_add_loop_test(cases, races, 0, 2);
    return all;
}
