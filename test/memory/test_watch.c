/*
 * Versions, slots, and turns that wait for contents: what a wait lets in and what not, malformed words, a process that
 * is killed at each of its steps.
 */
#include "bell_kit.h"
#include "share_kit.h"
#include "steps_kit.h"

#include "base/status.h"
#include "memory/shared/watch.h"

#include <pthread.h>

enum { LONG = 100000 };

static struct shared_page made;
static struct sm_participant *me;
static struct sm_participant *other;
static unsigned head;

/* The stores to a slot are steps too. */
void __real_sm_slot_consume(struct sm_control_page *page, unsigned index, struct sm_slot read, uint64_t version);
void __wrap_sm_slot_consume(struct sm_control_page *page, unsigned index, struct sm_slot read, uint64_t version);
void __wrap_sm_slot_consume(struct sm_control_page *page, unsigned index, struct sm_slot read, uint64_t version)
{
    take_step();
    __real_sm_slot_consume(page, index, read, version);
    take_step();
}

synced_mem_status __real_sm_slot_end(struct sm_control_page *page, unsigned index);
synced_mem_status __wrap_sm_slot_end(struct sm_control_page *page, unsigned index);
synced_mem_status __wrap_sm_slot_end(struct sm_control_page *page, unsigned index)
{
    take_step();
    const synced_mem_status status = __real_sm_slot_end(page, index);
    take_step();
    return status;
}

/* The number of turns to write that come and end after the contents were read next. */
static int writes_meanwhile;
static void write_once(struct sm_participant *participant);
synced_mem_status __real_sm_contents_read(const struct sm_control_page *page, struct sm_contents *contents);
synced_mem_status __wrap_sm_contents_read(const struct sm_control_page *page, struct sm_contents *contents);
synced_mem_status __wrap_sm_contents_read(const struct sm_control_page *page, struct sm_contents *contents)
{
    const synced_mem_status status = __real_sm_contents_read(page, contents);
    const int writes = writes_meanwhile;
    writes_meanwhile = 0;
    for (int i = 0; i < writes; i++)
        write_once(other);
    return status;
}

/* The next turn finds that the contents were lost meanwhile. */
static bool loses_contents;
synced_mem_status __real_sm_turn_arrive(struct sm_participant *participant, bool writing, sm_deadline deadline);
synced_mem_status __wrap_sm_turn_arrive(struct sm_participant *participant, bool writing, sm_deadline deadline);
synced_mem_status __wrap_sm_turn_arrive(struct sm_participant *participant, bool writing, sm_deadline deadline)
{
    const synced_mem_status status = __real_sm_turn_arrive(participant, writing, deadline);
    participant->found.lost = participant->found.lost || loses_contents;
    loses_contents = false;
    return status;
}

static void open_page(void)
{
    made = make_page();
    me = join(&made);
    other = join(&made);
}

static void close_page(void)
{
    leave(me);
    leave(other);
    drop_page(&made);
}

static struct sm_contents contents_now(void)
{
    struct sm_contents contents;
    ck_assert_int_eq(sm_contents_read(made.page, &contents), SYNCED_MEM_OK);
    return contents;
}

#define VERSION_IS(wanted) ck_assert_uint_eq(contents_now().version, (wanted))

static struct sm_slot slot_now(unsigned index)
{
    struct sm_slot slot;
    ck_assert_int_eq(sm_slot_read(made.page, index, &slot), SYNCED_MEM_OK);
    return slot;
}

static struct sm_wish newer(uint64_t than)
{
    return (struct sm_wish){.kind = SM_WISH_NEWER, .version = than};
}

static struct sm_wish next_of(unsigned index)
{
    return (struct sm_wish){.kind = SM_WISH_SLOT, .index = index};
}

static struct sm_wish consumed(void)
{
    return (struct sm_wish){.kind = SM_WISH_CONSUMED, .writing = true};
}

static synced_mem_status await(struct sm_participant *participant, struct sm_wish wish, int timeout_ms)
{
    return sm_watch_and_wait(participant, &wish, sm_deadline_after(timeout_ms), &head);
}

static void begin_write(struct sm_participant *participant)
{
    ck_assert_int_eq(sm_turn_wait(participant, true, sm_deadline_after(LONG), &head), SYNCED_MEM_OK);
}

