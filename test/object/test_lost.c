/* Checks a device that breaks. Valid host copies stay readable, calls that need the device report the loss, and every
 * object can be released. */
#include "break_device.h"
#include "calls.h"
#include "fixture.h"

#include "cudart_emu.h"
#include "stream/fence.h"
#include "stream/waits.h"

#include <stdlib.h>

enum { SIZE = 5000 };

/* Either the push fails, or only its work on the device. */
static void push_as_it_breaks(synced_mem *mem, synced_mem_stream stream)
{
    const synced_mem_status status = synced_mem_async_gpu_push(mem, stream);
    if (status != SYNCED_MEM_OK)
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, status);
}

static void check_device_lost(synced_mem *mem, synced_mem_head_kind head)
{
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_gpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_overwrite_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), head);
}

START_TEST(host_contents_stay)
{
    void *const borrowed = malloc(SIZE);
    synced_mem *const pageable = make_at_cpu(SIZE, 1);
    synced_mem *const synced = make_at_cpu(SIZE, 2);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(synced));
    synced_mem *const pinned = make_at_cpu(SIZE, 3);
    synced_mem *const foreign = make(SIZE);
    pattern_write(borrowed, SIZE, 4);
    OK(synced_mem_set_cpu_data(foreign, borrowed));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(foreign));
    break_device();
    ck_assert(host_is(synced_mem_cpu_data(pageable), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(synced), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(pinned), SIZE, 3));
    ck_assert(host_is(synced_mem_cpu_data(foreign), SIZE, 4));
    check_device_lost(pageable, SYNCED_MEM_AT_CPU);
    check_device_lost(pinned, SYNCED_MEM_AT_CPU);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_async_gpu_push(pinned, NULL));
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_release_cpu_data(pinned));
    ck_assert(host_is(synced_mem_mutable_cpu_data(synced), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(pinned), SIZE, 3));
    OK(synced_mem_release_gpu_data(synced));
    RELEASE_EACH(pageable, synced, pinned, foreign);
    end_without_device();
    free(borrowed);
}
END_TEST

/* Memory of the host alone needs no device, not even for objects that had device memory. */
START_TEST(host_memory_can_still_be_had)
{
    synced_mem *const named = make_on(SIZE, 0);
    synced_mem *const other = make(SIZE);
    synced_mem *const device = make_at_gpu(SIZE, 1);
    break_device();
    ck_assert(host_is(synced_mem_cpu_data(named), SIZE, 0));
    host_fill(synced_mem_mutable_cpu_data(other), SIZE, 2);
    OK(synced_mem_release_data(device));
    host_fill(synced_mem_overwrite_cpu_data(device), SIZE, 3);
    ck_assert(host_is(synced_mem_cpu_data(device), SIZE, 3));
    RELEASE_EACH(named, other, device);
    end_without_device();
}
END_TEST

/* Zeros of many parts are lost as those of one object are. */
START_TEST(zeros_are_gone)
{
    enum { PARTS = 20 };
    const bool writes = _i;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const one = make_on(SIZE, 0), *const root = make_on(PARTS * SIZE, 0), *views[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        OK(synced_mem_view(&views[i], root, i * SIZE, SIZE, NULL));
    gpu_delay(stream);
    synced_mem *const both[] = {one, root};
    for (int i = 0; i < 2; i++)
        ck_assert_ptr_nonnull(writes ? synced_mem_mutable_gpu_data_on(both[i], stream)
                                     : synced_mem_gpu_data_on(both[i], stream));
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)cudaStreamSynchronize(stream);
    int pending[2];
    ck_assert_int_eq(synced_mem_query(views[3], &pending[1]), synced_mem_query(one, &pending[0]));
    ck_assert_int_eq(synced_mem_head(views[3]), synced_mem_head(one));
    const synced_mem_status first = status_of(synced_mem_cpu_data(one));
    ck_assert_int_eq(status_of(synced_mem_cpu_data(views[3])), first);
    ck_assert_int_eq(synced_mem_head(views[3]), synced_mem_head(one));
    for (size_t i = 0; i < PARTS; i++)
        OK(synced_mem_release(views[i]));
    RELEASE_EACH(one, root);
    (void)synced_mem_forget_stream(stream);
    end_without_device();
}
END_TEST

