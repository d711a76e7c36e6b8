/*
 * The state machine of one object with work in flight. It follows src/object/transaction.c, access.c, push_pull.c,
 * replace.c, resize.c, src/copy/inflight.c, transfer.c, and the release of memory in src/copy. Two threads make CALLS
 * calls in all, of any kind. Meanwhile the device executes queued work in every order that CUDA allows. The caller's
 * kernels and its host code use each pointer at any time while it is valid. README.md lists the assertions.
 *
 * A piece of work is a bit, numbered in the order of queueing among the unfinished work. A stream is the set of the
 * work that comes before its next piece. Recording an event copies that set. A wait of a stream adds an event's set to
 * the stream's. The bits of finished work are removed from all sets. Two pieces of work can run at the same moment
 * exactly if neither is in the other's set. So nothing has to be run: a conflict shows when the second piece is queued.
 * Conflicting work is ordered as it was queued, or the search ends there. So the contents that work reads and writes
 * are also known when it is queued.
 *
 * A section of a call that holds the object's lock is one step, as no other thread can see the state in between. The
 * code releases some memory after the lock; here that is in the same step, as events that are recorded later only cover
 * more.
 *
 * In the names here, the `turn` of a stream is its open write, and an `owed` read is a covered one.
 *
 * The caller of spin sets CALLS. With WAITS_LEFT_OUT, the environment has the number of calls, and the wait to leave
 * out.
 */
#ifdef WAITS_LEFT_OUT
c_decl {
\#include <stdlib.h>
    static int without, calls_asked;
    static void ask_environment(void)
    {
        without = atoi(getenv("WITHOUT"));
        calls_asked = atoi(getenv("CALLS"));
    }
}
#define KEEP(wait) (c_expr { without } != (wait))
#else
#define KEEP(wait) true
#endif

#include "waits.h"
#include "table.pml" /* look_up(), generated from src/object/transitions.c */

#define MAX_WORK 6 /* unfinished pieces of work; an assertion checks that it suffices */

/* Streams, the caller's first. ANY: no stream was named, the legacy stream. */
#define S 0
#define T 1
#define ANY 2
#define H2D 3
#define D2H 4
#define ALLOC 5
#define STREAMS 6
#define NOBODY 7
#define HOST 3 /* a domain of pointers beside the caller's three streams */

/* The effects of a piece of work. */
#define READS_HOST 1
#define WRITES_HOST 2
#define READS_DEVICE 4
#define WRITES_DEVICE 8

/* ---- State: sets of work ---- */

#define reads_host sets[0]
#define writes_host sets[1]
#define reads_device sets[2]
#define writes_device sets[3]
#define callers sets[4] /* the caller's kernels and fills, not the library's transfers */
#define stream(s) sets[5 + (s)]
/* Of each copy, as in struct sm_copy. A fence is the set at its event's record, and empty when done. */
#define write(side) sets[11 + (side)]
#define turn(side) sets[13 + (side)]
#define transfers(side) sets[15 + (side)] /* reads by the library: the union of their fences */
#define ended sets[17]                    /* uses of the device copy by streams that have ended: likewise */
#define owed sets[18]
#define use_fence(s) sets[19 + (s)]
#define waits_for(thread) sets[22 + (thread)] /* the work for which the host waits */
#define before(work) sets[24 + (work)]
#define SETS (24 + MAX_WORK)
byte sets[SETS];
byte queued;

/* ---- State: the object ---- */

#define OWN 0
#define BORROWED 1
#define ADOPTED 2
#define NO_USE 0
#define OPEN 1
#define FENCED 2
byte head;
bit has[2];
byte source[2];
byte writer = NOBODY; /* of the device copy, like the next two */
bit turn_is_set;      /* the writer's open write is about to end: turn is its fence, done or not */
bit write_is_owed;
byte use[3];
byte grown;         /* bits of threads: a resize has copied the contents to larger memory, not yet the object's */
byte grown_current; /* likewise: that memory has the current contents */
byte hot;           /* bits 0-3: ready[side][writing]; 4, 5: S, T in on[reading]; 6, 7: in on[writing] */
#define HOT_READY(side, writing) (1 << (2 * (side) + (writing)))
#define HOT_ON(s, writing) (1 << (4 + 2 * (writing) + (s)))

/* ---- State: the callers ---- */

byte calls = CALLS; /* still to be made */
byte call[2];       /* the current call of each thread */
bit spoiled[2];     /* a conflicting call overlaps with it: the caller may not use its result */
bit met_s;          /* S was named; it is always named first, as T first would be the same */
/* The domains that may use a pointer, to read and to write. One use at any time is enough. */
byte may_read;
byte may_write;
/* current: the copy has the current contents, in the order of queueing. defined: there are contents to read. */
bit current[2];
bit defined = 1;

