/* Checks refused memory where no step of reclaim helps: the calls of the handler, and the final error. */
#include "fixture.h"

#include <string.h>

enum { SIZE = 5000 };
/* No machine has so much memory. */
static const size_t TOO_MUCH = (size_t)1 << 60;

static struct {
    int calls;
    unsigned last_attempt;
    int says_yes; /* the number of calls that return 1 */
    int device;
    size_t least; /* bytes that are requested at least */
    void *user;
} asked;

static int handle(const synced_mem_out_of_memory *request, void *user)
{
    ck_assert_uint_eq(request->struct_size, sizeof *request);
    ck_assert_int_eq(request->device, asked.device);
    ck_assert_uint_ge(request->bytes, asked.least);
    ck_assert_ptr_eq(user, asked.user);
    ck_assert_uint_eq(request->attempt, asked.last_attempt + 1);
    asked.last_attempt = request->attempt;
    return asked.calls++ < asked.says_yes;
}

static void expect(int device, int says_yes)
{
    asked.calls = 0;
    asked.last_attempt = 0;
    asked.says_yes = says_yes;
    asked.device = device;
    asked.least = TOO_MUCH;
    asked.user = &asked;
    synced_mem_set_out_of_memory_handler(handle, &asked);
}

/* Makes a request that is refused. */
static void want(bool gpu)
{
    synced_mem *const mem = make(TOO_MUCH);
    const struct facts before = facts_of(mem);
    if (gpu) {
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(mem));
        SAYS("of the device's ");
    } else {
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
        SAYS("page-locked");
    }
    SAYS("1152921504606846976");
    SAYS("0 copies retired");
    check_unchanged(mem, &before);
    OK(synced_mem_release(mem));
}

static bool wants_gpu(int i)
{
    return i % 2 == 1;
}

START_TEST(nobody_to_ask)
{
    if (wants_gpu(_i) && !gpu_expected())
        return;
    const synced_mem_stats before = stats_now();
    want(wants_gpu(_i));
    const synced_mem_stats after = stats_now();
    ck_assert_uint_eq(after.oom_reaps, before.oom_reaps + 1);
    ck_assert_uint_eq(after.oom_waits, before.oom_waits + 1);
    ck_assert_uint_eq(after.oom_trims, before.oom_trims + 1);
    ck_assert_uint_eq(after.oom_callbacks, before.oom_callbacks);
    ck_assert_uint_eq(after.oom_failures, before.oom_failures + 1);
}
END_TEST

/* The handler is called while it reports that it has freed something, and at most 16 times. */
START_TEST(somebody_to_ask)
{
    static const struct {
        int says_yes, calls;
    } cases[] = {{0, 1}, {1, 2}, {5, 6}, {15, 16}, {16, 16}, {1000, 16}};
    if (wants_gpu(_i) && !gpu_expected())
        return;
    expect(wants_gpu(_i) ? 0 : -1, cases[_i / 2].says_yes);
    want(wants_gpu(_i));
    ck_assert_int_eq(asked.calls, cases[_i / 2].calls);
    ck_assert_uint_eq(stats_now().oom_callbacks, (unsigned)asked.calls);
    ck_assert_uint_eq(stats_now().oom_failures, 1);
    synced_mem_set_out_of_memory_handler(NULL, NULL);
    want(wants_gpu(_i));
    ck_assert_int_eq(asked.calls, cases[_i / 2].calls);
}
END_TEST

/* ---- Inside the handler ---- */

static synced_mem *subject;
static int depth;

/* The handler's own request may be refused too. No handler is called for it, and the error is its own. */
static int ask_for_more(const synced_mem_out_of_memory *request, void *user)
{
    (void)user;
    ck_assert_int_eq(++depth, 1);
    const size_t refused = request->bytes;
    synced_mem *const mem = make(2 * TOO_MUCH);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_mutable_cpu_data(mem));
    SAYS("2305843009213693952");
    OK(synced_mem_release(mem));
    synced_mem *const small = make_at_cpu(SIZE, 3);
    ck_assert(host_is(synced_mem_cpu_data(small), SIZE, 3));
    OK(synced_mem_release(small));
    ck_assert_uint_eq(request->bytes, refused);
    depth--;
    return 0;
}

START_TEST(the_handler_asks_for_more)
{
    if (wants_gpu(_i) && !gpu_expected())
        return;
    synced_mem_set_out_of_memory_handler(ask_for_more, NULL);
    want(wants_gpu(_i));
    ck_assert_uint_eq(stats_now().oom_callbacks, 1);
    ck_assert_uint_eq(stats_now().oom_failures, 2);
}
END_TEST

/* The handler resizes the object of the refused call. The call runs again with the new size. */
static int make_it_smaller(const synced_mem_out_of_memory *request, void *user)
{
    (void)request, (void)user;
    OK(synced_mem_resize_discard(subject, SIZE));
    return 1;
}

START_TEST(the_handler_changes_the_object)
{
    if (wants_gpu(_i) && !gpu_expected())
        return;
    synced_mem_set_out_of_memory_handler(make_it_smaller, NULL);
    subject = make(TOO_MUCH);
    if (wants_gpu(_i))
        ck_assert(device_is(synced_mem_gpu_data(subject), SIZE, 0));
    else
        ck_assert(host_is(synced_mem_cpu_data(subject), SIZE, 0));
    ck_assert_uint_eq(stats_now().oom_failures, 0);
    OK(synced_mem_release(subject));
}
END_TEST

static int give_up_contents(const synced_mem_out_of_memory *request, void *user)
{
    (void)request, (void)user;
    OK(synced_mem_release_data(subject));
    return 1;
}

START_TEST(the_handler_takes_what_is_kept)
{
    synced_mem_set_out_of_memory_handler(give_up_contents, NULL);
    subject = make_at_cpu(SIZE, 1);
    OK(synced_mem_resize(subject, TOO_MUCH));
    ck_assert_uint_eq(synced_mem_size(subject), TOO_MUCH);
    ck_assert_int_eq(synced_mem_head(subject), SYNCED_MEM_UNINITIALIZED);
    OK(synced_mem_release(subject));
}
END_TEST

/* ---- Growth ---- */

/* A growth that is refused leaves the contents in place. */
START_TEST(growth)
{
    if (wants_gpu(_i) && !gpu_expected())
        return;
    synced_mem *const mem = wants_gpu(_i) ? make_at_gpu(SIZE, 1) : make_at_cpu(SIZE, 1);
    const struct facts before = facts_of(mem);
    FAILS(wants_gpu(_i) ? SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY : SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY,
          synced_mem_resize(mem, TOO_MUCH));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("reclaim");
    TCase *const tests = add_case(made, "reclaim");
    tcase_add_test(tests, the_handler_takes_what_is_kept);
    tcase_add_loop_test(tests, nobody_to_ask, 0, 2);
    tcase_add_loop_test(tests, somebody_to_ask, 0, 12);
    tcase_add_loop_test(tests, the_handler_asks_for_more, 0, 2);
    tcase_add_loop_test(tests, the_handler_changes_the_object, 0, 2);
    tcase_add_loop_test(tests, growth, 0, 2);
    return made;
}
