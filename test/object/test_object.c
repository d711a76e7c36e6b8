/* Checks the creation of objects, their references, and the queries on them. */
#include "fixture.h"

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

/* ---- Creation ---- */

START_TEST(defaults)
{
    synced_mem *const mem = make(1000);
    ck_assert_uint_eq(synced_mem_size(mem), 1000);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    ck_assert_int_eq(synced_mem_device(mem), SYNCED_MEM_DEVICE_CURRENT);
    ck_assert_ptr_null(synced_mem_user(mem));
    ck_assert_str_eq(synced_mem_name(mem), "");
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_int_eq(synced_mem_gpu_source(mem), SYNCED_MEM_SOURCE_NONE);
    ck_assert_uint_eq(synced_mem_cpu_capacity(mem), 0);
    ck_assert_uint_eq(synced_mem_gpu_capacity(mem), 0);
    const synced_mem_stats stats = stats_now();
    ck_assert_uint_eq(stats.objects, 1);
    ck_assert_uint_eq(stats.host_allocations + stats.gpu_allocations, 0);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(options_have_defaults)
{
    synced_mem_options options;
    memset(&options, 0xA5, sizeof options);
    synced_mem_options_init(&options);
    ck_assert_uint_eq(options.struct_size, sizeof options);
    ck_assert_int_eq(options.device, SYNCED_MEM_DEVICE_CURRENT);
    ck_assert_ptr_null(options.name);
    ck_assert_uint_eq(options.alignment, 0);
    ck_assert_ptr_null(options.user);
    synced_mem_options_init(NULL);
}
END_TEST

START_TEST(options_are_kept)
{
    synced_mem *mem = NULL;
    char name[] = "weights of conv1";
    int user = 0;
    synced_mem_options options = default_options();
    options.name = name;
    options.device = 3;
    options.user = &user;
    OK(synced_mem_create(&mem, 8, &options));
    memset(name, 'x', sizeof name - 1);
    memset(&options, 0, sizeof options);
    ck_assert_str_eq(synced_mem_name(mem), "weights of conv1");
    ck_assert_ptr_eq(synced_mem_user(mem), &user);
    ck_assert_int_eq(synced_mem_device(mem), 3);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(long_names_are_cut)
{
    synced_mem *mem = NULL;
    char name[200];
    synced_mem_options options = default_options();
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    options.name = name;
    OK(synced_mem_create(&mem, 8, &options));
    ck_assert_uint_eq(strlen(synced_mem_name(mem)), 47);
    ck_assert_int_eq(strncmp(synced_mem_name(mem), name, 47), 0);
    OK(synced_mem_release(mem));
}
END_TEST

/* A record that is used again shows nothing of its previous object. */
START_TEST(records_are_clean_when_used_again)
{
    int user = 0;
    synced_mem_options options = default_options();
    options.name = "first";
    options.user = &user;
    options.device = 0;
    for (int i = 0; i < 300; i++) {
        synced_mem *mem = NULL;
        OK(synced_mem_create(&mem, 100, i % 2 ? NULL : &options));
        ck_assert_str_eq(synced_mem_name(mem), i % 2 ? "" : "first");
        ck_assert_ptr_eq(synced_mem_user(mem), i % 2 ? NULL : (void *)&user);
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
        host_fill(synced_mem_overwrite_cpu_data(mem), 100, (unsigned)i + 1);
        OK(synced_mem_release(mem));
    }
    synced_mem *const fresh = make(100);
    ck_assert(host_is(synced_mem_cpu_data(fresh), 100, 0));
    OK(synced_mem_release(fresh));
}
END_TEST

START_TEST(many_objects)
{
    enum { MANY = 1000 };
    synced_mem *all[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = make_at_cpu(64, (unsigned)i + 1);
        for (int j = 0; j < i && i < 100; j++)
            ck_assert_ptr_ne(all[i], all[j]);
    }
    ck_assert_uint_eq(stats_now().objects, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert(host_is(synced_mem_cpu_data(all[i]), 64, (unsigned)i + 1));
    for (int i = 0; i < MANY; i++)
        OK(synced_mem_release(all[(i * 7) % MANY]));
}
END_TEST

/* ---- Refused arguments ---- */

static void check_not_made(size_t size, const synced_mem_options *options)
{
    synced_mem *mem = (synced_mem *)&mem;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(&mem, size, options));
    ck_assert_ptr_null(mem);
    ck_assert_uint_eq(stats_now().objects, 0);
}

START_TEST(nowhere_to_put_it)
{
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_create(NULL, 8, NULL));
}
END_TEST

START_TEST(sizes_that_overflow)
{
    synced_mem_options options = default_options();
    check_not_made(SIZE_MAX, NULL);
    check_not_made(SIZE_MAX - 63, NULL);
    check_not_made((size_t)PTRDIFF_MAX + 1, NULL);
    check_not_made((size_t)PTRDIFF_MAX, NULL);
    options.alignment = 2 << 20;
    check_not_made((size_t)PTRDIFF_MAX - (2 << 20) + 1, &options);
}
END_TEST

/* The largest size that is accepted exceeds the memory of any machine. An access fails and changes nothing. */
START_TEST(more_than_there_is)
{
    synced_mem *const mem = make((size_t)PTRDIFF_MAX - (4 << 20));
    const struct facts before = facts_of(mem);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_mutable_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_overwrite_cpu_data(mem));
    check_unchanged(mem, &before);
    if (gpu_expected()) {
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_overwrite_gpu_data(mem));
        FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_cpu_data(mem));
        ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_UNINITIALIZED);
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(options_of_unknown_size)
{
    synced_mem_options options = default_options();
    const size_t unknown[] = {0, 1, sizeof options - 1, sizeof options + 1, sizeof options + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        options.struct_size = unknown[i];
        check_not_made(8, &options);
        SAYS("struct_size");
    }
}
END_TEST

