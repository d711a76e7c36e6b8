/* Tests what happens to a victim between its choice and its eviction. */
#include "hold_tensor_kit.h"

#include "cudart_emu.h"

#include "copy/inflight.h"
#include "memory/budget.h"
#include "object/evict.h"
#include "object/replace.h"
#include "object/resize.h"
#include "object/transaction.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { UNIT = 10000 };

typedef void *(*function)(void *);
static _Atomic(function) meanwhile;
static synced_mem *victim;
static synced_mem *kept;
static synced_mem_stream stream;

/* Runs once, in a thread of its own, and waits for its end. */
static void run_beside(_Atomic(function) *what)
{
    const function run = atomic_exchange(what, NULL);
    pthread_t thread;
    if (run) {
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        pthread_join(thread, NULL);
    }
}

/* Holds evict by this function. */
void __real_sm_evict(struct sm_evictions *evictions, struct sm_member *victims);
void __wrap_sm_evict(struct sm_evictions *evictions, struct sm_member *victims);
void __wrap_sm_evict(struct sm_evictions *evictions, struct sm_member *victims)
{
    run_beside(&meanwhile);
    __real_sm_evict(evictions, victims);
}

/* A budget that is lowered, or exceeded, chooses its victims by this function. */
struct sm_member *__real_sm_budget_choose(int device, uint64_t bytes);
struct sm_member *__wrap_sm_budget_choose(int device, uint64_t bytes);
struct sm_member *__wrap_sm_budget_choose(int device, uint64_t bytes)
{
    struct sm_member *const victims = __real_sm_budget_choose(device, bytes);
    run_beside(&meanwhile);
    return victims;
}

static _Atomic(function) before_it_goes;

/* An eviction has found the victim unheld. */
synced_mem_status __real_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by)
{
    run_beside(&before_it_goes);
    return __real_sm_inflight_settle(copy, conflicting, by);
}

static _Atomic(function) before_the_free;

void __real_sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *on);
void __wrap_sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *on);
void __wrap_sm_copy_retire_on(struct sm_copy *copy, struct sm_stream *on)
{
    run_beside(&before_the_free);
    __real_sm_copy_retire_on(copy, on);
}

/* ---- Memory that another hold has claimed ---- */

static _Atomic(function) before_the_memory;

synced_mem_status __real_sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *on,
                                               struct sm_member *member, struct sm_copy **out);
synced_mem_status __wrap_sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *on,
                                               struct sm_member *member, struct sm_copy **out);
synced_mem_status __wrap_sm_copy_obtain_device(size_t size, size_t alignment, const struct sm_stream *on,
                                               struct sm_member *member, struct sm_copy **out)
{
    run_beside(&before_the_memory);
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

static _Thread_local atomic_bool *on_wait; /* becomes true when the thread waits */

void __real_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen)
{
    if (on_wait)
        atomic_store(on_wait, true);
    __real_sm_word_wait(word, seen);
}

static void await_flag(atomic_bool *flag)
{
    while (!atomic_load(flag))
        (void)sched_yield();
}

static pthread_t setter;
static atomic_bool setter_waits;

static void *lower_the_budget(void *unused)
{
    on_wait = &setter_waits;
    uint64_t over = 1;
    SOUND(synced_mem_gpu_set_budget(0, 15 * UNIT, &over) == SYNCED_MEM_OK);
    SOUND(over == 0);
    return unused;
}

