#include "by_hand.h"

#include "bare.h"
#include "crowd.h"
#include "measure.h"
#include "suite.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNKS = 2 }; /* of a thread */

/* A chunk of one thread, and the bytes that it has or had. */
struct chunk {
    char *data;
    struct bare_event *copied;
    size_t at, size;
};

struct by_hand {
    size_t chunk;
    char *locked; /* the memory of all chunks; NULL: without a device */
    struct chunk chunks[HAND_THREADS][CHUNKS];
    synced_mem_stream streams[HAND_THREADS];
    /* Of the file that is being moved. */
    int file;
    size_t offset, size;
    char *memory; /* of the device or of the host */
    atomic_size_t next;
    /* Of blocks that come one after the other: */
    char *const *blocks;
    size_t count;
    atomic_size_t arrived; /* threads, in all blocks */
    atomic_size_t block;   /* that is being loaded */
};

struct by_hand *by_hand_start(bool with_device)
{
    const size_t chunk = suite.quick || suite.emulated ? 64 * KIB : 2 * MIB;
    struct by_hand *const hand = calloc(1, sizeof *hand);
    must(hand != NULL, "no memory");
    hand->chunk = chunk;
    if (!with_device)
        return hand;
    hand->locked = bare_host_alloc(HAND_THREADS * CHUNKS * chunk);
    for (size_t i = 0; i < HAND_THREADS; i++) {
        hand->streams[i] = bare_stream_create();
        for (size_t j = 0; j < CHUNKS; j++)
            hand->chunks[i][j] =
                (struct chunk){.data = hand->locked + (i * CHUNKS + j) * chunk, .copied = bare_event_create()};
    }
    return hand;
}

void by_hand_end(struct by_hand *hand)
{
    for (int i = 0; i < HAND_THREADS && hand->locked; i++) {
        bare_stream_destroy(hand->streams[i]);
        for (int j = 0; j < CHUNKS; j++)
            bare_event_destroy(hand->chunks[i][j].copied);
    }
    if (hand->locked)
        bare_host_free(hand->locked);
    free(hand);
}

/* Returns false if nothing is left. */
static bool take_bytes(struct by_hand *hand, size_t *at, size_t *size)
{
    *at = atomic_fetch_add(&hand->next, hand->chunk);
    if (*at >= hand->size)
        return false;
    *size = hand->size - *at < hand->chunk ? hand->size - *at : hand->chunk;
    return true;
}

static void read_all(int file, char *to, size_t size, size_t at)
{
    for (size_t done = 0; done < size;) {
        const ssize_t count = pread(file, to + done, size - done, (off_t)(at + done));
        must(count > 0, "a temporary file can't be read");
        done += (size_t)count;
    }
}

static void write_all(int file, const char *from, size_t size, size_t at)
{
    for (size_t done = 0; done < size;) {
        const ssize_t count = pwrite(file, from + done, size - done, (off_t)(at + done));
        must(count > 0, "a temporary file can't be written");
        done += (size_t)count;
    }
}

/* All threads use one stream, with which they are faster than with one each (H100 and H200, 2026-11-28). */
static double load_chunks(void *state, struct member *member)
{
    struct by_hand *const hand = state;
    const synced_mem_stream stream = hand->streams[0];
    struct chunk *chunk = hand->chunks[member->number];
    for (int turn = 0; take_bytes(hand, &chunk->at, &chunk->size); turn++) {
        bare_event_wait_here(chunk->copied);
        read_all(hand->file, chunk->data, chunk->size, hand->offset + chunk->at);
        bare_queue_up(hand->memory + chunk->at, chunk->data, chunk->size, stream);
        bare_event_record(chunk->copied, stream);
        chunk = &hand->chunks[member->number][(turn + 1) % CHUNKS];
    }
    bare_wait(stream);
    return 0;
}

static void begin_block(struct by_hand *hand, size_t which)
{
    if (which < hand->count) {
        hand->offset = which * hand->size;
        hand->memory = hand->blocks[which];
    }
    atomic_store(&hand->next, 0);
    atomic_store(&hand->block, which);
}

/* The last thread to arrive begins with the next block. The others keep running, as in crowd_begin(). */
static double load_blocks(void *state, struct member *member)
{
    struct by_hand *const hand = state;
    for (size_t i = 0; i < hand->count; i++) {
        (void)load_chunks(hand, member);
        if (atomic_fetch_add(&hand->arrived, 1) + 1 == (i + 1) * HAND_THREADS)
            begin_block(hand, i + 1);
        while (atomic_load(&hand->block) == i)
            (void)sched_yield();
    }
    return 0;
}

static double read_chunks(void *state, struct member *member)
{
    struct by_hand *const hand = state;
    size_t at;
    size_t size;
    (void)member;
    while (take_bytes(hand, &at, &size))
        read_all(hand->file, hand->memory + at, size, at);
    return 0;
}

static bool fetch_chunk(struct by_hand *hand, struct chunk *chunk, synced_mem_stream stream)
{
    if (!take_bytes(hand, &chunk->at, &chunk->size))
        return false;
    bare_queue_down(chunk->data, hand->memory + chunk->at, chunk->size, stream);
    bare_event_record(chunk->copied, stream);
    return true;
}

/* The next chunk comes from the device while this one is written. */
static double store_chunks(void *state, struct member *member)
{
    struct by_hand *const hand = state;
    const synced_mem_stream stream = hand->streams[member->number];
    struct chunk *const chunks = hand->chunks[member->number];
    bool more = fetch_chunk(hand, &chunks[0], stream);
    for (int turn = 0; more; turn++) {
        const struct chunk *const chunk = &chunks[turn % CHUNKS];
        more = fetch_chunk(hand, &chunks[(turn + 1) % CHUNKS], stream);
        bare_event_wait_here(chunk->copied);
        write_all(hand->file, chunk->data, chunk->size, chunk->at);
    }
    return 0;
}

static double move_file(struct by_hand *hand, int file, size_t size, char *memory,
                        double (*work)(void *state, struct member *member))
{
    hand->file = file;
    hand->size = size;
    hand->memory = memory;
    atomic_store(&hand->next, 0);
    const double begin = seconds_now();
    (void)crowd_run(HAND_THREADS, work, hand);
    return seconds_now() - begin;
}

double by_hand_load(struct by_hand *hand, int file, size_t offset, size_t size, char *device)
{
    hand->offset = offset;
    return move_file(hand, file, size, device, load_chunks);
}

double by_hand_load_each(struct by_hand *hand, int file, size_t count, size_t size, char *const *device)
{
    hand->blocks = device;
    hand->count = count;
    hand->size = size;
    atomic_store(&hand->arrived, 0);
    begin_block(hand, 0);
    return move_file(hand, file, size, device[0], load_blocks);
}

double by_hand_read(struct by_hand *hand, int file, size_t size, char *memory)
{
    return move_file(hand, file, size, memory, read_chunks);
}

double by_hand_store(struct by_hand *hand, int file, size_t size, char *device)
{
    return move_file(hand, file, size, device, store_chunks);
}

double by_hand_copy_up(const struct by_hand *hand, size_t size, char *device)
{
    const size_t most = HAND_THREADS * CHUNKS * hand->chunk;
    const double begin = seconds_now();
    for (size_t at = 0; at < size; at += most)
        bare_queue_up(device + at, hand->locked, size - at < most ? size - at : most, hand->streams[0]);
    bare_wait(hand->streams[0]);
    return seconds_now() - begin;
}
