/*
 * The random test. It plays random sequences of the library's calls, and of uses of the pointers that they return. A
 * reference checks them. It knows only the one rule: calls take effect in the order of the program, and a pointer may
 * be used in its domain until the next conflicting call.
 *
 * An operation is data. An operation that is impossible in the present state is skipped. So any part of a sequence is a
 * sequence too.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include "synced_mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The places of objects: some never have views, some may have them, and the rest are places of views. */
enum { PLAIN = 6, ROOTS = 2, VIEWS = 8, FIRST_VIEW = PLAIN + ROOTS, OBJECTS = FIRST_VIEW + VIEWS };
enum { DEVICES = 2, THREADS = 3, MAX_SIZE = 140000 };

/* ---- Streams: places in a table, each with one stream of its kind at any time ---- */

enum { LEGACY, BLOCKING, NONBLOCKING = BLOCKING + 2, PER_THREAD = NONBLOCKING + 2, PLACES = PER_THREAD + THREADS };
enum {
    STREAMS = DEVICES * PLACES,
    GONE = STREAMS,           /* + device: streams that were destroyed */
    LIBRARY = GONE + DEVICES, /* an internal stream of the library */
    NO_STREAM,                /* accessors without a stream */
    HOST,                     /* the host */
    NOBODY
};
typedef uint32_t stream_set;

static inline stream_set in_set(int stream)
{
    return (stream_set)1 << stream;
}

static inline int device_of_stream(int stream)
{
    return stream < STREAMS ? stream / PLACES : stream - GONE;
}

/* ---- Operations ---- */

/* The code of an operation, its name in texts, and whether it is a call of the library. */
#define RANDOM_CALLS(X)                                                                                                \
    X(CREATE, create)                                                                                                  \
    X(CREATE_ALLOCATED, create_allocated)                                                                              \
    X(CREATE_SHARED, create_shared)                                                                                    \
    X(VIEW, view)                                                                                                      \
    X(RETAIN, retain)                                                                                                  \
    X(RELEASE, release)                                                                                                \
    X(DESTROY, destroy)                                                                                                \
    X(SHUTDOWN, shutdown)                                                                                              \
    X(REAP, reap)                                                                                                      \
    X(FACTS, facts)                                                                                                    \
    X(CPU_READ, cpu_data)                                                                                              \
    X(CPU_MUTABLE, mutable_cpu_data)                                                                                   \
    X(CPU_OVERWRITE, overwrite_cpu_data)                                                                               \
    X(GPU_READ, gpu_data)                                                                                              \
    X(GPU_MUTABLE, mutable_gpu_data)                                                                                   \
    X(GPU_OVERWRITE, overwrite_gpu_data)                                                                               \
    X(GPU_READ_ON, gpu_data_on)                                                                                        \
    X(GPU_MUTABLE_ON, mutable_gpu_data_on)                                                                             \
    X(GPU_OVERWRITE_ON, overwrite_gpu_data_on)                                                                         \
    X(END_USE_ON, end_use_on)                                                                                          \
    X(FORGET_STREAM, forget_stream)                                                                                    \
    X(RENEW_STREAM, renew_stream)                                                                                      \
    X(PUSH, async_gpu_push)                                                                                            \
    X(PULL, async_cpu_pull)                                                                                            \
    X(PUSH_N, async_gpu_push_n)                                                                                        \
    X(PULL_N, async_cpu_pull_n)                                                                                        \
    X(QUERY, query)                                                                                                    \
    X(WAIT, wait)                                                                                                      \
    X(COPY, async_gpu_copy)                                                                                            \
    X(COPY_OUT, async_gpu_copy_out)                                                                                    \
    X(COPY_N, async_gpu_copy_n)                                                                                        \
    X(CPU_COPY, cpu_copy)                                                                                              \
    X(CPU_COPY_OUT, cpu_copy_out)                                                                                      \
    X(CLEAR, clear)                                                                                                    \
    X(SET_CPU, set_cpu)                                                                                                \
    X(SET_GPU, set_gpu)                                                                                                \
    X(SET_BOTH, set_both)                                                                                              \
    X(ADOPT_CPU, adopt_cpu)                                                                                            \
    X(ADOPT_GPU, adopt_gpu)                                                                                            \
    X(ADOPT_BOTH, adopt_both)                                                                                          \
    X(SET_CPU_ON, set_cpu_on)                                                                                          \
    X(SET_GPU_ON, set_gpu_on)                                                                                          \
    X(SET_BOTH_ON, set_both_on)                                                                                        \
    X(ADOPT_CPU_ON, adopt_cpu_on)                                                                                      \
    X(ADOPT_GPU_ON, adopt_gpu_on)                                                                                      \
    X(ADOPT_BOTH_ON, adopt_both_on)                                                                                    \
    X(SHARE, share)                                                                                                    \
    X(IMPORT, from_dlpack)                                                                                             \
    X(RESIZE, resize)                                                                                                  \
    X(DISCARD, resize_discard)                                                                                         \
    X(RELEASE_CPU, release_cpu_data)                                                                                   \
    X(RELEASE_GPU, release_gpu_data)                                                                                   \
    X(RELEASE_DATA, release_data)                                                                                      \
    X(USE_FILE, use_file)                                                                                              \
    X(WRITE_FILE, async_write_file)                                                                                    \
    X(STATS, get_stats)                                                                                                \
    X(STAGING, set_staging)                                                                                            \
    X(HOST_TRIM, host_pool_trim)                                                                                       \
    X(HOST_LIMIT, host_pool_set_limit)                                                                                 \
    X(HOST_DECAY, host_pool_set_decay)                                                                                 \
    X(HOST_RESERVE, host_pool_reserve)                                                                                 \
    X(GPU_TRIM, gpu_pool_trim)                                                                                         \
    X(GPU_REUSE, gpu_pool_set_reuse)                                                                                   \
    X(GPU_THRESHOLD, gpu_pool_set_threshold)                                                                           \
    X(GPU_SPARE, gpu_pool_set_spare_limit)                                                                             \
    X(GPU_PEER, gpu_pool_allow_peer)                                                                                   \
    X(POOL_STATS, pool_get_stats)                                                                                      \
    X(FALLBACK, set_pageable_fallback)                                                                                 \
    X(ALLOCATORS, set_allocators)                                                                                      \
    X(MISTAKE, mistake)
