/* Checks what happens to contents while they are written to the scratch file: another thread changes them. */
#include "fork_kit.h"
#include "host_budget_kit.h"

#include "copy/file_job.h"
#include "copy/scratch.h"
#include "memory/budget.h"
#include "object/evict_host.h"
#include "object/transaction.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { COUNT = 4 };

static synced_mem *mems[COUNT];
static void *(*meanwhile)(void *unused); /* runs in a thread of its own, once */
static atomic_uint jobs;                 /* counts the waits for a file */
static bool locks_victim;                /* another call works on the victim, once */
static synced_mem *victim;
static pthread_t locker;
static atomic_bool is_locked;
static atomic_bool unlocks_soon;

static void *keep_lock(void *unused)
{
    sm_lock_object(victim);
    atomic_store(&is_locked, true);
    while (!atomic_load(&unlocks_soon))
        (void)usleep(1000);
    (void)usleep(20000);
    sm_unlock_object(victim);
    return unused;
}

synced_mem_status __real_sm_file_job_wait(struct sm_file_end *end);
synced_mem_status __wrap_sm_file_job_wait(struct sm_file_end *end);
synced_mem_status __wrap_sm_file_job_wait(struct sm_file_end *end)
{
    void *(*const run)(void *unused) = meanwhile;
    const synced_mem_status status = __real_sm_file_job_wait(end);
    atomic_fetch_add(&jobs, 1);
    if (locks_victim) {
        locks_victim = false;
        ck_assert_int_eq(pthread_create(&locker, NULL, keep_lock, NULL), 0);
        while (!atomic_load(&is_locked))
            (void)sched_yield();
    }
    if (run) {
        pthread_t thread;
        meanwhile = NULL;
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    return status;
}

static void *(*before_the_free)(void *unused); /* runs in a thread of its own, once */

void __real_sm_copy_retire(struct sm_copy *copy);
void __wrap_sm_copy_retire(struct sm_copy *copy);
void __wrap_sm_copy_retire(struct sm_copy *copy)
{
    void *(*const run)(void *unused) = before_the_free;
    if (run) {
        pthread_t thread;
        before_the_free = NULL;
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    __real_sm_copy_retire(copy);
}

static void *(*after_the_change)(void *unused); /* runs in a thread of its own, once */

synced_mem_status __real_sm_scratch_set(struct synced_mem_file *file, struct sm_scratch_change *change);
synced_mem_status __wrap_sm_scratch_set(struct synced_mem_file *file, struct sm_scratch_change *change);
synced_mem_status __wrap_sm_scratch_set(struct synced_mem_file *file, struct sm_scratch_change *change)
{
    void *(*const run)(void *unused) = after_the_change;
    const synced_mem_status status = __real_sm_scratch_set(file, change);
    if (run) {
        pthread_t thread;
        after_the_change = NULL;
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    return status;
}

typedef void *(*function)(void *unused);
static _Atomic(function) before_the_eviction; /* run in a thread of their own, once */
static _Atomic(function) before_the_range;
static _Atomic(function) after_the_range;

static void run_once(_Atomic(function) *act)
{
    const function run = atomic_exchange(act, NULL);
    pthread_t thread;
    if (!run)
        return;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

synced_mem_status __real_sm_evict_host_victim(struct sm_member *member, enum sm_departure_lock how,
                                              enum sm_departure_end *end);
synced_mem_status __wrap_sm_evict_host_victim(struct sm_member *member, enum sm_departure_lock how,
                                              enum sm_departure_end *end);
synced_mem_status __wrap_sm_evict_host_victim(struct sm_member *member, enum sm_departure_lock how,
                                              enum sm_departure_end *end)
{
    run_once(&before_the_eviction);
    return __real_sm_evict_host_victim(member, how, end);
}

synced_mem_status __real_sm_scratch_take(uint64_t size, struct sm_scratch_range **out);
synced_mem_status __wrap_sm_scratch_take(uint64_t size, struct sm_scratch_range **out);
synced_mem_status __wrap_sm_scratch_take(uint64_t size, struct sm_scratch_range **out)
{
    run_once(&before_the_range);
    const synced_mem_status status = __real_sm_scratch_take(size, out);
    run_once(&after_the_range);
    return status;
}

static unsigned pattern; /* of object 0; the next ones have the next */

static void *write_all(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++)
        host_write(mems[i], 40 + i);
    pattern = 40;
    return NULL;
}

/* Of objects that were used once, the one that was used last is the first victim. */
static synced_mem *get_first_victim(void)
{
    return mems[COUNT - 1];
}

static void *hold_victim(void *unused)
{
    (void)unused;
    OK(hold_host(get_first_victim(), SYNCED_MEM_READ));
    return NULL;
}

static void *read_all(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(host_has(mems[i], i));
    return NULL;
}

static void *resize_all(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++)
        OK(synced_mem_resize(mems[i], HOLD_BYTES / 2));
    return NULL;
}

static void *clear_all(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++)
        OK(synced_mem_clear(mems[i]));
    return NULL;
}

static void *write_on_device(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++) {
        OK(hold_one(mems[i], SYNCED_MEM_OVERWRITE, NULL));
        gpu_fill(given(synced_mem_overwrite_gpu_data(mems[i])), HOLD_BYTES, 40 + i, NULL);
        OK(unhold_one(mems[i]));
    }
    pattern = 40;
    return NULL;
}

