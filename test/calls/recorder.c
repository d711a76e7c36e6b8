/* The functions that -fsanitize=thread calls at each access to memory. See also recorder.h. */
#include "recorder.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_LOG = 6, LINES_LOG = 14, LINES = 1 << LINES_LOG, PLACES = 8 };

struct place {
    const void *address; /* a return address */
    long moves;
};

struct line {
    uintptr_t number; /* 0: the slot is free */
    unsigned holders; /* a bit for each thread whose processor has the line */
    struct place places[PLACES];
};

static struct line lines[LINES];
static _Thread_local unsigned own; /* the thread's bit; 0: it is not recorded */

void recorder_begin(int thread)
{
    own = 1u << thread;
}

void recorder_end(void)
{
    own = 0;
}

void recorder_clear(void)
{
    memset(lines, 0, sizeof lines);
}

static struct line *find_line(uintptr_t number)
{
    size_t slot = (size_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - LINES_LOG));
    int tries = 0;
    while (lines[slot].number && lines[slot].number != number && tries++ < LINES)
        slot = (slot + 1) % LINES;
    if (tries > LINES)
        abort(); /* more lines than the table has room for */
    lines[slot].number = number;
    return &lines[slot];
}

/* The last place stands for all that found no room. */
static void note_move(struct line *line, const void *address)
{
    struct place *place = line->places;
    while (place < line->places + PLACES - 1 && place->address && place->address != address)
        place++;
    place->address = address;
    place->moves++;
}

static void record_line(uintptr_t number, int writes, const void *place)
{
    struct line *const line = find_line(number);
    const int moves = writes ? (line->holders & ~own) != 0 : line->holders && !(line->holders & own);
    line->holders = writes ? own : line->holders | own;
    if (moves)
        note_move(line, place);
}

static void record(const volatile void *address, size_t bytes, int writes, const void *place)
{
    const uintptr_t first = (uintptr_t)address >> LINE_LOG;
    const uintptr_t last = ((uintptr_t)address + bytes - 1) >> LINE_LOG;
    for (uintptr_t number = first; own && bytes > 0 && number <= last; number++)
        record_line(number, writes, place);
}

long recorder_visit_moves(void (*visit)(const void *place, long moves))
{
    long all = 0;
    for (const struct line *line = lines; line < lines + LINES; line++)
        for (const struct place *place = line->places; place < line->places + PLACES && place->moves > 0; place++) {
            visit(place->address, place->moves);
            all += place->moves;
        }
    return all;
}

/* ---- The interface of the compiler ---- */

#define HERE __builtin_return_address(0)

#define ACCESSES(bytes)                                                                                                \
    void __tsan_read##bytes(void *address);                                                                            \
    void __tsan_write##bytes(void *address);                                                                           \
    void __tsan_unaligned_read##bytes(void *address);                                                                  \
    void __tsan_unaligned_write##bytes(void *address);                                                                 \
    void __tsan_volatile_read##bytes(void *address);                                                                   \
    void __tsan_volatile_write##bytes(void *address);                                                                  \
    void __tsan_read##bytes(void *address)                                                                             \
    {                                                                                                                  \
        record(address, bytes, 0, HERE);                                                                               \
    }                                                                                                                  \
    void __tsan_write##bytes(void *address)                                                                            \
    {                                                                                                                  \
        record(address, bytes, 1, HERE);                                                                               \
    }                                                                                                                  \
    void __tsan_unaligned_read##bytes(void *address)                                                                   \
    {                                                                                                                  \
        record(address, bytes, 0, HERE);                                                                               \
    }                                                                                                                  \
    void __tsan_unaligned_write##bytes(void *address)                                                                  \
    {                                                                                                                  \
        record(address, bytes, 1, HERE);                                                                               \
    }                                                                                                                  \
    void __tsan_volatile_read##bytes(void *address)                                                                    \
    {                                                                                                                  \
        record(address, bytes, 0, HERE);                                                                               \
    }                                                                                                                  \
    void __tsan_volatile_write##bytes(void *address)                                                                   \
    {                                                                                                                  \
        record(address, bytes, 1, HERE);                                                                               \
    }

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_init(void);
void __tsan_func_entry(void *place);
void __tsan_func_exit(void);
void __tsan_read_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *place)
{
    (void)place;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *address, size_t bytes)
{
    record(address, bytes, 0, HERE);
}

