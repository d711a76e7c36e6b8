/*
 * The turns of a shareable object. Three participants acquire turns, hand over, time out, die at any step, and join
 * again. It follows src/memory/shared/turns.c and participant.c. README.md lists the assertions.
 *
 * Each load and each store of a shared word is one step, as the code uses sequentially consistent atomics. A step also
 * has what follows it and concerns nobody else. Two loads are joined to one step where nobody else may store meanwhile,
 * which an assertion checks: the last word of the front, and the contents. A participant that looks whether to ring
 * reads all words at once. If that finds nobody, one that waits has stored its place later, and reads its front later.
 *
 * A byte that somebody has locked has no effect on a participant that cleans up. So it goes on with the first byte that
 * nobody has locked, and finds the other dead ones later. It reads the word and then asks for the lock, in one step: a
 * word that changes in between is another one for the comparison.
 *
 * The environment sets TURNS, the number of times that participants get in line, DEATHS, how many die, WITHOUT, the
 * step to leave out, or 0, and PLAY, a sum of:
 *   1  Nobody times out. All readers name side B.
 *   2  No reader hands over while another reader waits, unless a writer is in line.
 *   4  Participant 0 has died in a turn to read, to fill or to write. Another one may join with its index.
 *  16  A writer may abandon its turn. It then stores what the next turn would store after its death.
 *   8  For the claim: participant 0 has a turn. Participant 1 waits without a timeout. Participant 2 tries to read, and
 *      times out, as often as it likes. Sleeps end at any time.
 * Without 8, a sleep ends without a ring only if a participant died in the front, or before it rang, or if one in the
 * front was CHOOSING. Then a lost ring leads to a deadlock.
 */
c_decl {
\#include <stdlib.h>
    static int without, turns_asked, deaths_asked, play;
    static void ask_environment(void)
    {
        without = atoi(getenv("WITHOUT"));
        turns_asked = atoi(getenv("TURNS"));
        deaths_asked = atoi(getenv("DEATHS"));
        play = atoi(getenv("PLAY"));
    }
}
#define KEEP(step) (c_expr { without } != (step))
#define PATIENT (c_expr { (play & 1) != 0 })
#define TOGETHER (c_expr { (play & 2) != 0 })
#define DIED (c_expr { (play & 4) != 0 })
#define FOREVER (c_expr { (play & 8) != 0 })
#define MAY_ABANDON (c_expr { (play & 16) != 0 })

#include "steps.h"

#define PARTICIPANTS 3
#define ALL 7
#define NOBODY 3
#define BIT(i) (1 << (i))

/* ---- State: the control page ---- */

/* The kinds of a word in line. The count in a CHOOSING word is in first and anew. */
#define OUT 0
#define CHOOSING 1
#define FILL 2
#define READ 3
#define WRITE 4
#define WORD(kind, place) ((kind) + 8 * (place))
#define KIND(word) ((word) & 7)
#define PLACE(word) ((word) >> 3)
byte line[PARTICIPANTS];

/* The two sides, and what an acquire names: a side to read, or to write. */
#define A 0
#define B 1
#define TO_WRITE 2
#define TOLD 3 /* of a death; there is no turn */

/* The two parts of one word. The head is a bit for each valid side, or WRITTEN. A writer leaves side A valid. */
#define UNINITIALIZED 0
#define WRITTEN 4
#define CONTENTS (head + 8 * deaths)
#define HEAD(contents) ((contents) & 7)
#define DEATHS(contents) ((contents) >> 3)
byte head = BIT(A);
byte deaths;

/* ---- State: the kernel. Bits and elements are those of participants ---- */

byte lock[PARTICIPANTS]; /* the participant that has locked the byte */
byte asleep;
byte fresh; /* the bell has not changed since the participant has read it */

/* ---- State: the participants ---- */

byte turns; /* how many times they may still get in line */
byte deaths_left;
byte met;                /* how many have been in line: they are alike, so the lower indices come first */
byte mine[PARTICIPANTS]; /* the place; before that the highest one that was read */
byte first[PARTICIPANTS]; /* those that this one has seen CHOOSING */
byte anew[PARTICIPANTS];  /* those of them that have begun another choice since then */
byte stale[PARTICIPANTS]; /* while this one cleans up: the dead one, as long as its word is the one that was read */

