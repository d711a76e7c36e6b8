/*
 * Tests copies between objects that fail, and copies while other calls use the objects. After a failure a target is
 * unchanged, has the contents, or has lost the contents that the transfer had begun to overwrite.
 */
#include "copies_kit.h"
#include "failing_malloc.h"
#include "fixture.h"

#include "cudart_emu.h"
#include "heap.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

struct sm_fence;
struct sm_stream;
struct sm_bounce;

enum { SIZE = 5000, LARGE = 300001 };

/* ---- Replacements of the library's functions and the runtime's (--wrap) ---- */

/* Called once in the thread of the test, with nothing locked, before that thread waits. Copy threads wait too. */
static _Thread_local void (*meanwhile)(synced_mem *mem);
static synced_mem *meanwhile_of;

static void let_others(void)
{
    void (*const call)(synced_mem *) = meanwhile;
    meanwhile = NULL;
    if (call)
        call(meanwhile_of);
}

synced_mem_status __real_sm_fence_wait(struct sm_fence *fence);
synced_mem_status __wrap_sm_fence_wait(struct sm_fence *fence);
synced_mem_status __wrap_sm_fence_wait(struct sm_fence *fence)
{
    let_others();
    return __real_sm_fence_wait(fence);
}

synced_mem_status __real_sm_fence_wait_queued(struct sm_fence *fence);
synced_mem_status __wrap_sm_fence_wait_queued(struct sm_fence *fence);
synced_mem_status __wrap_sm_fence_wait_queued(struct sm_fence *fence)
{
    let_others();
    return __real_sm_fence_wait_queued(fence);
}

static bool holds_nothing_back;

bool __real_sm_stream_hold_back(struct sm_stream *stream, struct sm_fence *fence);
bool __wrap_sm_stream_hold_back(struct sm_stream *stream, struct sm_fence *fence);
bool __wrap_sm_stream_hold_back(struct sm_stream *stream, struct sm_fence *fence)
{
    return !holds_nothing_back && __real_sm_stream_hold_back(stream, fence);
}

static bool no_buffer;

struct sm_bounce *__real_sm_bounce_take(int device, const void *source, size_t size);
struct sm_bounce *__wrap_sm_bounce_take(int device, const void *source, size_t size);
struct sm_bounce *__wrap_sm_bounce_take(int device, const void *source, size_t size)
{
    return no_buffer ? NULL : __real_sm_bounce_take(device, source, size);
}

/* ---- Objects ---- */

static synced_mem *make_managed_there(unsigned pattern)
{
    synced_mem *const mem = make_placed_on(SIZE, SYNCED_MEM_PLACEMENT_MANAGED, 1);
    gpu_make_current(1);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, NULL), SIZE, pattern, NULL);
    gpu_make_current(0);
    return mem;
}

/* ---- Transfers that fail after they have begun ---- */

static const synced_mem_head_kind heads[] = {SYNCED_MEM_AT_CPU, SYNCED_MEM_AT_GPU, SYNCED_MEM_SYNCED,
                                             SYNCED_MEM_UNINITIALIZED};

static synced_mem *make_with_head(size_t size, synced_mem_head_kind head, unsigned pattern)
{
    synced_mem *const mem = make_on(size, 0);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(mem, NULL));
    host_fill(synced_mem_overwrite_cpu_data(mem), size, pattern);
    if (head == SYNCED_MEM_AT_GPU)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mem, NULL), size, pattern, NULL);
    if (head == SYNCED_MEM_SYNCED)
        OK(synced_mem_async_gpu_push(mem, NULL));
    if (head == SYNCED_MEM_UNINITIALIZED)
        OK(synced_mem_clear(mem));
    ck_assert_int_eq(synced_mem_head(mem), head);
    return mem;
}

/* If the other side had the old contents, it still has them. */
static void check_lost(synced_mem *to, synced_mem_head_kind before, synced_mem_head_kind written, size_t size)
{
    ck_assert_int_eq(synced_mem_head(to), before & ~written);
    ck_assert(host_is(synced_mem_cpu_data(to), size, before & ~written ? 9 : 0));
}

