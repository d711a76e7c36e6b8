/* Checks that calls on many small objects in one file read it in whole chunks, however many objects there are, and
 * that the copies to a device go to the runtime in few calls. */
#include "failing_calls.h"
#include "failing_calloc.h"
#include "files_kit.h"
#include "hold_kit.h"
#include "kernels.h"

#include "cudart_emu.h"

#include "object/load_several.h"
#include "system/file_at.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* The linker puts the wrappers in place of the library's own functions (--wrap). */
static atomic_ulong device_calls;
synced_mem_status __real_sm_device_copy_h2d(int device, void *to, const void *from, size_t size,
                                            synced_mem_stream stream);
synced_mem_status __wrap_sm_device_copy_h2d(int device, void *to, const void *from, size_t size,
                                            synced_mem_stream stream);
synced_mem_status __wrap_sm_device_copy_h2d(int device, void *to, const void *from, size_t size,
                                            synced_mem_stream stream)
{
    atomic_fetch_add(&device_calls, 1);
    return __real_sm_device_copy_h2d(device, to, from, size, stream);
}

static atomic_int fail_read_in; /* the number of further reads until one fails; 0: none fails */
int __real_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    if (atomic_load(&fail_read_in) > 0 && atomic_fetch_sub(&fail_read_in, 1) == 1) {
        *done = 0;
        return EIO;
    }
    return __real_sm_file_read_at(file, data, bytes, offset, done);
}

enum { EACH = 64 };
static const size_t counts[] = {100, SANITIZED ? 1000 : 10000, SANITIZED ? 4000 : 23000};
enum { COUNTS = sizeof counts / sizeof counts[0] };
enum call { PUSH, PULL, HOLD_ON_DEVICE, HOLD_ON_HOST };
enum { CALLS = HOLD_ON_HOST + 1 };

static struct {
    size_t count;
    synced_mem_file *file;
    synced_mem **mems;
} it;

/* In the file's order: the objects of a checkpoint. Else in another one, as a hash table would have them. */
static size_t get_place(size_t i, bool in_order)
{
    return (in_order ? i : i * 7919 % it.count) * EACH;
}

static void make_all(size_t count, bool evictable, bool in_order)
{
    it.count = count;
    it.file = make_file(FILE_BYTES, 1);
    it.mems = calloc(count, sizeof *it.mems);
    ck_assert_ptr_nonnull(it.mems);
    for (size_t i = 0; i < count; i++) {
        it.mems[i] = evictable ? make_evictable("many", EACH) : make(EACH);
        OK(synced_mem_use_file(it.mems[i], it.file, get_place(i, in_order)));
    }
    atomic_store(&device_calls, 0);
}

static void end_all(void)
{
    release_all(it.mems, it.count);
    free(it.mems);
    end_file(it.file);
}

static synced_mem_status do_call(enum call call)
{
    switch (call) {
    case PUSH:
        return synced_mem_async_gpu_push_n(it.mems, it.count, NULL);
    case PULL:
        return synced_mem_async_cpu_pull_n(it.mems, it.count, NULL);
    case HOLD_ON_DEVICE:
        return synced_mem_hold_n(it.mems, it.count, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, NULL);
    case HOLD_ON_HOST:
        break;
    }
    return synced_mem_hold_n(it.mems, it.count, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL);
}

static bool is_hold(enum call call)
{
    return call == HOLD_ON_DEVICE || call == HOLD_ON_HOST;
}

static bool is_to_device(enum call call)
{
    return call == PUSH || call == HOLD_ON_DEVICE;
}

/* Returns how many reads so many bytes take at most: each of 16 threads may get a chunk, and none is under 256 KiB. */
static uint64_t count_chunks(size_t bytes)
{
    return (bytes + 262143) / 262144;
}

/* 10,000 objects take as many reads as one object of their bytes. */
START_TEST(reads_do_not_grow_with_objects)
{
    const enum call call = (enum call)(_i % CALLS);
    const bool in_order = _i / CALLS % 2;
    make_all(counts[_i / CALLS / 2], is_hold(call), in_order);
    OK(do_call(call));
    for (size_t i = 0; i < it.count; i++)
        ck_assert(is_to_device(call) ? device_has(it.mems[i], get_place(i, in_order))
                                     : host_has(it.mems[i], get_place(i, in_order)));
    ck_assert_uint_eq(stats_now().file_reads, count_chunks(it.count * EACH));
    ck_assert_uint_eq(stats_now().file_read_bytes, it.count * EACH);
    if (is_to_device(call)) {
        ck_assert_uint_eq(stats_now().h2d_transfers, it.count);
        ck_assert_uint_le(atomic_load(&device_calls), count_chunks(it.count * EACH));
        ck_assert_uint_eq(stats_now().kernel_copies, getenv("SYNCED_MEM_TEST_KERNELS") ? it.count : 0);
    }
    if (is_hold(call))
        OK(synced_mem_unhold_n(it.mems, it.count, is_to_device(call) ? SYNCED_MEM_SIDE_GPU : SYNCED_MEM_SIDE_CPU));
    end_all();
}
END_TEST

