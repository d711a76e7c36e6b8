/* Checks objects in files in children of a process: they read facts, but not their parent's files. */
#include "files_kit.h"
#include "fork_kit.h"

#include "system/file_at.h"

enum { OFFSET = 4099 };

/* Makes a read last so long that a fork happens meanwhile. */
static atomic_bool holds_reads;
static atomic_int held;

int __real_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    held++;
    while (holds_reads)
        (void)usleep(1000);
    return __real_sm_file_read_at(file, data, bytes, offset, done);
}

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    held++;
    while (holds_reads)
        (void)usleep(1000);
    return __real_sm_file_write_at(file, data, bytes, offset);
}

static struct {
    synced_mem_file *file;
    synced_mem *mem, *host, *root, *view;
} it;

/* A child without a GPU has its own files, and what its parent had read. */
static void live_in_the_child(const void *unused)
{
    (void)unused;
    holds_reads = false;
    STATE(it.mem, UNINITIALIZED, 1);
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(it.mem));
    SAYS("opened by the parent process");
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_use_file(it.mem, it.file, 0));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_async_write_file(it.host, it.file, 0, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_FORKED, synced_mem_file_wait(it.file));
    ck_assert(host_is(given(synced_mem_cpu_data(it.host)), SIZE, 3));
    STATE(it.mem, UNINITIALIZED, 1);
    OK(synced_mem_clear(it.mem));
    ck_assert(host_is(given(synced_mem_cpu_data(it.mem)), SIZE, 0));
    synced_mem_file *own = NULL;
    OK(synced_mem_file_open(&own, file_number(behind)));
    OK(synced_mem_use_file(it.mem, own, OFFSET));
    ck_assert(host_has(it.mem, OFFSET));
    host_fill(given(synced_mem_mutable_cpu_data(it.mem)), SIZE, 4);
    OK(synced_mem_async_write_file(it.mem, own, OFFSET, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(own));
    OK(synced_mem_release(it.mem));
    OK(synced_mem_release(it.host));
    OK(synced_mem_file_release(own));
    OK(synced_mem_file_release(it.file));
    OK(synced_mem_shutdown());
}

START_TEST(a_child_without_gpu)
{
    it.file = make_file(FILE_BYTES, 1);
    it.mem = make_in_file(SIZE, it.file, OFFSET);
    it.host = make_at_cpu(SIZE, 3);
    let_others_sleep();
    ck_assert(child_succeeds(live_in_the_child, NULL));
    pattern_write(in_file + OFFSET, SIZE, 4); /* the child has written the file */
    ck_assert(host_has(it.mem, OFFSET));
    RELEASE_EACH(it.mem, it.host);
    end_file(it.file);
}
END_TEST

/* The child finds reads and writes that only its parent's threads can end. */
static void meet_work_in_flight(const void *unused)
{
    (void)unused;
    holds_reads = false;
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(it.mem));
    STATE(it.mem, UNINITIALIZED, 1);
    OK(synced_mem_clear(it.mem));
    ck_assert(host_is(given(synced_mem_cpu_data(it.mem)), SIZE, 0));
    host_fill(given(synced_mem_mutable_cpu_data(it.host)), SIZE, 5); /* its write ends for the child */
    ck_assert(host_is(given(synced_mem_cpu_data(it.host)), SIZE, 5));
    OK(synced_mem_release(it.mem));
    OK(synced_mem_release(it.host));
    leaves_memory = true;
}

/* The contents are written to another place, so their load is in flight at the fork. */
START_TEST(work_in_flight)
{
    it.file = make_file(FILE_BYTES, 1);
    it.mem = make_in_file(SIZE, it.file, OFFSET);
    it.host = make_at_cpu(SIZE, 3);
    holds_reads = true;
    OK(synced_mem_async_write_file(it.mem, it.file, 100000, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_async_write_file(it.host, it.file, 300000, SYNCED_MEM_NO_STREAM));
    while (held < 2)
        (void)usleep(1000);
    ck_assert(child_succeeds(meet_work_in_flight, NULL));
    holds_reads = false;
    OK(synced_mem_file_wait(it.file));
    ck_assert(host_has(it.mem, OFFSET));
    RELEASE_EACH(it.mem, it.host);
    end_file(it.file);
}
END_TEST

/* A child of a process that uses a GPU reads what is valid on the host, and facts. */
static void read_facts(const void *unused)
{
    (void)unused;
    ck_assert_int_eq(synced_mem_in_file(it.mem), 1);
    ck_assert(host_has(it.mem, OFFSET));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_mutable_cpu_data(it.mem));
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_cpu_data(it.host));
    OK(synced_mem_release(it.mem));
    OK(synced_mem_release(it.host));
    OK(synced_mem_release(it.view));
    OK(synced_mem_release(it.root));
    OK(synced_mem_file_release(it.file));
}

START_TEST(a_child_of_a_process_with_gpu)
{
    it.file = make_file(FILE_BYTES, 1);
    it.mem = make_in_file(SIZE, it.file, OFFSET);
    it.host = make_in_file(SIZE, it.file, 0);
    it.root = make(2 * SIZE);
    OK(synced_mem_view(&it.view, it.root, 0, SIZE, NULL));
    OK(synced_mem_use_file(it.view, it.file, 0));
    use_the_device(NULL);
    ck_assert(host_has(it.mem, OFFSET));
    let_others_sleep();
    ck_assert(child_succeeds(read_facts, NULL));
    RELEASE_EACH(it.mem, it.host, it.view, it.root);
    end_file(it.file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_fork");
    TCase *const tests = add_case(made, "fork");
    add_tests(tests, a_child_without_gpu, work_in_flight);
    add_gpu_tests(tests, a_child_of_a_process_with_gpu);
    return made;
}
