/* The retired list, with work in flight on many copies: what a call queries in passing, and what it finds. */
#include "failing_calloc.h"
#include "fixture.h"

#include <cuda_runtime_api.h>

#include <pthread.h>

enum { SIZE = 256, MANY = 100, STREAMS = 40, FEW_STREAMS = 2 };

static synced_mem_stream held[STREAMS];
static int streams;
static synced_mem_stream free_one;
static char *memory;
static int handed_back;
static bool lacks_memory; /* for the next pass */

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    handed_back++;
}

/* Retires memory with a push in flight on the stream. */
static void retire(int index, synced_mem_stream stream)
{
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = memory + (size_t)index * SIZE, .callback = count));
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
}

/* A call that tries the retired copies once. Returns the number of its queries. */
static unsigned pass_by(void)
{
    synced_mem *const mem = make(SIZE);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mem));
    const unsigned before = gpu_calls("cudaEventQuery");
    atomic_store(&fail_calloc_in, lacks_memory);
    OK(synced_mem_release_data(mem));
    const unsigned queries = gpu_calls("cudaEventQuery") - before;
    OK(synced_mem_release(mem));
    return queries;
}

static void make_stream_wait(synced_mem_stream stream, synced_mem_stream behind)
{
    cudaEvent_t event;
    ck_assert_int_eq(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    ck_assert_int_eq(cudaEventRecord(event, behind), cudaSuccess);
    ck_assert_int_eq(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
    ck_assert_int_eq(cudaEventDestroy(event), cudaSuccess);
}

/* Opens so many streams of those that are held. A device has few queues, so of very many streams a held one may hold up
 * the free one. */
static void open_streams(int count)
{
    streams = count;
    memory = gpu_pinned_alloc((size_t)(MANY + 1) * SIZE);
    host_fill(memory, (size_t)(MANY + 1) * SIZE, 1);
    for (int i = 0; i < streams; i++)
        held[i] = open_stream(NON_BLOCKING);
    free_one = open_stream(NON_BLOCKING);
    gpu_hold(held[0]);
    for (int i = 1; i < streams; i++)
        make_stream_wait(held[i], held[0]);
}

static void end_all(int expected)
{
    gpu_unhold();
    for (int i = 0; i < streams; i++)
        gpu_stream_sync(held[i]);
    gpu_stream_sync(free_one);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, expected);
    for (int i = 0; i < streams; i++)
        close_stream(held[i]);
    close_stream(free_one);
    gpu_pinned_free(memory);
}

/* Copies wait for several streams in turn. Of each stream one event is queried. */
START_TEST(few_queries)
{
    static const int counts[] = {1, 2, 7, 8, 9, 16, 17, STREAMS};
    open_streams(counts[_i]);
    for (int i = 0; i < MANY; i++)
        retire(i, held[i % streams]);
    for (int i = 0; i < MANY; i++)
        ck_assert_uint_le(pass_by(), (unsigned)streams);
    ck_assert_int_eq(handed_back, 0);
    end_all(MANY);
}
END_TEST

/* Without memory to remember all streams more events are queried, and each copy is handed back all the same. */
START_TEST(queries_without_memory)
{
    if (!gpu_is_emulated())
        return;
    open_streams(STREAMS);
    for (int i = 0; i < MANY; i++)
        retire(i, held[i % STREAMS]);
    retire(MANY, free_one);
    gpu_stream_sync(free_one);
    lacks_memory = true;
    ck_assert_uint_le(pass_by(), MANY + 1);
    lacks_memory = false;
    ck_assert_int_eq(atomic_load(&fail_calloc_in), 0);
    ck_assert_int_eq(handed_back, 1);
    end_all(MANY + 1);
}
END_TEST

/* The next call hands back a copy whose work has ended, behind many whose work has not. */
START_TEST(one_behind_many)
{
    open_streams(FEW_STREAMS);
    for (int i = 0; i < MANY; i++)
        retire(i, held[i % FEW_STREAMS]);
    retire(MANY, free_one);
    gpu_stream_sync(free_one);
    (void)pass_by();
    ck_assert_int_eq(handed_back, 1);
    end_all(MANY + 1);
}
END_TEST

/* The copy that was retired first waits for the last work of the stream. */
START_TEST(retired_in_another_order)
{
    synced_mem *mems[MANY];
    cudaEvent_t event;
    open_streams(FEW_STREAMS);
    ck_assert_int_eq(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    for (int i = 0; i < MANY; i++) {
        mems[i] = make(SIZE);
        OK(USE(mems[i], .cpu_data = memory + (size_t)i * SIZE, .callback = count));
        if (i == MANY - 1) {
            ck_assert_int_eq(cudaEventRecord(event, free_one), cudaSuccess);
            make_stream_wait(free_one, held[0]);
        }
        OK(synced_mem_async_gpu_push(mems[i], free_one));
    }
    for (int i = MANY - 1; i >= 0; i--)
        OK(synced_mem_release(mems[i]));
    ck_assert_int_eq(cudaEventSynchronize(event), cudaSuccess);
    (void)pass_by();
    ck_assert_int_eq(handed_back, MANY - 1);
    ck_assert_int_eq(cudaEventDestroy(event), cudaSuccess);
    end_all(MANY);
}
END_TEST

/* One reap finds all copies whose work has ended, wherever they are. */
START_TEST(a_reap_finds_all)
{
    open_streams(FEW_STREAMS);
    for (int i = 0; i < MANY; i++)
        retire(i, i % 2 ? held[0] : free_one);
    gpu_stream_sync(free_one);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, MANY / 2);
    end_all(MANY);
}
END_TEST

/* ---- Callbacks that release ---- */

enum { LONGEST = 10000 };
static synced_mem *chain[LONGEST];
static int released, depth, deepest;

static void release_next(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    depth++;
    deepest = depth > deepest ? depth : deepest;
    OK(synced_mem_release(chain[++released]));
    depth--;
}

static void release_none(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    released++;
}

/* Each object's callback releases the next one. Only the first has work in flight. */
static void make_chain(int length)
{
    static char bytes[LONGEST];
    released = deepest = 0;
    for (int i = 0; i < length; i++) {
        chain[i] = make(1);
        OK(USE(chain[i], .cpu_data = bytes + i, .callback = i < length - 1 ? release_next : release_none));
    }
}

/* One call runs all callbacks, one after the other. */
START_TEST(callbacks_release_objects)
{
    static const int lengths[] = {1, 2, 100, LONGEST};
    const int length = lengths[_i % 4];
    const bool shuts_down = _i / 4;
    make_chain(length);
    OK(synced_mem_release(chain[0]));
    OK(shuts_down ? synced_mem_shutdown() : synced_mem_reap());
    ck_assert_int_eq(released, length);
    ck_assert_int_eq(deepest, length > 1);
    ck_assert_uint_eq(stats_now().objects, 0);
    ck_assert_uint_eq(stats_now().retired, 0);
}
END_TEST

/* The chain begins behind pending work. A shutdown waits for that. */
START_TEST(callbacks_release_behind_work)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    make_chain(100);
    gpu_delay(stream);
    OK(synced_mem_async_gpu_push(chain[0], stream));
    OK(synced_mem_release(chain[0]));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(released, 100);
    ck_assert_uint_eq(stats_now().objects, 0);
    close_stream(stream);
}
END_TEST