START_TEST(devices_that_cannot_be)
{
    synced_mem_options options = default_options();
    options.device = -2;
    check_not_made(8, &options);
    options.device = INT_MIN;
    check_not_made(8, &options);
    options.device = INT_MAX;
    check_not_made(8, &options);
}
END_TEST

START_TEST(alignments_that_cannot_be)
{
    static const size_t wrong[] = {3, 6, 65, 4095, (2 << 20) + 1, 4 << 20, SIZE_MAX, ~(SIZE_MAX / 2)};
    synced_mem_options options = default_options();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options.alignment = wrong[i];
        check_not_made(8, &options);
        SAYS("alignment");
    }
}
END_TEST

/* ---- NULL everywhere ---- */

START_TEST(null_objects)
{
    OK(synced_mem_release(NULL));
    ck_assert_uint_eq(synced_mem_size(NULL), 0);
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    SAYS("synced_mem_size");
    ck_assert_int_eq(synced_mem_head(NULL), SYNCED_MEM_UNINITIALIZED);
    SAYS("synced_mem_head");
    ck_assert_int_eq(synced_mem_device(NULL), SYNCED_MEM_DEVICE_CURRENT);
    SAYS("synced_mem_device");
    ck_assert_ptr_null(synced_mem_user(NULL));
    SAYS("synced_mem_user");
    ck_assert_str_eq(synced_mem_name(NULL), "");
    SAYS("synced_mem_name");
    ck_assert_int_eq(synced_mem_cpu_source(NULL), SYNCED_MEM_SOURCE_NONE);
    SAYS("synced_mem_cpu_source");
    ck_assert_int_eq(synced_mem_gpu_source(NULL), SYNCED_MEM_SOURCE_NONE);
    SAYS("synced_mem_gpu_source");
    ck_assert_uint_eq(synced_mem_cpu_capacity(NULL), 0);
    SAYS("synced_mem_cpu_capacity");
    ck_assert_uint_eq(synced_mem_gpu_capacity(NULL), 0);
    SAYS("synced_mem_gpu_capacity");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_cpu_data(NULL));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_mutable_cpu_data(NULL));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_overwrite_cpu_data(NULL));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_data(NULL));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_mutable_gpu_data(NULL));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_overwrite_gpu_data(NULL));
    SAYS("synced_mem_overwrite_gpu_data");
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_gpu_data_on(NULL, NULL));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_mutable_gpu_data_on(NULL, NULL));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_overwrite_gpu_data_on(NULL, NULL));
    SAYS("synced_mem_overwrite_gpu_data_on");
}
END_TEST

static void never(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
    ck_abort_msg("a callback for memory that was not adopted");
}

