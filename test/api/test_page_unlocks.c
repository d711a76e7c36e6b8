/* Checks when memory that was page-locked on request is unregistered, and by which calls, also beside other threads. */
#include "page_lock_kit.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATIENCE = 1000000, STEP_US = 100, A_WHILE = 50 };

static atomic_int handed_back;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    atomic_fetch_add(&handed_back, 1);
}

/* ---- Calls of the runtime that take a while ---- */

struct gate {
    atomic_bool closed;
    atomic_int inside; /* the number of threads that wait for it to open */
    atomic_int calls;
};
static struct gate at_register, at_unregister;

static void pass(struct gate *gate)
{
    atomic_fetch_add(&gate->calls, 1);
    atomic_fetch_add(&gate->inside, 1);
    while (atomic_load(&gate->closed))
        (void)usleep(STEP_US);
    atomic_fetch_sub(&gate->inside, 1);
}

static void wait_until_inside(struct gate *gate)
{
    for (int i = 0; i < PATIENCE && atomic_load(&gate->inside) == 0; i++)
        (void)usleep(STEP_US);
    ck_assert_int_gt(atomic_load(&gate->inside), 0);
}

cudaError_t __real_cudaHostRegister(void *data, size_t size, unsigned flags);
cudaError_t __wrap_cudaHostRegister(void *data, size_t size, unsigned flags);
cudaError_t __wrap_cudaHostRegister(void *data, size_t size, unsigned flags)
{
    pass(&at_register);
    return __real_cudaHostRegister(data, size, flags);
}

cudaError_t __real_cudaHostUnregister(void *data);
cudaError_t __wrap_cudaHostUnregister(void *data);
cudaError_t __wrap_cudaHostUnregister(void *data)
{
    pass(&at_unregister);
    return __real_cudaHostUnregister(data);
}

/* ---- Filled by a stream ---- */

/* Memory is unregistered when the stream that fills it has done so, whether it is borrowed or adopted. */
START_TEST(filled_until_released)
{
    void *const device = gpu_alloc(0, SMALL);
    char *const host = host_memory(SMALL, 1);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const a = page_lock(host, SMALL);
    synced_mem *const mem = make(SMALL);
    if (_i)
        gpu_hold(stream);
    gpu_fill(device, SMALL, 3, stream);
    gpu_copy_to_host(host, device, SMALL, stream);
    OK(USE(mem, .cpu_data = host, .callback = _i ? count : NULL, .stream = stream, .flags = LOCK));
    RELEASE_EACH(a, mem);
    ck_assert(_i || gpu_stream_is_idle(stream));
    ck_assert(is_page_locked(host, SMALL) == (_i > 0));
    if (_i)
        gpu_unhold();
    close_stream(stream);
    OK(synced_mem_reap());
    ck_assert(!is_page_locked(host, SMALL));
    ck_assert_int_eq(atomic_load(&handed_back), _i);
    ck_assert(host_is(host, SMALL, 3));
    gpu_free(device);
    free(host);
}
END_TEST

/* ---- Calls that do not block ---- */

/* Leaves adopted page-locked memory retired, with no work in flight. */
static void retire_page_locked(void *data, size_t size, synced_mem_stream stream)
{
    synced_mem *const mem = make(size);
    OK(USE(mem, .cpu_data = data, .callback = count, .flags = LOCK));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    gpu_unhold();
    gpu_stream_sync(stream);
    ck_assert_int_eq(atomic_load(&at_unregister.calls), 0);
}

struct passers {
    char *host;
    synced_mem_stream streams[2];
    synced_mem *other;
};

static struct passers begin_passing(void)
{
    struct passers it = {.host = host_memory(SMALL, 1), .other = make_on(1000, 0)};
    it.streams[0] = open_stream(NON_BLOCKING);
    it.streams[1] = open_stream(NON_BLOCKING);
    host_fill(synced_mem_overwrite_cpu_data(it.other), 1000, 4);
    retire_page_locked(it.host, SMALL, it.streams[0]);
    return it;
}

