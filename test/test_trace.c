/* The trace: what it says, when it is written, and what becomes of it in children. */
#include "fixture.h"

#include "object.h"
#include "trace_event.h"
#include "trace_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The last is nearly what a pipe holds. */
enum { SIZE = 5000, MUCH = 3 << 20, FULL = 60000 };

static char path[64];
static char text[4 << 20];

/* What a child has inherited it does not free: the leak sanitizer asks here before it looks. */
static bool leaves_something;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return leaves_something;
}

/* In a process whose user was changed. */
static bool insecure;
char *__real_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name)
{
    return insecure ? NULL : __real_secure_getenv(name);
}

static void name_file(void)
{
    (void)snprintf(path, sizeof path, "/tmp/synced_mem_trace_%ld.json", (long)getpid());
}

static const char *read_file(const char *from)
{
    FILE *const file = fopen(from, "r");
    ck_assert_ptr_nonnull(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = 0;
    (void)fclose(file);
    return text;
}

static void start(void)
{
    name_file();
    OK(synced_mem_trace_start(path));
}

static void stop(void)
{
    OK(synced_mem_trace_stop());
    read_file(path);
    ck_assert_int_eq(unlink(path), 0);
}

#define HAS(words) ck_assert_msg(strstr(text, (words)) != NULL, "'%s' is not in:\n%s", (words), text)
#define HAS_NOT(words) ck_assert_msg(strstr(text, (words)) == NULL, "'%s' is in:\n%s", (words), text)

static unsigned count_of(const char *words)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        count++;
    return count;
}

static synced_mem *make_named(const char *name, size_t size)
{
    synced_mem_options options;
    synced_mem *mem = NULL;
    synced_mem_options_init(&options);
    options.name = name;
    OK(synced_mem_create(&mem, size, &options));
    return mem;
}

static const char *summary(void)
{
    FILE *const file = fmemopen(text, sizeof text, "w");
    OK(synced_mem_trace_summary(file));
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

/* ---- What it says ---- */

START_TEST(heads_and_memory)
{
    synced_mem *const before = make_named("before", SIZE);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(before));
    start();
    synced_mem *const mem = make_named("conv1.weight", SIZE);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    OK(synced_mem_resize_discard(mem, 8));
    OK(synced_mem_release(mem));
    OK(synced_mem_release(before));
    stop();
    ck_assert_int_eq(text[0], '[');
    HAS("\"name\":\"UNINITIALIZED \xe2\x86\x92 AT_CPU conv1.weight#1\"");
    HAS("\"before\":\"AT_CPU\",\"after\":\"UNINITIALIZED\"");
    HAS("\"call\":\"synced_mem_mutable_cpu_data\",\"bytes\":5000,\"source\":\"pageable\",\"from\":\"system\"");
    HAS("\"call\":\"synced_mem_resize_discard\"");
    HAS("\"events_lost\":0");
    ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
}
END_TEST

START_TEST(transfers_and_waits)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *const mem = make_on(SIZE, 0);
    start();
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    void *const data = synced_mem_mutable_gpu_data_on(mem, stream);
    gpu_fill(data, SIZE, 2, stream);
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 2));
    OK(synced_mem_resize(mem, SIZE));
    stop();
    HAS("\"name\":\"h2d #1\"");
    HAS("\"from\":\"page-locked\",\"to\":\"device\",\"device\":0,");
    HAS("\"call\":\"synced_mem_mutable_gpu_data_on\",\"clock\":\"device\"");
    HAS("\"name\":\"d2h #1\"");
    HAS("\"name\":\"wait #1\"");
    HAS("\"name\":\"stream waits #1\"");
    HAS("\"args\":{\"name\":\"device 0\"}");
    HAS("the caller's stream");
    HAS("the library's stream");
    HAS("\"source\":\"page-locked\",\"from\":\"runtime\"");
    ck_assert_uint_eq(count_of("\"cat\":\"transfer\""), 2);
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

START_TEST(memory_that_is_reused)
{
    if (!gpu_expected())
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *mem = make_on(SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    OK(synced_mem_release(mem));
    start();
    mem = make_on(SIZE, 0);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, stream));
    stop();
    HAS("\"source\":\"page-locked\",\"from\":\"pool\"");
    HAS("\"source\":\"device\",\"from\":\"spare\"");
    OK(synced_mem_release(mem));
    close_stream(stream);
}
END_TEST

