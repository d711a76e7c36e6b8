/* Checks two threads in a fixed order. The second one runs when the first is at a certain call of the runtime. */
#include "fixture.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 5000, LARGER = 100000 };

/* ---- The order ---- */

enum moment { NEVER, AT_THE_LOOK, AT_THE_RECORD, AFTER_THE_RECORD, AT_THE_WAIT, AT_THE_FREE, AFTER_THE_FREE };

static struct {
    enum moment moment;
    void (*body)(void);
    pthread_t thread;
    atomic_bool over;
    bool fails; /* the first thread's wait fails */
} second;

static atomic_int wrong;

/* Check's own assertions are for the main thread. */
static void sound(bool condition)
{
    if (!condition)
        atomic_fetch_add(&wrong, 1);
}

static void run_second_at(enum moment moment, void (*body)(void))
{
    second.moment = moment;
    second.body = body;
}

static void *run_body(void *unused)
{
    (void)unused;
    second.body();
    atomic_store(&second.over, true);
    return NULL;
}

/* Runs the second thread if the moment has come. The thread may have to wait for the first one: then it sleeps. */
static void come_to(enum moment moment)
{
    enum { A_WHILE = 200, STEP_US = 100 };
    if (second.moment != moment)
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
    ck_assert_int_eq(atomic_load(&wrong), 0);
}

cudaError_t __real_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    come_to(AT_THE_RECORD);
    const cudaError_t code = __real_cudaEventRecord(event, stream);
    come_to(AFTER_THE_RECORD);
    return code;
}

cudaError_t __real_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out);
cudaError_t __wrap_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out);
cudaError_t __wrap_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    come_to(AT_THE_LOOK);
    return __real_cudaStreamIsCapturing(stream, out);
}

cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    const bool here = second.moment == AT_THE_WAIT;
    come_to(AT_THE_WAIT);
    return here && second.fails ? cudaErrorUnknown : __real_cudaEventSynchronize(event);
}

cudaError_t __real_cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t __wrap_cudaFreeAsync(void *data, cudaStream_t stream);
cudaError_t __wrap_cudaFreeAsync(void *data, cudaStream_t stream)
{
    come_to(AT_THE_FREE);
    const cudaError_t code = __real_cudaFreeAsync(data, stream);
    come_to(AFTER_THE_FREE);
    return code;
}

/* ---- A stream is destroyed ---- */

static synced_mem *mem;
static synced_mem_stream stream, next;

static void be_done(void)
{
    sound(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
}

static void destroy(void)
{
    be_done();
    sound(cudaStreamDestroy(stream) == cudaSuccess);
}

/* The next stream gets the handle. */
static void destroy_and_create(void)
{
    destroy();
    sound(cudaStreamCreateWithFlags(&next, cudaStreamNonBlocking) == cudaSuccess);
}

/* One thread ends the stream's use while the other forgets and destroys the stream. No event is recorded on the
 * destroyed stream, and its work is waited for all the same. */
START_TEST(a_stream_goes_while_its_use_ends)
{
    const enum moment moment = _i & 1 ? AT_THE_RECORD : AT_THE_LOOK;
    mem = make_on(SIZE, 0);
    stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    if (_i & 4)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    run_second_at(moment, _i & 2 ? destroy_and_create : destroy);
    if (_i & 8)
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    join_second();
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    if (next)
        close_stream(next);
}
END_TEST

/* The same while memory is freed in the stream's order. The free comes before the stream is destroyed, or on another
 * stream. */
START_TEST(a_stream_goes_while_memory_is_freed)
{
    static const enum moment moments[] = {AT_THE_LOOK, AT_THE_FREE, AFTER_THE_FREE};
    keep_no_spares();
    mem = make_on(SIZE, 0);
    stream = open_stream(NON_BLOCKING);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, stream), SIZE, 1, stream);
    run_second_at(moments[_i / 2], _i % 2 ? destroy_and_create : destroy);
    OK(synced_mem_release(mem));
    join_second();
    ck_assert_uint_eq(stats_now().gpu_bytes, 0);
    if (next)
        close_stream(next);
}
END_TEST

