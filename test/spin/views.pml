/*
 * Views: objects whose bytes are a part of a root's. There are a root of three bytes and two views. Two threads make
 * calls: accesses to the three objects, and making and releasing the views. The root's contents are cut into pieces at
 * the borders of the views. README.md lists the assertions.
 *
 * The program keeps the one rule by bytes. If two calls at the same time have a byte in common, neither of them writes.
 * No view is released during another call on it. Apart from that, calls interleave wherever the library releases the
 * root's lock. The hot path also runs while another thread holds the lock.
 *
 * Work is as in object.pml: a bit, numbered in the order of queueing, with the set of the work that comes before it.
 * Here it also has the bytes that it reads and writes. A call queues one transfer for all its pieces, with one event. A
 * transfer to the device is staged, so the call waits without the lock until the transfer is queued. On the host a call
 * waits without the lock until the contents have arrived.
 *
 * The environment sets CALLS, the number of calls, PLACES, the positions of the views that are tried (bits, see init),
 * and WITHOUT, the number of the rule to leave out, or 0.
 */
c_decl {
\#include <stdlib.h>
    static int calls_asked, places, without;
    static void ask_environment(void)
    {
        calls_asked = atoi(getenv("CALLS"));
        places = atoi(getenv("PLACES"));
        without = atoi(getenv("WITHOUT"));
    }
}
#define KEEP(rule) (c_expr { without } != (rule))

#include "rules.h"
#include "table.pml" /* look_up(), generated from src/object/transitions.c */

#ifndef MAX_WORK
#define MAX_WORK 3 /* unfinished work; a call goes on only if there is room for what it queues */
#endif

#define BYTES 3
#define RECORDS 3
#define NONE 3 /* no record, no stream, no byte */
#define BIT(i) (1 << (i))
#define FROM(b) (7 & ~(BIT(b) - 1)) /* the bytes from b on */

/* Domains of pointers: two streams of the caller's, and the host. */
#define S 0
#define T 1
#define HOST 2
#define D2H 2 /* a third stream, the internal one for transfers to the host */

/* ---- State: sets of work ---- */

#define reads(side, b) sets[(side) * BYTES + (b)] /* the unfinished work that reads the byte of the side */
#define writes(side, b) sets[6 + (side) * BYTES + (b)]
#define stream(s) sets[12 + (s)] /* the work that comes before the stream's next */
/* Of each record and side: the fences of the last write, and those of the reads since then. */
#define write_fence(r, side) sets[15 + 2 * (r) + (side)]
#define read_fence(r, side) sets[21 + 2 * (r) + (side)]
#define waits_for(thread) sets[27 + (thread)] /* the work that a call waits for without the lock */
#define before(work) sets[29 + (work)]
#define SETS (29 + MAX_WORK)
byte sets[SETS];
byte queued;

/* ---- State: pieces and objects ---- */

/* A record stands for the two copies of a piece. */
byte record[BYTES] = NONE; /* of the piece that begins at the byte; NONE: no piece begins there */
byte data[RECORDS] = NONE; /* the data pointer: the first byte of the piece; NONE: the record is free */
byte head[RECORDS];
byte writer[RECORDS] = NONE; /* the stream with an open write of the device copy */
byte readers[RECORDS];       /* bits of the streams that were given the device copy's pointer to read */

#define ROOT 0
#define OBJECTS 3
byte low[OBJECTS];           /* the first byte */
byte high[OBJECTS];          /* the end: the byte behind the last */
byte alive = BIT(ROOT);      /* bits of objects */
byte copy[OBJECTS] = NONE;   /* the record of the object's first piece, which the hot path reads */
byte listed[OBJECTS] = NONE; /* the record on whose list the object is */
byte hot[OBJECTS];           /* the published pointers */
#define HOT(domain, writing) BIT(2 * (domain) + (writing))
#define HOT_TO_READ (HOT(S, 0) | HOT(T, 0))
#define HOT_TO_WRITE (HOT(S, 1) | HOT(T, 1))

bit locked;
byte changed; /* bits of records, while the lock is held */

/* ---- State: the callers ---- */