static void end_passing(const struct passers *it)
{
    OK(synced_mem_release(it->other));
    OK(synced_mem_reap());
    ck_assert(!is_page_locked(it->host, SMALL));
    CLOSE_EACH(it->streams[0], it->streams[1]);
    free(it->host);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

/* Calls that do not block leave the memory to one that may. */
START_TEST(passing_by)
{
    int pending;
    const struct passers it = begin_passing();
    OK(synced_mem_async_gpu_push(it.other, it.streams[0]));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(it.other, it.streams[1]));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(it.other, it.streams[0]));
    OK(synced_mem_async_cpu_pull(it.other, it.streams[1]));
    OK(synced_mem_query(it.other, &pending));
    OK(synced_mem_resize(it.other, 500));
    OK(synced_mem_resize_discard(it.other, 600));
    ck_assert_int_eq(atomic_load(&at_unregister.calls), 0);
    ck_assert_int_eq(atomic_load(&handed_back), 0);
    ck_assert_uint_eq(stats_now().retired, 1);
    if (_i == 0)
        OK(synced_mem_reap());
    else if (_i == 1)
        OK(synced_mem_wait(it.other));
    else if (_i == 2)
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(it.other));
    else
        OK(synced_mem_release_gpu_data(it.other));
    ck_assert_int_eq(atomic_load(&at_unregister.calls), 1);
    ck_assert_int_eq(atomic_load(&handed_back), 1);
    end_passing(&it);
}
END_TEST

/* If another object keeps the memory page-locked, a call that does not block calls the callback. */
START_TEST(passing_by_a_shared_one)
{
    const struct passers it = begin_passing();
    synced_mem *const b = make(SMALL);
    OK(synced_mem_set_cpu_data(b, it.host)); /* may block, and unregisters the memory if there is no share yet */
    ck_assert_int_eq(synced_mem_cpu_is_pinned(b), 1);
    ck_assert_int_eq(atomic_load(&at_unregister.calls), 0);
    ck_assert_int_eq(atomic_load(&handed_back), 1);
    OK(USE(it.other, .cpu_data = it.host, .callback = count));
    gpu_hold(it.streams[0]);
    OK(synced_mem_async_gpu_push(it.other, it.streams[0]));
    OK(synced_mem_release_data(it.other));
    gpu_unhold();
    gpu_stream_sync(it.streams[0]);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(it.other, it.streams[1]));
    ck_assert_int_eq(atomic_load(&at_unregister.calls), 0);
    ck_assert_int_eq(atomic_load(&handed_back), 2);
    OK(synced_mem_release(b));
    ck_assert_int_eq(atomic_load(&at_unregister.calls), 1);
    end_passing(&it);
}
END_TEST

/* ---- Beside a thread that unregisters ---- */

static void *reap(void *unused)
{
    SOUND(synced_mem_reap() == SYNCED_MEM_OK);
    return unused;
}

static void do_nothing(const void *unused)
{
    (void)unused;
    leaves_memory = true;
}

static pthread_t start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, body, argument), 0);
    return thread;
}

static void join(pthread_t thread)
{
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* Other calls and a fork do not wait for the thread, and nor does a call that is refused memory. */
START_TEST(beside_an_unregistration)
{
    const struct passers it = begin_passing();
    void *const mine = gpu_pinned_alloc(64);
    synced_mem *const borrows = make(64);
    synced_mem *const same = make(SMALL);
    synced_mem *const large = make_on(LARGE, 0);
    atomic_store(&at_unregister.closed, true);
    const pthread_t thread = start(reap, NULL);
    wait_until_inside(&at_unregister);
    OK(synced_mem_set_cpu_data(borrows, mine));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(borrows), 1);
    OK(synced_mem_async_gpu_push(it.other, it.streams[1]));
    ck_assert(in_a_child(do_nothing, NULL));
    OK(synced_mem_set_cpu_data(same, it.host)); /* belongs to nobody while it is unregistered */
    ck_assert_int_eq(synced_mem_cpu_is_pinned(same), 0);
    ck_assert(device_is(synced_mem_gpu_data_on(same, it.streams[1]), SMALL, 1));
    emu_set_pinned_memory(0);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(large));
    emu_set_pinned_memory(SIZE_MAX);
    ck_assert_int_eq(atomic_load(&handed_back), 0);
    atomic_store(&at_unregister.closed, false);
    join(thread);
    ck_assert_int_eq(atomic_load(&handed_back), 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(same), 0);
    RELEASE_EACH(borrows, same, large);
    gpu_pinned_free(mine);
    end_passing(&it);
}
END_TEST