/* ---- Calls ---- */

/* Accessors: 1 + 3 * domain + mode, the domains S, T, ANY, HOST. */
#define LAST_ACCESS 12
#define ACCESS(domain, mode) (1 + 3 * (domain) + (mode))
/* The next ones: + S or T. */
#define PUSH 13
#define PULL 15
#define END_USE_ON 17
#define SET_CPU_ON 19
#define SET_GPU_ON 21
#define ADOPT_BOTH_ON 23
#define LAST_ON 24
#define SET_CPU 25
#define SET_GPU 26
#define SET_BOTH 27
#define RELEASE_CPU 28
#define RELEASE_GPU 29
#define RELEASE_DATA 30
#define WAIT 31
/* The next ones: + bits of the sides that have room. */
#define GROW 32
#define DISCARD 36

#define NEUTRAL 0
#define READING 1
#define WRITING 2
#define CLASS(c) \
    ((c) == 0 || (c) == WAIT || (c) == END_USE_ON || (c) == END_USE_ON + T -> NEUTRAL : \
     ((c) >= PUSH && (c) < END_USE_ON || (c) <= LAST_ACCESS && ((c) - 1) % 3 == READ -> READING : WRITING))
/* A pointer to write stays valid after reads in its own domain. */
#define DOMAIN(c) ((c) <= LAST_ACCESS -> ((c) - 1) / 3 : NOBODY)
#define STREAM_OF(c) (((c) - PUSH) % 2)

/* ---- Scratch: used within a step only ---- */

hidden byte work, next, side, mode, domain, wait, found, set, mine, low, k, w, j, from, to, room, going, queue;
hidden byte locked, first, named;

/* ---- Work ---- */

/* Queues work on the stream. No conflicting work may be able to run beside it. */
inline enqueue(s, does, is_callers)
{
    assert(queued < MAX_WORK);
    set = stream(s);
    mine = 1 << queued;
    if
    :: (does) & (READS_HOST | WRITES_HOST) -> assert(!(writes_host & ~set))
    :: else
    fi;
    if
    :: (does) & (READS_DEVICE | WRITES_DEVICE) -> assert(!(writes_device & ~set))
    :: else
    fi;
    if
    :: (does) & READS_HOST -> reads_host = reads_host | mine
    :: else
    fi;
    if
    :: (does) & WRITES_HOST ->
        assert(!(reads_host & ~set));
        writes_host = writes_host | mine
    :: else
    fi;
    if
    :: (does) & READS_DEVICE -> reads_device = reads_device | mine
    :: else
    fi;
    if
    :: (does) & WRITES_DEVICE ->
        assert(!(reads_device & ~set));
        writes_device = writes_device | mine
    :: else
    fi;
    if
    :: is_callers -> callers = callers | mine
    :: else
    fi;
    printf("queued %d on %d, does %d, after %d\n", queued, s, does, set);
    before(queued) = set;
    stream(s) = set | mine;
    queued++
}

/* Finishes work: removes its bit from all sets, and moves the later ones up. */
inline complete(i)
{
    printf("done %d\n", i);
    low = (1 << (i)) - 1;
    w = i;
    do
    :: w + 1 < queued ->
        before(w) = before(w + 1);
        w++
    :: else -> break
    od;
    before(w) = 0;
    w = 0;
    do
    :: w < SETS ->
        sets[w] = (sets[w] & low) | ((sets[w] >> 1) & ~low);
        w++
    :: else -> break
    od;
    queued--;
    if
    :: !write(GPU) -> write_is_owed = 0 /* either is right, and this has fewer states */
    :: else
    fi
}

/* ---- inflight.c ---- */

inline drop_writer()
{
    writer = NOBODY;
    turn_is_set = 0
}

inline settle(side_, conflicting, by)
{
    if
    :: (side_) == GPU ->
        if
        :: writer != NOBODY && writer != (by) && !turn_is_set && KEEP(SETTLE_WRITER) ->
            turn(GPU) = stream(writer);
            turn_is_set = 1
        :: else
        fi;
        k = 0;
        do
        :: k < 3 && (conflicting) ->
            if
            :: use[k] == OPEN && k != (by) && KEEP(SETTLE_READERS) ->
                use[k] = FENCED;
                use_fence(k) = (k == writer && turn_is_set && !KEEP(END_ANEW) -> turn(GPU) : stream(k))
            :: else
            fi;
            k++
        :: else -> break
        od
    :: else
    fi
}