START_TEST(a_staged_copy_fails)
{
    void *const mine = malloc(LARGE);
    const synced_mem_head_kind head = heads[_i % 4];
    set_staging((unsigned)_i / 4 * 2, 1);
    synced_mem *const to = make_with_head(LARGE, head, 9), *const from = make_on(LARGE, 0);
    pattern_write(mine, LARGE, 1);
    OK(synced_mem_set_cpu_data(from, mine));
    gpu_sync_device(0);
    emu_fail("cudaMemcpyAsync", 2, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_copy(to, from, NULL));
    SAYS("cudaMemcpyAsync");
    check_lost(to, head, SYNCED_MEM_AT_GPU, LARGE);
    ck_assert_int_eq(synced_mem_head(from), SYNCED_MEM_AT_CPU);
    OK(synced_mem_async_gpu_copy(to, from, NULL));
    ck_assert(host_is(synced_mem_cpu_data(to), LARGE, 1));
    release_both(to, from);
    free(mine);
}
END_TEST

START_TEST(a_copy_to_the_host_fails)
{
    const synced_mem_head_kind head = heads[_i % 4];
    synced_mem *const to = make_with_head(SIZE, head, 9), *const from = make_on_device(SIZE, 1, NULL);
    gpu_sync_device(0);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_copy(to, from));
    check_lost(to, head, SYNCED_MEM_AT_CPU, SIZE);
    ck_assert_int_eq(synced_mem_head(from), SYNCED_MEM_AT_GPU);
    OK(synced_mem_cpu_copy(to, from));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
}
END_TEST

/* Without an event and without synchronization, the end of the transfer is unknown. */
START_TEST(a_transfer_out_of_sight)
{
    const synced_mem_head_kind head = heads[_i % 4];
    const bool to_host = _i / 4;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const to = make_with_head(SIZE, head, 9), *const from = make_on_device(SIZE, 1, NULL);
    OK(synced_mem_end_use_on(from, NULL));
    OK(synced_mem_end_use_on(to, NULL));
    gpu_sync_device(0);
    emu_fail("cudaEventRecord", 1, cudaErrorUnknown, false);
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, to_host ? synced_mem_cpu_copy(to, from) : synced_mem_async_gpu_copy(to, from, stream));
    check_lost(to, head, to_host ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU, SIZE);
    gpu_stream_sync(stream);
    gpu_sync_device(0);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
    close_stream(stream);
    emu_reset(0);
}
END_TEST

/* Without a bounce buffer and without synchronization, the end of the transfer from a pageable source is unknown. */
START_TEST(a_push_out_of_sight)
{
    static unsigned char mine[SIZE];
    const synced_mem_head_kind head = heads[_i];
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const to = make_with_head(SIZE, head, 9), *const from = make_on(SIZE, 0);
    pattern_write(mine, SIZE, 1);
    OK(synced_mem_set_cpu_data(from, mine));
    OK(synced_mem_end_use_on(to, NULL));
    gpu_sync_device(0);
    no_buffer = true;
    emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_copy(to, from, stream));
    check_lost(to, head, SYNCED_MEM_AT_GPU, SIZE);
    gpu_stream_sync(stream);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
    close_stream(stream);
    emu_reset(0);
}
END_TEST

/* The work of a lost device has ended, and a copy by the host does not need it. */
START_TEST(a_lost_device_does_not_hold_back_the_host)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const to = make_on_device(SIZE, 9, stream), *const from = make_pinned(SIZE, 1);
    OK(synced_mem_async_cpu_pull(to, stream));
    emu_break_device(0, cudaErrorIllegalAddress);
    OK(synced_mem_cpu_copy(to, from));
    ck_assert_int_eq(synced_mem_head(to), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
    emu_reset(0);
}
END_TEST

static synced_mem_status read_in_parts(synced_mem *mem)
{
    synced_mem *view;
    OK(synced_mem_view(&view, mem, SIZE / 2, SIZE / 4, NULL));
    const void *const data = synced_mem_cpu_data(mem);
    const synced_mem_status status = status_of(data);
    OK(synced_mem_release(view));
    return status;
}

/* A call that brings the contents of an object to the host. */
static synced_mem_status bring_to_host(int call, synced_mem *mem, synced_mem *other)
{
    switch (call) {
    case 0:
        return status_of(synced_mem_cpu_data(mem));
    case 1:
        return synced_mem_wait(mem);
    case 2:
        return synced_mem_cpu_copy(other, mem);
    case 3:
        return synced_mem_async_cpu_pull(mem, NULL);
    case 4:
        return synced_mem_async_cpu_pull(mem, SYNCED_MEM_STREAM_LIBRARY);
    default:
        return read_in_parts(mem);
    }
}

