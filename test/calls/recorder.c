/* The functions that -fsanitize=thread calls at each access to memory. See also recorder.h. */
#include "recorder.h"

#include <stdint.h>
#include <string.h>

enum { LINE_LOG = 6, SLOTS_LOG = 14, SLOTS = 1 << SLOTS_LOG, PLACES = 4 };

/* What a thread did with a cache line. */
struct used {
    uintptr_t line; /* 0: the slot is free */
    long reads, writes;
    const void *places[PLACES]; /* return addresses, of writes if there were any */
};

static struct used all[RECORDED_THREADS][SLOTS];
static _Thread_local struct used *own; /* NULL: the thread is not recorded */

void recorder_begin(int thread)
{
    own = all[thread];
}

void recorder_end(void)
{
    own = NULL;
}

void recorder_clear(void)
{
    memset(all, 0, sizeof all);
}

static struct used *find_line(struct used *of, uintptr_t line)
{
    size_t slot = (size_t)((line * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - SLOTS_LOG));
    while (of[slot].line && of[slot].line != line)
        slot = (slot + 1) % SLOTS;
    return &of[slot];
}

static void note_place(struct used *used, const void *place)
{
    int i = 0;
    while (i < PLACES && used->places[i] && used->places[i] != place)
        i++;
    if (i < PLACES)
        used->places[i] = place;
}

static void record(const volatile void *address, int writes, const void *place)
{
    if (!own)
        return;
    const uintptr_t line = (uintptr_t)address >> LINE_LOG;
    struct used *const used = find_line(own, line);
    used->line = line;
    if (writes && used->writes == 0)
        memset(used->places, 0, sizeof used->places);
    if (writes || used->writes == 0)
        note_place(used, place);
    *(writes ? &used->writes : &used->reads) += 1;
}

static long count_line(uintptr_t line)
{
    long uses = 0, writes = 0, most = 0;
    for (int i = 0; i < RECORDED_THREADS; i++) {
        const struct used *const used = find_line(all[i], line);
        uses += used->reads + used->writes;
        writes += used->writes;
        most = used->reads + used->writes > most ? used->reads + used->writes : most;
    }
    /* A line goes to another thread and back for each use by that one, and never if nobody writes it. */
    const long moves = 2 * (uses - most);
    return moves < writes ? moves : writes;
}

static int is_noted_before(int thread, uintptr_t line)
{
    for (int i = 0; i < thread; i++)
        if (find_line(all[i], line)->line)
            return 1;
    return 0;
}

static void visit_line(uintptr_t line, long times, void (*visit)(const void *place, long times))
{
    for (int i = 0; i < RECORDED_THREADS; i++) {
        const struct used *const used = find_line(all[i], line);
        for (int k = 0; k < PLACES && used->places[k]; k++)
            visit(used->places[k], times);
    }
}

long recorder_count_shared(void (*visit)(const void *place, long times))
{
    long all_times = 0;
    for (int i = 0; i < RECORDED_THREADS; i++)
        for (const struct used *used = all[i]; used < all[i] + SLOTS; used++) {
            const long times = used->line && !is_noted_before(i, used->line) ? count_line(used->line) : 0;
            if (times > 0)
                visit_line(used->line, times, visit);
            all_times += times;
        }
    return all_times;
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
        record(address, 0, HERE);                                                                                      \
    }                                                                                                                  \
    void __tsan_write##bytes(void *address)                                                                            \
    {                                                                                                                  \
        record(address, 1, HERE);                                                                                      \
    }                                                                                                                  \
    void __tsan_unaligned_read##bytes(void *address)                                                                   \
    {                                                                                                                  \
        record(address, 0, HERE);                                                                                      \
    }                                                                                                                  \
    void __tsan_unaligned_write##bytes(void *address)                                                                  \
    {                                                                                                                  \
        record(address, 1, HERE);                                                                                      \
    }                                                                                                                  \
    void __tsan_volatile_read##bytes(void *address)                                                                    \
    {                                                                                                                  \
        record(address, 0, HERE);                                                                                      \
    }                                                                                                                  \
    void __tsan_volatile_write##bytes(void *address)                                                                   \
    {                                                                                                                  \
        record(address, 1, HERE);                                                                                      \
    }

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

#define EACH_LINE(address, bytes, writes)                                                                              \
    do {                                                                                                               \
        for (size_t at = 0; at < (bytes); at += (size_t)1 << LINE_LOG)                                                 \
            record((const char *)(address) + at, writes, HERE);                                                        \
    } while (0)

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
    EACH_LINE(address, bytes, 0);
}

void __tsan_write_range(void *address, size_t bytes)
{
    EACH_LINE(address, bytes, 1);
}

#define CHANGE(bits, name, operation)                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, uint##bits##_t value, int order);         \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, uint##bits##_t value, int order)          \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        record(at, 1, HERE);                                                                                           \
        return operation(at, value, __ATOMIC_SEQ_CST);                                                                 \
    }

#define COMPARE(bits, strength, is_weak)                                                                               \
    int __tsan_atomic##bits##_compare_exchange_##strength(volatile uint##bits##_t *at, uint##bits##_t *expected,       \
                                                          uint##bits##_t value, int order, int failed);                \
    int __tsan_atomic##bits##_compare_exchange_##strength(volatile uint##bits##_t *at, uint##bits##_t *expected,       \
                                                          uint##bits##_t value, int order, int failed)                 \
    {                                                                                                                  \
        (void)order, (void)failed;                                                                                     \
        record(at, 1, HERE);                                                                                           \
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
        record(at, 1, HERE);                                                                                           \
        (void)__atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
        return expected;                                                                                               \
    }

#define ATOMICS(bits)                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order);                           \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order);                    \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)                            \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        record(at, 0, HERE);                                                                                           \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order)                     \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        record(at, 1, HERE);                                                                                           \
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