START_TEST(device_contents_are_gone)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    break_device();
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
    SAYS("cudaErrorIllegalAddress");
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_release_gpu_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, NULL));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 2);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* The device breaks during a push. The arriving contents are lost, but their source is not. */
START_TEST(broken_during_a_push)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    synced_mem_stream stream = gpu_stream_create(0, false);
    emu_break_device(0, cudaErrorIllegalAddress);
    push_as_it_breaks(mem, stream);
    switch (_i) {
    case 0:
        FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
        break;
    case 1:
        ck_assert(host_is(synced_mem_mutable_cpu_data(mem), SIZE, 2));
        break;
    case 2:
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_release_cpu_data(mem));
        break;
    case 3:
        ck_assert(host_is(synced_mem_overwrite_cpu_data(mem), SIZE, 2));
        break;
    case 4:
        OK(synced_mem_release_gpu_data(mem));
        break;
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* The device breaks during a transfer to the host. The contents stay on the device, where they cannot be read. */
START_TEST(broken_during_a_read)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    emu_break_device(0, cudaErrorLaunchFailure);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_cpu_data(mem));
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* The device breaks during a fill with zeros. The object stays empty. */
START_TEST(broken_during_a_fill)
{
    synced_mem *const mem = make(SIZE);
    emu_break_device(0, cudaErrorLaunchFailure);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 0));
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* The loss of work may be known before any wait. Here a poll of the retired host memory that the push was reading
 * detects it. */
START_TEST(known_to_be_lost)
{
    static char borrowed[SIZE];
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    synced_mem_stream stream = gpu_stream_create(0, false);
    emu_break_device(0, cudaErrorLaunchFailure);
    push_as_it_breaks(mem, stream);
    pattern_write(borrowed, SIZE, 2);
    OK(synced_mem_set_cpu_data(mem, borrowed));
    (void)cudaStreamSynchronize(stream);
    synced_mem *const other = make_at_cpu(SIZE, 3);
    OK(synced_mem_release(other));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_mutable_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* A fence that was found lost stays lost, and its event is not queried again. */
START_TEST(lost_fence)
{
    struct sm_fence *fence = NULL;
    void *const data = gpu_alloc(0, SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    gpu_fill(data, SIZE, 1, stream);
    OK(sm_fence_record(0, stream, 1, &fence));
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)cudaStreamSynchronize(stream);
    if (sm_fence_wait(fence) != SYNCED_MEM_OK) {
        const unsigned asked = emu_calls("cudaEventSynchronize") + emu_calls("cudaEventQuery");
        ck_assert_int_eq(sm_fence_state(fence), SM_FENCE_LOST);
        ck_assert_int_eq(sm_fence_wait(fence), SYNCED_MEM_ERR_DEVICE_LOST);
        ck_assert(!sm_fence_poll(fence));
        ck_assert_uint_eq(emu_calls("cudaEventSynchronize") + emu_calls("cudaEventQuery"), asked);
    }
    sm_fence_drop(fence);
    end_without_device();
}
END_TEST

/* Objects are released with work on their memory pending, and that work never succeeds. */
static int callbacks;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)user;
    ck_assert_ptr_null(stream);
    callbacks++;
    free(data);
}

START_TEST(let_go_with_work_pending)
{
    void *const borrowed = gpu_pinned_alloc(SIZE);
    synced_mem *const adopted = make(SIZE);
    synced_mem *const own = make_at_cpu(SIZE, 1);
    synced_mem *const foreign = make(SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    OK(USE(adopted, .cpu_data = calloc(1, SIZE), .callback = count));
    OK(synced_mem_set_cpu_data(foreign, borrowed));
    host_fill(borrowed, SIZE, 3);
    emu_break_device(0, cudaErrorLaunchFailure);
    push_as_it_breaks(adopted, stream);
    push_as_it_breaks(own, stream);
    push_as_it_breaks(foreign, stream);
    RELEASE_EACH(adopted, own, foreign);
    end_without_device();
    ck_assert_int_eq(callbacks, 1);
}
END_TEST

/* Older headers have no name for these errors, with which every later call fails. Memory of the caller's is handed back
 * all the same. */
START_TEST(newer_errors_of_a_lost_device)
{
    static const int codes[] = {226, 721};
    void *const borrowed = aligned_alloc(64, SIZE / 64 * 64 + 64);
    synced_mem *const mem = make(SIZE);
    synced_mem_stream stream = gpu_stream_create(0, false);
    pattern_write(borrowed, SIZE, 1);
    OK(synced_mem_set_cpu_data(mem, borrowed));
    OK(synced_mem_async_gpu_push(mem, stream));
    emu_break_device(0, (cudaError_t)codes[_i]);
    (void)gpu_try_fill(gpu_pinned_alloc(64), 64, 1, stream);
    (void)cudaStreamSynchronize(stream);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_overwrite_gpu_data_on(mem, stream));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    end_without_device();
    free(borrowed);
}
END_TEST

/* ---- Streams ---- */

