/* Checks requests for memory that another thread has in its hands. Also checks requests while another thread waits,
 * runs a callback or forks. */
#include "fixture.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pool of page-locked memory has 2 MiB at first. One large piece leaves no room for another. */
enum { SIZE = 5000, PIECE = 300000, LARGE = 700000, LARGE_ON_HOST = 1500000, ROOM = 1 << 20 };
enum { PATIENCE = 1000000, STEP_US = 100 };
static const size_t TOO_MUCH = (size_t)1 << 60;

/* ---- The order: the second thread runs when the first one is at a certain call of the runtime ---- */

enum moment { NEVER, AT_THE_QUERY, AT_THE_RECORD, AT_THE_FREE, AT_THE_UNREGISTER, AT_THE_ROOM };

static struct {
    enum moment moment;
    unsigned skips; /* the number of such calls that are passed over */
    void *(*body)(void *);
    pthread_t thread;
    atomic_bool over;
} second;

static void run_second_at(enum moment moment, unsigned skips, void *(*body)(void *))
{
    second.moment = moment;
    second.skips = skips;
    second.body = body;
}

static void *run_body(void *unused)
{
    (void)second.body(unused);
    atomic_store(&second.over, true);
    return NULL;
}

static atomic_int queries;

/* Runs the second thread if the moment has come. The thread may have to wait for the first one: then it sleeps. */
static void come_to(enum moment moment)
{
    enum { A_WHILE = 200 };
    if (moment == AT_THE_QUERY)
        atomic_fetch_add(&queries, 1);
    if (second.moment != moment || second.skips-- > 0)
        return;
    second.moment = NEVER;
    ck_assert_int_eq(pthread_create(&second.thread, NULL, run_body, NULL), 0);
    for (int i = 0; !atomic_load(&second.over) && (i < A_WHILE || !others_sleep()); i++)
        (void)usleep(STEP_US);
}