/* The victims that come next stay. */
static void *take_the_scratch_file_away(void *unused)
{
    (void)unused;
    set_host_budget(8 * HOLD_BYTES, NULL);
    return NULL;
}

static void *(*const acts[])(void *unused) = {
    write_all, read_all, resize_all, write_on_device, clear_all, hold_victim, take_the_scratch_file_away};
enum { ACTS = sizeof acts / sizeof *acts, TAKES_AWAY = ACTS - 1 };

static bool is_zero(synced_mem *mem)
{
    OK(hold_host(mem, SYNCED_MEM_READ));
    const unsigned char *const data = given(synced_mem_cpu_data(mem));
    bool zero = true;
    for (size_t i = 0; i < synced_mem_size(mem); i++)
        zero = zero && data[i] == 0;
    OK(unhold_host(mem));
    return zero;
}

START_TEST(contents_change_meanwhile)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, COUNT, 0);
    set_host_budget(8 * HOLD_BYTES, scratch);
    pattern = 0;
    meanwhile = acts[_i];
    set_host_budget(_i == TAKES_AWAY ? HOLD_BYTES : 3 * HOLD_BYTES, scratch);
    ck_assert(!meanwhile);
    ck_assert(_i != TAKES_AWAY || count_host_copies(mems, COUNT) == COUNT - 1);
    if (acts[_i] == hold_victim) {
        ck_assert(has_host_copy(get_first_victim()));
        OK(unhold_host(get_first_victim()));
    }
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(acts[_i] == clear_all ? is_zero(mems[i]) : host_has(mems[i], pattern + i));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(mems, COUNT);
    end_scratch(scratch);
}
END_TEST

/* The device has the contents too, so nothing would be spilled. */
START_TEST(a_victim_that_is_held_before_its_eviction)
{
    make_many(mems, COUNT, 0);
    OK(synced_mem_async_gpu_push_n(mems, COUNT, NULL));
    before_the_eviction = hold_victim;
    set_host_budget(COUNT * HOLD_BYTES - 1, NULL);
    ck_assert(!before_the_eviction);
    ck_assert(has_host_copy(get_first_victim()));
    ck_assert_uint_lt(count_host_copies(mems, COUNT), COUNT);
    OK(unhold_host(get_first_victim()));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(host_has(mems[i], i));
    release_all(mems, COUNT);
}
END_TEST

static void *clear_first(void *unused)
{
    (void)unused;
    OK(synced_mem_clear(mems[0]));
    return NULL;
}

/* Nothing else can go. */
START_TEST(a_victim_that_is_cleared_meanwhile_goes)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, 2, 0);
    OK(hold_host(mems[1], SYNCED_MEM_READ));
    set_host_budget(2 * HOLD_BYTES, scratch);
    synced_mem *const wanted = make_evictable("wanted", HOLD_BYTES);
    meanwhile = clear_first;
    OK(hold_host(wanted, SYNCED_MEM_OVERWRITE));
    ck_assert(!meanwhile);
    ck_assert(!has_host_copy(mems[0]));
    OK(unhold_host(wanted));
    OK(unhold_host(mems[1]));
    ck_assert(is_zero(mems[0]));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(mems, 2);
    OK(synced_mem_release(wanted));
    end_scratch(scratch);
}
END_TEST