static int makers;

static void make_another(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    if (makers == 0)
        return;
    makers++;
    synced_mem *const mem = make(1);
    OK(USE(mem, .cpu_data = data, .callback = make_another));
    OK(synced_mem_release(mem));
}

/* A callback that hands in memory without end does not keep a reap. */
START_TEST(callbacks_without_end)
{
    static char byte;
    makers = 1;
    make_another(&byte, NULL, NULL);
    OK(synced_mem_reap());
    ck_assert_int_lt(makers, 100);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_shutdown());
    makers = 0;
    OK(synced_mem_shutdown());
}
END_TEST

static void release_another(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)stream;
    (void)synced_mem_release(user);
}

static void forget(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
}

/* A callback releases device memory whose pointer was given without a stream, so that work on all streams is ended
 * later: when any thread passes by the list. */
static void *retire_in_callbacks(void *device)
{
    static char byte;
    for (int i = 0; i < 200; i++) {
        synced_mem *const inner = make(1), *const outer = make(1);
        SOUND(USE(inner, .gpu_data = device, .callback = forget) == SYNCED_MEM_OK);
        SOUND(synced_mem_gpu_data(inner) != NULL);
        SOUND(USE(outer, .cpu_data = &byte, .callback = release_another, .user = inner) == SYNCED_MEM_OK);
        SOUND(synced_mem_release(outer) == SYNCED_MEM_OK);
    }
    return NULL;
}

/* One thread adds to the list behind a copy that another one has in hand. */
START_TEST(threads_retire_together)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    char *const device = gpu_alloc(0, THREADS);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, retire_in_callbacks, device + i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    OK(synced_mem_reap());
    gpu_free(device);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("retired");
    TCase *const cases = add_case(made, "retired");
    add_tests(cases, queries_without_memory, callbacks_without_end);
    add_gpu_tests(cases, one_behind_many, retired_in_another_order, a_reap_finds_all, callbacks_release_behind_work,
                  threads_retire_together);
    add_gpu_loop_test(cases, few_queries, 0, 8);
    tcase_add_loop_test(cases, callbacks_release_objects, 0, 8);
    return made;
}
