/*
 * Checks calls on objects in files while something fails: each read and write of the file, each call of the runtime,
 * each allocation. The object is then as before, it is still in the file, and the same call succeeds when it is
 * repeated.
 */
#include "failing_calls.h"
#include "failing_calloc.h"
#include "files_kit.h"

#include "system/file_at.h"
#include "system/thread.h"

#include <errno.h>

enum { SIZE = 700001, OFFSET = 4099, OTHER = 800000, OTHERS_SIZE = 5003 };

/* ---- The file ---- */

enum how { FAILS_WITH_EIO, ENDS_EARLY, IS_SLOW, HOWS };
static atomic_int how;                         /* enum how; a read of a failed call may still go on */
static atomic_int fail_read_in, fail_write_in; /* the number of further calls until one fails; 0: none fails */
static atomic_int reopens_until_failure, sizes_until_failure;
static atomic_bool no_threads;

static bool is_due(atomic_int *in)
{
    int left = atomic_load(in);
    while (left > 0 && !atomic_compare_exchange_weak(in, &left, left - 1))
        continue;
    return left == 1;
}

int __real_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    const bool due = is_due(&fail_read_in);
    *done = 0;
    if (due && how == FAILS_WITH_EIO)
        return EIO;
    if (how == IS_SLOW)
        (void)usleep(3000);
    return __real_sm_file_read_at(file, data, due && how == ENDS_EARLY ? bytes / 2 : bytes, offset, done);
}

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    if (how == IS_SLOW)
        (void)usleep(3000);
    return is_due(&fail_write_in) ? ENOSPC : __real_sm_file_write_at(file, data, bytes, offset);
}

int __real_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out);
int __wrap_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out);
int __wrap_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out)
{
    struct sm_file_facts direct = *facts;
    if (is_due(&reopens_until_failure))
        return EMFILE;
    direct.direct = false;
    return __real_sm_file_reopen(file, &direct, cached, out);
}

int __real_sm_file_examine(int file, struct sm_file_facts *facts);
int __wrap_sm_file_examine(int file, struct sm_file_facts *facts);
int __wrap_sm_file_examine(int file, struct sm_file_facts *facts)
{
    const int error = __real_sm_file_examine(file, facts);
    facts->direct = atomic_load(&reopens_until_failure) > 0;
    return error;
}

int __real_sm_file_size(int file, uint64_t *size);
int __wrap_sm_file_size(int file, uint64_t *size);
int __wrap_sm_file_size(int file, uint64_t *size)
{
    return is_due(&sizes_until_failure) ? EIO : __real_sm_file_size(file, size);
}

bool __real_sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument);
bool __wrap_sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument);
bool __wrap_sm_thread_start(sm_thread *thread, void *(*run)(void *argument), void *argument)
{
    return !atomic_load(&no_threads) && __real_sm_thread_start(thread, run, argument);
}

static atomic_int reallocs_until_failure;
static atomic_bool no_realloc;

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return is_due(&reallocs_until_failure) || atomic_load(&no_realloc) ? NULL : __real_realloc(old, size);
}

/* ---- The acts ---- */

static struct {
    synced_mem_file *file;
    synced_mem *mem, *others[3], *view;
    synced_mem_stream stream;
} it;

static synced_mem_status read_on_host(void)
{
    return status_of(synced_mem_cpu_data(it.mem));
}

static synced_mem_status read_on_device(void)
{
    return status_of(synced_mem_gpu_data(it.mem));
}

static synced_mem_status read_on_stream(void)
{
    return status_of(synced_mem_gpu_data_on(it.mem, it.stream));
}

static synced_mem_status write_on_device(void)
{
    return status_of(synced_mem_mutable_gpu_data_on(it.mem, it.stream));
}

static synced_mem_status write_on_host(void)
{
    return status_of(synced_mem_mutable_cpu_data(it.mem));
}

static synced_mem_status push(void)
{
    return synced_mem_async_gpu_push(it.mem, it.stream);
}

static synced_mem_status pull(void)
{
    const synced_mem_status status = synced_mem_async_cpu_pull(it.mem, it.stream);
    return status == SYNCED_MEM_OK ? synced_mem_wait(it.mem) : status;
}

static synced_mem_status push_list(void)
{
    return synced_mem_async_gpu_push_n(it.others, 3, it.stream);
}