/* Another goes in its place, which the next job spills. Where there is no other, its lock is waited for. */
START_TEST(a_victim_that_another_call_works_on_goes_last)
{
    synced_mem_file *const scratch = make_scratch();
    synced_mem *const other = make_evictable("other", HOLD_BYTES);
    make_many(mems, COUNT, 0);
    set_host_budget(8 * HOLD_BYTES, scratch);
    victim = get_first_victim();
    locks_victim = true;
    atomic_store(&jobs, 0);
    set_host_budget(3 * HOLD_BYTES, scratch);
    unsigned gone = 0;
    ck_assert(!locks_victim);
    ck_assert_uint_eq(atomic_load(&jobs), 2);
    ck_assert_uint_eq(count_host_copies(mems, COUNT - 1), COUNT - 2);
    for (unsigned i = 0; i < COUNT - 1; i++)
        if (has_host_copy(mems[i]))
            OK(hold_host(mems[i], SYNCED_MEM_READ));
        else
            gone = i;
    atomic_store(&unlocks_soon, true);
    OK(hold_host(other, SYNCED_MEM_OVERWRITE));
    ck_assert_int_eq(pthread_join(locker, NULL), 0);
    ck_assert(!has_host_copy(victim));
    OK(unhold_host(other));
    for (unsigned i = 0; i < COUNT - 1; i++)
        if (i != gone)
            OK(unhold_host(mems[i]));
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(host_has(mems[i], i));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(mems, COUNT);
    RELEASE_EACH(other);
    end_scratch(scratch);
}
END_TEST

static void *hold_what_has_gone(void *unused)
{
    unsigned gone = 0;
    (void)unused;
    while (gone < COUNT && has_host_copy(mems[gone]))
        gone++;
    SOUND(gone < COUNT && hold_host(mems[gone], SYNCED_MEM_READ) == SYNCED_MEM_OK);
    SOUND(unhold_host(mems[gone]) == SYNCED_MEM_OK);
    return NULL;
}

/* A victim has new memory before its eviction has ended. That memory can go too. */
START_TEST(a_victim_that_is_held_after_it_has_gone)
{
    synced_mem *const all = make_evictable("all", COUNT * HOLD_BYTES - 1);
    make_many(mems, COUNT, 0);
    OK(synced_mem_async_gpu_push_n(mems, COUNT, NULL));
    before_the_free = hold_what_has_gone;
    set_host_budget(COUNT * HOLD_BYTES - 1, NULL);
    ck_assert(!before_the_free);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    OK(hold_host(all, SYNCED_MEM_OVERWRITE));
    OK(unhold_host(all));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(mems, COUNT);
    RELEASE_EACH(all);
}
END_TEST

static synced_mem_file *other_scratch;

static void *set_without_scratch(void *unused)
{
    SOUND(synced_mem_cpu_set_budget(HOLD_BYTES, NULL, NULL) == SYNCED_MEM_OK);
    return unused;
}

static void *set_with_scratch(void *unused)
{
    SOUND(synced_mem_cpu_set_budget(HOLD_BYTES, other_scratch, NULL) == SYNCED_MEM_OK);
    return unused;
}

/* The budget and the scratch file are those of one call: the last one. Contents that only the host has are candidates
 * if that has a file. */
START_TEST(two_threads_set_the_budget)
{
    synced_mem *const mem = make_evictable("one", HOLD_BYTES);
    synced_mem *const next = make_evictable("two", HOLD_BYTES);
    other_scratch = make_scratch();
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 1);
    after_the_change = _i == 0 ? set_without_scratch : set_with_scratch;
    set_host_budget(8 * HOLD_BYTES, _i == 0 ? other_scratch : NULL);
    ck_assert(!after_the_change);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_uint_eq(sm_budget_of(SM_BUDGET_HOST), HOLD_BYTES);
    if (_i == 0) {
        FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, hold_host(next, SYNCED_MEM_OVERWRITE));
        SAYS("no scratch file");
    } else {
        OK(hold_host(next, SYNCED_MEM_OVERWRITE));
        OK(unhold_host(next));
    }
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 1));
    RELEASE_EACH(mem, next);
    end_scratch(other_scratch);
}
END_TEST