/* Checked: */
byte alive = ALL;
byte waits;                 /* in line without a turn */
byte exclusive = NOBODY;    /* the participant with a turn to write or to fill */
byte reads[2];              /* the participants that may read the side */
byte earlier[PARTICIPANTS]; /* those that had a place when this one got in line */
byte intact = BIT(A);       /* the sides with what was last written */
byte published = BIT(A);    /* the head that the next turn must find */
byte owed;                  /* those that are to be told of a death */
bit uncounted;              /* a writer has died, and the count of deaths is still that from before */
byte excused;               /* their sleep may end without a ring: somebody died before it rang */

/* Scratch: used within a step only. */
hidden byte k, contents, chosen;

/* The next step of a participant. */
#define NOT_JOINED 0
#define IDLE 1
#define READ_PLACES 2
#define STORE_PLACE 3
#define READ_BELL 4
#define READ_FRONT 5
#define SLEEP 6
#define ASLEEP 7
#define CLEAN 8
#define STORE_DEATH 10
#define STORE_COUNT 11
#define STORE_WRITTEN 12
#define STORE_HEAD 13
#define STORE_FILLED 14
#define STORE_READ 15
#define STORE_OUT 16
#define RING 17
#define CHANGE_BELL 18
#define WAKE 19
#define READ_COUNT 20
#define STORE_JOINED 21

/* ---- Rings ---- */

#define IS_WAITING(j) (me != (j) && (KIND(line[j]) == FILL || KIND(line[j]) == WRITE))
#define ANYONE_WAITS (IS_WAITING(0) || IS_WAITING(1) || IS_WAITING(2))

inline ring(next)
{
    then = next;
    at = RING
}

inline end_ring()
{
    at = then;
    then = 0
}

/* ---- The line ---- */

#define TRIES (FOREVER && me == 2) /* as often as it likes */
/* Keeps the places small: nobody gets in line above place 3. No search needs more. */
#define PLACES_USED (PLACE(line[0] | line[1] | line[2]) | mine[0] | mine[1] | mine[2])
#define CAN_CHOOSE \
    (at == IDLE && PLACES_USED < 4 && (TRIES || turns && met >= me && (!FOREVER || me == 1)))

#define IS_IN_LINE(j) (((waits | reads[A] | reads[B]) & BIT(j)) || exclusive == (j))

inline choose(to)
{
    printf("%d gets in line, %d\n", me, to);
    turns = (TRIES -> turns : turns - 1);
    met = (met == me -> met + 1 : met);
    mode = to;
    at = READ_PLACES;
    waits = waits | BIT(me);
    left = ALL & ~BIT(me);
    k = 0;
    do
    :: k < PARTICIPANTS ->
        if
        :: !FOREVER && IS_IN_LINE(k) && KIND(line[k]) >= FILL -> earlier[me] = earlier[me] | BIT(k)
        :: else
        fi;
        anew[k] = anew[k] | (first[k] & BIT(me));
        k++
    :: else -> break
    od;
    line[me] = (KEEP(MARK_CHOOSING) -> CHOOSING : OUT)
}

#define MY_KIND (mode == TO_WRITE -> WRITE : FILL)
#define CONFLICTS(kind) \
    ((kind) == WRITE || (kind) == READ && mode == TO_WRITE || \
     (kind) == FILL && (mode == TO_WRITE || KEEP(FILL_EXCLUDES)))
#define HAS_LOWER_PLACE(j) \
    (PLACE(line[j]) < mine[me] || PLACE(line[j]) == mine[me] && (!KEEP(TIE_BY_INDEX) || (j) < me))
#define MAY_CHOOSE_LOWER(j) (!(anew[me] & BIT(j)) || !KEEP(PASS_SECOND_CHOICE))

inline read_bell()
{
    fresh = fresh | BIT(me);
    excused = excused & ~BIT(me);
    brief = 0;
    left = front;
    then = (KEEP(FRONT_BEFORE_CONTENTS) -> 0 : CONTENTS);
    at = READ_FRONT
}

