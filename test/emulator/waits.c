/*
 * Waits, identified by the calls that lead to them, and waits that a test drops by their place.
 */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The emulator's own frames come before the program's. */
#define OWN_FRAMES 8
#define CHAIN_RULES 64
#define KNOWN_PLACES 256

/* Return addresses in this process. Tests get them relative to their object. */
struct chain {
    enum emu_call call;
    unsigned depth;
    const void *frames[EMU_WAIT_DEPTH];
};

struct noted {
    struct chain chain;
    unsigned count;
};

static struct {
    bool noting;
    struct noted *noted;
    size_t count, room;
    struct emu_wait_place chains[CHAIN_RULES];
    size_t chain_count;
    struct emu_place places[CHAIN_RULES];
    size_t place_count;
    unsigned dropped;
} waits;

/* ---- Places ---- */

/* The dynamic linker searches all symbols for an address. The lock is held. */
static struct emu_place place_of(const void *address)
{
    static struct {
        const void *address;
        struct emu_place place;
    } known[KNOWN_PLACES];
    const size_t slot = (size_t)address % KNOWN_PLACES;
    if (known[slot].address != address || known[slot].place.object == NULL) {
        known[slot].place = emu_place_of(address);
        known[slot].address = address;
    }
    return known[slot].place;
}

static bool same_place(const struct emu_place *one, const struct emu_place *other)
{
    return one->offset == other->offset && strcmp(one->object, other->object) == 0;
}

/* ---- Chains ---- */

/* The program's frames begin with the return address of the current call. */
static void take_chain(struct chain *chain, enum emu_call call)
{
    const void *frames[OWN_FRAMES + EMU_WAIT_DEPTH];
    const void *site = emu_self()->origin.site;
    const unsigned count = emu_frames(frames, OWN_FRAMES + EMU_WAIT_DEPTH);
    unsigned first = 0;
    while (first < count && frames[first] != site)
        first++;
    *chain = (struct chain){.call = call};
    if (first == count)
        chain->frames[chain->depth++] = site;
    for (unsigned i = first; i < count && chain->depth < EMU_WAIT_DEPTH; i++)
        chain->frames[chain->depth++] = frames[i];
}

static struct emu_wait_place describe(const struct noted *noted)
{
    struct emu_wait_place place = {.call = emu_call_names[noted->chain.call], .depth = noted->chain.depth};
    for (unsigned i = 0; i < place.depth; i++)
        place.chain[i] = place_of(noted->chain.frames[i]);
    place.count = noted->count;
    return place;
}

static bool same_chain(const struct emu_wait_place *one, const struct emu_wait_place *other)
{
    if (strcmp(one->call, other->call) != 0 || one->depth != other->depth)
        return false;
    for (unsigned i = 0; i < one->depth; i++)
        if (!same_place(&one->chain[i], &other->chain[i]))
            return false;
    return true;
}

/* ---- Noting and dropping ---- */

static void note(const struct chain *chain)
{
    for (size_t i = 0; i < waits.count; i++) {
        if (memcmp(&waits.noted[i].chain, chain, sizeof *chain) == 0) {
            waits.noted[i].count++;
            return;
        }
    }
    if (waits.count == waits.room) {
        const size_t room = waits.room == 0 ? 64 : 2 * waits.room;
        struct noted *noted = realloc(waits.noted, room * sizeof *noted);
        if (noted == NULL)
            abort();
        waits.noted = noted;
        waits.room = room;
    }
    memset(&waits.noted[waits.count], 0, sizeof *waits.noted);
    memcpy(&waits.noted[waits.count].chain, chain, sizeof *chain);
    waits.noted[waits.count++].count = 1;
}

/* Finding all calls that lead to a wait takes long. The last one, the program's call of the runtime, is known. */
static bool has_rules_for(enum emu_call call)
{
    if (waits.place_count > 0)
        return true;
    if (waits.chain_count == 0)
        return false;
    const struct emu_place site = place_of(emu_self()->origin.site);
    for (size_t i = 0; i < waits.chain_count; i++) {
        const struct emu_wait_place *const rule = &waits.chains[i];
        if (rule->depth > 0 && strcmp(rule->call, emu_call_names[call]) == 0 && same_place(&rule->chain[0], &site))
            return true;
    }
    return false;
}

static bool is_ruled_out(const struct emu_wait_place *wait)
{
    for (size_t i = 0; i < waits.chain_count; i++)
        if (same_chain(&waits.chains[i], wait))
            return true;
    for (size_t i = 0; i < waits.place_count; i++)
        for (unsigned j = 0; j < wait->depth; j++)
            if (same_place(&waits.places[i], &wait->chain[j]))
                return true;
    return false;
}

bool emu_wait_is_noted_and_dropped(enum emu_call call)
{
    struct noted noted;
    if (!waits.noting && !has_rules_for(call))
        return false;
    memset(&noted, 0, sizeof noted);
    take_chain(&noted.chain, call);
    if (waits.noting)
        note(&noted.chain);
    if (!has_rules_for(call))
        return false;
    const struct emu_wait_place wait = describe(&noted);
    const bool dropped = is_ruled_out(&wait);
    waits.dropped += dropped;
    return dropped;
}

void emu_waits_reset(void)
{
    waits.noting = false;
    waits.count = waits.chain_count = waits.place_count = 0;
    waits.dropped = 0;
}

/* ---- The calls of tests ---- */

void emu_note_waits(bool on)
{
    emu_lock();
    waits.noting = on;
    emu_unlock();
}

void emu_each_wait(void (*visit)(const struct emu_wait_place *wait, void *user), void *user)
{
    for (size_t i = 0;; i++) {
        struct emu_wait_place place = {.call = NULL};
        emu_lock();
        if (i < waits.count)
            place = describe(&waits.noted[i]);
        emu_unlock();
        if (place.call == NULL)
            return;
        visit(&place, user);
    }
}

static void make_room(size_t count)
{
    if (count < CHAIN_RULES)
        return;
    fputs("cudart_emu: too many places are set at a time\n", stderr);
    abort();
}

void emu_drop_wait_from(const struct emu_wait_place *wait)
{
    emu_lock();
    make_room(waits.chain_count);
    waits.chains[waits.chain_count++] = *wait;
    emu_unlock();
}

void emu_drop_waits_at(const struct emu_place *place)
{
    emu_lock();
    make_room(waits.place_count);
    waits.places[waits.place_count++] = *place;
    emu_unlock();
}

unsigned emu_dropped_waits(void)
{
    emu_lock();
    const unsigned dropped = waits.dropped;
    emu_unlock();
    return dropped;
}
