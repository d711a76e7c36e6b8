/* Checks memory that several objects adopt, and memory that already belongs to the object. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 5000, MANY = 300 };

static int handed_back;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    handed_back++;
}

/* ---- One memory, several objects ---- */

/* The storage of several tensors. The last reference frees it. */
struct storage {
    void *data;
    int references;
    int calls;
    bool freed;
};

static void drop_reference(void *data, void *user, synced_mem_stream stream)
{
    struct storage *const storage = user;
    ck_assert_ptr_eq(data, storage->data);
    ck_assert_ptr_null(stream);
    ck_assert(!storage->freed);
    storage->calls++;
    storage->freed = --storage->references == 0;
}

/* Each callback is called when its own object no longer uses the memory, in either order. */
START_TEST(two_adopt_one)
{
    struct storage storage = {.data = malloc(SIZE), .references = 2};
    synced_mem *const mems[] = {make(SIZE), make(SIZE / 2)};
    host_fill(storage.data, SIZE, 1);
    OK(USE(mems[0], .cpu_data = storage.data, .callback = drop_reference, .user = &storage));
    OK(USE(mems[1], .cpu_data = storage.data, .callback = drop_reference, .user = &storage));
    ck_assert_ptr_eq(synced_mem_cpu_data(mems[0]), storage.data);
    ck_assert_ptr_eq(synced_mem_cpu_data(mems[1]), storage.data);
    ck_assert_int_eq(synced_mem_cpu_source(mems[1]), SYNCED_MEM_SOURCE_ADOPTED);
    OK(synced_mem_release(mems[_i]));
    ck_assert_int_eq(storage.calls, 1);
    ck_assert(host_is(synced_mem_cpu_data(mems[1 - _i]), SIZE / 2, 1));
    OK(_i ? synced_mem_release_data(mems[1 - _i]) : synced_mem_set_cpu_data(mems[1 - _i], &storage));
    ck_assert_int_eq(storage.calls, 2);
    ck_assert(storage.freed);
    OK(synced_mem_release(mems[1 - _i]));
    ck_assert_int_eq(storage.calls, 2);
    free(storage.data);
}
END_TEST

/* A transfer of one object does not hold up the other's callback. */
START_TEST(each_at_its_own_time)
{
    struct storage storage = {.data = gpu_pinned_alloc(SIZE), .references = 2};
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const pushed = make(SIZE);
    synced_mem *const other = make(SIZE);
    host_fill(storage.data, SIZE, 1);
    OK(USE(pushed, .cpu_data = storage.data, .callback = drop_reference, .user = &storage));
    OK(USE(other, .cpu_data = storage.data, .callback = drop_reference, .user = &storage));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(pushed, stream));
    OK(synced_mem_release(pushed));
    ck_assert_int_eq(storage.calls, 0);
    OK(synced_mem_release(other));
    ck_assert_int_eq(storage.calls, 1);
    OK(synced_mem_reap());
    ck_assert_int_eq(storage.calls, 1);
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(storage.calls, 2);
    close_stream(stream);
    gpu_pinned_free(storage.data);
}
END_TEST

/* Memory of both copies is adopted again, by the same object, while the first adoption is retired. */
START_TEST(adopted_again_while_it_is_retired)
{
    void *const host = gpu_pinned_alloc(SIZE);
    void *const device = gpu_alloc(0, SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make(SIZE);
    host_fill(host, SIZE, 1);
    OK(USE(mem, .cpu_data = host, .callback = count));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release_data(mem));
    ck_assert_int_eq(handed_back, 0);
    OK(USE(mem, .cpu_data = host, .gpu_data = device, .callback = count));
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, 1);
    OK(synced_mem_release(mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(handed_back, 3);
    close_stream(stream);
    gpu_free(device);
    gpu_pinned_free(host);
}
END_TEST

/* Many objects adopt one memory and hand it back in another order. */
START_TEST(many_adopt_one)
{
    static synced_mem *mems[MANY];
    char data[16] = {0};
    for (int i = 0; i < MANY; i++) {
        mems[i] = make(16);
        OK(USE(mems[i], .cpu_data = data, .callback = count));
    }
    for (int i = 0; i < MANY; i++) {
        OK(synced_mem_release(mems[7 * i % MANY]));
        ck_assert_int_eq(handed_back, i + 1);
    }
}
END_TEST

/* Memory can be adopted after a call that was refused for the device memory beside it. */
START_TEST(adopted_after_a_failure)
{
    char *const data = calloc(1, 2 * SIZE);
    synced_mem *const mem = make(SIZE);
    FAILS(gpu_expected() ? SYNCED_MEM_ERR_INVALID_ARGUMENT : SYNCED_MEM_ERR_NO_GPU,
          USE(mem, .cpu_data = data, .gpu_data = data + SIZE, .callback = count));
    OK(USE(mem, .cpu_data = data, .callback = count));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 1);
    free(data);
}
END_TEST

/* ---- Memory that belongs to the object ---- */

