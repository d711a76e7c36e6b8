/*
 * Debug mode: a host copy that its owner may not touch is protected, so that the use of an old pointer faults at the
 * instruction that does it. What it is protected from follows from the head, and is set where the object's lock is let
 * go of:
 *
 *   the host copy is stale    from everything: each pointer to it has expired
 *   SYNCED                    from writes: pointers of mutable accesses have expired
 *   it alone is valid         from nothing
 *
 * No pointer to write is published for the hot path: each overwrite takes the slow path, and fills what it gives.
 *
 * The library opens it before it touches it itself. Memory that copy threads still read or write is not protected from
 * that; a device is not hindered by protection. While the mode is off each of these
 * is one look at a flag, and none is on the hot path.
 */
#ifndef SM_DEBUG_H
#define SM_DEBUG_H

#include "scope.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sm_copy;
struct sm_place;
struct synced_mem;

extern atomic_bool sm_debug_flag;

static inline bool sm_debug_on(void)
{
    return atomic_load_explicit(&sm_debug_flag, memory_order_relaxed);
}

/* For the rest of the process; before there is any memory of the library's. */
void sm_debug_start(void);

/* Protects the object's host copy as its head says; with its lock held. */
void sm_debug_protect(const struct synced_mem *mem);

void sm_debug_open_copy(const struct sm_copy *copy);
void sm_debug_forget_copy(const struct sm_copy *copy);

/* Before the library writes to a host copy: until the object's lock is let go of. */
static inline void sm_debug_open(const struct sm_copy *copy)
{
    if (sm_debug_on())
        sm_debug_open_copy(copy);
}

/* The copy is no object's any more: its memory is as open as it came. NULL is ignored. */
static inline void sm_debug_forget(const struct sm_copy *copy)
{
    if (sm_debug_on())
        sm_debug_forget_copy(copy);
}

/* Before the runtime page-locks memory of the caller's, which it has to be able to write: until the locks of the objects
 * that have some of it are let go of next. */
void sm_debug_open_range(const void *data, size_t bytes);

/* How much page-locked memory to ask for, so that it has whole pages of its own. */
size_t sm_debug_whole_pages(size_t bytes);

static inline size_t sm_debug_room(size_t bytes)
{
    return sm_debug_on() ? sm_debug_whole_pages(bytes) : bytes;
}

/* The bytes of what an overwrite is given: NaN in every format of floating point. */
enum { SM_DEBUG_UNWRITTEN = 0xff };

/* ---- What the handler reads, see debug_fault.c ---- */

enum sm_protection { SM_PROTECT_NOTHING, SM_PROTECT_WRITES, SM_PROTECT_ALL };

/* A host copy. Never freed, as the handler may look at it at any time. */
struct sm_guard {
    _Atomic(uintptr_t) start; /* whole pages; start == end: none */
    _Atomic(uintptr_t) end;
    atomic_uchar protection; /* enum sm_protection */
    _Atomic(const char *) since;
    _Atomic(const struct sm_place *) place; /* where that was called; NULL: not known */
    atomic_char scope[SM_SCOPE_TEXT];       /* in which scope */
    const struct sm_copy *copy;             /* NULL: it is nobody's */
    const void *data;
    uintptr_t first; /* the bytes of its memory, of which the pages above are a part, or that are a part of them */
    uintptr_t past;
    size_t size;
    char name[48];
    bool hopeless; /* it can't be protected */
    struct sm_guard *next;
};

/* The one whose protected pages the address is in; NULL: none. Safe in a signal's handler. */
const struct sm_guard *sm_debug_find(uintptr_t address);

/* Puts our handler in front of the one that is there. */
void sm_debug_catch_faults(void);

#endif
