/* Tests what happens to a victim between its choice and its eviction. */
#include "hold_kit.h"

#include "cudart_emu.h"

#include "object/evict.h"
#include "object/replace.h"
#include "object/resize.h"
#include "object/transaction.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { UNIT = 10000 };

static void *(*meanwhile)(void *);
static synced_mem *victim;
static synced_mem *kept;
static synced_mem_stream stream;

void __real_sm_evict(struct sm_evictions *evictions, struct sm_member *victims);
void __wrap_sm_evict(struct sm_evictions *evictions, struct sm_member *victims);
void __wrap_sm_evict(struct sm_evictions *evictions, struct sm_member *victims)
{
    void *(*const run)(void *) = meanwhile;
    pthread_t thread;
    meanwhile = NULL;
    if (run) {
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        pthread_join(thread, NULL);
    }
    __real_sm_evict(evictions, victims);
}

static void *(*before_the_free)(void *);

void __real_sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *on);
void __wrap_sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *on);
void __wrap_sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *on)
{
    void *(*const run)(void *) = before_the_free;
    pthread_t thread;
    before_the_free = NULL;
    if (run) {
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        pthread_join(thread, NULL);
    }
    __real_sm_copy_retire_on(copy, on);
}

/* ---- Memory that another hold has claimed ---- */

static void *(*before_the_memory)(void *);

synced_mem_status __real_sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *on,
                                               struct sm_member *member, struct sm_copy **out);
synced_mem_status __wrap_sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *on,
                                               struct sm_member *member, struct sm_copy **out);
synced_mem_status __wrap_sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *on,
                                               struct sm_member *member, struct sm_copy **out)
{
    void *(*const run)(void *) = before_the_memory;
    pthread_t thread;
    before_the_memory = NULL;
    if (run) {
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        pthread_join(thread, NULL);
    }
    return __real_sm_copy_obtain_device(size, alignment, on, member, out);
}

/* ---- Calls that change the memory, after they have found the object unheld ---- */

static void *(*before_the_change)(void *);

static void run_before_the_change(void)
{
    void *(*const run)(void *) = before_the_change;
    before_the_change = NULL;
    if (run)
        (void)run(NULL);
}

synced_mem_status __real_sm_release_side(struct synced_mem *mem, enum sm_side side);
synced_mem_status __wrap_sm_release_side(struct synced_mem *mem, enum sm_side side);
synced_mem_status __wrap_sm_release_side(struct synced_mem *mem, enum sm_side side)
{
    run_before_the_change();
    return __real_sm_release_side(mem, side);
}

synced_mem_status __real_sm_release_memory(struct synced_mem *mem);
synced_mem_status __wrap_sm_release_memory(struct synced_mem *mem);
synced_mem_status __wrap_sm_release_memory(struct synced_mem *mem)
{
    run_before_the_change();
    return __real_sm_release_memory(mem);
}

synced_mem_status __real_sm_resize(struct synced_mem *mem, size_t size, bool keep);
synced_mem_status __wrap_sm_resize(struct synced_mem *mem, size_t size, bool keep);
synced_mem_status __wrap_sm_resize(struct synced_mem *mem, size_t size, bool keep)
{
    run_before_the_change();
    return __real_sm_resize(mem, size, keep);
}

static synced_mem *make_units(const char *name, size_t units, unsigned pattern)
{
    synced_mem *const mem = make_evictable(name, units * UNIT);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), units * UNIT, pattern);
    return mem;
}

/* The victim has 10 units, the other candidate 12, and there is room for 30. Of two that were used once, the one that
 * was used last goes first. */
static void make_victim(void)
{
    stream = open_stream(NON_BLOCKING);
    victim = make_units("victim", 10, 1);
    kept = make_units("other", 12, 2);
    set_budget(30 * UNIT);
    OK(hold_one(kept, SYNCED_MEM_READ, stream));
    OK(unhold_one(kept));
    OK(hold_one(victim, SYNCED_MEM_READ, stream));
    OK(unhold_one(victim));
}

static void *hold_the_victim(void *unused)
{
    SOUND(hold_one(victim, SYNCED_MEM_MUTABLE, stream) == SYNCED_MEM_OK);
    void *const data = synced_mem_mutable_gpu_data_on(victim, stream);
    SOUND(data != NULL);
    gpu_fill(data, 10 * UNIT, 7, stream);
    return unused;
}

