/* Tests calls of other threads between the end of a hold and the end of the uses that it has seen. */
#include "hold_kit.h"

#include "copy/inflight.h"
#include "object/publish.h"
#include "stream/shared_ends.h"

#include <pthread.h>
#include <sched.h>

static synced_mem *mem;
static synced_mem *first;
static synced_mem_stream stream;
static void *data; /* the other thread's pointer */
static pthread_t other;
static atomic_bool has_data, other_waits, other_has_unheld, may_go_on;
static _Thread_local bool is_other;

static void await_flag(atomic_bool *flag)
{
    while (!atomic_load(flag))
        (void)sched_yield();
}

void __real_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen);
void __wrap_sm_word_wait(atomic_uint *word, unsigned seen)
{
    if (is_other)
        atomic_store(&other_waits, true);
    __real_sm_word_wait(word, seen);
}

/* Each runs once, in the thread that unholds. */
static void (*before_the_uses_end)(void);
static void (*after_the_uses_end)(void);
static void (*before_pointers_go)(void);

static void run_once(void (**what)(void))
{
    void (*const run)(void) = *what;
    *what = NULL;
    if (run)
        run();
}

synced_mem_status __real_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by)
{
    if (!is_other)
        run_once(&before_the_uses_end);
    const synced_mem_status status = __real_sm_inflight_settle(copy, conflicting, by);
    if (!is_other)
        run_once(&after_the_uses_end);
    return status;
}

void __real_sm_publish_nothing(struct synced_mem *of);
void __wrap_sm_publish_nothing(struct synced_mem *of);
void __wrap_sm_publish_nothing(struct synced_mem *of)
{
    if (!is_other)
        run_once(&before_pointers_go);
    __real_sm_publish_nothing(of);
}

/* The other thread has removed its hold by then. */
void __real_sm_share_ends(struct sm_shared_ends *ends);
void __wrap_sm_share_ends(struct sm_shared_ends *ends);
void __wrap_sm_share_ends(struct sm_shared_ends *ends)
{
    if (is_other) {
        atomic_store(&other_has_unheld, true);
        await_flag(&may_go_on);
    }
    __real_sm_share_ends(ends);
}

static synced_mem *make_used(const char *name)
{
    synced_mem *const made = make_evictable(name, HOLD_BYTES);
    OK(hold_one(made, SYNCED_MEM_OVERWRITE, stream));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(made, stream)), HOLD_BYTES, 1, stream);
    return made;
}

/* The other thread's write has ended before the contents are pulled. */
static void check_contents(void)
{
    atomic_store(&may_go_on, true);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_int_eq(atomic_load(&unsound), 0);
    set_budget(0);
    ck_assert_int_eq(synced_mem_head(mem), SYNCED_MEM_AT_CPU);
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), HOLD_BYTES, 2));
    set_budget(SYNCED_MEM_NO_BUDGET);
}

static void *hold_and_write(void *unused)
{
    is_other = true;
    SOUND(hold_one(mem, SYNCED_MEM_MUTABLE, stream) == SYNCED_MEM_OK);
    data = synced_mem_mutable_gpu_data_on(mem, stream);
    SOUND(data != NULL);
    atomic_store(&has_data, true);
    await_flag(&may_go_on);
    gpu_fill(data, HOLD_BYTES, 2, stream);
    SOUND(unhold_one(mem) == SYNCED_MEM_OK);
    return unused;
}

static void begin_to_hold_and_write(void)
{
    ck_assert_int_eq(pthread_create(&other, NULL, hold_and_write, NULL), 0);
    while (!atomic_load(&has_data) && !atomic_load(&other_waits))
        (void)sched_yield();
}

static void (**const holds_begin[])(void) = {&before_pointers_go, &before_the_uses_end};
enum { BEGINS = sizeof holds_begin / sizeof *holds_begin };

/* The kernel of the new hold comes after the end of the earlier uses, and is a use of its own. */
START_TEST(a_hold_while_an_unhold_ends_the_uses)
{
    stream = open_stream(NON_BLOCKING);
    mem = make_used("held again");
    *holds_begin[_i] = begin_to_hold_and_write;
    OK(unhold_one(mem));
    ck_assert(!*holds_begin[_i]);
    check_contents();
    RELEASE_EACH(mem);
    CLOSE_EACH(stream);
}
END_TEST

static void *write_and_unhold(void *unused)
{
    is_other = true;
    gpu_fill(data, HOLD_BYTES, 2, stream);
    SOUND(unhold_one(mem) == SYNCED_MEM_OK);
    return unused;
}

static void begin_to_unhold(void)
{
    ck_assert_int_eq(pthread_create(&other, NULL, write_and_unhold, NULL), 0);
    await_flag(&other_has_unheld);
}

/* One event ends the uses of both objects by the stream. The other thread's kernel comes after that event. */
START_TEST(an_unhold_while_another_ends_the_uses)
{
    stream = open_stream(NON_BLOCKING);
    first = make_used("first");
    mem = make_used("unheld twice");
    OK(hold_one(mem, SYNCED_MEM_MUTABLE, stream));
    data = given(synced_mem_mutable_gpu_data_on(mem, stream));
    after_the_uses_end = begin_to_unhold;
    OK(synced_mem_unhold_n((synced_mem *[]){first, mem}, 2, SYNCED_MEM_SIDE_GPU));
    ck_assert(!after_the_uses_end);
    check_contents();
    RELEASE_EACH(mem, first);
    CLOSE_EACH(stream);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("unhold_meanwhile");
    TCase *const tests = add_case(made, "meanwhile");
    add_gpu_loop_test(tests, a_hold_while_an_unhold_ends_the_uses, 0, BEGINS);
    add_gpu_tests(tests, an_unhold_while_another_ends_the_uses);
    return made;
}
