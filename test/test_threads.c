/* Several threads in the library at once. What they must not do to each other is seen best under the thread sanitizer. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 8, SIZE = 20000, ROUNDS = 30 };

static pthread_barrier_t together;
static synced_mem *shared;
static const void *seen[THREADS];
static atomic_int wrong;

/* Check's own assertions are for the main thread. */
#define SOUND(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,                          \
                          synced_mem_last_error_message());                                                            \
            atomic_fetch_add(&wrong, 1);                                                                               \
        }                                                                                                              \
    } while (0)

static void run(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    ck_assert_int_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(pthread_barrier_destroy(&together), 0);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}

static void check_one_pointer(void)
{
    for (int i = 0; i < THREADS; i++) {
        ck_assert_ptr_nonnull(seen[i]);
        ck_assert_ptr_eq(seen[i], seen[0]);
    }
}

/* ---- First accesses of one object ---- */

static void *first_host_read(void *which)
{
    (void)pthread_barrier_wait(&together);
    const void *const data = synced_mem_cpu_data(shared);
    seen[(size_t)which] = data;
    SOUND(data && pattern_is(data, SIZE, 0));
    return NULL;
}

START_TEST(zeros_by_all)
{
    for (int round = 0; round < ROUNDS; round++) {
        shared = make(SIZE);
        run(first_host_read);
        check_one_pointer();
        OK(synced_mem_release(shared));
    }
    ck_assert_uint_eq(stats_now().host_allocations, ROUNDS);
}
END_TEST

static void *first_device_read(void *which)
{
    (void)pthread_barrier_wait(&together);
    seen[(size_t)which] = synced_mem_gpu_data(shared);
    SOUND(pattern_is(synced_mem_cpu_data(shared), SIZE, 1));
    return NULL;
}

START_TEST(one_transfer_to_the_device)
{
    for (unsigned round = 0; gpu_expected() && round < ROUNDS; round++) {
        shared = make_at_cpu(SIZE, 1);
        run(first_device_read);
        check_one_pointer();
        ck_assert(device_is(seen[0], SIZE, 1));
        ck_assert_uint_eq(stats_now().h2d_transfers, round + 1);
        OK(synced_mem_release(shared));
    }
}
END_TEST

static void *first_read_back(void *which)
{
    (void)pthread_barrier_wait(&together);
    const void *const data = synced_mem_cpu_data(shared);
    seen[(size_t)which] = data;
    SOUND(data && pattern_is(data, SIZE, 1));
    return NULL;
}

START_TEST(one_transfer_to_the_host)
{
    for (unsigned round = 0; gpu_expected() && round < ROUNDS; round++) {
        shared = make_at_gpu(SIZE, 1);
        run(first_read_back);
        check_one_pointer();
        ck_assert_uint_eq(stats_now().d2h_transfers, round + 1);
        OK(synced_mem_release(shared));
    }
}
END_TEST

/* ---- Everything at once ---- */

