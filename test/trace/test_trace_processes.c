/* Checks the traces of processes: of a forked child, and of a process whose environment requests a trace. */
#include "other_user.h"
#include "trace_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Children ---- */

static synced_mem *inherited;

static void go_on_in_child(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
    synced_mem *const mem = make_named("childs", SIZE);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    start(); /* another file */
    ck_assert_ptr_nonnull(synced_mem_cpu_data(inherited));
    OK(synced_mem_resize_discard(mem, SIZE));
    stop();
    HAS("childs#1");
    HAS_NOT("parents");
    OK(synced_mem_release(mem));
}

START_TEST(forked_child)
{
    start();
    inherited = make_named("parents", SIZE);
    host_fill(synced_mem_mutable_cpu_data(inherited), SIZE, 1);
    if (gpu_expected())
        ck_assert_ptr_nonnull(synced_mem_gpu_data(inherited));
    ck_assert(in_a_child(go_on_in_child, NULL));
    stop();
    HAS("parents#1");
    HAS_NOT("childs");
    ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
    OK(synced_mem_release(inherited));
}
END_TEST

/* ---- The environment ---- */

/* The value of SYNCED_MEM_TRACE_SUMMARY; NULL: it is not set. */
static const char *asks_for_summary;

/* The process that was run last. */
static pid_t ran;

/* The file that the environment names for a process: the given path, with the process's number. */
static void name_file_of(pid_t process)
{
    char *const extension = strrchr(path, '.');
    (void)snprintf(extension, sizeof path - (size_t)(extension - path), ".%ld.json", (long)process);
}

/* Acts in a new process, which has not used the library. Returns its status. said: receives its stderr. */
static int run(void (*act)(void), const char *value, bool set_user, char *said, size_t room)
{
    int ends[2];
    int status = 0;
    ck_assert_int_eq(pipe(ends), 0);
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        insecure = set_user;
        leaves_memory = true;
        (void)setenv("SYNCED_MEM_TRACE", value, 1);
        if (asks_for_summary)
            (void)setenv("SYNCED_MEM_TRACE_SUMMARY", asks_for_summary, 1);
        (void)gpu_start(fixture_schedule());
        act();
        exit(EXIT_SUCCESS);
    }
    (void)close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], said + used, room - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = 0;
    (void)close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ran = child;
    return status;
}

/* Reads and removes the file of the process that was run last. */
static void read_file_of_process(void)
{
    name_file_of(ran);
    read_file(path);
    ck_assert_int_eq(unlink(path), 0);
    name_file();
}

static void use(void)
{
    synced_mem *const mem = make_named("used", SIZE);
    host_fill(synced_mem_mutable_cpu_data(mem), SIZE, 1);
    if (gpu_expected())
        ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, NULL));
}

static void use_and_die(void)
{
    for (int i = 0; i < 600; i++)
        use();
    (void)raise(SIGKILL);
}

static void ask_why_not(void)
{
    use();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
    SAYS("there is no trace: SYNCED_MEM_TRACE: '/nowhere/x");
    SAYS("' can't be opened to write");
    name_file();
    start();
    stop();
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_trace_stop());
    ck_assert_ptr_null(strstr(synced_mem_last_error_message(), "SYNCED_MEM_TRACE"));
}

static void stop_at_once(void)
{
    OK(synced_mem_trace_stop());
}

