/*
 * Versions and slots of a shareable object. Three participants read for slots and write, end slots, and die at any
 * step. It follows src/memory/shared/watch.c, slots.c and turns.c. README.md lists the assertions.
 *
 * turns.pml has the line. So here a turn comes at any time when no other one excludes it, and that of a dead
 * participant ends at once; its head stays. Waits for a turn always end. Each load and each store of the contents, of a
 * slot, and of the bell is one step, but a participant that looks reads all of these at once: one that changes any of
 * them later rings.
 *
 * The environment sets VERSIONS, how many are written, DEATHS, how many die, WITHOUT, the step to leave out, or 0, and
 * PLAY, the roles:
 *   0  a writer, and two readers, each with a slot
 *   1  two writers, and a reader
 *   2  a writer, and two readers of one slot
 *   3  a writer that looks at no version and begins no more when it has died, one that waits for slots, and a reader
 * A reader may end its slot, also in its turn, and take it again. One turn may be abandoned: to write, or to read
 * before the contents were used. One that has died begins anew, with the slot as it is.
 */
c_decl {
\#include <stdlib.h>
    static int without, last, deaths_asked, play;
    static void ask_environment(void)
    {
        without = atoi(getenv("WITHOUT"));
        last = atoi(getenv("VERSIONS"));
        deaths_asked = atoi(getenv("DEATHS"));
        play = atoi(getenv("PLAY"));
    }
}
#define KEEP(step) (c_expr { without } != (step))
#define PLAY (c_expr { play })

#include "watches.h"

#define PARTICIPANTS 3
#define SLOTS 2
#define ALL 7
#define NOBODY 3
#define LAST (c_expr { last }) /* the version after which all end */
#define BIT(i) (1 << (i))

/* ---- State: the control page ---- */

bit written; /* the head is WRITTEN */
bit lost;
byte version;
bit taken[SLOTS];
byte slot[SLOTS]; /* the version in it */
byte watching;    /* those whose word is WATCH */

/* ---- State: the kernel ---- */

byte asleep;
byte fresh; /* the bell has not changed since the participant has read it */

/* ---- State: the participants ---- */

byte writes = NOBODY; /* the one with a turn to write */
byte reads;           /* those with a turn to read */
byte found[PARTICIPANTS]; /* the version in the slot, as the turn has found it */
byte deaths_left;
bit abandons_left = 1;
bit ends_left = 1; /* a slot may be ended; after that it may be taken again */

/* Checked: */
byte data;           /* the version that the memory has; 0: a part of one */
byte used[SLOTS];    /* the last version that a reader of the slot has used to the end */
bit anew[SLOTS];     /* the slot was taken, and nothing was read for it yet */
byte excused;        /* their sleep may end without a ring: somebody died */

hidden byte k;

/* What a participant is. */
#define READER 0 /* and the number of its slot */
#define WRITER 2
#define PLAIN 3

/* The next step of a participant. */
#define IDLE 0
#define STORE_WATCH 1
#define READ_BELL 2
#define LOOK 3
#define SLEEP 4
#define ASLEEP 5
#define ENTER 6
#define CHECK 7
#define STORE_WRITTEN 8
#define STORE_VERSION 9
#define STORE_HEAD 10
#define USE 11
#define CONSUME 12
#define OUT 13
#define RING 14
#define CONSUME_LATE 15
#define LEARN_NEWS 16
#define DONE 17

/* ---- Wishes ---- */

#define IS_READER (role < WRITER)
#define IS_CONSUMED(s) (!taken[s] || slot[s] >= version)
#define IS_GRANTED \
    (IS_READER -> taken[role] && !lost && version > slot[role] : \
     (role == PLAIN || (IS_CONSUMED(0) && IS_CONSUMED(1)) || (lost && KEEP(WRITE_LOST_AGAIN))))
#define HAS_DEAD_WRITER (written && writes == NOBODY && KEEP(FIND_DEAD_WRITER))
#define MAY_BEGIN (written -> HAS_DEAD_WRITER : IS_GRANTED)
/* Nothing is left to do. */
#define HAS_READ_ALL (!taken[role] || (version == LAST && slot[role] == LAST))
#define IS_OVER (!written && !lost && (IS_READER -> HAS_READ_ALL : version == LAST))