/* The source's device is lost before the contents have reached another device, which still works. The first call that
 * waits for the contents reports the loss. */
START_TEST(lost_on_the_way_to_another_device)
{
    const bool shared = _i & 1, has_both = _i & 2;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const to = shared ? make_managed_there(9) : make_there(SIZE, 9);
    synced_mem *const from = make_on_device(SIZE, 1, stream);
    synced_mem *const other = make_pinned(SIZE, 5);
    if (has_both)
        ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 9));
    gpu_sync_device(1);
    gpu_stream_sync(stream);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    emu_break_device(0, cudaErrorIllegalAddress);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, bring_to_host(_i / 4, to, other));
    ck_assert_int_eq(synced_mem_head(to), SYNCED_MEM_UNINITIALIZED);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), SIZE, 5));
    gpu_unhold();
    release_both(to, from);
    OK(synced_mem_release(other));
    emu_reset(0);
}
END_TEST

/* Contents that never arrived on the host can be overwritten: by the host, and from a device that still works. */
START_TEST(lost_contents_are_overwritten)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const mine = gpu_pinned_alloc(SIZE);
    synced_mem *const to = make_on(SIZE, 0), *const from = _i ? make_there(SIZE, 1) : make_pinned(SIZE, 1);
    gpu_sync_device(1);
    host_fill(mine, SIZE, 9);
    gpu_fill(gpu_alloc(0, SIZE), SIZE, 9, stream);
    OK(USE(to, .cpu_data = mine, .stream = stream));
    emu_break_device(0, cudaErrorIllegalAddress);
    if (synced_mem_cpu_data(to)) /* the work was done before */
        ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 9));
    OK(synced_mem_cpu_copy(to, from));
    ck_assert_int_eq(synced_mem_head(to), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
    emu_reset(0);
}
END_TEST

/* ---- Several pairs ---- */

START_TEST(the_second_of_three_is_refused)
{
    synced_mem *to[3], *from[3];
    for (int i = 0; i < 3; i++) {
        to[i] = make_named_on(i == 1 ? "second" : "other", SIZE, 0);
        host_fill(synced_mem_overwrite_cpu_data(to[i]), SIZE, 9);
        from[i] = make_on_device(SIZE, 1 + (unsigned)i, NULL);
    }
    emu_fail("cudaMemcpyAsync", 2, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA,
          _i ? synced_mem_cpu_copy_n(to, from, 3) : synced_mem_async_gpu_copy_n(to, from, 3, NULL));
    SAYS("of 'second'");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(synced_mem_head(to[i]), i == 0 && !_i ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU);
        ck_assert(host_is(synced_mem_cpu_data(to[i]), SIZE, i == 0 ? 1 : 9));
        release_both(to[i], from[i]);
    }
}
END_TEST

/* Returns whether one of the refusals was of memory to compare the objects. */
static bool copy_with_refusals(synced_mem *const *to, synced_mem *const *from, size_t count)
{
    bool compared = false;
    bool refused = true;
    for (int nth = 1; refused; nth++) {
        fail_calloc_in = nth;
        const synced_mem_status status = synced_mem_cpu_copy_n(to, from, count);
        refused = atomic_exchange(&fail_calloc_in, 0) == 0;
        ck_assert_int_eq(status, refused ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_OK);
        compared = compared || (refused && strstr(synced_mem_last_error_message(), "no host memory to compare"));
        for (size_t i = 0; i < count; i++)
            ck_assert(host_is(synced_mem_cpu_data(to[i]), SIZE, refused ? 1 : 2));
    }
    return compared;
}

/* The objects of many pairs are compared if a root has several of them, and if memory is the caller's. */
START_TEST(no_memory_to_compare)
{
    enum { PAIRS = 4 };
    static char mine[PAIRS][SIZE];
    synced_mem *const root = make_at_cpu(2 * PAIRS * SIZE, 1);
    synced_mem *to[PAIRS], *from[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        to[i] = make_at_cpu(SIZE, 1);
        from[i] = make(SIZE);
        OK(synced_mem_set_cpu_data(from[i], mine[i]));
        host_fill(synced_mem_mutable_cpu_data(from[i]), SIZE, 2);
    }
    ck_assert(copy_with_refusals(to, from, PAIRS));
    for (int i = 0; i < PAIRS; i++) {
        RELEASE_EACH(to[i], from[i]);
        OK(synced_mem_view(&to[i], root, (size_t)(2 * i) * SIZE, SIZE, NULL));
        OK(synced_mem_view(&from[i], root, (size_t)(2 * i + 1) * SIZE, SIZE, NULL));
        host_fill(synced_mem_mutable_cpu_data(to[i]), SIZE, 1);
        host_fill(synced_mem_mutable_cpu_data(from[i]), SIZE, 2);
    }
    ck_assert(copy_with_refusals(to, from, PAIRS));
    for (int i = 0; i < PAIRS; i++)
        RELEASE_EACH(to[i], from[i]);
    OK(synced_mem_release(root));
}
END_TEST

