/* Checks objects that several processes use. */
#include "processes_kit.h"

#include <pthread.h>

enum { ROUNDS = 30 };

/* ---- Back and forth ---- */

/* Each turn checks what the other process wrote, and writes something else, on a side that changes. */
static void take_turns(synced_mem *mem, unsigned first)
{
    for (unsigned i = first; i < ROUNDS; i += 2) {
        const bool on_device = gpu_expected() && i % 3 == 0;
        for (;;) {
            OK(synced_mem_begin_turn(mem, on_device ? GPU : CPU, WRITE, LONG_MS));
            if (host_is(synced_mem_cpu_data(mem), BYTES, i))
                break;
            OK(synced_mem_end_turn(mem)); /* the other process was not there yet */
            (void)usleep(100);
        }
        if (on_device)
            gpu_fill(synced_mem_overwrite_gpu_data(mem), BYTES, i + 1, NULL);
        else
            host_fill(synced_mem_mutable_cpu_data(mem), BYTES, i + 1);
        OK(synced_mem_end_turn(mem));
    }
}

static void make_and_take_turns(int socket)
{
    synced_mem *const mem = make_and_share(socket);
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, 0);
    OK(synced_mem_end_turn(mem));
    take_turns(mem, 0);
    OK(synced_mem_release(mem));
}

static void receive_and_take_turns(int socket)
{
    synced_mem *const mem = receive(socket);
    take_turns(mem, 1);
    OK(synced_mem_release(mem));
}

START_TEST(two_processes_take_turns)
{
    run_two(make_and_take_turns, receive_and_take_turns);
}
END_TEST

/* ---- Ends of processes ---- */

static void make_and_end(int socket)
{
    synced_mem *const mem = make_and_share(socket);
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, 1);
    OK(synced_mem_release(mem));
    raise_flag(0);
}

static void receive_late(int socket)
{
    await_flag(0, 1);
    synced_mem *const mem = receive(socket);
    OK(synced_mem_begin_turn(mem, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(mem), BYTES, 1));
    OK(synced_mem_release(mem));
}

START_TEST(memory_outlives_its_maker)
{
    run_two(make_and_end, receive_late);
}
END_TEST

/* Ways in which a process ends without a hand-over. */
enum { EXITS, IS_KILLED, EXECUTES, DEATHS };
static int death;

static void make_and_die(int socket)
{
    synced_mem *const mem = make_and_share(socket);
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, 1);
    switch (death) {
    case EXITS:
        _exit(0);
    case EXECUTES: /* another program has no turn */
        (void)execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        break;
    default:
        raise_flag(0);
        (void)pause();
        break;
    }
}

/* Told once, and then the contents are gone: they read as zeros. */
static void receive_after_a_death(int socket)
{
    synced_mem *const mem = receive(socket);
    const bool on_device = gpu_expected();
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(mem, CPU, READ, LONG_MS));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_cpu_data(mem));
    OK(synced_mem_begin_turn(mem, on_device ? GPU : CPU, WRITE, 0));
    HEAD_IS(mem, UNINITIALIZED);
    if (on_device)
        ck_assert(device_is(synced_mem_gpu_data(mem), BYTES, 0));
    ck_assert(host_is(synced_mem_cpu_data(mem), BYTES, 0));
    OK(synced_mem_release(mem));
}

START_TEST(a_writer_dies)
{
    pid_t roles[2];
    death = _i;
    start_two(make_and_die, receive_after_a_death, roles);
    if (death == IS_KILLED) {
        await_flag(0, 1);
        (void)usleep(20000); /* the other one may sleep by then */
        kill_role(roles[0]);
    }
    ck_assert_int_eq(end_child(roles[1]), 0);
    if (death == EXITS)
        ck_assert_int_eq(end_child(roles[0]), 0);
    if (death == EXECUTES)
        kill_role(roles[0]);
}
END_TEST

/* On a GPU the work that is queued at the end takes some 50 ms. */
enum { WORK = 256 << 20, WORK_EMULATED = 1 << 16, QUEUED = 50, PAUSED_US = 300000 };

static size_t get_work_size(void)
{
    return gpu_is_emulated() ? WORK_EMULATED : WORK;
}

static void work_for_ever(synced_mem *mem, int socket)
{
    const size_t half = get_work_size() / 2;
    const synced_mem_stream stream = gpu_stream_create(0, false);
    char *const data = synced_mem_overwrite_gpu_data_on(mem, stream);
    ck_assert_ptr_nonnull(data);
    OK(synced_mem_share(mem, socket, LONG_MS));
    gpu_fill(data, half, 1, stream);
    for (int i = 0;; i++) {
        gpu_copy(data + half, data, half, stream);
        if (i == QUEUED)
            raise_flag(0);
        if (gpu_is_emulated())
            (void)usleep(100);
    }
}