inline ring()
{
    if
    :: watching ->
        fresh = 0;
        asleep = 0
    :: else
    fi
}

/* In one step: nobody else stores the contents meanwhile. */
inline begin_turn()
{
    news = !IS_READER || written;
    if
    :: IS_READER -> reads = reads | BIT(me)
    :: else -> writes = me
    fi;
    watching = watching & ~BIT(me);
    if
    :: written ->
        written = 0;
        lost = KEEP(MARK_LOST)
    :: else
    fi;
    at = CHECK
}

inline check()
{
    if
    :: IS_OVER || (IS_READER && !taken[role]) -> at = OUT
    :: !IS_OVER && !(IS_READER && !taken[role]) && !IS_GRANTED && KEEP(CHECK_IN_TURN) ->
        printf("%d begins anew\n", me);
        at = OUT
    :: else ->
        if
        :: IS_READER ->
            printf("%d reads %d\n", me, version);
            found[me] = slot[role];
            assert(!lost && data == version);
            assert(PLAY == 3 || anew[role] || version == slot[role] + 1);
            anew[role] = 0;
            at = (KEEP(CONSUME_AT_END) -> USE : CONSUME)
        :: else -> at = STORE_WRITTEN
        fi
    fi
}

#define AFTER_USE (KEEP(CONSUME_BEFORE_OUT) -> (KEEP(NEWS_AFTER_CONSUME) -> CONSUME : LEARN_NEWS) : OUT)
#define AFTER_CONSUME_AT_END (at == CONSUME_LATE -> IDLE : (KEEP(NEWS_AFTER_CONSUME) -> LEARN_NEWS : OUT))
#define AFTER_CONSUME (KEEP(CONSUME_AT_END) -> AFTER_CONSUME_AT_END : USE)

inline consume()
{
    if
    :: (taken[role] && slot[role] == found[me]) || !KEEP(COMPARE_TO_CONSUME) ->
        printf("%d consumes %d\n", me, reading);
        assert(taken[role]);
        assert(used[role] >= reading);
        slot[role] = reading
    :: else
    fi;
    at = AFTER_CONSUME
}

inline die()
{
    printf("%d dies before step %d\n", me, at);
    deaths_left--;
    reads = reads & ~BIT(me);
    writes = (writes == me -> NOBODY : writes);
    watching = watching & ~BIT(me);
    asleep = asleep & ~BIT(me);
    fresh = fresh & ~BIT(me);
    excused = ALL & ~BIT(me);
    reading = 0;
    news = 0;
    at = (role == PLAIN -> DONE : IDLE)
}

