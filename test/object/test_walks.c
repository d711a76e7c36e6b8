/* Checks walks over all objects. An object stays while a walk visits it, and its owner releases it afterwards. */
#include "fixture.h"
#include "base/text.h"

#include "object/objects.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SIZE = 5000 };

/* ---- A walk that visits an object ---- */

/* Called once, while a walk visits an object. */
static void (*_Atomic in_visit)(void);

struct sm_name_text __real_sm_name_text(const char *name);
struct sm_name_text __wrap_sm_name_text(const char *name);
struct sm_name_text __wrap_sm_name_text(const char *name)
{
    void (*const call)(void) = atomic_exchange(&in_visit, NULL);
    if (call)
        call();
    return __real_sm_name_text(name);
}

enum { PRINTED, REFUSED, SHUT_DOWN, KINDS };

static void walk(int kind)
{
    FILE *const file = fopen("/dev/null", "w");
    ck_assert_ptr_nonnull(file);
    if (kind == PRINTED)
        OK(synced_mem_print_all(file));
    if (kind == SHUT_DOWN)
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_shutdown());
    if (kind == REFUSED) {
        synced_mem *const wanted = make((size_t)1 << 60);
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(wanted));
        OK(synced_mem_release(wanted));
    }
    (void)fclose(file);
}

static struct {
    synced_mem *mem;
    pthread_t thread;
    atomic_bool released;
    bool released_in_visit;
    unsigned callbacks;
    bool called_by_releaser;
} it;

static char memory[SIZE];

static void let_go(void *data, void *user, synced_mem_stream stream)
{
    ck_assert_ptr_eq(data, memory);
    ck_assert_ptr_null(user);
    ck_assert_ptr_null(stream);
    it.callbacks++;
    it.called_by_releaser = pthread_equal(pthread_self(), it.thread) != 0;
}

static void *release_it(void *unused)
{
    OK(synced_mem_release(it.mem));
    atomic_store(&it.released, true);
    return unused;
}

/* The other thread has dropped its reference. It gets some time for the rest of the release. */
static void release_elsewhere(void)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    const unsigned before = atomic_load(&it.mem->references);
    ck_assert_int_eq(pthread_create(&it.thread, NULL, release_it, NULL), 0);
    while (atomic_load(&it.mem->references) == before)
        (void)sched_yield();
    (void)nanosleep(&moment, NULL);
    it.released_in_visit = atomic_load(&it.released);
}

