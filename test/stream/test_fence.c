/* Checks fences, the records of streams, and the internal streams. */
#include "fixture.h"

#include "device/device.h"
#include "stream/fence.h"
#include "stream/stream.h"
#include "stream/stream_struct.h"

#include <pthread.h>

/* ---- Fences ---- */

START_TEST(no_fence)
{
    ck_assert_int_eq(sm_fence_state(NULL), SM_FENCE_DONE);
    ck_assert(!sm_fence_poll(NULL));
    OK(sm_fence_wait(NULL));
    OK(sm_stream_wait(sm_stream_any(0), NULL));
    sm_fence_drop(NULL);
}
END_TEST

enum { THE_STREAM = 1000000 };

START_TEST(one_fence)
{
    struct sm_fence *first = NULL;
    int device;
    OK(sm_device_resolve(0, &device));
    synced_mem_stream stream = gpu_stream_create(0, false);
    gpu_delay(stream);
    OK(sm_fence_record(0, stream, THE_STREAM, &first));
    ck_assert_ptr_eq(sm_fence_hold(first), first);
    OK(sm_fence_wait(first));
    ck_assert_int_eq(sm_fence_state(first), SM_FENCE_DONE);
    ck_assert(!sm_fence_poll(first));
    OK(sm_fence_wait(first));
    ck_assert_uint_eq(stats_now().host_waits, 1);
    sm_fence_drop(first);
    struct sm_fence *second = NULL;
    OK(sm_fence_record(0, stream, THE_STREAM, &second));
    ck_assert_ptr_ne(second, first);
    sm_fence_drop(first);
    struct sm_fence *third = NULL;
    OK(sm_fence_record(0, stream, THE_STREAM, &third));
    ck_assert_ptr_eq(third, first);
    ck_assert_uint_eq(stats_now().events, 2);
    ck_assert_uint_eq(stats_now().event_records, 3);
    while (sm_fence_poll(second))
        continue;
    ck_assert_int_eq(sm_fence_state(second), SM_FENCE_DONE);
    sm_fence_drop(second);
    OK(sm_fence_wait(third));
    sm_fence_drop(third);
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

/* ---- Threads ---- */

static void *give(void *fence)
{
    sm_fence_drop(fence);
    return NULL;
}

/* Each of more threads than there are shelves gives the event, and it is found again. */
START_TEST(other_threads_give_the_event)
{
    enum { GIVERS = 40 };
    int device;
    OK(sm_device_resolve(0, &device));
    synced_mem_stream stream = gpu_stream_create(0, false);
    for (int i = 0; i < GIVERS; i++) {
        struct sm_fence *fence = NULL;
        pthread_t giver;
        OK(sm_fence_record(0, stream, THE_STREAM, &fence));
        ck_assert_int_eq(pthread_create(&giver, NULL, give, fence), 0);
        ck_assert_int_eq(pthread_join(giver, NULL), 0);
    }
    ck_assert_uint_eq(stats_now().events, 1);
    gpu_stream_destroy(stream);
}
END_TEST

enum { THREADS = 4, PLACES = 8, EXCHANGES = 2000 };

static _Atomic(struct sm_fence *) places[PLACES];

/* Puts a fence into each place in turn, and gives the one that another thread has put there. */
static void *exchange(void *stream)
{
    for (int i = 0; i < EXCHANGES; i++) {
        struct sm_fence *fence = NULL;
        OK(sm_fence_record(0, stream, THE_STREAM, &fence));
        sm_fence_drop(atomic_exchange(&places[i % PLACES], fence));
    }
    return NULL;
}

/* All events are idle: each is found once, and then there is none. */
static void check_idle_fences(synced_mem_stream stream)
{
    enum { MOST = 200 }; /* a search may miss an event that another thread gives meanwhile, so there are a few more */
    struct sm_fence *fences[MOST + 1] = {NULL};
    const uint64_t events = stats_now().events;
    ck_assert_uint_le(events, MOST);
    for (uint64_t i = 0; i <= events; i++) {
        ck_assert_uint_eq(stats_now().events, events);
        OK(sm_fence_record(0, stream, THE_STREAM, &fences[i]));
        for (uint64_t before = 0; before < i; before++)
            ck_assert_ptr_ne(fences[before], fences[i]);
    }
    ck_assert_uint_eq(stats_now().events, events + 1);
    for (uint64_t i = 0; i <= events; i++)
        sm_fence_drop(fences[i]);
}

START_TEST(threads_exchange_fences)
{
    pthread_t threads[THREADS];
    int device;
    OK(sm_device_resolve(0, &device));
    synced_mem_stream stream = gpu_stream_create(0, false);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, exchange, stream), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < PLACES; i++)
        sm_fence_drop(atomic_exchange(&places[i], NULL));
    check_idle_fences(stream);
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
}
END_TEST