void __tsan_write_range(void *address, size_t bytes)
{
    record(address, bytes, 1, HERE);
}

/* Newer clangs call these instead of the functions of the C library. */
void *__tsan_memcpy(void *target, const void *source, size_t bytes);
void *__tsan_memmove(void *target, const void *source, size_t bytes);
void *__tsan_memset(void *target, int value, size_t bytes);

void *__tsan_memcpy(void *target, const void *source, size_t bytes)
{
    record(source, bytes, 0, HERE);
    record(target, bytes, 1, HERE);
    return memcpy(target, source, bytes);
}

void *__tsan_memmove(void *target, const void *source, size_t bytes)
{
    record(source, bytes, 0, HERE);
    record(target, bytes, 1, HERE);
    return memmove(target, source, bytes);
}

void *__tsan_memset(void *target, int value, size_t bytes)
{
    record(target, bytes, 1, HERE);
    return memset(target, value, bytes);
}

#define CHANGE(bits, name, operation)                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, uint##bits##_t value, int order);         \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, uint##bits##_t value, int order)          \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        record(at, sizeof *at, 1, HERE);                                                                               \
        return operation(at, value, __ATOMIC_SEQ_CST);                                                                 \
    }

#define COMPARE(bits, strength, is_weak)                                                                               \
    int __tsan_atomic##bits##_compare_exchange_##strength(volatile uint##bits##_t *at, uint##bits##_t *expected,       \
                                                          uint##bits##_t value, int order, int failed);                \
    int __tsan_atomic##bits##_compare_exchange_##strength(volatile uint##bits##_t *at, uint##bits##_t *expected,       \
                                                          uint##bits##_t value, int order, int failed)                 \
    {                                                                                                                  \
        (void)order, (void)failed;                                                                                     \
        record(at, sizeof *at, 1, HERE);                                                                               \
        return __atomic_compare_exchange_n(at, expected, value, is_weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);          \
    }

/* clang has one comparison that returns the value. */
#define COMPARE_AND_RETURN(bits)                                                                                       \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *at, uint##bits##_t expected,    \
                                                              uint##bits##_t value, int order, int failed);            \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *at, uint##bits##_t expected,    \
                                                              uint##bits##_t value, int order, int failed)             \
    {                                                                                                                  \
        (void)order, (void)failed;                                                                                     \
        record(at, sizeof *at, 1, HERE);                                                                               \
        (void)__atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
        return expected;                                                                                               \
    }

#define ATOMICS(bits)                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order);                           \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order);                    \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)                            \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        record(at, sizeof *at, 0, HERE);                                                                               \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order)                     \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        record(at, sizeof *at, 1, HERE);                                                                               \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                 \
    }                                                                                                                  \
    CHANGE(bits, exchange, __atomic_exchange_n)                                                                        \
    CHANGE(bits, fetch_add, __atomic_fetch_add)                                                                        \
    CHANGE(bits, fetch_sub, __atomic_fetch_sub)                                                                        \
    CHANGE(bits, fetch_and, __atomic_fetch_and)                                                                        \
    CHANGE(bits, fetch_or, __atomic_fetch_or)                                                                          \
    CHANGE(bits, fetch_xor, __atomic_fetch_xor)                                                                        \
    COMPARE(bits, strong, 0)                                                                                           \
    COMPARE(bits, weak, 1)                                                                                             \
    COMPARE_AND_RETURN(bits)

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