static synced_mem_status pull_list(void)
{
    const synced_mem_status status = synced_mem_async_cpu_pull_n(it.others, 3, it.stream);
    return status == SYNCED_MEM_OK ? synced_mem_wait(it.others[2]) : status;
}

static synced_mem_status copy_to_host(void)
{
    return synced_mem_cpu_copy(it.others[2], it.others[1]);
}

static synced_mem_status copy_to_device(void)
{
    return synced_mem_async_gpu_copy(it.others[2], it.others[1], it.stream);
}

static synced_mem_status resize(void)
{
    return synced_mem_resize(it.mem, SIZE + 10);
}

static synced_mem_status divide_and_read(void)
{
    const synced_mem_status status = it.view ? SYNCED_MEM_OK : synced_mem_view(&it.view, it.mem, 1000, 100000, NULL);
    return status == SYNCED_MEM_OK ? read_on_host() : status;
}

static synced_mem_status divide_and_read_on_device(void)
{
    const synced_mem_status status = it.view ? SYNCED_MEM_OK : synced_mem_view(&it.view, it.mem, 1000, 100000, NULL);
    return status == SYNCED_MEM_OK ? read_on_device() : status;
}

static synced_mem_status use_another_place(void)
{
    return synced_mem_use_file(it.mem, it.file, OFFSET);
}

/* leaves: afterwards mem is in no file. */
static const struct act {
    synced_mem_status (*act)(void);
    bool leaves;
} acts[] = {{read_on_host, false},
            {read_on_device, false},
            {read_on_stream, false},
            {write_on_device, true},
            {write_on_host, true},
            {push, false},
            {pull, false},
            {push_list, false},
            {pull_list, false},
            {copy_to_host, false},
            {copy_to_device, false},
            {resize, true},
            {divide_and_read, false},
            {divide_and_read_on_device, false},
            {use_another_place, false}};
enum { ACTS = sizeof acts / sizeof acts[0] };

static void begin(void)
{
    it.file = make_file(FILE_BYTES, 1);
    it.stream = open_stream(NON_BLOCKING);
    it.mem = make_in_file(SIZE, it.file, OFFSET);
    for (size_t i = 0; i < 3; i++)
        it.others[i] = make_in_file(OTHERS_SIZE, it.file, OTHER + i * OTHERS_SIZE);
    it.view = NULL;
}

static void end(void)
{
    how = FAILS_WITH_EIO;
    close_stream(it.stream);
    if (it.view)
        OK(synced_mem_release(it.view));
    OK(synced_mem_release(it.mem));
    release_all(it.others, 3);
    end_file(it.file);
    OK(synced_mem_shutdown());
}

static bool is_of_others(const struct act *act)
{
    return act->act == push_list || act->act == pull_list || act->act == copy_to_host || act->act == copy_to_device;
}

/* A failed act has left the file with no object. */
static void check_as_before(const struct act *act, synced_mem_status status)
{
    if (status == SYNCED_MEM_OK)
        return;
    ck_assert_uint_eq(synced_mem_size(it.mem), SIZE);
    ck_assert_int_eq(synced_mem_in_file(it.mem), 1);
    if (!is_of_others(act))
        ck_assert_msg(synced_mem_head(it.mem) == SYNCED_MEM_UNINITIALIZED || act->act == pull ||
                          act->act == divide_and_read || act->act == divide_and_read_on_device,
                      "head %d", (int)synced_mem_head(it.mem));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(synced_mem_in_file(it.others[i]), 1);
}

/* Repeats the act, and checks all contents. */
static void check_after(const struct act *act)
{
    const int from = act->act == copy_to_host || act->act == copy_to_device ? 1 : 2;
    OK(act->act());
    ck_assert_int_eq(synced_mem_in_file(it.mem), !act->leaves);
    gpu_sync_device(0);
    ck_assert(bytes_are_of_file(given(synced_mem_cpu_data(it.mem)), SIZE, OFFSET));
    ck_assert(host_has(it.others[0], OTHER) && host_has(it.others[1], OTHER + OTHERS_SIZE));
    ck_assert(host_has(it.others[2], OTHER + (size_t)from * OTHERS_SIZE));
}

static bool is_expected(synced_mem_status status, synced_mem_status failure)
{
    return status == SYNCED_MEM_OK || status == failure;
}