#define RANDOM_ACTS(X)                                                                                                 \
    X(KERNEL_WRITE, kernel_write)                                                                                      \
    X(KERNEL_READ, kernel_read)                                                                                        \
    X(KERNEL_COPY, kernel_copy)                                                                                        \
    X(HOST_WRITE, host_write)                                                                                          \
    X(HOST_READ, host_read)                                                                                            \
    X(SET_DEVICE, set_device)                                                                                          \
    X(SYNC_STREAM, sync_stream)                                                                                        \
    X(DELAY, delay)                                                                                                    \
    X(FAILING, failing)

enum code {
#define CODE(code, name) OP_##code,
    RANDOM_CALLS(CODE) OP_CALLS,
    OP_CALLS_END = OP_CALLS - 1,
    RANDOM_ACTS(CODE)
#undef CODE
        OP_CODES
};

struct op {
    unsigned char code;
    unsigned char object;
    unsigned char stream; /* a place of the table, relative to the object's device */
    unsigned char thread;
    uint32_t a, b; /* size, pattern, choices: each operation has its own use for them */
};

const char *op_name(int code);
bool op_is_call(int code);
/* op_print() writes one operation as text. ops_parse() reads the operations of a text, as many as fit, and returns
 * their number; -1: the text is invalid. */
void op_print(char *to, size_t size, const struct op *op);
int ops_parse(const char *text, struct op *ops, int capacity);

/* ---- Random numbers ---- */

uint32_t random_next(uint64_t *state);
/* Returns a number below the limit. */
uint32_t random_below(uint64_t *state, uint32_t limit);

/* ---- Coverage: the states that the calls met, in memory shared by all processes of a run ---- */

enum access {
    CELL_CPU_READ,
    CELL_CPU_MUTABLE,
    CELL_CPU_OVERWRITE,
    CELL_GPU_READ,
    CELL_GPU_MUTABLE,
    CELL_GPU_OVERWRITE,
    CELL_PUSH,
    CELL_PULL,
    CELL_SET_CPU,
    CELL_SET_GPU,
    CELL_SET_BOTH,
    CELL_END_USE_ON,
    CELL_RELEASE_CPU,
    CELL_RELEASE_GPU,
    CELL_RELEASE_DATA,
    CELL_RESIZE,
    CELL_DISCARD,
    CELL_DESTROY,
    CELL_COPY,
    CELL_COPY_OUT,
    CELL_CPU_COPY,
    CELL_CPU_COPY_OUT,
    CELL_CLEAR,
    CELL_ACCESSES
};
enum domain {
    DOMAIN_HOST,
    DOMAIN_NO_STREAM,
    DOMAIN_NONBLOCKING,
    DOMAIN_BLOCKING,
    DOMAIN_LEGACY,
    DOMAIN_PER_THREAD,
    DOMAINS
};
/* The work in flight on the object. A transfer counts for the copy that the call is about. A kernel runs on the call's
 * stream, or on another. */
