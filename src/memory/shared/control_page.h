/*
 * The control page of a shareable object: constants, and the words by which the participants take turns
 * (docs/design/sharing.md). All participants map it, and any of them may be hostile. So each value that is read from it
 * is checked before it is used. The words:
 *
 *    participant   one object of one process that uses the shared memory
 *    line          a word of each participant: its kind and its place
 *    turn          the right to use the contents, to read or to write
 *    contents      a word: the head, the version, and the count of deaths
 *    version       of the contents: the count of turns to write that have ended
 *    death         the end of a process while it had the turn to write
 *    bell          a word on which participants sleep that wait for their turn, or for other contents
 *    slot          a word that has the version which one reader has consumed (memory/shared/slots.h)
 */
#ifndef SM_CONTROL_PAGE_H
#define SM_CONTROL_PAGE_H

#include "memory/shared/memfd.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SM_PARTICIPANTS = 64, SM_SLOTS = SYNCED_MEM_SLOTS, SM_UUID_BYTES = 16 };

/* Constants. The maker writes them before another process has the page. */
struct sm_share_facts {
    uint64_t magic;
    uint32_t version;
    uint32_t policy;                   /* SYNCED_MEM_SHAREABLE_* */
    uint64_t size;                     /* of the object */
    uint64_t alignment;                /* of the memory, a power of two */
    uint64_t host_bytes;               /* of the file with the host's memory, whole pages */
    uint64_t device_bytes;             /* of the device's memory; 0: there is none */
    unsigned char uuid[SM_UUID_BYTES]; /* the device's */
};

/* The parts lie in cache lines of their own. */
struct sm_control_page {
    _Alignas(64) struct sm_share_facts facts;
    _Alignas(64) atomic_ullong contents;
    _Alignas(64) atomic_uint bell;
    _Alignas(64) atomic_ullong line[SM_PARTICIPANTS];
    _Alignas(64) atomic_ullong slots[SM_SLOTS];
};

_Static_assert(sizeof(struct sm_control_page) <= SM_MEMFD_PAGE, "the words fit into a page");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "processes share these atomics");

/* ---- Constants ---- */

/* Fills in the constants of an object without device memory. */
void sm_share_facts_init(struct sm_share_facts *facts, size_t size, size_t alignment, unsigned policy);

/* Checks constants that came from another process. ERR_PEER. */
synced_mem_status sm_share_facts_check(const struct sm_share_facts *facts);

/* ---- Contents ---- */

/* Above all heads: a participant has the turn to write, or died in it. */
enum { SM_CONTENTS_WRITTEN = 4, SM_CONTENTS_END };

struct sm_contents {
    unsigned head; /* synced_mem_head_kind without MIXED, or SM_CONTENTS_WRITTEN */
    bool lost;     /* a death took the contents of this version, and no turn to write has ended since */
    uint16_t deaths;
    uint64_t version; /* at most SM_MOST_VERSION */
};

/* 10^6 turns to write a second take half a year to reach it. */
#define SM_MOST_VERSION (((uint64_t)1 << 44) - 1)
enum { SM_LOST_SHIFT = 3, SM_DEATHS_SHIFT = 4, SM_VERSION_SHIFT = 20 };

/* Reads the word. ERR_PEER: it is malformed. */
synced_mem_status sm_contents_read(const struct sm_control_page *page, struct sm_contents *contents);
void sm_contents_store(struct sm_control_page *page, struct sm_contents contents);

/* ---- The line ---- */

/* One that watches waits for other contents, and is in nobody's front. */
enum sm_line_kind {
    SM_LINE_OUT,
    SM_LINE_CHOOSING,
    SM_LINE_FILL,
    SM_LINE_READ,
    SM_LINE_WRITE,
    SM_LINE_WATCH,
    SM_LINE_END
};

struct sm_line_word {
    enum sm_line_kind kind;
    /* Of FILL, READ and WRITE, at least 1. Of CHOOSING the count of choices; of WATCH 1; of OUT 0. */
    uint64_t place;
    unsigned char incarnation; /* counts the participants that have had the index: no two words of two are equal */
};

/* The highest place. 10^9 turns a second take three days to reach it, and only if the line is never empty. */
#define SM_MOST_PLACE (((uint64_t)1 << 48) - 1)
enum { SM_PLACE_SHIFT = 8, SM_INCARNATION_SHIFT = 56 };

/* Returns, as bits, the participants that are in the line, and those whose words are malformed. Most are out, so a turn
 * reads the words of these alone. */
uint64_t sm_line_members(const struct sm_control_page *page);

/* Reads the word of a participant. ERR_PEER: it is malformed. */
synced_mem_status sm_line_read(const struct sm_control_page *page, unsigned index, struct sm_line_word *place);

/* Returns the incarnation of a participant's word, which may be malformed. */
unsigned char sm_line_incarnation(const struct sm_control_page *page, unsigned index);

void sm_line_store(struct sm_control_page *page, unsigned index, struct sm_line_word place);

/* Takes a participant out of the line, if is_dead() says so and its word has not changed meanwhile. Returns whether it
 * did. No effect if the participant is not in the line. */
bool sm_line_take_out(struct sm_control_page *page, unsigned index, bool (*is_dead)(int fd, unsigned index), int fd);

/* ---- The bell ---- */

/* Sleeps until the bell differs from seen, at most so long, or for no reason. */
void sm_bell_sleep(struct sm_control_page *page, unsigned seen, uint64_t nanoseconds);
/* Changes the bell, and wakes all that sleep on it. */
void sm_bell_ring(struct sm_control_page *page);

#endif
