/* Turns of processes: exclusion, order of arrival, timeouts. */
#include "bell_kit.h"
#include "share_kit.h"

enum { KIDS = 4, ROUNDS = 300, TRIES = 2000, LONG_MS = 60000 };

static unsigned head;

static synced_mem_status try_turn(struct sm_participant *participant, bool writing)
{
    return sm_turn_wait(participant, writing, sm_deadline_after(0), &head);
}

static synced_mem_status await_turn(struct sm_participant *participant, bool writing)
{
    return sm_turn_wait(participant, writing, sm_deadline_after(LONG_MS), &head);
}

static void take_turn(struct sm_participant *participant, bool writing)
{
    ck_assert_int_eq(await_turn(participant, writing), SYNCED_MEM_OK);
}

/* ---- One process ---- */

START_TEST(readers_share_and_writers_do_not)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made);
    struct sm_participant *const other = join(&made);
    take_turn(one, true);
    ck_assert_uint_eq(head, SYNCED_MEM_UNINITIALIZED);
    ck_assert_int_eq(try_turn(other, true), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(try_turn(other, false), SYNCED_MEM_ERR_TIMEOUT);
    sm_turn_end_write(one, SYNCED_MEM_AT_CPU);
    take_turn(other, false);
    ck_assert_uint_eq(head, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(try_turn(one, false), SYNCED_MEM_ERR_TIMEOUT); /* the other one may fill a side */
    sm_turn_read(other, SYNCED_MEM_SYNCED);
    ck_assert_int_eq(try_turn(one, true), SYNCED_MEM_ERR_TIMEOUT);
    take_turn(one, false);
    ck_assert_uint_eq(head, SYNCED_MEM_SYNCED);
    sm_turn_read(one, SYNCED_MEM_SYNCED);
    sm_turn_end_read(one);
    ck_assert_int_eq(try_turn(one, true), SYNCED_MEM_ERR_TIMEOUT);
    sm_turn_end_read(other);
    take_turn(one, true);
    sm_turn_end_write(one, SYNCED_MEM_AT_GPU);
    leave(one);
    leave(other);
    drop_page(&made);
}
END_TEST

START_TEST(as_many_as_fit)
{
    struct shared_page made = make_page();
    struct sm_participant *all[SM_PARTICIPANTS];
    struct sm_participant more;
    for (int i = 0; i < SM_PARTICIPANTS; i++)
        all[i] = join(&made);
    ck_assert_int_eq(sm_participant_join(&more, made.page, made.fd, sm_deadline_after(LONG_MS)),
                     SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_ptr_null(more.lock);
    for (int i = 0; i < SM_PARTICIPANTS; i++) {
        take_turn(all[i], true);
        sm_turn_end_write(all[i], SYNCED_MEM_AT_CPU);
    }
    leave(all[SM_PARTICIPANTS / 2]);
    ck_assert_int_eq(sm_participant_join(&more, made.page, made.fd, sm_deadline_after(LONG_MS)), SYNCED_MEM_OK);
    ck_assert_uint_eq(more.index, SM_PARTICIPANTS / 2);
    sm_participant_leave(&more);
    for (int i = 0; i < SM_PARTICIPANTS; i++)
        if (i != SM_PARTICIPANTS / 2)
            leave(all[i]);
    drop_page(&made);
}
END_TEST

START_TEST(a_wait_ends_in_time)
{
    struct shared_page made = make_page();
    struct sm_participant *const one = join(&made);
    struct sm_participant *const other = join(&made);
    take_turn(one, true);
    const int waits[] = {0, 1, 20, 120};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        uint64_t took;
        do { /* a busy machine may take longer */
            const uint64_t begin = sm_now();
            ck_assert_int_eq(sm_turn_wait(other, i % 2, sm_deadline_after(waits[i]), &head), SYNCED_MEM_ERR_TIMEOUT);
            took = sm_now() - begin;
            ck_assert_uint_ge(took, (uint64_t)waits[i] * MILLISECOND);
        } while (took > 1000ull * MILLISECOND);
    }
    leave(one);
    leave(other);
    drop_page(&made);
}
END_TEST

/* Other processes can use the futex in ways that make a sleep fail. It then takes its time all the same. */
START_TEST(a_sleep_that_fails)
{
    const uint64_t begin = sm_now();
    sm_bell_sleep((struct sm_control_page *)(uintptr_t)SM_MEMFD_PAGE, 0, 5 * MILLISECOND);
    ck_assert_uint_ge(sm_now() - begin, 5 * MILLISECOND);
}
END_TEST

/* ---- Several ---- */

struct common {
    struct shared_page made;
    atomic_int inside;
    atomic_int readers;
    atomic_int most_readers;
    atomic_int ready;
    atomic_int go;
    int counter; /* not atomic: the turns exclude one another */
    int order[SM_PARTICIPANTS];
};

/* Every third turn is to read. */
static int take_many_turns(void *argument)
{
    struct common *const all = argument;
    struct sm_participant me;
    unsigned at;
    if (sm_participant_join(&me, all->made.page, all->made.fd, sm_deadline_after(LONG_MS)) != SYNCED_MEM_OK)
        return 1;
    for (int i = 0; i < ROUNDS; i++) {
        const bool writing = i % 3 > 0;
        if (sm_turn_wait(&me, writing, sm_deadline_after(-1), &at) != SYNCED_MEM_OK)
            return 2;
        if (writing) {
            if (atomic_fetch_add(&all->inside, 1) != 0 || atomic_load(&all->readers) != 0)
                return 3;
            const int before = all->counter;
            if (i % 50 == 1)
                (void)usleep(300);
            all->counter = before + 1;
            (void)atomic_fetch_sub(&all->inside, 1);
            sm_turn_end_write(&me, SYNCED_MEM_AT_CPU);
        } else {
            sm_turn_read(&me, at);
            const int readers = atomic_fetch_add(&all->readers, 1) + 1;
            if (atomic_load(&all->inside) != 0)
                return 4;
            if (readers > atomic_load(&all->most_readers))
                atomic_store(&all->most_readers, readers);
            if (i % 50 == 0)
                (void)usleep(300);
            (void)atomic_fetch_sub(&all->readers, 1);
            sm_turn_end_read(&me);
        }
    }
    sm_participant_leave(&me);
    return 0;
}

enum { MOST_TIMEOUTS = 254 }; /* an exit status has no more */

/* A turn to read that is tried once, beside other readers. Returns how many of the tries have timed out. */
static int try_to_read(void *argument)
{
    struct common *const all = argument;
    struct sm_participant me;
    unsigned seen;
    int timeouts = 0;
    if (sm_participant_join(&me, all->made.page, all->made.fd, sm_deadline_after(LONG_MS)) != SYNCED_MEM_OK)
        return MOST_TIMEOUTS + 1;
    atomic_fetch_add(&all->ready, 1);
    await_value(&all->go, 1);
    for (int i = 0; i < TRIES; i++) {
        const synced_mem_status status = sm_turn_wait(&me, false, sm_deadline_after(0), &seen);
        timeouts += status == SYNCED_MEM_ERR_TIMEOUT;
        if (status != SYNCED_MEM_OK)
            continue;
        sm_turn_read(&me, seen);
        sm_turn_end_read(&me);
    }
    sm_participant_leave(&me);
    return timeouts < MOST_TIMEOUTS ? timeouts : MOST_TIMEOUTS;
}

/* Returns the most tries of a reader that have timed out. */
static int read_beside_others(struct common *all)
{
    enum { READERS = 4 };
    pid_t kids[READERS];
    int most = 0;
    all->made = make_page();
    atomic_store(&all->ready, 0);
    atomic_store(&all->go, 0);
    for (int i = 0; i < READERS; i++)
        kids[i] = start_child(try_to_read, all);
    await_value(&all->ready, READERS);
    atomic_store(&all->go, 1);
    for (int i = 0; i < READERS; i++) {
        const int timeouts = end_child(kids[i]);
        ck_assert_int_le(timeouts, MOST_TIMEOUTS);
        most = timeouts > most ? timeouts : most;
    }
    drop_page(&all->made);
    return most;
}

/* Nobody excludes a reader from others. On a busy machine one of them may be held up while it passes, but hardly in
 * each round. */
START_TEST(readers_alone_are_let_in_at_once)
{
    struct common *const all = make_common(sizeof *all);
    int most = TRIES;
    for (int round = 0; round < 50 && most > TRIES / 10; round++)
        most = read_beside_others(all);
    ck_assert_int_le(most, TRIES / 10);
}
END_TEST

START_TEST(processes_exclude_one_another)
{
    struct common *const all = make_common(sizeof *all);
    pid_t kids[KIDS];
    all->made = make_page();
    for (int i = 0; i < KIDS; i++)
        kids[i] = start_child(take_many_turns, all);
    for (int i = 0; i < KIDS; i++)
        ck_assert_int_eq(end_child(kids[i]), 0);
    ck_assert_int_eq(all->counter, KIDS * ROUNDS / 3 * 2);
    drop_page(&all->made);
}
END_TEST

static int wait_and_note(void *argument)
{
    struct common *const all = argument;
    struct sm_participant me;
    unsigned at;
    if (sm_participant_join(&me, all->made.page, all->made.fd, sm_deadline_after(LONG_MS)) != SYNCED_MEM_OK)
        return 1;
    const int number = atomic_load(&all->ready);
    if (sm_turn_wait(&me, number % 2 == 0, sm_deadline_after(LONG_MS), &at) != SYNCED_MEM_OK)
        return 2;
    all->order[all->counter++] = number;
    if (number % 2 == 0) {
        sm_turn_end_write(&me, at);
    } else {
        sm_turn_read(&me, at);
        sm_turn_end_read(&me);
    }
    return 0;
}

static bool is_in_line(const struct sm_control_page *page, int count)
{
    int in_line = 0;
    for (unsigned i = 0; i < SM_PARTICIPANTS; i++) {
        struct sm_line_word place;
        ck_assert_int_eq(sm_line_read(page, i, &place), SYNCED_MEM_OK);
        in_line += place.kind > SM_LINE_CHOOSING;
    }
    return in_line == count;
}

START_TEST(turns_come_in_order_of_arrival)
{
    enum { MANY = 12 };
    struct common *const all = make_common(sizeof *all);
    pid_t kids[MANY];
    all->made = make_page();
    struct sm_participant *const me = join(&all->made);
    take_turn(me, true);
    for (int i = 0; i < MANY; i++) {
        atomic_store(&all->ready, i);
        kids[i] = start_child(wait_and_note, all);
        while (!is_in_line(all->made.page, i + 2))
            (void)usleep(200);
    }
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(end_child(kids[i]), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(all->order[i], i);
    leave(me);
    drop_page(&all->made);
}
END_TEST

START_TEST(a_ring_ends_the_sleep)
{
    struct common *const all = make_common(sizeof *all);
    all->made = make_page();
    struct sm_participant *const me = join(&all->made);
    sleeps_until_rung = true;
    for (int i = 0; i < 20; i++) {
        take_turn(me, true);
        atomic_store(&all->ready, 0);
        all->counter = 0;
        const pid_t kid = start_child(wait_and_note, all);
        while (!is_in_line(all->made.page, 2))
            (void)usleep(200);
        (void)usleep(2000);
        sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
        ck_assert_int_eq(end_child(kid), 0);
    }
    leave(me);
    drop_page(&all->made);
}
END_TEST

/* ---- Deaths ---- */

/* Joins, does what argument->go says, and stays until it is killed. */
static int hold_a_turn(void *argument)
{
    struct common *const all = argument;
    struct sm_participant me;
    unsigned at;
    if (sm_participant_join(&me, all->made.page, all->made.fd, sm_deadline_after(LONG_MS)) != SYNCED_MEM_OK)
        return 1;
    if (sm_turn_wait(&me, atomic_load(&all->go) == SM_LINE_WRITE, sm_deadline_after(LONG_MS), &at) != SYNCED_MEM_OK)
        return 2;
    if (atomic_load(&all->go) == SM_LINE_READ)
        sm_turn_read(&me, at);
    atomic_store(&all->ready, 1);
    (void)pause();
    return 3;
}

static pid_t start_holder(struct common *all, enum sm_line_kind kind)
{
    atomic_store(&all->go, (int)kind);
    atomic_store(&all->ready, 0);
    const pid_t kid = start_child(hold_a_turn, all);
    await_value(&all->ready, 1);
    return kid;
}

static void kill_child(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(end_child(child), KILLED + SIGKILL);
}

START_TEST(a_writer_dies)
{
    struct common *const all = make_common(sizeof *all);
    all->made = make_page();
    struct sm_participant *const me = join(&all->made);
    struct sm_participant *const other = join(&all->made);
    take_turn(me, true);
    sm_turn_end_write(me, SYNCED_MEM_SYNCED);
    for (int i = 0; i < 2; i++) {
        kill_child(start_holder(all, SM_LINE_WRITE));
        ck_assert_int_eq(await_turn(me, i == 0), SYNCED_MEM_ERR_OWNER_DIED);
        take_turn(me, true);
        ck_assert_uint_eq(head, SYNCED_MEM_UNINITIALIZED);
        sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
        ck_assert_int_eq(await_turn(other, i == 0), SYNCED_MEM_ERR_OWNER_DIED); /* each is told */
        take_turn(other, false);
        ck_assert_uint_eq(head, SYNCED_MEM_AT_CPU);
        sm_turn_end_read(other);
    }
    struct sm_participant *const later = join(&all->made); /* it shares what was written since */
    take_turn(later, false);
    leave(later);
    leave(other);
    leave(me);
    drop_page(&all->made);
}
END_TEST

START_TEST(a_reader_dies)
{
    struct common *const all = make_common(sizeof *all);
    all->made = make_page();
    struct sm_participant *const me = join(&all->made);
    for (int i = 0; i < 2; i++) {
        take_turn(me, true);
        sm_turn_end_write(me, SYNCED_MEM_AT_GPU);
        kill_child(start_holder(all, i == 0 ? SM_LINE_READ : SM_LINE_FILL));
        take_turn(me, true);
        ck_assert_uint_eq(head, SYNCED_MEM_AT_GPU);
        sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    }
    leave(me);
    drop_page(&all->made);
}
END_TEST

/* A death while somebody waits, who sleeps by then. Others that come and go ring all the time. */
START_TEST(a_death_ends_a_wait)
{
    struct common *const all = make_common(sizeof *all);
    all->made = make_page();
    for (int rings = 0; rings < 2; rings++) {
        struct sm_participant *const me = join(&all->made);
        struct sm_participant *const other = join(&all->made);
        const pid_t holder = start_holder(all, SM_LINE_READ);
        all->counter = 0;
        atomic_store(&all->ready, 0);
        const pid_t waiter = start_child(wait_and_note, all);
        while (!is_in_line(all->made.page, 2))
            (void)usleep(200);
        kill_child(holder);
        const uint64_t begin = sm_now();
        while (rings && sm_now() < begin + 300ull * MILLISECOND && !is_in_line(all->made.page, 0))
            if (try_turn(other, false) == SYNCED_MEM_OK)
                sm_turn_end_read(other);
        ck_assert_int_eq(end_child(waiter), 0);
        ck_assert_uint_lt(sm_now() - begin, 30000ull * MILLISECOND); /* the wait could go on for 60 s */
        leave(me);
        leave(other);
    }
    drop_page(&all->made);
}
END_TEST

/* One that joins has the dead one's index, and nobody waits for its word any more. */
START_TEST(an_index_is_used_again)
{
    struct common *const all = make_common(sizeof *all);
    all->made = make_page();
    struct sm_participant *const me = join(&all->made);
    const pid_t holder = start_holder(all, SM_LINE_READ);
    kill_child(holder);
    struct sm_participant *const next = join(&all->made);
    ck_assert_uint_eq(next->index, 1);
    take_turn(me, true);
    leave(me);
    leave(next);
    drop_page(&all->made);
}
END_TEST

/* A forked child is none of its parent's participants: it neither keeps one alive, nor ends one. */
static int outlive_parent(void *argument)
{
    struct common *const all = argument;
    atomic_store(&all->ready, 1);
    while (!atomic_load(&all->go))
        (void)usleep(200);
    return 0;
}

static int fork_and_die(void *argument)
{
    struct common *const all = argument;
    struct sm_participant me;
    unsigned at;
    if (sm_participant_join(&me, all->made.page, all->made.fd, sm_deadline_after(LONG_MS)) != SYNCED_MEM_OK)
        return 1;
    if (sm_turn_wait(&me, true, sm_deadline_after(0), &at) != SYNCED_MEM_OK)
        return 2;
    if (fork() == 0)
        _exit(outlive_parent(all));
    while (!atomic_load(&all->ready))
        (void)usleep(200);
    return 7;
}

START_TEST(a_child_is_no_participant)
{
    struct common *const all = make_common(sizeof *all);
    all->made = make_page();
    struct sm_participant *const me = join(&all->made);
    ck_assert_int_eq(end_child(start_child(fork_and_die, all)), 7);
    ck_assert_int_eq(await_turn(me, true), SYNCED_MEM_ERR_OWNER_DIED);
    take_turn(me, true);
    atomic_store(&all->go, 1);
    leave(me);
    drop_page(&all->made);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("turns");
    TCase *const cases = add_case(suite, "turns");
    add_tests(cases, readers_share_and_writers_do_not, as_many_as_fit, a_wait_ends_in_time, a_sleep_that_fails,
              readers_alone_are_let_in_at_once, processes_exclude_one_another, turns_come_in_order_of_arrival,
              a_ring_ends_the_sleep, a_writer_dies, a_reader_dies, a_death_ends_a_wait, an_index_is_used_again,
              a_child_is_no_participant);
    return suite;
}