/* Two threads forget one stream, which is destroyed when the first of them returns. */
START_TEST(two_are_done_with_a_stream)
{
    synced_mem *const two[] = {make_on(SIZE, 0), make_on(SIZE, 0)};
    stream = open_stream(NON_BLOCKING);
    for (unsigned i = 0; i < 2; i++)
        gpu_fill(synced_mem_overwrite_gpu_data_on(two[i], stream), SIZE, i + 1, stream);
    run_second_at(_i ? AT_THE_RECORD : AFTER_THE_RECORD, be_done);
    OK(synced_mem_forget_stream(stream));
    join_second();
    gpu_stream_destroy(stream);
    stream = open_stream(NON_BLOCKING);
    OK(synced_mem_release_data(two[0]));
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(two[0], stream));
    ck_assert(host_is(synced_mem_cpu_data(two[1]), SIZE, 2));
    for (int i = 0; i < 2; i++)
        OK(synced_mem_release(two[i]));
    close_stream(stream);
}
END_TEST

/* ---- A call fails ---- */

static const void *got;

static void read_on_stream(void)
{
    got = synced_mem_gpu_data_on(mem, stream);
    sound(got != NULL);
}

static void read_without_stream(void)
{
    got = synced_mem_gpu_data(mem);
    sound(got != NULL);
}

/* Another thread relies on the work that a failed call has begun. The device copy stays, with the contents in transfer.
 * No second transfer changes it under its readers. */
START_TEST(a_failed_call_takes_nothing_from_others)
{
    void *const seen = gpu_alloc(0, SIZE);
    synced_mem_stream other = open_stream(NON_BLOCKING);
    stream = open_stream(BLOCKING);
    mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    second.fails = true;
    run_second_at(AT_THE_WAIT, _i ? read_without_stream : read_on_stream);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_gpu_data(mem));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    ck_assert_ptr_eq(synced_mem_gpu_data_on(mem, other), got);
    gpu_copy(seen, got, SIZE, stream);
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    gpu_fill(synced_mem_overwrite_gpu_data_on(mem, other), SIZE, 2, other);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    ck_assert(device_is(seen, SIZE, 1));
    OK(synced_mem_release(mem));
    gpu_free(seen);
    close_stream(stream);
    close_stream(other);
}
END_TEST

static synced_mem *from;
static void *handed_in[2];

static void copy_on_stream(void)
{
    sound(synced_mem_async_gpu_copy(mem, from, next) == SYNCED_MEM_OK);
}

static void copy_on_host(void)
{
    sound(synced_mem_cpu_copy(mem, from) == SYNCED_MEM_OK);
}

static void hand_in_host_memory(void)
{
    sound(synced_mem_set_cpu_data(mem, handed_in[0]) == SYNCED_MEM_OK);
}

static void hand_in_device_memory(void)
{
    sound(synced_mem_set_gpu_data(mem, handed_in[1]) == SYNCED_MEM_OK);
}

static void hand_in_both(void)
{
    sound(USE(mem, .cpu_data = handed_in[0], .gpu_data = handed_in[1]) == SYNCED_MEM_OK);
}

/* Other calls that bring contents, and the head afterwards. */
static const struct {
    void (*act)(void);
    synced_mem_state head;
} bringers[] = {{copy_on_stream, SYNCED_MEM_AT_GPU},
                {copy_on_host, SYNCED_MEM_AT_CPU},
                {hand_in_host_memory, SYNCED_MEM_AT_CPU},
                {hand_in_device_memory, SYNCED_MEM_AT_GPU},
                {hand_in_both, SYNCED_MEM_SYNCED}};
enum { BRINGERS = sizeof bringers / sizeof bringers[0] };

/* An access to an object without contents waits and fails. Another thread's call has brought contents meanwhile. They
 * are not lost. In a view, they are one part of the root's. */
