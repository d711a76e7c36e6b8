/* Checks calls on objects that take several rounds, because they wait with nothing locked: pushes, pulls and copies. */
#include "failing_calloc.h"
#include "failing_calls.h"
#include "fixture.h"
#include "object/user_allocator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 5000, PATIENCE = 100000 };

/* ---- A failed call leaves pointers valid ---- */

/* A host allocator that makes no calls of the runtime, so that none of its own calls fails. */
static unsigned requests;
static unsigned refuses_from; /* this request and all after it are refused; 0: none */

static void *give(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)device, (void)stream, (void)user;
    return ++requests >= refuses_from && refuses_from > 0 ? NULL
                                                          : aligned_alloc(alignment, 2 * size / alignment * alignment);
}

static void take_back(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream, (void)user;
    free(data);
}

static void begin_refusing(struct failing *it)
{
    refuses_from = requests + it->nth;
}

static bool end_refusing(struct failing *it)
{
    (void)it;
    const bool refused = requests >= refuses_from;
    refuses_from = 0;
    return refused;
}

static synced_mem *make_with_allocator(void)
{
    const synced_mem_allocator allocator = {.struct_size = sizeof allocator, .alloc = give, .free = take_back};
    synced_mem_options options = default_options();
    synced_mem *mem = NULL;
    options.device = 0;
    options.cpu_allocator = &allocator;
    OK(synced_mem_create(&mem, SIZE, &options));
    return mem;
}

/* Two objects that the stream writes, and targets for copies. Host memory comes from the allocator, with nothing
 * locked, so a call that brings the contents to the host takes a second round. */
struct scene {
    synced_mem_stream stream, other;
    synced_mem *mems[2];
    synced_mem *targets[2];
    void *data; /* the stream's pointer to the first object */
};

static synced_mem_status pull_one(const struct scene *scene)
{
    return synced_mem_async_cpu_pull(scene->mems[0], scene->other);
}

static synced_mem_status pull_both(const struct scene *scene)
{
    return synced_mem_async_cpu_pull_n(scene->mems, 2, scene->other);
}

static synced_mem_status copy_both(const struct scene *scene)
{
    return synced_mem_cpu_copy_n(scene->targets, scene->mems, 2);
}

static synced_mem_status (*const calls[])(const struct scene *scene) = {pull_one, pull_both, copy_both};
enum { CALLS = sizeof calls / sizeof calls[0] };

static struct scene begin(void)
{
    struct scene scene = {.stream = open_stream(NON_BLOCKING), .other = open_stream(NON_BLOCKING)};
    for (int i = 1; i >= 0; i--) {
        scene.mems[i] = make_with_allocator();
        scene.targets[i] = make_with_allocator();
        scene.data = given(synced_mem_overwrite_gpu_data_on(scene.mems[i], scene.stream));
        gpu_fill(scene.data, SIZE, 1, scene.stream);
    }
    return scene;
}

/* A list may have moved the first object before the second has failed. Then the pointer has expired. Otherwise the
 * stream may write on, and a read by the host comes after that. */
START_TEST(a_pointer_outlives_a_failed_call)
{
    const struct failing kinds[] = {each_call("*", cudaErrorUnknown),
                                    each_call("*", cudaErrorMemoryAllocation),
                                    each_calloc(),
                                    {begin_refusing, end_refusing, .call = NULL}};
    unsigned failed = 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
        for (struct failing it = kinds[kind]; next_failure(&it);) {
            const struct scene scene = begin();
            begin_failing(&it);
            const synced_mem_status status = calls[_i](&scene);
            (void)end_failing(&it);
            if (status != SYNCED_MEM_OK && synced_mem_head(scene.mems[0]) == SYNCED_MEM_AT_GPU) {
                gpu_delay(scene.stream);
                gpu_fill(scene.data, SIZE, 2, scene.stream);
                ck_assert(host_is(given(synced_mem_cpu_data(scene.mems[0])), SIZE, 2));
                failed++;
            }
            release_all(scene.mems, 2);
            release_all(scene.targets, 2);
            CLOSE_EACH(scene.stream, scene.other);
        }
    ck_assert_uint_gt(failed, 0);
}
END_TEST

/* ---- A wait for work that is not queued yet ---- */

struct sm_fence;
struct sm_transfers;
struct sm_stream;

static _Thread_local bool is_caller; /* the thread is none of the library's */
static _Thread_local bool is_second;
static atomic_bool is_held; /* a copy thread stops before the work that it has queued is known to be queued */
static atomic_bool has_stopped;
static atomic_bool second_waits;

/* Waits until the flag is set. Returns whether it is. */
static bool await(const atomic_bool *flag)
{
    for (int i = 0; i < PATIENCE && !atomic_load(flag); i++)
        (void)usleep(1000);
    return atomic_load(flag);
}

/* The linker puts the wrappers in place of the library's own functions (--wrap). */
synced_mem_status __real_sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle);
synced_mem_status __wrap_sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle);
synced_mem_status __wrap_sm_fence_record_event(struct sm_fence *fence, synced_mem_stream handle)
{
    if (!is_caller && atomic_load(&is_held)) {
        atomic_store(&has_stopped, true);
        while (atomic_load(&is_held))
            (void)usleep(1000);
    }
    return __real_sm_fence_record_event(fence, handle);
}

synced_mem_status __real_sm_waits_wait(const void *waits, bool *over);
synced_mem_status __wrap_sm_waits_wait(const void *waits, bool *over);
synced_mem_status __wrap_sm_waits_wait(const void *waits, bool *over)
{
    if (is_second)
        atomic_store(&second_waits, true);
    return __real_sm_waits_wait(waits, over);
}