static void *shrink(void *unused)
{
    SOUND(synced_mem_resize(mems[0], 1000) == SYNCED_MEM_OK);
    return unused;
}

static void *begin_to_lock(void *unused)
{
    SOUND(pthread_create(&locker, NULL, keep_lock, NULL) == 0);
    while (!atomic_load(&is_locked))
        (void)sched_yield();
    atomic_store(&unlocks_soon, true);
    return unused;
}

/* There is no other victim. The call works on it before the spill, or behind it. */
START_TEST(an_only_victim_that_another_call_works_on)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, 1, 7);
    victim = mems[0];
    after_the_range = _i == 0 ? begin_to_lock : NULL;
    locks_victim = _i == 1;
    atomic_store(&unlocks_soon, _i == 1);
    set_host_budget(0, scratch);
    ck_assert_int_eq(pthread_join(locker, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert(!has_host_copy(mems[0]));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(mems[0])), HOLD_BYTES, 7));
    release_all(mems, 1);
    end_scratch(scratch);
}
END_TEST

/* The range is for other contents, so the victim is tried again. */
START_TEST(a_victim_that_is_resized_before_its_spill)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, 1, 7);
    after_the_range = shrink;
    set_host_budget(0, scratch);
    ck_assert(!after_the_range);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert(!has_host_copy(mems[0]));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(mems[0])), 1000, 7));
    release_all(mems, 1);
    end_scratch(scratch);
}
END_TEST

/* The victim stays, and nobody tries it again and again. */
START_TEST(a_scratch_file_that_goes_before_a_spill)
{
    synced_mem_file *const scratch = make_scratch();
    make_many(mems, 1, 7);
    before_the_range = take_the_scratch_file_away;
    set_host_budget(0, scratch);
    ck_assert(!atomic_load(&before_the_range));
    ck_assert(has_host_copy(mems[0]));
    ck_assert(host_has(mems[0], 7));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(mems, 1);
    end_scratch(scratch);
}
END_TEST

static void release_victim(const void *unused)
{
    (void)unused;
    uint64_t over;
    OK(synced_mem_cpu_set_budget(0, NULL, &over)); /* waits for victims, if any are left */
    ck_assert_uint_gt(over, 0);
    OK(synced_mem_cpu_set_budget(SYNCED_MEM_NO_BUDGET, NULL, NULL));
    ck_assert(host_is(given(synced_mem_cpu_data(mems[0])), HOLD_BYTES, 7));
    release_all(mems, 1);
}

static void *fork_now(void *unused)
{
    SOUND(child_succeeds(release_victim, NULL));
    return unused;
}

static synced_mem *make_on_host(void)
{
    synced_mem *mem;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.evictable = 1;
    OK(synced_mem_create(&mem, HOLD_BYTES, &options));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 7);
    return mem;
}

/* In the child nobody evicts it any more. */
START_TEST(a_fork_during_a_spill)
{
    synced_mem_file *const scratch = make_scratch();
    mems[0] = make_on_host();
    after_the_range = fork_now;
    set_host_budget(0, scratch);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert(!has_host_copy(mems[0]));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(mems[0])), HOLD_BYTES, 7));
    release_all(mems, 1);
    end_scratch(scratch);
}
END_TEST

/* ---- Threads ---- */

enum { THREADS = 4, ROUNDS = 60, SHARED = 6, SHARED_SIZE = 70000 };

static synced_mem *shared[SHARED];
static pthread_mutex_t locks[SHARED]; /* whoever has one may hold the object, and knows its contents */
static unsigned patterns[SHARED];