static void write_once(struct sm_participant *participant)
{
    begin_write(participant);
    sm_turn_end_write(participant, SYNCED_MEM_AT_CPU);
}

/* Reads what the slot has not consumed, and consumes it. */
static synced_mem_status consume(struct sm_participant *participant, unsigned index, int timeout_ms)
{
    struct sm_wish wish = next_of(index);
    SM_TRY(sm_watch_and_wait(participant, &wish, sm_deadline_after(timeout_ms), &head));
    sm_turn_read(participant, head);
    sm_watch_consume(participant, &wish);
    sm_turn_end_read(participant);
    return SYNCED_MEM_OK;
}

static unsigned take_slot(int wanted)
{
    unsigned index = SM_SLOTS;
    ck_assert_int_eq(sm_slot_take(made.page, wanted, &index), SYNCED_MEM_OK);
    return index;
}

/* ---- Versions ---- */

START_TEST(a_version_counts_turns_to_write_that_ended)
{
    open_page();
    VERSION_IS(0);
    write_once(me);
    VERSION_IS(1);
    begin_write(other);
    VERSION_IS(1);
    sm_turn_give_up_write(other, SYNCED_MEM_AT_CPU);
    VERSION_IS(1);
    ck_assert_uint_eq(contents_now().head, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_OK);
    sm_turn_read(me, SYNCED_MEM_SYNCED);
    VERSION_IS(1);
    sm_turn_end_read(me);
    write_once(other);
    VERSION_IS(2);
    ck_assert_uint_eq(contents_now().deaths, 0);
    close_page();
}
END_TEST

START_TEST(a_reader_gets_newer_contents_alone)
{
    open_page();
    ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_ERR_TIMEOUT);
    write_once(other);
    ck_assert_int_eq(await(me, newer(1), 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(await(me, newer(1), 20), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_OK);
    sm_turn_end_read(me);
    begin_write(other);
    ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_ERR_TIMEOUT); /* nobody reads meanwhile */
    ck_assert_int_eq(await(me, newer(0), 20), SYNCED_MEM_ERR_TIMEOUT);
    sm_turn_end_write(other, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(await(me, newer(1), 0), SYNCED_MEM_OK);
    sm_turn_end_read(me);
    ck_assert_uint_eq(sm_line_members(made.page), 0);
    close_page();
}
END_TEST

START_TEST(a_wait_for_contents_ends_in_time)
{
    const int waits[] = {0, 1, 20, 120};
    open_page();
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        uint64_t took;
        do { /* a busy machine may take longer */
            const uint64_t begin = sm_now();
            ck_assert_int_eq(await(me, newer(0), waits[i]), SYNCED_MEM_ERR_TIMEOUT);
            took = sm_now() - begin;
            ck_assert_uint_ge(took, (uint64_t)waits[i] * MILLISECOND);
        } while (took > 1000ull * MILLISECOND);
    }
    close_page();
}
END_TEST

