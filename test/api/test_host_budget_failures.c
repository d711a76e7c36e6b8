/*
 * Checks budgets for host copies while something fails: each write and read of the scratch file, each call of the
 * runtime, each allocation. A call that fails has lost nothing, and the same call then succeeds.
 */
#include "break_device.h"
#include "failing_calloc.h"
#include "failing_calls.h"
#include "host_budget_kit.h"

#include "copy/scratch.h"
#include "memory/budget.h"
#include "system/file_at.h"

#include <errno.h>
#include <pthread.h>

enum { COUNT = 4, BYTES = 300000 };

static struct {
    synced_mem_file *scratch;
    synced_mem *mems[COUNT]; /* the budget has room for two on the host */
    synced_mem_stream stream;
    unsigned pattern[COUNT];
} it;

/* ---- The file ---- */

static atomic_int fail_write_in, fail_read_in; /* the number of further calls until one fails; 0: none fails */

static bool is_due(atomic_int *in)
{
    int left = atomic_load(in);
    while (left > 0 && !atomic_compare_exchange_weak(in, &left, left - 1))
        continue;
    return left == 1;
}

static atomic_bool is_full;       /* all writes fail */
static atomic_bool writes_direct; /* the last write went past the system's cache */
static atomic_int fail_allocation_in;
static atomic_uint allocations;

int __real_sm_file_allocate(int file, uint64_t offset, uint64_t bytes);
int __wrap_sm_file_allocate(int file, uint64_t offset, uint64_t bytes);
int __wrap_sm_file_allocate(int file, uint64_t offset, uint64_t bytes)
{
    (void)atomic_fetch_add(&allocations, 1);
    return is_due(&fail_allocation_in) ? ENOSPC : __real_sm_file_allocate(file, offset, bytes);
}

static unsigned
    refused; /* bits: descriptors past the system's cache are duplicates, or can't be made; others can't be */

int __real_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out);
int __wrap_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out);
int __wrap_sm_file_reopen(int file, const struct sm_file_facts *facts, bool cached, int *out)
{
    struct sm_file_facts others = *facts;
    if ((refused & (cached ? 4 : 2)) != 0)
        return EMFILE;
    if ((refused & 1) != 0)
        others.direct = false;
    return __real_sm_file_reopen(file, &others, cached, out);
}

static void *(*before_the_undo)(void *unused); /* runs in a thread of its own, once */

bool __real_sm_scratch_undo(struct sm_scratch_change *change);
bool __wrap_sm_scratch_undo(struct sm_scratch_change *change);
bool __wrap_sm_scratch_undo(struct sm_scratch_change *change)
{
    void *(*const run)(void *) = before_the_undo;
    pthread_t thread;
    before_the_undo = NULL;
    if (run) {
        ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    return __real_sm_scratch_undo(change);
}

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    atomic_store(&writes_direct, (fcntl(file, F_GETFL) & O_DIRECT) != 0);
    if (!is_due(&fail_write_in) && !atomic_load(&is_full))
        return __real_sm_file_write_at(file, data, bytes, offset);
    (void)__real_sm_file_write_at(file, data, bytes / 2, offset); /* some are written */
    return ENOSPC;
}

int __real_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done);
int __wrap_sm_file_read_at(int file, void *data, size_t bytes, uint64_t offset, size_t *done)
{
    *done = 0;
    return is_due(&fail_read_in) ? EIO : __real_sm_file_read_at(file, data, bytes, offset, done);
}

static void begin_failing_write(struct failing *failing)
{
    atomic_store(&fail_write_in, (int)failing->nth);
}

static bool end_failing_write(struct failing *failing)
{
    (void)failing;
    return atomic_exchange(&fail_write_in, 0) == 0;
}

static void begin_failing_read(struct failing *failing)
{
    atomic_store(&fail_read_in, (int)failing->nth);
}

static bool end_failing_read(struct failing *failing)
{
    (void)failing;
    return atomic_exchange(&fail_read_in, 0) == 0;
}

static struct failing each_write(void)
{
    return (struct failing){begin_failing_write, end_failing_write, .call = NULL};
}

static struct failing each_read(void)
{
    return (struct failing){begin_failing_read, end_failing_read, .call = NULL};
}

/* ---- The acts ---- */