static void join_second(void)
{
    ck_assert_int_eq(second.moment, NEVER); /* the moment has come */
    ck_assert_int_eq(pthread_join(second.thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

static atomic_int in_waits; /* the number of threads that wait for an event */

#define WRAP(name, moment, parameters, arguments)                                                                      \
    cudaError_t __real_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters                                                                               \
    {                                                                                                                  \
        come_to(moment);                                                                                               \
        return __real_##name arguments;                                                                                \
    }
WRAP(cudaEventQuery, AT_THE_QUERY, (cudaEvent_t event), (event))
WRAP(cudaEventRecord, AT_THE_RECORD, (cudaEvent_t event, cudaStream_t stream), (event, stream))
WRAP(cudaFreeAsync, AT_THE_FREE, (void *data, cudaStream_t stream), (data, stream))
WRAP(cudaHostUnregister, AT_THE_UNREGISTER, (void *data), (data))
WRAP(cudaMemGetInfo, AT_THE_ROOM, (size_t * free, size_t *total), (free, total))

cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    atomic_fetch_add(&in_waits, 1);
    const cudaError_t code = __real_cudaEventSynchronize(event);
    atomic_fetch_sub(&in_waits, 1);
    return code;
}

/* ---- Actions of the threads ---- */

static synced_mem_stream one, two;

/* The runtime's pool does not wait for frees itself: freed memory is available once the free is done. */
static void begin(void)
{
    OK(synced_mem_gpu_pool_set_reuse(0, 0));
    one = open_stream(NON_BLOCKING);
    two = open_stream(NON_BLOCKING);
}

static void end(void)
{
    CLOSE_EACH(one, two);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

static synced_mem *create(size_t size, synced_mem_placement_kind placement)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.device = 0;
    options.placement = placement;
    SOUND(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    return mem;
}

static void release(synced_mem *mem)
{
    SOUND(synced_mem_release(mem) == SYNCED_MEM_OK);
}

static void *want_host_memory(void *unused)
{
    synced_mem *const mem = create(LARGE_ON_HOST, SYNCED_MEM_PLACEMENT_SEPARATE);
    SOUND(synced_mem_overwrite_cpu_data(mem));
    SOUND(synced_mem_cpu_source(mem) == SYNCED_MEM_SOURCE_PINNED);
    release(mem);
    return unused;
}

static void *want_device_memory(void *unused)
{
    synced_mem *const mem = create(LARGE, SYNCED_MEM_PLACEMENT_SEPARATE);
    SOUND(synced_mem_overwrite_gpu_data(mem));
    release(mem);
    return unused;
}

static void *want_managed_memory(void *unused)
{
    synced_mem *const mem = create(SIZE, SYNCED_MEM_PLACEMENT_MANAGED);
    SOUND(synced_mem_overwrite_gpu_data(mem));
    release(mem);
    return unused;
}

/* Makes a request that is refused. */
static void *want_too_much(void *unused)
{
    synced_mem *const mem = create(TOO_MUCH, SYNCED_MEM_PLACEMENT_SEPARATE);
    SOUND(!synced_mem_overwrite_gpu_data(mem));
    SOUND(synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY);
    release(mem);
    return unused;
}

static atomic_int handed_back;

static void free_it(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    gpu_pinned_free(data);
    atomic_fetch_add(&handed_back, 1);
}

/* Makes an object with memory of the caller's. A transfer on the stream reads the memory. */
static synced_mem *pushed(synced_mem_stream stream, synced_mem_release_callback callback)
{
    synced_mem *const mem = make_on(SIZE, 0);
    OK(USE(mem, .cpu_data = gpu_pinned_alloc(SIZE), .callback = callback));
    OK(synced_mem_async_gpu_push(mem, stream));
    return mem;
}

static synced_mem *pushed_large(synced_mem_stream stream)
{
    synced_mem *const mem = make_on(LARGE_ON_HOST, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), LARGE_ON_HOST, 1);
    OK(synced_mem_async_gpu_push(mem, stream));
    return mem;
}

static void no_more_host_memory(void)
{
    emu_set_pinned_memory(emu_live_bytes(EMU_PINNED) + emu_live_bytes(EMU_REGISTERED));
}

static bool come_to_be(atomic_int *what, int value)
{
    for (int i = 0; i < PATIENCE && atomic_load(what) != value; i++)
        (void)usleep(STEP_US);
    return atomic_load(what) == value;
}

/* ---- Beside a thread that waits ---- */

/* One thread waits for a kernel that does not end. Work that has ended is reaped all the same: callbacks are called,
 * and other threads get memory. */
START_TEST(beside_a_waiter)
{
    pthread_t waiter;
    begin();
    synced_mem *const earlier = pushed(two, free_it);
    synced_mem *const later = pushed(two, free_it);
    synced_mem *const large = pushed_large(two);
    gpu_hold(one);
    synced_mem *const stuck = pushed(one, free_it);
    OK(synced_mem_release(_i ? large : earlier));
    OK(synced_mem_release(stuck));
    OK(synced_mem_release(_i ? earlier : large));
    OK(synced_mem_release(later));
    no_more_host_memory();
    emu_set_device_memory(0, ROOM);
    ck_assert_int_eq(pthread_create(&waiter, NULL, want_too_much, NULL), 0);
    ck_assert(come_to_be(&in_waits, 1));
    gpu_stream_sync(two);
    want_host_memory(NULL);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    for (int i = 0; i < PATIENCE && atomic_load(&handed_back) < 2; i++) {
        OK(synced_mem_reap());
        (void)usleep(STEP_US);
    }
    ck_assert_int_eq(atomic_load(&handed_back), 2);
    ck_assert(come_to_be(&in_waits, 1)); /* the thread still waits */
    gpu_unhold();
    ck_assert_int_eq(pthread_join(waiter, NULL), 0);
    ck_assert_int_eq(atomic_load(&handed_back), 3);
    end();
}
END_TEST

/* ---- In the hands of another thread ---- */

/* The other thread polls the work on the memory. */
START_TEST(while_it_is_asked_about)
{
    begin();
    gpu_hold(one);
    OK(synced_mem_release(pushed_large(one)));
    ck_assert_uint_eq(stats_now().retired, 1);
    gpu_unhold();
    gpu_stream_sync(one);
    no_more_host_memory();
    run_second_at(AT_THE_QUERY, 0, want_host_memory);
    OK(synced_mem_reap());
    join_second();
    end();
}
END_TEST

/* The other thread frees the device cache, piece by piece. */
START_TEST(while_it_is_freed)
{
    synced_mem *mems[2];
    begin();
    emu_set_device_memory(0, ROOM);
    for (int i = 0; i < 2; i++) {
        mems[i] = make_on(PIECE, 0);
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mems[i]));
    }
    release_all(mems, 2);
    run_second_at(AT_THE_FREE, 0, want_device_memory);
    OK(synced_mem_gpu_pool_trim(0, 0));
    join_second();
    end();
}
END_TEST

