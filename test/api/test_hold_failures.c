/*
 * Checks holds and evictions while something fails: each call of the runtime, each allocation. A call that fails has
 * held nothing and lost nothing, and the same call then succeeds.
 */
#include "break_device.h"
#include "failing_calloc.h"
#include "failing_calls.h"
#include "hold_kit.h"

#include <string.h>

enum { COUNT = 4, BYTES = 70000 };

static struct {
    synced_mem *mems[COUNT]; /* the budget has room for two */
    synced_mem_stream stream, other;
    unsigned pattern[COUNT];
} it;

/* ---- The acts ---- */

static synced_mem_status hold_clean(void)
{
    return synced_mem_hold_n(it.mems + 2, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, it.stream);
}

/* In the other order. */
static synced_mem_status hold_to_overwrite(void)
{
    synced_mem *const set[] = {it.mems[3], it.mems[2]};
    return synced_mem_hold_n(set, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_OVERWRITE, it.other);
}

static synced_mem_status hold_on_library_stream(void)
{
    return synced_mem_hold_n(it.mems + 2, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, SYNCED_MEM_STREAM_LIBRARY);
}

static synced_mem_status push_others(void)
{
    return synced_mem_async_gpu_push_n(it.mems + 2, 2, it.stream);
}

static synced_mem_status lower_budget(void)
{
    return synced_mem_gpu_set_budget(0, 0, NULL);
}

struct act {
    const char *name;
    synced_mem_status (*run)(void);
    bool holds;
};

static const struct act acts[] = {
    {"hold", hold_clean, true},
    {"hold to overwrite", hold_to_overwrite, true},
    {"hold on a stream of the library", hold_on_library_stream, true},
    {"push", push_others, false},
    {"lower the budget", lower_budget, false},
};
enum { ACTS = sizeof acts / sizeof *acts };

/* ---- The state ---- */

/* Two objects are on the device, one of them written there by a kernel that may not have run. */
static void begin(bool clean)
{
    for (unsigned i = 0; i < COUNT; i++) {
        it.mems[i] = make_evictable("failing", BYTES);
        host_fill(given(synced_mem_overwrite_cpu_data(it.mems[i])), BYTES, i);
        it.pattern[i] = i;
    }
    set_budget(2 * BYTES);
    OK(synced_mem_hold_n(it.mems, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, it.stream));
    given(synced_mem_gpu_data_on(it.mems[0], it.other));
    if (!clean) {
        gpu_fill(given(synced_mem_mutable_gpu_data_on(it.mems[1], it.stream)), BYTES, 77, it.stream);
        it.pattern[1] = 77;
    }
    OK(synced_mem_unhold_n(it.mems, 2, SYNCED_MEM_SIDE_GPU));
}

static void end(void)
{
    set_budget(SYNCED_MEM_NO_BUDGET);
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(host_is(given(synced_mem_cpu_data(it.mems[i])), BYTES, it.pattern[i]));
    release_all(it.mems, COUNT);
}

static bool are_held(void)
{
    const synced_mem_status status = synced_mem_unhold_n(it.mems + 2, 2, SYNCED_MEM_SIDE_GPU);
    ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_INVALID_STATE);
    for (unsigned i = 2; status != SYNCED_MEM_OK && i < COUNT; i++)
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, unhold_one(it.mems[i]));
    return status == SYNCED_MEM_OK;
}

static void play(const struct act *act, bool clean, struct failing failing)
{
    while (next_failure(&failing)) {
        begin(clean);
        begin_failing(&failing);
        const synced_mem_status status = act->run();
        (void)end_failing(&failing);
        if (act->holds)
            ck_assert_msg(are_held() == (status == SYNCED_MEM_OK), "%s, failure %u: %s", act->name, failing.nth,
                          synced_mem_last_error_message());
        if (status != SYNCED_MEM_OK) {
            const synced_mem_status again = act->run();
            ck_assert_msg(again == SYNCED_MEM_OK, "%s again, after failure %u: %s", act->name, failing.nth,
                          synced_mem_last_error_message());
            if (act->holds)
                ck_assert(are_held());
        }
        end();
    }
}

static void open_streams(void)
{
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(BLOCKING);
}