static void *begin_to_lower_the_budget(void *unused)
{
    SOUND(pthread_create(&setter, NULL, lower_the_budget, NULL) == 0);
    await_flag(&setter_waits);
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
    await_flag(&is_locked);
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

static atomic_bool is_second_begun;

/* Works on the other candidate until the second hold has looked at the victim. */
static void *lock_the_other(void *unused)
{
    sm_lock_object(kept);
    atomic_store(&is_locked, true);
    await_flag(&is_second_begun);
    (void)usleep(20000);
    sm_unlock_object(kept);
    return unused;
}

static void *note_the_second(void *unused)
{
    atomic_store(&is_second_begun, true);
    return unused;
}

static atomic_bool keeps_busy; /* a hold waits for the locks of the victims that it keeps */

bool __real_sm_evict_busy(struct sm_evictions *evictions);
bool __wrap_sm_evict_busy(struct sm_evictions *evictions);
bool __wrap_sm_evict_busy(struct sm_evictions *evictions)
{
    atomic_store(&keeps_busy, true);
    return __real_sm_evict_busy(evictions);
}

static atomic_uint waits_for_stuck;

bool __real_sm_budget_wait_for_stuck(int device, sm_deadline until);
bool __wrap_sm_budget_wait_for_stuck(int device, sm_deadline until);
bool __wrap_sm_budget_wait_for_stuck(int device, sm_deadline until)
{
    const bool waits = __real_sm_budget_wait_for_stuck(device, until);
    atomic_fetch_add(&waits_for_stuck, waits);
    return waits;
}

static void *hold_beside(void *wanted)
{
    SOUND(hold_one(wanted, SYNCED_MEM_READ, stream) == SYNCED_MEM_OK);
    return NULL;
}

/* The first hold keeps the other candidate, whose lock it waits for. The victim of the second one stays, as it is out
 * as a tensor. There is room for both holds once the other has gone. */
START_TEST(victims_that_another_hold_keeps_are_waited_for)
{
    pthread_t holder;
    make_victim();
    synced_mem *const first = make_units("first", 9, 3), *const second = make_units("second", 8, 4);
    OK(hold_one(victim, SYNCED_MEM_READ, stream));
    struct DLManagedTensorVersioned *tensor;
    OK(give_out(victim, SYNCED_MEM_SIDE_GPU, &tensor));
    ck_assert_int_eq(pthread_create(&locker, NULL, lock_the_other, NULL), 0);
    await_flag(&is_locked);
    ck_assert_int_eq(pthread_create(&holder, NULL, hold_beside, first), 0);
    await_flag(&keeps_busy);
    OK(unhold_one(victim));
    meanwhile = note_the_second;
    OK(hold_one(second, SYNCED_MEM_READ, stream));
    pthread_join(locker, NULL);
    pthread_join(holder, NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert(!is_on_device(kept) && is_on_device(victim));
    ck_assert_uint_gt(atomic_load(&waits_for_stuck), 0);
    tensor->deleter(tensor);
    OK(unhold_one(first));
    OK(unhold_one(second));
    RELEASE_EACH(victim, kept, first, second);
    CLOSE_EACH(stream);
}
END_TEST

/* Nobody else has victims. */
START_TEST(a_hold_does_not_wait_for_its_own_victims)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    OK(hold_one(victim, SYNCED_MEM_READ, stream));
    OK(hold_one(kept, SYNCED_MEM_READ, stream));
    struct DLManagedTensorVersioned *tensors[2];
    OK(give_out(victim, SYNCED_MEM_SIDE_GPU, &tensors[0]));
    OK(give_out(kept, SYNCED_MEM_SIDE_GPU, &tensors[1]));
    OK(unhold_one(victim));
    OK(unhold_one(kept));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, hold_one(wanted, SYNCED_MEM_READ, stream));
    SAYS("tensors");
    ck_assert_uint_eq(atomic_load(&waits_for_stuck), 0);
    for (unsigned i = 0; i < 2; i++)
        tensors[i]->deleter(tensors[i]);
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    OK(unhold_one(wanted));
    RELEASE_EACH(victim, kept, wanted);
    CLOSE_EACH(stream);
}
END_TEST

static synced_mem *three[3];

