/*
 * Checks that every scenario survives failures of the runtime. Each call of the runtime fails once, at every place
 * where it is made. The error passes, reports a lack of memory, or stays in the device.
 */
#include "scenario.h"

#include "cudart_emu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { CALLS = 64, MOST = 10000 };

/* The number of uses of each call by a scenario. */
struct uses {
    int scenario;
    int count;
    struct {
        char call[64];
        unsigned before, after;
        bool at_first; /* it depends on what the process has done before */
    } of[CALLS];
};

static unsigned count_of(const struct uses *uses, int call)
{
    return uses->of[call].after - uses->of[call].before;
}

struct failure {
    int scenario;
    const char *call;
    unsigned nth;
    cudaError_t code;
    bool sticky;
    bool alone;       /* in a new process */
    const char *then; /* another call, whose first use fails; NULL: none */
};

/* In memory shared with the children. */
struct failures {
    int count;
    int next; /* the first that no child has begun */
    int last; /* that a child has begun */
    struct failure of[MOST];
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

/* A scenario uses a few bytes of a pool, for less time than Linux takes to clear a huge page of it. */
void __wrap_sm_prefault(void *start, size_t bytes);
void __wrap_sm_prefault(void *start, size_t bytes)
{
#ifdef MADV_NOHUGEPAGE
    (void)madvise(start, bytes, MADV_NOHUGEPAGE);
#else
    (void)start;
    (void)bytes;
#endif
}

/* ---- One failure ---- */

static enum outcome outcome_of(const struct failure *failure)
{
    if (failure->sticky)
        return MAY_BREAK;
    return failure->then ? MAY_FAIL_TWICE : MAY_FAIL;
}

static void run_failing(const struct failure *failure)
{
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

/* A process takes as long to start as a failure takes to play. So each child plays several, up to one that leaves
 * something in the process. */
static void run_some(const void *argument)
{
    struct failures *const failures = *(struct failures *const *)argument;
    const struct failure *played;
    do {
        failures->last = failures->next++;
        played = &failures->of[failures->last];
        run_failing(played);
    } while (!played->sticky && !played->alone && !leaves_memory && failures->next < failures->count &&
             !played[1].alone);
}

static void complain(const struct failure *failure)
{
    (void)fprintf(stderr, "that was scenario %d with %s failing at use %u with %s%s%s\n", failure->scenario,
                  failure->call, failure->nth, cudaGetErrorName(failure->code), failure->sticky ? ", sticky" : "",
                  failure->then ? ", then a synchronization" : "");
}

/* Returns how many failed. What leaks may be an earlier one of the same child, because leaks are sought at its end. */
static int run_all(struct failures *failures)
{
    int failed = 0;
    while (failures->next < failures->count)
        if (!in_a_child(run_some, &failures)) {
            complain(&failures->of[failures->last]);
            failed++;
        }
    return failed;
}

/* ---- All failures ---- */

static void count_uses_once(struct uses *uses)
{
    scenario_prepare(uses->scenario, gpu_start(fixture_schedule()), false);
    emu_each_call(note_before, uses);
    scenario_run(uses->scenario, MUST_SUCCEED);
    scenario_check_end(MUST_SUCCEED);
    emu_each_call(note_after, uses);
    scenario_clean_up();
    gpu_check_nothing_left();
}

/* Finds the calls of a new process that it makes less often when it plays the scenario again. */
static void count_uses_here(const void *argument)
{
    struct uses *const uses = *(struct uses *const *)argument;
    struct uses again = {.scenario = uses->scenario};
    count_uses_once(uses);
    count_uses_once(&again);
    for (int i = 0; i < uses->count; i++) {
        const char *const call = uses->of[i].call;
        uses->of[i].at_first = *counter_of(&again, call, true) - *counter_of(&again, call, false) < count_of(uses, i);
    }
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
enum { SHARE = SANITIZED ? 4 : 1 };

/* The first 14 seeds together make all failures, or a share of them. Later seeds repeat those of the first ones. */
static bool is_mine(int index)
{
    enum { SEEDS = 14 };
    return index % (SEEDS * SHARE) == (int)(fixture_schedule() % SEEDS);
}

static struct failures *no_failures(void)
{
    struct failures *const none = mmap(NULL, sizeof *none, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(none, MAP_FAILED);
    return none;
}

static void add(struct failures *failures, struct failure failure)
{
    ck_assert_int_lt(failures->count, MOST);
    failures->of[failures->count++] = failure;
}

static void add_each_call(struct failures *failures, const struct uses *uses)
{
    static const struct {
        cudaError_t code;
        bool sticky;
    } kinds[] = {{cudaErrorUnknown, false}, {cudaErrorMemoryAllocation, false}, {cudaErrorIllegalAddress, true}};
    int index = 0;
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < uses->count; i++)
            for (unsigned nth = 1; nth <= count_of(uses, i); nth++)
                if (is_mine(index++))
                    add(failures, (struct failure){.scenario = uses->scenario,
                                                   .call = uses->of[i].call,
                                                   .nth = nth,
                                                   .alone = uses->of[i].at_first,
                                                   .code = kinds[kind].code,
                                                   .sticky = kinds[kind].sticky});
    ck_assert_int_gt(index, 0);
}

/* Without an event the library synchronizes the stream. If that fails too, the memory cannot be used again. */
static void add_each_event(struct failures *failures, const struct uses *uses)
{
    int index = 0;
    for (int i = 0; i < uses->count; i++)
        for (unsigned nth = 1; nth <= count_of(uses, i); nth++)
            if (strncmp(uses->of[i].call, "cudaEvent", 9) == 0 && is_mine(index++))
                add(failures, (struct failure){.scenario = uses->scenario,
                                               .call = uses->of[i].call,
                                               .nth = nth,
                                               .alone = uses->of[i].at_first,
                                               .code = cudaErrorUnknown,
                                               .then = "cudaStreamSynchronize"});
}

START_TEST(each_call_fails)
{
    struct uses *const uses = count_uses(_i);
    struct failures *const failures = no_failures();
    add_each_event(failures, uses);
    add_each_call(failures, uses);
    ck_assert_int_eq(run_all(failures), 0);
    (void)munmap(failures, sizeof *failures);
    (void)munmap(uses, sizeof *uses);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("sweep");
    TCase *const tests = add_case_in_children(made, "sweep");
    tcase_add_loop_test(tests, each_call_fails, 0, scenario_count);
    return made;
}
