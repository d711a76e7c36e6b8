/* Checks the statuses, each thread's last error, and the error handler. */
#include "fixture.h"

#include "api/report.h"
#include "base/status.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

START_TEST(names_and_messages)
{
    static const struct {
        int number;
        const char *name;
        const char *message;
    } all[] = {
#define ROW(number, name, message) {number, "SYNCED_MEM_" #name, message},
        SYNCED_MEM_STATUS_MAP(ROW)
#undef ROW
    };
    ck_assert_uint_eq(sizeof all / sizeof all[0], 15);
    for (int i = 0; i < 15; i++) {
        ck_assert_int_eq(all[i].number, i);
        ck_assert_str_eq(synced_mem_status_name((synced_mem_status)i), all[i].name);
        ck_assert_str_eq(synced_mem_status_message((synced_mem_status)i), all[i].message);
    }
    static const int unknown[] = {-1, 15, 10000, SYNCED_MEM_STATUS_FORCE_INT};
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(synced_mem_status_name((synced_mem_status)unknown[i]), "SYNCED_MEM_ERR_UNKNOWN");
        ck_assert_str_eq(synced_mem_status_message((synced_mem_status)unknown[i]), "unknown status");
    }
}
END_TEST

/* The numbers are part of the interface, and are compiled into programs. */
START_TEST(numbers_never_change)
{
    ck_assert_int_eq(SYNCED_MEM_OK, 0);
    ck_assert_int_eq(SYNCED_MEM_ERR_INVALID_ARGUMENT, 1);
    ck_assert_int_eq(SYNCED_MEM_ERR_INVALID_STATE, 2);
    ck_assert_int_eq(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, 3);
    ck_assert_int_eq(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, 4);
    ck_assert_int_eq(SYNCED_MEM_ERR_NO_GPU, 5);
    ck_assert_int_eq(SYNCED_MEM_ERR_INVALID_DEVICE, 6);
    ck_assert_int_eq(SYNCED_MEM_ERR_DEVICE_LOST, 7);
    ck_assert_int_eq(SYNCED_MEM_ERR_CUDA, 8);
    ck_assert_int_eq(SYNCED_MEM_ERR_CAPTURING, 9);
    ck_assert_int_eq(SYNCED_MEM_ERR_FORKED, 10);
    ck_assert_int_eq(SYNCED_MEM_ERR_FILE, 11);
    ck_assert_int_eq(SYNCED_MEM_ERR_OWNER_DIED, 12);
    ck_assert_int_eq(SYNCED_MEM_ERR_TIMEOUT, 13);
    ck_assert_int_eq(SYNCED_MEM_ERR_PEER, 14);
    ck_assert_int_eq(SYNCED_MEM_UNINITIALIZED, 0);
    ck_assert_int_eq(SYNCED_MEM_AT_CPU, 1);
    ck_assert_int_eq(SYNCED_MEM_AT_GPU, 2);
    ck_assert_int_eq(SYNCED_MEM_SYNCED, 3);
}
END_TEST

START_TEST(last_error)
{
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_OK);
    ck_assert_str_eq(synced_mem_last_error_message(), "");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(NULL, 8, NULL));
    SAYS("synced_mem_create");
    synced_mem *const mem = make(8);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    SAYS("synced_mem_create");
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, NULL));
    SAYS("synced_mem_async_gpu_push");
    OK(synced_mem_release(mem));
}
END_TEST

/* A failure that the library recovers from is not published. */
START_TEST(only_published_failures)
{
    synced_mem *const mem = make_on(100, 1000);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_OK);
    ck_assert_str_eq(synced_mem_last_error_message(), "");
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(details)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    options.name = "conv1";
    options.device = 1000;
    OK(synced_mem_create(&mem, 12345, &options));
    FAILS_NULL(gpu_expected() ? SYNCED_MEM_ERR_INVALID_DEVICE : SYNCED_MEM_ERR_NO_GPU, synced_mem_gpu_data(mem));
    SAYS("synced_mem_gpu_data");
    SAYS("conv1");
    if (gpu_expected())
        SAYS("1000");
    else
        SAYS("no GPU: this library was built without CUDA");
    OK(synced_mem_release(mem));
    options.device = SYNCED_MEM_DEVICE_CURRENT;
    options.alignment = 3;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, 8, &options));
    SAYS("alignment 3");
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, SIZE_MAX, NULL));
    SAYS("18446744073709551615");
}
END_TEST