proctype participant(byte me; byte role)
{
    byte at;
    byte reading;
    bit news; /* those that watch wait for what the turn has changed */
    do
    :: d_step {
        at == IDLE && !IS_OVER ->
        at = (MAY_BEGIN -> ENTER : STORE_WATCH)
    }
    :: d_step {
        at == STORE_WATCH ->
        watching = (KEEP(WATCH_BEFORE_LOOK) -> watching | BIT(me) : watching);
        at = (KEEP(BELL_BEFORE_LOOK) -> READ_BELL : LOOK)
    }
    :: d_step {
        at == READ_BELL ->
        fresh = fresh | BIT(me);
        excused = excused & ~BIT(me);
        at = (KEEP(BELL_BEFORE_LOOK) -> LOOK : SLEEP)
    }
    :: d_step {
        at == LOOK ->
        if
        :: MAY_BEGIN -> at = ENTER
        :: !MAY_BEGIN && IS_OVER ->
            watching = watching & ~BIT(me);
            at = DONE
        :: else -> at = (KEEP(BELL_BEFORE_LOOK) -> SLEEP : READ_BELL)
        fi
    }
    :: d_step {
        at == SLEEP ->
        watching = watching | BIT(me);
        if
        :: fresh & BIT(me) ->
            asleep = asleep | BIT(me);
            at = ASLEEP
        :: else -> at = STORE_WATCH
        fi
    }
    :: d_step { at == ASLEEP && (!(asleep & BIT(me)) || (excused & BIT(me))) ->
        asleep = asleep & ~BIT(me);
        at = STORE_WATCH
    }
    :: d_step { at == ENTER && writes == NOBODY && (IS_READER || !reads) -> begin_turn() }
    :: d_step { at == CHECK -> check(); reading = (at == USE || at == CONSUME -> version : 0) }
    :: d_step {
        at == STORE_WRITTEN ->
        assert(!reads && writes == me && !written);
        written = 1;
        data = 0;
        at = (KEEP(VERSION_WITH_HEAD) -> STORE_HEAD : STORE_VERSION)
    }
    :: d_step {
        at == STORE_VERSION ->
        version++;
        at = STORE_HEAD
    }
    :: d_step {
        at == STORE_HEAD ->
        version = (KEEP(VERSION_WITH_HEAD) -> version + 1 : version);
        printf("%d has written %d\n", me, version);
        data = version;
        written = 0;
        lost = 0;
        at = OUT
    }
    :: d_step {
        at == USE ->
        assert(data == reading);
        used[role] = (used[role] > reading -> used[role] : reading);
        at = (KEEP(CONSUME_AT_END) -> AFTER_USE : OUT)
    }
    :: d_step {
        at == STORE_HEAD && abandons_left && KEEP(VERSION_WITH_HEAD) ->
        printf("%d abandons what it has written\n", me);
        abandons_left = 0;
        written = 0;
        lost = KEEP(ABANDON_LOSES);
        at = OUT
    }
    :: d_step {
        at == USE && abandons_left && KEEP(CONSUME_AT_END) ->
        printf("%d abandons what it reads\n", me);
        abandons_left = 0;
        reading = (KEEP(ABANDON_CONSUMES_NOTHING) -> 0 : reading);
        at = (KEEP(ABANDON_CONSUMES_NOTHING) -> OUT : CONSUME)
    }
    :: d_step { at == CONSUME || at == CONSUME_LATE -> consume() }
    :: d_step {
        at == LEARN_NEWS ->
        news = (IS_CONSUMED(0) && IS_CONSUMED(1) && KEEP(RING_AFTER_LAST));
        at = (KEEP(NEWS_AFTER_CONSUME) -> OUT : CONSUME)
    }
    :: d_step {
        at == OUT ->
        reads = reads & ~BIT(me);
        writes = (writes == me -> NOBODY : writes);
        at = RING
    }
    :: d_step {
        at == RING ->
        if
        :: KEEP(RING_AFTER_TURN) && news -> ring()
        :: else
        fi;
        news = 0;
        at = (reading && !KEEP(CONSUME_BEFORE_OUT) -> CONSUME_LATE : IDLE);
        reading = (at == IDLE -> 0 : reading)
    }
    :: d_step {
        (at == IDLE || at == USE) && IS_READER && ends_left && taken[role] ->
        printf("%d ends slot %d\n", me, role);
        ends_left = 0;
        taken[role] = 0;
        slot[role] = 0;
        if
        :: KEEP(RING_AFTER_SLOT) -> ring()
        :: else
        fi
    }
    :: d_step {
        at == IDLE && IS_READER && !ends_left && !taken[role] && version < LAST ->
        ends_left = 1;
        taken[role] = 1;
        anew[role] = 1;
        slot[role] = version
    }
    :: d_step { at != DONE && deaths_left -> die() }
    :: at == DONE || (at == IDLE && IS_OVER) -> break
    od
}

init
{
    atomic {
        c_code {
            ask_environment();
            now.deaths_left = deaths_asked;
        };
        taken[0] = 1;
        taken[1] = PLAY == 0;
        run participant(0, (PLAY == 3 -> PLAIN : WRITER));
        run participant(1, (PLAY == 1 || PLAY == 3 -> WRITER : 0));
        run participant(2, (PLAY == 0 -> 1 : 0))
    }
}