START_TEST(no_memory_for_records)
{
    synced_mem *const a = make_pinned(SIZE, 1), *const b = make_pinned(SIZE, 2), *const c = make_pinned(SIZE, 3);
    synced_mem *const to[] = {a, b}, *const from[] = {c, c};
    fail_calloc_in = 1;
    const synced_mem_status status = synced_mem_cpu_copy_n(to, from, 2);
    ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    SAYS("no host memory to keep track of 2 copies");
    ck_assert(host_is(synced_mem_cpu_data(a), SIZE, 1));
    OK(synced_mem_release(a));
    release_both(b, c);
}
END_TEST

/* ---- Other calls on the objects, while the host waits ---- */

static void read_old(synced_mem *mem)
{
    ck_assert(host_is(synced_mem_cpu_data(mem), synced_mem_size(mem), 9));
}

static void read_new_on_device(synced_mem *mem)
{
    ck_assert(device_is(synced_mem_gpu_data_on(mem, NULL), synced_mem_size(mem), 1));
}

static void read_any_on_device(synced_mem *mem)
{
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, NULL));
}

static void overwrite_host(synced_mem *mem)
{
    host_fill(synced_mem_overwrite_cpu_data(mem), synced_mem_size(mem), 5);
}

static void overwrite_host_and_clear(synced_mem *mem)
{
    overwrite_host(mem);
    OK(synced_mem_clear(mem));
}

static void resize(synced_mem *mem)
{
    OK(synced_mem_resize(mem, 100));
}

static void give_up_memory(synced_mem *mem)
{
    OK(synced_mem_release_data(mem));
}

static void call_meanwhile(void (*call)(synced_mem *mem), synced_mem *mem)
{
    meanwhile = call;
    meanwhile_of = mem;
}

static const struct {
    synced_mem_head_kind head;
    void (*call)(synced_mem *mem);
    unsigned pattern; /* in the end */
} between[] = {
    {SYNCED_MEM_SYNCED, read_old, 1},
    {SYNCED_MEM_AT_GPU, read_old, 1},
    {SYNCED_MEM_AT_GPU, overwrite_host, 1},
    {SYNCED_MEM_AT_CPU, overwrite_host, 5}, /* the call has waited for the contents */
    {SYNCED_MEM_AT_CPU, read_new_on_device, 1},
    {SYNCED_MEM_SYNCED, give_up_memory, 1},
    {SYNCED_MEM_UNINITIALIZED, overwrite_host_and_clear, 1},
};
enum { BETWEEN = sizeof between / sizeof between[0] };

START_TEST(used_while_contents_come_to_the_host)
{
    synced_mem *const to = make_with_head(SIZE, between[_i].head, 9), *const from = make_on_device(SIZE, 1, NULL);
    gpu_sync_device(0);
    call_meanwhile(between[_i].call, to);
    OK(synced_mem_cpu_copy(to, from));
    ck_assert(!meanwhile);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, between[_i].pattern));
    release_both(to, from);
}
END_TEST

START_TEST(used_while_a_copy_is_staged)
{
    void *const mine = malloc(LARGE);
    void (*const calls[])(synced_mem *) = {read_any_on_device, overwrite_host, give_up_memory};
    set_staging((unsigned)_i / 3 * 2, 1);
    synced_mem *const to = make_with_head(LARGE, _i % 3 == 2 ? SYNCED_MEM_SYNCED : SYNCED_MEM_AT_CPU, 9), *const from =
                                                                                                              make_on(
                                                                                                                  LARGE,
                                                                                                                  0);
    pattern_write(mine, LARGE, 1);
    OK(synced_mem_set_cpu_data(from, mine));
    gpu_sync_device(0);
    call_meanwhile(calls[_i % 3], to);
    OK(synced_mem_async_gpu_copy(to, from, NULL));
    ck_assert(!meanwhile);
    ck_assert_int_eq(synced_mem_head(to), SYNCED_MEM_AT_GPU);
    ck_assert(host_is(synced_mem_cpu_data(to), LARGE, 1));
    release_both(to, from);
    free(mine);
}
END_TEST