START_TEST(staged_transfers)
{
    if (!gpu_expected())
        return;
    synced_mem *const mem = make_at_cpu(MUCH, 1);
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_PAGEABLE);
    start();
    ck_assert(device_is(synced_mem_mutable_gpu_data(mem), MUCH, 1));
    ck_assert(host_is(synced_mem_cpu_data(mem), MUCH, 1));
    OK(synced_mem_shutdown() == SYNCED_MEM_ERR_INVALID_STATE ? SYNCED_MEM_OK : SYNCED_MEM_ERR_CUDA);
    summary();
    HAS("1        1    3.0 MiB        1    3.0 MiB\n");
    stop();
    HAS("\"name\":\"h2d part #1\"");
    HAS("\"name\":\"d2h part #1\"");
    HAS("\"name\":\"fill buffer #1\"");
    HAS("\"name\":\"empty buffer #1\"");
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(managed_memory)
{
    if (!gpu_expected())
        return;
    synced_mem_options options;
    synced_mem *mem = NULL;
    synced_mem_options_init(&options);
    options.placement = SYNCED_MEM_PLACEMENT_MANAGED;
    OK(synced_mem_create(&mem, SIZE, &options));
    start();
    if (synced_mem_mutable_gpu_data(mem) && synced_mem_cpu_data(mem)) {
        stop();
        HAS("\"name\":\"prefetch #1\"");
        HAS("\"source\":\"managed\"");
    } else {
        stop();
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(objects_of_one_name)
{
    start();
    synced_mem *const first = make_named("a \"name\"\n\xff", SIZE);
    synced_mem *const second = make_named("a \"name\"\n\xff", SIZE);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(first));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(second));
    stop();
    HAS("\"object\":\"a \\u0022name\\u0022\\u000a\\ufffd#1\"");
    HAS("\"object\":\"a \\u0022name\\u0022\\u000a\\ufffd#2\"");
    OK(synced_mem_release(first));
    OK(synced_mem_release(second));
}
END_TEST

START_TEST(escapes)
{
    static const struct {
        const char *text;
        const char *escaped;
    } rows[] = {{"", ""},
                {"plain", "plain"},
                {"\"\\/", "\\u0022\\u005c/"},
                {"\x01\x1f\x7f", "\\u0001\\u001f\\u007f"},
                {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
                {"\x80", "\\ufffd"},
                {"\xc0\xaf", "\\ufffd\\ufffd"},
                {"\xe0\x80\x80", "\\ufffd\\ufffd\\ufffd"},
                {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},
                {"\xf0\x80\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
                {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
                {"\xf5", "\\ufffd"},
                {"cut \xe2\x82", "cut \\ufffd\\ufffd"}};
    char out[128];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sm_trace_escape(out, rows[i].text);
        ck_assert_str_eq(out, rows[i].escaped);
    }
}
END_TEST

/* Code of the caller's that the library calls is not what caused what comes after it. */
static void *give(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)device, (void)stream, (void)user;
    synced_mem *const other = make(16);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(other));
    OK(synced_mem_release(other));
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void take(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream, (void)user;
    free(data);
}

static void adopted_back(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    free(data);
    synced_mem *const other = make(16);
    ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(other));
    OK(synced_mem_release(other));
}

START_TEST(calls_inside_callbacks)
{
    const synced_mem_allocator table = {.struct_size = sizeof table, .alloc = give, .free = take};
    synced_mem_options options;
    synced_mem *mem = NULL;
    synced_mem_options_init(&options);
    options.cpu_allocator = &table;
    options.name = "outer";
    start();
    OK(synced_mem_create(&mem, SIZE, &options));
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    void *const data = malloc(SIZE);
    OK(synced_mem_adopt_cpu_data(mem, data, adopted_back, NULL));
    OK(synced_mem_release_data(mem));
    stop();
    HAS("\"object\":\"#1\",\"call\":\"synced_mem_overwrite_cpu_data\"");
    HAS("AT_CPU outer#2\",\"cat\":\"head\"");
    HAS("\"object\":\"outer#2\",\"call\":\"synced_mem_cpu_data\",\"before\":\"UNINITIALIZED\"");
    HAS("\"object\":\"outer#2\",\"call\":\"synced_mem_cpu_data\",\"bytes\":5000,\"source\":\"allocator\"");
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Back and forth ---- */

START_TEST(summaries)
{
    enum { ROUNDS = 30 };
    if (!gpu_expected())
        return;
    synced_mem *const once = make_named("once", SIZE);
    synced_mem *const often = make_named("often", SIZE);
    start();
    summary();
    HAS("(nothing was moved while there was a trace)");
    ck_assert_ptr_nonnull(synced_mem_cpu_data(once));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(once));
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(often));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(often));
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(often));
    }
    for (int i = 0; i < 20; i++) { /* that go */
        synced_mem *const mem = make_named("short", SIZE);
        ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        OK(synced_mem_release(mem));
    }
    OK(synced_mem_release(often));
    summary();
    const char *const first = strstr(text, "often#2 ");
    const char *const second = strstr(text, "once#1 ");
    ck_assert_ptr_nonnull(first);
    ck_assert(second > first);
    HAS(" 58       30  146.4 KiB       29  141.6 KiB\n");
    HAS("    to the device by synced_mem_gpu_data, stale by synced_mem_mutable_cpu_data\n");
    HAS("    to the host by synced_mem_mutable_cpu_data, stale by synced_mem_mutable_gpu_data\n");
    ck_assert_uint_eq(count_of("short#"), 8);
    stop();
    HAS("\"name\":\"back and forth: often#2\"");
    HAS("\"rank\":1,\"object\":\"often#2\",\"turns\":58,\"h2d_transfers\":30,\"h2d_bytes\":150000,\"d2h_transfers\":"
        "29");
    summary();
    HAS("often#2 ");
    OK(synced_mem_release(once));
}
END_TEST