/* The work in flight on a stream, and the event that ends it. */
enum in_flight { WRITING, READING, PUSHING, PULLING, USED_AND_DONE, IN_FLIGHT };
enum end_of_all { BROKEN, UNLOADED, ENDS };

/* Any call may fail once the device is broken. */
static void begin(synced_mem *mem, enum in_flight what, synced_mem_stream stream)
{
    void *data = NULL;
    switch (what) {
    case WRITING:
    case PULLING:
    case USED_AND_DONE:
        data = synced_mem_mutable_gpu_data_on(mem, stream);
        break;
    case READING:
        data = (void *)synced_mem_gpu_data_on(mem, stream);
        break;
    case PUSHING:
        (void)synced_mem_async_gpu_push(mem, stream);
        break;
    case IN_FLIGHT:
        break;
    }
    if (data)
        (void)gpu_try_fill(data, SIZE, 3, stream);
    if (what == PULLING)
        (void)synced_mem_async_cpu_pull(mem, stream);
    if (what == USED_AND_DONE)
        (void)synced_mem_forget_stream(stream);
}

static void happen(enum end_of_all end, synced_mem_stream stream)
{
    if (end == BROKEN)
        (void)cudaStreamSynchronize(stream);
    else
        emu_set_machine(EMU_UNLOADING);
}

/* After each loss, the host's contents can be read if it has any. Calls that need the device fail, and the object can
 * be released. */
START_TEST(lost_with_work_on_streams)
{
    const enum in_flight what = (enum in_flight)(_i / ENDS);
    const enum end_of_all end = (enum end_of_all)(_i % ENDS);
    void *const borrowed = aligned_alloc(64, SIZE / 64 * 64 + 64);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem *const foreign = make(SIZE);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 2);
    pattern_write(borrowed, SIZE, 5);
    OK(synced_mem_set_cpu_data(foreign, borrowed));
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem_stream other = gpu_stream_create(0, false);
    OK(synced_mem_release(make_at_gpu(SIZE, 7))); /* creates the internal streams */
    if (end == BROKEN)
        emu_break_device(0, cudaErrorLaunchFailure);
    begin(mem, what, stream);
    begin(foreign, what, stream);
    happen(end, stream);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_overwrite_gpu_data_on(mem, other));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_gpu_data_on(foreign, other));
    if (synced_mem_cpu_data(mem))
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, what == PULLING ? 3 : 2) ||
                  host_is(synced_mem_cpu_data(mem), SIZE, 2));
    else
        ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_DEVICE_LOST);
    if (what == READING || what == PUSHING)
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    (void)synced_mem_wait(mem);
    (void)synced_mem_end_use_on(mem, stream);
    (void)synced_mem_forget_stream(stream);
    (void)synced_mem_reap();
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 4);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 4));
    RELEASE_EACH(mem, foreign);
    pattern_write(borrowed, SIZE, 6); /* the memory is the caller's again */
    end_without_device();
    free(borrowed);
}
END_TEST

/* No event can be recorded for a stream that is forgotten after the loss. The contents that it was to write are
 * lost. */
START_TEST(done_on_a_lost_device)
{
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    OK(synced_mem_async_cpu_pull(mem, SYNCED_MEM_STREAM_LIBRARY)); /* makes the stream of the pull that fails */
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)gpu_try_fill(data, SIZE, 2, stream);
    happen(BROKEN, stream);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_forget_stream(stream));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
    SAYS("was lost before stream");
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* A query reports contents that will not arrive, once. */
START_TEST(asked_about_lost_contents)
{
    int pending = 0;
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    synced_mem_stream stream = gpu_stream_create(0, false);
    emu_break_device(0, cudaErrorLaunchFailure);
    push_as_it_breaks(mem, stream);
    (void)cudaStreamSynchronize(stream);
    if (synced_mem_head(mem) == SYNCED_MEM_SYNCED) {
        FAILS(SYNCED_MEM_ERR_DEVICE_LOST, _i ? synced_mem_wait(mem) : synced_mem_query(mem, &pending));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    }
    OK(synced_mem_query(mem, &pending));
    OK(synced_mem_wait(mem));
    ck_assert_int_eq(pending, 0);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* The same of memory that never got contents: its allocation is lost. */
START_TEST(asked_about_lost_memory)
{
    int pending = 0;
    synced_mem *const root = make_on(SIZE, 0), *part = NULL;
    synced_mem_stream stream = gpu_stream_create(0, false);
    OK(synced_mem_view(&part, root, 0, SIZE / 2, NULL));
    synced_mem *const mem = _i & 2 ? part : root;
    gpu_delay(stream);
    emu_fail("cudaMemsetAsync", 1, cudaErrorUnknown, false);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data_on(mem, stream));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)cudaStreamSynchronize(stream);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, _i & 1 ? synced_mem_wait(mem) : synced_mem_query(mem, &pending));
    OK(synced_mem_query(mem, &pending));
    OK(synced_mem_wait(mem));
    ck_assert_int_eq(pending, 0);
    RELEASE_EACH(part, root);
    end_without_device();
}
END_TEST