/* Plays the act with each failure, one after the other. Returns how many the act has not survived. */
static int play(const struct act *act, struct failing each, synced_mem_status failure)
{
    int failed = 0;
    for (; next_failure(&each);) {
        begin();
        begin_failing(&each);
        const synced_mem_status status = act->act();
        const synced_mem_status waited = status == SYNCED_MEM_OK ? synced_mem_wait(it.mem) : SYNCED_MEM_OK;
        (void)end_failing(&each);
        ck_assert_msg(is_expected(status, failure) && is_expected(waited, failure), "%s",
                      synced_mem_last_error_message());
        check_as_before(act, status);
        failed += status != SYNCED_MEM_OK;
        if (status == SYNCED_MEM_OK && act->act == resize)
            OK(synced_mem_use_file(it.mem, it.file, OFFSET));
        if (status == SYNCED_MEM_OK && act->leaves && act->act != resize) {
            OK(synced_mem_clear(it.mem));
            OK(synced_mem_use_file(it.mem, it.file, OFFSET));
        }
        if (act->act == push || act->act == pull)
            OK(synced_mem_release_data(it.mem));
        if (act->act == push_list || act->act == pull_list)
            for (int i = 0; i < 3; i++)
                OK(synced_mem_release_data(it.others[i]));
        check_after(act);
        end();
    }
    return failed;
}

static void begin_failing_read(struct failing *each)
{
    atomic_store(&fail_read_in, (int)each->nth);
}

static bool end_failing_read(struct failing *each)
{
    (void)each;
    return atomic_exchange(&fail_read_in, 0) == 0;
}

START_TEST(each_read_fails)
{
    const struct act *const act = &acts[_i % ACTS];
    how = _i / ACTS;
    if (act->act == use_another_place)
        return;
    const int now = how;
    int failed = 0;
    for (struct failing each = {begin_failing_read, end_failing_read, .call = NULL}; next_failure(&each);) {
        begin();
        how = now;
        begin_failing(&each);
        const synced_mem_status status = act->act();
        if (end_failing(&each)) {
            failed++;
            ck_assert_int_eq(status, SYNCED_MEM_ERR_FILE);
            SAYS(now == ENDS_EARLY ? "it ends after" : "Input/output error");
            SAYS("at offset");
        } else {
            ck_assert_int_eq(status, SYNCED_MEM_OK);
        }
        check_as_before(act, status);
        if (status != SYNCED_MEM_OK)
            check_after(act);
        end();
    }
    ck_assert_int_ge(failed, is_of_others(act) ? 1 : 3);
}
END_TEST

START_TEST(each_call_of_the_runtime_fails)
{
    (void)play(&acts[_i], each_call("*", cudaErrorUnknown), SYNCED_MEM_ERR_CUDA);
}
END_TEST

START_TEST(each_allocation_fails)
{
    if (acts[_i].act != divide_and_read && acts[_i].act != divide_and_read_on_device)
        (void)play(&acts[_i], each_calloc(), SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
}
END_TEST

/* A slow disk changes nothing. */
START_TEST(slow_reads)
{
    begin();
    how = IS_SLOW;
    check_after(&acts[_i]);
    end();
}
END_TEST

/* ---- Other failures ---- */

/* The bytes that are there are not taken for the contents. */
START_TEST(a_file_that_shrinks)
{
    begin();
    ck_assert_int_eq(ftruncate(file_number(behind), OFFSET + 300000), 0);
    if (_i == 0)
        FAILS_NULL(SYNCED_MEM_ERR_FILE, synced_mem_cpu_data(it.mem));
    else
        FAILS_NULL(SYNCED_MEM_ERR_FILE, synced_mem_gpu_data(it.mem));
    SAYS("it ends after");
    STATE(it.mem, UNINITIALIZED, 1);
    rewind(behind);
    ck_assert_uint_eq(fwrite(in_file, 1, FILE_BYTES, behind), FILE_BYTES);
    ck_assert_int_eq(fflush(behind), 0);
    ck_assert(host_has(it.mem, OFFSET));
    end();
}
END_TEST

START_TEST(no_descriptor)
{
    synced_mem_file *file = NULL;
    behind = tmpfile();
    for (int i = 1; i <= 2; i++) {
        atomic_store(&reopens_until_failure, i);
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_file_open(&file, file_number(behind)));
        ck_assert_ptr_null(file);
        SAYS("Too many open files");
    }
    close_behind();
}
END_TEST

