/*
 * Checks calls that fail while calls of another thread succeed on the same object, or while a view cuts it: what the
 * others have brought stays, and open writes go on.
 */
#include "views_kit.h"

#include "cudart_emu.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <unistd.h>

enum { HALF = ROOT / 2, QUARTER = ROOT / 4, STEP_US = 200 };

static synced_mem *root, *left, *right;
static synced_mem_stream stream;

/* ---- Hooks ---- */

/* Another thread's calls, made in the next wait, which then fails. */
static void (*in_failed_wait)(void);
/* Made in the next transfer, which then fails. */
static void (*in_failed_transfer)(void);
/* Made while the host copies HALF bytes. */
static void (*in_host_copy)(void);
/* A transfer by the thread that sets it waits for this. */
static _Thread_local atomic_bool *awaited, *reached;

static void *make_calls(void *calls)
{
    (*(void (**)(void))calls)();
    return NULL;
}

static bool run_once(void (**calls)(void))
{
    pthread_t thread;
    void (*now)(void) = *calls;
    if (!now)
        return false;
    *calls = NULL;
    SOUND(pthread_create(&thread, NULL, make_calls, &now) == 0);
    SOUND(pthread_join(thread, NULL) == 0);
    return true;
}

static void await(const atomic_bool *flag)
{
    while (!atomic_load(flag))
        (void)usleep(STEP_US);
}

/* The linker puts the wrappers in place of the functions (--wrap). */
cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    return run_once(&in_failed_wait) ? cudaErrorUnknown : __real_cudaEventSynchronize(event);
}

cudaError_t __real_cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t on);
cudaError_t __wrap_cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t on);
cudaError_t __wrap_cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t on)
{
    if (run_once(&in_failed_transfer))
        return cudaErrorUnknown;
    if (reached)
        atomic_store(reached, true);
    if (awaited)
        await(awaited);
    return __real_cudaMemcpyAsync(to, from, size, kind, on);
}

void *__real_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    if (size == HALF)
        (void)run_once(&in_host_copy);
    return __real_memcpy(to, from, size);
}

/* ---- An access that fails ---- */

static bool write_on_device(unsigned pattern)
{
    void *const data = synced_mem_overwrite_gpu_data_on(root, stream);
    if (data)
        gpu_fill(data, ROOT, pattern, stream);
    return data != NULL;
}

static void write_in_new_memory(void)
{
    SOUND(synced_mem_release_data(root) == SYNCED_MEM_OK);
    SOUND(write_on_device(7));
}

static void write_and_release_device_memory(void)
{
    SOUND(write_on_device(7));
    SOUND(synced_mem_release_gpu_data(root) == SYNCED_MEM_OK);
}

static void *handed_in;

static void hand_in_memory(void)
{
    handed_in = gpu_alloc(0, ROOT);
    gpu_fill(handed_in, ROOT, 7, stream);
    gpu_stream_sync(stream);
    SOUND(synced_mem_release_data(root) == SYNCED_MEM_OK);
    SOUND(synced_mem_set_gpu_data(root, handed_in) == SYNCED_MEM_OK);
}

static void only_write(void)
{
    SOUND(write_on_device(7));
}

static void write_and_enlarge(void)
{
    SOUND(write_on_device(7));
    SOUND(synced_mem_resize(root, 2 * ROOT) == SYNCED_MEM_OK);
}

static void write_and_shrink(void)
{
    SOUND(write_on_device(7));
    SOUND(synced_mem_resize(root, HALF) == SYNCED_MEM_OK);
}

/* The last two are for an object without views. */
static void (*const others[])(void) = {write_in_new_memory, write_and_release_device_memory,
                                       hand_in_memory,      only_write,
                                       write_and_enlarge,   write_and_shrink};
enum { OTHERS = sizeof others / sizeof *others, OF_VIEWS = OTHERS - 2 };

static void begin(void)
{
    handed_in = NULL;
    root = make_on(ROOT, 0);
    stream = open_stream(NON_BLOCKING);
}