inline read_front(j)
{
    left = left & ~BIT(j);
    if
    :: KIND(line[j]) == CHOOSING && MAY_CHOOSE_LOWER(j) ->
        brief = 1;
        first[me] = first[me] | BIT(j)
    :: KIND(line[j]) != CHOOSING && CONFLICTS(KIND(line[j])) && HAS_LOWER_PLACE(j)
    :: else ->
        front = front & ~BIT(j);
        first[me] = first[me] & ~BIT(j);
        anew[me] = anew[me] & ~BIT(j)
    fi;
    if
    :: !left && front -> at = SLEEP
    :: !left && !front -> begin_turn()
    :: else
    fi
}

/* Finds a dead participant in the front, or goes on. */
inline clean_up(next)
{
    chosen = 0;
    do
    :: chosen < PARTICIPANTS && !((front & BIT(chosen)) && lock[chosen] == NOBODY) -> chosen++
    :: else -> break
    od;
    if
    :: chosen < PARTICIPANTS ->
        stale[me] = BIT(chosen);
        left = BIT(chosen);
        at = CLEAN
    :: else ->
        if
        :: next == READ_BELL -> read_bell()
        :: else -> at = next
        fi
    fi
}
#define CLEANED (left >> 1) /* the index of the only bit, which is 1, 2 or 4 */

inline go_on_after_cleaning()
{
    left = 0;
    if
    :: KEEP(RING_AFTER_CLEANING) -> ring(READ_BELL)
    :: else -> at = READ_BELL
    fi
}

/* The bell has changed. The clock makes the participant clean up after a while, here at the second time. */
inline go_on_after_ring()
{
    if
    :: woken && KEEP(CLEAN_IN_TIME) ->
        woken = 0;
        clean_up(READ_BELL)
    :: else ->
        woken = FOREVER;
        read_bell()
    fi
}

#define HAS_DIED_IN_FRONT(j) ((front & ~alive & BIT(j)) && line[j] != OUT)
#define MAY_END_SLEEP \
    (FOREVER || brief || (excused & BIT(me)) || HAS_DIED_IN_FRONT(0) || HAS_DIED_IN_FRONT(1) || HAS_DIED_IN_FRONT(2))

/* ---- Turns ---- */

inline be_told(count)
{
    printf("%d is told of a death\n", me);
    assert(owed & BIT(me));
    owed = owed & ~BIT(me);
    seen = (KEEP(KEEP_COUNT) -> (count) : seen);
    mode = TOLD;
    at = STORE_OUT
}

/* The front is empty. Reads the contents. */
inline begin_turn()
{
    printf("%d has a turn\n", me);
    assert(exclusive == NOBODY && (mode != TO_WRITE || !(reads[A] | reads[B])));
    exclusive = me;
    k = 0;
    do
    :: k < PARTICIPANTS ->
        assert(!(earlier[me] & BIT(k)) || (KIND(line[k]) == READ && mode != TO_WRITE));
        k++
    :: else -> break
    od;
    contents = (KEEP(FRONT_BEFORE_CONTENTS) -> CONTENTS : then);
    earlier[me] = 0;
    waits = waits & ~BIT(me);
    fresh = fresh & ~BIT(me);
    mine[me] = 0;
    brief = 0;
    woken = 0;
    then = 0;
    if
    :: HEAD(contents) == WRITTEN -> at = STORE_DEATH
    :: HEAD(contents) != WRITTEN && DEATHS(contents) != seen -> be_told(DEATHS(contents))
    :: else ->
        assert(!(owed & BIT(me)));
        assert(HEAD(contents) == published && !(published & ~intact));
        if
        :: mode == TO_WRITE -> at = STORE_WRITTEN
        :: mode != TO_WRITE && (HEAD(contents) & BIT(mode)) ->
            reads[mode] = reads[mode] | BIT(me);
            at = STORE_READ
        :: else ->
            assert(!reads[mode]);
            intact = intact & ~BIT(mode);
            at = (KEEP(CONTENTS_BEFORE_READ) -> STORE_FILLED : STORE_READ)
        fi
    fi
}