#define UNOWED_WRITE(side_) ((side_) == GPU && write_is_owed -> 0 : write(side_))
#define READERS (ended | use_fence(S) | use_fence(T) | use_fence(ANY))

/* Sets found to the work for which the host waits first. waits: the first of the four names of its waits. */
inline blocker(side_, conflicting, waits)
{
    found = 0;
    if
    :: UNOWED_WRITE(side_) && KEEP(waits) -> found = UNOWED_WRITE(side_)
    :: else ->
        if
        :: turn(side_) && KEEP((waits) + 1) -> found = turn(side_)
        :: else ->
            if
            :: (conflicting) && transfers(side_) && KEEP((waits) + 2) -> found = transfers(side_)
            :: else ->
                if
                :: (conflicting) && (side_) == GPU && READERS && KEEP((waits) + 3) -> found = READERS
                :: else
                fi
            fi
        fi
    fi
}

inline order(side_, conflicting, s, waits)
{
    if
    :: (s) <= ANY && !(conflicting) && (side_) == GPU && use[s] == OPEN
    :: else ->
        settle(side_, conflicting, s);
        stream(s) = stream(s) | (KEEP(waits) -> UNOWED_WRITE(side_) : 0) | (KEEP((waits) + 1) -> turn(side_) : 0);
        if
        :: (conflicting) -> stream(s) = stream(s) | (KEEP((waits) + 2) -> transfers(side_) : 0)
        :: else
        fi;
        if
        :: (conflicting) && (side_) == GPU -> stream(s) = stream(s) | (KEEP((waits) + 3) -> READERS : 0)
        :: else
        fi
    fi
}

inline transfer_on(side_)
{
    found = (KEEP(HAND_BACK_WRITE) -> write(side_) : 0) | (KEEP(HAND_BACK_READS) -> transfers(side_) : 0);
    if
    :: (side_) == GPU -> found = found | (KEEP(HAND_BACK_OWED) -> owed : 0)
    :: else
    fi
}

inline forget_readers()
{
    ended = 0;
    use_fence(S) = 0;
    use_fence(T) = 0;
    use_fence(ANY) = 0
}

inline written(side_, fence)
{
    write(side_) = fence;
    turn(side_) = 0;
    transfers(side_) = 0;
    if
    :: (side_) == GPU ->
        drop_writer();
        forget_readers();
        use[S] = NO_USE;
        use[T] = NO_USE;
        use[ANY] = NO_USE;
        owed = 0;
        write_is_owed = 0;
        grown = (KEEP(GROW_ANEW) -> 0 : grown)
    :: else
    fi
}

inline close()
{
    if
    :: writer != NOBODY && turn_is_set -> drop_writer()
    :: else
    fi
}

inline reopen()
{
    if
    :: writer != NOBODY ->
        turn(GPU) = 0;
        turn_is_set = 0
    :: else
    fi;
    k = 0;
    do
    :: k < 3 ->
        use[k] = (use[k] -> OPEN : NO_USE);
        use_fence(k) = 0;
        k++
    :: else -> break
    od
}

inline given(s, writing)
{
    if
    :: writing ->
        k = 0;
        do
        :: k < 3 ->
            use[k] = (use[k] && k == (s) -> OPEN : NO_USE);
            k++
        :: else -> break
        od;
        forget_readers();
        owed = owed | transfers(GPU);
        transfers(GPU) = 0;
        turn(GPU) = 0;
        turn_is_set = 0;
        writer = s;
        write_is_owed = 1;
        grown = (KEEP(GROW_ANEW) -> 0 : grown)
    :: else ->
        close();
        use[s] = OPEN;
        use_fence(s) = 0
    fi
}

inline end_use(s)
{
    if
    :: writer == (s) && !turn_is_set ->
        turn(GPU) = stream(s);
        turn_is_set = 1
    :: else
    fi;
    if
    :: use[s] == OPEN -> use_fence(s) = (writer == (s) && turn_is_set && !KEEP(END_ANEW) -> turn(GPU) : stream(s))
    :: else
    fi;
    if
    :: writer == (s) -> drop_writer()
    :: else
    fi;
    ended = ended | use_fence(s);
    use_fence(s) = 0;
    use[s] = NO_USE
}

/* ---- transaction.c ---- */

inline publish_ready(side_, writing)
{
    blocker(side_, writing, ALWAYS);
    if
    :: (head & (1 << (side_))) && (!(writing) || head == (1 << (side_))) && (!found || !KEEP(HOT_BLOCKER)) &&
       ((side_) == CPU || !KEEP(HOT_GIVEN) || ((writing) -> writer == ANY && !turn_is_set : use[ANY] == OPEN)) ->
        hot = hot | HOT_READY(side_, writing)
    :: else
    fi
}

