/*
 * Which public function the calling thread is in, where it was called, and for which object: that is who caused what is
 * traced, and whose pointer debug mode tells of. Before the library calls back into the caller's code it is put aside, since that code
 * may call the library.
 */
#ifndef SM_CALLER_H
#define SM_CALLER_H

#include "place.h"
#include "process.h"
#include "scope.h"
#include "synced_mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct sm_caller {
    const char *function;         /* NULL: none */
    const struct sm_place *place; /* NULL: not known */
    const struct synced_mem *mem; /* NULL: none, or not known yet */
    bool ranged;                  /* a range is open for the function, see device.h */
};

extern _Thread_local struct sm_caller sm_caller;

/* Who did something, for as long as that is told. */
struct sm_by {
    const char *function; /* NULL: nobody, or a thread of the library's */
    const struct sm_place *place;
    char scope[SM_SCOPE_TEXT];
};

/* The calling thread. */
void sm_by_caller(struct sm_by *by);

/* Somebody asks, or has asked: from then on it is kept in all threads. */
extern atomic_bool sm_caller_wanted;

void sm_caller_set(const char *function, const struct synced_mem *mem);
void sm_caller_clear(void);

static inline bool sm_caller_is_wanted(void)
{
    return atomic_load_explicit(&sm_caller_wanted, memory_order_relaxed);
}

/* At the beginning of what a public function does off the hot path, and at its end, by sm_report(), which no object may
 * be locked at. Has no frame of its own in any build, see place.h. */
static inline __attribute__((always_inline)) void sm_caller_begin(const char *function, const struct synced_mem *mem)
{
    if (sm_caller_is_wanted())
        sm_caller_set(function, mem);
}

static inline void sm_caller_end(void)
{
    if (sm_caller_is_wanted())
        sm_caller_clear();
}

/* The object that the call is about from now on. */
static inline void sm_caller_is_about(const struct synced_mem *mem)
{
    if (sm_caller_is_wanted())
        sm_caller.mem = mem;
}

/* Around a call of the caller's code. */
static inline struct sm_caller sm_caller_put_aside(void)
{
    assert(!sm_process_is_inside());
    const struct sm_caller before = sm_caller;
    sm_caller = (struct sm_caller){.function = NULL};
    return before;
}

static inline void sm_caller_put_back(struct sm_caller before)
{
    sm_caller = before;
}

#endif