/* A kernel makes the copies of a chunk, or copy engines if it can't be launched. */
START_TEST(a_kernel_scatters)
{
    const enum call call = _i % 2 ? PUSH : HOLD_ON_DEVICE;
    const bool fails = _i / 2;
    use_kernels(1);
    make_all(100, is_hold(call), true);
    const uint64_t before = stats_now().kernel_copies;
    if (fails)
        emu_fail("cudaLaunchKernelExC", 1, cudaErrorUnknown, false);
    OK(do_call(call));
    for (size_t i = 0; i < it.count; i++)
        ck_assert(device_has(it.mems[i], get_place(i, true)));
    emu_fail_clear();
    ck_assert_uint_eq(stats_now().kernel_copies - before, fails ? 0 : it.count);
    if (is_hold(call))
        OK(synced_mem_unhold_n(it.mems, it.count, SYNCED_MEM_SIDE_GPU));
    end_all();
}
END_TEST

static bool holds_meanwhile;

static void *hold_one_on_the_host(void *unused)
{
    OK(synced_mem_hold(it.mems[1], SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL));
    return unused;
}

synced_mem_status __real_sm_load_several(const struct sm_load_call *call, struct synced_mem **failed);
synced_mem_status __wrap_sm_load_several(const struct sm_load_call *call, struct synced_mem **failed);
synced_mem_status __wrap_sm_load_several(const struct sm_load_call *call, struct synced_mem **failed)
{
    pthread_t thread;
    if (holds_meanwhile) {
        holds_meanwhile = false;
        ck_assert_int_eq(pthread_create(&thread, NULL, hold_one_on_the_host, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    return __real_sm_load_several(call, failed);
}

/* Another thread's hold has read an object after this one has seen it in the file alone. */
START_TEST(another_hold_reads_meanwhile)
{
    make_all(10, true, true);
    holds_meanwhile = true;
    OK(do_call(HOLD_ON_HOST));
    ck_assert(!holds_meanwhile);
    for (size_t i = 0; i < it.count; i++)
        ck_assert(host_has(it.mems[i], get_place(i, true)));
    OK(synced_mem_unhold(it.mems[1], SYNCED_MEM_SIDE_CPU));
    OK(synced_mem_unhold_n(it.mems, it.count, SYNCED_MEM_SIDE_CPU));
    end_all();
}
END_TEST

/* ---- Writes ---- */

static atomic_ulong waits_added, processors_counted;
static atomic_bool first_is_slow;

struct sm_waits;
struct sm_fence;
synced_mem_status __real_sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose);
synced_mem_status __wrap_sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose);
synced_mem_status __wrap_sm_waits_add_fence(struct sm_waits *waits, struct sm_fence *fence, unsigned purpose)
{
    atomic_fetch_add(&waits_added, 1);
    return __real_sm_waits_add_fence(waits, fence, purpose);
}

unsigned __real_sm_processors(void);
unsigned __wrap_sm_processors(void);
unsigned __wrap_sm_processors(void)
{
    atomic_fetch_add(&processors_counted, 1);
    return __real_sm_processors();
}

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    if (atomic_exchange(&first_is_slow, false))
        (void)usleep(300000);
    return __real_sm_file_write_at(file, data, bytes, offset);
}

/* Of many writes of the same bytes that have yet to begin, each waits for the one before it. The first is slow, so the
 * others wait. Every third has less bytes, which leaves those around it to the write before. */
START_TEST(writes_wait_for_one_another)
{
    enum { SIZE = 300 };
    const size_t count = _i ? 3000 : 100;
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    synced_mem **const mems = calloc(count, sizeof *mems);
    ck_assert_ptr_nonnull(mems);
    for (size_t i = 0; i < count; i++)
        mems[i] = make_at_cpu(i % 3 == 2 ? SIZE / 2 : SIZE, (unsigned)i);
    atomic_store(&waits_added, 0);
    atomic_store(&first_is_slow, true);
    for (size_t i = 0; i < count; i++) {
        const size_t place = i % 3 == 2 ? 1000 + SIZE / 4 : 1000;
        OK(synced_mem_async_write_file(mems[i], file, place, SYNCED_MEM_NO_STREAM));
        pattern_write(in_file + place, synced_mem_size(mems[i]), (unsigned)i);
    }
    ck_assert_uint_le(atomic_load(&waits_added), 3 * count);
    ck_assert_uint_le(atomic_load(&processors_counted), 10);
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(FILE_BYTES));
    release_all(mems, count);
    free(mems);
    end_file(file);
}
END_TEST

