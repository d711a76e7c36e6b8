/* Checks calls on an object while its staged transfer fails in a copy thread. The call fails, or moves the contents
 * again. The source copy stays valid. */
#include "cudart_emu.h"
#include "fixture.h"
#include "object/mentions.h"
#include "object/overlap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 300001, SMALL = 5000, LOST = 3, STEP_US = 100, PATIENCE = 1000000 };

/* ---- The order of events ---- */

/* Holds a failed transfer. Its fence is marked lost only after the gate has opened. */
static struct {
    atomic_bool is_closed;
    atomic_bool is_reached;
    atomic_bool is_passed;
} gate;

static _Thread_local bool opens_the_gate; /* at this thread's next lock of an object */

/* Waits until the flag has the value. Returns false if that takes too long. */
static bool await(const atomic_bool *flag, bool value)
{
    for (int i = 0; i < PATIENCE && atomic_load(flag) != value; i++)
        (void)usleep(STEP_US);
    return atomic_load(flag) == value;
}

/* The linker puts the wrappers in place of the library's own functions (--wrap). */
void __real_sm_fence_close(struct sm_fence *fence, int state, bool stray);
void __wrap_sm_fence_close(struct sm_fence *fence, int state, bool stray);
void __wrap_sm_fence_close(struct sm_fence *fence, int state, bool stray)
{
    const bool held = state == LOST && atomic_load(&gate.is_closed);
    if (held) {
        atomic_store(&gate.is_reached, true);
        SOUND(await(&gate.is_closed, false));
    }
    __real_sm_fence_close(fence, state, stray);
    if (held)
        atomic_store(&gate.is_passed, true);
}

/* Holds a copy thread before its work begins. The linker puts the wrapper in place of the library's own function
 * (--wrap). */
static atomic_bool copy_threads_wait;

void __real_sm_device_stay(int device);
void __wrap_sm_device_stay(int device);
void __wrap_sm_device_stay(int device)
{
    SOUND(await(&copy_threads_wait, false));
    __real_sm_device_stay(device);
}

/* Stops the next thread that queues a fence. The last chunk is then queued, and a stream can wait for it. */
static atomic_bool stops_when_queued;

synced_mem_status __real_sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle);
synced_mem_status __wrap_sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle);
synced_mem_status __wrap_sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle)
{
    const synced_mem_status status = __real_sm_fence_record_event(fence, handle);
    if (atomic_exchange(&stops_when_queued, false)) {
        atomic_store(&gate.is_reached, true);
        SOUND(await(&gate.is_closed, false));
    }
    return status;
}

static void open_the_gate(void)
{
    if (!opens_the_gate)
        return;
    opens_the_gate = false;
    atomic_store(&gate.is_closed, false);
    SOUND(await(&gate.is_passed, true));
}

synced_mem_status __real_sm_enter(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter(struct sm_transaction *transaction, struct synced_mem *mem)
{
    const synced_mem_status status = __real_sm_enter(transaction, mem);
    open_the_gate();
    return status;
}

synced_mem_status __real_sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_enter_restoring_nothing(struct sm_transaction *transaction, struct synced_mem *mem)
{
    const synced_mem_status status = __real_sm_enter_restoring_nothing(transaction, mem);
    open_the_gate();
    return status;
}

/* An access begins with this function instead. */
void __real_sm_begin_access(struct sm_transaction *transaction, struct synced_mem *mem);
void __wrap_sm_begin_access(struct sm_transaction *transaction, struct synced_mem *mem);
void __wrap_sm_begin_access(struct sm_transaction *transaction, struct synced_mem *mem)
{
    __real_sm_begin_access(transaction, mem);
    open_the_gate();
}

/* A resize begins with this function. */
synced_mem_status __real_sm_begin(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_begin(struct sm_transaction *transaction, struct synced_mem *mem);
synced_mem_status __wrap_sm_begin(struct sm_transaction *transaction, struct synced_mem *mem)
{
    const synced_mem_status status = __real_sm_begin(transaction, mem);
    open_the_gate();
    return status;
}

/* A copy calls this function when it has taken the locks. */
synced_mem_status __real_sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                           struct synced_mem **failed);
synced_mem_status __wrap_sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                           struct synced_mem **failed);
synced_mem_status __wrap_sm_check_overlaps(const struct sm_pairs *pairs, const struct sm_pair *all, size_t count,
                                           struct synced_mem **failed)
{
    const synced_mem_status status = __real_sm_check_overlaps(pairs, all, count, failed);
    open_the_gate();
    return status;
}