byte calls;   /* still to be made */
byte call[2]; /* the current call of each thread */
#define LOCK 1 /* the call takes the lock next */
#define UNLOCK 2
#define UNLOCK_TO_WAIT 3
#define LOAD_COPY 4 /* the call is on the hot path, and its stream is the published one */
#define LOAD_DATA 5
byte phase[2];
byte loaded[2]; /* the record that the hot path has loaded */
byte used[2];   /* bits of records: the pieces of a call that waits without the lock */
bit met_s;      /* S was named; it is always named first, as T first would be the same */
/* The bytes that each domain may use. */
byte may_read[3];
byte may_write[3];
/* The bytes of each side with the version that was written last, in the order of queueing. */
byte current[2];

/* ---- Calls ---- */

#define ACCESS(object, domain, mode) (1 + 9 * (object) + 3 * (domain) + (mode))
#define LAST_ACCESS 27
#define IS_ACCESS(c) ((c) && (c) <= LAST_ACCESS)
/* The next ones: + view, 1 or 2. */
#define MAKE 27
#define RELEASE 29
#define OBJECT(c) ((c) <= LAST_ACCESS -> ((c) - 1) / 9 : ((c) <= RELEASE -> (c) - MAKE : (c) - RELEASE))
#define DOMAIN(c) ((((c) - 1) / 3) % 3)
#define MODE(c) (((c) - 1) % 3)
#define WRITES(c) (MODE(c) != READ)
#define RANGE(o) (FROM(low[o]) & ~FROM(high[o]))

/* Evaluates to whether both calls may be made at the same time. Making and releasing a view touches no byte. */
#define AGREE(c, d) \
    (!(d) || \
     (IS_ACCESS(c) && IS_ACCESS(d) -> !(RANGE(OBJECT(c)) & RANGE(OBJECT(d))) || !(WRITES(c) || WRITES(d)) : \
      OBJECT(c) != OBJECT(d)))

/* ---- Scratch: used within a step only ---- */

hidden byte work, next, side, mode, domain, object, b, r, l, n, i, k, w, o, span, wait, order, mine, set, lower;
hidden byte moved, moving, filled, filling, pieces, allowed;
hidden byte writing, conflicting;

/* ---- Work ---- */

/* Queues work on the stream. No conflicting work may be able to run beside it, and it reads the last version. */
inline enqueue(s, read_side, read_bytes, write_side, write_bytes)
{
    assert(queued < MAX_WORK);
    set = stream(s);
    mine = BIT(queued);
    i = 0;
    do
    :: i < BYTES ->
        if
        :: (read_bytes) & BIT(i) ->
            assert(!(writes(read_side, i) & ~set));
            assert(current[read_side] & BIT(i));
            reads(read_side, i) = reads(read_side, i) | mine
        :: else
        fi;
        if
        :: (write_bytes) & BIT(i) ->
            assert(!((reads(write_side, i) | writes(write_side, i)) & ~(set | mine)));
            writes(write_side, i) = writes(write_side, i) | mine
        :: else
        fi;
        i++
    :: else -> break
    od;
    printf("queued %d on %d after %d: reads %d of %d, writes %d of %d\n", queued, s, set, read_bytes, read_side,
           write_bytes, write_side);
    before(queued) = set;
    stream(s) = set | mine;
    queued++
}

/* Finishes work: removes its bit from all sets, and moves the later ones up. */
inline complete(number)
{
    printf("done %d\n", number);
    lower = BIT(number) - 1;
    w = number;
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
        sets[w] = (sets[w] & lower) | ((sets[w] >> 1) & ~lower);
        w++
    :: else -> break
    od;
    queued--
}

/* ---- Pieces ---- */

/* Sets span to the bytes of the piece that begins at the byte. */
inline measure(at)
{
    span = BIT(at);
    i = (at) + 1;
    do
    :: i < BYTES && record[i] == NONE ->
        span = span | BIT(i);
        i++
    :: else -> break
    od
}

/* Evaluates to whether the object is exactly one piece. Its two borders are always there. */
#define NO_PIECE_AT(at) (record[at] == NONE)
#define IS_ONE_PIECE(o) \
    (low[o] + 1 == high[o] || (NO_PIECE_AT(low[o] + 1) && (low[o] + 2 == high[o] || NO_PIECE_AT(2))))