static void *own_objects(void *which)
{
    const unsigned pattern = (unsigned)(size_t)which + 1;
    (void)pthread_barrier_wait(&together);
    for (int round = 0; round < ROUNDS; round++) {
        synced_mem *mem = NULL;
        SOUND(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
        pattern_write(synced_mem_overwrite_cpu_data(mem), SIZE, pattern);
        if (gpu_expected()) {
            SOUND(synced_mem_async_gpu_push(mem, NULL) == SYNCED_MEM_OK);
            SOUND(synced_mem_mutable_gpu_data(mem) != NULL);
            SOUND(round % 2 || synced_mem_release_cpu_data(mem) == SYNCED_MEM_OK);
        }
        SOUND(pattern_is(synced_mem_cpu_data(mem), SIZE, pattern));
        SOUND(synced_mem_retain(mem) == SYNCED_MEM_OK);
        SOUND(synced_mem_release(mem) == SYNCED_MEM_OK);
        SOUND(synced_mem_release(mem) == SYNCED_MEM_OK);
    }
    return NULL;
}

START_TEST(objects_of_their_own)
{
    run(own_objects);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

/* One object, with the pointers left alone: its state stays whole whatever comes together. */
static void *anything(void *which)
{
    const size_t me = (size_t)which;
    (void)pthread_barrier_wait(&together);
    for (size_t round = 0; round < ROUNDS * 4; round++) {
        switch ((round * 7 + me * 3) % 12) {
        case 0:
            SOUND(synced_mem_cpu_data(shared));
            break;
        case 1:
            SOUND(synced_mem_mutable_cpu_data(shared));
            break;
        case 2:
            SOUND(synced_mem_overwrite_cpu_data(shared));
            break;
        case 3:
            SOUND(!gpu_expected() || synced_mem_gpu_data(shared));
            break;
        case 4:
            SOUND(!gpu_expected() || synced_mem_mutable_gpu_data(shared));
            break;
        case 5:
            SOUND(!gpu_expected() || synced_mem_overwrite_gpu_data(shared));
            break;
        case 6:
            (void)synced_mem_async_gpu_push(shared, NULL);
            break;
        case 7:
            (void)synced_mem_release_cpu_data(shared);
            break;
        case 8:
            (void)synced_mem_release_gpu_data(shared);
            break;
        case 9:
            SOUND(synced_mem_release_data(shared) == SYNCED_MEM_OK);
            break;
        case 10:
            SOUND(synced_mem_retain(shared) == SYNCED_MEM_OK);
            SOUND(synced_mem_release(shared) == SYNCED_MEM_OK);
            break;
        case 11:
            SOUND(synced_mem_head(shared) <= SYNCED_MEM_SYNCED);
            SOUND(synced_mem_cpu_source(shared) <= SYNCED_MEM_SOURCE_ADOPTED);
            SOUND(synced_mem_gpu_source(shared) <= SYNCED_MEM_SOURCE_ADOPTED);
            SOUND(synced_mem_device(shared) <= 0);
            break;
        }
    }
    return NULL;
}

START_TEST(all_calls_at_once)
{
    shared = make_at_cpu(SIZE, 1);
    run(anything);
    host_fill(synced_mem_mutable_cpu_data(shared), SIZE, 2);
    if (gpu_expected())
        ck_assert(device_is(synced_mem_gpu_data(shared), SIZE, 2));
    OK(synced_mem_release(shared));
}
END_TEST

/* The last of them frees the object, whichever that is. */
static void *retain_and_release(void *which)
{
    (void)which;
    (void)pthread_barrier_wait(&together);
    for (int round = 0; round < ROUNDS * 10; round++) {
        SOUND(synced_mem_retain(shared) == SYNCED_MEM_OK);
        SOUND(synced_mem_release(shared) == SYNCED_MEM_OK);
    }
    SOUND(synced_mem_release(shared) == SYNCED_MEM_OK);
    return NULL;
}

START_TEST(references)
{
    shared = make_at_cpu(SIZE, 1);
    for (int i = 1; i < THREADS; i++)
        OK(synced_mem_retain(shared));
    run(retain_and_release);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

/* A handler always comes with the user pointer that belongs to it. */
static int users[2];

static void first_handler(synced_mem_status status, const char *message, void *user)
{
    (void)status, (void)message;
    SOUND(user == &users[0]);
}

static void second_handler(synced_mem_status status, const char *message, void *user)
{
    (void)status, (void)message;
    SOUND(user == &users[1]);
}

static void *set_and_fail(void *which)
{
    (void)pthread_barrier_wait(&together);
    for (int round = 0; round < ROUNDS * 10; round++) {
        if ((size_t)which % 2)
            synced_mem_set_error_handler(round % 2 ? first_handler : second_handler, &users[round % 2 ? 0 : 1]);
        else
            SOUND(synced_mem_retain(NULL) == SYNCED_MEM_ERR_INVALID_ARGUMENT);
    }
    return NULL;
}

START_TEST(handlers)
{
    run(set_and_fail);
    synced_mem_set_error_handler(NULL, NULL);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("threads");
    TCase *const first = add_case(made, "first");
    tcase_add_test(first, zeros_by_all);
    tcase_add_test(first, one_transfer_to_the_device);
    tcase_add_test(first, one_transfer_to_the_host);
    TCase *const all = add_case(made, "all");
    tcase_add_test(all, objects_of_their_own);
    tcase_add_test(all, all_calls_at_once);
    tcase_add_test(all, references);
    tcase_add_test(all, handlers);
    return made;
}