static void *hold_the_last_two(void *unused)
{
    SOUND(synced_mem_hold_n(three + 1, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream) == SYNCED_MEM_OK);
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
    OK(synced_mem_hold_n(three, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    ck_assert(!before_the_memory);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(is_on_device(three[i]));
    ck_assert_uint_eq(sm_budget_used(0), 30 * UNIT);
    OK(synced_mem_unhold_n(three, 2, SYNCED_MEM_SIDE_GPU));
    OK(synced_mem_unhold_n(three + 1, 2, SYNCED_MEM_SIDE_GPU));
    release_all(three, 3);
    RELEASE_EACH(kept);
    CLOSE_EACH(stream);
}
END_TEST

static void *fail_to_hold_the_last_two(void *unused)
{
    emu_fail("cudaMallocFromPoolAsync", 1, cudaErrorUnknown, false);
    SOUND(synced_mem_hold_n(three + 1, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream) != SYNCED_MEM_OK);
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
    OK(synced_mem_hold_n(three, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, stream));
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_uint_eq(sm_budget_used(0), 20 * UNIT);
    OK(synced_mem_unhold_n(three, 2, SYNCED_MEM_SIDE_GPU));
    ck_assert_uint_eq(sm_budget_used(0), 20 * UNIT);
    release_all(three, 3);
    CLOSE_EACH(stream);
}
END_TEST

/* ---- Holds of a victim, which may stay because of them ---- */

static _Thread_local bool pauses; /* when it has claimed memory, before it brings contents */
static atomic_bool is_paused, may_go_on, second_holds;

synced_mem_status __real_sm_enter(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter(struct sm_transaction *transaction, struct synced_mem *mem)
{
    if (pauses) {
        pauses = false;
        atomic_store(&is_paused, true);
        await_flag(&may_go_on);
    }
    return __real_sm_enter(transaction, mem);
}

static void *hold_the_victim_slowly(void *unused)
{
    pauses = true;
    return hold_the_victim(unused);
}

static void *hold_the_victim_too(void *unused)
{
    SOUND(hold_one(victim, SYNCED_MEM_READ, stream) == SYNCED_MEM_OK);
    atomic_store(&second_holds, true);
    return unused;
}

enum { MOST_HOLDERS = 2 };
static void *(*const holds_of_the_victim[MOST_HOLDERS])(void *) = {hold_the_victim_slowly, hold_the_victim_too};
static atomic_bool *const begun[MOST_HOLDERS] = {&is_paused, &second_holds};
static pthread_t holders[MOST_HOLDERS];
static int holder_count;

static void *begin_to_hold_the_victim(void *unused)
{
    for (int i = 0; i < holder_count; i++) {
        SOUND(pthread_create(&holders[i], NULL, holds_of_the_victim[i], NULL) == 0);
        await_flag(begun[i]);
    }
    return unused;
}

/* A hold claims memory in case that the victim goes, and a second one needs no more. The victim stays, so others get
 * that memory before the holds end: that of the last object, for which 11 units are left. */
START_TEST(claims_for_a_victim_that_stays_are_given_back_at_once)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    synced_mem *const last = make_units("last", 11, 4);
    synced_mem *const more = make_units("more", 1, 5);
    holder_count = 1 + _i;
    meanwhile = begin_to_hold_the_victim;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    if (holder_count == 2)
        pthread_join(holders[1], NULL);
    OK(hold_one(last, SYNCED_MEM_READ, stream));
    ck_assert_uint_le(stats_now().gpu_bytes + stats_now().gpu_spare_bytes, 30 * UNIT);
    atomic_store(&may_go_on, true);
    pthread_join(holders[0], NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY,
          hold_one(more, SYNCED_MEM_READ, stream)); /* the memory was given back once */
    for (int i = 0; i < holder_count; i++)
        OK(unhold_one(victim));
    OK(unhold_one(wanted));
    OK(unhold_one(last));
    ck_assert(host_is(given(synced_mem_cpu_data(victim)), 10 * UNIT, 7));
    RELEASE_EACH(victim, kept, wanted, last, more);
    CLOSE_EACH(stream);
}
END_TEST

static void *hold_the_victim_before_it_goes(void *unused)
{
    atomic_store(&before_it_goes, begin_to_hold_the_victim);
    return unused;
}

/* The eviction does not see the hold. So the hold brings the victim back, and nobody gets the memory for it. */
START_TEST(claims_for_a_victim_that_goes_are_kept)
{
    make_victim();
    synced_mem *const wanted = make_units("wanted", 9, 3);
    synced_mem *const last = make_units("last", 11, 4);
    synced_mem *const more = make_units("more", 1, 5);
    holder_count = 1;
    meanwhile = hold_the_victim_before_it_goes;
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    ck_assert_int_eq(synced_mem_head(victim), SYNCED_MEM_AT_CPU);
    OK(hold_one(last, SYNCED_MEM_READ, stream));
    FAILS(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, hold_one(more, SYNCED_MEM_READ, stream));
    atomic_store(&may_go_on, true);
    pthread_join(holders[0], NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_uint_le(stats_now().gpu_bytes + stats_now().gpu_spare_bytes, 30 * UNIT);
    OK(unhold_one(victim));
    OK(unhold_one(wanted));
    OK(unhold_one(last));
    ck_assert(host_is(given(synced_mem_cpu_data(victim)), 10 * UNIT, 7));
    RELEASE_EACH(victim, kept, wanted, last, more);
    CLOSE_EACH(stream);
}
END_TEST

static void *lower_the_budget_to_a_unit(void *unused)
{
    on_wait = &setter_waits;
    SOUND(synced_mem_gpu_set_budget(0, UNIT, NULL) == SYNCED_MEM_OK);
    return unused;
}

static atomic_bool evictor_waits;

static void *lower_the_budget_beside_the_hold(void *unused)
{
    atomic_store(&is_paused, true);
    await_flag(&evictor_waits);
    SOUND(pthread_create(&setter, NULL, lower_the_budget_to_a_unit, NULL) == 0);
    await_flag(&setter_waits);
    return unused;
}

static void *begin_to_hold_while_the_budget_is_lowered(void *unused)
{
    meanwhile = lower_the_budget_beside_the_hold; /* in the eviction by the hold */
    SOUND(pthread_create(&holders[0], NULL, hold_the_victim, NULL) == 0);
    await_flag(&is_paused);
    return unused;
}

/* The hold evicts the other candidate, as the victim may go. By the end of that eviction the victim stays, so the hold
 * needs no memory any more, however little the budget is by now. */
START_TEST(a_hold_of_a_victim_that_stays_needs_no_room)
{
    make_victim();
    meanwhile = begin_to_hold_while_the_budget_is_lowered;
    on_wait = &evictor_waits;
    set_budget(21 * UNIT);
    on_wait = NULL;
    pthread_join(holders[0], NULL);
    pthread_join(setter, NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_int_eq(synced_mem_head(kept), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_head(victim), SYNCED_MEM_AT_GPU);
    OK(unhold_one(victim));
    ck_assert(host_is(given(synced_mem_cpu_data(victim)), 10 * UNIT, 7));
    RELEASE_EACH(victim, kept);
    CLOSE_EACH(stream);
}
END_TEST

/* ---- Victims that would go late ---- */

/* Another thread works on the object that was to go in its place. */
START_TEST(a_victim_that_is_late_goes_after_all)
{
    make_victim();
    gpu_hold(stream);
    OK(hold_one(victim, SYNCED_MEM_MUTABLE, stream));
    gpu_fill(given(synced_mem_mutable_gpu_data_on(victim, stream)), 10 * UNIT, 7, stream);
    OK(unhold_one(victim));
    synced_mem *const wanted = make_units("wanted", 9, 3);
    if (_i == 0)
        sm_lock_object(kept);
    OK(hold_one(wanted, SYNCED_MEM_READ, stream));
    if (_i == 0)
        sm_unlock_object(kept);
    ck_assert_int_eq(synced_mem_head(victim), _i == 0 ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(synced_mem_head(kept), _i == 0 ? SYNCED_MEM_SYNCED : SYNCED_MEM_AT_CPU);
    gpu_unhold();
    OK(unhold_one(wanted));
    set_budget(0);
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    ck_assert(host_is(given(synced_mem_cpu_data(victim)), 10 * UNIT, 7));
    RELEASE_EACH(victim, kept, wanted);
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
                  a_lower_budget_waits_for_a_victim, a_member_is_claimed_once, a_claim_outlives_a_hold_that_fails,
                  a_hold_of_a_victim_that_stays_needs_no_room, claims_for_a_victim_that_goes_are_kept,
                  victims_that_another_hold_keeps_are_waited_for, a_hold_does_not_wait_for_its_own_victims);
    add_gpu_loop_test(tests, a_victim_that_is_late_goes_after_all, 0, 2);
    add_gpu_loop_test(tests, claims_for_a_victim_that_stays_are_given_back_at_once, 0, MOST_HOLDERS);
    return made;
}