static synced_mem_status say_why(struct sm_host_work *work, const struct sm_fence *fence)
{
    (void)work;
    ck_assert_int_eq(sm_fence_state(fence), SM_FENCE_LOST);
    return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
}

static int dropped;

static void drop(struct sm_host_work *work)
{
    (void)work;
    dropped++;
}

/* A wait for work of the library's threads that has failed already reports the reason. */
START_TEST(work_of_threads_fails)
{
    struct sm_host_work work = {.finish = say_why, .drop = drop};
    struct sm_fence *fence = NULL;
    int device;
    OK(sm_device_resolve(0, &device));
    OK(sm_fence_open(0, THE_STREAM, &work, &fence));
    ck_assert(sm_fence_poll(fence));
    sm_fence_close(fence, SM_FENCE_LOST, false);
    ck_assert_int_eq(sm_fence_wait(fence), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
    ck_assert(!sm_fence_poll(fence));
    sm_fence_drop(fence);
    ck_assert_int_eq(dropped, 1);
}
END_TEST

/* A stream waits for work that is pending on another stream, and for nothing else. */
START_TEST(streams_wait)
{
    struct sm_fence *fence = NULL;
    struct sm_stream *stream = NULL;
    struct sm_stream *other = NULL;
    synced_mem_stream handle = gpu_stream_create(0, false);
    OK(sm_stream_find(0, handle, &stream));
    OK(sm_internal_stream(0, SM_INTERNAL_H2D, &other));
    gpu_delay(handle);
    OK(sm_stream_record(stream, &fence));
    OK(sm_stream_wait(stream, fence));
    ck_assert_uint_eq(stats_now().stream_waits, 0);
    OK(sm_stream_wait(other, fence));
    ck_assert_uint_eq(stats_now().stream_waits, 1);
    OK(sm_fence_wait(fence));
    OK(sm_stream_wait(other, fence));
    ck_assert_uint_eq(stats_now().stream_waits, 1);
    sm_fence_drop(fence);
    sm_stream_drop(stream);
    OK(synced_mem_forget_stream(handle));
    gpu_stream_destroy(handle);
}
END_TEST

/* ---- Streams ---- */

/* A stream has one record while it is known. The next stream with its handle gets another record. */
START_TEST(records_of_streams)
{
    struct sm_stream *first = NULL;
    struct sm_stream *again = NULL;
    synced_mem_stream handle = gpu_stream_create(0, false);
    OK(sm_stream_find(SYNCED_MEM_DEVICE_CURRENT, handle, &first));
    OK(sm_stream_find(0, handle, &again));
    ck_assert_ptr_eq(first, again);
    ck_assert_int_eq(first->device, 0);
    ck_assert(sm_stream_can_be_hot(first));
    ck_assert(!sm_stream_is_over(first));
    sm_stream_drop(again);
    OK(synced_mem_forget_stream(handle));
    ck_assert(sm_stream_is_over(first));
    ck_assert_ptr_eq(first->hot, SM_NO_HANDLE);
    OK(sm_stream_find(0, handle, &again));
    ck_assert_ptr_ne(first, again);
    ck_assert_uint_ne(first->serial, again->serial);
    sm_stream_drop(first);
    sm_stream_drop(again);
    OK(synced_mem_forget_stream(handle));
    gpu_stream_destroy(handle);
}
END_TEST

static struct sm_stream *new_record(enum sm_stream_kind kind)
{
    struct sm_stream *const stream = sm_stream_struct_take();
    ck_assert_ptr_nonnull(stream);
    sm_stream_describe(stream, kind, 0, SM_NO_HANDLE);
    sm_mutex_init(&stream->lock);
    return stream;
}

/* A record that a thread on the hot path may still read is not used again soon for another stream. */
START_TEST(records_used_again)
{
    enum { MANY = 4096 };
    struct sm_stream *const first = new_record(SM_STREAM_CREATED);
    sm_stream_struct_give(first);
    for (int i = 0; i < MANY; i++) {
        struct sm_stream *const other = new_record(SM_STREAM_CREATED);
        ck_assert_ptr_ne(other, first);
        sm_stream_struct_give(other);
    }
    ck_assert_ptr_eq(sm_stream_struct_take(), first);
    struct sm_stream *const of_a_thread = new_record(SM_STREAM_PER_THREAD);
    sm_stream_struct_give(of_a_thread);
    ck_assert_ptr_eq(new_record(SM_STREAM_PER_THREAD), of_a_thread);
    sm_stream_struct_give(of_a_thread);
    sm_stream_struct_give(first);
}
END_TEST

/* Both handles of the legacy stream name one stream, and on each device another one. */
START_TEST(legacy_stream)
{
    struct sm_stream *legacy = NULL;
    struct sm_stream *again = NULL;
    OK(sm_stream_find(0, NULL, &legacy));
    OK(sm_stream_find(0, SM_HANDLE_LEGACY, &again));
    ck_assert_ptr_eq(legacy, again);
    ck_assert_ptr_ne(legacy, sm_stream_any(0));
    if (devices() > 1) {
        OK(sm_stream_find(1, NULL, &again));
        ck_assert_ptr_ne(legacy, again);
    }
    OK(synced_mem_forget_stream(NULL));
    OK(synced_mem_forget_stream(SM_HANDLE_LEGACY));
}
END_TEST

/* ---- Internal streams ---- */

START_TEST(internals)
{
    int device;
    struct sm_stream *internal[SM_INTERNALS];
    OK(sm_device_resolve(SYNCED_MEM_DEVICE_CURRENT, &device));
    ck_assert_int_eq(device, 0);
    ck_assert(sm_device_in_use());
    for (int i = 0; i < SM_INTERNALS; i++) {
        struct sm_stream *again = NULL;
        OK(sm_internal_stream(0, (enum sm_internal)i, &internal[i]));
        OK(sm_internal_stream(0, (enum sm_internal)i, &again));
        ck_assert_ptr_eq(internal[i], again);
        ck_assert_int_eq(internal[i]->kind, SM_STREAM_INTERNAL);
        ck_assert(!sm_stream_can_be_hot(internal[i]));
        for (int j = 0; j < i; j++)
            ck_assert_ptr_ne(internal[i]->handle, internal[j]->handle);
    }
    for (unsigned number = 1; number <= SM_INTERNALS; number++)
        ck_assert_ptr_eq(sm_stream_permanent(number), internal[number - 1]);
    OK(sm_stream_shutdown());
    ck_assert_ptr_null(sm_stream_permanent(1));
    OK(sm_device_shutdown());
    ck_assert(!sm_device_in_use());
}
END_TEST

/* Each has a number of its own, which leads back to it. Streams that may be gone have none. */
START_TEST(permanent_streams_have_numbers)
{
    struct sm_stream *created, *internal, *legacy;
    const synced_mem_stream handle = gpu_stream_create(0, false);
    OK(sm_stream_find(0, handle, &created));
    OK(sm_stream_find_legacy(0, &legacy));
    OK(sm_internal_stream(0, SM_INTERNAL_FREE_BEHIND, &internal));
    ck_assert_uint_eq(sm_stream_permanent_number(created), 0);
    ck_assert_uint_eq(sm_stream_permanent_number(sm_stream_any(0)), 0);
    ck_assert_ptr_null(sm_stream_permanent(0));
    ck_assert_uint_ne(sm_stream_permanent_number(internal), sm_stream_permanent_number(legacy));
    ck_assert_ptr_eq(sm_stream_permanent(sm_stream_permanent_number(internal)), internal);
    ck_assert_ptr_eq(sm_stream_permanent(sm_stream_permanent_number(legacy)), legacy);
    sm_stream_drop(created);
    OK(synced_mem_forget_stream(handle));
    gpu_stream_destroy(handle);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("fence");
    TCase *const tests = add_case(made, "fence");
    add_tests(tests, no_fence, records_used_again);
    add_gpu_tests(tests, one_fence, other_threads_give_the_event, threads_exchange_fences, work_of_threads_fails,
                  streams_wait, records_of_streams, legacy_stream, internals, permanent_streams_have_numbers);
    return made;
}
