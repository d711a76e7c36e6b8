/* Turns of a shareable object: free ones, and those that two processes want all the time. */
#include "measure.h"
#include "report.h"
#include "suite.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096, FREE_TURNS = 20000, ROUNDS = 5000, TIMEOUT_MS = 20000 };
enum job { NOTHING, TAKE_TURNS, PLAY_PING_PONG, END };

/* The words that both processes map. */
struct common {
    _Alignas(64) atomic_uint job; /* of the other process */
    _Alignas(64) atomic_uint ball;
};

struct two {
    synced_mem *mem;
    struct common *common;
    synced_mem_turn turn;
    pid_t other;
};

static int count_turns(void)
{
    return suite.quick ? 50 : FREE_TURNS;
}

static int count_rounds(void)
{
    return suite.quick ? 20 : ROUNDS;
}

static void sleep_while(atomic_uint *word, unsigned value)
{
    while (atomic_load(word) == value)
        (void)syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void store_and_wake(atomic_uint *word, unsigned value)
{
    atomic_store(word, value);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void take_turns(synced_mem *mem, synced_mem_turn turn, int count)
{
    for (int i = 0; i < count; i++) {
        must_work(synced_mem_acquire(mem, SYNCED_MEM_SIDE_CPU, turn, TIMEOUT_MS) == SYNCED_MEM_OK);
        must_work(synced_mem_hand_over(mem) == SYNCED_MEM_OK);
    }
}

/* ---- The other process ---- */

static void return_ball(struct common *common, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        sleep_while(&common->ball, 0);
        store_and_wake(&common->ball, 0);
    }
}

static _Noreturn void be_the_other(struct common *common, int socket)
{
    synced_mem *mem;
    must_work(synced_mem_receive(&mem, socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    for (;;) {
        sleep_while(&common->job, NOTHING);
        const unsigned job = atomic_load(&common->job);
        if (job == TAKE_TURNS)
            take_turns(mem, SYNCED_MEM_TURN_WRITE, count_rounds());
        else if (job == PLAY_PING_PONG)
            return_ball(common, count_rounds());
        else
            break;
        store_and_wake(&common->job, NOTHING);
    }
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
    exit(EXIT_SUCCESS);
}

/* ---- Ways ---- */

static double take_free_turns(void *state)
{
    const struct two *const two = state;
    const double begin = seconds_now();
    take_turns(two->mem, two->turn, count_turns());
    return (seconds_now() - begin) / count_turns();
}

/* Both processes take as many turns. The time is that of one turn of each. */
static double take_turns_with_other(void *state)
{
    const struct two *const two = state;
    store_and_wake(&two->common->job, TAKE_TURNS);
    const double begin = seconds_now();
    take_turns(two->mem, SYNCED_MEM_TURN_WRITE, count_rounds());
    sleep_while(&two->common->job, TAKE_TURNS);
    return (seconds_now() - begin) / count_rounds();
}

static double play_ping_pong(void *state)
{
    const struct two *const two = state;
    store_and_wake(&two->common->job, PLAY_PING_PONG);
    const double begin = seconds_now();
    for (int i = 0; i < count_rounds(); i++) {
        store_and_wake(&two->common->ball, 1);
        sleep_while(&two->common->ball, 1);
    }
    const double end = seconds_now();
    sleep_while(&two->common->job, PLAY_PING_PONG);
    return (end - begin) / count_rounds();
}

/* ---- Rows ---- */

static struct two start_two(void)
{
    struct two two = {.turn = SYNCED_MEM_TURN_WRITE};
    int ends[2];
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    two.common = mmap(NULL, sizeof *two.common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(two.common != MAP_FAILED, "no memory");
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no socket");
    two.other = fork();
    must(two.other >= 0, "no process");
    if (two.other == 0)
        be_the_other(two.common, ends[1]);
    must_work(synced_mem_create(&two.mem, BYTES, &options) == SYNCED_MEM_OK);
    must_work(synced_mem_share(two.mem, ends[0], TIMEOUT_MS) == SYNCED_MEM_OK);
    must_work(synced_mem_hand_over(two.mem) == SYNCED_MEM_OK);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return two;
}

static void end_two(struct two *two)
{
    int how = 0;
    store_and_wake(&two->common->job, END);
    must(waitpid(two->other, &how, 0) == two->other && how == 0, "the other process failed");
    must_work(synced_mem_release(two->mem) == SYNCED_MEM_OK);
    (void)munmap(two->common, sizeof *two->common);
}

static void measure_free_turns(struct two *two)
{
    static const struct table table = {
        "turns", "free", "A turn of a shareable object that nobody else wants: acquire, hand over",
        UNIT_US, NULL,   NULL};
    static const struct way ways[] = {{"synced_mem", take_free_turns}};
    static const char *const names[] = {[SYNCED_MEM_TURN_READ] = "to read", [SYNCED_MEM_TURN_WRITE] = "to write"};
    report_table(&table);
    for (int turn = 0; turn < 2; turn++) {
        struct row row = row_of(&table, names[turn], turn);
        struct summary results[3] = {unmeasured, unmeasured, unmeasured};
        two->turn = (synced_mem_turn)turn;
        row_target(&row, VALUE, AT_MOST, 1);
        compare(ways, 1, two, results);
        report_times(&row, results, 0);
    }
}

static void measure_contended_turns(struct two *two)
{
    static const struct table table = {"turns",
                                       "contended",
                                       "Two processes that both want each turn: one turn of each",
                                       UNIT_US,
                                       "a futex there and back",
                                       NULL};
    static const struct way ways[] = {{"synced_mem", take_turns_with_other}, {"futex", play_ping_pong}};
    struct row row = row_of(&table, "to write", 2);
    struct summary results[3] = {unmeasured, unmeasured, unmeasured};
    report_table(&table);
    if (row_has_processors(&row, 2))
        row_target(&row, TO_LIMIT, AT_MOST, 1.5);
    compare(ways, 2, two, results);
    report_times(&row, results, 0);
}

void measure_turns(void)
{
    struct two two = start_two();
    measure_free_turns(&two);
    measure_contended_turns(&two);
    end_two(&two);
}
