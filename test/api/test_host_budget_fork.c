/* Checks budgets for host copies in children of a process: the parent's scratch file is not theirs. */
#include "fork_kit.h"
#include "host_budget_kit.h"

static synced_mem_file *scratch;
static synced_mem *spilled;
static synced_mem *present;

static void meet_parents_objects(const void *unused)
{
    (void)unused;
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(spilled));
    FAILS(SYNCED_MEM_ERR_FORKED, hold_host(spilled, SYNCED_MEM_READ));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_set_budget(0, scratch, NULL));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_set_budget(SYNCED_MEM_NO_BUDGET, NULL, NULL));
    OK(synced_mem_release(spilled));
    OK(synced_mem_release(present));
}

/* The parent and the child would write to the same ranges. */
static void spill_own_objects(const void *unused)
{
    (void)unused;
    synced_mem *const own = make_evictable("own", HOLD_BYTES);
    synced_mem *const next = make_evictable("next", HOLD_BYTES);
    host_write(own, 3);
    FAILS(SYNCED_MEM_ERR_FORKED, hold_host(next, SYNCED_MEM_OVERWRITE));
    ck_assert(host_has(own, 3));
    RELEASE_EACH(own, next);
}

/* The child has the parent's budget, and copies that count in it, but not the parent's scratch file. */
START_TEST(a_child_that_spills)
{
    scratch = make_scratch();
    spilled = make_evictable("spilled", HOLD_BYTES);
    present = make_evictable("present", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(present)), HOLD_BYTES, 2);
    OK(synced_mem_async_gpu_push(present, NULL));
    OK(synced_mem_release_gpu_data(present));
    set_host_budget(HOLD_BYTES, scratch);
    host_write(spilled, 1);
    ck_assert_int_eq(synced_mem_in_file(present), 1);
    host_write(present, 4);
    ck_assert_int_eq(synced_mem_in_file(spilled), 1);
    OK(synced_mem_release_data(present)); /* its range is free in both processes */
    ck_assert(child_succeeds(spill_own_objects, NULL));
    ck_assert(host_has(spilled, 1));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    RELEASE_EACH(spilled, present);
    end_scratch(scratch);
}
END_TEST

START_TEST(a_child)
{
    scratch = make_scratch();
    spilled = make_evictable("spilled", HOLD_BYTES);
    present = make_evictable("present", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(spilled)), HOLD_BYTES, 1);
    OK(synced_mem_async_gpu_push(spilled, NULL)); /* the process has used its device */
    OK(synced_mem_release_gpu_data(spilled));
    set_host_budget(0, scratch);
    ck_assert_int_eq(synced_mem_in_file(spilled), 1);
    set_host_budget(2 * HOLD_BYTES, scratch);
    host_write(present, 2);
    ck_assert(child_succeeds(meet_parents_objects, NULL));
    ck_assert(host_has(spilled, 1));
    ck_assert(host_has(present, 2));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    RELEASE_EACH(spilled, present);
    end_scratch(scratch);
}
END_TEST

/* ---- Of a process that uses no device ---- */

static synced_mem *make_on_host(unsigned pattern)
{
    synced_mem *mem;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.evictable = 1;
    OK(synced_mem_create(&mem, HOLD_BYTES, &options));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, pattern);
    return mem;
}

static void release_and_go_on(const void *unused)
{
    (void)unused;
    ck_assert(host_has(spilled, 1));
    RELEASE_EACH(spilled, present);
    scratch = make_scratch();
    synced_mem *const first = make_on_host(3);
    synced_mem *const next = make_on_host(4);
    set_host_budget(HOLD_BYTES, scratch);
    ck_assert(host_has(first, 3));
    ck_assert(host_has(next, 4));
    ck_assert(host_has(first, 3));
    RELEASE_EACH(first, next);
}

/* Nothing evicts the parent's objects that a child has released. */
START_TEST(a_child_that_releases)
{
    scratch = make_scratch();
    spilled = make_on_host(1);
    present = make_on_host(2);
    set_host_budget(2 * HOLD_BYTES, scratch);
    ck_assert(child_succeeds(release_and_go_on, NULL));
    ck_assert(host_has(spilled, 1));
    ck_assert(host_has(present, 2));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    RELEASE_EACH(spilled, present);
    end_scratch(scratch);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_budget_fork");
    TCase *const tests = add_case(made, "fork");
    add_gpu_tests(tests, a_child, a_child_that_spills, a_child_that_releases);
    return made;
}