/* The other thread requests memory itself, and finds a kernel at work on it. */
START_TEST(while_it_is_chosen)
{
    synced_mem *mems[2];
    begin();
    emu_set_device_memory(0, LARGE + PIECE + LARGE / 4);
    for (int i = 0; i < 2; i++) {
        mems[i] = make_on(PIECE, 0);
        void *const data = synced_mem_overwrite_gpu_data_on(mems[i], one);
        gpu_fill(data, PIECE, 1, one);
    }
    gpu_hold(one);
    release_all(mems, 2);
    run_second_at(AT_THE_RECORD, 1, want_device_memory);
    synced_mem *const mem = make_on(PIECE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, two));
    gpu_unhold();
    join_second();
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* The other thread returns page-locked memory to the system. */
START_TEST(while_it_is_unregistered)
{
    begin();
    OK(synced_mem_release(pushed_large(one)));
    gpu_stream_sync(one);
    OK(synced_mem_reap());
    OK(synced_mem_host_pool_trim(SIZE_MAX)); /* takes the memory out of the caches */
    OK(synced_mem_host_pool_set_decay(1));
    (void)usleep(5000);
    run_second_at(AT_THE_UNREGISTER, 0, want_host_memory);
    no_more_host_memory();
    OK(synced_mem_reap());
    join_second();
    OK(synced_mem_host_pool_set_decay(0));
    end();
}
END_TEST

/* The same while the other thread's own request is refused. */
START_TEST(while_another_is_refused)
{
    synced_mem *const mem = make_on(TOO_MUCH / 2, 0);
    begin();
    OK(synced_mem_release(pushed_large(one)));
    gpu_stream_sync(one);
    OK(synced_mem_reap());
    no_more_host_memory();
    run_second_at(AT_THE_UNREGISTER, 0, want_host_memory);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    join_second();
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* A large request that fails does not make another thread's small request fail. */
START_TEST(while_more_is_asked_for)
{
    synced_mem *const mem = create(2 * ROOM, SYNCED_MEM_PLACEMENT_MANAGED);
    emu_set_device_memory(0, ROOM);
    run_second_at(AT_THE_ROOM, _i, want_managed_memory);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(mem));
    join_second();
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().oom_failures, 1);
}
END_TEST

static void *reap(void *unused)
{
    SOUND(synced_mem_reap() == SYNCED_MEM_OK);
    return unused;
}

/* Makes a call that takes the slow path, with nothing in flight itself. */
static void *pass_by(void *unused)
{
    synced_mem *const mem = create(SIZE, SYNCED_MEM_PLACEMENT_SEPARATE);
    SOUND(synced_mem_overwrite_cpu_data(mem));
    release(mem);
    return unused;
}

static void retire_two(synced_mem_release_callback callback)
{
    gpu_hold(one);
    synced_mem *const mems[] = {pushed(one, callback), pushed(one, callback)};
    release_all(mems, 2);
}

static void make_due(void)
{
    gpu_unhold();
    gpu_stream_sync(one);
}

static void *(*reaps)(void *); /* a call that reaps */
static int asked;

static void *count_queries(void *unused)
{
    const int before = atomic_load(&queries);
    (void)reaps(unused);
    asked = atomic_load(&queries) - before;
    return unused;
}

/* One thread polls all retired copies. Another thread that reaps in passing does not poll them too, but
 * synced_mem_reap() does. */
START_TEST(while_another_passes_by)
{
    begin();
    retire_two(free_it);
    pass_by(NULL);
    reaps = _i ? reap : pass_by;
    run_second_at(AT_THE_QUERY, 0, count_queries);
    pass_by(NULL);
    join_second();
    ck_assert_int_eq(asked > 0, _i);
    make_due();
    OK(synced_mem_reap());
    ck_assert_int_eq(atomic_load(&handed_back), 2);
    end();
}
END_TEST

/* ---- Beside a callback ---- */