START_TEST(release_while_a_walk_looks)
{
    it.mem = make_named("looked at", SIZE);
    OK(USE(it.mem, .cpu_data = memory, .callback = let_go));
    in_visit = release_elsewhere;
    walk(_i);
    ck_assert(in_visit == NULL);
    ck_assert_int_eq(pthread_join(it.thread, NULL), 0);
    ck_assert(!it.released_in_visit);
    ck_assert_uint_eq(it.callbacks, 1);
    ck_assert(it.called_by_releaser);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

static bool wants_what_is_released(const struct synced_mem *mem, void *unused)
{
    (void)mem, (void)unused;
    release_elsewhere();
    return true;
}

static void is_still_there(const struct synced_mem *mem, void *looks)
{
    ck_assert_ptr_eq(mem, it.mem);
    ck_assert_str_eq(synced_mem_name(mem), "chosen");
    ck_assert(!atomic_load(&it.released));
    (*(int *)looks)++;
}

/* The object that a walk chooses stays until the walk has looked at it. */
START_TEST(release_while_a_walk_chooses)
{
    struct sm_slab_walk chosen = {.begun = false};
    int looks = 0;
    it.mem = make_named("chosen", SIZE);
    ck_assert(sm_objects_next(&chosen, wants_what_is_released, is_still_there, &looks));
    ck_assert_int_eq(pthread_join(it.thread, NULL), 0);
    ck_assert_int_eq(looks, 1);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

/* The walk does not exist in the child. Neither an object that it visited at the fork waits for it, nor one in the same
 * place. */
static void live_without_the_walk(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    OK(synced_mem_release(it.mem));
    ck_assert_uint_eq(stats_now().objects, 0);
    synced_mem *const again = make(SIZE);
    walk(PRINTED);
    OK(synced_mem_release(again));
    ck_assert_uint_eq(stats_now().objects, 0);
}

static void fork_here(void)
{
    ck_assert(in_a_child(live_without_the_walk, NULL));
}

START_TEST(fork_while_a_walk_looks)
{
    synced_mem *const used = _i == 1 && gpu_expected() ? make_at_gpu(SIZE, 1) : NULL;
    OK(synced_mem_release(used));
    it.mem = make_named("looked at", SIZE);
    in_visit = fork_here;
    walk(PRINTED);
    ck_assert(in_visit == NULL);
    OK(synced_mem_release(it.mem));
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

static atomic_bool printing;

static void *print_all_the_time(void *unused)
{
    FILE *const file = fopen("/dev/null", "w");
    while (file && atomic_load(&printing))
        if (synced_mem_print_all(file) != SYNCED_MEM_OK)
            atomic_fetch_add(&unsound, 1);
    if (file)
        (void)fclose(file);
    return unused;
}

/* The last reference to a root is a view's, of 0 bytes or of all. The root's memory goes while walks may visit it. */
START_TEST(last_view_while_walks_look)
{
    enum { ROUNDS = 20000, SMALL = 256 };
    pthread_t threads[2];
    atomic_store(&printing, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, print_all_the_time, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        synced_mem *const root = make(SMALL);
        synced_mem *view;
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(root));
        OK(synced_mem_view(&view, root, 0, _i == 0 ? 0 : SMALL, NULL));
        RELEASE_EACH(root, view);
    }
    atomic_store(&printing, false);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

/* ---- A file whose writer releases the printed object ---- */

static char *borrowed;
static bool wait_fails;

/* Writes over memory that is the caller's again. */
static ssize_t release_and_write(void *cookie, const char *data, size_t size)
{
    synced_mem *const mem = it.mem;
    (void)cookie, (void)data;
    it.mem = NULL;
    if (mem && wait_fails && gpu_fail(3, 1)) {
        FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_release(mem));
        gpu_fail_no_more();
        ck_assert_uint_eq(synced_mem_size(mem), SIZE);
    }
    if (mem) {
        OK(synced_mem_release(mem));
        gpu_note_host_write(borrowed, SIZE);
        pattern_write(borrowed, SIZE, 2);
    }
    return (ssize_t)size;
}

START_TEST(borrowed_memory_while_it_is_printed)
{
    static const cookie_io_functions_t functions = {.write = release_and_write};
    wait_fails = _i == 1;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    FILE *const file = fopencookie(NULL, "w", functions);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(setvbuf(file, NULL, _IONBF, 0), 0);
    borrowed = gpu_pinned_alloc(SIZE);
    it.mem = make_named("printed", SIZE);
    OK(synced_mem_set_cpu_data(it.mem, borrowed));
    void *const data = synced_mem_overwrite_gpu_data_on(it.mem, stream);
    ck_assert_ptr_nonnull(data);
    gpu_pause(stream);
    gpu_fill(data, SIZE, 1, stream);
    OK(synced_mem_async_cpu_pull(it.mem, stream));
    OK(synced_mem_print_all(file));
    ck_assert_uint_eq(stats_now().objects, 0);
    close_stream(stream);
    ck_assert(pattern_is(borrowed, SIZE, 2));
    gpu_pinned_free(borrowed);
    (void)fclose(file);
}
END_TEST

/* ---- Walks over cells ---- */

struct cell {
    char bytes[120];
    void *link;
};

enum { CELLS = 20000 };

static struct sm_slab slab = SM_SLAB_INITIALIZER(struct cell);
static struct cell *cells[CELLS];

static void take_cells(void)
{
    for (int i = 0; i < CELLS; i++)
        ck_assert_ptr_nonnull(cells[i] = sm_slab_take(&slab));
}

static void give_cells(void)
{
    for (int i = 0; i < CELLS; i++)
        sm_slab_give(&slab, cells[i]);
    sm_slab_trim(&slab);
}

static bool any(void *cell, const void *unused)
{
    return cell != unused;
}

static bool is(void *cell, const void *wanted)
{
    return cell == wanted;
}

START_TEST(cells_are_found)
{
    take_cells();
    for (int i = 0; i < CELLS; i += CELLS / 7) {
        struct sm_slab_walk walk = {.begun = false};
        ck_assert_ptr_eq(sm_slab_find(&slab, &walk, is, cells[i]), cells[i]);
        ck_assert_ptr_null(sm_slab_find(&slab, &walk, is, cells[i]));
        ck_assert_ptr_null(sm_slab_find(&slab, &walk, any, NULL));
    }
    struct sm_slab_walk walk = {.begun = false};
    int found = 0;
    while (sm_slab_find(&slab, &walk, any, NULL))
        found++;
    ck_assert_int_ge(found, CELLS);
    give_cells();
}
END_TEST

/* The cells that a walk has yet to visit are given back. The walk finds none of them. */
START_TEST(cells_that_go)
{
    struct sm_slab_walk walk = {.begun = false};
    take_cells();
    ck_assert_ptr_nonnull(sm_slab_find(&slab, &walk, any, NULL));
    give_cells();
    ck_assert_ptr_null(sm_slab_find(&slab, &walk, any, NULL));
    take_cells();
    ck_assert_ptr_null(sm_slab_find(&slab, &walk, any, NULL));
    give_cells();
}
END_TEST

/* Numbers of walks, from 1. */
static atomic_int walked;    /* the last walk that has begun */
static atomic_int passed_by; /* the last walk after whose beginning the other thread had the lock */
static atomic_bool over;
static bool noted;

static bool note_others(void *cell, const void *number)
{
    const int *const walk = number;
    (void)cell;
    noted |= atomic_load(&passed_by) == *walk;
    atomic_store(&walked, *walk);
    return false;
}

static void *pass_by(void *unused)
{
    while (!atomic_load(&over)) {
        const int walk = atomic_load(&walked);
        if (sm_mutex_try(&slab.lock.mutex)) {
            sm_mutex_unlock(&slab.lock.mutex);
            atomic_store(&passed_by, walk);
        }
    }
    return unused;
}

/* Another thread gets the lock while a walk that finds nothing passes over all cells. On a busy machine that thread may
 * not run during each walk. */
START_TEST(others_get_in)
{
    enum { SECONDS = 10 };
    const time_t end = time(NULL) + SECONDS;
    pthread_t thread;
    take_cells();
    ck_assert_int_eq(pthread_create(&thread, NULL, pass_by, NULL), 0);
    for (int i = 1; !noted && time(NULL) < end; i++) {
        struct sm_slab_walk walk = {.begun = false};
        ck_assert_ptr_null(sm_slab_find(&slab, &walk, note_others, &i));
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(noted);
    give_cells();
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("walks");
    TCase *const cases = add_case(all, "walks");
    add_tests(cases, release_while_a_walk_chooses, cells_are_found, cells_that_go, others_get_in);
    tcase_add_loop_test(cases, release_while_a_walk_looks, 0, KINDS);
    tcase_add_loop_test(cases, fork_while_a_walk_looks, 0, 2);
    add_gpu_loop_test(cases, borrowed_memory_while_it_is_printed, 0, 2);
    tcase_add_loop_test(cases, last_view_while_walks_look, 0, 2);
    return all;
}