/* Neighbours are written together, in the file's order, and a gap between others is left as it is. */
START_TEST(writes_do_not_grow_with_objects)
{
    const size_t count = counts[_i % COUNTS];
    const bool on_device = _i / COUNTS;
    synced_mem_file *const file = make_file(FILE_BYTES, 1);
    uint64_t *const offsets = calloc(count, sizeof *offsets);
    it.count = count;
    it.mems = calloc(count, sizeof *it.mems);
    ck_assert(offsets && it.mems);
    for (size_t i = 0; i < count; i++) {
        it.mems[i] = on_device ? make_on(EACH, 0) : make_at_cpu(EACH, 3);
        if (on_device)
            gpu_fill(given(synced_mem_overwrite_gpu_data_on(it.mems[i], NULL)), EACH, 3, NULL);
        offsets[i] = 1 + i * 7919 % count * EACH + (i * 7919 % count >= 50 ? 1 : 0);
        pattern_write(in_file + offsets[i], EACH, 3);
    }
    OK(synced_mem_async_write_file_n(it.mems, file, offsets, count, NULL));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(FILE_BYTES));
    ck_assert_uint_le(stats_now().file_writes, 2 + count_chunks(count * EACH));
    ck_assert_uint_eq(stats_now().file_write_bytes, count * EACH);
    release_all(it.mems, count);
    free(it.mems);
    free(offsets);
    end_file(file);
}
END_TEST

/* ---- Failures ---- */

static void begin_failing_read(struct failing *each)
{
    atomic_store(&fail_read_in, (int)each->nth);
}

static bool end_failing_read(struct failing *each)
{
    (void)each;
    return atomic_exchange(&fail_read_in, 0) == 0;
}

static bool has_contents(synced_mem *mem, enum call call, uint64_t offset)
{
    return is_to_device(call) ? device_has(mem, offset) : host_has(mem, offset);
}

/* Returns how the call, and an access to each object after it, have ended. */
static synced_mem_status do_call_and_access(enum call call)
{
    synced_mem_status first = do_call(call);
    for (size_t i = 0; i < it.count && first == SYNCED_MEM_OK; i++)
        first = status_of(is_to_device(call) ? synced_mem_gpu_data(it.mems[i]) : synced_mem_cpu_data(it.mems[i]));
    return first;
}

static void unhold_all(enum call call)
{
    if (is_hold(call))
        (void)synced_mem_unhold_n(it.mems, it.count, is_to_device(call) ? SYNCED_MEM_SIDE_GPU : SYNCED_MEM_SIDE_CPU);
}

/* After each failure all objects are in the file, none has contents that did not arrive, and the same call succeeds. */
static void play(enum call call, struct failing each, synced_mem_status failure)
{
    int failed = 0;
    while (next_failure(&each)) {
        make_all(40, is_hold(call), false);
        begin_failing(&each);
        const synced_mem_status status = do_call_and_access(call);
        (void)end_failing(&each);
        ck_assert_msg(status == SYNCED_MEM_OK || status == failure, "%s", synced_mem_last_error_message());
        failed += status != SYNCED_MEM_OK;
        if (failure == SYNCED_MEM_ERR_FILE && status != SYNCED_MEM_OK)
            SAYS("2560 bytes at offset 0 of the file can't be read: Input/output error");
        unhold_all(call);
        for (size_t i = 0; i < it.count; i++) {
            ck_assert_int_eq(synced_mem_in_file(it.mems[i]), 1);
            if (synced_mem_head(it.mems[i]) != SYNCED_MEM_UNINITIALIZED && !is_hold(call))
                ck_assert(has_contents(it.mems[i], call, get_place(i, false)));
            OK(synced_mem_release_data(it.mems[i]));
        }
        OK(do_call(call));
        for (size_t i = 0; i < it.count; i++)
            ck_assert(has_contents(it.mems[i], call, get_place(i, false)));
        unhold_all(call);
        end_all();
        OK(synced_mem_shutdown());
    }
    ck_assert(failed > 0 || is_hold(call)); /* an access that comes after the failure of a hold's read reads again */
}

START_TEST(each_read_fails)
{
    play((enum call)_i, (struct failing){begin_failing_read, end_failing_read, .call = NULL}, SYNCED_MEM_ERR_FILE);
}
END_TEST

START_TEST(each_call_of_the_runtime_fails)
{
    play(_i ? HOLD_ON_DEVICE : PUSH, each_call("*", cudaErrorUnknown), SYNCED_MEM_ERR_CUDA);
}
END_TEST

START_TEST(each_allocation_fails)
{
    play((enum call)_i, each_calloc(), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_many");
    TCase *const tests = add_case(made, "many");
    add_divided_test(tests, reads_do_not_grow_with_objects, 0, COUNTS * CALLS * 2);
    add_gpu_loop_test(tests, a_kernel_scatters, 0, 4);
    add_tests(tests, another_hold_reads_meanwhile);
    TCase *const writes = add_case(made, "writes");
    tcase_add_loop_test(writes, writes_wait_for_one_another, 0, 2);
    add_divided_test(writes, writes_do_not_grow_with_objects, 0, COUNTS * 2);
    TCase *const failures = add_case(made, "failures");
    tcase_add_loop_test(failures, each_read_fails, 0, CALLS);
    tcase_add_loop_test(failures, each_call_of_the_runtime_fails, 0, 2);
    tcase_add_loop_test(failures, each_allocation_fails, 0, CALLS);
    return made;
}