static void *want_too_much_host_memory(void *unused)
{
    synced_mem *const mem = create(TOO_MUCH / 2, SYNCED_MEM_PLACEMENT_SEPARATE);
    SOUND(!synced_mem_overwrite_cpu_data(mem));
    SOUND(synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    release(mem);
    return unused;
}

/* The first callback lasts until another thread has called the second one and has been refused memory. */
static void last_long(void *data, void *user, synced_mem_stream stream)
{
    pthread_t thread;
    const int before = atomic_load(&handed_back);
    free_it(data, user, stream);
    if (before > 0)
        return;
    SOUND(pthread_create(&thread, NULL, reaps, NULL) == 0 && pthread_join(thread, NULL) == 0);
    SOUND(atomic_load(&handed_back) == 2);
    SOUND(pthread_create(&thread, NULL, want_too_much_host_memory, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

START_TEST(beside_a_callback)
{
    begin();
    pass_by(NULL); /* so that a later call finds memory */
    retire_two(last_long);
    make_due();
    no_more_host_memory();
    reaps = _i ? pass_by : reap;
    (void)reaps(NULL);
    ck_assert_int_eq(atomic_load(&handed_back), 2);
    end();
}
END_TEST

static int depth;
static int deepest;

static void call_the_library(void *data, void *user, synced_mem_stream stream)
{
    depth++;
    deepest = depth > deepest ? depth : deepest;
    OK(synced_mem_reap());
    free_it(data, user, stream);
    if (atomic_load(&handed_back) == 1)
        want_host_memory(NULL);
    depth--;
}

/* Callbacks that call the library are not nested, however many are due. A callback gets the memory that is due behind
 * it. */
START_TEST(inside_a_callback)
{
    begin();
    retire_two(call_the_library);
    OK(synced_mem_release(pushed_large(one)));
    make_due();
    no_more_host_memory();
    OK(synced_mem_reap());
    ck_assert_int_eq(atomic_load(&handed_back), 2);
    ck_assert_int_eq(deepest, 1);
    ck_assert_uint_eq(stats_now().retired, 0);
    end();
}
END_TEST

/* ---- In a child ---- */

static pid_t child = -1;

static void fork_it(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    if (atomic_fetch_add(&handed_back, 1) == 0)
        child = fork();
    leaves_memory = child == 0;
    if (child != 0)
        gpu_pinned_free(data);
}

/* The callback forks, and the reap goes on in the child too. The child leaves all other memory that is due to its
 * parent. */
START_TEST(forked_by_a_callback)
{
    int status = 0;
    begin();
    retire_two(fork_it);
    make_due();
    const synced_mem_status reaped = synced_mem_reap();
    if (child == 0)
        exit(reaped == SYNCED_MEM_OK && atomic_load(&handed_back) == 1 && stats_now().retired <= 2 ? EXIT_SUCCESS
                                                                                                   : EXIT_FAILURE);
    OK(reaped);
    ck_assert_int_eq(atomic_load(&handed_back), 2);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
    end();
}
END_TEST

/* Uses nothing of Check, whose lock another thread may have held at the fork. */
static void want_in_child(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    want_too_much_host_memory(NULL);
    if (atomic_load(&unsound) > 0)
        exit(EXIT_FAILURE);
}

static void *fork_now(void *unused)
{
    SOUND(in_a_child(want_in_child, NULL));
    return unused;
}

/* The child does not have the thread that holds the memory. */
START_TEST(forked_meanwhile)
{
    begin();
    synced_mem *const mem = make_on(PIECE, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, one));
    OK(synced_mem_release(mem));
    run_second_at(AT_THE_FREE, 0, fork_now);
    OK(synced_mem_gpu_pool_trim(0, 0));
    join_second();
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hands");
    TCase *const waiting = add_case(made, "waiting");
    tcase_add_loop_test(waiting, beside_a_waiter, 0, 2);
    TCase *const meanwhile = add_case(made, "meanwhile");
    add_tests(meanwhile, while_it_is_asked_about, while_it_is_freed, while_it_is_chosen, while_it_is_unregistered,
              while_another_is_refused);
    tcase_add_loop_test(meanwhile, while_more_is_asked_for, 0, 2);
    tcase_add_loop_test(meanwhile, while_another_passes_by, 0, 2);
    TCase *const callbacks = add_case(made, "callbacks");
    tcase_add_test(callbacks, inside_a_callback);
    tcase_add_loop_test(callbacks, beside_a_callback, 0, 2);
    TCase *const forks = add_case(made, "forks");
    add_tests(forks, forked_by_a_callback, forked_meanwhile);
    return made;
}