/* Makes the calls that return a status. */
START_TEST(null_objects_in_calls)
{
    int data[2] = {0};
    int pending = 77;
    const synced_mem_status all[] = {
        synced_mem_retain(NULL),
        synced_mem_end_use_on(NULL, NULL),
        synced_mem_async_gpu_push(NULL, NULL),
        synced_mem_async_cpu_pull(NULL, NULL),
        synced_mem_async_gpu_push_n(NULL, 1, NULL),
        synced_mem_async_cpu_pull_n(NULL, 1, NULL),
        synced_mem_query(NULL, &pending),
        synced_mem_wait(NULL),
        synced_mem_set_cpu_data(NULL, data),
        synced_mem_set_gpu_data(NULL, data),
        synced_mem_use_memory(NULL, NULL),
        USE(NULL, .cpu_data = data),
        USE(NULL, .gpu_data = data),
        USE(NULL, .cpu_data = data, .gpu_data = data + 1, .callback = never, .stream = LEGACY_HANDLE),
        synced_mem_resize(NULL, 1),
        synced_mem_resize_discard(NULL, 1),
        synced_mem_release_cpu_data(NULL),
        synced_mem_release_gpu_data(NULL),
        synced_mem_release_data(NULL),
        synced_mem_get_stats(NULL),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_msg(all[i] == SYNCED_MEM_ERR_INVALID_ARGUMENT, "call %zu", i);
    ck_assert_int_eq(pending, 77);
    OK(synced_mem_forget_stream(NULL));
}
END_TEST

START_TEST(stats_of_unknown_size)
{
    synced_mem_stats stats = {.struct_size = sizeof stats - 8, .objects = 77};
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_get_stats(&stats));
    stats.struct_size = 0;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_get_stats(&stats));
    ck_assert_uint_eq(stats.objects, 77);
}
END_TEST

START_TEST(version_is_the_headers)
{
    ck_assert_int_eq(synced_mem_version(),
                     SYNCED_MEM_VERSION_MAJOR * 10000 + SYNCED_MEM_VERSION_MINOR * 100 + SYNCED_MEM_VERSION_PATCH);
}
END_TEST

/* ---- References ---- */

START_TEST(references)
{
    synced_mem *const mem = make_at_cpu(100, 1);
    for (int i = 0; i < 100; i++)
        OK(synced_mem_retain(mem));
    for (int i = 0; i < 100; i++)
        OK(synced_mem_release(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), 100, 1));
    ck_assert_uint_eq(stats_now().objects, 1);
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().objects, 0);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_retain(mem));
}
END_TEST

START_TEST(released_too_often)
{
    synced_mem *const mem = make(100);
    OK(synced_mem_release(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().objects, 0);
    synced_mem *const next = make_at_cpu(100, 1);
    ck_assert(host_is(synced_mem_cpu_data(next), 100, 1));
    OK(synced_mem_release(next));
}
END_TEST

START_TEST(shutdown_with_objects)
{
    synced_mem *const mem = make_at_cpu(100, 1);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_shutdown());
    ck_assert(host_is(synced_mem_cpu_data(mem), 100, 1));
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(shutdown_again_and_again)
{
    for (int i = 0; i < 5; i++) {
        OK(synced_mem_shutdown());
        OK(synced_mem_shutdown());
        synced_mem *const mem = make_at_cpu(5000, 1);
        if (gpu_expected())
            ck_assert(device_is(synced_mem_gpu_data(mem), 5000, 1));
        OK(synced_mem_release(mem));
    }
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("object");
    TCase *const making = add_case(made, "making");
    add_tests(making, defaults, options_have_defaults, options_are_kept, long_names_are_cut,
              records_are_clean_when_used_again, many_objects, version_is_the_headers);
    TCase *const refused = add_case(made, "refused");
    add_tests(refused, nowhere_to_put_it, sizes_that_overflow, more_than_there_is, options_of_unknown_size,
              devices_that_cannot_be, alignments_that_cannot_be, null_objects, null_objects_in_calls,
              stats_of_unknown_size);
    TCase *const counting = add_case(made, "counting");
    tcase_add_test(counting, references);
#ifdef NDEBUG
    tcase_add_test(counting, released_too_often);
#else
    if (!tests_share_process())
        tcase_add_test_raise_signal(counting, released_too_often, SIGABRT);
#endif
    add_tests(counting, shutdown_with_objects, shutdown_again_and_again);
    return made;
}