#define IS_BORDER_OF(o, at) ((alive & BIT(o)) && (low[o] == (at) || high[o] == (at)))

/* Sets n to a free record. */
inline take_record()
{
    n = 0;
    do
    :: data[n] != NONE -> n++
    :: else -> break
    od
}

/* Makes a border at the byte. */
inline cut(at)
{
    if
    :: (at) < BYTES && record[at] == NONE ->
        l = (at) - 1;
        do
        :: record[l] == NONE -> l--
        :: else -> break
        od;
        w = l;
        l = record[l];
        o = 0;
        do
        :: o < OBJECTS ->
            if
            :: listed[o] == l && KEEP(CUT_WITHDRAWS) ->
                listed[o] = NONE;
                hot[o] = 0
            :: else
            fi;
            o++
        :: else -> break
        od;
        take_record();
        head[n] = head[l];
        k = 0;
        do
        :: k < 2 ->
            write_fence(n, k) = (KEEP(CUT_INHERITS_FENCES) -> write_fence(l, k) : 0);
            read_fence(n, k) = (KEEP(CUT_INHERITS_FENCES) -> read_fence(l, k) : 0);
            /* Without the second look-up a call goes on with the pieces that it found before. */
            used[k] = used[k] | ((used[k] & BIT(l)) && KEEP(LOOK_UP_AGAIN) -> BIT(n) : 0);
            k++
        :: else -> break
        od;
        if
        :: KEEP(CUT_INHERITS_USES) ->
            writer[n] = writer[l];
            readers[n] = readers[l]
        :: else
        fi;
        if
        :: KEEP(CUT_KEEPS_LEFT) ->
            record[at] = n;
            data[n] = at
        :: else ->
            record[at] = l;
            data[l] = at;
            record[w] = n;
            data[n] = w;
            o = 0;
            do
            :: o < OBJECTS ->
                copy[o] = (copy[o] == l -> n : copy[o]);
                o++
            :: else -> break
            od
        fi;
        changed = changed | BIT(l) | BIT(n)
    :: else
    fi
}

#define SAME_WORK(l, r) \
    (write_fence(l, CPU) == write_fence(r, CPU) && read_fence(l, CPU) == read_fence(r, CPU) && \
     write_fence(l, GPU) == write_fence(r, GPU) && read_fence(l, GPU) == read_fence(r, GPU) && \
     writer[l] == writer[r] && readers[l] == readers[r])

inline drop_record(dropped)
{
    data[dropped] = NONE;
    head[dropped] = 0;
    writer[dropped] = NONE;
    readers[dropped] = 0;
    write_fence(dropped, CPU) = 0;
    write_fence(dropped, GPU) = 0;
    read_fence(dropped, CPU) = 0;
    read_fence(dropped, GPU) = 0;
    changed = changed & ~BIT(dropped)
}

/* Joins the pieces on both sides of the byte, if that is allowed. No object has pointers from either. */
inline join(at)
{
    if
    :: record[at] != NONE ->
        w = (at) - 1;
        do
        :: record[w] == NONE -> w--
        :: else -> break
        od;
        l = record[w];
        r = record[at];
        if
        :: (!KEEP(JOIN_NO_BORDER) || !(IS_BORDER_OF(ROOT, at) || IS_BORDER_OF(1, at) || IS_BORDER_OF(2, at))) &&
           (!KEEP(JOIN_SAME_HEAD) || head[l] == head[r]) && (!KEEP(JOIN_SAME_WORK) || SAME_WORK(l, r)) &&
           (!KEEP(JOIN_UNUSED) || !((used[0] | used[1]) & (BIT(l) | BIT(r)))) ->
            o = 0;
            do
            :: o < OBJECTS ->
                assert(copy[o] != r && listed[o] != l && listed[o] != r);
                o++
            :: else -> break
            od;
            record[at] = NONE;
            if
            :: KEEP(JOIN_KEEPS_LEFT) -> drop_record(r)
            :: else ->
                record[w] = r;
                data[r] = w;
                o = 0;
                do
                :: o < OBJECTS ->
                    copy[o] = (copy[o] == l -> r : copy[o]);
                    o++
                :: else -> break
                od;
                drop_record(l)
            fi
        :: else
        fi
    :: else
    fi
}

