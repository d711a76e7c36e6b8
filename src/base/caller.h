/*
 * The caller: the public function that a thread is in, its call place and its object. A trace names the caller as the
 * cause of an event. Debug mode names it as the cause of an expired pointer. A user's callback may call the
 * library, so the library puts the caller aside around each one, with the failure that the call may have recorded.
 *
 * A subject: an object as traces and profilers name it.
 */
#ifndef SM_CALLER_H
#define SM_CALLER_H

#include "base/place.h"
#include "base/process.h"
#include "base/refusal.h"
#include "base/scope.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct sm_subject {
    const void *object; /* NULL: none, or not known yet */
    const char *name;   /* "": it has none; lives as long as the call */
    const void *root;   /* of a view, else NULL */
    const char *root_name;
    size_t begin; /* of a view: its bytes in the root */
    size_t end;
    bool is_part; /* the work is on a part of the object, or of the view's root, from offset on */
    size_t offset;
};

/* A subject's name and, of a view without one, its root's with the view's bytes: "params[256:512]". */
enum { SM_SUBJECT_BYTES = 96 };
void sm_subject_name(char out[SM_SUBJECT_BYTES], const struct sm_subject *subject);

struct sm_caller {
    const char *function;         /* NULL: none */
    const struct sm_place *place; /* NULL: not known */
    struct sm_subject subject;
    bool ranged; /* a profiler's range is open for the function, see device.h */
};

extern _Thread_local struct sm_caller sm_caller;

/* A copy of the caller and of the thread's scopes that outlives the call. */
struct sm_by {
    const char *function; /* NULL: none, or a thread of the library */
    const struct sm_place *place;
    char scope[SM_SCOPE_TEXT];
};

/* Fills *by with the calling thread's caller and scopes. */
void sm_by_caller(struct sm_by *by);

/* The first trace, or debug mode, calls it, and nothing undoes it. From then on all threads record their caller. */
static inline void sm_caller_want(void)
{
    atomic_store_explicit(&sm_process.wants_caller, true, memory_order_relaxed);
}

static inline bool sm_caller_is_wanted(void)
{
    return atomic_load_explicit(&sm_process.wants_caller, memory_order_relaxed);
}

/* The parts of a call that calls of a user's callback would overwrite. */
struct sm_put_aside {
    struct sm_caller caller;
    struct sm_refusal_noted refusal;
    struct sm_detail detail;
};

/* Saves the caller, the refusal and the detail before a user's callback, and clears the caller. The thread must hold no
 * lock of an object or of the library. */
void sm_caller_put_aside(struct sm_put_aside *before);

/* Restores them after the callback. */
void sm_caller_put_back(const struct sm_put_aside *before);

/* Returns whether the thread is in a user's callback, which a call of the library's waits for. */
bool sm_caller_is_in_callback(void);

#endif