/* In the code only the last reader is hot on a stream. Here all are, which allows more. */
inline publish_pointers()
{
    hot = 0;
    publish_ready(CPU, 0);
    publish_ready(CPU, 1);
    publish_ready(GPU, 0);
    publish_ready(GPU, 1);
    if
    :: (head & 2) ->
        hot = hot | (use[S] == OPEN -> HOT_ON(S, 0) : 0) | (use[T] == OPEN -> HOT_ON(T, 0) : 0)
    :: else
    fi;
    if
    :: head == 2 && writer <= T && !turn_is_set -> hot = hot | HOT_ON(writer, 1)
    :: else
    fi
}

inline set_head(state)
{
    head = state
}

/* ---- copy.c ---- */

#define UNORDERED(work_, set_) ((work_) & ~(set_))

/* The object releases the memory. All work queued on it must come before its free, or its return to the caller. */
inline detach_copy(side_)
{
    settle(side_, true, NOBODY);
    set = 0;
    if
    :: (side_) == CPU && source[CPU] != BORROWED ->
        set = (KEEP(IDLE_WRITE) -> write(CPU) : 0) | (KEEP(IDLE_TURN) -> turn(CPU) : 0) |
              (KEEP(IDLE_TRANSFERS) -> transfers(CPU) : 0);
        assert(!UNORDERED(reads_host | writes_host, set))
    :: (side_) == CPU && source[CPU] == BORROWED -> assert(!UNORDERED(reads_host | writes_host, callers))
    :: (side_) == GPU && source[GPU] != BORROWED ->
        set = (KEEP(FREE_WRITE) -> UNOWED_WRITE(GPU) : 0) | (KEEP(FREE_TURN) -> turn(GPU) : 0) |
              (KEEP(FREE_TRANSFERS) -> transfers(GPU) : 0) | (KEEP(FREE_READERS) -> READERS : 0);
        assert(!UNORDERED(reads_device | writes_device, set))
    :: (side_) == GPU && source[GPU] == BORROWED -> assert(!UNORDERED(reads_device | writes_device, callers))
    fi;
    if
    :: (side_) == CPU ->
        reads_host = 0;
        writes_host = 0
    :: else ->
        reads_device = 0;
        writes_device = 0
    fi;
    callers = callers & (reads_host | writes_host | reads_device | writes_device);
    written(side_, 0);
    grown = ((side_) == GPU -> 0 : grown);
    has[side_] = 0;
    source[side_] = OWN;
    current[side_] = 0
}

/* ---- transfer.c and access.c ---- */

/* Sets wait if the source is not ready. */
inline queue_move(to_, s)
{
    to = to_;
    from = 1 - to;
    if
    :: to == GPU && source[CPU] != OWN && KEEP(SOURCE_READY) ->
        blocker(CPU, false, ALWAYS);
        wait = found
    :: else
    fi;
    if
    :: wait == 0 ->
        /* The runtime may access memory that is not its own during the call. */
        assert(to == CPU || source[CPU] == OWN || !writes_host);
        has[to] = 1;
        order(from, false, s, SOURCE_WRITE);
        order(to, true, s, TARGET_WRITE);
        if
        :: to == GPU -> enqueue(s, READS_HOST | WRITES_DEVICE, false)
        :: else -> enqueue(s, READS_DEVICE | WRITES_HOST, false)
        fi;
        transfers(from) = transfers(from) | stream(s);
        written(to, stream(s));
        current[to] = current[from];
        set_head(head | (1 << to))
    :: else
    fi
}

inline fill(s)
{
    order(GPU, true, s, FILL_WRITE);
    enqueue(s, WRITES_DEVICE, false);
    written(GPU, stream(s))
}

/* Uses the stream `queue`; NOBODY: an internal stream. */
inline fetch(side_)
{
    if
    :: work == NOTHING && !has[side_] ->
        has[side_] = 1;
        if
        :: (side_) == GPU ->
            queue = (queue == NOBODY -> ALLOC : queue);
            enqueue(queue, WRITES_DEVICE, false); /* the allocation: in the stream's order, before any use */
            written(GPU, stream(queue))
        :: else
        fi
    :: work == NOTHING && has[side_]
    :: work == ZERO && (side_) == CPU ->
        if
        :: has[CPU] && KEEP(ZERO_HOST) ->
            blocker(CPU, true, ALWAYS);
            wait = found
        :: else
        fi;
        if
        :: wait == 0 ->
            assert(!(reads_host | writes_host)); /* the host fills it */
            has[CPU] = 1;
            current[CPU] = 1;
            set_head(head | 1)
        :: else
        fi
    :: work == ZERO && (side_) == GPU ->
        queue = (queue == NOBODY -> ALLOC : queue);
        has[GPU] = 1;
        fill(queue);
        current[GPU] = 1;
        set_head(head | 2)
    :: work == MOVE ->
        queue = (queue == NOBODY -> ((side_) == GPU -> H2D : D2H) : queue);
        queue_move(side_, queue)
    fi
}

