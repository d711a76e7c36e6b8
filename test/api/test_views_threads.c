/* Checks threads on views of one object, beside threads that make and release views; and very many views. */
#include "views_kit.h"

#include <pthread.h>
#include <sched.h>

enum { WORKERS = 2, SHARE = 8000, ROUNDS = 60, THREADS = 6 };

static synced_mem *root;
static atomic_bool over;

static void must(synced_mem_status status)
{
    SOUND(status == SYNCED_MEM_OK);
}

static unsigned next(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* ---- Two threads with a view each, and a third ---- */

struct worker {
    synced_mem *view;
    synced_mem_stream stream;
    unsigned seed;
    pthread_t thread;
};

static bool has_pattern(synced_mem *view, unsigned pattern)
{
    const void *const data = synced_mem_cpu_data(view);
    SOUND(data);
    if (!data)
        return false;
    gpu_note_host_read(data, SHARE);
    return pattern_is(data, SHARE, pattern);
}

static void write_by_host(synced_mem *view, unsigned pattern)
{
    void *const data = synced_mem_mutable_cpu_data(view);
    SOUND(data);
    if (!data)
        return;
    gpu_note_host_write(data, SHARE);
    pattern_write(data, SHARE, pattern);
}

static void write_by_kernel(synced_mem *view, unsigned pattern, synced_mem_stream stream)
{
    void *const data = synced_mem_mutable_gpu_data_on(view, stream);
    SOUND(data);
    SOUND(data && gpu_try_fill(data, SHARE, pattern, stream));
}

static void *work(void *argument)
{
    struct worker *const worker = argument;
    unsigned pattern = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const unsigned action = next(&worker->seed, 4);
        SOUND(has_pattern(worker->view, pattern));
        pattern++;
        if (gpu_expected() && action == 0) {
            write_by_kernel(worker->view, pattern, worker->stream);
        } else if (gpu_expected() && action == 1) {
            write_by_kernel(worker->view, pattern, worker->stream);
            must(synced_mem_async_cpu_pull(worker->view, worker->stream));
        } else {
            write_by_host(worker->view, pattern);
            if (gpu_expected() && action == 2)
                must(synced_mem_async_gpu_push(worker->view, worker->stream));
        }
        SOUND(synced_mem_head(worker->view) != SYNCED_MEM_UNINITIALIZED);
    }
    SOUND(has_pattern(worker->view, pattern));
    return NULL;
}

/* Makes views everywhere, and uses bytes of which the others know nothing. */
static void *come_and_go(void *unused)
{
    unsigned seed = fixture_schedule() + 99, pattern = 0;
    synced_mem *views[5] = {NULL}, *own = NULL;
    must(synced_mem_view(&own, root, (size_t)WORKERS * SHARE, SHARE, NULL));
    while (!atomic_load(&over)) {
        synced_mem **const view = &views[next(&seed, 5)];
        must(synced_mem_release(*view));
        const unsigned offset = next(&seed, ROOT - 1);
        must(synced_mem_view(view, root, offset, 1 + next(&seed, ROOT - offset), NULL));
        SOUND(synced_mem_root(*view) == root);
        SOUND(synced_mem_head(*view) <= SYNCED_MEM_MIXED);
        SOUND(has_pattern(own, pattern));
        write_by_host(own, ++pattern);
        (void)sched_yield();
    }
    SOUND(has_pattern(own, pattern));
    for (int i = 0; i < 5; i++)
        must(synced_mem_release(views[i]));
    must(synced_mem_release(own));
    return unused;
}

START_TEST(side_by_side)
{
    struct worker workers[WORKERS];
    pthread_t third;
    root = make_root(_i);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.view = view_of(root, (size_t)i * SHARE, SHARE), .seed = i + fixture_schedule()};
        workers[i].stream = gpu_expected() ? open_stream(NON_BLOCKING) : NULL;
    }
    ck_assert_int_eq(pthread_create(&third, NULL, come_and_go, NULL), 0);
    for (int i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(third, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    for (int i = 0; i < WORKERS; i++) {
        OK(synced_mem_release(workers[i].view));
        if (workers[i].stream)
            close_stream(workers[i].stream);
    }
    OK(synced_mem_release(root));
}
END_TEST

/* ---- Threads that divide an object and make it whole, and ask for facts that need no lock ---- */

static pthread_barrier_t together;

static void *divide_and_release(void *which)
{
    const size_t me = (size_t)which;
    unsigned seed = (unsigned)me + fixture_schedule();
    for (unsigned i = 0; i < ROUNDS; i++) {
        synced_mem *view = NULL, *inner = NULL;
        const size_t size = ROOT / THREADS - next(&seed, 100);
        if (i % 8 == 0)
            (void)pthread_barrier_wait(&together);
        SOUND(synced_mem_placement(root) == SYNCED_MEM_PLACEMENT_SEPARATE && synced_mem_device(root) < 1);
        must(synced_mem_view(&view, root, me * (ROOT / THREADS), size, NULL));
        unsigned char *const data = synced_mem_mutable_cpu_data(view);
        SOUND(data && (i == 0 || data[0] == (unsigned char)(me + i - 1)));
        if (!data)
            return NULL;
        gpu_note_host_write(data, 1);
        data[0] = (unsigned char)(me + i);
        must(synced_mem_view(&inner, view, 0, 1 + next(&seed, 3), NULL));
        must(synced_mem_release(view));
        if (gpu_expected() && i % 3 == 0)
            must(synced_mem_async_gpu_push(inner, NULL));
        const unsigned char *const again = synced_mem_cpu_data(inner);
        SOUND(again == data && again[0] == (unsigned char)(me + i));
        must(synced_mem_release(inner));
    }
    return NULL;
}

START_TEST(divided_again_and_again)
{
    pthread_t threads[THREADS];
    root = make_root(false);
    host_writes(root, 0);
    ck_assert_int_eq(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, divide_and_release, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(pthread_barrier_destroy(&together), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    const unsigned char *const data = given(synced_mem_cpu_data(root));
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_uint_eq(data[i * (ROOT / THREADS)], (unsigned char)(i + ROUNDS - 1));
    OK(synced_mem_release(root));
}
END_TEST

/* ---- Threads that read overlapping views: each byte is transferred once ---- */

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
    if (!gpu_expected())
        return;
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
    tcase_add_loop_test(threads, side_by_side, 0, 2);
    tcase_add_test(threads, divided_again_and_again);
    tcase_add_loop_test(threads, one_transfer, 0, 2);
    TCase *const many = add_case(made, "many");
    tcase_add_test(many, very_many);
    return made;
}
