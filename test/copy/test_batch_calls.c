/* Tests that a push or pull of many objects makes as many calls of the runtime as one of few, whatever has used the
 * objects before. A copy between many objects only makes one more for each copy. */
#include "fixture.h"

#include "cudart_emu.h"

enum { FEW = 3, MANY = 24, SIZE = 4096 };

/* The earlier users of the device copies: none but the library, kernels through a pointer that was requested without a
 * stream, kernels on one other stream, and on several. */
enum past { NOBODY, STREAMLESS, ONE_STREAM, STREAMS, PASTS };
enum { OTHERS = 3 };

enum way { PUSH, PULL, COPY, WAYS };

static synced_mem *mems[MANY];
static synced_mem *targets[MANY];
static synced_mem_stream stream;
static synced_mem_stream others[OTHERS];

static void begin(void)
{
    stream = open_stream(NON_BLOCKING);
    for (int i = 0; i < OTHERS; i++)
        others[i] = open_stream(NON_BLOCKING);
    for (int i = 0; i < MANY; i++) {
        mems[i] = make_on(SIZE, 0);
        targets[i] = make_on(SIZE, 0);
    }
}

static void finish(void)
{
    for (int i = 0; i < MANY; i++) {
        RELEASE_EACH(mems[i], targets[i]);
    }
    close_stream(stream);
    for (int i = 0; i < OTHERS; i++)
        close_stream(others[i]);
}

/* Lets a kernel write the pattern to the device copy. */
static void use_device_copy(synced_mem *mem, enum past past, int which, unsigned pattern)
{
    synced_mem_stream by = stream;
    void *data = NULL;
    if (past == ONE_STREAM || past == STREAMS)
        by = others[past == STREAMS ? which % OTHERS : 0];
    if (past == STREAMLESS)
        by = NULL;
    if (past == STREAMLESS)
        data = synced_mem_overwrite_gpu_data(mem);
    else
        data = synced_mem_overwrite_gpu_data_on(mem, by);
    gpu_delay(by);
    gpu_fill(data, SIZE, pattern, by);
}

/* A host copy that is overwritten does not wait for the kernels. */
static void prepare(enum way way, enum past past, int count, unsigned pattern)
{
    for (int i = 0; i < count; i++) {
        const unsigned each = pattern + (unsigned)i;
        use_device_copy(way == COPY ? targets[i] : mems[i], past, i, way == PULL ? each : 0);
        if (way != PULL)
            host_fill(synced_mem_overwrite_cpu_data(mems[i]), SIZE, each);
        if (way == COPY)
            use_device_copy(mems[i], past, i, each);
    }
}

static void move_all(enum way way, int count)
{
    if (way == PUSH)
        OK(synced_mem_async_gpu_push_n(mems, (size_t)count, stream));
    else if (way == PULL)
        OK(synced_mem_async_cpu_pull_n(mems, (size_t)count, stream));
    else
        OK(synced_mem_async_gpu_copy_n(targets, mems, (size_t)count, stream));
}

/* Returns the calls of the runtime, without those that queue a copy, or query the current device for it. */
static unsigned count_calls(void)
{
    return gpu_calls(NULL) - gpu_calls("cudaMemcpyAsync") - gpu_calls("cudaGetDevice");
}

static unsigned move_and_count(enum way way, enum past past, int count, unsigned pattern)
{
    prepare(way, past, count, pattern);
    const unsigned before = count_calls();
    move_all(way, count);
    const unsigned calls = count_calls() - before;
    for (int i = 0; i < count; i++) {
        synced_mem *const mem = way == COPY ? targets[i] : mems[i];
        const unsigned each = pattern + (unsigned)i;
        ck_assert(device_is(synced_mem_gpu_data_on(mem, stream), SIZE, each));
        ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, each));
    }
    return calls;
}

/* The first rounds obtain memory and make events. */
START_TEST(calls_do_not_grow)
{
    const enum way way = (enum way)(_i % WAYS);
    const enum past past = (enum past)(_i / WAYS);
    unsigned few = 0;
    unsigned many = 0;
    begin();
    for (unsigned round = 0; round < 3; round++) {
        few = move_and_count(way, past, FEW, 200 * round);
        many = move_and_count(way, past, MANY, 200 * round + 100);
    }
    ck_assert_uint_eq(few, many);
    finish();
}
END_TEST

/* The calls in all, if no other stream has used the objects. */
START_TEST(calls_at_rest)
{
    const enum way way = (enum way)_i;
    unsigned calls = 0;
    begin();
    for (unsigned round = 0; round < 3; round++)
        calls = move_and_count(way, NOBODY, MANY, 100 * round);
    ck_assert_uint_eq(calls, 4); /* the capture query, the stream's id, the batch, the event */
    finish();
}
END_TEST

/* The objects were used by more streams than the call has room for. */
START_TEST(more_streams_than_room)
{
    enum { ALL = 12 };
    synced_mem_stream many[ALL];
    begin();
    for (int i = 0; i < ALL; i++)
        many[i] = open_stream(NON_BLOCKING);
    for (unsigned round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            gpu_delay(many[i % ALL]);
            gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], many[i % ALL]), SIZE, round + (unsigned)i,
                     many[i % ALL]);
        }
        OK(synced_mem_async_cpu_pull_n(mems, MANY, stream));
        for (int i = 0; i < MANY; i++)
            ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, round + (unsigned)i));
    }
    finish();
    for (int i = 0; i < ALL; i++)
        close_stream(many[i]);
}
END_TEST

/* A later call records another event: its stream comes after kernels that were launched since the last call. */
START_TEST(each_call_for_itself)
{
    begin();
    for (int i = 0; i < MANY; i++)
        use_device_copy(mems[i], STREAMLESS, i, 1);
    for (unsigned round = 2; round < 6; round++) {
        void *old[MANY];
        for (int i = 0; i < MANY; i++)
            old[i] = synced_mem_mutable_gpu_data(mems[i]);
        for (int i = 0; i < MANY; i++)
            host_fill(synced_mem_overwrite_cpu_data(mems[i]), SIZE, round);
        gpu_delay(NULL);
        for (int i = 0; i < MANY; i++)
            gpu_fill(old[i], SIZE, 99, NULL); /* an old pointer */
        OK(synced_mem_async_gpu_push_n(mems, MANY, stream));
        for (int i = 0; i < MANY; i++)
            ck_assert(device_is(synced_mem_gpu_data_on(mems[i], stream), SIZE, round));
    }
    finish();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("batch_calls");
    TCase *const tests = add_case(made, "batch_calls");
    tcase_add_loop_test(tests, calls_do_not_grow, 0, WAYS * PASTS);
    tcase_add_loop_test(tests, calls_at_rest, PUSH, COPY);
    add_tests(tests, more_streams_than_room, each_call_for_itself);
    return made;
}
