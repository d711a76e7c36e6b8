/* Checks page-locking on request where several objects use one memory, where it may block, and where it is refused. */
#include "fixture.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, SMALL = 65536, LARGE = 4 << 20, LOCK = SYNCED_MEM_MEMORY_PAGE_LOCK };
enum { PATIENCE = 50000, STEP_US = 100, A_WHILE = 50, MOST_CALLOCS = 12 };

static char *host_memory(size_t size, unsigned pattern)
{
    char *const data = aligned_alloc(PAGE, size);
    ck_assert_ptr_nonnull(data);
    pattern_write(data, size, pattern);
    return data;
}

/* Returns whether any of the quarters begins with page-locked bytes. */
static bool is_page_locked(const char *data, size_t size)
{
    bool any = false;
    for (int i = 0; i < 4; i++) {
        struct cudaPointerAttributes attributes;
        ck_assert_int_eq(cudaPointerGetAttributes(&attributes, data + size / 4 * (size_t)i), cudaSuccess);
        any = any || attributes.type == cudaMemoryTypeHost;
    }
    return any;
}

/* Nothing can be page-locked from now on, and no copy thread is there. */
static void refuse_buffers(void)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    OK(synced_mem_get_staging(&staging));
    staging.threads = 0;
    OK(synced_mem_set_staging(&staging));
    OK(synced_mem_host_pool_trim(0));
    emu_set_pinned_memory(0);
}

static void use_a_device(void)
{
    synced_mem *const mem = make(64);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
}

static synced_mem *page_lock(void *data, size_t size)
{
    synced_mem *const mem = make(size);
    OK(USE(mem, .cpu_data = data, .flags = LOCK));
    return mem;
}

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
static int fail_calloc_in; /* the number of further allocations until one fails; 0: none fails */

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

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (fail_calloc_in > 0 && --fail_calloc_in == 0)
        return NULL;
    return __real_calloc(count, size);
}

/* ---- Page-locked after another object came ---- */

enum late { NO_DEVICE_YET, FOUND_PAGEABLE, QUERY_FAILED, LATES };

/* Hands the memory in twice: to A, which page-locks it, and to B. */
static void hand_in_late(enum late late, void *data, size_t size, synced_mem **a, synced_mem **b)
{
    *b = make(size);
    if (late != NO_DEVICE_YET)
        use_a_device();
    if (late != QUERY_FAILED)
        OK(synced_mem_set_cpu_data(*b, data));
    *a = page_lock(data, size);
    if (late != QUERY_FAILED)
        return;
    emu_fail("cudaPointerGetAttributes", 1, cudaErrorUnknown, false);
    OK(synced_mem_set_cpu_data(*b, data));
    ck_assert_int_eq(emu_failures(), 1);
}

/* The memory stays page-locked for B's transfer, and until B gives it up. */
START_TEST(a_late_share)
{
    const size_t size = _i / LATES ? LARGE : SMALL;
    char *const host = host_memory(size, 1);
    synced_mem *a;
    synced_mem *b;
    hand_in_late((enum late)(_i % LATES), host, size, &a, &b);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(b, stream));
    OK(synced_mem_release(a));
    ck_assert(is_page_locked(host, size));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(b), 1);
    gpu_unhold();
    gpu_fill(synced_mem_mutable_gpu_data_on(b, stream), size, 2, stream);
    OK(synced_mem_async_cpu_pull(b, stream));
    ck_assert(host_is(synced_mem_cpu_data(b), size, 2));
    OK(synced_mem_release(b));
    ck_assert(!is_page_locked(host, size));
    close_stream(stream);
    free(host);
}
END_TEST

/* A pull of B's is in flight when A, which has page-locked the memory, is released. */
START_TEST(a_late_share_for_a_pull)
{
    char *const host = host_memory(SMALL, 1);
    synced_mem *a;
    synced_mem *b;
    hand_in_late((enum late)_i, host, SMALL, &a, &b);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(b, stream), SMALL, 2, stream);
    gpu_hold(stream);
    OK(synced_mem_async_cpu_pull(b, stream));
    OK(synced_mem_release(a));
    ck_assert(is_page_locked(host, SMALL));
    gpu_unhold();
    ck_assert(host_is(synced_mem_cpu_data(b), SMALL, 2));
    OK(synced_mem_release(b));
    ck_assert(!is_page_locked(host, SMALL));
    close_stream(stream);
    free(host);
}
END_TEST

/* The failed query is the only one while the memory is page-locked. The share keeps it so for a request of B's own. */
START_TEST(a_query_fails_on_request)
{
    char *const host = host_memory(SMALL, 1);
    synced_mem *const a = page_lock(host, SMALL);
    synced_mem *const b = make(SMALL);
    emu_fail("cudaPointerGetAttributes", 1, cudaErrorUnknown, false);
    OK(USE(b, .cpu_data = host, .flags = LOCK));
    OK(synced_mem_release(a));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(b), 1);
    OK(synced_mem_release(b));
    ck_assert(!is_page_locked(host, SMALL));
    free(host);
}
END_TEST