/* A push or pull begins with one of these functions: for objects in parts, and for others. */
synced_mem_status __real_sm_mentions_list(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                          enum sm_side side);
synced_mem_status __wrap_sm_mentions_list(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                          enum sm_side side);
synced_mem_status __wrap_sm_mentions_list(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t count,
                                          enum sm_side side)
{
    const synced_mem_status status = __real_sm_mentions_list(mentions, mems, count, side);
    open_the_gate();
    return status;
}

synced_mem_status __real_sm_mentions_add(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t begin,
                                         size_t end, enum sm_side side);
synced_mem_status __wrap_sm_mentions_add(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t begin,
                                         size_t end, enum sm_side side);
synced_mem_status __wrap_sm_mentions_add(struct sm_mentions *mentions, struct synced_mem *const *mems, size_t begin,
                                         size_t end, enum sm_side side)
{
    const synced_mem_status status = __real_sm_mentions_add(mentions, mems, begin, end, side);
    open_the_gate();
    return status;
}

/* ---- An object whose contents are in transfer ---- */

struct moving {
    void *mine; /* the host copy's memory */
    synced_mem *mem;
    synced_mem_stream stream, other;
    unsigned pattern;
    bool up;
    pthread_t mover;
};

/* The status is ignored: with copy threads a pull does not wait, so it cannot report the failure. */
static void *move_in_vain(void *argument)
{
    const struct moving *const moving = argument;
    if (moving->up)
        (void)synced_mem_async_gpu_push(moving->mem, moving->stream);
    else
        (void)synced_mem_async_cpu_pull(moving->mem, moving->stream);
    return NULL;
}

/* Makes an object. Both copies have memory, one has the contents. room: the sides that have room for more, as bits. */
static struct moving begin(bool up, unsigned room)
{
    struct moving moving = {.mine = calloc(2, SIZE), .up = up, .pattern = up ? 1 : 2};
    ck_assert_ptr_nonnull(moving.mine);
    moving.stream = open_stream(NON_BLOCKING);
    moving.other = open_stream(NON_BLOCKING);
    moving.mem = make_on(room & SYNCED_MEM_AT_GPU ? 2 * SIZE : SIZE, 0);
    gpu_fill(synced_mem_overwrite_gpu_data_on(moving.mem, moving.stream), SIZE, 9, moving.stream);
    OK(synced_mem_resize_discard(moving.mem, room & SYNCED_MEM_AT_CPU ? 2 * SIZE : SIZE));
    OK(synced_mem_set_cpu_data(moving.mem, moving.mine));
    OK(synced_mem_resize_discard(moving.mem, SIZE));
    if (up)
        host_fill(synced_mem_overwrite_cpu_data(moving.mem), SIZE, moving.pattern);
    else
        gpu_fill(synced_mem_overwrite_gpu_data_on(moving.mem, moving.stream), SIZE, moving.pattern, moving.stream);
    atomic_store(&gate.is_reached, false);
    atomic_store(&gate.is_passed, false);
    atomic_store(&gate.is_closed, true);
    return moving;
}

static void fail_the_move(struct moving *moving)
{
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    ck_assert_int_eq(pthread_create(&moving->mover, NULL, move_in_vain, moving), 0);
    ck_assert(await(&gate.is_reached, true));
    for (int i = 0; i < PATIENCE && synced_mem_head(moving->mem) != SYNCED_MEM_SYNCED; i++)
        (void)usleep(STEP_US);
    ck_assert_int_eq(synced_mem_head(moving->mem), SYNCED_MEM_SYNCED);
    opens_the_gate = true;
}

static void end(struct moving *moving)
{
    ck_assert(!opens_the_gate);
    ck_assert_int_eq(pthread_join(moving->mover, NULL), 0);
    ck_assert(atomic_load(&gate.is_passed));
    OK(synced_mem_release(moving->mem));
    CLOSE_EACH(moving->stream, moving->other);
    OK(synced_mem_reap());
    free(moving->mine);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}

/* ---- Calls during which the transfer fails ---- */

enum kind {
    READ_ON,
    READ_ON_ITS_STREAM,
    MUTABLE_ON,
    READ,
    MUTABLE,
    CPU_READ,
    CPU_MUTABLE,
    PUSH,
    PUSH_WITH_ANOTHER,
    PULL,
    PULL_WITH_ANOTHER,
    GROW,
    SHRINK,
    RELEASE_CPU,
    RELEASE_GPU,
    END_USE_ON,
    QUERY,
    WAIT,
    PRINT,
    KINDS
};

