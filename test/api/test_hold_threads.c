/* Tests threads that hold overlapping sets under a budget: each gets its turn, and nobody's contents are lost. */
#include "hold_kit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { THREADS = 4, SETS = 5, ROUNDS = 60, SMALL = 5000, POOL = 8 };

static synced_mem *pool[POOL];
static atomic_uint written[POOL]; /* how often each was written */
static pthread_mutex_t turns[POOL];

/* Two of the sets of a thread are of neighbours in the pool, so each overlaps those of others. */
static void take_set(unsigned thread, unsigned round, synced_mem **set, unsigned *first)
{
    *first = (thread * 2 + round * 3) % POOL;
    for (unsigned i = 0; i < SETS; i++)
        set[i] = pool[(*first + i) % POOL];
}

static void lock_set(unsigned first, bool locks)
{
    for (unsigned at = 0; at < POOL; at++)
        if ((at + POOL - first) % POOL < SETS) {
            if (locks)
                pthread_mutex_lock(&turns[at]);
            else
                pthread_mutex_unlock(&turns[at]);
        }
}

/* Several threads read and write, so the program orders the writes to one object. The holds overlap all the same. */
static void use_set(synced_mem *const *set, unsigned first, synced_mem_stream stream)
{
    lock_set(first, true);
    for (unsigned i = 0; i < SETS; i++) {
        const unsigned at = (first + i) % POOL;
        static const unsigned char kinds = 251;
        unsigned char expected[SMALL];
        const unsigned before = atomic_load(&written[at]);
        pattern_write(expected, SMALL, (at * 31 + before) % kinds);
        void *const data = synced_mem_mutable_gpu_data_on(set[i], stream);
        SOUND(data != NULL);
        if (!data)
            continue;
        gpu_expect(data, SMALL, expected, stream);
        gpu_fill(data, SMALL, (at * 31 + before + 1) % kinds, stream);
        atomic_store(&written[at], before + 1);
    }
    lock_set(first, false);
}

static void *run_thread(void *argument)
{
    const unsigned thread = *(const unsigned *)argument;
    const synced_mem_stream stream = gpu_stream_create(0, false);
    for (unsigned round = 0; round < ROUNDS; round++) {
        synced_mem *set[SETS];
        unsigned first;
        take_set(thread, round, set, &first);
        synced_mem_status status;
        while ((status = synced_mem_hold_n(set, SETS, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, stream)) ==
               SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY)
            sched_yield(); /* others hold too much */
        SOUND(status == SYNCED_MEM_OK);
        if (status != SYNCED_MEM_OK)
            break;
        use_set(set, first, stream);
        SOUND(synced_mem_unhold_n(set, SETS, SYNCED_MEM_SIDE_GPU) == SYNCED_MEM_OK);
    }
    gpu_stream_sync(stream);
    SOUND(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    gpu_stream_destroy(stream);
    return NULL;
}

static void make_pool(void)
{
    for (unsigned i = 0; i < POOL; i++) {
        pool[i] = make_evictable("pool", SMALL);
        pthread_mutex_init(&turns[i], NULL);
        host_fill(given(synced_mem_overwrite_cpu_data(pool[i])), SMALL, i * 31 % 251);
    }
}

/* From a budget that has room for one set, to one that has room for all. */
START_TEST(overlapping_sets)
{
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    make_pool();
    set_budget((uint64_t)(SETS + _i) * SMALL);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_thread, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    unsigned all = 0;
    for (unsigned i = 0; i < POOL; i++) {
        all += atomic_load(&written[i]);
        ck_assert(host_is(given(synced_mem_cpu_data(pool[i])), SMALL, (i * 31 + atomic_load(&written[i])) % 251));
    }
    ck_assert_uint_eq(all, THREADS * ROUNDS * SETS);
    release_all(pool, POOL);
}
END_TEST

static atomic_bool stops;

/* Accesses to the host, pushes, releases of memory and resizes go on beside the holds. */
static void *disturb(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !atomic_load(&stops); i++) {
        synced_mem *const mem = pool[i % POOL];
        (void)synced_mem_async_gpu_push(mem, SYNCED_MEM_STREAM_LIBRARY);
        (void)synced_mem_head(mem);
        (void)synced_mem_release_gpu_data(mem);
        SOUND(synced_mem_cpu_data(mem) != NULL);
        (void)synced_mem_gpu_set_budget(0, (uint64_t)(SETS + i % 2) * SMALL, NULL);
    }
    return NULL;
}

static void *hold_and_unhold(void *argument)
{
    const unsigned thread = *(const unsigned *)argument;
    for (unsigned round = 0; round < 4 * ROUNDS; round++) {
        synced_mem *set[SETS];
        unsigned first;
        take_set(thread, round, set, &first);
        const synced_mem_status status =
            synced_mem_hold_n(set, SETS, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, SYNCED_MEM_STREAM_LIBRARY);
        SOUND(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
        if (status == SYNCED_MEM_OK)
            SOUND(synced_mem_unhold_n(set, SETS, SYNCED_MEM_SIDE_GPU) == SYNCED_MEM_OK);
        sched_yield();
    }
    return NULL;
}

START_TEST(beside_other_calls)
{
    pthread_t threads[THREADS + 1];
    unsigned numbers[THREADS];
    make_pool();
    set_budget(SETS * SMALL);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, hold_and_unhold, &numbers[i]), 0);
    }
    ck_assert_int_eq(pthread_create(&threads[THREADS], NULL, disturb, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stops, true);
    pthread_join(threads[THREADS], NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    for (unsigned i = 0; i < POOL; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(pool[i])), SMALL, i * 31 % 251));
    set_budget(SYNCED_MEM_NO_BUDGET);
    OK(synced_mem_hold_n(pool, POOL, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL));
    OK(synced_mem_unhold_n(pool, POOL, SYNCED_MEM_SIDE_GPU));
    release_all(pool, POOL);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_threads");
    TCase *const threads = add_case(made, "threads");
    add_gpu_loop_test(threads, overlapping_sets, 0, 4);
    add_gpu_tests(threads, beside_other_calls);
    return made;
}