START_TEST(no_size)
{
    begin();
    synced_mem *const mem = make(10);
    atomic_store(&sizes_until_failure, 1);
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_use_file(mem, it.file, 0));
    STATE(mem, UNINITIALIZED, 0);
    OK(synced_mem_release(mem));
    end();
}
END_TEST

START_TEST(no_memory_for_a_file)
{
    synced_mem_file *file = NULL;
    behind = tmpfile();
    fail_calloc_in = 1;
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_file_open(&file, file_number(behind)));
    close_behind();
}
END_TEST

START_TEST(no_thread)
{
    begin();
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    atomic_store(&no_threads, true);
    FAILS_NULL(SYNCED_MEM_ERR_FILE, synced_mem_cpu_data(it.mem));
    SAYS("no thread");
    FAILS_NULL(SYNCED_MEM_ERR_FILE, synced_mem_gpu_data(it.mem));
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_async_write_file(mem, it.file, OTHER + 20000, SYNCED_MEM_NO_STREAM));
    STATE(it.mem, UNINITIALIZED, 1);
    atomic_store(&no_threads, false);
    ck_assert(host_has(it.mem, OFFSET));
    OK(synced_mem_release(mem));
    end();
}
END_TEST

/* ---- Writes ---- */

enum { FREE = OTHER + 4 * OTHERS_SIZE }; /* where no object is */

/* An error of a write is the file's, and is told once. The object is as before. */
START_TEST(each_write_fails)
{
    const bool from_device = _i == 1;
    begin();
    synced_mem *const mem =
        from_device ? make_at_gpu(SIZE - OTHERS_SIZE * 8, 2) : make_at_cpu(SIZE - OTHERS_SIZE * 8, 2);
    const struct facts before = facts_of(mem);
    for (int nth = 1; nth < 3; nth++) {
        atomic_store(&fail_write_in, nth);
        OK(synced_mem_async_write_file(mem, it.file, FREE, SYNCED_MEM_NO_STREAM));
        OK(synced_mem_wait(mem));
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_file_wait(it.file));
        SAYS("can't be written: No space left on device");
        OK(synced_mem_file_wait(it.file));
        check_unchanged(mem, &before);
    }
    OK(synced_mem_async_write_file(mem, it.file, FREE, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(it.file));
    pattern_write(in_file + FREE, synced_mem_size(mem), 2);
    ck_assert(file_is_right(FILE_BYTES));
    OK(synced_mem_release(mem));
    end();
}
END_TEST

static void check_write(struct failing *each, synced_mem *mem, synced_mem_status failure)
{
    begin_failing(each);
    const synced_mem_status status = synced_mem_async_write_file(mem, it.file, FREE, it.stream);
    const synced_mem_status waited = synced_mem_wait(mem);
    const synced_mem_status written = synced_mem_file_wait(it.file);
    (void)end_failing(each);
    ck_assert_msg(is_expected(status, failure) && is_expected(waited, failure) && is_expected(written, failure), "%s",
                  synced_mem_last_error_message());
    if (status == SYNCED_MEM_OK && written == SYNCED_MEM_OK)
        pattern_write(in_file + FREE, synced_mem_size(mem), 2);
    else
        OK(synced_mem_async_write_file(mem, it.file, FREE, it.stream));
    OK(synced_mem_file_wait(it.file));
    pattern_write(in_file + FREE, synced_mem_size(mem), 2);
    ck_assert(file_is_right(FILE_BYTES));
}

START_TEST(each_call_of_a_write_fails)
{
    struct failing each = _i / 3 ? each_calloc() : each_call("*", cudaErrorUnknown);
    for (; next_failure(&each);) {
        begin();
        synced_mem *const mem = _i % 3 == 0   ? make_at_cpu(300007, 2)
                                : _i % 3 == 1 ? make_at_gpu(300007, 2)
                                              : make(300007);
        if (_i % 3 == 2) { /* parts on both sides */
            OK(synced_mem_view(&it.view, mem, 1000, 100000, NULL));
            host_fill(given(synced_mem_overwrite_cpu_data(mem)), 300007, 2);
            (void)given(synced_mem_mutable_gpu_data(it.view));
        }
        check_write(&each, mem, _i / 3 ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_CUDA);
        OK(synced_mem_release(mem));
        end();
    }
}
END_TEST