static synced_mem *done;

static void overwrite_done(synced_mem *mem)
{
    overwrite_host(done);
    read_old(mem);
}

/* Pairs that are done are not copied again: what was written since stays. */
START_TEST(one_of_two_is_redone)
{
    synced_mem *const first = make_pinned(SIZE, 9), *const second = make_with_head(SIZE, SYNCED_MEM_SYNCED, 9);
    synced_mem *const on_host = make_pinned(SIZE, 1), *const on_device = make_on_device(SIZE, 1, NULL);
    synced_mem *const to[] = {first, second}, *const from[] = {on_host, on_device};
    gpu_sync_device(0);
    done = first;
    call_meanwhile(overwrite_done, second);
    OK(synced_mem_cpu_copy_n(to, from, 2));
    ck_assert(!meanwhile);
    ck_assert(host_is(synced_mem_cpu_data(first), SIZE, 5));
    ck_assert(host_is(synced_mem_cpu_data(second), SIZE, 1));
    release_both(first, second);
    release_both(on_host, on_device);
}
END_TEST

START_TEST(resized_meanwhile)
{
    synced_mem *const to = make_with_head(SIZE, SYNCED_MEM_SYNCED, 9), *const from = make_on_device(SIZE, 1, NULL);
    gpu_sync_device(0);
    call_meanwhile(resize, to);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_copy(to, from));
    ck_assert(host_is(synced_mem_cpu_data(to), 100, 9));
    release_both(to, from);
}
END_TEST

/* The source is used while memory comes from an allocator. */
static int enters;

synced_mem_status __real_sm_enter_restoring_nothing(void *transaction, synced_mem *mem);
synced_mem_status __wrap_sm_enter_restoring_nothing(void *transaction, synced_mem *mem);
synced_mem_status __wrap_sm_enter_restoring_nothing(void *transaction, synced_mem *mem)
{
    if (enters > 0 && --enters == 0)
        let_others();
    return __real_sm_enter_restoring_nothing(transaction, mem);
}

START_TEST(source_given_up_before_the_allocator_is_called)
{
    synced_mem *const to = heaps_make(SIZE), *const from = make_pinned(SIZE, 1);
    call_meanwhile(give_up_memory, from);
    enters = 1; /* the target alone */
    OK(synced_mem_async_gpu_copy(to, from, NULL));
    ck_assert(!meanwhile);
    ck_assert_int_eq(synced_mem_head(to), SYNCED_MEM_UNINITIALIZED);
    release_both(to, from);
    heaps_end();
}
END_TEST

/* If the caller's stream cannot wait for the transfer, the host waits. */
START_TEST(a_stream_that_can_not_wait)
{
    void *const mine = malloc(LARGE);
    set_staging(0, 1);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const to = make_on(LARGE, 0), *const from = make_on(LARGE, 0);
    pattern_write(mine, LARGE, 1);
    OK(synced_mem_set_cpu_data(from, mine));
    holds_nothing_back = true;
    OK(synced_mem_async_gpu_copy(to, from, stream));
    holds_nothing_back = false;
    int pending = -1;
    OK(synced_mem_query(to, &pending));
    ck_assert_int_eq(pending, 0);
    ck_assert(host_is(synced_mem_cpu_data(to), LARGE, 1));
    release_both(to, from);
    close_stream(stream);
    free(mine);
}
END_TEST

/* After a failed wait pointers stay valid: later writes through them are part of the contents. */
START_TEST(a_failed_wait_leaves_pointers)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const to = make_pinned(SIZE, 9), *const from = make_on(SIZE, 0);
    void *const data = synced_mem_overwrite_gpu_data_on(from, stream);
    gpu_fill(data, SIZE, 1, stream);
    emu_fail(_i ? "cudaStreamWaitEvent" : "cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_copy(to, from));
    ck_assert_int_eq(synced_mem_head(to), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 9));
    gpu_fill(data, SIZE, 2, stream);
    OK(synced_mem_cpu_copy(to, from));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 2));
    release_both(to, from);
    close_stream(stream);
}
END_TEST