/* Permits the use of the returned pointer, if no conflicting call has overlapped. */
inline finish(thread)
{
    look_up(head, side, mode);
    set_head(next);
    if
    :: mode == OVERWRITE ->
        defined = 0;
        current[CPU] = 0;
        current[GPU] = 0;
        grown_current = 0
    :: else
    fi;
    if
    :: !spoiled[thread] && mode == READ -> may_read = may_read | (1 << domain)
    :: !spoiled[thread] && mode != READ -> may_write = may_write | (1 << domain)
    :: else
    fi
}

#define IS_HOT \
    (domain == HOST && (hot & HOT_READY(CPU, mode != READ)) || \
     domain == ANY && (hot & HOT_READY(GPU, mode != READ)) || domain <= T && (hot & HOT_ON(domain, mode != READ)))

inline access(thread)
{
    domain = (call[thread] - 1) / 3;
    mode = (call[thread] - 1) % 3;
    side = (domain == HOST -> CPU : GPU);
    named = domain <= T;
    if
    :: first && IS_HOT ->
        look_up(head, side, mode);
        assert(work == NOTHING && next == head); /* without the lock neither work nor a new head is possible */
        finish(thread);
        locked = 0
    :: else ->
        look_up(head, side, mode);
        if
        :: first || KEEP(LOOK_AGAIN_ACCESS) ->
            queue = (named -> domain : NOBODY);
            fetch(side);
            if
            :: wait == 0 ->
                /* The work has made the side valid. */
                look_up(head, side, mode);
                assert(work == NOTHING);
                if
                :: named -> order(GPU, mode != READ, domain, STREAM_WRITE)
                :: domain == ANY ->
                    settle(GPU, mode != READ, ANY);
                    blocker(GPU, mode != READ, ANY_WRITE);
                    wait = found
                :: domain == HOST ->
                    blocker(CPU, mode != READ, HOST_WRITE);
                    wait = found
                fi
            :: else
            fi
        :: else
        fi;
        if
        :: wait == 0 ->
            if
            :: side == GPU -> given(domain, mode != READ)
            :: else
            fi;
            finish(thread);
            close();
        :: else
        fi
    fi
}

inline end_use_on(thread)
{
    queue = STREAM_OF(call[thread]);
    if
    :: has[GPU] -> end_use(queue)
    :: else
    fi
}

/* ---- push_pull.c ---- */

inline move(thread)
{
    queue = STREAM_OF(call[thread]);
    side = (call[thread] < PULL -> GPU : CPU);
    if
    :: head == 3 -> order(side, false, queue, STREAM_WRITE)
    :: head == (1 << (1 - side)) -> queue_move(side, queue)
    :: else -> reopen() /* an error: there is nothing to move */
    fi
}

/* ---- replace.c and resize.c ---- */

/* Sets wait to the library's transfers on borrowed memory. */
inline hand_back(side_, which)
{
    if
    :: wait == 0 && has[side_] && source[side_] == BORROWED && KEEP(which) && (first || KEEP(LOOK_AGAIN_STORAGE)) ->
        transfer_on(side_);
        wait = found
    :: else
    fi
}

inline release_side(thread)
{
    side = (call[thread] == RELEASE_CPU -> CPU : GPU);
    if
    :: has[side] ->
        if
        :: head == (1 << side) ->
            queue = (side == CPU -> H2D : D2H);
            queue_move(1 - side, queue)
        :: else
        fi;
        if
        :: wait == 0 && (head & (1 << (1 - side))) && KEEP(ARRIVAL) && (first || KEEP(LOOK_AGAIN_STORAGE)) ->
            blocker(1 - side, false, ALWAYS);
            wait = found
        :: else
        fi;
        hand_back(side, HAND_BACK_RELEASE);
        if
        :: wait == 0 ->
            /* A transfer to the other side must have ended. If it failed now, its contents would be lost. */
            assert(head != 3 || side == GPU || write_is_owed || !(reads_host & writes_device));
            assert(head != 3 || side == CPU || !(reads_device & writes_host));
            detach_copy(side);
            set_head(head & ~(1 << side))
        :: else
        fi
    :: else
    fi
}