/* Contents that can't be read from their file are not written to another place. */
START_TEST(each_read_of_a_write_fails)
{
    begin();
    for (int nth = 1; nth < 4; nth++) {
        atomic_store(&fail_read_in, nth);
        OK(synced_mem_async_write_file(it.mem, it.file, FREE, SYNCED_MEM_NO_STREAM));
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_file_wait(it.file));
        SAYS("can't be read");
        ck_assert(file_is_right(FILE_BYTES));
        OK(synced_mem_release_data(it.mem));
    }
    OK(synced_mem_async_write_file(it.others[0], it.file, FREE, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(it.file));
    memcpy(in_file + FREE, in_file + OTHER, OTHERS_SIZE);
    ck_assert(file_is_right(FILE_BYTES));
    end();
}
END_TEST

/* Without memory to note what a write comes after, the call waits for that at once. */
START_TEST(no_memory_for_waits)
{
    enum { COUNT = 8, EACH = 20000 };
    synced_mem *mems[COUNT];
    uint64_t offsets[COUNT];
    begin();
    for (unsigned i = 0; i < COUNT; i++) { /* each pull has a fence of its own */
        mems[i] = make_at_gpu(EACH, 2 + i);
        offsets[i] = FREE + i * EACH;
        OK(synced_mem_async_cpu_pull(mems[i], it.stream));
        pattern_write(in_file + offsets[i], EACH, 2 + i);
    }
    atomic_store(&reallocs_until_failure, 1);
    FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_async_write_file_n(mems, it.file, offsets, COUNT, it.stream));
    atomic_store(&reallocs_until_failure, 2);
    OK(synced_mem_async_write_file_n(mems, it.file, offsets, COUNT, it.stream));
    OK(synced_mem_file_wait(it.file));
    ck_assert(file_is_right(FILE_BYTES));
    how = IS_SLOW;
    for (unsigned i = 0; i < COUNT; i++) /* now in the opposite order */
        OK(synced_mem_async_write_file(mems[COUNT - 1 - i], it.file, offsets[i], it.stream));
    synced_mem *const all = make_at_cpu(COUNT * EACH, 20);
    atomic_store(&reallocs_until_failure, 2);
    OK(synced_mem_async_write_file(all, it.file, FREE, it.stream));
    OK(synced_mem_file_wait(it.file));
    pattern_write(in_file + FREE, COUNT * EACH, 20);
    ck_assert(file_is_right(FILE_BYTES));
    OK(synced_mem_release(all));
    release_all(mems, COUNT);
    end();
}
END_TEST

/* Contents that a failed call has read are the file's alone again. */
START_TEST(a_failed_write_keeps_nothing)
{
    begin();
    ck_assert(host_has(it.others[0], OTHER)); /* the threads that read are there */
    atomic_store(&no_threads, true);
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_async_write_file(it.mem, it.file, FREE, SYNCED_MEM_NO_STREAM));
    STATE(it.mem, UNINITIALIZED, 1);
    atomic_store(&no_threads, false);
    OK(synced_mem_async_write_file(it.others[1], it.file, FREE, SYNCED_MEM_NO_STREAM));
    memcpy(in_file + FREE, in_file + OTHER + OTHERS_SIZE, OTHERS_SIZE);
    OK(synced_mem_file_wait(it.file));
    ck_assert(file_is_right(FILE_BYTES));
    end();
}
END_TEST

