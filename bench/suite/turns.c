/* Turns of a shareable object: free ones, and those that two processes want all the time. */
#include "measure.h"
#include "other.h"
#include "report.h"
#include "suite.h"

enum { BYTES = 4096, FREE_TURNS = 20000, ROUNDS = 5000, TIMEOUT_MS = 20000 };
enum job { TAKE_TURNS = 1, PLAY_PING_PONG };

struct two {
    synced_mem *mem;
    struct other other;
    synced_mem_turn turn;
};

static int count_turns(void)
{
    return suite.quick ? 50 : FREE_TURNS;
}

static int count_rounds(void)
{
    return suite.quick ? 20 : ROUNDS;
}

static void take_turns(synced_mem *mem, synced_mem_turn turn, int count)
{
    for (int i = 0; i < count; i++) {
        must_work(synced_mem_begin_turn(mem, SYNCED_MEM_SIDE_CPU, turn, TIMEOUT_MS) == SYNCED_MEM_OK);
        must_work(synced_mem_end_turn(mem) == SYNCED_MEM_OK);
    }
}

/* ---- The other process ---- */

static void return_ball(struct other_words *words, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        sleep_while(&words->ball, 0);
        store_and_wake(&words->ball, 0);
    }
}

static void be_the_other(struct other_words *words, int socket)
{
    synced_mem *mem;
    unsigned job;
    must_work(synced_mem_receive(&mem, socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    while ((job = other_next(words)) != 0) {
        if (job == TAKE_TURNS)
            take_turns(mem, SYNCED_MEM_TURN_WRITE, count_rounds());
        else
            return_ball(words, count_rounds());
        other_done(words);
    }
    must_work(synced_mem_release(mem) == SYNCED_MEM_OK);
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
    other_begin(&two->other, TAKE_TURNS);
    const double begin = seconds_now();
    take_turns(two->mem, SYNCED_MEM_TURN_WRITE, count_rounds());
    other_wait(&two->other);
    return (seconds_now() - begin) / count_rounds();
}

static double play_ping_pong(void *state)
{
    const struct two *const two = state;
    other_begin(&two->other, PLAY_PING_PONG);
    const double begin = seconds_now();
    for (int i = 0; i < count_rounds(); i++) {
        store_and_wake(&two->other.words->ball, 1);
        sleep_while(&two->other.words->ball, 1);
    }
    const double end = seconds_now();
    other_wait(&two->other);
    return (end - begin) / count_rounds();
}

/* ---- Rows ---- */

static struct two start_two(void)
{
    struct two two = {.other = other_start(be_the_other)};
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    must_work(synced_mem_create(&two.mem, BYTES, &options) == SYNCED_MEM_OK);
    must_work(synced_mem_share(two.mem, two.other.socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    must_work(synced_mem_end_turn(two.mem) == SYNCED_MEM_OK);
    return two;
}

static void end_two(struct two *two)
{
    other_end(&two->other);
    must_work(synced_mem_release(two->mem) == SYNCED_MEM_OK);
}

static void measure_free_turns(struct two *two)
{
    static const struct table table = {
        "turns", "free", "A turn of a shareable object that nobody else wants: begin, end", UNIT_US, NULL, NULL};
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
