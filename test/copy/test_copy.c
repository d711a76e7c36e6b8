/* Checks the record of a copy. */
#include "fixture.h"

#include "copy/copy.h"
#include "copy/inflight.h"

static int called;

static void count(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    called++;
}

START_TEST(copies)
{
    struct sm_copy *copy = NULL;
    char memory[64];
    OK(sm_copy_obtain_host(100, 64, -1, true, NULL, &copy));
    ck_assert(pattern_is(copy->data, 100, 0));
    ck_assert_int_eq(copy->source, SYNCED_MEM_SOURCE_PAGEABLE);
    ck_assert_int_eq(copy->device, -1);
    ck_assert_ptr_null(sm_inflight_blocker(copy, true));
    ck_assert_ptr_null(sm_inflight_transfer(copy));
    ck_assert_uint_ge(sm_copy_capacity(copy), 100);
    sm_inflight_prune(copy);
    sm_copy_retire(copy);
    sm_copy_retire(NULL);
    OK(sm_copy_wrap(memory, sizeof memory, -1, count, NULL, &copy));
    ck_assert_int_eq(copy->source, SYNCED_MEM_SOURCE_ADOPTED);
    sm_copy_unwrap(copy);
    sm_copy_unwrap(NULL);
    ck_assert_int_eq(called, 0);
    OK(sm_copy_wrap(memory, sizeof memory, -1, count, NULL, &copy));
    sm_copy_retire(copy);
    ck_assert_int_eq(called, 1);
    OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &copy));
    ck_assert_int_eq(copy->source, SYNCED_MEM_SOURCE_BORROWED);
    sm_copy_retire(copy);
    OK(sm_copy_reap(true));
}
END_TEST

/* The count of writes goes on, which shows that the struct is another copy's now. */
START_TEST(a_record_used_again)
{
    char memory[64];
    struct sm_copy *first;
    struct sm_copy *again;
    OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &first));
    for (int i = 0; i < 3; i++) {
        const unsigned writes = first->writes;
        sm_copy_unwrap(first);
        OK(sm_copy_wrap(memory, sizeof memory, -1, NULL, NULL, &again));
        ck_assert_ptr_eq(again, first);
        ck_assert_uint_gt(again->writes, writes);
    }
    sm_copy_unwrap(again);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copy");
    TCase *const tests = add_case(made, "copy");
    add_tests(tests, copies, a_record_used_again);
    return made;
}