static void change_contents(unsigned i, unsigned seed)
{
    pthread_mutex_lock(&locks[i]);
    synced_mem_status status;
    do
        status = hold_host(shared[i], SYNCED_MEM_MUTABLE); /* others may hold too much */
    while (status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    SOUND(status == SYNCED_MEM_OK);
    void *const data = synced_mem_mutable_cpu_data(shared[i]);
    SOUND(data && host_is(data, SHARED_SIZE, patterns[i]));
    patterns[i] = seed % 200;
    host_fill(data, SHARED_SIZE, patterns[i]);
    SOUND(unhold_host(shared[i]) == SYNCED_MEM_OK);
    pthread_mutex_unlock(&locks[i]);
}

static void *change_many(void *first)
{
    unsigned seed = (unsigned)(uintptr_t)first;
    for (unsigned round = 0; round < ROUNDS; round++) {
        seed = seed * 1103515245 + 12345;
        change_contents((seed >> 16) % SHARED, seed >> 8);
    }
    return NULL;
}

START_TEST(threads_share_the_budget)
{
    synced_mem_file *const scratch = make_scratch();
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < SHARED; i++) {
        shared[i] = make_evictable("shared", SHARED_SIZE);
        host_fill(given(synced_mem_overwrite_cpu_data(shared[i])), SHARED_SIZE, i);
        patterns[i] = i;
        pthread_mutex_init(&locks[i], NULL);
    }
    set_host_budget((uint64_t)(2 + _i) * SHARED_SIZE, scratch);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, change_many, (void *)(uintptr_t)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < SHARED; i++)
        ck_assert(host_has(shared[i], patterns[i]));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    release_all(shared, SHARED);
    end_scratch(scratch);
}
END_TEST

/* Each thread has objects of its own, and holds some at a time. */
enum { OWN = 8, HELD = 3, HOLDS = 400 };
static synced_mem *own[THREADS][OWN];

static void *hold_own(void *first)
{
    synced_mem *const *const mine = first;
    unsigned seed = (unsigned)(mine - own[0]) + 1;
    for (unsigned i = 0; i < HOLDS; i++) {
        synced_mem *set[HELD];
        seed = seed * 1103515245 + 12345;
        for (unsigned j = 0; j < HELD; j++)
            set[j] = mine[((seed >> 16) + j) % OWN];
        const synced_mem_mode mode = i % 2 ? SYNCED_MEM_READ : SYNCED_MEM_MUTABLE;
        const bool held = synced_mem_hold_n(set, HELD, SYNCED_MEM_SIDE_CPU, mode, NULL) == SYNCED_MEM_OK;
        SOUND(held);
        if (!held)
            break;
        for (unsigned j = 0; j < HELD; j++)
            SOUND(synced_mem_access(set[j], SYNCED_MEM_SIDE_CPU, mode, NULL));
        SOUND(synced_mem_unhold_n(set, HELD, SYNCED_MEM_SIDE_CPU) == SYNCED_MEM_OK);
    }
    return NULL;
}

/* The budget has room for what all threads hold, and for no byte more. So no hold is refused, whatever others evict. */
START_TEST(sets_that_fit_are_never_refused)
{
    synced_mem_file *const scratch = make_scratch();
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS * OWN; i++) {
        own[i / OWN][i % OWN] = make_evictable("own", 4096);
        host_fill(given(synced_mem_overwrite_cpu_data(own[i / OWN][i % OWN])), 4096, i);
    }
    set_host_budget((uint64_t)THREADS * HELD * 4096, scratch);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, hold_own, own[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    for (unsigned i = 0; i < THREADS * OWN; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(own[i / OWN][i % OWN])), 4096, i));
    release_all(own[0], THREADS * OWN);
    end_scratch(scratch);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_budget_meanwhile");
    TCase *const tests = add_case(made, "meanwhile");
    add_gpu_loop_test(tests, contents_change_meanwhile, 0, ACTS);
    add_gpu_tests(tests, a_victim_that_another_call_works_on_goes_last, a_victim_that_is_held_after_it_has_gone,
                  a_scratch_file_that_goes_before_a_spill, a_fork_during_a_spill,
                  a_victim_that_is_resized_before_its_spill, a_victim_that_is_cleared_meanwhile_goes);
    add_gpu_tests(tests, a_victim_that_is_held_before_its_eviction);
    add_gpu_loop_test(tests, an_only_victim_that_another_call_works_on, 0, 2);
    add_gpu_loop_test(tests, two_threads_set_the_budget, 0, 2);
    add_gpu_loop_test(tests, threads_share_the_budget, 0, 3);
    add_gpu_tests(tests, sets_that_fit_are_never_refused);
    return made;
}
