/* Tests evictions whose objects are in the middle of staged transfers, which then fail. The contents stay where they
 * were. */
#include "hold_kit.h"

#include "base/status.h"
#include "copy/staged.h"
#include "cudart_emu.h"
#include "device/device.h"

#include <pthread.h>
#include <unistd.h>

enum { CHUNKS = HOLD_BYTES / STAGING_BUFFER }; /* of a pull of HOLD_BYTES */

/* Between the ends of a transfer's part on the device, and of that on the host; and after a transfer has begun. */
static atomic_bool ends_slowly, begins_slowly;
typedef void *(*function)(void *);
static _Atomic(function) meanwhile; /* copy threads read it too */
static pthread_t thread;

void __real_sm_host_pool_free(void *data, size_t bytes, void *block);
void __wrap_sm_host_pool_free(void *data, size_t bytes, void *block);
void __wrap_sm_host_pool_free(void *data, size_t bytes, void *block)
{
    if (atomic_load(&ends_slowly))
        (void)usleep(2000);
    __real_sm_host_pool_free(data, bytes, block);
}

synced_mem_status __real_sm_staged_begin(const struct sm_transfer *transfer, struct sm_stream *internal,
                                         struct sm_fence *after);
synced_mem_status __wrap_sm_staged_begin(const struct sm_transfer *transfer, struct sm_stream *internal,
                                         struct sm_fence *after);
synced_mem_status __wrap_sm_staged_begin(const struct sm_transfer *transfer, struct sm_stream *internal,
                                         struct sm_fence *after)
{
    const synced_mem_status status = __real_sm_staged_begin(transfer, internal, after);
    if (atomic_load(&begins_slowly))
        (void)usleep(10000);
    return status;
}

/* Fails after another thread has begun what it does. */
synced_mem_status __real_sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream on);
synced_mem_status __wrap_sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream on);
synced_mem_status __wrap_sm_device_copy_h2d(int device, void *to, const void *from, size_t size, synced_mem_stream on)
{
    const function run = atomic_exchange(&meanwhile, NULL);
    if (!run)
        return __real_sm_device_copy_h2d(device, to, from, size, on);
    SOUND(pthread_create(&thread, NULL, run, NULL) == 0);
    (void)usleep(50000);
    return sm_fail(SYNCED_MEM_ERR_CUDA, "the test wants this");
}

static void write_on_device(synced_mem *mem, unsigned pattern, synced_mem_stream stream)
{
    OK(hold_one(mem, SYNCED_MEM_OVERWRITE, stream));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, stream)), HOLD_BYTES, pattern, stream);
    OK(unhold_one(mem));
}

/* Each copy of a chunk fails in turn. The thread that evicts may not be the one that meets the failure. */
START_TEST(a_pull_that_fails)
{
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_staging(3, 1);
    synced_mem *const victim = make_evictable("victim", HOLD_BYTES);
    synced_mem *const wanted = make_evictable("wanted", HOLD_BYTES);
    set_budget(HOLD_BYTES * 3 / 2);
    synced_mem_set_pageable_fallback(1);
    emu_set_pinned_memory(1 << 19); /* for buffers */
    for (unsigned nth = 1; nth <= CHUNKS; nth++) {
        write_on_device(victim, nth, stream);
        const unsigned before = emu_failures();
        emu_fail("cudaMemcpyAsync", nth, cudaErrorUnknown, false);
        atomic_store(_i == 0 ? &ends_slowly : &begins_slowly, true);
        FAILS(SYNCED_MEM_ERR_CUDA, hold_one(wanted, SYNCED_MEM_OVERWRITE, stream));
        atomic_store(&ends_slowly, false);
        atomic_store(&begins_slowly, false);
        ck_assert_uint_eq(emu_failures(), before + 1);
        ck_assert(host_is(given(synced_mem_cpu_data(victim)), HOLD_BYTES, nth));
    }
    RELEASE_EACH(victim, wanted);
    CLOSE_EACH(stream);
}
END_TEST

static void *evict_host_copies(void *unused)
{
    (void)unused;
    SOUND(synced_mem_cpu_set_budget(0, NULL, NULL) == SYNCED_MEM_OK);
    return NULL;
}

START_TEST(a_push_that_fails)
{
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_staging(3 * (unsigned)_i, 1);
    synced_mem_set_pageable_fallback(1);
    emu_set_pinned_memory(1 << 19);
    synced_mem *const mem = make_evictable("pushed", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), HOLD_BYTES, 1);
    meanwhile = evict_host_copies;
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_push(mem, stream));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    OK(synced_mem_cpu_set_budget(SYNCED_MEM_NO_BUDGET, NULL, NULL));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 1));
    RELEASE_EACH(mem);
    CLOSE_EACH(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_staged");
    TCase *const tests = add_case(made, "staged");
    add_gpu_loop_test(tests, a_pull_that_fails, 0, 2);
    add_gpu_loop_test(tests, a_push_that_fails, 0, 2);
    return made;
}