inline join_all()
{
    join(1);
    join(2)
}

/* ---- The hot path ---- */

/* Sets allowed to the pointers that the record allows to publish. */
inline allow(from)
{
    allowed = 0;
    if
    :: (head[from] & BIT(CPU)) && !write_fence(from, CPU) ->
        allowed = HOT(HOST, 0) | (head[from] == BIT(CPU) && !read_fence(from, CPU) -> HOT(HOST, 1) : 0)
    :: else
    fi;
    if
    :: head[from] & BIT(GPU) ->
        allowed = allowed | (readers[from] & BIT(S) -> HOT(S, 0) : 0) | (readers[from] & BIT(T) -> HOT(T, 0) : 0)
    :: else
    fi;
    if
    :: head[from] == BIT(GPU) && writer[from] != NONE -> allowed = allowed | HOT(writer[from], 1)
    :: else
    fi
}

/* Puts the object on the list of its piece, if it is exactly one. */
inline list(which)
{
    if
    :: IS_ONE_PIECE(which) || !KEEP(PUBLISH_ONE_PIECE) ->
        listed[which] = copy[which];
        changed = changed | BIT(copy[which])
    :: else
    fi
}

/* ---- Assertions ---- */

/* The invariants, whenever the lock is released. */
inline check()
{
    o = 0;
    do
    :: o < OBJECTS && (alive & BIT(o)) ->
        assert(copy[o] != NONE && data[copy[o]] == low[o] && record[low[o]] == copy[o]);
        assert(high[o] == BYTES || record[high[o]] != NONE);
        assert(listed[o] == NONE || (listed[o] == copy[o] && IS_ONE_PIECE(o)));
        assert(!hot[o] || listed[o] != NONE);
        assert(!(hot[o] & HOT(HOST, 0)) || (head[copy[o]] & BIT(CPU)));
        assert(!(hot[o] & HOT(HOST, 1)) || head[copy[o]] == BIT(CPU));
        assert(!(hot[o] & HOT_TO_READ) || (head[copy[o]] & BIT(GPU)));
        assert(!(hot[o] & HOT_TO_WRITE) || head[copy[o]] == BIT(GPU));
        allow(copy[o]);
        assert(!(hot[o] & ~allowed));
        o++
    :: o < OBJECTS && !(alive & BIT(o)) ->
        assert(listed[o] == NONE && !hot[o]);
        o++
    :: else -> break
    od;
    b = 0;
    do
    :: b < BYTES ->
        if
        :: record[b] != NONE ->
            r = record[b];
            assert(data[r] == b);
            measure(b);
            assert(!(head[r] & BIT(CPU)) || !(span & ~current[CPU]));
            assert(!(head[r] & BIT(GPU)) || !(span & ~current[GPU]))
        :: else
        fi;
        b++
    :: else -> break
    od
}

/* The host and the next kernels of the streams can use each pointer now: the bytes have the last version, and no
 * conflicting work can run beside the use. */
inline check_users()
{
    assert(!((may_read[HOST] | may_write[HOST]) & ~current[CPU]));
    assert(!((may_read[S] | may_write[S] | may_read[T] | may_write[T]) & ~current[GPU]));
    b = 0;
    do
    :: b < BYTES ->
        assert(!((may_read[HOST] | may_write[HOST]) & BIT(b)) || !writes(CPU, b));
        assert(!(may_write[HOST] & BIT(b)) || !reads(CPU, b));
        assert(!((may_read[S] | may_write[S]) & BIT(b)) || !(writes(GPU, b) & ~stream(S)));
        assert(!((may_read[T] | may_write[T]) & BIT(b)) || !(writes(GPU, b) & ~stream(T)));
        assert(!(may_write[S] & BIT(b)) || !(reads(GPU, b) & ~stream(S)));
        assert(!(may_write[T] & BIT(b)) || !(reads(GPU, b) & ~stream(T)));
        b++
    :: else -> break
    od
}

/* ---- The lock ---- */