START_TEST(a_victim_that_is_held_stays)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    meanwhile = hold_the_victim;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    ck_assert(!meanwhile);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_int_eq(synced_mem_head(victim), SYNCED_MEM_AT_GPU);
    given(synced_mem_gpu_data_on(victim, stream));
    ck_assert_int_eq(synced_mem_head(kept), SYNCED_MEM_AT_CPU); /* the victim's hold has evicted it */
    OK(unhold_one(victim));
    OK(unhold_one(wanted));
    ck_assert_uint_le(stats_now().gpu_bytes, 30 * UNIT);
    ck_assert(host_is(given(synced_mem_cpu_data(victim)), 10 * UNIT, 7));
    RELEASE_EACH(victim, kept, wanted);
    CLOSE_EACH(stream);
}
END_TEST

static void *release_the_copy(void *unused)
{
    SOUND(synced_mem_release_gpu_data(victim) == SYNCED_MEM_OK);
    return unused;
}

START_TEST(a_victim_without_a_copy_has_left)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    meanwhile = release_the_copy;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_int_eq(synced_mem_head(victim), SYNCED_MEM_AT_CPU);
    OK(unhold_one(wanted));
    ck_assert_uint_le(stats_now().gpu_bytes + stats_now().gpu_spare_bytes, 30 * UNIT);
    RELEASE_EACH(victim, kept, wanted);
    CLOSE_EACH(stream);
}
END_TEST

/* The victim has new memory before its eviction has ended. That memory can go too. */
START_TEST(a_victim_that_is_held_after_it_has_gone)
{
    uint64_t over;
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    before_the_free = hold_the_victim;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    ck_assert(!before_the_free);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    OK(unhold_one(wanted));
    OK(unhold_one(victim));
    OK(synced_mem_gpu_set_budget(0, 0, &over));
    ck_assert_uint_eq(over, 0);
    ck_assert(host_is(given(synced_mem_cpu_data(victim)), 10 * UNIT, 7));
    RELEASE_EACH(victim, kept, wanted);
    CLOSE_EACH(stream);
}
END_TEST

static synced_mem_status change_memory(int how)
{
    switch (how) {
    case 0:
        return synced_mem_release_gpu_data(victim);
    case 1:
        return synced_mem_release_cpu_data(victim);
    case 2:
        return synced_mem_release_data(victim);
    case 3:
        return synced_mem_resize(victim, 3);
    default:
        return synced_mem_resize_discard(victim, 20 * UNIT);
    }
}
enum { CHANGES = 5 };

/* Its pointers stay good. */
START_TEST(an_object_that_is_held_by_now_keeps_its_memory)
{
    make_victim();
    before_the_change = hold_the_victim;
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, change_memory(_i));
    SAYS("held");
    ck_assert(!before_the_change);
    ck_assert_int_eq(synced_mem_head(victim), SYNCED_MEM_AT_GPU);
    ck_assert_uint_eq(synced_mem_size(victim), 10 * UNIT);
    OK(unhold_one(victim));
    ck_assert(host_is(given(synced_mem_cpu_data(victim)), 10 * UNIT, 7));
    ck_assert_int_eq(atomic_load(&unsound), 0);
    RELEASE_EACH(victim, kept);
    CLOSE_EACH(stream);
}
END_TEST

static pthread_t releaser;

static atomic_bool is_released;

static void *release_the_victim(void *unused)
{
    SOUND(synced_mem_release(victim) == SYNCED_MEM_OK);
    atomic_store(&is_released, true);
    return unused;
}

/* The release waits until the eviction has ended. */
static void *begin_to_release_the_victim(void *unused)
{
    SOUND(pthread_create(&releaser, NULL, release_the_victim, NULL) == 0);
    (void)usleep(20000);
    SOUND(!atomic_load(&is_released));
    return unused;
}

START_TEST(a_victim_that_is_released)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    meanwhile = begin_to_release_the_victim;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    pthread_join(releaser, NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    OK(unhold_one(wanted));
    RELEASE_EACH(kept, wanted);
    CLOSE_EACH(stream);
}
END_TEST

static pthread_t setter;
static _Thread_local bool is_setter;
static atomic_bool setter_waits;

void __real_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen)
{
    if (is_setter)
        atomic_store(&setter_waits, true);
    __real_sm_word_wait(word, seen);
}

static void *lower_the_budget(void *unused)
{
    is_setter = true;
    uint64_t over = 1;
    SOUND(synced_mem_gpu_set_budget(0, 15 * UNIT, &over) == SYNCED_MEM_OK);
    SOUND(over == 0);
    return unused;
}