/* A growth succeeds if the contents are on the host alone. */
START_TEST(resized_on_a_lost_device)
{
    synced_mem *const host = make_at_cpu(SIZE, 1);
    synced_mem *const synced = make_at_cpu(SIZE, 2);
    synced_mem *const device = make_at_gpu(SIZE, 3);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(synced));
    break_device();
    OK(synced_mem_resize(host, 2 * SIZE));
    ck_assert(host_is(synced_mem_cpu_data(host), SIZE, 1));
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_resize(synced, 2 * SIZE));
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_resize(device, 2 * SIZE));
    ck_assert_uint_eq(synced_mem_size(device), SIZE);
    ck_assert(host_is(synced_mem_cpu_data(synced), SIZE, 2));
    OK(synced_mem_resize(synced, SIZE / 2));
    OK(synced_mem_resize_discard(device, 3 * SIZE));
    ck_assert(host_is(synced_mem_cpu_data(device), 3 * SIZE, 0));
    RELEASE_EACH(host, synced, device);
    end_without_device();
}
END_TEST

/* The device breaks while contents are copied to larger memory. No call takes zeros for the contents. */
START_TEST(lost_on_the_way_to_larger_memory)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    synced_mem_stream stream = gpu_stream_create(0, false);
    void *const victim = gpu_pinned_alloc(64);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    emu_break_device(0, cudaErrorLaunchFailure);
    const synced_mem_status grown = synced_mem_resize(mem, 2 * SIZE);
    if (grown != SYNCED_MEM_OK)
        ck_assert_int_eq(grown, SYNCED_MEM_ERR_DEVICE_LOST);
    (void)gpu_try_fill(victim, 64, 1, stream);
    (void)cudaStreamSynchronize(stream);
    (void)synced_mem_wait(mem);
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 2);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* A kernel writes memory that both sides share, another stream reads it, and the device is lost meanwhile. */
START_TEST(lost_in_shared_memory)
{
    synced_mem *const mem = make_placed_on(SIZE, SYNCED_MEM_PLACEMENT_MAPPED, 0);
    void *const victim = gpu_pinned_alloc(64);
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem_stream other = gpu_stream_create(0, false);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    OK(synced_mem_async_cpu_pull(mem, stream));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, other));
    const bool pends = gpu_unfinished() > 0;
    emu_break_device(0, cudaErrorLaunchFailure);
    (void)gpu_try_fill(victim, 64, 1, other);
    (void)cudaStreamSynchronize(other);
    void *const data = _i ? synced_mem_mutable_cpu_data(mem) : (void *)synced_mem_cpu_data(mem);
    if (pends || !data)
        ck_assert_ptr_null(data);
    else
        ck_assert(host_is(data, SIZE, 1));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 2);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

/* Other devices go on, even if the caller's current device is the broken one. */
START_TEST(another_device)
{
    synced_mem *const here = make_at_cpu(SIZE, 1);
    synced_mem *const there = make_on(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(here));
    gpu_make_current(1);
    gpu_fill(synced_mem_overwrite_gpu_data(there), SIZE, 2, NULL);
    gpu_make_current(0);
    break_device();
    gpu_make_current(_i);
    ck_assert(host_is(synced_mem_cpu_data(there), SIZE, 2));
    host_fill(synced_mem_mutable_cpu_data(there), SIZE, 3);
    OK(synced_mem_release_cpu_data(there));
    ck_assert(host_is(synced_mem_cpu_data(there), SIZE, 3));
    ck_assert(host_is(synced_mem_cpu_data(here), SIZE, 1));
    gpu_make_current(1);
    ck_assert(device_is(synced_mem_gpu_data(there), SIZE, 3));
    gpu_make_current(_i);
    RELEASE_EACH(here, there);
    gpu_make_current(0);
    end_without_device();
}
END_TEST

/* The linker puts the wrapper in place of the library's own function (--wrap). */
static int waits_until_loss;  /* 0: the loss is not to be noticed in a wait */
static synced_mem *lost_with; /* has contents that are lost by the same work */
static bool has_lost;         /* the device broke before it had copied them */