/* Makes all last states equal, so that there are fewer. The assertions have been checked by then. */
inline forget_at_end()
{
    if
    :: !calls && !call[0] && !call[1] ->
        w = 0;
        do
        :: w < SETS ->
            sets[w] = 0;
            w++
        :: else -> break
        od;
        w = 0;
        do
        :: w < 3 ->
            record[w] = NONE;
            data[w] = NONE;
            head[w] = 0;
            writer[w] = NONE;
            readers[w] = 0;
            low[w] = 0;
            high[w] = 0;
            copy[w] = NONE;
            listed[w] = NONE;
            hot[w] = 0;
            may_read[w] = 0;
            may_write[w] = 0;
            w++
        :: else -> break
        od;
        queued = 0;
        alive = 0;
        met_s = 0;
        current[CPU] = 0;
        current[GPU] = 0
    :: else
    fi
}

/* Publishes the pointers of the objects on the list of each changed piece. by: the object of the call. */
inline unlock(by)
{
    o = 0;
    do
    :: o < OBJECTS ->
        if
        :: listed[o] != NONE && (changed & BIT(listed[o])) && (KEEP(PUBLISH_LIST) || o == (by)) ->
            allow(listed[o]);
            hot[o] = allowed
        :: else
        fi;
        o++
    :: else -> break
    od;
    check();
    check_users();
    changed = 0;
    locked = 0
}

/* ---- Accesses ---- */

/* Ends the open uses of record r that the access comes after. Their events become fences. */
inline settle(by)
{
    if
    :: writer[r] != NONE && writer[r] != (by) ->
        write_fence(r, GPU) = write_fence(r, GPU) | stream(writer[r]);
        writer[r] = NONE
    :: else
    fi;
    k = 0;
    do
    :: k < 2 && conflicting ->
        if
        :: (readers[r] & BIT(k)) && k != (by) ->
            read_fence(r, GPU) = read_fence(r, GPU) | stream(k);
            readers[r] = readers[r] & ~BIT(k)
        :: else
        fi;
        k++
    :: else -> break
    od
}

#define ALL_FENCES(r, side) (write_fence(r, side) | read_fence(r, side))
#define IS_FIRST (b == low[object])

/* The part of a host access for one piece, which begins at b and has record r. The transfer is queued later. */
inline visit_for_host()
{
    if
    :: work == MOVE && (KEEP(MOVE_EVERY_PIECE) || IS_FIRST) ->
        conflicting = 0;
        settle(NONE);
        order = order | write_fence(r, GPU) | ALL_FENCES(r, CPU);
        measure(b);
        moved = moved | BIT(r);
        moving = moving | span
    :: work == ZERO ->
        wait = wait | ALL_FENCES(r, CPU);
        if
        :: !ALL_FENCES(r, CPU) ->
            measure(b);
            i = 0;
            do
            :: i < BYTES ->
                assert(!(span & BIT(i)) || !(reads(CPU, i) | writes(CPU, i)));
                i++
            :: else -> break
            od;
            current[CPU] = current[CPU] | span;
            head[r] = BIT(CPU)
        :: else
        fi
    :: else ->
        if
        :: KEEP(WAIT_EVERY_PIECE) || IS_FIRST ->
            wait = wait | write_fence(r, CPU) | (writing -> read_fence(r, CPU) : 0)
        :: else
        fi
    fi
}

/* The same of an access on a stream. */
inline visit_for_stream()
{
    conflicting = writing || work != NOTHING;
    if
    :: KEEP(ORDER_EVERY_PIECE) || IS_FIRST ->
        settle(domain);
        order = order | write_fence(r, GPU) | (conflicting -> read_fence(r, GPU) : 0) |
                (work == MOVE -> write_fence(r, CPU) : 0)
    :: else
    fi;
    measure(b);
    if
    :: work == MOVE && (KEEP(MOVE_EVERY_PIECE) || IS_FIRST) ->
        moved = moved | BIT(r);
        moving = moving | span
    :: work == ZERO ->
        filled = filled | BIT(r);
        filling = filling | span
    :: else
    fi
}