/* Pointers to the source of a pair stay valid after the copy of a later pair has failed. */
START_TEST(a_failed_copy_leaves_pointers)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *to[2], *from[2];
    for (int i = 0; i < 2; i++) {
        to[i] = make_pinned(SIZE, 9);
        from[i] = make_on(SIZE, 0);
    }
    void *const data = synced_mem_overwrite_gpu_data_on(from[0], stream);
    gpu_fill(data, SIZE, 1, stream);
    gpu_fill(synced_mem_overwrite_gpu_data_on(from[1], stream), SIZE, 1, stream);
    emu_fail("cudaMemcpyAsync", 2, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA,
          _i ? synced_mem_cpu_copy_n(to, from, 2) : synced_mem_async_gpu_copy_n(to, from, 2, other));
    gpu_delay(stream);
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(from[0]), SIZE, 2));
    for (int i = 0; i < 2; i++)
        release_both(to[i], from[i]);
    CLOSE_EACH(stream, other);
}
END_TEST

/* Pointers to a target that the call has settled stay valid too, if its wait for the source then fails. */
START_TEST(a_failed_wait_leaves_pointers_to_the_target)
{
    static _Alignas(4096) unsigned char mine[SIZE];
    synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const to = make_on_device(SIZE, 9, NULL), *const from = make_on(SIZE, 0);
    set_staging(0, 1);
    OK(synced_mem_set_cpu_data(from, mine));
    host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 1);
    gpu_sync_device(0);
    void *const data = synced_mem_overwrite_gpu_data_on(to, stream);
    gpu_fill(data, SIZE, 2, stream);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_gpu_copy(to, from, other));
    ck_assert_int_eq(synced_mem_head(to), SYNCED_MEM_AT_GPU);
    gpu_delay(stream);
    gpu_fill(data, SIZE, 3, stream);
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 3));
    release_both(to, from);
    CLOSE_EACH(stream, other);
}
END_TEST

/* ---- Capture ---- */

START_TEST(capturing)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const to = make_on_device(SIZE, 9, other), *const from = make_on_device(SIZE, 1, other);
    cudaGraph_t graph;
    if (_i == 1)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(to, stream));
    if (_i == 2)
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(from, stream));
    const struct facts before = facts_of(to);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_copy(to, from, _i ? other : stream));
    if (_i == 2)
        FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_cpu_copy(to, from));
    check_unchanged(to, &before);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    OK(synced_mem_async_gpu_copy(to, from, stream));
    ck_assert(host_is(synced_mem_cpu_data(to), SIZE, 1));
    release_both(to, from);
    CLOSE_EACH(stream, other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copies that fail");
    TCase *const failures = add_case(made, "failures");
    tcase_add_test(failures, no_memory_for_records);
    tcase_add_test(failures, no_memory_to_compare);
    tcase_add_loop_test(failures, a_staged_copy_fails, 0, 8);
    tcase_add_loop_test(failures, a_copy_to_the_host_fails, 0, 4);
    tcase_add_loop_test(failures, the_second_of_three_is_refused, 0, 2);
    tcase_add_loop_test(failures, a_failed_wait_leaves_pointers, 0, 2);
    tcase_add_loop_test(failures, a_failed_copy_leaves_pointers, 0, 2);
    tcase_add_test(failures, a_failed_wait_leaves_pointers_to_the_target);
    tcase_add_loop_test(failures, capturing, 0, 3);
    TCase *const others = add_case(made, "other calls");
    add_tests(others, one_of_two_is_redone, resized_meanwhile, source_given_up_before_the_allocator_is_called,
              a_stream_that_can_not_wait);
    tcase_add_loop_test(others, used_while_contents_come_to_the_host, 0, BETWEEN);
    tcase_add_loop_test(others, used_while_a_copy_is_staged, 0, 6);
    TCase *const lost = add_case_without_end(made, "lost");
    tcase_add_test(lost, a_lost_device_does_not_hold_back_the_host);
    tcase_add_loop_test(lost, a_transfer_out_of_sight, 0, 8);
    tcase_add_loop_test(lost, a_push_out_of_sight, 0, 4);
    tcase_add_loop_test(lost, lost_contents_are_overwritten, 0, 2);
    tcase_add_loop_test(lost, lost_on_the_way_to_another_device, 0, 24);
    return made;
}