/* ---- Page-locked in part ---- */

/* Two objects page-lock parts of a third one's memory. */
static const struct {
    size_t begin[2], end[2]; /* in quarters */
} layouts[] = {{{0, 2}, {2, 4}}, {{0, 3}, {1, 4}}, {{0, 0}, {2, 0}}, {{2, 0}, {4, 0}}, {{1, 0}, {3, 0}}};
enum { LAYOUTS = 5 };

struct parts {
    size_t size;
    char *host;
    synced_mem *parts[2];
    synced_mem *whole;
    synced_mem_stream stream;
};

static struct parts lock_parts(int layout, size_t size, bool whole_first)
{
    struct parts it = {.size = size, .host = host_memory(size, 1), .whole = make(size)};
    use_a_device();
    if (whole_first)
        OK(synced_mem_set_cpu_data(it.whole, it.host));
    for (int i = 0; i < 2; i++)
        if (layouts[layout].end[i] > 0)
            it.parts[i] = page_lock(it.host + size / 4 * layouts[layout].begin[i],
                                    size / 4 * (layouts[layout].end[i] - layouts[layout].begin[i]));
    if (!whole_first)
        OK(synced_mem_set_cpu_data(it.whole, it.host));
    it.stream = open_stream(NON_BLOCKING);
    return it;
}

static void transfer_whole(const struct parts *it, unsigned pattern)
{
    pattern_write(synced_mem_overwrite_cpu_data(it->whole), it->size, pattern);
    OK(synced_mem_async_gpu_push(it->whole, it->stream));
    ck_assert(device_is(synced_mem_gpu_data_on(it->whole, it->stream), it->size, pattern));
    gpu_fill(synced_mem_mutable_gpu_data_on(it->whole, it->stream), it->size, pattern + 1, it->stream);
    OK(synced_mem_async_cpu_pull(it->whole, it->stream));
    ck_assert(host_is(synced_mem_cpu_data(it->whole), it->size, pattern + 1));
    host_fill(synced_mem_mutable_cpu_data(it->whole), it->size, pattern + 2);
    ck_assert(device_is(synced_mem_gpu_data(it->whole), it->size, pattern + 2));
    gpu_fill(synced_mem_mutable_gpu_data(it->whole), it->size, pattern + 3, NULL);
    ck_assert(host_is(synced_mem_cpu_data(it->whole), it->size, pattern + 3));
}

static void release_parts(const struct parts *it)
{
    OK(synced_mem_release(it->parts[0]));
    OK(synced_mem_release(it->parts[1]));
    OK(synced_mem_release(it->whole));
    ck_assert(!is_page_locked(it->host, it->size));
    close_stream(it->stream);
    free(it->host);
}

START_TEST(in_parts)
{
    const size_t size = _i % 2 ? LARGE : SMALL;
    const struct parts it = lock_parts(_i / 4, size, _i / 2 % 2);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    transfer_whole(&it, 2);
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    release_parts(&it);
}
END_TEST

/* The same without copy threads and without page-locked memory for buffers. */
START_TEST(in_parts_without_buffers)
{
    const struct parts it = lock_parts(_i / 2, _i % 2 ? LARGE : SMALL, false);
    refuse_buffers();
    transfer_whole(&it, 2);
    release_parts(&it);
}
END_TEST

/* Without memory for a part of the transfer it fails, and the contents stay. */
START_TEST(in_parts_without_memory)
{
    const struct parts it = lock_parts(0, SMALL, false);
    refuse_buffers();
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(it.whole)); /* the device copy has memory */
    int failures = 0;
    for (int nth = 1; nth <= MOST_CALLOCS; nth++) {
        host_fill(synced_mem_overwrite_cpu_data(it.whole), SMALL, 5);
        fail_calloc_in = nth;
        const bool failed = !synced_mem_gpu_data(it.whole);
        fail_calloc_in = 0;
        ck_assert(!failed || synced_mem_last_error() == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        failures += failed;
    }
    ck_assert_int_gt(failures, 0);
    ck_assert(device_is(synced_mem_gpu_data(it.whole), SMALL, 5));
    release_parts(&it);
}
END_TEST

/* Nobody can tell when the device is done with the part's memory. */
START_TEST(in_parts_and_the_wait_fails)
{
    const struct parts it = lock_parts(0, SMALL, false);
    refuse_buffers();
    const uint64_t before = stats_now().quarantined;
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(it.whole));
    ck_assert_uint_eq(stats_now().quarantined, before + 1);
    ck_assert(device_is(synced_mem_gpu_data(it.whole), SMALL, 1));
    leaves_memory = true;
    release_parts(&it);
}
END_TEST