/* Queues the transfer for all pieces, with one event. */
inline move_to_host()
{
    stream(D2H) = stream(D2H) | order;
    enqueue(D2H, GPU, moving, CPU, moving);
    current[CPU] = current[CPU] | moving;
    r = 0;
    do
    :: r < RECORDS ->
        if
        :: moved & BIT(r) ->
            write_fence(r, CPU) = stream(D2H);
            read_fence(r, CPU) = 0;
            read_fence(r, GPU) = read_fence(r, GPU) | stream(D2H);
            head[r] = head[r] | BIT(CPU)
        :: else
        fi;
        r++
    :: else -> break
    od;
    wait = wait | stream(D2H)
}

/* The same to the device. Fills are in the same work. */
inline move_to_device()
{
    enqueue(domain, CPU, moving, GPU, moving | filling);
    current[GPU] = current[GPU] | moving | filling;
    r = 0;
    do
    :: r < RECORDS ->
        if
        :: (moved | filled) & BIT(r) ->
            write_fence(r, GPU) = stream(domain);
            read_fence(r, GPU) = 0;
            writer[r] = NONE;
            readers[r] = 0;
            read_fence(r, CPU) = read_fence(r, CPU) | (moved & BIT(r) -> stream(domain) : 0);
            head[r] = head[r] | BIT(GPU)
        :: else
        fi;
        r++
    :: else -> break
    od
}

/* Sets the head of the piece, and notes the stream that gets the pointer. */
inline finish_piece()
{
    look_up(head[r], side, mode);
    head[r] = next;
    if
    :: side == GPU && writing ->
        writer[r] = domain;
        readers[r] = readers[r] & BIT(domain);
        write_fence(r, GPU) = 0;
        read_fence(r, GPU) = 0
    :: side == GPU && !writing -> readers[r] = readers[r] | BIT(domain)
    :: else
    fi
}

#define IS_TO_VISIT (record[b] != NONE && (KEEP(LOOK_UP_AGAIN) || !used[thread] || (used[thread] & BIT(record[b]))))

/* One section of an access, from a lock to the next unlock. */
inline access_section(thread)
{
    domain = DOMAIN(call[thread]);
    mode = MODE(call[thread]);
    side = (domain == HOST -> CPU : GPU);
    writing = mode != READ;
    object = OBJECT(call[thread]);
    wait = 0;
    order = 0;
    moved = 0;
    moving = 0;
    filled = 0;
    filling = 0;
    pieces = 0;
    b = low[object];
    do
    :: b < high[object] ->
        if
        :: IS_TO_VISIT ->
            r = record[b];
            pieces = pieces | BIT(r);
            look_up(head[r], side, mode);
            if
            :: side == CPU -> visit_for_host()
            :: else -> visit_for_stream()
            fi
        :: else
        fi;
        b++
    :: else -> break
    od;
    assert(!(used[thread] & ~pieces)); /* no piece of the call was dropped during its wait */
    if
    :: side == GPU -> stream(domain) = stream(domain) | order
    :: else
    fi;
    if
    :: side == GPU && (moving | filling) -> move_to_device()
    :: side == CPU && moving -> move_to_host()
    :: else
    fi;
    changed = pieces;
    if
    :: wait || moving ->
        phase[thread] = UNLOCK_TO_WAIT;
        waits_for(thread) = wait;
        used[thread] = pieces;
        changed = (KEEP(PUBLISH_BEFORE_WAIT) -> changed : 0)
    :: else ->
        b = low[object];
        do
        :: b < high[object] ->
            if
            :: IS_TO_VISIT && (KEEP(SET_EVERY_HEAD) || IS_FIRST) ->
                r = record[b];
                finish_piece()
            :: else
            fi;
            b++
        :: else -> break
        od;
        used[thread] = 0;
        join_all();
        list(object)
    fi
}

/* The call returns its pointer. The contents count as written at once. */
inline grant(thread)
{
    domain = DOMAIN(call[thread]);
    object = OBJECT(call[thread]);
    side = (domain == HOST -> CPU : GPU);
    span = RANGE(object);
    if
    :: WRITES(call[thread]) ->
        may_write[domain] = may_write[domain] | span;
        current[side] = current[side] | span;
        current[1 - side] = current[1 - side] & ~span
    :: else -> may_read[domain] = may_read[domain] | span
    fi;
    check_users();
    call[thread] = 0;
    phase[thread] = 0
}

