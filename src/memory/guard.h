/*
 * Debug mode: ranges of host memory that nobody may touch are protected, so that the use of an old pointer faults at
 * the instruction that does it. guarding.h says which host copy is protected from what.
 *
 * A device is not hindered by protection. While the mode is off each of these is one look at a flag, and none is on
 * the hot path.
 */
#ifndef SM_GUARD_H
#define SM_GUARD_H

#include "base/scope.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sm_place;

extern atomic_bool sm_guard_flag;

static inline bool sm_guard_on(void)
{
    return atomic_load_explicit(&sm_guard_flag, memory_order_relaxed);
}

/* For the rest of the process; before there is any memory of the library's. */
void sm_guard_start(void);

enum sm_protection { SM_PROTECT_NOTHING, SM_PROTECT_WRITES, SM_PROTECT_ALL };

/* A range of host memory that may be protected. */
struct sm_guarded {
    const void *key; /* whoever has the range: it has no other */
    const void *base;
    size_t bytes;
    const void *data; /* for the message: what the program was given, of how many bytes, and its name */
    size_t size;
    const char *name;
    bool alone;  /* all of its pages are its own, the rest of the last one included */
    bool shared; /* the device uses the same memory: it can't be protected */
};

/* Whether the key's range was set before. */
bool sm_guard_knows(const void *key);

/* Protects the range. At its first time that is known by its key from then on; later only the size and the protection
 * change. */
void sm_guard_set(const struct sm_guarded *range, enum sm_protection protection);

/* Whether page-locked memory from the pool has whole pages of its own here. */
bool sm_guard_pool_has_pages(void);

void sm_guard_open_now(const void *key);
void sm_guard_forget_now(const void *key);

/* Before the library writes to the key's range: until it is set again. */
static inline void sm_guard_open(const void *key)
{
    if (sm_guard_on())
        sm_guard_open_now(key);
}

/* The range is nobody's any more: its memory is as open as it came. */
static inline void sm_guard_forget(const void *key)
{
    if (sm_guard_on())
        sm_guard_forget_now(key);
}

/* Before the runtime page-locks memory of the caller's, which it has to be able to write: until the locks of the
 * objects that have some of it are let go of next. */
void sm_guard_open_range(const void *data, size_t bytes);

/* How much page-locked memory to ask for, so that it has whole pages of its own. */
size_t sm_guard_whole_pages(size_t bytes);

static inline size_t sm_guard_room(size_t bytes)
{
    return sm_guard_on() ? sm_guard_whole_pages(bytes) : bytes;
}

/* The bytes of what an overwrite is given: NaN in every format of floating point. */
enum { SM_GUARD_UNWRITTEN = 0xff };

/* ---- What the handler reads, see guard_fault.c ---- */

/* A guarded range. Never freed, as the handler may look at it at any time. */
struct sm_guard {
    _Atomic(uintptr_t) start; /* whole pages; start == end: none */
    _Atomic(uintptr_t) end;
    atomic_uchar protection; /* enum sm_protection */
    _Atomic(const char *) since;
    _Atomic(const struct sm_place *) place; /* where that was called; NULL: not known */
    atomic_char scope[SM_SCOPE_TEXT];       /* in which scope */
    const void *key;                        /* NULL: it is nobody's */
    const void *data;
    uintptr_t first; /* the bytes of its memory, of which the pages above are a part, or that are a part of them */
    uintptr_t past;
    size_t size;
    char name[48];
    bool hopeless; /* it can't be protected */
    struct sm_guard *next;
};

/* Puts our handler in front of the one that is there. find() returns the guard whose protected pages the address is
 * in, NULL: none; it is safe in a signal's handler. */
void sm_guard_catch_faults(const struct sm_guard *(*find)(uintptr_t address));

#endif
