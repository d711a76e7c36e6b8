/* Checks threads that read overlapping views at the same time, and very many views. */
#include "views_kit.h"

#include <pthread.h>

enum { THREADS = 6 };

static synced_mem *root;

static void must(synced_mem_status status)
{
    SOUND(status == SYNCED_MEM_OK);
}

static unsigned next(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* ---- Threads that read overlapping views: each byte is transferred once ---- */

static pthread_barrier_t together;

static void *read_a_part(void *which)
{
    const size_t me = (size_t)which, offset = me * 2000;
    synced_mem *view = NULL;
    must(synced_mem_view(&view, root, offset, 10000, NULL));
    (void)pthread_barrier_wait(&together);
    const void *const data = synced_mem_cpu_data(view);
    SOUND(data && memcmp(data, expected + offset, 10000) == 0);
    must(synced_mem_release(view));
    return NULL;
}

START_TEST(one_transfer)
{
    pthread_t threads[THREADS];
    root = make_root(_i);
    device_writes(root, 1, NULL);
    const synced_mem_stats before = stats_now();
    ck_assert_int_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_a_part, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(pthread_barrier_destroy(&together), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    check_bytes(&before, 0, (THREADS - 1) * 2000 + 10000);
    ck_assert(host_reads_right(root));
    check_bytes(&before, 0, ROOT);
    OK(synced_mem_release(root));
}
END_TEST

/* ---- Many views ---- */

enum { MANY = 10000, EACH = 16 };

static void shuffle(unsigned *order)
{
    unsigned seed = fixture_schedule();
    for (unsigned i = 0; i < MANY; i++)
        order[i] = i;
    for (unsigned i = MANY - 1; i > 0; i--) {
        const unsigned j = next(&seed, i + 1), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

START_TEST(very_many)
{
    static synced_mem *views[MANY];
    static unsigned order[MANY];
    static unsigned char all[MANY * EACH];
    root = make_on((size_t)MANY * EACH, gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT);
    shuffle(order);
    for (unsigned i = 0; i < MANY; i++)
        views[order[i]] = view_of(root, (size_t)order[i] * EACH, EACH);
    ck_assert_uint_eq(stats_now().objects, 1 + MANY);
    for (unsigned i = 0; i < MANY; i++) {
        host_fill(given(synced_mem_mutable_cpu_data(views[order[MANY - 1 - i]])), EACH, order[MANY - 1 - i]);
        pattern_write(all + (size_t)i * EACH, EACH, i);
    }
    HEAD(root, AT_CPU);
    if (gpu_expected()) {
        synced_mem_stream stream = open_stream(NON_BLOCKING);
        const synced_mem_stats before = stats_now();
        OK(synced_mem_async_gpu_push_n(views, MANY, stream));
        check_bytes(&before, MANY * EACH, 0);
        HEAD(root, SYNCED);
        for (unsigned i = 0; i < MANY; i += 7) {
            gpu_fill(given(synced_mem_mutable_gpu_data_on(views[i], stream)), EACH, i + 1, stream);
            pattern_write(all + (size_t)i * EACH, EACH, i + 1);
        }
        HEAD(root, AT_GPU);
        OK(synced_mem_async_cpu_pull(root, stream));
        check_bytes(&before, MANY * EACH, (MANY + 6) / 7 * EACH);
        close_stream(stream);
    }
    for (unsigned i = 0; i < MANY; i++) {
        synced_mem *const view = views[order[i]];
        if (i % 10 == 0)
            ck_assert_int_eq(memcmp(given(synced_mem_cpu_data(view)), all + (size_t)order[i] * EACH, EACH), 0);
        OK(synced_mem_release(view));
    }
    ck_assert_uint_eq(stats_now().objects, 1);
    ck_assert_int_eq(memcmp(given(synced_mem_cpu_data(root)), all, sizeof all), 0);
    OK(synced_mem_resize(root, 10));
    OK(synced_mem_release(root));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views and threads");
    TCase *const threads = add_case(made, "threads");
    add_gpu_loop_test(threads, one_transfer, 0, 2);
    TCase *const many = add_case(made, "many");
    tcase_add_test(many, very_many);
    return made;
}