START_TEST(the_last_version)
{
    open_page();
    struct sm_contents contents = {.head = SYNCED_MEM_AT_CPU, .version = SM_MOST_VERSION - 1};
    sm_contents_store(made.page, contents);
    write_once(me);
    VERSION_IS(SM_MOST_VERSION);
    ck_assert_int_eq(sm_turn_wait(me, true, sm_deadline_after(LONG), &head), SYNCED_MEM_ERR_PEER);
    ck_assert_int_eq(await(me, consumed(), LONG), SYNCED_MEM_ERR_PEER);
    VERSION_IS(SM_MOST_VERSION);
    ck_assert_uint_eq(contents_now().head, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(await(me, newer(SM_MOST_VERSION - 1), LONG), SYNCED_MEM_OK);
    sm_turn_end_read(me);
    ck_assert_int_eq(await(me, newer(UINT64_MAX), 0), SYNCED_MEM_ERR_TIMEOUT);
    close_page();
}
END_TEST

/* All parts of the word are there at their largest values. */
START_TEST(the_word_of_the_contents)
{
    open_page();
    const struct sm_contents all = {
        .head = SM_CONTENTS_WRITTEN, .lost = true, .deaths = UINT16_MAX, .version = SM_MOST_VERSION};
    sm_contents_store(made.page, all);
    const struct sm_contents now = contents_now();
    ck_assert_uint_eq(now.head, all.head);
    ck_assert(now.lost);
    ck_assert_uint_eq(now.deaths, all.deaths);
    ck_assert_uint_eq(now.version, all.version);
    sm_contents_store(made.page, (struct sm_contents){.head = SYNCED_MEM_SYNCED});
    ck_assert(!contents_now().lost);
    VERSION_IS(0);
    close_page();
}
END_TEST

/* ---- Slots ---- */

START_TEST(slots_are_taken_and_ended)
{
    unsigned index = 77;
    open_page();
    ck_assert_int_eq(sm_slot_end(made.page, 0), SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_uint_eq(take_slot(2), 2);
    ck_assert_int_eq(sm_slot_take(made.page, 2, &index), SYNCED_MEM_ERR_INVALID_STATE);
    for (unsigned i = 0; i < SM_SLOTS - 1; i++)
        ck_assert_uint_eq(take_slot(-1), i + (i >= 2));
    ck_assert_int_eq(sm_slot_take(made.page, -1, &index), SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_int_eq(sm_slot_take(made.page, SM_SLOTS - 1, &index), SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_uint_eq(index, 77);
    ck_assert_int_eq(sm_slot_end(made.page, SM_SLOTS - 1), SYNCED_MEM_OK);
    ck_assert_int_eq(sm_slot_end(made.page, SM_SLOTS - 1), SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_uint_eq(take_slot(-1), SM_SLOTS - 1);
    close_page();
}
END_TEST

START_TEST(a_slot_begins_with_the_next_version)
{
    open_page();
    take_slot(0);
    write_once(me);
    take_slot(1);
    begin_write(me);
    take_slot(2);
    ck_assert_int_eq(consume(other, 1, 0), SYNCED_MEM_ERR_TIMEOUT);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(consume(other, i, 0), SYNCED_MEM_OK);
        ck_assert_uint_eq(slot_now(i).version, 2);
        ck_assert_int_eq(consume(other, i, 0), SYNCED_MEM_ERR_TIMEOUT);
    }
    ck_assert_int_eq(consume(other, 3, 0), SYNCED_MEM_ERR_INVALID_STATE);
    ck_assert_uint_eq(sm_line_members(made.page), 0);
    close_page();
}
END_TEST

/* The one that takes it is slow: what is written meanwhile is not the next version. */
START_TEST(a_slot_is_taken_slowly)
{
    open_page();
    write_once(me);
    for (int writes = 0; writes < 3; writes++) {
        sm_participant_store(me, SM_LINE_WATCH, 1); /* may wait for the slot since it is there */
        writes_meanwhile = writes;
        const unsigned before = atomic_load(&made.page->bell);
        take_slot(0);
        ck_assert_uint_eq(slot_now(0).version, contents_now().version);
        ck_assert_uint_eq(atomic_load(&made.page->bell) - before, (unsigned)writes + (writes > 0));
        sm_participant_store(me, SM_LINE_OUT, 0);
        ck_assert_int_eq(consume(me, 0, 0), SYNCED_MEM_ERR_TIMEOUT);
        ck_assert_int_eq(sm_slot_end(made.page, 0), SYNCED_MEM_OK);
    }
    close_page();
}
END_TEST

START_TEST(a_writer_waits_for_each_slot)
{
    open_page();
    take_slot(0);
    take_slot(63);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_OK); /* nothing is there to consume */
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(consume(other, 0, 0), SYNCED_MEM_OK);
    ck_assert_int_eq(await(me, consumed(), 20), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(consume(other, 63, 0), SYNCED_MEM_OK);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    VERSION_IS(2);
    ck_assert_int_eq(sm_slot_end(made.page, 63), SYNCED_MEM_OK);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(sm_slot_end(made.page, 0), SYNCED_MEM_OK);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    close_page();
}
END_TEST

/* While it reads, another process ends the slot, or takes it anew, or consumes the version for it. */
START_TEST(a_reader_whose_slot_has_changed)
{
    struct sm_wish wish = next_of(0);
    open_page();
    take_slot(0);
    for (int i = 0; i < 3; i++) {
        write_once(other);
        ck_assert_int_eq(sm_watch_and_wait(me, &wish, sm_deadline_after(0), &head), SYNCED_MEM_OK);
        sm_turn_read(me, head);
        if (i == 2)
            ck_assert_int_eq(consume(other, 0, 0), SYNCED_MEM_OK);
        else
            ck_assert_int_eq(sm_watch_end_slot(other, 0), SYNCED_MEM_OK);
        if (i == 1)
            take_slot(0);
        const struct sm_slot before = slot_now(0);
        sm_watch_consume(me, &wish);
        sm_turn_end_read(me);
        ck_assert(slot_now(0).taken == before.taken);
        ck_assert_uint_eq(slot_now(0).version, before.version);
        if (i == 0)
            take_slot(0);
    }
    close_page();
}
END_TEST

START_TEST(two_read_for_one_slot)
{
    struct sm_wish mine = next_of(0), its = next_of(0);
    open_page();
    take_slot(0);
    write_once(me);
    ck_assert_int_eq(sm_watch_and_wait(me, &mine, sm_deadline_after(0), &head), SYNCED_MEM_OK);
    sm_turn_read(me, head);
    ck_assert_int_eq(sm_watch_and_wait(other, &its, sm_deadline_after(0), &head), SYNCED_MEM_OK);
    sm_turn_read(other, head);
    sm_watch_consume(me, &mine);
    sm_turn_end_read(me);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_ERR_TIMEOUT); /* the other one reads */
    sm_watch_consume(other, &its);
    sm_turn_end_read(other);
    ck_assert_uint_eq(slot_now(0).version, 1);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    close_page();
}
END_TEST

/* ---- Malformed words ---- */

START_TEST(malformed_words_are_refused)
{
    const uint64_t impossible[] = {1, SM_MOST_VERSION, (uint64_t)1 << 63 | (SM_MOST_VERSION + 1), UINT64_MAX};
    unsigned index;
    open_page();
    write_once(me);
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        take_slot(0);
        atomic_store(&made.page->slots[5], impossible[i]);
        ck_assert_int_eq(consume(me, 5, 0), SYNCED_MEM_ERR_PEER);
        ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_ERR_PEER);
        ck_assert_int_eq(sm_slot_take(made.page, 5, &index), SYNCED_MEM_ERR_INVALID_STATE);
        ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_OK);
        sm_turn_end_read(me);
        ck_assert_int_eq(sm_slot_end(made.page, 5), SYNCED_MEM_OK);
        ck_assert_int_eq(sm_slot_end(made.page, 0), SYNCED_MEM_OK);
    }
    for (unsigned bad = SM_CONTENTS_END; bad < 8; bad++) {
        atomic_store(&made.page->contents, bad);
        ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_ERR_PEER);
        ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_ERR_PEER);
        ck_assert_int_eq(sm_slot_take(made.page, 0, &index), SYNCED_MEM_ERR_PEER);
    }
    ck_assert_uint_eq(sm_line_members(made.page), 0);
    close_page();
}
END_TEST