/* ---- When it is written ---- */

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
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_trace_start(NULL));
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

START_TEST(many_objects)
{
    enum { MANY = 3000 };
    static synced_mem *mems[MANY];
    if (fixture_schedule() > 1)
        return;
    start();
    for (int i = 0; i < MANY; i++) {
        mems[i] = make(1);
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mems[i]));
    }
    if (gpu_expected())
        for (int i = 0; i < 20; i++)
            for (int k = i; k < 20; k++)
                OK(synced_mem_resize_discard(mems[k], 1) == SYNCED_MEM_OK && synced_mem_cpu_data(mems[k]) &&
                           synced_mem_gpu_data(mems[k])
                       ? SYNCED_MEM_OK
                       : SYNCED_MEM_ERR_CUDA);
    summary();
    if (gpu_expected())
        ck_assert(strstr(text, "#20 ") < strstr(text, "#19 "));
    for (int i = 0; i < MANY; i++)
        OK(synced_mem_release(mems[i]));
    stop();
    HAS("#3000\"");
}
END_TEST

/* While one thread is held up by a slow file, others go on. */
static void *write_much(void *unused)
{
    synced_mem *const mem = make(SIZE);
    for (int i = 0; i < 2000; i++) {
        (void)synced_mem_mutable_cpu_data(mem);
        (void)synced_mem_resize_discard(mem, SIZE);
    }
    (void)synced_mem_release(mem);
    return unused;
}

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

/* While one thread moves an object, traces begin and end. */
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

/* ---- Processes ---- */

static synced_mem *inherited;

static void go_on_in_child(const void *unused)
{
    (void)unused;
    leaves_something = true;
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

/* What a new process does that knows nothing of the library yet. *said: on stderr. */
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
        leaves_something = true;
        (void)setenv("SYNCED_MEM_TRACE", value, 1);
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
    return status;
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
    SAYS("there is no trace: SYNCED_MEM_TRACE: '/nowhere/x' can't be opened to write");
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
    read_file(path);
    HAS("used#1");
    ck_assert_str_eq(text + strlen(text) - 3, "\n]\n");
    if (gpu_expected())
        HAS("\"name\":\"h2d used#1\"");
    ck_assert_int_eq(run(stop_at_once, path, false, said, sizeof said), 0);
    HAS("end of the trace");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(run(use, "", false, said, sizeof said), 0);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(environment_that_names_no_file)
{
    char said[4096];
    ck_assert_int_eq(run(ask_why_not, "/nowhere/x", false, said, sizeof said), 0);
    ck_assert_str_eq(said, "synced_mem: SYNCED_MEM_TRACE: '/nowhere/x' can't be opened to write: No such file or "
                           "directory\n");
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

START_TEST(killed)
{
    char said[4096];
    name_file();
    ck_assert(WIFSIGNALED(run(use_and_die, path, false, said, sizeof said)));
    read_file(path);
    ck_assert_int_eq(text[0], '[');
    ck_assert_str_eq(text + strlen(text) - 1, "}");
    HAS("used#1");
    ck_assert_int_eq(unlink(path), 0);
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
    Suite *const all = suite_create("trace");
    TCase *const cases = add_case(all, "trace");
    tcase_add_test(cases, heads_and_memory);
    tcase_add_test(cases, transfers_and_waits);
    tcase_add_test(cases, memory_that_is_reused);
    tcase_add_test(cases, staged_transfers);
    tcase_add_test(cases, managed_memory);
    tcase_add_test(cases, objects_of_one_name);
    tcase_add_test(cases, escapes);
    tcase_add_test(cases, calls_inside_callbacks);
    tcase_add_test(cases, summaries);
    tcase_add_test(cases, much);
    tcase_add_test(cases, many_objects);
    tcase_add_test(cases, slow_file);
    tcase_add_test(cases, traces_meanwhile);
    tcase_add_test(cases, more_than_there_is_room_for);
    tcase_add_test(cases, shutdown_and_on);
    tcase_add_test(cases, bad_calls);
    tcase_add_test(cases, forked_child);
    TCase *const processes = add_case_in_children(all, "processes");
    tcase_add_test(processes, environment);
    tcase_add_test(processes, environment_that_names_no_file);
    tcase_add_test(processes, environment_of_a_set_user_id_process);
    tcase_add_test(processes, a_file_for_each_process);
    tcase_add_test(processes, killed);
    if (fixture_schedule() == 0)
        tcase_add_test(processes, exit_with_a_slow_file);
    return all;
}