/* Evaluates to whether the participant may store OUT. With TOGETHER, a reader stays until the others read as well. */
#define HAS_KIND(j, kind) ((j) != me && KIND(line[j]) == (kind))
#define CAN_LEAVE \
    (!TOGETHER || !((reads[A] | reads[B]) & BIT(me)) || \
     HAS_KIND(0, WRITE) || HAS_KIND(1, WRITE) || HAS_KIND(2, WRITE) || \
     !(HAS_KIND(0, FILL) || HAS_KIND(1, FILL) || HAS_KIND(2, FILL)))

#define RINGS_WHEN_OUT \
    (waits & BIT(me) -> KEEP(RING_AT_TIMEOUT) : (mode == TOLD -> KEEP(RING_WHEN_TOLD) : KEEP(RING_AT_HAND_OVER)))

inline forget()
{
    k = 0;
    do
    :: k < PARTICIPANTS ->
        earlier[k] = earlier[k] & ~BIT(me);
        k++
    :: else -> break
    od;
    earlier[me] = 0;
    first[me] = 0;
    anew[me] = 0;
    mine[me] = 0;
    stale[me] = 0;
    reads[A] = reads[A] & ~BIT(me);
    reads[B] = reads[B] & ~BIT(me);
    waits = waits & ~BIT(me);
    fresh = fresh & ~BIT(me);
    exclusive = (exclusive == me -> NOBODY : exclusive);
    mode = 0;
    left = 0;
    front = 0;
    brief = 0;
    woken = 0;
    then = 0
}

/* ---- Deaths ---- */

#define OWES_RING (at >= RING && at <= WAKE)

/* Between STORE_WRITTEN and STORE_HEAD the participant writes. */
inline die()
{
    printf("%d dies before step %d\n", me, at);
    deaths_left--;
    if
    :: at == STORE_HEAD ->
        uncounted = 1;
        published = UNINITIALIZED
    :: else
    fi;
    owed = (at == STORE_HEAD -> alive : owed) & ~BIT(me);
    excused = (OWES_RING && !FOREVER -> ALL : excused) & ~BIT(me);
    alive = alive & ~BIT(me);
    asleep = asleep & ~BIT(me);
    k = 0;
    do
    :: k < PARTICIPANTS ->
        lock[k] = (lock[k] == me -> NOBODY : lock[k]);
        first[k] = first[k] & ~BIT(me);
        anew[k] = anew[k] & ~BIT(me);
        k++
    :: else -> break
    od;
    forget();
    seen = 0;
    at = NOT_JOINED
}

/* ---- The participants ---- */

/* In any order, as the participants are alike. For the claim they are not, and the order is that of the code. */
#define IS_NEXT(j) ((left & BIT(j)) && (!FOREVER || !(left & (BIT(j) - 1))))

#define CHOOSE(can, to) :: d_step { CAN_CHOOSE && (can) -> choose(to) }
#define READ_PLACE_OF(j) \
    :: d_step { \
        at == READ_PLACES && IS_NEXT(j) -> \
        left = left & ~BIT(j); \
        mine[me] = (PLACE(line[j]) > mine[me] -> PLACE(line[j]) : mine[me]); \
        at = (left -> READ_PLACES : STORE_PLACE) \
    }
#define READ_FRONT_AT(j) :: d_step { at == READ_FRONT && IS_NEXT(j) -> read_front(j) }