synced_mem_status __real_sm_waits_wait(struct sm_waits *waits, bool *ended);
synced_mem_status __wrap_sm_waits_wait(struct sm_waits *waits, bool *ended);
synced_mem_status __wrap_sm_waits_wait(struct sm_waits *waits, bool *ended)
{
    if (waits_until_loss > 0 && --waits_until_loss == 0)
        has_lost = synced_mem_wait(lost_with) == SYNCED_MEM_ERR_DEVICE_LOST;
    return __real_sm_waits_wait(waits, ended);
}

/* A part gets its contents from a device that is lost, after a stream of another device was given the whole root. The
 * stream's next access waits for something else, and finds the loss afterwards. */
START_TEST(lost_while_an_access_waits)
{
    enum { PART = 1 << 16, MOST = 12 };
    static _Alignas(4096) unsigned char memory[MOST * PART];
    const size_t parts = _i % 2 == 0 ? 3 : MOST;
    synced_mem_stream stream = gpu_stream_create(0, false), there = gpu_stream_create(1, false);
    set_staging(1, 1);
    synced_mem *const root = make_on(parts * PART, 0), *const other = make_on(PART, 0), *views[MOST];
    lost_with = other;
    synced_mem *const from[] = {make_on(PART, 1), make_on(PART, 1)};
    OK(synced_mem_set_cpu_data(root, memory));
    gpu_fill(synced_mem_overwrite_gpu_data_on(root, stream), parts * PART, 1, stream);
    for (size_t i = 0; i < parts; i++)
        OK(synced_mem_view(&views[i], root, i * PART, PART, NULL));
    for (int i = 0; i < 2; i++)
        gpu_fill(synced_mem_overwrite_gpu_data_on(from[i], there), PART, 2, there);
    gpu_delay(there);
    OK(synced_mem_async_gpu_copy_n((synced_mem *[]){views[1], other}, (synced_mem *const *)from, 2, there));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(root, stream));
    emu_break_device(1, cudaErrorLaunchFailure);
    (void)cudaStreamSynchronize(there);
    host_fill(synced_mem_overwrite_cpu_data(views[0]), PART, 3);
    waits_until_loss = 1 + _i / 2;
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(root, stream));
    const bool is_noticed = waits_until_loss == 0; /* there may be one wait less */
    waits_until_loss = 0;
    ck_assert_int_eq(synced_mem_head(views[1]), SYNCED_MEM_AT_GPU);
    ck_assert(device_is(synced_mem_gpu_data_on(views[0], stream), PART, 3));
    ck_assert(!is_noticed || device_is(synced_mem_gpu_data_on(views[1], stream), PART, has_lost ? 0 : 2));
    for (size_t i = 0; i < parts; i++)
        OK(synced_mem_release(views[i]));
    RELEASE_EACH(root, other, from[0], from[1]);
    (void)synced_mem_forget_stream(stream);
    (void)synced_mem_forget_stream(there);
    end_without_device();
}
END_TEST

/* The error names the call that has failed first. The calls that restore the object's state fail too. */
START_TEST(the_first_failure_is_reported)
{
    static const int waits[] = {CPU_READ, CPU_MUTABLE, FREE_GPU}; /* for a transfer that the device does not finish */
    synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
    emu_fail("cudaEventSynchronize", 1, cudaErrorIllegalAddress, true);
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, make_call(mem, waits[_i], NULL));
    SAYS("cudaEventSynchronize");
    OK(synced_mem_release(mem));
    end_without_device();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("lost");
    TCase *const tests = add_case_without_end(made, "lost");
    add_tests(tests, host_contents_stay, host_memory_can_still_be_had, device_contents_are_gone, broken_during_a_read,
              broken_during_a_fill, known_to_be_lost, lost_fence, let_go_with_work_pending, done_on_a_lost_device,
              resized_on_a_lost_device, lost_on_the_way_to_larger_memory);
    tcase_add_loop_test(tests, zeros_are_gone, 0, 2);
    tcase_add_loop_test(tests, broken_during_a_push, 0, 5);
    tcase_add_loop_test(tests, newer_errors_of_a_lost_device, 0, 2);
    tcase_add_loop_test(tests, another_device, 0, 2);
    tcase_add_loop_test(tests, lost_while_an_access_waits, 0, 4);
    tcase_add_loop_test(tests, lost_with_work_on_streams, 0, IN_FLIGHT * ENDS);
    tcase_add_loop_test(tests, asked_about_lost_contents, 0, 2);
    tcase_add_loop_test(tests, asked_about_lost_memory, 0, 4);
    tcase_add_loop_test(tests, lost_in_shared_memory, 0, 2);
    tcase_add_loop_test(tests, the_first_failure_is_reported, 0, 3);
    return made;
}