/* The words become malformed while a participant watches. A slot that is ahead of the contents has nothing to read. */
static void *spoil_later(void *word)
{
    (void)usleep(20000);
    atomic_store((atomic_ullong *)word, 5);
    sm_bell_ring(made.page);
    return NULL;
}

START_TEST(words_become_malformed_in_a_wait)
{
    pthread_t thread;
    open_page();
    take_slot(0);
    atomic_store(&made.page->slots[0], (uint64_t)1 << 63 | 1000);
    ck_assert_int_eq(consume(me, 0, 20), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(pthread_create(&thread, NULL, spoil_later, &made.page->slots[0]), 0);
    ck_assert_int_eq(consume(me, 0, LONG), SYNCED_MEM_ERR_PEER);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, spoil_later, &made.page->contents), 0);
    ck_assert_int_eq(await(me, newer(0), LONG), SYNCED_MEM_ERR_PEER);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(sm_line_members(made.page), 0);
    close_page();
}
END_TEST

/* ---- Deaths ---- */

struct common {
    atomic_int ready;
    atomic_int go;
};
static struct common *all;

static void kill_child(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(end_child(child), KILLED + SIGKILL);
}

static int hold_write(void *unused)
{
    struct sm_participant one;
    (void)unused;
    if (sm_participant_join(&one, made.page, made.fd, sm_deadline_after(LONG)) != SYNCED_MEM_OK ||
        sm_turn_wait(&one, true, sm_deadline_after(LONG), &head) != SYNCED_MEM_OK)
        return 1;
    atomic_store(&all->ready, 1);
    (void)pause();
    return 0;
}