START_TEST(a_failed_call_keeps_the_contents_of_others)
{
    const int which = _i % BRINGERS;
    const bool in_parts = _i / BRINGERS == 1;
    synced_mem *view = NULL;
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    from = make_on(SIZE, 0);
    if (in_parts)
        OK(synced_mem_view(&view, mem, SIZE / 2, SIZE / 4, NULL));
    handed_in[0] = gpu_pinned_alloc(SIZE);
    handed_in[1] = gpu_alloc(0, SIZE);
    host_fill(handed_in[0], SIZE, 2);
    gpu_fill(handed_in[1], SIZE, 2, next);
    gpu_stream_sync(next);
    host_fill(synced_mem_overwrite_cpu_data(from), SIZE, 2);
    if (_i / BRINGERS == 2) /* no pointer was given out */
        OK(synced_mem_cpu_copy(mem, from));
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_clear(mem));
    second.fails = true;
    run_second_at(AT_THE_WAIT, bringers[which].act);
    const void *const data = synced_mem_cpu_data(mem); /* succeeds if the other call has waited for the same work */
    join_second();
    ck_assert(data || synced_mem_last_error() == SYNCED_MEM_ERR_CUDA);
    if (!data)
        ck_assert_int_eq(synced_mem_head(mem), bringers[which].head);
    ck_assert(device_is(synced_mem_gpu_data_on(mem, next), SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    if (in_parts)
        OK(synced_mem_release(view));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(from));
    gpu_pinned_free(handed_in[0]);
    gpu_free(handed_in[1]);
    close_stream(stream);
    close_stream(next);
}
END_TEST

static synced_mem_state head_of(size_t offset)
{
    synced_mem *view;
    OK(synced_mem_view(&view, mem, offset, SIZE / 2, NULL));
    const synced_mem_state head = synced_mem_head(view);
    OK(synced_mem_release(view));
    return head;
}

static void push_on_next(void)
{
    sound(synced_mem_async_gpu_push(mem, next) == SYNCED_MEM_OK);
}

/* A resize, or an access, of an object in parts brings the device's part to the host, and fails. Another thread has
 * pushed the host's part meanwhile. That part stays valid on the device, and only the first one is taken back. */
START_TEST(a_failed_call_keeps_the_push_of_others)
{
    synced_mem *view;
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    OK(synced_mem_view(&view, mem, 0, SIZE / 2, NULL));
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(view, stream)); /* the contents stay as they are */
    gpu_hold(stream);
    OK(synced_mem_release(view));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_MIXED);
    second.fails = true;
    run_second_at(AT_THE_WAIT, push_on_next);
    if (_i)
        FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    else
        FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_resize(mem, LARGER));
    gpu_unhold();
    join_second();
    ck_assert_int_eq(head_of(0), SYNCED_MEM_AT_GPU);
    ck_assert_int_eq(head_of(SIZE / 2), SYNCED_MEM_SYNCED);
    ck_assert(device_is(synced_mem_gpu_data_on(mem, next), SIZE, 1));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    close_stream(stream);
    close_stream(next);
}
END_TEST

static synced_mem *part;

/* Then nothing holds the part and its neighbour apart. */
static void write_and_release_part(void)
{
    void *const data = synced_mem_overwrite_cpu_data(part);
    sound(data != NULL);
    host_fill(data, SIZE / 4, 2);
    sound(synced_mem_release(part) == SYNCED_MEM_OK);
}

/* The access has filled two parts with zeros, and waits for a third one. Another thread writes the first part, which is
 * then joined to the second. Pointers of the second were given out more often before. */
START_TEST(a_failed_call_keeps_what_was_joined)
{
    synced_mem *neighbour, *last;
    stream = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    OK(synced_mem_view(&part, mem, 0, SIZE / 4, NULL));
    OK(synced_mem_view(&neighbour, mem, SIZE / 4, SIZE / 4, NULL));
    OK(synced_mem_view(&last, mem, SIZE / 2, SIZE / 2, NULL));
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(neighbour));
        OK(synced_mem_clear(neighbour));
    }
    OK(synced_mem_release(neighbour));
    gpu_fill(synced_mem_overwrite_gpu_data_on(last, stream), SIZE / 2, 1, stream);
    gpu_stream_sync(stream);
    gpu_hold(stream);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(last, stream));
    second.fails = true;
    run_second_at(AT_THE_WAIT, write_and_release_part);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    gpu_unhold();
    join_second();
    OK(synced_mem_view(&part, mem, 0, SIZE / 4, NULL));
    ck_assert_int_eq(synced_mem_head(part), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(part), SIZE / 4, 2));
    ck_assert(host_is((const char *)synced_mem_cpu_data(mem) + SIZE / 4, SIZE / 4, 0));
    OK(synced_mem_release(part));
    OK(synced_mem_release(last));
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

static void make_whole_view(void)
{
    sound(synced_mem_view(&part, mem, 0, SIZE, NULL) == SYNCED_MEM_OK);
}

static void make_small_view(void)
{
    sound(synced_mem_view(&part, mem, 100, 100, NULL) == SYNCED_MEM_OK);
}

