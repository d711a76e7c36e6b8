/* Memory that is the library's already can't be handed in: adopted twice, or an object's own. */
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

/* By the same object and by another, for one side or both. */
START_TEST(adopted_twice)
{
    void *const data = calloc(1, SIZE);
    synced_mem *const mem = make(SIZE);
    synced_mem *const other = make_at_cpu(SIZE, 2);
    OK(synced_mem_adopt_cpu_data(mem, data, count, NULL));
    const struct facts before = facts_of(mem);
    const struct facts others = facts_of(other);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_adopt_cpu_data(mem, data, count, NULL));
    SAYS("adopted before");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_adopt_cpu_data(other, data, count, NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_adopt_cpu_data_on(other, data, count, NULL, NULL));
    check_unchanged(mem, &before);
    check_unchanged(other, &others);
    ck_assert(host_is(synced_mem_cpu_data(other), SIZE, 2));
    ck_assert_int_eq(handed_back, 0);
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 1);
    OK(synced_mem_adopt_cpu_data(other, data, count, NULL));
    OK(synced_mem_release(other));
    ck_assert_int_eq(handed_back, 2);
    free(data);
}
END_TEST

/* What failed to be adopted can be: its second half was refused, or the object. */
START_TEST(adopted_after_a_failure)
{
    char *const data = calloc(1, 2 * SIZE);
    synced_mem *const mem = make(SIZE);
    FAILS(gpu_expected() ? SYNCED_MEM_ERR_INVALID_ARGUMENT : SYNCED_MEM_ERR_NO_GPU,
          synced_mem_adopt_data(mem, data, data + SIZE, count, NULL));
    OK(synced_mem_adopt_cpu_data(mem, data, count, NULL));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 1);
    free(data);
}
END_TEST

/* Handed over is handed over, also while the memory waits for its last use. */
START_TEST(adopted_while_it_is_retired)
{
    if (!gpu_expected())
        return;
    void *const data = gpu_pinned_alloc(SIZE);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make(SIZE);
    host_fill(data, SIZE, 1);
    OK(synced_mem_adopt_cpu_data(mem, data, count, NULL));
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(mem, stream));
    OK(synced_mem_release_data(mem));
    ck_assert_int_eq(handed_back, 0);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_adopt_cpu_data(mem, data, count, NULL));
    gpu_unhold();
    gpu_stream_sync(stream);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, 1);
    OK(synced_mem_adopt_cpu_data(mem, data, count, NULL));
    OK(synced_mem_release(mem));
    close_stream(stream);
    gpu_pinned_free(data);
}
END_TEST

/* Where the pointers lie follows no pattern. */
static char *which_memory(char *data, size_t i)
{
    return data + 16 * i * i;
}

/* As much as one likes, handed back in another order. */
START_TEST(many_are_adopted)
{
    static synced_mem *mems[MANY];
    char *const data = calloc(16, MANY * MANY);
    ck_assert_ptr_nonnull(data);
    for (int i = 0; i < MANY; i++) {
        mems[i] = make(16);
        OK(synced_mem_adopt_cpu_data(mems[i], which_memory(data, (size_t)i), count, NULL));
    }
    for (int i = 0; i < MANY; i++) {
        const int which = 7 * i % MANY;
        OK(synced_mem_release(mems[which]));
        mems[which] = NULL;
        ck_assert_int_eq(handed_back, i + 1);
        for (int j = 0; j < MANY; j++)
            if (mems[j])
                FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                      synced_mem_adopt_cpu_data(mems[j], which_memory(data, (size_t)j), count, NULL));
    }
    free(data);
}
END_TEST

/* An object's own memory would go when it comes. */
START_TEST(own_host_memory)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    char *const own = synced_mem_mutable_cpu_data(mem);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, own));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, own + SIZE - 1));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_adopt_cpu_data(mem, own, count, NULL));
    SAYS("own");
    check_unchanged(mem, &before);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    synced_mem *const other = make(100);
    OK(synced_mem_set_cpu_data(other, own));
    ck_assert_ptr_eq(synced_mem_cpu_data(other), own);
    OK(synced_mem_release(other));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 0);
}
END_TEST

/* It would be handed back while the object uses it. */
START_TEST(own_adopted_memory)
{
    char *const data = calloc(1, SIZE);
    synced_mem *const mem = make(SIZE);
    OK(synced_mem_adopt_cpu_data(mem, data, count, NULL));
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
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    char *const own = synced_mem_mutable_gpu_data(mem);
    const struct facts before = facts_of(mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_gpu_data(mem, own));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_adopt_gpu_data(mem, own + 256, count, NULL));
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

/* A callback that lets go of memory that has one too: that one is called when the first has returned. */
START_TEST(released_by_a_callback)
{
    char memory[2][SIZE];
    synced_mem *const mem = make(SIZE);
    left_to_release = make(SIZE);
    OK(synced_mem_adopt_cpu_data(mem, memory[0], release_another, NULL));
    OK(synced_mem_adopt_cpu_data(left_to_release, memory[1], release_another, NULL));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(handed_back, 2);
    ck_assert_int_eq(deepest, 1);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("adopted");
    TCase *const tests = add_case(made, "adopted");
    tcase_add_test(tests, adopted_twice);
    tcase_add_test(tests, adopted_after_a_failure);
    tcase_add_test(tests, adopted_while_it_is_retired);
    tcase_add_test(tests, many_are_adopted);
    tcase_add_test(tests, released_by_a_callback);
    tcase_add_test(tests, own_host_memory);
    tcase_add_test(tests, own_adopted_memory);
    tcase_add_test(tests, own_device_memory);
    return made;
}