/* Checks the contents with a kernel on the stream that the pointer was requested for. */
static synced_mem_status judge_on(const void *data, const struct moving *moving, synced_mem_stream stream)
{
    unsigned char *const expected = malloc(SIZE);
    ck_assert_ptr_nonnull(expected);
    pattern_write(expected, SIZE, moving->pattern);
    if (data)
        gpu_expect(data, SIZE, expected, stream);
    free(expected);
    return status_of(data);
}

static synced_mem_status move_both(const struct moving *moving, bool up)
{
    synced_mem *const another = make_on(SMALL, 0);
    synced_mem *const both[] = {another, moving->mem};
    if (up)
        host_fill(synced_mem_overwrite_cpu_data(another), SMALL, 3);
    else
        gpu_fill(synced_mem_overwrite_gpu_data_on(another, moving->other), SMALL, 3, moving->other);
    opens_the_gate = true;
    const synced_mem_status status =
        up ? synced_mem_async_gpu_push_n(both, 2, moving->other) : synced_mem_async_cpu_pull_n(both, 2, moving->other);
    ck_assert(host_is(synced_mem_cpu_data(another), SMALL, 3));
    OK(synced_mem_release(another));
    return status;
}

static synced_mem_status print(const synced_mem *mem)
{
    FILE *const file = tmpfile();
    ck_assert_ptr_nonnull(file);
    const synced_mem_status status = synced_mem_print(mem, file);
    (void)fclose(file);
    return status;
}

/* A query while other work is pending does not look for failures. */
static synced_mem_status query_until_idle(synced_mem *mem)
{
    int pending = 0;
    synced_mem_status status;
    do
        status = synced_mem_query(mem, &pending);
    while (status == SYNCED_MEM_OK && pending);
    return status;
}

static synced_mem_status make_call(const struct moving *moving, enum kind kind)
{
    synced_mem *const mem = moving->mem;
    switch (kind) {
    case READ_ON:
        return judge_on(synced_mem_gpu_data_on(mem, moving->other), moving, moving->other);
    case READ_ON_ITS_STREAM:
        return judge_on(synced_mem_gpu_data_on(mem, moving->stream), moving, moving->stream);
    case MUTABLE_ON:
        return judge_on(synced_mem_mutable_gpu_data_on(mem, moving->other), moving, moving->other);
    case READ:
        return judge_on(synced_mem_gpu_data(mem), moving, NULL);
    case MUTABLE:
        return judge_on(synced_mem_mutable_gpu_data(mem), moving, NULL);
    case CPU_READ:
        return status_of(synced_mem_cpu_data(mem));
    case CPU_MUTABLE:
        return status_of(synced_mem_mutable_cpu_data(mem));
    case PUSH:
        return synced_mem_async_gpu_push(mem, moving->other);
    case PUSH_WITH_ANOTHER:
        return move_both(moving, true);
    case PULL:
        return synced_mem_async_cpu_pull(mem, moving->other);
    case PULL_WITH_ANOTHER:
        return move_both(moving, false);
    case GROW:
        return synced_mem_resize(mem, 2 * SIZE);
    case SHRINK:
        return synced_mem_resize(mem, SIZE - 1);
    case RELEASE_CPU:
        return synced_mem_release_cpu_data(mem);
    case RELEASE_GPU:
        return synced_mem_release_gpu_data(mem);
    case END_USE_ON:
        return synced_mem_end_use_on(mem, moving->stream);
    case QUERY:
        return query_until_idle(mem);
    case WAIT:
        return synced_mem_wait(mem);
    case PRINT:
        return print(mem);
    case KINDS:
        break;
    }
    return SYNCED_MEM_OK;
}

/* Returns whether the call may fail: it needs the contents on the target side, or it reports failures. */
static bool relies(enum kind kind, bool up)
{
    switch (kind) {
    case READ_ON:
    case READ_ON_ITS_STREAM:
    case MUTABLE_ON:
    case READ:
    case MUTABLE:
    case PUSH:
    case PUSH_WITH_ANOTHER:
    case RELEASE_CPU:
        return up;
    case CPU_READ:
    case CPU_MUTABLE:
    case PULL:
    case PULL_WITH_ANOTHER:
    case RELEASE_GPU:
        return !up;
    case QUERY:
    case WAIT:
        return true;
    case GROW:
    case SHRINK:
    case END_USE_ON:
    case PRINT:
    case KINDS:
        break;
    }
    return false;
}