proctype participant(byte me; byte at; byte mode)
{
    byte seen;  /* the count of deaths */
    byte left;  /* the participants still to be read, or the one to clean up after */
    byte front; /* the participants that the turn must come after, as far as is known */
    byte then;  /* the step after the ring */
    bit brief;  /* somebody in the front is CHOOSING, so the sleep is short */
    bit woken;
    do
    CHOOSE(!PATIENT && !FOREVER || TRIES, A)
    CHOOSE(!TRIES, B)
    CHOOSE(!TRIES, TO_WRITE)
    READ_PLACE_OF(0)
    READ_PLACE_OF(1)
    READ_PLACE_OF(2)
    :: d_step {
        at == STORE_PLACE ->
        mine[me]++;
        line[me] = WORD(MY_KIND, mine[me]);
        front = ALL & ~BIT(me);
        at = READ_BELL
    }
    :: d_step { at == READ_BELL -> read_bell() }
    READ_FRONT_AT(0)
    READ_FRONT_AT(1)
    READ_FRONT_AT(2)
    :: d_step {
        at == SLEEP ->
        if
        :: !(fresh & BIT(me)) && KEEP(BELL_BEFORE_FRONT) -> go_on_after_ring()
        :: else ->
            asleep = asleep | BIT(me);
            fresh = fresh & ~BIT(me);
            at = ASLEEP
        fi
    }
    :: d_step { at == ASLEEP && !(asleep & BIT(me)) -> go_on_after_ring() }
    :: d_step {
        at == ASLEEP && (asleep & BIT(me)) && MAY_END_SLEEP ->
        asleep = asleep & ~BIT(me);
        woken = 0;
        clean_up(READ_BELL)
    }
    :: d_step { at == SLEEP && (FOREVER -> TRIES : !PATIENT) -> clean_up(STORE_OUT) } /* the time is over */
    :: d_step {
        at == CLEAN ->
        printf("%d cleans up after %d\n", me, CLEANED);
        line[CLEANED] = (stale[me] || !KEEP(COMPARE_TO_CLEAN) -> OUT : line[CLEANED]);
        stale[me] = 0;
        go_on_after_cleaning()
    }
    :: d_step {
        at == STORE_DEATH ->
        assert(exclusive == me);
        intact = 0;
        head = UNINITIALIZED;
        uncounted = 0;
        if
        :: KEEP(COUNT_WITH_HEAD) ->
            deaths++;
            be_told(deaths)
        :: else -> at = STORE_COUNT
        fi
    }
    :: d_step {
        at == STORE_COUNT ->
        deaths++;
        be_told(deaths)
    }
    :: d_step {
        at == STORE_WRITTEN ->
        assert(exclusive == me && !(reads[A] | reads[B]));
        intact = 0;
        head = (KEEP(STORE_WRITTEN_FIRST) -> WRITTEN : head);
        at = (KEEP(CONTENTS_BEFORE_OUT) -> STORE_HEAD : STORE_OUT)
    }
    :: d_step {
        at == STORE_HEAD ->
        assert((exclusive == me || !KEEP(CONTENTS_BEFORE_OUT)) && !(reads[A] | reads[B]));
        intact = BIT(A);
        head = BIT(A);
        published = head;
        if
        :: KEEP(CONTENTS_BEFORE_OUT) -> at = STORE_OUT
        :: else -> ring(IDLE)
        fi
    }
    :: d_step {
        at == STORE_HEAD && MAY_ABANDON && KEEP(CONTENTS_BEFORE_OUT) ->
        printf("%d abandons its turn\n", me);
        assert(exclusive == me && !(reads[A] | reads[B]));
        intact = 0;
        head = UNINITIALIZED;
        published = head;
        deaths = (KEEP(COUNT_ABANDONED) -> deaths + 1 : deaths);
        seen = (KEEP(KNOW_ABANDONED) -> deaths : seen);
        owed = (owed | alive) & ~BIT(me);
        at = STORE_OUT
    }
    :: d_step {
        at == STORE_FILLED ->
        assert(!(head & ~intact) && !reads[mode]);
        intact = intact | BIT(mode);
        head = head | BIT(mode);
        published = head;
        reads[mode] = BIT(me);
        at = (KEEP(CONTENTS_BEFORE_READ) -> STORE_READ : STORE_OUT)
    }
    :: d_step {
        at == STORE_READ ->
        line[me] = WORD(READ, PLACE(line[me]));
        exclusive = NOBODY;
        then = (head & BIT(mode) -> STORE_OUT : STORE_FILLED);
        if
        :: KEEP(RING_WHEN_FILLED) -> at = RING
        :: else -> end_ring()
        fi
    }
    :: d_step {
        at == STORE_OUT && !KEEP(OUT_BEFORE_RING) && !woken ->
        woken = 1;
        brief = ANYONE_WAITS
    }
    :: d_step {
        at == STORE_OUT && (KEEP(OUT_BEFORE_RING) || woken) && CAN_LEAVE ->
        assert(mode >= TO_WRITE || !(reads[mode] & BIT(me)) || (intact & BIT(mode)));
        line[me] = OUT;
        if
        :: mode == TO_WRITE && !KEEP(CONTENTS_BEFORE_OUT) && !(waits & BIT(me)) -> at = STORE_HEAD
        :: !KEEP(OUT_BEFORE_RING) -> at = (brief -> CHANGE_BELL : IDLE)
        :: else -> at = (RINGS_WHEN_OUT -> RING : IDLE)
        fi;
        forget();
        then = (at == IDLE -> 0 : IDLE)
    }
    :: d_step {
        at == RING ->
        if
        :: ANYONE_WAITS -> at = (KEEP(CHANGE_BEFORE_WAKE) -> CHANGE_BELL : WAKE)
        :: else -> end_ring()
        fi
    }
    :: d_step {
        at == CHANGE_BELL ->
        fresh = 0;
        if
        :: KEEP(CHANGE_BEFORE_WAKE) -> at = WAKE
        :: else -> end_ring()
        fi
    }
    :: d_step {
        at == WAKE ->
        asleep = 0;
        if
        :: KEEP(CHANGE_BEFORE_WAKE) -> end_ring()
        :: else -> at = CHANGE_BELL
        fi
    }
    :: d_step { at != NOT_JOINED && deaths_left && (!FOREVER || me != 1) -> die() }
    :: d_step {
        at == NOT_JOINED && lock[me] == NOBODY && turns && !FOREVER ->
        printf("%d joins\n", me);
        lock[me] = me;
        at = READ_COUNT
    }
    :: d_step {
        at == READ_COUNT ->
        seen = (KEEP(COUNT_AT_JOIN) -> deaths : 0);
        alive = alive | BIT(me);
        owed = (uncounted -> owed | BIT(me) : owed);
        at = STORE_JOINED
    }
    :: d_step {
        at == STORE_JOINED ->
        line[me] = (KEEP(OUT_AT_JOIN) -> OUT : line[me]);
        k = 0;
        do
        :: k < PARTICIPANTS ->
            stale[k] = stale[k] & ~BIT(me);
            k++
        :: else -> break
        od;
        if
        :: KEEP(RING_AT_JOIN) -> ring(IDLE)
        :: else -> at = IDLE
        fi
    }
    :: !turns && at <= IDLE && !waits && !(reads[A] | reads[B]) && exclusive == NOBODY -> break
    od
}

