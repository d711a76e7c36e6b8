/* Checks a thread that uses its default stream in destructors at its end. They run after the library's and the
 * runtime's. */
#include "fixture.h"

#include "stream/stream.h"

#include <errno.h>
#include <pthread.h>

enum { SIZE = 5000 };

static synced_mem_stream own = SM_HANDLE_PER_THREAD;
static pthread_key_t key;

static struct {
    synced_mem *mem;
    void *seen;
    struct sm_stream *before; /* held until the end of the test */
    struct sm_stream *after;  /* held until the end of the test */
    bool failed;
} ends;

/* The thread's default stream is a new one by now. It comes after no work of the first one. Uses no assertions of
 * Check. */
static void read_late(void *unused)
{
    (void)unused;
    const void *const data = synced_mem_gpu_data_on(ends.mem, own);
    ends.failed =
        !data || !gpu_try_copy(ends.seen, data, SIZE, own) || sm_stream_find(0, own, &ends.after) != SYNCED_MEM_OK;
}

static void *write_and_end(void *unused)
{
    void *const data = synced_mem_mutable_gpu_data_on(ends.mem, own);
    ends.failed = !data || !gpu_try_fill(data, SIZE, 2, own) || sm_stream_find(0, own, &ends.before) != SYNCED_MEM_OK;
    return pthread_setspecific(key, &key) == 0 ? unused : &key;
}

START_TEST(a_late_destructor)
{
    pthread_t thread;
    void *failed = NULL;
    ends.seen = gpu_alloc(0, SIZE);
    ends.mem = make_at_gpu(SIZE, 1);
    /* Destructors run in the order in which their keys were created. The library's key exists by now. */
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(ends.mem, own));
    ck_assert_int_eq(pthread_key_create(&key, read_late), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, write_and_end, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert(!failed && !ends.failed);
    ck_assert_ptr_ne(ends.before, ends.after);
    ck_assert(sm_stream_is_over(ends.before));
    ck_assert(sm_stream_is_over(ends.after));
    sm_stream_drop(ends.before);
    sm_stream_drop(ends.after);
    ck_assert(device_is(ends.seen, SIZE, 2));
    ck_assert(host_is(synced_mem_cpu_data(ends.mem), SIZE, 2));
    OK(synced_mem_release(ends.mem));
    gpu_free(ends.seen);
    ck_assert_int_eq(pthread_key_delete(key), 0);
}
END_TEST

#if WITH_POSIX
static bool refuse_key;

int __real_pthread_key_create(pthread_key_t *made, void (*end)(void *));
int __wrap_pthread_key_create(pthread_key_t *made, void (*end)(void *));
int __wrap_pthread_key_create(pthread_key_t *made, void (*end)(void *))
{
    if (!refuse_key)
        return __real_pthread_key_create(made, end);
    refuse_key = false;
    return EAGAIN;
}

/* The library that is refused a key leaves those of others alone. */
START_TEST(no_key)
{
    pthread_key_t others;
    ck_assert_int_eq(pthread_key_create(&others, NULL), 0);
    const pthread_key_t first = 0;
    const void *const before = pthread_getspecific(first);
    refuse_key = true;
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, own));
    ck_assert(!refuse_key);
    ck_assert_ptr_eq(pthread_getspecific(first), before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(pthread_key_delete(others), 0);
}
END_TEST
#endif

Suite *suite(void)
{
    Suite *const made = suite_create("thread_ends");
    TCase *const tests = add_case(made, "destructors");
    tcase_add_test(tests, a_late_destructor);
#if WITH_POSIX
    tcase_add_test(tests, no_key);
#endif
    return made;
}
