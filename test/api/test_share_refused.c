/* Checks that a system without sealed memory refuses shareable objects, and says so. A system that has it plays one. */
#include "sharing_kit.h"

#include "system/sealed.h"

#include <errno.h>
#include <string.h>

int __real_sm_sealed_probe(void);
int __wrap_sm_sealed_probe(void);
int __wrap_sm_sealed_probe(void)
{
    const int error = __real_sm_sealed_probe();
    ck_assert_int_eq(error, WITH_LINUX ? 0 : ENOTSUP);
    return ENOTSUP;
}

static void check_refusal(synced_mem_status status)
{
    ck_assert_int_eq(status, SYNCED_MEM_ERR_FILE);
    const char *const message = synced_mem_last_error_message();
    ck_assert_msg(strstr(message, "the system has no sealed memory") != NULL, "%s", message);
}

START_TEST(refused)
{
    int ends[2];
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    check_refusal(synced_mem_create(&mem, BYTES, &options));
    ck_assert_ptr_null(mem);
    ck_assert(open_pair(SOCK_STREAM, ends));
    check_refusal(synced_mem_receive(&mem, ends[0], LONG_MS));
    ck_assert_ptr_null(mem);
    close_pair(ends);
}
END_TEST

/* Other objects are as they are everywhere, and no turns of theirs are known. */
START_TEST(others)
{
    synced_mem *const mem = make_at_cpu(BYTES, 1);
    ck_assert_int_eq(synced_mem_begin_turn(mem, CPU, READ, 0), SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_int_eq(synced_mem_share(mem, 0, 0), SYNCED_MEM_ERR_INVALID_STATE);
    HEAD_IS(mem, AT_CPU);
    OK(synced_mem_release(mem));
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("share refused");
    add_tests(add_case_in_children(made, "share refused"), refused, others);
    return made;
}
