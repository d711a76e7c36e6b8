/* Tests that memory on its way to the device cache and back counts against the budget all the time. */
#include "fixture.h"

#include "copy/device_cache.h"
#include "copy/inflight.h"
#include "memory/budget.h"

enum { SIZE = 1 << 20 };

static bool watches;
static unsigned seen;

static void check_sum(void)
{
    if (!watches)
        return;
    seen++;
    ck_assert_uint_eq(sm_budget_used(0), SIZE);
}

struct sm_copy *__real_sm_device_cache_keep(struct sm_copy *copy);
struct sm_copy *__wrap_sm_device_cache_keep(struct sm_copy *copy);
struct sm_copy *__wrap_sm_device_cache_keep(struct sm_copy *copy)
{
    check_sum();
    return __real_sm_device_cache_keep(copy);
}

void __real_sm_inflight_forget(struct sm_copy *copy);
void __wrap_sm_inflight_forget(struct sm_copy *copy);
void __wrap_sm_inflight_forget(struct sm_copy *copy)
{
    check_sum();
    __real_sm_inflight_forget(copy);
}

START_TEST(spares_are_counted_once)
{
    synced_mem *mem;
    synced_mem *next;
    const bool limited = _i > 0;
    synced_mem_stream stream = open_stream(NON_BLOCKING); /* it may have its own spares at once */
    OK(synced_mem_create(&mem, SIZE, NULL));
    OK(synced_mem_create(&next, SIZE, NULL));
    if (limited)
        OK(synced_mem_gpu_set_budget(0, SIZE, NULL));
    given(synced_mem_overwrite_gpu_data_on(mem, stream));
    ck_assert_uint_eq(sm_budget_used(0), SIZE);
    watches = true;
    OK(synced_mem_release_data(mem));
    ck_assert_uint_eq(seen, 1);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, SIZE);
    ck_assert_uint_eq(sm_budget_used(0), SIZE);
    given(synced_mem_overwrite_gpu_data_on(next, stream));
    watches = false;
    ck_assert_uint_eq(seen, 2);
    ck_assert_uint_eq(stats_now().gpu_spare_bytes, 0);
    ck_assert_uint_eq(sm_budget_used(0), SIZE);
    RELEASE_EACH(mem, next);
    ck_assert_uint_eq(sm_budget_used(0), SIZE); /* a spare again */
    OK(synced_mem_gpu_set_budget(0, 0, NULL));
    ck_assert_uint_eq(sm_budget_used(0), 0);
    CLOSE_EACH(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("spare_bytes");
    TCase *const tests = add_case(made, "spares");
    add_gpu_loop_test(tests, spares_are_counted_once, 0, 2);
    return made;
}