static void make_and_work(int socket)
{
    work_for_ever(make_shareable(get_work_size()), socket);
}

/* Writes what no work of a dead process may overwrite. */
static void write_after_a_death(int socket)
{
    const size_t size = get_work_size();
    synced_mem *const mem = receive(socket);
    void *const own = gpu_alloc(0, size);
    gpu_fill(own, size, 2, NULL);
    gpu_sync_device(0);
    raise_flag(1);
    FAILS(SYNCED_MEM_ERR_OWNER_DIED, synced_mem_begin_turn(mem, GPU, READ, LONG_MS));
    await_flag(2, 1);
    OK(synced_mem_begin_turn(mem, GPU, WRITE, 0));
    void *const data = synced_mem_overwrite_gpu_data(mem);
    ck_assert_ptr_nonnull(data);
    gpu_copy(data, own, size, NULL);
    gpu_sync_device(0);
    (void)usleep(PAUSED_US);
    ck_assert(device_is(data, size, 2));
    OK(synced_mem_release(mem));
    gpu_free(own);
}

/* The writer's lock is newer than the descriptors of CUDA, so it falls before the driver has ended the work. The next
 * writer waits for the end of the process. */
START_TEST(a_writer_is_killed_at_work)
{
    pid_t roles[2];
    start_two(make_and_work, write_after_a_death, roles);
    await_flag(0, 1);
    await_flag(1, 1);
    kill_role(roles[0]);
    raise_flag(2);
    ck_assert_int_eq(end_child(roles[1]), 0);
}
END_TEST

static int ends_before[2];

/* Gets its socket by ends_before, as start_role() starts CUDA for a role that gets one. */
static void make_start_and_work(int unused)
{
    (void)unused;
    synced_mem *const mem =
        make_shareable_of(get_work_size(), SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_SAME_USER);
    (void)close(ends_before[1]);
    (void)gpu_start(fixture_schedule());
    work_for_ever(mem, ends_before[0]);
}

/* If the lock is older than the descriptors of CUDA, the driver has ended the work when the lock falls. Linux and the
 * driver do so without a promise (docs/design/sharing.md). */
START_TEST(a_writer_that_has_started_later_is_killed_at_work)
{
    if (!common)
        common = make_common(sizeof *common);
    memset(common, 0, sizeof *common);
    ck_assert(open_pair(SOCK_STREAM, ends_before));
    const pid_t maker = start_role(make_start_and_work, NULL, 0);
    const pid_t writer = start_role(write_after_a_death, ends_before, 1);
    close_pair(ends_before);
    await_flag(0, 1);
    await_flag(1, 1);
    raise_flag(2); /* the writer does not wait */
    kill_role(maker);
    ck_assert_int_eq(end_child(writer), 0);
}
END_TEST

static void make_and_wait(int socket)
{
    synced_mem *const mem = make_and_share(socket);
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, 4);
    OK(synced_mem_end_turn(mem));
    await_flag(1, 1);
    OK(synced_mem_begin_turn(mem, CPU, WRITE, LONG_MS)); /* nothing is lost */
    ck_assert(host_is(synced_mem_cpu_data(mem), BYTES, 4));
    OK(synced_mem_release(mem));
}

static void receive_and_be_killed(int socket)
{
    synced_mem *const mem = receive(socket);
    OK(synced_mem_begin_turn(mem, gpu_expected() ? GPU : CPU, READ, LONG_MS));
    raise_flag(0);
    (void)pause();
}

START_TEST(a_reader_is_killed)
{
    pid_t roles[2];
    start_two(make_and_wait, receive_and_be_killed, roles);
    await_flag(0, 1);
    kill_role(roles[1]);
    raise_flag(1);
    ck_assert_int_eq(end_child(roles[0]), 0);
}
END_TEST

/* ---- Forks ---- */

static synced_mem *mine;
static synced_mem *view;