/* Once the parts are released the memory can be page-locked as a whole. Until then that is refused. */
START_TEST(in_parts_then_as_a_whole)
{
    struct parts it = lock_parts(0, SMALL, true);
    transfer_whole(&it, 2);
    synced_mem *const another = make(SMALL);
    FAILS(SYNCED_MEM_ERR_CUDA, USE(another, .cpu_data = it.host, .flags = LOCK));
    SAYS("cudaHostRegister");
    OK(synced_mem_release(it.parts[0]));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    transfer_whole(&it, 3);
    OK(synced_mem_release(it.parts[1]));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 0);
    transfer_whole(&it, 4);
    OK(USE(another, .cpu_data = it.host, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 1);
    transfer_whole(&it, 5);
    OK(synced_mem_release(another));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(it.whole), 1);
    it.parts[0] = it.parts[1] = NULL;
    release_parts(&it);
}
END_TEST

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
    OK(synced_mem_release(a));
    OK(synced_mem_release(mem));
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
    close_stream(it->streams[0]);
    close_stream(it->streams[1]);
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
    OK(synced_mem_release(borrows));
    OK(synced_mem_release(same));
    OK(synced_mem_release(large));
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
    OK(synced_mem_release(b));
    OK(synced_mem_release(request.mem));
    OK(synced_mem_release(overlaps));
    ck_assert(!is_page_locked(host, SMALL));
    ck_assert_int_eq(atomic_load(&unsound), 0);
    free(host);
}
END_TEST

/* ---- Out of memory ---- */

/* Unused memory of the pool goes back for the request. */
START_TEST(reclaimed_on_request)
{
    enum { LIMIT = 16 << 20, IN_POOL = 12 << 20, REQUEST = 8 << 20 };
    char *const host = host_memory(REQUEST, 1);
    synced_mem *const mem = make(REQUEST);
    emu_set_pinned_memory(LIMIT);
    OK(synced_mem_host_pool_reserve(0, IN_POOL));
    OK(USE(mem, .cpu_data = host, .flags = LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    ck_assert_uint_gt(stats_now().oom_trims, 0);
    OK(synced_mem_release(mem));
    emu_set_pinned_memory(REQUEST / 2);
    synced_mem *const refused = make(REQUEST);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, USE(refused, .cpu_data = host, .flags = LOCK));
    SAYS("cudaHostRegister");
    SAYS("the library holds");
    OK(synced_mem_release(refused));
    free(host);
}
END_TEST

/* Memory for a record takes no steps. */
START_TEST(no_memory_for_the_record)
{
    char *const host = host_memory(SMALL, 1);
    synced_mem *const mem = page_lock(host, SMALL); /* all other records exist from now on */
    OK(synced_mem_release_data(mem));
    const uint64_t before = stats_now().oom_reaps;
    fail_calloc_in = 1;
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, USE(mem, .cpu_data = host, .flags = LOCK));
    SAYS("record of page-locked memory");
    ck_assert_int_eq(fail_calloc_in, 0);
    ck_assert_uint_eq(stats_now().oom_reaps, before);
    OK(synced_mem_release(mem));
    free(host);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("page_locks");
    TCase *const late = add_case(made, "late shares");
    tcase_add_loop_test(late, a_late_share, 0, 2 * LATES);
    tcase_add_loop_test(late, a_late_share_for_a_pull, 0, LATES);
    tcase_add_test(late, a_query_fails_on_request);
    TCase *const parts = add_case(made, "page-locked in part");
    tcase_add_loop_test(parts, in_parts, 0, 4 * LAYOUTS);
    tcase_add_loop_test(parts, in_parts_without_buffers, 0, 2 * LAYOUTS);
    tcase_add_test(parts, in_parts_without_memory);
    tcase_add_test(parts, in_parts_then_as_a_whole);
    TCase *const given_up = add_case_without_end(made, "memory that is given up");
    tcase_add_test(given_up, in_parts_and_the_wait_fails);
    TCase *const filled = add_case(made, "filled by a stream");
    tcase_add_loop_test(filled, filled_until_released, 0, 2);
    TCase *const passing = add_case(made, "passing by");
    tcase_add_loop_test(passing, passing_by, 0, 4);
    tcase_add_test(passing, passing_by_a_shared_one);
    TCase *const beside = add_case(made, "beside another thread");
    tcase_add_test(beside, beside_an_unregistration);
    tcase_add_test(beside, page_locked_while_it_is_unregistered);
    tcase_add_test(beside, shared_again_in_time);
    TCase *const refused = add_case(made, "out of memory");
    tcase_add_test(refused, reclaimed_on_request);
    tcase_add_test(refused, no_memory_for_the_record);
    return made;
}