/* Both copies have the contents. The pointers are requested again, as a new size may come with new memory. */
static void check_contents(const struct moving *moving)
{
    const size_t size = synced_mem_size(moving->mem);
    const size_t filled = size < SIZE ? size : SIZE;
    const char *const device = synced_mem_gpu_data(moving->mem);
    ck_assert_msg(device != NULL, "%s", synced_mem_last_error_message());
    ck_assert(device_is(device, filled, moving->pattern));
    const char *const host = synced_mem_cpu_data(moving->mem);
    ck_assert_msg(host != NULL, "%s", synced_mem_last_error_message());
    ck_assert(host_is(host, filled, moving->pattern));
    ck_assert(host_is(host + filled, size - filled, 0));
}

static void lose_in(enum kind kind, bool up, unsigned room, unsigned threads)
{
    set_staging(threads, 1);
    struct moving moving = begin(up, room);
    const synced_mem_head_kind source = up ? SYNCED_MEM_AT_CPU : SYNCED_MEM_AT_GPU;
    fail_the_move(&moving);
    if (kind == PUSH_WITH_ANOTHER || kind == PULL_WITH_ANOTHER)
        opens_the_gate = false;
    const synced_mem_status status = make_call(&moving, kind);
    open_the_gate(); /* if the call never locked the object */
    if (status != SYNCED_MEM_OK) {
        ck_assert_msg(status == SYNCED_MEM_ERR_CUDA, "call %d: %s", kind, synced_mem_last_error_message());
        ck_assert_msg(synced_mem_head(moving.mem) == source, "call %d: head %d", kind, synced_mem_head(moving.mem));
        ck_assert_uint_eq(synced_mem_size(moving.mem), SIZE);
    }
    ck_assert_msg(status == SYNCED_MEM_OK || relies(kind, up), "call %d: %s", kind, synced_mem_last_error_message());
    if (status == SYNCED_MEM_OK && relies(kind, up)) /* no failure is left to report */
        OK(synced_mem_wait(moving.mem));
    if (status != SYNCED_MEM_OK)
        OK(make_call(&moving, kind));
    check_contents(&moving);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    end(&moving);
}

START_TEST(lost_in_a_call)
{
    static const unsigned threads[] = {0, 1, 3};
    for (int i = 0; i < 3; i++) {
        lose_in((enum kind)_i, true, 0, threads[i]);
        lose_in((enum kind)_i, false, 0, threads[i]);
    }
}
END_TEST

/* Only one copy, or both, have room for more. */
START_TEST(lost_where_there_is_room)
{
    for (unsigned threads = 0; threads < 3; threads++) {
        lose_in(GROW, true, SYNCED_MEM_AT_GPU, threads);
        lose_in(GROW, false, SYNCED_MEM_AT_CPU, threads);
        lose_in(GROW, true, SYNCED_MEM_AT_CPU, threads);
        lose_in(GROW, false, SYNCED_MEM_AT_GPU, threads);
        lose_in(GROW, true, SYNCED_MEM_SYNCED, threads);
        lose_in(GROW, false, SYNCED_MEM_SYNCED, threads);
    }
}
END_TEST

/* A pull fails after one of its transfers went to a copy thread. The thread queues the transfer, and the open writer's
 * stream comes after it. */
START_TEST(a_turn_goes_on_behind_a_transfer)
{
    void *const mine = malloc(SMALL);
    ck_assert_ptr_nonnull(mine);
    set_staging(1, 1);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mems[] = {make_on(SMALL, 0), make_on(SMALL, 0)};
    OK(synced_mem_set_cpu_data(mems[0], mine));
    for (unsigned i = 0; i < 2; i++)
        gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], stream), SMALL, i + 1, stream);
    emu_fail("cudaMemcpyAsync", 1, cudaErrorUnknown, false);
    atomic_store(&copy_threads_wait, true);
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_async_cpu_pull_n(mems, 2, stream));
    atomic_store(&gate.is_reached, false);
    atomic_store(&gate.is_closed, true);
    atomic_store(&stops_when_queued, true);
    atomic_store(&copy_threads_wait, false);
    ck_assert(await(&gate.is_reached, true));
    OK(print(mems[0]));
    gpu_fill(synced_mem_mutable_gpu_data_on(mems[0], stream), SMALL, 3, stream);
    atomic_store(&gate.is_closed, false);
    ck_assert(host_is(synced_mem_cpu_data(mems[0]), SMALL, 3));
    ck_assert(host_is(synced_mem_cpu_data(mems[1]), SMALL, 2));
    release_all(mems, 2);
    close_stream(stream);
    free(mine);
    ck_assert_int_eq(atomic_load(&unsound), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("arrivals");
    TCase *const tests = add_case(made, "arrivals");
    add_tests(tests, lost_where_there_is_room, a_turn_goes_on_behind_a_transfer);
    tcase_add_loop_test(tests, lost_in_a_call, 0, KINDS);
    return made;
}
