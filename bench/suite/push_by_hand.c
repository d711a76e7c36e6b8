/*
 * Pushes of pageable memory by the threads of a program without the library, after the fastest way that was found. Up
 * to 15 threads copy pieces of the source into page-locked memory, in order. The caller queues the bytes that are
 * complete from the begin on, few at first, so that the device begins soon, and then more at a time, as every copy
 * costs the device time beside its bytes. The threads are awake when a push begins, and the page-locked memory has room
 * for the whole source. It stays until the process of this part of the suite ends.
 */
#include "bare.h"
#include "ring.h"
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HELPERS = 15, PIECE = 16 * KIB, FIRST = 64 * KIB, MOST_BYTES = 64 * MIB, MOST_PIECES = MOST_BYTES / PIECE };

/* Members that all threads write lie apart from those that they read. */
enum { APART = 128 };

static struct {
    pthread_t threads[MOST_HELPERS];
    int helpers;
    char *locked;
    /* Of the push: */
    const char *from;
    size_t size;
    char apart_turn[APART];
    atomic_int turn; /* the number of the push; below 0: the helpers end */
    char apart_idle[APART];
    atomic_int idle; /* helpers that wait for the next turn */
    char apart_taken[APART];
    atomic_size_t taken; /* pieces */
    char apart_copied[APART];
    atomic_bool is_copied[MOST_PIECES];
} hand;

static void copy_pieces(void)
{
    for (;;) {
        const size_t piece = atomic_fetch_add(&hand.taken, 1);
        const size_t at = piece * PIECE;
        if (at >= hand.size)
            return;
        memcpy(hand.locked + at, hand.from + at, hand.size - at < PIECE ? hand.size - at : PIECE);
        atomic_store_explicit(&hand.is_copied[piece], true, memory_order_release);
    }
}

static void *help(void *unused)
{
    int seen = 0;
    (void)unused;
    (void)atomic_fetch_add(&hand.idle, 1);
    for (;;) {
        while (atomic_load(&hand.turn) == seen)
            (void)sched_yield();
        seen = atomic_load(&hand.turn);
        if (seen < 0)
            return NULL;
        copy_pieces();
        (void)atomic_fetch_add(&hand.idle, 1);
    }
}

static void await_helpers(void)
{
    while (atomic_load(&hand.idle) < hand.helpers)
        (void)sched_yield();
}

static void start_helpers(const struct ring *ring, int first, enum direction direction)
{
    (void)first;
    must(direction == UP && ring->size <= MOST_BYTES, "no such push by hand");
    if (hand.helpers > 0)
        return;
    if (!hand.locked)
        hand.locked = bare_host_alloc(MOST_BYTES);
    hand.helpers = suite.cores - 1 > MOST_HELPERS ? MOST_HELPERS : suite.cores < 2 ? 1 : suite.cores - 1;
    atomic_store(&hand.turn, 0);
    atomic_store(&hand.idle, 0);
    for (int i = 0; i < hand.helpers; i++)
        must(pthread_create(&hand.threads[i], NULL, help, NULL) == 0, "no thread");
    await_helpers();
}

static void end_helpers(void)
{
    atomic_store(&hand.turn, -1);
    for (int i = 0; i < hand.helpers; i++)
        must(pthread_join(hand.threads[i], NULL) == 0, "a thread can't be joined");
    hand.helpers = 0;
}

/* Returns how many bytes are complete from the begin on. *piece: the first that is not. */
static size_t complete_bytes(size_t *piece)
{
    while (*piece * PIECE < hand.size && atomic_load_explicit(&hand.is_copied[*piece], memory_order_acquire))
        ++*piece;
    return *piece * PIECE < hand.size ? *piece * PIECE : hand.size;
}

static void queue_complete(char *to, synced_mem_stream stream)
{
    const size_t most = hand.size > 16 * MIB ? 4 * MIB : MIB;
    size_t least = hand.size < 4 * MIB ? FIRST : 2 * FIRST;
    size_t piece = 0;
    for (size_t at = 0; at < hand.size;) {
        const size_t complete = complete_bytes(&piece);
        if (complete < hand.size && complete - at < least) {
            (void)sched_yield();
            continue;
        }
        bare_queue_up(to + at, hand.locked + at, complete - at, stream);
        at = complete;
        least = 2 * least < most ? 2 * least : most;
    }
}

static void push_one(const char *from, char *to, size_t size, synced_mem_stream stream)
{
    await_helpers();
    hand.from = from;
    hand.size = size;
    for (size_t i = 0; i * PIECE < size; i++)
        atomic_store_explicit(&hand.is_copied[i], false, memory_order_relaxed);
    atomic_store(&hand.taken, 0);
    atomic_store(&hand.idle, 0);
    (void)atomic_fetch_add(&hand.turn, 1);
    queue_complete(to, stream);
    bare_wait(stream);
}

static void push_each(const struct ring *ring, int first, enum direction direction)
{
    for (int i = first; i < first + ring->objects; i++)
        push_one(ring->pageable + (size_t)i * ring->size, ring->device + (size_t)i * ring->size, ring->size,
                 ring->streams[direction]);
}

const struct mover pushed_by_hand = {.prepare = start_helpers, .start = push_each, .end = end_helpers};
