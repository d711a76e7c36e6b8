/* Turns that begin once the contents are as wished. */
#include "memory/shared/watch.h"

#include "base/status.h"

/* A participant reads the contents so often before it sleeps. */
enum { POLLS = 100 };

static const uint64_t LONGEST_SLEEP = 50000000; /* nanoseconds; then a writer may have died */
static const uint64_t PATIENCE_WITH_CLEANING = 1000000;

/* ---- Wishes ---- */

/* Contents that a death took are nobody's to read, and may be written again at once. */
static synced_mem_status is_granted(const struct sm_control_page *page, struct sm_wish *wish,
                                    const struct sm_contents *contents, bool *granted)
{
    switch (wish->kind) {
    case SM_WISH_NEWER:
        *granted = !contents->lost && contents->version > wish->version;
        return SYNCED_MEM_OK;
    case SM_WISH_SLOT:
        SM_TRY(sm_slot_read_taken(page, wish->index, &wish->slot));
        *granted = !contents->lost && contents->version > wish->slot.version;
        return SYNCED_MEM_OK;
    case SM_WISH_CONSUMED:
        SM_TRY(sm_slots_have_consumed(page, contents->version, granted));
        *granted = *granted || contents->lost;
        return SYNCED_MEM_OK;
    case SM_WISH_ANY:
        break;
    }
    *granted = true;
    return SYNCED_MEM_OK;
}

/* ---- Watching ---- */

static uint64_t get_others(const struct sm_participant *participant)
{
    return sm_line_members(participant->page) & ~((uint64_t)1 << participant->index);
}

/* A word that is malformed may be a writer's. */
static bool is_anyone_writing(const struct sm_participant *participant)
{
    for (uint64_t others = get_others(participant); others != 0; others &= others - 1) {
        struct sm_line_word other;
        if (sm_line_read(participant->page, (unsigned)__builtin_ctzll(others), &other) != SYNCED_MEM_OK ||
            other.kind == SM_LINE_WRITE)
            return true;
    }
    return false;
}

/* Sets *may_begin: the participant has a reason to get in line. The contents are as wished, or it is to be told of a
 * death, or a dead writer has left the line and its death is to be counted. */
static synced_mem_status look(const struct sm_participant *participant, struct sm_wish *wish, bool *may_begin)
{
    struct sm_contents contents;
    SM_TRY(sm_contents_read(participant->page, &contents));
    if (contents.head == SM_CONTENTS_WRITTEN) {
        *may_begin = !is_anyone_writing(participant);
        return SYNCED_MEM_OK;
    }
    SM_TRY(is_granted(participant->page, wish, &contents, may_begin));
    *may_begin = *may_begin || contents.deaths != participant->seen_deaths;
    return SYNCED_MEM_OK;
}

static synced_mem_status fail_in_time(const struct sm_wish *wish)
{
    if (wish->kind == SM_WISH_CONSUMED)
        return sm_fail(SYNCED_MEM_ERR_TIMEOUT, "not every reader with a slot has consumed the contents");
    return sm_fail(SYNCED_MEM_ERR_TIMEOUT, "no process has written newer contents");
}

/* Takes dead participants out of the line, so that one that was writing is found. */
static void clean_up(const struct sm_participant *participant, uint64_t patience)
{
    const uint64_t others = get_others(participant);
    if (others != 0)
        sm_participant_clean_up(participant, others, sm_now() + patience);
}

static bool is_written(const struct sm_participant *participant)
{
    struct sm_contents contents;
    return sm_contents_read(participant->page, &contents) == SYNCED_MEM_OK && contents.head == SM_CONTENTS_WRITTEN;
}

/* The participant's word is stored before the contents are read: whoever stores the contents or a slot later rings. One
 * more look follows the deadline, as the writer may have died. */
static synced_mem_status watch(struct sm_participant *participant, struct sm_wish *wish, sm_deadline deadline)
{
    sm_deadline clean_at = 0;
    bool is_last = false;
    sm_participant_store(participant, SM_LINE_WATCH, 1);
    for (int polls = 0;;) {
        bool may_begin;
        const unsigned bell = atomic_load(&participant->page->bell);
        SM_TRY(sm_participant_check_process(participant));
        SM_TRY(look(participant, wish, &may_begin));
        if (may_begin)
            return SYNCED_MEM_OK;
        const uint64_t left = sm_deadline_left(deadline);
        if (polls < POLLS && left > 0) {
            polls++;
            continue;
        }
        if (is_last || (left == 0 && !is_written(participant)))
            return fail_in_time(wish);
        is_last = left == 0;
        if (clean_at == 0 && !is_last)
            clean_at = sm_now() + LONGEST_SLEEP;
        const uint64_t until_clean = sm_deadline_left(clean_at);
        if (is_last || until_clean == 0) {
            clean_up(participant, is_last ? SM_ERRAND_PATIENCE : PATIENCE_WITH_CLEANING);
            clean_at = 0;
            continue;
        }
        sm_bell_sleep(participant->page, bell, left < until_clean ? left : until_clean);
    }
}

/* The first look needs no word in the line. */
static synced_mem_status watch_unless_granted(struct sm_participant *participant, struct sm_wish *wish,
                                              sm_deadline deadline)
{
    bool may_begin;
    SM_TRY(look(participant, wish, &may_begin));
    if (may_begin)
        return SYNCED_MEM_OK;
    const synced_mem_status status = watch(participant, wish, deadline);
    if (status != SYNCED_MEM_OK)
        sm_participant_store(participant, SM_LINE_OUT, 0);
    return status;
}

/* ---- Turns ---- */

/* Another participant may have had a turn since the look. *granted: this one has its turn. */
static synced_mem_status try_turn(struct sm_participant *participant, struct sm_wish *wish, sm_deadline deadline,
                                  bool *granted)
{
    SM_TRY(sm_turn_arrive(participant, wish->writing, deadline));
    const synced_mem_status status = is_granted(participant->page, wish, &participant->found, granted);
    if (status == SYNCED_MEM_OK && *granted)
        return SYNCED_MEM_OK;
    const struct sm_detail first = sm_detail_get();
    sm_turn_end_read(participant);
    sm_detail_set(&first);
    return status;
}

synced_mem_status sm_watch_and_wait(struct sm_participant *participant, struct sm_wish *wish, sm_deadline deadline,
                                    unsigned *head)
{
    bool granted = false;
    while (!granted) {
        if (wish->kind != SM_WISH_ANY)
            SM_TRY(watch_unless_granted(participant, wish, deadline));
        SM_TRY(try_turn(participant, wish, deadline, &granted));
        if (!granted && sm_deadline_left(deadline) == 0)
            return fail_in_time(wish);
    }
    return sm_turn_start(participant, wish->writing, head);
}

/* Of those that watch, only a writer can wait for a reader, and only for the last one that consumes. */
void sm_watch_consume(struct sm_participant *participant, const struct sm_wish *wish)
{
    const uint64_t version = participant->found.version;
    bool consumed;
    sm_slot_consume(participant->page, wish->index, wish->slot, version);
    participant->has_news = sm_slots_have_consumed(participant->page, version, &consumed) != SYNCED_MEM_OK || consumed;
}

synced_mem_status sm_watch_end_slot(struct sm_participant *participant, unsigned index)
{
    SM_TRY(sm_slot_end(participant->page, index));
    sm_turn_ring(participant);
    return SYNCED_MEM_OK;
}