inline replace(thread)
{
    set = call[thread];
    named = set <= LAST_ON;
    queue = (named -> STREAM_OF(set) : NOBODY);
    going = 0;
    if
    :: set == SET_CPU || set == SET_CPU_ON || set == SET_CPU_ON + T -> going = 1
    :: set == SET_GPU || set == SET_GPU_ON || set == SET_GPU_ON + T -> going = 2
    :: else -> going = 3
    fi;
    if
    :: going & 1 -> hand_back(CPU, HAND_BACK_REPLACE)
    :: else
    fi;
    if
    :: going & 2 -> hand_back(GPU, HAND_BACK_REPLACE)
    :: else
    fi;
    if
    :: wait == 0 ->
        if
        :: (going & 1) && has[CPU] -> detach_copy(CPU)
        :: else
        fi;
        if
        :: (going & 2) && has[GPU] -> detach_copy(GPU)
        :: else
        fi;
        current[CPU] = 0;
        current[GPU] = 0;
        grown_current = 0;
        defined = 1;
        if
        :: call[thread] == RELEASE_DATA -> set_head(0)
        :: else ->
            set_head(going);
            if
            :: going & 1 ->
                has[CPU] = 1;
                source[CPU] = (named && going == 3 -> ADOPTED : BORROWED);
                current[CPU] = 1
            :: else
            fi;
            if
            :: going & 2 ->
                has[GPU] = 1;
                source[GPU] = (named && going == 3 -> ADOPTED : BORROWED);
                current[GPU] = 1
            :: else
            fi;
            /* Work that fills the memory: on the named stream, otherwise on the legacy stream for device memory. */
            if
            :: named && going == 1 -> enqueue(queue, WRITES_HOST, true)
            :: named && going == 2 -> enqueue(queue, WRITES_DEVICE, true)
            :: named && going == 3 -> enqueue(queue, WRITES_HOST | WRITES_DEVICE, true)
            :: !named && (going & 2) ->
                given(ANY, true);
                enqueue(ANY, WRITES_DEVICE, true)
            :: else
            fi;
            if
            :: named && (going & 1) -> turn(CPU) = stream(queue)
            :: else
            fi;
            if
            :: named && (going & 2) -> turn(GPU) = stream(queue)
            :: else
            fi
        fi
    :: else
    fi
}

/* Fills the end of the device copy, or transfers the contents to larger memory. That memory becomes the object's once
 * the contents of borrowed memory have been copied. */
inline grow_device(thread)
{
    mine = 0;
    if
    :: next & 2 -> fill(ALLOC)
    :: !(next & 2) && !(grown & (1 << thread)) ->
        order(GPU, false, ALLOC, SOURCE_WRITE);
        enqueue(ALLOC, READS_DEVICE, false);
        transfers(GPU) = transfers(GPU) | stream(ALLOC);
        grown = grown | (1 << thread);
        grown_current = (grown_current & ~(1 << thread)) | (current[GPU] << thread)
    :: else
    fi;
    if
    :: !(next & 2) && source[GPU] == BORROWED && KEEP(HAND_BACK_GROWN) ->
        transfer_on(GPU);
        wait = found
    :: else
    fi;
    if
    :: !(next & 2) && wait == 0 ->
        detach_copy(GPU);
        has[GPU] = 1;
        current[GPU] = (grown_current >> thread) & 1;
        writes_device = mine; /* the same work, if it was queued in this step; otherwise it is done */
        found = (mine -> stream(ALLOC) : 0);
        written(GPU, found);
        room = room | 2;
        next = 2
    :: else
    fi
}

inline grow_host()
{
    if
    :: next & 1 -> assert(!(reads_host | writes_host))
    :: else ->
        assert(!writes_host);
        found = current[CPU];
        detach_copy(CPU);
        has[CPU] = 1;
        current[CPU] = found;
        room = room | 1;
        next = 1
    fi
}

