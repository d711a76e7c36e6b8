/* Checks the writing of a trace: many events, shutdowns, bad calls, slow files, and other threads that go on. */
#include "trace_kit.h"

#include "trace/trace_event.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(much)
{
    enum { MANY = 2000 };
    start();
    synced_mem *const mem = make(SIZE);
    for (int i = 0; i < MANY; i++) {
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        if (gpu_expected()) {
            ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, NULL));
            OK(synced_mem_async_cpu_pull(mem, NULL));
        }
        OK(synced_mem_resize_discard(mem, SIZE));
    }
    ck_assert_uint_lt(sm_trace_buffered(), MANY);
    ck_assert_ptr_nonnull(strstr(read_file(path), "synced_mem_resize_discard"));
    stop();
    ck_assert_uint_eq(count_of("\"after\":\"UNINITIALIZED\""), MANY);
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(more_than_there_is_room_for)
{
    enum { MORE = (1 << 18) + 5 };
    static const struct sm_trace_event event = {.kind = SM_TRACE_HEAD};
    if (fixture_schedule() != 0)
        return;
    start();
    for (int i = 0; i < MORE; i++)
        sm_trace_record(&event);
    OK(synced_mem_trace_stop());
    FILE *const file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    (void)fseek(file, -200, SEEK_END);
    text[fread(text, 1, 200, file)] = 0;
    (void)fclose(file);
    ck_assert_int_eq(unlink(path), 0);
    HAS("\"events_lost\":5");
}
END_TEST

START_TEST(shutdown_and_on)
{
    start();
    for (int i = 0; i < 2; i++) {
        synced_mem *const mem = make_at_cpu(SIZE, 1);
        if (gpu_expected())
            ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, NULL));
        OK(synced_mem_release(mem));
        OK(synced_mem_shutdown());
        gpu_check_nothing_left();
    }
    stop();
    ck_assert_uint_eq(count_of("\"clock\":\"device\""), gpu_expected() ? 2 : 0);
    ck_assert_uint_eq(count_of("\"source\":\"pageable\",\"from\":\"system\""), gpu_expected() ? 2 : 2);
}
END_TEST

START_TEST(bad_calls)
{
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
    SAYS("there is no trace");
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_trace_start("/nowhere/to/be found.json"));
    SAYS("'/nowhere/to/be found.json' can't be opened to write: No such file");
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
    start();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_start("/tmp/another"));
    SAYS("there is a trace already");
    stop();
    OK(synced_mem_trace_start("/dev/full"));
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_trace_stop());
    SAYS("No space left");
    start();
    stop();
}
END_TEST

/* ---- Standard input, output and error belong to the program, open or closed ---- */

static int standard;

static void is_closed_in_child(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    ck_assert_int_eq(fcntl(standard, F_GETFD), -1);
}

START_TEST(standard_descriptors)
{
    standard = _i;
    const int kept = dup(standard);
    ck_assert_int_eq(close(standard), 0);
    start();
    const bool closed = fcntl(standard, F_GETFD) == -1;
    const bool closed_in_child = in_a_child(is_closed_in_child, NULL);
    const synced_mem_status status = synced_mem_trace_stop();
    ck_assert_int_eq(dup2(kept, standard), standard);
    OK(status);
    ck_assert(closed);
    ck_assert(closed_in_child);
    read_file(path);
    HAS("end of the trace");
    ck_assert_int_eq(unlink(path), 0);
    (void)close(kept);
}
END_TEST

START_TEST(no_other_descriptor)
{
    struct rlimit before;
    const int kept = dup(STDIN_FILENO);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit standard_ones = {.rlim_cur = 3, .rlim_max = before.rlim_max};
    name_file();
    ck_assert_int_eq(close(STDIN_FILENO), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &standard_ones), 0);
    const synced_mem_status status = synced_mem_trace_start(path);
    const bool closed = fcntl(STDIN_FILENO, F_GETFD) == -1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(dup2(kept, STDIN_FILENO), STDIN_FILENO);
    ck_assert_int_eq(status, SYNCED_MEM_ERR_FILE);
    ck_assert(closed);
    (void)unlink(path);
    (void)close(kept);
}
END_TEST

/* ---- Slow files ---- */

/* One thread is held up by a slow file. Other threads go on. */
static void *read_all(void *from)
{
    const int fd = *(const int *)from;
    static char bytes[65536];
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) != 0)
        if (got < 0)
            (void)usleep(1000);
    return NULL;
}

START_TEST(slow_file)
{
    pthread_t thread;
    pthread_t reader;
    int waiting = 0;
    if (fixture_schedule() > 1)
        return;
    name_file();
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    OK(synced_mem_trace_start(path));
    ck_assert_int_eq(pthread_create(&thread, NULL, write_much, NULL), 0);
    while (waiting < FULL)
        ck_assert_int_eq(ioctl(fd, FIONREAD, &waiting), 0);
    (void)write_much(NULL);
    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, &fd), 0);
    (void)pthread_join(thread, NULL);
    OK(synced_mem_trace_stop());
    (void)pthread_join(reader, NULL);
    (void)close(fd);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* Traces begin and end while one thread moves an object. */
static atomic_bool enough;

static void *move_on(void *unused)
{
    synced_mem *const mem = make_on(SIZE, 0);
    while (!atomic_load(&enough)) {
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
        if (gpu_expected())
            ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        OK(synced_mem_resize_discard(mem, SIZE));
    }
    OK(synced_mem_release(mem));
    return unused;
}

START_TEST(traces_meanwhile)
{
    enum { TIMES = 20 };
    pthread_t thread;
    if (fixture_schedule() > 1)
        return;
    ck_assert_int_eq(pthread_create(&thread, NULL, move_on, NULL), 0);
    for (int i = 0; i < TIMES; i++) {
        start();
        (void)usleep(500);
        stop();
        ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
    }
    atomic_store(&enough, true);
    (void)pthread_join(thread, NULL);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("trace file");
    TCase *const cases = add_case(all, "trace file");
    add_tests(cases, much, slow_file, traces_meanwhile, more_than_there_is_room_for, shutdown_and_on, bad_calls);
    tcase_add_loop_test(cases, standard_descriptors, STDIN_FILENO, STDERR_FILENO + 1);
    tcase_add_test(cases, no_other_descriptor);
    return all;
}
