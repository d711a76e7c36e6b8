/*
 * Checks that every scenario survives failures of the runtime. Each call of the runtime fails once, at every place
 * where it is made. The error passes, reports a lack of memory, or stays in the device.
 */
#include "scenario.h"

#include "cudart_emu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { CALLS = 64 };

/* The number of uses of each call by a scenario. */
struct uses {
    int scenario;
    int count;
    struct {
        char call[64];
        unsigned before, after;
    } of[CALLS];
};

struct failure {
    int scenario;
    const char *call;
    unsigned nth;
    cudaError_t code;
    bool sticky;
    const char *then; /* another call, whose first use fails; NULL: none */
};

static unsigned *counter_of(struct uses *uses, const char *call, bool after)
{
    int i = 0;
    while (i < uses->count && strcmp(uses->of[i].call, call) != 0)
        i++;
    ck_assert_int_lt(i, CALLS);
    if (i == uses->count) {
        (void)snprintf(uses->of[i].call, sizeof uses->of[i].call, "%s", call);
        uses->count++;
    }
    return after ? &uses->of[i].after : &uses->of[i].before;
}

static void note_before(const char *call, unsigned count, void *uses)
{
    *counter_of(uses, call, false) = count;
}

static void note_after(const char *call, unsigned count, void *uses)
{
    *counter_of(uses, call, true) = count;
}

/* ---- One failure ---- */

static enum outcome outcome_of(const struct failure *failure)
{
    if (failure->sticky)
        return MAY_BREAK;
    return failure->then ? MAY_FAIL_TWICE : MAY_FAIL;
}

static void run_failing(const void *argument)
{
    const struct failure *const failure = argument;
    const enum outcome outcome = outcome_of(failure);
    /* A sticky failure breaks the current device, so that has to be the object's device. */
    scenario_prepare(failure->scenario, gpu_start(fixture_schedule()), failure->sticky);
    emu_fail(failure->call, failure->nth, failure->code, failure->sticky);
    if (failure->then)
        emu_fail(failure->then, 1, failure->code, false);
    scenario_compare(!failure->sticky);
    scenario_run(failure->scenario, outcome);
    scenario_check_end(outcome);
    emu_fail_clear();
    leaves_memory = stats_now().quarantined > 0;
    if (failure->sticky || leaves_memory) {
        emu_reset(0);
        return;
    }
    scenario_clean_up();
    gpu_check_nothing_left();
}

/* Returns whether the child succeeded. */
static bool try_failure(const struct failure *failure)
{
    if (in_a_child(run_failing, failure))
        return true;
    (void)fprintf(stderr, "that was scenario %d with %s failing at use %u with %s%s%s\n", failure->scenario,
                  failure->call, failure->nth, cudaGetErrorName(failure->code), failure->sticky ? ", sticky" : "",
                  failure->then ? ", then a synchronization" : "");
    return false;
}

/* ---- All failures ---- */

static void count_uses_here(const void *argument)
{
    struct uses *const uses = *(struct uses *const *)argument;
    scenario_prepare(uses->scenario, gpu_start(fixture_schedule()), false);
    emu_each_call(note_before, uses);
    scenario_run(uses->scenario, MUST_SUCCEED);
    scenario_check_end(MUST_SUCCEED);
    emu_each_call(note_after, uses);
    scenario_clean_up();
    gpu_check_nothing_left();
}

/* Counts in a child too: a device used here could not be used in later children. The caller unmaps the result. */
static struct uses *count_uses(int scenario)
{
    struct uses *const uses = mmap(NULL, sizeof *uses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(uses, MAP_FAILED);
    uses->scenario = scenario;
    ck_assert(in_a_child(count_uses_here, &uses));
    return uses;
}

/* A child ends slowly under the address sanitizer, which searches for leaks then. */
#ifdef __SANITIZE_ADDRESS__
enum { SHARE = 12 };
#else
enum { SHARE = 1 };
#endif

/* The first four seeds together make all failures, or a share of them. The others together make about as many again. */
static bool is_mine(int index)
{
    enum { FIRST = 4 * SHARE, OTHERS = 17 * SHARE };
    const unsigned seed = fixture_schedule();
    return seed < FIRST ? (unsigned)index % FIRST == seed : (unsigned)index % OTHERS == seed % OTHERS;
}

START_TEST(each_call_fails)
{
    static const struct {
        cudaError_t code;
        bool sticky;
    } kinds[] = {{cudaErrorUnknown, false}, {cudaErrorMemoryAllocation, false}, {cudaErrorIllegalAddress, true}};
    struct uses *const uses = count_uses(_i);
    int failed = 0;
    int index = 0;
    for (int i = 0; i < uses->count; i++)
        for (unsigned nth = 1; nth <= uses->of[i].after - uses->of[i].before; nth++)
            for (int kind = 0; kind < 3; kind++) {
                const struct failure failure = {.scenario = _i,
                                                .call = uses->of[i].call,
                                                .nth = nth,
                                                .code = kinds[kind].code,
                                                .sticky = kinds[kind].sticky};
                if (is_mine(index++) && !try_failure(&failure))
                    failed++;
            }
    ck_assert_int_gt(index, 0);
    ck_assert_int_eq(failed, 0);
    (void)munmap(uses, sizeof *uses);
}
END_TEST

/* Without an event the library synchronizes the stream. If that fails too, the memory cannot be used again. */
START_TEST(nobody_can_tell)
{
    struct uses *const uses = count_uses(_i);
    int failed = 0;
    int index = 0;
    for (int i = 0; i < uses->count; i++)
        for (unsigned nth = 1; nth <= uses->of[i].after - uses->of[i].before; nth++) {
            const struct failure failure = {.scenario = _i,
                                            .call = uses->of[i].call,
                                            .nth = nth,
                                            .code = cudaErrorUnknown,
                                            .then = "cudaStreamSynchronize"};
            if (strncmp(failure.call, "cudaEvent", 9) != 0)
                continue;
            if (is_mine(index++) && !try_failure(&failure))
                failed++;
        }
    ck_assert_int_eq(failed, 0);
    (void)munmap(uses, sizeof *uses);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("sweep");
    TCase *const tests = add_case_in_children(made, "sweep");
    tcase_add_loop_test(tests, each_call_fails, 0, scenario_count);
    tcase_add_loop_test(tests, nobody_can_tell, 0, scenario_count);
    return made;
}
