/* Checks that nobody overlooks work that is lost while a call looks at it: copy threads close fences at any time. */
#include "fixture.h"

#include "copy/copy.h"
#include "copy/inflight.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ROUNDS = 3000, LONGEST_PAUSE = 400, MANY_TURNS = 20000 };

/* The fence that another thread closes. The copy and the test hold it. */
static struct sm_fence fence;
static atomic_uint round_now; /* 0: the end */
static bool stray;

static void pause_for(unsigned turns)
{
    for (volatile unsigned i = 0; i < turns; i++)
        continue;
}

/* Closes the fence of each round, sooner or later. */
static void *lose(void *unused)
{
    unsigned seen = 1;
    unsigned random = 1;
    for (unsigned turn = 1;; turn++) {
        const unsigned now = atomic_load(&round_now);
        if (now == 0)
            return unused;
        if (turn % MANY_TURNS == 0)
            (void)sched_yield();
        if (now == seen)
            continue;
        seen = now;
        random = random * 1103515245 + 12345;
        pause_for((random >> 16) % LONGEST_PAUSE);
        sm_fence_close(&fence, SM_FENCE_LOST, stray);
    }
}

static void open_fence(void)
{
    atomic_store(&fence.holders, 2);
    atomic_store(&fence.state, SM_FENCE_QUEUEING);
}

static bool is_lost(void)
{
    return sm_fence_state(&fence) == SM_FENCE_LOST;
}

static pthread_t start_losing(void)
{
    pthread_t thread;
    atomic_store(&round_now, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, lose, NULL), 0);
    return thread;
}

static void stop_losing(pthread_t thread)
{
    atomic_store(&round_now, 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

enum kind { PRUNE, BLOCKER, UNQUEUED, KINDS };

/* Acts until the fence is lost. Returns whether the copy shows its loss all the time. */
static bool shows_loss(struct sm_copy *copy, enum kind kind)
{
    bool shows = true;
    bool over = false;
    for (unsigned turn = 1; shows && !over; turn++) {
        over = is_lost();
        if (kind == PRUNE)
            sm_inflight_prune(copy);
        shows = kind == PRUNE     ? sm_inflight_arrival(copy) == &fence
                : kind == BLOCKER ? sm_inflight_blocker(copy, false) == &fence
                                  : sm_inflight_unqueued(copy, false) == &fence;
        if (turn % MANY_TURNS == 0)
            (void)sched_yield();
    }
    while (!is_lost())
        (void)sched_yield();
    return shows && sm_inflight_lost(copy) == &fence;
}

/* Contents that are arriving are lost. */
START_TEST(arrivals)
{
    char memory[64];
    struct sm_copy *copy;
    int overlooked = 0;
    const pthread_t thread = start_losing();
    OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &copy));
    for (unsigned i = 0; i < ROUNDS; i++) {
        sm_inflight_forget(copy);
        open_fence();
        sm_inflight_written(copy, &fence);
        copy->arriving = true;
        atomic_fetch_add(&round_now, 1);
        overlooked += !shows_loss(copy, (enum kind)_i);
    }
    stop_losing(thread);
    ck_assert_int_eq(overlooked, 0);
    sm_copy_unwrap(copy);
}
END_TEST

/* Lost work that may still run makes the copy untracked, when it is forgotten or before. */
START_TEST(strays)
{
    char memory[64];
    struct sm_copy *copy;
    int overlooked = 0;
    stray = true;
    const pthread_t thread = start_losing();
    OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &copy));
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sm_use *const use = sm_inflight_reserve();
        struct sm_replaced replaced = {.uses = NULL};
        ck_assert_ptr_nonnull(use);
        open_fence();
        if (_i == 0) {
            sm_inflight_written(copy, &fence);
            sm_inflight_unreserve(use);
        } else {
            sm_inflight_read(copy, use, &fence, &replaced);
        }
        atomic_fetch_add(&round_now, 1);
        for (unsigned turn = 1; _i == 0 ? copy->write != NULL : copy->reads != NULL; turn++) {
            sm_inflight_prune(copy);
            if (turn % MANY_TURNS == 0)
                (void)sched_yield();
        }
        overlooked += copy->untracked == SM_TRACKED;
        copy->untracked = SM_TRACKED;
    }
    stop_losing(thread);
    ck_assert_int_eq(overlooked, 0);
    sm_copy_unwrap(copy);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("losses");
    TCase *const tests = add_case(made, "losses");
    tcase_add_loop_test(tests, arrivals, 0, KINDS);
    tcase_add_loop_test(tests, strays, 0, 2);
    return made;
}