START_TEST(each_call_fails)
{
    open_streams();
    play(&acts[_i / 2], _i % 2, each_call("*", cudaErrorUnknown));
    ck_assert_uint_eq(stats_now().quarantined, 0);
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

START_TEST(each_call_is_refused_memory)
{
    open_streams();
    play(&acts[_i / 2], _i % 2, each_call("*", cudaErrorMemoryAllocation));
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

START_TEST(each_allocation_fails)
{
    open_streams();
    play(&acts[_i / 2], _i % 2, each_calloc());
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

START_TEST(an_unhold_never_fails_halfway)
{
    open_streams();
    for (struct failing failing = each_call("*", cudaErrorUnknown); next_failure(&failing);) {
        begin(true);
        OK(synced_mem_hold_n(it.mems, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, it.stream));
        gpu_fill(given(synced_mem_mutable_gpu_data_on(it.mems[0], it.stream)), BYTES, 50, it.stream);
        gpu_fill(given(synced_mem_mutable_gpu_data_on(it.mems[1], it.other)), BYTES, 51, it.other);
        it.pattern[0] = 50;
        it.pattern[1] = 51;
        begin_failing(&failing);
        OK(synced_mem_unhold_n(it.mems, 2, SYNCED_MEM_SIDE_GPU));
        (void)end_failing(&failing);
        FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_gpu_data_on(it.mems[0], it.stream));
        OK(hold_clean());
        OK(synced_mem_unhold_n(it.mems + 2, 2, SYNCED_MEM_SIDE_GPU));
        end();
    }
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

/* Nobody can tell when its work ends until an event is recorded behind it. An eviction tries that again. */
START_TEST(a_copy_without_an_event_goes)
{
    enum { RECORDS = 6 };
    for (unsigned nth = 1; nth <= RECORDS; nth++) {
        uint64_t over;
        synced_mem *const mem = make_evictable("without an event", BYTES);
        host_fill(given(synced_mem_overwrite_cpu_data(mem)), BYTES, nth);
        emu_fail("cudaEventRecord", nth, cudaErrorUnknown, false);
        emu_fail("cudaStreamSynchronize", 1, cudaErrorUnknown, false);
        const synced_mem_status status = hold_one(mem, SYNCED_MEM_READ, SYNCED_MEM_STREAM_LIBRARY);
        emu_fail_clear();
        if (status == SYNCED_MEM_OK)
            OK(unhold_one(mem));
        OK(synced_mem_gpu_set_budget(0, 0, &over));
        ck_assert_uint_eq(over, 0);
        set_budget(SYNCED_MEM_NO_BUDGET);
        ck_assert(host_is(given(synced_mem_cpu_data(mem)), BYTES, nth));
        RELEASE_EACH(mem);
    }
}
END_TEST

/* Contents of the host are not lost, and those that only the device had are. Holds of a lost device end all the same.
 */
START_TEST(a_lost_device)
{
    open_streams();
    begin(false);
    OK(hold_one(it.mems[0], SYNCED_MEM_READ, it.stream));
    break_device();
    FAILS(SYNCED_MEM_ERR_DEVICE_LOST, hold_clean());
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_unhold_n(it.mems + 2, 2, SYNCED_MEM_SIDE_GPU));
    OK(unhold_one(it.mems[0]));
    FAILS_NULL(SYNCED_MEM_ERR_DEVICE_LOST, synced_mem_cpu_data(it.mems[1]));
    ck_assert(host_is(given(synced_mem_cpu_data(it.mems[0])), BYTES, 0));
    ck_assert(host_is(given(synced_mem_cpu_data(it.mems[2])), BYTES, 2));
    release_all(it.mems, COUNT);
    end_without_device();
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hold_failures");
    TCase *const failures = add_case(made, "failures");
    add_divided_test(failures, each_call_fails, 0, 2 * ACTS);
    add_divided_test(failures, each_call_is_refused_memory, 0, 2 * ACTS);
    add_divided_test(failures, each_allocation_fails, 0, 2 * ACTS);
    add_gpu_tests(failures, an_unhold_never_fails_halfway, a_copy_without_an_event_goes);
    add_gpu_tests(add_case_without_end(made, "lost"), a_lost_device);
    return made;
}