inline resize(thread)
{
    mode = (call[thread] >= DISCARD);
    room = call[thread] - (mode -> DISCARD : GROW);
    room = room & (has[CPU] + 2 * has[GPU]);
    if
    :: !(room & 1) -> hand_back(CPU, HAND_BACK_RESIZE)
    :: else
    fi;
    if
    :: !(room & 2) -> hand_back(GPU, HAND_BACK_RESIZE)
    :: else
    fi;
    if
    :: wait == 0 && !mode && (head & 1) && KEEP(RESIZE_HOST) && (first || KEEP(LOOK_AGAIN_STORAGE)) ->
        blocker(CPU, true, ALWAYS);
        wait = found
    :: else
    fi;
    if
    :: wait == 0 ->
        next = (mode -> 0 : head & room);
        if
        :: !mode && head && next == 0 && (head & 2) -> grow_device(thread)
        :: !mode && head && next == 0 && !(head & 2) -> grow_host()
        :: !mode && next == 2 -> grow_device(thread)
        :: !mode && next == 1 -> grow_host()
        :: !mode && next == 3 ->
            grow_device(thread);
            grow_host()
        :: else
        fi
    :: else
    fi;
    if
    :: wait == 0 ->
        if
        :: has[CPU] && !(room & 1) -> detach_copy(CPU)
        :: else
        fi;
        if
        :: has[GPU] && !(room & 2) -> detach_copy(GPU)
        :: else
        fi;
        current[CPU] = current[CPU] && (next & 1);
        current[GPU] = current[GPU] && (next & 2);
        defined = defined || mode;
        grown = 0; /* the size has changed */
        set_head(next)
    :: else
    fi
}

/* ---- A call ---- */

inline wait_for_transfers()
{
    transfer_on(CPU);
    wait = found;
    if
    :: wait == 0 ->
        transfer_on(GPU);
        wait = found
    :: else
    fi;
    if
    :: !KEEP(WAIT_TRANSFERS) -> wait = 0
    :: else
    fi;
    assert(wait || !((reads_host | writes_host | reads_device | writes_device) & ~callers))
}

/* Ends pointers that conflict with the call. Marks overlapping calls that conflict. */
inline begin(thread)
{
    printf("thread %d: call %d\n", thread, call[thread]);
    first = 1;
    if
    :: CLASS(call[thread]) == WRITING ->
        may_read = 0;
        may_write = 0
    :: CLASS(call[thread]) == READING -> may_write = may_write & (1 << DOMAIN(call[thread]))
    :: else ->
        if
        :: call[thread] == END_USE_ON || call[thread] == END_USE_ON + T ->
            may_read = may_read & ~(1 << STREAM_OF(call[thread]));
            may_write = may_write & ~(1 << STREAM_OF(call[thread]))
        :: else
        fi
    fi;
    if
    :: CLASS(call[thread]) && CLASS(call[1 - thread]) && CLASS(call[thread]) + CLASS(call[1 - thread]) > 2 ->
        spoiled[thread] = 1;
        spoiled[1 - thread] = 1
    :: else
    fi
}

/* No further call comes, so the library's state makes no difference any more. */
#define IS_LAST (calls == 0 && call[0] == 0 && call[1] == 0)
inline forget_stream(s)
{
    if
    :: (may_read | may_write) & (1 << (s))
    :: else -> stream(s) = 0
    fi
}
inline forget_all()
{
    written(CPU, 0);
    written(GPU, 0);
    stream(H2D) = 0;
    stream(D2H) = 0;
    stream(ALLOC) = 0;
    head = 0;
    hot = 0;
    met_s = 0;
    callers = 0;
    has[CPU] = 0;
    has[GPU] = 0;
    source[CPU] = OWN;
    source[GPU] = OWN;
    forget_stream(S);
    forget_stream(T);
    forget_stream(ANY);
    w = 0;
    do
    :: w < MAX_WORK ->
        before(w) = 0;
        w++
    :: else -> break
    od
}

/* Ends the call, or begins a wait with the lock released. */
inline leave(thread)
{
    if
    :: wait == 0 && call[thread] > LAST_ACCESS && CLASS(call[thread]) != NEUTRAL -> close()
    :: else
    fi;
    if
    :: locked -> publish_pointers()
    :: else
    fi;
    assert(!defined || (!(head & 1) || current[CPU]) && (!(head & 2) || current[GPU]));
    waits_for(thread) = wait;
    printf("thread %d: head %d, waits for %d of %d\n", thread, head, wait, queued);
    if
    :: wait == 0 ->
        call[thread] = 0;
        spoiled[thread] = 0
    :: else
    fi;
    grown_current = grown_current & grown;
    if
    :: IS_LAST -> forget_all()
    :: else
    fi;
    first = 0
}

/* A section with the lock held. */
inline section(thread)
{
    wait = 0;
    locked = 1;
    if
    :: call[thread] <= LAST_ACCESS -> d_step { access(thread) }
    :: call[thread] >= PUSH && call[thread] < END_USE_ON -> d_step { move(thread) }
    :: call[thread] == END_USE_ON || call[thread] == END_USE_ON + T -> d_step { end_use_on(thread) }
    :: call[thread] >= SET_CPU_ON && call[thread] <= SET_BOTH || call[thread] == RELEASE_DATA ->
        d_step { replace(thread) }
    :: call[thread] == RELEASE_CPU || call[thread] == RELEASE_GPU -> d_step { release_side(thread) }
    :: call[thread] == WAIT -> d_step { wait_for_transfers() }
    :: call[thread] >= GROW -> d_step { resize(thread) }
    fi;
    d_step { leave(thread) }
}