/* ---- Making and releasing a view ---- */

inline make_section(view)
{
    cut(low[view]);
    cut(high[view]);
    alive = alive | BIT(view);
    copy[view] = record[low[view]];
    list(view)
}

inline release_section(view)
{
    alive = alive & ~BIT(view);
    copy[view] = NONE;
    if
    :: KEEP(RELEASE_WITHDRAWS) ->
        listed[view] = NONE;
        hot[view] = 0
    :: else
    fi;
    join_all()
}

/* ---- The callers ---- */

/* The bytes that the stream must not use after the call has begun. */
#define ENDED(c, s) (IS_ACCESS(c) && DOMAIN(c) != (s) -> \
    RANGE(OBJECT(c)) & (may_write[s] | (WRITES(c) -> may_read[s] : 0)) : 0)
#define KERNELS(c) ((ENDED(c, S) -> 1 : 0) + (ENDED(c, T) -> 1 : 0))

/* The call ends the validity of pointers of other domains to the same bytes, if it conflicts. Each stream gets its last
 * kernel just before. Earlier kernels need no more waits than the last one. */
inline begin(thread, c)
{
    printf("thread %d begins %d\n", thread, c);
    calls--;
    call[thread] = c;
    phase[thread] = LOCK;
    if
    :: IS_ACCESS(c) ->
        object = OBJECT(c);
        domain = DOMAIN(c);
        writing = WRITES(c);
        met_s = met_s || domain == S;
        k = 0;
        do
        :: k < 3 ->
            if
            :: k != domain ->
                moving = RANGE(object) & may_write[k];
                filling = (writing -> RANGE(object) & may_read[k] : 0);
                if
                :: k != HOST && (moving | filling) -> enqueue(k, GPU, filling, GPU, moving)
                :: else
                fi;
                may_write[k] = may_write[k] & ~moving;
                may_read[k] = may_read[k] & ~filling
            :: else
            fi;
            k++
        :: else -> break
        od;
        if
        :: hot[object] & HOT(domain, writing) ->
            if
            :: domain == HOST ->
                assert(data[copy[object]] == low[object]);
                grant(thread);
                forget_at_end()
            :: else -> phase[thread] = LOAD_COPY
            fi
        :: else
        fi
    :: else
    fi;
    skip
}

/* The threads are alike. So the second one calls only while the first one is in a call. */
#define CAN_BEGIN(c) \
    (calls && !call[thread] && (thread == 0 || call[0]) && AGREE(c, call[1 - thread]) && \
     queued + KERNELS(c) <= MAX_WORK)
#define CAN_ACCESS(object, domain, mode) \
    ((alive & BIT(object)) && (domain != T || met_s) && CAN_BEGIN(ACCESS(object, domain, mode)))
#define BEGIN(can, c) :: d_step { can -> begin(thread, c) }
#define BEGIN_ACCESS(object, domain, mode) \
    BEGIN(CAN_ACCESS(object, domain, mode), ACCESS(object, domain, mode))
#define BEGIN_IN_EACH_MODE(object, domain) \
    BEGIN_ACCESS(object, domain, READ) \
    BEGIN_ACCESS(object, domain, MUTABLE) \
    BEGIN_ACCESS(object, domain, OVERWRITE)
#define BEGIN_IN_EACH_DOMAIN(object) \
    BEGIN_IN_EACH_MODE(object, S) \
    BEGIN_IN_EACH_MODE(object, T) \
    BEGIN_IN_EACH_MODE(object, HOST)
#define BEGIN_ON_VIEW(view) \
    BEGIN(!(alive & BIT(view)) && CAN_BEGIN(MAKE + view), MAKE + view) \
    BEGIN((alive & BIT(view)) && CAN_BEGIN(RELEASE + view), RELEASE + view)

/* Ends a section of a call, and the call if it does not wait. */
inline leave(thread)
{
    object = OBJECT(call[thread]);
    if
    :: phase[thread] == UNLOCK_TO_WAIT -> phase[thread] = LOCK
    :: else ->
        if
        :: IS_ACCESS(call[thread]) -> grant(thread)
        :: else ->
            call[thread] = 0;
            phase[thread] = 0
        fi
    fi;
    unlock(object);
    forget_at_end();
    skip
}

