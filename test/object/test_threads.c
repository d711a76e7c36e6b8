/* Checks several threads in the library at once. Races between them show best under the thread sanitizer. */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 8, SIZE = 20000, ROUNDS = 30 };

static pthread_barrier_t together;
static synced_mem *shared;
static const void *seen[THREADS];
static void run(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    ck_assert_int_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(pthread_barrier_destroy(&together), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
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

/* ---- The race in Caffe ---- */

/*
 * Two threads make the first accesses to objects, both to the same object at the same time. All schedules and sides
 * together make 100,000 objects. A sanitizer needs fewer to find a race.
 */
enum { RACES = SANITIZED ? 5000 : 100000 };
enum { OBJECTS = 500, SMALL = 64, SIDES_OF_RACES = 4 };

static struct race {
    synced_mem *mem;
    atomic_int arrived;
    const void *host[2], *device[2]; /* the pointers that each thread got */
} races[OBJECTS];

/* The sides that the two threads request. */
enum asked { BOTH_HOST, BOTH_DEVICE, ONE_EACH, HOST_OF_DEVICE };
static enum asked asked;

static void meet(struct race *race)
{
    atomic_fetch_add(&race->arrived, 1);
    while (atomic_load(&race->arrived) < 2)
        (void)sched_yield();
}

static void *race_through(void *which)
{
    const size_t me = (size_t)which;
    for (int i = 0; i < OBJECTS; i++) {
        struct race *const race = &races[i];
        meet(race);
        if (asked == BOTH_DEVICE || (asked == ONE_EACH && me == 0))
            race->device[me] = synced_mem_gpu_data(race->mem);
        else
            race->host[me] = synced_mem_cpu_data(race->mem);
    }
    return NULL;
}

static void make_race(struct race *race)
{
    *race = (struct race){.mem = NULL};
    if (asked == HOST_OF_DEVICE)
        race->mem = make_at_gpu(SMALL, 1);
    else
        race->mem = asked == BOTH_DEVICE ? make_at_cpu(SMALL, 1) : make(SMALL);
}

static void check_race(const struct race *race)
{
    const unsigned pattern = asked == BOTH_DEVICE || asked == HOST_OF_DEVICE ? 1 : 0;
    if (asked == BOTH_HOST || asked == HOST_OF_DEVICE) {
        ck_assert_ptr_eq(race->host[0], race->host[1]);
        ck_assert(host_is(race->host[0], SMALL, pattern));
    } else if (asked == BOTH_DEVICE) {
        ck_assert_ptr_nonnull(race->device[0]);
        ck_assert_ptr_eq(race->device[0], race->device[1]);
    } else {
        ck_assert_ptr_nonnull(race->device[0]);
        ck_assert(host_is(race->host[1], SMALL, pattern));
        ck_assert_int_eq(synced_mem_head(race->mem), SYNCED_MEM_SYNCED);
    }
    OK(synced_mem_release(race->mem));
}

static void run_races(void)
{
    pthread_t threads[2];
    const synced_mem_stats before = stats_now();
    for (int i = 0; i < OBJECTS; i++)
        make_race(&races[i]);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, race_through, (void *)i), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    const synced_mem_stats after = stats_now();
    const uint64_t moved = after.h2d_transfers + after.d2h_transfers - before.h2d_transfers - before.d2h_transfers;
    ck_assert_uint_eq(moved, asked == BOTH_HOST ? 0 : OBJECTS);
    for (int i = 0; i < OBJECTS; i++)
        check_race(&races[i]);
}

START_TEST(two_at_the_first_access)
{
    asked = (enum asked)_i;
    if (asked != BOTH_HOST && !gpu_expected())
        return;
    for (int done = 0; done < RACES / SIDES_OF_RACES / gpu_schedules(); done += OBJECTS)
        run_races();
}
END_TEST

/* ---- Streams ---- */

/* Each thread reads on streams of its own, and destroys them. The next stream may get the handle, in another thread. */
static void *seen_by[THREADS];

static void *read_on_streams(void *which)
{
    const size_t me = (size_t)which;
    (void)pthread_barrier_wait(&together);
    for (int round = 0; round < ROUNDS; round++) {
        synced_mem_stream stream = gpu_stream_create(0, round % 2 == 0);
        const void *const data = synced_mem_gpu_data_on(shared, stream);
        SOUND(data != NULL);
        SOUND(gpu_try_copy(seen_by[me], data, SIZE, stream));
        if (round % 3 == 0)
            SOUND(synced_mem_end_use_on(shared, stream) == SYNCED_MEM_OK);
        if (round % 3 == 1)
            SOUND(synced_mem_gpu_data_on(shared, stream) == data);
        gpu_stream_sync(stream);
        SOUND(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
        gpu_stream_destroy(stream);
    }
    return NULL;
}

START_TEST(readers_on_streams)
{
    for (int i = 0; i < THREADS; i++)
        seen_by[i] = gpu_alloc(0, SIZE);
    shared = make_at_cpu(SIZE, 1);
    run(read_on_streams);
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    host_fill(synced_mem_mutable_cpu_data(shared), SIZE, 2);
    ck_assert(device_is(synced_mem_gpu_data(shared), SIZE, 2));
    for (int i = 0; i < THREADS; i++) {
        ck_assert(device_is(seen_by[i], SIZE, 1));
        gpu_free(seen_by[i]);
    }
    OK(synced_mem_release(shared));
}
END_TEST

/* One thread forgets and destroys a stream, while another thread's call ends that stream's use. */
static struct {
    atomic_int round; /* requested of the other thread, and done by it */
    atomic_int done;
} rounds;

enum { GOINGS = SANITIZED ? 500 : 10000 };

static void wait_for_round(atomic_int *of, int round)
{
    while (atomic_load(of) != round)
        (void)sched_yield();
}

static void *end_uses(void *last)
{
    for (int round = 1; round <= (int)(size_t)last; round++) {
        wait_for_round(&rounds.round, round);
        SOUND(round % 3 ? synced_mem_cpu_data(shared) : synced_mem_mutable_gpu_data(shared));
        atomic_store(&rounds.done, round);
    }
    return NULL;
}

START_TEST(streams_that_go_while_they_are_asked)
{
    const int last = GOINGS / gpu_schedules() + 1;
    pthread_t thread;
    shared = make_on(SMALL, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, end_uses, (void *)(size_t)last), 0);
    for (int round = 1; round <= last; round++) {
        synced_mem_stream stream = gpu_stream_create(0, false);
        void *const data = synced_mem_overwrite_gpu_data_on(shared, stream);
        SOUND(data && gpu_try_fill(data, SMALL, (unsigned)round, stream));
        atomic_store(&rounds.round, round);
        for (volatile int i = 0; i < round * 37 % 3000; i++)
            continue;
        SOUND(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
        gpu_stream_destroy(stream);
        wait_for_round(&rounds.done, round);
        SOUND(host_is(synced_mem_cpu_data(shared), SMALL, (unsigned)round));
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    OK(synced_mem_release(shared));
}
END_TEST

/* Each thread has an object and streams of its own. The host waits only for the contents that come back. */
static void *train(void *which)
{
    const unsigned me = (unsigned)(size_t)which * 100;
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem_stream copies = gpu_stream_create(0, false);
    synced_mem *mem = NULL;
    SOUND(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    (void)pthread_barrier_wait(&together);
    for (unsigned round = 0; round < ROUNDS; round++) {
        void *const host = synced_mem_overwrite_cpu_data(mem);
        gpu_note_host_write(host, SIZE);
        pattern_write(host, SIZE, me + round);
        SOUND(synced_mem_async_gpu_push(mem, copies) == SYNCED_MEM_OK);
        SOUND(synced_mem_gpu_data_on(mem, stream) != NULL);
        void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
        SOUND(data && gpu_try_fill(data, SIZE, me + round + 1, stream));
        SOUND(synced_mem_async_cpu_pull(mem, copies) == SYNCED_MEM_OK);
        const void *const back = synced_mem_cpu_data(mem);
        gpu_note_host_read(back, SIZE);
        SOUND(pattern_is(back, SIZE, me + round + 1));
    }
    SOUND(synced_mem_release(mem) == SYNCED_MEM_OK);
    synced_mem_stream const both[] = {stream, copies};
    for (int i = 0; i < 2; i++) {
        gpu_stream_sync(both[i]);
        SOUND(synced_mem_forget_stream(both[i]) == SYNCED_MEM_OK);
        gpu_stream_destroy(both[i]);
    }
    return NULL;
}

START_TEST(streams_of_their_own)
{
    if (gpu_expected())
        run(train);
}
END_TEST

/* The threads push and pull the same two objects in different orders. No two of these calls wait for each other. */
static synced_mem *pair[2];

static void *move_both(void *which)
{
    const size_t me = (size_t)which;
    synced_mem *const orders[][3] = {{pair[0], pair[1], pair[0]}, {pair[1], pair[0], pair[1]}};
    (void)pthread_barrier_wait(&together);
    for (size_t round = 0; round < ROUNDS; round++) {
        synced_mem *const *const order = orders[(me + round) % 2];
        SOUND(synced_mem_async_gpu_push_n(order, 3, NULL) == SYNCED_MEM_OK);
        SOUND(synced_mem_async_cpu_pull_n(order, 2, NULL) == SYNCED_MEM_OK);
        SOUND(synced_mem_wait(order[0]) == SYNCED_MEM_OK);
        SOUND(synced_mem_reap() == SYNCED_MEM_OK);
    }
    return NULL;
}

START_TEST(many_objects_in_many_orders)
{
    for (unsigned i = 0; i < 2; i++)
        pair[i] = make_at_cpu(SIZE, i + 1);
    run(move_both);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(host_is(synced_mem_cpu_data(pair[i]), SIZE, i + 1));
        OK(synced_mem_release(pair[i]));
    }
}
END_TEST

/* ---- All calls at once ---- */

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

/* All calls on one object, whose pointers are not used. Its state stays consistent. */
static void *anything(void *which)
{
    const size_t me = (size_t)which;
    (void)pthread_barrier_wait(&together);
    for (size_t round = 0; round < ROUNDS * 4; round++) {
        switch ((round * 7 + me * 3) % 20) {
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
        case 12:
            SOUND(!gpu_expected() || synced_mem_gpu_data_on(shared, NULL));
            break;
        case 13:
            SOUND(!gpu_expected() || synced_mem_mutable_gpu_data_on(shared, NULL));
            break;
        case 14:
            SOUND(!gpu_expected() || synced_mem_end_use_on(shared, NULL) == SYNCED_MEM_OK);
            break;
        case 15:
            (void)synced_mem_async_cpu_pull(shared, NULL);
            break;
        case 16:
            SOUND(synced_mem_wait(shared) == SYNCED_MEM_OK);
            break;
        case 17:
            SOUND(synced_mem_resize(shared, round % 2 ? SIZE : SIZE / 2) == SYNCED_MEM_OK);
            break;
        case 18:
            SOUND(synced_mem_resize_discard(shared, round % 2 ? SIZE / 3 : SIZE) == SYNCED_MEM_OK);
            break;
        case 19:
            SOUND(synced_mem_cpu_capacity(shared) <= 2 * SIZE && synced_mem_gpu_capacity(shared) <= 2 * SIZE);
            break;
        }
    }
    return NULL;
}

START_TEST(all_calls_at_once)
{
    shared = make_at_cpu(SIZE, 1);
    run(anything);
    OK(synced_mem_resize(shared, SIZE));
    host_fill(synced_mem_mutable_cpu_data(shared), SIZE, 2);
    if (gpu_expected())
        ck_assert(device_is(synced_mem_gpu_data(shared), SIZE, 2));
    OK(synced_mem_release(shared));
}
END_TEST

/* The last release frees the object, in any thread. */
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

/* A handler is always called with its own user pointer. */
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
    add_tests(first, zeros_by_all, one_transfer_to_the_device, one_transfer_to_the_host);
    tcase_add_loop_test(first, two_at_the_first_access, 0, SIDES_OF_RACES);
    TCase *const streams = add_case(made, "streams");
    tcase_add_test(streams, streams_of_their_own);
    add_gpu_tests(streams, readers_on_streams, many_objects_in_many_orders, streams_that_go_while_they_are_asked);
    TCase *const all = add_case(made, "all");
    add_tests(all, objects_of_their_own, all_calls_at_once, references, handlers);
    return made;
}
