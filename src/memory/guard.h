/*
 * Guards, of debug mode: they protect ranges of host memory that the program may not access. So the use of an expired
 * pointer faults at its instruction. guarding.h says which host copy is protected against what.
 *
 * Protection does not affect devices. While debug mode is off, each function costs one load and one branch. None is on
 * the hot path.
 */
#ifndef SM_GUARD_H
#define SM_GUARD_H

#include "base/process.h"
#include "base/scope.h"
#include "system/pages.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sm_place;

static inline bool sm_guard_on(void)
{
    return atomic_load_explicit(&sm_process.is_guarded, memory_order_relaxed);
}

/* Turns guards on for the rest of the process. Must come before the library allocates memory. */
void sm_guard_start(void);

/* A range of host memory that may be protected. */
struct sm_guarded {
    const void *key; /* stands for the range, which has no other */
    const void *base;
    size_t bytes;
    const void *data; /* for the message: the pointer that the program got, its size and the object's name */
    size_t size;
    const char *name;
    bool alone;    /* no other memory is on its pages, up to the end of the last one */
    bool is_part;  /* a part of an object, from offset on; its name gets the place */
    bool in_parts; /* its first and last page have other ranges of the same object, and nothing else */
    bool is_last;  /* of these; its last page has nothing behind it */
    size_t offset;
    bool shared;    /* the device uses the same memory, so it can't be protected */
    bool read_only; /* the protection of its pages is the caller's */
};

/* Returns whether the key has a range. */
bool sm_guard_knows(const void *key);

/* Protects the key's range. The first call for a key records the range. Later calls change only its size and
 * protection. */
void sm_guard_set(const struct sm_guarded *range, enum sm_protection protection);

/* Returns whether page-locked memory from the pool can have whole pages of its own on this system. */
bool sm_guard_pool_has_pages(void);

__attribute__((cold)) void sm_guard_open_now(const void *key);
void sm_guard_forget_now(const void *key);

/* Opens the key's range before the library writes to it, until the next sm_guard_set(). */
static inline void sm_guard_open(const void *key)
{
    if (sm_guard_on())
        sm_guard_open_now(key);
}

/* Opens the key's range and forgets it. */
static inline void sm_guard_forget(const void *key)
{
    if (sm_guard_on())
        sm_guard_forget_now(key);
}

/* Opens all ranges that overlap the user's memory, before the runtime page-locks it and must be able to write to it.
 * Another thread's call on an object with the same memory may protect it before the runtime has page-locked it. The
 * runtime then refuses to. Only debug mode has that race, and only for memory that several records share. */
void sm_guard_open_range(const void *data, size_t bytes);
/* Protects again what that has opened, with the same cause, unless the library has opened or protected it since. */
void sm_guard_close_range(const void *data, size_t bytes);

/* Returns the size to allocate, so that page-locked memory has whole pages of its own. */
size_t sm_guard_whole_pages(size_t bytes);

static inline size_t sm_guard_room(size_t bytes)
{
    return sm_guard_on() ? sm_guard_whole_pages(bytes) : bytes;
}

/* The byte that fills memory given out for an overwrite. As floating point it is NaN in every format. */
enum { SM_GUARD_UNWRITTEN = 0xff };

/* ---- Read by the signal handler, see guard_fault.c ---- */

enum { SM_GUARD_NAME = 96 };

/* A guarded range. Never freed, since the handler may read it at any time. */
struct sm_guard {
    _Atomic(uintptr_t) start; /* whole pages; start == end: none */
    _Atomic(uintptr_t) end;
    atomic_uchar protection;   /* enum sm_protection */
    enum sm_protection lifted; /* by sm_guard_open_range() */
    _Atomic(const char *) since;
    _Atomic(const struct sm_place *) place; /* call place of the function in since; NULL: not known */
    atomic_char scope[SM_SCOPE_TEXT];       /* scopes of that call */
    const void *key;                        /* NULL: the guard is free */
    const void *data;
    /* The bytes of the range. The pages above are inside it, or, if it is alone on its pages, contain it. */
    _Atomic(uintptr_t) first;
    _Atomic(uintptr_t) past;
    size_t size;
    char name[SM_GUARD_NAME];
    atomic_bool has_edges;    /* it shares its first and last page, see guard_edges.h */
    enum sm_protection edges; /* what it wants of them */
    bool hopeless;            /* it can't be protected */
    struct sm_guard *next;
};

/* Installs the signal handler in front of the existing one. find() must be safe in a signal handler. It returns the
 * guard that protects the address, or NULL. */
void sm_guard_catch_faults(const struct sm_guard *(*find)(uintptr_t address));

#endif