static synced_mem_status lower_budget(void)
{
    uint64_t over = 1;
    const synced_mem_status status = synced_mem_cpu_set_budget(0, it.scratch, &over);
    ck_assert_uint_eq(over, status != SYNCED_MEM_OK);
    ck_assert_uint_eq(sm_budget_of(SM_BUDGET_HOST), status == SYNCED_MEM_OK ? 0 : 2 * BYTES);
    return status;
}

static synced_mem_status hold_on_host(void)
{
    return synced_mem_hold_n(it.mems, 2, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, NULL);
}

static synced_mem_status hold_to_overwrite(void)
{
    const synced_mem_status status = synced_mem_hold_n(it.mems, 2, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_OVERWRITE, NULL);
    for (unsigned i = 0; i < 2 && status == SYNCED_MEM_OK; i++) {
        it.pattern[i] = 60 + i;
        host_fill(given(synced_mem_overwrite_cpu_data(it.mems[i])), BYTES, it.pattern[i]);
    }
    return status;
}

static synced_mem_status hold_on_device(void)
{
    return synced_mem_hold_n(it.mems, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, it.stream);
}

static synced_mem_status pull(void)
{
    return synced_mem_async_cpu_pull(it.mems[3], it.stream);
}

static synced_mem_status copy(void)
{
    const synced_mem_status status = synced_mem_cpu_copy(it.mems[1], it.mems[0]);
    if (status == SYNCED_MEM_OK)
        it.pattern[1] = it.pattern[0];
    return status;
}

struct act {
    const char *name;
    synced_mem_status (*run)(void);
    synced_mem_side holds; /* two objects; 0: none */
};

static const struct act acts[] = {
    {"lower the budget", lower_budget, (synced_mem_side)0},
    {"hold on the host", hold_on_host, SYNCED_MEM_SIDE_CPU},
    {"hold to overwrite", hold_to_overwrite, SYNCED_MEM_SIDE_CPU},
    {"hold on the device", hold_on_device, SYNCED_MEM_SIDE_GPU},
    {"pull", pull, (synced_mem_side)0},
    {"copy", copy, (synced_mem_side)0},
};
enum { ACTS = sizeof acts / sizeof *acts };

/* ---- The state ---- */

/* The first two objects are in the scratch file, the third on the host, the last on the device alone. */
static void begin(void)
{
    set_host_budget(2 * BYTES, it.scratch);
    for (unsigned i = 0; i < COUNT; i++) {
        it.mems[i] = make_evictable("failing", BYTES);
        it.pattern[i] = i;
        host_write(it.mems[i], i);
    }
    OK(hold_one(it.mems[3], SYNCED_MEM_MUTABLE, it.stream));
    gpu_fill(given(synced_mem_mutable_gpu_data_on(it.mems[3], it.stream)), BYTES, 77, it.stream);
    it.pattern[3] = 77;
    OK(unhold_one(it.mems[3]));
    OK(synced_mem_wait(it.mems[3]));
    set_host_budget(0, it.scratch);
    set_host_budget(2 * BYTES, it.scratch);
    ck_assert(host_has(it.mems[2], 2));
    ck_assert_int_eq(synced_mem_head(it.mems[0]), SYNCED_MEM_UNINITIALIZED);
    ck_assert_int_eq(synced_mem_head(it.mems[3]), SYNCED_MEM_AT_GPU);
    host_write(it.mems[2], 50); /* it has left the file */
    it.pattern[2] = 50;
}

static void end(void)
{
    set_host_budget(2 * BYTES, it.scratch);
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert_msg(host_has(it.mems[i], it.pattern[i]), "object %u", i);
    release_all(it.mems, COUNT);
}

static bool are_held(synced_mem_side side)
{
    const synced_mem_status status = synced_mem_unhold_n(it.mems, 2, side);
    ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_INVALID_STATE);
    for (unsigned i = 0; status != SYNCED_MEM_OK && i < 2; i++)
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_unhold(it.mems[i], side));
    return status == SYNCED_MEM_OK;
}

/* A read that fails after a hold has returned is met by the access. */
static bool contents_arrive(const struct act *act)
{
    bool all = true;
    for (unsigned i = 0; i < 2 && act->holds == SYNCED_MEM_SIDE_CPU; i++)
        all = synced_mem_cpu_data(it.mems[i]) && all;
    for (unsigned i = 0; i < 2 && act->holds == SYNCED_MEM_SIDE_GPU; i++)
        all = synced_mem_gpu_data(it.mems[i]) && all;
    return all;
}