struct request {
    void *data;
    size_t size;
    synced_mem *mem;
    atomic_bool over;
};

static void *page_lock_it(void *argument)
{
    struct request *const request = argument;
    SOUND(USE(request->mem, .cpu_data = request->data, .flags = LOCK) == SYNCED_MEM_OK);
    atomic_store(&request->over, true);
    return NULL;
}

/* A request to page-lock memory that is just unregistered waits, and then page-locks it. */
START_TEST(page_locked_while_it_is_unregistered)
{
    const struct passers it = begin_passing();
    struct request request = {.data = it.host, .size = SMALL, .mem = make(SMALL)};
    atomic_store(&at_unregister.closed, true);
    const pthread_t reaping = start(reap, NULL);
    wait_until_inside(&at_unregister);
    const pthread_t locking = start(page_lock_it, &request);
    (void)usleep(A_WHILE * STEP_US);
    ck_assert(!atomic_load(&request.over));
    atomic_store(&at_unregister.closed, false);
    join(reaping);
    join(locking);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(request.mem), 1);
    ck_assert(is_page_locked(it.host, SMALL));
    OK(synced_mem_release(request.mem));
    end_passing(&it);
}
END_TEST

static void *release_it(void *mem)
{
    SOUND(synced_mem_release(mem) == SYNCED_MEM_OK);
    return NULL;
}

/* While one thread registers memory, another one is to unregister other memory, and waits. A third one takes a share in
 * the latter meanwhile. */
START_TEST(shared_again_in_time)
{
    char *const host = host_memory(2 * SMALL, 1);
    synced_mem *const a = page_lock(host, SMALL);
    synced_mem *const b = make(SMALL);
    synced_mem *const overlaps = make(SMALL);
    struct request request = {.data = host + SMALL, .size = SMALL, .mem = make(SMALL)};
    atomic_store(&at_register.closed, true);
    const pthread_t locking = start(page_lock_it, &request);
    wait_until_inside(&at_register);
    OK(synced_mem_set_cpu_data(overlaps, host + SMALL)); /* belongs to nobody while it is registered */
    ck_assert_int_eq(synced_mem_cpu_is_pinned(overlaps), 0);
    const pthread_t releasing = start(release_it, a);
    (void)usleep(A_WHILE * STEP_US);
    OK(synced_mem_set_cpu_data(b, host));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(b), 1);
    atomic_store(&at_register.closed, false);
    join(locking);
    join(releasing);
    ck_assert_int_eq(atomic_load(&at_unregister.calls), 0);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(b), 1);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(overlaps), 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(overlaps));
    RELEASE_EACH(b, request.mem, overlaps);
    ck_assert(!is_page_locked(host, SMALL));
    ck_assert_int_eq(atomic_load(&unsound), 0);
    free(host);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("page_unlocks");
    TCase *const filled = add_case(made, "filled by a stream");
    tcase_add_loop_test(filled, filled_until_released, 0, 2);
    TCase *const passing = add_case(made, "passing by");
    tcase_add_test(passing, passing_by_a_shared_one);
    tcase_add_loop_test(passing, passing_by, 0, 4);
    TCase *const beside = add_case(made, "beside another thread");
    add_tests(beside, beside_an_unregistration, page_locked_while_it_is_unregistered, shared_again_in_time);
    return made;
}
