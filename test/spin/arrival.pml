/*
 * Contents that the library's threads bring, or fail to bring. The head of one object, staged transfers between its
 * copies, and two threads that make CALLS calls in all. A transfer ends at any moment, even while a call holds the
 * object's lock. Asserted: the copy that a call returns has the contents, and the last copy with contents is never
 * given up. object.pml has the order of all other work. WITHOUT leaves out the place of losses.h with that number.
 */
#include "losses.h"
#ifdef WITHOUT
#define KEEP(place) ((place) != WITHOUT)
#else
#define KEEP(place) true
#endif

#define CPU 0
#define GPU 1
#define BIT(side) (1 << (side))

/* The state of a copy's write. A stream can also be made to wait for DONE, so PENDING makes no difference here. */
#define DONE 0
#define QUEUEING 1
#define LOST 2

#define READ 0
#define MUTABLE 1

byte head = BIT(CPU);
byte fence[2];
bit arriving[2];
bit has[2]; /* the contents */
bit locked;
byte calls = CALLS;

#define IS_LOST(side, place) (KEEP(place) && arriving[side] && fence[side] == LOST)

/* transaction.c: drop_lost_contents() */
inline drop_lost_contents(side)
{
    if
    :: arriving[side] && fence[side] == LOST ->
        arriving[side] = 0;
        if
        :: head & ~BIT(side) -> head = head & ~BIT(side)
        :: else
        fi
    :: else
    fi
}

inline enter()
{
    atomic {
        !locked;
        locked = 1;
        drop_lost_contents(CPU);
        drop_lost_contents(GPU)
    }
}

inline leave()
{
    d_step {
        assert(has[CPU] || has[GPU]);
        locked = 0
    }
}

/* Waits with the lock released. The caller reads the state again afterwards. */
inline wait_for(side)
{
    leave();
    fence[side] != QUEUEING;
    lost = fence[side] == LOST;
    enter()
}

/* fetch.c, when nothing is in flight on the target. */
inline begin(side)
{
    d_step {
        assert(has[1 - (side)]);
        has[side] = 0;
        fence[side] = QUEUEING;
        arriving[side] = 1;
        head = head | BIT(side)
    }
}

inline only(side)
{
    d_step {
        assert(has[side]);
        head = BIT(side);
        has[1 - (side)] = 0;
        arriving[1 - (side)] = 0
    }
}

/* A stream waits until the contents are queued, the host until they have arrived. */
inline access(side, mode, place)
{
    do
    :: !(head & BIT(side)) && fence[side] == QUEUEING -> wait_for(side)
    :: else ->
        if
        :: !(head & BIT(side)) -> begin(side)
        :: else
        fi;
        if
        :: fence[side] == QUEUEING || IS_LOST(side, place) ->
            wait_for(side);
            if
            :: lost -> break
            :: else
            fi
        :: else ->
            if
            :: mode == MUTABLE && fence[1 - (side)] == QUEUEING -> wait_for(1 - (side))
            :: else ->
                assert(has[side]);
                if
                :: mode == MUTABLE -> only(side)
                :: else
                fi;
                break
            fi
        fi
    od
}

/* A pull returns before the contents have arrived, a push when they are queued. */
inline move(side)
{
    do
    :: head == BIT(side) -> break
    :: head == BIT(1 - (side)) && fence[side] == QUEUEING -> wait_for(side)
    :: head == BIT(1 - (side)) && fence[side] != QUEUEING ->
        begin(side);
        if
        :: side == GPU -> wait_for(side)
        :: else
        fi;
        break
    :: head == (BIT(CPU) | BIT(GPU)) ->
        if
        :: side == GPU && fence[side] == QUEUEING ->
            wait_for(side);
            if
            :: lost -> break
            :: else
            fi
        :: else ->
            d_step {
                if
                :: IS_LOST(side, LOST_FOR_MOVE)
                :: else -> assert(has[side] || fence[side] == QUEUEING)
                fi
            };
            break
        fi
    od
}

/* To a size for which only the side's copy has room. */
inline resize(side)
{
    do
    :: (head & BIT(side)) && (fence[side] == QUEUEING || IS_LOST(side, LOST_FOR_RESIZE)) -> wait_for(side)
    :: else ->
        if
        :: head & BIT(side) ->
            only(side);
            fence[1 - (side)] = DONE
        :: else
        fi;
        break
    od
}

inline release(side)
{
    do
    :: head == BIT(side) && fence[1 - (side)] != QUEUEING -> begin(1 - (side))
    :: fence[1 - (side)] == QUEUEING || IS_LOST(1 - (side), LOST_FOR_RELEASE) ->
        wait_for(1 - (side));
        if
        :: lost -> break
        :: else
        fi
    :: else ->
        only(1 - (side));
        fence[side] = DONE;
        break
    od
}

proctype caller()
{
    bit lost;
    do
    :: atomic { calls > 0 -> calls-- };
        enter();
        if
        :: true -> access(CPU, READ, LOST_FOR_HOST)
        :: true -> access(CPU, MUTABLE, LOST_FOR_HOST)
        :: true -> access(GPU, READ, LOST_FOR_STREAM)
        :: true -> access(GPU, MUTABLE, LOST_FOR_STREAM)
        :: true -> move(CPU)
        :: true -> move(GPU)
        :: true -> resize(CPU)
        :: true -> resize(GPU)
        :: true -> release(CPU)
        :: true -> release(GPU)
        fi;
        lost = 0;
        leave()
    :: calls == 0 -> break
    od
}

/* A thread of the library, or a thread that waits for the transfer. */
proctype mover(bit side)
{
end:
    do
    :: atomic {
        fence[side] == QUEUEING ->
        if
        :: has[side] = has[1 - side];
            fence[side] = DONE
        :: fence[side] = LOST
        fi
    }
    od
}

init
{
    atomic {
        has[CPU] = 1;
        run caller();
        run caller();
        run mover(CPU);
        run mover(GPU)
    }
}