static void play(const struct act *act, struct failing failing)
{
    while (next_failure(&failing)) {
        begin();
        begin_failing(&failing);
        const synced_mem_status status = act->run();
        (void)end_failing(&failing);
        if (status == SYNCED_MEM_OK && !contents_arrive(act))
            ck_assert_msg(contents_arrive(act), "%s, failure %u: %s", act->name, failing.nth,
                          synced_mem_last_error_message());
        if (act->holds)
            ck_assert_msg(are_held(act->holds) == (status == SYNCED_MEM_OK), "%s, failure %u", act->name, failing.nth);
        if (status != SYNCED_MEM_OK) {
            const synced_mem_status again = act->run();
            ck_assert_msg(again == SYNCED_MEM_OK, "%s again, after failure %u: %s", act->name, failing.nth,
                          synced_mem_last_error_message());
            ck_assert(contents_arrive(act));
            if (act->holds)
                ck_assert(are_held(act->holds));
        }
        end();
    }
}

static void open_all(void)
{
    it.scratch = make_scratch();
    it.stream = open_stream(NON_BLOCKING);
}

static void close_all(void)
{
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    end_scratch(it.scratch);
    close_stream(it.stream);
}

START_TEST(each_write_fails)
{
    open_all();
    play(&acts[_i], each_write());
    close_all();
}
END_TEST

START_TEST(each_read_fails)
{
    open_all();
    play(&acts[_i], each_read());
    close_all();
}
END_TEST

START_TEST(each_call_fails)
{
    open_all();
    play(&acts[_i], each_call("*", cudaErrorUnknown));
    close_all();
}
END_TEST

START_TEST(each_allocation_fails)
{
    open_all();
    play(&acts[_i], each_calloc());
    close_all();
}
END_TEST

/* The call that needs the memory says why there is none. */
START_TEST(a_full_disk)
{
    open_all();
    begin();
    OK(hold_host(it.mems[2], SYNCED_MEM_READ));
    OK(unhold_host(it.mems[2]));
    host_write(it.mems[1], 70); /* now two have left the file */
    it.pattern[1] = 70;
    atomic_store(&fail_write_in, 1);
    FAILS(SYNCED_MEM_ERR_FILE,
          synced_mem_hold_n((synced_mem *[]){it.mems[0], it.mems[3]}, 2, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, NULL));
    SAYS("No space left");
    end();
    close_all();
}
END_TEST

static void *set_another_budget(void *unused)
{
    SOUND(synced_mem_cpu_set_budget(5 * BYTES, NULL, NULL) == SYNCED_MEM_OK);
    return unused;
}

/* The budget stays as it was, or as another thread has set it meanwhile. */
START_TEST(a_full_disk_while_the_budget_is_set)
{
    synced_mem *mem = make_evictable("full", BYTES);
    synced_mem_file *const scratch = make_scratch();
    uint64_t over = 7;
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), BYTES, 3);
    before_the_undo = _i == 0 ? NULL : set_another_budget;
    atomic_store(&is_full, true);
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_cpu_set_budget(0, scratch, &over));
    SAYS("No space left");
    ck_assert(!before_the_undo);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    atomic_store(&is_full, false);
    ck_assert_uint_eq(over, 7);
    ck_assert(!sm_scratch_is_set());
    ck_assert_uint_eq(sm_budget_of(SM_BUDGET_HOST), _i == 0 ? SM_NO_BUDGET : 5 * BYTES);
    if (_i == 0)
        ck_assert(host_is(given(synced_mem_cpu_data(mem)), BYTES, 3)); /* without a hold */
    OK(synced_mem_cpu_set_budget(0, scratch, &over));
    ck_assert_uint_eq(over, 0);
    ck_assert(!has_host_copy(mem));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), BYTES, 3));
    RELEASE_EACH(mem);
    end_scratch(scratch);
}
END_TEST

