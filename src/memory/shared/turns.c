/* Turns, by Lamport's bakery. */
#include "memory/shared/turns.h"

#include "base/status.h"

/* A participant reads its front so often before it sleeps. */
enum { POLLS = 100 };

static const uint64_t LONGEST_SLEEP = 50000000; /* nanoseconds; then the front may have died */
static const uint64_t SLEEP_FOR_CHOICE = 1000000;
static const uint64_t PATIENCE_WITH_CLEANING = 1000000;
/* Readers pass one another in a moment, one by one. A reader waits so much longer for others that only pass. */
static const uint64_t PASSING = 20000000;

/* The participants that a turn must come after, as far as is known. It only shrinks: one that was seen outside chooses
 * its next place after this one has stored its own. */
struct front {
    uint64_t members;                  /* bit i: that of index i */
    bool has_writer;                   /* one of them has a turn to write, or waits for one */
    uint64_t choosing;                 /* those that were seen to choose */
    uint64_t choices[SM_PARTICIPANTS]; /* the counts of their choices then */
};

/* ---- The line ---- */

/* Returns the lowest index of a set, which has one, and removes it. */
static unsigned take_lowest(uint64_t *set)
{
    const unsigned index = (unsigned)__builtin_ctzll(*set);
    *set &= *set - 1;
    return index;
}

/* Returns the other participants that are in the line, or whose words are malformed. */
static uint64_t get_others(const struct sm_participant *participant)
{
    return sm_line_members(participant->page) & ~((uint64_t)1 << participant->index);
}

/* Rings if one of these participants may sleep and may now go on. A malformed word may be that of one. news: for those
 * that watch. Each ring wakes all of them, so a reader among many rings for them only if they wait for it. */
static void ring_if_awaited(const struct sm_participant *participant, uint64_t among, bool news)
{
    while (among != 0) {
        struct sm_line_word other;
        const bool is_well = sm_line_read(participant->page, take_lowest(&among), &other) == SYNCED_MEM_OK;
        if (!is_well || other.kind == SM_LINE_FILL || other.kind == SM_LINE_WRITE ||
            (news && other.kind == SM_LINE_WATCH)) {
            sm_bell_ring(participant->page);
            return;
        }
    }
}

static void leave_line(struct sm_participant *participant)
{
    sm_participant_store(participant, SM_LINE_OUT, 0);
    ring_if_awaited(participant, get_others(participant), participant->has_news);
}

static synced_mem_status choose_place(const struct sm_participant *participant, uint64_t *place)
{
    uint64_t highest = 0;
    for (uint64_t others = get_others(participant); others != 0;) {
        struct sm_line_word other;
        SM_TRY(sm_line_read(participant->page, take_lowest(&others), &other));
        if (other.kind != SM_LINE_CHOOSING && other.kind != SM_LINE_WATCH && other.place > highest)
            highest = other.place;
    }
    *place = highest + 1;
    if (*place <= SM_MOST_PLACE)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "another process has taken the last place in the line");
}

static bool has_lower_place(const struct sm_line_word *other, unsigned index, const struct sm_participant *participant)
{
    const struct sm_line_word *const mine = &participant->mine;
    if (other->kind == SM_LINE_OUT || other->kind == SM_LINE_WATCH ||
        (other->kind == SM_LINE_READ && mine->kind != SM_LINE_WRITE))
        return false;
    return other->place < mine->place || (other->place == mine->place && index < participant->index);
}

/* Returns whether the participant may still be about to choose a lower place. One that has begun another choice since
 * it was seen first chooses a higher one. */
static bool may_choose_lower(struct front *front, unsigned index, uint64_t choice)
{
    const uint64_t bit = (uint64_t)1 << index;
    if (!(front->choosing & bit))
        front->choices[index] = choice;
    front->choosing |= bit;
    return front->choices[index] == choice;
}

/* Removes those that are in front no more. *choosing: one of the others chooses its place. */
static synced_mem_status shrink_front(const struct sm_participant *participant, struct front *front, bool *choosing)
{
    *choosing = false;
    front->has_writer = false;
    front->members &= sm_line_members(participant->page);
    for (uint64_t rest = front->members; rest != 0;) {
        const unsigned i = take_lowest(&rest);
        struct sm_line_word other;
        SM_TRY(sm_line_read(participant->page, i, &other));
        const bool chooses = other.kind == SM_LINE_CHOOSING;
        if (chooses ? !may_choose_lower(front, i, other.place) : !has_lower_place(&other, i, participant))
            front->members &= ~((uint64_t)1 << i);
        else
            *choosing = *choosing || chooses;
        front->has_writer = front->has_writer || ((front->members >> i & 1) && other.kind == SM_LINE_WRITE);
    }
    return SYNCED_MEM_OK;
}