enum flight { IDLE, ARRIVING, READING, WRITES_HERE, WRITES_ELSEWHERE, READS_HERE, READS_ELSEWHERE, FLIGHTS };

struct cell {
    unsigned char head, access, domain, flight;
};
enum { HEADS = 4, MOST_OPS = 400000, MESSAGE = 1000, CELL_GOAL = 100 };

/* The cells of views, and of objects in parts. A view may have one part or several. */
enum shape { ONE_PART, PARTS, ROOT_IN_PARTS, SHAPES };
struct view_cell {
    unsigned char code, head, shape;
};
enum { VIEW_HEADS = SYNCED_MEM_MIXED + 1, VIEW_CELL_GOAL = 20 };

struct shared {
    unsigned cells[HEADS][CELL_ACCESSES][DOMAINS][FLIGHTS];
    unsigned view_cells[OP_CODES][VIEW_HEADS][SHAPES];
    unsigned long calls;      /* of the library */
    unsigned long active;     /* those of them that moved bytes or waited */
    unsigned long asked;      /* calls before which the test queried whether device work was pending */
    unsigned long overlapped; /* those of them with pending work */
    unsigned long kernels;
    unsigned long staged;  /* transfers */
    unsigned long chunked; /* those of them with more bytes than a buffer */
    unsigned long batches; /* calls of several objects that used a batch */
    unsigned long by_code[OP_CODES];
    char message[MESSAGE]; /* of the failure */
    int logged;            /* operations of the present child */
    struct op log[MOST_OPS];
};
extern struct shared *shared;

/* Facts about the machine, queried in a child. */
struct machine {
    bool gpu;
    bool per_thread;
    bool managed; /* memory that host and device may use at the same time */
    int devices;
};
extern struct machine machine;

bool cell_applies(const struct cell *cell);
/* Returns why there can be no such state, or NULL. */
const char *cell_is_impossible(const struct cell *cell);
unsigned *cell_count(const struct cell *cell);
/* Picks at random one of the possible cells with the fewest hits. Returns false if all have been hit `enough` times. */
bool cell_rarest(uint64_t *random, unsigned enough, struct cell *out);
/* Prints the report. Returns whether every possible cell was hit often enough. */
bool cells_report(bool all, unsigned goal);

/* The same for the cells of views. view_cell_is_impossible() is true also if the operation has no such cells. */
bool view_cell_is_impossible(const struct view_cell *cell);
unsigned *view_cell_count(const struct view_cell *cell);
bool view_cell_rarest(uint64_t *random, unsigned enough, struct view_cell *out);
bool view_cells_report(bool all, unsigned goal);

/* Finds the access and domain of an operation. Returns false if the operation belongs to no cell. */
bool cell_of(int code, int stream, struct cell *out);
/* Returns an operation of the access in the domain. */
int code_of(enum access access, enum domain domain, uint64_t *random);
enum domain domain_of_stream(int stream);

/* ---- Sequences ---- */

/* A source of operations. next() returns false at the end. */
struct source {
    bool (*next)(struct source *source, struct op *op);
};
struct listed {
    struct source source;
    const struct op *ops;
    int count;
    int at;
};
struct source *source_list(struct listed *listed, const struct op *ops, int count);

struct generator {
    struct source source;
    uint64_t random;
    unsigned long calls; /* how many are still to be made */
    unsigned long excluded[2];
    struct op queue[64];
    int queued, taken;
    int object;
    int thread;
    int threads;
};
struct source *source_random(struct generator *generator, uint64_t seed, unsigned long calls,
                             const unsigned long excluded[2], int threads);

/* Plays all operations and checks the end, in a process of its own. If anything is wrong, exits with a message in
 * `shared`. */
void play(struct source *source, unsigned schedule, bool print_code);
/* Plays in several threads at once. Each has objects of its own, and all read shared ones. */
void play_freely(uint64_t seed, int rounds);

/* Ends the process: the test has failed. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a message for a child that left none. */
void say_reason(int status);

/* Shrinks the sequence in the log, and prints it. */
void shrink(unsigned schedule);
/* Plays the operations in a child. Returns whether that failed. */
bool fails_in_child(const struct op *ops, int count, unsigned schedule, bool print_code);

#endif
