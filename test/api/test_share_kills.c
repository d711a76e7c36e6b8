/*
 * A process is killed before each of its steps: calls of the system and of the runtime, and stores to the control page.
 * The process with which it shares an object goes on: it is told if the other one was writing, its calls end, and the
 * contents are whole.
 */
#include "processes_kit.h"

#include "../memory/steps_kit.h"
#ifdef STEPS_OF_RUNTIME
#include "runtime_steps.h"
#endif

/* On the emulated runtime each schedule has other steps. */
#ifdef STEPS_OF_RUNTIME
enum { SECOND_PATTERN = 5, STRIDE = 7, STEPS_OF_A_MAKER = 60, STEPS_OF_A_RECEIVER = 60 };
#else
enum { SECOND_PATTERN = 5, STRIDE = 1, STEPS_OF_A_MAKER = 50, STEPS_OF_A_RECEIVER = 40 };
#endif

static int kill_at;

static void begin_steps(void)
{
    steps.count = 0;
    steps.kill_at = kill_at;
}

static void end_steps(void)
{
    steps.kill_at = 0;
}

/* Uses both sides in turns to write and to read. The contents are the first pattern or the second one. */
static void use_in_turns(synced_mem *mem)
{
    const bool on_device = gpu_expected();
    OK(synced_mem_begin_turn(mem, CPU, WRITE, LONG_MS));
    (void)synced_mem_cpu_data(mem);
    if (on_device)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), BYTES, SECOND_PATTERN, NULL);
    else
        host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, SECOND_PATTERN);
    OK(synced_mem_end_turn(mem));
    OK(synced_mem_begin_turn(mem, CPU, READ, LONG_MS));
    (void)host_is(synced_mem_cpu_data(mem), BYTES, SECOND_PATTERN);
    OK(synced_mem_end_turn(mem));
    OK(synced_mem_begin_turn(mem, on_device ? GPU : CPU, READ, LONG_MS));
    OK(synced_mem_end_turn(mem));
}

/* Everything a maker does. */
static void make_to_the_end(int socket)
{
    begin_steps();
    synced_mem *const mem = make_shareable(BYTES);
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, 1);
    OK(synced_mem_share(mem, socket, LONG_MS));
    OK(synced_mem_end_turn(mem));
    use_in_turns(mem);
    OK(synced_mem_release(mem));
    end_steps();
}

/* Everything a receiver does. */
static void receive_to_the_end(int socket)
{
    begin_steps();
    synced_mem *const mem = receive(socket);
    use_in_turns(mem);
    OK(synced_mem_release(mem));
    end_steps();
}

/* Acquires until that is no failure. Returns whether a death was told. Each call ends long before its timeout. */
static bool acquire_after_all(synced_mem *mem, synced_mem_side side, synced_mem_turn turn)
{
    const synced_mem_status first = synced_mem_begin_turn(mem, side, turn, LONG_MS);
    if (first == SYNCED_MEM_OK)
        return false;
    ck_assert_int_eq(first, SYNCED_MEM_ERR_OWNER_DIED);
    OK(synced_mem_begin_turn(mem, side, turn, LONG_MS));
    return true;
}

/* Takes turns until the other one has ended. The contents are whole: those of one pattern, or zeros after a death. */
static void go_on(synced_mem *mem)
{
    int told = 0;
    bool is_over;
    do {
        is_over = atomic_load(&common->flags[0]) > 0;
        const bool on_device = gpu_expected() && told % 2 == 0;
        told += acquire_after_all(mem, on_device ? GPU : CPU, READ);
        if (!on_device) {
            const void *const data = synced_mem_cpu_data(mem);
            ck_assert(pattern_is(data, BYTES, 1) || pattern_is(data, BYTES, SECOND_PATTERN) ||
                      (told && pattern_is(data, BYTES, 0)));
        }
        OK(synced_mem_end_turn(mem));
    } while (!is_over);
    ck_assert_int_le(told, 1);
    told += acquire_after_all(mem, CPU, WRITE);
    ck_assert_int_le(told, 1);
    const void *const data = synced_mem_cpu_data(mem);
    ck_assert(pattern_is(data, BYTES, 1) || pattern_is(data, BYTES, SECOND_PATTERN) ||
              (told && pattern_is(data, BYTES, 0)));
    OK(synced_mem_release(mem));
}

/* The other one may be gone already. */
static void make_and_go_on(int socket)
{
    synced_mem *const mem = make_shareable(BYTES);
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, 1);
    const synced_mem_status status = synced_mem_share(mem, socket, LONG_MS);
    ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_PEER);
    OK(synced_mem_end_turn(mem));
    go_on(mem);
}

/* The message may not come. */
static void receive_and_go_on(int socket)
{
    synced_mem *mem;
    const synced_mem_status status = synced_mem_receive(&mem, socket, LONG_MS);
    ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_PEER);
    if (status == SYNCED_MEM_OK)
        go_on(mem);
}

/* Returns whether the victim got to its end. */
static bool kill_one(void (*maker)(int socket), void (*receiver)(int socket), int victim)
{
    pid_t roles[2];
    start_two(maker, receiver, roles);
    const int how = end_child(roles[victim]);
    ck_assert_msg(how == 0 || how == KILLED + SIGKILL, "step %d: %d", kill_at, how);
    raise_flag(0);
    const int other = end_child(roles[1 - victim]);
    ck_assert_msg(other == 0, "step %d: the other process: %d", kill_at, other);
    return how == 0;
}

static int first_step(void)
{
    return 1 + (int)fixture_schedule() % STRIDE;
}

START_TEST(a_maker_is_killed)
{
    for (kill_at = first_step(); !kill_one(make_to_the_end, receive_and_go_on, 0);)
        kill_at += STRIDE;
    ck_assert_int_gt(kill_at, STEPS_OF_A_MAKER);
}
END_TEST

START_TEST(a_receiver_is_killed)
{
    for (kill_at = first_step(); !kill_one(make_and_go_on, receive_to_the_end, 1);)
        kill_at += STRIDE;
    ck_assert_int_gt(kill_at, STEPS_OF_A_RECEIVER);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_kills");
    TCase *const cases = add_case_in_children(suite, "share_kills");
    add_tests(cases, a_maker_is_killed, a_receiver_is_killed);
    return suite;
}