START_TEST(environment)
{
    char said[4096];
    name_file();
    ck_assert_int_eq(run(use, path, false, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
    read_file_of_process();
    HAS("used#1");
    ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
    if (gpu_expected())
        HAS("\"name\":\"h2d used#1\"");
    ck_assert_int_eq(run(stop_at_once, path, false, said, sizeof said), 0);
    read_file_of_process();
    HAS("end of the trace");
    ck_assert_int_eq(run(use, "", false, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
}
END_TEST

/* A child that goes on prints no summary of its own. */
static void use_and_fork(void)
{
    use();
    const pid_t child = fork();
    if (child == 0)
        exit(EXIT_SUCCESS);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static unsigned summaries_in(const char *said)
{
    (void)snprintf(text, sizeof text, "%s", said);
    return count_of("objects that went back and forth most");
}

START_TEST(environment_that_asks_for_a_summary)
{
    char said[4096];
    char number[40];
    struct stat facts;
    name_file();
    asks_for_summary = "1";
    ck_assert_int_eq(run(use_and_fork, "", false, said, sizeof said), 0);
    ck_assert_uint_eq(summaries_in(said), 1);
    (void)snprintf(number, sizeof number, "process %ld\n", (long)ran);
    HAS(number);
    HAS(gpu_expected() ? "used#1 " : "(no transfers while there was a trace)");
    ck_assert_int_eq(run(use, path, false, said, sizeof said), 0);
    ck_assert_uint_eq(summaries_in(said), 1);
    read_file_of_process();
    HAS("used#1");
    ck_assert_int_eq(run(stop_at_once, "", false, said, sizeof said), 0);
    ck_assert_uint_eq(summaries_in(said), 1);
    ck_assert_int_eq(run(use, "/nowhere/x", false, said, sizeof said), 0);
    ck_assert_uint_eq(summaries_in(said), 0);
    ck_assert_int_eq(run(use, path, true, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
    ck_assert_int_ne(stat(path, &facts), 0);
    name_file_of(ran);
    ck_assert_int_ne(stat(path, &facts), 0);
    asks_for_summary = "0";
    ck_assert_int_eq(run(use, "", false, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(environment_that_names_no_file)
{
    char said[4096];
    ck_assert_int_eq(run(ask_why_not, "/nowhere/x", false, said, sizeof said), 0);
    char expected[160];
    (void)snprintf(expected, sizeof expected,
                   "synced_mem: SYNCED_MEM_TRACE: '/nowhere/x.%ld' can't be opened to write: No such file or "
                   "directory\n",
                   (long)ran);
    ck_assert_str_eq(said, expected);
}
END_TEST

START_TEST(environment_of_a_set_user_id_process)
{
    char said[4096];
    struct stat facts;
    name_file();
    ck_assert_int_eq(run(use, path, true, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
    ck_assert_int_ne(stat(path, &facts), 0);
    name_file_of(ran);
    ck_assert_int_ne(stat(path, &facts), 0);
}
END_TEST

START_TEST(a_file_for_each_process)
{
    char said[4096];
    char directory[] = "/tmp/synced_mem_trace_XXXXXX";
    char pattern[128];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    (void)snprintf(pattern, sizeof pattern, "%s/%%p.json", directory);
    ck_assert_int_eq(run(use, pattern, false, said, sizeof said), 0);
    ck_assert_int_eq(run(use, pattern, false, said, sizeof said), 0);
    (void)snprintf(pattern, sizeof pattern, "test $(ls %s/[1-9]*.json | wc -l) = 2 && rm -r %s", directory, directory);
    ck_assert_int_eq(system(pattern), 0);
}
END_TEST

/* The number comes before the extension of the file's name, if it has one. */
static const struct {
    const char *given;
    const char *before;
    const char *behind;
} named[] = {
    {"trace.json", "trace.", ".json"},
    {"trace", "trace.", ""},
    {".trace", ".trace.", ""},
    {"a.b/trace", "a.b/trace.", ""},
    {"a.b/t.r.json", "a.b/t.r.", ".json"},
    {"%p", "", ""},
    {"t%p.x.json", "t", ".x.json"},
    {"%d%p%p", "%d", "%p"},
    {"a.b/%s.", "a.b/%s.", "."},
};

START_TEST(names_of_files)
{
    char said[4096];
    char directory[] = "/tmp/synced_mem_trace_XXXXXX";
    char given[128];
    char made[200];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    (void)snprintf(made, sizeof made, "%s/a.b", directory);
    ck_assert_int_eq(mkdir(made, 0700), 0);
    (void)snprintf(given, sizeof given, "%s/%s", directory, named[_i].given);
    ck_assert_int_eq(run(use, given, false, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
    (void)snprintf(made, sizeof made, "%s/%s%ld%s", directory, named[_i].before, (long)ran, named[_i].behind);
    read_file(made);
    HAS("used#1");
    ck_assert_int_eq(unlink(made), 0);
    (void)snprintf(made, sizeof made, "%s/a.b", directory);
    ck_assert_int_eq(rmdir(made), 0);
    ck_assert_int_eq(rmdir(directory), 0); /* there is no other file */
}
END_TEST

/* A pipe is no process's file, and its name is as given. */
START_TEST(trace_to_a_pipe)
{
    char said[4096];
    name_file();
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(run(use, path, false, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
    const ssize_t got = read(fd, text, sizeof text - 1);
    ck_assert_int_gt(got, 0);
    text[got] = 0;
    HAS("used#1");
    (void)close(fd);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* A path that is too long is refused. It must not be cut to the name of another file. */
START_TEST(names_that_are_too_long)
{
    static const struct {
        size_t length;
        const char *end;
    } rows[] = {{PATH_MAX - 1, ".json"}, {PATH_MAX - 1, "%p"}, {PATH_MAX, ""}, {PATH_MAX + 10, ""}, {3 * PATH_MAX, ""}};
    static char given[3 * PATH_MAX + 1];
    char said[4096];
    char directory[] = "/tmp/synced_mem_trace_XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(directory));
    const size_t begin = strlen(directory), end = rows[_i].length - strlen(rows[_i].end);
    memcpy(given, directory, begin);
    for (size_t i = begin; i < end; i++)
        given[i] = i % 2 == begin % 2 ? '/' : i < PATH_MAX - 5 ? '.' : 'a';
    memset(given + PATH_MAX - 5, 'a', end > PATH_MAX - 5 ? end - (PATH_MAX - 5) : 0);
    memcpy(given + end, rows[_i].end, strlen(rows[_i].end) + 1);
    ck_assert_uint_eq(strlen(given), rows[_i].length);
    ck_assert_int_eq(run(use, given, false, said, sizeof said), 0);
    char reason[128];
    (void)snprintf(reason, sizeof reason, "...' can't be opened to write: %s\n", strerror(ENAMETOOLONG));
    ck_assert_msg(strstr(said, reason), "%s", said);
    ck_assert_int_eq(rmdir(directory), 0); /* no file was made */
}
END_TEST

START_TEST(killed)
{
    char said[4096];
    name_file();
    ck_assert(WIFSIGNALED(run(use_and_die, path, false, said, sizeof said)));
    read_file_of_process();
    ck_assert_int_eq(text[0], '[');
    ck_assert_str_eq(text + strlen(text) - 1, "}");
    HAS("used#1");
}
END_TEST

static void exit_while_another_thread_writes(void)
{
    int waiting = 0;
    pthread_t thread;
    const int fd = open(path, O_RDONLY | O_NONBLOCK);
    OK(synced_mem_trace_start(path));
    ck_assert_int_eq(pthread_create(&thread, NULL, write_much, NULL), 0);
    (void)pthread_detach(thread);
    while (waiting < FULL)
        ck_assert_int_eq(ioctl(fd, FIONREAD, &waiting), 0);
}

START_TEST(exit_with_a_slow_file)
{
    char said[4096];
    name_file();
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(run(exit_while_another_thread_writes, "", false, said, sizeof said), 0);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("trace processes");
    TCase *const cases = add_case(all, "children");
    tcase_add_test(cases, forked_child);
    TCase *const processes = add_case_in_children(all, "processes");
    add_tests(processes, environment, environment_that_asks_for_a_summary, environment_that_names_no_file,
              environment_of_a_set_user_id_process, a_file_for_each_process, trace_to_a_pipe, killed);
    tcase_add_loop_test(processes, names_of_files, 0, sizeof named / sizeof named[0]);
    tcase_add_loop_test(processes, names_that_are_too_long, 0, 5);
    if (fixture_schedule() == 0)
        tcase_add_test(processes, exit_with_a_slow_file);
    return all;
}