/* Participant 0 has begun a turn. */
inline start_in_turn(word)
{
    met = 1;
    line[0] = word;
    if
    :: KIND(word) == WRITE ->
        head = WRITTEN;
        intact = 0;
        published = UNINITIALIZED
    :: else
    fi
}

inline start_dead(word)
{
    start_in_turn(word);
    lock[0] = NOBODY;
    alive = ALL & ~BIT(0);
    uncounted = KIND(word) == WRITE;
    owed = (uncounted -> alive : 0);
    run participant(0, NOT_JOINED, 0)
}

init
{
    atomic {
        c_code {
            ask_environment();
            now.turns = turns_asked;
            now.deaths_left = deaths_asked;
        };
        lock[1] = 1;
        lock[2] = 2;
        if
        :: !FOREVER && !DIED -> run participant(0, IDLE, 0)
        :: DIED -> start_dead(WORD(FILL, 1))
        :: DIED -> start_dead(WORD(READ, 1))
        :: DIED -> start_dead(WORD(WRITE, 1))
        :: FOREVER ->
            start_in_turn(WORD(READ, 1));
            reads[A] = BIT(0);
            run participant(0, STORE_OUT, A)
        :: FOREVER ->
            start_in_turn(WORD(WRITE, 1));
            exclusive = 0;
            run participant(0, STORE_HEAD, TO_WRITE)
        fi;
        run participant(1, IDLE, 0);
        run participant(2, IDLE, 0)
    }
}

/* Every wait ends, if each participant goes on. */
ltl waits_end { []<>!(waits & BIT(0)) && []<>!(waits & BIT(1)) && []<>!(waits & BIT(2)) }