static void *begin_to_lower_the_budget(void *unused)
{
    SOUND(pthread_create(&setter, NULL, lower_the_budget, NULL) == 0);
    while (!atomic_load(&setter_waits))
        (void)sched_yield();
    return unused;
}

/* The victim is the library's until it has left, and then the lower budget is kept. */
START_TEST(a_lower_budget_waits_for_a_victim)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    meanwhile = begin_to_lower_the_budget;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    pthread_join(setter, NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_int_eq(synced_mem_head(kept), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_head(victim), SYNCED_MEM_AT_CPU);
    OK(unhold_one(wanted));
    RELEASE_EACH(victim, kept, wanted);
    CLOSE_EACH(stream);
}
END_TEST

static atomic_bool is_locked;

/* Works on the victim for a while. */
static void *lock_for_a_while(void *unused)
{
    sm_lock_object(victim);
    atomic_store(&is_locked, true);
    (void)usleep(20000);
    sm_unlock_object(victim);
    return unused;
}

static pthread_t locker;

static void *begin_to_lock(void *unused)
{
    SOUND(pthread_create(&locker, NULL, lock_for_a_while, NULL) == 0);
    while (!atomic_load(&is_locked))
        (void)sched_yield();
    return unused;
}

/* No other can go, so the hold waits until the other call has ended. */
START_TEST(a_victim_that_another_call_works_on)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    OK(hold_one(kept, SYNCED_MEM_READ, stream));
    meanwhile = begin_to_lock;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    pthread_join(locker, NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert(!is_on_device(victim));
    OK(unhold_one(wanted));
    OK(unhold_one(kept));
    RELEASE_EACH(victim, kept, wanted);
    CLOSE_EACH(stream);
}
END_TEST

static synced_mem *three[3];

static void *hold_the_last_two(void *unused)
{
    SOUND(synced_mem_hold(three + 1, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream) == SYNCED_MEM_OK);
    return unused;
}

/* Two holds need the second object, and all three fit. */
START_TEST(a_member_is_claimed_once)
{
    stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < 3; i++)
        three[i] = make_units("three", 10, i);
    kept = make_units("kept", 30, 3);
    set_budget(30 * UNIT);
    OK(hold_one(kept, SYNCED_MEM_READ, stream));
    OK(unhold_one(kept));
    before_the_memory = hold_the_last_two;
    OK(synced_mem_hold(three, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    ck_assert(!before_the_memory);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(is_on_device(three[i]));
    ck_assert_uint_eq(sm_budget_used(0), 30 * UNIT);
    OK(synced_mem_unhold(three, 2, SYNCED_MEM_SIDE_GPU));
    OK(synced_mem_unhold(three + 1, 2, SYNCED_MEM_SIDE_GPU));
    release_all(three, 3);
    RELEASE_EACH(kept);
    CLOSE_EACH(stream);
}
END_TEST

static void *fail_to_hold_the_last_two(void *unused)
{
    emu_fail("cudaMallocFromPoolAsync", 1, cudaErrorUnknown, false);
    SOUND(synced_mem_hold(three + 1, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream) != SYNCED_MEM_OK);
    SOUND(sm_budget_used(0) == 20 * UNIT);
    return unused;
}

/* The claim of the second object stays for the hold that goes on. */
START_TEST(a_claim_outlives_a_hold_that_fails)
{
    stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < 3; i++)
        three[i] = make_units("three", 10, i);
    set_budget(30 * UNIT);
    before_the_memory = fail_to_hold_the_last_two;
    OK(synced_mem_hold(three, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_uint_eq(sm_budget_used(0), 20 * UNIT);
    OK(synced_mem_unhold(three, 2, SYNCED_MEM_SIDE_GPU));
    ck_assert_uint_eq(sm_budget_used(0), 20 * UNIT);
    release_all(three, 3);
    CLOSE_EACH(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_meanwhile");
    TCase *const tests = add_case(made, "meanwhile");
    add_gpu_loop_test(tests, an_object_that_is_held_by_now_keeps_its_memory, 0, CHANGES);
    add_gpu_tests(tests, a_victim_that_is_held_stays, a_victim_that_another_call_works_on,
                  a_victim_without_a_copy_has_left, a_victim_that_is_held_after_it_has_gone, a_victim_that_is_released,
                  a_lower_budget_waits_for_a_victim, a_member_is_claimed_once, a_claim_outlives_a_hold_that_fails);
    return made;
}