static void let_a_writer_die(void)
{
    atomic_store(&all->ready, 0);
    const pid_t child = start_child(hold_write, NULL);
    await_value(&all->ready, 1);
    kill_child(child);
}

/* The version stays, its contents are nobody's to read, and are written again at once. */
START_TEST(a_writer_dies_in_its_turn)
{
    all = make_common(sizeof *all);
    open_page();
    take_slot(0);
    write_once(me);
    let_a_writer_die(); /* it has overwritten what the slot has not consumed */
    VERSION_IS(1);
    ck_assert_int_eq(consume(me, 0, LONG), SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert(contents_now().lost);
    VERSION_IS(1);
    ck_assert_int_eq(consume(me, 0, 20), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(await(other, consumed(), 0), SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert_int_eq(await(other, (struct sm_wish){.kind = SM_WISH_ANY}, 0), SYNCED_MEM_OK);
    sm_turn_read(other, SYNCED_MEM_AT_CPU); /* zeros are no new contents */
    sm_turn_end_read(other);
    ck_assert_int_eq(consume(me, 0, 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(await(other, consumed(), 0), SYNCED_MEM_OK);
    sm_turn_give_up_write(other, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(consume(me, 0, 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(await(other, consumed(), 0), SYNCED_MEM_OK);
    sm_turn_end_write(other, SYNCED_MEM_AT_CPU);
    VERSION_IS(2);
    ck_assert_int_eq(consume(me, 0, 0), SYNCED_MEM_OK);
    close_page();
}
END_TEST

struct waiting {
    struct sm_participant *participant;
    struct sm_wish wish;
    synced_mem_status status;
};

/* The wait has no end but the one that the test is about. */
static void *wait_for_contents(void *argument)
{
    struct waiting *const it = argument;
    unsigned seen;
    it->status = sm_watch_and_wait(it->participant, &it->wish, sm_deadline_after(-1), &seen);
    return NULL;
}

static void await_kind(const struct sm_participant *participant, enum sm_line_kind kind)
{
    struct sm_line_word word = {.kind = SM_LINE_OUT};
    for (int i = 0; i < LONG && word.kind != kind; i++) {
        ck_assert_int_eq(sm_line_read(made.page, participant->index, &word), SYNCED_MEM_OK);
        (void)usleep(1000);
    }
    ck_assert_int_eq(word.kind, kind);
}

static void await_watcher(const struct sm_participant *participant)
{
    await_kind(participant, SM_LINE_WATCH);
    (void)usleep(2000); /* it sleeps */
}

/* To those that watch, an abandoned turn is a death that was counted. */
START_TEST(a_watcher_is_told_of_an_abandoned_turn)
{
    pthread_t thread;
    open_page();
    take_slot(0);
    write_once(me);
    sleeps_until_rung = true;
    begin_write(other);
    struct waiting it = {.participant = me, .wish = newer(1)};
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_contents, &it), 0);
    await_watcher(me);
    sm_turn_abandon_write(other);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    sleeps_until_rung = false;
    ck_assert_int_eq(it.status, SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert(contents_now().lost);
    VERSION_IS(1);
    ck_assert_uint_eq(contents_now().deaths, 1);
    ck_assert_int_eq(consume(other, 0, 0), SYNCED_MEM_ERR_TIMEOUT); /* and the one that abandoned is not told */
    ck_assert_int_eq(consume(me, 0, 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_int_eq(await(me, consumed(), 0), SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    VERSION_IS(2);
    ck_assert_int_eq(consume(other, 0, 0), SYNCED_MEM_OK);
    close_page();
}
END_TEST

START_TEST(a_watcher_is_told_of_a_death)
{
    pthread_t thread;
    all = make_common(sizeof *all);
    open_page();
    take_slot(0);
    struct waiting it = {.participant = me, .wish = next_of(0)};
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_contents, &it), 0);
    await_watcher(me);
    const pid_t child = start_child(hold_write, NULL);
    await_value(&all->ready, 1);
    kill_child(child);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(it.status, SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert_uint_eq(sm_line_members(made.page), 0);
    /* Another one watches, and is told of a death that somebody else has counted. */
    it = (struct waiting){.participant = other, .wish = newer(0)};
    ck_assert_int_eq(await(other, newer(0), 0), SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_contents, &it), 0);
    await_watcher(other);
    let_a_writer_die();
    ck_assert_int_eq(sm_turn_wait(me, true, sm_deadline_after(LONG), &head), SYNCED_MEM_ERR_OWNER_DIED);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(it.status, SYNCED_MEM_ERR_OWNER_DIED);
    close_page();
}
END_TEST

static int watch_for_ever(void *unused)
{
    struct sm_participant one;
    struct sm_wish wish = newer(0);
    (void)unused;
    if (sm_participant_join(&one, made.page, made.fd, sm_deadline_after(LONG)) != SYNCED_MEM_OK)
        return 1;
    atomic_store(&all->ready, (int)one.index);
    return sm_watch_and_wait(&one, &wish, sm_deadline_after(LONG), &head) == SYNCED_MEM_OK ? 0 : 2;
}

/* It delays nobody, and one that watches takes it out. */
START_TEST(a_watcher_dies)
{
    all = make_common(sizeof *all);
    open_page();
    const pid_t child = start_child(watch_for_ever, NULL);
    await_value(&all->ready, 2);
    struct sm_participant its = {.index = (unsigned)atomic_load(&all->ready)};
    await_watcher(&its);
    kill_child(child);
    ck_assert_int_eq(sm_turn_wait(me, true, sm_deadline_after(0), &head), SYNCED_MEM_OK);
    sm_turn_give_up_write(me, SYNCED_MEM_AT_CPU);
    ck_assert_uint_ne(sm_line_members(made.page), 0);
    for (int i = 0; i < 50 && sm_line_members(made.page) != 0; i++)
        ck_assert_int_eq(await(me, newer(0), 200), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_uint_eq(sm_line_members(made.page), 0);
    close_page();
}
END_TEST

static int watch_with_the_parents(void *participant)
{
    return await(participant, newer(0), LONG) == SYNCED_MEM_ERR_FORKED ? 0 : 1;
}

START_TEST(a_child_does_not_watch)
{
    open_page();
    ck_assert_int_eq(end_child(start_child(watch_with_the_parents, me)), 0);
    close_page();
}
END_TEST

/* ---- Two writers ---- */

static void *write_in_thread(void *participant)
{
    unsigned seen;
    if (sm_turn_wait(participant, true, sm_deadline_after(LONG), &seen) == SYNCED_MEM_OK)
        sm_turn_end_write(participant, SYNCED_MEM_AT_CPU);
    return NULL;
}

/* Both get in line for contents that every slot has consumed. When the second one has its turn, no slot has consumed
 * those of the first. */
START_TEST(a_turn_looks_again)
{
    pthread_t threads[2];
    open_page();
    struct sm_participant *const reader = join(&made);
    take_slot(0);
    ck_assert_int_eq(sm_turn_wait(reader, false, sm_deadline_after(LONG), &head), SYNCED_MEM_OK);
    sm_turn_read(reader, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(pthread_create(&threads[0], NULL, write_in_thread, other), 0);
    await_kind(other, SM_LINE_WRITE);
    struct waiting it = {.participant = me, .wish = consumed()};
    ck_assert_int_eq(pthread_create(&threads[1], NULL, wait_for_contents, &it), 0);
    await_kind(me, SM_LINE_WRITE);
    sm_turn_end_read(reader);
    ck_assert_int_eq(pthread_join(threads[0], NULL), 0);
    await_kind(me, SM_LINE_WATCH);
    VERSION_IS(1);
    ck_assert_uint_eq(contents_now().head, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(consume(other, 0, 0), SYNCED_MEM_OK);
    ck_assert_int_eq(pthread_join(threads[1], NULL), 0);
    ck_assert_int_eq(it.status, SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    leave(reader);
    close_page();
}
END_TEST

START_TEST(a_turn_that_came_in_vain)
{
    open_page();
    write_once(me);
    loses_contents = true;
    ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_uint_eq(sm_line_members(made.page), 0);
    loses_contents = true;
    ck_assert_int_eq(await(me, newer(0), LONG), SYNCED_MEM_OK); /* it tries again */
    sm_turn_end_read(me);
    close_page();
}
END_TEST

/* ---- Rings ---- */

enum { END_OF_WRITE, CONSUMPTION, END_OF_SLOT, RINGS };

static void wake_by(int ring)
{
    pthread_t thread;
    open_page();
    take_slot(0);
    if (ring != END_OF_WRITE)
        write_once(me);
    struct waiting it = {.participant = me, .wish = ring == END_OF_WRITE ? newer(0) : consumed()};
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_contents, &it), 0);
    await_watcher(me);
    if (ring == END_OF_WRITE)
        write_once(other);
    else if (ring == CONSUMPTION)
        ck_assert_int_eq(consume(other, 0, 0), SYNCED_MEM_OK);
    else
        ck_assert_int_eq(sm_watch_end_slot(me, 0), SYNCED_MEM_OK); /* by another thread of the same process */
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(it.status, SYNCED_MEM_OK);
    if (ring == END_OF_WRITE)
        sm_turn_end_read(me);
    else
        sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    close_page();
}

START_TEST(a_ring_ends_the_wait)
{
    sleeps_until_rung = true;
    for (int i = 0; i < 20 * RINGS; i++)
        wake_by(i % RINGS);
}
END_TEST

/* One ring for the new version, and one when the last slot has consumed it, however many there are: each ring wakes all
 * that watch. */
START_TEST(rings_do_not_grow_with_the_readers)
{
    open_page();
    for (unsigned readers = 1; readers <= SM_SLOTS; readers++) {
        (void)take_slot(-1);
        sm_participant_store(other, SM_LINE_WATCH, 1);
        const unsigned before = atomic_load(&made.page->bell);
        write_once(me);
        for (unsigned i = 0; i < readers; i++) {
            ck_assert_int_eq(await(me, newer(0), 0), SYNCED_MEM_OK); /* consumes nothing */
            sm_turn_read(me, head);
            sm_turn_end_read(me);
            ck_assert_uint_eq(atomic_load(&made.page->bell) - before, 1);
            ck_assert_int_eq(consume(me, i, 0), SYNCED_MEM_OK);
        }
        ck_assert_uint_eq(atomic_load(&made.page->bell) - before, 2);
        sm_participant_store(other, SM_LINE_OUT, 0);
    }
    close_page();
}
END_TEST

/* ---- Steps ---- */

static int kill_at;

/* Consumes one version and writes the next. */
static int be_reader_and_writer(void *unused)
{
    struct sm_participant one;
    struct sm_wish wish = next_of(0);
    struct sm_wish writes = consumed();
    unsigned seen;
    (void)unused;
    steps.count = 0;
    steps.kill_at = kill_at;
    if (sm_participant_join(&one, made.page, made.fd, sm_deadline_after(LONG)) != SYNCED_MEM_OK)
        return 1;
    if (sm_watch_and_wait(&one, &wish, sm_deadline_after(LONG), &seen) != SYNCED_MEM_OK)
        return 2;
    sm_turn_read(&one, SYNCED_MEM_SYNCED);
    sm_watch_consume(&one, &wish);
    sm_turn_end_read(&one);
    if (sm_watch_and_wait(&one, &writes, sm_deadline_after(LONG), &seen) != SYNCED_MEM_OK)
        return 3;
    sm_turn_end_write(&one, SYNCED_MEM_AT_CPU);
    if (sm_watch_end_slot(&one, 1) != SYNCED_MEM_OK)
        return 4;
    if (sm_watch_and_wait(&one, &writes, sm_deadline_after(2), &seen) != SYNCED_MEM_ERR_TIMEOUT)
        return 5;
    sm_participant_leave(&one);
    return 0;
}

/* Goes on from where the dead one has left: a version that was not consumed is there, one that was is not given again,
 * and one that was being written is written again. Returns the version. */
static uint64_t go_on(int step)
{
    const struct sm_contents left = contents_now();
    const bool died_writing = left.head == SM_CONTENTS_WRITTEN;
    const bool is_consumed = slot_now(0).version >= left.version;
    const bool nothing = is_consumed || died_writing;
    synced_mem_status status = consume(me, 0, died_writing || !nothing ? LONG : 0);
    if (died_writing) {
        ck_assert_msg(status == SYNCED_MEM_ERR_OWNER_DIED, "step %d: %d", step, (int)status);
        status = consume(me, 0, 0);
    }
    ck_assert_msg(status == (nothing ? SYNCED_MEM_ERR_TIMEOUT : SYNCED_MEM_OK), "step %d: %d", step, (int)status);
    VERSION_IS(left.version);
    if (slot_now(1).taken)
        ck_assert_int_eq(sm_slot_end(made.page, 1), SYNCED_MEM_OK);
    ck_assert_int_eq(await(me, consumed(), LONG), SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    VERSION_IS(left.version + 1);
    ck_assert_uint_eq(slot_now(0).version, left.version);
    return left.version + 1;
}

START_TEST(a_process_dies_at_each_step)
{
    unsigned deaths_at[3] = {0};
    bool killed = true;
    uint64_t version = 1;
    made = make_page();
    me = join(&made);
    take_slot(0);
    write_once(me);
    for (kill_at = 1; killed; kill_at++) {
        (void)take_slot(1); /* has consumed the present version */
        const int how = end_child(start_child(be_reader_and_writer, NULL));
        killed = how != 0;
        ck_assert_msg(how == 0 || how == KILLED + SIGKILL, "step %d: %d", kill_at, how);
        const uint64_t left = contents_now().version;
        ck_assert(left == version || left == version + 1);
        deaths_at[left - version + (contents_now().head == SM_CONTENTS_WRITTEN ? 2 : 0)]++;
        version = go_on(kill_at);
    }
    ck_assert_int_gt(kill_at, 30);
    ck_assert_uint_gt(deaths_at[0], 3);
    ck_assert_uint_gt(deaths_at[1], 3);
    ck_assert_uint_gt(deaths_at[2], 1);
    leave(me);
    drop_page(&made);
}
END_TEST

/* A turn whose contents are there makes no call of the system, and no store beyond those of a turn and the slot. */
START_TEST(contents_that_are_there_cost_no_call)
{
    enum { STORES_TO_WRITE = 5, STORES_TO_READ = 6 };
    open_page();
    take_slot(0);
    steps.count = 0;
    steps.calls = 0;
    ck_assert_int_eq(await(me, consumed(), -1), SYNCED_MEM_OK);
    sm_turn_end_write(me, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(steps.count, 2 * STORES_TO_WRITE);
    ck_assert_int_eq(consume(me, 0, -1), SYNCED_MEM_OK);
    ck_assert_int_eq(steps.count, 2 * (STORES_TO_WRITE + STORES_TO_READ));
    ck_assert_int_eq(steps.calls, 0);
    close_page();
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("watch");
    TCase *const cases = add_case(suite, "watch");
    add_tests(cases, a_version_counts_turns_to_write_that_ended, a_reader_gets_newer_contents_alone,
              a_wait_for_contents_ends_in_time, the_last_version, the_word_of_the_contents, slots_are_taken_and_ended,
              a_slot_begins_with_the_next_version, a_slot_is_taken_slowly, a_writer_waits_for_each_slot,
              a_reader_whose_slot_has_changed, two_read_for_one_slot, malformed_words_are_refused,
              words_become_malformed_in_a_wait, a_writer_dies_in_its_turn, a_watcher_is_told_of_a_death,
              a_watcher_is_told_of_an_abandoned_turn, a_watcher_dies, a_child_does_not_watch, a_turn_looks_again,
              a_turn_that_came_in_vain, a_ring_ends_the_wait, rings_do_not_grow_with_the_readers,
              a_process_dies_at_each_step, contents_that_are_there_cost_no_call);
    return suite;
}
