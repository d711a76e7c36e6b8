/* Checks evictable objects in children of a process: the parent's can't be held there. */
#include "fork_kit.h"
#include "hold_kit.h"

static synced_mem *held;
static synced_mem *unheld;

static void meet_parents_objects(const void *unused)
{
    (void)unused;
    FAILS(SYNCED_MEM_ERR_FORKED, hold_one(unheld, SYNCED_MEM_READ, NULL));
    FAILS(SYNCED_MEM_ERR_FORKED, unhold_one(held));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_gpu_push(unheld, NULL));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_release_gpu_data(unheld));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_resize(unheld, 5));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_set_budget(0, 0, NULL));
    OK(synced_mem_release(unheld));
    OK(synced_mem_release(held));
    live_on_the_host(NULL);
}

START_TEST(a_child_of_a_process_with_gpu)
{
    held = make_evictable("held", HOLD_BYTES);
    unheld = make_evictable("unheld", HOLD_BYTES);
    set_budget(4 * HOLD_BYTES);
    OK(hold_one(held, SYNCED_MEM_READ, NULL));
    OK(hold_one(unheld, SYNCED_MEM_READ, NULL));
    OK(unhold_one(unheld));
    let_others_sleep();
    ck_assert(child_succeeds(meet_parents_objects, NULL));
    OK(unhold_one(held));
    RELEASE_EACH(held, unheld);
}
END_TEST

static void live_without_gpu(const void *unused)
{
    (void)unused;
    ck_assert(host_is(given(synced_mem_cpu_data(unheld)), HOLD_BYTES, 4));
    OK(synced_mem_release(unheld));
    unheld = make_evictable("own", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(unheld)), HOLD_BYTES, 5);
    OK(synced_mem_release(unheld));
}

START_TEST(a_child_of_a_process_without)
{
    unheld = make_evictable("unheld", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(unheld)), HOLD_BYTES, 4);
    ck_assert(child_succeeds(live_without_gpu, NULL));
    RELEASE_EACH(unheld);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_fork");
    TCase *const tests = add_case(made, "fork");
    add_tests(tests, a_child_of_a_process_without);
    add_gpu_tests(tests, a_child_of_a_process_with_gpu);
    return made;
}