/* While a copy to an object waits for its transfer, the object becomes divided. The contents are its contents all the
 * same. _i / 2: the head before. */
START_TEST(a_view_of_the_target_of_a_copy)
{
    stream = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    from = make_on(SIZE, 0);
    if (_i / 2 > 0)
        host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    if (_i / 2 > 1)
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    gpu_fill(synced_mem_overwrite_gpu_data_on(from, stream), SIZE, 2, stream);
    run_second_at(AT_THE_WAIT, _i % 2 ? make_whole_view : make_small_view);
    OK(synced_mem_cpu_copy(mem, from));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(synced_mem_head(part), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(part));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(from));
    close_stream(stream);
}
END_TEST

static void write_small_view(void)
{
    make_small_view();
    void *const data = synced_mem_overwrite_cpu_data(part);
    sound(data != NULL);
    host_fill(data, 100, 3);
}

/* The same, and the wait fails. The target was the only valid copy, so its contents are lost, but not those that another
 * thread has written to a view. */
START_TEST(a_written_view_of_the_target_of_a_failed_copy)
{
    stream = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    from = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    gpu_fill(synced_mem_overwrite_gpu_data_on(from, stream), SIZE, 2, stream);
    second.fails = true;
    run_second_at(AT_THE_WAIT, write_small_view);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_copy(mem, from));
    join_second();
    ck_assert_int_eq(synced_mem_head(part), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(synced_mem_cpu_data(part), 100, 3));
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_MIXED);
    OK(synced_mem_release(part));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(from));
    close_stream(stream);
}
END_TEST

/* A failed call ends no open write, although an access of the stream or a push succeeds meanwhile. Later writes of the
 * stream are still waited for. */
static void push_on_other(void)
{
    sound(synced_mem_async_gpu_push(mem, next) == SYNCED_MEM_OK);
}

START_TEST(a_turn_goes_on_after_a_failed_call)
{
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    if (_i == 2) /* the stream is also a reader then */
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    gpu_fill(data, SIZE, 1, stream);
    second.fails = true;
    run_second_at(AT_THE_WAIT, _i == 0 ? push_on_other : read_on_stream);
    FAILS_NULL(SYNCED_MEM_ERR_CUDA, synced_mem_cpu_data(mem));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_GPU);
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_release(mem));
    close_stream(stream);
    close_stream(next);
}
END_TEST

/* Makes a call that fails in the middle of another one, which ends a stream's open write. */
static void fail_to_overwrite(void)
{
    emu_fail("cudaStreamWaitEvent", 1, cudaErrorUnknown, false);
    sound(!synced_mem_overwrite_gpu_data_on(mem, next));
    emu_fail_clear();
}

START_TEST(a_turn_ends_in_spite_of_a_failed_call)
{
    stream = open_stream(NON_BLOCKING);
    next = open_stream(NON_BLOCKING);
    mem = make_on(SIZE, 0);
    gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 1, stream);
    run_second_at(AT_THE_WAIT, fail_to_overwrite);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    join_second();
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_SYNCED);
    if (_i) {
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, stream), SIZE, 2, stream);
        gpu_fill(synced_mem_mutable_gpu_data_on(mem, next), SIZE, 3, next);
    } else {
        host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 3);
        ck_assert(device_is(synced_mem_gpu_data_on(mem, next), SIZE, 3));
    }
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 3));
    OK(synced_mem_release(mem));
    close_stream(stream);
    close_stream(next);
}
END_TEST

/* ---- A size changes ---- */

static void grow(void)
{
    sound(synced_mem_resize_discard(mem, LARGER) == SYNCED_MEM_OK);
}

static void never(void *data, void *user, synced_mem_stream of)
{
    (void)data, (void)user, (void)of;
    atomic_fetch_add(&wrong, 1);
}

