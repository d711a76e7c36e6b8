/* Checks what a part's copy takes over from the copy of all memory. */
#include "fixture.h"

#include "copy/copy.h"
#include "copy/inflight.h"
#include "copy/part.h"

static struct sm_fence open_fence = {.holders = 1, .state = SM_FENCE_QUEUEING, .stream = 1};
static struct sm_fence done_fence = {.holders = 1, .state = SM_FENCE_DONE, .stream = 2};

static void enter_read(struct sm_copy *copy, struct sm_fence *fence)
{
    struct sm_replaced replaced = {.uses = NULL};
    struct sm_use *const use = sm_inflight_reserve();
    ck_assert_ptr_nonnull(use);
    sm_inflight_read(copy, use, sm_fence_hold(fence), &replaced);
    sm_replaced_drop(&replaced);
}

/* The open transfer moves to the part, and work of which nobody can tell when it ends counts for both. */
START_TEST(work_of_the_whole)
{
    struct sm_copy *const whole = sm_copy_struct_take(-1, SYNCED_MEM_SOURCE_PAGEABLE);
    struct sm_copy *const part = sm_part_struct_take(whole);
    ck_assert(whole && part);
    enter_read(whole, &done_fence);
    enter_read(whole, &open_fence);
    if (_i)
        sm_inflight_untrack(whole, SM_UNTRACKED_READ, NULL);
    sm_part_take_over(part, whole);
    ck_assert_ptr_eq(sm_inflight_transfer(part), &open_fence);
    ck_assert_ptr_null(sm_inflight_transfer(whole));
    ck_assert_int_eq(part->untracked, _i ? SM_UNTRACKED_READ : SM_TRACKED);
    sm_inflight_forget(part);
    sm_inflight_forget(whole);
    ck_assert_uint_eq(atomic_load(&open_fence.holders), 1);
    sm_copy_struct_give(part);
    sm_copy_struct_give(whole);
}
END_TEST

/* A copy has room for the number of each permanent stream, beside its other bits. */
START_TEST(number_of_untracked_work)
{
    struct sm_copy *const whole = sm_copy_struct_take(-1, SYNCED_MEM_SOURCE_PAGEABLE);
    struct sm_copy *const part = sm_part_struct_take(whole);
    ck_assert(whole && part);
    part->pin_known = true;
    part->untracked = SM_UNTRACKED_WRITE;
    for (unsigned number = 0; number <= SM_PERMANENT_STREAMS; number++) {
        sm_copy_set_untracked_on(part, number);
        ck_assert_uint_eq(sm_copy_untracked_on(part), number);
    }
    ck_assert(part->is_part && part->pin_known && !part->pinned);
    ck_assert_int_eq(part->untracked, SM_UNTRACKED_WRITE);
    sm_copy_struct_give(part);
    sm_copy_struct_give(whole);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("parts of copies");
    TCase *const tests = add_case(made, "part");
    tcase_add_loop_test(tests, work_of_the_whole, 0, 2);
    tcase_add_test(tests, number_of_untracked_work);
    return made;
}