static void finish(void)
{
    RELEASE_EACH(left, right, root);
    if (handed_in)
        gpu_free(handed_in);
    close_stream(stream);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

/* used: the object had memory, and its pointer was given out. */
static void fail_beside(void (*calls)(void), bool used)
{
    if (used) {
        ck_assert(write_on_device(1));
        OK(synced_mem_clear(root));
    }
    in_failed_wait = calls;
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_mutable_gpu_data(root));
    ck_assert(!in_failed_wait);
    const size_t size = synced_mem_size(root) < ROOT ? synced_mem_size(root) : ROOT;
    ck_assert(host_is(given(synced_mem_cpu_data(root)), size, 7));
}

START_TEST(others_write)
{
    begin();
    fail_beside(others[_i / 2], _i % 2);
    finish();
}
END_TEST

START_TEST(others_write_an_object_in_parts)
{
    begin();
    left = view_of(root, 0, HALF);
    fail_beside(others[_i / 2], _i % 2);
    finish();
}
END_TEST

static void fill_and_write(void)
{
    void *const data = synced_mem_mutable_gpu_data_on(root, stream);
    SOUND(data != NULL);
    gpu_fill(data, ROOT, 7, stream);
}

/* An access of the host waits before it can make zeros. The other call makes them on the device, and writes on. */
START_TEST(others_make_the_zeros)
{
    begin();
    left = _i ? view_of(root, 0, HALF) : NULL;
    host_fill(given(synced_mem_overwrite_cpu_data(root)), ROOT, 1);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(root, stream));
    OK(synced_mem_clear(root));
    in_failed_wait = fill_and_write;
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_mutable_cpu_data(root));
    ck_assert(!in_failed_wait);
    HEAD(root, AT_GPU);
    ck_assert(host_is(given(synced_mem_cpu_data(root)), ROOT, 7));
    finish();
}
END_TEST

/* The access takes back its own zeros. */
START_TEST(nobody_writes)
{
    begin();
    left = _i & 2 ? view_of(root, 0, HALF) : NULL;
    if (_i & 1) {
        ck_assert(write_on_device(1));
        OK(synced_mem_clear(root));
    }
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_mutable_gpu_data(root));
    HEAD(root, UNINITIALIZED);
    finish();
}
END_TEST

/* ---- A copy to the object of a failing access ---- */

static atomic_bool has_failed, is_in_copy, has_copied;
static synced_mem *source;
static pthread_t copier;

static void *copy_to_root(void *unused)
{
    awaited = &has_failed;
    reached = &is_in_copy;
    SOUND(synced_mem_async_gpu_copy(root, source, stream) == SYNCED_MEM_OK);
    atomic_store(&has_copied, true);
    return unused;
}

static void begin_a_copy(void)
{
    SOUND(pthread_create(&copier, NULL, copy_to_root, NULL) == 0);
    await(&is_in_copy);
}

/* The access has filled the object with zeros, and the copy begins before it fails. */
START_TEST(a_copy_succeeds)
{
    static _Alignas(4096) unsigned char memory[ROOT];
    set_staging(0, 1);
    begin();
    source = make_on(ROOT, 0);
    OK(synced_mem_set_cpu_data(source, memory));
    host_fill(given(synced_mem_mutable_cpu_data(source)), ROOT, 9);
    in_failed_wait = begin_a_copy;
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(root));
    atomic_store(&has_failed, true);
    ck_assert_int_eq(pthread_join(copier, NULL), 0);
    ck_assert(atomic_load(&has_copied));
    HEAD(root, AT_GPU);
    ck_assert(host_is(given(synced_mem_cpu_data(root)), ROOT, 9));
    OK(synced_mem_release(source));
    finish();
}
END_TEST

/* ---- Views that cut a copy ---- */

static void cut_left(void)
{
    SOUND(synced_mem_view(&right, root, QUARTER, QUARTER, NULL) == SYNCED_MEM_OK);
}

