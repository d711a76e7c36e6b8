/* Tests threads that hold overlapping sets, of which the union fits exactly: no hold is refused. */
#include "hold_kit.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 400, SIZE = 5000, POOL = 14, FIT = 6, MOST = 5 };

static synced_mem *pool[POOL];
static synced_mem_side side;
static pthread_mutex_t turns[POOL]; /* the program orders accesses that conflict */
static pthread_mutex_t choice = PTHREAD_MUTEX_INITIALIZER;
static unsigned users[POOL]; /* threads whose present set has the object; guarded by choice, like the next */
static unsigned in_use;      /* objects with users */

static unsigned take_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33);
}

/* Chooses objects of which the union with the sets of all threads has FIT at most. Returns how many. */
static unsigned choose_set(uint64_t *state, unsigned *set)
{
    const unsigned wanted = 1 + take_random(state) % MOST;
    unsigned count = 0;
    bool taken[POOL] = {false};
    (void)pthread_mutex_lock(&choice);
    for (unsigned tries = 0; tries < 4 * POOL && count < wanted; tries++) {
        const unsigned at = take_random(state) % POOL;
        if (taken[at] || (users[at] == 0 && in_use == FIT))
            continue;
        taken[at] = true;
        in_use += users[at]++ == 0;
        set[count++] = at;
    }
    (void)pthread_mutex_unlock(&choice);
    return count;
}

static void give_set(const unsigned *set, unsigned count)
{
    (void)pthread_mutex_lock(&choice);
    for (unsigned i = 0; i < count; i++)
        in_use -= --users[set[i]] == 0;
    (void)pthread_mutex_unlock(&choice);
}

/* Writes what is there already, so that the other copy is stale. */
static void use_on_device(unsigned at, bool is_written, synced_mem_stream stream)
{
    (void)pthread_mutex_lock(&turns[at]);
    void *const data = is_written ? synced_mem_mutable_gpu_data_on(pool[at], stream) : NULL;
    SOUND(is_written ? data != NULL : synced_mem_gpu_data_on(pool[at], stream) != NULL);
    if (data)
        gpu_fill(data, SIZE, at, stream);
    (void)pthread_mutex_unlock(&turns[at]);
}

/* Host copies that are written would need a scratch file, so they are only read. */
static void use_set(const unsigned *set, unsigned count, bool is_written, synced_mem_stream stream)
{
    for (unsigned i = 0; i < count; i++) {
        if (side == SYNCED_MEM_SIDE_GPU)
            use_on_device(set[i], is_written, stream);
        else
            SOUND(host_is(synced_mem_cpu_data(pool[set[i]]), SIZE, set[i]));
    }
}

static void *run_thread(void *argument)
{
    uint64_t state = *(const unsigned *)argument;
    const synced_mem_stream stream = gpu_stream_create(0, false);
    for (unsigned round = 0; round < ROUNDS && atomic_load(&unsound) == 0; round++) {
        unsigned set[MOST];
        synced_mem *mems[MOST];
        const unsigned count = choose_set(&state, set);
        const bool is_written = side == SYNCED_MEM_SIDE_GPU && take_random(&state) % 2 == 0;
        for (unsigned i = 0; i < count; i++)
            mems[i] = pool[set[i]];
        const synced_mem_status status =
            synced_mem_hold_n(mems, count, side, is_written ? SYNCED_MEM_MUTABLE : SYNCED_MEM_READ, stream);
        SOUND(status == SYNCED_MEM_OK);
        if (status == SYNCED_MEM_OK) {
            use_set(set, count, is_written, stream);
            SOUND(synced_mem_unhold_n(mems, count, side) == SYNCED_MEM_OK);
        }
        give_set(set, count);
    }
    gpu_stream_sync(stream);
    SOUND(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    gpu_stream_destroy(stream);
    return NULL;
}

static void run_threads(unsigned seed)
{
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = seed * THREADS + i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_thread, &seeds[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

static void make_pool(void)
{
    for (unsigned i = 0; i < POOL; i++) {
        pool[i] = make_evictable("pool", SIZE);
        (void)pthread_mutex_init(&turns[i], NULL);
        host_fill(given(synced_mem_overwrite_cpu_data(pool[i])), SIZE, i);
    }
}

START_TEST(sets_that_fit_on_the_device)
{
    side = SYNCED_MEM_SIDE_GPU;
    make_pool();
    set_budget(FIT * SIZE);
    run_threads((unsigned)_i);
    ck_assert_uint_le(stats_now().gpu_bytes, FIT * SIZE);
    for (unsigned i = 0; i < POOL; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(pool[i])), SIZE, i));
    release_all(pool, POOL);
}
END_TEST

START_TEST(sets_that_fit_on_the_host)
{
    side = SYNCED_MEM_SIDE_CPU;
    make_pool();
    OK(synced_mem_async_gpu_push_n(pool, POOL, NULL));
    OK(synced_mem_cpu_set_budget(FIT * SIZE, NULL, NULL));
    run_threads((unsigned)_i);
    OK(synced_mem_cpu_set_budget(SYNCED_MEM_NO_BUDGET, NULL, NULL));
    release_all(pool, POOL);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_overlaps");
    TCase *const threads = add_case(made, "threads");
    add_gpu_loop_test(threads, sets_that_fit_on_the_device, 0, 4);
    add_gpu_loop_test(threads, sets_that_fit_on_the_host, 0, 4);
    return made;
}