#define ON_STREAM(c) \
    :: call[thread] = (c) + S; met_s = 1 \
    :: met_s -> call[thread] = (c) + T

inline choose(thread)
{
    if
    :: call[thread] = ACCESS(HOST, READ)
    :: call[thread] = ACCESS(HOST, MUTABLE)
    :: call[thread] = ACCESS(HOST, OVERWRITE)
    :: call[thread] = ACCESS(ANY, READ)
    :: call[thread] = ACCESS(ANY, MUTABLE)
    :: call[thread] = ACCESS(ANY, OVERWRITE)
    :: call[thread] = ACCESS(S, READ); met_s = 1
    :: call[thread] = ACCESS(S, MUTABLE); met_s = 1
    :: call[thread] = ACCESS(S, OVERWRITE); met_s = 1
    :: met_s -> call[thread] = ACCESS(T, READ)
    :: met_s -> call[thread] = ACCESS(T, MUTABLE)
    :: met_s -> call[thread] = ACCESS(T, OVERWRITE)
    ON_STREAM(PUSH)
    ON_STREAM(PULL)
    ON_STREAM(END_USE_ON)
    ON_STREAM(SET_CPU_ON)
    ON_STREAM(SET_GPU_ON)
    ON_STREAM(ADOPT_BOTH_ON)
    :: call[thread] = SET_CPU
    :: call[thread] = SET_GPU
    :: call[thread] = SET_BOTH
    :: call[thread] = RELEASE_CPU
    :: call[thread] = RELEASE_GPU
    :: call[thread] = RELEASE_DATA
    :: call[thread] = WAIT
    :: call[thread] = GROW
    :: call[thread] = GROW + 1
    :: call[thread] = GROW + 2
    :: call[thread] = GROW + 3
    :: call[thread] = DISCARD
    :: call[thread] = DISCARD + 3
    fi
}

/* The threads are alike. So the second one calls only while the first one waits. */
proctype caller(bit thread)
{
    do
    :: atomic {
        if
        :: call[thread] == 0 && calls > 0 && (thread == 0 || call[0]) ->
            choose(thread);
            d_step {
                calls--;
                begin(thread)
            }
        :: call[thread] && waits_for(thread) == 0
        :: call[thread] == 0 && calls == 0 -> break
        fi;
        section(thread)
    }
    od
}

/* ---- The device, and the users of pointers ---- */

inline kernel(s, writing)
{
    assert(!defined || current[GPU]);
    may_read = may_read & ~(1 << (s));
    if
    :: writing ->
        may_write = may_write & ~(1 << (s));
        enqueue(s, WRITES_DEVICE, true);
        defined = 1;
        current[CPU] = 0;
        current[GPU] = 1;
        grown_current = 0
    :: else -> enqueue(s, READS_DEVICE, true)
    fi
}

inline use_host(writing)
{
    assert(!defined || current[CPU]);
    assert(!writes_host);
    may_read = may_read & ~(1 << HOST);
    if
    :: writing ->
        assert(!reads_host);
        may_write = may_write & ~(1 << HOST);
        defined = 1;
        current[CPU] = 1;
        current[GPU] = 0;
        grown_current = 0
    :: else
    fi
}

/* Finishes work in any order, as long as that makes a difference to the library. */
#define COMPLETE(i) :: atomic { queued > (i) && before(i) == 0 && ((i) == 0 || !IS_LAST) -> d_step { complete(i) } }
#define KERNELS(s) \
    :: atomic { (may_read & (1 << (s))) -> d_step { kernel(s, false) } } \
    :: atomic { (may_write & (1 << (s))) -> d_step { kernel(s, true) } }

proctype machine()
{
    do
    COMPLETE(0)
    COMPLETE(1)
    COMPLETE(2)
    COMPLETE(3)
    COMPLETE(4)
    COMPLETE(5)
    KERNELS(S)
    KERNELS(T)
    KERNELS(ANY)
    :: atomic { (may_read & (1 << HOST)) -> d_step { use_host(false) } }
    :: atomic { (may_write & (1 << HOST)) -> d_step { use_host(true) } }
    :: calls == 0 && call[0] == 0 && call[1] == 0 && queued == 0 -> break
    od
}

init
{
    atomic {
#ifdef WAITS_LEFT_OUT
        c_code {
            ask_environment();
            now.calls = calls_asked;
        };
#endif
        run caller(0);
        run caller(1);
        run machine()
    }
}