static uint64_t get_shorter(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* Cleans up by the clock: others may ring all the time. One more try follows the deadline, as the front may have
 * died. */
static synced_mem_status wait_for_front(const struct sm_participant *participant, sm_deadline deadline)
{
    struct front front = {.members = ~((uint64_t)1 << participant->index)};
    sm_deadline passed = 0; /* when readers in front that only pass are gone, at the latest; 0: not known yet */
    sm_deadline clean_at = 0;
    bool is_last = false;
    for (int polls = 0;;) {
        bool choosing;
        const unsigned bell = atomic_load(&participant->page->bell);
        SM_TRY(shrink_front(participant, &front, &choosing));
        if (front.members == 0)
            return SYNCED_MEM_OK;
        /* Those in front of a turn to read that no writer excludes, at most choosing or about to read, are gone in a
         * moment. */
        if (passed == 0)
            passed = sm_now() + PASSING;
        const bool is_short = participant->mine.kind != SM_LINE_WRITE && !front.has_writer && deadline < passed;
        const uint64_t left = sm_deadline_left(is_short ? passed : deadline);
        if (polls < POLLS && (choosing || left > 0)) {
            polls++;
            continue;
        }
        if (is_last)
            return sm_fail(SYNCED_MEM_ERR_TIMEOUT, "other processes have the object in use");
        is_last = left == 0;
        const uint64_t until_clean = sm_deadline_left(clean_at);
        if (is_last || (clean_at > 0 && until_clean == 0)) {
            /* The cleaning rings. Only the last one is waited for. */
            const uint64_t patience = is_last ? SM_ERRAND_PATIENCE : PATIENCE_WITH_CLEANING;
            sm_participant_clean_up(participant, front.members, sm_now() + patience);
            clean_at = 0;
            continue;
        }
        if (clean_at == 0)
            clean_at = sm_now() + LONGEST_SLEEP;
        const uint64_t most = get_shorter(left, choosing ? SLEEP_FOR_CHOICE : LONGEST_SLEEP);
        sm_bell_sleep(participant->page, bell, get_shorter(most, sm_deadline_left(clean_at)));
    }
}

/* ---- Turns ---- */

/* Stores that a writer's contents are lost. Nobody else stores the contents meanwhile. */
static void lose_contents(struct sm_participant *participant)
{
    struct sm_contents *const contents = &participant->found;
    contents->head = SYNCED_MEM_UNINITIALIZED;
    contents->lost = true;
    contents->deaths++;
    participant->has_news = true;
    sm_contents_store(participant->page, *contents);
}

static synced_mem_status tell_death(struct sm_participant *participant, const struct sm_contents *contents)
{
    if (contents->deaths == participant->seen_deaths)
        return SYNCED_MEM_OK;
    participant->seen_deaths = contents->deaths;
    return sm_fail(SYNCED_MEM_ERR_OWNER_DIED,
                   "a process ended while it wrote the object, or abandoned its turn to write, since this process's "
                   "last turn: the contents were lost, and are UNINITIALIZED unless another process has written since");
}

synced_mem_status sm_turn_arrive(struct sm_participant *participant, bool writing, sm_deadline deadline)
{
    uint64_t place;
    struct sm_contents *const contents = &participant->found;
    participant->has_news = writing;
    sm_participant_store(participant, SM_LINE_CHOOSING, ++participant->choices);
    synced_mem_status status = choose_place(participant, &place);
    if (status == SYNCED_MEM_OK) {
        sm_participant_store(participant, writing ? SM_LINE_WRITE : SM_LINE_FILL, place);
        status = wait_for_front(participant, deadline);
    }
    if (status == SYNCED_MEM_OK)
        status = sm_contents_read(participant->page, contents);
    if (status == SYNCED_MEM_OK && contents->head == SM_CONTENTS_WRITTEN)
        lose_contents(participant); /* counts the death of a writer that is not counted yet */
    if (status == SYNCED_MEM_OK)
        status = tell_death(participant, contents);
    if (status != SYNCED_MEM_OK) {
        const struct sm_detail first = sm_detail_get();
        leave_line(participant);
        sm_detail_set(&first);
    }
    return status;
}

synced_mem_status sm_turn_start(struct sm_participant *participant, bool writing, unsigned *head)
{
    struct sm_contents contents = participant->found;
    *head = contents.head;
    if (!writing)
        return SYNCED_MEM_OK;
    if (contents.version == SM_MOST_VERSION) {
        leave_line(participant);
        return sm_fail(SYNCED_MEM_ERR_PEER, "the contents have the last version: nobody can write them any more");
    }
    contents.head = SM_CONTENTS_WRITTEN;
    sm_contents_store(participant->page, contents);
    return SYNCED_MEM_OK;
}

synced_mem_status sm_turn_wait(struct sm_participant *participant, bool writing, sm_deadline deadline, unsigned *head)
{
    SM_TRY(sm_turn_arrive(participant, writing, deadline));
    return sm_turn_start(participant, writing, head);
}

/* The contents that the turn has found are the page's: nobody else has stored them since. */
static void publish_head(struct sm_participant *participant, unsigned head)
{
    participant->found.head = head;
    sm_contents_store(participant->page, participant->found);
}

void sm_turn_read(struct sm_participant *participant, unsigned head)
{
    publish_head(participant, head);
    sm_participant_store(participant, SM_LINE_READ, participant->mine.place);
    ring_if_awaited(participant, get_others(participant), false);
}

/* One store has the head and the version, so that a death comes before both or after both. */
void sm_turn_end_write(struct sm_participant *participant, unsigned head)
{
    participant->found.version++;
    participant->found.lost = false;
    publish_head(participant, head);
    leave_line(participant);
}

void sm_turn_give_up_write(struct sm_participant *participant, unsigned head)
{
    publish_head(participant, head);
    leave_line(participant);
}

/* The others cannot tell this from a death. The participant itself knows. */
void sm_turn_abandon_write(struct sm_participant *participant)
{
    lose_contents(participant);
    participant->seen_deaths = participant->found.deaths;
    leave_line(participant);
}

void sm_turn_end_read(struct sm_participant *participant)
{
    leave_line(participant);
}

void sm_turn_ring(const struct sm_participant *participant)
{
    ring_if_awaited(participant, sm_line_members(participant->page), true);
}