proctype caller(bit thread)
{
    do
    BEGIN_IN_EACH_DOMAIN(ROOT)
    BEGIN_IN_EACH_DOMAIN(1)
    BEGIN_IN_EACH_DOMAIN(2)
    BEGIN_ON_VIEW(1)
    BEGIN_ON_VIEW(2)
    :: d_step {
        phase[thread] == LOAD_COPY ->
        loaded[thread] = copy[OBJECT(call[thread])];
        phase[thread] = LOAD_DATA
    }
    :: d_step {
        phase[thread] == LOAD_DATA ->
        object = OBJECT(call[thread]);
        assert(copy[object] == loaded[thread] && data[loaded[thread]] == low[object]);
        loaded[thread] = 0;
        grant(thread);
        forget_at_end();
        skip
    }
    :: d_step {
        phase[thread] == LOCK && !locked && waits_for(thread) == 0 && queued < MAX_WORK ->
        locked = 1;
        phase[thread] = UNLOCK;
        object = OBJECT(call[thread]);
        if
        :: IS_ACCESS(call[thread]) -> access_section(thread)
        :: call[thread] > LAST_ACCESS && call[thread] <= RELEASE -> make_section(object)
        :: call[thread] > RELEASE -> release_section(object)
        fi;
        if
        :: calls || phase[1 - thread] == LOAD_COPY || phase[1 - thread] == LOAD_DATA
        :: else -> leave(thread) /* no hot path can run before the unlock */
        fi
    }
    :: d_step { phase[thread] == UNLOCK || phase[thread] == UNLOCK_TO_WAIT -> leave(thread) }
    :: calls == 0 && !call[thread] -> break
    od
}

/* ---- The device ---- */

/* Finishes work in any order, before sections and where there is no room for kernels. Nothing else depends on it. */
#define COMPLETE(number) \
    :: d_step { \
        queued > (number) && before(number) == 0 && !locked && \
        (phase[0] == LOCK || phase[1] == LOCK || (calls && queued + 2 > MAX_WORK)) -> \
        complete(number) \
    }

proctype machine()
{
    do
    COMPLETE(0)
    COMPLETE(1)
    COMPLETE(2)
#if MAX_WORK > 3
    COMPLETE(3)
#endif
    :: calls == 0 && call[0] == 0 && call[1] == 0 -> break
    od
}

inline place(low1, high1, low2, high2)
{
    low[1] = low1;
    high[1] = high1;
    low[2] = low2;
    high[2] = high2
}

init
{
    atomic {
        c_code {
            ask_environment();
            now.calls = calls_asked;
        };
        if
        :: c_expr { places & 1 } -> place(0, 2, 0, 2) /* equal */
        :: c_expr { places & 2 } -> place(0, 1, 1, 3) /* side by side */
        :: c_expr { places & 4 } -> place(0, 1, 2, 3) /* apart */
        :: c_expr { places & 8 } -> place(0, 2, 1, 3) /* overlapping */
        :: c_expr { places & 16 } -> place(0, 3, 1, 2) /* one in the middle of the other, which is all of the root */
        :: c_expr { places & 32 } -> place(1, 3, 1, 2) /* with the same first byte */
        :: c_expr { places & 64 } -> place(0, 2, 1, 2) /* with the same end */
        fi;
        if
        :: head[0] = 0
        :: head[0] = BIT(CPU)
        :: head[0] = BIT(GPU)
        fi;
        d_step {
            high[ROOT] = BYTES;
            record[0] = 0;
            data[0] = 0;
            copy[ROOT] = 0;
            current[CPU] = (head[0] & BIT(CPU) -> 7 : 0);
            current[GPU] = (head[0] & BIT(GPU) -> 7 : 0);
            list(ROOT);
            skip
        };
        if
        :: true
        :: d_step { make_section(1); skip }
        fi;
        if
        :: true
        :: d_step { make_section(2); skip }
        fi;
        d_step { unlock(ROOT) };
        run caller(0);
        run caller(1);
        run machine()
    }
}