/* The range that is there has been allocated, so it has room for the next contents. */
START_TEST(a_disk_without_room_for_a_range)
{
    synced_mem *mem = make_evictable("full", BYTES);
    synced_mem_file *const scratch = make_scratch();
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), BYTES, 3);
    const unsigned before = atomic_load(&allocations);
    set_host_budget(BYTES, scratch);
    for (unsigned i = 0; i < 2; i++) {
        synced_mem *const next = make_evictable("next", BYTES);
        atomic_store(&fail_allocation_in, 1);
        if (i == 0) {
            FAILS(SYNCED_MEM_ERR_FILE, hold_host(next, SYNCED_MEM_OVERWRITE));
            SAYS("no room for");
            SAYS("No space left");
            ck_assert(has_host_copy(mem));
        }
        OK(hold_host(next, SYNCED_MEM_OVERWRITE));
        ck_assert_uint_eq(atomic_load(&allocations), before + 2);
        OK(unhold_host(next));
        RELEASE_EACH(next);
        ck_assert(host_has(mem, 3));
        host_write(mem, 3); /* it leaves the file */
    }
    atomic_store(&fail_allocation_in, 0);
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    RELEASE_EACH(mem);
    end_scratch(scratch);
}
END_TEST

static bool can_be_direct(void)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", behind_scratch);
    const int direct = open(path, O_RDWR | O_DIRECT);
    if (direct >= 0)
        (void)close(direct);
    return direct >= 0;
}

/* Spills go past the system's cache, also if the program has not opened the file so, where the system allows it. */
START_TEST(spills_past_the_cache)
{
    synced_mem *mem = make_evictable("direct", 1 << 20);
    synced_mem_file *const scratch = make_scratch();
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), 1 << 20, 3);
    refused = (unsigned)_i;
    set_host_budget(0, scratch);
    ck_assert(!has_host_copy(mem));
    ck_assert(atomic_load(&writes_direct) == (refused == 0 && can_be_direct()));
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), 1 << 20, 3));
    RELEASE_EACH(mem);
    refused = 0;
    end_scratch(scratch);
}
END_TEST

/* Memory that is refused does not count: the budget has room for all later. */
START_TEST(refused_memory_does_not_count)
{
    synced_mem *mems[COUNT];
    synced_mem_file *const scratch = make_scratch();
    set_host_budget(COUNT * HOLD_BYTES, scratch);
    for (unsigned i = 0; i < COUNT; i++)
        mems[i] = make_evictable("refused", HOLD_BYTES);
    emu_set_pinned_memory(0);
    for (unsigned i = 0; i < COUNT; i++)
        FAILS(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, hold_host(mems[i], SYNCED_MEM_OVERWRITE));
    synced_mem *const plain = make_on(HOLD_BYTES, 0);
    ck_assert_ptr_null(synced_mem_overwrite_cpu_data(plain));
    ck_assert_uint_eq(sm_budget_used(SM_BUDGET_HOST), 0);
    RELEASE_EACH(plain);
    emu_set_pinned_memory(SIZE_MAX);
    for (unsigned i = 0; i < COUNT; i++) {
        OK(hold_host(mems[i], SYNCED_MEM_OVERWRITE));
        host_fill(given(synced_mem_overwrite_cpu_data(mems[i])), HOLD_BYTES, i + 1);
        OK(unhold_host(mems[i]));
    }
    ck_assert_uint_eq(stats_now().spills, 0);
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(has_host_copy(mems[i]));
    release_all(mems, COUNT);
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    end_scratch(scratch);
}
END_TEST

/* Contents in the scratch file are not lost with the device. */
START_TEST(a_lost_device)
{
    open_all();
    begin();
    break_device();
    for (unsigned i = 0; i < 3; i++)
        ck_assert(host_has(it.mems[i], it.pattern[i]));
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, hold_on_device());
    set_host_budget(0, it.scratch);
    set_host_budget(2 * BYTES, it.scratch);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(host_has(it.mems[i], it.pattern[i]));
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, hold_host(it.mems[3], SYNCED_MEM_READ));
    release_all(it.mems, COUNT);
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    end_scratch(it.scratch);
    end_without_device();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("host_budget_failures");
    TCase *const failures = add_case(made, "failures");
    add_divided_test(failures, each_write_fails, 0, ACTS);
    add_divided_test(failures, each_read_fails, 0, ACTS);
    add_divided_test(failures, each_call_fails, 0, ACTS);
    add_divided_test(failures, each_allocation_fails, 0, ACTS);
    add_gpu_tests(failures, a_full_disk, a_disk_without_room_for_a_range, refused_memory_does_not_count);
    add_gpu_loop_test(failures, spills_past_the_cache, 0, 5);
    add_gpu_loop_test(failures, a_full_disk_while_the_budget_is_set, 0, 2);
    add_gpu_tests(add_case_without_end(made, "lost"), a_lost_device);
    return made;
}
