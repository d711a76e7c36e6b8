/*
 * The caller: the public function that a thread is in, its call place and its object. A trace names the caller as the
 * cause of an event, and debug mode as the cause of an expired pointer. The library puts the caller aside around a call
 * of the user's code, since that code may call the library.
 */
#ifndef SM_CALLER_H
#define SM_CALLER_H

#include "base/place.h"
#include "base/process.h"
#include "base/scope.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct sm_caller {
    const char *function;         /* NULL: none */
    const struct sm_place *place; /* NULL: not known */
    const void *object;           /* NULL: none, or not known yet */
    const char *name;             /* the object's, which lives as long as the call */
    bool ranged;                  /* a range is open for the function, see device.h */
};

extern _Thread_local struct sm_caller sm_caller;

/* A copy of the caller, and of the thread's scopes, that outlives the call. */
struct sm_by {
    const char *function; /* NULL: nobody, or a thread of the library's */
    const struct sm_place *place;
    char scope[SM_SCOPE_TEXT];
};

/* Fills by with the calling thread's. */
void sm_by_caller(struct sm_by *by);

/* Set by the first trace, or debug mode, and never cleared: all threads then keep their caller. */
extern atomic_bool sm_caller_wanted;

static inline bool sm_caller_is_wanted(void)
{
    return atomic_load_explicit(&sm_caller_wanted, memory_order_relaxed);
}

/* Names the call's object, which was not known when the call began. */
static inline void sm_caller_is_about(const void *object, const char *name)
{
    if (!sm_caller_is_wanted())
        return;
    sm_caller.object = object;
    sm_caller.name = name;
}

/* Puts the caller aside before a call of the user's code, and returns it for sm_caller_put_back(). */
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