/* The pointers that the hot path would return are withdrawn, and the turn is the parent's. */
static void check_in_child(void)
{
    const bool uses_gpu = gpu_expected();
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(mine));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_mutable_cpu_data(mine));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data_on(mine, NULL));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(view));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_end_turn(mine));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_begin_turn(mine, CPU, READ, 0));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_share(mine, 0, 0));
    ck_assert_uint_eq(synced_mem_size(mine), BYTES);
    if (!uses_gpu)
        ck_assert_int_eq(synced_mem_cpu_source(mine), SYNCED_MEM_SOURCE_SHAREABLE);
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(mine));
    RELEASE_EACH(view, mine);
    if (!uses_gpu)
        ck_assert_int_eq(count_shared_mappings(), 0);
    synced_mem *const own = make_shareable_of(BYTES, SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_ANY_USER);
    synced_mem *const other = share_with_myself(own);
    host_fill(synced_mem_overwrite_cpu_data(own), BYTES, 6);
    OK(synced_mem_release(own));
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    ck_assert(host_is(synced_mem_cpu_data(other), BYTES, 6));
    OK(synced_mem_release(other));
}

/* The child outlives its parent, whose turn ends nevertheless. */
static void make_fork_and_exit(int socket)
{
    mine = make_and_share(socket);
    OK(synced_mem_view(&view, mine, 10, 100, NULL));
    host_fill(synced_mem_overwrite_cpu_data(mine), BYTES, 1);
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(view));
    await_threads();
    const pid_t child = fork();
    if (child == 0) {
        leaves_memory = true;
        check_in_child();
        raise_flag(0);
        await_flag(1, 1);
        exit(EXIT_SUCCESS);
    }
    await_flag(0, 1);
    ck_assert(host_is(synced_mem_cpu_data(mine), BYTES, 1));
    OK(synced_mem_end_turn(mine));
    OK(synced_mem_begin_turn(mine, CPU, WRITE, LONG_MS));
    _exit(0);
}

static void receive_after_both(int socket)
{
    synced_mem *const mem = receive(socket);
    synced_mem_status status = SYNCED_MEM_OK;
    while (status == SYNCED_MEM_OK) {
        status = synced_mem_begin_turn(mem, CPU, READ, LONG_MS);
        if (status == SYNCED_MEM_OK) {
            ck_assert(host_is(synced_mem_cpu_data(mem), BYTES, 1));
            OK(synced_mem_end_turn(mem));
            (void)usleep(1000);
        }
    }
    ck_assert_int_eq(status, SYNCED_MEM_ERR_OWNER_DIED);
    OK(synced_mem_release(mem));
    raise_flag(1);
}

START_TEST(a_process_forks)
{
    pid_t roles[2];
    start_two(make_fork_and_exit, receive_after_both, roles);
    const int made = end_child(roles[0]);
    const int received = end_child(roles[1]);
    raise_flag(1);
    ck_assert_int_eq(made, 0);
    ck_assert_int_eq(received, 0);
}
END_TEST

/* ---- Several threads ---- */

/* A hand-over waits for the calls of other threads, which are refused afterwards. */
static atomic_bool stop;

static void *access_always(void *counts)
{
    int *const count = counts;
    while (!atomic_load(&stop)) {
        const void *const data = synced_mem_cpu_data(mine);
        if (!data)
            SOUND(synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_STATE);
        count[data != NULL]++;
    }
    return NULL;
}

static void make_with_threads(int socket)
{
    enum { THREADS = 2 };
    pthread_t threads[THREADS];
    int counts[THREADS][2] = {{0}};
    mine = make_and_share(socket);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, access_always, counts[i]), 0);
    for (unsigned i = 0; i < 50; i++) {
        host_fill(synced_mem_mutable_cpu_data(mine), BYTES, 2);
        OK(synced_mem_end_turn(mine));
        OK(synced_mem_begin_turn(mine, CPU, WRITE, LONG_MS));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(unsound, 0);
    OK(synced_mem_release(mine));
    raise_flag(0);
}

static void receive_meanwhile(int socket)
{
    synced_mem *const mem = receive(socket);
    while (atomic_load(&common->flags[0]) == 0) {
        const synced_mem_status status = synced_mem_begin_turn(mem, CPU, READ, 10);
        ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_TIMEOUT);
        if (status == SYNCED_MEM_OK)
            OK(synced_mem_end_turn(mem));
    }
    OK(synced_mem_release(mem));
}

START_TEST(threads_meanwhile)
{
    run_two(make_with_threads, receive_meanwhile);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_processes");
    TCase *const cases = add_case_in_children(suite, "share_processes");
    add_tests(cases, two_processes_take_turns, memory_outlives_its_maker, a_reader_is_killed, a_process_forks,
              threads_meanwhile);
    add_gpu_tests(cases, a_writer_is_killed_at_work, a_writer_that_has_started_later_is_killed_at_work);
    tcase_add_loop_test(cases, a_writer_dies, 0, DEATHS);
    return suite;
}