/* Called once, with nothing locked, when a push has begun a staged transfer. */
static void (*when_staged)(void);

synced_mem_status __real_sm_transfers_follow(struct sm_transfers *transfers, struct sm_stream *stream);
synced_mem_status __wrap_sm_transfers_follow(struct sm_transfers *transfers, struct sm_stream *stream);
synced_mem_status __wrap_sm_transfers_follow(struct sm_transfers *transfers, struct sm_stream *stream)
{
    void (*const call)(void) = when_staged;
    when_staged = NULL;
    if (call)
        call();
    return __real_sm_transfers_follow(transfers, stream);
}

static struct {
    int kind; /* of the call */
    synced_mem *mems[2];
    synced_mem_stream stream;
    const void *data; /* the device pointer of the first */
    void *seen;
    pthread_t thread;
    atomic_bool has_returned;
} second;

/* Work that is queued behind the call sees the contents. */
static void *make_second_call(void *unused)
{
    (void)unused;
    is_caller = is_second = true;
    if (second.kind == 0)
        SOUND(synced_mem_async_gpu_push(second.mems[0], second.stream) == SYNCED_MEM_OK);
    if (second.kind == 1)
        SOUND(synced_mem_async_gpu_push_n(second.mems, 2, second.stream) == SYNCED_MEM_OK);
    if (second.kind == 2)
        SOUND(synced_mem_gpu_data_on(second.mems[0], second.stream) == second.data);
    atomic_store(&second.has_returned, true);
    gpu_copy_to_host(second.seen, second.data, SIZE, second.stream);
    return NULL;
}

static void start_second_call(void)
{
    SOUND(await(&has_stopped));
    ck_assert_int_eq(pthread_create(&second.thread, NULL, make_second_call, NULL), 0);
    SOUND(await(&second_waits));
    atomic_store(&is_held, false);
    SOUND(await(&second.has_returned));
    gpu_unhold();
}

/* The transfer comes after kernels on the legacy stream, which may use the memory as its pointer was requested without
 * a stream. So it can be queued, but not end. */
START_TEST(a_wait_ends_when_the_work_is_queued)
{
    void *const mine = malloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    set_staging(1, 1);
    is_caller = true;
    second.kind = _i;
    second.stream = open_stream(NON_BLOCKING);
    second.seen = gpu_pinned_alloc(SIZE);
    second.mems[0] = make_on(SIZE, 0);
    second.mems[1] = make_at_cpu(SIZE, 3);
    OK(synced_mem_set_cpu_data(second.mems[0], mine));
    second.data = given(synced_mem_gpu_data(second.mems[0]));
    host_fill(given(synced_mem_overwrite_cpu_data(second.mems[0])), SIZE, 1);
    OK(synced_mem_async_gpu_push(second.mems[0], stream)); /* forgets the use of the pointer */
    host_fill(given(synced_mem_overwrite_cpu_data(second.mems[0])), SIZE, 2);
    gpu_hold(NULL);
    when_staged = start_second_call;
    atomic_store(&is_held, true);
    OK(synced_mem_async_gpu_push(second.mems[0], stream));
    ck_assert(!when_staged);
    ck_assert_int_eq(pthread_join(second.thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    gpu_stream_sync(second.stream);
    ck_assert(host_is(second.seen, SIZE, 2));
    release_all(second.mems, 2);
    CLOSE_EACH(stream, second.stream);
    gpu_pinned_free(second.seen);
    free(mine);
}
END_TEST

/* ---- Another thread sets an allocator of all objects ---- */

static struct synced_mem *sets_allocator; /* once the library has read which allocator this object has; NULL: none */
const struct sm_allocator *__real_sm_user_allocator_wanted(const struct synced_mem *mem, enum sm_side side);
const struct sm_allocator *__wrap_sm_user_allocator_wanted(const struct synced_mem *mem, enum sm_side side);

/* Stands for another thread. */
const struct sm_allocator *__wrap_sm_user_allocator_wanted(const struct synced_mem *mem, enum sm_side side)
{
    const synced_mem_allocator allocator = {.struct_size = sizeof allocator, .alloc = give, .free = take_back};
    const struct sm_allocator *const wanted = __real_sm_user_allocator_wanted(mem, side);
    if (mem == sets_allocator) {
        sets_allocator = NULL;
        OK(synced_mem_set_allocators(&allocator, NULL));
    }
    return wanted;
}

/* No allocator is called while other objects of the call are locked. */
START_TEST(a_round_calls_no_allocator)
{
    synced_mem *const from = make_at_cpu(SIZE, 3);
    synced_mem *const to = make(SIZE);
    synced_mem *part = NULL;
    if (_i == 1)
        OK(synced_mem_view(&part, to, 0, SIZE / 2, NULL));
    requests = 0;
    sets_allocator = to;
    OK(synced_mem_cpu_copy(to, from));
    ck_assert(!sets_allocator);
    ck_assert_uint_eq(requests, 0);
    ck_assert(host_is(given(synced_mem_cpu_data(to)), SIZE, 3));
    OK(synced_mem_set_allocators(NULL, NULL));
    if (part)
        OK(synced_mem_release(part));
    OK(synced_mem_release(from));
    OK(synced_mem_release(to));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("rounds");
    TCase *const cases = add_case(made, "rounds");
    add_gpu_loop_test(cases, a_pointer_outlives_a_failed_call, 0, CALLS);
    add_gpu_loop_test(cases, a_wait_ends_when_the_work_is_queued, 0, 3);
    add_gpu_loop_test(cases, a_round_calls_no_allocator, 0, 2);
    return made;
}
