/* Checks sets of streams. */
#include "fixture.h"

#include "stream/stream_set.h"

#include <pthread.h>

enum { STREAMS = 20 };

static struct sm_stream streams[STREAMS];
static struct sm_stream *all[STREAMS];
static char handles[STREAMS];

static synced_mem_stream handle_of(int i)
{
    return (synced_mem_stream)(void *)&handles[i];
}

static void prepare(void)
{
    for (int i = 0; i < STREAMS; i++) {
        all[i] = &streams[i];
        atomic_store(&streams[i].hot, handle_of(i));
    }
}

START_TEST(set_is_found_in_any_order)
{
    prepare();
    struct sm_stream *const one[] = {all[3], all[1], all[2]};
    struct sm_stream *const same[] = {all[2], all[3], all[1]};
    struct sm_stream *const other[] = {all[1], all[2], all[4]};
    ck_assert_ptr_null(sm_stream_set_find(one, 3));
    sm_stream_set_make(one, 3);
    struct sm_stream *const set = sm_stream_set_find(one, 3);
    ck_assert_ptr_nonnull(set);
    ck_assert_ptr_eq(sm_stream_set_find(same, 3), set);
    ck_assert_ptr_null(sm_stream_set_find(other, 3));
    ck_assert_ptr_null(sm_stream_set_find(one, 2));
    sm_stream_set_make(same, 3);
    ck_assert_ptr_eq(sm_stream_set_find(one, 3), set);
    ck_assert_ptr_eq((void *)atomic_load(&set->hot), (void *)SM_HANDLE_OF_SET);
}
END_TEST

START_TEST(members)
{
    prepare();
    sm_stream_set_make(all, SM_SET_MOST);
    struct sm_stream *const set = sm_stream_set_find(all, SM_SET_MOST);
    ck_assert_ptr_nonnull(set);
    for (int i = 0; i < STREAMS; i++)
        ck_assert_int_eq(sm_stream_set_has(set, handle_of(i)), i < SM_SET_MOST);
    ck_assert(!sm_stream_set_has(set, NULL));
    struct sm_stream *const *found;
    ck_assert_uint_eq(sm_stream_set_members(set, &found), SM_SET_MOST);
    for (int i = 0; i < SM_SET_MOST; i++)
        ck_assert_ptr_eq(found[i], all[i]);
    atomic_store(&streams[5].hot, SM_NO_HANDLE); /* a stream that is done */
    ck_assert(!sm_stream_set_has(set, handle_of(5)));
    ck_assert(!sm_stream_set_has(set, SM_HANDLE_OF_SET));
}
END_TEST

/* Each pair of 20 streams, and each three of them, is more than the table has room for. What was made is found for
 * ever. */
static void *make_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < i; k++)
            for (int l = 0; l <= k; l++) {
                struct sm_stream *const some[] = {all[i], all[k], all[l]};
                sm_stream_set_make(some, l < k ? 3 : 2);
            }
    return NULL;
}

START_TEST(table_is_full)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct sm_stream *sets[STREAMS][STREAMS];
    unsigned found = 0;
    prepare();
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < i; k++) {
            struct sm_stream *const two[] = {all[i], all[k]};
            struct sm_stream *const *its;
            sets[i][k] = sm_stream_set_find(two, 2);
            found += sets[i][k] != NULL;
            if (sets[i][k]) {
                ck_assert_uint_eq(sm_stream_set_members(sets[i][k], &its), 2);
                ck_assert(sm_stream_set_has(sets[i][k], handle_of(i)) && sm_stream_set_has(sets[i][k], handle_of(k)));
            }
        }
    ck_assert_uint_gt(found, 0);
    ck_assert_uint_lt(found, STREAMS * (STREAMS - 1) / 2);
    (void)make_many(NULL);
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < i; k++) {
            struct sm_stream *const two[] = {all[k], all[i]};
            ck_assert_ptr_eq(sm_stream_set_find(two, 2), sets[i][k]);
        }
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("stream_set");
    TCase *const tests = add_case_in_children(made, "stream_set");
    add_tests(tests, set_is_found_in_any_order, members, table_is_full);
    return made;
}