/* A copy to a view fails after another view has cut the bytes. All of them have lost their contents. */
START_TEST(a_view_cuts_the_target)
{
    set_staging(0, 1 << 20);
    begin();
    source = make_on(HALF, 0);
    OK(synced_mem_release(root));
    root = make_root(true);
    host_writes(root, 1);
    left = view_of(root, 0, HALF);
    gpu_fill(given(synced_mem_overwrite_gpu_data(source)), HALF, 9, NULL);
    gpu_sync_device(0);
    in_failed_transfer = cut_left;
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_copy(left, source));
    HEAD(right, UNINITIALIZED);
    HEAD(left, UNINITIALIZED);
    HEAD(root, MIXED);
    ck_assert(host_is(given(synced_mem_cpu_data(right)), QUARTER, 0));
    memset(expected, 0, HALF);
    ck_assert(host_reads_right(root));
    OK(synced_mem_release(source));
    finish();
}
END_TEST

/* The stream of the copy writes its source on afterwards. A view has cut the source, or divided it, while the host
 * copied. */
START_TEST(a_view_cuts_the_source)
{
    stream = open_stream(NON_BLOCKING);
    root = make_placed_on(_i ? ROOT : HALF, SYNCED_MEM_PLACEMENT_MAPPED, 0);
    left = _i ? view_of(root, 0, HALF) : NULL;
    synced_mem *const written = _i ? left : root;
    synced_mem *const target = make_placed_on(ROOT, SYNCED_MEM_PLACEMENT_MAPPED, 0);
    synced_mem *const part = view_of(target, 0, HALF);
    void *const data = given(synced_mem_mutable_gpu_data_on(written, stream));
    gpu_fill(data, HALF, 3, stream);
    in_host_copy = cut_left;
    OK(synced_mem_async_gpu_copy(part, written, stream));
    ck_assert(!in_host_copy);
    gpu_fill(data, HALF, 5, stream);
    expect(written, 5);
    ck_assert(host_reads_right(right));
    ck_assert(host_reads_right(written));
    RELEASE_EACH(part, target);
    finish();
}
END_TEST

/* ---- Read-only memory ---- */

static bool access_left(void)
{
    return synced_mem_mutable_gpu_data(left) != NULL;
}

static bool push_left(void)
{
    return synced_mem_async_gpu_push(left, NULL) == SYNCED_MEM_OK;
}

static bool push_root(void)
{
    return synced_mem_async_gpu_push(root, NULL) == SYNCED_MEM_OK;
}

static bool (*const renewals[])(void) = {access_left, push_left, push_root};
enum { RENEWALS = sizeof renewals / sizeof *renewals };

/* A renewal waits for the work on all parts of the memory, and fails. The caller fills another part on. */
START_TEST(a_part_is_written_on)
{
    begin();
    handed_in = gpu_alloc(0, ROOT);
    gpu_fill(handed_in, ROOT, 1, NULL);
    gpu_sync_device(0);
    const synced_mem_memory memory = {
        .struct_size = sizeof memory, .gpu_data = handed_in, .flags = SYNCED_MEM_MEMORY_READ_ONLY};
    OK(synced_mem_use_memory(root, &memory));
    left = view_of(root, 0, HALF);
    right = view_of(root, HALF, HALF);
    if (_i > 0)
        host_fill(given(synced_mem_overwrite_cpu_data(left)), HALF, 4);
    for (unsigned nth = 1; nth < 3; nth++)
        emu_fail("cudaMemcpyAsync", nth, cudaErrorUnknown, false);
    ck_assert(!renewals[_i]());
    emu_fail_clear();
    gpu_fill((char *)handed_in + HALF, HALF, 7, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(right)), HALF, 7));
    finish();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("calls that fail beside others");
    TCase *const tests = add_case(made, "others");
    add_tests(tests, a_copy_succeeds, a_view_cuts_the_target);
    tcase_add_loop_test(tests, others_write, 0, 2 * OTHERS);
    tcase_add_loop_test(tests, others_write_an_object_in_parts, 0, 2 * OF_VIEWS);
    tcase_add_loop_test(tests, others_make_the_zeros, 0, 2);
    tcase_add_loop_test(tests, nobody_writes, 0, 4);
    tcase_add_loop_test(tests, a_view_cuts_the_source, 0, 2);
    tcase_add_loop_test(tests, a_part_is_written_on, 0, RENEWALS);
    return made;
}