/* Bytes that a write has yet to bring are waited for, also by the next write, and behind the end of the file. */
START_TEST(what_is_yet_to_be_written)
{
    begin();
    how = IS_SLOW;
    synced_mem *const mem = make_at_cpu(50000, 2), *const reader = make(50000);
    OK(synced_mem_async_write_file(mem, it.file, FILE_BYTES, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_use_file(reader, it.file, FILE_BYTES));
    OK(synced_mem_async_write_file(reader, it.file, FREE, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(it.file));
    ck_assert(host_is(given(synced_mem_cpu_data(reader)), 50000, 2));
    OK(synced_mem_use_file(it.mem, it.file, FREE - 3));
    const unsigned char *const data = given(synced_mem_cpu_data(it.mem));
    gpu_note_host_read(data, SIZE);
    ck_assert(pattern_is(data + 3, 50000, 2));
    RELEASE_EACH(mem, reader);
    end();
}
END_TEST

static void *allocate(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)alignment, (void)device, (void)stream, (void)user;
    return malloc(size);
}

static void deallocate(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size, (void)alignment, (void)device, (void)stream, (void)user;
    free(data);
}

/* Memory for what is read may come from an allocator, with nothing locked. */
START_TEST(memory_of_an_allocator)
{
    const synced_mem_allocator host = {.struct_size = sizeof host, .alloc = allocate, .free = deallocate};
    synced_mem_options options = default_options();
    synced_mem *mem = NULL, *to = make(OTHERS_SIZE);
    options.cpu_allocator = &host;
    options.alignment = 8;
    begin();
    OK(synced_mem_create(&mem, OTHERS_SIZE, &options));
    OK(synced_mem_use_file(mem, it.file, OTHER));
    OK(synced_mem_async_write_file(mem, it.file, FREE, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(it.file));
    memcpy(in_file + FREE, in_file + OTHER, OTHERS_SIZE);
    ck_assert(file_is_right(FILE_BYTES));
    ck_assert_int_eq(synced_mem_cpu_source(mem), SYNCED_MEM_SOURCE_ALLOCATOR);
    OK(synced_mem_release_data(mem));
    OK(synced_mem_cpu_copy(to, mem));
    ck_assert(host_has(to, OTHER) && host_has(mem, OTHER));
    RELEASE_EACH(mem, to);
    end();
}
END_TEST

/* Nobody knows when the device is done with a buffer, so it is never used again. */
START_TEST(a_buffer_is_lost)
{
    begin();
    synced_mem *const written = make_at_cpu(OTHERS_SIZE, 2);
    OK(synced_mem_async_gpu_push(written, SYNCED_MEM_STREAM_LIBRARY));
    OK(synced_mem_wait(written));
    OK(synced_mem_release_cpu_data(written));
    (void)emu_fail("cudaEventSynchronize", 2, cudaErrorUnknown, false); /* the first waits for the push */
    (void)emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
    OK(synced_mem_async_write_file(written, it.file, FREE, SYNCED_MEM_NO_STREAM));
    FAILS(SYNCED_MEM_ERR_CUDA, synced_mem_file_wait(it.file));
    emu_fail_clear();
    HEAD(written, AT_GPU);
    OK(synced_mem_async_write_file(written, it.file, FREE, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(it.file));
    for (int i = 0; i < 10000 && stats_now().quarantined == 0; i++) /* threads give up their buffers later */
        (void)usleep(1000);
    ck_assert_uint_ge(stats_now().quarantined, 1);
    pattern_write(in_file + FREE, OTHERS_SIZE, 2);
    ck_assert(file_is_right(FILE_BYTES));
    leaves_memory = true;
    emu_reset(0);
}
END_TEST

/* Bytes that come after a write that failed are written all the same. */
START_TEST(slow_writes_go_in_order)
{
    begin();
    synced_mem *mems[8];
    how = IS_SLOW;
    for (unsigned i = 0; i < 8; i++) {
        mems[i] = i % 2 ? make_at_gpu(50000, 2 + i) : make_at_cpu(50000, 2 + i);
        OK(synced_mem_async_write_file(mems[i], it.file, FREE + 100 * i, SYNCED_MEM_NO_STREAM));
        pattern_write(in_file + FREE + 100 * i, 50000, 2 + i);
    }
    OK(synced_mem_file_wait(it.file));
    ck_assert(file_is_right(FILE_BYTES));
    release_all(mems, 8);
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_failures");
    TCase *const reads = add_case(made, "reads");
    tcase_add_loop_test(reads, each_read_fails, 0, 2 * ACTS);
    tcase_add_loop_test(reads, slow_reads, 0, ACTS);
    tcase_add_loop_test(reads, a_file_that_shrinks, 0, 2);
    TCase *const calls = add_case(made, "calls");
    tcase_add_loop_test(calls, each_call_of_the_runtime_fails, 0, ACTS);
    tcase_add_loop_test(calls, each_allocation_fails, 0, ACTS);
    TCase *const others = add_case(made, "others");
    add_tests(others, no_descriptor, no_size, no_memory_for_a_file, no_thread);
    TCase *const writes = add_case(made, "writes");
    tcase_add_loop_test(writes, each_write_fails, 0, 2);
    tcase_add_loop_test(writes, each_call_of_a_write_fails, 0, 6);
    add_tests(writes, each_read_of_a_write_fails, slow_writes_go_in_order, no_memory_for_waits,
              a_failed_write_keeps_nothing, what_is_yet_to_be_written, memory_of_an_allocator);
    add_tests(add_case_without_end(made, "lost"), a_buffer_is_lost);
    return made;
}