START_TEST(details_of_memory)
{
    const size_t huge = (size_t)PTRDIFF_MAX - (4 << 20);
    char text[32];
    synced_mem *const mem = make(huge);
    (void)snprintf(text, sizeof text, "%zu bytes", huge);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
    SAYS("synced_mem_cpu_data");
    SAYS(text);
    if (gpu_expected()) {
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(mem));
        SAYS("synced_mem_gpu_data");
        SAYS(text);
        SAYS("device 0");
        SAYS("cudaErrorMemoryAllocation");
    }
    OK(synced_mem_release(mem));
}
END_TEST

static void *look_from_another_thread(void *unused)
{
    (void)unused;
    if (synced_mem_last_error() != SYNCED_MEM_OK || synced_mem_last_error_message()[0] != '\0')
        return "the error of another thread";
    if (synced_mem_retain(NULL) != SYNCED_MEM_ERR_INVALID_ARGUMENT)
        return "retained NULL";
    return strstr(synced_mem_last_error_message(), "synced_mem_retain") ? NULL : "not its own error";
}

START_TEST(errors_belong_to_threads)
{
    pthread_t thread;
    void *complaint = NULL;
    synced_mem *const mem = make(8);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(mem, NULL));
    ck_assert_int_eq(pthread_create(&thread, NULL, look_from_another_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &complaint), 0);
    ck_assert_msg(complaint == NULL, "%s", (const char *)complaint);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_STATE);
    SAYS("synced_mem_async_gpu_push");
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- The handler ---- */

static struct {
    int calls;
    synced_mem_status status;
    char message[512];
    void *user;
} handled;

static void keep(synced_mem_status status, const char *message, void *user)
{
    handled.calls++;
    handled.status = status;
    (void)snprintf(handled.message, sizeof handled.message, "%s", message);
    handled.user = user;
}

START_TEST(handler_is_called)
{
    int user = 0;
    synced_mem *const mem = make(8);
    synced_mem_set_error_handler(keep, &user);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_int_eq(handled.calls, 0);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, NULL));
    ck_assert_int_eq(handled.calls, 1);
    ck_assert_int_eq(handled.status, SYNCED_MEM_ERR_INVALID_ARGUMENT);
    ck_assert_str_eq(handled.message, synced_mem_last_error_message());
    ck_assert_ptr_eq(handled.user, &user);
    ck_assert_uint_eq(synced_mem_size(NULL), 0);
    ck_assert_int_eq(handled.calls, 2);
    synced_mem_set_error_handler(NULL, NULL);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_retain(NULL));
    ck_assert_int_eq(handled.calls, 2);
    OK(synced_mem_release(mem));
}
END_TEST

/* The handler is called after all cleanup and without a lock, so it may use the same object. */
static void use_the_object(synced_mem_status status, const char *message, void *user)
{
    (void)message;
    handled.calls++;
    ck_assert_int_eq(status, SYNCED_MEM_ERR_INVALID_ARGUMENT);
    ck_assert(host_is(synced_mem_cpu_data(user), 8, 1));
    ck_assert_int_eq(synced_mem_set_cpu_data(user, NULL), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(synced_mem_retain(NULL), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(synced_mem_last_error_message(), "synced_mem_retain"));
    synced_mem_set_error_handler(NULL, NULL);
    synced_mem_set_error_handler(use_the_object, user);
}

START_TEST(handler_uses_the_library)
{
    synced_mem *const mem = make_at_cpu(8, 1);
    synced_mem_set_error_handler(use_the_object, mem);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, NULL));
    ck_assert_int_eq(handled.calls, 1);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_cpu_data(mem, NULL));
    ck_assert_int_eq(handled.calls, 2);
    synced_mem_set_error_handler(NULL, NULL);
    OK(synced_mem_release(mem));
}
END_TEST

/* A detail that is too long is cut. */
START_TEST(long_details)
{
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    ck_assert_int_eq(sm_fail(SYNCED_MEM_ERR_CUDA, "%s", long_text), SYNCED_MEM_ERR_CUDA);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_OK);
    ck_assert_int_eq(sm_report(SYNCED_MEM_ERR_CUDA, "a_function", "an object"), SYNCED_MEM_ERR_CUDA);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_CUDA);
    SAYS("a_function of 'an object': xxx");
    ck_assert_uint_lt(strlen(synced_mem_last_error_message()), 1000);
    ck_assert_int_eq(sm_report(SYNCED_MEM_OK, "a_function", NULL), SYNCED_MEM_OK);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_CUDA);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("errors");
    TCase *const statuses = add_case(made, "statuses");
    add_tests(statuses, names_and_messages, numbers_never_change);
    TCase *const last = add_case(made, "last");
    add_tests(last, last_error, only_published_failures, details, long_details, details_of_memory,
              errors_belong_to_threads);
    TCase *const handler = add_case(made, "handler");
    add_tests(handler, handler_is_called, handler_uses_the_library);
    return made;
}