/* The object grows while memory is handed in. The memory is too small then, and is refused. */
START_TEST(memory_handed_in_meets_a_new_size)
{
    void *const host = gpu_pinned_alloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    mem = make_on(SIZE, 0);
    stream = open_stream(NON_BLOCKING);
    synced_mem_status status = SYNCED_MEM_OK;
    run_second_at(AFTER_THE_RECORD, grow);
    switch (_i) {
    case 0:
        status = USE(mem, .cpu_data = host, .stream = stream);
        break;
    case 1:
        status = USE(mem, .gpu_data = device, .stream = stream);
        break;
    case 2:
        status = USE(mem, .cpu_data = host, .gpu_data = device, .stream = stream);
        break;
    case 3:
        status = USE(mem, .cpu_data = host, .callback = never, .stream = stream);
        break;
    case 4:
        status = USE(mem, .gpu_data = device, .callback = never, .stream = stream);
        break;
    case 5:
        status = USE(mem, .cpu_data = host, .gpu_data = device, .callback = never, .stream = stream);
        break;
    }
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, status);
    join_second();
    ck_assert_uint_eq(synced_mem_size(mem), LARGER);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert(device_is(synced_mem_gpu_data(mem), LARGER, 0));
    ck_assert(host_is(synced_mem_cpu_data(mem), LARGER, 0));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_pinned_free(host);
    gpu_free(device);
    OK(synced_mem_shutdown());
    ck_assert_int_eq(atomic_load(&wrong), 0);
}
END_TEST

static void write_what_is_read(void)
{
    void *const data = synced_mem_overwrite_gpu_data_on(mem, next);
    sound(data && gpu_try_fill(data, SIZE, 7, next));
}

/* The same of an object that is divided, by a view that is made meanwhile. */
static void make_view_and_write(void)
{
    synced_mem *view = NULL;
    sound(synced_mem_view(&view, mem, SIZE / 4, SIZE / 2, NULL) == SYNCED_MEM_OK);
    write_what_is_read();
    sound(synced_mem_release(view) == SYNCED_MEM_OK);
}

/* Brings a half of an object that is AT_GPU to the host. So the object stays in parts. */
static void read_first_half(void)
{
    synced_mem *view;
    OK(synced_mem_view(&view, mem, 0, SIZE / 2, NULL));
    ck_assert(host_is(synced_mem_cpu_data(view), SIZE / 2, 1));
    OK(synced_mem_release(view));
    OK(synced_mem_wait(mem));
}

/* Borrowed memory is copied to larger memory, and is written again before it is handed back. _i: the object is in
 * parts before, or meanwhile. */
START_TEST(borrowed_memory_is_written_while_it_is_outgrown)
{
    void *const device = gpu_alloc(0, SIZE);
    next = open_stream(NON_BLOCKING);
    mem = make(SIZE);
    gpu_fill(device, SIZE, 1, next);
    OK(USE(mem, .gpu_data = device, .stream = next));
    if (_i & 1)
        read_first_half();
    run_second_at(AT_THE_WAIT, _i & 2 ? make_view_and_write : write_what_is_read);
    OK(synced_mem_resize(mem, LARGER));
    join_second();
    gpu_fill(device, SIZE, 2, next); /* the memory is the caller's again */
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 7));
    ck_assert(pattern_is((const char *)synced_mem_cpu_data(mem) + SIZE, LARGER - SIZE, 0));
    OK(synced_mem_release(mem));
    close_stream(next);
    gpu_free(device);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("interleavings");
    TCase *const tests = add_case(made, "interleavings");
    tcase_add_loop_test(tests, a_stream_goes_while_its_use_ends, 0, 16);
    tcase_add_loop_test(tests, a_stream_goes_while_memory_is_freed, 0, 6);
    tcase_add_loop_test(tests, two_are_done_with_a_stream, 0, 2);
    tcase_add_loop_test(tests, a_failed_call_takes_nothing_from_others, 0, 2);
    tcase_add_loop_test(tests, a_failed_call_keeps_the_contents_of_others, 0, 3 * BRINGERS);
    tcase_add_loop_test(tests, a_failed_call_keeps_the_push_of_others, 0, 2);
    tcase_add_test(tests, a_failed_call_keeps_what_was_joined);
    tcase_add_loop_test(tests, a_view_of_the_target_of_a_copy, 0, 6);
    tcase_add_test(tests, a_written_view_of_the_target_of_a_failed_copy);
    tcase_add_loop_test(tests, a_turn_goes_on_after_a_failed_call, 0, 3);
    tcase_add_loop_test(tests, a_turn_ends_in_spite_of_a_failed_call, 0, 2);
    tcase_add_loop_test(tests, memory_handed_in_meets_a_new_size, 0, 6);
    tcase_add_loop_test(tests, borrowed_memory_is_written_while_it_is_outgrown, 0, 4);
    return made;
}