/* An object's own memory is refused: the object would free it as the new memory arrives. */
START_TEST(own_host_memory)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    char *const own = synced_mem_mutable_cpu_data(mem);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, own));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, own + SIZE - 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .cpu_data = own, .callback = count));
    SAYS("own");
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    synced_mem *const other = make(100);
    OK(synced_mem_set_cpu_data(other, own));
    ck_assert_ptr_eq(synced_mem_cpu_data(other), own);
    RELEASE_EACH(other, mem);
    ck_assert_int_eq(handed_back, 0);
}
END_TEST

/* Adopted memory is refused as well: it would be handed back while the object uses it. */
START_TEST(own_adopted_memory)
{
    char *const data = calloc(1, SIZE);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = data, .callback = count));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, data));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, data + 8));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ADOPTED);
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 1);
    free(data);
}
END_TEST

START_TEST(own_device_memory)
{
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    char *const own = synced_mem_mutable_gpu_data(mem);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_gpu_data(mem, own));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, USE(mem, .gpu_data = own + 256, .callback = count));
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 0);
}
END_TEST

static synced_mem *left_to_release;
static int depth;
static int deepest;

static void release_another(void *data, void *user, synced_mem_stream stream)
{
    synced_mem *const mem = left_to_release;
    left_to_release = NULL;
    depth++;
    deepest = depth > deepest ? depth : deepest;
    OK(synced_mem_release(mem));
    count(data, user, stream);
    depth--;
}

/* A callback releases memory with a callback of its own. The second callback is called after the first has returned. */
START_TEST(released_by_a_callback)
{
    char memory[2][SIZE];
    synced_mem *const mem = make(SIZE);
    left_to_release = make(SIZE);
    OK(USE(mem, .cpu_data = memory[0], .callback = release_another));
    OK(USE(left_to_release, .cpu_data = memory[1], .callback = release_another));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 2);
    ck_assert_int_eq(deepest, 1);
}
END_TEST

/* The number of callbacks that hand in more memory, by a new object that they release. */
static int more;

static void adopt_more(void *data, void *user, synced_mem_stream stream)
{
    count(data, user, stream);
    if (more == 0)
        return;
    more--;
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = data, .callback = adopt_more));
    OK(synced_mem_release(mem));
}

/* The shutdown calls all callbacks, also those of memory that its callbacks hand in. */
START_TEST(adopted_in_the_shutdown)
{
    static char memory[SIZE];
    synced_mem_stream stream = NULL;
    void *host = memory;
    synced_mem *const mem = make(SIZE);
    more = _i;
    if (gpu_expected()) {
        host = gpu_pinned_alloc(SIZE);
        stream = open_stream(NON_BLOCKING);
    }
    OK(USE(mem, .cpu_data = host, .callback = adopt_more));
    if (gpu_expected()) {
        gpu_hold(stream);
        OK(synced_mem_async_gpu_push(mem, stream));
    }
    OK(synced_mem_release(mem));
    if (gpu_expected())
        gpu_unhold();
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(stats_now().retired, 0);
    ck_assert_int_eq(handed_back, 1 + _i);
    if (gpu_expected()) {
        close_stream(stream);
        gpu_pinned_free(host);
    }
}
END_TEST

/* Callbacks that hand in memory without end, or leave an object, end in an error. The next shutdown goes on. */
START_TEST(adopted_without_end)
{
    enum { ENDLESS = 100 };
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const host = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make(SIZE);
    more = ENDLESS;
    OK(USE(mem, .cpu_data = host, .callback = adopt_more));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    gpu_unhold();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_shutdown());
    SAYS("release callbacks");
    ck_assert_int_lt(handed_back, ENDLESS);
    more = 0;
    OK(synced_mem_shutdown());
    ck_assert_uint_eq(stats_now().retired, 0);
    close_stream(stream);
    gpu_pinned_free(host);
}
END_TEST

static synced_mem *left_alive;

static void leave_alive(void *data, void *user, synced_mem_stream stream)
{
    count(data, user, stream);
    left_alive = make_at_cpu(SIZE, 1);
}

START_TEST(an_object_made_in_the_shutdown)
{
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    void *const host = gpu_pinned_alloc(SIZE);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = host, .callback = leave_alive));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release(mem));
    gpu_unhold();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_shutdown());
    SAYS("1 object is alive");
    ck_assert(host_is(synced_mem_cpu_data(left_alive), SIZE, 1));
    OK(synced_mem_release(left_alive));
    OK(synced_mem_shutdown());
    close_stream(stream);
    gpu_pinned_free(host);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("adopted");
    TCase *const tests = add_case(made, "adopted");
    add_tests(tests, many_adopt_one, adopted_after_a_failure, released_by_a_callback, own_host_memory,
              own_adopted_memory);
    add_gpu_tests(tests, each_at_its_own_time, adopted_again_while_it_is_retired, adopted_without_end,
                  an_object_made_in_the_shutdown, own_device_memory);
    tcase_add_loop_test(tests, two_adopt_one, 0, 2);
    tcase_add_loop_test(tests, adopted_in_the_shutdown, 0, 4);
    return made;
}
